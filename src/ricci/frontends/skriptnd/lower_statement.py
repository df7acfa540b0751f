"""One line of `@lower` as an assignment of the IR (specification 2.12)."""

from __future__ import annotations

from dataclasses import dataclass

from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...source import Span
from . import syntax as s
from .compose_body import tensors_of
from .compose_graph import Builder
from .evaluate import Evaluator
from .evaluate_scalars import reads_nothing
from .lower_access import FormulaEvaluator, MustUnroll
from .values import (
    Item,
    Pack,
    Value,
    check_size,
    dtype_of,
    exceeds,
    fail,
    is_expr,
    is_static,
    show,
    to_expr,
)

REDUCTIONS: dict[str, nodes.Reduction] = {
    "=": "set",
    ":=": "update",
    "+=": "add",
    "*=": "mul",
    "&=": "and",
    "|=": "or",
    "<=": "min",
    ">=": "max",
}

Fixed = dict[tuple[str, int | None], int]
"""Indices with a value: by the name of the bound, and the position in a pack of indices."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a line does: the elements it writes, and how, unless its condition never holds."""

    targets: tuple[nodes.Access, ...]
    assignment: nodes.Assignment | None
    reads: dict[nodes.Tensor, None]


def target_name(target: s.Expr) -> str:
    """The output that a line writes."""
    while isinstance(target, s.Access | s.Subscript):
        target = target.tensor if isinstance(target, s.Access) else target.pack
    return target.name if isinstance(target, s.Name) else ""


class Statement:
    """One line with some of its indices fixed."""

    def __init__(
        self, builder: Builder, scope: Evaluator, outputs: dict[str, Value], line: s.Lowering
    ) -> None:
        self.builder = builder
        self.line = line
        self.own = {t for value in outputs.values() for t in tensors_of(value)}
        self.formula = FormulaEvaluator(builder, scope)
        self.keys: dict[tuple[str, int | None], nodes.Index] = {}
        self.locals: list[nodes.Local] = []

    def lower(self, fixed: Fixed, named: dict[str, Value]) -> Lowered | None:
        """The assignment, with some indices fixed; None if a part of the line is null.

        Raises `MustUnroll` for an index that must be fixed.
        """
        line, formula = self.line, self.formula
        formula.values.update(named)
        for bound in line.bounds:
            if not self._bind_index(bound, fixed):
                return None
        for local in line.locals:
            formula.values[local.name] = self._local(local)
        condition = True if line.condition is None else formula.evaluate(line.condition)
        formula.conditional += condition is not True
        targets = self._targets()
        values = formula.evaluate(line.value)
        if condition is None or targets is None or values is None:
            return None
        assignment = None if condition is False else self._assign(targets, values, condition)
        return Lowered(targets, assignment, formula.reads)

    # ------------------------------------------------------------- indices, locals

    def _bind_index(self, bound: s.Bound, fixed: Fixed) -> bool:
        value = self.formula.evaluate(bound.extent)
        if value is None:
            return False
        if isinstance(value, tuple):
            extents = enumerate(value)
            self.formula.values[bound.name] = tuple(
                [self._index(bound, extent, fixed.get((bound.name, k)), k) for k, extent in extents]
            )
        else:
            self.formula.values[bound.name] = self._index(
                bound, value, fixed.get((bound.name, None)), None
            )
        return True

    def _index(self, bound: s.Bound, extent: Item, known: int | None, position: int | None) -> Item:
        if known is not None:
            return known
        size = to_expr(extent) if is_expr(extent) or type(extent) is int else None
        if size is None or size.dtype is not DType.INT:
            raise fail("E0503", "a bound must be an integer", bound.span, show(extent))
        if not isinstance(size, nodes.Const):
            self._check_extent(size, bound)
        elif (count := shapes.as_int(size)) is None:  # `int(inf)`
            raise fail("E0416", "a loop with an infinite extent", bound.span)
        elif count < 0:
            raise fail("E0416", "a loop with a negative extent", bound.span, f"it is {count}")
        name = bound.name if position is None else f"{bound.name}_{position + 1}"
        index = nodes.Index(name, size, bound.span)
        self.keys[bound.name, position] = index
        self.formula.domain.append(index)
        return index

    def _check_extent(self, size: nodes.Expr, bound: s.Bound) -> None:
        """An extent may depend on sizes only; on another index where that is unrolled."""
        for index in self.formula.domain:
            if _mentions(size, index):
                raise MustUnroll(index, bound.span)
        if not reads_nothing(size):
            raise fail("E0507", "the extent of a loop cannot depend on data", bound.span)
        self.builder.guard(size, bound.span)

    def _local(self, local: s.LocalValue) -> Value:
        """A local that reads tensors is computed once; all others stand for their text."""
        value = self.formula.evaluate(local.value)
        if isinstance(value, tuple):
            span = local.span
            return tuple(
                [self._keep(i, f"{local.name}_{k + 1}", span) for k, i in enumerate(value)]
            )
        return None if value is None else self._keep(value, local.name, local.span)

    def _keep(self, item: Item, name: str, span: Span) -> Item:
        if not is_expr(item):
            return item
        if item.dtype is DType.INT and reads_nothing(item):
            check_size(item, span)
            return item
        if reads_nothing(item) and not exceeds(item, _SMALL):
            return item
        result = nodes.Local(name, item)
        self.locals.append(result)
        return result

    # ---------------------------------------------------------------------- sides

    def _targets(self) -> tuple[nodes.Access, ...] | None:
        value = self.formula.evaluate(self.line.target)
        if value is None:
            return None
        items = value if isinstance(value, tuple) else (value,)
        targets = tuple([item for item in items if isinstance(item, nodes.Access)])
        if len(targets) != len(items) or any(t.tensor not in self.own for t in targets):
            raise fail(
                "E0607", "only elements of outputs can be assigned to", self.line.target.span
            )
        return targets

    def _assign(
        self, targets: tuple[nodes.Access, ...], values: Value, condition: Value
    ) -> nodes.Assignment:
        line = self.line
        items = self._values(targets, values)
        exprs = []
        for target, item in zip(targets, items, strict=True):
            self._check_types(target, item)
            exprs.append(to_expr(item))
        test = None if condition is True else self._condition(condition)
        return nodes.Assignment(
            targets,
            REDUCTIONS[line.op],
            tuple(exprs),
            tuple(self.formula.domain),
            tuple(self.locals),
            test,
            line.span,
        )

    def _values(self, targets: tuple[nodes.Access, ...], values: Value) -> Pack:
        """One value per target; a single one is assigned to every item of a pack."""
        assert values is not None
        if not isinstance(values, tuple):
            return (values,) * len(targets)
        if len(values) != len(targets):
            raise fail(
                "E0607",
                f"{len(values)} values cannot be assigned to {len(targets)} tensors",
                self.line.value.span,
            )
        return values

    def _condition(self, condition: Value) -> nodes.Expr:
        if not is_expr(condition) or condition.dtype is not DType.BOOL:
            assert self.line.condition is not None
            span = self.line.condition.span
            raise fail("E0503", "a condition must be one bool", span, f"this is {show(condition)}")
        return condition

    def _check_types(self, target: nodes.Access, item: Item) -> None:
        """Raises E0607 unless the value has the target's type, and the operator takes it."""
        line = self.line
        if not (is_static(item) or is_expr(item)):
            raise fail("E0607", "this cannot be assigned", line.value.span, f"it is {show(item)}")
        kind, dtype = dtype_of(item), target.dtype
        if kind is not dtype:
            raise fail(
                "E0607",
                f"a value of type `{kind}` is assigned to a tensor of type `{dtype}`",
                line.value.span,
                help=f"convert it: `{dtype}(...)`" if DType.STR not in (kind, dtype) else "",
            )
        op = REDUCTIONS[line.op]
        wrong = dtype is not DType.BOOL if op in ("and", "or") else not dtype.is_numeric
        if wrong and op not in ("set", "update"):
            raise fail("E0607", f"`{line.op}` does not accumulate `{dtype}`", line.span)


def _mentions(expr: nodes.Expr, index: nodes.Index) -> bool:
    return any(i is index for i in rewrite.free_indices(expr))


_SMALL = 64
"""Nodes of an index expression that is repeated wherever its local is used."""
