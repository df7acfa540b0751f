"""Wrong arguments for the programs of `examples/eintup`: are they answered as they should be?

    python -m tests.eintup.illegal [NAME ...] [--cases 1000] [--seed 0]

Prints how many of the errors name what is wrong, and whether all shapes that they propose are
legal, which an oracle decides by trying. Exit status 1 if fewer than 95 %, or not all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ricci.diagnostics import Error, Report
from ricci.dtypes import DType
from ricci.frontends.eintup.legal import IllegalArguments, illegal_arguments
from ricci.frontends.eintup.nearest import nearest
from ricci.frontends.eintup.origin import read
from ricci.frontends.eintup.program import Program
from ricci.frontends.eintup.readings import Reader
from ricci.frontends.eintup.solve import check_arguments
from ricci.source import Source
from ricci.tables import table

from .legal_oracle import Oracle

FOLDER = Path(__file__).parents[2] / "examples" / "eintup"
TYPES = {"INT": DType.INT32, "FLOAT": DType.FLOAT64}
BAR = 0.95


@dataclass
class Tally:
    """What became of the wrong arguments of one program."""

    cases: int = 0
    expected: int = 0
    proposals: int = 0
    """Legal shapes that were proposed."""
    misses: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Cases that are legal, and proposals that are not."""

    def add(self, program: Program, oracle: Oracle, case: IllegalArguments) -> None:
        self.cases += 1
        found = answer(program, case)
        if found is not None and case.is_expected(found):
            self.expected += 1
        else:
            first = "accepted" if found is None else str(found).splitlines()[0]
            self.misses.append(f"{dict(case.shapes)}, {case.edit}: {first}")
        if not {"E0801", "E0301"}.intersection(case.codes):
            self._check_shapes(program, oracle, case)

    def _check_shapes(self, program: Program, oracle: Oracle, case: IllegalArguments) -> None:
        if oracle.is_legal(case.shapes):
            self.faults.append(f"{dict(case.shapes)} is legal")
        proposals = nearest(Reader(program), case.shapes)
        if not proposals:
            self.faults.append(f"nothing is proposed for {dict(case.shapes)}")
        for proposal in proposals:
            self.proposals += 1
            if not oracle.confirms(proposal.configuration.dims, proposal.shapes):
                self.faults.append(f"proposed {dict(proposal.shapes)} is not legal")


def answer(program: Program, case: IllegalArguments) -> Error | None:
    """The error that a call with these arguments gives."""
    types = {name: TYPES[kind] for name, kind in case.kinds.items()}
    try:
        check_arguments(program, case.shapes, types)
    except Error as found:
        return found
    return None


def programs(names: Sequence[str] = ()) -> Iterator[tuple[str, Program]]:
    """Those of the library that have inputs."""
    for path in sorted(FOLDER.glob("*.et")):
        if not names or path.stem in names:
            program = read(Source(path.stem, path.read_text("utf-8")), Report())
            if program.inputs:
                yield path.stem, program


def run(names: Sequence[str], cases: int, seed: int) -> dict[str, Tally]:
    chosen = list(programs(names))
    tallies = {}
    for place, (name, program) in enumerate(chosen):
        count = cases // len(chosen) + (place < cases % len(chosen))
        oracle, tally = Oracle(program), Tally()
        for case in illegal_arguments(program, np.random.default_rng([seed, place]), count):
            tally.add(program, oracle, case)
        tallies[name] = tally
    return tallies


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.eintup.illegal")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tallies = run(arguments.names, arguments.cases, arguments.seed)
    rows = [(n, str(t.cases), str(t.expected), str(t.proposals)) for n, t in tallies.items()]
    header = ("program", "cases", "expected", "proposals")
    print(*table(header, rows, "cases expected proposals"), sep="\n")
    for name, tally in tallies.items():
        for text in [*tally.misses, *tally.faults]:
            print(f"{name}: {text}")
    cases, expected, proposals, faults = (
        sum(t.cases for t in tallies.values()),
        sum(t.expected for t in tallies.values()),
        sum(t.proposals for t in tallies.values()),
        sum(len(t.faults) for t in tallies.values()),
    )
    print(f"\n{expected} of {cases} errors are as expected: {expected / max(cases, 1):.1%}")
    print(f"{proposals} legal shapes were proposed, {faults} wrongly (seed {arguments.seed})")
    return int(expected < BAR * cases or faults > 0)


if __name__ == "__main__":
    sys.exit(main())
