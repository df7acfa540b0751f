"""The built-in functions in the interpreter, and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, cast, get_args

import numpy as np
import pytest

from ricci.diagnostics import Error
from ricci.dtypes import DType
from ricci.ir.derivatives import derivatives
from ricci.ir.functions import ARITY
from ricci.ir.interpret import interpret
from ricci.ir.nodes import (
    Apply,
    Cast,
    Const,
    Expr,
    Function,
    integer,
)
from ricci.ir.shapes import evaluate
from ricci.ir.text import format_graph, parse_graph
from ricci.ir.verify import Illegal, verify_graph

from .function_oracles import ORACLES, SPECIAL_VALUES, agrees, element_wise

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")


def run(compute: Callable[[Sequence[Expr]], Expr], *arrays: Any, real: str = "float64") -> Any:
    graph = element_wise(compute, len(arrays), len(arrays[0]))
    verify_graph(graph)
    inputs = {n: np.asarray(a, real) for n, a in zip("abcd", arrays, strict=False)}
    return interpret(graph, inputs, real=real)["y"]


def call(name: str, *arrays: Any, real: str = "float64") -> Any:
    return run(lambda x: Apply(cast(Function, name), tuple(x)), *arrays, real=real)


# ------------------------------------------------------------------------- values


def test_every_function_has_an_oracle() -> None:
    assert list(ARITY) == list(get_args(Function))
    assert {name: len(oracle.domains) for name, oracle in ORACLES.items()} == ARITY


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("real", ["float64", "float32", "float16"])
def test_function(name: str, real: str) -> None:
    oracle = ORACLES[name]
    points = [p.astype(real) for p in oracle.points(500)]
    got = call(name, *points, real=real)
    assert got.dtype == real
    if name == "nextafter":
        np.testing.assert_array_equal(got, np.nextafter(*points))
        return
    wanted = oracle.function(*[p.astype(np.float64) for p in points])
    error = {"float64": 1e-13, "float32": 3e-7, "float16": 1e-3}[real]
    least = float(np.finfo(real).smallest_subnormal)
    np.testing.assert_allclose(got, wanted.astype(real), error, error if oracle.absolute else least)


@pytest.mark.parametrize("name", [n for n in ORACLES if ORACLES[n].domains == ((-5, 5),) * 2])
def test_special_values_of_two_arguments(name: str) -> None:
    x, y = (a.ravel() for a in np.meshgrid(SPECIAL_VALUES, SPECIAL_VALUES))
    if name == "remainder":
        usual = np.isfinite(x) & (y != 0) | np.isnan(x) | np.isnan(y)
        assert np.isnan(call(name, x[~usual], y[~usual])).all()
        x, y = x[usual], y[usual]
    wanted = ORACLES[name].function(x, y)
    if name == "fdim":
        wanted = np.where((x == y), 0.0, wanted)
    agrees(call(name, x, y), wanted, 1e-15)


INF, NAN = math.inf, math.nan
ENDS: dict[str, list[tuple[float, float]]] = {
    "erfc": [(-INF, 2), (INF, 0), (27.2, 1.0189e-323)],
    "erfcx": [(INF, 0), (-INF, INF), (-27, INF), (1e300, 1 / (1e300 * math.sqrt(math.pi)))],
    "erfinv": [(1, INF), (-1, -INF), (1.5, NAN), (0, 0), (-0.0, -0.0)],
    "erfcinv": [(0, INF), (2, -INF), (-1e-300, NAN), (1, 0), (1e-300, 26.209469960516124)],
    "normcdf": [(-INF, 0), (INF, 1), (0, 0.5), (-38, 2.885428360069e-316)],
    "tgamma": [(0, INF), (-0.0, -INF), (-1, NAN), (-INF, NAN), (INF, INF), (171.7, INF),
               (-200.5, -0.0), (-0.5, -3.544907701811032), (-170.5, -3.3127395215e-308)],
    "lgamma": [(0, INF), (-3, INF), (-INF, INF), (INF, INF), (1, 0), (2, 0), (1e306, INF)],
    "digamma": [(0, -INF), (-0.0, INF), (-2, NAN), (INF, INF), (-5e-324, INF)],
    "trigamma": [(0, INF), (-2, INF), (INF, 0), (1, math.pi**2 / 6), (-0.5, 8.934802200544679)],
    "j0": [(INF, 0), (-INF, 0), (0, 1)],
    "j1": [(INF, 0), (0, 0), (-0.0, -0.0)],
    "y0": [(0, -INF), (-1, NAN), (INF, 0)],
    "y1": [(0, -INF), (-1, NAN), (INF, 0), (1e-310, -INF)],
    "i0": [(INF, INF), (-INF, INF), (712.0, 2.4684110577627524e307)],
    "i1": [(INF, INF), (-INF, -INF), (-0.0, -0.0)],
    "sinpi": [(1, 0), (-1, -0.0), (-0.0, -0.0), (1e300, 0), (INF, NAN), (2**52 + 0.5, 0)],
    "cospi": [(0.5, 0), (-1.5, 0), (1e300, 1), (INF, NAN), (2**51 + 0.5, 0)],
    "logb": [(0, -INF), (-INF, INF), (5e-324, -1074), (-8, 3), (NAN, NAN), (7.99, 2)],
    "cbrt": [(-0.0, -0.0), (-INF, -INF), (1e-321, 9.993370955211941e-108)],
    "log10": [(1000, 3), (0, -INF), (-1, NAN), (1e-5, -5)],
    "expm1": [(-INF, -1), (INF, INF), (709.78, 1.7928227943945155e308), (-0.0, -0.0)],
    "log1p": [(-1, -INF), (-2, NAN), (INF, INF), (-0.0, -0.0), (1e-300, 1e-300)],
    "exp2": [(1023.5, 2.0**1023 * math.sqrt(2)), (-1074, 5e-324), (-1076, 0), (1024, INF)],
    "exp10": [(309, INF), (-324, 0), (-INF, 0), (308, 1e308)],
    "erf": [(INF, 1), (-INF, -1), (-0.0, -0.0)],
    "trunc": [(-0.5, -0.0), (INF, INF)],
}  # fmt: skip
"""Values at the ends of domains, by the C standard and the mathematics."""


@pytest.mark.parametrize("name", ENDS)
def test_ends(name: str) -> None:
    points, wanted = np.array([*ENDS[name], (NAN, NAN)]).T
    agrees(call(name, points), wanted, 1e-5, 2e-323)


def test_fma_rounds_once() -> None:
    x, y, z = np.random.default_rng(0).normal(size=(3, 300))
    z[100:] = -(x * y)[100:]
    exact = [
        float(Fraction(a) * Fraction(b) + Fraction(c)) for a, b, c in zip(x, y, z, strict=True)
    ]
    np.testing.assert_array_equal(call("fma", x, y, z), exact)
    ends = call("fma", [INF, 0, 1e300, 1, -1], [0, INF, 1e300, 2, 0.0], [1, NAN, 1, -INF, -0.0])
    np.testing.assert_array_equal(ends, [NAN, NAN, INF, -INF, -0.0])
    assert np.signbit(ends[4])


# ------------------------------------------------------------------------ language


def test_text_and_sizes() -> None:
    graph = element_wise(lambda x: Apply("fma", tuple(x)), 3, 4)
    text = format_graph(graph)
    assert "fma(a[i], b[i], c[i])" in text
    assert format_graph(parse_graph(text)) == text
    size = Cast(DType.INT, Apply("hypot", (Const(3.0, DType.REAL), Const(4.0, DType.REAL))))
    assert evaluate(size, {}) == 5


def test_the_number_of_arguments_and_their_types_are_checked() -> None:
    with pytest.raises(Illegal, match="1 arguments of `hypot`"):
        verify_graph(element_wise(lambda x: Apply("hypot", tuple(x)), 1, 3))
    with pytest.raises(Illegal, match="arguments of real and int"):
        verify_graph(element_wise(lambda x: Apply("atan2", (x[0], integer(1))), 1, 3))


# --------------------------------------------------------------------- derivatives


def partial(name: str, at: int, points: Sequence[Any]) -> Any:
    """A partial derivative at all points."""

    def compute(x: Sequence[Expr]) -> Expr:
        found = derivatives(cast(Function, name), x)[at]
        return Const(0.0, DType.REAL) if found is None else found

    return run(compute, *points)


@pytest.mark.parametrize("name", [n for n in ORACLES if n != "trigamma"])
def test_derivatives(name: str) -> None:
    """Against central differences of the oracle's values, save near jumps."""
    oracle = ORACLES[name]
    points = oracle.points(200, seed=3)
    for at in range(len(points)):
        step = 1e-5 * np.abs(points[at]).mean()
        sides = [[p + s * step * (k == at) for k, p in enumerate(points)] for s in (1, -1)]
        above, below = (oracle.function(*side) for side in sides)
        slope = (above - below) / (2 * step)
        got = partial(name, at, points)
        close = np.isclose(got, slope, 1e-3, 1e-6 * (1 + np.abs(above)))
        assert close.mean() > 0.97, at


def test_derivatives_at_zero() -> None:
    assert [float(partial(n, 0, [[0.0]])[0]) for n in ("j1", "i1", "abs")] == [0.5, 0.5, 0.0]
    ends = partial("fmax", 0, [[1.0, 1.0, NAN, 2.0], [NAN, 2.0, 1.0, 2.0]])
    assert ends.tolist() == [1, 0, 0, 1]


def test_the_derivative_of_trigamma_is_no_zero() -> None:
    with pytest.raises(Error, match="E0805"):
        partial("trigamma", 0, [[1.0]])
