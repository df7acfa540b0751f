"""Columns of text."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> list[str]:
    """The lines of a table; columns whose titles are in `right`, split at spaces, to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    aligned = right.split()
    lines = []
    for row in (header, ["-" * w for w in widths], *rows):
        cells = [
            cell.rjust(width) if title in aligned else cell.ljust(width)
            for cell, width, title in zip(row, widths, header, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
