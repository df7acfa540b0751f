"""From a checked function with its ranges to a graph.

Every statement becomes an operation that computes a new tensor: the next version of its target,
from the version before it where that counts. A tensor is as large as the ranges of all its
statements; its element 0 is the smallest index.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dtypes import DType
from ...ir import nodes as ir
from ...ir import shapes
from ...ir.rewrite import tensors_read
from . import program as tc
from .lower_value import Scope, needed_lets
from .ranges import Range, Ranges


def lower_function(
    function: tc.Function, ranges: Ranges, given: frozenset[str] = frozenset()
) -> ir.Graph:
    """The graph of a function, open in its sizes.

    Results whose names are in `given` have one input more, after the parameters: what they hold
    before the first statement that accumulates on them.
    """
    return _Lowering(function, ranges, given).graph()


class _Lowering:
    def __init__(self, function: tc.Function, ranges: Ranges, given: frozenset[str]) -> None:
        self.function = function
        self.ranges = ranges
        self.given = given
        self.current: dict[tc.Variable, ir.Tensor] = {}

    def graph(self) -> ir.Graph:
        function = self.function
        extra = [v for v in function.results if v.name in self.given]
        inputs = [self._input(v) for v in (*function.parameters, *extra)]
        steps = [self._operation(statement) for statement in function.statements]
        outputs = [ir.Port(v.name, (self.current[v],)) for v in function.results]
        return ir.Graph(
            function.name,
            tuple(inputs),
            tuple(outputs),
            tuple(steps),
            symbols=function.sizes,
            checks=tuple(self.ranges.checks()),
            span=function.span,
        )

    def _input(self, variable: tc.Variable) -> ir.Port:
        self.current[variable] = self._tensor(variable)
        return ir.Port(variable.name, (self.current[variable],))

    def _tensor(self, variable: tc.Variable) -> ir.Tensor:
        shape = tuple(r.extent for r in self.ranges.of_tensor(variable))
        name = f"{self.function.name}.{variable.name}"
        return ir.Tensor(name, variable.dtype, shape, span=variable.span)

    # -------------------------------------------------------------- statements

    def _operation(self, statement: tc.Statement) -> ir.Operation:
        before = self.current.get(statement.target)
        after = self._tensor(statement.target)
        write = self._set if statement.op == "set" else self._accumulate
        body = write(statement, before, after)
        self.current[statement.target] = after
        read = dict.fromkeys(t for a in body for t in tensors_read(a) if t is not after)
        return ir.Operation(
            self.function.name, (after,), tuple(body), tuple(read), span=statement.span
        )

    def _set(
        self, statement: tc.Statement, before: ir.Tensor | None, after: ir.Tensor
    ) -> list[ir.Assignment]:
        """`T(i) = value`; elements of the version before that it does not write stay."""
        whole = self.ranges.of_tensor(statement.target)
        own = [self.ranges.of(statement, i) for i in statement.indices]
        over = own if before is None else whole
        nest = _Nest(statement, over, self.current, self.ranges)
        if over is whole:
            nest.scope.always = frozenset()
        value = nest.scope.value(statement.value)
        target = nest.target(after, whole)
        if before is not None:
            old = ir.Access(before, target.subscripts)
            for index, mine, all_ in zip(statement.indices, own, whole, strict=True):
                place = nest.scope.places[index]
                if not shapes.equal(mine.minimum, all_.minimum):
                    inside = shapes.compare("ge", place, mine.minimum)
                    value = ir.Select(inside, value, old)
                if not shapes.equal(mine.maximum, all_.maximum):
                    inside = shapes.compare("le", place, mine.maximum)
                    value = ir.Select(inside, value, old)
        return [nest.assignment(target, "set", value)]

    def _accumulate(
        self, statement: tc.Statement, before: ir.Tensor | None, after: ir.Tensor
    ) -> list[ir.Assignment]:
        """`T(i) op= value`, on what the version before holds, or on the operator's identity."""
        whole = self.ranges.of_tensor(statement.target)
        own = [self.ranges.of(statement, i) for i in (*statement.indices, *statement.reduced)]
        nest = _Nest(statement, own, self.current, self.ranges)
        value = nest.scope.value(statement.value)
        op: ir.Reduction = statement.op
        if statement.target.dtype is DType.BOOL:
            op = _OF_BOOLS[op]
        body = [nest.assignment(nest.target(after, whole), op, value)]
        start: ir.Expr = identity(statement.op, statement.target.dtype)
        if before is not None and not statement.fresh:
            outer = _Nest(statement, whole, self.current, self.ranges)
            target = outer.target(after, whole)
            body.insert(0, outer.assignment(target, "set", ir.Access(before, target.subscripts)))
        elif statement.op != "add":
            outer = _Nest(statement, whole, self.current, self.ranges)
            body.insert(0, outer.assignment(outer.target(after, whole), "set", start))
        return body


_OF_BOOLS: dict[ir.Reduction, ir.Reduction] = {"min": "and", "max": "or"}


class _Nest:
    """The loops of a statement: over some ranges, those of its indices on the left first."""

    def __init__(
        self,
        statement: tc.Statement,
        over: list[Range] | tuple[Range, ...],
        tensors: dict[tc.Variable, ir.Tensor],
        ranges: Ranges,
    ) -> None:
        self.statement = statement
        variables = (*statement.indices, *statement.reduced)[: len(over)]
        self.domain = [
            ir.Index(i.name, r.extent, i.span) for i, r in zip(variables, over, strict=True)
        ]
        places = {
            i: shapes.add(index, r.minimum)
            for i, index, r in zip(variables, self.domain, over, strict=True)
        }
        self.scope = Scope(statement, places, tensors, ranges, needed_lets(statement.value))

    def target(self, tensor: ir.Tensor, bounds: tuple[Range, ...]) -> ir.Access:
        places = [self.scope.places[i] for i in self.statement.indices]
        subscripts = [
            ir.Subscript(shapes.sub(place, b.minimum))
            for place, b in zip(places, bounds, strict=True)
        ]
        return ir.Access(tensor, tuple(subscripts), self.statement.span)

    def assignment(self, target: ir.Access, op: ir.Reduction, value: ir.Expr) -> ir.Assignment:
        return ir.Assignment(
            (target,),
            op,
            (value,),
            tuple(self.domain),
            tuple(self.scope.locals),
            span=self.statement.span,
        )


def identity(op: tc.Reduction, dtype: DType) -> ir.Const:
    """What changes nothing: 0, 1, the largest or the smallest value of a type."""
    if op in ("add", "mul"):
        value: float = int(op == "mul")
        return ir.Const(float(value) if dtype.is_real else value, dtype)
    if dtype is DType.BOOL:
        return ir.Const(op == "min", dtype)
    if dtype.is_real:
        return ir.Const(math.inf if op == "min" else -math.inf, dtype)
    limits: Any = np.iinfo(np.dtype(dtype.value))
    return ir.Const(int(limits.max if op == "min" else limits.min), dtype)
