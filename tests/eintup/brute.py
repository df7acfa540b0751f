"""A program evaluated by loops in plain Python, straight from the rules of the language.

Independent of the compiler: it works on the tree and on numbers of Python. Integers are those of 32
bits and wrap; reals are of 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from ricci.frontends.eintup import syntax as s

Number = bool | int | float
Array = np.ndarray[Any, np.dtype[Any]]
Point = Mapping[str, tuple[int, ...]]


class OutOfRange(Exception):
    """An index is out of range: the combination is skipped."""


@dataclass
class Held:
    """An array while a program runs: its shape, and its cells by place."""

    shape: tuple[int, ...]
    cells: dict[tuple[int, ...], Number]

    def numpy(self) -> Array:
        values = [self.cells[place] for place in places(self.shape)]
        kind = bool if any(isinstance(v, bool) for v in values) else None
        return np.array(values, kind).reshape(self.shape)


def places(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return product(*map(range, shape))


def evaluate(
    statements: Sequence[s.Statement],
    dims: Mapping[str, tuple[int, ...]],
    given: Mapping[str, Array],
    seed: int = 0,
) -> dict[str, Array]:
    """The final values of all arrays."""
    run = Run(dims, seed=seed)
    seen: set[str] = set()
    for statement in statements:
        name = statement.target.array.name
        if name in given and name not in seen:
            array = given[name]
            cells = {p: array[p].item() for p in places(array.shape)}
            run.arrays[name] = Held(array.shape, cells)
            run.drawn += count_random(statement.value)
        else:
            run.execute(statement)
        run.signatures.setdefault(name, statement.target.items)
        seen.add(name)
    return {name: held.numpy() for name, held in run.arrays.items()}


def variables(node: object) -> list[str]:
    """The eintups that run through values, in order; `DIMS()` and `RANK()` hold none."""
    match node:
        case s.Eintup(name):
            return [name]
        case s.Dims() | s.Rank():
            return []
        case tuple():
            return list(dict.fromkeys(v for part in node for v in variables(part)))
        case s.Access(_, items) | s.Slice(_, items) | s.Flat(items):
            return variables(items)
        case s.IndexBinary() | s.Binary():
            return variables((node.lhs, node.rhs))
        case s.DimsAt():
            return variables(node.at)
        case s.Range():
            return variables((node.of, node.at))
        case s.Random():
            return variables((node.low, node.high))
        case s.Apply():
            return variables(node.arguments)
        case s.Unary():
            return variables(node.operand)
        case s.Statement():
            return variables((node.target, node.value))
        case _:
            return []


def count_random(node: object) -> int:
    """How many occurrences of `RANDOM` a value has."""
    match node:
        case s.Random():
            return 1 + count_random(node.low) + count_random(node.high)
        case s.Binary():
            return count_random(node.lhs) + count_random(node.rhs)
        case s.Unary():
            return count_random(node.operand)
        case s.Apply():
            return sum(map(count_random, node.arguments))
        case _:
            return 0


@dataclass
class Run:
    dims: Mapping[str, tuple[int, ...]]
    seed: int
    arrays: dict[str, Held] = field(default_factory=dict)
    signatures: dict[str, tuple[s.IndexExpr, ...]] = field(default_factory=dict)
    drawn: int = 0
    """How many occurrences of `RANDOM` stand before this statement."""
    place: int = 0
    """The number of the combination."""

    # --------------------------------------------------------------- statements

    def execute(self, statement: s.Statement) -> None:
        target = statement.target
        before = self.arrays.get(target.array.name)
        if before is None:
            shape = tuple(max(0, high + 1) for i in target.items for _, high in self.ranges(i))
            zero: Number = False if statement.operator in ("and=", "or=") else 0
            after = Held(shape, dict.fromkeys(places(shape), zero))
        else:
            after = Held(before.shape, dict(before.cells))
        names = variables(statement)
        reached: set[tuple[int, ...]] = set()
        boxes = [places(self.dims[name]) for name in names]
        for self.place, values in enumerate(product(*boxes)):
            self.combination(statement, dict(zip(names, values, strict=True)), after, reached,
                             before is None)  # fmt: skip
        self.arrays[target.array.name] = after
        self.drawn += count_random(statement.value)

    def combination(
        self,
        statement: s.Statement,
        point: Point,
        after: Held,
        reached: set[tuple[int, ...]],
        is_new: bool,
    ) -> None:
        try:
            cell = self.indices(statement.target.items, point)
            check(cell, after.shape)
            self.probe(statement.value, point)
        except OutOfRange:
            return
        value = self.value(statement.value, point)
        if statement.operator not in ("and=", "or=") and isinstance(value, bool):
            value = int(value)
        first = cell not in reached
        reached.add(cell)
        if first and (is_new or statement.operator == "="):
            starts = {"=": 0, "+=": 0, "or=": False, "and=": True, "*=": 1}
            held = starts.get(statement.operator, value)
        else:
            held = after.cells[cell]
        after.cells[cell] = combine(statement.operator, held, value)

    # ------------------------------------------------------------------ indices

    def indices(self, items: Sequence[s.IndexExpr], point: Point) -> tuple[int, ...]:
        return tuple(v for item in items for v in self.index(item, point))

    def index(self, expr: s.IndexExpr, point: Point) -> tuple[int, ...]:
        match expr:
            case s.Eintup(name):
                return point[name]
            case s.Whole(value):
                return (value,)
            case s.Rank(items):
                return (sum(self.rank(i) for i in items),)
            case s.Dims(items):
                return tuple(max(0, high + 1) for i in items for _, high in self.ranges(i))
            case s.Flat(items):
                return (self.flat(items, point),)
            case s.Slice():
                return self.slice(expr, point)
            case s.IndexBinary(operator, lhs, rhs):
                a, b = spread(expr, self.index(lhs, point), self.index(rhs, point))
                return tuple(arithmetic(operator, x, y) for x, y in zip(a, b, strict=True))

    def flat(self, items: Sequence[s.IndexExpr], point: Point) -> int:
        number = 0
        for item in items:
            extents = [max(0, high + 1) for _, high in self.ranges(item)]
            for value, extent in zip(self.index(item, point), extents, strict=True):
                if not 0 <= value < extent:
                    return -1
                number = number * extent + value
        return number

    def slice(self, expr: s.Slice, point: Point) -> tuple[int, ...]:
        held = self.arrays[expr.array.name]
        at = expr.items.index(None)
        first = self.indices([i for i in expr.items[:at] if i is not None], point)
        last = self.indices([i for i in expr.items[at + 1 :] if i is not None], point)
        found = []
        for k in range(held.shape[len(first)]):
            place = (*first, k, *last)
            check(place, held.shape)
            found.append(int(held.cells[place]))
        return tuple(found)

    def rank(self, expr: s.IndexExpr) -> int:
        match expr:
            case s.Eintup(name):
                return len(self.dims[name])
            case s.Dims(items):
                return sum(self.rank(i) for i in items)
            case s.Slice():
                signature = self.signatures[expr.array.name]
                ((_, high),) = self.ranges(signature[expr.items.index(None)])
                return high + 1
            case s.IndexBinary():
                return self.rank(expr.rhs if is_number(expr.lhs) else expr.lhs)
            case _:
                return 1

    # ------------------------------------------------- ranges: the table of bounds

    def ranges(self, expr: s.IndexExpr) -> list[tuple[int, int]]:
        """Smallest and largest value of each component."""
        match expr:
            case s.Eintup(name):
                return [(0, d - 1) for d in self.dims[name]]
            case s.Slice():
                return self.stored(expr)
            case s.Flat(items) if variables(expr):
                ranges = [r for i in items for r in self.ranges(i)]
                size = math.prod(max(0, high + 1) for _, high in ranges)
                return [(-1 if any(low < 0 for low, _ in ranges) else 0, size - 1)]
            case s.IndexBinary(operator, lhs, rhs) if variables(expr) or has_slice(expr):
                a, b = spread(expr, self.ranges(lhs), self.ranges(rhs))
                return [bound(operator, x, y) for x, y in zip(a, b, strict=True)]
            case _:
                return [(v, v) for v in self.index(expr, {})]

    def stored(self, expr: s.Slice) -> list[tuple[int, int]]:
        names = variables(expr)
        found = []
        for values in product(*[places(self.dims[n]) for n in names]):
            try:
                found.append(self.slice(expr, dict(zip(names, values, strict=True))))
            except OutOfRange:
                continue
        lows = [min((v[k] for v in found), default=0) for k in range(self.rank(expr))]
        highs = [max((v[k] for v in found), default=-1) for k in range(self.rank(expr))]
        return [(min(0, low), max(-1, high)) for low, high in zip(lows, highs, strict=True)]

    # ------------------------------------------------------------------- values

    def probe(self, value: s.Value, point: Point) -> None:
        """Raise `OutOfRange` if any index in a value is out of range."""
        match value:
            case s.Access(array, items):
                check(self.indices(items, point), self.arrays[array.name].shape)
            case s.DimsAt(dims, at):
                check(point[at.name], (self.rank(dims),))
            case s.Range(of, at):
                check(point[at.name], (len(point[of.name]),))
            case s.Random():
                self.probe(value.low, point)
                self.probe(value.high, point)
            case s.Binary():
                self.probe(value.lhs, point)
                self.probe(value.rhs, point)
            case s.Unary():
                self.probe(value.operand, point)
            case s.Apply():
                for argument in value.arguments:
                    self.probe(argument, point)

    def value(self, value: s.Value, point: Point, number: int = 0) -> Number:
        """A value; `number` occurrences of `RANDOM` stand before it in the statement."""
        match value:
            case s.Number():
                return value.value
            case s.Rank():
                return self.index(value, {})[0]
            case s.DimsAt(dims, at):
                return self.index(dims, {})[point[at.name][0]]
            case s.Range(of, at):
                return point[of.name][point[at.name][0]]
            case s.Access(array, items):
                return self.arrays[array.name].cells[self.indices(items, point)]
            case s.Random():
                return self.random(value, point, number)
            case s.Unary(operator, operand):
                found = self.value(operand, point, number)
                return (not found) if operator == "not" else wrapped(-found)
            case s.Binary(operator, lhs, rhs):
                a = self.value(lhs, point, number)
                return operate(operator, a, self.value(rhs, point, number + count_random(lhs)))
            case s.Apply(function, arguments):
                values = []
                for argument in arguments:
                    values.append(self.value(argument, point, number))
                    number += count_random(argument)
                return apply(function.name, values)

    def random(self, value: s.Random, point: Point, number: int) -> Number:
        low = self.value(value.low, point, number + 1)
        high = self.value(value.high, point, number + 1 + count_random(value.low))
        word = random_word(self.seed, self.drawn + number, self.place)
        if value.kind == "INT":
            return int(low) + word % (int(high) - int(low))
        unit = (word >> 40) / 2**24
        result = low + unit * (float(high) - float(low))
        return result if result < high else float(low)


def check(place: Sequence[int], shape: Sequence[int]) -> None:
    if any(not 0 <= p < n for p, n in zip(place, shape, strict=True)):
        raise OutOfRange


def has_slice(expr: s.IndexExpr) -> bool:
    match expr:
        case s.Slice():
            return True
        case s.IndexBinary():
            return has_slice(expr.lhs) or has_slice(expr.rhs)
        case s.Flat():
            return any(map(has_slice, expr.items))
        case _:
            return False


def is_number(expr: s.IndexExpr) -> bool:
    if isinstance(expr, s.IndexBinary):
        return is_number(expr.lhs) and is_number(expr.rhs)
    return isinstance(expr, s.Whole | s.Rank)


def spread(expr: s.IndexBinary, a: Sequence[Any], b: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """A number goes with every component."""
    if is_number(expr.lhs) and not is_number(expr.rhs):
        return list(a) * len(b), list(b)
    if is_number(expr.rhs) and not is_number(expr.lhs):
        return list(a), list(b) * len(a)
    return list(a), list(b)


def arithmetic(operator: str, a: int, b: int) -> int:
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return a // b
        case "//^":
            return -(-a // b)
        case _:
            return a % b


def bound(operator: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The range of a result: the table of true bounds, for any ranges."""
    if operator == "+":
        return a[0] + b[0], a[1] + b[1]
    if operator == "-":
        return a[0] - b[1], a[1] - b[0]
    if operator == "%":
        (v, _) = b
        if v < 0:
            return v + 1, 0
        return 0, min(a[1], v - 1) if a[0] >= 0 else v - 1
    if a[0] >= 0 and b[0] >= 0:
        return arithmetic(operator, a[0], b[0]), arithmetic(operator, a[1], b[1])
    if a[0] == a[1] or b[0] == b[1]:
        fixed, other = (a[0], b) if a[0] == a[1] and b[0] != b[1] else (b[0], a)
        ends = [arithmetic(operator, e, fixed) for e in other]
        return (ends[0], ends[1]) if fixed >= 0 else (ends[1], ends[0])
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def combine(operator: s.Assign, held: Number, value: Number) -> Number:
    match operator:
        case "=" | "+=":
            return wrapped(held + value)
        case "*=":
            return wrapped(held * value)
        case "max=":
            return max(held, value)
        case "min=":
            return min(held, value)
        case "and=":
            return bool(held and value)
        case "or=":
            return bool(held or value)


def wrapped(value: Number) -> Number:
    """An integer in 32 bits."""
    if isinstance(value, float):
        return value
    return (int(value) + 2**31) % 2**32 - 2**31


def operate(operator: s.ValueOperator, a: Number, b: Number) -> Number:
    comparisons = {
        "<": a < b, "<=": a <= b, "==": a == b, "!=": a != b, ">=": a >= b, ">": a > b,
    }  # fmt: skip
    if operator in comparisons:
        return comparisons[operator]
    match operator:
        case "and":
            return bool(a and b)
        case "or":
            return bool(a or b)
        case "+":
            return wrapped(a + b)
        case "-":
            return wrapped(a - b)
        case "*":
            return wrapped(a * b)
        case "/":
            return a / b
        case "//":
            return math.floor(a / b) * 1.0 if is_real(a, b) else a // b
        case "//^":
            return math.ceil(a / b) * 1.0 if is_real(a, b) else -(-a // b)
        case _:
            return wrapped(a % b)


def is_real(*values: Number) -> bool:
    return any(isinstance(v, float) for v in values)


def apply(name: str, values: list[Any]) -> Number:
    match name:
        case "where":
            return plain(values[1] if values[0] else values[2])
        case "min":
            return min(map(plain, values))
        case "max":
            return max(map(plain, values))
        case "int":
            return in_range(int(values[0]))
        case "float":
            return float(values[0])
        case "abs":
            return wrapped(abs(values[0]))
        case "sign":
            return int(values[0] > 0) - int(values[0] < 0)
        case "pow":
            power: Number = values[0] ** values[1]
            return wrapped(power)
        case _:
            function: Callable[[float], float] = getattr(math, name)
            return float(function(float(values[0])))


def in_range(value: int) -> int:
    if abs(value) >= 2**31:
        raise OverflowError("the rules do not say what this real is as an integer")
    return value


def plain(value: Number) -> Number:
    return int(value) if isinstance(value, bool) else value


def random_word(seed: int, number: int, place: int) -> int:
    """A word of 64 bits for a seed, an occurrence and a combination: the "Squares" hash."""
    mask, key = 2**64 - 1, 0xD2B74E1C93A658F1
    state = seed + number * 0x9E3779B97F4A7C15
    y = (state * 6364136223846793005 + place) * key & mask
    z = y + key & mask
    x = y
    for term in (y, z, y):
        x = x * x + term & mask
        x = (x >> 32) | (x << 32 & mask)
    fourth = x * x + z & mask
    x = (fourth >> 32) | (fourth << 32 & mask)
    return fourth + ((x * x + y & mask) >> 32) & mask
