"""Models and kernels beside ONNX Runtime, OpenVINO and PyTorch, checked before they are timed.

    python -m benchmarks.suite [--group streaming] [--only softmax] [--json FILE] [--svg DIR]

All sides of a row are called in turns in one process, with the same number of threads. The errors
are those against PyTorch in float64. The share is what is reached of the nearest limit of this
machine: multiply-adds, or the bytes of inputs, weights and outputs moved once. The loops that tell
what the limits are, which only multiply and add, read, write, or copy as many bytes, take their
turns with the sides of the row, so that all of them meet the same neighbours.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ricci.runtime.peak import Loop

from . import (
    cases_bfloat16,
    cases_comprehensions,
    cases_convolutions,
    cases_models,
    cases_parts,
    cases_products,
    cases_quantised,
    cases_streaming,
)
from .cases import Array, Case, Row
from .charts import draw_charts
from .machine import description
from .measure import Timing, busy_processes, scaled_error, set_peer_threads, time_alternately
from .peers import PEERS, Side, available, keep_freed_memory, ours, picked
from .report import OURS, Result, as_data, summary, table

SOURCES = [
    cases_models,
    cases_parts,
    cases_products,
    cases_convolutions,
    cases_comprehensions,
    cases_streaming,
    cases_quantised,
    cases_bfloat16,
]


_MOSTLY = 0.7
"""The part of the bytes that are moved from which on a row mostly writes."""


@dataclass(frozen=True)
class Limit:
    """A loop that does nothing else than what a row needs, and how much of that it needs."""

    loop: Loop
    amount: float

    def seconds(self, timing: Timing) -> float:
        """How long the row would take at the rate of the loop."""
        return timing.median * self.amount / self.loop.amount


def rows() -> Iterator[Row]:
    for source in SOURCES:
        yield from source.rows()


def chosen(options: argparse.Namespace) -> list[Row]:
    return [
        row
        for row in rows()
        if (not options.group or row.group in options.group)
        and any(part in row.name for part in options.only)
        and (not options.batch or row.batch in options.batch)
    ]


def reference(case: Case) -> Array:
    """The first result of PyTorch in float64, and in the type that the case has."""
    module = copy.deepcopy(case.module).double()
    arrays = [torch.from_numpy(a) for a in case.inputs.values()]
    inputs = [a.double() if a.is_floating_point() else a for a in arrays]
    with torch.no_grad():
        return np.asarray(picked(module(*inputs)).numpy())


def sides(case: Case, names: list[str], threads: int, expected: Array) -> list[Side]:
    """All that can compute the case; what a peer has no operator for is left out."""
    kind = np.float32 if expected.dtype == np.float64 else expected.dtype
    like = np.empty(expected.shape, kind)
    found = [ours(case, threads)]
    for name in names:
        if case.onnx is None and name in ("ONNX Runtime", "OpenVINO"):
            continue
        if case.real == "bfloat16" and name == "ONNX Runtime":
            continue  # which has no such operators for processors
        found.append(PEERS[name](case, threads, like))
    return found


def measure(row: Row, names: list[str], options: argparse.Namespace) -> Result:
    """Compare the numbers of all sides, then time them."""
    case = row.case()
    threads = row.threads or options.threads
    set_peer_threads(threads)
    expected = reference(case)
    running, errors = agreeing(row, sides(case, names, threads, expected), expected, case.different)
    moved, limits = bounds(case, expected, threads)
    calls = {side.name: side.call for side in running}
    with busy_processes(row.busy):
        timings = time_alternately(calls | {n: x.loop for n, x in limits.items()}, options.rounds)
    seconds = {n: limit.seconds(timings.pop(n)) for n, limit in limits.items()}
    return Result(row, timings, errors, case.flops, moved, seconds)


def agreeing(
    row: Row, all_sides: list[Side], expected: Array, different: float
) -> tuple[list[Side], dict[str, float]]:
    """The sides that compute what a row says, and their scaled errors: a peer that computes
    something else has no place in it."""
    kept, errors = [], {}
    for side in all_sides:
        side.call()
        found = side.result()
        error = scaled_error(found, expected) if found.shape == expected.shape else np.inf
        if error < different:
            kept.append(side)
            errors[side.name] = error
            continue
        what = f"{side.name} gives other numbers, off by {error:.1e} of the largest"
        if side.name == OURS:
            raise ValueError(what)
        print(f"{row.name}: without a peer, {what}", flush=True)
    return kept, errors


def bounds(case: Case, expected: Array, threads: int) -> tuple[int, dict[str, Limit]]:
    """Bytes that must be moved, and the limits of the machine.

    What is read once and hardly written is held against a loop that only reads, anything else
    against one that copies, and what is hardly read against one that only writes, too; of as many
    bytes as the arrays have.
    """
    size = 4 if expected.dtype == np.float64 else expected.dtype.itemsize
    held = sum(a.nbytes for a in [*case.inputs.values(), *case.weights.values()])
    if case.real == "bfloat16":
        size, held = size // 2, held // 2
    written = expected.size * size + case.others
    moved = (held if case.read is None else case.read) + written
    kind = "copy" if written * 8 >= moved else "read"
    limits = {kind: Limit(Loop(kind, threads, held + written), moved)}
    if written > _MOSTLY * moved:
        limits["write"] = Limit(Loop("write", threads, written), written)
    if case.flops:
        limits["FMA"] = Limit(Loop("compute", threads), case.flops)
    return moved, limits


def attempt(row: Row, names: list[str], options: argparse.Namespace) -> Result | None:
    """Measure a row; what goes wrong with one is said, and does not end the others."""
    try:
        return measure(row, names, options)
    except Exception as error:  # of any library
        print(f"{row.name}: {type(error).__name__}: {error}", flush=True)
        return None
    finally:
        gc.collect()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", nargs="+", default=[""], help="rows whose name contains one")
    parser.add_argument("--group", nargs="+", default=[], help="rows of these groups")
    parser.add_argument("--batch", type=lambda s: [int(x) for x in s.split(",")], default=[])
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--list", action="store_true", help="only name the rows")
    parser.add_argument("--json", type=Path, help="where to write all numbers")
    parser.add_argument("--svg", type=Path, help="a folder for the charts")
    return parser.parse_args()


def write(options: argparse.Namespace, machine: dict[str, Any], results: list[Result]) -> None:
    """Keep what there is so far: a run takes long."""
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(as_data(machine, results), indent=1) + "\n")


def main() -> int:
    options = arguments()
    if options.list:
        print("\n".join(f"{row.group}: {row.name}" for row in chosen(options)))
        return 0
    keep_freed_memory()
    torch.set_grad_enabled(False)
    names = [n for n in available(not options.eager) if n in options.peers]
    machine: dict[str, Any] = description(options.threads)
    selected, results = chosen(options), []
    for row in selected:
        result = attempt(row, names, options)
        if result is not None:
            results.append(result)
            print(result.line(), flush=True)
            write(options, machine, results)
    print("\n" + table(results, names) + "\n")
    print(summary(results, machine))
    if options.svg:
        draw_charts(options.svg, as_data(machine, results))
    return 0 if len(results) == len(selected) else 1


if __name__ == "__main__":
    raise SystemExit(main())
