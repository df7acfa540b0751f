"""Exact arithmetic on integer expressions: extents, subscripts and conditions over them.

The smart constructors (`add`, `floordiv`, `minimum` ...) and `simplify` return canonical
expressions: sums of products of atoms, constants folded, what the ranges of
symbols and indices decide decided. All keep the value for every assignment of values in those
ranges, in the integers (no overflow); a constant division by zero raises
`ZeroDivisionError`, and one that is only possible stays in the expression. An expression
that grows beyond all reason is an `Error`, E0901.

Operands have dtype `INT`, those of `logical_*` `BOOL`. Other parts (accesses, reals cast to
integers, locals) are atoms.
"""

from __future__ import annotations

from collections.abc import Callable

from ..dtypes import DType
from .nodes import (
    COMPARISONS,
    FALSE,
    LOGICAL,
    TRUE,
    Apply,
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Index,
    Select,
    Symbol,
    Unary,
)
from .rewrite import rebuild, walk
from .shapes_evaluate import evaluate, integer_power
from .shapes_interval import Bounds, Interval, Ranges, interval
from .shapes_polynomial import (
    Monomial,
    Polynomial,
    bounded,
    constant,
    expression,
    int_value,
    plus,
    polynomial,
    scaled,
    times,
)
from .shapes_rules import (
    extreme,
    floordiv_any,
    floordiv_const,
    joined,
    mod_any,
    mod_const,
    never_equal,
)

__all__ = [
    "Interval",
    "Ranges",
    "absolute",
    "add",
    "affine",
    "as_int",
    "ceildiv",
    "compare",
    "constant",
    "divisible",
    "equal",
    "evaluate",
    "floordiv",
    "interval",
    "less",
    "less_equal",
    "linear",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "mul",
    "neg",
    "power",
    "product",
    "select",
    "sign",
    "simplify",
    "sub",
    "total",
]

as_int = int_value
"""The value of a finite integer literal; none of any other expression."""


# ----------------------------------------------------------------- arithmetic


def add(a: Expr, b: Expr) -> Expr:
    """`a + b`."""
    x, y = int_value(a), int_value(b)
    if x is not None and y is not None:
        return constant(x + y)
    return expression(joined(plus(polynomial(a), polynomial(b))))


def sub(a: Expr, b: Expr) -> Expr:
    """`a - b`."""
    x, y = int_value(a), int_value(b)
    if x is not None and y is not None:
        return constant(x - y)
    return expression(joined(plus(polynomial(a), polynomial(b), -1)))


def neg(a: Expr) -> Expr:
    """`-a`."""
    x = int_value(a)
    return expression(joined(scaled(polynomial(a), -1))) if x is None else constant(-x)


def mul(a: Expr, b: Expr) -> Expr:
    """`a * b`, multiplied out unless that has very many terms."""
    x, y = int_value(a), int_value(b)
    if x is not None and y is not None:
        return constant(x * y)
    result = times(polynomial(a), polynomial(b))
    return bounded(Binary("mul", a, b)) if result is None else expression(joined(result))


def floordiv(a: Expr, b: Expr) -> Expr:
    """The quotient rounded toward minus infinity."""
    x, y = int_value(a), int_value(b)
    if y is None:
        return expression(joined(floordiv_any(polynomial(a), polynomial(b))))
    if x is not None or y == 0:
        return constant((x or 0) // y)
    p = polynomial(a) if y > 0 else scaled(polynomial(a), -1)  # a // -k = -a // k
    return expression(joined(floordiv_const(p, abs(y))))


def ceildiv(a: Expr, b: Expr) -> Expr:
    """The quotient rounded toward plus infinity."""
    x, y = int_value(a), int_value(b)
    if x is not None and y is not None:
        return constant(-(-x // y))
    if y is not None and y < 0:
        return ceildiv(neg(a), constant(-y))  # a \ -k = -a \ k
    if y == 0 or Bounds().lower(polynomial(b)) >= 1:
        return floordiv(sub(add(a, b), constant(1)), b)
    if interval(b)[1] <= -1:
        return ceildiv(neg(a), neg(b))
    return bounded(Binary("ceildiv", a, b))


def mod(a: Expr, b: Expr) -> Expr:
    """The remainder of `floordiv`, with the divisor's sign."""
    x, y = int_value(a), int_value(b)
    if y is None:
        return expression(joined(mod_any(polynomial(a), polynomial(b))))
    if x is not None or y == 0:
        return constant((x or 0) % y)
    if y < 0:
        return neg(mod(neg(a), constant(-y)))  # a % -k = -(-a % k)
    return expression(joined(mod_const(polynomial(a), y)))


def power(a: Expr, b: Expr) -> Expr:
    """`a ** b`; a negative power is 0, save for the powers of 1 and -1."""
    x, y = int_value(a), int_value(b)
    if x is not None and y is not None and (abs(x) <= 1 or y <= 1024):
        return constant(int(integer_power(x, y)))
    if y is None or not 0 <= y <= 8:
        return bounded(Binary("pow", a, b))
    result: Polynomial | None = {(): 1}
    for _ in range(y):
        result = None if result is None else times(result, polynomial(a))
    return bounded(Binary("pow", a, b)) if result is None else expression(joined(result))


def minimum(a: Expr, b: Expr) -> Expr:
    """The smaller one."""
    x, y = int_value(a), int_value(b)
    if x is not None and y is not None:
        return a if x <= y else b
    return extreme("min", a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    """The larger one."""
    x, y = int_value(a), int_value(b)
    if x is not None and y is not None:
        return a if x >= y else b
    return extreme("max", a, b)


def absolute(a: Expr) -> Expr:
    """`abs(a)`."""
    low, high = interval(a)
    if low >= 0:
        return a
    return neg(a) if high <= 0 else bounded(Apply("abs", (a,)))


def sign(a: Expr) -> Expr:
    """-1, 0 or 1."""
    low, high = interval(a)
    if low >= 1 or high <= -1 or low == high == 0:
        return constant(1 if low >= 1 else -1 if high <= -1 else 0)
    return bounded(Apply("sign", (a,)))


def total(*exprs: Expr) -> Expr:
    """The sum of any number of expressions."""
    result: Expr = constant(0)
    for e in exprs:
        result = add(result, e)
    return result


def product(*exprs: Expr) -> Expr:
    """The product of any number of expressions: the volume of a shape."""
    result: Expr = constant(1)
    for e in exprs:
        result = mul(result, e)
    return result


# ----------------------------------------------------- comparisons and logic


def compare(op: BinaryOp, a: Expr, b: Expr) -> Expr:
    """A comparison of integers, `TRUE` or `FALSE` if it is proved."""
    difference = plus(polynomial(b), polynomial(a), -1)
    bounds = Bounds()
    if op in ("eq", "ne"):
        if not difference:
            return TRUE if op == "eq" else FALSE
        if never_equal(difference):
            return FALSE if op == "eq" else TRUE
        return Binary(op, a, b)
    low, high = bounds.lower(difference), bounds.upper(difference)
    always = {"lt": low >= 1, "le": low >= 0, "gt": high <= -1, "ge": high <= 0}
    never = {"lt": high <= 0, "le": high <= -1, "gt": low >= 0, "ge": low >= 1}
    if always[op] or never[op]:
        return TRUE if always[op] else FALSE
    return Binary(op, a, b)


def equal(a: Expr, b: Expr) -> bool:
    """Whether two expressions certainly have the same value."""
    return a is b or not plus(polynomial(simplify(a)), polynomial(simplify(b)), -1)


def less(a: Expr, b: Expr) -> bool:
    """Whether `a < b` certainly holds."""
    return _least_difference(a, b) >= 1


def less_equal(a: Expr, b: Expr) -> bool:
    """Whether `a <= b` certainly holds."""
    return _least_difference(a, b) >= 0


def _least_difference(a: Expr, b: Expr) -> float:
    """What `b - a` is at least; nothing is known of what always divides by zero."""
    try:
        return interval(sub(simplify(b), simplify(a)))[0]
    except ZeroDivisionError:
        return float("-inf")


def logical_not(a: Expr) -> Expr:
    """Not `a`."""
    if isinstance(a, Const):
        return FALSE if a.value else TRUE
    if isinstance(a, Unary) and a.op == "not":
        return a.operand
    if isinstance(a, Binary) and a.op in _OPPOSITE and a.lhs.dtype is DType.INT:
        return Binary(_OPPOSITE[a.op], a.lhs, a.rhs)
    return Unary("not", a)


_OPPOSITE: dict[BinaryOp, BinaryOp] = {
    "lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq",
}  # fmt: skip


def logical_and(a: Expr, b: Expr) -> Expr:
    """Both."""
    if isinstance(a, Const):
        return b if a.value else FALSE
    if isinstance(b, Const):
        return a if b.value else FALSE
    return a if a == b else Binary("and", a, b)


def logical_or(a: Expr, b: Expr) -> Expr:
    """At least one."""
    if isinstance(a, Const):
        return TRUE if a.value else b
    if isinstance(b, Const):
        return TRUE if b.value else a
    return a if a == b else Binary("or", a, b)


def logical_xor(a: Expr, b: Expr) -> Expr:
    """Exactly one."""
    if isinstance(a, Const):
        return logical_not(b) if a.value else b
    if isinstance(b, Const):
        return logical_not(a) if b.value else a
    return FALSE if a == b else Binary("xor", a, b)


def select(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """`then` if `condition`, else `otherwise`, of any dtype."""
    if isinstance(condition, Const):
        return then if condition.value else otherwise
    return then if then == otherwise else bounded(Select(condition, then, otherwise))


# ------------------------------------------------------------ whole expressions

_ARITHMETIC: dict[BinaryOp, Callable[[Expr, Expr], Expr]] = {
    "add": add, "sub": sub, "mul": mul, "floordiv": floordiv, "ceildiv": ceildiv,
    "mod": mod, "pow": power, "min": minimum, "max": maximum,
}  # fmt: skip

_LOGIC: dict[BinaryOp, Callable[[Expr, Expr], Expr]] = {
    "and": logical_and, "or": logical_or, "xor": logical_xor,
}  # fmt: skip


def simplify(expr: Expr) -> Expr:
    """The canonical form of an expression of integers or bools.

    In real parts only the integer and bool parts are simplified. Sharing is kept. Raises
    `ZeroDivisionError` if the expression always divides by zero.
    """
    if isinstance(expr, (Const, Symbol, Index)):
        return expr
    return rebuild(expr, _simplify_node)


def _simplify_node(node: Expr) -> Expr:
    """The canonical form of a node whose parts have theirs."""
    match node:
        case Binary():
            return _simplify_binary(node)
        case Unary(op="neg") if node.dtype is DType.INT:
            return neg(node.operand)
        case Unary(op="not"):
            return logical_not(node.operand)
        case Select():
            return _simplify_select(node)
        case Cast():
            return _simplify_cast(node)
        case Apply(function="abs" | "sign") if node.dtype is DType.INT:
            return (absolute if node.function == "abs" else sign)(node.arguments[0])
        case _:
            return node


def _simplify_binary(node: Binary) -> Expr:
    if node.op in LOGICAL:
        return _LOGIC[node.op](node.lhs, node.rhs)
    if node.lhs.dtype is not DType.INT or node.rhs.dtype is not DType.INT:
        return node
    if node.op in COMPARISONS:
        return compare(node.op, node.lhs, node.rhs)
    return _ARITHMETIC[node.op](node.lhs, node.rhs)


def _simplify_select(node: Select) -> Expr:
    if isinstance(node.condition, Const):
        return node.then if node.condition.value else node.otherwise
    if node.then is node.otherwise:
        return node.then
    return select(node.condition, node.then, node.otherwise) if node.dtype is DType.INT else node


def _simplify_cast(node: Cast) -> Expr:
    if node.operand.dtype is node.dtype:
        return node.operand
    if node.dtype is DType.INT and isinstance(node.operand, Const):
        value = node.operand.value
        if isinstance(value, (bool, int)) or (isinstance(value, float) and abs(value) < 2**53):
            return constant(int(value))
    return node


def divisible(expr: Expr, k: int) -> bool:
    """Whether an integer expression is certainly a multiple of `k`."""
    return as_int(mod(simplify(expr), constant(k))) == 0


def linear(expr: Expr) -> tuple[dict[Index, Expr], Expr] | None:
    """Coefficients of indices, and the rest, if the expression is such a sum; all of them depend on
    symbols alone."""
    parts: dict[Index | None, dict[Monomial, int]] = {}
    for monomial, c in polynomial(simplify(expr)).items():
        found: list[Index | None] = [a for a in monomial if isinstance(a, Index)]
        others = tuple(a for a in monomial if not isinstance(a, Index))
        if len(found) > 1 or not all(_is_size(a) for a in others):
            return None
        parts.setdefault(found[0] if found else None, {})[others] = c
    rest = parts.pop(None, {})
    return {i: expression(p) for i, p in parts.items() if i is not None}, expression(rest)


def _is_size(atom: Expr) -> bool:
    return isinstance(atom, Symbol) or all(
        isinstance(x, (Const, Symbol, Binary, Unary)) for x in walk(atom)
    )


def count_inside(low: int, high: int, step: int, count: int, size: int) -> int:
    """For how many `0 <= i < count` all of `low + step * i` to `high + step * i` is from 0 to
    `size - 1`; `step` is positive."""
    first, last = max(-(low // step), 0), min((size - 1 - high) // step, count - 1)
    return max(last - first + 1, 0)


def affine(expr: Expr) -> tuple[dict[Index | Symbol, int], int] | None:
    """Coefficients of indices and symbols, and the constant, if the expression is their sum."""
    coefficients: dict[Index | Symbol, int] = {}
    terms = polynomial(simplify(expr))
    for monomial, c in terms.items():
        atom = monomial[0] if len(monomial) == 1 else None
        if isinstance(atom, (Index, Symbol)):
            coefficients[atom] = c
        elif monomial:
            return None
    return coefficients, terms.get((), 0)
