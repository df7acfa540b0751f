"""The kernels of a call as a table, with what they achieve."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from .output import count, print_table

if TYPE_CHECKING:
    from ..runtime.profile import KernelProfile, Profile

_HEADER = [
    "kernel", "computes", "into", "code", "shape", "runs", "us", "share", "GFLOP/s", "GB/s",
    "of peak", "bound by",
]  # fmt: skip
_RIGHT = "kernel runs us share GFLOP/s GB/s"


def print_kernels(profile: Profile) -> None:
    """A row per kernel, and what the machine can do."""
    print_table(_HEADER, [_row(k) for k in profile.kernels], right=_RIGHT)
    inside = sum(k.seconds * k.runs for k in profile.kernels)
    machine = profile.machine
    print(
        f"\n{count(len(profile.kernels), 'kernel')}: {inside * 1e3:.3f} ms of "
        f"{profile.seconds * 1e3:.3f} ms for a call with the clock running"
    )
    print(
        f"this machine, {count(machine.threads, 'thread')}: {machine.flops / 1e9:.0f} GFLOP/s in "
        f"float32, {machine.memory / 1e9:.1f} GB/s from memory, {machine.cache / 1e9:.0f} GB/s "
        "from caches"
    )


def _row(kernel: KernelProfile) -> list[str]:
    known = [
        str(kernel.number), kernel.name, ", ".join(kernel.results), kernel.code, kernel.shape,
        str(kernel.runs),
    ]  # fmt: skip
    if not kernel.runs:
        return [*known, "0", "", "", "", "", ""]
    return [
        *known, f"{kernel.seconds * 1e6:.2f}", f"{kernel.share:.1%}", f"{kernel.flops / 1e9:.1f}",
        f"{kernel.bandwidth / 1e9:.1f}", _of_peak(kernel), kernel.bound_words,
    ]  # fmt: skip


def _of_peak(kernel: KernelProfile) -> str:
    """The share of what the machine can do: of its operations, unless memory is the limit."""
    if kernel.bound == "memory":
        return f"{kernel.of_memory:.0%} GB/s"
    return f"{kernel.of_flops:.0%} FLOP/s"


def as_data(profile: Profile) -> dict[str, object]:
    """A profile as plain data."""
    kernels = [asdict(k) | {"flops": k.flops, "bandwidth": k.bandwidth} for k in profile.kernels]
    return {"kernels": kernels, "call": profile.seconds, "machine": asdict(profile.machine)}
