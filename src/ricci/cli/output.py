"""What the command prints: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import platform
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..diagnostics import Diagnostic, Error, Severity
from ..tables import table

if TYPE_CHECKING:
    from rich.text import Text


def print_error(problem: Error, as_json: bool = False) -> None:
    """Show the findings of an error on stderr; as JSON on stdout where that was asked for."""
    if as_json:
        print_json({"diagnostics": [d.to_json() for d in problem.diagnostics]})
    else:
        print_diagnostics(problem.diagnostics)


def print_diagnostics(findings: Iterable[Diagnostic]) -> None:
    """Show findings on stderr, in colour on a terminal."""
    findings = list(findings)
    if not findings:
        return
    if not sys.stderr.isatty():
        print("\n\n".join(d.render() for d in findings), file=sys.stderr, flush=True)
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for finding in findings:
        console.print(_paint(finding), end="\n\n")


def _paint(finding: Diagnostic) -> Text:
    """The rendered text with its severity, carets and help line in colour."""
    from rich.text import Text

    colour = "red" if finding.severity is Severity.ERROR else "yellow"
    text = Text(finding.render())
    text.highlight_regex(r"^(error|warning)\[\w+\]", f"bold {colour}")
    text.highlight_regex(r"(?m)^ *\d* *\| *[\^|-]+.*$", colour)
    text.highlight_regex(r"(?m)^ *(-->|:::) .*$", "cyan")
    text.highlight_regex(r"(?m)^  = help: .*$", "green")
    return text


def print_json(value: object) -> None:
    """Print data; in ASCII, so that it is valid whatever the encoding of the output."""
    print(json.dumps(value, indent=2, allow_nan=False))


def count(number: int, what: str) -> str:
    """`1 variable`, `2 variables`."""
    return f"{number} {what}{'s' * (number != 1)}"


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> None:
    """Print columns of text; those whose titles are in `right`, split at spaces, to the right.

    On a terminal rows end at its edge, so that columns stay readable.
    """
    edge = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in table(header, rows, right):
        print(line[:edge])


def report_bug(problem: Exception, arguments: Sequence[str]) -> None:
    """Say that this is Ricci's fault, and keep what is needed to find it in a file."""
    from .. import __version__

    text = "\n".join(
        [
            f"ricci {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"arguments: {list(arguments)}",
            "",
            *traceback.format_exception(problem),
            *_sources(arguments),
        ]
    )
    place = _keep_report(text)
    summary = f"{type(problem).__name__}: {problem}".splitlines()[0]
    print(
        f"ricci: internal error: {summary}\n"
        f"This is a bug of Ricci, not of your program. Please report it, with {place}",
        file=sys.stderr,
    )


def _keep_report(text: str) -> str:
    """Where the report is: in a file, or here and now if none can be made."""
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            prefix="ricci-report-",
            suffix=".txt",
            delete=False,
            encoding="utf-8",
            errors="backslashreplace",
        ) as file:
            file.write(text)
    except OSError:
        return f"this text:\n{text}"
    return f"this file,\nwhich holds the program and where the error occurred: {file.name}"


def _sources(arguments: Sequence[str]) -> list[str]:
    """The program texts that the arguments name, for the report."""
    found = []
    for argument in arguments:
        path = Path(argument)
        with suppress(OSError, ValueError):  # an argument need not be a path, or be readable
            for file in sorted(path.glob("*.sknd")) if path.is_dir() else [path]:
                if file.suffix in (".sknd", ".tc", ".et") and file.is_file():
                    found.append(f"---- {file}\n{file.read_text('utf-8', 'replace')}")
    return found
