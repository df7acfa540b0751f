"""Packs of dynamic length in every place where a pack may stand (2.4, 2.10.1, 2.12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .case import Call, Case

Arrays = list[Any]


def _xs(count: int) -> Arrays:
    return [np.array([1.0, -2.0, 0.5]) * (k + 1) for k in range(count)]


def _zs(count: int) -> Arrays:
    return [np.array([0.25, 3.0, -1.0]) - k for k in range(count)]


V = np.array([10.0, 20.0, 30.0])
LENGTHS = ((0, 0), (1, 0), (0, 2), (2, 1), (3, 3), (4, 3), (4, 0), (3, 2))
"""Numbers of items of the packs `xs`, at most 4, and `zs`, at most 3."""

IMPORTS = "import math; import layout;"
INPUTS = "xs: real[3]..(k|4); zs: real[3]..(l|3); v: real[3];"


def pack(
    name: str,
    body: str,
    expected: Callable[[Arrays, Arrays, Any], Any],
    outputs: str = "ys: real[3]..;",
    operators: str = "",
    lengths: Sequence[tuple[int, int]] = LENGTHS,
    section: str = "2.10.1",
    needs: Callable[[int, int], bool] = lambda k, m: True,
    message: str = "",
) -> Case:
    """A composition over two packs and a tensor; where a call lacks what it `needs` it is answered
    with a failed check."""
    program = f"{IMPORTS} {operators} graph G {{ @input {{ {INPUTS} }} @output {{ {outputs} }}"
    calls = []
    for k, m in lengths:
        inputs = (_xs(k), _zs(m), V)
        if needs(k, m):
            calls.append(Call(inputs, expected))
        else:
            calls.append(Call(inputs, error="E0501", message=message))
    return Case(section, name, f"{program} @compose {{ {body} }} }}", calls=calls, oracle="NumPy")


LISTS = [
    pack("an item behind a pack", "ys = [xs.., v];", lambda xs, zs, v: [*xs, v]),
    pack("items around a pack", "ys = [v, xs.., v];", lambda xs, zs, v: [v, *xs, v]),
    pack("two packs joined", "ys = [xs.., zs..];", lambda xs, zs, v: [*xs, *zs]),
    pack(
        "three packs and an item joined",
        "ys = [zs.., v, xs.., zs..];",
        lambda xs, zs, v: [*zs, v, *xs, *zs],
    ),
    pack(
        "the size of joined packs",
        "ys = [zs.., xs..]; n = ys.size;",
        lambda xs, zs, v: ([*zs, *xs], np.array(len(xs) + len(zs))),
        "ys: real[3]..; n: int;",
    ),
    pack(
        "the last item, and all before it",
        "y = xs[-1]; ys = xs[:-1];",
        lambda xs, zs, v: (xs[-1], xs[:-1]),
        "y: real[3]; ys: real[3]..;",
        needs=lambda k, m: k > 0,
        message="not there",
    ),
    pack("a pack in reverse", "ys = xs[::-1];", lambda xs, zs, v: xs[::-1]),
    pack("every other item", "ys = xs[::2];", lambda xs, zs, v: xs[::2]),
    pack("every other item from behind", "ys = xs[::-2];", lambda xs, zs, v: xs[::-2]),
    pack("the last two items", "ys = xs[-2:];", lambda xs, zs, v: xs[-2:]),
    pack("a slice from both ends", "ys = xs[1:-1];", lambda xs, zs, v: xs[1:-1]),
    pack(
        "a slice by the length of another pack",
        "ys = xs[zs.size:];",
        lambda xs, zs, v: xs[len(zs) :],
    ),
    pack(
        "an item at the length of another pack",
        "y = xs[zs.size];",
        lambda xs, zs, v: xs[len(zs)],
        "y: real[3];",
        needs=lambda k, m: m < k,
        message="not there",
    ),
    pack(
        "a static pack indexed by a length",
        "a = math.neg(v); b = math.sqr(v); ps = [v, a, b, v]; y = ps[zs.size];",
        lambda xs, zs, v: [v, -v, v * v, v][len(zs)],
        "y: real[3];",
    ),
    pack(
        "a static pack sliced by a length",
        "a = math.neg(v); b = math.sqr(v); ps = [v, a, b]; ys = ps[:zs.size];",
        lambda xs, zs, v: [v, -v, v * v][: len(zs)],
    ),
    pack(
        "items at positions",
        "ys = xs[[1, -1, 0]];",
        lambda xs, zs, v: [xs[1], xs[-1], xs[0]],
        needs=lambda k, m: k > 1,
        message="not there",
    ),
    pack(
        "items at as many positions as there are",
        "ys = xs[[0:zs.size]];",
        lambda xs, zs, v: xs[: len(zs)],
        needs=lambda k, m: k >= m,
        message="not there",
    ),
    pack(
        "a tensor, and packs, chosen by a length",
        "w = math.neg(v); y = xs.size > 1 ? v : w; us = for x : xs do math.neg(x);"
        " ys = zs.size > 1 ? xs : us;",
        lambda xs, zs, v: (v if len(xs) > 1 else -v, xs if len(zs) > 1 else [-x for x in xs]),
        "y: real[3]; ys: real[3]..;",
    ),
    pack(
        "packs interleaved",
        "ys = [(xs, zs)..];",
        lambda xs, zs, v: [t for pair in zip(xs, zs, strict=True) for t in pair],
        needs=lambda k, m: k == m,
        message="packs of . .`k`. and . .`l`. items cannot be combined",
    ),
    pack(
        "a static pack interleaved",
        "ys = [(xs, [v, v])..];",
        lambda xs, zs, v: [xs[0], v, xs[1], v],
        needs=lambda k, m: k == 2,
        message="packs of . .`k`. and 2 items",
    ),
    pack(
        "an item replaced",
        "ys = xs[1] <- v; us = xs[-1] <- v;",
        lambda xs, zs, v: ([xs[0], v, *xs[2:]], [*xs[:-1], v]),
        "ys: real[3]..; us: real[3]..;",
        needs=lambda k, m: k > 1,
        message="not there",
    ),
    pack(
        "items replaced by a pack",
        "ys = xs[1:] <- zs;",
        lambda xs, zs, v: [xs[0], *zs],
        needs=lambda k, m: max(k - 1, 0) == m and k > 0,
        lengths=((1, 0), (2, 1), (4, 3), (3, 1)),
        message="items cannot be combined",
    ),
    pack(
        "an item as often as another pack is long",
        "ys = [v ..(zs.size), xs..];",
        lambda xs, zs, v: [v] * len(zs) + xs,
    ),
    pack(
        "an item if a pack has any",
        "ys = [xs.., v ..(zs.size > 0)];",
        lambda xs, zs, v: [*xs, *[v] * (len(zs) > 0)],
    ),
    pack(
        "a joined pack in loops and operators",
        "ys = for x : [zs.., v, xs..] do math.mul(x, 2.0); y = layout.stack{axis=0}([xs.., v]);"
        " z = math.sum_n([v, zs.., v]);",
        lambda xs, zs, v: (
            [2 * t for t in [*zs, v, *xs]],
            np.stack([*xs, v]),
            sum(zs, 2 * v),
        ),
        "ys: real[3]..; y: real[~, 3]; z: real[3];",
    ),
]


def _collatz(xs: Arrays, zs: Arrays, v: Any) -> Any:
    """Takes items off the front, and their halves to the end, until the first is small."""
    ps, n = list(xs), 0
    while n < len(zs):
        ps, n = [*ps[1:], 0.5 * ps[0]], n + 1
    return ps, sum(ps, 0 * v)


LOOPS = [
    pack(
        "a pack carried through a loop",
        "ps, n = with ps = xs, n = 0 do..(zs.size)"
        " { h = math.mul(ps[0], 0.5); m = math.add(n, 1); yield [ps[1:].., h], m; };"
        " y = math.sum_n(ps);",
        _collatz,
        "ps: real[3]..; y: real[3];",
        needs=lambda k, m: k > 0 or m == 0,
    ),
    pack(
        "a pack that becomes shorter",
        "ps, sums.. = with ps = xs for z : zs do { s = math.add(ps[0], z); yield ps[1:], s; };",
        lambda xs, zs, v: (xs[len(zs) :], [x + z for x, z in zip(xs, zs, strict=False)]),
        "ps: real[3]..; sums: real[3]..;",
        needs=lambda k, m: k >= m,
        message="not there",
    ),
    pack(
        "a pack that becomes longer",
        "ps = with ps: real[3]..(~|6) = xs for z : zs do { yield [ps.., z]; };",
        lambda xs, zs, v: [*xs, *zs],
        "ps: real[3]..;",
        needs=lambda k, m: k + m <= 6,
        lengths=(*LENGTHS, (4, 2)),
        message="length of loop variable `ps` is 7 .*more than its bound 6",
    ),
    pack(
        "a pack that begins empty",
        "ps = with ps: real[3]..(~|4) = [] for x : xs do { y = math.neg(x); yield [y, ps..]; };",
        lambda xs, zs, v: [-x for x in xs[::-1]],
        "ps: real[3]..;",
    ),
    pack(
        "a pack of known length that becomes longer",
        "ps = with ps: real[3]..(~|4) = [v] for z : zs do { yield [ps.., z]; };",
        lambda xs, zs, v: [v, *zs],
        "ps: real[3]..;",
    ),
    pack(
        "a pack of known length that begins a loop, written out",
        "ps = with ps: real[3]..(~|9) = xs unroll..(i -> 2) { yield [zs.., ps..]; };",
        lambda xs, zs, v: [*zs, *zs, *xs],
        "ps: real[3]..;",
        needs=lambda k, m: k + 2 * m <= 9,
        message="more than its bound 9",
    ),
    pack(
        "a pack with a condition on its length",
        "ps = with ps = xs while { n = math.add(ps.size, 0); c = math.gt(n, zs.size); yield c; }"
        " do { yield ps[:-1]; };",
        lambda xs, zs, v: xs[: len(zs)],
        "ps: real[3]..;",
    ),
]


SUMS = """operator sums { @input { xs: real[n]..(k); zs: real[n]..(l); }
    @output { ys: real[n]..(k); } @lower { ys[i,] = xs[i,] + zs[i,], i < n; } }"""
FORMULAS = [
    pack(
        "two packs in one formula",
        "ys..(xs.size) = sums(xs, zs);",
        lambda xs, zs, v: [x + z for x, z in zip(xs, zs, strict=True)],
        operators=SUMS,
        needs=lambda k, m: k == m,
        message="packs of . .`k`. and . .`l`. items cannot be combined",
        section="2.12",
    ),
    pack(
        "a pack of known length in a formula with one of dynamic length",
        "[a, b] = sums([v, v], zs);",
        lambda xs, zs, v: (v + zs[0], v + zs[1]),
        "a: real[3]; b: real[3];",
        SUMS,
        needs=lambda k, m: m == 2,
        section="2.12",
    ),
    pack(
        "a list assigned to a pack of dynamic length",
        "ys..(zs.size) = powers(zs, v);",
        lambda xs, zs, v: [v, v * v],
        "ys: real[3]..;",
        "operator powers { @input { zs: real[n]..(l); v: real[n]; } @output { ys: real[n]..(l); }"
        " @lower { ys[i,] = [v[i,], v[i,] * v[i,]], i < n; } }",
        needs=lambda k, m: m == 2,
        section="2.12",
    ),
    pack(
        "the last item in a formula",
        "ys..(xs.size) = behind(xs);",
        lambda xs, zs, v: [x + xs[-1] + y for x, y in zip(xs, xs[::-1], strict=True)],
        operators="operator behind { @input { xs: real[n]..(k); } @output { ys: real[n]..(k); }"
        " @lower { ys[i,] = xs[i,] + xs[-1][i,], i < n;"
        " ys[i,] += xs[::-1][i,], i < n; } }",
        needs=lambda k, m: k > 0,
        message="not there",
        section="2.12",
    ),
    pack(
        "joined accesses, and their folds",
        "y = largest(xs, zs, v);",
        lambda xs, zs, v: np.max([*xs, v, *[2 * z for z in zs[::-1]]], axis=0),
        "y: real[3];",
        "operator largest { @input { xs: real[n]..(k); zs: real[n]..(l); v: real[n]; }"
        " @output { y: real[n]; } @lower {"
        " y[i,] = [xs[i,].., v[i,], (2.0 * zs[i,])[::-1]..] >> .. ?? 0.0, i < n; } }",
        section="2.12",
    ),
    pack(
        "comparisons of the items of a pack",
        "a, b, c, d = compare(xs, zs);",
        lambda xs, zs, v: (
            np.array([all(p[i] < q[i] for p, q in pairwise(xs)) for i in range(3)]),
            np.array([len({t[i] for t in zs}) == len(zs) for i in range(3)]),
            np.array([any(t[i] == 1.0 for t in xs) for i in range(3)]),
            np.sum([np.zeros(3), *[np.where(z > 0.0, z, -9.0) for z in zs]], axis=0),
        ),
        "a: bool[3]; b: bool[3]; c: bool[3]; d: real[3];",
        "operator compare { @input { xs: real[n]..(k); zs: real[n]..(l); }"
        " @output { a: bool[n]; b: bool[n]; c: bool[n]; d: real[n]; } @lower {"
        " a[i,] = xs[i,] < .., i < n; b[i,] = zs[i,] != .., i < n; c[i,] = 1.0 in xs[i,], i < n;"
        " d[i,] = (zs[i,] > 0.0 ? zs[i,] : -9.0) + .., i < n; } }",
        section="2.4",
    ),
    pack(
        "names for parts of a pack of numbers",
        "y = total(xs);",
        lambda xs, zs, v: sum([float(i) * x for i, x in enumerate(xs)], 0 * v),
        "y: real[3];",
        "operator total { @input { xs: real[n]..(k); } @output { y: real[n]; }"
        " @using { ws = [0:k + 1]; [first, rest..(k + 1), last] = [0, ws.., 8]; }"
        " @assert { first == 0 && last == 8: 'parts'; ws >= 0; }"
        " @lower { y[i,] += xs[j][i,] * real(ws[j] + rest[k] - k), i < n, j < k; } }",
        section="2.9",
    ),
    pack(
        "names for parts of a pack",
        "a, b, c, n = parts(xs);",
        lambda xs, zs, v: (xs[0], sum(xs[1:-1], 0 * v), xs[-1], np.array(len(xs) - 2)),
        "a: real[3]; b: real[3]; c: real[3]; n: int;",
        "operator parts { @input { xs: real[n]..(k); }"
        " @output { a: real[n]; b: real[n]; c: real[n]; m: int[]; }"
        " @compose { [u, us..(xs.size - 2), w] = xs; a = u; b = math.sum_n(us); c = w;"
        " m = us.size; } }",
        needs=lambda k, m: k > 1,
        lengths=((1, 0), (2, 0), (4, 0)),
        section="2.10",
    ),
]


def _ragged(counts: Sequence[int], factor: float) -> Arrays:
    return [factor * (np.arange(float(count)) + 1 + k) for k, count in enumerate(counts)]


def ragged(
    name: str,
    body: str,
    expected: Callable[[Arrays, Arrays], Any],
    outputs: str = "ys: real[~]..;",
    operators: str = "",
    section: str = "2.10.1",
) -> Case:
    """A composition over packs of which each item has an extent of its own."""
    inputs = "xs: real[..m|4]..(k|3); zs: real[..o|4]..(l|3);"
    program = f"{IMPORTS} {operators} graph G {{ @input {{ {inputs} }} @output {{ {outputs} }}"
    counts = (((), ()), ((2, 4), (3,)), ((4, 1, 3), (2, 2)), ((), (1, 4)), ((1, 2), (2, 1, 3)))
    calls = [Call((_ragged(a, 1.0), _ragged(b, -0.5)), expected) for a, b in counts]
    return Case(section, name, f"{program} @compose {{ {body} }} }}", calls=calls, oracle="NumPy")


RAGGED = [
    ragged("packs of shapes of their own, joined", "ys = [xs.., zs..];", lambda xs, zs: [*xs, *zs]),
    ragged(
        "packs of shapes of their own, in one tensor",
        "y = layout.concat{axis=0}([zs[::-1].., xs..]); n = m + ..;",
        lambda xs, zs: (
            np.concatenate([np.zeros(0), *zs[::-1], *xs]),
            np.array(sum(map(len, xs))),
        ),
        "y: real[~]; n: int;",
    ),
    ragged(
        "a pack of dynamic length as an attribute",
        "y = weigh{w = [real(m).., 0.5]}(xs);",
        lambda xs, zs: np.array(sum([len(x) * x.sum() for x in xs], 0.5)),
        "y: real[];",
        "operator weigh { @attrib { w: real..(k + 1); } @input { xs: real[..m]..(k); }"
        " @output { y: real[]; } @lower { y[] = w[k];"
        " y[] += w[j] * xs[j][i,], j < k, i < m[j]; } }",
        section="2.5",
    ),
    ragged(
        "items that a mask marks",
        "ys = xs[m > 1]; n = longest(zs);",
        lambda xs, zs: ([x for x in xs if len(x) > 1], np.array(sum(len(z) > 2 for z in zs))),
        "ys: real[~]..; n: int;",
        "operator longest { @input { xs: real[..m]..(k); } @output { n: int[]; }"
        " @using { long = m[m > 2]; } @lower { n[] = (long / long) + ..; } }",
        section="2.4",
    ),
    ragged(
        "a whole pack of shapes of their own assigned to",
        "ys..(xs.size) = ramp(xs);",
        lambda xs, zs: [
            np.concatenate([x[: min(map(len, xs))] * 2, 0 * x[min(map(len, xs)) :]]) for x in xs
        ],
        operators="operator ramp { @input { xs: real[..m]..(k); } @output { ys: real[..m]..(k); }"
        " @lower { ys[|i|,] = 2.0 * xs[i,], i < 4; } }",
        section="2.12",
    ),
    ragged(
        "a guard of a whole pack",
        "y = common(xs);",
        lambda xs, zs: np.concatenate(
            [
                np.sum([x[: min(map(len, xs))] for x in xs], axis=0) if xs else np.zeros(4),
                np.zeros(4),
            ]
        )[:4],
        "y: real[4];",
        "operator common { @input { xs: real[..m]..(k); } @output { y: real[4]; }"
        " @lower { y[i,] = xs[|i|,] + .., i < 4; } }",
        section="2.12",
    ),
    ragged(
        "extents of their own solved for a symbol",
        "ts = for x : xs do layout.concat{axis=0}([x, x]); n = halves(ts);",
        lambda xs, zs: np.array(sum(map(len, xs))),
        "n: int;",
        "operator halves { @input { xs: real[..2 * h]..(k); } @output { n: int[]; }"
        " @compose { n = h + ..; } }",
    ),
]


CASES = [*LISTS, *LOOPS, *FORMULAS, *RAGGED]
