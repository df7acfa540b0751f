"""Vectors in memory: elements that lie apart, the first lanes, and those that a mask has on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .builder import Builder
from .emit_types import some_lanes, tag, with_lanes, with_zeros

if TYPE_CHECKING:
    from .emit import Address


def strided_load(
    b: Builder,
    type: str,
    align: int,
    address: Address,
    mask: str | None,
    lanes: int,
    stable: bool,
    most: int = 4,
) -> str | None:
    """Every second to `most`-th element, as whole vectors and shuffles; or elements backwards.

    The vectors read overlap so that nothing after the last element is touched. With a mask per
    lane, only the elements of lanes that are on are touched, and others are zero.
    """
    stride = address.stride
    if address.offsets is not None or not (stride == -1 or 2 <= stride <= most):
        return None
    if stride == -1:
        picks = [lanes - 1 - k for k in range(lanes)]
        a = _part(b, type, align, address.pointer, 1 - lanes, mask, picks, lanes, stable)
        return _shuffle(b, with_lanes(type, lanes), a, "poison", picks)
    last = (lanes - 1) * stride  # offset of the last element
    result, have = "poison", 0
    for part in range(stride):
        begin = min(part * lanes, last - lanes + 1)
        there = range(have, min(lanes, -(-(begin + lanes) // stride)))
        if not there:
            continue
        sources = {k * stride - begin: k for k in there}  # position in the vector: lane
        wanted = [sources.get(e, lanes) for e in range(lanes)]
        a = _part(b, type, align, address.pointer, begin, mask, wanted, lanes, stable)
        picks = [
            lanes + k if k < have else k * stride - begin if k in there else -1
            for k in range(lanes)
        ]
        result = _shuffle(b, with_lanes(type, lanes), a, result, picks)
        have += len(there)
    return result


def _part(
    b: Builder,
    type: str,
    align: int,
    pointer: str,
    offset: int,
    mask: str | None,
    wanted: list[int],
    lanes: int,
    stable: bool,
) -> str:
    """A vector from `offset` elements on; under a mask, of element `e` that of lane `wanted[e]`."""
    full, bits = with_lanes(type, lanes), with_lanes("i1", lanes)
    if offset:
        pointer = b.pure(f"getelementptr {type}, ptr {pointer}, i64 {offset}", pointer)
    if mask is None:
        return b.load(full, pointer, align, stable)
    wide = _shuffle(b, bits, mask, "zeroinitializer", wanted)
    name = f"llvm.masked.load.{tag(type, lanes)}.p0"
    b.declare(f"declare {full} @{name}(ptr, i32, {bits}, {full})")
    text = f"call {full} @{name}(ptr {pointer}, i32 {align}, {bits} {wide}, {full} zeroinitializer)"
    return b.stable(text, pointer, wide) if stable else b.op(text)


def held(b: Builder, type: str, value: str, lanes: int) -> str:
    """A vector read under a mask, as the code generator may use it.

    LLVM makes the read an operand of a multiply-add under the same mask, and where registers
    suit that badly takes it out again without its mask: a read beyond the memory.
    """
    if type not in ("float", "double"):
        return value
    full = with_lanes(type, lanes)
    return b.call(full, f"llvm.arithmetic.fence.{tag(type, lanes)}", f"{full} {value}")


def _shuffle(b: Builder, full: str, first: str, second: str, picks: list[int]) -> str:
    chosen = ", ".join("i32 poison" if p < 0 else f"i32 {p}" for p in picks)
    text = f"shufflevector {full} {first}, {full} {second}, <{len(picks)} x i32> <{chosen}>"
    return b.pure(text, first, second)


def first_lanes(mask: str) -> int | None:
    """How many lanes a literal mask has on, if they are the first ones and not all."""
    bits = mask.strip("<>").split(", ")
    count = bits.count("i1 true")
    known = ["i1 true"] * count + ["i1 false"] * (len(bits) - count)
    return count if 0 < count < len(bits) and bits == known else None


def load_first(
    b: Builder, scalar: str, lanes: int, count: int, start: str, align: int, stable: bool
) -> str:
    """A vector of so many elements, and zeros, by a shorter load: where those under a mask take as
    long as several others (Zen 1)."""
    value = b.load(with_lanes(scalar, count), start, align, stable)
    return b.pure(with_zeros(scalar, lanes, value, count), value)


def store_first(
    b: Builder, scalar: str, lanes: int, count: int, value: str, to: str, align: int
) -> None:
    """Store the first lanes of a vector by shorter stores: where processors have no fast ones
    under a mask (AVX2: one takes as long as a dozen on Zen 3)."""
    part = b.pure(some_lanes(scalar, lanes, value, 0, count), value)
    b.line(f"store {with_lanes(scalar, count)} {part}, ptr {to}, align {align}")


_SHORTER = {"i8": 1, "i16": 2, "i32": 4}
"""Bytes of integers that may have been longer."""
_HALF_REGISTER = 32


def store_masked(
    b: Builder, scalar: str, lanes: int, value: str, to: str, align: int, mask: str
) -> None:
    """Store the lanes of a vector that a mask has on, where processors have fast stores under one.

    LLVM makes a store under a mask of integers that have been made shorter one of the longer ones,
    if it finds that the mask has a single lane on, and so writes behind it. Such vectors fill no
    register: lanes that are always off keep the two instructions apart."""
    if scalar in _SHORTER and lanes * _SHORTER[scalar] <= _HALF_REGISTER:
        kind, bits = (with_lanes(x, lanes) for x in (scalar, "i1"))
        wide = ", ".join(f"i32 {lane}" for lane in range(2 * lanes))
        picks = f"<{2 * lanes} x i32> <{wide}>"
        value = b.pure(f"shufflevector {kind} {value}, {kind} poison, {picks}", value)
        mask = b.pure(f"shufflevector {bits} {mask}, {bits} zeroinitializer, {picks}", mask)
        lanes *= 2
    full, bits = with_lanes(scalar, lanes), with_lanes("i1", lanes)
    name = f"llvm.masked.store.{tag(scalar, lanes)}.p0"
    b.declare(f"declare void @{name}({full}, ptr, i32, {bits})")
    b.line(f"call void @{name}({full} {value}, ptr {to}, i32 {align}, {bits} {mask})")


def store_live(
    b: Builder, scalar: str, lanes: int, live: str, value: str, to: str, align: int
) -> None:
    """Store so many of the first lanes of a vector, fewer than all: half of them if it is more,
    then half of those that are left, and so on."""
    size = lanes
    while size > 1:
        size //= 2
        halves = [b.pure(some_lanes(scalar, 2 * size, value, n, size), value) for n in (0, size)]
        bit = b.pure(f"and i64 {live}, {size}", live)
        on = b.pure(f"icmp ne i64 {bit}, 0", bit)
        with b.when(on):
            b.line(f"store {with_lanes(scalar, size)} {halves[0]}, ptr {to}, align {align}")
        full, (low, high) = with_lanes(scalar, size), halves
        value = b.pure(f"select i1 {on}, {full} {high}, {full} {low}", on, high, low)
        to = b.pure(f"getelementptr {scalar}, ptr {to}, i64 {bit}", to, bit)
