"""Transposes a square block in registers.

The block is as wide as a vector. Stage `s` exchanges, in every pair of rows `s` apart, the
elements whose column has bit `s` set with those of the other row that have it clear; after all
stages row and column numbers are exchanged:

    a b    s = 1    a c
    c d   ------->  b d
"""

from __future__ import annotations

from ...dtypes import DType
from .emit_types import scalar_type, tag, width, with_lanes

NAME = "kernel.transpose"


def call_transpose(source: str, step: str, rows: str, columns: str, to: str, stride: str) -> str:
    """The call that writes `rows` x `columns` elements, at most a vector's length each, as
    `columns` rows, `stride` elements apart. Rows of the source are `step` elements apart.

    No other memory is touched; `rows` and `columns` must be positive.
    """
    return (
        f"call void @{NAME}(ptr {source}, i64 {step}, i64 {rows}, i64 {columns}, ptr {to}, "
        f"i64 {stride})"
    )


def declarations(dtype: DType, lanes: int) -> set[str]:
    """The intrinsics of the function."""
    v, bits = with_lanes(scalar_type(dtype), lanes), with_lanes("i1", lanes)
    name = f"{tag(scalar_type(dtype), lanes)}.p0"
    return {
        f"declare {v} @llvm.masked.load.{name}(ptr, i32, {bits}, {v})",
        f"declare void @llvm.masked.store.{name}({v}, ptr, i32, {bits})",
        "declare i64 @llvm.smin.i64(i64, i64)",
    }


def write_transpose(dtype: DType, lanes: int) -> str:
    """The function that `call_transpose` calls."""
    scalar = scalar_type(dtype)
    v, name = with_lanes(scalar, lanes), f"{tag(scalar, lanes)}.p0"
    bits, align = with_lanes("i1", lanes), width(dtype)
    lines = [
        f"define internal void @{NAME}(ptr noalias readonly %from, i64 %step, i64 %rows, "
        "i64 %columns, ptr noalias %to, i64 %stride) noinline {",
        "entry:",
        "  %last = sub nsw i64 %rows, 1",
        *_prefix("in", "columns", lanes),
        *_prefix("out", "rows", lanes),
    ]
    for k in range(lanes):
        # rows that are not there repeat the last one
        lines += [
            f"  %n{k} = call i64 @llvm.smin.i64(i64 {k}, i64 %last)",
            f"  %o{k} = mul nsw i64 %n{k}, %step",
            f"  %p{k} = getelementptr {scalar}, ptr %from, i64 %o{k}",
            f"  %r0.{k} = call {v} @llvm.masked.load.{name}(ptr %p{k}, i32 {align}, {bits} %in, "
            f"{v} zeroinitializer)",
        ]
    stages = lanes.bit_length() - 1
    for stage in range(stages):
        lines += _stage(v, lanes, stage, lanes >> (stage + 1))
    for k in range(lanes):
        lines += [
            f"  %w{k} = icmp sgt i64 %columns, {k}",
            f"  %m{k} = select i1 %w{k}, {bits} %out, {bits} zeroinitializer",
            f"  %f{k} = mul nsw i64 %stride, {k}",
            f"  %q{k} = getelementptr {scalar}, ptr %to, i64 %f{k}",
            f"  call void @llvm.masked.store.{name}({v} %r{stages}.{k}, ptr %q{k}, i32 {align}, "
            f"{bits} %m{k})",
        ]
    return "\n".join([*lines, "  ret void", "}", ""])


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
