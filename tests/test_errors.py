"""Rejected programs: each file in `errors` names the diagnostic that it must give.

A file holds one program, with `#! E0xxx` on the line at fault. What is printed for it stands
beside it in a file `.txt`, which `pytest --update-golden` writes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ricci.diagnostics import Diagnostic, Error, Report
from ricci.frontends.skriptnd import compose, modules, typing

FOLDER = Path(__file__).parent / "errors"
FILES = sorted(FOLDER.glob("*.sknd"))
_MARKER = re.compile(r"#! (E\d{4})")


def reject(path: Path) -> Error:
    """What a program is rejected with, by checking or by composing its first graph."""
    report = Report()
    program = modules.load_text(path.read_text(), "main", report)
    if not report.errors:
        typing.check_program(program, report)
    with pytest.raises(Error) as caught:
        report.raise_errors()
        compose.compose(program, program.graphs()[0], {})
    return caught.value


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_rejected_program(path: Path, update_golden: bool) -> None:
    found = reject(path)
    text = "\n\n".join(_portable(d.render()) for d in found.diagnostics) + "\n"
    golden = path.with_suffix(".txt")
    if update_golden:
        golden.write_text(text)
    assert golden.exists(), f"no golden text for {path.name}; run pytest --update-golden"
    assert text == golden.read_text()
    first = found.diagnostics[0]
    assert (first.code, _line(first)) == _expected(path)


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


def _expected(path: Path) -> tuple[str, int]:
    """The code and the line of the marker of a file."""
    marks = [
        (found[1], number)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := _MARKER.search(line))
    ]
    assert len(marks) == 1, f"{path.name} must have exactly one marker `#! E0xxx`"
    return marks[0]


def test_every_golden_text_has_a_program() -> None:
    assert {p.stem for p in FOLDER.glob("*.txt")} <= {p.stem for p in FILES}
