"""What a call computes besides its results: whether sizes fit, and the shapes of results.

The engine for calls from Python does this in Python. Here they are kernels, which write to cells
after those of the program itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from ..backends.llvm.image import arrange
from ..backends.llvm.kernels import KernelCode
from ..backends.llvm.standalone_unit import Part, Stage, Test, TestKind
from ..backends.llvm.target import Target
from ..dtypes import DType
from ..ir.interpret_bind import checks_on_data
from ..ir.loops import Buffer, Kernel, Program
from ..ir.nodes import (
    Cast,
    Check,
    Const,
    Expr,
    Graph,
    Symbol,
    Tensor,
    Unary,
)
from ..ir.rewrite import Replaceable, free_symbols, substitute
from ..ir.shapes import interval
from ..passes.control_state import store
from ..passes.specialise import size_for
from ..records import dataclass

Message = tuple[str | Expr, ...]
"""Text, and values that are shown."""


@dataclass
class Cells:
    """Kernels over the sizes of a program that write what they compute to cells of their own."""

    program: Program
    target: Target
    sizes: Mapping[Symbol, Expr]
    """What symbols of the graph stand for: numbers, or symbols of the program."""
    count: int = 0
    codes: dict[str, KernelCode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        p = self.program
        self.count = len(p.symbols) + p.defined + p.checks
        self._known: dict[Replaceable, Expr | Tensor] = dict(self.sizes.items())

    def _fixed(self, expr: Expr) -> Expr:
        """An expression of the sizes of the program."""
        value = substitute(expr, self._known)
        try:
            return size_for(value, {})
        except (ZeroDivisionError, OverflowError, ValueError):
            return value  # what a call that asks for it fails with

    def stage(self, values: Sequence[Expr]) -> tuple[Stage, list[int]]:
        """Steps that compute integers, and the cells that these are in then."""
        first = self.count
        self.count += len(values)
        buffers: dict[Tensor, Buffer] = {}
        kernels: list[Kernel] = []
        for number, value in enumerate(values, first):
            cell = Tensor("size", DType.INT64, ())
            buffers[cell] = Buffer("size", number)
            kernels.append(store("the sizes of the call", cell, self._fixed(value)))
        p = self.program
        own = Program(
            p.name,
            (),
            (),
            (),
            (),
            (),
            (),
            tuple(kernels),
            buffers,
            0,
            p.symbols,
            p.defined,
            p.checks,
        )
        image, codes, _ = arrange(own, self.target)
        self.codes |= codes
        return Stage(image.steps), list(range(first, self.count))


@dataclass(frozen=True, slots=True)
class _Early:
    """A test of sizes before the steps: a value to compute, and what it fails by. With `bounded`
    it is the bound of the size of that number."""

    value: Expr
    kind: TestKind
    code: int
    message: Message
    bounded: int | None = None


@dataclass
class Conditions:
    """The tests of a call of a graph, and what their messages show."""

    graph: Graph
    """As it was composed."""
    concrete: Graph
    """Specialised."""
    cells: Cells
    before: Stage = field(default_factory=Stage)
    tests: tuple[Test, ...] = ()
    """Those after the steps."""
    explain: Stage = field(default_factory=Stage)
    _values: dict[Expr, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        early = [*self._of_bounds(), *self._of_extents(), *self._of_checks()]
        late = [self._of_defined(s) for s, _ in self.concrete.sizes]
        late_checks = [self._of_check(c) for c in checks_on_data(self.graph)]
        steps, places = self.cells.stage([e.value for e in early])
        self._explain([*(e.message for e in early), *late, *late_checks])
        tests = [self._test(e, cell) for e, cell in zip(early, places, strict=True)]
        self.before = Stage(steps.steps, tuple(tests))
        self.tests = (*self._late(late), *self._late_checks(late_checks))

    def _explain(self, messages: Sequence[Message]) -> None:
        """Give cells to what messages show."""
        parts = dict.fromkeys(p for m in messages for p in m if not isinstance(p, str))
        shown = [p for p in parts if not isinstance(p, Const)]
        numbers = [p if p.dtype is DType.INT else Cast(DType.INT, p) for p in shown]
        self.explain, cells = self.cells.stage(numbers)
        self._values = dict(zip(shown, cells, strict=True))

    def _test(self, early: _Early, cell: int) -> Test:
        message = self._parts(early.message)
        if early.bounded is not None:
            return Test(early.bounded, "above", cell, early.code, message)
        return Test(cell, early.kind, 1, early.code, message)

    # ----------------------------------------------------------------- conditions

    def _of_bounds(self) -> list[_Early]:
        """Sizes above bounds that other sizes define."""
        return [
            _Early(s.bound, "above", 804, (f"`{s.name}` is ", s, ", more than ", s.bound), k)
            for k, s in enumerate(self.concrete.symbols)
            if s.bound is not None and not isinstance(s.bound, Const)
        ]

    def _of_extents(self) -> list[_Early]:
        """Tensors whose extents the sizes make negative."""
        graph, known = self.concrete, set(self.concrete.symbols)
        tensors = [t for p in graph.inputs for t in p.tensors]
        tensors += [t for step in graph.operations for t in step.outputs]
        return [
            _Early(e, "negative", 804, (f"the extent of dimension {d} of `{t.name}` is ", e))
            for t in tensors
            for d, e in enumerate(t.shape)
            if interval(e)[0] < 0 and known.issuperset(free_symbols(e))
        ]

    def _of_checks(self) -> list[_Early]:
        """Checks of sizes that are arguments."""
        late = checks_on_data(self.graph)
        return [
            _Early(Cast(DType.INT, Unary("not", c.condition)), "equals", 501, self._of_check(c))
            for c in self.graph.checks
            if c not in late and self._is_open(c)
        ]

    def _is_open(self, check: Check) -> bool:
        """Whether a check depends on a size that is an argument."""
        sizes = self.cells.sizes
        return any(isinstance(sizes[s], Symbol) for s in free_symbols(check.condition))

    # ------------------------------------------------------------------- messages

    def _of_check(self, check: Check) -> Message:
        parts = self._flat(check.message) or ["an assertion does not hold"]
        for label, value in check.values:
            parts += [f"; {label} = ", *self._flat((value,))]
        return tuple(parts)

    def _flat(self, parts: Sequence[str | Expr | tuple[Expr, ...]]) -> list[str | Expr]:
        out: list[str | Expr] = []
        for part in parts:
            if isinstance(part, str):
                out.append(part)
            elif isinstance(part, tuple):
                for k, e in enumerate(part):
                    out += [", " if k else "[", e]
                out.append("]" if part else "[]")
            else:
                out.append(part)
        return out

    def _of_defined(self, symbol: Symbol) -> Message:
        """What is said after the value that the data asks for."""
        if symbol.bound is None:
            return (f"size `{symbol.name}`: ",)
        return (f"size `{symbol.name}`, not between 0 and ", symbol.bound, ": ")

    def _parts(self, message: Message) -> tuple[Part, ...]:
        return tuple(
            p if isinstance(p, str) else str(p.value) if isinstance(p, Const) else self._values[p]
            for p in message
        )

    def _late(self, messages: Sequence[Message]) -> list[Test]:
        """Tests of sizes that data has defined: as asked for, and as cut to the bounds."""
        p = self.cells.program
        first, asked = len(p.symbols) - p.defined, len(p.symbols)
        return [
            Test(asked + k, "unlike", first + k, 804, (*self._parts(m), asked + k))
            for k, m in enumerate(messages)
        ]

    def _late_checks(self, messages: Sequence[Message]) -> list[Test]:
        first = len(self.cells.program.symbols) + self.cells.program.defined
        return [Test(first + k, "equals", 1, 501, self._parts(m)) for k, m in enumerate(messages)]
