"""The native entry that notes how long each kernel takes.

`ricci_run` of this module runs a program as the ordinary one does, with the same workers, and takes
the time before and after each kernel on the calling thread. It is a module of its own, so that the
ordinary code stays as it is.
"""

from __future__ import annotations

import platform
import time

from . import threads

# words of what is noted of a step
RUNS, TICKS, WAITED, SHARED = range(4)
"""How often it ran, for how long, how long of that the caller waited for workers, and how often it
was shared with them."""
RECORD_WORDS = 4

_X86 = """
declare i64 @llvm.readcyclecounter()
define internal i64 @now() alwaysinline {
  %t = call i64 @llvm.readcyclecounter()
  ret i64 %t
}
"""
_ARM = """
define internal i64 @now() alwaysinline {
  %t = call i64 asm sideeffect "mrs $0, cntvct_el0", "=r"()
  ret i64 %t
}
"""
_POSIX = """
declare i32 @clock_gettime(i32, ptr)
define internal i64 @now() {
  %time = alloca [2 x i64], align 8
  %r = call i32 @clock_gettime(i32 @CLOCK@, ptr %time)
  %s = load i64, ptr %time
  %n.p = getelementptr i64, ptr %time, i64 1
  %n = load i64, ptr %n.p
  %s.n = mul i64 %s, 1000000000
  %t = add i64 %s.n, %n
  ret i64 %t
}
"""

_NOTES = """
define internal void @note(ptr %self, i64 %step, i64 %begin, i64 %waited, i64 %shared) {
  %end = call i64 @now()
  %ticks = sub i64 %end, %begin
  %times.p = getelementptr i64, ptr %self, i64 @TIMES@
  %times = load ptr, ptr %times.p
  %at = mul i64 %step, @WORDS@
  %runs.p = getelementptr i64, ptr %times, i64 %at
  call void @add(ptr %runs.p, i64 1)
  %ticks.p = getelementptr i64, ptr %runs.p, i64 1
  call void @add(ptr %ticks.p, i64 %ticks)
  %waited.p = getelementptr i64, ptr %runs.p, i64 2
  call void @add(ptr %waited.p, i64 %waited)
  %shared.p = getelementptr i64, ptr %runs.p, i64 3
  call void @add(ptr %shared.p, i64 %shared)
  ret void
}

define internal void @add(ptr %place, i64 %more) alwaysinline {
  %old = load i64, ptr %place
  %new = add i64 %old, %more
  store i64 %new, ptr %place
  ret void
}

define i64 @ricci_now() {
  %t = call i64 @now()
  ret i64 %t
}

; the least time between two looks at the clock
define i64 @ricci_look() {
entry:
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %n1, %loop ]
  %best = phi i64 [ 1000000, %entry ], [ %least, %loop ]
  %a = call i64 @now()
  %b = call i64 @now()
  %d = sub i64 %b, %a
  %less = icmp ult i64 %d, %best
  %least = select i1 %less, i64 %d, i64 %best
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, 1000
  br i1 %more, label %loop, label %end
end:
  ret i64 %least
}
"""

_MARKS = {
    "BEGIN": "  %begin.t = call i64 @now()\n",
    "ALONE": "  call void @note(ptr %self, i64 %n, i64 %begin.t, i64 0, i64 0)\n",
    "WORKED": f"""  %worked.t = call i64 @now()
  %worked.p = getelementptr i64, ptr %pool, i64 {threads.WORKED}
  store i64 %worked.t, ptr %worked.p
""",
    "TOGETHER": f"""  %worked.p = getelementptr i64, ptr %pool, i64 {threads.WORKED}
  %worked.t = load i64, ptr %worked.p
  %together.t = call i64 @now()
  %waited.t = sub i64 %together.t, %worked.t
  call void @note(ptr %self, i64 %n, i64 %begin.t, i64 %waited.t, i64 1)
""",
}


def timing_text() -> str:
    """The module: `ricci_run`, the clock `ricci_now`, and what it costs, `ricci_look`."""
    notes = _NOTES.replace("@TIMES@", str(threads.TIMES)).replace("@WORDS@", str(RECORD_WORDS))
    return _clock() + notes + threads.runtime_text(_MARKS)


def _clock() -> str:
    """The function `@now`: a counter of the processor where programs may read one."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        return _X86
    if machine in ("aarch64", "arm64"):
        return _ARM
    return _POSIX.replace("@CLOCK@", str(int(time.CLOCK_MONOTONIC)))


NOTHING = "define void @nothing(ptr %table, ptr %scratch, i64 %begin, i64 %end) {\n  ret void\n}\n"
"""A kernel without work."""
