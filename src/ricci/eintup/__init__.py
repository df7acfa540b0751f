"""Einsum Tuple from Python: write a rank-agnostic program, call it with arrays of any legal rank.

    matmul = ricci.eintup.load("matmul.et")
    c = matmul(a, b)

Ranks and dims are inferred from the arrays. The language is described in docs/einsum-tuple.md.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..diagnostics import Report
from ..frontends.eintup.fixed import Fixed
from ..frontends.eintup.format import format_source
from ..frontends.eintup.origin import read
from ..frontends.eintup.program import Configuration
from ..frontends.reading import make_source, read_source
from ..runtime.executable import check_execution, check_types
from ..runtime.options import as_options
from ..source import Source
from .einsum_tuple import EinsumTuple, Gradient
from .execute import Settings

__all__ = ["Configuration", "EinsumTuple", "Gradient", "format", "load", "parse"]


def load(
    path: str | os.PathLike[str],
    *,
    real: str = "float64",
    int: str = "int32",
    threads: int | None = None,
    target: str = "cpu",
    options: object = None,
) -> EinsumTuple:
    """The program of a file; see `parse`. Raises `Error` E0701 if it cannot be read."""
    return _make(read_source(Path(path)), real, int, threads, target, options)


def parse(
    text: str,
    *,
    real: str = "float64",
    int: str = "int32",
    threads: int | None = None,
    target: str = "cpu",
    options: object = None,
) -> EinsumTuple:
    """The program of a text.

    `real` and `int` are what FLOAT and INT stand for in what a program draws and makes of literals
    alone; arrays that a caller gives have the types that they have. `target` is "cpu" or
    "interpreter", `threads` at most so many (`None`: one per core), `options` say how kernels are
    computed (`ricci.tc.Options`, or the same as a dictionary). Raises `Error` with all that is
    wrong with the text.
    """
    return _make(make_source(text, "et"), real, int, threads, target, options)


def format(text: str) -> str:
    """A text in the formatter's form, with its comments."""
    return format_source(make_source(text, "et"))


def _make(
    source: Source, real: str, int: str, threads: int | None, target: str, options: object
) -> EinsumTuple:
    check_execution(target, threads)
    check_types(real, int)
    report = Report()
    program = read(source, report)
    settings = Settings(target, threads, real, int)
    return EinsumTuple(program, Fixed(), settings, as_options(options), tuple(report.diagnostics))
