"""Memory for results that are tensors, as LLVM text: `make` gives a `DLManagedTensorVersioned`,
whose deleter is `ricci_keep`. What big ones leave when nobody has them any more is kept, to be used
again: systems give new memory in pages that are slow to write to for the first time.
"""

from __future__ import annotations

_PLACES = 32
_KEPT = 4
KEPT_WORDS = _KEPT + 2 * _PLACES
"""Memory that is kept: a lock; the place that is filled next; the bytes that there are; how many
there may be; and places for blocks, each with its size and its address. The oldest block is given
up when there are more."""
KEPT_LIMIT = 3

BIG = 1 << 17
"""Bytes from which a result is kept: from here on systems are asked for memory."""

HEAD = 128
"""Bytes before the elements of a result: a `DLManagedTensorVersioned` of 80 bytes; its size."""


def memory_text() -> str:
    """What is called with `KEPT_WORDS` words, and the description of a result: its bytes, the third
    word of a `DLTensor`, shape, strides."""
    text = _MEMORY
    words = {"HEAD": HEAD, "BIG": BIG, "PLACES": _PLACES, "FIRST": _KEPT}
    for name, number in words.items():
        text = text.replace(f"@{name}@", str(number))
    return text


_MEMORY = """
declare i32 @posix_memalign(ptr, i64, i64)
declare i32 @madvise(ptr, i64, i32)
declare void @free(ptr)

; a result as a DLManagedTensorVersioned; null if there is no memory
define internal ptr @make(ptr %kept, ptr %spec) {
entry:
  %place = alloca ptr, align 8
  %bytes = load i64, ptr %spec
  %size = add i64 %bytes, @HEAD@
  %is.big = icmp uge i64 %bytes, @BIG@
  br i1 %is.big, label %look, label %fresh
look:
  %old = call ptr @take(ptr %kept, i64 %size)
  %some = icmp ne ptr %old, null
  br i1 %some, label %fill, label %fresh
fresh:
  %rc = call i32 @posix_memalign(ptr %place, i64 64, i64 %size)
  %right = icmp eq i32 %rc, 0
  br i1 %right, label %new, label %none
new:
  %memory = load ptr, ptr %place
  %is.large = icmp uge i64 %size, 4194304
  br i1 %is.large, label %advise, label %fill
advise:
  %start = ptrtoint ptr %memory to i64
  %over = add i64 %start, 4095
  %page = and i64 %over, -4096
  %gap = sub i64 %page, %start
  %rest = sub i64 %size, %gap
  %page.p = inttoptr i64 %page to ptr
  %advised = call i32 @madvise(ptr %page.p, i64 %rest, i32 14)
  br label %fill
fill:
  %block = phi ptr [ %old, %look ], [ %memory, %new ], [ %memory, %advise ]
  store i64 1, ptr %block
  %context.p = getelementptr i64, ptr %block, i64 1
  store ptr %kept, ptr %context.p
  %deleter.p = getelementptr i64, ptr %block, i64 2
  store ptr @ricci_keep, ptr %deleter.p
  %flags.p = getelementptr i64, ptr %block, i64 3
  store i64 0, ptr %flags.p
  %elements = getelementptr i8, ptr %block, i64 @HEAD@
  %data.p = getelementptr i64, ptr %block, i64 4
  store ptr %elements, ptr %data.p
  %device.p = getelementptr i64, ptr %block, i64 5
  store i64 1, ptr %device.p
  %head.sp = getelementptr i64, ptr %spec, i64 1
  %head = load i64, ptr %head.sp
  %head.p = getelementptr i64, ptr %block, i64 6
  store i64 %head, ptr %head.p
  %shape = getelementptr i64, ptr %spec, i64 2
  %shape.p = getelementptr i64, ptr %block, i64 7
  store ptr %shape, ptr %shape.p
  %rank = and i64 %head, 4294967295
  %strides = getelementptr i64, ptr %shape, i64 %rank
  %strides.p = getelementptr i64, ptr %block, i64 8
  store ptr %strides, ptr %strides.p
  %offset.p = getelementptr i64, ptr %block, i64 9
  store i64 0, ptr %offset.p
  %size.p = getelementptr i64, ptr %block, i64 10
  store i64 %size, ptr %size.p
  ret ptr %block
none:
  ret ptr null
}

; a kept block of a size; null if there is none
define internal ptr @take(ptr %kept, i64 %size) {
entry:
  %held = call i1 @hold(ptr %kept)
  br i1 %held, label %loop, label %none
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %more = icmp ult i64 %k, @PLACES@
  br i1 %more, label %look, label %leave
look:
  %k2 = shl i64 %k, 1
  %at = add i64 %k2, @FIRST@
  %place = getelementptr i64, ptr %kept, i64 %at
  %its = load i64, ptr %place
  %fits = icmp eq i64 %its, %size
  br i1 %fits, label %found, label %next
next:
  %k1 = add i64 %k, 1
  br label %loop
found:
  store i64 0, ptr %place
  %block.p = getelementptr ptr, ptr %place, i64 1
  %block = load ptr, ptr %block.p
  %total.p = getelementptr i64, ptr %kept, i64 2
  %total = load i64, ptr %total.p
  %less = sub i64 %total, %size
  store i64 %less, ptr %total.p
  call void @let.go(ptr %kept)
  ret ptr %block
leave:
  call void @let.go(ptr %kept)
  br label %none
none:
  ret ptr null
}

; the deleter of a result: nobody has it any more
define void @ricci_keep(ptr %block) {
entry:
  %size.p = getelementptr i64, ptr %block, i64 10
  %size = load i64, ptr %size.p
  %least = add i64 @BIG@, @HEAD@
  %is.big = icmp uge i64 %size, %least
  br i1 %is.big, label %hold, label %free
hold:
  %kept.p = getelementptr i64, ptr %block, i64 1
  %kept = load ptr, ptr %kept.p
  %held = call i1 @hold(ptr %kept)
  br i1 %held, label %put, label %free
put:
  %total.p = getelementptr i64, ptr %kept, i64 2
  %total = load i64, ptr %total.p
  %sum = add i64 %total, %size
  store i64 %sum, ptr %total.p
  call void @replace(ptr %kept, ptr %block, i64 %size)
  br label %limit
limit:
  %most.p = getelementptr i64, ptr %kept, i64 3
  %most = load i64, ptr %most.p
  %now = load i64, ptr %total.p
  %over = icmp ugt i64 %now, %most
  br i1 %over, label %drop, label %leave
drop:
  call void @replace(ptr %kept, ptr null, i64 0)
  br label %limit
leave:
  call void @let.go(ptr %kept)
  ret void
free:
  call void @free(ptr %block)
  ret void
}

; what is in the oldest place is given up for a block, or for nothing
define internal void @replace(ptr %kept, ptr %block, i64 %size) {
entry:
  %turn.p = getelementptr i64, ptr %kept, i64 1
  %turn = load i64, ptr %turn.p
  %after = add i64 %turn, 1
  %turned = urem i64 %after, @PLACES@
  store i64 %turned, ptr %turn.p
  %turn2 = shl i64 %turn, 1
  %at = add i64 %turn2, @FIRST@
  %place = getelementptr i64, ptr %kept, i64 %at
  %old.size = load i64, ptr %place
  %old.p = getelementptr ptr, ptr %place, i64 1
  %old = load ptr, ptr %old.p
  store i64 %size, ptr %place
  store ptr %block, ptr %old.p
  %empty = icmp eq i64 %old.size, 0
  br i1 %empty, label %end, label %free
free:
  %total.p = getelementptr i64, ptr %kept, i64 2
  %total = load i64, ptr %total.p
  %less = sub i64 %total, %old.size
  store i64 %less, ptr %total.p
  call void @free(ptr %old)
  br label %end
end:
  ret void
}

; who does not get hold of what is kept does without
define internal i1 @hold(ptr %kept) {
  %pair = cmpxchg ptr %kept, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %pair, 1
  ret i1 %mine
}

define internal void @let.go(ptr %kept) {
  store atomic i64 0, ptr %kept seq_cst, align 8
  ret void
}
"""
