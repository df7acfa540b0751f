"""Packs of dynamic length: random lists against Python's, and loop variables of any shapes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import ricci

from ..compare import TARGETS

HEAD = """import math;
graph G {
    @input { xs: real[2]..(k|3); zs: real[2]..(l|2); v: real[2]; }
    @output { ys: real[2]..; n: int; }
    @compose { ys = %s; n = ys.size; }
}"""


def draw(rng: random.Random, depth: int) -> str:
    """A list as SkriptND has it."""
    if depth == 0:
        return rng.choice(["xs", "zs", "xs[::-1]"])
    inner = draw(rng, depth - 1)
    kind = rng.choice(["join", "items", "slice", "slice", "size"])
    if kind == "join":
        return f"[{inner}.., {draw(rng, depth - 1)}..]"
    if kind == "items":
        return rng.choice([f"[v, {inner}..]", f"[{inner}.., v]", f"[{inner}.., v, zs..]"])
    ends = [rng.choice(["", "", str(rng.randint(-4, 4))]) for _ in range(2)]
    if kind == "size":
        ends[rng.randint(0, 1)] = rng.choice(["zs.size", "-xs.size", "xs.size - 1"])
    return f"({inner})[{':'.join([*ends, rng.choice(['1', '1', '2', '-1', '-2'])])}]"


def in_python(text: str, xs: list[Any], zs: list[Any], v: Any) -> list[Any]:
    """The same list; `[p.., x]` is `[*p, x]` there."""
    parts = text.replace("xs.size", str(len(xs))).replace("zs.size", str(len(zs)))
    return list(eval(_starred(parts), {"xs": xs, "zs": zs, "v": v}))


def _starred(text: str) -> str:
    """`p..` as `*p`, where `p` begins behind the bracket or comma that its nesting allows."""
    while (end := text.find("..")) >= 0:
        depth, start = 0, end
        while depth or text[start - 1] not in "[, ":
            start -= 1
            depth += (text[start] in ")]") - (text[start] in "([")
        text = f"{text[:start]}*{text[start:end]}{text[end + 2 :]}"
    return text


@pytest.mark.parametrize("seed", range(12))
def test_random_lists_are_those_of_python(seed: int) -> None:
    text = draw(random.Random(seed), 3)
    model = ricci.parse(HEAD % text, "skriptnd")
    runs = [model.compile(target=target, real=real) for target, real in TARGETS.items()]
    for k, m in ((0, 0), (1, 2), (2, 1), (3, 0), (3, 2)):
        xs = [np.array([1.0, -1.0]) * (i + 1) for i in range(k)]
        zs = [np.array([0.5, 8.0]) * (i + 1) for i in range(m)]
        wanted = in_python(text, xs, zs, np.array([7.0, 7.5]))
        for run in runs:
            ys, n = run(xs, zs, np.array([7.0, 7.5]))
            assert (len(ys), int(n)) == (len(wanted), len(wanted)), (text, k, m)
            for got, other in zip(ys, wanted, strict=True):
                np.testing.assert_array_equal(got, other, err_msg=text)


CARRIED = """import math; import layout;
graph G {
    @input { xs: real[..m|4]..(k|3); n: int[]; }
    @output { ps: real[~]..; y: real[~]; }
    @compose {
        ps = with ps = xs do..(n) { t = math.mul(ps[0], 2.0); yield [ps[1:].., t]; };
        y = layout.concat{axis=0}(ps);
    }
}"""


@pytest.mark.parametrize("printed", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_items_of_a_loop_variable_have_shapes_of_their_own(target: str, printed: bool) -> None:
    model = ricci.parse(CARRIED, "skriptnd")
    model = ricci.parse(model.show("sknd"), "skriptnd") if printed else model
    run = model.compile(target=target, real=TARGETS[target])
    for counts, steps in (((2, 4, 1), 4), ((3, 0), 1), ((), 0), ((4,), 2), ((1, 2), 0)):
        xs = [np.arange(float(count)) + count for count in counts]
        ps, y = run(xs, np.array(steps))
        for _ in range(steps):
            xs = [*xs[1:], 2 * xs[0]]
        assert len(ps) == len(xs)
        for got, wanted in zip(ps, xs, strict=True):
            np.testing.assert_allclose(got, wanted)
        np.testing.assert_allclose(y, np.concatenate([np.zeros(0), *xs]))
