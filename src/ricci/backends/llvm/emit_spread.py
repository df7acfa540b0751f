"""Lanes of an access that lie in order, near one another, at distances that only a call knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dtypes import DType
from ...ir.nodes import Access, Binary, Cast, Const, Expr, Index, Local, Remap, Subscript
from ...ir.rewrite import nodes_through_locals
from ...ir.shapes import as_int
from ...records import dataclass
from .emit_access import NO_RANGES, Ranges, is_within
from .emit_parts import Address
from .emit_types import memory_type, splat, width, with_lanes
from .sizes import sizes_of
from .target import Target

if TYPE_CHECKING:
    from .emit import Frame, Point

_WIDE = (DType.INT, DType.INT64)
"""Integers that do not wrap, as they are cast."""
_MOST = {16: 4, 8: 3}
"""Vectors that lanes may lie in, by the lanes of one: elements one by one would take less time to
find than their places in more."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The only subscript that differs between lanes, the extent of its dimension, and the vectors
    next to one another that all lanes are in."""

    subscript: Subscript
    extent: int
    count: int


def load_spread(point: Point, access: Access, address: Address) -> str | None:
    """The elements of lanes whose places do not decrease, and are all in a few vectors: these, and
    lanes picked from them. None if lanes lie otherwise, or a processor cannot pick them."""
    lanes, mask = point.lanes, address.mask
    along = [i for i, place in point.places.items() if place.vector]
    if mask.all is not None or (mask.each is not None and mask.first is None) or len(along) != 1:
        return None
    spread = spread_of(access, along[0], lanes, point.frame, point.ranges)
    if spread is None:
        return None
    subscript, extent, count = spread.subscript, spread.extent, spread.count
    places = point.as_index(point.value(subscript.index))
    if isinstance(subscript.rule, Remap):
        places = point.remapped(places, subscript.rule, extent)
    b, type, full = point.b, memory_type(access.tensor.dtype), with_lanes("i64", lanes)
    first = b.pure(f"extractelement {full} {places.text}, i64 0", places.text)
    begin = b.call("i64", "llvm.smin.i64", f"i64 {first}", f"i64 {extent - count * lanes}")
    begin = b.call("i64", "llvm.smax.i64", f"i64 {begin}", "i64 0")
    moved = b.pure(f"sub i64 {begin}, {first}", begin, first)
    offset = b.pure(f"extractelement {full} {address.offsets}, i64 0", str(address.offsets))
    start = b.pure(f"add i64 {offset}, {moved}", offset, moved)
    all_begin = point.spread(begin, "i64")
    apart = b.pure(f"sub {full} {places.text}, {all_begin}", places.text, all_begin)
    picks = b.pure(f"trunc {full} {apart} to {with_lanes('i32', lanes)}", apart)
    stable = access.tensor not in point.frame.written
    vectors = []
    for k in range(count):
        at = start if k == 0 else b.pure(f"add i64 {start}, {k * lanes}", start)
        pointer = b.pure(
            f"getelementptr {type}, ptr {address.pointer}, i64 {at}", address.pointer, at
        )
        vectors.append(b.load(with_lanes(type, lanes), pointer, 4, stable))
    value = _picked(point, type, vectors, picks)
    if mask.is_full:
        return value
    on, zero = point.mask_text(mask), "zeroinitializer"
    kind = with_lanes(type, lanes)
    return b.pure(
        f"select {with_lanes('i1', lanes)} {on}, {kind} {value}, {kind} {zero}", on, value
    )


def picks_lanes(target: Target, lanes: int) -> bool:
    """Whether a processor picks any lanes of vectors, at once."""
    return target.has("avx512f") if lanes == 16 else target.has("avx2")


def _picked(point: Point, type: str, vectors: list[str], picks: str) -> str:
    """The lanes of vectors next to one another with given numbers."""
    b, lanes = point.b, point.lanes
    full, numbers = with_lanes(type, lanes), with_lanes("i32", lanes)
    bits, is_real, together = with_lanes("i1", lanes), type == "float", 2 if lanes == 16 else 1
    value = ""
    for k in range(0, len(vectors), together):
        some = vectors[k : k + together]
        if len(some) == 2:
            name = f"llvm.x86.avx512.vpermi2var.{'ps' if is_real else 'd'}.512"
            new = b.call(full, name, f"{full} {some[0]}", f"{numbers} {picks}", f"{full} {some[1]}")
        else:
            name = f"llvm.x86.avx512.permvar.{'sf' if is_real else 'si'}.512"
            name = name if lanes == 16 else f"llvm.x86.avx2.perm{'ps' if is_real else 'd'}"
            new = b.call(full, name, f"{full} {some[0]}", f"{numbers} {picks}")
        if value:
            least = splat(str(k * lanes), "i32", lanes)
            later = b.pure(f"icmp sge {numbers} {picks}, {least}", picks)
            new = b.pure(f"select {bits} {later}, {full} {new}, {full} {value}", later, new, value)
        value = new
    return value


def spread_of(
    access: Access, index: Index, lanes: int, frame: Frame, ranges: Ranges = NO_RANGES
) -> Spread | None:
    """How lanes along an index are near one another, if elements of 4 bytes are so along the only
    subscript that it is in."""
    if frame.target is None or lanes not in _MOST or not picks_lanes(frame.target, lanes):
        return None
    wide = [d for d, s in enumerate(access.subscripts) if _depend(_parts(s), index)]
    if len(wide) != 1 or width(access.tensor.dtype) != 4:
        return None
    subscript, extent = access.subscripts[wide[0]], sizes_of(access.tensor.shape)[wide[0]]
    if frame.strides(access.tensor)[wide[0]] != 1 or not isinstance(extent, int):
        return None
    reach = _reach(subscript.index, index, lanes - 1)
    if reach is None or not _stays(subscript, extent, ranges):
        return None
    count = reach // lanes + 1
    return Spread(subscript, extent, count) if count <= min(_MOST[lanes], extent // lanes) else None


def _parts(subscript: Subscript) -> tuple[Expr, ...]:
    index, rule = subscript.index, subscript.rule
    return (index, rule.below, rule.above) if isinstance(rule, Remap) else (index,)


def _depend(exprs: tuple[Expr, ...], index: Index) -> bool:
    return any(node is index for node in nodes_through_locals(*exprs))


def _stays(subscript: Subscript, extent: int, ranges: Ranges) -> bool:
    """Whether a subscript is in range, or what is outside is the nearest that is inside."""
    rule = subscript.rule
    if isinstance(rule, Remap):
        return as_int(rule.below) == 0 and as_int(rule.above) == extent - 1
    return is_within(subscript.index, extent, ranges)


def _reach(expr: Expr, index: Index, steps: int) -> int | None:
    """How much an expression grows, at most, while an index grows by some steps, if it never
    becomes less meanwhile."""
    match expr:
        case Local():
            return _reach(expr.value, index, steps)
        case Cast() if expr.dtype in _WIDE and expr.operand.dtype in _WIDE:
            return _reach(expr.operand, index, steps)
        case _ if expr is index:
            return steps
        case _ if not _depend((expr,), index):
            return 0
        case Binary(op="add"):
            both = [_reach(x, index, steps) for x in (expr.lhs, expr.rhs)]
            return None if None in both else sum(n or 0 for n in both)
        case Binary(op="sub") if not _depend((expr.rhs,), index):
            return _reach(expr.lhs, index, steps)
        case Binary(op="mul") | Binary(op="floordiv"):
            number, other = expr.rhs, expr.lhs
            if expr.op == "mul" and isinstance(other, Const):
                number, other = other, number
            inner = _reach(other, index, steps)
            by = int(number.value) if isinstance(number, Const) else 0
            if inner is None or by <= 0:
                return None
            return inner * by if expr.op == "mul" else -(-inner // by)
    return None
