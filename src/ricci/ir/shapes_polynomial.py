"""Integer expressions as polynomials: the canonical form behind `ir.shapes`.

A polynomial maps monomials to integer coefficients; a monomial is a sorted tuple of
atoms, an atom any expression that is not a sum, difference, product or integer. `n*i - 2` is
`{(i, n): 1, (): -2}`. No coefficient is zero; the empty mapping is zero.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..diagnostics import error
from ..dtypes import DType
from .nodes import (
    Access,
    Apply,
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Index,
    Local,
    Select,
    Symbol,
    Unary,
    integer,
)
from .rewrite import children, walk

Monomial = tuple[Expr, ...]
Polynomial = Mapping[Monomial, int]

_KNOWN: dict[int, tuple[Expr, Polynomial]] = {}
"""Polynomials by the numbers of expressions, which are kept with them."""
_MOST_KNOWN = 1 << 14

LARGEST_ATOM = 1024
"""The most parts of an expression within a quotient, remainder, minimum and the like."""

LARGEST = 256
"""Products of more terms than this are left as they are written."""

_SMALL = {value: integer(value) for value in range(-64, 1025)}


def constant(value: int) -> Const:
    """An integer literal, shared when it is small."""
    return _SMALL.get(value) or integer(value)


def int_value(expr: Expr) -> int | None:
    """The value of a finite integer literal."""
    if type(expr) is Const and expr.dtype is DType.INT and isinstance(expr.value, int):
        return expr.value
    return None


def polynomial(expr: Expr) -> Polynomial:
    """The sum of monomials that an expression of dtype `INT` is, as far as it is written as one."""
    if not isinstance(expr, (Binary, Unary)):
        return _atom(expr)
    known = _KNOWN.get(id(expr))
    if known is None:
        large = has_more_parts(expr, LARGEST_ATOM)
        known = _remember(expr, _shared_polynomial(expr) if large else _polynomial(expr))
    return known[1]


def _remember(expr: Expr, terms: Polynomial) -> tuple[Expr, Polynomial]:
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()
    known = _KNOWN[id(expr)] = expr, terms
    return known


def _polynomial(expr: Expr) -> Polynomial:
    result: dict[Monomial, int] = {}
    stack: list[tuple[Expr, int]] = [(expr, 1)]
    while stack:
        node, factor = stack.pop()
        match node:
            case Binary(op="add"):
                stack += [(node.rhs, factor), (node.lhs, factor)]
            case Binary(op="sub"):
                stack += [(node.rhs, -factor), (node.lhs, factor)]
            case Unary(op="neg"):
                stack.append((node.operand, -factor))
            case Binary(op="mul"):
                product = times(polynomial(node.lhs), polynomial(node.rhs))
                _accumulate(result, {(node,): 1} if product is None else product, factor)
            case _:
                _accumulate(result, _atom(node), factor)
    return result


def _atom(expr: Expr) -> Polynomial:
    value = int_value(expr)
    return {(expr,): 1} if value is None else {(): value} if value else {}


def _shared_polynomial(expr: Expr) -> Polynomial:
    """The same for large expressions, whose parts may occur many times: each is done once."""
    done: dict[int, Polynomial] = {}
    for node in walk(expr):
        done[id(node)] = _shared_node(node, done)
    return done[id(expr)]


def _shared_node(node: Expr, done: dict[int, Polynomial]) -> Polynomial:
    match node:
        case Binary(op="add"):
            return plus(done[id(node.lhs)], done[id(node.rhs)])
        case Binary(op="sub"):
            return plus(done[id(node.lhs)], done[id(node.rhs)], -1)
        case Unary(op="neg"):
            return scaled(done[id(node.operand)], -1)
        case Binary(op="mul"):
            product = times(done[id(node.lhs)], done[id(node.rhs)])
            return {(bounded(node),): 1} if product is None else product
        case _:
            return _atom(bounded(node))


def _accumulate(result: dict[Monomial, int], terms: Polynomial, factor: int) -> None:
    for monomial, coefficient in terms.items():
        total = result.get(monomial, 0) + factor * coefficient
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)


def plus(a: Polynomial, b: Polynomial, factor: int = 1) -> Polynomial:
    """`a + factor * b`."""
    result = dict(a)
    _accumulate(result, b, factor)
    return result


def scaled(a: Polynomial, factor: int) -> Polynomial:
    """`factor * a`."""
    return {m: c * factor for m, c in a.items()} if factor else {}


def times(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """`a * b`; none if it would have too many terms."""
    if len(a) * len(b) > LARGEST:
        return None
    result: dict[Monomial, int] = {}
    for left, x in a.items():
        for right, y in b.items():
            _accumulate(result, {_sorted(left + right): 1}, x * y)
    return result


def _sorted(atoms: Monomial) -> Monomial:
    return atoms if len(atoms) < 2 else tuple(sorted(atoms, key=sort_key))


def const_of(a: Polynomial) -> int | None:
    """The value of a polynomial without atoms."""
    if not a:
        return 0
    return a.get(()) if len(a) == 1 else None


def rest_of(a: Polynomial) -> Polynomial:
    """The polynomial without its constant term."""
    return {m: c for m, c in a.items() if m}


def expression(a: Polynomial) -> Expr:
    """The canonical expression: positive terms first, higher degrees first, the constant last
    among its like; `2*n - i - 1`."""
    if len(a) <= 1:
        return _term(*next(iter(a.items()))) if a else constant(0)
    terms = dict(sorted(a.items(), key=_term_key))
    result: Expr | None = None
    for monomial, c in terms.items():
        if result is None:
            result = _term(monomial, c)
        elif c > 0:
            result = Binary("add", result, _term(monomial, c))
        else:
            result = Binary("sub", result, _term(monomial, -c))
    assert result is not None
    return _remember(result, terms)[0]


def _term(monomial: Monomial, coefficient: int) -> Expr:
    if not monomial:
        return constant(coefficient)
    result = monomial[0]
    for atom in monomial[1:]:
        result = Binary("mul", result, atom)
    if coefficient == 1:
        return result
    if coefficient == -1:
        return Unary("neg", result)
    return Binary("mul", constant(coefficient), result)


def _term_key(term: tuple[Monomial, int]) -> tuple[bool, int, list[Key]]:
    monomial, coefficient = term
    return coefficient < 0, -len(monomial), [sort_key(a) for a in monomial]


Key = tuple[int, str, tuple[object, ...], int]

_RANKS: dict[type, int] = {Symbol: 0, Index: 1, Local: 2, Access: 3}


def sort_key(atom: Expr) -> Key:
    """Orders atoms by kind, name and parts; by identity only where those agree."""
    parts = tuple(sort_key(c) for c in children(atom))
    match atom:
        case Symbol() | Index() | Local():
            return _RANKS[type(atom)], atom.name, parts, id(atom)
        case Access():
            rules = ",".join(type(s.rule).__name__ for s in atom.subscripts)
            return 3, f"{atom.tensor.name}[{rules}]", parts, id(atom.tensor)
        case Const():
            return 4, f"{atom.dtype}{atom.value}", parts, 0
        case Unary() | Binary():
            return 5, atom.op, parts, 0
        case Cast():
            return 6, str(atom.dtype), parts, 0
        case Apply():
            return 7, atom.function, parts, 0
        case Select():
            return 8, "", parts, 0


def binary(op: BinaryOp, a: Polynomial, b: Polynomial) -> Polynomial:
    """The polynomial of one atom: an operation that has no polynomial form."""
    return {(bounded(Binary(op, expression(a), expression(b))),): 1}


def bounded(atom: Expr) -> Expr:
    """`atom`, which must not have more than `LARGEST_ATOM` parts, those that occur several
    times counted every time: E0901 otherwise. Comparing and printing take so long."""
    if has_more_parts(atom, LARGEST_ATOM):
        message = f"an integer expression with more than {LARGEST_ATOM} parts"
        raise error("E0901", message, help="give the sizes values when the graph is composed")
    return atom


def has_more_parts(expr: Expr, limit: int) -> bool:
    """Whether an expression, written out, has more than `limit` nodes; takes no longer."""
    count = 0
    stack = [expr]
    while stack:
        count += 1
        if count > limit:
            return True
        stack.extend(children(stack.pop()))
    return False
