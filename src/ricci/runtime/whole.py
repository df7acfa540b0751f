"""A graph for those who need it with all its operations, which may have to be composed first."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from ..hashes import sha256
from ..ir.nodes import Graph
from ..ir.text_print import format_graph


class Whole:
    """A graph, made when it is first asked for, and the hash of its text."""

    def __init__(self, make: Callable[[], Graph], digest: str | None = None) -> None:
        self._make = make
        if digest is not None:
            self.digest = digest

    @cached_property
    def graph(self) -> Graph:
        return self._make()

    @cached_property
    def digest(self) -> str:
        text = format_graph(self.graph)
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
