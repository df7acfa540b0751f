"""One line of `@lower` as an assignment of the IR (specification 2.12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...records import dataclass, replace
from ...source import Span
from . import syntax as s
from .compose_body import tensors_of
from .compose_graph import Builder
from .evaluate import Evaluator
from .evaluate_dynamic import AnyPack, agree, items_of, length_of, pack_of
from .evaluate_folds import present
from .evaluate_scalars import reads_nothing
from .lower_access import FormulaEvaluator, MustSpecialise, MustUnroll
from .values import (
    AnyValue,
    DynamicPack,
    Item,
    Pack,
    Value,
    check_size,
    dtype_of,
    exceeds,
    fail,
    from_expr,
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

Key = tuple[str, int | None]
"""An index: the name of the bound, and the position in a pack of indices."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a line that is written out knows: indices and names with a value, and for each loop of
    a length known only at run time the step, which is one only below it."""

    indices: dict[Key, int] = field(default_factory=dict)
    named: dict[str, AnyValue] = field(default_factory=dict)
    steps: tuple[tuple[int, nodes.Expr], ...] = ()
    lengths: tuple[tuple[nodes.Expr, int], ...] = ()
    """Lengths of packs that have a value in what is written out: it happens for this one only."""

    def never(self) -> nodes.Expr:
        """The condition that what is written out does not happen."""
        result: nodes.Expr = nodes.FALSE
        for step, length in self.steps:
            ends = shapes.compare("le", length, nodes.integer(step))
            result = shapes.logical_or(result, ends)
        for length, value in self.lengths:
            other = shapes.compare("ne", length, nodes.integer(value))
            result = shapes.logical_or(result, other)
        return result

    def for_length(self, length: nodes.Expr, value: int) -> Fixed:
        """For one length of packs."""
        return replace(self, lengths=(*self.lengths, (length, value)))

    def within(self, length: nodes.Expr, step: int, key: Key | None = None) -> Fixed:
        """In a step of one more loop."""
        indices = self.indices if key is None else {**self.indices, key: step}
        known = shapes.less(nodes.integer(step), length)
        steps = self.steps if known else (*self.steps, (step, length))
        return replace(self, indices=indices, steps=steps)


@dataclass(frozen=True, slots=True)
class Way:
    """How the loops of a line over items of packs are lowered."""

    unrolled: Mapping[Key, Span] = field(default_factory=dict)
    """Those that are written out, and what asks for it."""
    chooses: bool = False
    """Whether items that are read are chosen by comparisons where that can be done."""

    def unroll(self, key: Key, span: Span) -> Way:
        """With one more loop written out."""
        return Way({**self.unrolled, key: span}, self.chooses)


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a line does: the elements it writes, and how, unless it never happens."""

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
        self,
        builder: Builder,
        scope: Evaluator,
        outputs: Mapping[str, AnyValue],
        line: s.Lowering,
        way: Way,
    ) -> None:
        self.builder = builder
        self.line = line
        self.way = way
        self.own = {t for value in outputs.values() for t in tensors_of(value)}
        self.formula = FormulaEvaluator(builder, scope)
        self.keys: dict[tuple[str, int | None], nodes.Index] = {}
        self.locals: list[nodes.Local] = []
        self.pack: AnyPack | None = None
        """What is assigned to, if it is a whole pack."""

    def lower(self, fixed: Fixed) -> Lowered | None:
        """The assignment, with some indices fixed; None if a part of the line is null.

        Raises `MustUnroll` for an index that must be fixed, and `MustSpecialise` for a pack whose
        length must be. What the line relies on matters only where it happens.
        """
        budget = self.builder.budget
        before = len(budget.demands)
        try:
            lowered = self._lower(fixed)
        finally:
            relied = budget.demands[before:]
            del budget.demands[before:]
        absent = fixed.never()
        known = [shapes.compare("gt", n, nodes.integer(step)) for step, n in fixed.steps]
        for condition, message, span in relied:
            if condition not in known:
                budget.demand(shapes.logical_or(absent, condition), message, span)
        return lowered

    def _lower(self, fixed: Fixed) -> Lowered | None:
        line, formula = self.line, self.formula
        formula.values.update(fixed.named)
        formula.chooses = self.way.chooses
        for step, length in fixed.steps:
            self._happens_if(shapes.minimum(nodes.ONE, shapes.sub(length, nodes.integer(step))))
        for length, value in fixed.lengths:
            self._fix_length(length, value)
        for bound in line.bounds:
            if not self._bind_index(bound, fixed.indices):
                return None
        for local in line.locals:
            formula.values[local.name] = self._local(local)
        if not self._has_points():
            targets = self._targets()
            return None if targets is None else Lowered(targets, None, {})
        condition = True if line.condition is None else formula.evaluate(line.condition)
        formula.conditional += condition is not True
        targets = self._targets()
        values = self._right_side()
        if condition is None or targets is None or values is None:
            return None
        never = condition is False or not targets
        assignment = None if never else self._assign(targets, values, condition)
        return Lowered(targets, assignment, formula.reads)

    def _happens_if(self, positive: nodes.Expr) -> None:
        """A loop around the line that is done once, or not at all."""
        extent = shapes.maximum(nodes.ZERO, positive)
        self.formula.domain.append(nodes.Index("once", extent, self.line.span))

    def _fix_length(self, length: nodes.Expr, value: int) -> None:
        """Packs of a length have so many items, and the line happens only if they have."""
        difference = shapes.absolute(shapes.sub(length, nodes.integer(value)))
        self._happens_if(shapes.sub(nodes.ONE, difference))
        for name, pack in self.formula.values.items():
            if isinstance(pack, DynamicPack) and shapes.equal(pack.length, length):
                self.formula.values[name] = pack_of(pack.items, nodes.integer(value))

    def _has_points(self) -> bool:
        """Whether any instance of the line may happen; if not, its values may have no meaning."""
        return all(shapes.interval(index.extent)[1] > 0 for index in self.formula.domain)

    # ------------------------------------------------------------- indices, locals

    def _bind_index(self, bound: s.Bound, fixed: dict[Key, int]) -> bool:
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
        if (bound.name, position) in self.way.unrolled:
            raise MustUnroll(index, bound.span)
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

    def _local(self, local: s.LocalValue) -> AnyValue:
        """A local that reads tensors is computed once; all others stand for their text."""
        value = self.formula.evaluate_any(local.value)
        if isinstance(value, DynamicPack):
            items = self._keep_all(present(value, local.value.span), local)
            return DynamicPack(items, value.length)
        if isinstance(value, tuple):
            return self._keep_all(value, local)
        return None if value is None else self._keep(value, local.name, local.span)

    def _keep_all(self, pack: Pack, local: s.LocalValue) -> Pack:
        names = (f"{local.name}_{k + 1}" for k in range(len(pack)))
        return tuple([self._keep(i, n, local.span) for i, n in zip(pack, names, strict=True)])

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
        formula = self.formula
        formula.chooses = False  # there is no writing to one of several tensors
        value = formula.evaluate_any(self.line.target)
        formula.chooses = self.way.chooses
        if value is None:
            return None
        if isinstance(value, DynamicPack) and value.length == nodes.ZERO:
            value = ()
        items = items_of(value) if isinstance(value, tuple | DynamicPack) else (value,)
        targets = tuple([item for item in items if isinstance(item, nodes.Access)])
        if len(targets) != len(items) or any(t.tensor not in self.own for t in targets):
            raise fail(
                "E0607", "only elements of outputs can be assigned to", self.line.target.span
            )
        if isinstance(value, tuple | DynamicPack):
            self.pack = value
        # Items that are not there are written, too, which is harmless if all have one shape.
        if isinstance(value, DynamicPack) and len({t.tensor.shape for t in targets}) > 1:
            raise MustSpecialise(value)
        return targets

    def _right_side(self) -> Value:
        value, span = self.formula.evaluate_any(self.line.value), self.line.value.span
        if not isinstance(value, tuple | DynamicPack):
            return value
        if self.pack is None:
            message = f"a pack of {show(from_expr(length_of(value)))} values cannot be assigned"
            raise fail("E0607", f"{message} to a single tensor", span)
        if isinstance(self.pack, DynamicPack) or isinstance(value, DynamicPack):
            agree(self.pack, value, span, self.builder.budget)
            common = min(len(items_of(self.pack)), len(items_of(value)))
            self.pack = pack_of(items_of(self.pack)[:common], length_of(self.pack))
            value = pack_of(items_of(value)[:common], length_of(value))
        return present(value, span) if isinstance(value, DynamicPack) else value

    def _assign(
        self, targets: tuple[nodes.Access, ...], values: Value, condition: Value
    ) -> nodes.Assignment:
        line = self.line
        if self.pack is not None:
            targets = targets[: len(items_of(self.pack))]
        items = self._values(targets, values)
        exprs = []
        for target, item in zip(targets, items, strict=True):
            self._check_types(target, item)
            exprs.append(to_expr(item))
        test = None if condition is True else self._condition(condition)
        assignment = nodes.Assignment(
            targets,
            REDUCTIONS[line.op],
            tuple(exprs),
            tuple(self.formula.domain),
            tuple(self.locals),
            test,
            line.span,
        )
        return self._keep_guards(assignment) if self.formula.guarded else assignment

    def _keep_guards(self, assignment: nodes.Assignment) -> nodes.Assignment:
        """A guard holds for its statement even where its element does not matter, as in `a - a`:
        those of accesses that simplification has removed become conditions."""
        left = set(rewrite.accesses(*rewrite.expressions(assignment)))
        lost = [access for access in self.formula.guarded if access not in left]
        tests = [
            shapes.logical_and(
                shapes.compare("ge", subscript.index, nodes.ZERO),
                shapes.compare("lt", subscript.index, extent),
            )
            for access in lost
            for subscript, extent in zip(access.subscripts, access.tensor.shape, strict=True)
            if isinstance(subscript.rule, nodes.Skip)
        ]
        if assignment.condition is not None:
            tests.append(assignment.condition)
        condition: nodes.Expr = nodes.TRUE
        for test in tests:
            condition = shapes.logical_and(condition, test)
        return replace(assignment, condition=None if condition == nodes.TRUE else condition)

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
