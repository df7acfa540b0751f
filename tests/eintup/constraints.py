"""Random constraints, each with a meaning in plain Python: the oracle for ranks and dims.

A term is a text and a function of numbers; what satisfies constraints is found by trying all.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ricci.diagnostics import Report
from ricci.frontends.eintup.check import check_file
from ricci.frontends.eintup.parser import parse_file
from ricci.frontends.eintup.program import Program
from ricci.source import Source

Values = Mapping[str, int]
"""The rank of each eintup, or one component of its dims."""


def ceiling(a: int, b: int) -> int:
    return -(-a // b)


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "//": operator.floordiv, "//^": ceiling, "%": operator.mod,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq,
    "!=": operator.ne, ">=": operator.ge, ">": operator.gt,
}  # fmt: skip


@dataclass(frozen=True)
class Term:
    text: str
    value: Callable[[Values], int]


@dataclass(frozen=True)
class Line:
    """A constraint; what divides by zero does not hold."""

    text: str
    test: Callable[[Values], bool]

    def holds(self, values: Values) -> bool:
        try:
            return self.test(values)
        except ZeroDivisionError:
            return False


def random_term(rng: Random, word: str, names: Sequence[str], depth: int = 2) -> Term:
    """A term over `RANK()` or `DIMS()` of some names."""
    if depth == 0 or rng.random() < 0.3:
        name, number = rng.choice(names), rng.randint(1, 4)
        if rng.random() < 0.25:
            return Term(str(number), lambda values: number)
        return Term(f"{word}({name})", lambda values: values[name])
    a = random_term(rng, word, names, depth - 1)
    b = random_term(rng, word, names, depth - 1)
    if rng.random() < 0.2:
        word, pick = rng.choice([("min", min), ("max", max)])
        return Term(f"{word}({a.text}, {b.text})", lambda v: pick(a.value(v), b.value(v)))
    sign = rng.choice(list(ARITHMETIC))
    apply = ARITHMETIC[sign]
    return Term(f"({a.text} {sign} {b.text})", lambda v: apply(a.value(v), b.value(v)))


def _computing_nothing(term: Term) -> Term:
    """`DIMS(a)` alone on a side is what an equality computes: a cycle is an error then."""
    return Term(f"1 * {term.text}", term.value) if term.text.startswith("DIMS") else term


def random_line(rng: Random, word: str, names: Sequence[str]) -> Line:
    """A comparison, a chain of two, or an interval."""
    a, b, c = (_computing_nothing(random_term(rng, word, names)) for _ in range(3))
    first, second = rng.choices(list(COMPARISONS), k=2)
    kind = rng.random()
    if kind < 0.6:
        return Line(
            f"{a.text} {first} {b.text}",
            lambda v: COMPARISONS[first](a.value(v), b.value(v)),
        )
    if kind < 0.8:
        return Line(
            f"{a.text} {first} {b.text} {second} {c.text}",
            lambda v: (
                COMPARISONS[first](a.value(v), b.value(v))
                and COMPARISONS[second](b.value(v), c.value(v))
            ),
        )
    low, high = sorted(rng.choices(range(6), k=2))
    return Line(f"{a.text} IN [{low}, {high}]", lambda v: low <= a.value(v) <= high)


def interval(word: str, name: str, low: int, high: int) -> Line:
    return Line(f"{word}({name}) IN [{low}, {high}]", lambda v: low <= v[name] <= high)


def program_text(names: Sequence[str], lines: Sequence[Line | str]) -> str:
    """A program whose statements tie no eintups, with constraints."""
    statements = [f"A{name}[{name}] = RANDOM(0, 1, FLOAT)" for name in names]
    constraints = [line if isinstance(line, str) else line.text for line in lines]
    return "\n".join(
        [*statements, "", f"np.copy(A{names[0]})", "", f"A{names[0]}", "", *constraints]
    )


def checked(text: str) -> Program:
    """The program of a text; `Error` with all that is wrong with it."""
    report = Report()
    file = parse_file(Source("<main>", text), report)
    report.raise_errors()
    program = check_file(file, report)
    report.raise_errors()
    return program
