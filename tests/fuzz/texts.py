"""Random damage to texts of a language: statements, expressions, names, numbers, signs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property

from ricci.diagnostics import Error
from ricci.frontends.tokens import Token
from ricci.source import Span

from .edits import Edit, apply_edits
from .mutate import mutate

Places = Mapping[str, Sequence[tuple[int, int]]]

DEPTHS = [1] * 12 + [2] * 6 + [3, 10, 60, 150, 250, 3000]
LONGEST = 40_000
"""Characters that an edit adds at most."""


@dataclass(frozen=True, eq=False)
class Language:
    """How texts are taken apart, and what is put into them."""

    parse: Callable[[str], object]
    tokenize: Callable[[str], Sequence[Token]]
    classes: Mapping[type, str]
    """Kinds of nodes; that of others is the name of their class."""
    kinds: Sequence[str]
    """The kinds that are damaged, the more often the more often they are in it."""
    between: Mapping[str, str]
    """What stands between two of a kind."""
    extreme: Sequence[str]
    wraps: Sequence[tuple[str, str]]
    signs: Sequence[str]
    words: Sequence[str]
    keywords: frozenset[str]
    expressions: Sequence[str]
    """The kinds that are expressions."""
    more: Mapping[str, Sequence[str]]
    """What may be put behind parts of a kind."""
    suit: Callable[[str, str, random.Random], str] = lambda part, text, rng: part
    """Gives what is put into a text the names of that text."""


@dataclass(frozen=True)
class Text:
    """A program with the places of its parts and words; none if it does not parse."""

    text: str
    language: Language

    @cached_property
    def parts(self) -> Places:
        found: dict[str, list[tuple[int, int]]] = {}
        try:
            self._collect(self.language.parse(self.text), found)
        except Error:
            return {}
        return found

    @cached_property
    def words(self) -> Places:
        found: dict[str, list[tuple[int, int]]] = {}
        for token in self.language.tokenize(self.text):
            if token.end > token.start:
                found.setdefault(token.kind, []).append((token.start, token.end))
        return found

    def _collect(self, node: object, found: dict[str, list[tuple[int, int]]]) -> None:
        if isinstance(node, tuple):
            for item in node:
                self._collect(item, found)
        elif is_dataclass(node) and not isinstance(node, Span):
            span = getattr(node, "span", None)
            if isinstance(span, Span) and span.end > span.start:
                kind = self.language.classes.get(type(node), type(node).__name__.lower())
                found.setdefault(kind, []).append((span.start, span.end))
            for f in fields(node):
                if f.name != "span":
                    self._collect(getattr(node, f.name), found)


class Damage:
    """Makes edits of one text; parts of others are spliced in."""

    def __init__(self, text: Text, others: Sequence[Text], rng: random.Random) -> None:
        self.source = text
        self.text = text.text
        self.language = text.language
        self.others = others
        self.rng = rng

    def run(self) -> str:
        edits: list[Edit] = []
        for _ in range(self.rng.choice([1, 1, 1, 1, 2, 3])):
            edits += self.rng.choice(_EDITS)(self)
        return apply_edits(self.text, edits)

    def part(self, kind: str = "") -> tuple[int, int] | None:
        parts = self.source.parts.get(kind or self.rng.choice(self.language.kinds))
        return self.rng.choice(parts) if parts else None

    def expression(self) -> tuple[int, int] | None:
        return self.part(self.rng.choice(self.language.expressions))

    def word(self, kind: str) -> tuple[int, int] | None:
        words = self.source.words.get(kind)
        return self.rng.choice(words) if words else None

    def suited(self, part: str) -> str:
        return self.language.suit(part, self.text, self.rng)

    def delete(self) -> list[Edit]:
        place = self.part()
        return [(*place, "")] if place else []

    def duplicate(self) -> list[Edit]:
        kind = self.rng.choice(self.language.kinds)
        place = self.part(kind)
        if not place:
            return []
        count = self.rng.choice([1, 1, 1, 2, 50])
        between = self.rng.choice([" ", ", ", *[self.language.between.get(kind, "\n")] * 4])
        return [(place[1], place[1], (between + self.text[slice(*place)]) * count)]

    def swap(self) -> list[Edit]:
        kind = self.rng.choice(self.language.kinds)
        first, second = self.part(kind), self.part(kind)
        if not first or not second:
            return []
        return [(*first, self.text[slice(*second)]), (*second, self.text[slice(*first)])]

    def splice(self) -> list[Edit]:
        kind = self.rng.choice(self.language.kinds)
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
        near, words = self.text[slice(*second)], self.language.words
        own = [near] * 8 if near not in self.language.keywords else []
        return [(*first, self.rng.choice([*own, *words[:2], self.rng.choice(words)]))]

    def set_number(self) -> list[Edit]:
        place = self.word(self.rng.choice(["int", "int", "real"])) or self.expression()
        return [(*place, self.suited(self.rng.choice(self.language.extreme)))] if place else []

    def set_expression(self) -> list[Edit]:
        place = self.expression()
        return [(*place, self.suited(self.rng.choice(self.language.extreme)))] if place else []

    def set_keyword(self) -> list[Edit]:
        """A word with a meaning becomes another."""
        keywords = self.language.keywords
        words = self.source.words.get("name", ())
        known = [w for w in words if self.text[slice(*w)] in keywords]
        return [(*self.rng.choice(known), self.rng.choice(sorted(keywords)))] if known else []

    def set_sign(self) -> list[Edit]:
        place = self.word("op")
        return [(*place, self.rng.choice(self.language.signs))] if place else []

    def wrap(self) -> list[Edit]:
        place = self.expression()
        if not place:
            return []
        before, after = map(self.suited, self.rng.choice(self.language.wraps))
        depth = min(self.rng.choice(DEPTHS), LONGEST // len(before + after))
        return [(*place, before * depth + self.text[slice(*place)] + after * depth)]

    def add(self) -> list[Edit]:
        kind = self.rng.choice(list(self.language.more))
        place = self.part(kind)
        if not place:
            return []
        some = self.rng.choices(self.language.more[kind], k=self.rng.choice([1, 1, 2, 3]))
        return [(place[1], place[1], "".join(map(self.suited, some)))]

    def comment(self) -> list[Edit]:
        place = self.word(self.rng.choice(["op", "name"]))
        some = [" # a\n", "\n\n\n", "#\r", "\r\n#b\r\n", "\t", " # é ` {\n", "\f", "\0", "\ufeff"]
        return [(place[1], place[1], self.rng.choice(some))] if place else []


_EDITS: Sequence[Callable[[Damage], list[Edit]]] = [
    *[Damage.delete, Damage.duplicate, Damage.set_sign, Damage.set_keyword, Damage.comment],
    *[Damage.swap, Damage.splice, Damage.rename, Damage.add] * 3,
    *[Damage.set_number, Damage.set_expression, Damage.wrap] * 4,
]  # fmt: skip


def damaged(some: Sequence[Text], rng: random.Random) -> str:
    """A damaged copy of a text; now and then of two kinds of damage, or of none."""
    text = rng.choice(some)
    draw = rng.random()
    made = text.text if draw < 0.2 else Damage(text, some, rng).run()
    return mutate(made, rng.randrange(1 << 30)) if 0.17 < draw < 0.24 else made
