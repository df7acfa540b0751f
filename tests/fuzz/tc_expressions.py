"""Random expressions of Tensor Comprehensions: each a text, and a Python function of its value."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .tc_numbers import (
    ARITHMETIC,
    COMPARISONS,
    REALS,
    SIGNED,
    TYPES,
    Fault,
    Number,
    convert,
    larger,
    limits,
    promote,
    smaller,
    wrap,
)

Point = tuple[int, ...]


@dataclass(eq=False)
class Tensor:
    """`cells` are its elements by index; `low` and `high` bound the indices, as far as written."""

    name: str
    dtype: str
    rank: int
    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    cells: dict[Point, Number] = field(default_factory=dict)
    exact: bool = True
    """Whether executors must agree on every bit of its elements."""
    sizes: Sequence[str] = ()


@dataclass
class Run:
    """Where a statement is evaluated."""

    point: Mapping[str, int]
    peak: float = 0.0
    """The largest magnitude of a real on the way."""

    def real(self, value: Number) -> Number:
        if isinstance(value, float) and math.isfinite(value):
            self.peak = max(self.peak, abs(value))
        return value


Value = Callable[[Run], Number]


@dataclass(frozen=True, eq=False)
class Node:
    """`level` tells how tightly the outermost operator binds. A `place` is an `int32` of indices
    and sizes alone; others wrap."""

    text: str
    dtype: str
    value: Value
    level: int = 9
    exact: bool = True
    place: bool = False
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Limit:
    """A subscript with the bounds that it must keep; of a form that inference looks through."""

    names: frozenset[str]
    value: Callable[[Mapping[str, int]], int]
    low: int
    high: int


LEVELS = {"||": 1, "&&": 2, **dict.fromkeys(COMPARISONS, 3), "+": 4, "-": 4, "*": 5, "/": 5, "%": 5}
INDEX = "int32"
MAYBE = "division of an index by zero"


class Expressions:
    """Makes expressions over some indices; what is read adds to `limits_found`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sizes: dict[str, int] = {}
        self.tensors: list[Tensor] = []
        self.indices: list[str] = []
        self.limits_found: list[Limit] = []
        self.lets: list[tuple[str, Node]] = []

    def coin(self, chance: float) -> bool:
        return self.rng.random() < chance

    # ------------------------------------------------------------------- text

    def wrapped(self, node: Node, level: int) -> str:
        """The text of an operand of an operator of this level."""
        return f"({node.text})" if node.level < level or self.coin(0.05) else node.text

    def sign(self, operator: str) -> str:
        return self.rng.choice([f" {operator} ", f" {operator} ", operator, f"\n{operator} "])

    # ----------------------------------------------------------------- values

    def expression(self, depth: int) -> Node:
        if depth <= 0 or self.coin(0.15):
            return self.leaf()
        kinds = [self.binary] * 5 + [self.conditional, self.extremum, self.negation, self.cast]
        node = self.rng.choice([*kinds, self.call, self.condition])(depth - 1)
        return self.named(node) if self.coin(0.06) else node

    def named(self, node: Node) -> Node:
        """The value of a let, which is written into a clause."""
        name = f"t{len(self.lets)}"
        self.lets.append((name, node))
        return replace(node, text=name, level=9)

    def leaf(self) -> Node:
        draw = self.rng.random()
        if draw < 0.65 and self.tensors:
            return self.read(self.rng.choice(self.tensors))
        return self.literal() if draw < 0.8 else self.place(1)

    def literal(self) -> Node:
        if self.coin(0.4):
            text = self.rng.choice(["0.5", "2.", ".25", "1e0", "25E-2", "3.0", "-1.5", "0x1.8p1"])
            number = float.fromhex(text) if "x" in text else float(text)
            return Node(text, "float32", lambda _: number, 8 if text[0] == "-" else 9)
        return self.whole()

    def whole(self) -> Node:
        if self.coin(0.05):
            return Node("0x10", INDEX, lambda _: 16, place=True)
        return self.number(self.rng.choice([0, 1, 2, 3, 5, 7, -1, -3]))

    def number(self, number: int) -> Node:
        text = str(number)
        return Node(text, INDEX, lambda _: number, 8 if text[0] == "-" else 9, place=True)

    def place(self, depth: int) -> Node:
        """An `int32` of indices, sizes and numbers, small enough not to overflow."""
        if depth <= 0 or self.coin(0.4):
            return self.place_leaf()
        a, b = self.place(depth - 1), self.place(depth - 1)
        return self.operate(self.rng.choice("+-*/%"), a, b)

    def place_leaf(self) -> Node:
        draw = self.rng.random()
        if draw < 0.5 and self.indices:
            return self.index(self.rng.choice(self.indices))
        if draw < 0.8 and self.sizes:
            return self.size()
        return self.whole()

    def index(self, name: str) -> Node:
        return Node(name, INDEX, lambda run: run.point[name], place=True, names=frozenset({name}))

    def size(self) -> Node:
        """A size by its name, or as `T.k`."""
        some = [t for t in self.tensors if t.rank]
        if some and self.coin(0.3):
            tensor = self.rng.choice(some)
            k = self.rng.randrange(tensor.rank)
            number = tensor.high[k] - tensor.low[k] + 1
            return Node(f"{tensor.name}.{k}", INDEX, lambda _: number, place=True)
        name = self.rng.choice(sorted(self.sizes))
        if name in self.indices:
            return self.whole()
        number = self.sizes[name]
        return Node(name, INDEX, lambda _: number, place=True)

    def converted(self, node: Node, dtype: str) -> Value:
        """The value of an operand in a type; index arithmetic is exact until it is converted."""
        if node.dtype == dtype and not node.place:
            return node.value
        return lambda run: run.real(convert(node.value(run), dtype))

    def meet(self, a: Node, b: Node, bools: bool = True) -> tuple[str, Value, Value]:
        dtype = promote(a.dtype, b.dtype)
        if dtype == "bool" and not bools:
            dtype = "uint8"
        return dtype, self.converted(a, dtype), self.converted(b, dtype)

    def binary(self, depth: int) -> Node:
        operator = self.rng.choice("++--**/%")
        a, b = self.expression(depth), self.expression(depth)
        if promote(a.dtype, b.dtype) in REALS and operator in "/%" and not (a.exact and b.exact):
            operator = "-"
        return self.operate(operator, a, b)

    def operate(self, operator: str, a: Node, b: Node) -> Node:
        level = LEVELS[operator]
        compute = ARITHMETIC[operator]
        if operator in "/%" and b.text in ("0", "(0)"):
            operator, compute, level = "*", ARITHMETIC["*"], 5  # refused at once
        sign = self.sign(operator)
        text = self.wrapped(a, level) + sign + self.wrapped(b, level + 1)
        names = a.names | b.names
        if a.place and b.place:
            return Node(text, INDEX, lambda run: _of_indices(compute, a.value(run), b.value(run)),
                        level, place=True, names=names)  # fmt: skip
        dtype, x, y = self.meet(a, b, bools=False)
        exact = a.exact and b.exact and dtype not in REALS
        return Node(text, dtype, lambda run: run.real(wrap(compute(x(run), y(run)), dtype)),
                    level, exact, names=names)  # fmt: skip

    def conditional(self, depth: int) -> Node:
        test, a, b = self.condition(depth), self.expression(depth), self.expression(depth)
        dtype, x, y = self.meet(a, b)
        text = f"{self.wrapped(test, 1)} ? {a.text} : {b.text}"
        return Node(text, dtype, lambda run: x(run) if test.value(run) else y(run), 0,
                    a.exact and b.exact, names=test.names | a.names | b.names)  # fmt: skip

    def condition(self, depth: int) -> Node:
        """A bool; reals are compared only where all agree on them."""
        draw = self.rng.random()
        if depth > 0 and draw < 0.25:
            return self.logical(depth - 1)
        if depth > 0 and draw < 0.35:
            test = self.condition(depth - 1)
            return Node(f"!{self.wrapped(test, 8)}", "bool", lambda run: not test.value(run), 8,
                        names=test.names)  # fmt: skip
        a, b = self.exact(depth - 1), self.exact(depth - 1)
        operator = self.rng.choice(list(COMPARISONS))
        compare = COMPARISONS[operator]
        text = self.wrapped(a, 3) + self.sign(operator) + self.wrapped(b, 4)
        if a.place and b.place:
            x, y = a.value, b.value
        else:
            _, x, y = self.meet(a, b)
        return Node(text, "bool", lambda run: compare(x(run), y(run)), 3, names=a.names | b.names)

    def exact(self, depth: int) -> Node:
        for _ in range(5):
            kept = len(self.limits_found), len(self.lets)
            node = self.expression(depth)
            if node.exact:
                return node
            del self.limits_found[kept[0] :], self.lets[kept[1] :]
        return self.place_leaf()

    def logical(self, depth: int) -> Node:
        a, b = self.condition(depth), self.condition(depth)
        operator = self.rng.choice(["&&", "||"])
        level = LEVELS[operator]
        text = self.wrapped(a, level) + self.sign(operator) + self.wrapped(b, level + 1)
        both = operator == "&&"

        def value(run: Run) -> Number:
            first = a.value(run)
            return b.value(run) if first == both else first

        return Node(text, "bool", value, level, names=a.names | b.names)

    def extremum(self, depth: int) -> Node:
        a, b = self.expression(depth), self.expression(depth)
        name, compute = self.rng.choice([("min", smaller), ("max", larger)])
        text, names = f"{name}({a.text}, {b.text})", a.names | b.names
        if a.place and b.place:
            return Node(text, INDEX, lambda run: compute(a.value(run), b.value(run)), place=True,
                        names=names)  # fmt: skip
        dtype, x, y = self.meet(a, b)
        return Node(text, dtype, lambda run: compute(x(run), y(run)), 9, a.exact and b.exact,
                    names=names)  # fmt: skip

    def negation(self, depth: int) -> Node:
        a = self.expression(depth)
        text = f"-{self.wrapped(a, 8)}"
        if a.place:
            return Node(text, INDEX, lambda run: -a.value(run), 8, place=True, names=a.names)
        dtype = "uint8" if a.dtype == "bool" else a.dtype
        x = self.converted(a, dtype)
        return Node(text, dtype, lambda run: wrap(-x(run), dtype), 8, a.exact, names=a.names)

    def cast(self, depth: int) -> Node:
        dtype = self.rng.choice(TYPES)
        return self.cast_to(dtype, self.exact(depth) if dtype not in REALS else
                            self.expression(depth))  # fmt: skip

    def cast_to(self, dtype: str, a: Node) -> Node:
        """A conversion; a literal that does not fit would be refused."""
        if a.text.removeprefix("-").isdigit() and dtype not in ("bool", *REALS):
            low, high = limits(dtype)
            dtype = dtype if low <= int(a.text) <= high else "int64"
        name = {"float32": "float", "float64": "double"}.get(dtype, dtype)
        return Node(f"{name}({a.text})", dtype, self.converted(a, dtype), 9, a.exact,
                    names=a.names)  # fmt: skip

    def call(self, depth: int) -> Node:
        """A function that is no worse where its arguments are rounded."""
        a = self.expression(depth)
        name = self.rng.choice(["fabs", "tanh", "fmax", "fmin", "fma"])
        arguments = [a, *(self.expression(depth) for _ in range(_ARGUMENTS[name] - 1))]
        dtype = "float32"
        for argument in arguments:
            dtype = promote(dtype, argument.dtype)
        values = [self.converted(argument, dtype) for argument in arguments]
        compute = _FUNCTIONS[name]
        text = f"{name}({', '.join(x.text for x in arguments)})"
        names = frozenset[str]().union(*(x.names for x in arguments))
        return Node(text, dtype, lambda run: run.real(compute(*(v(run) for v in values))), 9, False,
                    names=names)  # fmt: skip

    # ------------------------------------------------------------------ reads

    def read(self, tensor: Tensor, subscripts: Sequence[Node] | None = None) -> Node:
        if subscripts is None:
            subscripts = [self.subscript(tensor, k) for k in range(tensor.rank)]
        text = tensor.name
        if subscripts or self.coin(0.3):
            text += f"({', '.join(s.text for s in subscripts)})"
        low, high = list(tensor.low), list(tensor.high)
        cells = tensor.cells

        def value(run: Run) -> Number:
            point = tuple(int(s.value(run)) for s in subscripts)
            if not all(a <= x <= b for a, x, b in zip(low, point, high, strict=True)):
                raise Fault(f"{tensor.name}{list(point)}")
            return run.real(cells[point])

        names = frozenset[str]().union(*(s.names for s in subscripts))
        return Node(text, tensor.dtype, value, 9, tensor.exact, names=names)

    def subscript(self, tensor: Tensor, k: int) -> Node:
        draw = self.rng.random()
        if draw < 0.75 and self.indices:
            return self.limited(tensor, k, self.affine())
        if draw < 0.85:
            place = self.rng.randint(tensor.low[k], max(tensor.low[k], tensor.high[k]))
            return self.number(place)
        return self.clamped(tensor, k)

    def plain(self, tensor: Tensor, k: int, name: str) -> Node:
        return self.limited(tensor, k, self.index(name))

    def limited(self, tensor: Tensor, k: int, node: Node) -> Node:
        """A subscript that inference looks through, seeing which indices it depends on."""

        def value(at: Mapping[str, int]) -> int:
            return int(node.value(Run(at)))

        start = dict.fromkeys(node.names, 0)
        names = {n for n in node.names if len({value({**start, n: x}) for x in range(9)}) > 1}
        self.limits_found.append(
            Limit(frozenset(names), lambda at: value(start | dict(at)), tensor.low[k],
                  tensor.high[k])
        )  # fmt: skip
        return node

    def affine(self) -> Node:
        """An index, often with something done to it."""
        node = self.index(self.rng.choice(self.indices))
        for _ in range(self.rng.choice([0, 0, 0, 0, 1, 1, 2])):
            other = self.rng.choice([self.whole, self.size_or_whole, self.other_index])()
            kind = self.rng.choice(["+", "+", "-", "*", "rest", "/"])
            if kind == "*":
                node = self.operate("*", self.positive(), node)
            elif kind == "/":
                node = self.operate("/", node, self.positive())
            elif kind == "rest":
                node = self.operate("-", other, node)
            else:
                node = self.operate(kind, node, other)
        return node

    def positive(self) -> Node:
        return self.number(self.rng.choice([1, 2, 2, 3]))

    def size_or_whole(self) -> Node:
        return self.size() if self.sizes else self.whole()

    def other_index(self) -> Node:
        return self.index(self.rng.choice(self.indices))

    def clamped(self, tensor: Tensor, k: int) -> Node:
        """Any integer, cut to the range: what is gathered, for one."""
        low, high = tensor.low[k], tensor.high[k]
        node = self.integer()
        if low == 0 and high >= 0 and self.coin(0.4):
            return self.operate("%", node, self.extent(tensor, k))
        return Node(f"max({low}, min({node.text}, {high}))", INDEX,
                    lambda run: max(low, min(int(node.value(run)), high)),
                    names=node.names)  # fmt: skip

    def extent(self, tensor: Tensor, k: int) -> Node:
        number = tensor.high[k] - tensor.low[k] + 1
        return Node(f"{tensor.name}.{k}", INDEX, lambda _: number, place=True)

    def integer(self) -> Node:
        """An integer that is small in magnitude, and of a signed type."""
        some = [t for t in self.tensors if t.dtype in SIGNED[1:] and t.name[0] == "G"]
        if some and self.coin(0.7):
            return self.read(self.rng.choice(some))
        return self.place(1)


def _of_indices(compute: Callable[[Number, Number], Number], x: Number, y: Number) -> Number:
    """Index arithmetic is simplified: a division by zero may turn out not to matter."""
    try:
        return compute(x, y)
    except Fault:
        raise Fault(MAYBE) from None


_ARGUMENTS = {"fabs": 1, "tanh": 1, "fmax": 2, "fmin": 2, "fma": 3}


def _tanh(x: Number) -> Number:
    return math.tanh(x)


_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "fabs": abs,
    "tanh": _tanh,
    "fmax": lambda x, y: y if x != x else x if y != y else max(x, y),
    "fmin": lambda x, y: y if x != x else x if y != y else min(x, y),
    "fma": lambda x, y, z: x * y + z,
}
