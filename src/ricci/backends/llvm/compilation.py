"""Kernels on their way to object files: LLVM works in a thread while texts of others are made.

LLVM does not hold the interpreter's lock, so the two take a core each. There is one LLVM in a
process at a time: where another process can help, the core that has made all texts is not idle.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from .jit import compile_text, module_text
from .kernels import KernelCode
from .target import Target

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

WORTH_SHARING = 6000.0
"""Rough nanoseconds of work below which a kernel runs on the caller alone."""
_MOST_OPTIMISED = 1 << 20
"""Text of kernels with less work than that which is worth the time of a good compilation."""
_BATCH = 1 << 16
"""Text that is compiled at a time, some 50 ms of LLVM: programs with less have no thread."""
elsewhere: Callable[[str, Target, int], bytes | None] | None = None
"""Does what `compile_text` does in another process; gives none if that is busy, or no more."""


class Compilation:
    """Object files of kernels that are added one after the other; to be used in a `with` block,
    at whose end what nobody waits for is given up. Programs that are mostly many small kernels are
    compiled fast. Which kernels share a file depends on the kernels alone."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._batches: dict[int, list[tuple[str, KernelCode]]] = {2: [], 0: []}
        """What has not been asked for yet, by LLVM's level of optimisation."""
        self._sizes = {2: 0, 0: 0}
        self._left = _MOST_OPTIMISED
        self._threads: ThreadPoolExecutor | None = None
        self._asked: list[Future[bytes]] = []

    def __enter__(self) -> Compilation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)

    def add(self, symbol: str, code: KernelCode) -> None:
        """A kernel under its symbol, which no other one has."""
        level = 2
        if code.work < WORTH_SHARING:
            self._left -= len(code.text)
            level = 2 if self._left >= 0 else 0
        self._batches[level].append((symbol, code))
        self._sizes[level] += len(code.text)
        if self._sizes[level] >= _BATCH:
            self._ask(level)

    def objects(self) -> tuple[bytes, ...]:
        """The files of all kernels."""
        if self._threads is None:
            return tuple(self._compile(p, level) for level, p in self._batches.items() if p)
        for level, batch in self._batches.items():
            if batch:
                self._ask(level)
        return tuple(file.result() for file in self._asked)

    def _ask(self, level: int) -> None:
        """Let the thread compile a batch."""
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(1 if elsewhere is None else 2)
        batch, self._batches[level], self._sizes[level] = self._batches[level], [], 0
        self._asked.append(self._threads.submit(self._compile, batch, level))

    def _compile(self, batch: list[tuple[str, KernelCode]], level: int) -> bytes:
        text = module_text(batch, self._target)
        found = None if elsewhere is None else elsewhere(text, self._target, level)
        return compile_text(text, self._target, level) if found is None else found
