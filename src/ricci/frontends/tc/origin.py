"""The functions of a text, and the one that a graph is made of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from ...diagnostics import Report, error
from ...ir.nodes import Graph, Operation
from ...records import dataclass, replace
from ...source import Source
from . import program as tc
from .check import check_unit
from .lower import lower_function
from .parser import parse_unit
from .printer import format_source
from .ranges import Ranges, infer_ranges


@dataclass(frozen=True, slots=True)
class Origin:
    """A function of a text."""

    source: Source
    functions: tuple[tc.Function, ...]
    function: tc.Function

    language: ClassVar[str] = "tc"
    numbers: ClassVar[tuple[str, str]] = ("float32", "int64")
    program: ClassVar[None] = None
    subgraphs: ClassVar[frozenset[str]] = frozenset()

    @property
    def graph_name(self) -> str:
        return self.function.name

    @property
    def graphs(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.functions)

    @property
    def attributes(self) -> Mapping[str, Any]:
        return {}

    @property
    def types(self) -> Mapping[str, str]:
        return {}

    def choose(self, name: str | None) -> Origin:
        """Another function of the text; `Error` E0801 if there is none of the name."""
        if name is None:
            return self
        for function in self.functions:
            if function.name == name:
                return replace(self, function=function)
        raise error(
            "E0801",
            f"`{self.source.name}` has no function `{name}`",
            notes=[f"it has: {', '.join(self.graphs)}"],
        )

    def lower(self, given: frozenset[str] = frozenset()) -> tuple[Graph, Report]:
        """The graph of the function, with what was found on the way; `Error` if that is wrong.

        Results in `given` are accumulated on what the caller passes for them.
        """
        report = Report()
        return lower_function(self.function, self.ranges(report), given), report

    def ranges(self, report: Report | None = None) -> Ranges:
        """The ranges of all indices; `Error` if they cannot be inferred."""
        report = Report() if report is None else report
        ranges = infer_ranges(self.function, report)
        report.raise_errors()
        return ranges

    def computed(self) -> list[tc.Variable]:
        """The tensors that statements write, in the order of their first statement."""
        return list(dict.fromkeys(s.target for s in self.function.statements))

    def accumulated(self) -> tuple[str, ...]:
        """The results that go on from what they hold: where a first statement does not write all
        of one anew."""
        first = {s.target for s in self.function.statements if s.first and not s.fresh}
        names = frozenset(v.name for v in self.function.results if v in first)
        graph = self.lower(names)[0]
        steps = [s for s in graph.operations if isinstance(s, Operation)]
        read = {t for s in steps for t in s.inputs}
        return tuple(p.name for p in graph.inputs if p.name in names and p.tensors[0] in read)

    def parameters(self, graph: str) -> tuple[set[str], set[str]]:
        """The names of the attributes and of the generic types of a graph."""
        return set(), set()

    def quantized(self, graph: Graph) -> Graph:
        return graph

    def syntax(self) -> str:
        return format_source(self.source)

    def write(
        self,
        folder: str | os.PathLike[str],
        values: Mapping[str, NDArray[Any]],
        composed: Graph | None,
    ) -> None:
        raise error(
            "E0706",
            "a Tensor Comprehension has open sizes, which the graph of a model folder cannot have",
            help="`ricci convert` writes it as operators of SkriptND",
        )


def read(source: Source, report: Report) -> Origin:
    """The functions of a text, the first one chosen; `Error` with all that is wrong with it."""
    unit = parse_unit(source, report)
    report.raise_errors()
    functions = check_unit(unit, report)
    report.raise_errors()
    if not functions:
        raise error("E0801", f"`{source.name}` defines no function, so there is nothing to run")
    return Origin(source, functions, functions[0])
