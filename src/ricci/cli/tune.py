"""`ricci tune`: look for better schedules for the kernels of a graph, and keep them."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ..progress import show_progress
from .arguments import Commands, add_calls, add_command, add_json, add_model
from .eintup import settled
from .model import load_model
from .output import count, print_json, print_table
from .run import read_inputs

if TYPE_CHECKING:
    from ..runtime.tuning_result import Tuned


def register(commands: Commands[ArgumentParser]) -> None:
    parser = add_command(commands, "tune", "try schedules for a graph, and keep the best", tune)
    add_model(parser)
    add_calls(parser)
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=30.0,
        metavar="S",
        help="how long to try; an interruption ends it sooner (default: 30)",
    )
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help="where to keep what is found (see `ricci config`)"
    )
    add_json(parser)
    parser.set_defaults(random=0)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"{text} is not a positive number")
    return value


def tune(options: Namespace) -> int:
    from ..runtime import tuning

    options = settled(options)
    model = load_model(options)
    inputs = read_inputs(model, options)
    real, int = model.numbers(options.real, options.int)
    title = f"tuning {model.graph.name} for {options.seconds:g} seconds"
    with show_progress(title, 1.0) as advance:
        over = 0.0

        def report(share: float, kernel: str) -> None:
            nonlocal over
            advance(share - over)
            over = share

        tuned = tuning.tune(
            model.graph, model.variables.known(), (), inputs, seconds=options.seconds,
            threads=options.threads, real=real, int=int, file=options.file,
            progress=report,
        )  # fmt: skip
    if options.json:
        print_json(_as_data(tuned))
    else:
        _print(tuned)
    return 0


def _as_data(tuned: Tuned) -> dict[str, object]:
    kernels = [
        {"kernel": k.name, "count": k.count, "before_ms": k.before, "after_ms": k.after,
         "tried": k.tried}
        for k in tuned.kernels
    ]  # fmt: skip
    return {
        "before_ms": tuned.before,
        "after_ms": tuned.after,
        "tried": tuned.tried,
        "wrong": list(tuned.wrong),
        "checked": tuned.checked,
        "interrupted": tuned.interrupted,
        "kernels": kernels,
        "options": tuned.to_json(),
    }


def _print(tuned: Tuned) -> None:
    header = ["kernel", "times", "ms before", "ms after", "schedule"]
    print_table(header, tuned.table(), right="times")
    print(f"\na call: {tuned.before:.4f} ms before, {tuned.after:.4f} ms after")
    ended = ", interrupted" if tuned.interrupted else ""
    print(f"{count(tuned.tried, 'schedule')} tried{ended}; compared with {tuned.checked}")
    for wrong in tuned.wrong:
        print(f"wrong results, not used: {wrong}")
