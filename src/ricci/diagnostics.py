"""What Ricci says to a person whose program or data is wrong.

A `Diagnostic` is one finding: a code from `ricci.codes`, one lower-case sentence, labelled
places, notes, a help line where the fix is known, and the stack of operator invocations
that led to it. All findings of a file are collected in a `Report`; one `Error` carries them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from .codes import CODES
from .source import NOWHERE, Span


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Label:
    """A secondary place in a text, and what is to be said of it."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """One operator invocation on the way to a diagnostic: `nn.conv(input: real[1, 3, 8, 8])`."""

    text: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about a user's program or data."""

    code: str
    message: str
    span: Span = NOWHERE
    text: str = ""
    """What stands at the carets of `span`; may be empty."""
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: str = ""
    calls: tuple[Call, ...] = ()
    """The stack of operator invocations, innermost first."""
    severity: Severity = Severity.ERROR

    def __post_init__(self) -> None:
        assert self.code in CODES, f"diagnostic code {self.code} is not in ricci.codes"

    def render(self) -> str:
        """The finding as text, with the source lines and carets."""
        lines = [f"{self.severity.value}[{self.code}]: {self.message}"]
        if self.span is not NOWHERE:
            lines += _render_places([Label(self.span, self.text), *self.labels])
        lines += [f"  = {note}" for note in self.notes]
        lines += _render_calls(self.calls)
        if self.help:
            lines.append(f"  = help: {self.help}")
        return "\n".join(map(_make_visible, "\n".join(lines).split("\n")))

    def to_json(self) -> dict[str, object]:
        """The finding as plain data; positions count from 1."""
        return {
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
            "span": _span_json(self.span),
            "text": self.text,
            "labels": [{"span": _span_json(x.span), "text": x.text} for x in self.labels],
            "notes": list(self.notes),
            "help": self.help,
            "calls": [{"text": c.text, "span": _span_json(c.span)} for c in self.calls],
        }

    def __str__(self) -> str:
        return self.render()


class Error(Exception):
    """A user's program or data is wrong; `diagnostics` says how, one finding each."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n\n".join(d.render() for d in self.diagnostics))

    def to_json(self) -> str:
        return json.dumps([d.to_json() for d in self.diagnostics], indent=2)


def error(
    code: str,
    message: str,
    span: Span = NOWHERE,
    text: str = "",
    *,
    labels: Iterable[Label] = (),
    notes: Iterable[str] = (),
    help: str = "",
    calls: Iterable[Call] = (),
) -> Error:
    """An `Error` with a single finding, ready to be raised."""
    return Error(
        [Diagnostic(code, message, span, text, tuple(labels), tuple(notes), help, tuple(calls))]
    )


@dataclass
class Report:
    """Collects the findings about one program; errors and warnings in the order found."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    limit: int = 100

    def add(self, diagnostic: Diagnostic) -> None:
        """Record a finding, once; errors and warnings beyond `limit` are dropped."""
        alike = [d for d in self.diagnostics if d.severity is diagnostic.severity]
        if len(alike) < self.limit and diagnostic not in alike:
            self.diagnostics.append(diagnostic)

    def error(
        self,
        code: str,
        message: str,
        span: Span = NOWHERE,
        text: str = "",
        *,
        labels: Iterable[Label] = (),
        notes: Iterable[str] = (),
        help: str = "",
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Record an error, or a warning when `severity` says so."""
        self.add(
            Diagnostic(code, message, span, text, tuple(labels), tuple(notes), help, (), severity)
        )

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity is Severity.ERROR]

    def raise_errors(self) -> None:
        """Raise one `Error` with everything found, if anything found is an error."""
        if self.errors:
            raise Error(self.diagnostics)


def _span_json(span: Span) -> dict[str, object] | None:
    if span is NOWHERE:
        return None
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(span.end)
    return {
        "file": span.source.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }


_MOST_CALLS = 12
"""Longest stack of invocations that is shown whole."""


def _render_calls(calls: Sequence[Call]) -> list[str]:
    """One line for each invocation; the middle of a long stack is left out."""
    lines = []
    for call in calls:
        place = "" if call.span is NOWHERE else f" at {call.span}"
        lines.append(f"  = called as {call.text}{place}")
    if len(lines) <= _MOST_CALLS:
        return lines
    return [*lines[:3], f"  = ... {len(lines) - 6} more", *lines[-3:]]


def _render_places(labels: Sequence[Label]) -> list[str]:
    """The source lines of all labels with carets; the first label is the primary one."""
    primary = labels[0].span
    shown = [x for x in labels if x.span is not NOWHERE]
    width = len(str(max(x.span.source.position(x.span.start)[0] for x in shown)))
    pad = " " * width
    out = [f"{pad}--> {primary}", f"{pad} |"]
    sources = [primary.source]
    sources += [s for s in dict.fromkeys(x.span.source for x in shown) if s is not primary.source]
    for source in sources:
        if source is not primary.source:
            first = min((x.span for x in shown if x.span.source is source), key=lambda s: s.start)
            out += [f"{pad}::: {first}", f"{pad} |"]
        lines: dict[int, list[_Mark]] = {}
        for position, label in enumerate(shown):
            if label.span.source is source:
                line, start, end = _place(label.span)
                mark = "^" if position == 0 else "-"
                lines.setdefault(line, []).append((start, end, mark, label.text))
        previous = 0
        for line in sorted(lines):
            if previous and line > previous + 1:
                out.append(f"{pad}...")
            previous = line
            text, marks = _clip(source.line(line).expandtabs(1), lines[line])
            out.append(f"{line:>{width}} | {text}")
            out += [f"{pad} | {row}" for row in _caret_rows(marks)]
    return out


_Mark = tuple[int, int, str, str]
"""What stands under a line: first and past-the-end column (from 0), character, text."""

_WIDEST = 400
"""Longest part of a source line that is shown."""

_BEFORE = 80
"""Of a longer line, what is shown before the first place in it."""

_LONGEST = 2000
"""Longest line of a rendered finding."""


def _make_visible(line: str) -> str:
    """A line without characters that would change a terminal, and not longer than is readable."""
    short = line if len(line) <= _LONGEST else line[:_LONGEST] + " ..."
    return "".join([c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in short])


def _place(span: Span) -> tuple[int, int, int]:
    """Line, first and past-the-end column (from 0) of the part of a span on its first line."""
    line, column = span.source.position(span.start)
    start = column - 1
    length = len(span.source.line(line))
    return line, start, min(start + max(span.end - span.start, 1), max(length, start + 1))


def _clip(line: str, marks: list[_Mark]) -> tuple[str, list[_Mark]]:
    """The part of a line that is shown, and its marks; of a long one, where the first stands."""
    if len(line) <= _WIDEST:
        return line, marks
    first = max(min(start for start, *_ in marks) - _BEFORE, 0)
    lead, tail = "... " * (first > 0), " ..." * (first + _WIDEST < len(line))
    shift = first - len(lead)
    edge = len(lead) + _WIDEST
    moved = [(min(a - shift, edge), min(b - shift, edge + 1), mark, t) for a, b, mark, t in marks]
    return lead + line[first : first + _WIDEST] + tail, moved


def _caret_rows(marks: list[_Mark]) -> list[str]:
    """Rows of carets and texts under one line: the rightmost text stands beside its caret."""
    marks = sorted(marks)
    row = ""
    for start, end, mark, _ in marks:
        row = row.ljust(start)
        row = row[:start] + mark * (end - start) + row[end:]
    last = marks[-1]
    rows = [f"{row.rstrip()} {last[3]}".rstrip()]
    rest = [m for m in marks[:-1] if m[3]]
    while rest:
        stems = ""
        for start, _, _, _ in rest:
            stems = stems.ljust(start) + ("|" if len(stems) <= start else "")
        rows.append(stems)
        start, _, _, text = rest.pop()
        above = ""
        for other, _, _, _ in rest:
            above = above.ljust(other) + ("|" if len(above) <= other else "")
        rows.append(above.ljust(start) + text)
    return rows
