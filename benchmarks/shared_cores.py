"""How calls behave when other processes use the cores.

    python -m benchmarks.shared_cores [--calls 2000] [--kernels 30] [--threads N]

A graph of many kernels that are each worth several threads is called over and over: on an idle
machine, beside one busy process per core, from two Python threads at once, and in the child of a
fork. Prints median, 99th percentile and longest call; exits with 1 if a call took over a second or
the median beside busy processes is above four times the idle one.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time

import numpy as np

import ricci

from .measure import busy_processes

LONGEST = 1.0
"""Seconds that no call may take."""
SLOWDOWN = 4.0
"""How much longer the median may be beside busy processes."""


def program(kernels: int) -> str:
    """A chain of windowed maxima, which cannot be fused."""
    lines = "".join(f"  y{k + 1} = step(y{k});\n" for k in range(kernels))
    return f"""
graph G {{
  @input {{ y0: real[64,56,56]; }}
  @output {{ y{kernels}: real[64,56,56]; }}
  @compose {{
{lines}  }}
}}
operator step {{
  @input {{ x: real[c,h,w]; }}
  @output {{ y: real[c,h,w]; }}
  @lower {{
    y[k,i,j] = 0.0, k < c, i < h, j < w;
    y[k,i,j] += x[k,|i + a - 1|,j] * 0.33, k < c, i < h, j < w, a < 3;
  }}
}}
"""


def measure(exe: ricci.Executable, x: np.ndarray, calls: int) -> np.ndarray:
    """Seconds of each call."""
    times = np.empty(calls)
    for n in range(calls):
        start = time.perf_counter()
        exe(x)
        times[n] = time.perf_counter() - start
    return times


def report(name: str, times: np.ndarray) -> None:
    median, high, most = np.median(times), np.percentile(times, 99), times.max()
    print(
        f"{name:28} median {median * 1e3:8.3f} ms   99 % {high * 1e3:8.3f} ms   "
        f"longest {most * 1e3:8.3f} ms",
        flush=True,
    )


def from_two_threads(exe: ricci.Executable, x: np.ndarray, calls: int) -> np.ndarray:
    """Both threads call at once; all times together."""
    found: list[np.ndarray] = []
    workers = [
        threading.Thread(target=lambda: found.append(measure(exe, x, calls))) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return np.concatenate(found)


def in_a_child(exe: ricci.Executable, x: np.ndarray, calls: int) -> np.ndarray:
    """The times in the child of a fork, which has to make workers of its own."""
    expected = exe(x)
    receive, send = os.pipe()
    if os.fork() == 0:
        times = measure(exe, x, calls)
        if np.array_equal(exe(x), expected):
            with os.fdopen(send, "wb") as pipe:
                pipe.write(times.tobytes())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        times = np.frombuffer(pipe.read())
    os.wait()
    if len(times) != calls:
        raise SystemExit("the child of a fork failed, or computed other numbers")
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--kernels", type=int, default=30)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    exe = ricci.parse(program(options.kernels)).compile(threads=options.threads)
    x = np.random.default_rng(0).standard_normal((64, 56, 56), np.float32)
    idle = measure(exe, x, options.calls)
    report("idle", idle)
    report("idle, two threads", from_two_threads(exe, x, options.calls // 2))
    report("idle, after a fork", in_a_child(exe, x, options.calls))
    with busy_processes(os.cpu_count() or 1):
        loaded = measure(exe, x, options.calls)
        report("busy", loaded)
        both = from_two_threads(exe, x, options.calls // 2)
        report("busy, two threads", both)
        child = in_a_child(exe, x, options.calls)
        report("busy, after a fork", child)
    longest = max(times.max() for times in (loaded, both, child))
    slowdown = max(np.median(times) for times in (loaded, both, child)) / np.median(idle)
    print(f"beside busy processes: longest {longest * 1e3:.1f} ms, median {slowdown:.2f} x idle")
    return 1 if longest > LONGEST or slowdown > SLOWDOWN else 0


if __name__ == "__main__":
    sys.exit(main())
