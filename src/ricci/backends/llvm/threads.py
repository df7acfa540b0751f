"""The thread pool, as LLVM text: resident native workers that run a program's kernels with the
caller.

`ricci_run(instance)` runs all steps of a call: kernels, and jumps between them. A kernel with
several chunks is published as a *job*: its fields are written, then one atomic word, `state`, gets
a new epoch (32 bits), the end of the chunks that are left (16) and their beginning (16). Workers
and caller claim chunks by compare-exchange on that word alone, so a worker that the system does not
schedule is never waited for: the caller waits only for chunks that were claimed, at first spinning,
then asleep. The caller takes chunks from the front and workers from the back, so that in the next
kernel each finds what it wrote itself in its own cache. The fields of a job cannot change under a
worker that holds a chunk, because the caller goes on when all chunks are done. Idle workers spin a
while, then sleep on the epoch (a futex compares it once more, so no wake-up is lost). Callers take
the pool by a try-lock: who does not get it runs alone.

A worker is kept on a core of its own, because a woken thread tends to be put on the core of the one
that wakes it, which spins. When the caller has moved to a worker's core, the two change places.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping

SPINS = 2000
"""Turns of a waiting loop before it sleeps: some 50 microseconds."""

# words of 8 bytes in a pool
STATE, DONE, WAITING, FUNCTION, TABLE, SCRATCH, STRIDE, COUNT = 0, 8, 9, 16, 17, 18, 19, 20
WORKED = 21
SLEEPERS, LOCK, STOP, CALLER_CPU, WORKERS, WORKER_COUNT = 24, 32, 40, 48, 49, 50
POOL_WORDS = 64
# words in the argument of a worker
WORKER_POOL, WORKER_ID, WORKER_CPU, WORKER_THREAD = 0, 1, 2, 3
WORKER_WORDS = 8
# words of an instance of a program
(STEPS, STEP_COUNT, OWN_SCRATCH, OWN_STRIDE, OWN_POOL, PATCHES, PATCH_COUNT, IO, TABLES) = range(9)
TURNS, RESUME = 9, 10
"""How many turns of loops are left: a run that has none left stops, and says at which step another
one goes on."""
CELLS = 11
"""Where `ricci_call` writes addresses of elements."""
INSTANCE_WORDS = 16
TIMES = 12
"""Where a run that takes times notes them."""
# words of a step
(OP, STEP_FUNCTION, STEP_TABLE, CHUNKS, WORTH, COUNTER, TARGET, PLACES) = range(8)
STEP_WORDS = 8
# what a step may be
(KERNEL, JUMP, UNLESS, BACK, POINT) = range(5)
MARKS = ("BEGIN", "ALONE", "WORKED", "TOGETHER")
"""Before a kernel, after one that ran alone, where the caller finds no more chunks of one that it
shares, and after that one."""
PATCH_WORDS = 3
"""Of a patch: the position in the tables, the number of the argument, bytes to add.

Arguments are given as objects whose third word is the address of their elements: that is where a
NumPy array has it (`PyArrayObject_fields.data` of its C interface).
"""

_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_FUTEX = {"x86_64": 202, "aarch64": 98}
_GETTID = {"x86_64": 186, "aarch64": 178}


def is_supported() -> bool:
    """Whether this system can have workers."""
    return sys.platform == "linux" and platform.machine() in _FUTEX


def runtime_text(marks: Mapping[str, str] | None = None, machine: str | None = None) -> str:
    """The module with `ricci_run`, and with the workers where they are supported.

    `marks` are instructions to put where times can be taken, by the `MARKS`. `machine` is the name
    of a processor that has workers, with Linux; "" stands for none of them, `None` for this one.
    """
    if machine is None:
        machine = platform.machine() if is_supported() else ""
    words = dict.fromkeys(MARKS, "")
    text = _RUN.replace("@PARALLEL@", _NO_PARALLEL)
    if machine:
        declare, pause = _PAUSE[machine]
        text = declare + _POOL + _RUN.replace("@PARALLEL@", _PUBLISH)
        words |= {"PAUSE": pause, "SPINS": str(SPINS)}
        words |= {"GETTID": str(_GETTID[machine]), "FUTEX": str(_FUTEX[machine])}
    for word, value in (words | dict(marks or {})).items():
        text = text.replace(f"@{word}@", value)
    return text


_POOL = """
declare i64 @syscall(i64, ...)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @sched_getcpu()
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; wait while the 32-bit word is the value (private futex)
define internal void @sleep(ptr %word, i32 %value) noinline {
  %r = call i64 (i64, ...) @syscall(
    i64 @FUTEX@, ptr %word, i64 128, i32 %value, ptr null, ptr null, i64 0)
  ret void
}

define internal void @wake(ptr %word, i64 %count) noinline {
  %r = call i64 (i64, ...) @syscall(
    i64 @FUTEX@, ptr %word, i64 129, i64 %count, ptr null, ptr null, i64 0)
  ret void
}

; claim and run chunks of the job until none is left
define internal void @work(ptr %pool, i64 %id) {
entry:
  %done.p = getelementptr i64, ptr %pool, i64 8
  %waiting.p = getelementptr i64, ptr %pool, i64 9
  %fn.p = getelementptr i64, ptr %pool, i64 16
  %table.p = getelementptr i64, ptr %pool, i64 17
  %scratch.p = getelementptr i64, ptr %pool, i64 18
  %stride.p = getelementptr i64, ptr %pool, i64 19
  %count.p = getelementptr i64, ptr %pool, i64 20
  %caller = icmp eq i64 %id, 0
  %step = select i1 %caller, i64 1, i64 -65536
  br label %look
look:
  %s = load atomic i64, ptr %pool seq_cst, align 8
  %front = and i64 %s, 65535
  %above = lshr i64 %s, 16
  %back = and i64 %above, 65535
  %some = icmp ult i64 %front, %back
  br i1 %some, label %claim, label %end
claim:
  %following = add i64 %s, %step
  %last.left = sub i64 %back, 1
  %next = select i1 %caller, i64 %front, i64 %last.left
  %pair = cmpxchg ptr %pool, i64 %s, i64 %following seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %run, label %look
run:
  %fn = load ptr, ptr %fn.p
  %table = load ptr, ptr %table.p
  %scratch.base = load ptr, ptr %scratch.p
  %stride = load i64, ptr %stride.p
  %count = load i64, ptr %count.p
  %offset = mul i64 %stride, %id
  %scratch = getelementptr i8, ptr %scratch.base, i64 %offset
  %stop = add i64 %next, 1
  call void %fn(ptr %table, ptr %scratch, i64 %next, i64 %stop)
  %before = atomicrmw add ptr %done.p, i64 1 seq_cst
  %now = add i64 %before, 1
  %last = icmp eq i64 %now, %count
  br i1 %last, label %finish, label %look
finish:
  %waiting = load atomic i64, ptr %waiting.p seq_cst, align 8
  %asleep = icmp ne i64 %waiting, 0
  br i1 %asleep, label %rouse, label %look
rouse:
  call void @wake(ptr %done.p, i64 1)
  br label %look
end:
  ret void
}

; keep a thread (0: this one) on a processor
define internal void @pin(i32 %thread, i64 %cpu) noinline {
entry:
  %set = alloca [128 x i8], align 16
  %pinned = icmp ult i64 %cpu, 1024
  br i1 %pinned, label %pin, label %end
pin:
  call void @llvm.memset.p0.i64(ptr %set, i8 0, i64 128, i1 false)
  %byte = lshr i64 %cpu, 3
  %bit = and i64 %cpu, 7
  %bit8 = trunc i64 %bit to i8
  %flag = shl i8 1, %bit8
  %place = getelementptr i8, ptr %set, i64 %byte
  store i8 %flag, ptr %place
  %a = call i32 @sched_setaffinity(i32 %thread, i64 128, ptr %set)
  br label %end
end:
  ret void
}

; the caller may have moved to the core of a worker: that worker goes where the caller was
define internal void @follow(ptr %pool) noinline {
entry:
  %caller.p = getelementptr i64, ptr %pool, i64 48
  %old = load i64, ptr %caller.p
  %cpu32 = call i32 @sched_getcpu()
  %cpu = sext i32 %cpu32 to i64
  %same = icmp eq i64 %cpu, %old
  br i1 %same, label %end, label %moved
moved:
  store i64 %cpu, ptr %caller.p
  %workers.p = getelementptr i64, ptr %pool, i64 49
  %workers = load ptr, ptr %workers.p
  %count.p = getelementptr i64, ptr %pool, i64 50
  %count = load i64, ptr %count.p
  br label %look
look:
  %n = phi i64 [ 0, %moved ], [ %n1, %next ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %one, label %end
one:
  %at = mul i64 %n, 8
  %worker = getelementptr i64, ptr %workers, i64 %at
  %its.p = getelementptr i64, ptr %worker, i64 2
  %its = load i64, ptr %its.p
  %met = icmp eq i64 %its, %cpu
  br i1 %met, label %swap, label %next
swap:
  %tid.p = getelementptr i64, ptr %worker, i64 3
  %tid = load atomic i64, ptr %tid.p seq_cst, align 8
  %known = icmp ne i64 %tid, 0
  br i1 %known, label %send, label %later
later:
  store i64 %old, ptr %caller.p
  br label %end
send:
  store i64 %old, ptr %its.p
  %tid32 = trunc i64 %tid to i32
  call void @pin(i32 %tid32, i64 %old)
  br label %end
next:
  %n1 = add i64 %n, 1
  br label %look
end:
  ret void
}

define ptr @ricci_worker(ptr %self) {
entry:
  %set = alloca [128 x i8], align 16
  %pool = load ptr, ptr %self
  %id.p = getelementptr i64, ptr %self, i64 1
  %id = load i64, ptr %id.p
  %cpu.p = getelementptr i64, ptr %self, i64 2
  %cpu = load i64, ptr %cpu.p
  %epoch.p = getelementptr i8, ptr %pool, i64 4
  %sleepers.p = getelementptr i64, ptr %pool, i64 24
  %stop.p = getelementptr i64, ptr %pool, i64 40
  ; signals are for the threads of the program
  call void @llvm.memset.p0.i64(ptr %set, i8 -1, i64 128, i1 false)
  %m = call i32 @pthread_sigmask(i32 0, ptr %set, ptr null)
  call void @pin(i32 0, i64 %cpu)
  %tid = call i64 (i64, ...) @syscall(i64 @GETTID@)
  %tid.p = getelementptr i64, ptr %self, i64 3
  store atomic i64 %tid, ptr %tid.p seq_cst, align 8
  br label %loop
loop:
  ; the epoch is read before the word that `ricci_stop` writes before it makes a new one: a worker
  ; that sees the last epoch also sees that it has to end
  %s = load atomic i64, ptr %pool seq_cst, align 8
  %epoch = lshr i64 %s, 32
  %epoch32 = trunc i64 %epoch to i32
  %stop = load atomic i64, ptr %stop.p seq_cst, align 8
  %ended = icmp ne i64 %stop, 0
  br i1 %ended, label %end, label %help
help:
  call void @work(ptr %pool, i64 %id)
  br label %spin
spin:
  %n = phi i64 [ 0, %help ], [ %n1, %again ]
  %t = load atomic i64, ptr %pool seq_cst, align 8
  %new = lshr i64 %t, 32
  %same = icmp eq i64 %new, %epoch
  br i1 %same, label %again, label %loop
again:
  @PAUSE@
  %n1 = add i64 %n, 1
  %on = icmp ult i64 %n1, @SPINS@
  br i1 %on, label %spin, label %rest
rest:
  %x = atomicrmw add ptr %sleepers.p, i64 1 seq_cst
  call void @sleep(ptr %epoch.p, i32 %epoch32)
  %y = atomicrmw sub ptr %sleepers.p, i64 1 seq_cst
  br label %loop
end:
  ret ptr null
}

define i32 @ricci_start(ptr %handle, ptr %worker) {
  %r = call i32 @pthread_create(ptr %handle, ptr null, ptr @ricci_worker, ptr %worker)
  ret i32 %r
}

; a new epoch without chunks
define internal void @announce(ptr %pool, i64 %count) {
  %s = load atomic i64, ptr %pool seq_cst, align 8
  %epoch = lshr i64 %s, 32
  %next = add i64 %epoch, 1
  %high = shl i64 %next, 32
  %low = shl i64 %count, 16
  %state = or i64 %high, %low
  store atomic i64 %state, ptr %pool seq_cst, align 8
  ret void
}

define void @ricci_stop(ptr %pool) {
  %stop.p = getelementptr i64, ptr %pool, i64 40
  store atomic i64 1, ptr %stop.p seq_cst, align 8
  call void @announce(ptr %pool, i64 0)
  %epoch.p = getelementptr i8, ptr %pool, i64 4
  call void @wake(ptr %epoch.p, i64 1024)
  ret void
}

define i32 @ricci_join(i64 %thread) {
  %r = call i32 @pthread_join(i64 %thread, ptr null)
  ret i32 %r
}

define internal i1 @take(ptr %pool) {
entry:
  %none = icmp eq ptr %pool, null
  br i1 %none, label %no, label %try
try:
  %lock = getelementptr i64, ptr %pool, i64 32
  %pair = cmpxchg ptr %lock, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %pair, 1
  ret i1 %mine
no:
  ret i1 false
}

define internal void @release(ptr %pool) {
  %lock = getelementptr i64, ptr %pool, i64 32
  store atomic i64 0, ptr %lock seq_cst, align 8
  ret void
}

; run a job with the workers
define internal void @share(ptr %pool, ptr %fn, ptr %table, ptr %scratch, i64 %stride, i64 %count) {
entry:
  %done.p = getelementptr i64, ptr %pool, i64 8
  %waiting.p = getelementptr i64, ptr %pool, i64 9
  %fn.p = getelementptr i64, ptr %pool, i64 16
  %table.p = getelementptr i64, ptr %pool, i64 17
  %scratch.p = getelementptr i64, ptr %pool, i64 18
  %stride.p = getelementptr i64, ptr %pool, i64 19
  %count.p = getelementptr i64, ptr %pool, i64 20
  %sleepers.p = getelementptr i64, ptr %pool, i64 24
  %epoch.p = getelementptr i8, ptr %pool, i64 4
  store ptr %fn, ptr %fn.p
  store ptr %table, ptr %table.p
  store ptr %scratch, ptr %scratch.p
  store i64 %stride, ptr %stride.p
  store i64 %count, ptr %count.p
  store atomic i64 0, ptr %done.p seq_cst, align 8
  call void @announce(ptr %pool, i64 %count)
  %asleep = load atomic i64, ptr %sleepers.p seq_cst, align 8
  %some = icmp ne i64 %asleep, 0
  br i1 %some, label %rouse, label %help
rouse:
  %others = sub i64 %count, 1
  call void @wake(ptr %epoch.p, i64 %others)
  br label %help
help:
  call void @work(ptr %pool, i64 0)
@WORKED@  br label %spin
spin:
  %n = phi i64 [ 0, %help ], [ %n1, %again ]
  %d = load atomic i64, ptr %done.p seq_cst, align 8
  %all = icmp eq i64 %d, %count
  br i1 %all, label %end, label %again
again:
  @PAUSE@
  %n1 = add i64 %n, 1
  %on = icmp ult i64 %n1, @SPINS@
  br i1 %on, label %spin, label %rest
rest:
  call void @follow(ptr %pool)
  store atomic i64 1, ptr %waiting.p seq_cst, align 8
  br label %doze
doze:
  %e = load atomic i64, ptr %done.p seq_cst, align 8
  %ready = icmp eq i64 %e, %count
  br i1 %ready, label %up, label %still
still:
  %e32 = trunc i64 %e to i32
  call void @sleep(ptr %done.p, i32 %e32)
  br label %doze
up:
  store atomic i64 0, ptr %waiting.p seq_cst, align 8
  br label %end
end:
  ret void
}
"""

_RUN = """
define void @ricci_run(ptr %self) {
entry:
  %steps = load ptr, ptr %self
  %p1 = getelementptr i64, ptr %self, i64 1
  %count = load i64, ptr %p1
  %p2 = getelementptr i64, ptr %self, i64 2
  %scratch = load ptr, ptr %p2
  %p3 = getelementptr i64, ptr %self, i64 3
  %stride = load i64, ptr %p3
  %p4 = getelementptr i64, ptr %self, i64 4
  %pool = load ptr, ptr %p4
  %p5 = getelementptr i64, ptr %self, i64 5
  %patches = load ptr, ptr %p5
  %p6 = getelementptr i64, ptr %self, i64 6
  %patch.count = load i64, ptr %p6
  %p7 = getelementptr i64, ptr %self, i64 7
  %io = load ptr, ptr %p7
  %p8 = getelementptr i64, ptr %self, i64 8
  %tables = load ptr, ptr %p8
  %resume.p = getelementptr i64, ptr %self, i64 10
  %first = load i64, ptr %resume.p
  store i64 0, ptr %resume.p
  br label %patch
patch:
  %k = phi i64 [ 0, %entry ], [ %k1, %write ]
  %more.patches = icmp ult i64 %k, %patch.count
  br i1 %more.patches, label %write, label %begin
write:
  %k3 = mul i64 %k, 3
  %q0 = getelementptr i64, ptr %patches, i64 %k3
  %at = load i64, ptr %q0
  %q1 = getelementptr i64, ptr %q0, i64 1
  %which = load i64, ptr %q1
  %q2 = getelementptr i64, ptr %q0, i64 2
  %add = load i64, ptr %q2
  %io.p = getelementptr i64, ptr %io, i64 %which
  %object = load ptr, ptr %io.p
  %data.p = getelementptr i64, ptr %object, i64 2
  %address = load i64, ptr %data.p
  %moved = add i64 %address, %add
  %entry.p = getelementptr i64, ptr %tables, i64 %at
  store i64 %moved, ptr %entry.p
  %k1 = add i64 %k, 1
  br label %patch
begin:
@PARALLEL@
"""

# A kernel runs alone if it is one chunk or not worth more, with the workers if these are at hand.
_STEPS = """
step:
  %n = phi i64 [ %first, %begin ],@PLACED@ [ %next.n, %next ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %do, label %end
do:
  %n8 = mul i64 %n, 8
  %row = getelementptr i64, ptr %steps, i64 %n8
  %n1 = add i64 %n, 1
  %op = load i64, ptr %row
  %s2 = getelementptr i64, ptr %row, i64 2
  %table = load ptr, ptr %s2
  %s6 = getelementptr i64, ptr %row, i64 6
  switch i64 %op, label %next [ i64 0, label %kernel
                                i64 1, label %jump
                                i64 2, label %unless
                                i64 3, label %back
                                i64 4, label %point ]
kernel:
  %s1 = getelementptr i64, ptr %row, i64 1
  %fn = load ptr, ptr %s1
  %s3 = getelementptr i64, ptr %row, i64 3
  %most = load i64, ptr %s3
  %s4 = getelementptr i64, ptr %row, i64 4
  %worth = load i64, ptr %s4
  %s5 = getelementptr i64, ptr %row, i64 5
  %counter = load ptr, ptr %s5
  %fixed = icmp eq ptr %counter, null
  br i1 %fixed, label %known, label %ask
ask:
  %found = call i64 %counter(ptr %table)
  %none = icmp eq i64 %found, 0
  %several = icmp ugt i64 %found, 1
  %several.n = zext i1 %several to i64
  br i1 %none, label %next, label %known
known:
  %chunks = phi i64 [ %most, %kernel ], [ %found, %ask ]
  %large.n = phi i64 [ %worth, %kernel ], [ %several.n, %ask ]
  %large = icmp ne i64 %large.n, 0
@BEGIN@@LAUNCH@
jump:
  %target = load i64, ptr %s6
  br label %next
unless:
  %u1 = getelementptr i64, ptr %table, i64 1
  %cell = load ptr, ptr %u1
  %flag = load i8, ptr %cell
  %holds = icmp ne i8 %flag, 0
  %otherwise = load i64, ptr %s6
  %way = select i1 %holds, i64 %n1, i64 %otherwise
  br label %next
back:
  %turns.p = getelementptr i64, ptr %self, i64 9
  %turns = load i64, ptr %turns.p
  %fewer = sub i64 %turns, 1
  store i64 %fewer, ptr %turns.p
  %over = icmp sle i64 %fewer, 0
  %again = load i64, ptr %s6
  br i1 %over, label %pause, label %next
pause:
  store i64 %again, ptr %resume.p
  br label %end
point:
  %i.p = getelementptr i64, ptr %table, i64 1
  %i.cell = load ptr, ptr %i.p
  %i = load i64, ptr %i.cell
  %i2 = add i64 %i, 2
  %item.p = getelementptr i64, ptr %table, i64 %i2
  %item = load i64, ptr %item.p
  %s7 = getelementptr i64, ptr %row, i64 7
  %places = load ptr, ptr %s7
  %places.n = load i64, ptr %places
  br label %place.next
place.next:
  %k.p = phi i64 [ 1, %point ], [ %k.p1, %place.write ]
  %place.more = icmp ule i64 %k.p, %places.n
  br i1 %place.more, label %place.write, label %next
place.write:
  %at.p = getelementptr i64, ptr %places, i64 %k.p
  %at.entry = load ptr, ptr %at.p
  store i64 %item, ptr %at.entry
  %k.p1 = add i64 %k.p, 1
  br label %place.next
next:
  %next.n = phi i64 [ %n1, %do ], [ %n1, %ask ], [ %n1, %alone ],@SHARED@ [ %target, %jump ],
    [ %way, %unless ], [ %again, %back ], [ %n1, %place.next ]
  br label %step
"""

_ALONE = """alone:
  call void %fn(ptr %table, ptr %scratch, i64 0, i64 %chunks)
@ALONE@  br label %next
"""

_NO_PARALLEL = (
    "  br label %step\n"
    + _STEPS.replace("@PLACED@", "")
    .replace("@SHARED@", "")
    .replace("@LAUNCH@", "  br label %alone\n" + _ALONE)
    + "end:\n  ret void\n}\n"
)

_LAUNCH = (
    "  %parallel = and i1 %large, %mine\n  br i1 %parallel, label %together, label %alone\n"
    + _ALONE
    + """together:
  call void @share(ptr %pool, ptr %fn, ptr %table, ptr %scratch, i64 %stride, i64 %chunks)
@TOGETHER@  br label %next
"""
)

_PUBLISH = (
    """  %mine = call i1 @take(ptr %pool)
  br i1 %mine, label %place, label %step
place:
  call void @follow(ptr %pool)
  br label %step
"""
    + _STEPS.replace("@PLACED@", " [ %first, %place ],")
    .replace("@SHARED@", " [ %n1, %together ],")
    .replace("@LAUNCH@", _LAUNCH)
    + """end:
  br i1 %mine, label %give, label %out
give:
  call void @release(ptr %pool)
  br label %out
out:
  ret void
}
"""
)
