"""What a call costs when there is nothing to compute: a sum of two vectors, a product of two small
matrices.

python -m benchmarks.tiny
"""

from __future__ import annotations

import numpy as np
import torch

import ricci

from .measure import Call, time_alternately

GRAPH = """
import math;
graph Add {
    @input { x: real[8]; y: real[8]; }
    @output { z: real[8]; }
    @compose { z = math.add(x, y); }
}
"""
COMPREHENSION = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


def main() -> None:
    _report("a sum of 8 elements", _sums())
    _report("a matrix product, [1, 4] by [4, 1]", _products())


def _sums() -> dict[str, Call]:
    exe = ricci.parse(GRAPH, "skriptnd").compile()
    x = np.arange(8, dtype=np.float32)
    t = torch.from_numpy(x)
    assert np.array_equal(exe(x, x), x + x)
    return {
        "SkriptND, NumPy": lambda: exe(x, x),
        "SkriptND, PyTorch": lambda: exe(t, t),
        "x + x in NumPy": lambda: x + x,
        "x + x in PyTorch": lambda: t + t,
    }


def _products() -> dict[str, Call]:
    mm = ricci.tc.define(COMPREHENSION).mm
    a, b = np.ones((1, 4), np.float32), np.ones((4, 1), np.float32)
    s, t = torch.from_numpy(a), torch.from_numpy(b)
    wide = np.ones((1, 8), np.float32)[:, ::2]
    c, u = np.zeros((1, 1), np.float32), torch.zeros(1, 1)
    assert mm(a, b) == mm(s, t) == 4
    return {
        "TC, NumPy": lambda: mm(a, b),
        "TC, NumPy, strided": lambda: mm(wide, b),
        "TC, NumPy, out": lambda: mm(a, b, out=c),
        "TC, NumPy, unchecked": lambda: mm(a, b, unchecked=True),
        "TC, PyTorch": lambda: mm(s, t),
        "TC, PyTorch, out": lambda: mm(s, t, out=u),
        "np.matmul": lambda: np.matmul(a, b),
        "torch.mm": lambda: torch.mm(s, t),
    }


def _report(what: str, calls: dict[str, Call]) -> None:
    print(f"{what}:")
    for name, t in time_alternately(calls, 21).items():
        print(f"  {name}: {t.median * 1e6:.2f} us a call (best {t.best * 1e6:.2f})")


if __name__ == "__main__":
    main()
