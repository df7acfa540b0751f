r"""Operators and built-in functions on single values (specification 2.4).

Python scalars are computed here, exactly: integers are 64-bit and overflow is an error,
`/` rounds down, `\` rounds up, `%` takes the divisor's sign, reals are float64. Where an
operand is an expression of the IR the result is one too, simplified as an integer
expression where no tensor is read, and decided where its range decides it.
"""

from __future__ import annotations

import math
import operator
import typing
from collections.abc import Callable
from typing import Any

from ...diagnostics import Error
from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...source import Span
from .values import (
    INT_LIMIT,
    Item,
    Scalar,
    check_size,
    describe,
    dtype_of,
    fail,
    from_expr,
    is_expr,
    is_static,
    show,
    to_expr,
)


def _power(base: int, exponent: int) -> int:
    """Toward zero for negative exponents: `2 ** -1` is 0."""
    if exponent < 0:
        if base == 0:
            raise ZeroDivisionError
        return base ** (exponent % 2) if abs(base) == 1 else 0
    if abs(base) > 1 and exponent > 64:
        return INT_LIMIT
    return int(base ** min(exponent, 2 - exponent % 2)) if abs(base) < 2 else int(base**exponent)


def _real_power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        negative = base < 0 and exponent % 2 == 1
        return -math.inf if negative else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


def _implies(a: bool, b: bool) -> bool:
    return not a or b


_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EQUALITY: dict[str, Callable[[Any, Any], bool]] = {"==": operator.eq, "!=": operator.ne}

_INT: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "\\": lambda a, b: -(-a // b),
    "%": operator.mod,
    "**": _power,
    "<<": min,
    ">>": max,
}
_REAL: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "\\": lambda a, b: _rounded(a / b, math.ceil),
    "%": operator.mod,
    "**": _real_power,
    "<<": min,
    ">>": max,
}
_BOOL: dict[str, Callable[[bool, bool], bool]] = {
    "&&": operator.and_,
    "||": operator.or_,
    "^": operator.xor,
    "=>": _implies,
}

_STATIC: dict[tuple[str, type], Callable[[Any, Any], Scalar]] = (
    {(op, int): f for op, f in {**_INT, **_ORDER, **_EQUALITY}.items()}
    | {(op, float): f for op, f in {**_REAL, **_ORDER, **_EQUALITY}.items()}
    | {(op, bool): f for op, f in {**_BOOL, **_ORDER, **_EQUALITY}.items()}
    | {(op, str): f for op, f in {"+": operator.add, **_ORDER, **_EQUALITY}.items()}
)

_NAMES: dict[str, nodes.BinaryOp] = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "\\": "ceildiv",
    "%": "mod",
    "**": "pow",
    "<<": "min",
    ">>": "max",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "==": "eq",
    "!=": "ne",
    "&&": "and",
    "||": "or",
    "^": "xor",
}

_ALLOWED: dict[DType, frozenset[str]] = {
    DType.INT: frozenset({**_INT, **_ORDER, **_EQUALITY}),
    DType.REAL: frozenset({**_REAL, **_ORDER, **_EQUALITY}),
    DType.BOOL: frozenset({**_BOOL, **_ORDER, **_EQUALITY}),
    DType.STR: frozenset({"+", *_ORDER, *_EQUALITY}),
}

_SHAPES: dict[str, Callable[[nodes.Expr, nodes.Expr], nodes.Expr]] = {
    "+": shapes.add,
    "-": shapes.sub,
    "*": shapes.mul,
    "/": shapes.floordiv,
    "\\": shapes.ceildiv,
    "%": shapes.mod,
    "**": shapes.power,
    "<<": shapes.minimum,
    ">>": shapes.maximum,
}


def binary(op: str, a: Item, b: Item, span: Span) -> Item:
    """`a op b` of two items that are not null.

    Raises E0502 for a division by zero, E0503 for operands that the operator does not
    take, E0504 for an integer beyond 64 bits.
    """
    kind = type(a)
    if kind is type(b):
        f = _STATIC.get((op, kind))
        if f is not None:
            return _compute(f, op, a, b, span)
    if not (is_static(a) or is_expr(a)) or not (is_static(b) or is_expr(b)):
        raise _wrong(op, a, b, span)
    dtype = dtype_of(a)
    if dtype is not dtype_of(b) or op not in _ALLOWED[dtype]:
        raise _wrong(op, a, b, span)
    return _symbolic(op, dtype, a, b, span)


def _compute(f: Callable[[Any, Any], Scalar], op: str, a: Item, b: Item, span: Span) -> Scalar:
    try:
        result = f(a, b)
    except ZeroDivisionError:
        raise _zero_division(op, a, b, span) from None
    except OverflowError:
        return math.inf
    if type(result) is int and not -INT_LIMIT <= result < INT_LIMIT:
        raise fail(
            "E0504",
            f"the result of `{op}` does not fit into 64 bits",
            span,
            f"{show(a)} {op} {show(b)}",
        )
    if type(result) is str and len(result) > 1 << 20:
        raise fail("E0903", "this program makes strings that are too long to handle", span)
    return result


def _zero_division(op: str, a: Item, b: Item, span: Span) -> Error:
    return fail("E0502", "division by zero", span, f"{show(a)} {op} {show(b)}")


def _wrong(op: str, a: Item, b: Item, span: Span) -> Error:
    kinds = f"{_kind(a)} and {_kind(b)}"
    hint = ""
    if {dtype_of(a), dtype_of(b)} == {DType.INT, DType.REAL}:
        hint = "nothing is converted implicitly; write `real(...)`, or a literal with a point"
    return fail("E0503", f"operator `{op}` does not take {kinds}", span, help=hint)


def _kind(item: Item) -> str:
    if isinstance(item, nodes.Tensor):
        return f"a tensor {describe(item)}"
    if isinstance(item, nodes.Subscript):
        return "a guarded index"
    return f"`{dtype_of(item)}`"


# ----------------------------------------------------- expressions of the IR


def _symbolic(op: str, dtype: DType, a: Item, b: Item, span: Span) -> Item:
    if op == "=>":
        return binary("||", unary("!", a, span), b, span)
    if dtype is DType.BOOL and op in _ORDER:
        return _symbolic_order(op, a, b, span)
    x, y = to_expr(a), to_expr(b)
    if dtype is DType.BOOL and op in ("&&", "||"):
        return _connect(op, a, b)
    if dtype is DType.INT:
        if op in ("/", "\\", "%") and b == 0 and is_static(b):
            raise _zero_division(op, a, b, span)
        if reads_nothing(x) and reads_nothing(y):
            return _symbolic_int(op, x, y, span)
    elif dtype is DType.STR or (op == "/" and is_static(a) and is_static(b)):
        raise _wrong(op, a, b, span)
    if op == "/":
        return nodes.Binary("floordiv" if dtype is DType.INT else "div", x, y)
    return nodes.Binary(_NAMES[op], x, y)


def _symbolic_order(op: str, a: Item, b: Item, span: Span) -> Item:
    """False is less than true, so `a < b` is `!a && b`, and `a <= b` is `!a || b`."""
    if op in (">", ">="):
        a, b = b, a
    return binary("&&" if op in ("<", ">") else "||", unary("!", a, span), b, span)


def _connect(op: str, a: Item, b: Item) -> Item:
    """`&&` and `||` where one side may be known; a side with a guard is never dropped."""
    decisive = op == "||"
    for one, other in ((a, b), (b, a)):
        if is_static(one):
            if one is not decisive:
                return other
            if not rewrite.has_guard(to_expr(other)):
                return decisive
    return nodes.Binary(_NAMES[op], to_expr(a), to_expr(b))


def _symbolic_int(op: str, x: nodes.Expr, y: nodes.Expr, span: Span) -> Item:
    if not _is_infinite(x) and not _is_infinite(y):
        if op in _SHAPES:
            result = from_expr(_SHAPES[op](x, y))
            check_size(result, span)
            return result
        return from_expr(shapes.compare(_NAMES[op], x, y))
    return nodes.Binary("floordiv" if op == "/" else _NAMES[op], x, y)


def _is_infinite(expr: nodes.Expr) -> bool:
    return isinstance(expr, nodes.Const) and isinstance(expr.value, float)


def reads_nothing(expr: nodes.Expr) -> bool:
    """Whether an expression depends on sizes and indices only, not on a tensor's elements."""
    kind = type(expr)
    if kind is nodes.Const or kind is nodes.Symbol or kind is nodes.Index:
        return True
    return not any(type(e) is nodes.Access for e in rewrite.nodes_through_locals(expr))


def unary(op: str, item: Item, span: Span) -> Item:
    """`+`, `-` or `!` of an item that is not null; raises E0503 for what they do not take."""
    if is_static(item) or is_expr(item):
        dtype = dtype_of(item)
        if op == "!" and dtype is DType.BOOL:
            return not item if is_static(item) else nodes.Unary("not", to_expr(item))
        if op != "!" and dtype.is_numeric:
            return item if op == "+" else _negate(item, dtype, span)
    raise fail("E0503", f"operator `{op}` does not take {_kind(item)}", span)


def _negate(item: Item, dtype: DType, span: Span) -> Item:
    if isinstance(item, nodes.Const):
        assert not isinstance(item.value, str)
        return nodes.Const(-item.value, dtype)
    if isinstance(item, float):
        return -item
    x = to_expr(item)
    if dtype is DType.INT and reads_nothing(x):
        return binary("-", 0, item, span)
    return nodes.Unary("neg", x)


def identical(a: Item, b: Item) -> bool:
    """`a is b`: equal values, provably equal expressions, the same tensor."""
    if is_expr(a) or is_expr(b):
        if not (is_expr(a) or is_static(a)) or not (is_expr(b) or is_static(b)):
            return False
        if dtype_of(a) is DType.INT and dtype_of(b) is DType.INT:
            x, y = to_expr(a), to_expr(b)
            if _is_infinite(x) or _is_infinite(y):
                return x is y or x == y
            return shapes.equal(x, y)
        return a is b
    return a is b if isinstance(a, nodes.Tensor) else type(a) is type(b) and a == b


# ------------------------------------------------------- casts and functions


def cast(dtype: DType, item: Item, span: Span) -> Item:
    """`T(x)`; real to int truncates. Raises E0503 for strings and reals with no integer."""
    if isinstance(item, nodes.Tensor | nodes.Subscript | str) or dtype is DType.STR:
        raise fail("E0503", f"{_kind(item)} cannot be converted to `{dtype}`", span)
    if dtype_of(item) is dtype:
        return item
    if not is_static(item):
        return nodes.Cast(dtype, to_expr(item))
    if dtype is DType.BOOL:
        return bool(item)
    return float(item) if dtype is DType.REAL else _to_int(item, span)


def _to_int(item: Scalar, span: Span) -> Item:
    assert not isinstance(item, str)
    if isinstance(item, float) and math.isinf(item):
        return nodes.Const(item, DType.INT)
    if math.isnan(item):
        raise fail("E0503", "what is not a number has no integer", span)
    if not -INT_LIMIT <= int(item) < INT_LIMIT:
        raise fail("E0504", "the integer does not fit into 64 bits", span, show(item))
    return int(item)


def _rounded(x: float, f: Callable[[float], float]) -> float:
    return float(f(x)) if math.isfinite(x) else x


def _half_away(x: float) -> float:
    whole = math.floor(abs(x))
    return math.copysign(whole + (abs(x) - whole >= 0.5), x)


def _sign(x: float) -> float:
    return x if x == 0 or math.isnan(x) else math.copysign(1.0, x)


_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "atanh": math.atanh,
    "erf": math.erf,
    "abs": abs,
    "sign": _sign,
    "round": lambda x: _rounded(x, _half_away),
    "floor": lambda x: _rounded(x, math.floor),
    "ceil": lambda x: _rounded(x, math.ceil),
    "frac": lambda x: math.fmod(x, 1.0) if math.isfinite(x) else math.copysign(0.0, x),
}


def apply(function: str, item: Item, span: Span) -> Item:
    """A built-in function; out of its domain it gives nan or an infinity.

    Raises E0503: `abs` and `sign` take numbers, all others reals.
    """
    numbers = function in ("abs", "sign")
    dtype = dtype_of(item)
    known = function in _FUNCTIONS and (is_static(item) or is_expr(item))
    if not known or not (dtype is DType.REAL or (numbers and dtype is DType.INT)):
        raise fail("E0503", f"function `{function}` does not take {_kind(item)}", span)
    if isinstance(item, int):
        return abs(item) if function == "abs" else (item > 0) - (item < 0)
    if isinstance(item, float):
        return _call(_FUNCTIONS[function], item)
    x = to_expr(item)
    if dtype is DType.INT and reads_nothing(x):
        return from_expr(shapes.absolute(x) if function == "abs" else shapes.sign(x))
    return nodes.Apply(typing.cast(nodes.Function, function), (x,))


def _call(f: Callable[[float], float], x: float) -> float:
    try:
        return f(x)
    except OverflowError:
        return -math.inf if f is math.sinh and x < 0 else math.inf
    except ValueError:
        if f is math.log and x == 0:
            return -math.inf
        return math.copysign(math.inf, x) if f is math.atanh and abs(x) == 1 else math.nan
