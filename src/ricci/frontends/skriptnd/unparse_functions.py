"""Functions of the IR that the language lacks, by those that it has.

Only formulas that are about as exact: `1 - erf(x)` is no `erfc(x)` where that is small.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.nodes import Apply, Binary, BinaryOp, Const, Expr, Function, Select, Unary
from ...ir.rewrite import walk

_DEEPEST = 4
"""How many of these functions may stand in the arguments of another one."""


def formula(node: Apply) -> Expr | None:
    """An expression for a function that has no name in the language, if there is one.

    There is none for many that stand in one another: their arguments occur several times.
    """
    found = _FORMULAS.get(node.function)
    inside = [x for x in walk(*node.arguments) if isinstance(x, Apply)]
    if found is None or sum(x.function in _FORMULAS for x in inside) > _DEEPEST:
        return None
    return found(*node.arguments)


def _number(value: float, like: Expr) -> Const:
    return Const(value, like.dtype)


def _call(function: Function, x: Expr) -> Expr:
    return Apply(function, (x,))


def _by(op: BinaryOp, value: float) -> Callable[[Expr], Expr]:
    return lambda x: Binary(op, x, _number(value, x))


def _power_of(base: float) -> Callable[[Expr], Expr]:
    return lambda x: Binary("pow", _number(base, x), x)


def _logarithm(base: float) -> Callable[[Expr], Expr]:
    return lambda x: Binary("mul", _call("log", x), _number(1 / math.log(base), x))


def _expm1(x: Expr) -> Expr:
    half = _by("mul", 0.5)(x)
    near = Binary("mul", _call("sinh", half), _call("exp", half))
    far = _by("sub", 1.0)(_call("exp", x))
    return Select(_is_small(x), _by("mul", 2.0)(near), far)


def _log1p(x: Expr) -> Expr:
    near = _call("atanh", Binary("div", x, _by("add", 2.0)(x)))
    far = _call("log", _by("add", 1.0)(x))
    return Select(_is_small(x), _by("mul", 2.0)(near), far)


def _is_small(x: Expr) -> Expr:
    return _by("lt", 0.5)(_call("abs", x))


def _cbrt(x: Expr) -> Expr:
    root = Binary("pow", _call("abs", x), _number(1 / 3, x))
    return Binary("mul", _call("sign", x), root)


def _hypot(x: Expr, y: Expr) -> Expr:
    return _call("sqrt", Binary("add", Binary("mul", x, x), Binary("mul", y, y)))


def _half_turns(function: Function) -> Callable[[Expr], Expr]:
    def value(x: Expr) -> Expr:
        turns = _by("mul", 2.0)(_call("round", _by("mul", 0.5)(x)))
        return _call(function, _by("mul", math.pi)(Binary("sub", x, turns)))

    return value


def _atan2(y: Expr, x: Expr) -> Expr:
    flat, zero = _by("eq", 0.0)(y), _by("eq", 0.0)(x)
    angle = Select(zero, y, _call("atan", Binary("div", y, x)))
    turn = Select(_has_minus(y), _number(-math.pi, y), _number(math.pi, y))
    turned = Select(_has_minus(x), Binary("add", angle, turn), angle)
    upright = _by("mul", math.pi / 2)(_call("sign", y))
    return Select(Binary("and", zero, Unary("not", flat)), upright, turned)


def _has_minus(x: Expr) -> Expr:
    """Whether x is below zero, or -0."""
    return Binary("or", _by("lt", 0.0)(x), _by("lt", 0.0)(Binary("div", _number(1.0, x), x)))


def _fmod(x: Expr, y: Expr) -> Expr:
    rest = Binary("mod", _call("abs", x), _call("abs", y))
    return Binary("mul", _call("sign", x), rest)


def _copysign(x: Expr, y: Expr) -> Expr:
    size = _call("abs", x)
    return Select(_has_minus(y), Unary("neg", size), size)


def _first_of(op: BinaryOp) -> Callable[[Expr, Expr], Expr]:
    def value(x: Expr, y: Expr) -> Expr:
        return Select(Binary("or", Binary(op, y, x), Binary("ne", x, x)), y, x)

    return value


def _fdim(x: Expr, y: Expr) -> Expr:
    return Select(Binary("le", x, y), _number(0.0, x), Binary("sub", x, y))


_FORMULAS: dict[str, Callable[..., Expr]] = {
    "exp2": _power_of(2.0),
    "exp10": _power_of(10.0),
    "expm1": _expm1,
    "log2": _logarithm(2.0),
    "log10": _logarithm(10.0),
    "log1p": _log1p,
    "cbrt": _cbrt,
    "hypot": _hypot,
    "trunc": lambda x: Binary("mul", _call("sign", x), _call("floor", _call("abs", x))),
    "sinpi": _half_turns("sin"),
    "cospi": _half_turns("cos"),
    "atan2": _atan2,
    "fma": lambda x, y, z: Binary("add", Binary("mul", x, y), z),
    "fmod": _fmod,
    "copysign": _copysign,
    "fmax": _first_of("gt"),
    "fmin": _first_of("lt"),
    "fdim": _fdim,
}
