"""`ricci show --html`: the page of a model."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..diagnostics import error
from ..model import Model
from .arguments import add_inputs, add_threads, positive
from .eintup import settled
from .model import compile_model, load_model
from .run import read_inputs


def add_page(parser: ArgumentParser) -> None:
    """The arguments of a page."""
    parser.add_argument(
        "--html",
        action="store_true",
        help="a page with the graph, its kernels and its memory, in one file that needs no network",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write it (default: stdout)",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="with the time of each kernel in calls with random inputs, or those given",
    )
    parser.add_argument(
        "--calls", type=positive, default=20, metavar="N", help="calls to measure (default: 20)"
    )
    add_threads(parser)
    add_inputs(parser)
    parser.set_defaults(random=0)


def write_page(options: Namespace) -> None:
    """Write the page to `--output`, or print it."""
    from ..report.build import page_of_call, page_of_graph

    if options.profile:
        options = settled(options)
        model = load_model(options)
        trial = compile_model(model, options).trial(**read_inputs(model, options))
        text = page_of_call(trial, _title(model), options.calls)
    else:
        model = load_model(options)
        real, int = model.numbers(options.real, options.int)
        sizes = dict(options.set)
        text = page_of_graph(model.graph, _title(model), real, int, sizes, options.target)
    if options.output is None:
        print(text, end="")
    else:
        _write(options.output, text)


def _title(model: Model) -> str:
    return f"{model.name}: {model.graph.name}"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8", errors="backslashreplace")
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise error("E0707", f"cannot write `{path}`: {reason}") from problem
