"""What the process of `compiler_process` does: one piece of work, read from standard input."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from dataclasses import asdict
from threading import Thread
from typing import BinaryIO

from ..backends.llvm import compilation, image, threads
from ..backends.llvm.builtin_call import call_text
from ..hashes import sha256
from ..passes import pipeline
from . import image_file
from .compiler_process import MACHINE
from .compiler_twin import start_twin
from .pool import make_object, this_machine
from .work import Work

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
    source = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    word = source.readline()
    if word == MACHINE:
        answers.write(json.dumps(asdict(this_machine())).encode() + b"\n")
        answers.flush()
        word = b""
    twin = start_twin()
    compilation.elsewhere = None if twin is None else twin.compile
    runtime = Thread(target=_make_runtime, daemon=True)
    runtime.start()
    word = word or source.readline()
    if word:
        work = pickle.loads(source.read(int(word)))
        Thread(target=_end_with_caller, args=(source,), daemon=True).start()
        answer = _answer(work)
        runtime.join()
        if twin is not None:
            twin.close()
        answers.write(answer)
        answers.flush()


def _end_with_caller(source: BinaryIO) -> None:
    source.read()
    os._exit(0)


def _make_runtime() -> None:
    """What callers need to run an image, made for the cache while LLVM has nothing else to do."""
    for text in (threads.runtime_text(), call_text()):
        make_object(text)


def _answer(work: Work) -> bytes:
    """The image, after its hash."""
    data = image_file.pack(work.image())
    return sha256(data).digest() + data
