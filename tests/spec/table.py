"""The table of the specification: its sections and all operators, with the cases that they pass."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from rich.console import Console
from rich.table import Table

from ricci.progress import show_progress

from ..compare import TARGETS
from ..goldens import SKRIPTND, check_golden, marker
from ..operators.execute import check as check_operator
from ..operators.execute import check_rejected
from ..operators.families import FAMILIES
from ..operators.rejected import REJECTED
from . import all_cases
from .execute import check as check_case
from .sections import SECTION_OF_CODE, all_sections

Run = Callable[[str], float]
"""Runs a case on a target; gives the scaled error, or raises."""


@dataclass
class Row:
    """A section or an operator, with its cases and how they went; a section counts its parts."""

    name: str
    title: str = ""
    cases: list[tuple[str, Run]] = field(default_factory=list)
    oracles: set[str] = field(default_factory=set)
    passed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TARGETS, 0))
    worst: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TARGETS, 0.0))
    failures: list[str] = field(default_factory=list)
    parts: list[Row] = field(default_factory=list)

    def add(self, name: str, run: Run, oracle: str) -> None:
        self.cases.append((name, run))
        self.oracles.add(oracle)

    @property
    def total(self) -> int:
        return len(self.cases) + sum(part.total for part in self.parts)

    @property
    def all_oracles(self) -> set[str]:
        return self.oracles.union(*(part.all_oracles for part in self.parts))

    @property
    def is_right(self) -> bool:
        """Whether there are cases, and all pass."""
        return self.total > 0 and not self.failures and all(p.is_right for p in self.parts)

    def count_passed(self, target: str) -> int:
        return self.passed[target] + sum(part.count_passed(target) for part in self.parts)

    def worst_error(self, target: str) -> float:
        return max([self.worst[target], *(part.worst_error(target) for part in self.parts)])


def make_rows() -> list[Row]:
    """A row per section, with those of its operators behind it, and all cases in them."""
    rows: dict[str, Row] = {}
    for section in all_sections():
        parts = [Row(name) for name in section.operators]
        rows[section.number] = Row(section.number, section.title, parts=parts)
        rows |= {part.name: part for part in parts}
    for case in all_cases():
        rows[case.section].add(case.name, partial(check_case, case), case.oracle)
    for path in SKRIPTND:
        row = rows[SECTION_OF_CODE[marker(path)[0]]]
        row.add(path.stem, _same(partial(check_golden, path)), "golden")
    for family in FAMILIES:
        for number in range(family.count):
            name = f"#{number}, seed {family.seed(number)}"
            computed: Run = partial(check_operator, family, number)
            rows[family.operator].add(name, computed, family.oracle)
    for rejected in REJECTED:
        run = _same(partial(check_rejected, rejected))
        rows[rejected.operator].add(rejected.message, run, "by hand")
    return list(rows.values())


def _same(check: Callable[[], None]) -> Run:
    """A check of what happens before a target plays a part."""

    def run(target: str) -> float:
        check()
        return 0.0

    return run


def run_row(row: Row, targets: Sequence[str]) -> None:
    """Run all cases of a row, and keep the counts and what went wrong."""
    for name, run in row.cases:
        for target in targets:
            try:
                error = run(target)
            except Exception as wrong:  # a bug of ours too: the table goes on, and shows it
                shown = traceback.format_exception_only(wrong)[-1].strip()
                row.failures.append(f"{row.name} {name} on {target}:\n{shown}")
            else:
                row.passed[target] += 1
                row.worst[target] = max(row.worst[target], error)


def make_table(rows: Sequence[Row], targets: Sequence[str]) -> Table:
    """The results as a table."""
    table = Table(box=None, pad_edge=False)
    table.add_column("section or operator", no_wrap=True)
    table.add_column("cases", justify="right")
    for target in targets:
        table.add_column(target, justify="right")
        table.add_column("error", justify="right")
    table.add_column("oracle")
    for row in rows:
        cells = [f"{row.name}  {row.title}" if row.title else f"  {row.name}", str(row.total)]
        for target in targets:
            cells += [str(row.count_passed(target)), f"{row.worst_error(target):.0e}"]
        style = "" if row.is_right else "red"
        table.add_row(*cells, ", ".join(sorted(row.all_oracles)) or "none", style=style)
    return table


def _chosen(rows: list[Row], names: Sequence[str]) -> list[Row]:
    """The rows whose section, operator or module is named."""
    if not names:
        return rows
    return [r for r in rows if any(r.name == n or r.name.startswith(f"{n}.") for n in names)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a case fails, or a section or operator has none."""
    parser = argparse.ArgumentParser(prog="python -m tests.spec", description=__doc__)
    parser.add_argument("names", nargs="*", help="2.12, nn.conv, or the module nn")
    parser.add_argument("--target", action="append", choices=list(TARGETS))
    parser.add_argument("--failures", type=int, default=1, help="shown for each row")
    options = parser.parse_args(arguments)
    targets = options.target or list(TARGETS)
    begin = time.perf_counter()
    rows = _chosen(make_rows(), options.names)
    with show_progress(f"checking {len(rows)} rows", len(rows)) as advance:
        for row in rows:
            run_row(row, targets)
            advance(1)
    output = Console(width=None if sys.stdout.isatty() else 130)
    output.print(make_table(rows, targets))
    sys.stdout.flush()
    for failure in (f for row in rows for f in row.failures[: options.failures]):
        print(failure, file=sys.stderr)
    empty = [row.name for row in rows if not row.total]
    bad = sum(len(row.failures) for row in rows)
    cases = sum(len(row.cases) for row in rows)
    print(
        f"{len(rows)} rows, {cases} cases on {' and '.join(targets)}: {bad or 'no'} failures, "
        f"{len(empty) or 'no'} empty rows ({time.perf_counter() - begin:.0f} s)"
    )
    return 1 if bad or empty else 0
