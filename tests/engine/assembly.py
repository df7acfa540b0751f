"""Loops in assembly texts of x86-64 and AArch64."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABEL = re.compile(r"^(\.?[\w.$]+):")
_JUMP = re.compile(r"^(?:j\w+|b(?:\.\w+)?|cbn?z|tbn?z)\s.*?(\.L\w+)$")
_VECTOR_ON_STACK = re.compile(r"[xyz]mm\d.*\(%rsp|\(%rsp.*[xyz]mm\d|\b[qz]\d+\b.*\[sp")


@dataclass(frozen=True)
class Loop:
    """The instructions of a loop that has no other inside."""

    lines: tuple[str, ...]

    def count(self, pattern: str) -> int:
        """How many instructions match a pattern."""
        return sum(re.search(pattern, line) is not None for line in self.lines)

    @property
    def spills(self) -> list[str]:
        """Instructions between vector registers and the stack."""
        return [x for x in self.lines if _VECTOR_ON_STACK.search(x)]


def innermost(text: str) -> list[Loop]:
    """The loops without loops inside: from a label to a jump back to it."""
    lines = [re.split(r"#|//", x)[0].strip() for x in text.splitlines()]
    places: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        label, jump = _LABEL.match(line), _JUMP.match(line)
        if label:
            places[label[1]] = number
        elif jump and jump[1] in places:
            found.append((places[jump[1]], number))
    inner = [x for x in found if not any(_is_inside(y, x) for y in found)]
    return [Loop(_instructions(lines[begin : end + 1])) for begin, end in inner]


def _is_inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]


def _instructions(lines: list[str]) -> tuple[str, ...]:
    return tuple(x for x in lines if x and not x.startswith(".") and not _LABEL.match(x))
