"""The code of a built-in function of CPython that makes a whole call, as LLVM text: looks at the
arguments, runs a program, and gives the results.

Arguments are NumPy arrays, whose fields are read in place, or tensors of any library that has the C
interface of DLPack (`DLPackExchangeAPI`). What is expected is in *records*: words of 8 bytes,
`RECORD` by number, and behind them a description of each argument and result. A call is compared
with one record after the other; if it fits none, or whatever it meets is unusual, the result is
`None`, and nothing has happened. So it is for programs that change nothing but what they are given
to write to.
"""

from __future__ import annotations

from .tensor_memory import HEAD, memory_text

_FIELDS = """RUN NONE FALSE TYPE OTHER READ GIVE NEGATIVE MODES ZERO NEXT BUSY MADE GENERATION
INSTANCE CELLS ARGS TARGETS SPANS RESULTS RECORDS FAILURES KEPT SPECS"""
RECORD = {name: number for number, name in enumerate(_FIELDS.split())}
"""`RUN`: the address of `ricci_run`. `NONE`, `FALSE`: these objects. `TYPE`, `OTHER`: the types
that arguments may have. `READ`, `GIVE`: the functions of DLPack that read a tensor and make one;
`READ` is null for arrays. `NEGATIVE`: a function of a tensor, false if its elements are what is in
memory. `MODES`: a function that gives the object `ZERO` if nobody looks on. `NEXT`: the record to
try after this one. `BUSY`: not zero while a call uses it. `MADE`: what the word at `GENERATION`
must be. `INSTANCE`: the words of one, and `CELLS`, where it finds addresses of arguments and
results. `ARGS`: how many. `TARGETS`: how many of them, the last ones, are written to; these must be
apart from the rest: `SPANS` has the bytes from the first element of each to its last. `RESULTS`:
how many are made. `RECORDS`: of failures, and `FAILURES`, the number of their words. `KEPT`: memory
for results (`tensor_memory`).

The description of an argument (from `SPECS` on): its rank; the object that is the dtype of an
array, or the third word of a `DLTensor`, that is the rank and the dtype; shape; strides. That of a
result: of an array a function, its arguments, which are shape and dtype, and a word for what it
gives; of a tensor its bytes, the third word of a `DLTensor`, shape, strides."""


def at_once_text() -> str:
    """The module with `ricci_at_once`, the code of a built-in function of CPython whose `self` is a
    tuple that begins with an array of the words of a record."""
    text = _CALL
    for name, number in ({"HEAD": HEAD} | RECORD).items():
        text = text.replace(f"@{name}@", str(number))
    return text + memory_text()


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
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define ptr @ricci_at_once(ptr %self, ptr %args, i64 %count) {
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
  %read.p = getelementptr ptr, ptr %r, i64 @READ@
  %read.fn = load ptr, ptr %read.p
  %are.arrays = icmp eq ptr %read.fn, null
  %targets.p = getelementptr i64, ptr %r, i64 @TARGETS@
  %targets = load i64, ptr %targets.p
  %first.target = sub i64 %count, %targets
  %spec.0 = getelementptr i64, ptr %r, i64 @SPECS@
  br label %args.loop
args.loop:
  %k = phi i64 [ 0, %begin ], [ %k1, %known ]
  %spec = phi ptr [ %spec.0, %begin ], [ %spec.next, %known ]
  %more.args = icmp ult i64 %k, %count
  br i1 %more.args, label %argument, label %apart
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
  %is.right = or i1 %is.1, %is.2
  br i1 %is.right, label %described, label %refuse
described:
  %rank = load i64, ptr %spec
  %kind.p = getelementptr i64, ptr %spec, i64 1
  %kind = load i64, ptr %kind.p
  br i1 %are.arrays, label %array, label %read

; a `PyArrayObject`
array:
  %a.data.p = getelementptr i64, ptr %arg, i64 2
  %a.data = load i64, ptr %a.data.p
  %a.rank.p = getelementptr i64, ptr %arg, i64 3
  %a.rank = load i32, ptr %a.rank.p
  %a.shape.pp = getelementptr ptr, ptr %arg, i64 4
  %a.shape = load ptr, ptr %a.shape.pp
  %a.strides.pp = getelementptr ptr, ptr %arg, i64 5
  %a.strides = load ptr, ptr %a.strides.pp
  %a.dtype.p = getelementptr i64, ptr %arg, i64 7
  %a.dtype = load i64, ptr %a.dtype.p
  %a.flags.p = getelementptr i64, ptr %arg, i64 8
  %a.flags = load i32, ptr %a.flags.p
  %is.target = icmp uge i64 %k, %first.target
  %flags = select i1 %is.target, i32 1280, i32 256 ; aligned, writeable
  %a.set = and i32 %a.flags, %flags
  %a.fit = icmp eq i32 %a.set, %flags
  %a.rank64 = zext i32 %a.rank to i64
  %a.same.rank = icmp eq i64 %a.rank64, %rank
  %a.same.dtype = icmp eq i64 %a.dtype, %kind
  %a.like = and i1 %a.same.rank, %a.same.dtype
  %a.good = and i1 %a.like, %a.fit
  br i1 %a.good, label %extents, label %refuse

read:
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
  %t.shape.pp = getelementptr i64, ptr %tensor, i64 3
  %t.shape = load ptr, ptr %t.shape.pp
  %t.strides.pp = getelementptr i64, ptr %tensor, i64 4
  %t.strides = load ptr, ptr %t.strides.pp
  %offset.p = getelementptr i64, ptr %tensor, i64 5
  %offset = load i64, ptr %offset.p
  %t.address = add i64 %data, %offset
  %is.like = icmp eq i64 %head, %kind
  %on.cpu = icmp eq i32 %device, 1
  %is.there = icmp ne i64 %data, 0
  %has.strides = icmp ne ptr %t.strides, null
  %good.1 = and i1 %is.like, %on.cpu
  %good.2 = and i1 %is.there, %has.strides
  %bits = lshr i64 %head, 40
  %bytes.of = lshr i64 %bits, 3
  %size = and i64 %bytes.of, 31
  %below = sub i64 %size, 1
  %astray = and i64 %t.address, %below
  %is.aligned = icmp eq i64 %astray, 0
  %good.3 = and i1 %good.1, %good.2
  %good = and i1 %good.3, %is.aligned
  br i1 %good, label %extents, label %refuse
extents:
  %address = phi i64 [ %a.data, %array ], [ %t.address, %look ]
  %shape = phi ptr [ %a.shape, %array ], [ %t.shape, %look ]
  %strides = phi ptr [ %a.strides, %array ], [ %t.strides, %look ]
  %shape.s = getelementptr i64, ptr %spec, i64 2
  %strides.s = getelementptr i64, ptr %shape.s, i64 %rank
  %spec.next = getelementptr i64, ptr %strides.s, i64 %rank
  br label %extent
extent:
  %d = phi i64 [ 0, %extents ], [ %d1, %same ]
  %more.dims = icmp ult i64 %d, %rank
  br i1 %more.dims, label %compare, label %compared
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
compared:
  br i1 %are.arrays, label %known, label %sign
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

; no target shares memory with what is before it
apart:
  %spans.pp = getelementptr ptr, ptr %r, i64 @SPANS@
  %spans = load ptr, ptr %spans.pp
  br label %target
target:
  %t = phi i64 [ %first.target, %apart ], [ %t1, %target.done ]
  %more.targets = icmp ult i64 %t, %count
  br i1 %more.targets, label %target.some, label %looked
target.some:
  %t.begin.p = getelementptr i64, ptr %cells, i64 %t
  %t.begin = load i64, ptr %t.begin.p
  %t.span.p = getelementptr i64, ptr %spans, i64 %t
  %t.span = load i64, ptr %t.span.p
  %t.end = add i64 %t.begin, %t.span
  br label %before
before:
  %j = phi i64 [ 0, %target.some ], [ %j1, %is.apart ]
  %more.before = icmp ult i64 %j, %t
  br i1 %more.before, label %against, label %target.done
against:
  %j.begin.p = getelementptr i64, ptr %cells, i64 %j
  %j.begin = load i64, ptr %j.begin.p
  %j.span.p = getelementptr i64, ptr %spans, i64 %j
  %j.span = load i64, ptr %j.span.p
  %j.end = add i64 %j.begin, %j.span
  %begins = icmp ult i64 %t.begin, %j.end
  %ends = icmp ult i64 %j.begin, %t.end
  %overlap = and i1 %begins, %ends
  br i1 %overlap, label %refuse, label %is.apart
is.apart:
  %j1 = add i64 %j, 1
  br label %before
target.done:
  %t1 = add i64 %t, 1
  br label %target

looked:
  br i1 %are.arrays, label %ready, label %modes
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
  %m = phi i64 [ 0, %ready ], [ %m1, %made.result ]
  %out.spec = phi ptr [ %spec, %ready ], [ %out.spec.next, %made.result ]
  %more.results = icmp ult i64 %m, %results
  br i1 %more.results, label %make.which, label %go
make.which:
  br i1 %are.arrays, label %make.array, label %make
make.array:
  %maker = load ptr, ptr %out.spec
  %maker.args = getelementptr ptr, ptr %out.spec, i64 1
  %object = call ptr @PyObject_Vectorcall(ptr %maker, ptr %maker.args, i64 2, ptr null)
  %no.object = icmp eq ptr %object, null
  br i1 %no.object, label %make.error, label %made.array
make.error:
  call void @PyErr_Clear()
  br label %undo
made.array:
  %object.p = getelementptr ptr, ptr %out.spec, i64 3
  store ptr %object, ptr %object.p
  %object.data.p = getelementptr ptr, ptr %object, i64 2
  %object.data = load ptr, ptr %object.data.p
  %array.spec.next = getelementptr i64, ptr %out.spec, i64 4
  br label %made.result
make:
  %block = call ptr @make(ptr %kept, ptr %out.spec)
  %no.memory = icmp eq ptr %block, null
  br i1 %no.memory, label %undo, label %made.one
made.one:
  %block.elements = getelementptr i8, ptr %block, i64 @HEAD@
  %out.head.p = getelementptr i64, ptr %out.spec, i64 1
  %out.rank32 = load i32, ptr %out.head.p
  %out.rank = zext i32 %out.rank32 to i64
  %out.dims = shl i64 %out.rank, 1
  %out.words = add i64 %out.dims, 2
  %block.spec.next = getelementptr i64, ptr %out.spec, i64 %out.words
  br label %made.result
made.result:
  %elements = phi ptr [ %object.data, %made.array ], [ %block.elements, %made.one ]
  %out.spec.next = phi ptr [ %array.spec.next, %made.array ], [ %block.spec.next, %made.one ]
  %out.cell = getelementptr ptr, ptr %out.cells, i64 %m
  store ptr %elements, ptr %out.cell
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
  %u = phi i64 [ %m, %make ], [ %m, %make.error ], [ %results, %forget ],
    [ %u1, %undo.array ], [ %u1, %undo.tensor ]
  %left = icmp ne i64 %u, 0
  br i1 %left, label %undo.one, label %refuse.all
undo.one:
  %u1 = sub i64 %u, 1
  br i1 %are.arrays, label %undo.array, label %undo.tensor
undo.array:
  %undone = call ptr @object(ptr %spec, i64 %u1)
  call void @Py_DecRef(ptr %undone)
  br label %undo
undo.tensor:
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
  %only = call ptr @given(ptr %give.fn, ptr %out.cells, ptr %spec, i64 0)
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
  %one = call ptr @given(ptr %give.fn, ptr %out.cells, ptr %spec, i64 %g)
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

; a result by number: the array that was made for it, or a tensor whose elements are where its cell
; says; null if there is an error, which Python has
define internal ptr @given(ptr %give, ptr %cells, ptr %specs, i64 %number) {
entry:
  %out = alloca ptr, align 8
  %is.array = icmp eq ptr %give, null
  br i1 %is.array, label %array, label %tensor
array:
  %made = call ptr @object(ptr %specs, i64 %number)
  ret ptr %made
tensor:
  store ptr null, ptr %out
  %cell = getelementptr ptr, ptr %cells, i64 %number
  %elements = load ptr, ptr %cell
  %block = getelementptr i8, ptr %elements, i64 -@HEAD@
  %rc = call i32 %give(ptr %block, ptr %out)
  %object = load ptr, ptr %out
  ret ptr %object
}

; the array that was made for a result
define internal ptr @object(ptr %specs, i64 %number) {
  %words = shl i64 %number, 2
  %at = add i64 %words, 3
  %place = getelementptr ptr, ptr %specs, i64 %at
  %made = load ptr, ptr %place
  ret ptr %made
}
"""
