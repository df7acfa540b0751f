"""Emits where the elements of an access are, and the checks that they are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.nodes import Access, Local, Remap, Skip
from .emit_access import Linear, Ranges, is_within, linear, subscript_is_safe
from .emit_parts import Address, Mask, Value
from .emit_types import splat, tag, with_lanes
from .sizes import Size, plus, sizes_of, times

if TYPE_CHECKING:
    from .emit import Point


def address(point: Point, access: Access) -> Address:
    """Where the elements of an access are; checks that cannot be proved are emitted."""
    form, mask = _flatten(point, access)
    pointer = point.frame.pointer(access.tensor)
    dtype = access.tensor.dtype
    stride, constant = Linear(), form.constant
    terms: list[tuple[str, Size]] = []
    for index, factor in form.indices.items():
        place = point.places[index]
        constant = plus(constant, times(factor, place.offset))
        if place.vector:
            stride.plus(Linear(1), factor)
        if place.base is not None:
            terms.append((place.base, factor))
    spread: list[tuple[str, Size]] = []
    for expr, factor in form.others.values():
        value = point.as_index(point.value(expr))
        (spread if value.vector else terms).append((value.text, factor))
    pointer = point.advance(pointer, terms, constant, dtype)
    step = stride.constant
    apart = None if spread else str(point.frame.amount(step))
    if isinstance(step, int):
        offsets = _offsets(point, spread, step) if spread else None
        return Address(pointer, step, offsets, mask, apart)
    lanes = ", ".join(f"i64 {lane}" for lane in range(point.lanes))
    spread.append((f"<{lanes}>", step))
    return Address(pointer, 0, _offsets(point, spread, 0), mask, apart)


def _offsets(point: Point, terms: list[tuple[str, Size]], stride: int) -> str:
    """Per-lane offsets in elements."""
    full = with_lanes("i64", point.lanes)
    steps = ", ".join(f"i64 {lane * stride}" for lane in range(point.lanes))
    total = f"<{steps}>" if stride else ""
    for text, factor in terms:
        if factor != 1:
            text = point.scaled(text, factor, point.lanes)
        total = point.b.pure(f"add nsw {full} {total}, {text}", total, text) if total else text
    return total


def _flatten(point: Point, access: Access) -> tuple[Linear, Mask]:
    """The element offset of an access as one linear form, which nobody may change, and the mask of
    what may be touched."""
    strides = point.frame.strides(access.tensor)
    key = (id(access), id(strides), id(point.ranges))
    known = point.frame.forms.get(key)
    if known is None:
        given = (access, strides, point.ranges)  # held: nothing else gets their identities
        known = point.frame.forms[key] = given, _plain_form(*given)
    return (known[1], point.mask) if known[1] is not None else _checked(point, access, strides)


def _plain_form(access: Access, strides: tuple[Size, ...], ranges: Ranges) -> Linear | None:
    """The offset of an access all of whose subscripts are guarded, or proved to be in range."""
    form = Linear()
    for s, extent, stride in zip(
        access.subscripts, sizes_of(access.tensor.shape), strides, strict=True
    ):
        if not isinstance(s.rule, Skip) and not is_within(s.index, extent, ranges):
            return None
        form.plus(linear(s.index), stride)
    return form


def _checked(point: Point, access: Access, strides: tuple[Size, ...]) -> tuple[Linear, Mask]:
    """The same of any access, with the checks that it needs."""
    form, mask = Linear(), point.mask
    shape = sizes_of(access.tensor.shape)
    for d, subscript in enumerate(access.subscripts):
        index = subscript.index
        if isinstance(subscript.rule, Skip) or is_within(index, shape[d], point.ranges):
            form.plus(linear(index), strides[d])
            continue
        value = point.as_index(point.value(index))
        if isinstance(subscript.rule, Remap):
            value = point.remapped(value, subscript.rule, shape[d])
        if not subscript_is_safe(subscript, shape[d], point.ranges):
            good = point.in_range(value, shape[d])
            site = point.frame.site(access.tensor.name, d, access.span)
            limit = str(point.frame.amount(shape[d]))
            require(point, good.text, good.vector, value, site, limit)
            mask = point.meet(mask, good)
        if subscript.rule is None:
            form.plus(linear(index), strides[d])
        else:
            known = Local("", index)  # stands for the remapped value, which `values` gives
            point.values[known] = value
            form.plus(Linear(0, {}, {id(known): (known, 1)}), strides[d])
    return form, mask


def require(point: Point, good: str, vector: bool, value: Value, site: int, extent: str) -> None:
    """Record a failure where `good` is false and the mask is on."""
    b, lanes = point.b, point.lanes
    if not vector and point.mask.each is None:
        bad = b.pure(f"xor i1 {good}, true", good)
        if point.mask.all is not None:
            bad = b.pure(f"and i1 {bad}, {point.mask.all}", bad, point.mask.all)
        with b.when(bad):
            point.frame.fail(site, value.text, extent)
        return
    type = with_lanes("i1", lanes)
    good = good if vector else point.spread(good, "i1")
    bad = b.pure(f"xor {type} {good}, {splat('true', 'i1', lanes)}", good)
    on = point.mask_text(point.mask)
    bad = b.pure(f"and {type} {bad}, {on}", bad, on)
    some = b.call("i1", f"llvm.vector.reduce.or.{tag('i1', lanes)}", f"{type} {bad}")
    with b.when(some):
        full, least = with_lanes("i64", lanes), splat(str(-(1 << 63)), "i64", lanes)
        each = point.vector(value)
        shown = b.pure(f"select {type} {bad}, {full} {each}, {full} {least}", bad, each)
        worst = b.call("i64", f"llvm.vector.reduce.smax.{tag('i64', lanes)}", f"{full} {shown}")
        point.frame.fail(site, worst, extent)
