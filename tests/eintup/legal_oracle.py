"""Whether shapes are legal for a program, found by trying ranks, then dims, straight from the tree.

Independent of what infers ranks and solves for dims: it reads the rules off the statements and
constraints and tries all values up to a little more than the largest size there is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from math import prod

from ricci.frontends.eintup import syntax as s
from ricci.frontends.eintup.program import Program
from ricci.frontends.eintup.uses import walk

Ranks = Mapping[str, int]
Variable = tuple[str, int]
"""One component of the dims of an eintup."""

Values = dict[Variable, int]
Shapes = Mapping[str, tuple[int, ...]]

LARGEST_RANK = 8

MOST_TRIED = 20_000
"""Of dims that hang together: what is not found by then counts as not legal."""

COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq,
    "!=": operator.ne, ">=": operator.ge, ">": operator.gt,
}  # fmt: skip

COMPUTE: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
    "//^": lambda a, b: -(-a // b), "%": operator.mod, "min": min, "max": max,
}  # fmt: skip


@dataclass
class Rule:
    """What must hold of some variables; `given` is the one that an equality gives, with how."""

    variables: frozenset[Variable]
    test: Callable[[Values], bool]
    given: tuple[Variable, Callable[[Values], int]] | None = None

    def holds(self, values: Values) -> bool:
        try:
            return self.test(values)
        except ZeroDivisionError:
            return False


class Oracle:
    """Decides for one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.signatures = {a.name: a.signature for a in program.arrays.values()}
        self.nodes = [n for statement in program.file.statements for n in walk(statement)]

    def is_legal(self, shapes: Shapes) -> bool:
        """Whether some ranks and dims give these shapes to these inputs."""
        return any(self._fits(ranks, shapes) for ranks in self.rankings)

    def confirms(self, dims: Mapping[str, tuple[int, ...]], shapes: Shapes) -> bool:
        """Whether dims are legal, and give these shapes."""
        ranks = {name: len(own) for name, own in dims.items()}
        if ranks not in self.rankings:
            return False
        if any(self.count(ranks, name) != len(shape) for name, shape in shapes.items()):
            return False
        values = {(name, k): size for name, own in dims.items() for k, size in enumerate(own)}
        rules = [*self._sizes(ranks, shapes), *self._relations(ranks)]
        return min(values.values(), default=0) >= 0 and all(r.holds(values) for r in rules)

    def _fits(self, ranks: Ranks, shapes: Shapes) -> bool:
        if any(self.count(ranks, name) != len(shape) for name, shape in shapes.items()):
            return False
        rules = [*self._sizes(ranks, shapes), *self._relations(ranks)]
        largest = max([3, *(n for shape in shapes.values() for n in shape)]) + 2
        names = [(name, k) for name in self.program.eintups for k in range(ranks[name])]
        return satisfiable(names, rules, largest)

    # ------------------------------------------------------------------------ ranks

    @cached_property
    def rankings(self) -> list[dict[str, int]]:
        """All legal ranks."""
        groups = self._groups()
        lines = [c for c in self.program.file.constraints if _speaks_of_ranks(c)]
        asked = {n for c in lines if not _is_rank_equality(c) for n in _rank_names(c)}
        free = [g for g in groups if asked.intersection(g)]
        choices = [self._alone(group, lines) for group in free]
        found = []
        for numbers in product(*choices):
            ranks = dict.fromkeys(self.program.eintups, 1)
            for group, number in zip(free, numbers, strict=True):
                ranks |= dict.fromkeys(group, number)
            if all(_holds(c, ranks) for c in lines) and self._agree(ranks) and self._has(ranks):
                found.append(ranks)
        return found

    def _alone(self, group: frozenset[str], lines: Sequence[s.Constraint]) -> list[int]:
        """The ranks that the constraints on one group alone leave."""
        own = [c for c in lines if group.issuperset(_rank_names(c))]
        numbers = range(LARGEST_RANK + 1)
        return [n for n in numbers if all(_holds(c, dict.fromkeys(group, n)) for c in own)]

    def _groups(self) -> list[frozenset[str]]:
        """Eintups of equal rank, as far as two of them meet."""
        groups = {name: frozenset([name]) for name in self.program.eintups}
        for a, b in self._meetings():
            joined = groups[a] | groups[b]
            groups.update(dict.fromkeys(joined, joined))
        return list(dict.fromkeys(groups.values()))

    def _meetings(self) -> Iterator[tuple[str, str]]:
        for a, b in self._equal_ranks():
            left, right = _leader(a), _leader(b)
            if left and right:
                yield left, right
        for constraint in self.program.file.constraints:
            names = [n for n in _dims_names(constraint) if isinstance(n, str)]
            yield from pairwise(names)
            if _is_rank_equality(constraint):
                names = _rank_names(constraint)
                yield from pairwise(names)

    def _equal_ranks(self) -> Iterator[tuple[s.IndexExpr, s.IndexExpr]]:
        """Index expressions that must have equal ranks."""
        for node in self.nodes:
            if isinstance(node, s.IndexBinary) and not _scalar(node.lhs) and not _scalar(node.rhs):
                yield node.lhs, node.rhs
            elif isinstance(node, s.Access | s.Slice):
                for item, slot in zip(node.items, self.signatures[node.array.name], strict=True):
                    yield (s.Whole(0) if item is None else item), slot

    def _agree(self, ranks: Ranks) -> bool:
        pairs = [(self.rank(a, ranks), self.rank(b, ranks)) for a, b in self._equal_ranks()]
        numbering = [n.at.name for n in self.nodes if isinstance(n, s.DimsAt | s.Range)]
        return all(a is None or b is None or a == b for a, b in pairs) and all(
            ranks[name] == 1 for name in numbering
        )

    def _has(self, ranks: Ranks) -> bool:
        """Whether the components that constraints single out are there."""
        atoms = [x for c in self.program.file.constraints for x in _all_atoms(c)]
        single = [x for x in atoms if isinstance(x, s.DimOf)]
        return all(x.at < sum(ranks[n] for n in _names(x)) for x in single)

    def rank(self, expr: s.IndexExpr, ranks: Ranks) -> int | None:
        """How many components an expression has; unknown for a slice."""
        match expr:
            case s.Eintup(name):
                return ranks[name]
            case s.Dims(items):
                parts = [self.rank(item, ranks) for item in items]
                return sum(n or 0 for n in parts)
            case s.Slice():
                return None
            case s.IndexBinary(_, lhs, rhs):
                return self.rank(rhs if _scalar(lhs) else lhs, ranks)
            case _:
                return 1

    def count(self, ranks: Ranks, name: str) -> int:
        return sum(self.rank(slot, ranks) or 0 for slot in self.signatures[name])

    # ------------------------------------------------------------------------- dims

    def _sizes(self, ranks: Ranks, shapes: Shapes) -> Iterator[Rule]:
        for name, shape in shapes.items():
            place = 0
            for slot in self.signatures[name]:
                rank = self.rank(slot, ranks) or 0
                yield from self._slot_rules(slot, shape[place : place + rank], ranks)
                place += rank

    def _slot_rules(
        self, slot: s.IndexExpr, sizes: tuple[int, ...], ranks: Ranks
    ) -> Iterator[Rule]:
        if isinstance(slot, s.Eintup):
            for k, size in enumerate(sizes):
                yield _equals((slot.name, k), size)
            return
        names = {n.name for n in walk(slot) if isinstance(n, s.Eintup)}
        variables = frozenset((n, k) for n in names for k in range(ranks[n]))
        yield Rule(variables, lambda values: _extents(slot, ranks, values) == sizes)

    def _relations(self, ranks: Ranks) -> Iterator[Rule]:
        for constraint in self.program.file.constraints:
            for lhs, comparison, rhs in _pairs(constraint):
                if _is_kept(lhs, comparison, rhs):
                    yield from _component_rules(lhs, comparison, rhs, ranks)
        for node in self.nodes:
            if isinstance(node, s.DimsAt):
                yield _equals((node.at.name, 0), self.rank(node.dims, ranks) or 0)
            elif isinstance(node, s.Range):
                yield _equals((node.at.name, 0), ranks[node.of.name])
            elif isinstance(node, s.Access | s.Slice):
                yield from self._slice_rules(node, ranks)

    def _slice_rules(self, node: s.Access | s.Slice, ranks: Ranks) -> Iterator[Rule]:
        for item, slot in zip(node.items, self.signatures[node.array.name], strict=True):
            rank = self.rank(slot, ranks)
            for part in _slices(item):
                if rank is not None:
                    axis = self.signatures[part.array.name][part.items.index(None)]
                    if isinstance(axis, s.Eintup):
                        yield _equals((axis.name, 0), rank)


# ------------------------------------------------------------------- constraints


def _pairs(constraint: s.Constraint) -> list[tuple[s.Term, str, s.Term]]:
    if isinstance(constraint, s.Membership):
        return [(constraint.low, "<=", constraint.term), (constraint.term, "<=", constraint.high)]
    terms = constraint.terms
    return list(zip(terms, constraint.relations, terms[1:], strict=False))


def _atoms(term: s.Term) -> Iterator[s.Term]:
    match term:
        case s.TermBinary(_, lhs, rhs):
            yield from _atoms(lhs)
            yield from _atoms(rhs)
        case s.Smallest(_, arguments):
            for argument in arguments:
                yield from _atoms(argument)
        case _:
            yield term


def _names(term: s.Term) -> list[str]:
    items = term.dims.items if isinstance(term, s.DimOf) else getattr(term, "items", ())
    return [item.name for item in items if isinstance(item, s.Eintup)]


def _all_atoms(constraint: s.Constraint) -> list[s.Term]:
    return [x for a, _, b in _pairs(constraint) for t in (a, b) for x in _atoms(t)]


def _speaks_of_ranks(constraint: s.Constraint) -> bool:
    return not any(isinstance(x, s.Dims | s.DimOf) for x in _all_atoms(constraint))


def _rank_names(constraint: s.Constraint) -> list[str]:
    return [n for x in _all_atoms(constraint) if isinstance(x, s.Rank) for n in _names(x)]


def _dims_names(constraint: s.Constraint) -> list[str]:
    """The eintups that are combined component by component."""
    atoms = [x for x in _all_atoms(constraint) if isinstance(x, s.Dims) and len(_names(x)) == 1]
    return [_names(x)[0] for x in atoms]


def _is_rank_equality(constraint: s.Constraint) -> bool:
    return (
        isinstance(constraint, s.Comparison)
        and all(isinstance(t, s.Rank) and len(t.items) == 1 for t in constraint.terms)
        and set(constraint.relations) == {"=="}
    )


def _holds(constraint: s.Constraint, ranks: Ranks) -> bool:
    pairs = [(_rank_value(a, ranks), c, _rank_value(b, ranks)) for a, c, b in _pairs(constraint)]
    return all(COMPARE[c](a, b) for a, c, b in pairs)


def _rank_value(term: s.Term, ranks: Ranks) -> int:
    return _component(term, 0, ranks)({})


def _is_kept(lhs: s.Term, comparison: str, rhs: s.Term) -> bool:
    """Whether calls must keep a relation: bounds of one eintup by numbers are for drawing."""
    atoms = [*_atoms(lhs), *_atoms(rhs)]
    names = {n for x in atoms if isinstance(x, s.Dims | s.DimOf) for n in _names(x)}
    alone = len(names) == 1 and not any(isinstance(x, s.Rank) for x in atoms)
    return bool(names) and (comparison == "==" or not alone)


def _component_rules(lhs: s.Term, comparison: str, rhs: s.Term, ranks: Ranks) -> Iterator[Rule]:
    atoms = [*_atoms(lhs), *_atoms(rhs)]
    lists = [x for x in atoms if isinstance(x, s.Dims)]
    count = sum(ranks[n] for n in _names(lists[0])) if lists else 1
    for k in range(count):
        a, b = _component(lhs, k, ranks), _component(rhs, k, ranks)
        variables = frozenset(v for x in atoms for v in _variables(x, k, ranks))

        def test(values: Values, a: Number = a, b: Number = b) -> bool:
            return COMPARE[comparison](a(values), b(values))

        given = None
        if comparison == "==" and isinstance(lhs, s.Dims):
            given = _variables(lhs, k, ranks)[0], b
        elif comparison == "==" and isinstance(rhs, s.Dims):
            given = _variables(rhs, k, ranks)[0], a
        yield Rule(variables, test, given)


Number = Callable[[Values], int]


def _variables(term: s.Term, k: int, ranks: Ranks) -> list[Variable]:
    if not isinstance(term, s.Dims | s.DimOf):
        return []
    every = [(n, at) for n in _names(term) for at in range(ranks[n])]
    return [every[term.at if isinstance(term, s.DimOf) else k]]


def _component(term: s.Term, k: int, ranks: Ranks) -> Number:
    """Component k of a term, as a function of the dims."""
    match term:
        case s.Whole(value):
            return lambda values: value
        case s.Rank():
            rank = sum(ranks[n] for n in _names(term))
            return lambda values: rank
        case s.TermBinary(symbol, lhs, rhs):
            a, b = _component(lhs, k, ranks), _component(rhs, k, ranks)
            return lambda values: COMPUTE[symbol](a(values), b(values))
        case s.Smallest(function, arguments):
            parts = [_component(x, k, ranks) for x in arguments]
            choose = min if function == "min" else max
            return lambda values: choose(part(values) for part in parts)
        case _:
            variable = _variables(term, k, ranks)[0]
            return lambda values: values[variable]


# -------------------------------------------------------------- index expressions


def _scalar(expr: s.IndexExpr) -> bool:
    if isinstance(expr, s.IndexBinary):
        return _scalar(expr.lhs) and _scalar(expr.rhs)
    return isinstance(expr, s.Whole | s.Rank)


def _slices(item: s.IndexExpr | None) -> Iterator[s.Slice]:
    """The slices of an index, but for those inside others."""
    if isinstance(item, s.Slice):
        yield item
    elif isinstance(item, s.IndexBinary):
        yield from _slices(item.lhs)
        yield from _slices(item.rhs)
    elif isinstance(item, s.Flat):
        for part in item.items:
            yield from _slices(part)


def _leader(expr: s.IndexExpr) -> str:
    """The eintup whose rank an expression has; empty if there is none."""
    match expr:
        case s.Eintup(name) | s.Dims((s.Eintup(name),)):
            return name
        case s.IndexBinary(_, lhs, rhs):
            return _leader(rhs if _scalar(lhs) else lhs)
        case _:
            return ""


def _extents(slot: s.IndexExpr, ranks: Ranks, values: Values) -> tuple[int, ...]:
    """One more than the largest value of each component, over all corners of the box."""
    if isinstance(slot, s.Flat):
        parts = [_extents(item, ranks, values) for item in slot.items]
        return (prod(n for part in parts for n in part),)
    names = list(dict.fromkeys(n.name for n in walk(slot) if isinstance(n, s.Eintup)))
    dims = {n: [values[n, k] for k in range(ranks[n])] for n in names}
    if any(0 in dims[n] for n in names):
        return (0,) * max((len(d) for d in dims.values()), default=1)
    corners = product(*([[0] * len(dims[n]), [d - 1 for d in dims[n]]] for n in names))
    points = [dict(zip(names, corner, strict=True)) for corner in corners]
    reached = [_values(slot, point, dims) for point in points]
    return tuple(max(column) + 1 for column in zip(*reached, strict=True))


def _values(
    expr: s.IndexExpr, point: Mapping[str, list[int]], dims: Mapping[str, list[int]]
) -> list[int]:
    match expr:
        case s.Eintup(name):
            return point[name]
        case s.Whole(value):
            return [value]
        case s.Dims((s.Eintup(name),)):
            return dims[name]
        case s.IndexBinary(symbol, lhs, rhs):
            a, b = _values(lhs, point, dims), _values(rhs, point, dims)
            return [COMPUTE[symbol](x, y) for x, y in zip(a, b, strict=True)]
    raise AssertionError(f"{expr} in an input")


def _equals(variable: Variable, number: int) -> Rule:
    return Rule(
        frozenset([variable]),
        lambda values: values[variable] == number,
        (variable, lambda _: number),
    )


# ------------------------------------------------------------------------- trying


def satisfiable(names: Sequence[Variable], rules: Sequence[Rule], largest: int) -> bool:
    """Whether natural numbers, those to be tried up to `largest`, keep all rules."""
    values: Values = {}
    if not _follow(rules, values):
        return False
    unknown = [v for v in names if v not in values]
    while unknown:
        group = _together(unknown[0], unknown, rules)
        own = [r for r in rules if r.variables & group]
        order = _order(group, own)
        if not any(_try(order, own, values, n, _Budget()) for n in (3, 8, largest) if n <= largest):
            return False
        unknown = [v for v in unknown if v not in group]
    return True


def _follow(rules: Sequence[Rule], values: Values) -> bool:
    """Put in what rules give; whether all whose variables are known hold."""
    before = -1
    while before != len(values):
        before = len(values)
        for rule in rules:
            if rule.given and rule.given[0] not in values:
                variable, number = rule.given
                if rule.variables - {variable} <= values.keys():
                    try:
                        values[variable] = number(values)
                    except ZeroDivisionError:
                        return False
                    if values[variable] < 0:
                        return False
    return all(r.holds(values) for r in rules if r.variables <= values.keys())


def _together(
    start: Variable, unknown: Sequence[Variable], rules: Sequence[Rule]
) -> frozenset[Variable]:
    group = frozenset([start])
    while True:
        wider = group.union(*(r.variables & set(unknown) for r in rules if r.variables & group))
        if wider == group:
            return group
        group = wider


class _Budget:
    """How many values may still be tried for one group."""

    def __init__(self) -> None:
        self.left = MOST_TRIED


def _order(group: frozenset[Variable], rules: Sequence[Rule]) -> list[Variable]:
    """Variables that nothing gives, those of small rules together; then the rest."""
    given = {r.given[0] for r in rules if r.given}
    order: list[Variable] = []
    left = list(rules)
    while left:
        left.sort(key=lambda r: len((r.variables & group) - given - set(order)))
        rule = left.pop(0)
        order += sorted((rule.variables & group) - given - set(order))
    return order + sorted(group - set(order))


def _try(
    order: Sequence[Variable],
    rules: Sequence[Rule],
    values: Values,
    largest: int,
    budget: _Budget,
) -> bool:
    """Whether values of some variables keep the rules, as far as the budget goes."""
    variable = next((v for v in order if v not in values), None)
    if variable is None:
        return True
    for number in (1, 0, *range(2, largest + 1)):
        budget.left -= 1
        tried = {**values, variable: number}
        if budget.left < 0:
            return False
        if _follow(rules, tried) and _try(order, rules, tried, largest, budget):
            return True
    return False
