"""What formatters share: laying a text out until nothing changes, and the check of the result."""

from __future__ import annotations

from collections.abc import Callable

from ..diagnostics import Report
from ..source import Source, Span

_PASSES = 8
"""Lines that had no room, and are now several, may be laid out otherwise the next time."""


def format_text(
    source: Source,
    parse: Callable[[Source, Report], object],
    layout: Callable[[Source], str],
    find_comments: Callable[[Source], list[Span]],
) -> str:
    """The text in the form that `layout` gives it. Raises `Error` with all its syntax errors.

    What is written is read back and compared before it is given out.
    """
    report = Report()
    tree = parse(source, report)
    report.raise_errors()
    comments = [c.text.rstrip() for c in find_comments(source)]

    def check(formatted: Source) -> None:
        report = Report()
        again = parse(formatted, report)
        kept = [c.text.rstrip() for c in find_comments(formatted)] == comments
        if report.errors or again != tree or not kept:
            raise AssertionError(f"formatting would change `{formatted.name}`:\n{formatted.text}")

    text = layout(source)
    for _ in range(_PASSES):
        formatted = Source(source.name, text)
        check(formatted)
        text = layout(formatted)
        if text == formatted.text:
            return text
    check(Source(source.name, text))
    return text


def newline_of(source: Source) -> str:
    """How the first line of a text ends."""
    return "\r\n" if source.text.split("\n", 1)[0].endswith("\r") else "\n"
