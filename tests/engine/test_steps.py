"""Assignments whose steps see what earlier ones wrote, and results written past the caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import nest, nest_uses
from ricci.dtypes import Types
from ricci.passes.pipeline import lower

from .assembly import innermost
from .running import HOST, run_code

Array = np.ndarray


def graph(inputs: dict[str, str], outputs: dict[str, str], body: str, operators: str = "") -> str:
    ports = [" ".join(f"{n}: {t};" for n, t in p.items()) for p in (inputs, outputs)]
    return (
        f"import math; import nn; import layout;\n{operators}\n"
        f"graph Main {{ @input {{ {ports[0]} }} @output {{ {ports[1]} }} @compose {{ {body} }} }}"
    )


def run(text: str, *arrays: Array) -> Array:
    return np.asarray(ricci.parse(text, "skriptnd").compile(threads=2)(*arrays))


def shape_text(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def first_best(x: Array, axis: int, op: str) -> Array:
    """What the loops say: the first element is best until a later one is better."""
    rows = np.moveaxis(x, axis, -1)
    out = np.zeros(rows.shape[:-1], np.int64)
    for i in np.ndindex(*out.shape):
        for k, value in enumerate(rows[i]):
            best = rows[i][out[i]]
            if value > best if op == "argmax" else value < best:
                out[i] = k
    return out


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("shape", [(3, 37, 5), (5, 4, 133), (1, 1, 1), (2, 33, 16)])
@pytest.mark.parametrize("kind", ["real", "int"])
def test_where_the_extreme_is(op: str, shape: tuple[int, ...], kind: str) -> None:
    r = np.random.default_rng(sum(shape))
    x = r.integers(0, 5, shape).astype(np.float32 if kind == "real" else np.int64)
    if kind == "real":
        x[r.random(shape) < 0.1] = np.inf
        x[r.random(shape) < 0.1] = -0.0
        x[r.random(shape) < 0.2] = np.nan
    for axis in range(3):
        rest = tuple(n for d, n in enumerate(shape) if d != axis)
        text = graph(
            {"x": f"{kind}{shape_text(shape)}"},
            {"y": f"int{shape_text(rest)}"},
            f"y = math.{op}{{axis={axis}, squeeze=true}}(x);",
        )
        assert (run(text, x) == first_best(x, axis, op)).all()


@pytest.mark.parametrize("axes", [(1, 2), (2, 0), (0, 1)])
def test_where_the_extreme_of_several_dimensions_is(axes: tuple[int, int]) -> None:
    x = np.random.default_rng(5).integers(0, 50, (4, 9, 21)).astype(np.float32)
    (kept,) = {0, 1, 2} - {*axes}
    text = graph(
        {"x": "real[4,9,21]"},
        {"y": f"int[{x.shape[kept]},2]"},
        f"[y] = math.argmax_nd{{axes={list(axes)}, squeeze=true, stacked=true}}(x);",
    )
    order = sorted(axes)
    rows = np.moveaxis(x, kept, 0).reshape(x.shape[kept], -1)
    places = np.unravel_index(rows.argmax(1), [x.shape[d] for d in order])
    expected = np.stack([places[order.index(d)] for d in axes], 1)
    assert (run(text, x) == expected).all()


def test_of_equal_ones_the_last() -> None:
    """`>=` counts equal ones; vectors along the terms, which are contiguous."""
    operators = (
        "operator last { @input { x: real[m, n]; } @output { y: int[m]; } @lower {"
        " y[i,] = 0, i < m; y[i,] := k, i < m, k < n | x[i, k] >= x[i, y[i,]]; } }"
    )
    x = np.random.default_rng(6).integers(0, 7, (5, 203)).astype(np.float32)
    text = graph({"x": "real[5,203]"}, {"y": "int[5]"}, "y = last(x);", operators)
    assert (run(text, x) == 202 - x[:, ::-1].argmax(1)).all()


def test_open_sizes_and_none() -> None:
    text = (
        graph({"x": "real[m, n]"}, {"y": "int[n]"}, "y = math.argmax{axis=0, squeeze=true}(x);")
        .replace("real[m, n]", "real[~|8, ~|70]")
        .replace("int[n]", "int[~|70]")
    )
    call = ricci.parse(text, "skriptnd").compile(threads=2)
    for shape in [(8, 70), (3, 17), (1, 1), (5, 0)]:
        x = np.random.default_rng(7).integers(0, 3, shape).astype(np.float32)
        assert (np.asarray(call(x)) == x.argmax(0)).all()


# ------------------------------------------------------------------ recurrences


@pytest.mark.parametrize("shape", [(3, 37, 5), (2, 4, 133), (1, 1, 1), (3, 2, 16)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums(shape: tuple[int, ...], reverse: bool, exclusive: bool) -> None:
    x = np.random.default_rng(8).standard_normal(shape).astype(np.float32)
    for axis in range(3):
        kind = f"real{shape_text(shape)}"
        flags = f"axis={axis}, reverse={str(reverse).lower()}, exclusive={str(exclusive).lower()}"
        found = run(graph({"x": kind}, {"y": kind}, f"y = math.cumsum{{{flags}}}(x);"), x)
        wide = np.flip(x, axis) if reverse else x
        expected = np.cumsum(wide.astype(np.float64), axis) - (wide if exclusive else 0)
        expected = np.flip(expected, axis) if reverse else expected
        assert np.abs(found - expected).max() < 5e-6


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 4096), 1), ((4096, 40), 0), ((3, 4096, 7), 1), ((4096, 1), 0)]
)
def test_running_sums_are_exact_but_for_one_rounding(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(9).standard_normal(shape).astype(np.float32)
    kind = f"real{shape_text(shape)}"
    text = graph({"x": kind}, {"y": kind}, f"y = math.cumsum{{axis={axis}}}(x);")
    expected = np.cumsum(x.astype(np.float64), axis)
    assert np.abs(run(text, x) - expected).max() < 1e-7 * np.abs(expected).max()


def scan_operator(step: str, kind: str) -> str:
    return (
        f"operator scan {{ @input {{ x: {kind}[m, n]; }} @output {{ y: {kind}[m, n]; }} @lower {{"
        " y[i, k] = x[i, k], i < m, k < n;"
        f" y[i, k + 1] := {step}, i < m, k < (n - 1 >> 0); }} }}"
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_lanes_of_whole_registers_do_not_move_by_vexpand(dtype: str) -> None:
    """It takes three times as long as other ways on processors that have it."""
    kind = "int" if dtype.startswith("int") else "real"
    real, whole = ("float32", dtype) if kind == "int" else (dtype, "int64")
    step, shape = scan_operator("y[i, k] + x[i, k + 1]", kind), f"{kind}[3,101]"
    model = ricci.parse(graph({"x": shape}, {"y": shape}, "y = scan(x);", step), "skriptnd")
    loops = innermost(model.show("asm", real, whole, target="x86-64-v4"))
    assert any(x.count(r"zmm") for x in loops)
    assert not any(x.count(r"^vp?expand") for x in loops)
    x = np.random.default_rng(11).integers(-9, 10, (3, 101)).astype(dtype)
    np.testing.assert_array_equal(
        model.compile(threads=2, real=real, int=whole)(x), np.cumsum(x, 1)
    )


@pytest.mark.parametrize(
    ("step", "function"),
    [
        ("y[i, k] << x[i, k + 1]", np.minimum.accumulate),
        ("x[i, k + 1] >> y[i, k]", np.maximum.accumulate),
        ("0.5 * y[i, k] + x[i, k + 1]", None),
    ],
)
def test_other_recurrences(step: str, function: np.ufunc | None) -> None:
    operators = scan_operator(step, "real")
    x = np.random.default_rng(10).standard_normal((37, 75)).astype(np.float32)
    text = graph({"x": "real[37,75]"}, {"y": "real[37,75]"}, "y = scan(x);", operators)
    expected = x.astype(np.float64)
    if function is None:
        for k in range(1, 75):
            expected[:, k] += 0.5 * expected[:, k - 1]
    else:
        expected = function(expected, 1)
    np.testing.assert_allclose(run(text, x), expected, rtol=1e-5, atol=1e-6)


def test_running_sums_stay_in_halves_of_registers() -> None:
    """Where these are what a processor computes with, moving lanes across them takes longest."""
    kind = "real[3,41]"
    text = graph({"x": kind}, {"y": kind}, "y = math.cumsum{axis=1}(x);")
    halves = replace(HOST, vector_bytes=32, registers=16, units=1)
    x = np.random.default_rng(13).standard_normal((3, 41)).astype(np.float32)
    y = np.full_like(x, np.nan)
    for kernel in lower(ricci.parse(text, "skriptnd").graph, {}, Types()).kernels:
        code = nest.generate(kernel, {}, halves)
        assert not run_code(code, {t: y if t.name.endswith("y") else x for t in code.tensors}).any()
    assert "<4 x float>" in code.text and "<8 x float>" not in code.text
    np.testing.assert_allclose(y, np.cumsum(x.astype(np.float64), 1), 1e-6, 1e-6)


def test_infinities_in_running_sums() -> None:
    x = np.ones((2, 40), np.float32)
    x[0, 17], x[1, 5], x[1, 30] = np.inf, np.inf, -np.inf
    for axis, given in ((1, x), (0, np.ascontiguousarray(x.T))):
        kind = f"real{shape_text(given.shape)}"
        text = graph({"x": kind}, {"y": kind}, f"y = math.cumsum{{axis={axis}}}(x);")
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(run(text, given), np.cumsum(given, axis))


# ------------------------------------------------------------------ large results


@pytest.mark.parametrize("shape", [(64, 48), (3, 5, 32), (70, 16)])
def test_results_past_the_caches(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Into memory that lies as vectors do, and into such that does not."""
    monkeypatch.setattr(nest_uses, "LARGE", 1 << 10)
    kind = f"real{shape_text(shape)}"
    last = len(shape) - 1
    body = f"s = math.add(a, b); n = nn.softmax{{axes=[{last}]}}(s); y = math.mul(n, b);"
    r = np.random.default_rng(11)
    a, b = (r.standard_normal(shape).astype(np.float32) for _ in range(2))
    call = ricci.parse(graph({"a": kind, "b": kind}, {"y": kind}, body), "skriptnd").compile()
    e = np.exp((a + b).astype(np.float64))
    expected = e / e.sum(-1, keepdims=True) * b
    np.testing.assert_allclose(np.asarray(call(a, b)), expected, rtol=1e-5, atol=1e-6)
    apart = np.empty(a.size + 1, np.float32)[1:].reshape(shape)
    apart[...] = a
    np.testing.assert_allclose(np.asarray(call(apart, b)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("y(i) max=! x(k,i)", lambda x: x.max(0)),
        ("y(k) +=! x(k,i)", lambda x: x.sum(1)),
        ("y(k,i) = x(k,i) * 2 where k in 0:40, i in 0:60", lambda x: x * 2),
    ],
)
def test_large_tensors_are_asked_for_ahead(
    formula: str, expected: Callable[[np.ndarray], np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ricci.parse(f"def f(float(40,60) x) -> (y) {{ {formula} }}", "tc")
    assert "prefetch" not in program.show("llvm", target="x86-64-v4")
    monkeypatch.setattr(nest_uses, "LARGE", 1 << 10)
    assert "prefetch" in program.show("llvm", target="x86-64-v4")
    x = np.random.default_rng(14).standard_normal((40, 60)).astype(np.float32)
    np.testing.assert_allclose(program.compile()(x), expected(x), rtol=1e-5, atol=1e-5)


def test_what_is_read_in_part_or_again_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest_uses, "LARGE", 1 << 10)
    for formula in (
        "y(i) +=! x(k,i) where k in 0:9",
        "y(k,i) +=! x(k,i+j) where i in 0:48, j in 0:9",
    ):
        program = ricci.parse(f"def f(float(40,60) x) -> (y) {{ {formula} }}", "tc")
        assert "prefetch" not in program.show("llvm")


def test_long_sums_lose_few_bits() -> None:
    x = np.random.default_rng(12).standard_normal((3, 70001)).astype(np.float32)
    text = graph(
        {"x": "real[3,70001]"}, {"y": "real[3]"}, "y = math.sum_reduce{axes=[1], squeeze=true}(x);"
    )
    expected = x.astype(np.float64).sum(1)
    assert np.abs(run(text, x) - expected).max() < 2e-4  # one after the other: 3e-3


def test_maps_of_different_shapes_are_one() -> None:
    """What is computed of groups of channels, and then of channels, is one pass."""
    body = (
        "p = layout.reshape{shape=[2,3,28]}(x); q = math.mul(p, g);"
        " r = layout.reshape{shape=[2,12,7]}(q); y = math.mul{rhs_align=1}(r, c);"
    )
    text = graph(
        {"x": "real[2,12,7]", "g": "real[2,3,1]", "c": "real[12]"}, {"y": "real[2,12,7]"}, body
    )
    r = np.random.default_rng(13)
    x, g, c = (r.standard_normal(s).astype(np.float32) for s in ((2, 12, 7), (2, 3, 1), (12,)))
    call = ricci.parse(text, "skriptnd").compile(threads=2)
    expected = (x.reshape(2, 3, 28) * g).reshape(2, 12, 7) * c[:, None]
    np.testing.assert_allclose(np.asarray(call(x, g, c)), expected, rtol=1e-6)
