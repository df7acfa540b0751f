"""The arguments of every subcommand."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from .. import config

EPILOGUE = "Results are printed on stdout, messages on stderr. Exit codes: 0 fine, 1 the program \
or data is wrong, 2 wrong usage, 3 a bug of Ricci."

Action = Callable[[argparse.Namespace], int]


def make_parser() -> argparse.ArgumentParser:
    from .. import __version__
    from . import bench, build, check, convert, fmt, init, run, settings, show, tune, verify

    parser = argparse.ArgumentParser(
        prog="ricci",
        description="Compile and run tensor programs in index notation.",
        epilog=EPILOGUE + " `ricci config` lists the settings that the environment can change.",
    )
    parser.add_argument("--version", action="version", version=f"ricci {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    check.register(commands)
    show.register(commands)
    run.register(commands)
    verify.register(commands)
    init.register(commands)
    fmt.register(commands)
    convert.register(commands)
    bench.register(commands)
    build.register(commands)
    tune.register(commands)
    settings.register(commands)
    return parser


Commands = argparse._SubParsersAction  # the type that `add_subparsers` returns has no public name


def add_command(
    commands: Commands[argparse.ArgumentParser], name: str, help: str, action: Action
) -> argparse.ArgumentParser:
    """A subcommand that does `action`; its first help line is the description too."""
    parser = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    parser.set_defaults(action=action)
    return parser


def add_model(parser: argparse.ArgumentParser) -> None:
    """The arguments that choose a graph and bind its attributes."""
    parser.add_argument("path", help="a model folder, or a .sknd, .tc or .et file")
    parser.add_argument(
        "--graph", metavar="NAME", help="the graph, or function, to take (default: the first)"
    )
    add_bindings(parser)


def add_bindings(parser: argparse.ArgumentParser) -> None:
    add_attributes(parser)
    parser.add_argument(
        "--type",
        metavar="NAME=TYPE",
        action="append",
        default=[],
        type=split_pair,
        help="a type for a generic type of the graph: T=real",
    )


def add_attributes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--attrib",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=split_pair,
        help="a value of an attribute of the graph: batch=4, sizes=[1,2]; of Einsum Tuple a rank "
        "or dims: RANK(b)=2, DIMS(stride)=[2,2]",
    )


def add_quantize(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quantize", action="store_true", help="invoke the quantizers that @quantize names"
    )


def add_gradient(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gradient", action="store_true", help="take the gradients, derived from the formulas"
    )


def add_execution(parser: argparse.ArgumentParser) -> None:
    """The arguments that say how to compile, and what to call with."""
    add_target(parser)
    add_calls(parser)


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        default="cpu",
        metavar="NAME",
        help="cpu, which is this machine (default), interpreter, or a kind of processor: x86-64, "
        "x86-64-v3, x86-64-v4, aarch64, aarch64-sve, ...",
    )


def add_threads(parser: argparse.ArgumentParser) -> None:
    knobs = {k.name: k for k in config.KNOBS}
    parser.add_argument(
        "--threads", type=positive, metavar="N", help=knobs["threads"].help.partition(";")[0]
    )


def add_calls(parser: argparse.ArgumentParser) -> None:
    """The arguments that say how native code is made, and what to call with."""
    add_threads(parser)
    add_types(parser)
    add_quantize(parser)
    add_gradient(parser)
    add_inputs(parser)
    add_sizes(parser, "an open size, for inputs that are drawn: s=32")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """The arguments that say what to call with."""
    parser.add_argument(
        "--input",
        metavar="NAME=FILE",
        action="append",
        default=[],
        type=split_pair,
        help="an input: a .npy or .dat file; several, with commas, for a pack",
    )
    parser.add_argument(
        "--random", type=natural, metavar="SEED", help="draw the inputs that are not given"
    )


def add_sizes(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument(
        "--set", metavar="NAME=N", action="append", default=[], type=split_size, help=help
    )


def add_tuned(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tuned", action="store_true", help="compute as `ricci tune` has found best"
    )


def add_types(parser: argparse.ArgumentParser) -> None:
    """The dtypes that stand for the abstract types of the language."""
    reals = ["float16", "bfloat16", "float32", "float64"]
    ints = ["int8", "int16", "int32", "int64"]
    parser.add_argument(
        "--real", choices=reals, help="(default: float32, and float64 for Einsum Tuple)"
    )
    parser.add_argument("--int", choices=ints, help="(default: int64, and int32 for Einsum Tuple)")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def split_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def split_size(text: str) -> tuple[str, int]:
    name, value = split_pair(text)
    return name, natural(value)


def positive(text: str) -> int:
    return _whole(text, 1)


def natural(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
    if number < least:
        raise argparse.ArgumentTypeError(f"{number} is less than {least}")
    return number
