"""Transposes a square block in registers.

The block is as wide as a vector. Stage `s` exchanges, in every pair of rows `s` apart, the
elements whose column has bit `s` set with those of the other row that have it clear; after all
stages row and column numbers are exchanged:

    a b    s = 1    a c
    c d   ------->  b d

Within pieces for which processors have instructions that interleave, as many stages do that with
the first half of the rows and the other, since an exchange of less would take two instructions:

    a b c d          a i b j          a e i m
    e f g h          c k d l          b f j n
    i j k l   --->   e m f n   --->   c g k o
    m n o p          g o h p          d h l p
"""

from __future__ import annotations

from itertools import product
from typing import Literal, get_args

from ...dtypes import DType
from .emit_types import scalar_type, some_lanes, splat, tag, width, with_lanes
from .target import PIECE
from .words import HIGH_BITS

NAME, _SQUARE = "kernel.transpose", "kernel.transpose.square"

Loading = Literal["plain", "flip", "float16", "bfloat16"]
"""What is done to elements as they are read: nothing, the highest bit of each byte changed, or made
float32 from narrow ones."""

LEAST_NARROW = 16
"""Elements of a vector from which on narrow ones are read under masks, by one instruction."""


def call_transpose(
    source: str,
    step: str,
    rows: str,
    columns: str,
    to: str,
    stride: str,
    loading: Loading = "plain",
    known: str = "",
) -> str:
    """The call that writes `rows` x `columns` elements, at most a vector's length each, as
    `columns` rows, `stride` elements apart. Rows of the source are `step` elements apart.

    No other memory is touched; `rows` and `columns` must be positive. The function for a known
    number of rows has a name of its own.
    """
    name = known or _name(loading)
    return (
        f"call void @{name}(ptr {source}, i64 {step}, i64 {rows}, "
        f"i64 {columns}, ptr {to}, i64 {stride})"
    )


def called(text: str) -> list[Loading]:
    """The kinds of functions for any number of rows that a text calls."""
    return [kind for kind in get_args(Loading) if f"@{_name(kind)}(" in text]


def _name(loading: Loading) -> str:
    return NAME if loading == "plain" else f"{NAME}.{loading}"


def declarations(dtype: DType, lanes: int, loading: Loading = "plain") -> set[str]:
    """The intrinsics of the function."""
    v, bits = with_lanes(scalar_type(dtype), lanes), with_lanes("i1", lanes)
    name = f"{tag(scalar_type(dtype), lanes)}.p0"
    stored = _stored(dtype, loading)
    u = with_lanes(stored, lanes)
    return {
        f"declare {u} @llvm.masked.load.{tag(stored, lanes)}.p0(ptr, i32, {bits}, {u})",
        f"declare void @llvm.masked.store.{name}({v}, ptr, i32, {bits})",
        "declare i64 @llvm.smin.i64(i64, i64)",
    }


def _stored(dtype: DType, loading: Loading) -> str:
    """The type of the elements in memory."""
    return {"float16": "half", "bfloat16": "i16"}.get(loading, scalar_type(dtype))


def write_transpose(
    dtype: DType,
    lanes: int,
    loading: Loading = "plain",
    known: str = "",
    rows: int = 0,
) -> str:
    """The function that `call_transpose` calls. The one for a `known` number of `rows` stores them
    without masks.

    What has been stored under a mask comes late to who reads it again at once: processors do not
    hand it on before it is in the cache.
    """
    scalar = scalar_type(dtype)
    v, name = with_lanes(scalar, lanes), f"{tag(scalar, lanes)}.p0"
    bits, align = with_lanes("i1", lanes), width(dtype)
    stored = _stored(dtype, loading)
    u, apart = with_lanes(stored, lanes), 2 if loading in ("float16", "bfloat16") else align
    lines = [
        f"define internal void @{known or _name(loading)}(ptr noalias readonly %from, "
        "i64 %step, i64 %rows, i64 %columns, ptr noalias %to, i64 %stride) noinline {",
        "entry:",
        "  %last = sub nsw i64 %rows, 1",
        *_prefix("in", "columns", lanes),
        *([] if rows else _prefix("out", "rows", lanes)),
    ]
    for k in range(lanes):
        if rows and k >= rows:
            lines.append(f"  %r{k} = freeze {v} poison")
            continue
        # rows that are not there repeat the last one
        lines += [
            f"  %n{k} = call i64 @llvm.smin.i64(i64 {k}, i64 %last)",
            f"  %o{k} = mul nsw i64 %n{k}, %step",
            f"  %p{k} = getelementptr {stored}, ptr %from, i64 %o{k}",
            f"  %x{k} = call {u} @llvm.masked.load.{tag(stored, lanes)}.p0(ptr %p{k}, "
            f"i32 {apart}, {bits} %in, {u} zeroinitializer)",
            *_loaded(f"%r{k}", f"%x{k}", v, lanes, loading),
        ]
    turning, columns = _turned(v, [f"%r{k}" for k in range(lanes)], align, lanes)
    lines += turning
    if rows:
        for k in range(lanes):
            lines += [
                f"  %f{k} = mul nsw i64 %stride, {k}",
                f"  %q{k} = getelementptr {scalar}, ptr %to, i64 %f{k}",
                f"  %s{k} = {some_lanes(scalar, lanes, columns[k], 0, rows)}",
                f"  store {with_lanes(scalar, rows)} %s{k}, ptr %q{k}, align {align}",
                f"  %w{k} = icmp sgt i64 %columns, {k + 1}",
                f"  br i1 %w{k}, label %next{k}, label %done",
                f"next{k}:",
            ]
        return "\n".join([*lines, "  br label %done", "done:", "  ret void", "}", ""])
    for k in range(lanes):
        lines += [
            f"  %f{k} = mul nsw i64 %stride, {k}",
            f"  %q{k} = getelementptr {scalar}, ptr %to, i64 %f{k}",
            f"  %w{k} = icmp sgt i64 %columns, {k}",
            f"  %m{k} = select i1 %w{k}, {bits} %out, {bits} zeroinitializer",
            f"  call void @llvm.masked.store.{name}({v} {columns[k]}, ptr %q{k}, i32 {align}, "
            f"{bits} %m{k})",
        ]
    return "\n".join([*lines, "  ret void", "}", ""])


def call_square(source: str, rows: str, to: str, name: str = _SQUARE) -> str:
    """The call that writes a vector's length of rows of the source as columns, whole vectors. Of
    `rows` that are fewer, the last is read for those that are not there."""
    return f"call void @{name}(ptr {source}, i64 {rows}, ptr {to})"


def write_square(dtype: DType, lanes: int, step: int, stride: int, name: str = _SQUARE) -> str:
    """The function that `call_square` calls, for rows `step` elements apart, and columns `stride`
    elements."""
    scalar, align = scalar_type(dtype), width(dtype)
    v, pieces = with_lanes(scalar, lanes), 2 if lanes * align == 2 * PIECE else 1
    part = with_lanes(scalar, lanes // pieces)
    lines = [
        f"define internal void @{name}(ptr noalias readonly %from, i64 %rows, "
        "ptr noalias %to) noinline {",
        "entry:",
        "  %last = sub nsw i64 %rows, 1",
    ]
    for k in range(lanes):
        lines += [
            f"  %n{k} = call i64 @llvm.smin.i64(i64 {k}, i64 %last)",
            f"  %o{k} = mul nsw i64 %n{k}, {step}",
            f"  %p{k} = getelementptr {scalar}, ptr %from, i64 %o{k}",
        ]
        for n in range(pieces):
            lines += [
                f"  %p{k}.{n} = getelementptr {scalar}, ptr %p{k}, i64 {n * lanes // pieces}",
                f"  %x{k}.{n} = load {part}, ptr %p{k}.{n}, align {align}",
            ]
    rows = [f"%x{k}.0" for k in range(lanes)]
    half, joined = lanes // 2, ", ".join(f"i32 {k}" for k in range(lanes))
    if pieces == 2:  # read where they will be, since some processors exchange them slowly
        rows = [f"%r{k}" for k in range(lanes)]
        for n, k in product(range(2), range(half)):
            lines.append(
                f"  %r{n * half + k} = shufflevector {part} %x{k}.{n}, {part} %x{k + half}.{n}, "
                f"<{lanes} x i32> <{joined}>"
            )
    turning, columns = _turned(v, rows, align, lanes // pieces)
    lines += turning
    for k, column in enumerate(columns):
        lines += [
            f"  %q{k} = getelementptr {scalar}, ptr %to, i64 {k * stride}",
            f"  store {v} {column}, ptr %q{k}, align {align}",
        ]
    return "\n".join([*lines, "  ret void", "}", ""])


def _loaded(result: str, value: str, vector: str, lanes: int, loading: Loading) -> list[str]:
    """Elements as they are computed with, from those in memory."""
    words = with_lanes("i32", lanes)
    match loading:
        case "flip":
            return [f"  {result} = xor {vector} {value}, {splat(HIGH_BITS, 'i32', lanes)}"]
        case "float16":
            return [f"  {result} = fpext {with_lanes('half', lanes)} {value} to {vector}"]
        case "bfloat16":
            return [
                f"  {value}.w = zext {with_lanes('i16', lanes)} {value} to {words}",
                f"  {value}.h = shl {words} {value}.w, {splat('16', 'i32', lanes)}",
                f"  {result} = bitcast {words} {value}.h to {vector}",
            ]
    return [f"  {result} = bitcast {vector} {value} to {vector}"]


def _prefix(name: str, count: str, lanes: int) -> list[str]:
    """The mask of the first lanes."""
    wide = with_lanes("i32", lanes)
    steps = ", ".join(f"i32 {k}" for k in range(lanes))
    return [
        f"  %{name}.n = trunc i64 %{count} to i32",
        f"  %{name}.i = insertelement {wide} poison, i32 %{name}.n, i64 0",
        f"  %{name}.v = shufflevector {wide} %{name}.i, {wide} poison, {wide} zeroinitializer",
        f"  %{name} = icmp slt {wide} <{steps}>, %{name}.v",
    ]


def _turned(vector: str, rows: list[str], size: int, apart: int) -> tuple[list[str], list[str]]:
    """What turns rows round, whose elements have `size` bytes, and which have changed places so far
    down to stage `apart`; and the names of the columns."""
    lines: list[str] = []
    lanes = len(rows)

    def shuffled(x: str, y: str, picks: list[int]) -> str:
        name, chosen = f"%t{len(lines)}", ", ".join(f"i32 {p}" for p in picks)
        lines.append(
            f"  {name} = shufflevector {vector} {x}, {vector} {y}, <{lanes} x i32> <{chosen}>"
        )
        return name

    piece = min(lanes, PIECE // size)
    apart //= 2
    while apart >= piece:
        low = [lanes + c - apart if c & apart else c for c in range(lanes)]
        picks = low, [p + apart for p in low]
        rows = [
            shuffled(rows[k & ~apart], rows[k | apart], picks[k & apart > 0]) for k in range(lanes)
        ]
        apart //= 2
    half, starts = piece // 2, range(0, lanes, piece)
    low = [p for at in starts for k in range(at, at + half) for p in (k, lanes + k)]
    picks = low, [p + half for p in low]
    for _ in range(piece.bit_length() - 1):
        halves = [k for at in starts for k in range(at, at + half)]
        rows = [shuffled(rows[k], rows[k + half], p) for k in halves for p in picks]
    return lines, rows
