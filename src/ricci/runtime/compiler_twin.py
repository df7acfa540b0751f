"""A second process that generates and compiles kernels, forked by the compiler's own process when
that has lowered a program: it knows all that the other one does.

It reads what is to be done from a pipe, and ends when nobody can write to that any more.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

from ..backends.llvm.jit import compile_text
from ..backends.llvm.kernels import KernelCode
from ..backends.llvm.target import Target
from ..source import NOWHERE

_NOWHERE = 0
"""Stands for the span that is no place, and is one object."""


class Twin:
    """The second process, seen from the first, one thread of which may use it."""

    def __init__(
        self, process: int, questions: BinaryIO, answers: BinaryIO, known: Mapping[int, object]
    ) -> None:
        self.process = process
        self._questions, self._answers = questions, answers
        self._known = known

    def compile(self, text: str, target: Target, level: int) -> bytes | None:
        """What `compile_text` gives; none if the process is no more."""
        answer = self._ask((text, target, level))
        return answer if isinstance(answer, bytes) else None

    def generate(self, number: int) -> KernelCode | None:
        """The code of the kernel of a number; none if it has none, or if the process is no more."""
        answer = self._ask(number)
        return answer if isinstance(answer, KernelCode) else None

    def _ask(self, question: object) -> object:
        try:
            pickle.dump(question, self._questions)
            self._questions.flush()
            return _Reader(self._answers, self._known).load()
        except Exception:  # whatever it is, it is found out by who does it instead
            return None

    def close(self) -> None:
        """Let the process end, and wait for that."""
        for pipe in (self._questions, self._answers):
            with suppress(OSError):  # what was to be written when it ended
                pipe.close()
        with suppress(ChildProcessError):
            os.waitpid(self.process, 0)


class _Writer(pickle.Pickler):
    """Writes for the first process what that knows by its place in the memory, where it was when
    this one was forked."""

    def __init__(self, file: BinaryIO, known: Mapping[int, object]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_id(self, item: object) -> int | None:
        if item is NOWHERE:
            return _NOWHERE
        return id(item) if id(item) in self._known else None


class _Reader(pickle.Unpickler):
    def __init__(self, file: BinaryIO, known: Mapping[int, object]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, name: Any) -> object:
        return NOWHERE if name == _NOWHERE else self._known[name]


def start_twin(generate: Callable[[int], KernelCode], known: Iterable[object]) -> Twin | None:
    """Start the process, if there are a core for it and a safe way to fork; to be called while
    no other thread does anything. `known` are objects of which there is to be one each."""
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        return None
    by_place = {id(item): item for item in known}
    (asked, ask), (answered, answer) = os.pipe(), os.pipe()
    try:
        process = os.fork()
    except OSError:
        process = -1
    if process == 0:
        try:
            gc.disable()  # it would write to pages that both share; this one ends with its work
            _close_all_but(asked, answer)
            _serve(os.fdopen(asked, "rb"), os.fdopen(answer, "wb"), generate, by_place)
        finally:
            os._exit(0)
    os.close(asked)
    os.close(answer)
    twin = Twin(process, os.fdopen(ask, "wb"), os.fdopen(answered, "rb"), by_place)
    return None if process < 0 else twin


def _close_all_but(*kept: int) -> None:
    """Close what others wait for the end of."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with suppress(OSError):  # the listing itself
                os.close(int(name))


def _serve(
    questions: BinaryIO,
    answers: BinaryIO,
    generate: Callable[[int], KernelCode],
    known: Mapping[int, object],
) -> None:
    while True:
        match pickle.load(questions):
            case int(number):
                answer: object = generate(number)
            case text, target, level:
                answer = compile_text(text, target, level)
        _Writer(answers, known).dump(answer)
        answers.flush()
