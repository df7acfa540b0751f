"""Graphs with open sizes, compiled once, against NumPy for many sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from ricci.backends.llvm.kernels import generate
from ricci.backends.llvm.target import host
from ricci.diagnostics import Error
from ricci.dtypes import DType, Types
from ricci.ir import shapes
from ricci.ir.loops import Scatter
from ricci.ir.text import parse_graph
from ricci.passes.kernels import make_kernels
from ricci.passes.specialise import specialise
from ricci.runtime.executable import compile_graph

Arrays = Mapping[str, np.ndarray]


def softmax(a: Arrays) -> np.ndarray:
    e = np.exp(a["x"] - a["x"].max(axis=-1, keepdims=True, initial=-np.inf))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def pooled(a: Arrays) -> np.ndarray:
    x = np.pad(a["x"], ((0, 0), (0, 0), (1, 2), (1, 2)), constant_values=-np.inf)
    h, w = (n + 1 >> 1 for n in a["x"].shape[2:])
    parts = [x[:, :, u : u + 2 * h : 2, v : v + 2 * w : 2] for u in range(3) for v in range(3)]
    return np.asarray(np.max(parts, axis=0)[:, :, :h, :w])


def convolved(a: Arrays) -> np.ndarray:
    x = np.pad(a["x"], ((0, 0), (0, 0), (1, 1), (1, 1)))
    h, w = a["x"].shape[2:]
    parts = [
        np.einsum("nkhw,ck->nchw", x[:, :, u : u + h, v : v + w], a["f"][:, :, u, v])
        for u in range(3) for v in range(3)
    ]  # fmt: skip
    return np.asarray(sum(parts))


def upsampled(a: Arrays) -> np.ndarray:
    n, _, w = a["x"].shape
    y = np.zeros((n, a["f"].shape[1], 2 * w + 2), np.float32)
    for u in range(4):
        y[:, :, u : u + 2 * w : 2] += np.einsum("nkw,kc->ncw", a["x"], a["f"][:, :, u])
    return y[:, :, 1 : 2 * w + 1]


def attended(a: Arrays) -> np.ndarray:
    q, k, v = a["q"], a["k"], a["v"]
    return np.asarray(softmax({"x": np.einsum("hie,hje->hij", q, k)}) @ v)


def histogram(a: Arrays) -> np.ndarray:
    return np.bincount(a["t"], minlength=7).astype(np.float32)


PROGRAMS: dict[str, tuple[str, Callable[[Arrays], np.ndarray]]] = {
    "broadcast": (
        """symbol n <= 33; symbol m <= 70; input x = x: real[n, m]; input s = s: real[m];
        y: real[n, m] = f(x, s) { y[i, j] = x[i, j] * s[j] + real(i)  for i < n, j < m; }""",
        lambda a: a["x"] * a["s"] + np.arange(len(a["x"]), dtype=np.float32)[:, None],
    ),
    "neighbours": (
        """symbol n <= 70; input x = x: real[n + 2];
        y: real[n] = f(x) { y[i] = x[i] + x[i + 1] * x[i + 2]  for i < n; }""",
        lambda a: a["x"][:-2] + a["x"][1:-1] * a["x"][2:],
    ),
    "reversed, shifted and held at the ends": (
        """symbol n <= 70; input x = x: real[n];
        y: real[n] = f(x) { y[i] = x[n - 1 - i] + x[|i - 3 <> 0 : n - 1|]  for i < n; }""",
        lambda a: a["x"][::-1] + a["x"][np.maximum(np.arange(len(a["x"])) - 3, 0)],
    ),
    "mean": (
        """symbol n <= 500; symbol m <= 5; input x = x: real[m, n];
        y: real[m] = f(x) { y[i] += x[i, j] / real(n)  for i < m, j < n; }""",
        lambda a: a["x"].sum(1) / np.float32(max(a["x"].shape[1], 1)),
    ),
    "joined": (
        """symbol n <= 40; symbol m <= 20; input x = x: real[n, 5]; input y = y: real[m, 5];
        z: real[n + m, 5] = f(x, y) {
          z[i, j] = x[i, j]  for i < n, j < 5;
          z[i + n, j] = y[i, j]  for i < m, j < 5;
        }""",
        lambda a: np.concatenate([a["x"], a["y"]]),
    ),
    "transposed and flattened": (
        """symbol n <= 40; symbol m <= 20; input x = x: real[n, 3, m];
        t: real[m, n, 3] = f(x) { t[k, i, j] = x[i, j, k]  for i < n, j < 3, k < m; }
        y: real[m, 3 * n] = g(t) { y[k, 3 * i + j] = t[k, i, j]  for i < n, j < 3, k < m; }""",
        lambda a: a["x"].transpose(2, 0, 1).reshape(a["x"].shape[2], 3 * len(a["x"])),
    ),
    "flattened and repeated": (
        """symbol n <= 5; symbol h <= 9; symbol w <= 20; input x = x: real[n, 2, h, w];
        f: real[n, 2 * h * w] = f(x) { f[b, (c * h + i) * w + j] = x[b, c, i, j]
            for b < n, c < 2, i < h, j < w; }
        y: real[3 * n, 2 * h * w] = g(f) { y[k * n + b, e] = f[b, e]
            for k < 3, b < n, e < 2 * h * w; }""",
        lambda a: np.tile(a["x"].reshape(len(a["x"]), np.prod(a["x"].shape[1:])), (3, 1)),
    ),
    "gathered": (
        """symbol n <= 40; input e = e: real[9, 20]; input t = t: int[n];
        y: real[n, 20] = f(e, t) { y[i, j] = e[t[i], j]  for i < n, j < 20; }""",
        lambda a: a["e"][a["t"]],
    ),
    "counted": (
        """symbol n <= 40; input t = t: int[n];
        y: real[7] = f(t) { y[t[i]] += 1.0  for i < n; }""",
        histogram,
    ),
    "softmax": (
        """symbol n <= 20; symbol m <= 70; input x = x: real[n, m];
        h: real[n] = f(x) { h[i] = -inf  for i < n; h[i] max= x[i, j]  for i < n, j < m; }
        e: real[n, m] = g(x, h) { e[i, j] = exp(x[i, j] - h[i])  for i < n, j < m; }
        s: real[n] = f(e) { s[i] += e[i, j]  for i < n, j < m; }
        y: real[n, m] = g(e, s) { y[i, j] = e[i, j] / s[i]  for i < n, j < m; }""",
        softmax,
    ),
    "pooled": (
        """symbol n <= 3; symbol h <= 20; symbol w <= 37; input x = x: real[n, 2, h, w];
        y: real[n, 2, (h + 1) / 2, (w + 1) / 2] = f(x) {
          y[b, c, i, j] = -inf  for b < n, c < 2, i < (h + 1) / 2, j < (w + 1) / 2;
          y[b, c, i, j] max= x[b, c, |2 * i + u - 1|, |2 * j + v - 1|]
            for b < n, c < 2, i < (h + 1) / 2, j < (w + 1) / 2, u < 3, v < 3;
        }""",
        pooled,
    ),
    "convolved": (
        """symbol n <= 3; symbol h <= 20; symbol w <= 37;
        input x = x: real[n, 4, h, w]; input f = f: real[6, 4, 3, 3];
        y: real[n, 6, h, w] = f(x, f) {
          y[b, c, i, j] += x[b, k, |i + u - 1|, |j + v - 1|] * f[c, k, u, v]
            for b < n, c < 6, i < h, j < w, k < 4, u < 3, v < 3;
        }""",
        convolved,
    ),
    "upsampled": (
        """symbol n <= 3; symbol w <= 30; input x = x: real[n, 4, w]; input f = f: real[4, 6, 4];
        y: real[n, 6, 2 * w] = f(x, f) {
          y[b, c, |2 * i + u - 1|] += x[b, k, i] * f[k, c, u]
            for b < n, c < 6, i < w, k < 4, u < 4;
        }""",
        upsampled,
    ),
    "rows of two sizes": (
        """symbol b <= 7; symbol t <= 40; input x = x: real[b, t, 64]; input w = w: real[64, 96];
        input c = c: real[96];
        y: real[b, t, 96] = f(x, w) { y[h, i, j] += x[h, i, k] * w[k, j]
            for h < b, i < t, j < 96, k < 64; }
        z: real[b, t, 96] = g(y, c) { z[h, i, j] = max(y[h, i, j] + c[j], 0.0)
            for h < b, i < t, j < 96; }""",
        lambda a: np.maximum(a["x"] @ a["w"] + a["c"], 0),
    ),
    "attended": (
        """symbol t <= 40; symbol s <= 50; input q = q: real[2, t, 16];
        input k = k: real[2, s, 16]; input v = v: real[2, s, 16];
        d: real[2, t, s] = f(q, k) { d[h, i, j] += q[h, i, e] * k[h, j, e]
            for h < 2, i < t, j < s, e < 16; }
        m: real[2, t] = g(d) { m[h, i] = -inf  for h < 2, i < t;
            m[h, i] max= d[h, i, j]  for h < 2, i < t, j < s; }
        e: real[2, t, s] = f(d, m) { e[h, i, j] = exp(d[h, i, j] - m[h, i])
            for h < 2, i < t, j < s; }
        l: real[2, t] = g(e) { l[h, i] += e[h, i, j]  for h < 2, i < t, j < s; }
        o: real[2, t, 16] = f(e, l, v) { o[h, i, c] += e[h, i, j] / l[h, i] * v[h, j, c]
            for h < 2, i < t, c < 16, j < s; }""",
        attended,
    ),
}  # fmt: skip


def sizes_of(bounds: Mapping[str, int]) -> list[dict[str, int]]:
    """Some choices: the ends of each, and what lies between."""
    rng = np.random.default_rng(0)
    ends = [
        dict(zip(bounds, c, strict=True)) for c in itertools.product((0, 1), repeat=len(bounds))
    ]
    inner = [{s: int(rng.integers(1, n + 1)) for s, n in bounds.items()} for _ in range(5)]
    return [*ends[:4], *inner, dict(bounds)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_code_for_all_sizes(name: str) -> None:
    text, oracle = PROGRAMS[name]
    result = text.rsplit(": real[", 1)[0].split()[-1]
    graph = parse_graph(f"graph g {{ {text} output {result} = {result}; }}")
    run = compile_graph(graph, threads=2)
    bounds = {s.name: int(shapes.interval(s)[1]) for s in graph.symbols}
    rng = np.random.default_rng(1)
    for sizes in sizes_of(bounds):
        env = {s: sizes[s.name] for s in graph.symbols}
        arrays = {}
        for port in graph.inputs:
            (tensor,) = port.tensors
            shape = [shapes.evaluate(e, env) for e in tensor.shape]
            floats = tensor.dtype is DType.REAL
            arrays[port.name] = (
                rng.standard_normal(shape).astype(np.float32)
                if floats
                else rng.integers(0, 7, shape)
            )
        want = oracle(arrays)
        np.testing.assert_allclose(run(**arrays), want, 1e-4, 1e-4, err_msg=f"{sizes}")


@pytest.mark.parametrize("name", ["joined", "flattened and repeated", "transposed and flattened"])
def test_moved_elements_are_not_scattered(name: str) -> None:
    graph = parse_graph(f"graph g {{ {PROGRAMS[name][0]} }}")
    kernels, _ = make_kernels(specialise(graph, {}, Types()))
    assert not any(isinstance(k, Scatter) for k in kernels)


def test_a_check_says_the_size_of_the_call() -> None:
    graph = parse_graph(
        """graph g { symbol n <= 40; input e = e: real[n]; input t = t: int[3];
        y: real[3] = f(e, t) { y[i] = e[t[i]]  for i < 3; } output y = y; }"""
    )
    run = compile_graph(graph)
    places = np.array([2, 0, 12])
    values = np.arange(20, dtype=np.float32)
    np.testing.assert_array_equal(run(values, places), values[places])
    with pytest.raises(Error, match=r"index 12 is out of range for dimension 0 of `e`.*is 11"):
        run(values[:11], places)


@pytest.mark.parametrize(
    "assignment",
    [
        "y[i] = x[i + 1]  for i < n",
        "y[i] = x[n - i]  for i < n",
        "y[i] = x[2 * i / 2 + 1]  for i < n",
        "y[i] = x[min(i, n)]  for i < n",
        "y[i] = x[|i - 2 <> 0 : n|]  for i < n",
        "y[i] = y0[|i - 2 <> 0 : n - 1|]  for i < n",
    ],
)
def test_what_is_in_range_for_every_size_is_not_checked(assignment: str) -> None:
    graph = parse_graph(
        f"""graph g {{ symbol n <= 40; input x = x: real[n + 1]; input y0 = y0: real[n];
        y: real[n] = f(x, y0) {{ {assignment}; }} output y = y; }}"""
    )
    run = compile_graph(graph, threads=1)
    x = np.arange(31, dtype=np.float32)
    assert run(x, x[:30]).shape == (30,)
    kernels, _ = make_kernels(specialise(graph, {}, Types()))
    assert len(kernels) == 1
    assert not generate(kernels[0], {}, host()).sites
