"""The built-in functions of the language, in the interpreter and in native code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ricci.frontends.tc.builtins import ARGUMENTS, compose
from ricci.ir.interpret import interpret
from ricci.ir.verify import verify_graph
from ricci.runtime.executable import compile_graph

from ..ir.function_oracles import ORACLES, Oracle, element_wise, special

THREE, FOUR = ((-5.0, 5.0),) * 3, ((-5.0, 5.0),) * 4


def _norm(*parts: Any) -> Any:
    return np.linalg.norm(np.stack(parts), axis=0)


def _inverse(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: 1 / function(*arguments)


COMPOSED = {
    "fabs": ORACLES["abs"],
    "fdivide": Oracle(np.divide, ((-5, 5), (1, 5))),
    "pow": Oracle(np.power, ((0.1, 5), (-5, 5))),
    "rsqrt": Oracle(_inverse(np.sqrt), ((0.01, 50),)),
    "rcbrt": Oracle(_inverse(np.cbrt), ((-50, 50),)),
    "rhypot": Oracle(_inverse(np.hypot), THREE[:2]),
    "norm3d": Oracle(_norm, THREE),
    "norm4d": Oracle(_norm, FOUR),
    "rnorm3d": Oracle(_inverse(_norm), THREE),
    "rnorm4d": Oracle(_inverse(_norm), FOUR),
    "normcdfinv": Oracle(special.ndtri, ((0.0, 0.4),)),
    "cyl_bessel_i0": ORACLES["i0"],
    "cyl_bessel_i1": ORACLES["i1"],
}
ALL = {name: COMPOSED[name] if name in COMPOSED else ORACLES[name] for name in ARGUMENTS}


def test_there_are_as_many_as_the_language_has() -> None:
    assert len(ARGUMENTS) == 64
    assert {name: len(oracle.domains) for name, oracle in ALL.items()} == ARGUMENTS


def both(name: str, real: str, *arrays: Any) -> tuple[Any, Any]:
    """What the interpreter gives, and native code."""
    graph = element_wise(lambda x: compose(name, x), len(arrays), len(arrays[0]))
    verify_graph(graph)
    inputs = {n: np.asarray(a, real) for n, a in zip("abcd", arrays, strict=False)}
    native = compile_graph(graph, real=real, threads=1)
    return interpret(graph, inputs, real=real)["y"], native(**inputs)


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("real", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_function(name: str, real: str) -> None:
    points = [p.astype(real) for p in ALL[name].points(37)]
    if name == "nextafter":
        wanted = np.nextafter(*points)
    else:
        wanted = ALL[name].function(*[p.astype(np.float64) for p in points]).astype(real)
    error = 1e-13 if real == "float64" else 5e-7
    for got in both(name, real, *points):
        np.testing.assert_allclose(got, wanted, error, error if ALL[name].absolute else 0)


@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_lengths_do_not_overflow() -> None:
    large = [[3e300, np.inf, 0.0], [4e300, np.nan, 0.0], [0.0, 1.0, 0.0], [12e300, 0.0, 0.0]]
    for got in both("norm4d", "float64", *large):
        np.testing.assert_allclose(got, [1.3e301, np.inf, 0.0])
    for got in both("rnorm3d", "float64", *large[:3]):
        np.testing.assert_allclose(got, [2e-301, 0.0, np.inf])


@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_quantiles_of_the_normal_distribution() -> None:
    p = np.array([0.0, 1.0, 0.5, -0.1, 1.1, 1e-300, 1 - 1e-16, 0.975])
    for got in both("normcdfinv", "float64", p):
        np.testing.assert_allclose(got, special.ndtri(p), 1e-13, 1e-16)
