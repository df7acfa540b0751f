"""The graph under construction: its steps, constants, variables, symbols and names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from ...diagnostics import Call
from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...source import NOWHERE, Span
from . import binding
from . import syntax as s
from .evaluate_scalars import binary
from .values import (
    Budget,
    Item,
    Scalar,
    Value,
    describe,
    dtype_of,
    fail,
    from_expr,
    is_expr,
    to_expr,
)


class Library(Protocol):
    """What composition needs of a program: `modules.Program` has it."""

    def resolve(
        self, module: s.Module, path: tuple[str, ...]
    ) -> tuple[s.Module, s.Operator] | None: ...


@dataclass(eq=False)
class Frame:
    """One invocation on the stack, with the arguments it was given."""

    name: str
    operator: s.Operator
    span: Span
    arguments: tuple[Value, ...] = ()
    _call: Call | None = None

    @property
    def call(self) -> Call:
        """The invocation as diagnostics show it."""
        if self._call is None:
            inputs = zip(self.operator.inputs, self.arguments, strict=False)
            shown = (f"{p.name}: {describe(v)}" for p, v in inputs if v is not None)
            self._call = Call(f"{self.name}({', '.join(shown)})", self.span)
        return self._call


@dataclass(eq=False)
class Plan:
    """What is found once per operator, whatever it is called with."""

    order: list[int]
    asserts: list[list[s.Assertion]]
    """For each line of `@using`, and after the last, the asserts that can then be checked."""


@dataclass(eq=False)
class Builder:
    """Collects what a graph consists of while operators are composed."""

    library: Library
    name: str
    budget: Budget = field(default_factory=Budget)
    frames: list[Frame] = field(default_factory=list)
    steps: list[nodes.Step] = field(default_factory=list)
    variables: dict[str, nodes.Tensor] = field(default_factory=dict)
    symbols: list[nodes.Symbol] = field(default_factory=list)
    sizes: list[tuple[nodes.Symbol, nodes.Tensor]] = field(default_factory=list)
    checks: list[nodes.Check] = field(default_factory=list)
    updates: list[tuple[nodes.Tensor, nodes.Tensor]] = field(default_factory=list)
    sharing: int = 0
    """How many unrolled loops, and graphs invoked under their own name, surround the place:
    variables of one name are one there."""
    named: dict[str, nodes.Tensor] = field(default_factory=dict)
    """Tensors by their scoped names, where `@quantize` may mention them."""
    quantization: list[tuple[nodes.Tensor, str, tuple[tuple[str, str], ...]]] = field(
        default_factory=list
    )
    _constants: dict[tuple[object, ...], nodes.Tensor] = field(default_factory=dict)
    _checked: set[nodes.Expr] = field(default_factory=set)
    _guarded: set[nodes.Expr] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)
    _plans: dict[int, Plan] = field(default_factory=dict)
    _free: dict[int, tuple[str, ...]] = field(default_factory=dict)
    _tensors: int = 0
    _symbols: int = 0

    # -------------------------------------------------------------------- names

    def unique(self, wanted: str | None) -> str:
        """The name wanted if it is free, else a generated one `.T1`."""
        if wanted is not None and wanted not in self._names:
            self._names.add(wanted)
            return wanted
        self._tensors += 1
        return f".T{self._tensors}"

    def remember(self, name: str, value: Value) -> None:
        """Let `@quantize` find a tensor, or the items of a pack, by a scoped name."""
        if isinstance(value, nodes.Tensor):
            self.named[name] = value
        elif isinstance(value, tuple):
            for k, item in enumerate(value):
                if isinstance(item, nodes.Tensor):
                    self.named[f"{name}:{k + 1}"] = item

    # ------------------------------------------------------------------ tensors

    def tensor(
        self,
        name: str | None,
        dtype: DType,
        shape: tuple[nodes.Expr, ...],
        span: Span = NOWHERE,
        data: Scalar | tuple[Scalar, ...] | None = None,
    ) -> nodes.Tensor:
        """A new tensor; raises E0901 for too many dimensions, or elements to count in 64 bits."""
        if len(shape) > MOST_DIMENSIONS:
            raise fail("E0901", "a tensor with too many dimensions", span, f"it has {len(shape)}")
        volume = 1
        for extent in shape:
            if type(extent) is nodes.Const:
                volume *= int(extent.value)
            else:
                self.guard(extent, span)
        if volume >= 1 << 62:
            shown = ", ".join(describe(e) for e in shape)
            raise fail("E0901", "a tensor too large to address", span, f"shape [{shown}]")
        return nodes.Tensor(self.unique(name), dtype, shape, data, span)

    def constant(
        self,
        data: Scalar | tuple[Scalar, ...],
        dtype: DType,
        shape: tuple[nodes.Expr, ...] = (),
        name: str | None = None,
    ) -> nodes.Tensor:
        """A constant tensor; those that agree in everything are one."""
        items = data if isinstance(data, tuple) else (data,)
        key: tuple[object, ...] = (name, dtype, shape, isinstance(data, tuple), *map(repr, items))
        if len(items) > _MOST_COMPARED:
            key = (name, id(data))
        found = self._constants.get(key)
        if found is None:
            found = self.tensor(name, dtype, shape, data=data)
            self._constants[key] = found
        return found

    def scalar(self, item: Item, span: Span) -> nodes.Tensor:
        """An item as a tensor of rank 0: itself, a constant, or computed from sizes."""
        if isinstance(item, nodes.Tensor):
            return item
        if isinstance(item, nodes.Subscript) or dtype_of(item) is DType.STR:
            raise fail("E0503", "a tensor is needed here", span, describe(item))
        if isinstance(item, nodes.Const):
            return self.constant(item.value, item.dtype)
        if not is_expr(item):
            assert isinstance(item, bool | int | float)
            return self.constant(item, dtype_of(item))
        tensor = self.tensor(None, item.dtype, (), span)
        body = nodes.Assignment((nodes.Access(tensor, ()),), "set", (item,), (), span=span)
        self.add(nodes.Operation("shape", (tensor,), (body,), span=span, calls=self.calls()))
        return tensor

    def copy(self, source: nodes.Tensor, name: str | None, span: Span) -> nodes.Tensor:
        """A new tensor with the elements of another, by an operation `=`."""
        target = self.tensor(name, source.dtype, source.shape, span)
        domain = tuple(nodes.Index(f"i{k}", e) for k, e in enumerate(source.shape))
        at = tuple(nodes.Subscript(i) for i in domain)
        body = nodes.Assignment(
            (nodes.Access(target, at),), "set", (nodes.Access(source, at),), domain, span=span
        )
        self.add(nodes.Operation("=", (target,), (body,), (source,), span=span, calls=self.calls()))
        return target

    # ------------------------------------------------------------ steps, checks

    def add(self, step: nodes.Step) -> None:
        self.steps.append(step)

    @contextmanager
    def region(self) -> Iterator[list[nodes.Step]]:
        """Collect the steps that are added within."""
        outer, self.steps = self.steps, []
        try:
            yield self.steps
        finally:
            self.steps = outer

    def calls(self) -> tuple[Call, ...]:
        """The stack of invocations, innermost first."""
        return tuple(frame.call for frame in reversed(self.frames))

    def symbol(self, name: str | None, bound: nodes.Expr | None, span: Span) -> nodes.Symbol:
        """A new size; unnamed ones are called `.S1`."""
        if name is None:
            self._symbols += 1
            name = f".S{self._symbols}"
        return nodes.Symbol(name, bound, span)

    def check(
        self,
        condition: Item,
        message: tuple[str | nodes.Expr | tuple[nodes.Expr, ...], ...],
        span: Span,
        values: tuple[tuple[str, nodes.Expr | tuple[nodes.Expr, ...]], ...] = (),
    ) -> None:
        """Have a condition over sizes checked when the graph runs."""
        condition = to_expr(condition)
        if condition not in self._checked:
            self._checked.add(condition)
            self.checks.append(nodes.Check(condition, message, values, span, self.calls()))

    def guard(self, extent: nodes.Expr, span: Span) -> None:
        """Have an extent checked at run time where it may be negative, or divides by zero."""
        if extent in self._guarded:
            return
        self._guarded.add(extent)
        for part in rewrite.walk(extent):
            if type(part) is nodes.Binary and part.op in ("floordiv", "ceildiv", "mod"):
                nonzero = shapes.compare("ne", part.rhs, nodes.ZERO)
                if nonzero is not nodes.TRUE:
                    self.check(nonzero, ("division by zero in a shape",), span)
        if shapes.interval(extent)[0] < 0:
            positive = nodes.Binary("ge", extent, nodes.ZERO)
            self.check(positive, ("an extent must not be negative; it is ", extent), span)

    def agree(self, a: nodes.Expr, b: nodes.Expr, what: str, span: Span) -> bool:
        """Whether two extents are equal; where it cannot be decided a check sees to it."""
        if a is b or a == b or shapes.equal(a, b):
            return True
        result = binary("==", from_expr(a), from_expr(b), span)
        if isinstance(result, bool):
            return result
        self.check(result, (f"{what}: ", a, " and ", b, " must be equal"), span)
        return True

    # ------------------------------------------------------------ per operator

    def plan(self, operator: s.Operator) -> Plan:
        """The binding order of an operator, and when its asserts can be checked."""
        plan = self._plans.get(id(operator))
        if plan is None:
            plan = Plan(binding.order(operator), _schedule(operator))
            self._plans[id(operator)] = plan
        return plan

    def free_names(self, expr: s.Expr) -> tuple[str, ...]:
        """The identifiers that an expression of the program reads."""
        names = self._free.get(id(expr))
        if names is None:
            names = self._free[id(expr)] = tuple(binding.free_names(expr))
        return names

    # -------------------------------------------------------------------- result

    def finish(
        self, inputs: list[nodes.Port], outputs: list[nodes.Port], span: Span
    ) -> nodes.Graph:
        """The graph of what was collected; constants that nothing reads are left out."""
        used = set(_tensors_read(self.steps))
        used |= {t for port in outputs for t in port.tensors}
        used |= {t for pair in self.updates for t in pair}
        return nodes.Graph(
            self.name,
            tuple(inputs),
            tuple(outputs),
            tuple(self.steps),
            tuple(self.variables.values()),
            tuple(t for t in self._constants.values() if t in used),
            tuple(self.symbols),
            tuple(self.sizes),
            tuple(self.checks),
            tuple(self.updates),
            tuple(self.quantization),
            span,
        )


MOST_DIMENSIONS = 64
"""Dimensions of a tensor: as many as the arrays of NumPy have."""

_MOST_COMPARED = 64
"""Elements of constants that are compared to find equal ones."""


def _schedule(operator: s.Operator) -> list[list[s.Assertion]]:
    """Specification 2.9: an assert is checked as soon as the names in it are known."""
    ready: dict[str, int] = {}
    for position, using in enumerate(operator.using):
        for item in using.items:
            names = item.names if isinstance(item, s.UsingZip) else (item.name,)
            ready |= dict.fromkeys(names, position + 1)
    result: list[list[s.Assertion]] = [[] for _ in range(len(operator.using) + 1)]
    for assertion in operator.asserts:
        read = binding.free_names(assertion.condition)
        result[max((ready.get(n, 0) for n in read), default=0)].append(assertion)
    return result


def _tensors_read(steps: list[nodes.Step]) -> Iterator[nodes.Tensor]:
    """Every tensor that a step, or a step within it, takes from outside."""
    for step in rewrite.all_steps(steps):
        if isinstance(step, nodes.Operation):
            yield from step.inputs
        elif isinstance(step, nodes.Branch):
            for region in (*step.conditions, *step.branches):
                yield from region.results
        else:
            yield from step.initial
            yield from (t for _, pack in step.scans for t in pack)
            yield from step.body.results
            yield from step.condition.results if step.condition is not None else ()
            if isinstance(step.count, nodes.Tensor):
                yield step.count
