"""Emits the reads and writes of elements: whole vectors, some lanes, or lanes from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...dtypes import DType
from ...ir.nodes import Access, Skip, Tensor
from ...ir.rewrite import free_indices
from . import counts, emit_arith, emit_lanes
from .builder import Builder, split_operand
from .emit_near import window_of
from .emit_parts import Address, Asked, Place, Value
from .emit_spread import load_spread
from .emit_types import memory_type, splat, tag, width, with_lanes
from .sizes import plus, times
from .target import LINE

if TYPE_CHECKING:
    from .emit import Point

FAR = 4096
"""Bytes after which what is asked for goes to the second cache: the first has room for little that
is not wanted soon."""

_SPREAD = 4
"""Elements that lanes are apart, at most, to be stored by whole vectors under masks."""
_ZERO_BYTES = 128
"""Bytes of zeros that are read for vectors of which no element is there."""


def load(point: Point, access: Access) -> Value:
    """The element of an access in each lane."""
    picked = _picked(point, access)
    if picked is not None:
        return as_value(point, access.tensor, picked, True)
    raw, vector = _read(point, access, point.address(access))
    _ask(point, access.tensor)
    return as_value(point, access.tensor, raw, vector)


def _picked(point: Point, access: Access) -> str | None:
    """The elements of an access whose lanes are known to be near one another, but neither next to
    one another nor the same, as a border that repeats, or not all there: one vector, and lanes
    picked from it."""
    window = window_of(point, access)
    if window is None:
        return None
    address = point.address(window.access)
    stable = access.tensor not in point.frame.written
    if address.offsets is not None or address.stride or address.mask.all is not None:
        return None
    if address.mask.each is not point.mask.each:
        return None
    type, align, lanes = memory_type(access.tensor.dtype), width(access.tensor.dtype), point.lanes
    full = with_lanes(type, lanes)
    if window.room >= lanes:
        raw = point.b.load(full, address.pointer, align, stable)
    else:
        flags = ", ".join(f"i1 {str(k < window.room).lower()}" for k in range(lanes))
        name = f"llvm.masked.load.{tag(type, lanes)}.p0"
        where = f"ptr {address.pointer}"
        raw = _masked_read(point, name, full, where, align, f"<{flags}>", stable)
    chosen = ", ".join(f"i32 {lanes if k is None else k}" for k in window.picks)
    other = "zeroinitializer" if None in window.picks else "poison"
    text = f"shufflevector {full} {raw}, {full} {other}, <{lanes} x i32> <{chosen}>"
    return point.b.pure(text, raw)


def as_value(point: Point, tensor: Tensor, raw: str, vector: bool) -> Value:
    """Elements as they are in memory, as a value."""
    dtype = tensor.dtype
    if dtype is DType.BOOL:
        lanes = point.lanes if vector else 1
        raw = point.b.pure(
            f"icmp ne {with_lanes('i8', lanes)} {raw}, {splat('0', 'i8', lanes)}", raw
        )
    return Value(raw, dtype, vector)


def _read(point: Point, access: Access, address: Address) -> tuple[str, bool]:
    """The elements of an access as they are in memory."""
    tensor = access.tensor
    stable, target = tensor not in point.frame.written, point.frame.target
    type, align = memory_type(tensor.dtype), width(tensor.dtype)
    if point.lanes == 1 or (address.stride == 0 and address.offsets is None):
        mask = address.mask
        if mask.each is not None and (
            mask.each is not point.mask.each or _differ_in_guards(point, access)
        ):
            return _gather(point, type, align, address, stable), True
        return point.b.load(type, _safe(point, address.pointer, mask.all), align, stable), False
    full = with_lanes(type, point.lanes)
    if address.offsets is not None:
        spread = load_spread(point, access, address)
        if spread is not None:
            return spread, True
    if address.offsets is not None or address.stride != 1:
        lanes_on = None if address.mask.is_full else point.mask_text(address.mask)
        shuffled = emit_lanes.strided_load(
            point.b, type, align, address, lanes_on, point.lanes, stable
        )
        return shuffled or _gather(point, type, align, address, stable), True
    if address.mask.is_full:
        if tensor in point.frame.ahead and _begins_line(point, align):
            distance = point.frame.ahead[tensor]
            is_near = distance < FAR and tensor not in point.frame.far
            prefetch(point.b, address.pointer, distance, 1 if is_near else 2)
        return point.b.load(full, address.pointer, align, stable), True
    mask = address.mask
    if mask.all is not None and mask.each is None and align * point.lanes <= _ZERO_BYTES:
        # not under a mask: one without any lane, of a page that is not there, takes 200 cycles
        zeros = point.b.zeros(_ZERO_BYTES)
        text = f"select i1 {mask.all}, ptr {address.pointer}, ptr {zeros}"
        place = point.b.pure(text, mask.all, address.pointer, zeros)
        return point.b.load(full, place, align, stable), True
    name = f"llvm.masked.load.{tag(type, point.lanes)}.p0"
    place, on = f"ptr {address.pointer}", point.mask_text(mask)
    count = emit_lanes.first_lanes(on) if target is not None and target.narrow else None
    if count is not None:
        where = address.pointer
        return emit_lanes.load_first(point.b, type, point.lanes, count, where, align, stable), True
    raw = _masked_read(point, name, full, place, align, on, stable)
    return emit_lanes.held(point.b, type, raw, point.lanes), True


def _differ_in_guards(point: Point, access: Access) -> bool:
    """Whether guards of an access may hold in some lanes alone, though all read the same."""
    own = free_indices(*(s.index for s in access.subscripts if isinstance(s.rule, Skip)))
    return any(i in point.places and point.places[i].vector for i in own)


def _begins_line(point: Point, size: int) -> bool:
    """Whether a vector of elements of a size is not known to be in the line of the one before."""
    return all(p.offset * size % LINE == 0 for p in point.places.values() if p.vector)


def prefetch(
    b: Builder, pointer: str, bytes: int | str, cache: int = 1, write: bool = False
) -> None:
    """Bring a line that may be needed later to the first or second cache; there need be no
    memory."""
    b.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    place = b.pure(f"getelementptr i8, ptr {pointer}, i64 {bytes}", pointer, str(bytes))
    b.line(f"call void @llvm.prefetch.p0(ptr {place}, i32 {int(write)}, i32 {4 - cache}, i32 1)")


def _safe(point: Point, pointer: str, mask: str | None) -> str:
    if mask is None:
        return pointer
    safe = point.frame.safe()
    return point.b.pure(f"select i1 {mask}, ptr {pointer}, ptr {safe}", mask, pointer, safe)


def _gather(point: Point, type: str, align: int, address: Address, stable: bool) -> str:
    full = with_lanes(type, point.lanes)
    pointers = _pointers(point, type, address)
    name = f"llvm.masked.gather.{tag(type, point.lanes)}.v{point.lanes}p0"
    where = f"<{point.lanes} x ptr> {pointers}"
    return _masked_read(point, name, full, where, align, point.mask_text(address.mask), stable)


def _pointers(point: Point, type: str, address: Address) -> str:
    offsets = address.offsets
    if offsets is None:
        steps = ", ".join(f"i64 {lane * address.stride}" for lane in range(point.lanes))
        offsets = f"<{steps}>"
    text = f"getelementptr {type}, ptr {address.pointer}, <{point.lanes} x i64> {offsets}"
    return point.b.pure(text, address.pointer, offsets)


def _masked_read(
    point: Point, name: str, full: str, where: str, align: int, mask: str, stable: bool
) -> str:
    bits = with_lanes("i1", point.lanes)
    place, pointer = split_operand(where)
    point.b.declare(f"declare {full} @{name}({place}, i32, {bits}, {full})")
    text = f"call {full} @{name}({where}, i32 {align}, {bits} {mask}, {full} zeroinitializer)"
    return point.b.stable(text, pointer, mask) if stable else point.b.op(text)


def store(point: Point, access: Access, *values: Value) -> None:
    """Write an element per lane, where the mask is on; several values, each lane's in turn, where
    the access steps over as many."""
    address = point.address(access)
    dtype = access.tensor.dtype
    raws = [_to_memory(point, value, dtype) for value in values]
    type, align, lanes = memory_type(dtype), width(dtype), point.lanes
    if lanes == 1:
        place = _safe(point, address.pointer, address.mask.all)
        point.b.line(f"store {type} {raws[0]}, ptr {place}, align {align}")
        return
    if address.offsets is None and address.stride == -1:
        _store_backwards(point, type, align, address, raws[0])
        return
    if address.offsets is None and address.stride == len(values):
        _store_next(point, access, address, raws)
        return
    if address.offsets is None and 1 < address.stride <= _SPREAD and point.b.scales and align >= 4:
        _store_spread(point, type, align, address, raws[0])
        return
    full, bits = with_lanes(type, lanes), with_lanes("i1", lanes)
    name = f"llvm.masked.scatter.{tag(type, lanes)}.v{lanes}p0"
    where = f"<{lanes} x ptr> {_pointers(point, type, address)}"
    point.b.declare(f"declare void @{name}({full}, <{lanes} x ptr>, i32, {bits})")
    mask = point.mask_text(address.mask)
    point.b.line(f"call void @{name}({full} {raws[0]}, {where}, i32 {align}, {bits} {mask})")


def _to_memory(point: Point, value: Value, dtype: DType) -> str:
    """A value as it is in memory, in all lanes."""
    if value.dtype is DType.INT and dtype is DType.INT64:
        value = Value(value.text, dtype, value.vector)  # an index as it is
    assert value.dtype == dtype, f"{value.dtype} stored to {dtype}"
    return emit_arith.to_memory(point.b, point.vector(value), dtype, point.lanes)


def _store_next(point: Point, access: Access, address: Address, raws: list[str]) -> None:
    """Write vectors next to one another, in which lanes of all take turns."""
    b, lanes = point.b, point.lanes
    type, align = memory_type(access.tensor.dtype), width(access.tensor.dtype)
    full = with_lanes(type, lanes)
    masks = [""] * len(raws)
    if not address.mask.is_full:
        masks = interleaved(b, "i1", lanes, [point.mask_text(address.mask)] * len(raws))
    past = access.tensor in point.frame.streams
    kind = f"align {lanes * align}, !nontemporal !0" if past else f"align {align}"
    for k, raw in enumerate(interleaved(b, type, lanes, raws)):
        place = address.pointer
        if k:
            place = b.pure(f"getelementptr {type}, ptr {place}, i64 {k * lanes}", place)
        if not masks[k]:
            b.line(f"store {full} {raw}, ptr {place}, {kind}")
            continue
        first = None if b.scales else emit_lanes.first_lanes(masks[k])
        if first is not None:
            emit_lanes.store_first(b, type, lanes, first, raw, place, align)
            continue
        if address.mask.first is not None and len(raws) == 1 and not b.scales:
            emit_lanes.store_live(b, type, lanes, address.mask.first, raw, place, align)
            continue
        emit_lanes.store_masked(b, type, lanes, raw, place, align, masks[k])
    follows = access.tensor in point.frame.followed and _begins_line(point, align)
    if address.mask.is_full and follows:
        other = Access(point.frame.followed[access.tensor], access.subscripts)
        prefetch(b, point.address(other).pointer, 0, write=True)
    _ask(point, access.tensor)


def _ask(point: Point, tensor: Tensor) -> None:
    """Bring near what is wanted after elements of a tensor."""
    for asked in point.frame.asked.get(tensor, ()):
        start = _start(point, asked)
        for line in range(asked.lines):
            prefetch(point.b, start, asked.distance + 64 * line, 2)


def _start(point: Point, asked: Asked) -> str:
    """Where the element is at the places of the first lane, or later."""
    places = dict(point.places)
    if asked.moved is not None:
        index, steps, extent = asked.moved
        place = places[index]
        later: counts.Count = place.offset + steps
        if place.base is not None:
            later = point.b.pure(f"add nsw i64 {place.base}, {later}", place.base)
        later = counts.least(point.b, later, extent - 1)
        places[index] = Place(None, later) if isinstance(later, int) else Place(later)
    constant, terms = asked.form.constant, []
    for index, factor in asked.form.indices.items():
        place = places[index]
        constant = plus(constant, times(factor, place.offset))
        if place.base is not None:
            terms.append((place.base, factor))
    there = point.frame.point(1, places)
    terms += [(there.value(x).text, factor) for x, factor in asked.form.others.values()]
    pointer = point.frame.pointer(asked.tensor)
    return point.advance(pointer, terms, constant, asked.tensor.dtype)


def interleaved(b: Builder, type: str, lanes: int, vectors: Sequence[str]) -> list[str]:
    """As many vectors, in which lanes of all take turns: the first lanes, then the second."""
    full, count = with_lanes(type, lanes), len(vectors)
    out = []
    for k in range(count):
        places = [divmod(n, count) for n in range(k * lanes, (k + 1) * lanes)]
        value = vectors[0]
        for n in range(1, count):
            # lanes of those before are in place from the second time on
            before = [lane if n > 1 else at for lane, (at, _) in enumerate(places)]
            picks = [
                lanes + at if own == n else old
                for (at, own), old in zip(places, before, strict=True)
            ]
            chosen = ", ".join(f"i32 {p}" for p in picks)
            text = f"shufflevector {full} {value}, {full} {vectors[n]}, <{lanes} x i32> <{chosen}>"
            value = b.pure(text, value, vectors[n])
        out.append(value)
    return out


def _store_spread(point: Point, type: str, align: int, address: Address, raw: str) -> None:
    """Lanes a few elements apart: under masks, which takes less than a store for each lane."""
    b, lanes, stride = point.b, point.lanes, address.stride
    full, bits = with_lanes(type, lanes), with_lanes("i1", lanes)
    mask = None if address.mask.is_full else point.mask_text(address.mask)
    for first in range(0, stride * (lanes - 1) + 1, lanes):
        found = [divmod(first + n, stride) for n in range(lanes)]
        picks = ", ".join(f"i32 {lane if rest == 0 else 0}" for lane, rest in found)
        value = b.pure(f"shufflevector {full} {raw}, {full} poison, <{lanes} x i32> <{picks}>", raw)
        on = ", ".join(f"i1 {str(rest == 0).lower()}" for _, rest in found)
        where = f"<{on}>"
        if mask is not None:
            picks = ", ".join(f"i32 {lane if rest == 0 else lanes}" for lane, rest in found)
            text = f"shufflevector {bits} {mask}, {bits} zeroinitializer, <{lanes} x i32> <{picks}>"
            where = b.pure(text, mask)
        place = b.pure(f"getelementptr {type}, ptr {address.pointer}, i64 {first}", address.pointer)
        emit_lanes.store_masked(b, type, lanes, value, place, align, where)


def _store_backwards(point: Point, type: str, align: int, address: Address, raw: str) -> None:
    """Lanes next to one another, the last one in front."""
    b, lanes = point.b, point.lanes
    full, bits = with_lanes(type, lanes), with_lanes("i1", lanes)
    picks = f"<{lanes} x i32> <{', '.join(f'i32 {k}' for k in reversed(range(lanes)))}>"

    def turned(kind: str, value: str) -> str:
        return b.pure(f"shufflevector {kind} {value}, {kind} poison, {picks}", value)

    start = b.pure(f"getelementptr {type}, ptr {address.pointer}, i64 {1 - lanes}", address.pointer)
    value = turned(full, raw)
    if address.mask.is_full:
        b.line(f"store {full} {value}, ptr {start}, align {align}")
        return
    mask = turned(bits, point.mask_text(address.mask))
    emit_lanes.store_masked(b, type, lanes, value, start, align, mask)
