"""Programs with more code than is worth a good compilation."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import compilation, image
from ricci.backends.llvm.kernels import KernelCode
from ricci.dtypes import DType, Types
from ricci.passes.pipeline import lower
from ricci.runtime import image_file
from ricci.runtime.pool import this_machine

TEXT = """
    operator powers {
        @input { x: real[n]; }
        @output { ys: real[n]..(9); }
        @lower { unroll..(k -> 9) ys[k][i,] = `tanh`(x[i,]) * real(k) + x[|i - k|,], i < n; }
    }
    graph G {
        @input { x: real[n|40]; }
        @output { ys: real[~]..(9); }
        @compose { ys..(9) = powers(x); }
    }"""


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["all", "some"])
def test_kernels_that_are_compiled_fast(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_BATCH", 1 << 30)  # a file for each level
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    model = ricci.parse(TEXT)
    types = Types(DType.FLOAT32, DType.INT64)
    program = lower(model.graph, {}, types)
    sizes: list[int] = []
    add = compilation.Compilation.add

    def counted(self: compilation.Compilation, symbol: str, code: KernelCode) -> None:
        sizes.append(len(code.text))
        add(self, symbol, code)

    with monkeypatch.context() as counting:
        counting.setattr(compilation.Compilation, "add", counted)
        image.build(program, this_machine())
    monkeypatch.setattr(compilation, "_MOST_OPTIMISED", int(share * sum(sizes)) or -1)
    made = image.build(program, this_machine())
    assert len(made.code) == (2 if share else 1)
    assert image_file.unpack(image_file.pack(made)) == made
    run = model.compile("cpu", 1)
    for size in (3, 16, 37):
        x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
        for k, found in enumerate(run(x=x)):
            shifted = np.pad(x, (k, 0))[:size]
            expected = np.where(np.arange(size) >= k, np.tanh(x) * k + shifted, 0)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_bytes_that_are_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    program = lower(ricci.parse(TEXT).graph, {}, Types(DType.FLOAT32, DType.INT64))
    data = image_file.pack(image.build(program, this_machine()))
    assert image_file.unpack(data) is not None
    head = 8 + int.from_bytes(data[:8], "little")
    for size in {*range(20), *range(20, len(data), 97), head - 1, head, len(data) - 1}:
        assert image_file.unpack(data[:size]) is None
    assert image_file.unpack(bytes(8) + data[8:]) is None
    steps = data[:head].replace(b'["kernel"', b'["nothing"')
    longer = (len(steps) - 8).to_bytes(8, "little") + steps[8:] + data[head:]
    assert steps != data[:head]
    assert image_file.unpack(longer) is None
