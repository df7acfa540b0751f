"""The machine that code is made for, as the few numbers that generators need."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
from pathlib import Path

from ...dtypes import DType
from ...records import dataclass, replace

LINE = 64
"""Bytes of a line of the caches."""
PAGE = 4096
"""Bytes of a page of memory: what lies whole ones apart falls on the same lines of the caches."""
PIECE = 16
"""Bytes of a part of a vector within which instructions interleave elements."""
_ONE_UNIT = frozenset(("cannonlake", "icelake-client", "rocketlake", "tigerlake", "znver4"))
"""Processors that begin one multiply-add of 512 bits in a cycle, where others begin two."""
_IN_HALVES = frozenset(("znver1", "bdver4"))
"""Processors that compute, load and store 256 bits as two of 128."""

_ARCH_PRCTL, _REQUEST, _MATRICES = 158, 0x1023, 18
"""The call of Linux by which a process asks for registers that are kept on request, what it asks
with, and the number of those of matrices."""


@dataclass(frozen=True, slots=True)
class Target:
    """A processor. Two machines with equal targets can run each other's code.

    `vector_bytes` and `registers` describe the vector registers; `masks` says whether loads and
    stores of some lanes are single instructions; `accumulators` is how many independent
    multiply-adds keep its units busy, and `units` how many of whole vectors a core begins in a
    cycle. `l1` and `l2` are bytes of a core's own data caches, `shared` those that are likely to
    stay in one that all cores share, and others use, too; work is cut in pieces for `cores`
    threads.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    masks: bool
    accumulators: int
    l1: int
    l2: int
    cores: int = 4
    units: int = 2
    shared: int = 6 << 20
    adds_apart: bool = False
    """Whether products are added by instructions of their own, as those of some integers are."""
    winograd: bool = True
    """Whether products with small constant filters may be saved (`winograd_plan`), at the cost of
    a bit."""
    in_parts: bool = True
    """Whether numbers of float32 may be multiplied as sums of parts (`matrix`), if that is faster:
    tiny ones lose bits."""

    @property
    def scales(self) -> bool:
        """Whether an instruction multiplies whole vectors with powers of two."""
        return self.has("avx512f")

    @property
    def rounds(self) -> bool:
        """Whether instructions round to bfloat16, and multiply such numbers in pairs."""
        return self.long and self.has("avx512bf16")

    def lanes(self, dtype: DType) -> int:
        """Elements of a concrete type in a vector register."""
        return max(1, self.vector_bytes // dtype.numpy().itemsize)

    def has(self, feature: str) -> bool:
        """Whether it has the instructions that LLVM calls so."""
        return f"+{feature}" in _flags(self.features)

    @property
    def looks_ahead(self) -> bool:
        """Whether the processor itself asks for what follows rows that are only read, beyond the
        ends of pages, too."""
        return self.cpu.startswith("znver")

    @property
    def follows_many(self) -> bool:
        """Whether it does so along several rows at a time as fast as along one."""
        return self.cpu == "znver5"

    @property
    def halves(self) -> bool:
        """Whether vectors of 64 bytes are loaded, computed and stored in halves."""
        return self.long and self.cpu == "znver4"

    @property
    def narrow(self) -> bool:
        """Whether vectors of 32 bytes are loaded, computed and stored in halves: what comes from
        farther away has twice the time to arrive."""
        return self.vector_bytes == 32 and self.units == 1

    @property
    def short(self) -> bool:
        """Whether vectors have 32 bytes at most, and are not done in halves."""
        return not self.long and not self.narrow

    @property
    def slower(self) -> int:
        """How many times as long as others it takes for the same instructions."""
        return 2 if self.narrow else 1

    @property
    def near_l3(self) -> bool:
        """Whether the cache that cores share is that of a few neighbours, and gives each of them
        tens of bytes in a cycle; others are a mesh of those of all cores."""
        return self.cpu.startswith("znver")

    @property
    def pairs(self) -> bool:
        """Whether two lines next to one another go to memory in less time than two apart."""
        return self.cpu == "znver5"

    @property
    def asks_beside(self) -> bool:
        """Whether lines that are asked for find places on their way to the first cache beside those
        that the processor looks ahead at itself."""
        return not self.looks_ahead or self.cpu == "znver5"

    @property
    def asks_meanwhile(self) -> bool:
        """Whether what comes next is brought near beside multiply-adds that leave nothing to spare
        of the caches: elsewhere these took longer by that."""
        return self.long and (self.near_l3 or self.matrices)

    @property
    def wide(self) -> bool:
        """Whether a core begins multiply-adds of more than 64 bytes in a cycle: less of what comes
        from the caches is covered by as much as is computed meanwhile."""
        return self.units * self.vector_bytes > 64

    @property
    def is_fed(self) -> bool:
        """Whether the second cache, and the third, give a wide core much of what it reads while it
        computes."""
        return self.wide and self.near_l3

    @property
    def on_mesh(self) -> bool:
        """Whether a wide core shares the third cache with all others, so that it waits for what it
        reads from there unless it is asked for long before."""
        return self.wide and not self.near_l3

    @property
    def long(self) -> bool:
        """Whether vectors are longer than 32 bytes."""
        return self.vector_bytes > 32

    @property
    def matrices(self) -> bool:
        """Whether it multiplies matrices in registers, of small integers and of bfloat16."""
        return self.long and self.has("amx-bf16") and self.has("amx-int8")

    @property
    def fused(self) -> bool:
        """Whether a multiply-add is one instruction."""
        return self.has("fma") or not self.triple.startswith("x86_64")

    @property
    def sve(self) -> bool:
        """Whether vectors are those of SVE, of a length known beforehand."""
        return self.vector_bytes > 16 and self.has("sve")


@functools.lru_cache(8)
def _flags(features: str) -> frozenset[str]:
    return frozenset(features.split(","))


def host() -> Target:
    """The machine that this process runs on, as LLVM finds it."""
    import llvmlite.binding as llvm

    features = dict(llvm.get_host_cpu_features())
    # LLVM prefers 256 bits on some processors; the generators choose the width themselves
    flags = ["-prefer-256-bit"] if features.get("avx512f") else []
    flags += [f"{'+' if on else '-'}{name}" for name, on in sorted(features.items())]
    width, registers, masks = _vectors(features, platform.machine())
    l1, l2 = _caches()
    cpu = _model(llvm.get_host_cpu_name(), features)
    found = Target(
        llvm.get_process_triple(),
        cpu,
        ",".join(flags),
        width,
        registers,
        masks,
        10,
        l1,
        l2,
        os.cpu_count() or 1,
        1 if cpu in {64: _ONE_UNIT, 32: _IN_HALVES}.get(width, ()) else 2,
    )
    return as_allowed(found)


def as_allowed(target: Target) -> Target:
    """The machine with what the system lets this process use of it: registers that hold matrices a
    process has to ask for, since they are much to be saved."""
    if not target.matrices or may_use_matrices():
        return target
    return replace(target, features=target.features.replace("+amx-", "-amx-"))


_OF_A_MOMENT = re.compile(rb"(?im)^(processor|.*mhz|bogomips|.*id|siblings|cpu cores)\s*:.*\n")


def identity() -> str:
    """What `host` depends on, as far as the system tells; empty if it does not."""
    try:
        about = Path("/proc/cpuinfo").read_bytes().partition(b"\n\n")[0]
    except OSError:
        return ""
    known = (platform.machine(), platform.release(), os.cpu_count())
    return f"{known} {_OF_A_MOMENT.sub(b'', about)!r}"


def _model(cpu: str, features: dict[str, bool]) -> str:
    """LLVM's name of the processor, which goes by a number that virtual machines may make up.

    Servers have had two units of 512 bits since they have had instructions for half precision.
    """
    is_intel = cpu in _ONE_UNIT - {"znver4"}
    return "sapphirerapids" if is_intel and features.get("avx512fp16") else cpu


@functools.cache
def may_use_matrices() -> bool:
    """Whether the system keeps the registers of matrices for this process, which asks for it."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    library = ctypes.CDLL(None)
    return bool(library.syscall(_ARCH_PRCTL, _REQUEST, _MATRICES) == 0)


def _vectors(features: dict[str, bool], machine: str) -> tuple[int, int, bool]:
    """Bytes of a vector register, their number, and whether lanes can be masked."""
    if machine in ("arm64", "aarch64"):
        return 16, 29, False  # of 32: LLVM loads several broadcast elements ahead
    if all(features.get(f"avx512{part}") for part in ("f", "vl", "dq", "bw")):
        return 64, 32, True
    if features.get("avx2") and features.get("fma"):
        return 32, 16, True
    return 16, 15, False  # of 16: a product needs a register before it is added


def _caches() -> tuple[int, int]:
    """Bytes of the first and second data cache of the first core; a guess where nobody tells."""
    sizes = {}
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind = (entry / "type").read_text().strip()
            level = int((entry / "level").read_text())
            size = (entry / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction":
            sizes[level] = int(size.rstrip("KM")) << (20 if size.endswith("M") else 10)
    return sizes.get(1) or _sysconf(1, 32 << 10), sizes.get(2) or _sysconf(2, 512 << 10)


def _sysconf(level: int, default: int) -> int:
    name = "SC_LEVEL1_DCACHE_SIZE" if level == 1 else "SC_LEVEL2_CACHE_SIZE"
    if name not in os.sysconf_names:
        return default
    return os.sysconf(name) or default
