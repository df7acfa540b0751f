"""The built-in functions of the language as expressions of the intermediate representation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

from ...ir.nodes import Apply, Binary, Const, Expr, Function


def compose(name: str, arguments: Sequence[Expr]) -> Expr:
    """The value of a built-in function; the arguments are as many as `ARGUMENTS` says, all of
    one real dtype, which is that of the result."""
    composed = _COMPOSED.get(name)
    if composed is not None:
        return composed(*arguments)
    assert name in ARGUMENTS, name
    return _call(_FUNCTIONS.get(name, cast(Function, name)), *arguments)


def _call(function: Function, *arguments: Expr) -> Expr:
    return Apply(function, arguments)


def _number(value: float, like: Expr) -> Const:
    return Const(value, like.dtype)


def _inverse(x: Expr) -> Expr:
    return Binary("div", _number(1.0, x), x)


def _length(*parts: Expr) -> Expr:
    """The norm of a vector, in pairs: nothing overflows on the way."""
    if len(parts) == 1:
        return parts[0]
    half = (len(parts) + 1) // 2
    return _call("hypot", _length(*parts[:half]), _length(*parts[half:]))


def _inverse_length(*parts: Expr) -> Expr:
    return _inverse(_length(*parts))


def _normal_quantile(p: Expr) -> Expr:
    twice = Binary("mul", _number(2.0, p), p)
    return Binary("mul", _number(-math.sqrt(2), p), _call("erfcinv", twice))


_COMPOSED: dict[str, Callable[..., Expr]] = {
    "fdivide": lambda x, y: Binary("div", x, y),
    "pow": lambda x, y: Binary("pow", x, y),
    "rsqrt": lambda x: _inverse(_call("sqrt", x)),
    "rcbrt": lambda x: _inverse(_call("cbrt", x)),
    "rhypot": _inverse_length,
    "norm3d": _length,
    "norm4d": _length,
    "rnorm3d": _inverse_length,
    "rnorm4d": _inverse_length,
    "normcdfinv": _normal_quantile,
}

_FUNCTIONS: dict[str, Function] = {
    "fabs": "abs",
    "cyl_bessel_i0": "i0",
    "cyl_bessel_i1": "i1",
}
"""The functions whose names in the representation are others."""

ARGUMENTS: dict[str, int] = {
    **dict.fromkeys(
        "acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf "
        "erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs floor j0 j1 lgamma log log10 log1p "
        "log2 logb normcdf normcdfinv rcbrt round rsqrt sin sinh sinpi sqrt tan tanh tgamma trunc "
        "y0 y1".split(),
        1,
    ),
    **dict.fromkeys(
        "atan2 copysign fdim fdivide fmax fmin fmod hypot nextafter pow remainder rhypot".split(), 2
    ),
    "fma": 3, "norm3d": 3, "rnorm3d": 3, "norm4d": 4, "rnorm4d": 4,
}  # fmt: skip
"""All built-in functions, with their numbers of arguments."""
