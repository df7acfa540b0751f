"""Cases of the module linalg; the oracle is NumPy."""

from __future__ import annotations

import numpy as np

from .case import Case, Family
from .draw import Rng, coin, extent, integer, reals, shape


def dot(rng: Rng) -> Case:
    n = extent(rng, 400)
    x, y = reals(rng, [n]), reals(rng, [n])
    b = reals(rng, []) if coin(rng) else None
    return Case("linalg.dot", {}, (x, y, b), (np.asarray(x @ y + (0 if b is None else b)),))


def matvec(rng: Rng) -> Case:
    m, n = extent(rng, 90), extent(rng, 90)
    a, turned = reals(rng, [m, n]), coin(rng)
    x = reals(rng, [m if turned else n])
    b = reals(rng, [n if turned else m]) if coin(rng) else None
    expected = (a.T if turned else a) @ x + (0 if b is None else b)
    given = {"transA": turned} if turned or coin(rng) else {}
    return Case("linalg.matvec", given, (a, x, b), (expected,))


def _thinned(rng: Rng, batch: list[int]) -> list[int]:
    """A batch shape that broadcasts to the given one."""
    front = integer(rng, 0, len(batch))
    return [1 if coin(rng, 0.25) else n for n in batch[front:]]


def matmul(rng: Rng) -> Case:
    batch = shape(rng, integer(rng, 0, 2), 3)
    # Now and then beyond the tiles of a kernel.
    most = 12 if coin(rng, 0.7) else 70
    m, n, k = (extent(rng, most) for _ in range(3))
    ba, bb = _thinned(rng, batch), _thinned(rng, batch)
    turn_a, turn_b = coin(rng), coin(rng)
    a = reals(rng, [*ba, *((k, m) if turn_a else (m, k))])
    b = reals(rng, [*bb, *((n, k) if turn_b else (k, n))])
    expected = (a.swapaxes(-1, -2) if turn_a else a) @ (b.swapaxes(-1, -2) if turn_b else b)
    c = None
    if coin(rng):
        c = reals(rng, [*_thinned(rng, list(expected.shape[:-2])), m, n])
        expected = expected + c
    given = {"transA": turn_a, "transB": turn_b} if turn_a or turn_b or coin(rng) else {}
    return Case("linalg.matmul", given, (a, b, c), (expected,))


def outer(rng: Rng) -> Case:
    x, y = reals(rng, shape(rng, integer(rng, 0, 2))), reals(rng, shape(rng, integer(rng, 0, 2)))
    return Case("linalg.outer", {}, (x, y), (np.multiply.outer(x, y),))


FAMILIES = [
    Family("linalg.dot", dot, "NumPy"),
    Family("linalg.matvec", matvec, "NumPy"),
    Family("linalg.matmul", matmul, "NumPy", 40),
    Family("linalg.outer", outer, "NumPy"),
]
