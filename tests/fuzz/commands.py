"""What the command does, without its last resort for bugs."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence

import ricci
from ricci.cli.arguments import make_parser


def codes(error: ricci.Error) -> list[str]:
    """The codes of the findings, which must be there and be shown in both forms."""
    assert error.diagnostics and str(error)
    json.dumps(error.to_json())
    return [d.code for d in error.diagnostics]


def run_command(arguments: Sequence[str]) -> None:
    """Run `ricci` with these arguments; it must succeed, or end as the user's mistake."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        options = make_parser().parse_args(arguments)
        try:
            code = options.action(options)
        except ricci.Error as error:
            codes(error)
            return
    assert code in (0, 1), f"exit code {code} of {arguments}:\n{output.getvalue()}"
