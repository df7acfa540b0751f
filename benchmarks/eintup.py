"""Convolutions and matrix products as Einsum Tuple programs, beside operators of SkriptND.

    python -m benchmarks.eintup [--threads 2] [--rounds 15] [--channels last] [--only 3x3]

The sizes are those of ResNet-50. A convolution is written in two forms, linear in the input and
linear in the filters. Both are called with the arrays that `nn.conv` is called with, alternately in
one process, after their results were compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np

import ricci
from ricci import eintup
from ricci.runtime.peak import Loop

from . import cases_products
from .cases_convolutions import RESNET50, Layer
from .measure import format_table, scaled_error, time_alternately

Call = Callable[[], np.ndarray]


PRODUCTS = [(1, 2048, 1000), *cases_products.SIZES]
"""Rows, inner size, columns."""

LAYOUTS = {
    "first": ("input[batch, ichan, {}]", "filters[ochan, ichan, {}]", "output[batch, ochan, opos]"),
    "last": ("input[batch, {}, ichan]", "filters[{}, ichan, ochan]", "output[batch, opos, ochan]"),
}
"""Where the channels stand, and the three arrays."""

FORMATS = {"first": "", "last": ", data_format='NXC', filter_format='XCN'"}
"""The same as attributes of `nn.conv`."""

FORMS = {
    "input": ("ipos", "ipos + DIMS(pad) - DIMS(stride) * opos"),
    "filters": ("DIMS(stride) * opos + fpos - DIMS(pad)", "fpos"),
}
"""In what the program is written to be linear, and where it reads the input and the filters."""

CONVOLUTION = """
{input_} = RANDOM(-1, 1, FLOAT)
{filters} = RANDOM(-1, 1, FLOAT)
{output} = {read} * {weight}

RANK(ipos) IN [1, 3]
DIMS(opos) = (DIMS(ipos) + 2 * DIMS(pad) - DIMS(fpos)) // DIMS(stride) + 1
"""

PRODUCT = """
left[batch, row, inner] = RANDOM(-1, 1, FLOAT)
right[inner, col] = RANDOM(-1, 1, FLOAT)
output[batch, row, col] = left[batch, row, inner] * right[inner, col]

RANK(batch) IN [0, 6]
"""

OPERATOR = """
import nn;
import linalg;
graph Main {{
    @input {{ x: real[{x}]; w: real[{w}]; }}
    @output {{ y: real[{y}]; }}
    @compose {{ y = {call}; }}
}}
"""

Case = tuple[str, float, dict[str, Call]]
"""A title, the floating-point operations, and what computes the same, the operator first."""


def program_text(layout: str, form: str) -> str:
    """A convolution of any rank."""
    x, w, y = LAYOUTS[layout]
    read, weight = FORMS[form]
    return CONVOLUTION.format(
        input_=x.format("ipos"), filters=w.format("fpos"), output=y,
        read=x.format(read), weight=w.format(weight),
    )  # fmt: skip


def operator(call: str, threads: int, *arrays: np.ndarray) -> Call:
    """An operator of SkriptND's standard library, called with two arrays."""
    x, w = (", ".join(map(str, a.shape)) for a in arrays)
    text = OPERATOR.format(x=x, w=w, y="~,~,~,~" if "conv" in call else "~,~", call=call)
    compiled = ricci.parse(text, "skriptnd").compile(threads=threads)
    return partial(compiled, *arrays)


def convolution(layer: Layer, layout: str, threads: int, rng: np.random.Generator) -> Case:
    x = rng.standard_normal((1, layer.channels, layer.size, layer.size), np.float32)
    shape = (layer.filters, layer.channels, layer.window, layer.window)
    w = rng.standard_normal(shape, np.float32)
    if layout == "last":
        x, w = (np.ascontiguousarray(a) for a in (x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)))
    attributes = f"stride={layer.stride}, padding={layer.padding}{FORMATS[layout]}"
    calls = {"operator": operator(f"nn.conv{{{attributes}}}(x, w)", threads, x, w)}
    for form in FORMS:
        program = eintup.parse(program_text(layout, form), threads=threads)
        fixed = program.at(dims={"stride": layer.stride, "pad": layer.padding})
        calls[form] = partial(fixed, x, w)
    return layer.title, layer.flops, calls


def product(sizes: tuple[int, int, int], threads: int, rng: np.random.Generator) -> Case:
    m, k, n = sizes
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    program = eintup.parse(PRODUCT, threads=threads)
    calls = {"operator": operator("linalg.matmul(x, w)", threads, a, b)}
    return f"product {m}x{k}x{n}", 2.0 * m * k * n, calls | {"program": partial(program, a, b)}


def measured(case: Case, machine: Loop, rounds: int) -> list[list[str]]:
    """A row per program: its time, the operator's, their ratio, and the share of the peak."""
    title, flops, calls = case
    expected = calls["operator"]()
    errors = {name: scaled_error(call(), expected) for name, call in calls.items()}
    turns: dict[str, Callable[[], object]] = {**calls, "peak": machine}
    times = {n: t.median for n, t in time_alternately(turns, rounds).items()}
    limit = machine.amount / times.pop("peak")
    return [
        [
            title,
            name,
            f"{time * 1e3:.3f}",
            f"{times['operator'] * 1e3:.3f}",
            f"{time / times['operator']:.2f}",
            f"{flops / time / limit:.0%}",
            f"{errors[name]:.0e}",
        ]
        for name, time in times.items()
        if name != "operator"
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--channels", choices=list(LAYOUTS), default="first")
    parser.add_argument("--only", default="", help="a part of the titles to measure")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    makers = [
        partial(convolution, x, options.channels) for x in RESNET50 if options.only in x.title
    ]
    if options.only in "product":
        makers += [partial(product, sizes) for sizes in PRODUCTS]
    machine = Loop("compute", options.threads)
    rows = []
    for make in makers:
        rows += measured(make(options.threads, rng), machine, options.rounds)
        print(rows[-1], flush=True)
    header = ["formula", "linear in", "program ms", "operator ms", "ratio", "of peak", "error"]
    print(format_table(header, rows))
    ratios = sorted(float(row[4]) for row in rows)
    print(
        f"{options.threads} threads; ratio {ratios[len(ratios) // 2]:.2f} in the median,", end=" "
    )
    print(f"{ratios[-1]:.2f} at most")


if __name__ == "__main__":
    main()
