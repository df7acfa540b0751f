"""The code of a built-in function of CPython that makes a whole call with tensors, as LLVM text:
looks at the arguments, runs a program, and gives the results.

It reads tensors through the C interface of DLPack (`DLPackExchangeAPI`), without reference to
the library that they are of. What it expects is in *records*: words of 8 bytes, `RECORD` by number,
and behind them a description of each argument and result. A call is compared with one record after
the other; if it fits none, or whatever it meets is unusual, the result is `None`, and nothing has
happened. So it is for programs that change nothing.

Memory of big results that nobody has any more is kept, to be used again: see `KEPT`.
"""

from __future__ import annotations

_FIELDS = """RUN NONE FALSE TYPE OTHER READ GIVE NEGATIVE MODES ZERO NEXT BUSY MADE GENERATION
INSTANCE CELLS ARGS RESULTS RECORDS FAILURES KEPT SPECS"""
RECORD = {name: number for number, name in enumerate(_FIELDS.split())}
"""`RUN`: the address of `ricci_run`. `NONE`, `FALSE`: these objects. `TYPE`, `OTHER`: the types
that arguments may have. `READ`, `GIVE`: the functions of DLPack that read a tensor and make one.
`NEGATIVE`: a function of a tensor, false if its elements are what is in memory. `MODES`: a function
that gives the object `ZERO` if nobody looks on. `NEXT`: the record to try after this one. `BUSY`:
not zero while a call uses it. `MADE`: what the word at `GENERATION` must be. `INSTANCE`: the words
of one, and `CELLS`, where it finds addresses of arguments and results. `ARGS`, `RESULTS`: how many.
`RECORDS`: of failures, and the number of their words. `KEPT`: memory for results.

A description (from `SPECS` on): the third word of a `DLTensor`, that is the rank and the dtype;
shape; strides. That of a result begins with its bytes."""

_PLACES = 32
_KEPT = 4
KEPT_WORDS = _KEPT + 2 * _PLACES
"""Memory that is kept: a lock; the place that is filled next; the bytes that there are; how many
there may be; and places for blocks, each with its size and its address. The oldest block is given
up when there are more."""
KEPT_LIMIT = 3

BIG = 1 << 17
"""Bytes from which a result is kept: from here on systems are asked for memory, which they give in
pages that are slow to write to for the first time."""

HEAD = 128
"""Bytes before the elements of a result: a `DLManagedTensorVersioned` of 80 bytes; its size."""


def tensor_call_text() -> str:
    """The module with `ricci_tensors`, the code of a built-in function of CPython whose `self` is
    a tuple that begins with an array of the words of a record."""
    text = _CALL + _MEMORY
    words = {"HEAD": HEAD, "BIG": BIG, "PLACES": _PLACES, "FIRST": _KEPT}
    for name, number in (words | RECORD).items():
        text = text.replace(f"@{name}@", str(number))
    return text


# A record is busy before anything else is done with it: looking at a tensor may let other threads
# of Python run.
_CALL = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @PyErr_Clear()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i32 @posix_memalign(ptr, i64, i64)
declare i32 @madvise(ptr, i64, i32)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define ptr @ricci_tensors(ptr %self, ptr %args, i64 %count) {
entry:
  %tensor = alloca [8 x i64], align 16
  %first.p = getelementptr ptr, ptr %self, i64 3
  %first.array = load ptr, ptr %first.p
  %first.data = getelementptr ptr, ptr %first.array, i64 2
  %first = load ptr, ptr %first.data
  br label %record
record:
  %r = phi ptr [ %first, %entry ], [ %r.next, %other ]
  %expected.p = getelementptr i64, ptr %r, i64 @ARGS@
  %expected = load i64, ptr %expected.p
  %right.count = icmp eq i64 %expected, %count
  %busy.p = getelementptr i64, ptr %r, i64 @BUSY@
  %busy = load i64, ptr %busy.p
  %idle = icmp eq i64 %busy, 0
  %made.p = getelementptr i64, ptr %r, i64 @MADE@
  %made = load i64, ptr %made.p
  %generation.pp = getelementptr ptr, ptr %r, i64 @GENERATION@
  %generation.p = load ptr, ptr %generation.pp
  %generation = load i64, ptr %generation.p
  %current = icmp eq i64 %made, %generation
  %usable.1 = and i1 %right.count, %idle
  %usable = and i1 %usable.1, %current
  br i1 %usable, label %begin, label %other
refuse:
  store i64 0, ptr %busy.p
  br label %other
other:
  %next.p = getelementptr ptr, ptr %r, i64 @NEXT@
  %r.next = load ptr, ptr %next.p
  %no.more = icmp eq ptr %r.next, null
  br i1 %no.more, label %none, label %record
begin:
  store i64 1, ptr %busy.p
  %cells.pp = getelementptr ptr, ptr %r, i64 @CELLS@
  %cells = load ptr, ptr %cells.pp
  %spec.0 = getelementptr i64, ptr %r, i64 @SPECS@
  br label %args.loop
args.loop:
  %k = phi i64 [ 0, %begin ], [ %k1, %known ]
  %spec = phi ptr [ %spec.0, %begin ], [ %spec.next, %known ]
  %more.args = icmp ult i64 %k, %count
  br i1 %more.args, label %argument, label %modes
argument:
  %arg.p = getelementptr ptr, ptr %args, i64 %k
  %arg = load ptr, ptr %arg.p
  %type.p = getelementptr ptr, ptr %arg, i64 1
  %type = load ptr, ptr %type.p
  %type1.p = getelementptr ptr, ptr %r, i64 @TYPE@
  %type1 = load ptr, ptr %type1.p
  %type2.p = getelementptr ptr, ptr %r, i64 @OTHER@
  %type2 = load ptr, ptr %type2.p
  %is.1 = icmp eq ptr %type, %type1
  %is.2 = icmp eq ptr %type, %type2
  %is.tensor = or i1 %is.1, %is.2
  br i1 %is.tensor, label %read, label %refuse
read:
  %read.p = getelementptr ptr, ptr %r, i64 @READ@
  %read.fn = load ptr, ptr %read.p
  %rc = call i32 %read.fn(ptr %arg, ptr %tensor)
  %is.read = icmp eq i32 %rc, 0
  br i1 %is.read, label %look, label %error
error:
  call void @PyErr_Clear()
  br label %refuse
look:
  %data = load i64, ptr %tensor
  %device.p = getelementptr i64, ptr %tensor, i64 1
  %device = load i32, ptr %device.p
  %head.p = getelementptr i64, ptr %tensor, i64 2
  %head = load i64, ptr %head.p
  %shape.pp = getelementptr i64, ptr %tensor, i64 3
  %shape = load ptr, ptr %shape.pp
  %strides.pp = getelementptr i64, ptr %tensor, i64 4
  %strides = load ptr, ptr %strides.pp
  %offset.p = getelementptr i64, ptr %tensor, i64 5
  %offset = load i64, ptr %offset.p
  %address = add i64 %data, %offset
  %right.head = load i64, ptr %spec
  %is.like = icmp eq i64 %head, %right.head
  %on.cpu = icmp eq i32 %device, 1
  %is.there = icmp ne i64 %data, 0
  %has.strides = icmp ne ptr %strides, null
  %good.1 = and i1 %is.like, %on.cpu
  %good.2 = and i1 %is.there, %has.strides
  %bits = lshr i64 %head, 40
  %bytes.of = lshr i64 %bits, 3
  %size = and i64 %bytes.of, 31
  %below = sub i64 %size, 1
  %astray = and i64 %address, %below
  %is.aligned = icmp eq i64 %astray, 0
  %good.3 = and i1 %good.1, %good.2
  %good = and i1 %good.3, %is.aligned
  br i1 %good, label %extents, label %refuse
extents:
  %rank = and i64 %head, 4294967295
  %shape.s = getelementptr i64, ptr %spec, i64 1
  %strides.s = getelementptr i64, ptr %shape.s, i64 %rank
  %spec.next = getelementptr i64, ptr %strides.s, i64 %rank
  br label %extent
extent:
  %d = phi i64 [ 0, %extents ], [ %d1, %same ]
  %more.dims = icmp ult i64 %d, %rank
  br i1 %more.dims, label %compare, label %sign
compare:
  %n.p = getelementptr i64, ptr %shape, i64 %d
  %n = load i64, ptr %n.p
  %n.sp = getelementptr i64, ptr %shape.s, i64 %d
  %n.s = load i64, ptr %n.sp
  %step.p = getelementptr i64, ptr %strides, i64 %d
  %step = load i64, ptr %step.p
  %step.sp = getelementptr i64, ptr %strides.s, i64 %d
  %step.s = load i64, ptr %step.sp
  %n.same = icmp eq i64 %n, %n.s
  %step.same = icmp eq i64 %step, %step.s
  %both.same = and i1 %n.same, %step.same
  br i1 %both.same, label %same, label %refuse
same:
  %d1 = add i64 %d, 1
  br label %extent
sign:
  %negative.p = getelementptr ptr, ptr %r, i64 @NEGATIVE@
  %negative.fn = load ptr, ptr %negative.p
  %negative = call ptr @PyObject_Vectorcall(ptr %negative.fn, ptr %arg.p, i64 1, ptr null)
  %failed = icmp eq ptr %negative, null
  br i1 %failed, label %error, label %signed
signed:
  call void @Py_DecRef(ptr %negative)
  %false.p = getelementptr ptr, ptr %r, i64 @FALSE@
  %false = load ptr, ptr %false.p
  %is.plain = icmp eq ptr %negative, %false
  br i1 %is.plain, label %known, label %refuse
known:
  %cell = getelementptr i64, ptr %cells, i64 %k
  store i64 %address, ptr %cell
  %k1 = add i64 %k, 1
  br label %args.loop

modes:
  %modes.p = getelementptr ptr, ptr %r, i64 @MODES@
  %modes.fn = load ptr, ptr %modes.p
  %depth = call ptr @PyObject_Vectorcall(ptr %modes.fn, ptr null, i64 0, ptr null)
  %no.depth = icmp eq ptr %depth, null
  br i1 %no.depth, label %error, label %seen
seen:
  call void @Py_DecRef(ptr %depth)
  %zero.p = getelementptr ptr, ptr %r, i64 @ZERO@
  %zero = load ptr, ptr %zero.p
  %is.zero = icmp eq ptr %depth, %zero
  br i1 %is.zero, label %ready, label %refuse
ready:
  %results.p = getelementptr i64, ptr %r, i64 @RESULTS@
  %results = load i64, ptr %results.p
  %out.cells = getelementptr ptr, ptr %cells, i64 %count
  %kept.pp = getelementptr ptr, ptr %r, i64 @KEPT@
  %kept = load ptr, ptr %kept.pp
  br label %make.loop
make.loop:
  %m = phi i64 [ 0, %ready ], [ %m1, %made.one ]
  %out.spec = phi ptr [ %spec, %ready ], [ %out.spec.next, %made.one ]
  %more.results = icmp ult i64 %m, %results
  br i1 %more.results, label %make, label %go
make:
  %block = call ptr @make(ptr %kept, ptr %out.spec)
  %no.memory = icmp eq ptr %block, null
  br i1 %no.memory, label %undo, label %made.one
made.one:
  %elements = getelementptr i8, ptr %block, i64 @HEAD@
  %out.cell = getelementptr ptr, ptr %out.cells, i64 %m
  store ptr %elements, ptr %out.cell
  %out.head.p = getelementptr i64, ptr %out.spec, i64 1
  %out.rank32 = load i32, ptr %out.head.p
  %out.rank = zext i32 %out.rank32 to i64
  %out.dims = shl i64 %out.rank, 1
  %out.words = add i64 %out.dims, 2
  %out.spec.next = getelementptr i64, ptr %out.spec, i64 %out.words
  %m1 = add i64 %m, 1
  br label %make.loop

go:
  %run.p = getelementptr ptr, ptr %r, i64 @RUN@
  %run = load ptr, ptr %run.p
  %instance.p = getelementptr ptr, ptr %r, i64 @INSTANCE@
  %instance = load ptr, ptr %instance.p
  %state = call ptr @PyEval_SaveThread()
  call void %run(ptr %instance)
  call void @PyEval_RestoreThread(ptr %state)
  %records.p = getelementptr ptr, ptr %r, i64 @RECORDS@
  %records = load ptr, ptr %records.p
  %failures.p = getelementptr i64, ptr %r, i64 @FAILURES@
  %failures = load i64, ptr %failures.p
  br label %failure
failure:
  %f = phi i64 [ 0, %go ], [ %f1, %test ]
  %more.failures = icmp ult i64 %f, %failures
  br i1 %more.failures, label %test, label %give
test:
  %word.p = getelementptr i64, ptr %records, i64 %f
  %word = load i64, ptr %word.p
  %f1 = add i64 %f, 1
  %is.fine = icmp eq i64 %word, 0
  br i1 %is.fine, label %failure, label %forget
forget:
  %bytes = shl i64 %failures, 3
  call void @llvm.memset.p0.i64(ptr %records, i8 0, i64 %bytes, i1 false)
  br label %undo

; the call is left to others: nobody has the first `u` results
undo:
  %u = phi i64 [ %m, %make ], [ %results, %forget ], [ %u1, %undo.one ]
  %left = icmp ne i64 %u, 0
  br i1 %left, label %undo.one, label %refuse.all
undo.one:
  %u1 = sub i64 %u, 1
  %undo.cell = getelementptr ptr, ptr %out.cells, i64 %u1
  %undo.elements = load ptr, ptr %undo.cell
  %undo.block = getelementptr i8, ptr %undo.elements, i64 -@HEAD@
  call void @ricci_keep(ptr %undo.block)
  br label %undo
refuse.all:
  store i64 0, ptr %busy.p
  br label %none

give:
  %give.p = getelementptr ptr, ptr %r, i64 @GIVE@
  %give.fn = load ptr, ptr %give.p
  %is.single = icmp eq i64 %results, 1
  br i1 %is.single, label %single, label %several
single:
  %only = call ptr @given(ptr %give.fn, ptr %out.cells)
  store i64 0, ptr %busy.p
  ret ptr %only
several:
  %tuple = call ptr @PyTuple_New(i64 %results)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %lost, label %give.loop
give.loop:
  %g = phi i64 [ 0, %several ], [ %g1, %give.in ]
  %more.given = icmp ult i64 %g, %results
  br i1 %more.given, label %give.one, label %done
give.one:
  %give.cell = getelementptr ptr, ptr %out.cells, i64 %g
  %one = call ptr @given(ptr %give.fn, ptr %give.cell)
  %no.one = icmp eq ptr %one, null
  br i1 %no.one, label %drop, label %give.in
give.in:
  %put = call i32 @PyTuple_SetItem(ptr %tuple, i64 %g, ptr %one)
  %g1 = add i64 %g, 1
  br label %give.loop
drop:
  call void @Py_DecRef(ptr %tuple)
  br label %lost
lost:
  store i64 0, ptr %busy.p
  ret ptr null
done:
  store i64 0, ptr %busy.p
  ret ptr %tuple
none:
  %none.p = getelementptr ptr, ptr %first, i64 @NONE@
  %none.object = load ptr, ptr %none.p
  call void @Py_IncRef(ptr %none.object)
  ret ptr %none.object
}

; the tensor whose elements are where a cell says; null if there is an error, which Python has
define internal ptr @given(ptr %give, ptr %cell) {
  %out = alloca ptr, align 8
  store ptr null, ptr %out
  %elements = load ptr, ptr %cell
  %block = getelementptr i8, ptr %elements, i64 -@HEAD@
  %rc = call i32 %give(ptr %block, ptr %out)
  %object = load ptr, ptr %out
  ret ptr %object
}
"""

_MEMORY = """
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
