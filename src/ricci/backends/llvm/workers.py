"""Workers: threads that wait for jobs, and take chunks of them; see `threads` for the protocol.

`POOL` is text of LLVM with words between `@` that `threads.runtime_text` replaces.
"""

from __future__ import annotations

POOL = """
declare i64 @syscall(i64, ...)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @sched_getcpu()
declare i32 @sched_yield()
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
  ; how often the worker has slept since it last met a job awake
  %naps = phi i64 [ 0, %entry ], [ 0, %spin ], [ %naps1, %rest ]
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
  %turn = and i64 %naps, 15
  %patient = icmp ult i64 %turn, 2
  %most = select i1 %patient, i64 @WAITS@, i64 @SPINS@
  br label %spin
spin:
  %n = phi i64 [ 0, %help ], [ %n1, %again ], [ %n1, %others ]
  %t = load atomic i64, ptr %pool seq_cst, align 8
  %new = lshr i64 %t, 32
  %same = icmp eq i64 %new, %epoch
  br i1 %same, label %again, label %loop
again:
  @PAUSE@
  %n1 = add i64 %n, 1
  %on = icmp ult i64 %n1, @SPINS@
  br i1 %on, label %spin, label %tired
tired:
  %awake = icmp ult i64 %n1, %most
  br i1 %awake, label %others, label %rest
others:
  %z = call i32 @sched_yield()
  br label %spin
rest:
  %naps1 = add i64 %naps, 1
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
