"""Functions that the language has no names for, as formulas."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

import ricci
from ricci.frontends.skriptnd.parser_primaries import BUILTINS
from ricci.frontends.skriptnd.unparse import unparse_graph
from ricci.ir.functions import ARITY
from ricci.ir.interpret import interpret
from ricci.ir.nodes import Apply, Expr, Function

from ..ir.function_oracles import ORACLES, SPECIAL_VALUES, element_wise

UNSAYABLE = {
    "erfc", "erfcx", "erfinv", "erfcinv", "normcdf", "tgamma", "lgamma", "digamma", "trigamma",
    "j0", "j1", "y0", "y1", "i0", "i1", "remainder", "nextafter", "logb",
}  # fmt: skip
SAYABLE = sorted(set(ARITY) - BUILTINS - UNSAYABLE)


def _applied(name: str, count: int) -> str:
    """The text of a graph that applies a function."""
    function = cast(Function, name)
    graph = element_wise(lambda x: Apply(function, tuple(x)), ARITY[name], count)
    return unparse_graph(graph)


@pytest.mark.parametrize("name", SAYABLE)
@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_formula(name: str) -> None:
    oracle = ORACLES[name]
    points = oracle.points(50)
    special = [a.ravel() for a in np.meshgrid(*[SPECIAL_VALUES[:14]] * len(points))]
    arrays = [np.append(a, b) for a, b in zip(points, special, strict=True)]
    text = _applied(name, len(arrays[0]))
    graph = ricci.parse(text).graph
    inputs = {p.name: a for p, a in zip(graph.inputs, arrays, strict=True)}
    got = interpret(graph, inputs, real="float64")["y"]
    usual = np.isfinite(got)
    wanted = oracle.function(*arrays)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_allclose(got, wanted, 1e-14, 1e-15)
    assert usual.sum() > 50


@pytest.mark.parametrize("name", sorted(UNSAYABLE))
def test_there_is_no_formula(name: str) -> None:
    with pytest.raises(ricci.Error, match=f"E0706.*no words for the function `{name}`"):
        _applied(name, 3)


def test_many_in_one_another() -> None:
    def deep(x: Expr, levels: int) -> Expr:
        return x if levels == 0 else Apply("log1p", (deep(x, levels - 1),))

    assert "atanh" in unparse_graph(element_wise(lambda x: deep(x[0], 5), 1, 3))
    with pytest.raises(ricci.Error, match="E0706"):
        unparse_graph(element_wise(lambda x: deep(x[0], 60), 1, 3))
