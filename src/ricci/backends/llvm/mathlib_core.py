"""A small notation for writing mathematical functions as LLVM instructions."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ...dtypes import DType
from .builder import Builder
from .emit_types import literal, mantissa, scalar_type, splat, tag, vector_type, width, with_lanes


class Reals:
    """Operations on values of one real type and number of lanes; a value is an operand's text."""

    def __init__(self, builder: Builder, dtype: DType, lanes: int) -> None:
        self.b = builder
        self.dtype = dtype
        self.lanes = lanes
        self.element = scalar_type(dtype)
        self.type = vector_type(dtype, lanes)
        self.bits = 8 * width(dtype)
        self.precision = mantissa(dtype)
        self.bias = (1 << (self.bits - self.precision - 1)) - 1
        self.integers = with_lanes(f"i{self.bits}", lanes)
        self.bools = with_lanes("i1", lanes)

    # ---------------------------------------------------------------- literals

    def const(self, value: float) -> str:
        return splat(literal(value, self.dtype), self.element, self.lanes)

    def whole(self, value: int) -> str:
        """A literal of the integer type of the same width."""
        return splat(str(value), f"i{self.bits}", self.lanes)

    # -------------------------------------------------------------- arithmetic

    def _binary(self, op: str, x: str, y: str) -> str:
        return self.b.pure(f"{op} {self.type} {x}, {y}", x, y)

    def add(self, x: str, y: str) -> str:
        return self._binary("fadd", x, y)

    def sub(self, x: str, y: str) -> str:
        return self._binary("fsub", x, y)

    def mul(self, x: str, y: str) -> str:
        return self._binary("fmul", x, y)

    def div(self, x: str, y: str) -> str:
        return self._binary("fdiv", x, y)

    def neg(self, x: str) -> str:
        return self.b.pure(f"fneg {self.type} {x}", x)

    def intrinsic(self, name: str, *values: str) -> str:
        arguments = [f"{self.type} {v}" for v in values]
        return self.b.call(self.type, f"llvm.{name}.{tag(self.element, self.lanes)}", *arguments)

    def fma(self, x: str, y: str, z: str) -> str:
        """`x * y + z`, rounded once where the processor can."""
        return self.intrinsic("fmuladd", x, y, z)

    def exact_fma(self, x: str, y: str, z: str) -> str:
        """`x * y + z`, rounded once."""
        return self.intrinsic("fma", x, y, z)

    def abs(self, x: str) -> str:
        return self.intrinsic("fabs", x)

    def sqrt(self, x: str) -> str:
        return self.intrinsic("sqrt", x)

    def with_sign(self, x: str, sign: str) -> str:
        return self.intrinsic("copysign", x, sign)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """The lowest power first."""
        total = self.const(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.fma(total, x, self.const(c))
        return total

    def split_polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """The same with even and odd powers apart: one operation more, but only about half of them
        wait for one another."""
        square = self.mul(x, x)
        odd, even = (self.polynomial(square, coefficients[k::2]) for k in (1, 0))
        return self.fma(odd, x, even)

    # ------------------------------------------------------------- comparisons

    def test(self, condition: str, x: str, y: str) -> str:
        """An `fcmp`: `olt`, `ogt`, `oeq`, `uno` ..."""
        return self.b.pure(f"fcmp {condition} {self.type} {x}, {y}", x, y)

    def select(self, condition: str, x: str, y: str) -> str:
        text = f"select {self.bools} {condition}, {self.type} {x}, {self.type} {y}"
        return self.b.pure(text, condition, x, y)

    def choose(self, condition: str, x: str, y: str) -> str:
        """`select` of integers of the same width."""
        text = f"select {self.bools} {condition}, {self.integers} {x}, {self.integers} {y}"
        return self.b.pure(text, condition, x, y)

    def both(self, x: str, y: str) -> str:
        return self.b.pure(f"and {self.bools} {x}, {y}", x, y)

    def either(self, x: str, y: str) -> str:
        return self.b.pure(f"or {self.bools} {x}, {y}", x, y)

    def clamp(self, x: str, low: float, high: float) -> str:
        """NaN stays."""
        a = self.const(low)
        return self.at_most(self.select(self.test("olt", x, a), a, x), high)

    def at_most(self, x: str, high: float) -> str:
        """NaN stays."""
        b = self.const(high)
        return self.select(self.test("ogt", x, b), b, x)

    # -------------------------------------------------------------------- bits

    def to_bits(self, x: str) -> str:
        return self.b.pure(f"bitcast {self.type} {x} to {self.integers}", x)

    def from_bits(self, x: str) -> str:
        return self.b.pure(f"bitcast {self.integers} {x} to {self.type}", x)

    def bitwise(self, op: str, x: str, y: str) -> str:
        """An integer instruction on the bits."""
        return self.b.pure(f"{op} {self.integers} {x}, {y}", x, y)

    def from_integer(self, x: str) -> str:
        return self.b.pure(f"sitofp {self.integers} {x} to {self.type}", x)

    def nearest(self, x: str, factor: float = 1.0) -> tuple[str, str]:
        """The integer nearest to a product as a real and as an integer, if that is below
        2**(precision - 2) in size.

        Adding 1.5 * 2**(precision - 1) leaves the integer in the low bits. NaN gives NaN and some
        integer.
        """
        magic = 1.5 * 2.0 ** (self.precision - 1)
        moved = self.fma(x, self.const(factor), self.const(magic))
        base = self.to_bits_of(magic)
        return self.sub(moved, self.const(magic)), self.bitwise("sub", self.to_bits(moved), base)

    def nearest_power(self, x: str, factor: float = 1.0, shift: int = 0) -> tuple[str, str]:
        """The integer `k` nearest to a product, and `2**(k - shift)`, if that is a normal number;
        0 for the `k` one below the least of these."""
        moved_by = self.const(1.5 * 2.0 ** (self.precision - 1) + self.bias - shift)
        moved = self.fma(x, self.const(factor), moved_by) if factor != 1 else self.add(x, moved_by)
        # of its bits only the integer's are not shifted out: those of the power's exponent
        power = self.bitwise("shl", self.to_bits(moved), self.whole(self.precision - 1))
        return self.sub(moved, moved_by), self.from_bits(power)

    def to_bits_of(self, value: float) -> str:
        """The bits of a literal."""
        code = {16: "e", 32: "f", 64: "d"}[self.bits]
        raw = int.from_bytes(struct.pack(f"<{code}", value), "little")
        return self.whole(raw)

    def power_of_two(self, k: str) -> str:
        """`2.0 ** k` for integers in the range of normal numbers."""
        biased = self.bitwise("add", k, self.whole(self.bias))
        return self.from_bits(self.bitwise("shl", biased, self.whole(self.precision - 1)))

    @property
    def scales(self) -> bool:
        """Whether there are the instructions of AVX-512 for such values."""
        return self.b.scales and self.bits in (32, 64) and self.bits * self.lanes == 512

    def scaled(self, x: str, k: str) -> str | None:
        """`x * 2**k` for whole `k`, rounded once, if there is an instruction for it; zero is zero
        for any `k` below 0."""
        if not self.scales:
            return None
        kind, mask = ("ps", "i16") if self.bits == 32 else ("pd", "i8")
        return self.b.call(
            self.type, f"llvm.x86.avx512.mask.scalef.{kind}.512",
            f"{self.type} {x}", f"{self.type} {k}", f"{self.type} {x}", f"{mask} -1", "i32 4",
        )  # fmt: skip

    def unless_infinite_or_zero(self, better: str, x: str) -> str | None:
        """A value or, where `x` is an infinity or a zero, that, if there is one instruction for
        it."""
        if not self.scales:
            return None
        kind, mask = ("ps", "i16") if self.bits == 32 else ("pd", "i8")
        table = 1 << 8 | 1 << 16 | 1 << 20  # of both zeros, minus and plus infinity: `x`
        return self.b.call(
            self.type, f"llvm.x86.avx512.mask.fixupimm.{kind}.512",
            f"{self.type} {better}", f"{self.type} {x}", f"{self.integers} {self.whole(table)}",
            "i32 0", f"{mask} -1", "i32 4",
        )  # fmt: skip

    @property
    def picks(self) -> bool:
        """Whether one instruction picks an element of a table for each lane."""
        return self.scales and self.bits == 32

    def picked(self, table: Sequence[float], index: str) -> str:
        """Elements of a table of 16 or 32, by the low four or five bits of integers."""
        low, *high = (
            f"{self.type} {self._constant(table[n : n + 16])}" for n in range(0, len(table), 16)
        )
        name = f"llvm.x86.avx512.{'vpermi2var.ps' if high else 'permvar.sf'}.512"
        return self.b.call(self.type, name, low, f"{self.integers} {index}", *high)

    def _constant(self, values: Sequence[float]) -> str:
        """A vector of literals, which are written once."""
        texts = ", ".join(f"{self.element} {literal(x, self.dtype)}" for x in values)
        return self.b.pure(f"freeze {self.type} <{texts}>")

    # -------------------------------------------------------------- conversion

    def converted(self, x: str, target: Reals) -> str:
        """A value in another real type."""
        if target.dtype is self.dtype:
            return x
        op = "fpext" if target.bits > self.bits else "fptrunc"
        return self.b.pure(f"{op} {self.type} {x} to {target.type}", x)
