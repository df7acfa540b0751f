"""AlexNet: numbers against PyTorch, speed against ONNX Runtime, time to load and compile.

    python -m benchmarks.alexnet FOLDER [--threads 2] [--rounds 15] [--interpreter]

FOLDER is `examples/alexnet/alexnet.nnef2` with weights (`ricci init`); see `make bench`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

import ricci

from . import peers
from .measure import Peak, format_table, scaled_error, time_alternately

STARTUP = """
import time, sys
import ricci, numpy
start = time.perf_counter()
model = ricci.load(sys.argv[1], attribs={"batch": 1})
loaded = time.perf_counter()
exe = model.compile(threads=int(sys.argv[2]))
compiled = time.perf_counter()
exe(numpy.zeros((1, 3, 224, 224), numpy.float32))
called = time.perf_counter()
print(f"load {loaded - start:.3f} s, compile {compiled - loaded:.3f} s, "
      f"first call {called - compiled:.3f} s, together {called - start:.3f} s")
"""


def compare(folder: Path, options: argparse.Namespace) -> None:
    """Print the errors against PyTorch in float64, at batch 1 and 4, 1000 and 10 classes."""
    rng = np.random.default_rng(0)
    rows = []
    for batch, classes in [(1, 1000), (4, 1000), (1, 10), (4, 10)]:
        model = load(folder, batch, classes)
        weights = short(model.variables)
        x = rng.standard_normal((batch, 3, 224, 224), np.float32)
        expected = peers.alexnet_torch(x.astype(np.float64), weights)
        row = [str(batch), str(classes)]
        row.append(f"{scaled_error(model.compile(threads=options.threads)(x), expected):.1e}")
        if options.interpreter:
            ours = model.compile(target="interpreter")(x)
            row.append(f"{scaled_error(ours, expected):.1e}")
        rows.append(row)
        print(f"batch {batch}, {classes} classes: {', '.join(row[2:])}", flush=True)
    header = ["batch", "classes", "compiler", "interpreter"]
    print(format_table(header[: len(rows[0])], rows))


def load(folder: Path, batch: int, classes: int) -> ricci.Model:
    """AlexNet with another batch size or number of classes; the last layer is cut to fit."""
    full = ricci.load(folder)
    model = ricci.load(folder, attribs={"batch": batch, "classes": classes})
    for name, array in full.variables.items():
        model.variables[name] = array[:classes] if name.endswith(("kernel8", "bias8")) else array
    return model


def short(variables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The variables by the last part of their scoped names."""
    return {n.rpartition(".")[2]: a for n, a in variables.items()}


def race(folder: Path, options: argparse.Namespace) -> None:
    """Print the time of a call beside ONNX Runtime."""
    rng = np.random.default_rng(0)
    peak = Peak(options.threads)
    rows = []
    for batch in (1, 4):
        model = ricci.load(folder, attribs={"batch": batch})
        x = rng.standard_normal((batch, 3, 224, 224), np.float32)
        exe = model.compile(threads=options.threads)
        peer = peers.alexnet_onnx(x, short(model.variables), options.threads)
        timing = time_alternately({"ricci": partial(exe, x), "ort": peer}, options.rounds, 0.2)
        mine, other = timing["ricci"].median, timing["ort"].median
        size = sum(a.nbytes for a in dict(model.variables).values())
        rows.append(
            [
                str(batch),
                f"{mine * 1e3:.2f}",
                f"{other * 1e3:.2f}",
                f"{mine / other:.2f}",
                f"{size / mine / 1e9:.1f}",
            ]
        )
    print(format_table(["batch", "ricci ms", "ort ms", "ratio", "weights GB/s"], rows))
    print(f"peak {peak.flops() / 1e9:.0f} GFLOP/s, {peak.bandwidth() / 1e9:.0f} GB/s")


def start_up(folder: Path, options: argparse.Namespace) -> None:
    """Print the time to load and compile in a fresh process, with an empty and a warm cache."""
    cache = tempfile.mkdtemp()
    environment = os.environ | {"RICCI_CACHE_DIR": cache}
    try:
        for state in ("cold", "warm", "warm"):
            done = subprocess.run(
                [sys.executable, "-c", STARTUP, str(folder), str(options.threads)],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            print(f"{state}: {done.stdout.strip()}", flush=True)
    finally:
        shutil.rmtree(cache)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--interpreter", action="store_true", help="also run the interpreter")
    options = parser.parse_args()
    start_up(options.folder, options)
    compare(options.folder, options)
    race(options.folder, options)


if __name__ == "__main__":
    main()
