"""The functions of `ir.special` as LLVM instructions, and the error function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from ...dtypes import DType
from ...ir import special
from . import mathlib_picked as picked
from . import mathlib_tables as tables
from .mathlib_core import Reals
from .mathlib_exp import exp, power

Call = Callable[[Reals, str, Sequence[str]], str]
"""Gives the value of a built-in function."""


class _Value:
    """An operand with Python's operators."""

    def __init__(self, reals: Reals, text: str) -> None:
        self.r = reals
        self.text = text

    def _binary(self, op: str, x: Any, y: Any) -> _Value:
        return _Value(self.r, getattr(self.r, op)(_text(self.r, x), _text(self.r, y)))

    def _test(self, condition: str, other: Any) -> _Test:
        return _Test(self.r, self.r.test(condition, self.text, _text(self.r, other)))

    def __add__(self, other: Any) -> _Value:
        return self._binary("add", self, other)

    def __radd__(self, other: float) -> _Value:
        return self._binary("add", other, self)

    def __sub__(self, other: Any) -> _Value:
        return self._binary("sub", self, other)

    def __rsub__(self, other: float) -> _Value:
        return self._binary("sub", other, self)

    def __mul__(self, other: Any) -> _Value:
        return self._binary("mul", self, other)

    def __rmul__(self, other: float) -> _Value:
        return self._binary("mul", other, self)

    def __truediv__(self, other: Any) -> _Value:
        return self._binary("div", self, other)

    def __rtruediv__(self, other: float) -> _Value:
        return self._binary("div", other, self)

    def __neg__(self) -> _Value:
        return _Value(self.r, self.r.neg(self.text))

    def __lt__(self, other: Any) -> _Test:
        return self._test("olt", other)

    def __le__(self, other: Any) -> _Test:
        return self._test("ole", other)

    def __gt__(self, other: Any) -> _Test:
        return self._test("ogt", other)

    def __ge__(self, other: Any) -> _Test:
        return self._test("oge", other)


class _Test:
    def __init__(self, reals: Reals, text: str) -> None:
        self.r = reals
        self.text = text

    def __and__(self, other: Any) -> _Test:
        return _Test(self.r, self.r.both(self.text, other.text))


def _text(r: Reals, x: Any) -> str:
    return x.text if isinstance(x, _Value) else r.const(x)


class _Values:
    """The arithmetic of `ir.special` on operands."""

    def __init__(self, reals: Reals, call: Call) -> None:
        self.r = reals
        self._call = call

    def where(self, test: Any, then: Any, otherwise: Any) -> _Value:
        sides = _text(self.r, then), _text(self.r, otherwise)
        return _Value(self.r, self.r.select(test.text, *sides))

    def call(self, name: str, *arguments: Any) -> _Value:
        r, texts = self.r, [_text(self.r, x) for x in arguments]
        if name == "pow":
            return _Value(r, power(r.b, texts[0], texts[1], r.dtype, r.lanes))
        return _Value(r, self._call(r, name, texts))

    def polynomial(self, x: Any, coefficients: Sequence[float]) -> _Value:
        return _Value(self.r, self.r.polynomial(x.text, coefficients))


def value(r: Reals, call: Call, name: str, arguments: Sequence[str]) -> str:
    """A function of `ir.special`, of float64."""
    assert r.dtype is DType.FLOAT64, name
    arithmetic = cast(special.Arithmetic, _Values(r, call))
    operands = [cast(special.Real, _Value(r, x)) for x in arguments]
    return cast(_Value, special.SPECIAL[name](arithmetic, *operands)).text


def erf(r: Reals, x: str) -> str:
    size = r.abs(x)
    if r.bits == 32:
        return r.with_sign(picked.erf(r, size) if r.picks else _erf32(r, size), x)
    z = r.mul(size, size)
    near = r.mul(size, r.polynomial(z, tables.ERF64))
    return r.with_sign(r.select(r.test("olt", size, r.const(1.0)), near, _far_erf64(r, size)), x)


def _erf32(r: Reals, size: str) -> str:
    """`1 - 2 ** log2(erfc(x))`, as `(1 - 2**k) - 2**k * (2**t - 1)`: accurate at 0, as `k` is 0
    there. No division, and no choice between two ways."""
    least = r.at_most(size, 4.0)
    exponent = r.mul(least, r.split_polynomial(least, tables.LOG2_ERFC32))
    k, scale = r.nearest_power(exponent)
    t = r.sub(exponent, k)
    p = r.mul(t, r.split_polynomial(t, tables.EXP2M1_32))
    return r.fma(r.neg(scale), p, r.sub(r.const(1.0), scale))


def _far_erf64(r: Reals, size: str) -> str:
    far_size = r.clamp(size, 1.0, 6.0)
    scale, shift = tables.ERFC64_MAP
    t = r.div(r.const(scale), r.add(far_size, r.const(3.0)))
    tail = r.polynomial(r.add(t, r.const(shift)), tables.ERFC64)
    return r.sub(r.const(1.0), r.mul(exp(r, r.neg(r.mul(far_size, far_size))), tail))
