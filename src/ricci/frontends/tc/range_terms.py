"""Subscripts as integer expressions of the intermediate representation, exact in the integers.

Every index of the statement is a local of which nothing is known, sizes are symbols (or their
values), and each part that is neither is a local of its own: an *unknown*, with bounds where its
type or its operation gives some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ...dtypes import DType
from ...ir import shapes
from ...ir.nodes import COMPARISONS, Access, BinaryOp, Expr, Local, Symbol, Tensor
from ...ir.rewrite import walk
from ...ir.shapes_polynomial import has_more_parts
from ...records import dataclass
from ...source import NOWHERE, Span
from . import program as tc

MOST_PARTS = 64
"""Parts of a minimum or maximum in a subscript; a larger one may be anything."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of an unknown, inclusive; they may contain indices and other unknowns."""

    low: Expr | None = None
    high: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """Where a tensor is read. `sure` if every point of the domain does it.

    A read in a side of a conditional, or behind `&&` or `||`, is not sure, nor is what is read for
    the inference only.
    """

    tensor: tc.Variable
    subscripts: tuple[tc.Expr, ...]
    sure: bool
    span: Span = NOWHERE
    happens: bool = True


def find_sites(values: Iterable[tc.Expr], happens: bool = True) -> list[Site]:
    """The reads in expressions, outer ones first, each once."""
    found: dict[int, Site] = {}
    seen: dict[int, bool] = {}
    stack = [(value, True) for value in values][::-1]
    while stack:
        expr, sure = stack.pop()
        if id(expr) in seen and (seen[id(expr)] or not sure):
            continue
        seen[id(expr)] = sure
        if isinstance(expr, tc.Read):
            found[id(expr)] = Site(expr.tensor, expr.subscripts, sure, expr.span, happens)
        certain = len(tc.certain_children(expr))  # the first ones
        parts = [(part, sure and n < certain) for n, part in enumerate(tc.children(expr))]
        stack += reversed(parts)
    return list(found.values())


def indices_in(exprs: Iterable[tc.Expr]) -> list[tc.IndexVariable]:
    """The indices that occur in expressions, those in subscripts of reads included."""
    return [node.index for node in _nodes(exprs) if isinstance(node, tc.At)]


def extents_in(exprs: Iterable[tc.Expr]) -> list[tc.Variable]:
    """The tensors whose sizes occur in expressions."""
    return [node.tensor for node in _nodes(exprs) if isinstance(node, tc.Extent)]


def _nodes(exprs: Iterable[tc.Expr]) -> Iterator[tc.Expr]:
    seen: set[int] = set()
    stack = list(exprs)
    while stack:
        expr = stack.pop()
        if id(expr) not in seen:
            seen.add(id(expr))
            stack += tc.children(expr)
            yield expr


def locals_in(expr: Expr) -> list[Local]:
    """The locals of an expression, each once."""
    return [node for node in walk(expr) if isinstance(node, Local)]


class Terms:
    """Converts the integer expressions of one statement."""

    def __init__(
        self, sizes: Mapping[Symbol, int], extent: Callable[[tc.Variable, int], Expr | None]
    ) -> None:
        self.unknown: dict[Local, Limits] = {}
        self.given = bool(sizes)
        self._sizes = sizes
        self._extent = extent
        self._indices: dict[tc.IndexVariable, Local] = {}
        self._done: dict[int, Expr] = {}
        self._values: dict[tuple[BinaryOp, Expr, Expr], Expr] = {}
        self._remainders: dict[tuple[Expr, Expr], Local] = {}

    def index(self, variable: tc.IndexVariable) -> Local:
        """The local that stands for an index."""
        return self._indices.setdefault(variable, _anything(variable.name))

    def convert(self, expr: tc.Expr) -> Expr:
        """The value of an expression; `ZeroDivisionError` if it always divides by zero."""
        stack: list[tuple[tc.Expr, bool]] = [(expr, False)]
        while stack:
            node, ready = stack.pop()
            if id(node) in self._done:
                continue
            parts = _integer_parts(node)
            if ready or not parts:
                self._done[id(node)] = self._node(node, [self._done[id(p)] for p in parts])
            else:
                stack.append((node, True))
                stack += [(part, False) for part in parts]
        return self._done[id(expr)]

    def _node(self, node: tc.Expr, parts: list[Expr]) -> Expr:
        """The value of a node whose integer parts are converted."""
        match node:
            case tc.Constant():
                return shapes.constant(int(node.value))
            case tc.Size():
                return self.size(node.symbol)
            case tc.Extent():
                extent = self._extent(node.tensor, node.dimension)
                return self._make_unknown(node) if extent is None else extent
            case tc.At():
                return self.index(node.index)
            case tc.Let():
                return parts[0]
            case tc.Convert() if parts:
                return parts[0]
            case tc.Unary() if parts:
                return shapes.neg(parts[0])
            case tc.Binary() if parts:
                return self._binary(node, parts[0], parts[1])
            case tc.Select():
                return self._select(node, *parts)
            case _:
                return self._make_unknown(node, _type_limits(node.dtype))

    def size(self, size: int | Symbol) -> Expr:
        """A size: its value if that is known."""
        if isinstance(size, Symbol):
            return shapes.constant(self._sizes[size]) if size in self._sizes else size
        return shapes.constant(size)

    def _binary(self, node: tc.Binary, lhs: Expr, rhs: Expr) -> Expr:
        if node.op != "mod" or not locals_in(lhs) + locals_in(rhs):
            value = self._values.get((node.op, lhs, rhs))
            if value is None:
                value = self._values[node.op, lhs, rhs] = _ARITHMETIC[node.op](lhs, rhs)
            large = node.op in ("min", "max") and has_more_parts(value, MOST_PARTS)
            return self._make_unknown(node) if large else value
        key = lhs, rhs
        if key not in self._remainders:
            self._remainders[key] = self._make_unknown(node, _remainder_limits(rhs))
        return self._remainders[key]

    def _select(self, node: tc.Select, then: Expr, otherwise: Expr) -> Expr:
        """A conditional of sizes alone; another one may give either of its sides."""
        if not locals_in(then) + locals_in(otherwise):
            condition = self._condition(node.condition)
            if condition is not None:
                return shapes.select(condition, then, otherwise)
        low, high = shapes.minimum(then, otherwise), shapes.maximum(then, otherwise)
        return low if low == high else self._make_unknown(node, Limits(low, high))

    def _condition(self, expr: tc.Expr) -> Expr | None:
        """A comparison of sizes; none for other conditions."""
        if not isinstance(expr, tc.Binary) or expr.op not in COMPARISONS:
            return None
        if not expr.lhs.dtype.is_int:
            return None
        lhs, rhs = self.convert(expr.lhs), self.convert(expr.rhs)
        return None if locals_in(lhs) + locals_in(rhs) else shapes.compare(expr.op, lhs, rhs)

    def _make_unknown(self, node: tc.Expr, limits: Limits | None = None) -> Local:
        local = _anything(source_text(node, "a value"))
        self.unknown[local] = limits or Limits()
        return local


_ARITHMETIC: dict[BinaryOp, Callable[[Expr, Expr], Expr]] = {
    "add": shapes.add, "sub": shapes.sub, "mul": shapes.mul, "floordiv": shapes.floordiv,
    "mod": shapes.mod, "min": shapes.minimum, "max": shapes.maximum,
}  # fmt: skip


def _integer_parts(node: tc.Expr) -> tuple[tc.Expr, ...]:
    """The parts that a conversion goes into; none for what is unknown as a whole.

    Index arithmetic has 64 bits, so that conversions to `int32` and `int64` keep the value.
    """
    match node:
        case tc.Let():
            return (node.value,)
        case tc.Convert(dtype=DType.INT32 | DType.INT64) if node.operand.dtype.is_int:
            return (node.operand,)
        case tc.Unary(op="neg"):
            return (node.operand,)
        case tc.Binary() if node.op in _ARITHMETIC:
            return node.lhs, node.rhs
        case tc.Select():
            return node.then, node.otherwise
        case _:
            return ()


def _anything(name: str) -> Local:
    """An integer of which nothing is known."""
    return Local(name, Access(Tensor(name, DType.INT, ()), ()))


_BITS = {
    DType.UINT8: (0, 2**8 - 1), DType.UINT16: (0, 2**16 - 1), DType.UINT32: (0, 2**32 - 1),
    DType.UINT64: (0, 2**64 - 1), DType.INT8: (-(2**7), 2**7 - 1),
    DType.INT16: (-(2**15), 2**15 - 1), DType.BOOL: (0, 1),
}  # fmt: skip


def _type_limits(dtype: DType) -> Limits:
    if dtype not in _BITS:
        return Limits()
    low, high = _BITS[dtype]
    return Limits(shapes.constant(low), shapes.constant(high))


def _remainder_limits(divisor: Expr) -> Limits:
    """It takes the sign of the divisor."""
    low, high = shapes.interval(divisor)
    one = shapes.constant(1)
    if low >= 0:
        return Limits(shapes.constant(0), shapes.sub(divisor, one))
    return Limits(shapes.add(divisor, one), shapes.constant(0)) if high <= 0 else Limits()


def source_text(expr: tc.Expr, otherwise: str) -> str:
    """An expression as it was written, on one line."""
    span = NOWHERE if isinstance(expr, tc.Let) else expr.span
    if isinstance(expr, tc.Let):
        return expr.name
    return otherwise if span is NOWHERE else " ".join(span.text.split())
