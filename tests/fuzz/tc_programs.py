"""Random programs of Tensor Comprehensions, and what they compute, by plain loops.

The ranges of a statement are found by the definition: in rounds, an index gets the values for
which every subscript that holds no other open index stays in range, tried one by one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from .tc_expressions import MAYBE, Expressions, Limit, Node, Run, Tensor
from .tc_numbers import REALS, REDUCTIONS, TYPES, Fault, Number, convert, identity, promote, wrap

Array = np.ndarray[Any, np.dtype[Any]]
Ranges = dict[str, tuple[int, int]]

WINDOW = range(-60, 61)


class Degenerate(Exception):
    """Some index has no values, which is an error for some sizes, and no points for others."""


@dataclass(eq=False)
class Statement:
    target: Tensor
    indices: list[str]
    operator: str
    value: Node
    ranges: Ranges
    held: bool
    """Whether the target was written before, at the indices from `low` to `high`."""
    low: list[int]
    high: list[int]


@dataclass(eq=False)
class Program:
    seed: int
    text: str
    arguments: list[Array]
    results: list[Tensor]
    written: list[Tensor]
    statements: list[Statement]
    started: list[str]
    """The results that go on from what the caller passes."""
    fault: str = ""
    """What must end in an error, be it in a statement or in a call."""
    certain: bool = False
    """Whether a result depends on it for sure."""
    peak: float = 0.0

    def run(self, given: Mapping[str, Array]) -> list[Array]:
        """The results, by loops; `given` are arrays for those that accumulate from the start."""
        self.peak = 0.0
        for tensor in self.written:
            tensor.cells.clear()
        before = {t.name: _cells(given[t.name], t.low) for t in self.results if t.name in given}
        for k, statement in enumerate(self.statements):
            later = {s.target.name for s in self.statements[k + 1 :]}
            target = statement.target
            self.certain = target in self.results and target.name not in later
            self.peak = max(self.peak, _execute(statement, before.pop(target.name, None)))
        return [_array(t) for t in self.results]


def _cells(array: Array, low: Sequence[int]) -> dict[tuple[int, ...], Number]:
    return {
        tuple(a + b for a, b in zip(point, low, strict=True)): value.item()
        for point, value in np.ndenumerate(array)
    }


def _points(low: Sequence[int], high: Sequence[int]) -> list[tuple[int, ...]]:
    return list(product(*(range(a, b + 1) for a, b in zip(low, high, strict=True))))


def _execute(statement: Statement, given: dict[tuple[int, ...], Number] | None) -> float:
    """Give the target its new elements; the largest real on the way."""
    target, operator = statement.target, statement.operator
    name = operator.rstrip("!")
    start: Number = convert(0, target.dtype)
    if name in REDUCTIONS:
        start = identity(name, target.dtype)
    cells = dict.fromkeys(_points(target.low, target.high), start)
    if given is not None:
        cells = given
    elif statement.held and operator in ("=", *REDUCTIONS):
        cells = dict(target.cells)
    others = [i for i in statement.ranges if i not in statement.indices]
    names = [*statement.indices, *others]
    peak = 0.0
    for values in product(*(range(a, b + 1) for a, b in map(statement.ranges.__getitem__, names))):
        run = Run(dict(zip(names, values, strict=True)))
        value = convert(statement.value.value(run), target.dtype)
        point = values[: len(statement.indices)]
        if statement.held and operator in REDUCTIONS and given is None:
            _check_held(statement, point)
        if name in REDUCTIONS:
            value = wrap(REDUCTIONS[name](cells[point], value), target.dtype)
        cells[point] = run.real(value)
        peak = max(peak, run.peak)
    target.cells.clear()
    target.cells.update(cells)
    return peak


def _check_held(statement: Statement, point: Sequence[int]) -> None:
    """What an accumulation goes on from must have been written before."""
    bounds = zip(statement.low, point, statement.high, strict=True)
    if not all(a <= x <= b for a, x, b in bounds):
        raise Fault(f"{statement.target.name}{list(point)}")


def _array(tensor: Tensor) -> Array:
    shape = [max(0, b - a + 1) for a, b in zip(tensor.low, tensor.high, strict=True)]
    array = np.zeros(shape, tensor.dtype)
    for point, value in tensor.cells.items():
        with np.errstate(over="ignore"):
            array[tuple(x - a for x, a in zip(point, tensor.low, strict=True))] = value
    return array


# ---------------------------------------------------------------------- ranges


def solve(
    names: Sequence[str], limits: Sequence[Limit], ranges: Ranges
) -> tuple[Ranges, list[str]]:
    """The ranges of all indices that can be inferred, and the indices that cannot."""
    ranges = dict(ranges)
    while True:
        if any(a > b for a, b in ranges.values()):
            raise Degenerate
        found: Ranges = {}
        for name in names:
            if name not in ranges:
                own = _values(name, limits, ranges)
                if own is not None:
                    found[name] = own
        if not found:
            return ranges, [n for n in names if n not in ranges]
        ranges |= found


def _values(name: str, limits: Sequence[Limit], ranges: Ranges) -> tuple[int, int] | None:
    alone = [x for x in limits if x.names - ranges.keys() == {name}]
    if not alone:
        return None
    good = [v for v in WINDOW if all(_holds(x, {name: v}, ranges) for x in alone)]
    if not good:
        raise Degenerate
    if good[0] == WINDOW[0] or good[-1] == WINDOW[-1]:
        return None
    return good[0], good[-1]


def _holds(limit: Limit, at: Mapping[str, int], ranges: Ranges) -> bool:
    """At the ends of all other indices: what limits are made of is monotone in each."""
    others = sorted(limit.names - at.keys())
    for ends in product(*(ranges[n] for n in others)):
        value = limit.value({**at, **dict(zip(others, ends, strict=True))})
        if not limit.low <= value <= limit.high:
            return False
    return True


# ---------------------------------------------------------------------- making


class Generator(Expressions):
    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.inputs: list[Tensor] = []
        self.arguments: list[Array] = []
        self.outputs: list[Tensor] = []
        self.statements: list[Statement] = []
        self.lines: list[str] = []
        self.annotated: dict[str, str] = {}
        self.started: list[str] = []

    def program(self, seed: int) -> Program:
        rng = self.rng
        for name in ("N", "M", "K")[: rng.choice([1, 2, 2, 3])]:
            self.sizes[name] = rng.choice([1, 2, 2, 3, 3, 4, 5, 6])
        for k in range(rng.choice([1, 2, 2, 3])):
            self.declare(f"A{k}", rng.choice(["float32"] * 6 + TYPES))
        if self.coin(0.4):
            self.declare("G", rng.choice(["int32", "int32", "int64", "int16"]))
        self.sizes = {n: v for n, v in self.sizes.items() if any(n in t.sizes for t in self.inputs)}
        wanted = rng.choice([1, 1, 2, 2, 3, 4])
        while len(self.statements) < wanted:
            lines = len(self.lines)
            try:
                self.statement()
            except Degenerate:
                del self.lines[lines:]
                self.annotated.pop(f"T{len(self.outputs)}", None)
        kept = [t for t in self.outputs if t.name in self.annotated or self.coin(0.8)]
        kept = kept or self.outputs[-1:]
        rng.shuffle(kept)
        started = [t.name for t in kept if t.name in self.started]
        made = Program(
            seed, self.text(kept), self.arguments, kept, self.outputs, self.statements, started
        )
        try:
            made.run({})
        except Fault as fault:
            made.fault = str(fault)
            made.certain &= made.fault != MAYBE
        return made

    def text(self, kept: Sequence[Tensor]) -> str:
        parameters = ", ".join(
            f"{_type(t.dtype)}{'(' + ','.join(t.sizes) + ')' if t.rank else ''} {t.name}"
            for t in self.inputs
        )
        results = [f"{self.annotated.get(t.name, '')} {t.name}".strip() for t in kept]
        lines = "\n  ".join(self.lines)
        return f"def f({parameters}) -> ({', '.join(results)}) {{\n  {lines}\n}}\n"

    def declare(self, name: str, dtype: str) -> None:
        rng = self.rng
        rank = rng.choice([0, 1, 1, 2, 2, 3] if name not in ("A0", "G") else [1, 1, 2])
        sizes = [rng.choice(sorted(self.sizes)) for _ in range(rank)]
        shape = [self.sizes[s] for s in sizes]
        sizes = [s if name == "A0" or self.coin(0.93) else str(self.sizes[s]) for s in sizes]
        array = _draw(shape, dtype, rng, small=name == "G")
        tensor = Tensor(name, dtype, rank, [0] * rank, [n - 1 for n in shape], sizes=sizes)
        tensor.cells.update(_cells(array, tensor.low))
        self.inputs.append(tensor)
        self.tensors.append(tensor)
        self.arguments.append(array)

    # ------------------------------------------------------------ statements

    def statement(self) -> None:
        rng = self.rng
        old = rng.choice(self.outputs) if self.outputs and self.coin(0.35) else None
        rank = old.rank if old else rng.choice([0, 1, 1, 2, 2, 3])
        names = rng.sample(["i", "j", "k", "l", "n", "x1"], 6)
        left, right = names[:rank], names[rank : rank + rng.choice([0, 0, 1, 1, 2])]
        self.indices, self.limits_found, self.lets = [*left, *right], [], []
        value = self.expression(rng.choice([0, 1, 1, 2, 2, 3]))
        if old and self.coin(0.4):
            held = self.read(old, [self.plain(old, k, n) for k, n in enumerate(left)])
            value = self.operate(rng.choice("+-*"), held, value)
        if old and promote(value.dtype, old.dtype) != old.dtype:
            value = self.narrowed(value, old)
        right = [n for n in right if n in value.names]
        clauses = [f"{name} = {node.text}" for name, node in self.lets]
        if self.coin(0.1) and self.tensors and left:
            self.indices = left
            clauses.append(f"exists {self.read(rng.choice(self.tensors)).text}")
        operator = self.operator(bool(right), old, value)
        self.finish(old, left, right, operator, value, clauses)

    def narrowed(self, value: Node, old: Tensor) -> Node:
        """The value in the type of what it is written to."""
        literal = value.text.lstrip("-").isdigit()
        exact = old.dtype in REALS or (value.exact and not literal)
        if exact:
            return self.cast_to(old.dtype, value)
        self.limits_found, self.lets = [], []
        return self.cast_to(old.dtype, self.number(1))

    def operator(self, reduced: bool, old: Tensor | None, value: Node) -> str:
        if not reduced and self.coin(0.6):
            return "="
        bools = (old.dtype if old else value.dtype) == "bool"
        name = self.rng.choice(["min=", "max="] if bools else ["+=", "+=", "*=", "min=", "max="])
        return name + "!" * self.coin(0.3 if old else 0.7)

    def finish(
        self,
        old: Tensor | None,
        left: list[str],
        right: list[str],
        operator: str,
        value: Node,
        clauses: list[str],
    ) -> None:
        """Find the ranges, with a clause for each index that has none, and write it all down."""
        name = operator.rstrip("!")
        limits = list(self.limits_found)
        if old and name in REDUCTIONS:
            self.limits_found = []
            for k, index in enumerate(left):
                self.plain(old, k, index)
            limits += self.limits_found
        names, ranges = [*left, *right], Ranges()
        for index in names:
            if self.coin(0.15):
                clauses.append(self.where(index, ranges))
        target = old or self.declare_result(len(left), value, name)
        equivalent = f" <=> library({target.name}, A0)" if self.coin(0.05) else ""
        self.lines.append("")
        while True:
            where = " where " + ", ".join(clauses) if clauses else ""
            place = target.name + (f"({', '.join(left)})" if left or self.coin(0.3) else "")
            self.lines[-1] = f"{place} {operator} {value.text}{equivalent}{where}"
            found, unsolved = solve(names, limits, ranges)
            if not unsolved:
                break
            clauses.append(self.where(unsolved[0], ranges))
        self.statements.append(Statement(
            target, left, operator, value, found, old is not None, list(target.low),
            list(target.high),
        ))  # fmt: skip
        self.write(target, old, [found[n] for n in left], name, value)

    def declare_result(self, rank: int, value: Node, name: str) -> Tensor:
        wider = [t for t in TYPES if promote(t, value.dtype) == t and t != "bool"]
        tensor = Tensor(f"T{len(self.outputs)}", value.dtype, rank)
        if self.coin(0.2):
            tensor.dtype = self.rng.choice(wider)
            dims = f"({','.join(self.rng.choice(sorted(self.sizes)) for _ in range(rank))})"
            self.annotated[tensor.name] = _type(tensor.dtype) + dims * (rank > 0)
        return tensor

    def write(
        self,
        target: Tensor,
        old: Tensor | None,
        own: Sequence[tuple[int, int]],
        name: str,
        value: Node,
    ) -> None:
        """Note what the target is from here on."""
        rounded = target.dtype in REALS and name in ("+=", "*=")
        target.exact = target.exact and value.exact and not rounded
        if old is None:
            target.low, target.high = [a for a, _ in own], [b for _, b in own]
            self.outputs.append(target)
            self.tensors.append(target)
            if self.statements[-1].operator == name != "=":
                self.started.append(target.name)  # goes on from what the caller passes
        else:
            target.low = [min(x, a) for x, (a, _) in zip(target.low, own, strict=True)]
            target.high = [max(x, b) for x, (_, b) in zip(target.high, own, strict=True)]

    def where(self, index: str, ranges: Ranges) -> str:
        """A range, as a clause."""
        for _ in range(20):
            low, high = self.bound(low=True), self.bound(low=False)
            first, end = int(low.value(Run({}))), int(high.value(Run({})))
            if first < end <= first + 8:
                break
        else:
            low, high, first, end = self.number(0), self.number(2), 0, 2
        ranges[index] = first, end - 1
        if self.coin(0.5):
            return f"{index} in {low.text}:{high.text}"
        return f"{index} = [{low.text}, {high.text}["

    def bound(self, low: bool) -> Node:
        self.indices = []
        if low:
            return self.number(self.rng.choice([0, 0, 0, 0, 1, 1, -1]))
        size = self.size()
        if self.coin(0.6):
            return size
        return self.operate(self.rng.choice("+-/"), size, self.number(self.rng.choice([1, 2])))


def _type(dtype: str) -> str:
    return {"float32": "float", "float64": "double"}.get(dtype, dtype)


def _draw(shape: Sequence[int], dtype: str, rng: random.Random, small: bool) -> Array:
    values = np.random.default_rng(rng.randrange(1 << 30))
    if dtype == "bool":
        return np.asarray(values.random(shape) < 0.5)
    whole = np.asarray(values.integers(0 if dtype[0] == "u" else -8, 9, shape))
    if dtype in REALS:
        return (whole / 4).astype(dtype)
    array = whole.astype(dtype)
    if not small and array.size and rng.random() < 0.5:
        info = np.iinfo(dtype)
        hostile = [info.max, info.min, info.max - 1, 0, 100, info.max // 2 + 1]
        for _ in range(rng.choice([1, 2, 4])):
            array.reshape(-1)[values.integers(array.size)] = rng.choice(hostile)
    return array


def make_program(seed: int) -> Program:
    """The program of a seed; the same each time."""
    generator = Generator(random.Random(f"tc {seed}"))
    return generator.program(seed)
