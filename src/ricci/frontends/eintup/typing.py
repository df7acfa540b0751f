"""Types of values and arrays: promotion as NumPy's, with literals and sizes that give way.

A literal, a `RANK` or a number that comes of them alone takes the type of what it meets, as a
scalar of Python does. An extent or a component of an index (`DIMS(a)[c]`, `RANGE[a, c]`) does so
with reals; with integers it is an `INT`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

import numpy as np

from ...diagnostics import Report
from ...dtypes import DType
from ...ir.functions import ARITY, OF_INTEGERS
from ...records import dataclass
from ...source import Span
from . import syntax as s
from .program import Program
from .uses import walk

FUNCTIONS: Mapping[str, int] = {
    **ARITY, "min": 2, "max": 2, "pow": 2, "where": 3, "float": 1, "int": 1,
}  # fmt: skip
"""How many arguments each function takes."""

Strength = Literal["strong", "index", "literal"]


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value, and how far it gives way to others."""

    dtype: DType
    strength: Strength = "strong"


@dataclass
class Types:
    """The types of a program's values; what is wrong goes to `report`."""

    real: DType
    integer: DType
    arrays: dict[str, DType]
    report: Report
    _known: dict[int, tuple[s.Value, Type]] = field(default_factory=dict)

    def of(self, value: s.Value) -> Type:
        """The type of a value."""
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = value, self._type(value)
        return known[1]

    def _type(self, value: s.Value) -> Type:
        match value:
            case s.Number():
                return self.number(isinstance(value.value, float))
            case s.Rank():
                return self.number(False)
            case s.DimsAt() | s.Range():
                return Type(self.integer, "index")
            case s.Access(array):
                return Type(self.arrays[array.name])
            case s.Random():
                return self._random(value)
            case s.Unary():
                return self._unary(value)
            case s.Binary():
                return self._binary(value)
            case s.Apply():
                return self._apply(value)

    def number(self, real: bool) -> Type:
        """The type of a literal."""
        return Type(self.real if real else self.integer, "literal")

    # ---------------------------------------------------------------- operators

    def _unary(self, value: s.Unary) -> Type:
        if value.operator == "not":
            self._need_bool(value.operand)
            return Type(DType.BOOL)
        return self._numeric(self.of(value.operand))

    def _binary(self, value: s.Binary) -> Type:
        if value.operator in ("and", "or"):
            self._need_bool(value.lhs)
            self._need_bool(value.rhs)
            return Type(DType.BOOL)
        joined = self.join(self.of(value.lhs), self.of(value.rhs))
        if value.operator in COMPARISONS:
            return Type(DType.BOOL)
        joined = self._numeric(joined)
        return self._real(joined) if value.operator == "/" else joined

    def met(self, *values: s.Value) -> Type:
        """The type in which values are compared."""
        return self.join_all([self.of(v) for v in values])

    def join_all(self, types: list[Type]) -> Type:
        result = types[0]
        for other in types[1:]:
            result = self.join(result, other)
        return result

    def join(self, a: Type, b: Type) -> Type:
        """The type in which two meet."""
        if a.strength == "strong" and b.strength == "strong":
            return Type(promote(a.dtype, b.dtype))
        if "strong" not in (a.strength, b.strength):
            return self._join_weak(a, b)
        weak, strong = (b, a) if a.strength == "strong" else (a, b)
        if strong.dtype.is_real:
            return strong
        if weak.dtype.is_real or strong.dtype is DType.BOOL:
            return Type(weak.dtype)
        index = weak.strength == "index"
        return Type(promote(strong.dtype, self.integer)) if index else strong

    def _join_weak(self, a: Type, b: Type) -> Type:
        if a.dtype.is_real or b.dtype.is_real:
            return self.number(True)
        return a if a.strength == "index" else b

    def _numeric(self, a: Type) -> Type:
        """A bool counts as an integer."""
        return Type(self.integer) if a.dtype is DType.BOOL else a

    def _real(self, a: Type) -> Type:
        if a.dtype.is_real:
            return a
        return Type(self.real) if a.strength == "strong" else self.number(True)

    # ---------------------------------------------------------------- functions

    def _apply(self, value: s.Apply) -> Type:
        name = value.function.name
        if name == "where":
            condition, *sides = value.arguments
            self._need_bool(condition)
            return self.met(*sides)
        joined = self._numeric(self.met(*value.arguments))
        if name in ("min", "max", "pow") or name in OF_INTEGERS:
            return joined
        if name == "int":
            return joined if joined.dtype.is_int else Type(self.integer)
        return self._real(joined)

    def _random(self, value: s.Random) -> Type:
        for bound in (value.low, value.high):
            if self.of(bound).dtype.is_real and value.kind == "INT":
                self._wrong("the bounds of a random INT are integers", bound.span)
        return Type(self.integer if value.kind == "INT" else self.real)

    def _need_bool(self, value: s.Value) -> None:
        found = self.of(value).dtype
        if found is not DType.BOOL:
            self._wrong(
                f"a condition is needed here, not a number of type {found}",
                value.span,
                help="compare it: `x != 0`",
            )

    def _wrong(self, message: str, span: Span, help: str = "") -> None:
        self.report.error("E0301", message, span, help=help)

    # ---------------------------------------------------------------- statements

    def of_statement(self, statement: s.Statement) -> DType:
        """The type of an array whose first mention this is."""
        found = self.of(statement.value).dtype
        if statement.operator in LOGICAL:
            self._need_bool(statement.value)
            return DType.BOOL
        return self.integer if found is DType.BOOL else found

    def check_statement(self, statement: s.Statement) -> None:
        """A later statement must suit what the array holds."""
        array, found = statement.target.array, self.of(statement.value).dtype
        held, logical = self.arrays[array.name], statement.operator in LOGICAL
        if logical:
            self._need_bool(statement.value)
        if logical != (held is DType.BOOL):
            self._wrong(
                f"`{statement.operator}` does not suit `{array.name}`, which holds {held}",
                statement.span,
                "use `and=` or `or=`" if held is DType.BOOL else "",
            )
        elif held.is_int and found.is_real:
            self._wrong(
                f"`{array.name}` holds integers ({held}), and this is a number of type {found}",
                statement.value.span,
                "`int(x)` makes an integer of a number, toward zero",
            )


COMPARISONS = frozenset({"<", "<=", "==", "!=", ">=", ">"})
LOGICAL = frozenset({"and=", "or="})


def infer_types(
    program: Program,
    given: Mapping[str, DType],
    real: DType = DType.FLOAT64,
    int: DType = DType.INT32,
) -> dict[str, DType]:
    """The type of each array; `given` are those of arrays that a caller passes.

    Raises `Error` E0301 with all that does not fit.
    """
    types = program_types(program, given, real, int)
    types.report.raise_errors()
    return types.arrays


def program_types(program: Program, given: Mapping[str, DType], real: DType, int: DType) -> Types:
    """The types of a program's arrays and values, with what is wrong."""
    types = Types(real, int, dict(given), Report())
    for statement in program.file.statements:
        name = statement.target.array.name
        first = program.arrays[name].first is statement
        if first and name not in given:
            types.arrays[name] = types.of_statement(statement)
        elif not first:
            types.check_statement(statement)
    for statement in program.file.statements:
        _check_slices(statement, types)
    return types


def _check_slices(statement: s.Statement, types: Types) -> None:
    for node in walk(statement):
        if isinstance(node, s.Slice) and not types.arrays[node.array.name].is_int:
            held = types.arrays[node.array.name]
            types.report.error(
                "E0301",
                f"`{node.array.name}` holds {held}, and an index is an integer",
                node.span,
            )


# ------------------------------------------------------------------- promotion


def promote(a: DType, b: DType) -> DType:
    """The type in which two meet: NumPy's; the abstract types win over others."""
    if a is b:
        return a
    if DType.REAL in (a, b):
        return DType.REAL
    if DType.INT in (a, b):
        other = b if a is DType.INT else a
        return other if other.is_real else DType.INT
    if DType.BFLOAT16 in (a, b):
        return _promote_bfloat16(b if a is DType.BFLOAT16 else a)
    return DType.of(np.promote_types(a.numpy(), b.numpy()))


def _promote_bfloat16(other: DType) -> DType:
    """As float16, but that the two of them need float32."""
    if other is DType.FLOAT16:
        return DType.FLOAT32
    joined = promote(DType.FLOAT16, other)
    return DType.BFLOAT16 if joined is DType.FLOAT16 else joined
