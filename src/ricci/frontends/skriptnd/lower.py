"""Formulas of `@lower` as assignments of the IR (specification 2.12).

Index packs are expanded in place, in the order of the bounds. A loop over the items of a
pack of tensors is written out, one assignment per item. An accumulation without an `=`
before it gets an explicit first assignment of its null element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial

from ...diagnostics import Error
from ...dtypes import DType
from ...ir import nodes, shapes
from ...records import dataclass, replace
from ...source import Span
from . import syntax as s
from .compose_body import tensors_of
from .compose_graph import Builder
from .evaluate import Evaluator
from .evaluate_packs import require_int
from .lower_access import MustSpecialise, MustUnroll
from .lower_order import Leaf, misplaced
from .lower_statement import REDUCTIONS, Fixed, Key, Lowered, Statement, Way, target_name
from .values import AnyValue, DynamicPack, fail, is_expr

_NEUTRAL: dict[str, bool | int | float] = {
    "add": 0,
    "mul": 1,
    "and": True,
    "or": False,
    "min": math.inf,
    "max": -math.inf,
}
_MOST_LINES = 1024
"""Assignments that a formula may be written out to."""
_FEW_STEPS = 64
_MOST_STEPS = 4096
"""Between these, as many repetitions of an unrolled line are a loop if that does the same."""


class _NotWrittenOut(Exception):
    """An index that must have a value was lowered as a loop."""

    def __init__(self, key: Key, span: Span) -> None:
        super().__init__(key)
        self.key = key
        self.span = span


def lower(
    builder: Builder, operator: s.Operator, outer: Evaluator, outputs: Mapping[str, AnyValue]
) -> tuple[tuple[nodes.Assignment, ...], tuple[nodes.Tensor, ...]]:
    """The assignments that compute the outputs, and the tensors that they read.

    Raises E0503, E0601 to E0604 and E0607 for formulas that have no meaning, and what
    evaluation raises.
    """
    scope = Evaluator({**outer.values, **outputs}, outer.types, outer.budget)
    lowering = _Lowering(builder, scope, outputs)
    own = {t for value in outputs.values() for t in tensors_of(value)}
    builder.pending = own
    for line in operator.lower:
        lowering.add(line)
    lowering.check_complete(operator)
    builder.pending = set()
    return tuple(lowering.body), tuple(t for t in lowering.reads if t not in own)


@dataclass(eq=False)
class _Lowering:
    """The body of one operation while its lines are lowered."""

    builder: Builder
    scope: Evaluator
    outputs: Mapping[str, AnyValue]
    body: list[nodes.Assignment] = field(default_factory=list)
    reads: dict[nodes.Tensor, None] = field(default_factory=dict)
    written: set[nodes.Tensor] = field(default_factory=set)
    dropped: dict[str, s.Lowering] = field(default_factory=dict)
    """Lines left out because a part of them is null, by the output they would write."""

    def add(self, line: s.Lowering) -> None:
        """Lower one line of the formula."""
        if line.unroll is None:
            self._expand(line, Fixed())
            return
        length = self._count(line)
        if _FEW_STEPS < shapes.interval(length)[1] <= _MOST_STEPS and self._as_loop(line):
            return
        for k in self._steps(length, line, line.unroll.span):
            named: dict[str, AnyValue] = {line.unroll.index: k} if line.unroll.index else {}
            fixed = Fixed(named=named).within(length, k)
            if not self._try(Fixed(), fixed, partial(self._expand, line, fixed)):
                break

    def _as_loop(self, line: s.Lowering) -> bool:
        """Lower an unrolled line as a loop around its others, if nothing needs it written out."""
        unroll, demands = line.unroll, self.builder.budget.demands
        assert unroll is not None
        assert unroll.count is not None
        if unroll.index is None:
            return False
        bound = s.Bound(unroll.index, unroll.count, span=unroll.span)
        before = len(demands), list(self.body), dict(self.reads), set(self.written)
        try:
            self._expand(replace(line, unroll=None, bounds=(bound, *line.bounds)), Fixed())
        except Error:
            count, self.body, self.reads, self.written = before
            del demands[count:]
            return False
        return True

    def _count(self, line: s.Lowering) -> nodes.Expr:
        """How often an unrolled line is repeated."""
        assert line.unroll is not None
        assert line.unroll.count is not None
        value, span = self.scope.evaluate(line.unroll.count), line.unroll.count.span
        if is_expr(value) and value.dtype is DType.INT:
            return value
        return nodes.integer(require_int(value, span, "an unroll count"))

    def _steps(self, length: nodes.Expr, line: s.Lowering, span: Span, pending: int = 0) -> range:
        """The steps of a loop that is written out, as many as it has at most."""
        most = shapes.interval(length)[1]
        if most > _MOST_LINES:
            raise fail("E0604", f"a formula of more than {_MOST_LINES} lines", span)
        self._limit(pending + max(int(most), 0), line.span)
        self._skip_if_empty(max(int(most), 0), line)
        return range(int(most))

    def _skip_if_empty(self, count: int, line: s.Lowering) -> None:
        """A line that is written out no times leaves its output as it starts."""
        if count:
            return
        for tensor in tensors_of(self.outputs.get(target_name(line.target))):
            if line.op == ":=":
                self.written.add(tensor)
            else:
                self._initialise(tensor, REDUCTIONS[line.op], line.span)

    def _limit(self, count: int, span: Span) -> None:
        if len(self.body) + count > _MOST_LINES:
            raise fail("E0604", f"a formula of more than {_MOST_LINES} lines", span)
        self.builder.budget.spend(count, span)

    # ------------------------------------------------------------ writing out loops

    def _expand(self, line: s.Lowering, fixed: Fixed) -> None:
        """Lower a line with some indices fixed; for each length of a pack if that matters."""
        before = len(self.builder.budget.demands)
        try:
            self._write_out(line, fixed)
        except MustSpecialise as found:
            del self.builder.budget.demands[before:]
            self._limit(len(found.pack.items) + 1, line.span)
            for length in range(len(found.pack.items) + 1):
                self._for_length(line, fixed, found.pack, length)

    def _for_length(self, line: s.Lowering, fixed: Fixed, pack: DynamicPack, length: int) -> None:
        """Lower a line for one length of a pack; one that it cannot have must not occur."""
        try:
            self._expand(line, fixed.for_length(pack.length, length))
        except Error as error:
            (found,) = error.diagnostics
            if found.code not in ("E0505", "E0506"):
                raise
            other = shapes.compare("ne", pack.length, nodes.integer(length))
            self.builder.budget.demand(other, (found.message,), found.span)

    def _write_out(self, line: s.Lowering, fixed: Fixed) -> None:
        """Lower a line with some indices fixed; where an index counts tensors, for each value.

        Where that are too many, or updates would leave their order, items that are read are chosen
        by comparisons, and if that does not keep the order further loops are written out.
        """
        demands, way = self.builder.budget.demands, Way()
        before = len(demands)
        while True:
            leaves: list[Leaf] = []
            try:
                self._collect(line, fixed, way, leaves)
            except _NotWrittenOut as loop:
                way = way.unroll(loop.key, loop.span)
            except Error as error:
                if way.chooses or error.diagnostics[0].code != "E0604":
                    raise
                way = Way(chooses=True)
            else:
                key = misplaced(line, leaves)
                if key is None:
                    break
                way = way.unroll(key, line.span) if way.chooses else Way(chooses=True)
            del demands[before:]
        for leaf in leaves:
            self._emit(leaf.lowered, line)

    def _collect(self, line: s.Lowering, fixed: Fixed, way: Way, leaves: list[Leaf]) -> None:
        """Lower a line for all values of the indices that are not loops.

        Raises `_NotWrittenOut` for one more of them.
        """
        statement = Statement(self.builder, self.scope, self.outputs, line, way)
        try:
            lowered = statement.lower(fixed)
        except MustUnroll as loop:
            key = next(key for key, index in statement.keys.items() if index is loop.index)
            if key not in way.unrolled:
                raise _NotWrittenOut(key, loop.span) from None
            extent = loop.index.extent
            for k in self._steps(extent, line, way.unrolled[key], len(leaves)):
                inner = fixed.within(extent, k, key)
                if not self._try(fixed, inner, partial(self._collect, line, inner, way, leaves)):
                    break
        else:
            leaves.append(Leaf(fixed.indices, statement.keys, lowered))

    def _try(self, outer: Fixed, inner: Fixed, lower_step: Callable[[], None]) -> bool:
        """Lower a step that may never be done: where it goes beyond a pack it must not be."""
        try:
            lower_step()
        except Error as error:
            (found,) = error.diagnostics
            step, length = (0, nodes.ZERO) if inner.steps == outer.steps else inner.steps[-1]
            if found.code != "E0505" or step == 0:
                raise
            ends = shapes.compare("le", length, nodes.integer(step))
            self.builder.budget.demand(ends, (found.message,), found.span)
            return False
        return True

    # ---------------------------------------------------------------------- results

    def _emit(self, lowered: Lowered | None, line: s.Lowering) -> None:
        """Add an assignment, after its null element where nothing initialises it."""
        if lowered is None:
            self.dropped[target_name(line.target)] = line
            return
        for target in lowered.targets:
            self._initialise(target.tensor, REDUCTIONS[line.op], line.span)
        if lowered.assignment is not None:
            self.body.append(lowered.assignment)
            self.reads |= lowered.reads

    def _initialise(self, tensor: nodes.Tensor, op: nodes.Reduction, span: Span) -> None:
        """Make sure that an output has a value to accumulate onto. Raises E0603."""
        if tensor in self.written:
            return
        if op == "update":
            raise fail(
                "E0603",
                "`:=` replaces elements of an output that has no initial value",
                span,
                help="initialise the output by a line with `=` before this one",
            )
        self.written.add(tensor)
        if op != "set":
            value = nodes.Const(_neutral(op, tensor.dtype), tensor.dtype)
            self.body.append(fill(tensor, value, span))

    def check_complete(self, operator: s.Operator) -> None:
        """Raises E0603 for an output that no line gives a value."""
        for parameter in operator.outputs:
            for tensor in tensors_of(self.outputs[parameter.name]):
                if tensor in self.written:
                    continue
                line = self.dropped.get(parameter.name)
                if line is None and not isinstance(self.outputs[parameter.name], nodes.Tensor):
                    continue
                raise fail(
                    "E0603",
                    f"output `{parameter.name}` gets no value",
                    line.span if line is not None else parameter.span,
                    "a part of this is null" if line is not None else "",
                    help="give null a replacement by `??`" if line is not None else "",
                )


def fill(tensor: nodes.Tensor, value: nodes.Expr, span: Span) -> nodes.Assignment:
    """An assignment of one value to all elements of a tensor."""
    domain = tuple([nodes.Index(f"i{k}", e, span) for k, e in enumerate(tensor.shape)])
    at = tuple([nodes.Subscript(index) for index in domain])
    return nodes.Assignment((nodes.Access(tensor, at, span),), "set", (value,), domain, span=span)


def _neutral(op: str, dtype: DType) -> bool | int | float:
    value = _NEUTRAL[op]
    return float(value) if dtype is DType.REAL else value
