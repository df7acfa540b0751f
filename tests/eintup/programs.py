"""The programs of `examples/eintup`, each compared with the call that it names, as a table.

    python -m tests.eintup.programs [NAME ...] [--reps 3] [--seed 0] [--target cpu]

`COMBINATIONS` says how many combinations of ranks are legal for each program.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ricci import eintup
from ricci.eintup.verify import Verification
from ricci.progress import show_progress
from ricci.tables import table

FOLDER = Path(__file__).parents[2] / "examples" / "eintup"

ORIGINAL = {
    "conv_valid_v1": 3,
    "conv_valid_v2": 3,
    "conv_same_v1": 1,
    "conv_same_v2": 3,
    "tconv_valid_v1": 3,
    "tconv_valid_v2": 3,
    "separable_conv": 1,
    "matmul": 7,
    "meshgrid": 1,
    "flatten": 81,
    "tile": 5,
    "slice_v1": 3,
    "space_to_depth": 1,
    "depth_to_space": 1,
    "gather_nd": 240,
    "scatter_nd": 15,
}
"""The programs that the language was published with."""

MORE = {
    "argmax": 9,
    "attention": 4,
    "avg_pool": 2,
    "batched_gather": 12,
    "batched_scatter": 4,
    "bilinear": 4,
    "causal_attention": 4,
    "circular_pad": 1,
    "city_distance": 4,
    "convolve": 1,
    "cross_entropy": 1,
    "cumsum": 9,
    "diagonal": 4,
    "diagonal_matrix": 4,
    "embedding": 8,
    "flip": 18,
    "fold": 1,
    "group_norm": 4,
    "grouped_conv": 1,
    "histogram": 3,
    "kron": 4,
    "layer_norm": 9,
    "lower_triangle": 4,
    "max_pool": 3,
    "one_hot": 4,
    "outer": 16,
    "pad": 4,
    "pixel_shuffle": 4,
    "roll": 4,
    "segment_max": 8,
    "slice_v2": 3,
    "softmax": 9,
    "sort": 1,
    "take": 27,
    "tensordot": 60,
    "trace": 4,
    "transpose": 12,
    "unfold": 1,
    "upsample": 3,
}
"""Programs that show what else the notation can say."""

COMBINATIONS = ORIGINAL | MORE


FRAMEWORKS = {"tf": "TensorFlow", "torch": "PyTorch", "np": "NumPy"}
PACKAGES = {"TensorFlow": "tensorflow", "PyTorch": "torch", "NumPy": "numpy"}


def load(name: str) -> eintup.EinsumTuple:
    return eintup.load(FOLDER / f"{name}.et")


def framework(name: str) -> str:
    """Which library a program is compared with."""
    call = load(name).program.file.call
    assert call is not None
    return FRAMEWORKS[call.function.parts[0]]


def row(name: str, result: Verification) -> list[str]:
    combinations = len({c.id.partition(".")[0] for c in result.cases})
    right = len(result.cases) - len(result.failures)
    verdict = "true" if result.ok else f"FALSE: {len(result.failures)}"
    counts = [str(combinations), f"{right}/{len(result.cases)}"]
    return [name, framework(name), *counts, verdict, f"{result.seconds:.1f}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a case fails, or a program has other combinations than it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.eintup.programs")
    parser.add_argument("names", nargs="*", default=list(COMBINATIONS), metavar="NAME")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=["cpu", "interpreter"], default="cpu")
    options = parser.parse_args(arguments)
    results: dict[str, Verification] = {}
    with show_progress(f"verifying {len(options.names)} programs", len(options.names)) as advance:
        for name in options.names:
            program = load(name)
            results[name] = program.verify(options.reps, options.seed, target=options.target)
            advance(1)
    header = ["program", "framework", "combinations", "cases", "verdict", "seconds"]
    rows = [row(name, result) for name, result in results.items()]
    print("\n".join(table(header, rows, right="combinations cases seconds")))
    return summary(results, options.reps)


def summary(results: dict[str, Verification], reps: int) -> int:
    """Say how it went, all together."""
    for name, result in results.items():
        if not result.ok:
            print(f"\n{name}:\n{result}", file=sys.stderr)
    cases = sum(len(r.cases) for r in results.values())
    failures = sum(len(r.failures) for r in results.values())
    missing = [n for n, r in results.items() if len(r.cases) != reps * COMBINATIONS[n]]
    if missing:
        print(f"other combinations than there should be: {', '.join(missing)}", file=sys.stderr)
    seconds = sum(r.seconds for r in results.values())
    print(f"{len(results)} programs, {cases} cases: {failures or 'no'} failures ({seconds:.0f} s)")
    return 1 if failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
