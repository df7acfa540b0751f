"""What this machine is: its processor, what it reaches at most, and the versions of libraries."""

from __future__ import annotations

import os
import platform
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ricci.runtime.peak import LARGEST, Loop

PACKAGES = ("ricci", "numpy", "llvmlite", "onnxruntime", "openvino", "torch")


def description(threads: int) -> dict[str, Any]:
    """The machine and the libraries, as data."""
    return {
        "date": datetime.now().isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "caches": _caches(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "peak GFLOP/s": round(Loop("compute", threads).rate() / 1e9, 1),
        "memory GB/s": bandwidths(threads, LARGEST),
        "cache GB/s": bandwidths(threads, 1 << 20),
    }


def bandwidths(threads: int, footprint: int) -> dict[str, float]:
    return {
        kind: round(Loop(kind, threads, footprint).rate() / 1e9, 1) for kind in ("read", "copy")
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    found: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    return found.get("model name", platform.machine())


def _caches() -> dict[str, str]:
    """Sizes by level; of the first core."""
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((folder / n).read_text().strip() for n in ("level", "type", "size"))
        if kind != "Instruction":
            found[f"L{level}"] = size
    return found
