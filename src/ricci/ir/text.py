"""The text form of the intermediate representation: printed for people, read back by tests
and tools. What is read back equals what was printed up to identity: it prints the same."""

from .text_parse_graph import parse_graph
from .text_print import format_assignment, format_expr, format_graph, format_step

__all__ = ["format_assignment", "format_expr", "format_graph", "format_step", "parse_graph"]
