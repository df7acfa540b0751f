"""Tensors that are one of several, as the length of a pack decides (2.10.1).

A tensor with two candidates is one of them, element by element. Of more candidates all are
written into one tensor, with a dimension that counts them, and read at the place.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import nodes, rewrite, shapes
from ...source import Span
from .compose_graph import Builder
from .evaluate_dynamic import candidates, pick
from .evaluate_scalars import reads_nothing
from .values import Item, Pack, describe, exceeds, fail, from_expr, to_expr

_FEW = 2
"""Candidates that are compared for each element."""

_LONGEST_EXTENT = 100
"""Parts of an extent that depends on the length of a pack."""


def gather(builder: Builder, items: Pack, places: Sequence[nodes.Expr], span: Span) -> Pack:
    """The tensors of a pack at places; any of them where a place is beyond the ends.

    Raises E0608 for tensors of different types, or numbers of dimensions, and E0507 for a place
    that each point of a formula has anew.
    """
    for place in places:
        if rewrite.free_indices(place) or not reads_nothing(place):
            raise fail("E0507", "which tensor this is must be known before the formula", span)
    if any(isinstance(item, nodes.Tensor) and item in builder.pending for item in items):
        raise fail("E0507", "items of an output cannot be rearranged by its own formula", span)
    key = (items, tuple(places))
    for part in builder.parts:
        if key in part.gathered:
            return part.gathered[key]
    tensors = tuple([builder.scalar(item, span) for item in items])
    crowded = any(len(candidates(place, len(items))) > _FEW for place in places)
    stack = _stack(builder, tensors, span) if crowded else None
    result: list[Item] = []
    for place in places:
        found = candidates(place, len(items))
        if len(found) == 1:
            result.append(tensors[min(found)])
            continue
        _check_alike([tensors[k] for k in sorted(found)], span)
        domain = _domain(builder, tensors, place, found, span)
        if len(found) <= _FEW:
            value = _choice(tensors, place, domain, found, span)
        else:
            assert stack is not None
            value = _read(stack, _inside(place, len(items)), domain, span)
        result.append(builder.computed(value, domain, span))
    builder.parts[-1].gathered[key] = tuple(result)
    return tuple(result)


def _check_alike(tensors: Sequence[nodes.Tensor], span: Span) -> None:
    first = tensors[0]
    for other in tensors:
        if other.rank != first.rank or other.dtype is not first.dtype:
            raise fail(
                "E0608",
                "tensors that the length of a pack chooses from must have one type and number "
                "of dimensions",
                span,
                f"{describe(first)} and {describe(other)}",
            )


def _domain(
    builder: Builder, tensors: Pack, place: nodes.Expr, found: set[int], span: Span
) -> tuple[nodes.Index, ...]:
    """A loop for each dimension, as long as in the tensor that is chosen."""
    shown = [t.shape if isinstance(t, nodes.Tensor) else () for t in tensors]
    rank = len(shown[min(found)])
    extents = []
    for axis in range(rank):
        column = tuple([s[axis] if axis < len(s) else nodes.ZERO for s in shown])
        extents.append(_extent(builder, column, place, found, span))
    return tuple([nodes.Index(f"i{axis}", extent, span) for axis, extent in enumerate(extents)])


def _extent(
    builder: Builder, column: tuple[nodes.Expr, ...], place: nodes.Expr, found: set[int], span: Span
) -> nodes.Expr:
    """The extent of what is chosen; a size of its own where that takes many words."""
    first = column[min(found)]
    if all(shapes.equal(column[k], first) for k in found):
        return first
    chosen = pick(tuple([from_expr(e) for e in column]), place, span)
    if not exceeds(to_expr(chosen), _LONGEST_EXTENT):
        return to_expr(chosen)
    return name_size(builder, to_expr(chosen), span)


def name_size(builder: Builder, size: nodes.Expr, span: Span) -> nodes.Expr:
    """A size of its own, computed when the graph runs; raises E0507 for what each point of a
    formula has anew."""
    if rewrite.free_indices(size) or not reads_nothing(size):
        raise fail("E0507", "how many items there are must be known before the formula", span)
    symbol = builder.symbol(None, builder.bound([size]), span)
    builder.sizes.append((symbol, builder.scalar(from_expr(size), span)))
    return symbol


def _choice(
    tensors: tuple[nodes.Tensor, ...],
    place: nodes.Expr,
    domain: tuple[nodes.Index, ...],
    found: set[int],
    span: Span,
) -> nodes.Expr:
    at = tuple([nodes.Subscript(index) for index in domain])
    items: list[Item] = [0] * len(tensors)
    for k in found:
        items[k] = nodes.Access(tensors[k], at, span)
    return to_expr(pick(tuple(items), place, span))


def _stack(builder: Builder, tensors: tuple[nodes.Tensor, ...], span: Span) -> nodes.Tensor:
    """A tensor of all others, each in front of the place that the largest needs."""
    _check_alike(tensors, span)
    shape: list[nodes.Expr] = [nodes.integer(len(tensors))]
    for column in zip(*(t.shape for t in tensors), strict=True):
        most = column[0]
        for extent in column[1:]:
            most = most if shapes.equal(extent, most) else shapes.maximum(most, extent)
        shape.append(most)
    stack = builder.tensor(None, tensors[0].dtype, tuple(shape), span)
    body = []
    for k, tensor in enumerate(tensors):
        domain = tuple(nodes.Index(f"i{n}", e, span) for n, e in enumerate(tensor.shape))
        at = tuple(nodes.Subscript(index) for index in domain)
        target = nodes.Access(stack, (nodes.Subscript(nodes.integer(k)), *at), span)
        value = nodes.Access(tensor, at, span)
        body.append(nodes.Assignment((target,), "set", (value,), domain, span=span))
    calls = builder.calls()
    builder.add(nodes.Operation("stack", (stack,), tuple(body), tensors, span=span, calls=calls))
    return stack


def _inside(place: nodes.Expr, count: int) -> nodes.Expr:
    """A place, certainly one of so many."""
    if isinstance(place, nodes.Select):
        then, otherwise = _inside(place.then, count), _inside(place.otherwise, count)
        return shapes.select(place.condition, then, otherwise)
    return shapes.minimum(shapes.maximum(place, nodes.ZERO), nodes.integer(count - 1))


def _read(
    stack: nodes.Tensor, row: nodes.Expr, domain: tuple[nodes.Index, ...], span: Span
) -> nodes.Expr:
    at = tuple([nodes.Subscript(index) for index in domain])
    return nodes.Access(stack, (nodes.Subscript(row), *at), span)
