"""Runs damaged programs, values, arrays and files; each must succeed or give a diagnostic.

    python -m tests.fuzz [--cases 10000] [--seed 0] [--jobs 1] [--kinds programs,storage,...]
    python -m tests.fuzz --kinds lower,tc_programs,et_programs [--cases 20000]

The kinds `lower`, `tc_programs` and `et_programs` run random formulas on both executors, which must
compute what they mean; `tc` and `et` damage texts of Tensor Comprehensions and of Einsum Tuple.
A case may take two seconds and 1 GB. Whatever else than success or `ricci.Error` a case ends
in is printed, made smaller and kept in `tests/fuzz/found`, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from . import corpus
from .cases import BATCH, BATCHES, make_case
from .isolate import Outcome, run_all
from .minimise import minimise
from .run import Case

FOUND = Path(__file__).parent / "found"

SHARES = {"programs": 35, "attributes": 10, "arguments": 10, "storage": 10, "tc": 15, "et": 20}
"""Of a hundred cases, if no kinds are named."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(SHARES))
    parser.add_argument("--print", action="store_true", help="print the case of the seed, no more")
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    programs = corpus.everything()
    if options.print:
        print(json.dumps(make_case(kinds[0], options.seed, programs), indent=2))
        return 0
    corpus.warm_up(programs)
    table = _Table()
    total = sum(SHARES.get(k, 100) for k in kinds)
    for kind in kinds:
        count = options.cases * SHARES.get(kind, 100) // total
        count //= BATCH if kind in BATCHES else 1
        seeds = range(options.seed, options.seed + count)
        make = partial(make_case, kind, programs=programs)
        began = _busy()
        for seed, outcome in run_all(seeds, make, options.jobs):
            table.add(kind, seed, outcome)
            if table.outcomes[kind].total() % 5000 == 0:
                print(f"{kind}: {table.outcomes[kind].total()} cases", flush=True)
        table.busy[kind] = _busy() - began
    table.show()
    return 1 if table.bugs else 0


class _Table:
    """Counts of outcomes by kind, and the bugs, each once."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Counter[str]] = {}
        self.slowest: dict[str, tuple[float, int]] = {}
        self.busy: dict[str, float] = {}
        self.memory: dict[str, float] = {}
        self.codes: Counter[str] = Counter()
        self.bugs: dict[str, Case] = {}

    def add(self, kind: str, seed: int, outcome: Outcome) -> None:
        counts = self.outcomes.setdefault(kind, Counter())
        counts[_name(outcome)] += 1
        self.codes.update(outcome.codes)
        self.slowest[kind] = max(self.slowest.get(kind, (0.0, 0)), (outcome.seconds, seed))
        self.memory[kind] = max(self.memory.get(kind, 0.0), outcome.memory)
        if outcome.bug and outcome.bug not in self.bugs and outcome.case:
            print(f"{kind} {seed}: {outcome.bug}\n{outcome.trace}", flush=True)
            small = minimise(outcome.case, outcome.bug)
            self.bugs[outcome.bug] = small
            print(f"smallest: {json.dumps(small)[:3000]}\n", flush=True)
            if kind not in BATCHES:  # a seed alone says nothing once the generator changes
                _keep(kind, seed, outcome.bug, small)

    def show(self) -> None:
        columns = ["kind", "cases", "accepted", "rejected", "skipped", "bugs", "slowest", "seed",
                   "MB", "cases/s"]  # fmt: skip
        print("".join(c.rjust(11) for c in columns))
        for kind, counts in self.outcomes.items():
            slowest, seed = self.slowest[kind]
            row = [kind, counts.total(), *(counts[c] for c in columns[2:6]), f"{slowest:.2f}", seed,
                   f"{self.memory[kind] / 1e6:.0f}",
                   f"{counts.total() / self.busy[kind]:.0f}"]  # fmt: skip
            print("".join(str(c).rjust(11) for c in row))
        print("codes:", ", ".join(f"{c} {n}" for c, n in sorted(self.codes.items())))


def _busy() -> float:
    """Seconds of processor time that workers took, each minus the time that it waited."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _name(outcome: Outcome) -> str:
    if outcome.bug:
        return "bugs"
    if outcome.codes == ["skipped"]:
        return "skipped"
    return "rejected" if outcome.codes else "accepted"


def _keep(kind: str, seed: int, bug: str, case: Case) -> None:
    FOUND.mkdir(exist_ok=True)
    name = re.sub(r"\W+", "_", bug)[:70].strip("_").lower()
    path = FOUND / f"{name}_{kind}_{seed}.json"
    path.write_text(json.dumps({"bug": bug, **case}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
