"""Operations on packs: broadcasting, folds, ranges, subscripts and substitution (2.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from ...dtypes import DType
from ...ir import nodes
from ...source import Span
from .evaluate_scalars import binary, identical, unary
from .values import (
    LONGEST_PACK,
    Budget,
    Item,
    Pack,
    Value,
    dtype_of,
    fail,
    is_expr,
    show,
    to_expr,
)


def broadcast(
    f: Callable[[Item, Item], Item], a: Value, b: Value, span: Span, budget: Budget
) -> Value:
    """`f` of two values that are not null: item by item, single values with every item."""
    if isinstance(a, tuple):
        budget.spend(len(a), span)
        if isinstance(b, tuple):
            check_lengths(a, b, span)
            return tuple([f(x, y) for x, y in zip(a, b, strict=True)])
        assert b is not None
        return tuple([f(x, b) for x in a])
    assert a is not None
    assert b is not None
    if isinstance(b, tuple):
        budget.spend(len(b), span)
        return tuple([f(a, y) for y in b])
    return f(a, b)


def check_lengths(a: Pack, b: Pack, span: Span) -> None:
    """Raises E0506 unless both packs have one length."""
    if len(a) != len(b):
        raise fail(
            "E0506",
            f"packs of {len(a)} and {len(b)} items cannot be combined item by item",
            span,
            notes=(f"left: {show(a)}", f"right: {show(b)}"),
        )


def require_pack(value: Value, span: Span) -> Pack | str:
    """A value whose items can be taken; a string is a pack of characters. Raises E0503."""
    if isinstance(value, tuple | str):
        return value
    raise fail("E0503", "a pack is needed here", span, f"this is {show(value)}")


def require_int(value: Value, span: Span, what: str) -> int:
    """An integer known now. Raises E0503, or E0507 where it is known only at run time."""
    if type(value) is int:
        return value
    if is_expr(value) and value.dtype is DType.INT:
        raise fail(
            "E0507",
            f"{what} must be known when the graph is composed",
            span,
            f"{show(value)} is known only at run time",
        )
    raise fail("E0503", f"{what} must be an integer", span, f"this is {show(value)}")


# ----------------------------------------------------------------------- folds

_EMPTY: dict[str, Item | None] = {
    "+": 0,
    "*": 1,
    "&&": True,
    "||": False,
    "<<": None,
    ">>": None,
    "<": True,
    "<=": True,
    ">": True,
    ">=": True,
    "==": False,
    "!=": True,
    ":=": None,
}
MOST_TERMS = 256
"""Terms of a fold whose items are known only at run time: each adds a level to the result."""


def fold(op: str, pack: Pack, span: Span) -> Value:
    """`x op ..`; comparisons hold between neighbours, `!=` between all pairs; `:=` gives the
    value that all items provably have, or null.

    Spec: `== ..` of an empty pack "may or may not" hold. Ricci: it does not.
    """
    if not pack:
        return _EMPTY[op]
    if op == ":=":
        first = pack[0]
        return first if all(identical(first, item) for item in pack[1:]) else None
    if op == "!=":
        return _all_differ(pack, span)
    _limit_terms(pack, span)
    if op in ("<", "<=", ">", ">=", "=="):
        return _conjunction((binary(op, a, b, span) for a, b in pairwise(pack)), span)
    result = pack[0]
    for item in pack[1:]:
        result = binary(op, result, item, span)
    return result if len(pack) > 1 else _check_fold(op, result, span)


def cumulate(op: str, pack: Pack, span: Span) -> Pack:
    """`x op ...`: all intermediate results, as many as there are items."""
    _limit_terms(pack, span)
    results: list[Item] = []
    for item in pack:
        results.append(binary(op, results[-1], item, span) if results else item)
    if results:
        _check_fold(op, results[0], span)
    return tuple(results)


def _check_fold(op: str, item: Item, span: Span) -> Item:
    """One item is its own fold, of a type that the operator takes."""
    binary(op, item, item, span) if dtype_of(item) in (DType.BOOL, DType.STR) else None
    return item


def _limit_terms(pack: Pack, span: Span) -> None:
    if len(pack) > MOST_TERMS and sum(is_expr(item) for item in pack) > MOST_TERMS:
        raise fail("E0903", "too many values known only at run time are folded", span)


def _conjunction(terms: Iterable[Item], span: Span) -> Item:
    result: Item = True
    for term in terms:
        result = binary("&&", result, term, span)
    return result


def _all_differ(pack: Pack, span: Span) -> Item:
    if not any(is_expr(item) for item in pack):
        return len(set(map(_key, pack))) == len(pack)
    _limit_terms(pack, span)
    if len(pack) > MOST_TERMS:
        raise fail("E0903", "too many values known only at run time are compared", span)
    pairs = ((a, b) for i, a in enumerate(pack) for b in pack[:i])
    return _conjunction((binary("!=", b, a, span) for a, b in pairs), span)


def _key(item: Item) -> tuple[type, object]:
    return type(item), id(item) if isinstance(item, nodes.Tensor) else item


def contains(pack: Pack, item: Item, span: Span) -> Item:
    """`item in pack`: whether it equals one of the items, now or when the graph runs."""
    if any(identical(item, other) for other in pack):
        return True
    later = tuple([other for other in pack if is_expr(item) or is_expr(other)])
    _limit_terms(later, span)
    differs = _conjunction((binary("!=", item, other, span) for other in later), span)
    return unary("!", differs, span)


# ---------------------------------------------------------- ranges, subscripts


def make_range(begin: int, end: int, stride: int, span: Span, budget: Budget) -> Pack:
    """`begin:end:stride` of a list; empty when it runs the wrong way. Raises E0508."""
    if stride == 0:
        raise fail("E0508", "a range with stride zero", span)
    count = max(0, -((begin - end) // stride))
    budget.spend(min(count, LONGEST_PACK + 1), span)
    return tuple(range(begin, end, stride))


def slice_positions(
    length: int, begin: int | None, end: int | None, stride: int | None, span: Span
) -> range:
    """The positions that `p[begin:end:stride]` takes, clamped to the pack as Python does.

    Spec: negative positions count from the end; past the ends nothing is said.
    Ricci: a slice ends where the pack does.
    """
    if stride == 0:
        raise fail("E0508", "a slice with stride zero", span)
    return range(*slice(begin, end, stride).indices(length))


def position(index: int, length: int, span: Span) -> int:
    """Where an index points; negative ones count from the end. Raises E0505."""
    if -length <= index < length:
        return index % length
    ends = f"its items are 0 to {length - 1}" if length else "it has no items"
    raise fail("E0505", f"index {index} is out of the pack's range", span, ends)


def take(pack: Pack | str, positions: range | list[int]) -> Value:
    """The items, or the characters, at positions."""
    if isinstance(pack, str):
        return "".join([pack[i] for i in positions])
    return tuple([pack[i] for i in positions])


def positions_of(index: Pack, length: int, span: Span) -> list[int]:
    """The positions that a pack of indices, or a mask, takes."""
    if index and all(isinstance(item, bool) for item in index):
        if len(index) != length:
            raise fail("E0506", f"a mask of {len(index)} items for a pack of {length}", span)
        return [i for i, item in enumerate(index) if item]
    whole = [require_int(item, span, "an index of a pack") for item in index]
    return [position(i, length, span) for i in whole]


def choose(pack: Pack, index: nodes.Expr, span: Span) -> Item:
    """`pack[index]` for an index known at run time: one of the items, by comparisons.

    An index out of range gives the last item.
    """
    if not pack:
        raise fail("E0505", "an item of an empty pack", span)
    if len(pack) > MOST_TERMS:
        raise fail("E0903", "a pack too long to choose from at run time", span)
    result = to_expr(pack[-1])
    for i in range(len(pack) - 2, -1, -1):
        condition = nodes.Binary("eq", index, nodes.integer(i))
        result = nodes.Select(condition, to_expr(pack[i]), result)
    return result


def substitute(pack: Pack, index: Value, value: Value, positions: list[int], span: Span) -> Pack:
    """`pack[index] <- value`; the last of several values for one position wins."""
    items = list(pack)
    if not isinstance(index, tuple):
        if isinstance(value, tuple) or value is None:
            raise fail("E0503", "one item can only be replaced by one value", span)
        items[positions[0]] = value
        return tuple(items)
    if not isinstance(value, tuple):
        value = (value,) * len(positions) if value is not None else ()
    if len(value) != len(positions):
        raise fail(
            "E0506",
            f"{len(positions)} items cannot be replaced by {len(value)} values",
            span,
            notes=(f"positions: {show(tuple(positions))}", f"values: {show(value)}"),
        )
    for i, item in zip(positions, value, strict=True):
        items[i] = item
    return tuple(items)
