"""A second process for LLVM, which does one thing at a time in a process: forked by the compiler's
own process while that has nothing else to do, it knows all that the other one does.

It reads what is to be compiled from a pipe, and ends when nobody can write to that any more.
"""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress
from threading import Lock
from typing import BinaryIO

from ..backends.llvm.jit import compile_text
from ..backends.llvm.target import Target


class Twin:
    """The second process, seen from the first."""

    def __init__(self, process: int, questions: BinaryIO, answers: BinaryIO) -> None:
        self.process = process
        self._questions, self._answers = questions, answers
        self._lock = Lock()

    def compile(self, text: str, target: Target, level: int) -> bytes | None:
        """What `compile_text` gives; none if the process is busy, or if it is no more."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            pickle.dump((text, target, level), self._questions)
            self._questions.flush()
            answer = pickle.load(self._answers)
        except (OSError, ValueError, EOFError, pickle.UnpicklingError):
            return None
        finally:
            self._lock.release()
        return answer if isinstance(answer, bytes) else None

    def close(self) -> None:
        """Let the process end, and wait for that."""
        for pipe in (self._questions, self._answers):
            with suppress(OSError):  # what was to be written when it ended
                pipe.close()
        with suppress(ChildProcessError):
            os.waitpid(self.process, 0)


def start_twin() -> Twin | None:
    """Start the process, if there are a core for it and a safe way to fork; to be called while
    there is one thread."""
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        return None
    (asked, ask), (answered, answer) = os.pipe(), os.pipe()
    try:
        process = os.fork()
    except OSError:
        process = -1
    if process == 0:
        try:
            _close_all_but(asked, answer)
            _serve(os.fdopen(asked, "rb"), os.fdopen(answer, "wb"))
        finally:
            os._exit(0)
    os.close(asked)
    os.close(answer)
    twin = Twin(process, os.fdopen(ask, "wb"), os.fdopen(answered, "rb"))
    return None if process < 0 else twin


def _close_all_but(*kept: int) -> None:
    """Close what others wait for the end of."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with suppress(OSError):  # the listing itself
                os.close(int(name))


def _serve(questions: BinaryIO, answers: BinaryIO) -> None:
    while True:
        text, target, level = pickle.load(questions)
        pickle.dump(compile_text(text, target, level), answers)
        answers.flush()
