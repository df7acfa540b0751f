"""Damage that knows the syntax: whole statements, expressions, names and literals of programs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from .corpus import Program, library_operators
from .mutate import mutate

Edit = tuple[int, int, str]
"""What replaces the characters from the first number to the second."""

EXTREME = [
    "0", "1", "2", "-1", "7", "2147483648", "-2147483649", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "1" + "0" * 30, "1" + "0" * 300, "1e400",
    "1e308", "1e-320", "0.0", "-0.0", "0.5", "inf", "-inf", "pi", "true", "false", "''", "~",
    "'{a}'",
    "1000000007", "65536", "100000", "[]", "[0]", "[1, 2, 3]", "(0 / 0)", "(1 % 0)", "(2 ** 62)",
    "(0.0 / 0.0)", "(2 ** 100)", "(10 ** 18 * 100)", "int(1e30)",
]  # fmt: skip

_TYPES = [
    "real", "int", "bool", "str", "optional int", "optional real", "num", "arith", "type", "T",
]  # fmt: skip
_SHAPES = [
    "[]", "[0]", "[1]", "[n]", "[2,3]", "[s..]", "[s..(d)]", "[s..(2)]", "[n, n]", "[~]", "[~|4]",
    "[n|8]", "[n|0]", "[s|m]", "[2*n + 1]", "[n \\ 2]", "[~s..]", "[n - 5]", "[1000000, 1000000]",
    "[s..(d), s..(d)]", "[s..(~)]", "[?]", "[n..(2)|8]", "[1,1,1,1,1,1,1,1,1,1]", "[2 ** 40]",
    "[static n]", "[n ..(k)]", "[-1]", "[0, 2 ** 62]",
]  # fmt: skip
_PACKS = [
    "..", "..(0)", "..(1)", "..(n)", "..(-1)", "..(10 ** 9)", "..(m|4)", "..(~|3)", "..(static n)",
]  # fmt: skip
_DEPTHS = [1] * 12 + [2] * 6 + [3, 3, 10, 10, 60, 60, 400, 3000]
_LONGEST = 40_000
"""Characters that an edit adds at most: what takes time in proportion to its length is no bug."""
_WRAPS: Sequence[tuple[str, str]] = [
    ("(", ")"), ("-", ""), ("!", ""), ("[", "]"), ("[", " ..]"), ("", " ..(2)"), ("real(", ")"),
    ("int(", ")"), ("bool(", ")"), ("`abs`(", ")"), ("`exp`(", ")"), ("1 + ", ""), ("2 * (", ")"),
    ("(", ") ** 2"), ("true ? ", " : 0"), ("(~ ?? ", ")"), ("x[", ",]"), ("x[|", "|,]"),
    ("", "[0]"),
    ("", "[1:]"), ("", "[::2]"), ("'{", "}'"), ("(", ", 1)"), ("(1 < ", ")"), ("", " + .."),
    ("", " ..(1000)"), ("[0] ..(", ")"), ("", ".shape"), ("", ".rank"), ("", ".size"), ("", "[~]"),
    ("(0 : ", ")"), ("if c then ", " else x"), ("f(", ")"), ("{ yield ", "; }"), ("", " << .."),
    ("", " <- 1"), ("", " in [1, 2]"), ("", " is ~"), ("do..(3) ", ""), ("while c do ", ""),
    ("[", ", 0] ..(100000)"), ("", " ..(10 ** 9)"), ("(", ") * 10 ** 18"), ("", " / 0"),
    ("", " => .."), ("unroll for i : ", " do f(i)"), ("", " % 0"), ("", " ..("),
    ("math.add(", ", 1.0)"),
]  # fmt: skip


class Damage:
    """Makes edits of one program; parts of other programs are spliced in."""

    def __init__(self, program: Program, others: Sequence[Program], rng: random.Random) -> None:
        self.program = program
        self.text = program.text
        self.others = others
        self.rng = rng

    def run(self) -> str:
        """The damaged text."""
        rng = self.rng
        edits: list[Edit] = []
        for _ in range(rng.choice([1, 1, 1, 1, 2, 3])):
            edits += rng.choices(_EDITS, _WEIGHTS)[0](self)
        return apply_edits(self.text, edits)

    # ------------------------------------------------------------------------ choices

    def part(self, kind: str, program: Program | None = None) -> tuple[int, int] | None:
        parts = (program or self.program).parts.get(kind)
        return self.rng.choice(parts) if parts else None

    def word(self, kind: str) -> tuple[int, int] | None:
        words = self.program.words.get(kind)
        return self.rng.choice(words) if words else None

    def taken(self, kind: str) -> str:
        """The text of a part of this program or another; empty if that has none."""
        source = self.program if self.rng.random() < 0.6 else self.rng.choice(self.others)
        place = self.part(kind, source)
        return source.text[place[0] : place[1]] if place else ""

    # -------------------------------------------------------------------------- edits

    def delete(self) -> list[Edit]:
        kinds = ["statement", "statement", "expression", "pack", "extent"]
        place = self.part(self.rng.choice(kinds))
        return [(*place, "")] if place else []

    def duplicate(self) -> list[Edit]:
        kinds = ["statement", "operator", "expression", "bound", "extent"]
        place = self.part(self.rng.choice(kinds))
        if not place:
            return []
        text = self.text[slice(*place)]
        count = self.rng.choice([1, 1, 1, 2, 50])
        between = self.rng.choice([" ", ", ", "; "])
        return [(place[1], place[1], (between + text) * count)]

    def swap(self) -> list[Edit]:
        kinds = ["statement", "expression", "expression", "type", "bound", "argument"]
        kind = self.rng.choice(kinds)
        first, second = self.part(kind), self.part(kind)
        if not first or not second:
            return []
        return [(*first, self.text[slice(*second)]), (*second, self.text[slice(*first)])]

    def splice(self) -> list[Edit]:
        """A part is replaced by one of its class, of this program or another."""
        kinds = ["statement", "expression", "expression", "expression", "type", "extent", "pack",
                 "operator", "invocation", "block", "loop", "branch", "bound", "count", "lowering",
                 "component", "carried", "scan", "using"]  # fmt: skip
        kind = self.rng.choice(kinds)
        place, text = self.part(kind), self.taken(kind)
        return [(*place, text)] if place and text else []

    def add_operator(self) -> list[Edit]:
        """Another program's operator comes along, and may be called."""
        text = self.taken("operator")
        if not text:
            return []
        named = re.search(r"(?:operator|graph)\s+(\w+)", text)
        place = self.part("invocation")
        called = []
        if named and place:
            arguments = self.text[slice(*place)].partition("(")[2]
            called = [(*place, f"{named[1]}({arguments}")]
        return [*called, (len(self.text), len(self.text), f"\n{text}\n")]

    def rename(self) -> list[Edit]:
        """A name becomes another that the program has, often one near it."""
        names = self.program.words.get("name", ())
        if not names:
            return []
        at = self.rng.randrange(len(names))
        near = at + self.rng.randint(-12, 12)
        other = near if 0 <= near < len(names) and self.rng.random() < 0.7 else at - 1
        return [(*names[at], self.text[slice(*names[other])])]

    def call_library(self) -> list[Edit]:
        """An invocation calls an operator of the library instead."""
        place = self.part("invocation")
        if not place:
            return []
        callee = self.rng.choice(_library())
        arguments = self.text[slice(*place)].partition("(")[2]
        if self.rng.random() < 0.4:
            names = self.program.words["name"]
            taken = [self.text[slice(*w)] for w in self.rng.sample(names, self.rng.randrange(3))]
            arguments = ", ".join(taken) + ")"
        attributes = ""
        if self.rng.random() < 0.5:
            given = self.taken("argument")
            attributes = f"{{{given}}}" if given else ""
        module = callee.partition(".")[0]
        return [(0, 0, f"import {module};\n"), (*place, f"{callee}{attributes}({arguments}")]

    def set_literal(self) -> list[Edit]:
        place = self.word(self.rng.choice(["int", "int", "real", "string"]))
        return [(*place, self.rng.choice(EXTREME))] if place else []

    def set_expression(self) -> list[Edit]:
        place = self.part("expression")
        return [(*place, self.rng.choice(EXTREME))] if place else []

    def set_type(self) -> list[Edit]:
        place = self.part("type")
        if not place:
            return []
        name, bracket, shape = self.text[slice(*place)].partition("[")
        draw = self.rng.random()
        if draw < 0.35:
            return [(*place, f"{self.rng.choice(_TYPES)}{bracket}{shape}")]
        if draw < 0.8:
            return [(*place, name + self.rng.choice(_SHAPES) + self.rng.choice(["", "", *_PACKS]))]
        return [(*place, self.text[slice(*place)] + self.rng.choice(_PACKS))]

    def wrap(self) -> list[Edit]:
        """An expression gets around it the same thing once, or thousands of times."""
        place = self.part(self.rng.choice(["expression", "expression", "invocation", "block"]))
        if not place:
            return []
        before, after = self.rng.choice(_WRAPS)
        depth = min(self.rng.choice(_DEPTHS), _LONGEST // len(before + after))
        return [(*place, before * depth + self.text[slice(*place)] + after * depth)]

    def set_sign(self) -> list[Edit]:
        place = self.word("op")
        signs = [self.text[slice(*w)] for w in self.program.words.get("op", ())]
        return [(*place, self.rng.choice(signs))] if place else []

    def comment(self) -> list[Edit]:
        """A comment, or an end of line, between two words."""
        place = self.word(self.rng.choice(["op", "name"]))
        texts = [" # a\n", "\n\n\n", "#\r", "\r\n#b\r\n", "\t", " # é `\"'{ \n", "\f"]
        text = self.rng.choice(texts)
        return [(place[1], place[1], text)] if place else []


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text with the edits that do not overlap one made before."""
    kept: list[Edit] = []
    for start, end, new in edits:
        if all(end <= s or e <= start for s, e, _ in kept):
            kept.append((start, end, new))
    for start, end, new in sorted(kept, reverse=True):
        text = text[:start] + new + text[end:]
    return text


_LIBRARY: list[str] = []


def _library() -> list[str]:
    if not _LIBRARY:
        _LIBRARY.extend(library_operators())
    return _LIBRARY


_TABLE: Sequence[tuple[Callable[[Damage], list[Edit]], int]] = [
    (Damage.delete, 3), (Damage.duplicate, 2), (Damage.swap, 4), (Damage.splice, 8),
    (Damage.add_operator, 2), (Damage.rename, 8), (Damage.call_library, 3),
    (Damage.set_literal, 6), (Damage.set_expression, 4), (Damage.set_type, 5), (Damage.wrap, 6),
    (Damage.set_sign, 3), (Damage.comment, 1),
]  # fmt: skip
_EDITS = [edit for edit, _ in _TABLE]
_WEIGHTS = [weight for _, weight in _TABLE]


def damaged(programs: Sequence[Program], rng: random.Random) -> tuple[Program, str]:
    """A program, and a damaged copy of its text; now and then of two kinds of damage at once."""
    program = rng.choice(programs)
    draw = rng.random()
    text = program.text if draw < 0.15 else Damage(program, programs, rng).run()
    if draw < 0.2:
        text = mutate(text, rng.randrange(1 << 30))
    return program, text
