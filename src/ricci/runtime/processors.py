"""Which processors a call may use: those allowed, one of each core, the nearest first, and no more
than the process's control group has time for.

Reads `/proc` and `/sys` of Linux; elsewhere, and where a file is missing, there are no such limits.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

ROOT = Path("/")
"""Where `proc` and `sys` are."""


def usable_count() -> int:
    """How many threads a call uses if nobody says: one per core, or fewer if there is not so much
    time for all of them."""
    cores, limit = len(physical_cores()), quota()
    return max(1, cores if limit is None else min(cores, math.ceil(limit)))


def allowed_cpus() -> list[int]:
    """The processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def physical_cores() -> list[int]:
    """One allowed processor of each core."""
    seen: set[str] = set()
    out = []
    for cpu in allowed_cpus():
        siblings = _text(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        name = siblings or str(cpu)
        if name not in seen:
            seen.add(name)
            out.append(cpu)
    return out


def worker_cpus(count: int) -> list[int]:
    """Where workers are kept: distinct cores other than the caller's, as far as there are, and as
    far as possible with the same memory.

    -1 leaves a worker to the system.
    """
    cpus = physical_cores()
    if count >= len(cpus):
        cpus = allowed_cpus()
    here = current_cpu()
    near = _same_node(here)
    others = sorted((c for c in cpus if c != here), key=lambda c: c not in near)
    return (others + [-1] * count)[:count]


def current_cpu() -> int:
    """The processor that runs this; -1 if that is not known."""
    try:
        return int(ctypes.CDLL(None).sched_getcpu())
    except (OSError, AttributeError):
        return -1


def quota() -> float | None:
    """How many processors' time the control groups of this process may use, if that is limited."""
    limits = []
    for line in _text("proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for folder in _upwards(controllers, path):
            limit = _unified(folder) if not controllers else _separate(folder)
            limits += [] if limit is None else [limit]
    return min(limits, default=None)


def _upwards(controllers: str, path: str) -> Iterator[str]:
    """The folders of a control group and of those that it belongs to; none if it limits no time."""
    if controllers and "cpu" not in controllers.split(","):
        return
    bases = ["sys/fs/cgroup"] if not controllers else [f"sys/fs/cgroup/{controllers}"]
    bases += ["sys/fs/cgroup/cpu"] if controllers not in ("", "cpu") else []
    for base in bases:
        inner = PurePosixPath(path.strip("/"))
        for part in (inner, *inner.parents):
            yield f"{base}/{part}"


def _unified(folder: str) -> float | None:
    """The limit of a group of version 2."""
    words = _text(f"{folder}/cpu.max").split()
    return _share(*words) if len(words) == 2 else None


def _separate(folder: str) -> float | None:
    """The limit of a group of version 1."""
    return _share(_text(f"{folder}/cpu.cfs_quota_us"), _text(f"{folder}/cpu.cfs_period_us"))


def _share(time: str, period: str) -> float | None:
    with suppress(ValueError, ZeroDivisionError):
        share = int(time) / int(period)
        return share if share > 0 else None
    return None


def _same_node(cpu: int) -> set[int]:
    """The processors with the same memory."""
    for folder in (ROOT / "sys/devices/system/node").glob("node[0-9]*"):
        cpus = set(_numbers(_text(f"sys/devices/system/node/{folder.name}/cpulist")))
        if cpu in cpus:
            return cpus
    return set()


def _numbers(text: str) -> Iterator[int]:
    """The numbers of a list such as `0-3,8`."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        with suppress(ValueError):
            yield from range(int(first), int(last or first) + 1)


def _text(path: str) -> str:
    """What a file holds, nothing if it cannot be read."""
    try:
        return (ROOT / path).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
