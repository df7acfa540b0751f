"""`ricci verify`: an Einsum Tuple program against the call that it names."""

from __future__ import annotations

import argparse
import math
import re
import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ..diagnostics import Report, error
from ..frontends.reading import read_source
from ..progress import show_progress
from .arguments import (
    Commands,
    add_attributes,
    add_command,
    add_json,
    add_target,
    add_threads,
    natural,
    positive,
)
from .output import count, print_diagnostics, print_json

if TYPE_CHECKING:
    from ..frontends.eintup.program import Program

_TOLERANCES = {"rtol": 0.0, "atol": 1e-6}
_DIMS = (1, 8)


def register(commands: Commands[ArgumentParser]) -> None:
    parser = add_command(
        commands, "verify", "compare an Einsum Tuple program with the call it names", run
    )
    parser.add_argument("path", help="an .et file")
    add_attributes(parser)
    parser.add_argument(
        "--reps", type=positive, default=1, metavar="N",
        help="cases for each combination of ranks (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N",
        help="what dims and data are drawn from (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--case", action="append", metavar="ID", help="a case to run, instead of all: 17.2"
    )
    for name, value in _TOLERANCES.items():
        parser.add_argument(
            f"--{name}", type=_tolerance, default=value, metavar="X",
            help=f"reals may differ by atol + rtol * |expected| (default: {value:g})",
        )  # fmt: skip
    parser.add_argument(
        "--dims", type=_interval, default=_DIMS, metavar="LO..HI",
        help="extents of eintups without a DIMS constraint (default: 1..8)",
    )  # fmt: skip
    add_target(parser)
    add_threads(parser)
    add_json(parser)


def run(options: Namespace) -> int:
    from ..eintup.report import report, to_json
    from ..eintup.verify import plans, verify
    from ..frontends.eintup.fixed import fix_attributes

    program = _load(Path(options.path))
    fixed = fix_attributes(program, dict(options.attrib))
    cases = plans(program, options.reps, options.case, fixed)
    title = f"verifying {count(len(cases), 'case')} of {options.path}"
    with show_progress(title, len(cases)) as advance:
        found = verify(
            program, options.reps, options.seed, options.rtol, options.atol, options.case, advance,
            options.dims, options.threads, options.target, fixed=fixed,
        )  # fmt: skip
    if options.json:
        print_json(to_json(found))
    else:
        print(*report(found, _again(options)), sep="\n")
    return 0 if found.ok else 1


def _load(path: Path) -> Program:
    """The checked program of a file; its warnings are shown."""
    from ..frontends.eintup.origin import read

    if path.suffix != ".et":
        raise error("E0708", f"`{path}` is not an Einsum Tuple program: its name ends in .et")
    findings = Report()
    program = read(read_source(path), findings)
    print_diagnostics(findings.diagnostics)
    return program


def _again(options: Namespace) -> str:
    """The command that does the same, but for its cases."""
    words = ["ricci", "verify", options.path, "--seed", str(options.seed)]
    words += [word for name, value in options.attrib for word in ("--attrib", f"{name}={value}")]
    if options.dims != _DIMS:
        words += ["--dims", "{}..{}".format(*options.dims)]
    for name, value in _TOLERANCES.items():
        given = getattr(options, name)
        words += [f"--{name}", f"{given:g}"] if given != value else []
    words += ["--target", options.target] if options.target != "cpu" else []
    return shlex.join(words)


def _tolerance(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 on")
    return number


def _interval(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})\.\.(\d{1,9})", text)
    if match is None or int(match[1]) > int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form LO..HI, such as 1..8")
    return int(match[1]), int(match[2])
