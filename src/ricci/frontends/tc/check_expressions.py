"""Expressions: what their names stand for, and their types."""

from __future__ import annotations

from collections.abc import Iterable

from ...diagnostics import Label
from ...dtypes import DType
from ...ir.nodes import BinaryOp
from ...source import Span
from ..suggest import did_you_mean
from . import program as p
from . import syntax as s
from .builtins import ARGUMENTS
from .scope import StatementScope
from .typing import convert, literal, place, promote, promote_all

_OPERATIONS: dict[str, BinaryOp] = {
    "+": "add", "-": "sub", "*": "mul", "%": "mod",
    "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne",
    "&&": "and", "||": "or",
}  # fmt: skip
_EQUALITY = frozenset({"==", "!="})
_LOGICAL = frozenset({"&&", "||"})
_EXTREMA: dict[str, BinaryOp] = {"min": "min", "max": "max"}
_EXTREMA_OF_BOOLS: dict[str, BinaryOp] = {"min": "and", "max": "or"}


class ExpressionChecker:
    """Checks the expressions of one statement; what is wrong is reported, and gives none."""

    def __init__(self, scope: StatementScope) -> None:
        self.scope = scope
        self.function = scope.function
        self.report = scope.function.report

    def value(self, node: s.Expression) -> p.Expr | None:
        match node:
            case s.Number():
                return self._number(node, node.dtype, 1)
            case s.Name():
                return self._name(node)
            case s.Apply():
                return self._apply(node)
            case s.SizeOf():
                return self._size_of(node)
            case s.Cast():
                return self._cast(node)
            case s.Unary():
                return self._unary(node)
            case s.Binary():
                return self._binary(node)
            case s.Conditional():
                return self._conditional(node)

    def integer(self, node: s.Expression, what: str) -> p.Expr | None:
        """A value that must be an integer."""
        value = self.value(node)
        if value is None or value.dtype.is_int:
            return value
        found = value.dtype
        message = f"{what} must be an integer, but this is of type {found}"
        help = "convert it, as in `int32(x)`" if found.is_real else ""
        self.report.error("E0301", message, place(value), help=help)
        return None

    # ------------------------------------------------------------------- numbers

    def _number(self, node: s.Number, dtype: DType, sign: int) -> p.Expr | None:
        value = literal(node, dtype, sign)
        if value is None:
            wide = "float64" if isinstance(node.value, float) else "int64"
            help = f"write `{wide}({node.text})`" if dtype.value != wide else ""
            message = f"`{node.text[:40]}` does not fit into {dtype}"
            self.report.error("E0104", message, node.span, help=help)
        return value

    def _cast(self, node: s.Cast) -> p.Expr | None:
        """A literal is a number of the type at once, so that `float64(0.1)` is as near as can
        be."""
        operand, sign = _signed_number(node.operand)
        if operand is not None:
            value = literal(operand, node.dtype, sign)
            if value is not None:
                return value
            if literal(operand, operand.dtype, sign) is None:
                return self._number(operand, node.dtype, sign)
        inner = self.value(node.operand)
        return None if inner is None else convert(inner, node.dtype, node.span)

    # --------------------------------------------------------------------- names

    def _name(self, node: s.Name) -> p.Expr | None:
        name = node.name
        scope = self.scope
        if name in scope.indices:
            return p.At(scope.indices[name], node.span)
        if name in scope.lets:
            return scope.lets[name]
        if name in self.function.sizes:
            return p.Size(self.function.sizes[name], node.span)
        variable = self.tensor(s.Identifier(name, node.span))
        if variable is None:
            return None
        if variable.rank == 0:
            return p.Read(variable, (), node.span)
        indices = ", ".join("ijklmnop"[k % 8] for k in range(variable.rank))
        self.report.error(
            "E0602",
            f"`{name}` is a tensor of rank {variable.rank}, and here a single value is needed",
            node.span,
            labels=[Label(variable.span, "declared here")],
            help=f"name its indices, as in `{name}({indices})`" if variable.rank <= 8 else "",
        )
        return None

    def tensor(self, name: s.Identifier, functions: Iterable[str] = ()) -> p.Variable | None:
        """The tensor of a name that is neither an index, nor a let, nor a size; `functions` might
        have been meant too."""
        function = self.function
        known = function.tensors.get(name.name)
        if known is not None or name.name in function.broken:
            return known
        if name.name in self.scope.pending or name.name in function.later:
            self._report_early(name)
        elif name.name in ARGUMENTS:
            message = f"`{name.name}` is a built-in function, not a value"
            self.report.error("E0301", message, name.span)
        else:
            self._report_unknown(name, functions)
        return None

    def _report_early(self, name: s.Identifier) -> None:
        pending = self.scope.pending.get(name.name)
        later = self.function.later[name.name] if pending is None else pending
        self.report.error(
            "E0206",
            f"`{name.name}` is used before it has a value",
            name.span,
            labels=[Label(later, "it is given one here")] if later != name.span else [],
        )

    def _report_unknown(self, name: s.Identifier, functions: Iterable[str] = ()) -> None:
        if self.function.full:  # what looks alike takes time to find
            return
        choices = {*self.scope.names(), *self.function.later, *functions} - {name.name}
        note = "an index is used to access some tensor, or has a range in `where`"
        self.report.error(
            "E0201",
            f"unknown name `{name.name[:80]}`",
            name.span,
            notes=[] if functions else [note],
            help=did_you_mean(name.name, sorted(choices)),
        )

    def _size_of(self, node: s.SizeOf) -> p.Expr | None:
        if not self._is_applicable(node.tensor):
            return None
        variable = self.tensor(node.tensor)
        if variable is None:
            return None
        if node.dimension >= variable.rank:
            last = f", the last being `{variable.name}.{variable.rank - 1}`" * (variable.rank > 0)
            message = f"`{variable.name}` has {_count(variable.rank, 'dimension')}{last}"
            labels = [Label(variable.span, "declared here")]
            self.report.error("E0601", message, node.span, labels=labels)
            return None
        if variable.shape is None:
            return p.Extent(variable, node.dimension, node.span)
        size = variable.shape[node.dimension]
        if isinstance(size, int):
            return p.Constant(size, DType.INT32, node.span)
        return p.Size(size, node.span)

    # ----------------------------------------------------- reads and functions

    def _apply(self, node: s.Apply) -> p.Expr | None:
        name = node.function
        if name.name in _EXTREMA:
            return self._extremum(node)
        if name.name in ARGUMENTS:
            return self._call(node)
        variable = self.tensor(name, ARGUMENTS) if self._is_applicable(name) else None
        if variable is None:
            self._all(map(self.value, node.arguments))
            return None
        subscripts = self._all(self.integer(a, "a subscript") for a in node.arguments)
        fits = self.check_rank(variable, len(node.arguments), node.span)
        return p.Read(variable, subscripts, node.span) if fits and subscripts is not None else None

    def _is_applicable(self, name: s.Identifier) -> bool:
        """Report a name that is applied though it is that of a number."""
        for names, what in (
            (self.scope.indices, "an index"),
            (self.scope.lets, "a value of `where`"),
            (self.function.sizes, "a size"),
        ):
            if name.name in names:
                message = f"`{name.name}` is {what}, and only tensors have elements and sizes"
                self.report.error("E0301", message, name.span)
                return False
        return True

    def check_rank(self, variable: p.Variable, count: int, span: Span) -> bool:
        if count != variable.rank:
            self.report.error(
                "E0602",
                f"`{variable.name}` has {_count(variable.rank, 'dimension')}, "
                f"and is accessed with {_count(count, 'subscript')}",
                span,
                labels=[Label(variable.span, "declared here")],
            )
        return count == variable.rank

    def _all(self, values: Iterable[p.Expr | None]) -> tuple[p.Expr, ...] | None:
        found = list(values)
        known = tuple(v for v in found if v is not None)
        return known if len(known) == len(found) else None

    def _call(self, node: s.Apply) -> p.Expr | None:
        name = node.function.name
        arguments = self._all(map(self.value, node.arguments))
        if len(node.arguments) != ARGUMENTS[name]:
            wanted = _count(ARGUMENTS[name], "argument")
            message = f"`{name}` takes {wanted}, not {len(node.arguments)}"
            self.report.error("E0412", message, node.span)
            return None
        if arguments is None:
            return None
        dtype = promote_all(DType.FLOAT32, *(a.dtype for a in arguments))
        return p.Call(name, tuple(convert(a, dtype) for a in arguments), dtype, node.span)

    def _extremum(self, node: s.Apply) -> p.Expr | None:
        name = node.function.name
        arguments = self._all(map(self.value, node.arguments))
        if arguments is None:
            return None
        first, second = arguments  # the parser has counted them
        lhs, rhs = _meet(first, second)
        op = (_EXTREMA_OF_BOOLS if lhs.dtype is DType.BOOL else _EXTREMA)[name]
        return p.Binary(op, lhs, rhs, node.span)

    # ----------------------------------------------------------------- operators

    def _bool(self, node: s.Expression, what: str) -> p.Expr | None:
        return self._check_bool(self.value(node), node, what)

    def _check_bool(self, value: p.Expr | None, node: s.Expression, what: str) -> p.Expr | None:
        if value is None or value.dtype is DType.BOOL:
            return value
        message = f"{what} must be a bool, but this is of type {value.dtype}"
        help = "compare it, as in `x != 0`" if value.dtype.is_numeric else ""
        self.report.error("E0301", message, node.span, help=help)
        return None

    def _unary(self, node: s.Unary) -> p.Expr | None:
        number, sign = _signed_number(node)
        if number is not None:
            return self._number(number, number.dtype, sign)
        if node.operator == "!":
            operand = self._bool(node.operand, "the operand of `!`")
            return None if operand is None else p.Unary("not", operand, node.span)
        operand = self.value(node.operand)
        if operand is None:
            return None
        number_type = DType.UINT8 if operand.dtype is DType.BOOL else operand.dtype
        return p.Unary("neg", convert(operand, number_type), node.span)

    def _binary(self, node: s.Expression) -> p.Expr | None:
        """Operators in a row, from the left, without a call for each."""
        row: list[s.Binary] = []
        while isinstance(node, s.Binary):
            row.append(node)
            node = node.lhs
        value = self.value(node)
        for binary in reversed(row):
            value = self._operate(binary, value, self.value(binary.rhs))
        return value

    def _operate(self, node: s.Binary, lhs: p.Expr | None, rhs: p.Expr | None) -> p.Expr | None:
        operator = node.operator
        if operator in _LOGICAL:
            what = f"an operand of `{operator}`"
            lhs = self._check_bool(lhs, node.lhs, what)
            rhs = self._check_bool(rhs, node.rhs, what)
        if lhs is None or rhs is None:
            return None
        both = _meet(lhs, rhs, bools=operator in _EQUALITY or operator in _LOGICAL)
        if operator in ("/", "%") and _is_zero(both[1]):
            self.report.error("E0502", "division by zero", node.span)
            return None
        return p.Binary(_operation(operator, both[0].dtype), *both, node.span)

    def _conditional(self, node: s.Conditional) -> p.Expr | None:
        condition = self._bool(node.condition, "the condition of `?:`")
        then, otherwise = self.value(node.then), self.value(node.otherwise)
        if condition is None or then is None or otherwise is None:
            return None
        return p.Select(condition, *_meet(then, otherwise), node.span)


def _meet(lhs: p.Expr, rhs: p.Expr, bools: bool = True) -> tuple[p.Expr, p.Expr]:
    """Two values in the type in which they meet; `uint8` for bools that may not stay."""
    dtype = promote(lhs.dtype, rhs.dtype)
    if dtype is DType.BOOL and not bools:
        dtype = DType.UINT8
    return convert(lhs, dtype), convert(rhs, dtype)


def _operation(operator: str, dtype: DType) -> BinaryOp:
    if operator == "/":
        return "div" if dtype.is_real else "floordiv"
    return _OPERATIONS[operator]


def _signed_number(node: s.Expression) -> tuple[s.Number | None, int]:
    """A literal, or one behind a minus sign, with the sign."""
    if isinstance(node, s.Unary) and node.operator == "-" and isinstance(node.operand, s.Number):
        return node.operand, -1
    return (node, 1) if isinstance(node, s.Number) else (None, 1)


def _is_zero(value: p.Expr) -> bool:
    return isinstance(value, p.Constant) and value.dtype.is_int and value.value == 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
