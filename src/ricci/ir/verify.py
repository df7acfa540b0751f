"""Legality of graphs, stage by stage.

A graph that breaks a rule is a fault of the pass that made it, not of the user: the finding
is an `Illegal`, which shows the node. Stages come one after another, each with the rules
of those before it:

* `composed`: what a front end gives; names, dtypes, ranks and order are consistent;
* `concrete`: no tensor and no expression has an abstract dtype, save that `INT` stays the dtype
  of index arithmetic, where it is another word for `INT64`;
* `static`: no symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import Literal, NoReturn

from ..dtypes import DType
from .nodes import (
    Access,
    Assignment,
    Branch,
    Const,
    Expr,
    Graph,
    Index,
    Local,
    Loop,
    Operation,
    Port,
    Region,
    Step,
    Symbol,
    Tensor,
)
from .rewrite import expressions, loop_results, walk
from .shapes import as_int
from .text_print import Printer, format_assignment, format_expr, format_step
from .verify_types import agree, type_fault

Stage = Literal["composed", "concrete", "static"]

STAGES: tuple[Stage, ...] = ("composed", "concrete", "static")


class Illegal(Exception):
    """A graph breaks a rule of its stage: a bug of the pass before."""

    def __init__(self, message: str, node: str) -> None:
        self.node = node
        super().__init__(f"{message}\n{node}")


def verify_graph(graph: Graph, stage: Stage = "composed") -> None:
    """Check every rule of a stage; raises `Illegal` at the first that is broken."""
    _GraphRules(graph, STAGES.index(stage)).check()


# ---------------------------------------------------------------- assignments


class _AssignmentRules:
    def __init__(
        self, assignment: Assignment, level: int, symbols: frozenset[Symbol] | None
    ) -> None:
        self.assignment = assignment
        self.level = level
        self.symbols = symbols
        self.known: set[Expr] = set(assignment.domain)

    def fail(self, message: str) -> NoReturn:
        raise Illegal(message, format_assignment(self.assignment))

    def check(self) -> None:
        a = self.assignment
        self._targets(a)
        if len(set(a.domain)) < len(a.domain):
            self.fail("an index occurs twice in the domain")
        for index in a.domain:
            message = extent_fault(index.extent, self.symbols, self.level)
            if message:
                self.fail(f"the extent of `{index.name}` {message}")
        for local in a.locals:
            self._expression(local.value)
            self.known.add(local)
        for expr in (*a.targets, *a.values):
            self._expression(expr)
        if a.condition is not None:
            self._expression(a.condition)
            if a.condition.dtype is not DType.BOOL:
                self.fail("the condition is not a bool")

    def _targets(self, a: Assignment) -> None:
        if len(a.targets) != len(a.values) or not a.targets:
            self.fail(f"{len(a.targets)} targets for {len(a.values)} values")
        for target, value in zip(a.targets, a.values, strict=True):
            if not agree(target.dtype, value.dtype, self.level > 0):
                self.fail(f"a value of {value.dtype} for `{target.tensor.name}`: {target.dtype}")
            logical = a.op in ("and", "or")
            numeric = a.op in ("add", "mul", "min", "max")
            if logical and target.dtype is not DType.BOOL:
                self.fail(f"reduction `{a.op}` of {target.dtype}")
            if numeric and not target.dtype.is_numeric:
                self.fail(f"reduction `{a.op}` of {target.dtype}")

    def _expression(self, expr: Expr) -> None:
        for node in walk(expr):
            message = self._leaf_fault(node) or type_fault(node, self.level > 0)
            if message:
                self.fail(f"in `{format_expr(node)}`: {message}")

    def _leaf_fault(self, node: Expr) -> str:
        match node:
            case Index() | Local() if node not in self.known:
                return f"`{node.name}` is not defined here"
            case Symbol() if self.level >= STAGES.index("static"):
                return "a symbol in a static graph"
            case Symbol() if self.symbols is not None and node not in self.symbols:
                return f"`{node.name}` is not a symbol of the graph"
            case _:
                return ""


def extent_fault(extent: Expr, symbols: frozenset[Symbol] | None, level: int) -> str:
    """What is wrong with an extent or bound, if anything."""
    if extent.dtype is not DType.INT:
        return f"is {extent.dtype}, not int"
    for node in walk(extent):
        if isinstance(node, (Index, Local, Access)):
            return "depends on more than constants and symbols"
        if isinstance(node, Symbol):
            if level >= STAGES.index("static"):
                return f"depends on symbol `{node.name}` in a static graph"
            if symbols is not None and node not in symbols:
                return f"depends on `{node.name}`, which is not a symbol of the graph"
        message = type_fault(node, False)
        if message:
            return f"has a part `{format_expr(node)}`: {message}"
    return ""


# --------------------------------------------------------------------- graphs


class _GraphRules:
    def __init__(self, graph: Graph, level: int) -> None:
        self.graph = graph
        self.level = level
        self.symbols = frozenset((*graph.symbols, *(s for s, _ in graph.sizes)))
        self.written: set[Tensor] = set()

    def check(self) -> None:
        graph = self.graph
        if self.level >= STAGES.index("static") and self.symbols:
            self.fail("symbols in a static graph")
        for port in graph.inputs:
            self._port(port, graph.inputs)
        defined: set[Tensor] = set()
        for tensor in (*_tensors(graph.inputs), *graph.variables, *graph.constants):
            self._tensor(tensor)
            if tensor.data is not None or tensor not in graph.constants:
                defined.add(tensor)
        self.written = set(defined)
        self.steps(graph.operations, defined)
        for port in graph.outputs:
            self._port(port, graph.outputs)
        self._uses(_tensors(graph.outputs), defined, "an output")
        self._ends(defined)

    def fail(self, message: str, node: str = "") -> NoReturn:
        raise Illegal(message, node or f"in graph {self.graph.name}")

    def _port(self, port: Port, ports: tuple[Port, ...]) -> None:
        if port.length is not None:
            known = any(p.tensors == (port.length,) for p in ports)
            if not port.packed or not known or port.length.rank or not port.length.dtype.is_int:
                self.fail(f"port `{port.name}` has a length that is no integer of another port")
        if port.packed or len(port.tensors) == 1 or (port.optional and not port.tensors):
            return
        self.fail(f"port `{port.name}` has {len(port.tensors)} tensors and is no pack")

    def _ends(self, defined: set[Tensor]) -> None:
        """Sizes, updates and checks."""
        for symbol, tensor in self.graph.sizes:
            if tensor not in self.written:
                self.fail(f"size `{symbol.name}` is defined by `{tensor.name}`, never computed")
            if tensor.rank or not tensor.dtype.is_int:
                self.fail(f"size `{symbol.name}` is not a rank-0 integer", declaration(tensor))
        for old, new in self.graph.updates:
            self._uses([new], defined, f"the update of `{old.name}`")
            if old not in self.graph.variables:
                self.fail(f"an update of `{old.name}`, which is no variable")
            if (old.dtype, old.rank) != (new.dtype, new.rank):
                self.fail(f"an update of `{old.name}` by another type", declaration(new))
        for check in self.graph.checks:
            if check.condition.dtype is not DType.BOOL:
                self.fail("the condition of a check is not a bool", format_expr(check.condition))

    def _tensor(self, tensor: Tensor) -> None:
        if self.level >= STAGES.index("concrete") and tensor.dtype.is_abstract:
            self.fail("a tensor of an abstract dtype", declaration(tensor))
        for extent in tensor.shape:
            message = extent_fault(extent, self.symbols, self.level)
            if message:
                self.fail(f"an extent {message}", declaration(tensor))
        sizes = [as_int(e) for e in tensor.shape]
        known = [n for n in sizes if n is not None]
        if any(n < 0 for n in known):
            self.fail("a negative extent", declaration(tensor))
        count = len(tensor.data) if isinstance(tensor.data, tuple) else None
        if count is not None and len(known) == len(sizes) and count != prod(known):
            self.fail(f"{count} elements of data", declaration(tensor))

    def _uses(self, tensors: Iterable[Tensor], defined: set[Tensor], what: str) -> None:
        for tensor in tensors:
            if tensor not in defined:
                self.fail(f"{what} uses `{tensor.name}` before it is computed")

    # ------------------------------------------------------------------ steps

    def steps(self, steps: Iterable[Step], defined: set[Tensor]) -> None:
        """Check steps in order, adding what they compute to `defined`."""
        for step in steps:
            match step:
                case Operation():
                    self._operation(step, defined)
                    outputs: tuple[Tensor, ...] = step.outputs
                case Branch():
                    self._branch(step, defined)
                    outputs = step.outputs
                case Loop():
                    self._loop(step, defined)
                    outputs = loop_results(step)
            self._define(outputs, defined, step)

    def _define(self, tensors: Iterable[Tensor], defined: set[Tensor], step: Step) -> None:
        for tensor in tensors:
            if tensor in self.written:
                self.fail(f"`{tensor.name}` is computed twice", format_step(step))
            self._tensor(tensor)
            self.written.add(tensor)
            defined.add(tensor)

    def _operation(self, operation: Operation, defined: set[Tensor]) -> None:
        if not operation.outputs:
            self.fail("an operation without outputs", format_step(operation))
        self._uses(operation.inputs, defined, f"operation {operation.name}")
        for assignment in operation.body:
            _AssignmentRules(assignment, self.level, self.symbols).check()
            for target in assignment.targets:
                if target.tensor not in operation.outputs:
                    message = f"`{target.tensor.name}` is not an output of this operation"
                    self.fail(message, format_assignment(assignment))
            read = {n.tensor for n in _accesses(assignment)}.difference(operation.outputs)
            if not read <= defined:  # a text takes longer than all rules
                self._uses(read, defined, f"`{format_assignment(assignment)}`")

    def _branch(self, branch: Branch, defined: set[Tensor]) -> None:
        if len(branch.branches) != len(branch.conditions) + 1:
            message = f"{len(branch.branches)} branches for {len(branch.conditions)} conditions"
            self.fail(message)
        for condition in branch.conditions:
            self._condition(condition, defined)
        for region in branch.branches:
            self._region(region, defined)
            self._same(region.results, branch.outputs, branch)

    def _loop(self, loop: Loop, defined: set[Tensor]) -> None:
        used = [*loop.initial, *(t for _, pack in loop.scans for t in pack)]
        used += [loop.count] if isinstance(loop.count, Tensor) else []
        self._uses(used, defined, "a loop")
        self._same(loop.variables, loop.initial, loop)
        inside = set(defined)
        own = [*loop.variables, *(item for item, _ in loop.scans)]
        self._define([*own, *([loop.index] if loop.index else [])], inside, loop)
        if loop.condition is not None:
            self._condition(loop.condition, inside)
        self._region(loop.body, inside)
        n = len(loop.variables)
        self._same(loop.body.results[:n], loop.variables, loop)
        self._same(loop.outputs, loop.variables, loop)
        if len(loop.body.results) != n + len(loop.collected):
            self.fail("a loop's body has the wrong number of results", format_step(loop))
        if loop.steps is not None and (loop.steps.rank or not loop.steps.dtype.is_int):
            self.fail("the number of steps is not a rank-0 integer", format_step(loop))

    def _region(self, region: Region, defined: set[Tensor]) -> None:
        inside = set(defined)
        self.steps(region.operations, inside)
        self._uses(region.results, inside, "the result of a region")

    def _condition(self, region: Region, defined: set[Tensor]) -> None:
        self._region(region, defined)
        if len(region.results) != 1 or region.results[0].dtype is not DType.BOOL:
            self.fail("a condition that is not one bool")

    def _same(self, found: tuple[Tensor, ...], wanted: tuple[Tensor, ...], step: Step) -> None:
        types = [(t.dtype, t.rank) for t in found]
        if types != [(t.dtype, t.rank) for t in wanted]:
            self.fail("results differ in number, dtype or rank", format_step(step))


def _tensors(ports: Iterable[Port]) -> Iterator[Tensor]:
    for port in ports:
        yield from port.tensors


def _accesses(assignment: Assignment) -> Iterator[Access]:
    for node in walk(*expressions(assignment)):
        if isinstance(node, Access):
            yield node


def declaration(tensor: Tensor) -> str:
    """A tensor as it is declared, with its constant value if it is one number."""
    value = f" = {tensor.data}" if isinstance(tensor.data, (Const, int, float)) else ""
    return Printer().tensor(tensor) + value
