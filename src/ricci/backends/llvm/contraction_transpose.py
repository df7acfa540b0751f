"""Transposes a square block in registers.

The block is as wide as a vector. Stage `s` exchanges, in every pair of rows `s` apart, the
elements whose column has bit `s` set with those of the other row that have it clear; after all
stages row and column numbers are exchanged:

    a b    s = 1    a c
    c d   ------->  b d
"""

from __future__ import annotations

from typing import Literal, get_args

from ...dtypes import DType
from .emit_types import scalar_type, some_lanes, splat, tag, width, with_lanes
from .words import HIGH_BITS

NAME = "kernel.transpose"

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
    whole: bool = False,
    known: str = "",
) -> str:
    """The call that writes `rows` x `columns` elements, at most a vector's length each, as
    `columns` rows, `stride` elements apart. Rows of the source are `step` elements apart.

    No other memory is touched, unless a `whole` block may be written; `rows` and `columns` must be
    positive. The function for a known number of rows has a name of its own.
    """
    name = known or _name(loading, whole)
    return (
        f"call void @{name}(ptr {source}, i64 {step}, i64 {rows}, "
        f"i64 {columns}, ptr {to}, i64 {stride})"
    )


def called(text: str) -> list[Loading]:
    """The kinds of functions for any number of rows that a text calls."""
    return [kind for kind in get_args(Loading) if f"@{_name(kind, False)}(" in text]


def _name(loading: Loading, whole: bool) -> str:
    name = NAME if loading == "plain" else f"{NAME}.{loading}"
    return f"{name}.whole" if whole else name


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
    whole: bool = False,
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
        f"define internal void @{known or _name(loading, whole)}(ptr noalias readonly %from, "
        "i64 %step, i64 %rows, i64 %columns, ptr noalias %to, i64 %stride) noinline {",
        "entry:",
        "  %last = sub nsw i64 %rows, 1",
        *_prefix("in", "columns", lanes),
        *([] if whole or rows else _prefix("out", "rows", lanes)),
    ]
    for k in range(lanes):
        if rows and k >= rows:
            lines.append(f"  %r0.{k} = freeze {v} poison")
            continue
        # rows that are not there repeat the last one
        lines += [
            f"  %n{k} = call i64 @llvm.smin.i64(i64 {k}, i64 %last)",
            f"  %o{k} = mul nsw i64 %n{k}, %step",
            f"  %p{k} = getelementptr {stored}, ptr %from, i64 %o{k}",
            f"  %x{k} = call {u} @llvm.masked.load.{tag(stored, lanes)}.p0(ptr %p{k}, "
            f"i32 {apart}, {bits} %in, {u} zeroinitializer)",
            *_loaded(f"%r0.{k}", f"%x{k}", v, lanes, loading),
        ]
    stages = lanes.bit_length() - 1
    for stage in range(stages):
        lines += _stage(v, lanes, stage, lanes >> (stage + 1))
    if rows:
        for k in range(lanes):
            lines += [
                f"  %f{k} = mul nsw i64 %stride, {k}",
                f"  %q{k} = getelementptr {scalar}, ptr %to, i64 %f{k}",
                f"  %s{k} = {some_lanes(scalar, lanes, f'%r{stages}.{k}', 0, rows)}",
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
        ]
        if whole:
            lines.append(f"  store {v} %r{stages}.{k}, ptr %q{k}, align {align}")
            continue
        lines += [
            f"  %w{k} = icmp sgt i64 %columns, {k}",
            f"  %m{k} = select i1 %w{k}, {bits} %out, {bits} zeroinitializer",
            f"  call void @llvm.masked.store.{name}({v} %r{stages}.{k}, ptr %q{k}, i32 {align}, "
            f"{bits} %m{k})",
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
    wide = with_lanes("i64", lanes)
    steps = ", ".join(f"i64 {k}" for k in range(lanes))
    zeros = f"<{lanes} x i32> zeroinitializer"
    return [
        f"  %{name}.i = insertelement {wide} poison, i64 %{count}, i64 0",
        f"  %{name}.v = shufflevector {wide} %{name}.i, {wide} poison, {zeros}",
        f"  %{name} = icmp ult {wide} <{steps}>, %{name}.v",
    ]


def _stage(vector: str, lanes: int, stage: int, apart: int) -> list[str]:
    lines = []
    for k in range(lanes):
        low, high = k & ~apart, k | apart
        if k == low:
            picks = [c if not c & apart else lanes + c - apart for c in range(lanes)]
        else:
            picks = [c + apart if not c & apart else lanes + c for c in range(lanes)]
        chosen = ", ".join(f"i32 {p}" for p in picks)
        lines.append(
            f"  %r{stage + 1}.{k} = shufflevector {vector} %r{stage}.{low}, {vector} "
            f"%r{stage}.{high}, <{lanes} x i32> <{chosen}>"
        )
    return lines
