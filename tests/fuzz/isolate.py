"""Running cases in processes of their own, with limits of time and memory.

A worker is a fork, which has all programs and modules already. It does many cases, and reports
each before and after; if it dies, the case that it was at is a finding, and another goes on.
"""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import selectors
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any

from .run import Case, run
from .work import Skipped

SECONDS = 2.0
"""Processor time that a case may take."""

WAIT = 30.0
"""Seconds after which a worker that says nothing is ended: code that ignores signals."""

MEMORY = 1 << 30
"""Bytes that a case may take."""


class Slow(BaseException):
    """A case took longer than `SECONDS`."""


@dataclass
class Outcome:
    """What became of a case. `bug` is empty unless it is one: a line that tells bugs apart."""

    codes: list[str] = field(default_factory=list)
    bug: str = ""
    trace: str = ""
    seconds: float = 0.0
    memory: float = 0.0
    """Bytes that the worker had at most, above what it began with."""
    case: Case | None = None
    """The case with what running it has added, if it is a bug."""


def run_here(case: Case) -> Outcome:
    """Run a case in this process, with the limit of time."""
    outcome = Outcome()
    start = time.process_time()
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS * len(case.get("seeds", [0])))
    try:
        outcome.codes = run(case)
    except Skipped:
        outcome.codes = ["skipped"]
    except BaseException as problem:
        signal.setitimer(signal.ITIMER_PROF, 0)
        outcome.bug = _describe(problem)
        outcome.trace = "".join(traceback.format_exception(problem, limit=-30))[-6000:]
        outcome.case = case
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    outcome.seconds = time.process_time() - start
    return outcome


def _stop(signum: int, frame: FrameType | None) -> None:
    raise Slow


def _describe(problem: BaseException) -> str:
    """The exception and the innermost functions of Ricci that it came through."""
    frames = [f for f in traceback.extract_tb(problem.__traceback__) if "/ricci/" in f.filename]
    names = [f"{f.filename.rpartition('/')[2]}:{f.name}" for f in frames]
    if isinstance(problem, (Slow, RecursionError)):
        return f"{type(problem).__name__} in {' '.join(names[:5])}"
    shown = str(problem).split("\n")[0] if isinstance(problem, AssertionError) else ""
    shown = re.sub(r"seeds \[.*?\]: |\d+", "", shown)[:60]
    return f"{type(problem).__name__} in {' '.join(names[-2:])} {shown}".strip()


def run_apart(case: Case) -> Outcome:
    """Run one case in a process of its own."""
    for _, outcome in run_all([0], lambda _: case, 1):
        return outcome
    raise AssertionError("no outcome")


def run_all(
    seeds: Sequence[int], make: Callable[[int], Case], jobs: int, chunk: int = 1000
) -> Iterator[tuple[int, Outcome]]:
    """The outcomes of the cases of all seeds, in about their order, from so many workers."""
    gc.collect()
    gc.freeze()  # workers need not look again at what they began with
    pending = [list(seeds[i : i + chunk]) for i in range(0, len(seeds), chunk)][::-1]
    with selectors.DefaultSelector() as selector:
        workers: list[_Worker] = []
        before = time.monotonic()
        while pending or workers:
            while pending and len(workers) < jobs:
                workers.append(_Worker(pending.pop(), make))
                selector.register(workers[-1].pipe, selectors.EVENT_READ, workers[-1])
            for worker in workers:
                worker.silent += min(time.monotonic() - before, 1.0)
            before = time.monotonic()
            for key, _ in selector.select(timeout=1.0):
                yield from key.data.read()
            for worker in list(workers):
                if worker.ended():
                    selector.unregister(worker.pipe)
                    workers.remove(worker)
                    yield from worker.close()
                    if worker.seeds:
                        pending.append(worker.seeds)


class _Worker:
    def __init__(self, seeds: list[int], make: Callable[[int], Case]) -> None:
        self.seeds = seeds
        self.make = make
        self.silent = 0.0
        self.eof = False
        self.rest = b""
        sys.stdout.flush()
        sys.stderr.flush()
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read)
            _work(seeds, make, os.fdopen(write, "w"))
        os.close(write)
        os.set_blocking(read, False)
        self.pipe = os.fdopen(read, "rb", buffering=0)

    def read(self) -> Iterator[tuple[int, Outcome]]:
        data = self.pipe.read()
        self.silent = 0.0
        if data == b"":
            self.eof = True
        *lines, self.rest = (self.rest + (data or b"")).split(b"\n")
        for line in lines:
            seed, fields = json.loads(line)
            self.seeds.remove(seed)
            yield seed, Outcome(**fields)

    def ended(self) -> bool:
        if self.silent > WAIT:
            os.kill(self.pid, signal.SIGKILL)
            return True
        return self.eof

    def close(self) -> Iterator[tuple[int, Outcome]]:
        """The outcome of the case at which the worker died, if it did."""
        self.pipe.close()
        _, status = os.waitpid(self.pid, 0)
        if not self.seeds:
            return
        seed = self.seeds.pop(0)
        bug = f"died with status {os.waitstatus_to_exitcode(status)}"
        yield seed, Outcome(bug=bug, case=self.make(seed))


def _work(seeds: Sequence[int], make: Callable[[int], Case], pipe: IO[str]) -> None:
    """What a worker does; it does not return."""
    try:
        os.environ.update(SETTINGS)
        warnings.simplefilter("error")
        devnull = os.open(os.devnull, os.O_RDWR)
        os.dup2(devnull, 1)
        os.dup2(devnull, 0)
        limit = _address_space() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        before = _peak()
        for seed in seeds:
            outcome = run_here(make(seed))
            outcome.memory = _peak() - before
            pipe.write(_encode(seed, outcome) + "\n")
            pipe.flush()
    except BaseException:
        traceback.print_exc()
        os._exit(70)
    os._exit(0)


def _address_space() -> int:
    """Bytes of addresses that this process has."""
    pages = Path("/proc/self/statm").read_text().split()[0]
    return int(pages) * resource.getpagesize()


def _encode(seed: int, outcome: Outcome) -> str:
    fields: dict[str, Any] = {k: getattr(outcome, k) for k in Outcome.__dataclass_fields__}
    return json.dumps([seed, fields])


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


SETTINGS = {"RICCI_NO_CACHE": "1", "RICCI_LOOP_STEPS": "100", "RICCI_THREADS": "1"}
