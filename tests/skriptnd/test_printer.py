"""The printer: what it writes is read back to an equal tree."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ricci.diagnostics import Report
from ricci.frontends.skriptnd import syntax as s
from ricci.frontends.skriptnd.modules import STDLIB
from ricci.frontends.skriptnd.parser import parse_module
from ricci.frontends.skriptnd.parser_expressions import CUMULATIVE, FOLDS, LEVELS
from ricci.frontends.skriptnd.printer import format_expression, format_module
from ricci.source import Source

PROGRAMS = Path(__file__).parent.parent / "programs"
FILES = [*sorted(PROGRAMS.glob("*.sknd")), *sorted(STDLIB.glob("*.sknd"))]


def parse(text: str) -> s.Module:
    report = Report()
    module = parse_module(Source("test", text), report, "test")
    report.raise_errors()
    return module


@pytest.mark.parametrize("dialect", ["draft", "later"])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_programs_round_trip(path: Path, dialect: str) -> None:
    module = parse(path.read_text())
    text = format_module(module, dialect)
    again = parse(text)
    assert again == module
    assert format_module(again, dialect) == text


class Trees:
    """Random expressions that the grammar allows."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def leaf(self) -> s.Expr:
        return self.rng.choice(
            [
                s.Name("a"),
                s.Name("b"),
                s.Literal(1, "1"),
                s.Literal(2.5, "2.5"),
                s.Literal(True, "true"),
                s.Literal('q"{', 'q"{'),
                s.Member("x", "shape"),
                s.NullTest("n"),
                s.Cast("real", None),
            ]
        )

    def tree(self, depth: int) -> s.Expr:
        if depth == 0:
            return self.leaf()

        def sub() -> s.Expr:
            return self.tree(depth - 1)

        ops = [op for op in LEVELS if op != ":="]
        makers = [
            self.leaf,
            lambda: s.Unary(self.rng.choice("+-!"), sub()),
            lambda: s.Binary(self.rng.choice(ops), sub(), sub()),
            lambda: s.Binary(self.rng.choice(ops), sub(), sub()),
            lambda: s.Select(sub(), sub(), self.rng.choice([None, sub()])),
            lambda: s.Coalesce(sub(), sub()),
            lambda: s.Fold(self.rng.choice(sorted(FOLDS)), sub(), False),
            lambda: s.Fold(self.rng.choice(sorted(CUMULATIVE)), sub(), True),
            lambda: s.Cast("int", sub()),
            lambda: s.Builtin("sqrt", sub()),
            lambda: s.List((sub(), s.Expand(sub(), None), s.Expand(sub(), sub()))),
            lambda: s.List((s.Zip((sub(), sub())), s.Range(sub(), sub(), None))),
            lambda: s.Subscript(self.tree(0), sub()),
            lambda: s.Subscript(s.Name("p"), s.Range(None, sub(), sub())),
            lambda: s.Substitute(s.Name("p"), sub(), sub()),
            lambda: s.Access(s.Name("t"), (s.Bounded(sub(), sub(), sub()), sub())),
            lambda: s.Access(s.Name("t"), (s.Expand(sub(), None),)),
            lambda: s.Format(("x", sub_without_strings(sub()), "y")),
        ]
        return self.rng.choice(makers)()


def sub_without_strings(node: s.Expr) -> s.Expr:
    """A substitution ends at the first brace, so its expression has no strings."""
    return s.Name("a") if '"' in format_expression(node) else node


@pytest.mark.parametrize("seed", range(40))
def test_random_expressions_round_trip(seed: int) -> None:
    trees = Trees(seed)
    for _ in range(25):
        tree = trees.tree(trees.rng.randrange(5))
        text = format_expression(tree)
        again = parse(f"operator f {{ @using {{ v = {text}; }} }}").operators[0].using[0].value
        assert again == tree, f"seed {seed}: {text}"


def test_parentheses_are_minimal() -> None:
    for text in ["a + b * c", "(a + b) * c", "-a ** b", "a ?? b ? c : d", "a - (b - c)"]:
        node = parse(f"operator f {{ @using {{ v = {text}; }} }}").operators[0].using[0].value
        assert format_expression(node) == text
