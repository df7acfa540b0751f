"""Packs whose length is known only at run time.

Such a pack lists all items that it may have; those behind its length do not count. An item whose
place depends on the length is gathered: it is one of several, as the length decides. What a pack
must have for an expression to have a value, an item or a length, is checked when the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...diagnostics import Error
from ...dtypes import DType
from ...ir import nodes, shapes
from ...source import Span
from . import evaluate_packs as packs
from .evaluate_scalars import identical
from .values import (
    AnyValue,
    Budget,
    DynamicPack,
    Item,
    Pack,
    Value,
    fail,
    from_expr,
    is_expr,
    show,
    shown_size,
    to_expr,
)

AnyPack = Pack | DynamicPack


def not_known(span: Span, pack: DynamicPack) -> Error:
    """A place where the number of items shapes the graph itself."""
    return fail(
        "E0507",
        "the length of this pack is known only when the graph runs",
        span,
        f"it has {show(from_expr(pack.length))} items",
        help="how many items it has decides here what the graph consists of",
    )


def length_of(pack: AnyPack) -> nodes.Expr:
    """How many items a pack has."""
    return pack.length if isinstance(pack, DynamicPack) else nodes.integer(len(pack))


def items_of(pack: AnyPack) -> Pack:
    """All items that a pack may have."""
    return pack.items if isinstance(pack, DynamicPack) else pack


def pack_of(items: Pack, length: nodes.Expr) -> AnyPack:
    """The first of some items, as many as a length says; of none the type is kept."""
    known = shapes.as_int(length)
    return items[:known] if known or not items else DynamicPack(items, length)


def is_there(position: int, length: nodes.Expr) -> nodes.Expr:
    """The condition that a pack of some length has an item at a position."""
    return shapes.compare("gt", length, nodes.integer(position))


def most_of(length: nodes.Expr, span: Span, what: str) -> int:
    """The largest number that a length may be. Raises E0507 where nothing bounds it."""
    most = shapes.interval(length)[1]
    if most >= 1 << 62:
        shown = f"{show(from_expr(length))} is known only at run time, and has no upper bound"
        raise fail("E0507", f"{what} must be known when the graph is composed", span, shown)
    return max(int(most), 0)


def agree(a: AnyPack, b: AnyPack, span: Span, budget: Budget) -> nodes.Expr:
    """The common length of two packs, checked at run time where it is not known before.

    Raises E0506 where they can never agree.
    """
    if isinstance(a, tuple) and isinstance(b, tuple):
        packs.check_lengths(a, b, span)
    m, n = length_of(a), length_of(b)
    same = shapes.compare("eq", m, n)
    if same == nodes.FALSE:
        raise fail(
            "E0506",
            f"packs of {show(from_expr(m))} and {show(from_expr(n))} items cannot be combined "
            "item by item",
            span,
            notes=(f"left: {show(a)}", f"right: {show(b)}"),
        )
    message = ("packs of ", *shown_size(m), " and ", *shown_size(n), " items cannot be combined")
    budget.demand(same, message, span)
    return n if isinstance(n, nodes.Const) else m


# ------------------------------------------------------------------ taking items


def item_at(pack: AnyPack, position: Value, span: Span, budget: Budget) -> tuple[Item, nodes.Expr]:
    """`p[2]`, `p[-1]`, and the condition that there is such an item.

    Raises E0505 if there never is.
    """
    place, inside = place_in(pack, position, span)
    return gather(items_of(pack), (place,), span, budget)[0], inside


def place_in(pack: AnyPack, position: Value, span: Span) -> tuple[nodes.Expr, nodes.Expr]:
    """An index, counted from the front, and the condition that the pack reaches so far."""
    most, length = len(items_of(pack)), length_of(pack)
    if not is_expr(position):
        index = packs.require_int(position, span, "an index of a pack")
        if not -most <= index < most:
            ends = f"it has at most {most} items"
            raise fail("E0505", f"index {index} is out of the pack's range", span, ends)
        if index >= 0:
            return nodes.integer(index), is_there(index, length)
        return shapes.add(length, nodes.integer(index)), is_there(-1 - index, length)
    if position.dtype is not DType.INT:
        raise fail("E0503", "an index of a pack must be an integer", span, show(position))
    low, high = shapes.interval(position)
    if high < 0 or low >= most:
        raise fail("E0505", "an index that is never in the range of its pack", span)
    positive = shapes.compare("ge", position, nodes.ZERO)
    return position, shapes.logical_and(positive, shapes.compare("lt", position, length))


def slice_of(
    pack: AnyPack, begin: Item | None, end: Item | None, stride: int, span: Span, budget: Budget
) -> AnyPack:
    """`p[begin:end:stride]`."""
    count, places = slice_positions(pack, begin, end, stride, span)
    return pack_of(gather(items_of(pack), places, span, budget), count)


def slice_positions(
    pack: AnyPack, begin: Item | None, end: Item | None, stride: int, span: Span
) -> tuple[nodes.Expr, list[nodes.Expr]]:
    """How many items a slice takes, and which it may take."""
    if stride == 0:
        raise fail("E0508", "a slice with stride zero", span)
    length, most = length_of(pack), len(items_of(pack))
    last = shapes.sub(length, nodes.ONE)
    if stride > 0:
        first = shapes.maximum(_from_front(begin, length, nodes.ZERO), nodes.ZERO)
        stop = shapes.minimum(_from_front(end, length, length), length)
    else:
        first = shapes.minimum(_from_front(begin, length, last), last)
        stop = shapes.maximum(_from_front(end, length, nodes.integer(-1)), nodes.integer(-1))
    steps = shapes.ceildiv(shapes.sub(stop, first), nodes.integer(stride))
    count = shapes.maximum(nodes.ZERO, steps)
    number = min(most_of(count, span, "the length of a slice"), -(-most // abs(stride)))
    places = [shapes.add(first, nodes.integer(k * stride)) for k in range(number)]
    return shapes.minimum(count, nodes.integer(number)), places


def _from_front(end: Item | None, length: nodes.Expr, default: nodes.Expr) -> nodes.Expr:
    """A position of a slice, counted from the front."""
    if end is None:
        return default
    place = to_expr(end)
    negative = shapes.compare("lt", place, nodes.ZERO)
    return shapes.select(negative, shapes.add(place, length), place)


def gather(items: Pack, places: Sequence[nodes.Expr], span: Span, budget: Budget) -> Pack:
    """The items at places that only a call knows; any where a place is beyond the ends."""
    if not items:
        return ()
    tensors = False
    for place in places:
        found = candidates(place, len(items))
        budget.spend(len(found), span)
        tensors |= len(found) > 1 and any(isinstance(items[k], nodes.Tensor) for k in found)
    if tensors:
        return budget.gather(items, places, span)
    return tuple([pick(items, place, span) for place in places])


def candidates(place: nodes.Expr, count: int) -> set[int]:
    """Which of so many items a place may mean."""
    if isinstance(place, nodes.Select):
        return candidates(place.then, count) | candidates(place.otherwise, count)
    low, high = shapes.interval(place)
    return set(range(int(min(max(low, 0), count - 1)), int(max(min(high, count - 1), 0)) + 1))


def pick(items: Pack, place: nodes.Expr, span: Span) -> Item:
    """The item at a place, which is no tensor, by comparisons."""
    if isinstance(place, nodes.Select):
        then, otherwise = pick(items, place.then, span), pick(items, place.otherwise, span)
        return select_item(place.condition, then, otherwise, span)
    *others, last = sorted(candidates(place, len(items)))
    result = items[last]
    if len(others) > packs.MOST_TERMS:
        raise fail("E0903", "a pack too long to choose from at run time", span)
    for k in reversed(others):
        here = shapes.compare("eq", place, nodes.integer(k))
        result = select_item(here, items[k], result, span)
    return result


def select_item(condition: nodes.Expr, item: Item, otherwise: Item, span: Span) -> Item:
    if condition == nodes.TRUE or identical(item, otherwise):
        return item
    if condition == nodes.FALSE:
        return otherwise
    for value in (item, otherwise):
        if not is_expr(value) and not isinstance(value, bool | int | float):
            message = "what the length of a pack decides must be numbers, bools or tensors"
            raise fail("E0507", message, span, f"this is {show(value)}")
    a, b = to_expr(item), to_expr(otherwise)
    if a.dtype is not b.dtype:
        raise fail("E0503", f"a pack cannot hold `{a.dtype}` and `{b.dtype}`", span)
    if a.dtype is DType.INT:
        return from_expr(shapes.select(condition, a, b))
    return nodes.Select(condition, a, b)


# ----------------------------------------------------------------- making packs


def join(parts: Sequence[AnyPack], span: Span, budget: Budget) -> AnyPack:
    """`[p.., q.., a]`: the items of packs behind each other."""
    items: Pack = ()
    starts: list[int] = []
    ends: list[nodes.Expr] = [nodes.ZERO]
    for part in parts:
        starts.append(len(items))
        items += items_of(part)
        ends.append(shapes.add(ends[-1], length_of(part)))
    budget.spend(len(items), span)
    if all(isinstance(part, tuple) for part in parts[:-1]):
        return pack_of(items, ends[-1])
    places = [_place(k, parts, starts, ends) for k in range(len(items))]
    return pack_of(gather(items, places, span, budget), ends[-1])


def _place(
    k: int, parts: Sequence[AnyPack], starts: list[int], ends: list[nodes.Expr]
) -> nodes.Expr:
    """Where item `k` of joined packs stands among all items that they may have."""
    result: nodes.Expr | None = None
    for n in reversed(range(len(parts))):
        count = len(items_of(parts[n]))
        low, high = shapes.interval(ends[n])
        if not count or low > k or k - high >= count:  # never an item of this part
            continue
        inside = shapes.maximum(shapes.sub(nodes.integer(k), ends[n]), nodes.ZERO)
        place = shapes.minimum(inside, nodes.integer(count - 1))
        place = shapes.add(nodes.integer(starts[n]), place)
        before = shapes.compare("lt", nodes.integer(k), ends[n + 1])
        result = place if result is None else shapes.select(before, place, result)
    return nodes.integer(k) if result is None else result


def repeat(item: Item, count: nodes.Expr, span: Span, budget: Budget) -> AnyPack:
    """`[x ..(n)]` for a number that only a call knows."""
    if count.dtype is DType.BOOL:
        return DynamicPack((item,), shapes.select(count, nodes.ONE, nodes.ZERO))
    most = most_of(count, span, "the length of a pack")
    budget.spend(most, span)
    positive = shapes.compare("ge", count, nodes.ZERO)
    budget.demand(positive, ("the length of a pack is negative: ", count), span)
    return pack_of((item,) * most, shapes.maximum(nodes.ZERO, count))


def make_range(begin: Item, end: Item, stride: int, span: Span, budget: Budget) -> AnyPack:
    """`[begin:end:stride]` with ends that only a call knows."""
    if stride == 0:
        raise fail("E0508", "a range with stride zero", span)
    first, step = to_expr(begin), nodes.integer(stride)
    steps = shapes.ceildiv(shapes.sub(to_expr(end), first), step)
    count = shapes.maximum(nodes.ZERO, steps)
    most = most_of(count, span, "the end of a range")
    budget.spend(most, span)
    items = [from_expr(shapes.add(first, nodes.integer(k * stride))) for k in range(most)]
    return pack_of(tuple(items), count)


def interleave(columns: Sequence[AnyPack], span: Span, budget: Budget) -> AnyPack:
    """`[(p, q)..]`."""
    length = length_of(columns[0])
    for other in columns[1:]:
        length = agree(pack_of(items_of(columns[0]), length), other, span, budget)
    rows = zip(*map(items_of, columns), strict=False)
    items = tuple([item for row in rows for item in row])
    budget.spend(len(items), span)
    count = shapes.mul(length, nodes.integer(len(columns)))
    return pack_of(items, shapes.minimum(count, nodes.integer(len(items))))


def substitute(
    pack: AnyPack, index: AnyPack, values: AnyPack, span: Span, budget: Budget
) -> AnyPack:
    """`pack[index] <- values`, all positions counted from the front; the last of several values
    for one position wins."""
    count = agree(index, values, span, budget)
    items = items_of(pack)
    both = list(zip(items_of(index), items_of(values), strict=False))
    budget.spend(len(items) * len(both), span)
    places = []
    for k in range(len(items)):
        place: nodes.Expr = nodes.integer(k)
        for n, (position, _) in enumerate(both):
            here = shapes.compare("eq", to_expr(position), nodes.integer(k))
            here = shapes.logical_and(is_there(n, count), here)
            place = shapes.select(here, nodes.integer(len(items) + n), place)
        places.append(place)
    found = gather((*items, *(value for _, value in both)), places, span, budget)
    return pack_of(found, length_of(pack))


def combine(
    f: Callable[[Item, Item], Item], lhs: AnyValue, rhs: AnyValue, span: Span, budget: Budget
) -> AnyPack:
    """`f` item by item of two values, at least one of them of dynamic length."""
    assert lhs is not None
    assert rhs is not None
    columns = [v for v in (lhs, rhs) if isinstance(v, tuple | DynamicPack)]
    length = agree(columns[0], columns[-1], span, budget)
    most = min(len(items_of(column)) for column in columns)
    budget.spend(most, span)
    pairs = zip(column(lhs, most), column(rhs, most), strict=True)
    return pack_of(tuple([f(x, y) for x, y in pairs]), length)


def column(value: Item | AnyPack, count: int) -> Pack:
    """The first items of a pack; one item as often as it is needed."""
    return items_of(value)[:count] if isinstance(value, tuple | DynamicPack) else (value,) * count


def take_apart(
    pack: AnyPack,
    counts: Sequence[nodes.Expr | None],
    span: Span,
    budget: Budget,
    code: str = "E0506",
) -> list[AnyPack]:
    """`[a, b.., c] = p`: parts of so many items each; one may take what is left."""
    items, length = items_of(pack), length_of(pack)
    named = shapes.total(*(c for c in counts if c is not None))
    op: nodes.BinaryOp = "ge" if None in counts else "eq"
    fits = shapes.compare(op, length, named)
    if fits == nodes.FALSE or counts.count(None) > 1:
        text = f"a pack of at most {len(items)} items does not fit these names"
        raise fail(code, text, span)
    shown = shown_size(named)
    budget.demand(fits, ("a pack of ", *shown_size(length), " items for ", *shown, " names"), span)
    parts: list[AnyPack] = []
    start: nodes.Expr = nodes.ZERO
    for count in counts:
        count = shapes.sub(length, named) if count is None else count
        most = int(max(min(shapes.interval(count)[1], len(items)), 0))
        places = [shapes.add(start, nodes.integer(k)) for k in range(most)]
        parts.append(pack_of(gather(items, places, span, budget), count))
        start = shapes.add(start, count)
    return parts


def deal(pack: AnyPack, width: int, span: Span, budget: Budget) -> list[AnyPack]:
    """`[(a, b)..] = p`: every so many items."""
    length = length_of(pack)
    even = shapes.compare("eq", shapes.mod(length, nodes.integer(width)), nodes.ZERO)
    message = (*shown_size(length), f" items cannot be dealt out to {width} packs")
    budget.demand(even, message, span)
    return [slice_of(pack, k, None, width, span, budget) for k in range(width)]
