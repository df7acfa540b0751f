"""What is to be compiled, with all that the code depends on, so that any process can do it."""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from ..backends.llvm.schedule import Schedules
from ..backends.llvm.steps import Image
from ..backends.llvm.target import Target
from ..diagnostics import Call
from ..dtypes import Types
from ..ir import nodes
from ..ir.loops import Program
from ..ir.nodes import Graph, Operation, Symbol
from ..ir.rewrite import all_steps
from ..records import dataclass
from ..source import NOWHERE, Span

LARGE = 16
"""Different sums in a graph. Each is a kernel, which takes 20 to 100 ms to compile; another process
costs 0.1 to 0.3 s. Whatever else there is becomes part of these kernels, or is compiled fast."""


@dataclass(frozen=True)
class Work:
    """A graph for which there is to be an image, and what `lower` and `build` want to know.

    There is no graph for the process that has composed it.
    """

    graph: Graph | None
    sizes: Mapping[Symbol, int]
    types: Types
    strides: Mapping[int, tuple[int, ...]]
    states: int
    target: Target
    schedules: Schedules

    @property
    def whole(self) -> Graph:
        """The graph, where it is."""
        assert self.graph is not None
        return self.graph

    def program(self) -> Program:
        """Lower it; `Error` as `lower` says."""
        from ..backends.llvm.machine import machine_of
        from ..passes.pipeline import lower

        machine = machine_of(self.target)
        return lower(self.whole, self.sizes, self.types, self.strides, self.states, machine)

    def image(self) -> Image:
        """Lower and compile it; `Error` as `lower` and `build` say."""
        from ..backends.llvm.image import build

        return build(self.program(), self.target, self.schedules)

    def to_bytes(self) -> bytes:
        """The work for another process, in which what is the same object here is one there."""
        file = io.BytesIO()
        pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = copyreg.dispatch_table | _reducers()
        pickler.dump(self)
        return file.getvalue()


def is_large(graph: Graph) -> bool:
    """Whether a process of its own is worth starting to compile a graph."""
    sums = {
        tuple(index.extent for index in assignment.domain)
        for step in all_steps(graph.operations)
        if isinstance(step, Operation)
        for assignment in step.body
        if assignment.op != "set"
    }
    return len(sums) >= LARGE


@cache
def _reducers() -> dict[type, Callable[[Any], Any]]:
    """How nodes are taken apart: several times as fast as data classes are by themselves."""
    kinds = [k for k in vars(nodes).values() if isinstance(k, type) and is_dataclass(k)]
    known = {k: _reducer(k) for k in (*kinds, Call)}
    known[Span] = _reduce_span
    return known


def _reducer(kind: Any) -> Callable[[Any], Any]:
    names = [f.name for f in fields(kind)]
    if len(names) < 2:
        return lambda node: (kind, tuple(getattr(node, n) for n in names))
    values = attrgetter(*names)
    return lambda node: (kind, values(node))


def _reduce_span(span: Span) -> Any:
    """The span that is no place is the same one everywhere."""
    return "NOWHERE" if span is NOWHERE else (Span, (span.source, span.start, span.end))
