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
while, then look on between turns of whoever else wants the core, then sleep on the epoch (a futex
compares it once more, so no wake-up is lost). A worker that has slept repeatedly sleeps at once,
save now and then. Callers take the pool by a try-lock: who does not get it runs alone.

A worker is kept on a core of its own, because a woken thread tends to be put on the core of the one
that wakes it, which spins. When the caller has moved to a worker's core, the two change places.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping

from .workers import POOL

SPINS = 2000
"""Turns of a waiting loop before it sleeps, or gives others a turn: some 50 microseconds."""
YIELDS = 4000
"""Turns of others before a worker sleeps: a millisecond if nobody wants one. Waking a worker takes
30 microseconds, as much as many a call."""

# words of 8 bytes in a pool
STATE, DONE, WAITING, FUNCTION, TABLE, SCRATCH, STRIDE, COUNT = 0, 8, 9, 16, 17, 18, 19, 20
WORKED = 21
SLEEPERS, LOCK, STOP, CALLER_CPU, WORKERS, WORKER_COUNT = 24, 32, 40, 48, 49, 50
POOL_WORDS = 64
# words in the argument of a worker
WORKER_POOL, WORKER_ID, WORKER_CPU, WORKER_THREAD = 0, 1, 2, 3
WORKER_WORDS = 8
# words of an instance of a program
(STEPS, STEP_COUNT, OWN_SCRATCH, _, OWN_POOL, PATCHES, PATCH_COUNT, IO, TABLES) = range(9)
TURNS, RESUME = 9, 10
"""How many turns of loops are left: a run that has none left stops, and says at which step another
one goes on."""
CELLS = 11
"""Where `ricci_call` writes addresses of elements."""
INSTANCE_WORDS = 16
TIMES = 12
"""Where a run that takes times notes them."""
# words of a step; the target of a kernel is where its scratch begins, in or behind the arena,
# and its places are how far apart those of threads are
(OP, STEP_FUNCTION, STEP_TABLE, CHUNKS, WORTH, COUNTER, TARGET, PLACES) = range(8)
STEP_WORDS = 8
# what a step may be
(KERNEL, JUMP, UNLESS, BACK, POINT, STOP_FAILED) = range(6)
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
        text = declare + POOL + _RUN.replace("@PARALLEL@", _PUBLISH)
        words |= {"PAUSE": pause, "SPINS": str(SPINS), "WAITS": str(SPINS + YIELDS)}
        words |= {"GETTID": str(_GETTID[machine]), "FUTEX": str(_FUTEX[machine])}
    for word, value in (words | dict(marks or {})).items():
        text = text.replace(f"@{word}@", value)
    return text


_RUN = """
define void @ricci_run(ptr %self) {
entry:
  %steps = load ptr, ptr %self
  %p1 = getelementptr i64, ptr %self, i64 1
  %count = load i64, ptr %p1
  %p2 = getelementptr i64, ptr %self, i64 2
  %scratch = load ptr, ptr %p2
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
                                i64 4, label %point
                                i64 5, label %stop ]
kernel:
  %s1 = getelementptr i64, ptr %row, i64 1
  %fn = load ptr, ptr %s1
  %above = load i64, ptr %s6
  %own = getelementptr i8, ptr %scratch, i64 %above
  %stride.p = getelementptr i64, ptr %row, i64 7
  %stride = load i64, ptr %stride.p
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
  %ends.p = getelementptr i64, ptr %row, i64 4
  %ends = load i64, ptr %ends.p
  %one = sub i64 1, %ends
  %fewer = sub i64 %turns, %one
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
  %step.p = getelementptr i64, ptr %row, i64 3
  %step.n = load i64, ptr %step.p
  %steps.p = getelementptr i64, ptr %row, i64 4
  %steps.n = load i64, ptr %steps.p
  %is.pack = icmp eq i64 %steps.n, 0
  %i.pack = select i1 %is.pack, i64 %i, i64 0
  %i2 = add i64 %i.pack, 2
  %item.p = getelementptr i64, ptr %table, i64 %i2
  %item.0 = load i64, ptr %item.p
  %ahead = mul i64 %i, %step.n
  %item = add i64 %item.0, %ahead
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
; ends the run if there is an error in the first records
stop:
  %records = load ptr, ptr %table
  %records.p = getelementptr i64, ptr %row, i64 3
  %records.n = load i64, ptr %records.p
  br label %stop.next
stop.next:
  %r = phi i64 [ 0, %stop ], [ %r1, %stop.on ]
  %r.more = icmp ult i64 %r, %records.n
  br i1 %r.more, label %stop.look, label %next
stop.look:
  %r4 = mul i64 %r, 4
  %record = getelementptr i64, ptr %records, i64 %r4
  %site = load i64, ptr %record
  %failed = icmp ne i64 %site, 0
  br i1 %failed, label %end, label %stop.on
stop.on:
  %r1 = add i64 %r, 1
  br label %stop.next
next:
  %next.n = phi i64 [ %n1, %do ], [ %n1, %ask ], [ %n1, %alone ],@SHARED@ [ %target, %jump ],
    [ %way, %unless ], [ %again, %back ], [ %n1, %place.next ], [ %n1, %stop.next ]
  br label %step
"""

_ALONE = """alone:
  call void %fn(ptr %table, ptr %own, i64 0, i64 %chunks)
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
  call void @share(ptr %pool, ptr %fn, ptr %table, ptr %own, i64 %stride, i64 %chunks)
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
