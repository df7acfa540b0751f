"""Range inference by the definition of its rounds, at given sizes, by trying all values.

Nothing here is shared with what it tests but the tree of the program. An index may be anything in
`WINDOW`; a set of values that reaches its edge is taken to have no bound there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from ricci.frontends.tc import program as tc
from ricci.ir.nodes import Symbol

WINDOW = range(-70, 71)

Interval = tuple[int, int]
Env = Mapping[tc.IndexVariable, int]


class Vague(Exception):
    """A subscript that only run time knows, or of a form that says nothing of its indices."""


class Unsolved(Exception):
    """Some index has no range."""


class Empty(Exception):
    """Some index has no values: what is for all of them says nothing then."""


@dataclass
class Limit:
    """One end of one subscript: `low <= value` or `value <= high`."""

    value: tc.Expr
    low: int | None
    high: int | None
    mentions: frozenset[tc.IndexVariable]
    sure: bool

    def holds(self, env: Env, at: Oracle) -> bool:
        try:
            value = at.value(self.value, env)
        except ZeroDivisionError:
            return False
        low = self.low is None or self.low <= value
        return low and (self.high is None or value <= self.high)


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
    "mod": operator.mod, "min": min, "max": max,
}  # fmt: skip


@dataclass
class Oracle:
    """Infers the ranges of a function at sizes."""

    sizes: Mapping[Symbol, int]
    indices: dict[tuple[tc.Statement, tc.IndexVariable], Interval] = field(default_factory=dict)
    tensors: dict[tc.Variable, tuple[Interval, ...]] = field(default_factory=dict)
    limits: dict[tc.Statement, list[Limit]] = field(default_factory=dict)

    def run(self, function: tc.Function) -> None:
        for v in function.parameters:
            shape = [n if isinstance(n, int) else self.sizes[n] for n in v.shape or ()]
            self.tensors[v] = tuple((0, n - 1) for n in shape)
        for statement in function.statements:
            self.infer(statement)

    def infer(self, statement: tc.Statement) -> None:
        ranges = {i: (self.value(a, {}), self.value(b, {}) - 1) for i, a, b in statement.ranges}
        limits = self.limits[statement] = list(self.find(statement))
        free = [i for i in (*statement.indices, *statement.reduced) if i not in ranges]
        while free:
            if any(low > high for low, high in ranges.values()):
                raise Empty
            usable = [x for x in limits if not is_vague(x.value)]
            solved = {i: r for i in free if (r := self.solve(i, usable, ranges)) is not None}
            if not solved:
                raise Unsolved
            ranges |= solved
            free = [i for i in free if i not in ranges]
        self.indices |= {(statement, i): r for i, r in ranges.items()}
        own = tuple(ranges[i] for i in statement.indices)
        old = self.tensors.get(statement.target, own)
        hull = ((min(a, c), max(b, d)) for (a, b), (c, d) in zip(old, own, strict=True))
        self.tensors[statement.target] = tuple(hull)

    def solve(
        self,
        index: tc.IndexVariable,
        limits: list[Limit],
        ranges: Mapping[tc.IndexVariable, Interval],
    ) -> Interval | None:
        """The values of an index for which all that mentions it alone holds, if bounded."""
        alone = [x for x in limits if x.mentions - ranges.keys() == {index}]
        good = [v for v in WINDOW if all(self.all_hold(x, {index: v}, ranges) for x in alone)]
        if not good:
            raise Empty
        if good[0] == WINDOW[0] or good[-1] == WINDOW[-1]:
            return None
        assert good == list(range(good[0], good[-1] + 1)), "the values of an index have a hole"
        return good[0], good[-1]

    def all_hold(self, limit: Limit, env: Env, ranges: Mapping[tc.IndexVariable, Interval]) -> bool:
        others = [i for i in limit.mentions if i not in env]
        values = [range(ranges[i][0], ranges[i][1] + 1) for i in others]
        points = (dict(zip(others, point, strict=True)) for point in product(*values))
        return all(limit.holds({**env, **point}, self) for point in points)

    # ----------------------------------------------------------------- programs

    def find(self, statement: tc.Statement) -> Iterator[Limit]:
        reads = list(reads_in(statement.value, True))
        reads += [(read, False) for e in statement.exists for read, _ in reads_in(e, True)]
        if statement.op != "set" and not statement.first:
            own = tuple(tc.At(i) for i in statement.indices)
            reads.append((tc.Read(statement.target, own), not statement.fresh))
        for read, sure in reads:
            if read.tensor in self.tensors:
                own_ranges = self.tensors[read.tensor]
                for value, (low, high) in zip(read.subscripts, own_ranges, strict=True):
                    mentions = frozenset(indices_in(value))
                    yield Limit(value, low, None, mentions, sure)
                    yield Limit(value, None, high, mentions, sure)

    def value(self, expr: tc.Expr, env: Env) -> int:
        match expr:
            case tc.Constant():
                return int(expr.value)
            case tc.Size():
                return self.sizes[expr.symbol]
            case tc.Extent():
                low, high = self.tensors[expr.tensor][expr.dimension]
                return high - low + 1
            case tc.At():
                return env[expr.index]
            case tc.Let():
                return self.value(expr.value, env)
            case tc.Convert():
                return self.value(expr.operand, env)
            case tc.Unary(op="neg"):
                return -self.value(expr.operand, env)
            case tc.Binary():
                lhs, rhs = self.value(expr.lhs, env), self.value(expr.rhs, env)
                return _OPERATORS[expr.op](lhs, rhs)
            case _:
                raise Vague

    def unsafe(self, statement: tc.Statement, grown: Env | None = None) -> bool:
        """Whether some read is out of range in the statement's domain, or in that in which an
        index has one value more, of all reads then."""
        ranges = {i: r for (s, i), r in self.indices.items() if s is statement}
        for i, value in (grown or {}).items():
            ranges[i] = value, value
        if any(low > high for low, high in ranges.values()):
            return False
        limits = [x for x in self.limits[statement] if grown or x.sure]
        return not all(self.all_hold(x, {}, ranges) for x in limits if not is_vague(x.value))


def reads_in(expr: tc.Expr, sure: bool) -> Iterator[tuple[tc.Read, bool]]:
    """The reads in an expression, and whether each is made at every point."""
    if isinstance(expr, tc.Read):
        yield expr, sure
    is_logic = isinstance(expr, tc.Binary) and expr.op in ("and", "or")
    guarded = isinstance(expr, tc.Select) or is_logic
    for n, part in enumerate(tc.children(expr)):
        yield from reads_in(part, sure and not (guarded and n > 0))


def indices_in(expr: tc.Expr) -> Iterator[tc.IndexVariable]:
    if isinstance(expr, tc.At):
        yield expr.index
    for part in tc.children(expr):
        yield from indices_in(part)


def is_vague(expr: tc.Expr) -> bool:
    """Whether an expression has a part of which only bounds are known."""
    vague = isinstance(expr, (tc.Read, tc.Select, tc.Call))
    remainder = isinstance(expr, tc.Binary) and expr.op == "mod"
    return vague or remainder or any(map(is_vague, tc.children(expr)))
