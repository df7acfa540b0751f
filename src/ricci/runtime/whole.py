"""A graph for those who need it with all its operations, which may have to be composed first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..hashes import sha256
from ..ir.nodes import Graph
from ..ir.text_print import format_graph
from ..records import cached_property

if TYPE_CHECKING:
    from .compiler_process import Compiler


class Whole:
    """A graph, made when it is first asked for, the hash of its text, and a process that has it."""

    def __init__(
        self,
        make: Callable[[], Graph],
        digest: str | None = None,
        compiler: Compiler | None = None,
    ) -> None:
        self._make = make
        self.compiler = compiler
        if digest is not None:
            self.digest = digest

    @cached_property
    def graph(self) -> Graph:
        return self._make()

    @cached_property
    def digest(self) -> str:
        text = format_graph(self.graph)
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
