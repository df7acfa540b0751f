"""Program texts and the places in them.

A `Source` is one text that a person wrote (a file, or a string given to `ricci.parse`);
a `Span` is a half-open range of characters in it. Every syntax tree and every node of
the intermediate representation carries a span, so that an error can show its place.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field
from pathlib import Path

from .records import cached_property, dataclass


@dataclass(frozen=True)
class Source:
    """One program text, with the name that diagnostics show for it."""

    name: str
    text: str = field(repr=False)
    path: Path | None = None

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset of the first character of every line; LF, CRLF and CR end lines."""
        starts = [0]
        text = self.text
        for offset, char in enumerate(text):
            if char == "\n" or (char == "\r" and text[offset + 1 : offset + 2] != "\n"):
                starts.append(offset + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both counted from 1."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line (counted from 1) without its end."""
        starts = self.line_starts
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start <= offset < end` of a source."""

    source: Source
    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The smallest span that covers this one and `other`, of the same source."""
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))

    def covers(self, other: Span) -> bool:
        """Whether all of another span of the same source is in this one."""
        return self.start <= other.start and other.end <= self.end

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"


NOWHERE = Span(Source("<none>", ""), 0, 0)
"""The span of what no text produced."""
