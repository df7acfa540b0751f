"""Two networks from their formulas to native code: handwritten digits, and AlexNet timed.

make demo
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console
from rich.text import Text

import ricci
from ricci.cli.init import write_random_weights
from ricci.ir.nodes import Graph, Operation
from ricci.ir.shapes import as_int

HERE = Path(__file__).parent
DIGITS = HERE / "digits"
ALEXNET = HERE / "alexnet" / "alexnet.nnef2"
BUILD = HERE.parent / "build"
SHOWN = 7
"""Images in a row."""

console = Console(highlight=False)


def main() -> None:
    with empty_cache():
        show_digits()
        show_alexnet()


# --------------------------------------------------------------------- digits


def show_digits() -> None:
    """Classify the held-out images, and draw some."""
    title("Handwritten digits", DIGITS / "digits.nnef2")
    images, labels = read_images(DIGITS / "images")
    model = ricci.load(DIGITS / "digits.nnef2", attribs={"batch": len(images)})
    run, compiling = timed(model.compile)
    probabilities, _ = timed(lambda: run(images))
    _, calling = timed(lambda: run(images))
    guesses = probabilities.argmax(1)
    wrong = np.flatnonzero(guesses != labels)
    right = len(labels) - len(wrong)
    draw(images, labels, probabilities, pick(labels, wrong))
    fact("right", f"{right} of {len(labels)} held-out images, {100 * right / len(labels):.1f} %")
    fact("compiled in", seconds(compiling))
    fact("all images in", f"{seconds(calling)}, {seconds(calling / len(labels))} each")
    few = ricci.load(DIGITS / "digits.nnef2", attribs={"batch": 8})
    expected = few.compile(target="interpreter")(images[:8])
    difference = np.abs(expected - probabilities[:8]).max()
    fact("against NumPy", f"probabilities differ by at most {difference:.1e}")


def read_images(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Grey levels as float32[n, 1, 8, 8], and the digits that the file names give."""
    files = sorted(folder.glob("*.png"))
    pixels = [np.asarray(Image.open(f).convert("L"), np.float32) for f in files]
    return np.stack(pixels)[:, None], np.array([int(f.stem.rpartition("_")[2]) for f in files])


def pick(labels: np.ndarray, wrong: np.ndarray) -> list[int]:
    """Two rows of images: one of every digit, then mistakes, then others."""
    firsts = [int(np.flatnonzero(labels == digit)[0]) for digit in range(10)]
    others = [k for k in range(len(labels)) if k not in firsts and k not in wrong]
    return [*firsts, *wrong.tolist(), *others][: 2 * SHOWN]


def draw(
    images: np.ndarray, labels: np.ndarray, probabilities: np.ndarray, chosen: list[int]
) -> None:
    rows = draw_blocks if can_draw_blocks() else draw_letters
    for start in range(0, len(chosen), SHOWN):
        part = chosen[start : start + SHOWN]
        for line in zip(*(rows(images[k, 0]) for k in part), strict=True):
            console.print(Text("  ").join(line), no_wrap=True, crop=False)
        captions = [caption(labels[k], probabilities[k]) for k in part]
        console.print(Text("  ").join(captions), "\n", no_wrap=True, crop=False)


def can_draw_blocks() -> bool:
    """Whether the terminal has colours and the half block."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return console.is_terminal and console.color_system is not None and encoding == "utf8"


def draw_blocks(image: np.ndarray) -> list[Text]:
    """Two pixels in every character: its upper half and its lower one."""
    upper, lower = image[0::2], image[1::2]
    return [
        Text.assemble(*(("▀", f"{grey(a)} on {grey(b)}") for a, b in zip(*pair, strict=True)))
        for pair in zip(upper, lower, strict=True)
    ]


def grey(level: float) -> str:
    return f"rgb({int(level)},{int(level)},{int(level)})"


def draw_letters(image: np.ndarray) -> list[Text]:
    ramp = " .:-=+*#%@"
    return [Text("".join(ramp[int(v * 9 / 240)] for v in row)) for row in image]


def caption(label: int, probabilities: np.ndarray) -> Text:
    """What the network says, as wide as an image: the digit and how sure it is, or the truth."""
    guess = int(probabilities.argmax())
    if guess == label:
        return Text(f"{guess} {100 * probabilities[guess]:.0f}%".ljust(8), "green")
    return Text(f"{guess} (is {label})".ljust(8), "bold red")


# -------------------------------------------------------------------- AlexNet


def show_alexnet() -> None:
    """Give AlexNet random weights, and time it."""
    title("AlexNet, 224 x 224, batch 1", ALEXNET)
    folder = BUILD / ALEXNET.name
    make_weights(folder)
    model, loading = timed(lambda: ricci.load(folder))
    _, reading = timed(model.variables.known)
    _, cold = timed(model.compile)
    run, warm = timed(model.compile)
    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)
    _, first = timed(lambda: run(image))
    median = measure(lambda: run(image))
    work = count_operations(model.graph)
    size = sum(array.nbytes for array in model.variables.values())
    fact(
        "loaded in", f"{seconds(loading)}, and {size / 1e6:.0f} MB of weights in {seconds(reading)}"
    )
    fact("compiled in", f"{seconds(cold)}; again, from the cache, in {seconds(warm)}")
    fact("one image in", f"{seconds(median)} (the median; the first took {seconds(first)})")
    fact("which is", f"{work / 1e9:.2f} GFLOP at {work / median / 1e9:.1f} GFLOP/s,")
    fact("", f"with the weights read at {size / median / 1e9:.1f} GB/s")


def make_weights(folder: Path) -> None:
    """A copy of the model in the build folder, with the weights that `ricci init` makes."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ALEXNET / "main.sknd", folder)
    model = ricci.load(folder)
    if not all((folder / f"{name}.dat").exists() for name in model.variables):
        write_random_weights(folder, model.graph, force=True)


def count_operations(graph: Graph) -> float:
    """Multiplications and additions of all sums of products, read off their formulas."""
    return sum(
        2.0 * math.prod(as_int(index.extent) or 0 for index in assignment.domain)
        for step in graph.operations
        if isinstance(step, Operation)
        for assignment in step.body
        if assignment.op == "add"
    )


# -------------------------------------------------------------------- helpers


def title(text: str, source: Path) -> None:
    console.print()
    console.print(Text(text, "bold"), Text(f"({source.relative_to(HERE.parent)})", "dim"))
    console.print()


def fact(name: str, text: str) -> None:
    console.print(Text.assemble((f"{name:>14}  ", "dim"), text), soft_wrap=True)


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = action()
    return result, time.perf_counter() - start


def measure(call: Callable[[], object], least: int = 10, duration: float = 2.0) -> float:
    """The median time of a call."""
    times: list[float] = []
    while len(times) < least or sum(times) < duration:
        times.append(timed(call)[1])
    return statistics.median(times)


def seconds(value: float) -> str:
    for unit, scale in [("s", 1.0), ("ms", 1e-3)]:
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value * 1e6:.3g} us"


@contextmanager
def empty_cache() -> Iterator[None]:
    """A cache of compiled code of its own, so that the first compilation really is the first."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RICCI_CACHE_DIR"] = folder
        yield


if __name__ == "__main__":
    main()
