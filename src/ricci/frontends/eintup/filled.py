"""Which arrays are inputs: those that `RANDOM` fills, all of them, at their first mention."""

from __future__ import annotations

from . import syntax as s
from .uses import variables


def is_filled(first: s.Statement) -> bool:
    """Whether a first mention is `A[...] = RANDOM(...)` and reaches every cell of `A`."""
    items = first.target.items
    names = [name for item in items for name in variables(item)]
    return (
        first.operator == "="
        and isinstance(first.value, s.Random)
        and len(names) == len(set(names))
        and all(map(_covers, items))
    )


def _covers(expr: s.IndexExpr) -> bool:
    """Whether an expression takes every value below its extent."""
    match expr:
        case s.Eintup() | s.Whole(0):
            return True
        case s.Flat(items):
            return all(map(_covers, items)) and _are_apart(items)
        case s.IndexBinary("+", s.IndexBinary("*", high, scale), low):
            return _is_radix(high, scale, low)
        case s.IndexBinary("+", low, s.IndexBinary("*", high, scale)):
            return _is_radix(high, scale, low)
        case _:
            return False


def _is_radix(high: s.IndexExpr, scale: s.IndexExpr, low: s.IndexExpr) -> bool:
    """`i * DIMS(j) + j`, or with the factors swapped, counts without gaps."""
    if scale != s.Dims((low,)):
        high, scale = scale, high
    return scale == s.Dims((low,)) and _covers(high) and _covers(low) and _are_apart((high, low))


def _are_apart(items: tuple[s.IndexExpr, ...]) -> bool:
    names = [name for item in items for name in variables(item)]
    return len(names) == len(set(names))
