"""The table of operators: how many of all cases each executor computes as the oracle does."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import ricci

from .case import Family
from .execute import TARGETS, Mismatch, check
from .families import FAMILIES


@dataclass
class Row:
    """The results of one family."""

    family: Family
    passed: dict[str, int]
    worst: dict[str, float]
    failures: list[str] = field(default_factory=list)

    def line(self) -> str:
        counts = "".join(f"{self._count(t):>16}" for t in self.passed)
        errors = "".join(f"{self._error(t):>12}" for t in self.worst)
        mark = "  <-" if self.failures else ""
        name, oracle = self.family.operator, self.family.oracle
        return f"{name:<27}{self.family.count:>6}{counts}  {oracle:<13}{errors}{mark}"

    def _count(self, target: str) -> str:
        return f"{self.passed[target]}/{self.family.count}"

    def _error(self, target: str) -> str:
        return f"{self.worst[target]:.1e}"


def run_family(family: Family, targets: Iterable[str]) -> Row:
    """Run all cases of a family on all targets."""
    targets = list(targets)
    row = Row(family, dict.fromkeys(targets, 0), dict.fromkeys(targets, 0.0))
    for number in range(family.count):
        for target in targets:
            _run_case(row, number, target)
    return row


def _run_case(row: Row, number: int, target: str) -> None:
    try:
        error = check(row.family, number, target)
    except (Mismatch, ricci.Error) as wrong:
        message = str(wrong)
    except Exception:  # a bug of ours: the table goes on, and shows it
        message = traceback.format_exc(limit=-3)
    else:
        row.passed[target] += 1
        row.worst[target] = max(row.worst[target], error)
        return
    row.failures.append(
        f"{row.family.operator} #{number} (seed {row.family.seed(number)}) on {target}:\n"
        f"{row.family.case(number).text}{message}"
    )


def header(targets: Sequence[str]) -> str:
    counts = "".join(f"{t + ' ok':>16}" for t in targets)
    errors = "".join(f"{'error ' + TARGETS[t][0] + TARGETS[t][-2:]:>12}" for t in targets)
    return f"{'operator':<27}{'cases':>6}{counts}  {'oracle':<13}{errors}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a case gives something else than its oracle."""
    parser = argparse.ArgumentParser(prog="python -m tests.operators", description=__doc__)
    parser.add_argument("operators", nargs="*", help="parts of names, such as nn.conv or math.")
    parser.add_argument("--target", action="append", choices=list(TARGETS))
    parser.add_argument("--failures", type=int, default=1, help="shown for each operator")
    options = parser.parse_args(arguments)
    targets = options.target or list(TARGETS)
    begin = time.perf_counter()
    rows = []
    print(header(targets))
    for family in FAMILIES:
        if options.operators and not any(o in family.operator for o in options.operators):
            continue
        row = run_family(family, targets)
        rows.append(row)
        print(row.line(), flush=True)
        for failure in row.failures[: options.failures]:
            print(failure, file=sys.stderr)
    bad = sum(len(row.failures) for row in rows)
    cases = sum(row.family.count for row in rows)
    names = len({row.family.operator for row in rows})
    print(
        f"{names} operators, {cases} cases on {' and '.join(targets)}: "
        f"{bad or 'no'} mismatches ({time.perf_counter() - begin:.0f} s)"
    )
    return 1 if bad else 0
