"""From a model on disk to its first result, in fresh processes: seconds and memory.

    python -m benchmarks.compile_time [--model resnet50] [--batch 1] [--threads 2]

Ricci starts with an empty cache, and again with what it then holds; ONNX Runtime and OpenVINO read
the same network as an ONNX file. Python has compiled its modules before. Memory is the most that
the process ever had, above what it had after its imports, beside the weights and 1.3 times the
largest intermediate tensors that are alive at once. Ricci compiles in a process of its own, which
has ended when the weights are read: the most that this had, its imports counted, has a column, and
so has the most that it, what it has forked and its caller had at a time, above what that had after
its imports; pages that processes share are divided among them. A start at
which somebody looks for this every 20 ms takes a fifth longer, so seconds are those of another one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .measure import format_table

SLACK = 1.3


def first_result(side: str, path: str, inputs: str, threads: int) -> dict[str, float]:
    """Run in a process of its own: load, compile, call once."""
    start_up = STARTS[side]()
    arrays = dict(np.load(inputs))
    before = memory("VmRSS")
    start = time.perf_counter()
    call = start_up(path, threads, arrays)
    ready = time.perf_counter()
    result = call()
    called = time.perf_counter()
    assert np.isfinite(np.asarray(result)).all()
    return {
        "load": ready - start,
        "call": called - ready,
        "memory": memory("VmHWM") - before,
        "compiler": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
        "before": before,
    }


Start = Callable[[str, int, dict[str, np.ndarray]], Callable[[], Any]]


def start_ricci() -> Start:
    import ricci
    from ricci import api, outline  # with what `import ricci` leaves for when it is needed
    from ricci.runtime import executable

    assert api and outline and executable

    def start(path: str, threads: int, arrays: dict[str, np.ndarray]) -> Callable[[], Any]:
        run = ricci.load(path).compile(threads=threads)
        return lambda: run(*arrays.values())

    return start


def start_onnx_runtime() -> Start:
    import onnxruntime as ort

    def start(path: str, threads: int, arrays: dict[str, np.ndarray]) -> Callable[[], Any]:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, arrays)[0]

    return start


def start_open_vino() -> Start:
    import openvino

    def start(path: str, threads: int, arrays: dict[str, np.ndarray]) -> Callable[[], Any]:
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = openvino.Core().compile_model(path, "CPU", settings)
        return lambda: compiled(list(arrays.values()))[0]

    return start


STARTS: dict[str, Callable[[], Start]] = {
    "Ricci": start_ricci,
    "ONNX Runtime": start_onnx_runtime,
    "OpenVINO": start_open_vino,
}


def memory(field: str, process: str = "self") -> int:
    """Bytes that a process has (`VmRSS`), or had at most (`VmHWM`); none if it has ended."""
    found = re.search(rf"{field}:\s*(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return 0 if found is None else int(found[1]) * 1024


def most_of_all(process: subprocess.Popen[str]) -> int:
    """The most bytes that a process and its descendants have together until it ends."""
    most = 0
    while process.poll() is None:
        with suppress(OSError):  # one has ended at this moment
            own = str(process.pid)
            most = max(most, memory("VmRSS", own) + sum(map(share, descendants(own))))
        time.sleep(0.02)
    return most


def descendants(process: str) -> list[str]:
    """The processes that one has started, and those that they have, and so on."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [p for c in children for p in (c, *descendants(c))]


def share(process: str) -> int:
    """Bytes that a process has, its part of what it shares with others."""
    found = re.search(r"Pss:\s*(\d+) kB", Path(f"/proc/{process}/smaps_rollup").read_text())
    return 0 if found is None else int(found[1]) * 1024


def in_a_process(side: str, path: Path, inputs: Path, threads: int, cache: Path) -> list[str]:
    """A row of the table: the time of a start, and the memory of another."""
    timed, _ = start_with(side, path, inputs, threads, cache)
    found, most = start_with(side, path, inputs, threads, cache.with_suffix(".watched"), True)
    found["both"] = max(found["memory"], most - found["before"])
    return [
        f"{timed['load']:.2f}",
        f"{timed['call']:.3f}",
        f"{timed['load'] + timed['call']:.2f}",
        *(f"{found[part] / 1e6:.1f}" for part in ("memory", "compiler", "both")),
    ]


def start_with(
    side: str, path: Path, inputs: Path, threads: int, cache: Path, watched: bool = False
) -> tuple[dict[str, float], int]:
    """What a start says of itself, and the most bytes of all its processes at a time."""
    command = [sys.executable, "-m", "benchmarks.compile_time", "--child", side]
    command += [str(path), str(inputs), str(threads)]
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"RICCI_CACHE_DIR": str(cache)}
    environment |= {"PYTHONPYCACHEPREFIX": str(cache.parent / "modules")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as started:
        most = most_of_all(started) if watched else 0
        assert started.stdout is not None
        said = started.stdout.read()
    assert started.returncode == 0
    return json.loads(said), most


def largest_live_set(model: Any) -> int:
    """Bytes of the intermediate tensors of the compiled program that are alive at once, where
    something made in place of another counts as both."""
    from ricci.dtypes import DType, Types
    from ricci.ir.loops import Reduce, tensors_touched, tensors_written
    from ricci.ir.nodes import Tensor
    from ricci.passes.in_place import tensors_read
    from ricci.passes.memory import size_of
    from ricci.passes.pipeline import lower

    program = lower(model.graph, {}, Types(DType.FLOAT32, DType.INT64))
    spans: dict[Tensor, tuple[int, int]] = {}
    for position, kernel in enumerate(program.kernels):
        for tensor in tensors_touched(kernel):
            if program.buffers[tensor].kind == "arena":
                spans[tensor] = (spans.get(tensor, (position, 0))[0], position)

    def alive(position: int) -> int:
        """What lies at the same place at the same time is the same, seen in two shapes."""
        sizes: dict[int, int] = {}
        for tensor, (first, last) in spans.items():
            if first <= position <= last:
                place = program.buffers[tensor].offset
                sizes[place] = max(sizes.get(place, 0), size_of(tensor))
        kernel = program.kernels[position]
        read = tensors_read(kernel) if isinstance(kernel, Reduce) else []
        replaced = set(read) & set(tensors_written(kernel)) & spans.keys()
        return sum(sizes.values()) + sum(map(size_of, replaced))

    return max(map(alive, range(len(program.kernels))))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        side, path, inputs, threads = options.child
        print(json.dumps(first_result(side, path, inputs, int(threads))))
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """Print the table."""
    from . import models

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case = models.case(options.model, options.batch)
        case.model.save(folder / "model.nnef2")
        (folder / "model.onnx").write_bytes(case.onnx)
        np.savez(folder / "inputs.npz", **case.inputs)
        np.savez(folder / "onnx.npz", **case.onnx_inputs)
        weights = sum(a.nbytes for a in dict(case.model.variables).values())
        live = largest_live_set(case.model)
        rows = []
        for side, file, inputs, title, cache in [
            ("Ricci", "model.nnef2", "inputs.npz", "", "before"),
            ("ONNX Runtime", "model.onnx", "onnx.npz", "", "before"),
            ("OpenVINO", "model.onnx", "onnx.npz", "", "before"),
            ("Ricci", "model.nnef2", "inputs.npz", "Ricci, empty cache", "cache"),
            ("Ricci", "model.nnef2", "inputs.npz", "Ricci, warm cache", "cache"),
            ("ONNX Runtime", "model.onnx", "onnx.npz", "ONNX Runtime", "cache"),
            ("OpenVINO", "model.onnx", "onnx.npz", "OpenVINO", "cache"),
        ]:
            paths = (folder / file, folder / inputs)
            row = in_a_process(side, *paths, options.threads, folder / cache)
            if not title:
                continue
            rows.append([title, *row])
            print(rows[-1], flush=True)
    header = [f"{options.model}, batch {options.batch}", "load and compile s", "first call s"]
    print(format_table([*header, "together s", "memory MB", "its compiler MB", "both MB"], rows))
    print(
        f"weights {weights / 1e6:.1f} MB, largest live set {live / 1e6:.1f} MB: "
        f"weights + {SLACK} x live set is {(weights + SLACK * live) / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main()
