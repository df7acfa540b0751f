"""Formulas and loops that no single operator of a printed program can say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ricci

Array = Any


def printed(text: str) -> tuple[ricci.Executable, ricci.Executable]:
    model = ricci.parse(text)
    models = (model, ricci.parse(model.show("sknd")))
    ours, theirs = (m.compile(target="interpreter", real="float64") for m in models)
    return ours, theirs


def in_turns(x: Array) -> tuple[Array, ...]:
    a = x + 1
    b = a * 2
    return a + b, b


def three_turns(x: Array) -> tuple[Array, ...]:
    a, c = x.copy(), x * 3
    b = a + c
    a = a * b
    return a, np.maximum(b, a), c


def of_each_other(x: Array) -> tuple[Array, ...]:
    """Both items of a pack are written at once, and read what they hold then."""
    p, q = x.copy(), x * 2
    for i in range(len(x)):
        for _ in range(2):
            p[i], q[i] = p[i] * p[i], q[i] * p[i]
    return p, q


def whole_and_item(x: Array) -> tuple[Array, ...]:
    p, q = x.copy(), x * 2
    y = p - q
    return p + y, q + y, y


FORMULAS: dict[str, tuple[str, str, Callable[[Array], tuple[Array, ...]]]] = {
    "turns": (
        "a, b",
        """a[i,] = x[i,] + 1.0, i < n;
        b[i,] = a[i,] * 2.0, i < n;
        a[i,] += b[i,], i < n;""",
        in_turns,
    ),
    "three": (
        "a, b, c",
        """a[i,] = x[i,], i < n;
        c[i,] = x[i,] * 3.0, i < n;
        b[i,] = a[i,] + c[i,], i < n;
        a[i,] *= b[i,], i < n;
        b[i,] >= a[i,], i < n;""",
        three_turns,
    ),
    "at once": (
        "p..(2)",
        """p[i,] = [x[i,], x[i,] * 2.0], i < n;
        p[i,] *= p[0][i,], i < n, j < 2;""",
        of_each_other,
    ),
    "a whole pack": (
        "p..(2), y",
        """p[i,] = [x[i,], x[i,] * 2.0], i < n;
        y[i,] = p[0][i,] - p[1][i,], i < n;
        p[i,] += y[i,], i < n;""",
        whole_and_item,
    ),
}


@pytest.mark.parametrize(("outputs", "lines", "expected"), FORMULAS.values(), ids=FORMULAS.keys())
def test_outputs_that_are_computed_in_turns(
    outputs: str, lines: str, expected: Callable[[Array], tuple[Array, ...]]
) -> None:
    """An output that goes on after others were computed from it."""
    names = outputs.split(", ")
    declared = [n.replace("..", ": real[n]..") if ".." in n else f"{n}: real[n]" for n in names]
    shown = "; ".join(declared)
    text = f"""
operator f {{ @input {{ x: real[n]; }} @output {{ {shown}; }} @lower {{ {lines} }} }}
graph G {{
    @input {{ x: real[3]; }}
    @output {{ {shown.replace("n]", "3]")}; }}
    @compose {{ {outputs} = f(x); }}
}}
"""
    x = np.array([1.0, -2.0, 0.5])
    for found in printed(text):
        got = found(x)
        flat = [g for r in (got if isinstance(got, tuple) else (got,)) for g in _several(r)]
        for a, b in zip(flat, expected(x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def _several(result: Any) -> list[Any]:
    return result if isinstance(result, list) else [result]


@pytest.mark.parametrize("most", [4, 5000])
def test_loop_variables_of_changing_shapes(most: int) -> None:
    text = """
import math, layout;
graph G {
    @input { xs: real[..m|4]..(k|3); n: int[]; }
    @output { ps: real[~]..; y: real[~]; }
    @compose {
        ps = with ps = xs do..(n) { t = math.mul(ps[0], 2.0); yield [ps[1:].., t]; };
        y = layout.concat{axis=0}(ps);
    }
}
"""
    calls = [([[1, 2], [3], [4, 5, 6]], 2), ([[1, 2]], 3), ([[1], [2, 3]], 0)]
    for xs, steps in calls if most == 4 else [([[1, 2], [3]], 1)]:
        expected = [np.array(x, "float64") for x in xs]
        for _ in range(steps):
            expected = [*expected[1:], expected[0] * 2]
        for found in printed(
            text.replace("m|4]..(k|3)", f"m|{most}]..(k|{3 if most == 4 else 2})")
        ):
            ps, y = found([np.array(x, "float64") for x in xs], np.array(steps))
            for a, b in zip(ps, expected, strict=True):
                np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(y, np.concatenate(expected))
