"""In which order the shapes of an operator's inputs give values to its symbols.

An extent or a pack length that is an affine expression `a * n + b` of one identifier that is
not yet known *declares* that identifier; any other expression must be known and is checked.
At most one packed extent of a shape may have a length that is not known beforehand, so
`x: real[s..(d), t..]` can only be bound after `y: real[s..(d)]` has given `d`. The order
depends on the definition alone, never on a call. Specification 2.6.1.

    binding.order(op)                      positions of the inputs, in binding order
    binding.affine(expr, known)            (name, a, b) when expr = a * name + b
    binding.free_names(expr)               every identifier that an expression reads
    binding.bind(op)                       the order, with the inputs that cannot be bound

Spec: the identifiers of an affine expression are unknown, its coefficients literals.
Ricci: literal arithmetic may be nested (`(n + 1) * 2`, `n + n`, `-n`, `5 - n`); an extent
that is not affine may wait for an input that is declared later; an optional attribute may
stand in a length where `??` or `?` takes care of null.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Set
from typing import cast

from ...records import dataclass
from . import syntax as s


def affine(expr: s.Expr, known: Container[str]) -> tuple[str, int, int] | None:
    """`(name, a, b)` when `expr` is `a * name + b` with one unknown name and literal a != 0.

    None when `expr` is constant, mentions a known name, several names, or is not affine.
    """
    form = _linear(expr)
    if form is None or len(form[0]) != 1:
        return None
    ((name, factor),) = form[0].items()
    return None if name in known or factor == 0 else (name, factor, form[1])


def _linear(expr: s.Expr) -> tuple[dict[str, int], int] | None:
    """The coefficients of the names in a linear expression of literals, and its constant."""
    match expr:
        case s.Literal(value=int(value)) if not isinstance(value, bool):
            return {}, value
        case s.Name(name=name):
            return {name: 1}, 0
        case s.Unary(op="+", operand=operand):
            return _linear(operand)
        case s.Unary(op="-", operand=operand):
            return _scale(_linear(operand), -1)
        case s.Binary(op="+" | "-" | "*" as op, lhs=lhs, rhs=rhs):
            return _combine(op, _linear(lhs), _linear(rhs))
    return None


_Form = tuple[dict[str, int], int]


def _scale(form: _Form | None, factor: int) -> _Form | None:
    if form is None:
        return None
    return {name: factor * c for name, c in form[0].items()}, factor * form[1]


def _combine(op: str, lhs: _Form | None, rhs: _Form | None) -> _Form | None:
    if lhs is None or rhs is None:
        return None
    if op == "*":
        if lhs[0] and rhs[0]:
            return None
        return _scale(rhs, lhs[1]) if rhs[0] else _scale(lhs, rhs[1])
    sign = 1 if op == "+" else -1
    factors = dict(lhs[0])
    for name, c in rhs[0].items():
        factors[name] = factors.get(name, 0) + sign * c
    return factors, lhs[1] + sign * rhs[1]


def children(expr: s.Expr) -> Iterator[s.Expr]:
    """The direct parts of an expression, in the order of the text."""
    for field in expr.__slots__:
        value = getattr(expr, field)
        values = value if isinstance(value, tuple) else (value,)
        yield from (cast(s.Expr, v) for v in values if isinstance(v, s.Node))


def free_names(expr: s.Expr) -> dict[str, s.Expr]:
    """Every identifier that an expression reads, with the first node that names it."""
    found: dict[str, s.Expr] = {}
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, s.Name | s.Member | s.NullTest):
            found.setdefault(node.name, node)
        stack += reversed(list(children(node)))
    return found


def is_deferred(attribute: s.Parameter) -> bool:
    """Whether the default of an attribute depends on other symbols (specification 2.5)."""
    return attribute.default is not None and bool(free_names(attribute.default))


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An input that cannot be bound: the extents or lengths at fault, and the names missing.

    `flexible` tells that there are several packed extents of unknown length; otherwise an
    expression is neither affine nor known.
    """

    position: int
    parts: tuple[s.Expr | s.Extent, ...]
    missing: tuple[str, ...]
    flexible: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """The binding order of an operator's inputs, and those that it cannot place."""

    order: tuple[int, ...]
    obstacles: tuple[Obstacle, ...]


def order(operator: s.Operator) -> list[int]:
    """The positions of the inputs in binding order; those that cannot be bound come last."""
    binding = bind(operator)
    return [*binding.order, *(o.position for o in binding.obstacles)]


def bind(operator: s.Operator) -> Binding:
    """The binding order of 2.6.1: what is not optional first, then the optional inputs."""
    state = _State(operator)
    required = [i for i, p in enumerate(operator.inputs) if not p.type.optional]
    optional = [i for i, p in enumerate(operator.inputs) if p.type.optional]
    left = [state.obstacle(i) for i in _bind_all(state, required)]
    left += [state.obstacle(i) for i in _bind_all(state, optional)]
    return Binding(tuple(state.order), tuple(o for o in left if o is not None))


def _bind_all(state: _State, positions: list[int]) -> list[int]:
    """Bind what can be bound, in order of declaration, until nothing changes; the rest."""
    progress = True
    while progress and positions:
        before = len(positions)
        positions = [i for i in positions if not state.take(i)]
        progress = len(positions) < before
    return positions


class _State:
    """What is known while inputs are bound one after the other."""

    def __init__(self, operator: s.Operator) -> None:
        self.operator = operator
        self.order: list[int] = []
        self.lengths: set[str] = set()
        self.optional: set[str] = set()
        self.deferred: set[str] = set()
        for attribute in operator.attributes:
            if is_deferred(attribute):
                self.deferred.add(attribute.name)
            elif attribute.type.optional or attribute.type.pack is not None:
                self.optional.add(attribute.name)
            else:
                self.lengths.add(attribute.name)

    @property
    def known(self) -> set[str]:
        return self.lengths | self.optional

    def take(self, position: int) -> bool:
        """Bind an input if that is unambiguous."""
        if self.obstacle(position) is not None:
            return False
        self.order.append(position)
        parameter = self.operator.inputs[position]
        found = self.optional if parameter.type.optional else self.lengths
        found.update(declared_symbols(parameter.type, self.known))
        found.add(parameter.name)
        return True

    def obstacle(self, position: int) -> Obstacle | None:
        """What hinders an input from being bound now."""
        type = self.operator.inputs[position].type
        known = set(self.lengths)
        if type.rank is not None:
            known.add(type.rank)
        return self._length_obstacle(position, type, known) or self._size_obstacle(
            position, type, known | self.optional
        )

    def _length_obstacle(self, position: int, type: s.Type, known: set[str]) -> Obstacle | None:
        flexible: list[s.Extent] = []
        for extent in type.shape or ():
            if extent.pack is None:
                continue
            length = extent.pack.length
            if length is None:
                flexible += [] if self._has_length(extent, known) else [extent]
                continue
            missing = self._missing(length, known)
            if missing and affine(length, known) is None:
                return Obstacle(position, (length,), missing, False)
            flexible += [extent] if missing else []
        if len(flexible) > 1:
            names = tuple(n for e in flexible for n in _pack_names(e) if n not in known)
            return Obstacle(position, tuple(flexible), tuple(dict.fromkeys(names)), True)
        return None

    def _has_length(self, extent: s.Extent, known: set[str]) -> bool:
        """Whether `s..` without a length repeats symbols that were bound before."""
        names = free_names(extent.size)
        return bool(names) and names.keys() <= known

    def _missing(self, expr: s.Expr, known: set[str]) -> tuple[str, ...]:
        handled = set(_null_handled(expr)) & self.optional
        return tuple(n for n in free_names(expr) if n not in known and n not in handled)

    def _size_obstacle(self, position: int, type: s.Type, known: set[str]) -> Obstacle | None:
        parts: list[s.Expr] = [
            e.size for e in type.shape or () if not isinstance(e.size, s.Omitted)
        ]
        if type.pack is not None and type.pack.length is not None:
            parts.append(type.pack.length)
        known = known | set(declared_symbols(type, known)) - self.deferred
        for part in parts:
            missing = tuple(n for n in free_names(part) if n not in known)
            if missing:
                return Obstacle(position, (part,), missing, False)
        return None


def declared_symbols(type: s.Type, known: Set[str]) -> dict[str, s.Expr]:
    """The symbols that a shape declares, with the expression that gives each its value."""
    found: dict[str, s.Expr] = {}
    for extent in type.shape or ():
        _declare(extent.size, known, found)
        if extent.pack is not None and extent.pack.length is not None:
            _declare(extent.pack.length, known, found)
    if type.pack is not None and type.pack.length is not None:
        _declare(type.pack.length, known, found)
    if type.rank is not None and type.rank not in known:
        found.setdefault(type.rank, s.Name(type.rank, span=type.span))
    return found


def _declare(expr: s.Expr, known: Container[str], found: dict[str, s.Expr]) -> None:
    form = affine(expr, known)
    if form is not None:
        found.setdefault(form[0], expr)


def _pack_names(extent: s.Extent) -> list[str]:
    length = extent.pack.length if extent.pack is not None else None
    return list(free_names(extent.size if length is None else length))


def _null_handled(expr: s.Expr) -> Iterator[str]:
    """Names whose null a length takes care of: left of `??`, or tested by `?`."""
    if isinstance(expr, s.NullTest):
        yield expr.name
    if isinstance(expr, s.Coalesce):
        yield from free_names(expr.value)
    for child in children(expr):
        yield from _null_handled(child)
