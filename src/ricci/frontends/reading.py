"""Reading program texts, from files and strings."""

from __future__ import annotations

from pathlib import Path

from ..diagnostics import error
from ..source import Source

LARGEST = 4 << 20
"""Bytes of the largest text that is read; a hundred thousand lines."""


def make_source(text: str, name: str) -> Source:
    """A text as a source. Raises `Error` E0801 if it is none, E0901 if it is too large."""
    if not isinstance(text, str):
        raise error("E0801", f"a program is a `str`, not a `{type(text).__name__}`")
    if len(text) > LARGEST:
        raise error("E0901", f"the text is longer than {LARGEST >> 20} MB")
    return Source(f"<{name}>", text)


def read_source(path: Path) -> Source:
    """A file as a source. Raises `Error` E0701 if it cannot be read, E0901 if it is too large."""
    try:
        if path.exists() and not path.is_file():  # a pipe would make the reader wait
            raise error("E0701", f"cannot read `{path}`: it is not a regular file")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        text = data.decode("utf-8") if len(data) <= LARGEST else ""
    except (OSError, ValueError) as problem:
        raise error("E0701", f"cannot read `{path}`: {_reason(problem)}") from problem
    if len(data) > LARGEST:
        raise error("E0901", f"the file `{path}` is larger than {LARGEST >> 20} MB")
    return Source(str(path), text, path)


def _reason(problem: OSError | ValueError) -> str:
    if isinstance(problem, UnicodeDecodeError):
        line = problem.object[: problem.start].count(b"\n") + 1
        return f"byte {problem.start}, on line {line}, is not UTF-8 text"
    return (getattr(problem, "strerror", None) or str(problem)).lower()
