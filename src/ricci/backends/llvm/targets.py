"""Processors by name: what code can be made for without the machine being there.

Each has a vector width, registers and instructions that all its machines have. Caches and cores
are those of common ones, so that code for a name is the same wherever it is made.
"""

from __future__ import annotations

import ctypes
import platform
from difflib import get_close_matches

from ...diagnostics import error
from ...records import dataclass
from .target import Target, may_use_matrices

_X86 = ("x86_64", "AMD64")
_ARM = ("aarch64", "arm64")
_SVE_BYTES = 32
"""The length of the vectors of SVE that code is made for, as Neoverse V1 has them."""


@dataclass(frozen=True, slots=True)
class _Named:
    """What distinguishes a target: instructions, vector registers, caches."""

    machine: str
    cpu: str
    features: tuple[str, ...]
    vector_bytes: int
    registers: int
    masks: bool
    l2: int = 512 << 10
    l1: int = 32 << 10


_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2")
_V4 = (*_V3, *(f"avx512{part}" for part in ("bw", "cd", "dq", "f", "vl")))
_VNNI = (*_V4, "avx512vnni")
_BF16 = (*_VNNI, "avx512bf16")
_MATRICES = ("amx-tile", "amx-int8", "amx-bf16")
_AMX = (*_BF16, *_MATRICES)

_TARGETS = {
    "x86-64": _Named("x86_64", "x86-64", (), 16, 15, False),
    "x86-64-v3": _Named("x86_64", "x86-64-v3", _V3, 32, 16, True),
    "x86-64-v3-vnni": _Named("x86_64", "x86-64-v3", (*_V3, "avxvnni"), 32, 16, True),
    "x86-64-v4": _Named("x86_64", "x86-64-v4", _V4, 64, 32, True, 1 << 20),
    "x86-64-v4-vnni": _Named("x86_64", "x86-64-v4", _VNNI, 64, 32, True, 1 << 20),
    "x86-64-v4-bf16": _Named("x86_64", "x86-64-v4", _BF16, 64, 32, True, 1 << 20),
    "x86-64-v4-amx": _Named("x86_64", "x86-64-v4", _AMX, 64, 32, True, 2 << 20, 48 << 10),
    "aarch64": _Named("aarch64", "generic", ("neon",), 16, 29, False),
    "aarch64-dotprod": _Named("aarch64", "generic", ("neon", "dotprod"), 16, 29, False),
    "aarch64-sve": _Named("aarch64", "generic", ("neon", "sve"), _SVE_BYTES, 29, True, 1 << 20),
}

NAMES = tuple(_TARGETS)
"""The names that `named` knows."""


def named(name: str) -> Target:
    """The target of a name, for the operating system of this machine; `Error` E0801 if unknown."""
    found = _TARGETS.get(name)
    if found is None:
        close = get_close_matches(name, NAMES, 1)
        raise error(
            "E0801",
            f"there is no target `{name}`",
            notes=[f"targets: cpu, interpreter, {', '.join(NAMES)}"],
            help=f"did you mean `{close[0]}`?" if close else "",
        )
    import llvmlite.binding as llvm

    system = llvm.get_process_triple().partition("-")[2]
    flags = ["-prefer-256-bit"] if "avx512f" in found.features else []
    return Target(
        f"{found.machine}-{system}",
        found.cpu,
        ",".join([*flags, *(f"+{feature}" for feature in found.features)]),
        found.vector_bytes,
        found.registers,
        found.masks,
        10,
        found.l1,
        found.l2,
    )


def check_runs(name: str) -> None:
    """Raise E0805 unless this machine runs code of a named target."""
    missing = _missing(_TARGETS[name])
    if missing:
        raise error(
            "E0805",
            f"this machine does not run code for `{name}`",
            notes=[f"it lacks: {', '.join(missing)}"],
            help='`target="cpu"` is this machine; `ricci show --stage asm` shows code for others',
        )


def _missing(wanted: _Named) -> list[str]:
    """What a target has and this machine lacks."""
    machines = _X86 if wanted.machine == "x86_64" else _ARM
    if platform.machine() not in machines:
        return [f"a processor of type {wanted.machine}"]
    import llvmlite.binding as llvm

    features = dict(llvm.get_host_cpu_features())
    if features.get("amx-tile") and not may_use_matrices():
        features |= dict.fromkeys(_MATRICES, False)
    missing = [f for f in wanted.features if not features.get(f)]
    if "sve" in wanted.features and not missing and _sve_bytes() != _SVE_BYTES:
        missing = [f"vectors of {8 * _SVE_BYTES} bits"]
    return missing


def _sve_bytes() -> int:
    """The length of this machine's SVE vectors, which Linux tells; 0 where nobody does."""
    get_length, mask = 51, 0xFFFF
    try:
        answer = int(ctypes.CDLL(None).prctl(get_length, 0, 0, 0, 0))
    except (OSError, AttributeError):
        return 0
    return answer & mask if answer > 0 else 0
