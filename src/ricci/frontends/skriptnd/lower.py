"""Formulas of `@lower` as assignments of the IR (specification 2.12).

Index packs are expanded in place, in the order of the bounds. A loop over the items of a
pack of tensors is written out, one assignment per item. An accumulation without an `=`
before it gets an explicit first assignment of its null element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...diagnostics import Error
from ...dtypes import DType
from ...ir import nodes, shapes
from ...source import Span
from . import syntax as s
from .compose_body import tensors_of
from .compose_graph import Builder
from .evaluate import Evaluator
from .evaluate_packs import require_int
from .lower_access import MustUnroll
from .lower_statement import REDUCTIONS, Fixed, Lowered, Statement, target_name
from .values import AnyValue, fail, is_expr

_NEUTRAL: dict[str, bool | int | float] = {
    "add": 0,
    "mul": 1,
    "and": True,
    "or": False,
    "min": math.inf,
    "max": -math.inf,
}
_MOST_STEPS = 4096
"""Assignments that one line may be written out to."""


def lower(
    builder: Builder, operator: s.Operator, outer: Evaluator, outputs: Mapping[str, AnyValue]
) -> tuple[tuple[nodes.Assignment, ...], tuple[nodes.Tensor, ...]]:
    """The assignments that compute the outputs, and the tensors that they read.

    Raises E0503, E0601 to E0604 and E0607 for formulas that have no meaning, and what
    evaluation raises.
    """
    scope = Evaluator({**outer.values, **outputs}, outer.types, outer.budget)
    lowering = _Lowering(builder, scope, outputs)
    for line in operator.lower:
        lowering.add(line)
    lowering.check_complete(operator)
    own = {t for value in outputs.values() for t in tensors_of(value)}
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
        for k in self._steps(length, line, line.unroll.span):
            named: dict[str, AnyValue] = {line.unroll.index: k} if line.unroll.index else {}
            if not self._try(line, Fixed(named=named).within(length, k)):
                break

    def _count(self, line: s.Lowering) -> nodes.Expr:
        """How often an unrolled line is repeated."""
        assert line.unroll is not None
        assert line.unroll.count is not None
        value, span = self.scope.evaluate(line.unroll.count), line.unroll.count.span
        if is_expr(value) and value.dtype is DType.INT:
            return value
        return nodes.integer(require_int(value, span, "an unroll count"))

    def _steps(self, length: nodes.Expr, line: s.Lowering, span: Span) -> range:
        """The steps of a loop that is written out, as many as it has at most."""
        most = shapes.interval(length)[1]
        if most > _MOST_STEPS:
            raise fail("E0604", f"a formula of more than {_MOST_STEPS} lines", span)
        self._limit(max(int(most), 0), line.span)
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
        if len(self.body) + count > _MOST_STEPS:
            raise fail("E0604", f"a formula of more than {_MOST_STEPS} lines", span)
        self.builder.budget.spend(count, span)

    # ------------------------------------------------------------ writing out loops

    def _expand(self, line: s.Lowering, fixed: Fixed) -> None:
        """Lower a line with some indices fixed; where an index counts tensors, for each value."""
        statement = Statement(self.builder, self.scope, self.outputs, line)
        try:
            self._emit(statement.lower(fixed), line)
        except MustUnroll as loop:
            key, index = self._loop_to_unroll(statement, loop)
            for k in self._steps(index.extent, line, loop.span):
                if not self._try(line, fixed.within(index.extent, k, key)):
                    break

    def _try(self, line: s.Lowering, fixed: Fixed) -> bool:
        """Lower a step that may never be done: where it goes beyond a pack it must not be."""
        try:
            self._expand(line, fixed)
        except Error as error:
            (found,) = error.diagnostics
            step, length = fixed.steps[-1] if fixed.steps else (0, nodes.ZERO)
            if found.code != "E0505" or step == 0:
                raise
            ends = shapes.compare("le", length, nodes.integer(step))
            self.builder.budget.demands.append((ends, found.message, found.span))
            return False
        return True

    def _loop_to_unroll(
        self, statement: Statement, loop: MustUnroll
    ) -> tuple[tuple[str, int | None], nodes.Index]:
        """The loop itself; where order matters, the outermost one before it first."""
        keys = statement.keys
        if statement.line.op == ":=":
            for key, index in keys.items():
                if index is loop.index or shapes.interval(index.extent) != (1, 1):
                    return key, index
        return next((key, index) for key, index in keys.items() if index is loop.index)

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
        self.written.add(tensor)
        if op == "set":
            return
        if op == "update":
            raise fail(
                "E0603",
                "`:=` replaces elements of an output that has no initial value",
                span,
                help="initialise the output by a line with `=` before this one",
            )
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
