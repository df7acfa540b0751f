"""What kernels of a group know of quotients by a root of a sum of squares: where what is divided is
infinite, its square is among those that are added up, and the divisor is infinite, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...ir.loops import Reduce
from ...ir.nodes import Access, Apply, Binary, Const, Expr, Local, Tensor
from ...records import replace
from .group_peaks import is_among, is_plain, stays

Spreads = Mapping[Tensor, Reduce]
"""Tensors of what grows with a sum of squares, and is never tiny, and the kernels that make it."""
_LEAST = 1e-18
"""What it is at least: its reciprocal is a normal number, and what it divides no more than the root
of the largest number, so no quotient of numbers is infinite."""


def spreads_of(kernels: Sequence[Reduce]) -> Spreads:
    """The tensors of a group that hold something of the kind. Nothing else is written to them, nor
    to what is added up after that."""
    return {
        k.targets[0].tensor: k
        for k in kernels
        if _root(k) is not None and is_plain(k) and stays(k, kernels)
        if _least(k.results[0], k.accumulators[0]) >= _LEAST
    }


def is_of_spread(expr: Binary, spreads: Spreads) -> bool:
    """Whether a quotient is one of a value by what has been made from its square and others'."""
    match expr:
        case Binary("div", value, Access() as spread) if spread.tensor in spreads:
            kernel = spreads[spread.tensor]
            root = _root(kernel)
            return root is not None and is_among(
                _whole(value), spread, replace(kernel, values=(root,))
            )
    return False


def _root(kernel: Reduce) -> Expr | None:
    """What a kernel adds up the squares of, if it does that, from zero on."""
    match kernel.initial, kernel.values:
        case (Const(start),), (Binary("mul", one, other),) if kernel.op == "add" and start == 0:
            is_square = one == other and repr(one) == repr(other)  # zeros of either sign are equal
            return _whole(one) if is_square else None
    return None


def _whole(expr: Expr) -> Expr:
    return _whole(expr.value) if isinstance(expr, Local) else expr


def _least(expr: Expr, sum: Local) -> float:
    """What an expression is at least where a sum is not negative, if it is infinite where that is,
    and NaN where that is; NaN if it may be less than 0, or tiny on the way, or is of another
    kind."""
    least = math.nan
    match expr:
        case Local() if expr is sum:
            return 0.0
        case Local(_, value):
            return _least(value, sum)
        case Apply("sqrt", (value,)):
            least = math.sqrt(_least(value, sum))
        case Binary("add" | "mul" as op, Const() as known, value) if not isinstance(value, Const):
            return _least(Binary(op, value, known), sum)
        case Binary("add", value, Const(float() as known)) if _is_near(known):
            least = _least(value, sum) + known
        case Binary("mul", value, Const(float() as known)) if _is_near(known):
            least = _least(value, sum) * known
        case Binary("div", value, Const(float() as known)) if _is_near(known):
            least = _least(value, sum) / known
    return least if least == 0 or least >= _LEAST else math.nan


def _is_near(known: float) -> bool:
    """Whether a constant is a normal number of any type of quotients."""
    return _LEAST <= known <= 1 / _LEAST
