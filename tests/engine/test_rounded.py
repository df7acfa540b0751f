"""Reals that are rounded and become integers, where bounds of the formula are known and where not:
against NumPy, at halves and their neighbours, at limits, and for what is no number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest

import ricci
from ricci.dtypes import DType
from ricci.ir.nodes import Binary, Cast, Const, Expr, Local, Select
from ricci.passes.ranges import Ranges

from .assembly import innermost
from .running import runnable_targets

Array = np.ndarray


def _literal(x: Array, value: float) -> Array:
    """A number as it is written in a program: one of float32."""
    return np.asarray(np.float32(value), x.dtype)


FORMULAS: dict[str, Callable[[Array], Array]] = {
    "X(i)": lambda x: x,
    "X(i) / 0.3": lambda x: x / _literal(x, 0.3),
    "(X(i) < 0 ? 0 : fmin(X(i), 6)) / 0.025": lambda x: (
        np.where(x < 0, _literal(x, 0), np.fmin(x, _literal(x, 6))) / _literal(x, 0.025)
    ),
    "fmin(fmax(X(i), -3), 3) / 0.0234": lambda x: (
        np.fmin(np.fmax(x, _literal(x, -3)), _literal(x, 3)) / _literal(x, 0.0234)
    ),
    "(X(i) > 2.5 ? 2.5 : X(i))": lambda x: np.where(x > 2.5, _literal(x, 2.5), x),
    "(0 <= X(i) ? X(i) : -0.25)": lambda x: np.where(x >= 0, x, _literal(x, -0.25)),
    "fmax(X(i), 0) / 0.0": lambda x: np.fmax(x, _literal(x, 0)) / _literal(x, 0),
    "fmax(X(i), 1) / 1e-40": lambda x: np.fmax(x, _literal(x, 1)) / _literal(x, 1e-40),
    "(X(i) * 0 + 1)": lambda x: x * 0 + 1,
}


def _arguments(dtype: str) -> Array:
    """Halves, what is next to them, limits of types, and what is no number."""
    kind = np.dtype(dtype).type
    limits = [2.0**n for n in (7, 8, 15, 16, 31, 32, 100)]
    whole = np.concatenate([np.arange(-300, 301) / 2, limits, [-x for x in limits]]).astype(dtype)
    by = np.concatenate([whole * kind(np.float32(s)) for s in (1, 0.3, 0.025, 0.0234)])
    ends = [np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(dtype).max, np.finfo(dtype).tiny]
    near = [np.nextafter(by, kind(s)) for s in (-np.inf, np.inf)]
    return np.concatenate([by, *near, np.array(ends, dtype)])


def _away(x: Array) -> Array:
    """Half away from zero."""
    away = np.where(np.abs(x) < 2.0**40, np.copysign(np.floor(np.abs(x)), x), x)
    return away + np.where(np.abs(x - away) >= 0.5, np.copysign(1, x), 0)


def _as_integers(whole: Array, to: str) -> Array:
    """Limited; 0 for what is no number."""
    kept = np.clip(np.nan_to_num(np.trunc(whole), nan=0.0), np.iinfo(to).min, np.iinfo(to).max)
    return np.where(kept >= np.iinfo(to).max, np.iinfo(to).max, kept.astype(np.float64)).astype(to)


@pytest.mark.parametrize("to", ["uint8", "int8", "uint16", "int16", "int32"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_rounded_to_integers(formula: str, to: str) -> None:
    for kind, dtype in (("float", "float32"), ("double", "float64")):
        x = _arguments(dtype)
        with np.errstate(all="ignore"):
            want = _as_integers(_away(FORMULAS[formula](x).astype(np.float64)), to)
        text = f"def f({kind}(N) X) -> (Y) {{ Y(i) = {to}(round({formula})) }}"
        model = ricci.parse(text, "tc")
        for target in (*runnable_targets(), "interpreter"):
            np.testing.assert_array_equal(model.compile(target=target)(x), want, target)


LIMITS: dict[str, Callable[[Array], Array]] = {
    "min(max(round({}), 0), 255)": lambda x: np.minimum(np.maximum(x, 0), 255),
    "min(max(round({}), -127), 127)": lambda x: np.minimum(np.maximum(x, -127), 127),
    "max(-128, min(round({}), 100))": lambda x: np.maximum(-128, np.minimum(x, 100)),
    "max(min(round({}), -3), -100)": lambda x: np.maximum(np.minimum(x, -3), -100),
    "min(max(round({}), 2), 1)": lambda x: np.minimum(np.maximum(x, 2), 1),
    "min(round({}), 70000)": lambda x: np.minimum(x, 70000),
    "min(max(round({}), -1.5), 2.5)": lambda x: np.minimum(np.maximum(x, -1.5), 2.5),
}


@pytest.mark.parametrize("to", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("limits", LIMITS)
def test_rounded_and_limited(limits: str, to: str) -> None:
    """Limits of what is rounded, inside and outside those of the type; NaN stays NaN until it is
    converted."""
    for kind, dtype in (("float", "float32"), ("double", "float64")):
        x = _arguments(dtype)
        formulas = ["X(i)", "(X(i) < 0 ? 0 : X(i)) / 0.0234", "X(i) / 0.3", "X(i) / -0.025"]
        for formula in formulas:
            model = ricci.parse(
                f"def f({kind}(N) X) -> (Y) {{ Y(i) = {to}({limits.format(formula)}) }}", "tc"
            )
            step = _literal(x, float(formula.rpartition(" ")[2]) if "/" in formula else 1)
            with np.errstate(all="ignore"):
                real = (np.where(x < 0, _literal(x, 0), x) if "<" in formula else x) / step
                want = _as_integers(LIMITS[limits](_away(real.astype(np.float64))), to)
            for target in (*runnable_targets(), "interpreter"):
                np.testing.assert_array_equal(model.compile(target=target)(x), want, target)


def test_limits_of_a_quotient_are_those_of_what_is_divided() -> None:
    """So nothing has to be known of it, and nothing is limited twice."""
    text = "int16(min(max(round((X(i) < 0 ? 0 : X(i)) / 0.0234), 0), 255))"
    model = ricci.parse(f"def f(float(4096) X) -> (Y) {{ Y(i) = {text} }}", "tc")
    loops = innermost(model.show("asm", target="x86-64-v3"))
    for name, count in ((r"^vmaxps", 1), (r"^vminps", 1), (r"^vroundps|^vblendv|^vcmp", 0)):
        # as often as numbers are converted
        assert all(x.count(name) == count * x.count(r"^vcvttps2dq") for x in loops)
    assert any(x.count(r"^vcvttps2dq") for x in loops)


def test_what_a_conversion_does_anyway_is_left_out() -> None:
    text = "def f(float(4096) X) -> (Y) {{ Y(i) = int8(round({} / 0.075)) }}"
    bounded, free = (
        ricci.parse(text.format(x), "tc").show("asm", target="x86-64-v4")
        for x in ("(X(i) < 0 ? 0 : fmin(X(i), 6))", "X(i)")
    )
    for asm in (bounded, free):  # neither truncated first, nor infinite
        assert not any(x.count(r"^vrndscaleps|^vfixupimm") for x in innermost(asm))
    for name in (r"^vpternlog", r"^vminps"):
        assert any(x.count(name) for x in innermost(free))
        assert not any(x.count(name) for x in innermost(bounded))


# ---------------------------------------------------------------------- bounds


def _real(value: float) -> Const:
    return Const(value, DType.FLOAT32)


def _test(op: Literal["lt", "le", "gt", "ge", "eq"], x: Expr, limit: float) -> Binary:
    return Binary(op, x, _real(limit))


def _bounds(expr: Expr, **options: object) -> tuple[float, float]:
    low, high = Ranges((), **options).of(expr)  # type: ignore[arg-type]
    return float(low), float(high)


def test_bounds_of_what_a_comparison_tells() -> None:
    x = Local("x", _real(1.0))
    known = {"unknown": {x}}
    zero = _real(0.0)
    for above in (_test("gt", x, 0.0), _test("ge", x, 0.0)):
        assert _bounds(Select(above, x, zero), **known) == (0, np.inf)
        assert _bounds(Select(above, zero, x), **known) == (-np.inf, 0)
    for below in (_test("lt", x, 0.0), _test("le", x, 0.0)):
        assert _bounds(Select(below, zero, x), **known) == (0, np.inf)
        assert _bounds(Select(below, x, zero), **known) == (-np.inf, 0)
    turned = Select(Binary("gt", _real(2.0), x), _real(3.0), x)
    assert _bounds(turned, **known) == (2, np.inf)
    assert _bounds(Select(_test("eq", x, 0.0), x, _real(1.0)), **known)[1] == np.inf
    assert _bounds(Select(_test("lt", x, np.nan), x, _real(1.0)), **known)[1] == np.inf
    assert _bounds(x) == (1, 1)


def test_bounds_hold_for_what_is_rounded() -> None:
    x = Local("x", _real(1.0))
    clamped = Binary("min", Binary("max", x, _real(0.0)), _real(6.0))
    total: Expr = clamped
    for _ in range(10):
        total = Binary("add", Binary("mul", total, _real(0.1)), _real(0.3))
    low, high = _bounds(total, unknown={x}, rounds=True)
    for value in (0.0, 6.0):
        found = np.float32(value)
        for _ in range(10):
            found = found * np.float32(0.1) + np.float32(0.3)
        assert low <= found <= high
    assert high - low < 1e-5
    tenth = Select(_test("lt", x, 0.1), x, _real(0.0))
    assert _bounds(tenth, unknown={x}, rounds=True)[1] >= float(np.float32(0.1)) > 0.1
    number = Local("n", Const(0, DType.INT32))
    whole = Cast(DType.FLOAT32, number)
    assert _bounds(whole, unknown={number}, rounds=True)[1] >= 2.0**31


def test_no_condition_is_known_that_may_be_one_of_nan() -> None:
    x = Local("x", _real(1.0))
    nothing = Binary("eq", Binary("mul", x, _real(0.0)), _real(0.0))
    chosen = Select(nothing, _real(1.0), _real(1000.0))
    assert _bounds(chosen, unknown={x}, rounds=True) == (1, 1000)
