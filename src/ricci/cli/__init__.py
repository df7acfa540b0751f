"""The command `ricci`: what it is given, which subcommand does it, and how it ends.

Exit codes: 0 fine, 1 the user's program or data is wrong, 2 wrong usage, 3 a bug of Ricci.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence

from ..diagnostics import Error
from .arguments import make_parser
from .output import print_error, report_bug


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process if absent); the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _prepare_streams()
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read the output has seen enough
        _drop_output()
        return 0
    except OSError as problem:
        if problem.errno not in _UNWRITABLE:
            report_bug(problem, arguments)
            return 3
        _drop_output()
        print(f"ricci: cannot write the output: {os.strerror(problem.errno)}", file=sys.stderr)
        return 1
    except MemoryError as problem:
        print(f"ricci: not enough memory: {problem}", file=sys.stderr)
        return 1
    except Exception as problem:
        report_bug(problem, arguments)
        return 3


_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""What printing ends with on a full disk. Errors of files that a user names are `Error`s."""


def _run(arguments: Sequence[str]) -> int:
    try:
        options = make_parser().parse_args(arguments)
    except SystemExit:  # after `--help`, or wrong usage
        sys.stdout.flush()
        raise
    try:
        code: int = options.action(options)
    except Error as problem:
        print_error(problem, as_json=getattr(options, "json", False))
        code = 1
    sys.stdout.flush()
    return code


def _prepare_streams() -> None:
    """Let output go nowhere where a stream is closed, and print any name that a file can have."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, io.TextIOWrapper(io.FileIO(os.devnull, "w")))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Have what is still to be printed go nowhere, also at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
