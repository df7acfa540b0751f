"""What random formulas are made of: expressions as text with a plain Python function each."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
Fault = tuple[str, int, int] | str
"""Tensor, dimension and index of an access out of range, or `zero` for a division."""


Guard = tuple[bool, "Callable[[Run], bool]"]
"""Whether its index reads a tensor, and whether it lets a point through."""


@dataclass
class Run:
    """The state of an evaluation: the point, the tensors, the locals, and what was seen."""

    tensors: dict[str, list[Array]]
    point: dict[str, Any] = field(default_factory=dict)
    locals: dict[str, Any] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    """What was out of range, or divided by zero, at this point."""
    largest: float = 1.0
    """The largest absolute value of a real on the way."""


@dataclass
class Node:
    """An expression: `run` gives its value, `guards` those of its accesses, inner before outer."""

    text: str
    dtype: str
    run: Callable[[Run], Any]
    guards: list[Guard] = field(default_factory=list)
    most: float = 4.0
    """A bound of the absolute value."""
    grain: float = 0.25
    """What the value is a multiple of, if it is a real; 0 if of nothing."""

    @property
    def reads(self) -> bool:
        """Whether an element occurs in it; the composer may know the value otherwise."""
        return bool(re.search(r"\bv\d|\b(x\d|y\d|at)\[", self.text.replace("][", "")))

    @property
    def exact(self) -> bool:
        return self.dtype != "real" or (self.grain > 0 and self.most / self.grain < 2**22)


@dataclass
class Tensor:
    """A parameter of the operator; `names` are the graph's tensors, several for a pack."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    extents: list[str]
    names: list[str]
    packed: bool = False
    arrays: list[Array] = field(default_factory=list)
    rank_packed: str = ""
    """The name of the extents if they are one, `s..`."""


@dataclass
class Index:
    """A loop index; `sizes` has several if it is a pack of indices."""

    name: str
    bound: str
    sizes: tuple[int, ...]
    packed: bool = False

    @property
    def text(self) -> str:
        return f"{self.name} < {self.bound}"


@dataclass
class Statement:
    text: str
    targets: list[tuple[Tensor, Callable[[Run], int], list[Callable[[Run], Any]], Node]]
    op: str
    domain: list[Index]
    guards: list[Guard]
    locals: list[tuple[str, Node]]
    condition: Node | None


@dataclass
class Program:
    """An operator, how a graph invokes it, its arguments, and what it must give."""

    seed: int
    text: str
    inputs: list[tuple[str, str, Array]]
    """Name, declaration and value of the graph's inputs."""
    call: str
    outputs: list[tuple[str, str]]
    """Name and type of the graph's outputs."""
    expected: list[Array]
    faults: set[Fault]
    certain: bool
    """Whether one of the faults must be reported."""
    risky: bool
    """Whether there may be indices that are always out of range, at places never reached."""
    tolerance: float


# --------------------------------------------------------------------- arithmetic


def wrap(value: int) -> int:
    """An integer in 64 bits."""
    return (int(value) + 2**63) % 2**64 - 2**63


def to_int(value: float) -> int:
    return 0 if math.isnan(value) else int(max(-(2.0**63), min(2.0**63 - 1024, value)))


INT_OPS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: wrap(a + b), "-": lambda a, b: wrap(a - b), "*": lambda a, b: wrap(a * b),
    "<<": min, ">>": max, "/": lambda a, b: wrap(a // b),
    "\\": lambda a, b: wrap(-(-a // b)), "%": lambda a, b: a % b,
}  # fmt: skip
REAL_OPS: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "<<": min, ">>": max,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip
BOOL_OPS: dict[str, Callable[[bool, bool], bool]] = {
    "&&": lambda a, b: a and b, "||": lambda a, b: a or b, "^": lambda a, b: a != b,
    "=>": lambda a, b: not a or b,
}  # fmt: skip
SMOOTH: dict[str, Callable[[float], float]] = {
    "sin": math.sin, "cos": math.cos, "tanh": math.tanh, "atan": math.atan, "erf": math.erf,
}  # fmt: skip
ROUNDING: dict[str, Callable[[float], float]] = {
    "floor": math.floor, "ceil": math.ceil, "abs": abs, "sign": lambda x: (x > 0) - (x < 0),
    "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x), "frac": lambda x: x - int(x),
}  # fmt: skip
REDUCTIONS: dict[str, tuple[Callable[[Any, Any], Any], dict[str, Any]]] = {
    "+=": (lambda a, b: a + b, {"int": 0, "real": 0.0}),
    "*=": (lambda a, b: a * b, {"int": 1, "real": 1.0}),
    "<=": (min, {"int": 2**63 - 1, "real": math.inf}),
    ">=": (max, {"int": -(2**63), "real": -math.inf}),
    "&=": (lambda a, b: a and b, {"bool": True}),
    "|=": (lambda a, b: a or b, {"bool": False}),
}
NUMPY = {"int": "int64", "real": "float64", "bool": "bool"}


def seen(run: Run, value: Any) -> Any:
    """The value, whose size is noted if it is a real."""
    if isinstance(value, float) and math.isfinite(value):
        run.largest = max(run.largest, abs(value))
    return value


def packed_node(text: str, run: Callable[[Run], Any], guards: list[Guard] | None = None) -> Node:
    return Node(text, "packed", run, guards or [])


def join(subscripts: Sequence[Node]) -> str:
    """`i,j`, with a comma after one alone; a pack of subscripts needs none."""
    text = ",".join(s.text for s in subscripts)
    return f"{text}," if len(subscripts) == 1 and subscripts[0].dtype != "packed" else text


def place_of(
    tensor: Tensor, functions: Sequence[Callable[[Run], Any]], run: Run
) -> tuple[int, ...] | None:
    """The subscripts; none if one is out of range, which is noted."""
    found: list[int] = []
    for f in functions:
        value = f(run)
        found += value if isinstance(value, list) else [value]
    wrong = [
        (tensor.name, axis, value)
        for axis, (value, size) in enumerate(zip(found, tensor.shape, strict=True))
        if not 0 <= value < size
    ]
    run.faults += wrong
    return None if wrong else tuple(found)


def execute(statement: Statement, run: Run) -> Iterator[tuple[Fault, bool]]:
    """Do a statement point by point; points at which something is out of range are left out.

    Gives the faults, and whether one of them must be reported: what a local computes for nothing
    where the condition is false need not.
    """
    guards = [guard for _, guard in sorted(statement.guards, key=_reads)]
    for point in _points(statement.domain):
        run.point, run.locals, run.faults = point, {}, []
        certain = False
        if all(guard(run) for guard in guards):
            holds = statement.condition is None or statement.condition.run(run)
            certain = holds or bool(run.faults)
            for name, local in statement.locals:
                run.locals[name] = local.run(run)
            if holds:
                _assign(statement, run)
        yield from ((fault, certain) for fault in run.faults)


def _assign(statement: Statement, run: Run) -> None:
    for tensor, item, subscripts, value in statement.targets:
        new, place = value.run(run), place_of(tensor, subscripts, run)
        if place is not None and not run.faults:
            _write(statement.op, run, tensor, item(run), place, new)


def _reads(guard: Guard) -> bool:
    return guard[0]


def _write(
    op: str, run: Run, tensor: Tensor, item: int, place: tuple[int, ...], value: Any
) -> None:
    array = run.tensors[tensor.name][item]
    if op in REDUCTIONS:
        value = REDUCTIONS[op][0](array[place].item(), value)
    if tensor.dtype == "int":
        value = wrap(value)
    array[place] = seen(run, value)


def _points(domain: Sequence[Index]) -> Iterator[dict[str, Any]]:
    ranges = [
        [*itertools.product(*map(range, i.sizes))] if i.packed else range(i.sizes[0])
        for i in domain
    ]
    for point in itertools.product(*ranges):
        yield {i.name: value for i, value in zip(domain, point, strict=True)}
