"""Random damage to texts of Tensor Comprehensions: statements, clauses, expressions, names."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path

from ricci.diagnostics import Error, Report
from ricci.frontends.reading import make_source
from ricci.frontends.tc import syntax as s
from ricci.frontends.tc.builtins import ARGUMENTS
from ricci.frontends.tc.lexer import ASSIGNMENTS, KEYWORDS, TYPES, tokenize
from ricci.frontends.tc.parser import parse_unit
from ricci.source import Span

from .edits import Edit, apply_edits
from .mutate import mutate
from .tc_programs import make_program

KERNELS = Path(__file__).parent.parent / "tc" / "kernels"

Places = Mapping[str, Sequence[tuple[int, int]]]

SIGNS = ["+", "-", "*", "/", "%", "<", "<=", "==", "!=", "&&", "||", "?", ":", ",", "(", ")", "->",
         "<=>", "[", "]", ".", "!", "{", "}", *ASSIGNMENTS]  # fmt: skip
EXTREME = [
    "0", "1", "-1", "2147483647", "2147483648", "-2147483648", "-2147483649",
    "9223372036854775807",
    "9223372036854775808", "1" + "0" * 30, "1" + "0" * 1200, "1e400", "1e38", "1E39", "1e-60",
    "0.0", "-0.0", ".5", "3.", "0x7f", "0x1p4", "0x1p5000", "1e", "3E-5", "inf", "nan", "N", "A.0",
    "A.7", "int64(9223372036854775807)", "N", "M", "i", "j", "i + 1", "0", "1", "2",
    "uint8(300)", "float16(1e9)", "bfloat16(0.1)",
    "(1 / 0)", "(N % 0)", "(0.0 / 0.0)", "float64(0.1)", "bool(2)", "N * N * N * N * N * N * N",
]  # fmt: skip
WRAPS: Sequence[tuple[str, str]] = [
    ("(", ")"), ("-", ""), ("!", ""), ("1 + ", ""), ("2 * (", ")"), ("min(", ", 1)"),
    ("max(0, ", ")"), ("", " / 2"), ("", " % 3"), ("", " / 0"), ("A(", ")"), ("", "(i)"),
    ("int32(", ")"), ("float64(", ")"), ("uint8(", ")"), ("bool(", ")"), ("exp(", ")"), ("", ".0"),
    ("i < 1 ? ", " : 0"), ("", " == 0"), ("(", " < 1 && N > 2 ? 1 : 3)"), ("(", " + 1)"),
    ("1000000007 * ", ""),
    ("pow(", ", 2)"), ("fma(", ", 1)"), ("N - ", ""), ("", " + k"), ("", " - i"),
    ("", " <=> f(i)"),
]  # fmt: skip
CLAUSES = [
    "i in 0:N", "j in 1:N - 1", "k = [0, 2[", "i = [0, 0[", "i in 3:1", "i in 0:1000000007",
    "i in -5:5",
    "i in 0:9223372036854775807", "x = A(i)", "x = i + 1", "exists A(i)", "exists A(i, j)",
    "i in 0:A.0", "i in 0:j", "i in 0:A(0)", "i in 0:1.5", "x = x", "i in 0:N * N", "i in 0:N / 0",
]  # fmt: skip
DEPTHS = [1] * 12 + [2] * 6 + [3, 10, 60, 150, 250, 3000]
LONGEST = 40_000
"""Characters that an edit adds at most."""


@dataclass(frozen=True)
class Text:
    """A program with the places of its parts and words; none if it does not parse."""

    text: str

    @cached_property
    def parts(self) -> Places:
        found: dict[str, list[tuple[int, int]]] = {}
        try:
            _collect(parse_unit(make_source(self.text, "tc"), Report()), found)
        except Error:
            return {}
        return found

    @cached_property
    def words(self) -> Places:
        found: dict[str, list[tuple[int, int]]] = {}
        for token in tokenize(make_source(self.text, "tc"), Report()):
            if token.end > token.start:
                found.setdefault(token.kind, []).append((token.start, token.end))
        return found


_EXPRESSIONS = (
    s.Number, s.Name, s.Apply, s.SizeOf, s.Cast, s.Unary, s.Binary, s.Conditional,
)  # fmt: skip
_CLAUSES = (s.Range, s.Let, s.Exists)


def _collect(node: object, found: dict[str, list[tuple[int, int]]]) -> None:
    if isinstance(node, tuple):
        for item in node:
            _collect(item, found)
    elif is_dataclass(node) and not isinstance(node, Span):
        span = getattr(node, "span", None)
        if isinstance(span, Span) and span.end > span.start:
            found.setdefault(_class(node), []).append((span.start, span.end))
        for f in fields(node):
            if f.name != "span":
                _collect(getattr(node, f.name), found)


def _class(node: object) -> str:
    if isinstance(node, _EXPRESSIONS):
        return "expression"
    return "clause" if isinstance(node, _CLAUSES) else type(node).__name__.lower()


def texts() -> list[Text]:
    """The kernels of the tests, and some random programs."""
    kernels = [p.read_text() for p in sorted(KERNELS.glob("*.tc"))]
    made = [make_program(seed).text for seed in range(40)]
    return [Text(t) for t in [*kernels, *FEATURES, *made]]


FEATURES = [
    """def f(float16(N) A, bfloat16(N) B, uint64 s) -> (float64(N) O, P, Q) {
    O(i) = A(i) * B(N - 1 - i) + s
    P(i) +=! A(i / 2 + k) where k = [0, 2[
    Q(i) = x > 0 ? A(x) : B(i) where x = i - 1, i in 0:B.0
}""",
    """def f(int32(N) I, float(M, 4) T) -> (O, m) {
    O(i, d) = T(min(max(I(i), 0), M - 1), d) <=> gather(T, I)
    m max=! O(i, d)
    O(i, d) = O(i, d) / m
}
def g(bool(N, N) A, int8 k) -> (C, D) {
    C(i) min=! A(i, j) && A(j, i)
    D(i) += int64(k) % (i + 1) where exists A(i, i)
}""",
]  # fmt: skip

KINDS = ["statement"] * 4 + ["expression"] * 8 + ["clause"] * 4 + ["declaration", "function"]
BETWEEN = {"statement": "\n", "expression": " + ", "clause": ", ", "declaration": ", "}
"""What stands between two of a kind."""


class Damage:
    """Makes edits of one text; parts of others are spliced in."""

    def __init__(self, text: Text, others: Sequence[Text], rng: random.Random) -> None:
        self.source = text
        self.text = text.text
        self.others = others
        self.rng = rng

    def run(self) -> str:
        edits: list[Edit] = []
        for _ in range(self.rng.choice([1, 1, 1, 1, 2, 3])):
            edits += self.rng.choice(_EDITS)(self)
        return apply_edits(self.text, edits)

    def part(self, kind: str = "") -> tuple[int, int] | None:
        parts = self.source.parts.get(kind or self.rng.choice(KINDS))
        return self.rng.choice(parts) if parts else None

    def word(self, kind: str) -> tuple[int, int] | None:
        words = self.source.words.get(kind)
        return self.rng.choice(words) if words else None

    def delete(self) -> list[Edit]:
        place = self.part()
        return [(*place, "")] if place else []

    def duplicate(self) -> list[Edit]:
        kind = self.rng.choice(KINDS)
        place = self.part(kind)
        if not place:
            return []
        count = self.rng.choice([1, 1, 1, 2, 50])
        between = self.rng.choice([" ", ", ", *[BETWEEN.get(kind, "\n")] * 4])
        return [(place[1], place[1], (between + self.text[slice(*place)]) * count)]

    def swap(self) -> list[Edit]:
        kind = self.rng.choice(KINDS)
        first, second = self.part(kind), self.part(kind)
        if not first or not second:
            return []
        return [(*first, self.text[slice(*second)]), (*second, self.text[slice(*first)])]

    def splice(self) -> list[Edit]:
        kind = self.rng.choice(KINDS)
        other = self.source if self.rng.random() < 0.7 else self.rng.choice(self.others)
        place, taken = self.part(kind), other.parts.get(kind)
        if not place or not taken:
            return []
        return [(*place, other.text[slice(*self.rng.choice(taken))])]

    def rename(self) -> list[Edit]:
        """A name becomes another of the program, or one that has a meaning."""
        first, second = self.word("name"), self.word("name")
        if not first or not second:
            return []
        near = self.text[slice(*second)]
        some = [*[w for w in [near] * 8 if w not in KEYWORDS], *_WORDS[:2], self.rng.choice(_WORDS)]
        return [(*first, self.rng.choice(some))]

    def set_number(self) -> list[Edit]:
        place = self.word(self.rng.choice(["int", "int", "real"])) or self.part("expression")
        return [(*place, self.rng.choice(EXTREME))] if place else []

    def set_expression(self) -> list[Edit]:
        place = self.part("expression")
        return [(*place, self.rng.choice(EXTREME))] if place else []

    def set_type(self) -> list[Edit]:
        types = [w for w in self.source.words.get("name", ()) if self.text[slice(*w)] in TYPES]
        return [(*self.rng.choice(types), self.rng.choice(list(TYPES)))] if types else []

    def set_sign(self) -> list[Edit]:
        place = self.word("op")
        return [(*place, self.rng.choice(SIGNS))] if place else []

    def wrap(self) -> list[Edit]:
        place = self.part("expression")
        if not place:
            return []
        before, after = self.rng.choice(WRAPS)
        depth = min(self.rng.choice(DEPTHS), LONGEST // len(before + after))
        return [(*place, before * depth + self.text[slice(*place)] + after * depth)]

    def add_clause(self) -> list[Edit]:
        place = self.part("statement")
        if not place:
            return []
        sign = ", " if "where" in self.text[slice(*place)] else " where "
        clauses = self.rng.choices(CLAUSES, k=self.rng.choice([1, 1, 2, 3]))
        return [(place[1], place[1], sign + ", ".join(clauses))]

    def comment(self) -> list[Edit]:
        place = self.word(self.rng.choice(["op", "name"]))
        some = [" # a\n", "\n\n\n", "#\r", "\r\n#b\r\n", "\t", " # é ` {\n", "\f", "\0", "\ufeff"]
        return [(place[1], place[1], self.rng.choice(some))] if place else []


_WORDS = ["N", "i", "A", "x", "true", "infinite", "nan0", "_", "def", "where", "exists", "in",
          "min", *ARGUMENTS]  # fmt: skip

_EDITS: Sequence[Callable[[Damage], list[Edit]]] = [
    *[Damage.delete, Damage.duplicate, Damage.set_sign, Damage.comment],
    *[Damage.swap, Damage.splice, Damage.rename, Damage.set_type, Damage.add_clause] * 3,
    *[Damage.set_number, Damage.set_expression, Damage.wrap] * 4,
]  # fmt: skip


def damaged(some: Sequence[Text], rng: random.Random) -> str:
    """A damaged copy of a text; now and then of two kinds of damage, or of none."""
    text = rng.choice(some)
    draw = rng.random()
    made = text.text if draw < 0.2 else Damage(text, some, rng).run()
    return mutate(made, rng.randrange(1 << 30)) if 0.17 < draw < 0.24 else made
