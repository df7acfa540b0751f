"""Loops that do nothing but compute, or move bytes: what a machine can do at most."""

from __future__ import annotations

CHAINS = 12
"""Independent multiply-adds: as many as hide their latency."""
UNROLLED = 8
"""Vectors that a step moves."""

_LOOP = """
declare @V@ @llvm.fma.@TAG@(@V@, @V@, @V@)
define void @@KIND@(i64 %n, i64 %repeats, ptr %from, ptr %to) {
entry:
  %x = load @V@, ptr %from, align 64
  br label %again
again:
  %r = phi i64 [ 0, %entry ], [ %r1, %next ]
  br label %loop
loop:
  %i = phi i64 [ 0, %again ], [ %i1, %loop ]
@BEGIN@
  %o = mul i64 %i, @UNROLLED@
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
!0 = !{i32 1}
"""

_CHAIN = "  %a@K@ = phi @V@ [ zeroinitializer, %again ], [ %b@K@, %loop ]"
_FMA = "  %b@K@ = call @V@ @llvm.fma.@TAG@(@V@ %x, @V@ %x, @V@ %a@K@)"
_LOAD = """  %o@K@ = add i64 %o, @K@
  %p@K@ = getelementptr @V@, ptr %from, i64 %o@K@
  %v@K@ = load @V@, ptr %p@K@, align 64"""
_ADD = "  %b@K@ = fadd @V@ %a@K@, %v@K@"
_STORE = """  %q@K@ = getelementptr @V@, ptr %to, i64 %o@K@
  store @V@ %v@K@, ptr %q@K@, align 64@HINT@"""
_KEEP = """  %e@K@ = getelementptr @V@, ptr %to, i64 @K@
  store @V@ %b@K@, ptr %e@K@, align 64"""

KINDS = {
    "compute": (_CHAIN, _FMA, _KEEP),
    "read": (_CHAIN, f"{_LOAD}\n{_ADD}", _KEEP),
    "copy": ("", f"{_LOAD}\n{_STORE}", ""),
    "stream": ("", f"{_LOAD}\n{_STORE}", ""),
}
"""What a step begins with, does, and is followed by, for every vector of it; `stream` is a copy
past the caches."""


def loop_text(kind: str, lanes: int, scalar: str = "float") -> str:
    """`kind(n, repeats, from, to)`: so many steps, all of them so many times, on arrays at
    multiples of 64 bytes with at least `CHAINS` vectors."""
    count = CHAINS if kind == "compute" else UNROLLED
    parts = ("\n".join(p.replace("@K@", str(k)) for k in range(count)) for p in KINDS[kind])
    begin, body, end = parts
    words = {
        "BEGIN": begin,
        "BODY": body,
        "END": end,
        "KIND": kind,
        "V": f"<{lanes} x {scalar}>",
        "TAG": f"v{lanes}{'f32' if scalar == 'float' else 'f64'}",
        "UNROLLED": str(UNROLLED),
        "HINT": ", !nontemporal !0" if kind == "stream" else "",
    }
    text = _LOOP
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text
