"""Random expressions (2.4): a text with as few parentheses as precedence allows, and its value.

The value is computed here, in Python, while the expression is made, so it depends on none of what
it tests: lexer, precedence, types, evaluation, formulas and code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

LARGEST = 2**40
"""Integers stay well below 64 bits, so that no order of evaluation overflows."""

NAMES: dict[str, dict[str, Any]] = {
    "int": {"a": 7, "b": -3, "c": 2},
    "real": {"r": 2.5, "u": -0.75},
    "bool": {"t": True, "f": False},
    "int..": {"p": [1, -2, 3], "q": [10, 4, -7]},
    "real..": {"w": [0.5, -1.25, 4.0]},
    "bool..": {"m": [True, False, True]},
}
"""What expressions are made of, by type; all packs have three items."""

LEVELS = (
    ("=>",), ("&&", "||", "^"), ("<", "<=", ">", ">=", "==", "!=", "in"), ("<<", ">>"), ("+", "-"),
    ("*", "/", "\\", "%"), ("prefix",), ("**",), ("atom",),
)  # fmt: skip
LEVEL = {op: number + 1 for number, ops in enumerate(LEVELS) for op in ops}
PREFIX, ATOM = LEVEL["prefix"], LEVEL["atom"]


@dataclass(frozen=True)
class Expression:
    """A text, how tightly its outermost operator binds, and the value that it must have."""

    text: str
    level: int
    value: Any

    def at(self, level: int) -> str:
        """The text as an operand of something that binds at `level`."""
        return self.text if self.level >= level else f"({self.text})"


class Unusable(Exception):
    """An expression without a value, or with one that is too large."""


INTEGER: dict[str, Callable[[int, int], int]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x // y,
    "\\": lambda x, y: -(-x // y),
    "%": lambda x, y: x % y,
    "<<": min,
    ">>": max,
    "**": lambda x, y: x**y if 0 <= y < 5 else _fail(),
}
REAL: dict[str, Callable[[float, float], float]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "<<": min,
    ">>": max,
}
LOGIC: dict[str, Callable[[bool, bool], bool]] = {
    "&&": lambda x, y: x and y,
    "||": lambda x, y: x or y,
    "^": lambda x, y: x != y,
    "=>": lambda x, y: not x or y,
}
COMPARISON: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
}
FUNCTIONS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "int": {"abs": abs, "sign": lambda x: (x > 0) - (x < 0)},
    "real": {
        "abs": abs,
        "floor": lambda x: float(math.floor(x)),
        "ceil": lambda x: float(math.ceil(x)),
        "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x),
        "frac": lambda x: x - math.trunc(x),
        "tanh": math.tanh,
    },
}
CASTS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("int", "real"): float,
    ("int", "bool"): bool,
    ("real", "int"): math.trunc,
    ("bool", "int"): int,
    ("bool", "real"): float,
}


def _fail() -> int:
    raise Unusable


def make(random: Random, type: str, depth: int) -> Expression:
    """An expression of a type, such as `int` or `real..`, that has a value."""
    while True:
        try:
            found = Maker(random).make(type, depth)
        except (Unusable, ArithmeticError):
            continue
        return found


@dataclass(frozen=True)
class Maker:
    """Makes one expression, or gives up by an exception."""

    random: Random

    def make(self, type: str, depth: int) -> Expression:
        item = type.removesuffix("..")
        packed = item != type
        if depth == 0 or self.random.random() < 0.1:
            return self._leaf(type)
        ways = [self._binary, self._binary, self._prefix, self._select, self._cast, self._call]
        ways += [self._list, self._slice] if packed else [self._fold, self._item]
        found = self.random.choice(ways)(item, packed, depth - 1)
        for value in found.value if packed else [found.value]:
            if abs(value) > LARGEST or value != value:
                raise Unusable
        return found

    def _leaf(self, type: str) -> Expression:
        if not type.endswith("..") and type != "bool" and self.random.random() < 0.3:
            number = self.random.randint(0, 9)
            value = number if type == "int" else number / 4
            return Expression(str(value), ATOM, value)
        name, value = self.random.choice(list(NAMES[type].items()))
        return Expression(name, ATOM, value)

    def _binary(self, item: str, packed: bool, depth: int) -> Expression:
        if item == "bool" and self.random.random() < 0.5:
            kind, table = self.random.choice(["int", "real"]), COMPARISON
        else:
            kind, table = item, {"int": INTEGER, "real": REAL, "bool": LOGIC}[item]
        op = self.random.choice(list(table))
        # at least one side of a pack is a pack
        sides = [packed, packed and self.random.random() < 0.6]
        self.random.shuffle(sides)
        x, y = (self.make(f"{kind}.." if side else kind, depth) for side in sides)
        level = LEVEL[op]
        text = f"{x.at(level)} {op} {y.at(level + 1)}"
        return Expression(text, level, _map(table[op], x.value, y.value))

    def _prefix(self, item: str, packed: bool, depth: int) -> Expression:
        x = self.make(item + ".." * packed, depth)
        op = "!" if item == "bool" else "-"
        value = _map(lambda v: not v if item == "bool" else -v, x.value)
        return Expression(f"{op}{x.at(PREFIX)}", PREFIX, value)

    def _select(self, item: str, packed: bool, depth: int) -> Expression:
        type = item + ".." * packed
        condition = self.make("bool" + ".." * (packed and self.random.random() < 0.5), depth)
        x, y = self.make(type, depth), self.make(type, depth)
        value = _map(lambda c, a, b: a if c else b, condition.value, x.value, y.value)
        if not packed and isinstance(value, list):
            raise Unusable
        return Expression(f"{condition.at(1)} ? {x.text} : {y.text}", 0, value)

    def _cast(self, item: str, packed: bool, depth: int) -> Expression:
        source = self.random.choice([s for s, to in CASTS if to == item])
        x = self.make(source + ".." * packed, depth)
        return Expression(f"{item}({x.text})", ATOM, _map(CASTS[source, item], x.value))

    def _call(self, item: str, packed: bool, depth: int) -> Expression:
        if item == "bool":
            return self._containment(packed, depth)
        name, function = self.random.choice(list(FUNCTIONS[item].items()))
        x = self.make(item + ".." * packed, depth)
        text = self.random.choice([f"`{name}`({x.text})", f"{name}({x.text})"])
        return Expression(text, ATOM, _map(function, x.value))

    def _containment(self, packed: bool, depth: int) -> Expression:
        x, pack = self.make("int" + ".." * packed, depth), self.make("int..", depth)
        level = LEVEL["in"]
        text = f"{x.at(level)} in {pack.at(level + 1)}"
        return Expression(text, level, _map(lambda v: v in pack.value, x.value))

    def _list(self, item: str, packed: bool, depth: int) -> Expression:
        items = [self.make(item, depth) for _ in range(3)]
        text = f"[{', '.join(i.at(1) for i in items)}]"
        return Expression(text, ATOM, [i.value for i in items])

    def _slice(self, item: str, packed: bool, depth: int) -> Expression:
        x = self.make(f"{item}..", depth)
        positions = self.random.choice(["::-1", ":", "[2, 0, -2]", "0:3"])
        order = {"::-1": [2, 1, 0], "[2, 0, -2]": [2, 0, 1]}.get(positions, [0, 1, 2])
        return Expression(f"{x.at(ATOM)}[{positions}]", ATOM, [x.value[k] for k in order])

    def _fold(self, item: str, packed: bool, depth: int) -> Expression:
        x = self.make(f"{item}..", depth)
        folds: dict[str, dict[str, Callable[[list[Any]], Any]]] = {
            "int": {"+": sum, "*": math.prod},
            "real": {"+": sum, "*": math.prod},
            "bool": {"&&": all, "||": any},
        }
        op, function = self.random.choice(list(folds[item].items()))
        return Expression(f"({x.at(LEVEL[op])} {op} ..)", ATOM, function(x.value))

    def _item(self, item: str, packed: bool, depth: int) -> Expression:
        x = self.make(f"{item}..", depth)
        index = self.random.randint(-3, 2)
        return Expression(f"{x.at(ATOM)}[{index}]", ATOM, x.value[index])


def _map(function: Callable[..., Any], *values: Any) -> Any:
    """A function of single values, or of packs item by item."""
    if not any(isinstance(v, list) for v in values):
        return function(*values)
    columns = [v if isinstance(v, list) else [v] * 3 for v in values]
    return [function(*row) for row in zip(*columns, strict=True)]
