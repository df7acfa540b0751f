"""A table of all kernels at the sizes that they were benchmarked at, with the error of each.

    python -m tests.tc [--memory 6]

Errors are the largest difference from PyTorch in float64, divided by the largest expected value.
Sizes for which arguments, and the same in float64, take more than `--memory` gigabytes are
halved until they do not: such rows say so.
"""

from __future__ import annotations

import argparse

import numpy as np

import ricci

from .kernel_cases import KERNELS, Kernel, Sizes, operations, shape_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", type=float, default=6.0, help="gigabytes (default: 6)")
    options = parser.parse_args()
    print("| kernel | sizes | results | error | allowed |")
    print("|---|---|---|---|---|")
    wrong = 0
    for kernel in KERNELS:
        for sizes in kernel.full:
            wrong += not _row(kernel, _fitting(kernel, sizes, options.memory * 1e9))
    print(f"\n{wrong} rows are wrong" if wrong else "\nall rows are right")
    return min(wrong, 1)


def _fitting(kernel: Kernel, sizes: Sizes, memory: float) -> Sizes:
    """Sizes with the largest halved until everything fits into memory."""
    sizes = dict(sizes)
    shapes = [a for a in kernel.arguments if isinstance(a, str)]
    while 12 * sum(int(np.prod(shape_of(s, sizes))) for s in shapes) > memory:
        largest = max(sizes, key=lambda n: sizes[n])
        sizes[largest] //= 2
    return sizes


def _row(kernel: Kernel, sizes: Sizes) -> bool:
    arguments = kernel.draw(sizes)
    result = ricci.tc.define(kernel.text)[kernel.name](*arguments)
    results = result if isinstance(result, tuple) else (result,)
    error = 0.0
    for actual, expected in zip(results, kernel.expected(arguments), strict=True):
        scale = float(np.abs(expected).max()) or 1.0
        error = max(error, float(np.abs(actual.astype(np.float64) - expected).max()) / scale)
    allowed = 2e-7 * (4 + operations(kernel, sizes) ** 0.5)
    right = error <= allowed
    shown = " ".join(f"{name}={n}" for name, n in sizes.items())
    verdict = "" if right else " WRONG"
    print(f"| {kernel.name} | {shown} | {len(results)} | {error:.1e}{verdict} | {allowed:.1e} |")
    return right


if __name__ == "__main__":
    raise SystemExit(main())
