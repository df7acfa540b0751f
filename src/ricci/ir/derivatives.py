"""The partial derivatives of the built-in functions, as expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..diagnostics import error
from .nodes import Apply, Binary, BinaryOp, Const, Expr, Function, Select, Unary

Partials = tuple[Expr | None, ...]
"""One for each argument; none where the derivative is zero wherever there is one."""


def derivatives(function: Function, arguments: Sequence[Expr]) -> Partials:
    """The partial derivatives of a function of reals at its arguments.

    `abs` has the derivative 0 at 0. Raises E0805 for `trigamma`, which has none in the language.
    """
    one = _ONE.get(function)
    if one is not None:
        return (one(_Real(arguments[0])).expr,)
    several = _SEVERAL.get(function)
    if several is not None:
        return several(*[_Real(a) for a in arguments])
    if function in _CONSTANT:
        return (None,)
    raise error("E0805", f"the derivative of `{function}` is not available")


class _Real:
    """An expression with Python's operators."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def number(self, value: float) -> _Real:
        """A literal of the same dtype."""
        return _Real(Const(value, self.expr.dtype))

    def _other(self, other: _Real | float) -> Expr:
        return other.expr if isinstance(other, _Real) else Const(other, self.expr.dtype)

    def __add__(self, other: _Real | float) -> _Real:
        return _Real(Binary("add", self.expr, self._other(other)))

    def __sub__(self, other: _Real | float) -> _Real:
        return _Real(Binary("sub", self.expr, self._other(other)))

    def __rsub__(self, other: float) -> _Real:
        return _Real(Binary("sub", self._other(other), self.expr))

    def __mul__(self, other: _Real | float) -> _Real:
        return _Real(Binary("mul", self.expr, self._other(other)))

    def __rmul__(self, other: float) -> _Real:
        return _Real(Binary("mul", self._other(other), self.expr))

    def __truediv__(self, other: _Real | float) -> _Real:
        return _Real(Binary("div", self.expr, self._other(other)))

    def __rtruediv__(self, other: float) -> _Real:
        return _Real(Binary("div", self._other(other), self.expr))

    def __neg__(self) -> _Real:
        return _Real(Unary("neg", self.expr))

    def to(self, function: Function, *others: _Real) -> _Real:
        """The value of a function."""
        return _Real(Apply(function, (self.expr, *[x.expr for x in others])))

    def squared(self) -> _Real:
        return self * self


def _bell(x: _Real, factor: float) -> _Real:
    """`factor * exp(-x * x)`."""
    return factor * (-x.squared()).to("exp")


def _erfcx(x: _Real) -> _Real:
    return 2.0 * (x * x.to("erfcx")) - 2 / math.sqrt(math.pi)


def _bessel(x: _Real, zeroth: Function, first: Function, at_zero: float) -> _Real:
    """The derivative of a Bessel function of order 1; of J and I it is 1/2 at 0."""
    value = x.to(zeroth) - x.to(first) / x
    at = Binary("eq", x.expr, x.number(0.0).expr)
    return _Real(Select(at, x.number(at_zero).expr, value.expr))


def _product(x: _Real) -> _Real:
    """`1 - x * x` without cancellation."""
    return (1.0 - x) * (x + 1.0)


_ONE: dict[Function, Callable[[_Real], _Real]] = {
    "abs": lambda x: x.to("sign"),
    "frac": lambda x: x.number(1.0),
    "sqrt": lambda x: 0.5 / x.to("sqrt"),
    "cbrt": lambda x: (1 / 3) / x.to("cbrt").squared(),
    "exp": lambda x: x.to("exp"),
    "exp2": lambda x: x.to("exp2") * math.log(2),
    "exp10": lambda x: x.to("exp10") * math.log(10),
    "expm1": lambda x: x.to("exp"),
    "log": lambda x: 1.0 / x,
    "log2": lambda x: (1 / math.log(2)) / x,
    "log10": lambda x: (1 / math.log(10)) / x,
    "log1p": lambda x: 1.0 / (x + 1.0),
    "sin": lambda x: x.to("cos"),
    "cos": lambda x: -x.to("sin"),
    "tan": lambda x: x.to("tan").squared() + 1.0,
    "sinpi": lambda x: x.to("cospi") * math.pi,
    "cospi": lambda x: x.to("sinpi") * -math.pi,
    "asin": lambda x: 1.0 / _product(x).to("sqrt"),
    "acos": lambda x: -1.0 / _product(x).to("sqrt"),
    "atan": lambda x: 1.0 / (x.squared() + 1.0),
    "sinh": lambda x: x.to("cosh"),
    "cosh": lambda x: x.to("sinh"),
    "tanh": lambda x: 1.0 - x.to("tanh").squared(),
    "asinh": lambda x: 1.0 / x.to("hypot", x.number(1.0)),
    "acosh": lambda x: 1.0 / ((x - 1.0).to("sqrt") * (x + 1.0).to("sqrt")),
    "atanh": lambda x: 1.0 / _product(x),
    "erf": lambda x: _bell(x, 2 / math.sqrt(math.pi)),
    "erfc": lambda x: _bell(x, -2 / math.sqrt(math.pi)),
    "erfcx": _erfcx,
    "erfinv": lambda x: (math.sqrt(math.pi) / 2) * x.to("erfinv").squared().to("exp"),
    "erfcinv": lambda x: (-math.sqrt(math.pi) / 2) * x.to("erfcinv").squared().to("exp"),
    "normcdf": lambda x: (1 / math.sqrt(2 * math.pi)) * (x.squared() * -0.5).to("exp"),
    "tgamma": lambda x: x.to("tgamma") * x.to("digamma"),
    "lgamma": lambda x: x.to("digamma"),
    "digamma": lambda x: x.to("trigamma"),
    "j0": lambda x: -x.to("j1"),
    "j1": lambda x: _bessel(x, "j0", "j1", 0.5),
    "y0": lambda x: -x.to("y1"),
    "y1": lambda x: _bessel(x, "y0", "y1", math.inf),
    "i0": lambda x: x.to("i1"),
    "i1": lambda x: _bessel(x, "i0", "i1", 0.5),
}


def _hypot(x: _Real, y: _Real) -> Partials:
    length = x.to("hypot", y)
    return (x / length).expr, (y / length).expr


def _atan2(y: _Real, x: _Real) -> Partials:
    length = x.to("hypot", y)
    return (x / length / length).expr, (-y / length / length).expr


def _first_of(op: BinaryOp) -> Callable[[_Real, _Real], Partials]:
    """Of `fmax` and `fmin`, which give y where `y op x`, or where x is NaN."""

    def partials(x: _Real, y: _Real) -> Partials:
        second = Binary("or", Binary(op, y.expr, x.expr), Binary("ne", x.expr, x.expr))
        one, zero = x.number(1.0).expr, x.number(0.0).expr
        return Select(second, zero, one), Select(second, one, zero)

    return partials


def _fdim(x: _Real, y: _Real) -> Partials:
    above = Binary("gt", x.expr, y.expr)
    one, zero = x.number(1.0).expr, x.number(0.0).expr
    return Select(above, one, zero), Select(above, x.number(-1.0).expr, zero)


def _fmod(x: _Real, y: _Real) -> Partials:
    return x.number(1.0).expr, (-(x / y).to("trunc")).expr


def _remainder(x: _Real, y: _Real) -> Partials:
    times = (x - x.to("remainder", y)) / y
    return x.number(1.0).expr, (-times.to("round")).expr


def _copysign(x: _Real, y: _Real) -> Partials:
    one = x.number(1.0)
    return (one.to("copysign", x) * one.to("copysign", y)).expr, None


_SEVERAL: dict[Function, Callable[..., Partials]] = {
    "hypot": _hypot,
    "atan2": _atan2,
    "fdim": _fdim,
    "fmax": _first_of("gt"),
    "fmin": _first_of("lt"),
    "fmod": _fmod,
    "remainder": _remainder,
    "copysign": _copysign,
    "nextafter": lambda x, y: (x.number(1.0).expr, None),
    "fma": lambda x, y, z: (y.expr, x.expr, x.number(1.0).expr),
}

_CONSTANT: frozenset[Function] = frozenset({"sign", "round", "floor", "ceil", "trunc", "logb"})
"""Constant but for jumps."""
