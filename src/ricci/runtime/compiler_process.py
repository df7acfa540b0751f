"""Large programs are compiled in a process of their own, which gives all its memory back.

LLVM and the passes take some hundred megabytes that nobody needs once there is code. The process
gets the work on its standard input, and ends when that is closed: with its caller at the latest.
Whatever goes wrong there is no news: who asked compiles here, and sees what is the matter.

A model folder with large weights is composed there too, when it is loaded: what is kept of it then
(`outline`) is enough here, and the process goes on with the graph that it has.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import IO

from .. import config
from ..backends.llvm.target import Target
from ..hashes import sha256
from ..ir.nodes import Graph
from . import image_file
from .pool import is_machine_known, tell_machine
from .work import Work, is_large

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.stdin.buffer.readline());"
    "from ricci.runtime.compiler_main import main; main()"
)
_LOOK = 0.1
"""Seconds after which an interruption is seen at the latest."""
MACHINE = b"machine\n"
"""Asks for the target."""
COMPOSE = b"compose "
"""Asks to call what gives the graph: with the number of the bytes in which that is pickled. The
work itself comes after the number of its bytes alone."""
COMPOSED = b"yes\n"
within = False
"""Whether this is such a process."""


class Compiler:
    """The process, which does one piece of work; to be used in a `with` block."""

    is_there = False
    """Whether it has been started, and not been closed."""
    has_graph = False
    """Whether it has composed the graph of the work."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *_flags(), "-P", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        self.is_there = True
        self._send(json.dumps(_path()).encode() + b"\n")

    def __enter__(self) -> Compiler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self.is_there:
            self.close()

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self.is_there = False
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                _present(pipe).close()
        self._process.wait()

    def machine(self) -> Target | None:
        """The machine as LLVM finds it; none if the process does not say."""
        try:
            return Target(
                **json.loads(self._answer(MACHINE, _present(self._process.stdout).readline))
            )
        except Exception:  # whatever it is, it is found out here then
            return None

    def compose(self, make: Callable[[], Graph | None]) -> bool:
        """Let it make the graph; whether there is one."""
        try:
            data = pickle.dumps(make)
            question = COMPOSE + b"%d\n%b" % (len(data), data)
            answer = self._answer(question, _present(self._process.stdout).readline)
        except Exception:  # what cannot be sent, pipes that break
            return False
        self.has_graph = answer == COMPOSED
        return self.has_graph

    def image(self, work: Work) -> bytes:
        """The image as a file has it; nothing if there is none for any reason."""
        try:
            data = work.to_bytes()
            question = b"%d\n%b" % (len(data), data)
            answer = self._answer(question, _present(self._process.stdout).read)
        except Exception:  # graphs too deep to be sent, pipes that break: it is done here then
            return b""
        return answer[32:] if sha256(answer[32:]).digest() == answer[:32] else b""

    def _answer(self, question: bytes, read: Callable[[], bytes]) -> bytes:
        """What the process says; nothing if it is no more. Another thread waits until it begins,
        so that this one sees an interruption, whenever it comes. What threads read stays in memory
        of their own when they have ended."""
        answers = _present(self._process.stdout)
        assert isinstance(answers, BufferedReader)
        begun: list[bytes] = []

        def ask() -> None:
            with suppress(OSError, ValueError):
                self._send(question)
                begun.append(answers.peek(1))

        thread = Thread(target=ask, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_LOOK)
        return read() if begun else b""

    def _send(self, data: bytes) -> None:
        pipe = _present(self._process.stdin)
        with suppress(BrokenPipeError):  # what is read then says that nobody is there
            pipe.write(data)
            pipe.flush()


def composed(make: Callable[[], Graph | None]) -> Compiler | None:
    """A process that has made a graph; none if there can be none, or no graph."""
    try:
        compiler = None if has_llvm() or not _is_possible() else Compiler()
    except (OSError, ValueError):
        return None
    if compiler is None:
        return None
    try:
        if compiler.compose(make):
            return compiler
    except BaseException:
        compiler.close()
        raise
    compiler.close()
    return None


@contextmanager
def on_this_machine(graph: Graph, there: Compiler | None) -> Iterator[Compiler | None]:
    """A process for a graph in the block, if one is there already, or if there must be one to say
    what machine this is."""
    if there is not None and there.is_there:
        started: Compiler | None = there
    else:
        started = start(graph) if is_worth(graph) and not is_machine_known() else None
    if started is None:
        yield None
        return
    with started:
        target = None if is_machine_known() else started.machine()
        if target is not None:
            tell_machine(target)
        yield started


def image_of(work: Work, started: Compiler | None) -> bytes:
    """The image as a file has it, made by the process if it is still there, by another one if that
    is worth it, or else here; `Error` as `Work.image` says."""
    compiler = started if started is not None and started.is_there else start(work.whole)
    image = b""
    if compiler is not None:
        with compiler:
            image = compiler.image(work)
    return image or image_file.pack(work.image())


def start(graph: Graph) -> Compiler | None:
    """A process for a graph, if it is worth one, and there can be one."""
    try:
        return Compiler() if is_worth(graph) else None
    except (OSError, ValueError):
        return None


def is_worth(graph: Graph) -> bool:
    """Whether a graph is large, and compiling it here would load LLVM."""
    return not has_llvm() and _is_possible() and is_large(graph)


def has_llvm() -> bool:
    """Whether this process has loaded LLVM, so that there is little to be saved."""
    return "llvmlite.binding" in sys.modules


def _is_possible() -> bool:
    """Whether there is a Python to be started, and what it finds out may be kept."""
    if within or config.get("no_cache") or not config.get("compiler_process"):
        return False
    if getattr(sys, "frozen", False) or not sys.executable:
        return False  # a program that has Python in it
    return Path(sys.executable).stem.lower().startswith(("python", "pypy"))


def _flags() -> list[str]:
    """Options of this Python that say where modules are, and what becomes of them."""
    flags = sys.flags
    given = {
        "-E": flags.ignore_environment,
        "-s": flags.no_user_site,
        "-S": flags.no_site,
        "-B": sys.dont_write_bytecode,
        "-O": flags.optimize == 1,
        "-OO": flags.optimize > 1,
    }
    prefix = sys.pycache_prefix
    return [
        *(flag for flag, on in given.items() if on),
        *(("-X", f"pycache_prefix={prefix}") if prefix else ()),
    ]


def _path() -> list[str]:
    """Where this process finds modules, the current folder left out, and this package for sure."""
    own = str(Path(__file__).absolute().parents[2])
    found = [p for p in sys.path if isinstance(p, str) and p]
    return found if own in found else [*found, own]


def _present(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
