"""Compiling without the collector of cyclic garbage.

A graph and the expressions of its kernels are hundreds of thousands of small objects that stay and
hardly ever refer to each other in a circle. Python's collector would look at all of them again and
again: a third of the time that a long model takes, and a larger part the longer that is.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock


class _Collector:
    """Python's, and how many blocks of code that are running keep it from working."""

    def __init__(self) -> None:
        self._lock = RLock()  # what is collected in the end may compile something
        self._blocks = 0
        self._worked = False

    def pause(self) -> None:
        with self._lock:
            if self._blocks == 0:
                self._worked = gc.isenabled()
                gc.disable()
            self._blocks += 1

    def go_on(self) -> None:
        with self._lock:
            if self._blocks == 0:  # begun before this process was forked
                return
            self._blocks -= 1
            if self._blocks == 0 and self._worked:
                gc.enable()

    def begin_process(self) -> None:
        """Work again in a process that was forked meanwhile: none of those blocks ends there."""
        if self._blocks and self._worked:
            gc.enable()
        self._blocks, self._lock = 0, RLock()


_COLLECTOR = _Collector()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_COLLECTOR.begin_process)


@contextmanager
def uncollected() -> Iterator[None]:
    """Let nothing be collected until the last one of these ends; also a decorator."""
    _COLLECTOR.pause()
    try:
        yield
    finally:
        _COLLECTOR.go_on()
