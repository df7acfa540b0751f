"""Kernels on their way to object files: LLVM works in a thread while texts of others are made.

LLVM does not hold the interpreter's lock, so the two take a core each. There is one LLVM in a
process at a time: where another process may help, it compiles texts as they come, and generates
those of other kernels while there are none; the core that has got all texts does what is left, the
last first.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from threading import Condition, Thread
from types import TracebackType
from typing import Protocol

from .chunks import WORTH_SHARING
from .jit import compile_text, module_text
from .kernels import KernelCode
from .shared import Shared
from .target import Target

_MOST_OPTIMISED = 1 << 20
"""Text of kernels with less work than that which is worth the time of a good compilation."""
_BATCH = 1 << 16
"""Text that is compiled at a time, some 50 ms of LLVM: programs with less have no thread."""


class Helper(Protocol):
    """Another process that is a copy of this one."""

    def compile(self, text: str, target: Target, level: int) -> bytes | None:
        """What `compile_text` gives; none if the process is no more."""

    def generate(self, number: int) -> KernelCode | None:
        """The code of one of the kernels that it has been started with; none if the process is no
        more, or if there is none."""

    def close(self) -> None:
        """Let the process end, and wait for that."""


Start = Callable[[Callable[[int], KernelCode], Iterable[object]], Helper | None]
start_helper: Start | None = None
"""Starts a helper, if there may be one, with what generates the code of a kernel of a number, and
the objects that are told apart by identity."""


class Compilation:
    """Object files of kernels that are added one after the other; to be used in a `with` block,
    at whose end what nobody waits for is given up. Programs that are mostly many small kernels are
    compiled fast. Which kernels share a file depends on the kernels alone."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._batches: dict[int, list[tuple[str, KernelCode]]] = {2: [], 0: []}
        """What has not been asked for yet, by LLVM's level of optimisation."""
        self._sizes = {2: 0, 0: 0}
        self._shared = {level: Shared(f"s{level}.") for level in self._batches}
        self._left = _MOST_OPTIMISED
        self._helper: Helper | None = None
        self._threads: list[Thread] = []
        self._state = Condition()
        """For all that follows, which threads read and write."""
        self._asked = 0
        self._waiting: deque[tuple[int, str, int]] = deque()
        """Number of the file, text, and level."""
        self._files: dict[int, bytes] = {}
        self._problem: Exception | None = None
        self._ended = False
        """Whether no more will be asked for."""
        self._free: list[int] = []
        """The kernels that nobody generates yet."""
        self._taken: set[int] = set()
        """Those that the helper generates, or has generated."""
        self._generated: dict[int, KernelCode | None] = {}

    def __enter__(self) -> Compilation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._state:
            self._waiting.clear()
            self._end()
        for thread in self._threads:
            thread.join()
        if self._helper is not None:
            self._helper.close()

    def share(
        self, count: int, generate: Callable[[int], KernelCode], known: Iterable[object]
    ) -> bool:
        """Let another process take part, if there may be one; whether there is one. So many kernels
        are to come, which have numbers."""
        self._helper = None if start_helper is None else start_helper(generate, known)
        if self._helper is None:
            return False
        self._free = [*range(count)]
        self._start(self._serve_helper, self._helper)
        return True

    def generated(self, number: int) -> KernelCode | None:
        """The code of a kernel of those shared; none if it is for the caller to generate."""
        with self._state:
            if number not in self._taken:
                self._free = [n for n in self._free if n != number]
                return None
            self._state.wait_for(lambda: number in self._generated)
            return self._generated[number]

    def add(self, symbol: str, code: KernelCode) -> None:
        """A kernel under its symbol, which no other one has."""
        level = 2
        if code.work < WORTH_SHARING:
            self._left -= len(code.text)
            level = 2 if self._left >= 0 else 0
        code = self._shared[level].without(code)
        self._batches[level].append((symbol, code))
        self._sizes[level] += len(code.text)
        if self._sizes[level] >= _BATCH:
            self._ask(level)
            # of two cores, the helper has the other one
            if not self._threads or (len(self._threads) == 1 and self._helper and _spare_core()):
                self._start(self._serve)

    def objects(self) -> tuple[bytes, ...]:
        """The files of all kernels."""
        for level, batch in self._batches.items():
            if batch:
                self._ask(level)
        with self._state:
            self._end()
        while self._compile_next(last=True):
            pass
        for thread in self._threads:
            thread.join()
        while self._compile_next(last=True):  # what a helper has not done
            pass
        if self._problem is not None:
            raise self._problem
        return tuple(self._files[n] for n in range(self._asked))

    def _ask(self, level: int) -> None:
        """Let somebody compile a batch."""
        text = module_text(self._batches[level], self._target)
        self._batches[level], self._sizes[level] = [], 0
        self._shared[level].end_file()
        with self._state:
            self._waiting.append((self._asked, text, level))
            self._asked += 1
            self._state.notify_all()

    def _end(self) -> None:
        self._ended = True
        self._free.clear()
        self._state.notify_all()

    def _start(self, serve: Callable[..., None], *given: object) -> None:
        thread = Thread(target=serve, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        """Compile here what waits, until there will be no more."""
        while True:
            with self._state:
                self._state.wait_for(lambda: self._waiting or self._ended)
            if not self._compile_next(last=False):
                return

    def _compile_next(self, last: bool) -> bool:
        """Compile here what waits, from one end; whether there was something."""
        with self._state:
            if not self._waiting:
                return False
            number, text, level = self._waiting.pop() if last else self._waiting.popleft()
        try:
            self._files[number] = compile_text(text, self._target, level)
        except Exception as problem:  # for the caller's thread
            self._problem = problem
        return True

    def _serve_helper(self, helper: Helper) -> None:
        """Let a helper work, until there will be no more, or there is no more helper."""
        there = True
        while there:
            with self._state:
                self._state.wait_for(lambda: self._waiting or self._free or self._ended)
                batch = self._waiting.popleft() if self._waiting else None
                kernel = self._free.pop() if self._free and batch is None else None
                if kernel is not None:
                    self._taken.add(kernel)
            if batch is not None:
                file = helper.compile(batch[1], self._target, batch[2])
                there = file is not None
                with self._state:
                    if file is None:
                        self._waiting.appendleft(batch)
                    else:
                        self._files[batch[0]] = file
            elif kernel is not None:
                code = helper.generate(kernel)
                there = code is not None
                with self._state:
                    self._generated[kernel] = code
                    self._state.notify_all()
            else:
                return
        with self._state:
            self._free.clear()


def _spare_core() -> bool:
    """Whether there is one beside those of this thread and of a helper."""
    return hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 2
