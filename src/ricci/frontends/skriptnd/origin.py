"""A graph's program, for those who do not ask which language it is written in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from ...ir.nodes import Graph
from ...records import dataclass
from . import syntax
from .attributes import AttributeValue
from .compose import compose
from .folder import main_text, write_model
from .format import format_source
from .modules import Program
from .unparse import unparse_graph


@dataclass(frozen=True, slots=True)
class Origin:
    """The graph of a SkriptND program with the values of its attributes and generic types."""

    program: Program
    operator: syntax.Operator
    attributes: Mapping[str, AttributeValue]
    types: Mapping[str, str]

    language: ClassVar[str] = "skriptnd"
    numbers: ClassVar[tuple[str, str]] = ("float32", "int64")

    @property
    def graph_name(self) -> str:
        return self.operator.name

    @property
    def graphs(self) -> tuple[str, ...]:
        return tuple(g.name for g in self.program.graphs())

    @property
    def subgraphs(self) -> frozenset[str]:
        return frozenset(self.program.subgraphs())

    def parameters(self, graph: str) -> tuple[set[str], set[str]]:
        """The names of the attributes and of the generic types of a graph."""
        operator = next(g for g in self.program.graphs() if g.name == graph)
        return {p.name for p in operator.attributes}, {p.name for p in operator.dtypes}

    def quantized(self, graph: Graph) -> Graph:
        return compose(self.program, self.operator, self.attributes, self.types, quantize=True)

    def syntax(self) -> str:
        return format_source(self.program.main.source)

    def write(
        self,
        folder: str | os.PathLike[str],
        values: Mapping[str, NDArray[Any]],
        composed: Graph | None,
    ) -> None:
        if composed is not None:
            text = unparse_graph(composed, self.program)
        else:
            text = main_text(self.program, self.operator, self.attributes, self.types)
        write_model(folder, self.program, text, values)
