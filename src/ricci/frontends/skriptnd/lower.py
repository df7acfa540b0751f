"""Formulas of `@lower` as assignments of the IR (specification 2.12).

Index packs are expanded in place, in the order of the bounds. A loop over the items of a
pack of tensors is written out, one assignment per item. An accumulation without an `=`
before it gets an explicit first assignment of its null element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

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
from .values import Value, fail

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
    builder: Builder, operator: s.Operator, outer: Evaluator, outputs: dict[str, Value]
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
    outputs: dict[str, Value]
    body: list[nodes.Assignment] = field(default_factory=list)
    reads: dict[nodes.Tensor, None] = field(default_factory=dict)
    written: set[nodes.Tensor] = field(default_factory=set)
    dropped: dict[str, s.Lowering] = field(default_factory=dict)
    """Lines left out because a part of them is null, by the output they would write."""

    def add(self, line: s.Lowering) -> None:
        """Lower one line of the formula."""
        if line.unroll is None:
            self._expand(line, {}, {})
            return
        count = self._count(line)
        self._skip_if_empty(count, line)
        for k in range(count):
            named: dict[str, Value] = {line.unroll.index: k} if line.unroll.index else {}
            self._expand(line, {}, named)

    def _count(self, line: s.Lowering) -> int:
        """How often an unrolled line is repeated."""
        assert line.unroll is not None
        assert line.unroll.count is not None
        value = self.scope.evaluate(line.unroll.count)
        count = require_int(value, line.unroll.count.span, "an unroll count")
        self._limit(count, line.span)
        return count

    def _skip_if_empty(self, count: int, line: s.Lowering) -> None:
        """A line that is written out no times leaves its output zero, or empty."""
        if count == 0:
            self.written |= set(tensors_of(self.outputs.get(target_name(line.target))))

    def _limit(self, count: int, span: Span) -> None:
        if len(self.body) + count > _MOST_STEPS:
            raise fail("E0604", f"a formula of more than {_MOST_STEPS} lines", span)
        self.builder.budget.spend(count, span)

    # ------------------------------------------------------------ writing out loops

    def _expand(self, line: s.Lowering, fixed: Fixed, named: dict[str, Value]) -> None:
        """Lower a line with some indices fixed; where an index counts tensors, for each value."""
        statement = Statement(self.builder, self.scope, self.outputs, line)
        try:
            self._emit(statement.lower(fixed, named), line)
        except MustUnroll as loop:
            key, index = self._loop_to_unroll(statement, loop)
            count = index.extent
            if not isinstance(count, nodes.Const):
                raise fail(
                    "E0604",
                    f"the loop over `{index.name}` counts tensors of a pack, so its extent "
                    "must be known",
                    loop.span,
                ) from None
            self._limit(int(count.value), line.span)
            self._skip_if_empty(int(count.value), line)
            for k in range(int(count.value)):
                self._expand(line, {**fixed, key: k}, named)

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
                if line is None and isinstance(self.outputs[parameter.name], tuple):
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
