"""What the process of `compiler_process` does: one piece of work, read from standard input."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from threading import Thread, Timer
from typing import BinaryIO

from ..backends.llvm import compilation, image, threads
from ..backends.llvm.at_once import at_once_text
from ..backends.llvm.builtin_call import call_text
from ..backends.llvm.kernels import KernelCode
from ..hashes import sha256
from ..ir.nodes import Graph
from ..passes import pipeline
from ..records import replace
from . import compiler_process, image_file
from .compiler_process import COMPOSE, COMPOSED, MACHINE
from .compiler_twin import Twin, start_twin
from .pool import make_object, this_machine
from .work import Work

PATIENCE = 60.0
"""Seconds to wait for a question."""
assert image and pipeline  # imported while the caller still has something to do


def main() -> None:
    """Serve, and end without a word, whatever happens."""
    try:
        _serve()
    finally:
        os._exit(0)


def _serve() -> None:
    """Answer on what was standard output; nobody else's words get there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides what it means
    compiler_process.within = True
    source = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    runtime = Thread(target=_make_runtime, daemon=True)

    def start_helper(generate: Callable[[int], KernelCode], known: Iterable[object]) -> Twin | None:
        if runtime.ident is not None:
            runtime.join()  # LLVM must not be at work when the process forks
        return start_twin(generate, known)

    compilation.start_helper = start_helper
    graph: Graph | None = None
    while word := _line(source):
        if word == MACHINE:
            answers.write(json.dumps(asdict(this_machine())).encode() + b"\n")
        elif word.startswith(COMPOSE):
            graph = pickle.loads(source.read(int(word.removeprefix(COMPOSE))))()
            answers.write(b"no\n" if graph is None else COMPOSED)
        else:
            break
        answers.flush()
        if runtime.ident is None:
            runtime.start()
    if word:
        work = pickle.loads(source.read(int(word)))
        Thread(target=_end_with_caller, args=(source,), daemon=True).start()
        answer = _answer(work if graph is None else replace(work, graph=graph))
        if runtime.ident is None:
            runtime.start()
        runtime.join()
        answers.write(answer)
        answers.flush()


def _line(source: BinaryIO) -> bytes:
    """What is asked next, if it comes in time: nobody may want a model that has been composed."""
    end = Timer(PATIENCE, os._exit, (0,))
    end.daemon = True
    end.start()
    word = source.readline()
    end.cancel()
    end.join()
    return word


def _end_with_caller(source: BinaryIO) -> None:
    source.read()
    os._exit(0)


def _make_runtime() -> None:
    """What callers need to run an image, made for the cache while LLVM has nothing else to do."""
    for text in (threads.runtime_text(), call_text(), at_once_text()):
        make_object(text)


def _answer(work: Work) -> bytes:
    """The image, after its hash."""
    data = image_file.pack(work.image())
    return sha256(data).digest() + data
