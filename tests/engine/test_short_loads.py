"""Ends of rows where a load under a mask takes as long as several others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import nest
from ricci.dtypes import Types
from ricci.passes.pipeline import lower

from .running import HOST, run_code

HALVES = replace(HOST, vector_bytes=32, registers=16, units=1)


@pytest.mark.parametrize("length", [*range(1, 18), 27, 31])
@pytest.mark.parametrize("operator", ["sum_reduce", "max_reduce"])
def test_rows_of_a_known_length(operator: str, length: int) -> None:
    model = ricci.parse(f"""
        import math;
        graph G {{
            @input {{ x: real[50, {length}]; }}
            @output {{ y: real[50, 1]; }}
            @compose {{ y = math.{operator}{{axes=[1]}}(x); }}
        }}""")
    (kernel,) = lower(model.graph, {}, Types()).kernels
    code = nest.generate(kernel, {}, HALVES)
    x = np.random.default_rng(length).standard_normal((50, length), np.float32)
    y = np.full((50, 1), np.nan, np.float32)
    assert not run_code(code, {t: y if t.name.endswith("y") else x for t in code.tensors}).any()
    function = np.sum if operator == "sum_reduce" else np.max
    np.testing.assert_allclose(y[:, 0], function(x, axis=1), rtol=1e-5, atol=1e-5)
    assert "masked.load" not in code.text
