"""Gradients of Tensor Comprehensions beside PyTorch's automatic differentiation.

    python -m benchmarks.gradients [--threads 2] [--only gconv]

Both compute the gradients of all arguments, called with the same PyTorch tensors, in turns in one
process, after their results were compared: alone, of a forward computation that was done before,
and with it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch

import ricci
import ricci.torch

from .cases_comprehensions import Kernel, gconv, group_norm, kernels, texts
from .measure import format_table, scaled_error, set_peer_threads, time_alternately

FAMILIES = (gconv, group_norm)

Results = tuple[torch.Tensor, ...]


def differentiate(title: str, kernel: Kernel, options: argparse.Namespace) -> list[str]:
    """Compare the gradients of a kernel, and time both."""
    calls, error = prepared(title, kernel, options.threads)
    times = {n: t.median * 1e3 for n, t in time_alternately(calls, options.rounds).items()}
    line = [title]
    for what in ("", " both"):
        mine, other = times[f"ricci{what}"], times[f"torch{what}"]
        line += [f"{mine:.3f}", f"{other:.3f}", f"{mine / other:.2f}"]
    return [*line, f"{error:.1e}"]


def prepared(
    title: str, kernel: Kernel, threads: int
) -> tuple[dict[str, Callable[[], Results]], float]:
    """Calls of both, for the backward computation and for all, and how far they are apart."""
    function = ricci.tc.define(texts()[kernel.function])[kernel.function]
    name = "benchmarks::" + "".join(c if c.isalnum() else "_" for c in title)
    operator = ricci.torch.custom_op(name, function, threads=threads)
    arguments = [torch.from_numpy(a).requires_grad_() for a in kernel.arguments.values()]
    sides: dict[str, Callable[..., Any]] = {"ricci": operator, "torch": kernel.torch}

    def compute(side: str) -> torch.Tensor:
        result = sides[side](*arguments)
        if isinstance(result, torch.Tensor):
            return result
        return result[kernel.pick if side == "ricci" else 0]

    results = {side: compute(side) for side in sides}
    cotangent = torch.randn_like(results["torch"])

    def backward(result: torch.Tensor) -> Results:
        return torch.autograd.grad(result, arguments, cotangent, retain_graph=True)

    found = {side: backward(result) for side, result in results.items()}
    pairs = zip(found["ricci"], found["torch"], strict=True)
    error = max(scaled_error(a.numpy(), b.numpy()) for a, b in pairs)
    calls: dict[str, Callable[[], Results]] = {}
    for side in sides:
        calls[side] = lambda side=side: backward(results[side])
        calls[f"{side} both"] = lambda side=side: backward(compute(side))
    return calls, error


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    set_peer_threads(options.threads)
    lines = []
    for label, family, sizes in kernels():
        title = label.format(*sizes)
        if family in FAMILIES and options.only in title:
            lines.append(differentiate(title, family(*sizes), options))
            print(" | ".join(lines[-1]), flush=True)
    both = [f"{who} {what} ms" for what in ("backward", "both") for who in ("ricci", "PyTorch")]
    header = ["kernel", *both[:2], "ratio", *both[2:], "ratio", "error"]
    print("\n" + format_table(header, lines))


if __name__ == "__main__":
    main()
