"""Programs that once were refused, or answered wrongly, although the text describes them."""

from __future__ import annotations

import numpy as np

from .case import Call, Case

_ITEMS = [np.arange(4.0) + k for k in range(4)]
_FLAGS = np.array([False, False, True, True]), np.array([False, True, False, True])


def _folds(items: list[np.ndarray], count: int) -> tuple[np.ndarray, ...]:
    taken = -np.array(items[:count]).reshape(count, 4)
    least = taken.min(axis=0, initial=np.inf)
    most = taken.max(axis=0, initial=-np.inf)
    return taken.sum(axis=0), taken.prod(axis=0), least, most, taken[1:].sum(axis=0)


_MATRICES = [np.arange(6.0).reshape(3, 2) + k for k in range(3)]


def _weighted(items: list[np.ndarray]) -> tuple[list[np.ndarray], ...]:
    sums = [x[:, 1] for x in items]
    large = sum(s + 100 for s in sums) > 300 if items else False
    return (
        [s + 100 for s in sums],
        [s * s for s in sums],
        [np.where(large, s + 100, 0.0) for s in sums],
    )


CASES = [
    Case(
        section="2.4",
        name="bools and strings have an order",
        program="""
            operator order {
                @attrib { s: str; t: str; }
                @input { a: bool[n]; b: bool[n]; }
                @output { lt: bool[n]; le: bool[n]; gt: bool[n]; ge: bool[n]; known: bool[4]; }
                @using { known_ = [s < t, s >= t, false < true, true <= false]; }
                @lower {
                    lt[i,] = a[i,] < b[i,], i < n;
                    le[i,] = a[i,] <= b[i,], i < n;
                    gt[i,] = a[i,] > b[i,], i < n;
                    ge[i,] = a[i,] >= b[i,], i < n;
                    known[i,] = known_[i], i < 4;
                }
            }
            graph G {
                @input { a: bool[n|4]; b: bool[n]; }
                @output { lt: bool[n]; le: bool[n]; gt: bool[n]; ge: bool[n]; known: bool[4]; }
                @compose { lt, le, gt, ge, known = order{s = "ab", t = "b"}(a, b); }
            }
        """,
        inputs=_FLAGS,
        expected=lambda a, b: (a < b, a <= b, a > b, a >= b, np.array([1, 0, 1, 0], bool)),
        oracle="NumPy",
    ),
    Case(
        section="2.8",
        name="a message with a helper that comes after its assert",
        program="""
            operator f {
                @attrib { a: int; }
                @input { x: real[n]; }
                @using { twice = 2 * a; sizes = [n, twice]; }
                @output { y: real[n]; }
                @assert { a > 3: "a is too small: {sizes}", twice; }
                @lower { y[i,] = x[i,], i < n; }
            }
            graph G {
                @input { x: real[2]; }
                @output { y: real[2]; }
                @compose { y = f{a = 3}(x); }
            }
        """,
        error="E0501",
        message=r"a is too small: \[2, 6\](.|\n)*twice = 6",
    ),
    Case(
        section="2.8",
        name="a message with a later helper of open size",
        program="""
            operator f {
                @input { x: real[n]; }
                @using { twice = 2 * n; }
                @output { y: real[n]; }
                @assert { n > 3: "n is too small: {twice}"; }
                @lower { y[i,] = x[i,], i < n; }
            }
            graph G {
                @input { x: real[s|9]; }
                @output { y: real[s]; }
                @compose { y = f(x); }
            }
        """,
        calls=[
            Call((np.ones(3),), error="E0501", message="n is too small: 6"),
            Call((np.ones(4),), np.ones(4)),
        ],
    ),
    Case(
        section="2.10.1",
        name="blocks that end their statements, without semicolons",
        program="""
            import math
            graph G {
                @input { x: real[]; y: real[]; }
                @output { z: real[]; w: real[]; }
                @compose {
                    z = if {
                        c = math.lt(x, y);
                        yield c;
                    } then {
                        r = math.add(x, y);
                        yield r;
                    } else {
                        r = math.mul(x, y);
                        yield r;
                    }
                    w = { t = { yield z; } yield t; }
                }
            }
        """,
        calls=[Call((2.0, 3.0), (5.0, 5.0)), Call((3.0, 2.0), (6.0, 6.0))],
    ),
    Case(
        section="2.10.1",
        name="folds of packs of dynamic length",
        program="""
            import math;
            graph G {
                @input { xs: real[4]..(4); count: int[]; }
                @output {
                    sum: real[4]; prod: real[4]; least: real[4]; most: real[4]; tail: real[4];
                }
                @compose {
                    ys = for x : xs do..(count) math.neg(x);
                    sum = math.sum_n(ys);
                    prod = math.prod_n(ys);
                    least = math.min_n(ys);
                    most = math.max_n(ys);
                    tail = math.sum_n(ys[1:]);
                }
            }
        """,
        calls=[Call((_ITEMS, k), _folds(_ITEMS, k)) for k in range(5)],
        oracle="NumPy",
    ),
    Case(
        section="2.10.1",
        name="the minimum of a pack that may be empty, with a fallback",
        program="""
            import math;
            operator least {
                @input { xs: real[n]..(k); }
                @output { y: real[n]; }
                @lower { y[i,] = (xs[i,] << ..) ?? 1.0, i < n; }
            }
            operator total {
                @input { xs: real[n]..(k); }
                @output { y: real[n]; }
                @lower { y[i,] = xs[i,] + .., i < n; }
            }
            graph G {
                @input { xs: real[2]..(k|3); }
                @output { y: real[2]; z: real[2]; }
                @compose { y = least(xs); z = total(xs); }
            }
        """,
        calls=[
            Call(([],), (np.ones(2), np.zeros(2))),
            Call(
                ([np.array([3.0, -2.0]), np.array([2.0, 5.0])],),
                (np.array([2.0, -2.0]), np.array([5.0, 3.0])),
            ),
        ],
    ),
    Case(
        section="2.12",
        name="a pack of dynamic length assigned as a whole",
        program="""
            operator weighted {
                @input { xs: real[n,m]..(k); }
                @output { ys: real[n]..(k); zs: real[n]..(k); large: real[n]..(k); }
                @lower {
                    ys[i,] = 100.0, i < n;
                    ys[i,] += xs[i,j] * real(j), i < n, j < m;
                    v = ys[i,] - 100.0, zs[i,] = v * v, i < n;
                    large[i,] = 0.0, i < n;
                    large[i,] := ys[i,], i < n | (ys[i,] + ..) > 300.0;
                }
            }
            graph G {
                @input { xs: real[a|3,b|2]..(k|3); }
                @output { ys: real[a]..; zs: real[a]..; large: real[a]..; }
                @compose { ys..(xs.size), zs..(xs.size), large..(xs.size) = weighted(xs); }
            }
        """,
        calls=[Call((_MATRICES[:k],), _weighted(_MATRICES[:k])) for k in range(4)],
        oracle="NumPy",
    ),
]
