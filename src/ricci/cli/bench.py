"""`ricci bench`: how long a graph takes to load, to compile and to call, and its kernels."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace

from .arguments import (
    Commands,
    add_command,
    add_execution,
    add_json,
    add_model,
    add_tuned,
    positive,
)
from .eintup import settled
from .kernel_table import as_data, print_kernels
from .model import compile_model, load_model
from .output import print_json, print_table
from .run import measure, read_inputs


def register(commands: Commands[ArgumentParser]) -> None:
    parser = add_command(commands, "bench", "time a graph on random inputs", bench)
    add_model(parser)
    add_execution(parser)
    add_tuned(parser)
    parser.add_argument(
        "--calls", type=positive, default=20, metavar="N", help="calls to time (default: 20)"
    )
    add_json(parser)
    parser.set_defaults(random=0)


def bench(options: Namespace) -> int:
    options = settled(options)
    start = time.perf_counter()
    model = load_model(options)
    loaded = time.perf_counter()
    executable = compile_model(model, options)
    compiled = time.perf_counter()
    inputs = read_inputs(model, options)
    first = measure(lambda: executable(**inputs), 1)
    median = measure(lambda: executable(**inputs), options.calls)
    profile = None
    if options.target != "interpreter":
        profile = executable.profile(**inputs, rounds=options.calls)
    results = {
        "load": loaded - start,
        "compile": compiled - loaded,
        "first call": first,
        "median call": median,
    }
    if options.json:
        print_json(results | ({} if profile is None else as_data(profile)))
        return 0
    print_table(["step", "ms"], [[n, f"{s * 1e3:.3f}"] for n, s in results.items()], right="ms")
    if profile is not None:
        print()
        print_kernels(profile)
    return 0
