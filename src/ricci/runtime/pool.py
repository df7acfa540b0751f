"""The process's pools of native workers, and the entry through which programs run.

See `backends.llvm.threads` for how workers and callers agree.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from threading import Lock

import numpy as np

from .. import config
from ..backends.llvm import threads
from ..backends.llvm.jit import Library, compile_text
from ..backends.llvm.target import Target, as_allowed, host, identity
from . import cache, processors
from .arguments import Array

_told: list[Target] = []
"""What another process has found out about the machine."""


@functools.cache
def this_machine() -> Target:
    """The target that this process compiles for; known from an earlier process if there was one on
    the same machine."""
    known = _machine_before()
    if known is not None:
        return as_allowed(known)
    found = host()
    if about := identity():
        cache.write(_key(about), json.dumps(asdict(found)).encode())
    return found


def _machine_before() -> Target | None:
    if _told:
        return _told[0]
    about = identity()
    data = cache.read(_key(about)) if about else None
    if data is not None:
        with suppress(ValueError, TypeError):
            return Target(**json.loads(data))
    return None


def _key(about: str) -> str:
    return cache.key("machine", about)


def is_machine_known() -> bool:
    """Whether LLVM need not be asked for the target, or whether what it says could not be kept, so
    that each process asks."""
    return not identity() or _machine_before() is not None


def tell_machine(target: Target) -> None:
    """Say what LLVM would say if it were asked."""
    _told.append(target)


@functools.cache
def runtime() -> Library:
    """The module with the native entry and the workers."""
    return make_module(threads.runtime_text())


def make_module(source: str) -> Library:
    """The code of an LLVM text, which need not say for what machine it is."""
    return Library([make_object(source)], this_machine())


def make_object(source: str) -> bytes:
    """The same as an object file, which the cache keeps."""
    target = this_machine()
    text = f'target triple = "{target.triple}"\n{source}'
    key = cache.key("runtime", text, repr(target))
    data = cache.read(key)
    if data is None:
        data = compile_text(text, target)
        cache.write(key, data)
    return data


@functools.cache
def entry() -> Callable[[int], None]:
    """`ricci_run(instance)`: runs all steps of a program; gives up the interpreter's lock."""
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(runtime().address("ricci_run"))


class Pool:
    """Workers for calls with a number of threads, the caller counted."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._memory = np.zeros(threads.POOL_WORDS + 16, np.int64)
        self.address = -(-self._memory.ctypes.data // 64) * 64
        self._workers = np.zeros((count - 1, threads.WORKER_WORDS), np.int64)
        self._handles = np.zeros(count, np.uint64)
        library = runtime()
        start = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(
            library.address("ricci_start")
        )
        self._join = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64)(library.address("ricci_join"))
        self._stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address("ricci_stop"))
        self.started = 0
        words = (ctypes.c_int64 * threads.POOL_WORDS).from_address(self.address)
        words[threads.CALLER_CPU] = processors.current_cpu()
        words[threads.WORKERS] = self._workers.ctypes.data
        words[threads.WORKER_COUNT] = count - 1
        for number, cpu in enumerate(processors.worker_cpus(count - 1)):
            self._workers[number, :3] = self.address, number + 1, cpu
            handle = self._handles.ctypes.data + 8 * number
            if start(handle, self._workers[number].ctypes.data) != 0:
                break  # the system gives no more threads: those there are do the work
            self.started += 1

    @property
    def cpus(self) -> list[int]:
        """The processors on which the workers are kept now; -1 for one that is not."""
        return [int(cpu) for cpu in self._workers[:, threads.WORKER_CPU]]

    def stop(self) -> None:
        """End the workers, when their chunks are done."""
        self._stop(self.address)
        for handle in self._handles[: self.started]:
            self._join(int(handle))
        self.started = 0


class _Pools:
    """The pools of this process by number of threads."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.by_count: dict[int, Pool] = {}
        self.generation = 0
        self.cell = np.zeros(1, np.int64)
        """The same, where native code can see it."""
        self.left_behind: list[Pool] = []
        """Those that are gone, whose memory may still be referred to."""

    def forget(self) -> None:
        """There are no workers any more: those asked for later are new ones."""
        self.lock = Lock()
        self.left_behind.extend(self.by_count.values())
        self.by_count.clear()
        self.generation += 1
        self.cell[0] = self.generation

    def stop(self) -> None:
        """End all workers, so that nothing runs while the process is taken apart."""
        for pool in self.by_count.values():
            pool.stop()
        self.forget()


_pools = _Pools()
atexit.register(_pools.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.forget)  # its parent's workers are not in a child


def pool_address(count: int) -> int:
    """Where the pool for `count` threads is, made when first asked for; 0 for a single thread."""
    if count <= 1 or not threads.is_supported():
        return 0
    with _pools.lock:
        if count not in _pools.by_count:
            _pools.by_count[count] = Pool(count)
        return _pools.by_count[count].address


def pool_of(count: int) -> Pool | None:
    """The pool for `count` threads, if it has been made."""
    return _pools.by_count.get(count)


def generation() -> int:
    """Changes when pools are no longer there: in the child of a fork."""
    return _pools.generation


def generation_cell() -> Array:
    """An array with `generation`."""
    return _pools.cell


def thread_count(wanted: int | None) -> int:
    """How many threads a call may use: the argument, else the setting, else what there are
    cores and time for."""
    if wanted is None:
        wanted = int(config.get("threads")) or None
    if wanted is None:
        return processors.usable_count()
    return max(1, min(wanted, len(processors.allowed_cpus())))
