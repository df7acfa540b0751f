"""Rejected programs: each file in `errors` names the diagnostic that it must give.

A file holds one program, with `#! E0xxx` on the line at fault. What is printed for it stands
beside it in a file `.txt`, which `pytest --update-golden` writes.
"""

from __future__ import annotations

import re
from pathlib import Path

from ricci.diagnostics import Diagnostic, Error, Report
from ricci.frontends.eintup.origin import read as read_eintup
from ricci.frontends.eintup.typing import infer_types
from ricci.frontends.skriptnd import compose, modules, typing
from ricci.frontends.tc import origin
from ricci.source import Source

from .compare import Mismatch

FOLDER = Path(__file__).parent / "errors"
SKRIPTND = sorted(FOLDER.glob("*.sknd"))
FILES = [*SKRIPTND, *sorted(FOLDER.glob("*.tc")), *sorted(FOLDER.glob("*.et"))]
_MARKER = re.compile(r"#! (E\d{4})")


def check_golden(path: Path, update: bool = False) -> None:
    """Read a program, and compare what it is answered with; `Mismatch` if that is another."""
    found = _reject(path)
    text = "\n\n".join(_portable(d.render()) for d in found.diagnostics) + "\n"
    golden = path.with_suffix(".txt")
    if update:
        golden.write_text(text)
    if not golden.exists():
        raise Mismatch(f"no golden text for {path.name}; run pytest --update-golden")
    if text != golden.read_text():
        raise Mismatch(f"{path.name} is answered with\n{text}")
    first = found.diagnostics[0]
    if (first.code, _line(first)) != marker(path):
        raise Mismatch(f"{path.name}: the marker is not where {first.code} is")


def marker(path: Path) -> tuple[str, int]:
    """The code and the line of the marker of a file."""
    marks = [
        (found[1], number)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := _MARKER.search(line))
    ]
    if len(marks) != 1:
        raise Mismatch(f"{path.name} must have exactly one marker `#! E0xxx`")
    return marks[0]


def _reject(path: Path) -> Error:
    """What a program is rejected with, by checking or by composing its first graph."""
    try:
        _COMPOSE[path.suffix](path.read_text())
    except Error as found:
        return found
    raise Mismatch(f"{path.name} is accepted")


def _compose_skriptnd(text: str) -> None:
    report = Report()
    program = modules.load_text(text, "main", report)
    if not report.errors:
        typing.check_program(program, report)
    report.raise_errors()
    compose.compose(program, program.graphs()[0], {})


def _compose_tc(text: str) -> None:
    origin.read(Source("<main>", text), Report()).lower()


def _check_eintup(text: str) -> None:
    infer_types(read_eintup(Source("<main>", text), Report()), {})


_COMPOSE = {".sknd": _compose_skriptnd, ".tc": _compose_tc, ".et": _check_eintup}


def _portable(text: str) -> str:
    """A rendered text without what changes with the place and lines of the library."""
    lines, library = [], False
    for line in text.splitlines():
        if line.lstrip().startswith(("-->", ":::")):
            library = " ricci/stdlib/" in line
        elif line.startswith("  = "):
            library = False
        if library:
            line = re.sub(r":\d+:\d+$", "", line)
            line = re.sub(r"^ *\d+ \|", lambda found: "L |".rjust(len(found[0])), line)
        lines.append(line)
    return "\n".join(lines)


def _line(found: Diagnostic) -> int | None:
    """The line of a finding in the program itself: at fault, or the invocation that led to it."""
    spans = [found.span, *(call.span for call in found.calls)]
    own = [span for span in spans if span.source.name == "<main>"]
    return own[0].source.position(own[0].start)[0] if own else None
