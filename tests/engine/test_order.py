"""The order of the instructions of a block: what depends on each other stays, and chains that do
not stand side by side."""

from __future__ import annotations

import random
import re

import pytest

import ricci
from ricci.backends.llvm.builder import Builder
from ricci.backends.llvm.order import abreast
from ricci.backends.llvm.targets import NAMES

from .assembly import innermost

EFFECTS = ("store", "call void", "load volatile", "atomicrmw")
READS = ("load float", "call <4 x float> @llvm.masked.load")


def chain(name: str, length: int) -> list[str]:
    head = [f"  %{name}0 = load float, ptr %{name}, align 4"]
    steps = [f"  %{name}{n + 1} = fmul float %{name}{n}, %{name}{n}" for n in range(length)]
    return [*head, *steps]


def test_long_chains_advance_side_by_side() -> None:
    a, b = chain("a", 20), chain("b", 20)
    ends = ["  store float %a20, ptr %p, align 4", "  store float %b20, ptr %q, align 4"]
    expected = [line for pair in zip(a, b, strict=True) for line in pair]
    assert abreast([*a, *b, *ends]) == [*expected, *ends]


def test_what_is_used_late_is_made_late() -> None:
    late = "  %late = fmul float %x, %y"
    use = "  %z = fmul float %a30, %late"
    long = chain("a", 30)
    assert abreast([late, *long, use]) == [*long[:-1], late, long[-1], use]


def test_short_chains_stay() -> None:
    lines = [*chain("a", 8), *chain("b", 8), *chain("c", 8)]
    assert abreast(lines) == lines


def test_blocks_stay_apart() -> None:
    """Jumps, labels and what a block begins with are borders."""
    first, second = chain("a", 15) + chain("b", 15), chain("c", 15) + chain("d", 15)
    phi = "  %i = phi i64 [ 0, %entry ], [ %j, %body ]"
    border = ["  br label %body", "body:", phi]
    lines = ["define void @f() {", "entry:", *first, *border, *second, "  ret void", "}"]
    got = abreast(lines)
    at = got.index(border[0])
    assert got[at : at + 3] == border
    assert got[:2] == lines[:2]
    assert got[-2:] == lines[-2:]
    assert sorted(got[2:at]) == sorted(first)
    assert sorted(got[at + 3 : -2]) == sorted(second)
    assert got != lines


@pytest.mark.parametrize("seed", range(40))
def test_nothing_comes_before_what_it_depends_on(seed: int) -> None:
    lines = _random_block(random.Random(seed))
    got = abreast(lines)
    assert sorted(got) == sorted(lines)
    made: set[str] = set()
    for line in got:
        result, _, text = line.strip().rpartition(" = ")
        assert set(re.findall(r"%v\d+", text)) <= made
        made.add(result)
    effects = [x for x in lines if _is(x, EFFECTS)]
    assert [x for x in got if _is(x, EFFECTS)] == effects
    for read in (x for x in lines if _is(x, READS)):
        before = [x for x in lines[: lines.index(read)] if _is(x, EFFECTS)]
        assert [x for x in got[: got.index(read)] if _is(x, EFFECTS)] == before


def _is(line: str, kinds: tuple[str, ...]) -> bool:
    return line.strip().rpartition(" = ")[2].startswith(kinds)


def _random_block(r: random.Random) -> list[str]:
    lines: list[str] = []
    values = ["%x"]
    for n in range(r.choice([30, 80, 200])):
        a, b = r.choice(values[-6:]), r.choice(values[-12:])
        text = r.choice([
            f"fmul float {a}, {b}",
            f"fadd float {a}, {b}",
            f"call float @llvm.fabs.f32(float {a})",
            f"getelementptr float, ptr {a}, i64 {n}",
            f"load float, ptr %p{n}, align 4",
            f"call <4 x float> @llvm.masked.load.v4f32.p0(ptr %p{n}, i32 4, i32 {n})",
            f"load volatile float, ptr %p{n}, align 4",
            f"atomicrmw add ptr %p{n}, i64 1 seq_cst",
            f"store float {a}, ptr %p{n}, align 4",
            f"call void @llvm.prefetch.p0(ptr %p{n}, i32 0, i32 3, i32 1)",
        ])  # fmt: skip
        if text.startswith(("store", "call void")):
            lines.append(f"  {text}")
        else:
            values.append(f"%v{n}")
            lines.append(f"  %v{n} = {text}")
    return lines


def test_functions_are_written_in_this_order() -> None:
    b = Builder("kernel", "ptr %x, ptr %y")
    for name in "xy":
        value = b.op(f"load float, ptr %{name}, align 4")
        for _ in range(20):
            value = b.pure(f"fmul float {value}, {value}", value)
        b.line(f"store float {value}, ptr %{name}, align 4")
    b.line("ret void")
    lines = b.text().splitlines()
    assert abreast(lines) == lines


HEAVY = "def f(float(4096) A) -> (C) { C(i) = tanh(A(i) * A(i) + exp(A(i))) * sinh(A(i)) }"


@pytest.mark.parametrize("target", [x for x in NAMES if x in ("x86-64-v3", "x86-64-v4")])
def test_registers_are_put_aside_within_lines_of_the_cache(target: str) -> None:
    loops = innermost(ricci.parse(HEAVY, "tc").show("asm", target=target))
    aside = [x for loop in loops for x in loop.spills]
    assert aside
    assert not [x for x in aside if x.startswith(("vmovups", "vmovdqu"))]
