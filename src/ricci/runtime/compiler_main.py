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

from ..backends.llvm import image, threads
from ..backends.llvm.builtin_call import call_text
from ..hashes import sha256
from ..passes import pipeline
from . import image_file
from .compiler_process import MACHINE
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
        word = source.readline()
    if word:
        work = pickle.loads(source.read(int(word)))
        Thread(target=_end_with_caller, args=(source,), daemon=True).start()
        answers.write(_answer(work))
        answers.flush()


def _end_with_caller(source: BinaryIO) -> None:
    source.read()
    os._exit(0)


def _answer(work: Work) -> bytes:
    """The image, after its hash; what the caller needs to run it is in the cache then."""
    data = image_file.pack(work.image())
    for text in (threads.runtime_text(), call_text()):
        make_object(text)
    return sha256(data).digest() + data
