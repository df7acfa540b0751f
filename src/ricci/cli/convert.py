"""`ricci convert`: a program in another language."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from .. import api
from ..convert import to_skriptnd
from ..diagnostics import error
from ..frontends.skriptnd.storage import write_file
from .arguments import Commands, add_attributes, add_command, add_gradient
from .output import print_diagnostics


def register(commands: Commands[ArgumentParser]) -> None:
    parser = add_command(commands, "convert", "write a program in SkriptND", convert)
    parser.add_argument("path", help="a .tc or .et file")
    parser.add_argument("output", help="the .sknd file to write, or - for stdout")
    parser.add_argument(
        "--graph", metavar="NAME", help="the function to convert (default: all of them)"
    )
    add_attributes(parser)
    add_gradient(parser)


def convert(options: Namespace) -> int:
    if options.output != "-" and Path(options.output).suffix != ".sknd":
        raise error("E0708", f"`{options.output}` is not the name of a .sknd file")
    names = [options.graph] if options.graph else api.graphs(options.path)
    models = [api.load(options.path, dict(options.attrib), name) for name in names]
    models = [m.gradient() for m in models] if options.gradient else models
    print_diagnostics([w for model in models for w in model.warnings])
    text = to_skriptnd([model.graph for model in models])
    if options.output == "-":
        print(text, end="")
    else:
        write_file(Path(options.output), text.encode())
    return 0
