"""Functions of models that have variables that change, data in a file, or threads, as LLVM text.

See `standalone_text`, whose functions the smaller texts are parts of.
"""

from __future__ import annotations

EXPLAIN = """%explain = getelementptr i64, ptr %m, i64 $EXPLAIN_STAGE$
  call void @ricci_run(ptr %explain)"""

EMBEDDED = "  %data = getelementptr i8, ptr @data, i64 0"

MAPPED = """  %file = call ptr @map(ptr %weights)
  %absent = icmp eq ptr %file, null
  br i1 %absent, label %unread, label %read
unread:
  call void @free(ptr %raw)
  ret i32 701
read:
  %data = getelementptr i8, ptr %file, i64 64
  %file.p = getelementptr i64, ptr %m, i64 $FILE$
  store ptr %file, ptr %file.p, align 8"""

UNMAP = """  %file.p = getelementptr i64, ptr %m, i64 $FILE$
  %file = load ptr, ptr %file.p, align 8
  %u = call i32 @munmap(ptr %file, i64 $FILE_BYTES$)"""

PREPARE = """  %prepare = getelementptr i64, ptr %m, i64 $PREPARE_STAGE$
  call void @ricci_run(ptr %prepare)
  %checked = call i32 @check(ptr %m, ptr @records.prepare, i64 $PREPARE_TESTS$)
  %unfit = icmp ne i32 %checked, 0
  br i1 %unfit, label %unprepared, label %prepared
unprepared:
  call void @$P$_destroy(ptr %m)
  ret i32 %checked
prepared:"""

START = """  %workers.n = sub i32 %threads, 1
  %several = icmp sgt i32 %workers.n, 0
  br i1 %several, label %launch, label %ready
launch:
  %pool = getelementptr i64, ptr %m, i64 $POOL$
  %pool.p = getelementptr i64, ptr %m, i64 $OWN_POOL$
  store ptr %pool, ptr %pool.p, align 8
  %workers64 = sext i32 %workers.n to i64
  call void @start_workers(ptr %m, i64 %workers64)
  br label %ready
ready:"""

STOP = "  call void @stop_workers(ptr %m)"

# rows of the table: the name, the bytes, the word with the address, and the first value or null
STATE = """
define void @$P$_reset(ptr %m) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %copied ]
  %more = icmp ult i64 %k, $STATES$
  br i1 %more, label %one, label %end
one:
  %at = mul i64 %k, 4
  %row = getelementptr i64, ptr @states, i64 %at
  %bytes.p = getelementptr i64, ptr %row, i64 1
  %bytes = load i64, ptr %bytes.p, align 8
  %word.p = getelementptr i64, ptr %row, i64 2
  %word.n = load i64, ptr %word.p, align 8
  %cell = getelementptr i64, ptr %m, i64 %word.n
  %target = load ptr, ptr %cell, align 8
  %first.p = getelementptr i64, ptr %row, i64 3
  %first.n = load i64, ptr %first.p, align 8
  %first.cell = getelementptr i64, ptr %m, i64 %first.n
  %first = load ptr, ptr %first.cell, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %target, ptr align 1 %first, i64 %bytes, i1 false)
  br label %copied
copied:
  %k1 = add i64 %k, 1
  br label %loop
end:
  ret void
}

define internal i1 @same_text(ptr %a, ptr %b) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %a.p = getelementptr i8, ptr %a, i64 %k
  %b.p = getelementptr i8, ptr %b, i64 %k
  %x = load i8, ptr %a.p, align 1
  %y = load i8, ptr %b.p, align 1
  %same = icmp eq i8 %x, %y
  br i1 %same, label %next, label %no
next:
  %k1 = add i64 %k, 1
  %over = icmp eq i8 %x, 0
  br i1 %over, label %yes, label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; the address of the variable of a name, if it takes so many bytes; else null
define internal ptr @find_state(ptr %m, ptr %name, i64 %bytes) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %more = icmp ult i64 %k, $STATES$
  br i1 %more, label %one, label %none
one:
  %at = mul i64 %k, 4
  %row = getelementptr i64, ptr @states, i64 %at
  %its = load ptr, ptr %row, align 8
  %found = call i1 @same_text(ptr %its, ptr %name)
  br i1 %found, label %fit, label %next
next:
  %k1 = add i64 %k, 1
  br label %loop
fit:
  %bytes.p = getelementptr i64, ptr %row, i64 1
  %its.bytes = load i64, ptr %bytes.p, align 8
  %fits = icmp eq i64 %its.bytes, %bytes
  br i1 %fits, label %give, label %size
give:
  %word.p = getelementptr i64, ptr %row, i64 2
  %word.n = load i64, ptr %word.p, align 8
  %cell = getelementptr i64, ptr %m, i64 %word.n
  %address = load ptr, ptr %cell, align 8
  ret ptr %address
size:
  %a = call i32 @refuse(ptr %m, i32 801, ptr @wrong_bytes)
  ret ptr null
none:
  %b = call i32 @refuse(ptr %m, i32 801, ptr @no_state)
  ret ptr null
}
"""

_COPY = """
define i32 @$P$_NAME(ptr %m, ptr %name, ptr %value, i64 %bytes) {
entry:
  %state = call ptr @find_state(ptr %m, ptr %name, i64 %bytes)
  %none = icmp eq ptr %state, null
  br i1 %none, label %no, label %yes
yes:
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %TO, ptr align 1 %FROM, i64 %bytes, i1 false)
  ret i32 0
no:
  ret i32 801
}
"""
STATE += "".join(
    _COPY.replace("NAME", name).replace("TO", to).replace("FROM", source)
    for name, to, source in (("get", "value", "state"), ("set", "state", "value"))
)

# the data in a file: it begins with what the model knows it by
MAP = """
declare i32 @open(ptr, i32, ...)
declare i64 @lseek(i32, i64, i32)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @close(i32)

; the file in memory; null if it cannot be read or is another one
define internal ptr @map(ptr %path) {
entry:
  %file = call i32 (ptr, i32, ...) @open(ptr %path, i32 0)
  %bad = icmp slt i32 %file, 0
  br i1 %bad, label %none, label %measure
measure:
  %size = call i64 @lseek(i32 %file, i64 0, i32 2)
  %whole = icmp eq i64 %size, $FILE_BYTES$
  br i1 %whole, label %map, label %another
map:
  %all = call ptr @mmap(ptr null, i64 $FILE_BYTES$, i32 1, i32 2, i32 %file, i64 0)
  %c = call i32 @close(i32 %file)
  %failed = icmp eq ptr %all, inttoptr (i64 -1 to ptr)
  br i1 %failed, label %none, label %compare
compare:
  %k = phi i64 [ 0, %map ], [ %k1, %next ]
  %x.p = getelementptr i64, ptr %all, i64 %k
  %y.p = getelementptr i64, ptr @head, i64 %k
  %x = load i64, ptr %x.p, align 8
  %y = load i64, ptr %y.p, align 8
  %same = icmp eq i64 %x, %y
  br i1 %same, label %next, label %wrong
next:
  %k1 = add i64 %k, 1
  %over = icmp eq i64 %k1, 8
  br i1 %over, label %good, label %compare
good:
  ret ptr %all
wrong:
  %u = call i32 @munmap(ptr %all, i64 $FILE_BYTES$)
  ret ptr null
another:
  %d = call i32 @close(i32 %file)
  ret ptr null
none:
  ret ptr null
}
"""

# each worker gets a processor of its own, other than the caller's, as far as there are
WORKERS = """
declare i32 @sched_getaffinity(i32, i64, ptr)

define internal i64 @next_cpu(ptr %set, i64 %from, i64 %caller) {
entry:
  br label %loop
loop:
  %c = phi i64 [ %from, %entry ], [ %c1, %next ]
  %more = icmp ult i64 %c, 1024
  br i1 %more, label %look, label %none
look:
  %byte.n = lshr i64 %c, 3
  %byte.p = getelementptr i8, ptr %set, i64 %byte.n
  %byte = load i8, ptr %byte.p, align 1
  %bit = and i64 %c, 7
  %bit8 = trunc i64 %bit to i8
  %moved = lshr i8 %byte, %bit8
  %one = and i8 %moved, 1
  %allowed = icmp ne i8 %one, 0
  %other = icmp ne i64 %c, %caller
  %good = and i1 %allowed, %other
  br i1 %good, label %found, label %next
next:
  %c1 = add i64 %c, 1
  br label %loop
found:
  ret i64 %c
none:
  ret i64 1024
}

define internal void @start_workers(ptr %m, i64 %count) {
entry:
  %set = alloca [128 x i8], align 16
  call void @llvm.memset.p0.i64(ptr %set, i8 0, i64 128, i1 false)
  %a = call i32 @sched_getaffinity(i32 0, i64 128, ptr %set)
  %here32 = call i32 @sched_getcpu()
  %here = sext i32 %here32 to i64
  %pool = getelementptr i64, ptr %m, i64 $POOL$
  %caller.p = getelementptr i64, ptr %pool, i64 $CALLER_CPU$
  store i64 %here, ptr %caller.p, align 8
  %count.p = getelementptr i64, ptr %pool, i64 $WORKER_COUNT$
  store i64 %count, ptr %count.p, align 8
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %started ]
  %from = phi i64 [ 0, %entry ], [ %from1, %started ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %one, label %end
one:
  %cpu = call i64 @next_cpu(ptr %set, i64 %from, i64 %here)
  %from1 = add i64 %cpu, 1
  %at = mul i64 %k, 8
  %first = getelementptr i64, ptr %m, i64 $WORKERS$
  %worker = getelementptr i64, ptr %first, i64 %at
  %k1 = add i64 %k, 1
  store ptr %pool, ptr %worker, align 8
  %id.p = getelementptr i64, ptr %worker, i64 1
  store i64 %k1, ptr %id.p, align 8
  %cpu.p = getelementptr i64, ptr %worker, i64 2
  store i64 %cpu, ptr %cpu.p, align 8
  %handles = getelementptr i64, ptr %m, i64 $HANDLES$
  %handle = getelementptr i64, ptr %handles, i64 %k
  %r = call i32 @ricci_start(ptr %handle, ptr %worker)
  %bad = icmp ne i32 %r, 0
  br i1 %bad, label %end, label %started
started:
  %number.p = getelementptr i64, ptr %m, i64 $STARTED$
  store i64 %k1, ptr %number.p, align 8
  br label %loop
end:
  ret void
}

define internal void @stop_workers(ptr %m) {
entry:
  %number.p = getelementptr i64, ptr %m, i64 $STARTED$
  %number = load i64, ptr %number.p, align 8
  %none = icmp eq i64 %number, 0
  br i1 %none, label %end, label %stop
stop:
  %pool = getelementptr i64, ptr %m, i64 $POOL$
  call void @ricci_stop(ptr %pool)
  br label %loop
loop:
  %k = phi i64 [ 0, %stop ], [ %k1, %loop ]
  %handles = getelementptr i64, ptr %m, i64 $HANDLES$
  %handle.p = getelementptr i64, ptr %handles, i64 %k
  %handle = load i64, ptr %handle.p, align 8
  %j = call i32 @ricci_join(i64 %handle)
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, %number
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
