"""`ricci build`: a model as an object file and a header of C, which need no Python."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from .arguments import (
    Commands,
    add_command,
    add_gradient,
    add_json,
    add_model,
    add_quantize,
    add_sizes,
    add_target,
    add_tuned,
    add_types,
    positive,
)
from .model import load_model
from .output import print_json


def register(commands: Commands[ArgumentParser]) -> None:
    parser = add_command(commands, "build", "write an object file and a header of C", build)
    add_model(parser)
    parser.add_argument(
        "-o", "--output", metavar="DIR", required=True, help="the folder to write into"
    )
    parser.add_argument(
        "--name", help="what files and functions begin with (default: as the graph is called)"
    )
    add_sizes(parser, "a value for an open size, which is then no argument: s=32")
    add_target(parser)
    parser.add_argument(
        "--threads", type=positive, default=1, metavar="N", help="at most; 1 needs no pthreads"
    )
    parser.add_argument(
        "--weights",
        choices=["auto", "embedded", "file"],
        default="auto",
        help="constants in the object or in a file of their own (auto: if they are large)",
    )
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    add_types(parser)
    add_tuned(parser)
    add_quantize(parser)
    add_gradient(parser)
    add_json(parser)


def build(options: Namespace) -> int:
    model = load_model(options)
    paths = model.build(
        options.output,
        options.name,
        options.target,
        options.threads,
        options.real,
        options.int,
        dict(options.set),
        options.weights,
        options.force,
        options="tuned" if options.tuned else None,
    )
    if options.json:
        print_json({"files": [str(p) for p in paths]})
    else:
        print(*paths, sep="\n")
    return 0
