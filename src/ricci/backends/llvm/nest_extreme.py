"""Maxima and minima of many terms, which are NaN if a term is.

No instruction gives the larger of two values, and NaN if one is NaN. So accumulators take no NaN
in, which is one instruction, and beside them it is kept which lanes have seen none: one comparison
tells that of two vectors. What has seen NaN is NaN at the end: of rows, or of each few terms that
are written out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...dtypes import DType
from . import emit_arith
from .builder import Builder
from .emit_types import literal, scalar_type, splat, tag, vector_type, width, with_lanes

_REAL = (DType.FLOAT32, DType.FLOAT64)


class Watch:
    """The flags of one cell: for each accumulator of reals, vectors of truths, true while there has
    been no NaN."""

    def __init__(
        self, b: Builder, op: str, dtypes: Sequence[DType], lanes: int, vectors: int = 1
    ) -> None:
        self.b, self.op, self.lanes = b, op, lanes
        watched = op in ("min", "max") and lanes > 1 and all(d in _REAL for d in dtypes)
        self.dtypes = list(dtypes) if watched else []
        self.each = -(-vectors // 2)
        """Flags of an accumulator: one would have each comparison wait for the last."""
        self.types = [self._type(d) for d in self.dtypes for _ in range(self.each)]
        self.seen: list[str] = []

    def _type(self, dtype: DType) -> str:
        """That of the result of a comparison, as the processor has it."""
        return with_lanes("i1" if self.b.scales else f"i{8 * width(dtype)}", self.lanes)

    def first(self) -> list[str]:
        """What flags begin with."""
        return [splat("-1", t.split()[-1][:-1], self.lanes) for t in self.types]

    def combine(self, old: str, value: str, dtype: DType) -> str:
        """An accumulator and a term, which is remembered until the next `after`."""
        self.seen.append(value)
        return emit_arith.extreme_number(self.b, self.op, value, old, dtype, self.lanes)

    def after(self, flags: list[str]) -> list[str]:
        """Flags that know of what has been seen: the terms of several vectors in turn."""
        count, out = len(self.dtypes), list(flags)
        for n, dtype in enumerate(self.dtypes):
            terms = self.seen[n::count]
            for k in range(0, len(terms), 2):
                x, y = terms[k], terms[min(k + 1, len(terms) - 1)]
                where = n * self.each + k // 2 % self.each
                out[where] = self._both(out[where], x, y, dtype)
        self.seen = []
        return out

    def _both(self, flag: str, x: str, y: str, dtype: DType) -> str:
        b, bits = self.b, with_lanes("i1", self.lanes)
        numbers = b.pure(f"fcmp ord {vector_type(dtype, self.lanes)} {x}, {y}", x, y)
        type = self._type(dtype)
        if type != bits:
            numbers = b.pure(f"sext {bits} {numbers} to {type}", numbers)
        return b.pure(f"and {type} {flag}, {numbers}", flag, numbers)

    def mended(self, totals: list[str], flags: list[str]) -> list[str]:
        """The totals of all lanes, or NaN."""
        out = []
        for n, (total, dtype) in enumerate(zip(totals, self.dtypes, strict=True)):
            numbers = self._all(flags[n * self.each : (n + 1) * self.each], self._type(dtype))
            scalar, nan = scalar_type(dtype), literal(math.nan, dtype)
            text = f"select i1 {numbers}, {scalar} {total}, {scalar} {nan}"
            out.append(self.b.pure(text, numbers, total))
        return out

    def mended_lanes(self, totals: list[str]) -> list[str]:
        """The totals of each lane, or NaN, where all terms have been seen since there were none."""
        out, bits = [], with_lanes("i1", self.lanes)
        flags = self.after(self.first())
        for n, (total, dtype) in enumerate(zip(totals, self.dtypes, strict=True)):
            (numbers,) = flags[n * self.each : (n + 1) * self.each]
            if self._type(dtype) != bits:
                numbers = self.b.pure(f"trunc {self._type(dtype)} {numbers} to {bits}", numbers)
            type = vector_type(dtype, self.lanes)
            nan = splat(literal(math.nan, dtype), scalar_type(dtype), self.lanes)
            text = f"select {bits} {numbers}, {type} {total}, {type} {nan}"
            out.append(self.b.pure(text, numbers, total))
        return out

    def _all(self, flags: list[str], type: str) -> str:
        b, whole, bits = self.b, flags[0], with_lanes("i1", self.lanes)
        for other in flags[1:]:
            whole = b.pure(f"and {type} {whole}, {other}", whole, other)
        if type != bits:
            whole = b.pure(f"trunc {type} {whole} to {bits}", whole)
        name = f"llvm.vector.reduce.and.{tag('i1', self.lanes)}"
        return b.call("i1", name, f"{bits} {whole}")
