"""Loops that do nothing but compute, or move bytes: what a machine can do at most."""

from __future__ import annotations

from .target import LINE

CHAINS = 12
"""Independent multiply-adds: as many as hide their latency."""
UNROLLED = 8
"""Vectors that a step moves."""
AHEAD = 2048
"""Bytes: how far ahead elements are asked for."""
_STREAMS = {"read_ahead": 4, "copy_ahead": 2}
"""From how many places in turn, at most: beside reading, Zen 3 writes whole lines of no more."""

# cells
STEPS, REPEATS, PIECE, PIECES, TARGET = range(5)
"""Steps of a chunk, and how often they are done; bytes of a piece of an array, and how many pieces
it has, which chunks take in turn; bytes from an array to the one that is written."""
CELLS = 5

_LOOP = """
declare @V@ @llvm.fma.@TAG@(@V@, @V@, @V@)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define internal void @loop(i64 %n, i64 %repeats, ptr %from, ptr %to) {
entry:
  %x = load @V@, ptr %from, align 64
  %length = mul i64 %n, @ROW@
  br label %again
again:
  %r = phi i64 [ 0, %entry ], [ %r1, %next ]
  br label %loop
loop:
  %i = phi i64 [ 0, %again ], [ %i1, %loop ]
@BEGIN@
  %o = mul i64 %i, @ROW@
@BODY@
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %n
  br i1 %more, label %loop, label %next
next:
@END@
  %r1 = add i64 %r, 1
  %on = icmp slt i64 %r1, %repeats
  br i1 %on, label %again, label %done
done:
  ret void
}

define void @@KIND@(ptr %table, ptr %scratch, i64 %begin, i64 %end) {
entry:
  %cells.p = getelementptr ptr, ptr %table, i64 1
  %cells = load ptr, ptr %cells.p
@CELLS@
  br label %loop
loop:
  %chunk = phi i64 [ %begin, %entry ], [ %chunk1, %loop ]
  %which = urem i64 %chunk, %pieces
  %first = mul i64 %which, %piece
  %from = getelementptr i8, ptr %scratch, i64 %first
  %to = getelementptr i8, ptr %from, i64 %target
  call void @loop(i64 %steps, i64 %repeats, ptr %from, ptr %to)
  %chunk1 = add i64 %chunk, 1
  %more = icmp slt i64 %chunk1, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
!0 = !{i32 1}
"""

_CELL = """  %@NAME@.p = getelementptr i64, ptr %cells, i64 @K@
  %@NAME@ = load i64, ptr %@NAME@.p"""
_NAMES = ("steps", "repeats", "piece", "pieces", "target")

_CHAIN = "  %a@K@ = phi @V@ [ zeroinitializer, %again ], [ %b@K@, %loop ]"
_FMA = "  %b@K@ = call @V@ @llvm.fma.@TAG@(@V@ %x, @V@ %x, @V@ %a@K@)"
_PLACE = """  %s@K@ = mul i64 %length, @STREAM@
  %w@K@ = add i64 %o, @PLACE@
  %o@K@ = add i64 %s@K@, %w@K@"""
_LOAD = f"""{_PLACE}
  %p@K@ = getelementptr @V@, ptr %from, i64 %o@K@
  %v@K@ = load @V@, ptr %p@K@, align 64"""
_ASK = """  %f@K@ = getelementptr i8, ptr %p@K@, i64 @AHEAD@
  call void @llvm.prefetch.p0(ptr %f@K@, i32 0, i32 3, i32 1)"""
_ADD = "  %b@K@ = fadd @V@ %a@K@, %v@K@"
_STORE = """  %q@K@ = getelementptr @V@, ptr %to, i64 %o@K@
  store @V@ %v@K@, ptr %q@K@, align 64@HINT@"""
_FILL = f"{_PLACE}\n{_STORE.replace('%v@K@', '%x')}"
_KEEP = """  %e@K@ = getelementptr @V@, ptr %to, i64 @K@
  store @V@ %b@K@, ptr %e@K@, align 64"""

KINDS = {
    "compute": (_CHAIN, _FMA, _KEEP),
    "read": (_CHAIN, f"{_LOAD}\n{_ADD}", _KEEP),
    "read_ahead": (_CHAIN, f"{_LOAD}\n{_ASK}\n{_ADD}", _KEEP),
    "copy": ("", f"{_LOAD}\n{_STORE}", ""),
    "copy_ahead": ("", f"{_LOAD}\n{_ASK}\n{_STORE}", ""),
    "write": ("", _FILL, ""),
    "write_ahead": ("", _FILL, ""),
}
"""What a step begins with, does, and is followed by, for every vector of it. What is `ahead` asks
for elements of several streams before it reads them, and writes past the caches: faster beyond the
second cache."""


def loop_text(kind: str, lanes: int, scalar: str = "float") -> str:
    """A kernel `kind`, whose table has the cells, and whose scratch the arrays: each thread has its
    own, at multiples of 64 bytes, with at least `CHAINS` vectors."""
    count = CHAINS if kind == "compute" else UNROLLED
    lines = UNROLLED * lanes * (4 if scalar == "float" else 8) // LINE
    streams = min(_STREAMS.get(kind, 1), lines)  # parts of lines are not written well in turn
    begin, body, end = (_repeated(part, count, streams) for part in KINDS[kind])
    cells = (_CELL.replace("@K@", str(k)).replace("@NAME@", n) for k, n in enumerate(_NAMES))
    words = {
        "BEGIN": begin,
        "BODY": body,
        "END": end,
        "CELLS": "\n".join(cells),
        "KIND": kind,
        "V": f"<{lanes} x {scalar}>",
        "TAG": f"v{lanes}{'f32' if scalar == 'float' else 'f64'}",
        "ROW": str(UNROLLED // streams),
        "AHEAD": str(AHEAD),
        "HINT": ", !nontemporal !0" if kind in ("copy_ahead", "write_ahead") else "",
    }
    text = _LOOP
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def _repeated(part: str, count: int, streams: int) -> str:
    """For every vector of a step; they are those of several streams, one after the other."""
    each = count // streams
    return "\n".join(
        part.replace("@K@", str(k))
        .replace("@STREAM@", str(k // each))
        .replace("@PLACE@", str(k % each))
        for k in range(count)
    )
