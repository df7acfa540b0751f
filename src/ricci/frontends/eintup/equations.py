"""What shapes, constraints and a caller say about the components of dims, at given ranks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from ...ir import nodes as ir
from ...records import dataclass
from . import syntax as s
from .dims_rules import Key, definitions, rules_at
from .extents import arithmetic
from .integers import LARGEST
from .program import Program
from .relations import Box, Empty, Expr, Interval, Operation, Operator, Relation, System, Unknown

Forms = tuple[Expr, ...]

Shapes = Mapping[str, tuple[int | None, ...]]
"""Shapes by array; a size that is not known is none."""


@dataclass(frozen=True, slots=True)
class Size:
    """A dimension of an array has the size that was received."""

    array: str
    position: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """The caller fixed the dims of an eintup."""

    name: str


Origin = Size | Fixed | s.Comparison | s.Membership
"""Who says so; a constraint may be an implied one, which no line states."""


@dataclass(frozen=True, slots=True)
class Equation:
    """A relation between components, and who says so."""

    relation: Relation
    origin: Origin


@dataclass(frozen=True, slots=True, eq=False)
class Equations:
    """All about one choice of ranks: the `extents` of the inputs, and what must hold."""

    ranks: Mapping[str, int]
    unknowns: tuple[Key, ...]
    extents: Mapping[str, Forms]
    rules: tuple[Equation, ...]
    likely: Mapping[Hashable, Interval]
    """Bounds by numbers alone, which a call need not keep."""

    def sizes(self, shapes: Shapes) -> Iterator[Equation]:
        """Received sizes; of one that is not known, nothing is said."""
        for name, shape in shapes.items():
            pairs = zip(self.extents[name], shape, strict=True)
            for position, (extent, size) in enumerate(pairs):
                if size is not None:
                    yield Equation(Relation(extent, "==", size), Size(name, position))

    def fixed(self, dims: Mapping[str, int | tuple[int, ...]]) -> Iterator[Equation]:
        """Dims that a caller fixed; a number stands for all components."""
        for name, given in dims.items():
            numbers = (given,) * self.ranks[name] if isinstance(given, int) else given
            for at, number in enumerate(numbers):
                yield Equation(Relation(Unknown((name, at)), "==", number), Fixed(name))


def equations(program: Program, ranks: Mapping[str, int]) -> Equations:
    """The equations of a program at legal ranks of all its eintups."""
    computed = definitions(program)
    names = sorted(program.eintups, key=lambda name: name in computed)  # searched last
    unknowns = tuple((name, at) for name in names for at in range(ranks[name]))
    rules, bounds = [], []
    for rule in rules_at(program, ranks):
        if rule.pair.is_bound:
            bounds.append(rule.relation)
        else:
            rules.append(Equation(rule.relation, rule.pair.constraint))
    extents = _extents(program, ranks)
    return Equations(ranks, unknowns, extents, tuple(rules), _likely(unknowns, bounds))


def _likely(unknowns: tuple[Key, ...], bounds: list[Relation]) -> dict[Hashable, Interval]:
    box: Box = dict.fromkeys(unknowns, (0, LARGEST))
    try:
        System(bounds).narrow(box)
    except Empty:
        return {}
    return {key: box[key] for key in unknowns if box[key] != (0, LARGEST)}


# -------------------------------------------------------------------- extents


def _extents(program: Program, ranks: Mapping[str, int]) -> dict[str, Forms]:
    symbols = {
        name: tuple(ir.Symbol(f"{name}[{at}]") for at in range(ranks[name]))
        for name in program.eintups
    }
    unknowns: dict[ir.Expr, Expr] = {
        symbol: Unknown((name, at)) for name in symbols for at, symbol in enumerate(symbols[name])
    }
    meaning = arithmetic(symbols, program.arrays)
    return {
        array.name: tuple(_form(e, unknowns) for e in meaning.all_extents(array.signature))
        for array in program.inputs
    }


_OPERATORS: Mapping[ir.BinaryOp, Operator] = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "ceildiv": "//^", "mod": "%",
    "min": "min", "max": "max",
}  # fmt: skip


def _form(expr: ir.Expr, unknowns: Mapping[ir.Expr, Expr]) -> Expr:
    """The extent of an input: sums and products of dims, as nothing else covers an array."""
    match expr:
        case ir.Const(value=int() as value):
            return value
        case ir.Symbol():
            return unknowns[expr]
        case ir.Binary():
            lhs, rhs = _form(expr.lhs, unknowns), _form(expr.rhs, unknowns)
            return Operation(_OPERATORS[expr.op], lhs, rhs)
    raise AssertionError(f"{expr} is no extent of an input")
