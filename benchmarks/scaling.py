"""How long a model takes to load and compile, by the number of its operators.

    python -m benchmarks.scaling --operators 250 500 1000 2000

Every stage should take a time per operator that does not grow; kernels of equal text are compiled
once, so building takes less.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ricci.api import Model, parse
from ricci.backends.llvm.image import build
from ricci.diagnostics import Report
from ricci.dtypes import DType, Types
from ricci.frontends.skriptnd.compose import compose
from ricci.frontends.skriptnd.modules import load_text
from ricci.frontends.skriptnd.typing import check_program
from ricci.garbage import uncollected
from ricci.passes.pipeline import lower
from ricci.runtime.pool import this_machine

from .measure import format_table

BLOCK = """
        c{k} = nn.conv{{padding = 1}}({x}, f{k}, b{k});
        r{k} = nn.relu(c{k});
        p{k} = nn.max_pool{{size = 3, stride = 1, padding = 1}}(r{k});
        m{k} = linalg.matmul(p{k}, w{k});
        a{k} = math.add(m{k}, {x});"""
"""Five operators with three variables, around which the input is added again."""

STAGES = ("parse", "check", "compose", "lower", "build", "compile", "first call")


def model_text(operators: int) -> str:
    """A chain of that many operators, a multiple of five."""
    blocks = [BLOCK.format(k=k, x=f"a{k - 1}" if k else "x") for k in range(operators // 5)]
    variables = "".join(
        f"\n        f{k}: real[8,8,3,3]; b{k}: real[8]; w{k}: real[1,1,16,16];"
        for k in range(len(blocks))
    )
    return f"""import nn; import math; import linalg;
graph Chain {{
    @input {{
        x: real[1,8,16,16];
    }}
    @variable {{{variables}
    }}
    @output {{
        a{len(blocks) - 1}: real[1,8,16,16];
    }}
    @compose {{{"".join(blocks)}
    }}
}}
"""


class Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def measure(operators: int) -> tuple[dict[str, float], int, int]:
    """Seconds by stage, the number of kernels, and of those that differ."""
    text, clock = model_text(operators), Clock()
    report = Report()
    with uncollected():  # as in `ricci.parse`
        with clock.stage("parse"):
            program = load_text(text, "main", report)
        with clock.stage("check"):
            check_program(program, report)
            report.raise_errors()
        with clock.stage("compose"):
            graph = compose(program, program.graphs()[0], {})
    with clock.stage("lower"):
        lowered = lower(graph, {}, Types(DType.FLOAT32, DType.INT64))
    with clock.stage("build"):
        image = build(lowered, this_machine())
    model = parse(text)
    _set_variables(model)
    with clock.stage("compile"):
        run = model.compile()
    x = np.ones((1, 8, 16, 16), np.float32)
    with clock.stage("first call"):
        result = run(x)
    assert np.isfinite(result).all()
    symbols = [step.symbol for step in image.steps if step.kind == "kernel"]
    return clock.seconds, len(symbols), len(set(symbols))


def _set_variables(model: Model) -> None:
    rng = np.random.default_rng(0)
    for name in model.variables:
        shape = {"f": (8, 8, 3, 3), "b": (8,), "w": (1, 1, 16, 16)}[name.split(".")[-1][0]]
        model.variables[name] = rng.standard_normal(shape) * 0.05


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--operators", type=int, nargs="+", default=[250, 500, 1000, 2000])
    options = parser.parse_args()
    measure(25)  # what is done once only
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RICCI_CACHE_DIR"] = folder
        for operators in options.operators:
            seconds, kernels, distinct = measure(operators)
            each = [f"{seconds[stage] / operators * 1e3:.2f}" for stage in STAGES]
            total = sum(seconds[s] for s in ("parse", "check", "compose", "compile", "first call"))
            rows.append([str(operators), *each, f"{total:.2f} s", f"{distinct} of {kernels}"])
    print("Milliseconds per operator; `compile` is `lower`, `build` and loading.")
    print(format_table(["operators", *STAGES, "all", "kernels"], rows))


if __name__ == "__main__":
    main()
