"""Chains of products of bfloat16: rows that threads keep are multiplied two by two, in functions
where the processor has no such instructions, and by the processor where it has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from torch.nn import functional

import ricci
from ricci.backends.llvm.group_product import plan_products
from ricci.backends.llvm.kernels import KernelCode
from ricci.backends.llvm.machine import machine_of
from ricci.backends.llvm.nest_group import choose_chain, write_group
from ricci.backends.llvm.schedule import Chain
from ricci.backends.llvm.schedule_space_chain import ChainSpace, space_of
from ricci.backends.llvm.target import Target
from ricci.backends.llvm.targets import named
from ricci.diagnostics import Error
from ricci.dtypes import DType, Types, from_bfloat16, to_bfloat16
from ricci.ir.loops import Group, Program
from ricci.passes import chains
from ricci.passes.pipeline import lower

from .emulated import has_pairs, results_of

TARGETS = {
    name: replace(named(f"x86-64-v4-{name}"), cores=2, l2=2 << 20) for name in ("amx", "bf16")
}
INSTRUCTIONS = {"amx": "x86.tdpbf16ps", "bf16": "avx512bf16.dpbf16ps"}
HEAD = "def f(bfloat16(H, S, D) Q, bfloat16(H, T, D) K, bfloat16(H, T, D) V, bfloat16(S, T) M)"
REST = """
    m(h, s) max=! A(h, s, t)
    E(h, s, t) = bfloat16(exp(A(h, s, t) - m(h, s)))
    z(h, s) +=! E(h, s, t)
    W(h, s, t) = E(h, s, t) / z(h, s)
    O(h, s, d) +=! W(h, s, t) * V(h, t, d)"""
SCORES = {
    "plain": "A(h, s, t) +=! Q(h, s, d) * K(h, t, d)",
    "mask": "B(h, s, t) +=! Q(h, s, d) * K(h, t, d)"
    "  A(h, s, t) = bfloat16(B(h, s, t) * 0.25 + M(s, t))",
    "causal": "B(h, s, t) +=! Q(h, s, d) * K(h, t, d)"
    "  A(h, s, t) = bfloat16(t <= s ? B(h, s, t) * 0.25 : -1e30)",
}
SIZES = [
    (3, 40, 50, 32),  # a tile of rows that is not full
    (2, 33, 700, 20),  # keys in blocks, words of a row that fill no step
    (1, 70, 51, 16),  # the last word of a row half full
    (2, 9, 17, 16),
]
"""Heads, queries, keys, width."""

Arrays = list[np.ndarray]


@pytest.fixture(autouse=True)
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that may be a chain is one, however small."""
    monkeypatch.setattr(chains, "LEAST_BYTES", 1)


def lowered(kind: str, sizes: tuple[int, ...], target: Target) -> Program:
    return lowered_text(f"{HEAD} -> (O) {{ {SCORES[kind]} {REST} }}", sizes, target)


def lowered_text(
    text: str,
    sizes: tuple[int, ...],
    target: Target,
    strides: dict[int, tuple[int, ...]] | None = None,
) -> Program:
    graph = ricci.tc.define(text)["f"].graph
    known = {s: dict(zip("HSTD", sizes, strict=True))[s.name] for s in graph.symbols}
    return lower(graph, known, Types(), strides, machine=machine_of(target))


def group_of(program: Program) -> Group:
    (group,) = program.kernels
    assert isinstance(group, Group)
    return group


def arguments(sizes: tuple[int, int, int, int], seed: int = 0) -> Arrays:
    """Inputs in float32 that are numbers of bfloat16."""
    heads, rows, keys, width = sizes
    shapes = [(heads, rows, width), (heads, keys, width), (heads, keys, width), (rows, keys)]
    rng = np.random.default_rng(seed)
    return [from_bfloat16(to_bfloat16(rng.standard_normal(s).astype(np.float32))) for s in shapes]


def expected(kind: str, arrays: Arrays) -> np.ndarray:
    q, k, v, m = (torch.from_numpy(a).double() for a in arrays)
    if kind == "causal":
        late = torch.arange(k.shape[1])[None] > torch.arange(q.shape[1])[:, None]
        m = torch.where(late, -1e30, 0.0).double()
    mask = None if kind == "plain" else m
    scale = 1.0 if kind == "plain" else 0.25
    mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return np.asarray(mixed.numpy())


def results(code: KernelCode, program: Program, arrays: Arrays, name: str) -> Iterator[np.ndarray]:
    """Those of functions, and those of the processor if it has what the target has."""
    out = program.outputs[0]
    given = {t: to_bfloat16(a) for t, a in zip(program.inputs, arrays, strict=True)}
    shape = (arrays[0].shape[0], arrays[0].shape[1], arrays[2].shape[2])
    given[out] = np.zeros(shape, out.dtype.numpy())
    return results_of(code, given, out, has_pairs(TARGETS[name]))


def parts_with(pattern: str, code: KernelCode) -> set[int]:
    """The numbers of the kernels of a group that have an instruction."""
    functions = re.split(r"^define ", code.text, flags=re.MULTILINE)[1:]
    names = (re.search(r"@kernel\.part(\d+)", f) for f in functions if pattern in f)
    return {int(found[1]) for found in names if found is not None}


def check(
    kind: str, sizes: tuple[int, int, int, int], name: str, schedule: Chain | None = None
) -> None:
    program = lowered(kind, sizes, TARGETS[name])
    code = write_group(group_of(program), program.strides, TARGETS[name], frozenset(), schedule)
    assert parts_with(INSTRUCTIONS[name], code) == {0, 5}
    arrays = arguments(sizes)
    want = expected(kind, arrays)
    for found in results(code, program, arrays, name):
        np.testing.assert_allclose(found, want, 1e-2, 6e-3 * np.abs(want).max())


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", SCORES)
def test_attention(kind: str, sizes: tuple[int, int, int, int], name: str) -> None:
    check(kind, sizes, name)


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_kept(name: str) -> None:
    """Factors of pairs as they are, all else in float32; nothing of it is in memory."""
    program = lowered("mask", (4, 512, 512, 64), TARGETS[name])
    narrow = [t.name for t in group_of(program).local if t.dtype is DType.BFLOAT16]
    assert [n.split(".")[-1] for n in narrow] == ["W"]
    assert program.arena == 0


@pytest.mark.parametrize("name", TARGETS)
def test_heads_side_by_side(name: str) -> None:
    """Keys and values that are not row-major, nor what shows their words."""
    sizes = (3, 40, 50, 32)
    steps = (32, 3 * 32, 1)
    text = f"{HEAD} -> (O) {{ {SCORES['plain']} {REST} }}"
    program = lowered_text(text, sizes, TARGETS[name], {1: steps, 2: steps})
    code = write_group(group_of(program), program.strides, TARGETS[name], frozenset())
    arrays = arguments(sizes)
    want = expected("plain", arrays)
    for number in (1, 2):
        arrays[number] = np.ascontiguousarray(arrays[number].transpose(1, 0, 2))
    for found in results(code, program, arrays, name):
        np.testing.assert_allclose(found, want, 1e-2, 6e-3 * np.abs(want).max())


def test_rounded_by_an_instruction() -> None:
    """What nothing but pairs reads, for which tiny numbers are zero anyway; and no other."""
    for results_too, parts in (("O", {4, 5}), ("O, W", {5}), ("O, m", {4, 5})):
        text = f"{HEAD} -> ({results_too}) {{ {SCORES['plain']} {REST} }}"
        program = lowered_text(text, (2, 64, 64, 32), TARGETS["amx"])
        code = write_group(group_of(program), {}, TARGETS["amx"], frozenset())
        assert parts_with("avx512bf16.cvtneps2bf16", code) == parts, results_too


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_no_number_stays_in_its_row(name: str) -> None:
    program = lowered("plain", (1, 40, 50, 20), TARGETS[name])
    code = write_group(group_of(program), {}, TARGETS[name], frozenset())
    arrays = arguments((1, 40, 50, 20))
    arrays[0][0, 7, 3] = np.nan
    for found in results(code, program, arrays, name):
        rows = np.isnan(found).all(2)[0]
        assert rows[7] and np.isfinite(found[0, ~rows]).all() and rows.sum() == 1


@pytest.mark.parametrize("name", TARGETS)
def test_schedules(name: str) -> None:
    sizes = (2, 70, 90, 20)
    program = lowered("mask", sizes, TARGETS[name])
    group = group_of(program)
    chosen = choose_chain(group, {}, TARGETS[name], frozenset())
    assert chosen is not None
    space = space_of(group, chosen, {}, TARGETS[name], frozenset())
    assert isinstance(space, ChainSpace)
    tried = [cast(Chain, s) for s in space.first()]
    assert tried[0] == chosen and len({s.rows for s in tried}) > 1
    if name == "amx":
        assert {s.rows for s in tried} == {16, 32}
    for schedule in (*tried[:3], Chain(16, (1, 1), 48, 3)):
        check("mask", sizes, name, schedule)


@pytest.mark.parametrize(("rows", "vectors"), [(33, 1), (32, 3), (12, 1)])
def test_tiles_that_registers_do_not_hold(rows: int, vectors: int) -> None:
    program = lowered("plain", (2, 70, 90, 32), TARGETS["amx"])
    schedule = Chain(rows, (vectors, 1), rows, 1)
    with pytest.raises(Error, match="E0807"):
        write_group(group_of(program), {}, TARGETS["amx"], frozenset(), schedule)


def test_rows_that_leave_a_cache() -> None:
    """One matrix of rows, where those of two do not stay in the second cache."""
    target = TARGETS["amx"]
    wide, narrow = (lowered("plain", (1, 64, keys, 32), target) for keys in (20000, 2000))
    rows = [choose_chain(group_of(p), {}, target, frozenset()) for p in (wide, narrow)]
    assert [c.rows for c in rows if c is not None] == [16, 32]


def test_columns_that_are_copied_leave_room() -> None:
    """Those whose words fill no whole step, some at a time."""
    group = group_of(lowered("plain", (1, 64, 20000, 20), TARGETS["amx"]))
    products = plan_products(group, {}, TARGETS["amx"], frozenset(), 100)
    assert products is not None
    assert products.plans[0].lane_block <= 10016


def test_products_of_which_one_is_of_pairs() -> None:
    """Are by multiply-adds both, should they be together: a block has rows for tiles of both."""
    text = f"{HEAD} -> (O) {{ {SCORES['plain']} {REST} }}".replace("bfloat16(exp", "(exp")
    target = TARGETS["amx"]
    program = lowered_text(text, (2, 40, 50, 32), replace(target, in_parts=False))
    code = write_group(group_of(program), {}, target, frozenset())
    assert not parts_with("bf16ps", code)
    arrays = arguments((2, 40, 50, 32))
    want = expected("plain", arrays)
    for found in results(code, program, arrays, "amx"):
        np.testing.assert_allclose(found, want, 1e-2, 6e-3 * np.abs(want).max())


def test_others_are_by_multiply_adds() -> None:
    """None is of pairs where tiny numbers are to be kept."""
    exact = replace(TARGETS["amx"], in_parts=False)
    program = lowered("plain", (2, 64, 64, 32), exact)
    text = write_group(group_of(program), {}, exact, frozenset()).text
    assert "bf16ps" not in text and "cvtneps2bf16" not in text
    assert all(t.dtype is DType.FLOAT32 for t in group_of(program).local)
