"""The dims of a program at given ranks as expressions over symbols.

What a caller fixes is a number; what an equality of the constraints gives is that expression; any
other component is a symbol, which the shapes of the inputs must determine. Relations between dims
become checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

from ...diagnostics import Error, error
from ...ir import shapes
from ...ir.interpret_bind import failed_check
from ...ir.interpret_block import Store
from ...ir.nodes import FALSE, TRUE, ZERO, BinaryOp, Check, Expr, Symbol, integer
from ...ir.rewrite import free_symbols
from ...records import dataclass
from . import syntax as s
from .dims_rules import definitions, dims_pairs
from .extents import shape_of
from .fixed import as_attributes
from .printer import print_constraint, print_term
from .program import Program
from .uses import walk

Components = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """The dims of all eintups, and what must hold of their symbols."""

    dims: Mapping[str, Components]
    checks: tuple[Check, ...]


def open_dims(
    program: Program, ranks: Mapping[str, int], fixed: Mapping[str, tuple[int, ...]]
) -> Opened:
    """The dims of a program; `Error` E0403 if the shapes of the inputs do not determine all, E0501
    if those that are fixed break a constraint."""
    opening = _Opening(program, ranks, fixed)
    dims = {name: opening.dims_of(name) for name in program.eintups}
    known = _determined([e for a in program.inputs for e in shape_of(a, dims)])
    used = {symbol for name in _mentioned(program) for symbol in free_symbols(*dims[name])}
    if needed := [n for n, own in opening.free.items() if (used - known).intersection(own)]:
        raise _undetermined(program, needed, ranks)
    checks = [*_not_negative(opening, dims), *_relations(program, dims, ranks)]
    return Opened(dims, tuple(c for c in checks if known.issuperset(free_symbols(c.condition))))


def symbolic_dims(program: Program, ranks: Mapping[str, int]) -> dict[str, Components]:
    """The dims of all eintups as expressions of those that nothing computes."""
    opening = _Opening(program, ranks, {})
    return {name: opening.dims_of(name) for name in program.eintups}


class _Opening:
    """Finds the dims of one eintup after the other; constraints have no cycles."""

    def __init__(
        self, program: Program, ranks: Mapping[str, int], fixed: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.program = program
        self.ranks = ranks
        self.free: dict[str, Sequence[Symbol]] = {}
        self.computed = {n: d for n, d in definitions(program).items() if n not in fixed}
        self._dims: dict[str, Components] = {
            name: tuple(map(integer, numbers)) for name, numbers in fixed.items()
        }
        self._taken = set(program.eintups)

    def dims_of(self, name: str) -> Components:
        if name not in self._dims:
            made = self._compute(name) if name in self.computed else self._symbols(name)
            self._dims[name] = made
        return self._dims[name]

    def _compute(self, name: str) -> Components:
        term, constraint = self.computed[name]
        try:
            value = term_value(term, self.dims_of, self.program, self.ranks)
        except ZeroDivisionError:
            message = f"`{print_term(term)}` divides by zero"
            raise error("E0502", message, constraint.span) from None
        return value if isinstance(value, tuple) else (value,) * self.ranks[name]

    def _symbols(self, name: str) -> Components:
        rank = self.ranks[name]
        names = [name] if rank == 1 else [self._free_name(f"{name}_{k}") for k in range(rank)]
        self.free[name] = [Symbol(n) for n in names]
        return tuple(self.free[name])

    def _free_name(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _mentioned(program: Program) -> set[str]:
    """The eintups whose dims the statements depend on."""
    nodes = (node for statement in program.file.statements for node in walk(statement))
    return {node.name for node in nodes if isinstance(node, s.Eintup)}


def _determined(extents: Sequence[Expr]) -> set[Symbol]:
    """The symbols that extents of inputs determine: alone, or where one is linear in them."""
    known = {extent for extent in extents if isinstance(extent, Symbol)}
    size = -1
    while size < len(known):
        size = len(known)
        for extent in extents:
            linear = shapes.affine(extent)
            new = [x for x in free_symbols(extent) if x not in known]
            if linear is not None and len(new) == 1:
                known.add(new[0])
    return known


def _undetermined(program: Program, names: Sequence[str], ranks: Mapping[str, int]) -> Error:
    return error(
        "E0403",
        "the shapes of the inputs do not say what "
        + " and ".join(f"`DIMS({name})`" for name in names)
        + (" is" if len(names) == 1 else " are"),
        notes=[f"RANK({name}) = {ranks[name]}" for name in names],
        help="for example " + as_attributes("DIMS", {name: [2] * ranks[name] for name in names}),
    )


# ----------------------------------------------------------------------- terms

_Build = Callable[[Expr, Expr], Expr]

_OPERATORS: Mapping[str, _Build] = {
    "+": shapes.add,
    "-": shapes.sub,
    "*": shapes.mul,
    "//": shapes.floordiv,
    "//^": shapes.ceildiv,
    "%": shapes.mod,
    "min": shapes.minimum,
    "max": shapes.maximum,
}


def term_value(
    term: s.Term,
    dims_of: Callable[[str], Components],
    program: Program,
    ranks: Mapping[str, int],
) -> Expr | Components:
    """The value of a term of the constraints: a number, or one per component."""

    def value(term: s.Term) -> Expr | Components:
        match term:
            case s.Whole():
                return integer(term.value)
            case s.Rank():
                return integer(sum(program.ranks.rank_of(item, ranks) for item in term.items))
            case s.Dims():
                return tuple(e for item in term.items for e in dims_of(_name(item)))
            case s.DimOf():
                extents = value(term.dims)
                assert isinstance(extents, tuple)
                return _component(term, extents)
            case s.Smallest():
                build = _OPERATORS[term.function]
                return reduce(lambda a, b: _broadcast(build, a, b), map(value, term.arguments))
            case s.TermBinary():
                return _broadcast(_OPERATORS[term.operator], value(term.lhs), value(term.rhs))

    return value(term)


def _component(term: s.DimOf, extents: Components) -> Expr:
    if not -len(extents) <= term.at < len(extents):
        message = f"`{print_term(term)}` is not there: it has {len(extents)} components"
        raise error("E0501", message, term.span)
    return extents[term.at]


def _name(item: s.IndexExpr) -> str:
    assert isinstance(item, s.Eintup)
    return item.name


def _broadcast(build: _Build, a: Expr | Components, b: Expr | Components) -> Expr | Components:
    """An operation on numbers, or component by component; a number goes with every component."""
    if not isinstance(a, tuple) and not isinstance(b, tuple):
        return build(a, b)
    return tuple(build(x, y) for x, y in _paired(a, b))


def _paired(a: Expr | Components, b: Expr | Components) -> Iterator[tuple[Expr, Expr]]:
    rank = len(a) if isinstance(a, tuple) else len(b) if isinstance(b, tuple) else 1
    lhs, rhs = (x if isinstance(x, tuple) else (x,) * rank for x in (a, b))
    return zip(lhs, rhs, strict=True)


# ---------------------------------------------------------------------- checks


def _not_negative(opening: _Opening, dims: Mapping[str, Components]) -> Iterator[Check]:
    """What is computed is no dim if it is negative."""
    for name, (_, constraint) in opening.computed.items():
        low = [shapes.compare("ge", e, ZERO) for e in dims[name]]
        message = (f"`DIMS({name})` comes out as ", dims[name], ", which is negative")
        yield from _check(_all(low), message, (), constraint)


_RELATIONS: Mapping[str, BinaryOp] = {
    "<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">=": "ge", ">": "gt",
}  # fmt: skip


def _relations(
    program: Program, dims: Mapping[str, Components], ranks: Mapping[str, int]
) -> Iterator[Check]:
    """A check for every relation that is not certain; bounds by numbers alone are not enforced:
    verification draws from them."""
    for pair in dims_pairs(program):
        if pair.is_bound:
            continue
        a, b = (term_value(t, dims.__getitem__, program, ranks) for t in (pair.lhs, pair.rhs))
        op = _RELATIONS[pair.comparator]
        conditions = [shapes.compare(op, x, y) for x, y in _paired(a, b)]
        message = (f"`{print_constraint(pair.constraint)}` does not hold",)
        values = tuple((print_term(t), v) for t, v in ((pair.lhs, a), (pair.rhs, b)))
        yield from _check(_all(conditions), message, values, pair.constraint)


def _all(conditions: Sequence[Expr]) -> Expr:
    start: Expr = TRUE
    return reduce(shapes.logical_and, conditions, start)


def _check(
    condition: Expr,
    message: tuple[str | Expr | Components, ...],
    values: tuple[tuple[str, Expr | Components], ...],
    constraint: s.Constraint,
) -> Iterator[Check]:
    """A check, unless it always holds; E0501 if it never does."""
    check = Check(condition, message, values, constraint.span)
    if condition == FALSE:
        raise failed_check(check, Store())
    if condition != TRUE:
        yield check
