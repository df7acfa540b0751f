"""What a call costs when there is nothing to compute: a graph that adds two vectors.

python -m benchmarks.tiny
"""

from __future__ import annotations

import numpy as np

import ricci

from .measure import time_alternately

TEXT = """
import math;
graph Add {
    @input { x: real[8]; y: real[8]; }
    @output { z: real[8]; }
    @compose { z = math.add(x, y); }
}
"""


def main() -> None:
    exe = ricci.parse(TEXT, "skriptnd").compile()
    x = np.arange(8, dtype=np.float32)
    assert np.array_equal(exe(x, x), x + x)
    timing = time_alternately({"ricci": lambda: exe(x, x), "numpy": lambda: x + x}, 21)
    for name, t in timing.items():
        print(f"{name}: {t.median * 1e6:.2f} us a call (best {t.best * 1e6:.2f})")


if __name__ == "__main__":
    main()
