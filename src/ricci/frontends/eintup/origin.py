"""A program at chosen ranks, as what a model's graph comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from ...diagnostics import Report, error
from ...dtypes import DType
from ...ir.nodes import Graph
from ...records import cached_property, dataclass, replace
from ...source import Source
from . import syntax as s
from .check import check_file
from .fixed import Fixed, ranks_for
from .format import format_source
from .lower import lower_program, needs_data
from .opened import open_dims
from .parser import parse_file
from .program import Array, Program
from .typing import infer_types


@dataclass(frozen=True)
class Origin:
    """A program, and what a caller fixes of its ranks and dims."""

    checked: Program
    fixed: Fixed

    language: ClassVar[str] = "eintup"
    numbers: ClassVar[tuple[str, str]] = ("float64", "int32")
    program: ClassVar[None] = None
    subgraphs: ClassVar[frozenset[str]] = frozenset()

    @property
    def graph_name(self) -> str:
        return name_of(self.checked.source)

    @property
    def graphs(self) -> tuple[str, ...]:
        return (self.graph_name,)

    @cached_property
    def ranks(self) -> dict[str, int]:
        return ranks_for(self.checked, self.fixed)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """What was chosen: the ranks, and the dims that are fixed."""
        ranks = {f"RANK({name})": rank for name, rank in self.ranks.items()}
        return ranks | {f"DIMS({n})": d for n, d in self.fixed.dims_at(self.ranks).items()}

    @property
    def types(self) -> Mapping[str, str]:
        return {}

    def graph(self, real: DType = DType.REAL, int: DType = DType.INT) -> Graph:
        """The graph at the ranks chosen; dims that are not fixed are open.

        Inputs are of the types that `RANDOM` gives them, as `real` and `int` stand for them.
        Raises `Error`: E0801 where ranks, E0403 where dims are not determined, E0507 where data
        decides about a shape.
        """
        program = self.checked
        if needed := needs_data(program):
            raise error(
                "E0507",
                f"the shape of `{needed[0].name}` depends on the data of a call",
                needed[0].span,
                help="`ricci run` and `ricci.eintup.load(...)` compute it all the same",
            )
        opened = open_dims(program, self.ranks, self.fixed.dims_at(self.ranks))
        given = {a.name: real if drawn_kind(a) == "FLOAT" else int for a in program.inputs}
        wanted = [a.name for a in program.outputs]
        graph = lower_program(program, opened.dims, given, wanted, real, int)
        checks = (*graph.checks, *opened.checks)
        return replace(graph, name=self.graph_name, checks=checks)

    def parameters(self, graph: str) -> tuple[set[str], set[str]]:
        """The names of the attributes and of the generic types of a graph."""
        names = self.checked.eintups
        return {f"{what}({name})" for what in ("RANK", "DIMS") for name in names}, set()

    def quantized(self, graph: Graph) -> Graph:
        return graph

    def syntax(self) -> str:
        return format_source(self.checked.source)

    def write(
        self,
        folder: str | os.PathLike[str],
        values: Mapping[str, NDArray[Any]],
        composed: Graph | None,
    ) -> None:
        raise error(
            "E0706",
            "an Einsum Tuple program is one file, and has no variables to be saved",
            help="`ricci convert` writes it at given ranks as a program of SkriptND",
        )


def read(source: Source, report: Report) -> Program:
    """The program of a text; `Error` with all that is wrong with it."""
    file = parse_file(source, report)
    report.raise_errors()
    program = check_file(file, report)
    report.raise_errors()
    infer_types(program, {})
    return program


def drawn_kind(array: Array) -> str:
    """Whether an input is drawn as "INT" or as "FLOAT"."""
    assert isinstance(array.first.value, s.Random)
    return array.first.value.kind


def name_of(source: Source) -> str:
    """A word for a program: the name of its file."""
    stem = source.path.stem if source.path is not None else ""
    word = re.sub(r"\W", "_", stem, flags=re.ASCII)
    return f"_{word}" if word[:1].isdigit() else word or "program"
