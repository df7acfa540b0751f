"""The functions of every model that runs without Python, as LLVM text.

`$word$` stands for what differs from model to model: word numbers of its memory (`MESSAGE`, ...),
sizes, and the prefix of its functions.
"""

from __future__ import annotations

from collections.abc import Mapping

MESSAGE_BYTES = 512
NUMBER = 1
"""The byte in a message that stands before the number, in 4 bytes, of a word to be shown."""

TEST_KINDS = ("equals", "unlike", "above", "negative")
"""A test fails for a word that equals a number; that is set and unlike another word; that is above
another word; that is negative."""


def filled(text: str, values: Mapping[str, object]) -> str:
    """A text with its words replaced."""
    for word, value in values.items():
        text = text.replace(f"${word}$", str(value))
    return text


BASE = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare ptr @calloc(i64, i64)
declare void @free(ptr)

; add a byte to the message, if there is room
define internal i64 @add_byte(ptr %m, i64 %at, i8 %byte) {
entry:
  %room = icmp ult i64 %at, $MESSAGE_LAST$
  br i1 %room, label %put, label %end
put:
  %start = getelementptr i64, ptr %m, i64 $MESSAGE$
  %place = getelementptr i8, ptr %start, i64 %at
  store i8 %byte, ptr %place, align 1
  %next = add i64 %at, 1
  %behind = getelementptr i8, ptr %place, i64 1
  store i8 0, ptr %behind, align 1
  br label %end
end:
  %now = phi i64 [ %at, %entry ], [ %next, %put ]
  ret i64 %now
}

; add a number in decimal digits
define internal i64 @add_number(ptr %m, i64 %at, i64 %value) {
entry:
  %digits = alloca [24 x i8], align 8
  %negative = icmp slt i64 %value, 0
  %opposite = sub i64 0, %value
  %size = select i1 %negative, i64 %opposite, i64 %value
  br i1 %negative, label %sign, label %divide
sign:
  %after = call i64 @add_byte(ptr %m, i64 %at, i8 45)
  br label %divide
divide:
  %from = phi i64 [ %at, %entry ], [ %after, %sign ], [ %from, %divide ]
  %rest = phi i64 [ %size, %entry ], [ %size, %sign ], [ %quotient, %divide ]
  %count = phi i64 [ 0, %entry ], [ 0, %sign ], [ %more, %divide ]
  %quotient = udiv i64 %rest, 10
  %tens = mul i64 %quotient, 10
  %digit = sub i64 %rest, %tens
  %digit8 = trunc i64 %digit to i8
  %letter = add i8 %digit8, 48
  %place = getelementptr i8, ptr %digits, i64 %count
  store i8 %letter, ptr %place, align 1
  %more = add i64 %count, 1
  %left = icmp ne i64 %quotient, 0
  br i1 %left, label %divide, label %write
write:
  %k = phi i64 [ %more, %divide ], [ %k1, %write ]
  %to = phi i64 [ %from, %divide ], [ %to1, %write ]
  %k1 = sub i64 %k, 1
  %source = getelementptr i8, ptr %digits, i64 %k1
  %byte = load i8, ptr %source, align 1
  %to1 = call i64 @add_byte(ptr %m, i64 %to, i8 %byte)
  %on = icmp ne i64 %k1, 0
  br i1 %on, label %write, label %end
end:
  ret i64 %to1
}

; write the message of a text, with the numbers that stand in it
define internal void @say(ptr %m, ptr %text) {
entry:
  br label %next
next:
  %p = phi ptr [ %text, %entry ], [ %p1, %plain ], [ %p5, %number ]
  %at = phi i64 [ 0, %entry ], [ %at1, %plain ], [ %at2, %number ]
  %byte = load i8, ptr %p, align 1
  switch i8 %byte, label %plain [ i8 0, label %end
                                  i8 1, label %number ]
plain:
  %at1 = call i64 @add_byte(ptr %m, i64 %at, i8 %byte)
  %p1 = getelementptr i8, ptr %p, i64 1
  br label %next
number:
  %which.p = getelementptr i8, ptr %p, i64 1
  %which = load i32, ptr %which.p, align 1
  %word.n = zext i32 %which to i64
  %word.p = getelementptr i64, ptr %m, i64 %word.n
  %word = load i64, ptr %word.p, align 8
  %at2 = call i64 @add_number(ptr %m, i64 %at, i64 %word)
  %p5 = getelementptr i8, ptr %p, i64 5
  br label %next
end:
  ret void
}

; end a call that fails: its message, records that are clean again, its code
define internal i32 @refuse(ptr %m, i32 %code, ptr %text) noinline {
  $EXPLAIN$
  call void @say(ptr %m, ptr %text)
  %records = getelementptr i64, ptr %m, i64 $RECORDS$
  call void @llvm.memset.p0.i64(ptr align 8 %records, i8 0, i64 $RECORDS_BYTES$, i1 false)
  ret i32 %code
}

; the code of the first test that fails, 0 if none does
define internal i32 @check(ptr %m, ptr %rows, i64 %count) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %fine ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %row, label %end
row:
  %at = mul i64 %k, 5
  %kind.p = getelementptr i64, ptr %rows, i64 %at
  %kind = load i64, ptr %kind.p, align 8
  %word.p = getelementptr i64, ptr %kind.p, i64 1
  %word.n = load i64, ptr %word.p, align 8
  %cell = getelementptr i64, ptr %m, i64 %word.n
  %word = load i64, ptr %cell, align 8
  %value.p = getelementptr i64, ptr %kind.p, i64 2
  %value = load i64, ptr %value.p, align 8
  %k1 = add i64 %k, 1
  switch i64 %kind, label %equals [ i64 1, label %unlike
                                    i64 2, label %above
                                    i64 3, label %negative ]
equals:
  %equal = icmp eq i64 %word, %value
  br i1 %equal, label %fail, label %fine
unlike:
  %unset = icmp eq i64 %word, $UNSET$
  %set.p = getelementptr i64, ptr %m, i64 %value
  %set = load i64, ptr %set.p, align 8
  %same = icmp eq i64 %word, %set
  %fits = or i1 %unset, %same
  br i1 %fits, label %fine, label %fail
above:
  %most.p = getelementptr i64, ptr %m, i64 %value
  %most = load i64, ptr %most.p, align 8
  %over = icmp sgt i64 %word, %most
  br i1 %over, label %fail, label %fine
negative:
  %below = icmp slt i64 %word, 0
  br i1 %below, label %fail, label %fine
fine:
  br label %loop
fail:
  %code.p = getelementptr i64, ptr %kind.p, i64 3
  %code = load i64, ptr %code.p, align 8
  %text.p = getelementptr i64, ptr %kind.p, i64 4
  %text = load ptr, ptr %text.p, align 8
  %code32 = trunc i64 %code to i32
  %result = call i32 @refuse(ptr %m, i32 %code32, ptr %text)
  ret i32 %result
end:
  ret i32 0
}

; whether a word of these is not zero
define internal i1 @any(ptr %words, i64 %count) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %look ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %look, label %none
look:
  %p = getelementptr i64, ptr %words, i64 %k
  %word = load i64, ptr %p, align 8
  %k1 = add i64 %k, 1
  %set = icmp ne i64 %word, 0
  br i1 %set, label %some, label %loop
some:
  ret i1 true
none:
  ret i1 false
}

define ptr @$P$_error(ptr %m) {
entry:
  %none = icmp eq ptr %m, null
  br i1 %none, label %absent, label %there
absent:
  ret ptr @no_model
there:
  %text = getelementptr i64, ptr %m, i64 $MESSAGE$
  ret ptr %text
}

define internal i64 @memory(i32 %threads) {
  %n = sext i32 %threads to i64
  %scratch = mul i64 %n, $STRIDE$
  %all = add i64 %scratch, $MEMORY$
  ret i64 %all
}

; give addresses to the words that hold them
define internal void @relocate(ptr %m, ptr %data) {
entry:
  %own = ptrtoint ptr %m to i64
  %other = ptrtoint ptr %data to i64
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %one ]
  %more = icmp ult i64 %k, $PLACES$
  br i1 %more, label %one, label %end
one:
  %at = mul i64 %k, 2
  %entry.p = getelementptr i64, ptr @places, i64 %at
  %code = load i64, ptr %entry.p, align 8
  %offset.p = getelementptr i64, ptr %entry.p, i64 1
  %offset = load i64, ptr %offset.p, align 8
  %word.n = lshr i64 %code, 1
  %which = and i64 %code, 1
  %is.own = icmp eq i64 %which, 0
  %base = select i1 %is.own, i64 %own, i64 %other
  %address = add i64 %base, %offset
  %word = getelementptr i64, ptr %m, i64 %word.n
  store i64 %address, ptr %word, align 8
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret void
}

define i32 @$P$_create($CREATE$) {
entry:
  store ptr null, ptr %out, align 8
$CHECK$
  %low = icmp slt i32 %threads, 1
  %high = icmp sgt i32 %threads, $THREADS$
  %wrong = or i1 %low, %high
  br i1 %wrong, label %no, label %ask
no:
  ret i32 801
ask:
  %size = call i64 @memory(i32 %threads)
  %raw = call ptr @calloc(i64 1, i64 %size)
  %none = icmp eq ptr %raw, null
  br i1 %none, label %empty, label %make
empty:
  ret i32 901
make:
  %address = ptrtoint ptr %raw to i64
  %above = add i64 %address, 63
  %start = and i64 %above, -64
  %m = inttoptr i64 %start to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %m, ptr align 64 @template, i64 $TEMPLATE_BYTES$,
    i1 false)
  %raw.p = getelementptr i64, ptr %m, i64 $RAW$
  store ptr %raw, ptr %raw.p, align 8
$DATA$
  call void @relocate(ptr %m, ptr %data)
$RESET$
$PREPARE$
$START$
  store ptr %m, ptr %out, align 8
  ret i32 0
}

define void @$P$_destroy(ptr %m) {
entry:
  %none = icmp eq ptr %m, null
  br i1 %none, label %end, label %some
some:
$STOP$
$UNMAP$
  %raw.p = getelementptr i64, ptr %m, i64 $RAW$
  %raw = load ptr, ptr %raw.p, align 8
  call void @free(ptr %raw)
  br label %end
end:
  ret void
}
"""
