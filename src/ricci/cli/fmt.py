"""`ricci fmt`: program texts in the formatter's form."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path

from ..diagnostics import Error, error
from ..frontends.eintup.format import format_source as format_eintup
from ..frontends.reading import LARGEST, read_source
from ..frontends.skriptnd.format import DIALECTS, format_source
from ..frontends.skriptnd.storage import write_file
from ..frontends.tc.printer import format_source as format_tc
from ..source import Source
from .arguments import Commands, add_command
from .output import print_diagnostics

SUFFIXES = (".sknd", ".tc", ".et")


def register(commands: Commands[ArgumentParser]) -> None:
    parser = add_command(commands, "fmt", "rewrite programs in one form, with their comments", fmt)
    parser.add_argument(
        "path",
        nargs="+",
        help=".sknd, .tc and .et files, folders with such files, or - for SkriptND from stdin to "
        "stdout",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if a file would change"
    )
    parser.add_argument(
        "--diff", action="store_true", help="write nothing; print what would change"
    )
    parser.add_argument(
        "--dialect",
        choices=DIALECTS,
        default="draft",
        help="how minimum, built-in functions and local values are spelled (default: draft)",
    )


def fmt(options: Namespace) -> int:
    """Format all files; one that cannot be read or parsed stays as it is."""
    code = 0
    for path in options.path:
        try:
            if path == "-":
                code |= _format(_read_input(), options)
            else:
                for file in _find_files(Path(path)):
                    code |= _format_file(file, options)
        except Error as problem:
            print_diagnostics(problem.diagnostics)
            code = 1
    return code


def _find_files(path: Path) -> Iterator[Path]:
    """A file, or all program texts below a folder, save in hidden folders."""
    if not path.is_dir():
        yield path
        return
    for file in sorted(f for suffix in SUFFIXES for f in path.rglob(f"*{suffix}")):
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        if file.is_file() and not hidden:
            yield file


def _format_file(file: Path, options: Namespace) -> int:
    try:
        return _format(read_source(file), options)
    except Error as problem:
        print_diagnostics(problem.diagnostics)
        return 1


def _format(source: Source, options: Namespace) -> int:
    """Format one text and say, or show, whether it changed."""
    suffix = "" if source.path is None else source.path.suffix
    if suffix == ".tc":
        text = format_tc(source)
    elif suffix == ".et":
        text = format_eintup(source)
    else:
        text = format_source(source, options.dialect)
    changed = text != source.text
    if options.diff:
        sys.stdout.writelines(_difference(source, text))
    elif options.check:
        print(f"{source.name}\n" * changed, end="")
    elif source.path is None:
        sys.stdout.write(text)
    elif changed:
        _replace(source.path.resolve(), text)
        print(source.name)
    return int(options.check and changed)


def _replace(path: Path, text: str) -> None:
    mode = path.stat().st_mode
    write_file(path, text.encode())
    with suppress(OSError):
        path.chmod(mode)


def _difference(source: Source, text: str) -> Iterator[str]:
    before, after = source.text.splitlines(keepends=True), text.splitlines(keepends=True)
    for line in unified_diff(before, after, source.name, f"{source.name} (formatted)"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _read_input() -> Source:
    data = sys.stdin.buffer.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise error("E0901", f"the text is longer than {LARGEST >> 20} MB")
    try:
        return Source("<stdin>", data.decode())
    except UnicodeDecodeError as problem:
        raise error("E0701", f"byte {problem.start} of stdin is not UTF-8 text") from problem
