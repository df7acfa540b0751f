"""Expressions of SkriptND on several lines, where one would be too long."""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import syntax as s
from .parser_expressions import LEVELS
from .printer_expressions import ExpressionPrinter

INDENT = "    "


class LinePrinter(ExpressionPrinter):
    """Breaks long expressions before operators and behind commas, the loosest ones first."""

    def lines(self, node: s.Expr, room: int, level: int = 0) -> list[str]:
        """The lines of an expression; those behind the first are indented by one step.

        `room` is the number of columns for each line. What has no place for a break is left as
        it is.
        """
        text = self(node, level)
        if len(text) <= room:
            return [text]
        if text != self(node):
            inner = self.lines(node, room - 1)
            return [f"({inner[0]}", *inner[1:-1], f"{inner[-1]})"] if inner[1:] else [text]
        return self._broken(node, room) or [text]

    def _broken(self, node: s.Expr, room: int) -> list[str]:
        match node:
            case s.Binary() if node.op != "**":
                return self._chain(node, room)
            case s.Fold():
                lines = self.lines(node.operand, room - 6, LEVELS[node.op])
                dots = "..." if node.cumulative else ".."
                return [*lines[:-1], f"{lines[-1]} {self.operator(node.op)} {dots}"]
            case s.Select(otherwise=s.Node() as otherwise):
                first = self.lines(node.condition, room, LEVELS["=>"])
                then = f"? {self.before_colon(node.then)}"
                rest = self.lines(otherwise, room - len(INDENT) - 2)
                return [*first, INDENT + then, f"{INDENT}: {rest[0]}", *rest[1:]]
            case s.Coalesce():
                first = self.lines(node.value, room, LEVELS["=>"])
                rest = self.lines(node.fallback, room - len(INDENT) - 3)
                return [*first, f"{INDENT}?? {rest[0]}", *rest[1:]]
            case s.Literal(value=str()) | s.Format():
                return self._adjacent(node, room)
            case s.List():
                return fill("[", [self(item) for item in node.items], "]", room)
        return []

    def _chain(self, node: s.Binary, room: int) -> list[str]:
        """A chain of operators of one level, as many operands on each line as have room."""
        level = LEVELS[node.op]
        chain: list[tuple[str, s.Expr]] = []
        first: s.Expr = node
        while isinstance(first, s.Binary) and LEVELS[first.op] == level:
            least = self.left_level(first)
            chain.insert(0, (self.operator(first.op), first.rhs))
            first = first.lhs
            if least != level:
                level = least
                break
        lines = self.lines(first, room, level)
        for op, operand in chain:
            gap = len(INDENT) + len(op) + 1
            inner = self.lines(operand, room - gap, LEVELS[node.op] + 1)
            if len(inner) == 1 and len(lines[-1]) + len(op) + len(inner[0]) + 2 <= room:
                lines[-1] += f" {op} {inner[0]}"
            else:
                lines += [f"{INDENT}{op} {inner[0]}", *inner[1:]]
        return lines

    def _adjacent(self, node: s.Literal | s.Format, room: int) -> list[str]:
        """A string as several adjacent ones, broken behind spaces."""
        parts = node.parts if isinstance(node, s.Format) else (str(node.value),)
        lines = [""]
        for part in parts:
            for word in _words(part):
                piece = self(s.Literal(word, word) if isinstance(word, str) else s.Format((word,)))
                if lines[-1] and len(lines[-1]) + len(piece) > room - len(INDENT):
                    lines.append("")
                lines[-1] += piece[1:-1]
        return [f'{INDENT if at else ""}"{line}"' for at, line in enumerate(lines)]


def _words(part: str | s.Expr) -> list[str | s.Expr]:
    """A part of a string, cut behind spaces."""
    return [*re.findall(r"[^ ]* *", part)][:-1] if isinstance(part, str) else [part]


def fill(begin: str, items: Sequence[str], end: str, room: int) -> list[str]:
    """Items between commas and brackets, as many on each line as have room."""
    lines = [begin]
    for position, item in enumerate(items):
        piece = item + (", " if position + 1 < len(items) else end)
        if len(lines[-1]) + len(piece.rstrip()) > room and lines[-1] != begin:
            lines[-1] = lines[-1].rstrip()
            lines.append(INDENT)
        lines[-1] += piece
    if not items:
        lines[-1] += end
    return lines
