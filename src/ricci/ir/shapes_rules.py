"""Simplification rules for what is not a polynomial: quotients, remainders, minimum, maximum.

A table lists rules that are tried in order; each takes the operands as polynomials and gives
the polynomial of the result, or none if it does not apply. All rules are exact in the
integers, for every value that the symbols and indices can have.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from .nodes import Binary, Expr
from .shapes_interval import Bounds
from .shapes_polynomial import (
    Monomial,
    Polynomial,
    binary,
    bounded,
    int_value,
    plus,
    polynomial,
    rest_of,
    scaled,
    sort_key,
    times,
)

# ---------------------------------------------------- by a positive constant


def floordiv_const(a: Polynomial, k: int) -> Polynomial:
    """`floordiv(a, k)` for `k > 0`."""
    q, r = split_multiple(a, k)
    for rule in _FLOORDIV:
        result = rule(r, k)
        if result is not None:
            return plus(q, result)
    return plus(q, binary("floordiv", r, {(): k}))


def mod_const(a: Polynomial, k: int) -> Polynomial:
    """`mod(a, k)` for `k > 0`."""
    r = split_multiple(a, k)[1]
    for rule in _MOD:
        result = rule(r, k)
        if result is not None:
            return result
    return binary("mod", r, {(): k})


def split_multiple(a: Polynomial, k: int) -> tuple[Polynomial, Polynomial]:
    """`q, r` with `a = k*q + r`: in `q` all that is divisible by `k`; the constant of `r` is
    below `k`."""
    q = {m: c // k for m, c in a.items() if (not m or c % k == 0) and c // k}
    r = {m: c for m, c in a.items() if m and c % k}
    if a.get((), 0) % k:
        r[()] = a[()] % k
    return q, r


def _quotient_of_range(a: Polynomial, k: int) -> int | None:
    """The value of `floordiv(a, k)` if it is the same for all values that `a` can take."""
    bounds = Bounds()
    low, high = bounds.lower(a), bounds.upper(a)
    if isinstance(low, float) or isinstance(high, float) or low // k != high // k:
        return None
    return low // k


def _floordiv_by_range(a: Polynomial, k: int) -> Polynomial | None:
    t = _quotient_of_range(a, k)
    return None if t is None else ({(): t} if t else {})


def _mod_by_range(a: Polynomial, k: int) -> Polynomial | None:
    t = _quotient_of_range(a, k)
    return None if t is None else plus(a, {(): k * t}, -1)


def _common_factor(a: Polynomial, k: int) -> tuple[int, Polynomial, Polynomial] | None:
    """`g, m, s` with `a = g*m + s`, `0 <= s < g`, and `g > 1` a divisor of `k`."""
    divisors = {gcd(k, c) for m, c in a.items() if m} - {1}
    for g in sorted(divisors, reverse=True):
        m = {x: c // g for x, c in a.items() if x and c % g == 0}
        s = {x: c for x, c in a.items() if not x or c % g}
        t = _quotient_of_range(s, g)
        if t is not None:
            return g, plus(m, {(): t}), plus(s, {(): g * t}, -1)
    return None


def _floordiv_common(a: Polynomial, k: int) -> Polynomial | None:
    found = _common_factor(a, k)
    if found is None:
        return None
    g, m, _ = found
    return floordiv_const(m, k // g)


def _mod_common(a: Polynomial, k: int) -> Polynomial | None:
    found = _common_factor(a, k)
    if found is None:
        return None
    g, m, s = found
    return plus(s, mod_const(m, k // g), g)


def _floordiv_nested(a: Polynomial, k: int) -> Polynomial | None:
    for monomial, coefficient in a.items():
        if len(monomial) == 1 and coefficient == 1:
            atom = monomial[0]
            inner = _positive_divisor(atom, "floordiv")
            if inner and isinstance(atom, Binary):
                rest = {m: c for m, c in a.items() if m != monomial}
                return floordiv_const(plus(polynomial(atom.lhs), rest, inner), inner * k)
    return None


def _mod_nested(a: Polynomial, k: int) -> Polynomial | None:
    for monomial, coefficient in a.items():
        if len(monomial) == 1:
            atom = monomial[0]
            inner = _positive_divisor(atom, "mod")
            if inner and coefficient * inner % k == 0 and isinstance(atom, Binary):
                rest = {m: c for m, c in a.items() if m != monomial}
                return mod_const(plus(rest, polynomial(atom.lhs), coefficient), k)
    return None


def _positive_divisor(atom: Expr, op: str) -> int:
    if isinstance(atom, Binary) and atom.op == op:
        return max(0, int_value(atom.rhs) or 0)
    return 0


ConstRule = Callable[[Polynomial, int], Polynomial | None]

_FLOORDIV: tuple[ConstRule, ...] = (
    _floordiv_by_range,  # floordiv(r, k) -> t              if t*k <= r < (t+1)*k
    _floordiv_common,    # floordiv(g*m + s, g*k) -> floordiv(m, k)          if 0 <= s < g
    _floordiv_nested,    # floordiv(floordiv(x, a) + y, k) -> floordiv(x + a*y, a*k)
)  # fmt: skip

_MOD: tuple[ConstRule, ...] = (
    _mod_by_range,       # mod(r, k) -> r - t*k             if t*k <= r < (t+1)*k
    _mod_common,         # mod(g*m + s, g*k) -> g*mod(m, k) + s              if 0 <= s < g
    _mod_nested,         # mod(c*mod(x, a) + y, k) -> mod(c*x + y, k)        if k divides c*a
)  # fmt: skip

# ------------------------------------------------------------ by any divisor


def floordiv_any(a: Polynomial, b: Polynomial) -> Polynomial:
    """`floordiv(a, b)` for a divisor that is not a constant."""
    q, r = split_known_multiple(a, b)
    t = _quotient_by_order(r, b)
    if t is not None:
        return plus(q, {(): t} if t else {})
    return plus(q, binary("floordiv", r, b))


def mod_any(a: Polynomial, b: Polynomial) -> Polynomial:
    """`mod(a, b)` for a divisor that is not a constant."""
    r = split_known_multiple(a, b)[1]
    t = _quotient_by_order(r, b)
    return binary("mod", r, b) if t is None else plus(r, b, -t)


def _quotient_by_order(a: Polynomial, b: Polynomial) -> int | None:
    """0 if `0 <= a < b`, -1 if `-b <= a < 0`; this proves that `b` is positive."""
    bounds = Bounds()
    if bounds.lower(a) >= 0 and bounds.lower(plus(b, a, -1)) >= 1:
        return 0
    if bounds.upper(a) <= -1 and bounds.lower(plus(a, b)) >= 0:
        return -1
    return None


def split_known_multiple(a: Polynomial, b: Polynomial) -> tuple[Polynomial, Polynomial]:
    """`q, r` with `a = b*q + r`; `q` is zero unless `b` is certainly not zero."""
    if not a or not is_never_zero(b):
        return {}, a
    exact = _exact_ratio(a, b)
    if exact is not None:
        return {(): exact}, {}
    if len(b) > 1:
        return {}, a
    ((divisor, k),) = b.items()
    q: dict[Monomial, int] = {}
    r: dict[Monomial, int] = {}
    for monomial, c in a.items():
        rest = _without_atoms(monomial, divisor)
        if rest is None or c % k:
            r[monomial] = c
        else:
            q[rest] = c // k
    return q, r


def is_never_zero(b: Polynomial) -> bool:
    """Whether a polynomial is certainly not zero."""
    bounds = Bounds()
    return bounds.lower(b) >= 1 or bounds.upper(b) <= -1


def _exact_ratio(a: Polynomial, b: Polynomial) -> int | None:
    """The integer `t` with `a = t*b`, if there is one."""
    monomial, c = next(iter(b.items()))
    t, remainder = divmod(a.get(monomial, 0), c)
    return t if t and not remainder and a == scaled(b, t) else None


def _without_atoms(monomial: tuple[Expr, ...], gone: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    rest = list(monomial)
    for atom in gone:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


# ------------------------------------------------------------ sums of both


def joined(a: Polynomial) -> Polynomial:
    """`a` with `m*k*floordiv(x, k) + m*mod(x, k)` replaced by `m*x`, for every `m`."""
    for monomial in a:
        for position, atom in enumerate(monomial):
            if isinstance(atom, Binary) and atom.op == "mod":
                others = monomial[:position] + monomial[position + 1 :]
                result = _join(a, {others: a[monomial]}, atom)
                if result is not None:
                    return joined(result)
    return a


def _join(a: Polynomial, m: Polynomial, atom: Binary) -> Polynomial | None:
    x, k = polynomial(atom.lhs), polynomial(atom.rhs)
    quotient: Polynomial = {(Binary("floordiv", atom.lhs, atom.rhs),): 1}
    scale = times(m, k)
    whole = None if scale is None else times(scale, quotient)
    part, value = times(m, {(atom,): 1}), times(m, x)
    if whole is None or part is None or value is None:
        return None
    if any(abs(a.get(t, 0)) < abs(c) or a[t] * c < 0 for t, c in whole.items()):
        return None
    return plus(plus(plus(a, part, -1), whole, -1), value)


# ------------------------------------------------------- minimum and maximum


def extreme(op: str, a: Expr, b: Expr) -> Expr:
    """`min(a, b)` or `max(a, b)`: flat, sorted, without operands that another one beats.

    Those of `a` do not beat one another, since it is canonical.
    """
    kept = _operands(op, a)
    for candidate in _operands(op, b):
        if not any(_beats(op, other, candidate) for other in kept):
            kept = [other for other in kept if not _beats(op, candidate, other)]
            kept.append(candidate)
    kept.sort(key=sort_key)
    result = kept[0]
    for operand in kept[1:]:
        result = Binary("min" if op == "min" else "max", result, operand)
    return bounded(result)


def _operands(op: str, expr: Expr) -> list[Expr]:
    found: list[Expr] = []
    while isinstance(expr, Binary) and expr.op == op:
        found.append(expr.rhs)
        expr = expr.lhs
    return [expr, *reversed(found)]


def _beats(op: str, a: Expr, b: Expr) -> bool:
    """Whether `a` is never above `b` (for a minimum), never below it (for a maximum)."""
    low, high = (a, b) if op == "min" else (b, a)
    return Bounds().lower(plus(polynomial(high), polynomial(low), -1)) >= 0


def never_equal(difference: Polynomial) -> bool:
    """Whether a polynomial is certainly not zero, by its range or by divisibility."""
    divisor = gcd(*rest_of(difference).values())
    if divisor > 1 and difference.get((), 0) % divisor:
        return True  # 2*i + 4*j + 1
    return is_never_zero(difference)
