"""Vectors at the borders of rows, some of whose lanes read nothing: read whole where loads under a
mask are slow, and done together with vectors inside that would be left over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import nest
from ricci.backends.llvm.nest_tiles import beside_borders
from ricci.backends.llvm.target import Target
from ricci.dtypes import Types
from ricci.ir.text import parse_graph
from ricci.passes.pipeline import lower
from ricci.runtime.executable import compile_graph

from ..engine_contraction.native import Fenced
from .running import HOST, run_code

HALVES = replace(HOST, vector_bytes=32, registers=16, units=1)
TARGETS = {"host": HOST, "32 bytes in halves": HALVES}


def case_of(length: int, taps: int, pad: int, channels: int) -> tuple[str, dict[str, np.ndarray]]:
    """Rows of sums over windows, the first tap infinite, and what they are."""
    count = length + 2 * pad - taps + 1
    text = f"""
        operator f {{
            @input {{ x: real[{channels}, {length}]; w: real[3, {channels}, {taps}]; }}
            @output {{ y: real[3, {count}]; }}
            @lower {{
                y[o, i] += x[c, |i + k - {pad}|] * w[o, c, k],
                    o < 3, i < {count}, c < {channels}, k < {taps};
            }}
        }}
        graph G {{
            @input {{ x: real[{channels}, {length}]; w: real[3, {channels}, {taps}]; }}
            @output {{ y: real[3, {count}]; }}
            @compose {{ y = f(x, w); }}
        }}"""
    rng = np.random.default_rng(length)
    x = rng.uniform(0.5, 1, (channels, length)).astype(np.float32)
    w = rng.uniform(0.5, 1, (3, channels, taps)).astype(np.float32)
    w[1, :, 0] = np.inf
    there = np.pad(np.ones(length, bool), pad)
    padded = np.pad(x.astype(np.float64), [(0, 0), (pad, pad)])
    y = np.zeros((3, count))
    for k in range(taps):
        on = there[k : k + count]
        y[:, on] += np.einsum("ci,oc->oi", padded[:, k : k + count][:, on], w[:, :, k])
    return text, {"x": x, "w": w, "y": y}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("channels", [1, 40])
@pytest.mark.parametrize(("taps", "pad"), [(2, 1), (3, 1), (4, 0), (11, 5)])
@pytest.mark.parametrize("length", [8, 23, 40, 67])
def test_sums_of_windows(length: int, taps: int, pad: int, channels: int, target: Target) -> None:
    """Nothing outside is read, also at the ends of the memory."""
    text, arrays = case_of(length, taps, pad, channels)
    model = ricci.parse(text)
    (kernel,) = lower(model.graph, {}, Types()).kernels
    code = nest.generate(kernel, {}, target)
    for at_end in (False, True):
        fenced = {
            t: Fenced(arrays[t.name[-1]].astype(np.float32), at_end).array for t in code.tensors
        }
        (y,) = (a for t, a in fenced.items() if t.name.endswith("y"))
        y[...] = np.nan
        assert not run_code(code, fenced).any()
        np.testing.assert_allclose(y, arrays["y"], rtol=1e-5)


@pytest.mark.parametrize("length", [16, 24, 64])
def test_no_loads_under_masks_where_they_are_slow(length: int) -> None:
    text, _ = case_of(length, 3, 1, 40)
    (kernel,) = lower(ricci.parse(text).graph, {}, Types()).kernels
    assert "masked.load" not in nest.generate(kernel, {}, HALVES).text


@pytest.mark.parametrize(
    ("first", "last", "blocks", "vectors", "beside"),
    [
        (1, 8, 8, 2, (1, 0)),
        (0, 7, 8, 2, (0, 1)),
        (1, 7, 8, 4, (2, 0)),
        (1, 4, 5, 2, (1, 0)),
        (1, 6, 7, 2, (1, 0)),
        (1, 6, 7, 3, (2, 0)),
        (1, 9, 10, 3, (2, 0)),
        (1, 4, 5, 4, (3, 0)),
        (1, 7, 8, 2, (0, 0)),  # nothing is left over
        (2, 7, 8, 4, (0, 1)),
        (2, 6, 8, 3, (0, 0)),  # two vectors on each border
        (0, 7, 7, 2, (0, 0)),  # no border
        (1, 5, 6, 1, (0, 0)),
    ],
)
def test_vectors_beside_borders(
    first: int, last: int, blocks: int, vectors: int, beside: tuple[int, int]
) -> None:
    assert beside_borders(first, last, blocks, vectors) == beside


@pytest.mark.parametrize(
    "sums",
    [
        "y[o, i] += x[o, |i + k - 1|] for o < 3, i < n + 100, k < 3",
        "y[o, i] += x[o, k] for o < 3, i < n + 100, k < 3 if i < 80",
    ],
)
@pytest.mark.parametrize("n", [0, 5, 8])
def test_rows_of_a_length_that_is_not_known(n: int, sums: str) -> None:
    """Where the places inside are known."""
    graph = parse_graph(f"""
        graph g {{
            symbol n <= 8;
            input x = x: real[3, 100];
            input z = z: real[n];
            y: real[3, n + 100] = op(x) {{ {sums}; }}
            output y = y;
        }}""")
    x = np.random.default_rng(n).random((3, 100), np.float32)
    z = np.zeros(n, np.float32)
    want = compile_graph(graph, target="interpreter")(x, z)
    np.testing.assert_allclose(compile_graph(graph)(x, z), want, rtol=1e-6)


@pytest.mark.parametrize(
    ("index", "count"),
    [
        ("12 / (5 - i)", 5),  # lanes behind the last would divide by zero
        ("int(6.0 / real(i))", 5),
        ("int(sqrt(real(i) - 3.0))", 5),
        ("int(exp(real(i * 200)))", 5),
        ("i ** 3000", 5),
        ("i * 4611686018427387904 * 4", 5),
        ("int8(i * 129)", 8),
        ("uint8(i * 129)", 8),
        ("int32(i * 2147483649)", 8),
        ("min(int(real(i) / 0.28), 30) - 20", 8),
    ],
)
@pytest.mark.parametrize("rule", ["", " <> 8 : 8"])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_places_that_only_the_program_computes(
    index: str, count: int, rule: str, target: Target
) -> None:
    """Numbers that wrap, are rounded, or have no value."""
    graph = parse_graph(f"""
        graph g {{
            input x = x: real[9];
            y: real[{count}] = op(x) {{ y[i] += x[|{index}{rule}|] for i < {count}; }}
            output y = y;
        }}""")
    x = np.arange(1, 10, dtype=np.float32)
    want = compile_graph(graph, target="interpreter")(x)
    (kernel,) = lower(graph, {}, Types()).kernels
    code = nest.generate(kernel, {}, target)
    y = np.full(count, np.nan, np.float32)
    assert not run_code(code, {t: y if t.name.endswith("y") else x for t in code.tensors}).any()
    np.testing.assert_array_equal(y, want)
