"""The graph under construction: its steps, constants, variables, symbols and names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from ...diagnostics import Call
from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...records import dataclass
from ...source import NOWHERE, Span
from . import binding
from . import syntax as s
from .compose_noted import tensors_taken, without_needless_copies
from .compose_parts import Frame, Library, Part, Plan, schedule
from .evaluate_scalars import binary, reads_nothing
from .values import (
    Budget,
    Item,
    Scalar,
    describe,
    dtype_of,
    fail,
    from_expr,
    is_expr,
    show,
    shown_size,
    to_expr,
)


@dataclass(eq=False)
class Builder:
    """Collects what a graph consists of while operators are composed."""

    modules: Library
    name: str
    budget: Budget = field(default_factory=Budget)
    frames: list[Frame] = field(default_factory=list)
    parts: list[Part] = field(default_factory=lambda: [Part()])
    """The graph, and the regions that surround the place, innermost last."""
    variables: dict[str, nodes.Tensor] = field(default_factory=dict)
    symbols: list[nodes.Symbol] = field(default_factory=list)
    sizes: list[tuple[nodes.Symbol, nodes.Tensor]] = field(default_factory=list)
    checks: list[nodes.Check] = field(default_factory=list)
    pending: set[nodes.Tensor] = field(default_factory=set)
    """The tensors that the formula being lowered computes."""
    sharing: int = 0
    """How many unrolled loops, and graphs invoked under their own name, surround the place:
    variables of one name are one there."""
    quantizing: bool = False
    """Whether the operators that `@quantize` names are invoked, or only noted."""
    quantization: list[nodes.Quantization] = field(default_factory=list)
    """What is noted: each of a copy, which those read that are to read the quantized tensor."""
    _constants: dict[tuple[object, ...], nodes.Tensor] = field(default_factory=dict)
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

    # ------------------------------------------------------------------ tensors

    def tensor(
        self,
        name: str | None,
        dtype: DType,
        shape: tuple[nodes.Expr, ...],
        span: Span = NOWHERE,
        data: Scalar | tuple[Scalar, ...] | None = None,
    ) -> nodes.Tensor:
        """A new tensor.

        Raises E0301 for one of strings, E0901 for too many dimensions, or elements to count in 64
        bits.
        """
        if dtype is DType.STR:
            raise fail("E0301", "there are no tensors of strings", span)
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
        """A constant tensor; those that agree in everything are one.

        One of a size that is not known now is the result of an operation.
        """
        items = data if isinstance(data, tuple) else (data,)
        if not isinstance(data, tuple) and any(type(e) is not nodes.Const for e in shape):
            return self.filled(nodes.Const(data, dtype), shape, name)
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

    def is_defined_by_data(self, shape: tuple[nodes.Expr, ...]) -> bool:
        """Whether a shape has sizes that are known only when some operation has been done."""
        symbols = rewrite.free_symbols(*shape)
        return bool(symbols) and not {s for s, _ in self.sizes}.isdisjoint(symbols)

    def filled(
        self,
        value: nodes.Expr,
        shape: tuple[nodes.Expr, ...],
        name: str | None,
        span: Span = NOWHERE,
    ) -> nodes.Tensor:
        """A tensor with one value in all places, by an operation."""
        domain = tuple(nodes.Index(f"i{k}", e) for k, e in enumerate(shape))
        return self.computed(value, domain, span, name)

    def computed(
        self,
        value: nodes.Expr,
        domain: tuple[nodes.Index, ...],
        span: Span,
        name: str | None = None,
    ) -> nodes.Tensor:
        """A tensor with a value for each point of a domain, by an operation."""
        target = self.tensor(name, value.dtype, tuple(i.extent for i in domain), span)
        at = tuple(nodes.Subscript(i) for i in domain)
        body = nodes.Assignment((nodes.Access(target, at),), "set", (value,), domain, span=span)
        reads = tuple([a.tensor for a in rewrite.accesses(value)])
        self.add(nodes.Operation("fill", (target,), (body,), reads, span=span, calls=self.calls()))
        return target

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

    @property
    def steps(self) -> list[nodes.Step]:
        """The steps of the innermost region."""
        return self.parts[-1].steps

    def add(self, step: nodes.Step) -> None:
        self.steps.append(step)

    @contextmanager
    def region(self, part: Part | None = None) -> Iterator[Part]:
        """Collect what is added within; a part that is given goes on."""
        self._make_checks()
        self.parts.append(part or Part())
        try:
            yield self.parts[-1]
            self._make_checks()
        finally:
            self.parts.pop()

    def _make_checks(self) -> None:
        """Have the conditions checked that evaluation has relied on in the innermost region."""
        demands, self.budget.demands = self.budget.demands, []
        for condition, message, span in demands:
            if not reads_nothing(condition) or rewrite.free_indices(condition):
                raise fail("E0507", "this must be known before the formula is computed", span)
            self.check(condition, message, span)

    def update(self, variable: nodes.Tensor, value: nodes.Tensor) -> None:
        """Let a variable hold a value from now on."""
        self.parts[-1].updates[variable] = value

    def current(self, variable: nodes.Tensor) -> nodes.Tensor:
        """What holds the value of a variable at this place: invocations that share a variable see
        what those before them, and those of earlier steps of a loop, made of it."""
        for part in reversed(self.parts):
            if variable in part.updates:
                return part.updates[variable]
            if part.loop:
                if variable not in part.held:
                    part.held[variable] = self.tensor(None, variable.dtype, variable.shape)
                return part.held[variable]
        return variable

    def calls(self) -> tuple[Call, ...]:
        """The stack of invocations, innermost first."""
        return tuple(frame.call for frame in reversed(self.frames))

    def symbol(self, name: str | None, bound: nodes.Expr | None, span: Span) -> nodes.Symbol:
        """A new size; unnamed ones are called `.S1`."""
        if name is None:
            self._symbols += 1
            name = f".S{self._symbols}"
        return nodes.Symbol(name, bound, span)

    def bound(self, extents: Sequence[nodes.Expr]) -> nodes.Expr | None:
        """What none of some extents exceeds, in sizes that are known from the beginning."""
        result: nodes.Expr | None = None
        for extent in extents:
            if self.is_defined_by_data((extent,)):
                high = shapes.interval(extent)[1]
                if high >= 1 << 62:
                    return None
                extent = nodes.integer(int(high))
            result = extent if result is None else shapes.maximum(result, extent)
        return result

    def check(
        self,
        condition: Item,
        message: tuple[str | nodes.Expr | tuple[nodes.Expr, ...], ...],
        span: Span,
        values: tuple[tuple[str, nodes.Expr | tuple[nodes.Expr, ...]], ...] = (),
    ) -> None:
        """Have a condition over sizes checked when the graph runs.

        What only a branch or loop needs is checked when that runs.
        """
        condition = to_expr(condition)
        if any(condition in part.checked for part in self.parts):
            return
        self.parts[-1].checked.add(condition)
        if len(self.parts) > 1:
            skipped = nodes.Binary("eq", self._reached(), nodes.ZERO)
            condition = nodes.Binary("or", skipped, condition)
        self.checks.append(nodes.Check(condition, message, values, span, self.calls()))

    def _reached(self) -> nodes.Symbol:
        """A size that the first operation of the innermost region defines."""
        part = self.parts[-1]
        if part.reached is None:
            part.reached = self.symbol(None, nodes.ONE, NOWHERE)
            flag = nodes.Tensor(self.unique(None), DType.INT, ())
            body = nodes.Assignment((nodes.Access(flag, ()),), "set", (nodes.ONE,), ())
            part.steps.insert(0, nodes.Operation("reached", (flag,), (body,)))
            self.sizes.append((part.reached, flag))
        return part.reached

    def guard(self, extent: nodes.Expr, span: Span) -> None:
        """Have an extent checked at run time where it may be negative, or divides by zero."""
        if any(extent in part.guarded for part in self.parts):
            return
        self.parts[-1].guarded.add(extent)
        for part in rewrite.walk(extent):
            if type(part) is nodes.Binary and part.op in ("floordiv", "ceildiv", "mod"):
                nonzero = shapes.compare("ne", part.rhs, nodes.ZERO)
                if nonzero is not nodes.TRUE:
                    self.check(nonzero, ("division by zero in a shape",), span)
        if shapes.interval(extent)[0] < 0:
            positive = nodes.Binary("ge", extent, nodes.ZERO)
            self.check(positive, ("an extent must not be negative; it is ", extent), span)

    def agree(
        self,
        a: nodes.Expr,
        b: nodes.Expr,
        what: str,
        span: Span,
        unless: nodes.Expr = nodes.FALSE,
    ) -> bool:
        """Whether two extents are equal; where it cannot be decided a check sees to it, which
        does not matter where `unless` holds."""
        if a is b or a == b or shapes.equal(a, b) or unless is nodes.TRUE:
            return True
        result = binary("==", from_expr(a), from_expr(b), span)
        if isinstance(result, bool) and (result or unless is nodes.FALSE):
            return result
        if unless is not nodes.FALSE:
            result = shapes.logical_or(unless, to_expr(result))
        message = (f"{what} is ", *shown_size(a), ", which must be ", *shown_size(b))
        self.check(result, message, span)
        return True

    def keep_bound(self, size: Item, bound: Item, what: str, span: Span) -> None:
        """Have an extent compared with its upper bound; E0417 if it is certainly above."""
        fits = binary("<=", size, bound, span)
        if fits is False:
            raise fail("E0417", f"{what} is {show(size)}, above its bound {show(bound)}", span)
        if fits is not True:
            shown = shown_size(to_expr(size))
            message = (f"{what} is ", *shown, ", above its bound ", to_expr(bound))
            self.check(fits, message, span)

    # ------------------------------------------------------------ per operator

    def plan(self, operator: s.Operator) -> Plan:
        """The binding order of an operator, and when its asserts can be checked."""
        plan = self._plans.get(id(operator))
        if plan is None:
            plan = Plan(binding.order(operator), schedule(operator))
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
        used = set(tensors_taken(self.steps))
        used |= {t for port in outputs for t in port.tensors}
        updates = self.parts[0].updates
        self._make_checks()
        used |= set(updates.values())
        graph = nodes.Graph(
            self.name,
            tuple(inputs),
            tuple(outputs),
            tuple(self.steps),
            tuple(self.variables.values()),
            tuple(t for t in self._constants.values() if t in used),
            tuple(self.symbols),
            tuple(self.sizes),
            tuple(self.checks),
            tuple(updates.items()),
            tuple(self.quantization),
            span,
        )
        return without_needless_copies(graph)


MOST_DIMENSIONS = 64
"""Dimensions of a tensor: as many as the arrays of NumPy have."""

_MOST_COMPARED = 64
"""Elements of constants that are compared to find equal ones."""
