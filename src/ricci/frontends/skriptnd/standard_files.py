"""Where the standard library is."""

from __future__ import annotations

from pathlib import Path

from ...source import Source

STDLIB = Path(__file__).parent / "stdlib"
"""The folder of the standard library."""


def library_source(name: str) -> Source:
    """The text of a module of the standard library that there is."""
    path = STDLIB / f"{name}.sknd"
    return Source(f"ricci/stdlib/{path.name}", path.read_text("utf-8"), path)


def is_library_source(source: Source) -> bool:
    """Whether a text is a file of the standard library."""
    return source.path is not None and STDLIB in source.path.parents
