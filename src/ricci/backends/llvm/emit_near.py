"""Lanes of an access that are known, and near one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dtypes import DType
from ...ir.nodes import Access, Apply, Binary, Const, Expr, Remap, Skip, Subscript, Symbol, integer
from ...ir.rewrite import free_indices, nodes_through_locals
from ...ir.shapes_evaluate import evaluate
from ...records import dataclass, replace
from .emit_access import is_within
from .emit_parts import Place
from .sizes import sizes_of

if TYPE_CHECKING:
    from .emit import Point

_ONLY = Place(None)
"""Of an index that has one value."""
_WHOLE = (DType.INT, DType.INT64, DType.BOOL)
_MOST, _MOST_FACTOR, _MOST_PRODUCTS = 1 << 31, 1 << 15, 2
"""Constants in subscripts that are computed beforehand, those that something is multiplied by, and
how often, so that no integer wraps."""


@dataclass(frozen=True, slots=True)
class Window:
    """An access to the first element of a window, how many elements there are from there on, and
    where each lane is among them, if it is there."""

    access: Access
    room: int
    picks: tuple[int | None, ...]


def window_of(point: Point, access: Access) -> Window | None:
    """The window of an access one of whose subscripts, along which elements are contiguous, is
    remapped, or leaves out lanes where a processor has no fast loads under masks: the others are
    the same in all lanes, and the values of all its indices known."""
    target = point.frame.target
    kinds = (Remap, Skip) if target is not None and target.narrow else Remap
    if point.lanes == 1 or not any(isinstance(s.rule, kinds) for s in access.subscripts):
        return None
    along = {i for i, place in point.places.items() if place.vector}
    if len(along) != 1:
        return None
    wide = [d for d, s in enumerate(access.subscripts) if along & {*free_indices(*_parts(s))}]
    if len(wide) != 1 or point.frame.strides(access.tensor)[wide[0]] != 1:
        return None
    subscript, extent = access.subscripts[wide[0]], sizes_of(access.tensor.shape)[wide[0]]
    if not isinstance(extent, int) or not isinstance(subscript.rule, kinds):
        return None
    if is_within(subscript.index, extent, point.ranges):
        return None
    lanes = _lanes(point, subscript, extent)
    there = [at for at in lanes or () if at is not None]
    if lanes is None or not there:
        return None
    first = max(min(*there, extent - point.lanes), 0)
    if max(there) >= first + point.lanes:
        return None
    if len(there) < point.lanes and extent < point.lanes:
        return None
    subscripts = list(access.subscripts)
    subscripts[wide[0]] = Subscript(integer(first))
    picks = tuple(None if n is None else n - first for n in lanes)
    return Window(replace(access, subscripts=tuple(subscripts)), extent - first, picks)


def _parts(subscript: Subscript) -> tuple[Expr, ...]:
    rule = subscript.rule
    return (
        (subscript.index, rule.below, rule.above) if isinstance(rule, Remap) else (subscript.index,)
    )


def _lanes(point: Point, subscript: Subscript, extent: int) -> list[int | None] | None:
    """What a subscript is in each lane, if that is known: in range, or left out."""
    rule = subscript.rule
    parts = _parts(subscript)
    nodes = [*nodes_through_locals(*parts)]
    products = sum(isinstance(x, Binary) and x.op == "mul" for x in nodes)
    if products > _MOST_PRODUCTS or not all(map(_computes_alike, nodes)):
        return None
    places = {i: point.places.get(i, _ONLY) for i in free_indices(*parts)}
    if any(place.base is not None for place in places.values()):
        return None
    found: list[int | None] = []
    for lane in range(point.lanes):
        known = {i: p.offset + (lane if p.vector else 0) for i, p in places.items()}
        at = evaluate(subscript.index, known)
        if isinstance(rule, Remap) and not 0 <= at < extent:
            at = evaluate(rule.below if at < 0 else rule.above, known)
        if 0 <= at < extent:
            found.append(at)
        elif isinstance(rule, Skip):
            found.append(None)
        else:
            return None
    return found


def _computes_alike(node: Expr) -> bool:
    """Whether a part of a subscript has the same value here, in numbers without bounds, as when the
    program runs: it has no reals and no narrow integers, which are rounded and wrap, is too small
    to wrap, and divides by nothing that may be zero."""
    if isinstance(node, (Access, Symbol)) or node.dtype not in _WHOLE:
        return False
    match node:
        case Const():
            return abs(int(node.value)) < _MOST
        case Binary(op="mul"):
            return any(_is_below(x, _MOST_FACTOR) for x in (node.lhs, node.rhs))
        case Binary(op="floordiv" | "ceildiv" | "mod"):
            return _is_below(node.rhs, _MOST) and node.rhs != Const(0, node.rhs.dtype)
        case Binary():
            return node.op != "pow"
        case Apply():
            return node.function in ("abs", "sign")
    return True


def _is_below(node: Expr, most: int) -> bool:
    return isinstance(node, Const) and abs(int(node.value)) < most
