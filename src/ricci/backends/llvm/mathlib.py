"""The built-in functions of scalars as LLVM instructions, scalar or vector.

Functions of float32 that are not worth a version of their own are computed in float64, those of
float16 and bfloat16 in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dtypes import DType
from ...ir.special import SPECIAL
from . import mathlib_angles as angles
from . import mathlib_bits as bits
from . import mathlib_exp, mathlib_special
from .builder import Builder
from .mathlib_core import Reals

EXP_BELOW = "exp of what is at most zero"
"""What `function` calls `exp` if its argument is known to be at most zero, or NaN."""


def function(b: Builder, name: str, arguments: Sequence[str], dtype: DType, lanes: int) -> str:
    """The value of a built-in function; the arguments are of one dtype."""
    if dtype.is_int:
        return _of_integer(b, name, arguments[0], dtype, lanes)
    if dtype is DType.BFLOAT16:
        return _of_bfloat16(b, name, arguments, lanes)
    return _of_reals(Reals(b, dtype, lanes), name, arguments)


def _of_bfloat16(b: Builder, name: str, arguments: Sequence[str], lanes: int) -> str:
    from .emit_arith import cast

    single = Reals(b, DType.FLOAT32, lanes)
    wide = [cast(b, x, DType.BFLOAT16, DType.FLOAT32, lanes) for x in arguments]
    value = _of_reals(single, name, wide)
    if name == "nextafter":
        value = bits.beyond(single, wide[0], value)
    return cast(b, value, DType.FLOAT32, DType.BFLOAT16, lanes)


def _of_reals(r: Reals, name: str, arguments: Sequence[str]) -> str:
    direct = _DIRECT.get(name)
    if direct is not None:
        return direct(r, *arguments)
    if r.dtype is DType.FLOAT16:
        return _through(r, DType.FLOAT32, name, arguments)
    single = _SINGLE.get(name)
    if single is not None:
        return single(r, *arguments)
    if r.dtype is DType.FLOAT32:
        return _through(r, DType.FLOAT64, name, arguments)
    if name in SPECIAL:
        return mathlib_special.value(r, _of_reals, name, arguments)
    return _DOUBLE[name](r, *arguments)


def _through(r: Reals, dtype: DType, name: str, arguments: Sequence[str]) -> str:
    wide = Reals(r.b, dtype, r.lanes)
    value = _of_reals(wide, name, [r.converted(x, wide) for x in arguments])
    return wide.converted(value, r)


def _of_integer(b: Builder, name: str, x: str, dtype: DType, lanes: int) -> str:
    """`abs`, `sign`, and the roundings, which leave an integer as it is."""
    from .emit_types import is_signed, scalar_type, splat, tag, vector_type, with_lanes

    type, bits = vector_type(dtype, lanes), with_lanes("i1", lanes)
    zero = splat("0", scalar_type(dtype), lanes)
    if name == "abs" and is_signed(dtype):
        arguments = f"{type} {x}, i1 false"
        called = f"llvm.abs.{tag(scalar_type(dtype), lanes)}"
        b.declare(f"declare {type} @{called}({type}, i1)")
        return b.pure(f"call {type} @{called}({arguments})", x)
    if name == "sign":
        test = "sgt" if is_signed(dtype) else "ugt"
        positive = b.pure(f"icmp {test} {type} {x}, {zero}", x)
        up = b.pure(f"zext {bits} {positive} to {type}", positive)
        if not is_signed(dtype):
            return up
        negative = b.pure(f"icmp slt {type} {x}, {zero}", x)
        down = b.pure(f"zext {bits} {negative} to {type}", negative)
        return b.pure(f"sub {type} {up}, {down}", up, down)
    assert name in ("abs", "round", "floor", "ceil"), f"{name} of integers"
    return x


def rounded(b: Builder, name: str, x: str, dtype: DType, lanes: int) -> str:
    """`floor`, `ceil` or `trunc`."""
    return Reals(b, dtype, lanes).intrinsic(name, x)


_DIRECT: dict[str, Callable[..., str]] = {
    "abs": Reals.abs,
    "sqrt": Reals.sqrt,
    "sign": bits.sign,
    "round": bits.round_half_away,
    "frac": bits.frac,
    "floor": lambda r, x: r.intrinsic("floor", x),
    "ceil": lambda r, x: r.intrinsic("ceil", x),
    "trunc": lambda r, x: r.intrinsic("trunc", x),
    "copysign": Reals.with_sign,
    "nextafter": bits.nextafter,
    "fmax": bits.fmax,
    "fmin": bits.fmin,
    "fdim": bits.fdim,
}
"""Right in every type as they stand."""

_SINGLE: dict[str, Callable[..., str]] = {
    "exp": mathlib_exp.exp,
    EXP_BELOW: mathlib_exp.exp_below,
    "exp2": mathlib_exp.exp2,
    "exp10": mathlib_exp.exp10,
    "expm1": mathlib_exp.expm1,
    "log": mathlib_exp.log,
    "log1p": mathlib_exp.log1p,
    "log2": mathlib_exp.log2,
    "cbrt": mathlib_exp.cbrt,
    "hypot": mathlib_exp.hypot,
    "tanh": mathlib_exp.tanh,
    "erf": mathlib_special.erf,
    "fma": Reals.exact_fma,
    "fmod": bits.fmod,
    "logb": bits.logb,
}
"""Functions with a version in single precision, and one in double precision."""

_DOUBLE: dict[str, Callable[..., str]] = {
    "log10": mathlib_exp.log10,
    "sin": angles.circular(False),
    "cos": angles.circular(True),
    "tan": angles.tan,
    "sinpi": angles.sinpi,
    "cospi": angles.cospi,
    "asin": angles.asin,
    "acos": angles.acos,
    "atan": angles.atan,
    "atan2": angles.atan2,
    "sinh": mathlib_exp.sinh,
    "cosh": mathlib_exp.cosh,
    "asinh": mathlib_exp.asinh,
    "acosh": mathlib_exp.acosh,
    "atanh": mathlib_exp.atanh,
}
"""Functions in double precision."""
