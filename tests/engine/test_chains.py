"""Sums of products whose intermediate results are kept by blocks of rows: which they are, that
nothing of their size is in memory, and that numbers are those of PyTorch in float64."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

import ricci
from ricci.backends.llvm import group_product
from ricci.backends.llvm.schedule import Chain
from ricci.dtypes import Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Group, Kernel, Program
from ricci.ir.text_loops import format_program
from ricci.passes import chains
from ricci.passes.pipeline import lower

from ..ahead import Model
from ..test_tune import Enough

HEAD = "def f(float(H, S, D) Q, float(H, T, D) K, float(H, T, D) V, float(S, T) M) -> (O)"
SOFTMAX = (
    "m(h, s) max=! A(h, s, t)  E(h, s, t) = exp(A(h, s, t) - m(h, s))  z(h, s) +=! E(h, s, t)"
    "  W(h, s, t) = E(h, s, t) / z(h, s)"
)
MIXED = "O(h, s, d) +=! W(h, s, t) * V(h, t, d)"
ATTENTION = {
    "plain": f"A(h, s, t) +=! Q(h, s, d) * K(h, t, d)  A(h, s, t) = A(h, s, t) * 0.25  {SOFTMAX}",
    "mask": "B(h, s, t) +=! Q(h, s, d) * K(h, t, d)  A(h, s, t) = B(h, s, t) * 0.25 + M(s, t)"
    f"  {SOFTMAX}",
    "causal": "B(h, s, t) +=! Q(h, s, d) * K(h, t, d)"
    f"  A(h, s, t) = t <= s ? B(h, s, t) * 0.25 : -1e30  {SOFTMAX}",
}  # fmt: skip
SIZES = [(3, 40, 50, 16), (1, 197, 197, 24), (2, 33, 700, 16), (5, 130, 17, 16)]
"""Heads, queries, keys, width."""

Arrays = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that may be a chain is one, however small."""
    monkeypatch.setattr(chains, "LEAST_BYTES", 1)
    monkeypatch.setenv("RICCI_NO_CACHE", "1")


def text_of(kind: str) -> str:
    return f"{HEAD} {{ {ATTENTION[kind]}  {MIXED} }}"


def lowered(text: str, sizes: dict[str, int]) -> Program:
    graph = ricci.tc.define(text)["f"].graph
    return lower(graph, {s: sizes[s.name] for s in graph.symbols}, Types())


def kernels_in(kernel: Kernel) -> int:
    return len(kernel.kernels) if isinstance(kernel, Group) else 1


def numbers(count: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def arguments(heads: int, rows: int, keys: int, width: int) -> Arrays:
    shapes = {"Q": (heads, rows, width), "K": (heads, keys, width), "V": (heads, keys, width)}
    return {n: numbers(s, k) for k, (n, s) in enumerate({**shapes, "M": (rows, keys)}.items())}


def expected(kind: str, arrays: Arrays) -> np.ndarray:
    q, k, v, m = (torch.from_numpy(a).double() for a in arrays.values())
    if kind == "causal":
        late = torch.arange(k.shape[1])[None] > torch.arange(q.shape[1])[:, None]
        m = torch.where(late, -1e30, 0.0).double()
    mask = None if kind == "plain" else m
    mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.25)
    return np.asarray(mixed.numpy())


def agree(text: str, arrays: Arrays, want: np.ndarray) -> None:
    for threads in (1, 2):
        got = ricci.tc.define(text, threads=threads)["f"](*arrays.values())
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", ATTENTION)
def test_attention(kind: str, sizes: tuple[int, int, int, int]) -> None:
    program = lowered(text_of(kind), dict(zip("HSTD", sizes, strict=True)))
    assert [kernels_in(k) for k in program.kernels] == [6]
    arrays = arguments(*sizes)
    agree(text_of(kind), arrays, expected(kind, arrays))


@pytest.mark.parametrize("kind", ATTENTION)
def test_scores_are_not_in_memory(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"H": 12, "S": 512, "T": 512, "D": 64}
    scores = 12 * 512 * 512 * 4
    assert lowered(text_of(kind), sizes).arena == 0
    monkeypatch.setattr(chains, "LEAST_BYTES", 1 << 60)
    assert lowered(text_of(kind), sizes).arena >= scores


GIVEN = {"H": 4, "S": 60, "T": 70, "D": 16}
CASES = {
    "keys of all heads": (
        "def f(float(H, S, D) Q, float(T, D) K, float(T, D) V) -> (O) {"
        f" A(h, s, t) +=! Q(h, s, d) * K(t, d)  {SOFTMAX}  O(h, s, d) +=! W(h, s, t) * V(t, d) }}",
        [6]),
    "heads last, keys turned": (
        "def f(float(S, H, D) Q, float(D, H, T) K, float(T, H, D) V) -> (O) {"
        f" A(h, s, t) +=! Q(s, h, d) * K(d, h, t)  {SOFTMAX}"
        "  O(s, h, d) +=! W(h, s, t) * V(t, h, d) }", [6]),
    "a product between": (
        "def f(float(H, S, D) Q, float(H, T, D) K, float(D, D) P) -> (O) {"
        f" A(h, s, t) +=! Q(h, s, d) * K(h, t, d)  V(h, t, e) +=! K(h, t, d) * P(d, e)  {SOFTMAX}"
        f"  {MIXED} }}", [1, 6]),
    "two products that make rows": (
        "def f(float(S, D) X, float(D, T) A, float(D, T) B, float(T, D) C) -> (O) {"
        " U(s, t) +=! X(s, d) * A(d, t)  Z(s, t) +=! X(s, d) * B(d, t)"
        "  Y(s, t) = U(s, t) * tanh(Z(s, t))  O(s, d) +=! Y(s, t) * C(t, d) }", [3]),
    "rows that are a result": (
        f"def f(float(H, S, D) Q, float(H, T, D) K, float(H, T, D) V) -> (O, A) {{"
        f" A(h, s, t) +=! Q(h, s, d) * K(h, t, d)  {SOFTMAX}  {MIXED} }}", [1, 4, 1]),
    "no longer than before": (
        "def f(float(S, D) X, float(D, D) A, float(D, D) B) -> (O) {"
        " U(s, e) +=! X(s, d) * A(d, e)  O(s, e) +=! tanh(U(s, d)) * B(d, e) }", None),
    "other rows": (
        "def f(float(S, D) X, float(D, T) A, float(T, D) B) -> (O) {"
        " U(s, t) +=! X(s, d) * A(d, t)  O(s, d) +=! U(S - 1 - s, t) * B(t, d) }", None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_chains(name: str) -> None:
    text, want = CASES[name]
    program = lowered(text, GIVEN)
    found = [kernels_in(k) for k in program.kernels]
    assert found == (want or [1] * len(found)), format_program(program)
    function = ricci.tc.define(text)["f"]
    shapes = [tuple(GIVEN[str(e)] for e in p.shape) for p in function.inputs]
    arrays = {
        p.name: numbers(s, n) for n, (p, s) in enumerate(zip(function.inputs, shapes, strict=True))
    }
    want_all = interpret(function.graph, arrays)
    for threads in (1, 2):
        got = ricci.tc.define(text, threads=threads)["f"](*arrays.values())
        results = got if isinstance(got, tuple) else (got,)
        for port, value in zip(function.outputs, results, strict=True):
            np.testing.assert_allclose(value, want_all[port.name], 1e-3, 1e-4, err_msg=name)


SCHEDULES = {
    "one row": {"rows": 1, "vectors": [1, 1], "block": 1, "chunks": 1},
    "two tiles": {"rows": 4, "vectors": [3, 1], "block": 8, "chunks": 7},
    "blocks of no whole tiles": {"rows": 4, "vectors": [2, 2], "block": 9, "chunks": 1000},
    "more than there is": {"rows": 1000, "vectors": [1, 1], "block": 1 << 30, "chunks": 1 << 30},
}
WRONG = {
    "no rows": {"rows": 0, "vectors": [1, 1], "block": 1, "chunks": 1},
    "no registers": {"rows": 4, "vectors": [1, 50], "block": 8, "chunks": 1},
    "another number of products": {"rows": 4, "vectors": [1], "block": 8, "chunks": 1},
    "too large a block": {"rows": 4, "vectors": [1, 1], "block": 60000, "chunks": 1},
}


@pytest.mark.parametrize("kind", ["plain", "mask"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str, kind: str) -> None:
    arrays = arguments(3, 13, 50, 16)
    options = {"schedules": [{"template": "chain", **SCHEDULES[name]}]}
    got = ricci.tc.define(text_of(kind), options=options)["f"](*arrays.values())
    np.testing.assert_allclose(got, expected(kind, arrays), 1e-4, 1e-5)


@pytest.mark.parametrize("name", WRONG)
def test_schedules_that_are_not_possible(name: str) -> None:
    arrays = arguments(1, 60000, 20, 8)
    options = {"schedules": [{"template": "chain", **WRONG[name]}]}
    with pytest.raises(ricci.Error, match="E0807"):
        ricci.tc.define(text_of("plain"), options=options)["f"](*arrays.values())


def test_what_tuning_finds_is_followed(tmp_path: Path) -> None:
    arrays = arguments(3, 70, 90, 16)
    given = {"threads": 1, "seconds": 600, "progress": Enough(15), "file": tmp_path / "tuning.json"}
    found = ricci.tc.autotune(text_of("mask"), "f", *arrays.values(), **given)
    assert found.tried > 5 and not found.wrong
    assert all(isinstance(s, Chain) for s in found.schedules if s is not None)
    got = ricci.tc.define(text_of("mask"), options=found)["f"](*arrays.values())
    np.testing.assert_allclose(got, expected("mask", arrays), 1e-4, 1e-5)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
def test_other_targets(target: str) -> None:
    arrays = arguments(3, 40, 50, 16)
    model = ricci.parse(text_of("mask"), "tc")
    got = model.compile(target=target)(*arrays.values())
    np.testing.assert_allclose(got, expected("mask", arrays), 1e-4, 1e-5)


def test_weights_are_arranged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constant operands of products in a chain, and the new values after one is set."""
    monkeypatch.setattr(chains, "MOST_TERMS", 1 << 20)
    model = ricci.parse(
        "import linalg, math; graph G { @input { x: real[40,32]; } @output { y: real[40,32]; }"
        " @variable { a: real[32,100]; b: real[100,32]; } @compose {"
        " u = linalg.matmul(x, a); t = math.tanh(u); y = linalg.matmul(t, b); } }"
    )
    assert lower(model.graph, {}, Types()).arena == 0
    x, a, b = numbers((40, 32), 1), numbers((32, 100), 2) / 4, numbers((100, 32), 3)
    compiled = model.compile(threads=2)
    for scale in (1.0, 0.5):
        compiled.variables["main.G.a"] = scale * a
        compiled.variables["main.G.b"] = b
        np.testing.assert_allclose(compiled(x), np.tanh(x @ (scale * a)) @ b, 1e-4, 1e-4)


def test_exp_far_below_its_range() -> None:
    """What is far below the range gives 0, and what is not there stays so."""
    text = "def f(float(N) X) -> (O) { O(i) = exp(X(i)) }"
    x = np.array([-1e30, -np.inf, -103.9, -104.1, -200, np.nan, 0, np.inf, 88] * 4, np.float32)
    with np.errstate(over="ignore", under="ignore"):
        want = np.exp(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(ricci.tc.define(text)["f"](x), want, 1e-6, 2e-45)


def test_built_for_c(tmp_path: Path) -> None:
    arrays = arguments(3, 40, 50, 16)
    model = ricci.parse(
        text_of("mask")
        .replace("float(H, S, D) Q", "float(3, 40, 16) Q")
        .replace("float(H, T, D) K", "float(3, 50, 16) K")
        .replace("float(H, T, D) V", "float(3, 50, 16) V")
        .replace("float(S, T) M", "float(40, 50) M"),
        "tc",
    )
    built = Model(model.build(tmp_path))
    (got,) = built.run(list(arrays.values()))
    built.destroy()
    np.testing.assert_allclose(got, expected("mask", arrays), 1e-4, 1e-5)


ONE_HEAD = re.sub(r"\bh, ", "", re.sub(r"\bH, ", "", text_of("plain"))).replace(
    ", float(S, T) M", ""
)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sizes", [(197, 197, 24), (130, 17, 16), (1000, 2000, 64)])
@pytest.mark.parametrize("tiles", [None, 1, 2])
def test_rows_without_heads_whose_last_block_is_shorter(
    tiles: int | None, sizes: tuple[int, int, int], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product of a chain does the rows that the chain tells it to, though alone it would do its
    last block in the middle."""
    if tiles is not None:
        monkeypatch.setattr(group_product, "_block", lambda rows, *_: rows * tiles)
    rng = np.random.default_rng(3)
    queries, keys, width = sizes
    shapes = [(queries, width), (keys, width), (keys, width)]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    q, k, v = (torch.from_numpy(a.astype(np.float64)) for a in arrays)
    wanted = (torch.softmax(q @ k.T * 0.25, 1) @ v).numpy()
    found = ricci.parse(ONE_HEAD, "tc").compile(threads=threads)(*arrays)
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v4-amx"])
@pytest.mark.parametrize("mixed", [False, True])
def test_products_of_pairs_are_not_with_others(target: str, mixed: bool) -> None:
    """Where an instruction multiplies them: each has code of its own."""
    power = "exp(s(h,i,j) - m(h,i))"
    text = f"""def attention(bfloat16(4,512,64) q, bfloat16(4,512,64) k, bfloat16(4,512,64) v)
        -> (y) {{
        s(h,i,j) +=! q(h,i,c) * k(h,j,c)
        m(h,i) max=! s(h,i,j)
        e(h,i,j) = {power if mixed else f"bfloat16({power})"}
        t(h,i) +=! e(h,i,j)
        p(h,i,j) = e(h,i,j) / t(h,i)
        y(h,i,c) +=! p(h,i,j) * v(h,j,c) }}"""
    shown = ricci.parse(text, "tc").show("loops", target=target)
    count = len(re.findall(r"^kernel \d+:", shown, re.MULTILINE))
    assert count == (3 if mixed and target.endswith("amx") else 1)
