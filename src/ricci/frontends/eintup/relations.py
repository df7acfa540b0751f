"""Relations between integer unknowns, and what they leave of the intervals of these.

Narrowing never loses a solution: each operation is followed forwards (from its operands to its
value) and backwards (from what the value must be to the operands). Once every unknown
has a single value, it decides exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from ...records import dataclass

Interval = tuple[int, int]
"""Smallest and largest value, both included."""

INFINITY = 1 << 100
"""Stands for no bound; intermediate values beyond it are cut off."""

ANY: Interval = (-INFINITY, INFINITY)

_MOST_STEPS = 50
"""How often one relation is narrowed in one go: bounds that creep are left to a search."""

Operator = Literal["+", "-", "*", "//", "//^", "%", "min", "max"]
Comparator = Literal["<", "<=", "==", "!=", ">=", ">"]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A rank, an extent: an integer with an identity."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Operation:
    operator: Operator
    lhs: Expr
    rhs: Expr


Expr = int | Unknown | Operation


@dataclass(frozen=True, slots=True)
class Relation:
    """`lhs comparator rhs`."""

    lhs: Expr
    comparator: Comparator
    rhs: Expr

    def unknowns(self) -> tuple[Hashable, ...]:
        return tuple(dict.fromkeys([*unknowns(self.lhs), *unknowns(self.rhs)]))


Box = dict[Hashable, Interval]
"""The interval of each unknown; one that is missing may be anything."""


class Empty(Exception):
    """No value is left: the relations contradict the intervals."""


def total(terms: Iterable[Expr]) -> Expr:
    """The sum of any number of terms."""
    result: Expr = 0
    for term in terms:
        result = term if result == 0 else Operation("+", result, term)
    return result


def unknowns(expr: Expr) -> Iterator[Hashable]:
    if isinstance(expr, Unknown):
        yield expr.key
    elif isinstance(expr, Operation):
        yield from unknowns(expr.lhs)
        yield from unknowns(expr.rhs)


def holds(relation: Relation, values: Mapping[Hashable, int]) -> bool:
    """Whether a relation holds; it does not where a side has no value."""
    try:
        _narrow_relation(relation, {key: (v, v) for key, v in values.items()})
    except Empty:
        return False
    return True


def value(expr: Expr, box: Box) -> int | None:
    """The value of an expression whose unknowns are known; `None` without one."""
    try:
        low, high = bounds(expr, box)
    except Empty:
        return None
    return low if low == high else None


class System:
    """Relations, and which unknowns each speaks of; `work` counts how many were narrowed."""

    def __init__(self, relations: Sequence[Relation]) -> None:
        self.relations = tuple(relations)
        self.work = 0
        self._unknowns = [r.unknowns() for r in relations]
        self._using: dict[Hashable, list[int]] = {}
        for number, keys in enumerate(self._unknowns):
            for key in keys:
                self._using.setdefault(key, []).append(number)

    def uses(self, key: Hashable) -> bool:
        return key in self._using

    def narrow(self, box: Box, changed: Hashable | None = None) -> None:
        """Narrow the intervals in place, by all relations or by what one change leads to.

        Raises `Empty` if no value is left; the box is then of no more use.
        """
        first = range(len(self.relations)) if changed is None else self._using.get(changed, ())
        pending = deque(first)
        waiting = set(pending)
        steps = _MOST_STEPS * (len(self.relations) + 1)
        while pending and steps:
            steps -= 1
            self.work += 1
            number = pending.popleft()
            waiting.discard(number)
            before = [box.get(key, ANY) for key in self._unknowns[number]]
            _narrow_relation(self.relations[number], box)
            for key, old in zip(self._unknowns[number], before, strict=True):
                if box.get(key, ANY) != old:
                    more = [n for n in self._using[key] if n not in waiting]
                    pending.extend(more)
                    waiting.update(more)


# ------------------------------------------------------------------- forwards


def bounds(expr: Expr, box: Box) -> Interval:
    """What an expression can be, at most; raises `Empty` if it has no value."""
    if isinstance(expr, int):
        return expr, expr
    if isinstance(expr, Unknown):
        return box.get(expr.key, ANY)
    a, b = bounds(expr.lhs, box), bounds(expr.rhs, box)
    match expr.operator:
        case "+":
            return _cut(a[0] + b[0], a[1] + b[1])
        case "-":
            return _cut(a[0] - b[1], a[1] - b[0])
        case "*":
            products = [x * y for x in a for y in b]
            return _cut(min(products), max(products))
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case _:
            return _quotient(expr.operator, a, b)


def _quotient(operator: Operator, a: Interval, b: Interval) -> Interval:
    """`// //^ %`; a divisor that can be negative is only followed once it is known."""
    divisor = _without_zero(b)
    if operator == "%":
        return _remainder(a, divisor)
    if divisor[0] < 0 < divisor[1]:
        return ANY
    corners = [x // y if operator == "//" else -(-x // y) for x in a for y in divisor]
    return _cut(min(corners), max(corners))


def _remainder(a: Interval, b: Interval) -> Interval:
    if b[0] == b[1] and a[0] // b[0] == a[1] // b[0]:
        return a[0] % b[0], a[1] % b[0]
    if b[0] > 0:
        return (a[0], a[1]) if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)
    return (b[0] + 1, 0) if b[1] < 0 else ANY


def _without_zero(b: Interval) -> Interval:
    """A divisor is not zero."""
    low, high = b[0] + (b[0] == 0), b[1] - (b[1] == 0)
    if low > high:
        raise Empty
    return low, high


def _cut(low: int, high: int) -> Interval:
    if -INFINITY <= low <= high <= INFINITY:
        return low, high
    return max(min(low, INFINITY), -INFINITY), max(min(high, INFINITY), -INFINITY)


# ------------------------------------------------------------------ backwards


def _narrow_relation(relation: Relation, box: Box) -> None:
    a, b = bounds(relation.lhs, box), bounds(relation.rhs, box)
    match relation.comparator:
        case "==":
            _restrict(relation.lhs, b, box)
            _restrict(relation.rhs, a, box)
        case "<=" | "<":
            gap = int(relation.comparator == "<")
            _restrict(relation.lhs, (-INFINITY, b[1] - gap), box)
            _restrict(relation.rhs, (a[0] + gap, INFINITY), box)
        case ">=" | ">":
            gap = int(relation.comparator == ">")
            _restrict(relation.lhs, (b[0] + gap, INFINITY), box)
            _restrict(relation.rhs, (-INFINITY, a[1] - gap), box)
        case "!=":
            _restrict_other(relation.lhs, a, b, box)
            _restrict_other(relation.rhs, b, a, box)


def _restrict_other(expr: Expr, own: Interval, other: Interval, box: Box) -> None:
    """The expression is not the one value of the other side."""
    if other[0] == other[1] and other[0] in own:
        low, high = own[0] + (own[0] == other[0]), own[1] - (own[1] == other[0])
        _restrict(expr, (low, high), box)


def _restrict(expr: Expr, wanted: Interval, box: Box) -> None:
    """Narrow the unknowns of an expression, whose value must lie in an interval."""
    own = bounds(expr, box)
    low, high = max(own[0], wanted[0]), min(own[1], wanted[1])
    if low > high:
        raise Empty
    if isinstance(expr, Unknown):
        box[expr.key] = (low, high)
    elif isinstance(expr, Operation) and (low, high) != own:
        _restrict_operands(expr, (low, high), box)


def _restrict_operands(expr: Operation, wanted: Interval, box: Box) -> None:
    a, b = bounds(expr.lhs, box), bounds(expr.rhs, box)
    low, high = wanted
    match expr.operator:
        case "+":
            _restrict(expr.lhs, (low - b[1], high - b[0]), box)
            _restrict(expr.rhs, (low - a[1], high - a[0]), box)
        case "-":
            _restrict(expr.lhs, (low + b[0], high + b[1]), box)
            _restrict(expr.rhs, (a[0] - high, a[1] - low), box)
        case "*":
            _restrict_factor(expr.lhs, b, wanted, box)
            _restrict_factor(expr.rhs, a, wanted, box)
        case "min":
            _restrict(expr.lhs, (low, high if b[0] > high else INFINITY), box)
            _restrict(expr.rhs, (low, high if a[0] > high else INFINITY), box)
        case "max":
            _restrict(expr.lhs, (low if b[1] < low else -INFINITY, high), box)
            _restrict(expr.rhs, (low if a[1] < low else -INFINITY, high), box)
        case _:
            _restrict_dividend(expr, a, b, wanted, box)


def _restrict_factor(factor: Expr, other: Interval, wanted: Interval, box: Box) -> None:
    if wanted[0] > 0 or wanted[1] < 0:
        other = _without_zero(other)
    if other[0] > 0:
        low = min(-(-wanted[0] // y) for y in other)
        high = max(wanted[1] // y for y in other)
        _restrict(factor, (low, high), box)


def _restrict_dividend(expr: Operation, a: Interval, b: Interval, want: Interval, box: Box) -> None:
    """`x // y` is in `[low, high]` for x in `[low * y, (high + 1) * y - 1]`; others alike."""
    if b[0] < 0:
        return
    divisor = _without_zero(b)
    _restrict(expr.rhs, divisor, box)
    if expr.operator == "//":
        low = min(want[0] * y for y in divisor)
        high = max((want[1] + 1) * y for y in divisor) - 1
        _restrict(expr.lhs, (low, high), box)
    elif expr.operator == "//^":
        low = min((want[0] - 1) * y for y in divisor) + 1
        high = max(want[1] * y for y in divisor)
        _restrict(expr.lhs, (low, high), box)
    elif a[0] >= 0 and a[1] < divisor[0]:
        _restrict(expr.lhs, want, box)
