"""Proved bounds of integer expressions.

Bounds of a polynomial come from the bounds of its atoms, and, better, from the relations
that define an atom: an index stays below its extent, `k*floordiv(x, k)` between `x - k + 1`
and `x`. With `i < n`, `n - 1 - i` is at least 0 although neither `n` nor `i` is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import ceil, floor, inf, isinf, isnan
from operator import add, mul, sub
from weakref import WeakKeyDictionary

from ..dtypes import DType
from .nodes import (
    COMPARISONS,
    Access,
    Apply,
    Binary,
    Cast,
    Const,
    Expr,
    Index,
    Local,
    Select,
    Symbol,
    Unary,
)
from .shapes_polynomial import (
    Monomial,
    Polynomial,
    const_of,
    int_value,
    plus,
    polynomial,
    scaled,
    times,
)

Number = int | float
Interval = tuple[Number, Number]
Ranges = Mapping[Expr, Interval]

EVERYTHING: Interval = (-inf, inf)

_LARGEST = 2**200

_LOCALS: WeakKeyDictionary[Local, Interval] = WeakKeyDictionary()
"""Bounds of locals that depend on nothing else."""

_KNOWN: dict[int, tuple[Expr, Interval]] = {}
"""Bounds found without ranges, by the expressions' numbers, which are kept with them."""
_MOST_KNOWN = 1 << 14

_STEPS = 48
"""How often an atom may be replaced in one proof: sums of many minima have very many."""


def interval(expr: Expr, ranges: Ranges | None = None) -> Interval:
    """Bounds that the value of an integer or bool expression certainly keeps.

    Indices range over `0 .. extent-1`, symbols over `0 .. bound`, unless `ranges` gives an
    atom other (inclusive) bounds. What is unknown is infinite. Bools range over 0 to 1.
    """
    value = int_value(expr)
    if value is not None:
        return value, value
    return Bounds(ranges).of(expr)


class Bounds:
    """Computes intervals under given ranges, each expression once."""

    def __init__(self, ranges: Ranges | None = None) -> None:
        self.ranges: Ranges = ranges or {}
        self._known: dict[int, tuple[Expr, Interval]] = {} if ranges else _KNOWN
        self._steps_left = 0

    def of(self, expr: Expr) -> Interval:
        known = self._known.get(id(expr))
        if known is None:
            known = expr, self._find(expr)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[id(expr)] = known
        return known[1]

    def _find(self, expr: Expr) -> Interval:
        if expr.dtype is DType.INT and isinstance(expr, (Binary, Unary)):
            terms = polynomial(expr)
            if not any(monomial and monomial[0] is expr for monomial in terms):
                return self.lower(terms), self.upper(terms)
        return self._atom(expr)

    # ------------------------------------------------------------ polynomials

    def lower(self, a: Polynomial) -> Number:
        """The largest lower bound of a polynomial that is found."""
        outer, self._steps_left = self._steps_left, _STEPS
        found = self._lower(a)
        self._steps_left = outer
        return found

    def upper(self, a: Polynomial) -> Number:
        """The smallest upper bound of a polynomial that is found."""
        return -self.lower(scaled(a, -1))

    def _lower(self, a: Polynomial) -> Number:
        value = const_of(a)
        if value is not None:
            return limited(value)
        best = self._plain(a)[0]
        for weaker in self._relaxed(a):
            if self._steps_left > 0:
                self._steps_left -= 1
                best = max(best, self._lower(weaker))
        return best

    def _plain(self, a: Polynomial) -> Interval:
        """The sum of the intervals of the terms, each taken for itself."""
        low: Number = 0
        high: Number = 0
        for monomial, coefficient in a.items():
            lo, hi = self._monomial(monomial)
            lo, hi = _product(lo, coefficient), _product(hi, coefficient)
            if coefficient < 0:
                lo, hi = hi, lo
            low, high = low + lo, high + hi
        return low, high

    def _monomial(self, monomial: Monomial) -> Interval:
        if len(monomial) == 1:
            return self.of(monomial[0])
        result: Interval = (1, 1)
        position = 0
        while position < len(monomial):
            atom = monomial[position]
            power = monomial.count(atom)
            lo, hi = self.of(atom)
            if power % 2 == 0 and lo < 0:
                lo, hi = 0, max(-lo, hi)
            for _ in range(power):
                result = multiply(result, (lo, hi))
            position += power
        return result

    def _relaxed(self, a: Polynomial) -> Iterator[Polynomial]:
        """Polynomials that are nowhere above `a`, with the first atom that allows it gone."""
        for monomial in a:
            for atom in monomial:
                weaker = list(self._without(a, atom))
                if weaker:
                    yield from weaker
                    return

    def _without(self, a: Polynomial, atom: Expr) -> Iterator[Polynomial]:
        if self.ranges and atom in self.ranges:
            return
        match atom:
            case Index() if int_value(atom.extent) is None:
                factor, rest = _split(a, atom)
                if factor is None:
                    return
                low, high = self._plain(factor)
                if low >= 0:
                    yield rest  # i >= 0
                if high <= 0:
                    last = plus(polynomial(atom.extent), {(): 1}, -1)
                    yield from _sum(rest, times(factor, last))  # i <= extent - 1
            case Binary(op="floordiv") | Binary(op="min") | Binary(op="max"):
                factor, rest = _split(a, atom)
                value = None if factor is None else const_of(factor)
                if value is not None:
                    yield from _weaken(atom, value, rest)

    # ------------------------------------------------------------------ atoms

    def _atom(self, expr: Expr) -> Interval:
        if self.ranges and expr in self.ranges:
            return self.ranges[expr]
        match expr:
            case Const():
                return _const_interval(expr)
            case Symbol():
                return 0, inf if expr.bound is None else max(0, self.of(expr.bound)[1])
            case Index():
                return 0, max(0, self.of(expr.extent)[1] - 1)
            case Local():
                return self._local(expr)
            case Binary():
                return self._binary(expr)
            case Select():
                (a, b), (c, d) = self.of(expr.then), self.of(expr.otherwise)
                return min(a, c), max(b, d)
            case Cast(operand=operand) if expr.dtype is DType.INT and operand.dtype.is_real:
                return _around(self._real(operand))
            case Cast():
                known = expr.dtype is DType.INT and _is_exact(expr.operand.dtype)
                return self.of(expr.operand) if known else _dtype_interval(expr.dtype)
            case Apply(function="abs") if _is_exact(expr.dtype):
                return _absolute(self.of(expr.arguments[0]))
            case Apply(function="sign") if _is_exact(expr.dtype):
                lo, hi = self.of(expr.arguments[0])
                return max(-1, min(1, lo)), max(-1, min(1, hi))
            case Access() | Apply() | Unary():
                return _dtype_interval(expr.dtype)

    def _real(self, expr: Expr) -> Interval:
        """Bounds of a real that is made of integers, but for its rounding."""
        match expr:
            case Const(value=float() | int() as value):
                return value, value
            case Cast() if _is_exact(expr.operand.dtype):
                return self.of(expr.operand)
            case Binary(op="add" | "sub" | "mul" as op):
                a, b = self._real(expr.lhs), self._real(expr.rhs)
                corners = [_REALS[op](x, y) for x in a for y in b]
                known = not any(isnan(x) for x in corners)
                return (min(corners), max(corners)) if known else EVERYTHING
            case Apply(function="round" | "floor" | "ceil"):
                return self._real(expr.arguments[0])
        return EVERYTHING

    def _local(self, local: Local) -> Interval:
        """Those of a local, which are found once: locals stand on others, in long chains."""
        if self.ranges:
            return self.of(local.value)
        if local not in _LOCALS:
            _LOCALS[local] = Bounds().of(local.value)
        return _LOCALS[local]

    def _binary(self, expr: Binary) -> Interval:
        if expr.dtype is not DType.INT or expr.op in COMPARISONS:
            return _dtype_interval(expr.dtype)
        a, b = self.of(expr.lhs), self.of(expr.rhs)
        match expr.op:
            case "min":
                return min(a[0], b[0]), min(a[1], b[1])
            case "max":
                return max(a[0], b[0]), max(a[1], b[1])
            case "floordiv":
                return _floordiv(a, b)
            case "ceildiv":
                low, high = _floordiv((-a[1], -a[0]), b)
                return -high, -low
            case "mod":
                return _mod(a, b)
            case "pow":
                return _pow(a, b)
            case "mul":
                return multiply(a, b)
            case _:
                return EVERYTHING


def _split(a: Polynomial, atom: Expr) -> tuple[Polynomial | None, Polynomial]:
    """`factor, rest` with `a = factor * atom + rest`; no factor if `atom` has a higher power."""
    factor: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in a.items():
        count = monomial.count(atom)
        if count > 1:
            return None, a
        if count:
            at = monomial.index(atom)
            factor[monomial[:at] + monomial[at + 1 :]] = coefficient
        else:
            rest[monomial] = coefficient
    return factor, rest


def _sum(a: Polynomial, b: Polynomial | None) -> Iterator[Polynomial]:
    if b is not None:
        yield plus(a, b)


def _weaken(atom: Binary, factor: int, rest: Polynomial) -> Iterator[Polynomial]:
    """Lower bounds of `factor * atom + rest` that the atom's definition gives."""
    x = polynomial(atom.lhs)
    if atom.op == "floordiv":
        k = int_value(atom.rhs)
        if k is not None and k > 0 and factor % k == 0:
            times_k = factor // k
            if factor > 0:  # k*floordiv(x, k) >= x - (k-1)
                x = plus(x, {(): k - 1}, -1)
            yield plus(rest, x, times_k)  # k*floordiv(x, k) <= x
    elif (atom.op == "max") == (factor > 0):  # max(x, y) >= x, y; min(x, y) <= x, y
        yield plus(rest, x, factor)
        yield plus(rest, polynomial(atom.rhs), factor)


def multiply(a: Interval, b: Interval) -> Interval:
    """The interval of products; zero times infinity is zero."""
    if b[0] == b[1]:
        x, y = _product(a[0], b[0]), _product(a[1], b[0])
        return (x, y) if x <= y else (y, x)
    products = [_product(x, y) for x in a for y in b]
    return min(products), max(products)


def _product(x: Number, y: Number) -> Number:
    if not x or not y:
        return 0
    if isinstance(x, float) or isinstance(y, float):
        return inf if (x > 0) == (y > 0) else -inf
    return limited(x * y)


def limited(x: Number) -> Number:
    """`x`; infinity if it is too large to be added to one."""
    return x if abs(x) <= _LARGEST else inf if x > 0 else -inf


_REALS: dict[str, Callable[[Number, Number], Number]] = {"add": add, "sub": sub, "mul": mul}


def _around(reals: Interval) -> Interval:
    """Integers that reals become by any rounding, in any type of 8 exact bits at least."""
    low, high = (limited(x) for x in reals)
    slack = 2 + max(abs(low), abs(high)) / 64
    return (low if isinf(low) else floor(low - slack), high if isinf(high) else ceil(high + slack))


def _is_exact(dtype: DType) -> bool:
    return dtype is DType.INT or dtype is DType.BOOL


_WIDTHS = {
    DType.INT8: (-(2**7), 2**7 - 1),
    DType.INT16: (-(2**15), 2**15 - 1),
    DType.INT32: (-(2**31), 2**31 - 1),
    DType.INT64: (-(2**63), 2**63 - 1),
    DType.UINT8: (0, 2**8 - 1),
    DType.UINT16: (0, 2**16 - 1),
    DType.UINT32: (0, 2**32 - 1),
    DType.UINT64: (0, 2**64 - 1),
    DType.BOOL: (0, 1),
}


def _dtype_interval(dtype: DType) -> Interval:
    return _WIDTHS.get(dtype, EVERYTHING)


def _const_interval(expr: Const) -> Interval:
    if isinstance(expr.value, (bool, int)):
        return limited(int(expr.value)), limited(int(expr.value))
    return EVERYTHING


def _absolute(a: Interval) -> Interval:
    lo, hi = a
    return (0 if lo <= 0 <= hi else min(abs(lo), abs(hi))), max(abs(lo), abs(hi))


def _floordiv(a: Interval, b: Interval) -> Interval:
    """Of divisors that may be zero only the others count: those give a value."""
    parts = []
    if b[1] >= 1:
        parts += [(x, y) for x in a for y in (max(1, b[0]), b[1])]
    if b[0] <= -1:
        parts += [(x, y) for x in a for y in (b[0], min(-1, b[1]))]
    quotients = [_quotient(x, y) for x, y in parts]
    return (min(quotients), max(quotients)) if quotients else EVERYTHING


def _quotient(x: Number, y: Number) -> Number:
    if isinstance(x, float):
        return x if y > 0 else -x
    if isinstance(y, float):
        return 0 if (x >= 0) == (y > 0) or x == 0 else -1
    return x // y


def _mod(a: Interval, b: Interval) -> Interval:
    """The divisor's sign, and less than it; no farther from zero than a dividend of that sign."""
    low: Number = min(0, b[0] + 1)
    high: Number = max(0, b[1] - 1)
    if a[0] >= 0 and b[0] >= 0:
        high = min(high, a[1])
    return low, high


def _pow(a: Interval, b: Interval) -> Interval:
    if isinstance(b[0], float) or isinstance(b[1], float) or b[0] < 0 or b[1] > 64:
        return (0, inf) if a[0] >= 0 else EVERYTHING
    if b[0] == b[1] and b[0] % 2 == 0 and a[0] < 0:
        a = _absolute(a)
    if a[0] < 0 and b[0] != b[1]:
        return EVERYTHING
    values = [limited(x**y) for x in a for y in b]
    return min(values), max(values)
