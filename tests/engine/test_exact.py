"""Constants of narrow numbers are float32 until they are multiplied, and so are residuals."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ricci
from ricci.backends.llvm.image import build
from ricci.dtypes import DType, Types, from_bfloat16, to_bfloat16
from ricci.ir.loops import Action, Group, Program, Reduce
from ricci.ir.nodes import Tensor
from ricci.ir.rewrite import accesses
from ricci.passes.pipeline import lower
from ricci.runtime import preparation
from ricci.runtime.instance import Loaded, Weights
from ricci.runtime.pool import this_machine
from ricci.runtime.signature import with_state
from ricci.runtime.variables import VariableValues

from ..ahead import Model
from .running import runnable_targets

KINDS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
NORMALISED = """
operator layer {
    @input { x: real[n, c]; w: real[m, c]; }
    @output { y: real[n, m]; }
    @lower {
        y[i, j] = 0.0, i < n, j < m;
        y[i, j] += x[i, l] * w[j, l], i < n, j < m, l < c;
    }
}

operator scaled {
    @input { q: real[n, m]; s: real[m]; t: real[m]; }
    @output { y: real[n, m]; }
    @lower { y[i, j] = q[i, j] * s[j,] + t[j,], i < n, j < m; }
}

operator times {
    @input { s: real[m]; u: real[m]; }
    @output { y: real[m]; }
    @lower { y[j,] = s[j,] * u[j,], j < m; }
}

graph G {
    @input { x: real[30, 12]; }
    @variable { w: real[24, 12]; s: real[24]; u: real[24]; t: real[24]; }
    @output { y: real[30, 24]; }
    @compose { q = layer(x, w); f = times(s, u); y = scaled(q, f, t); }
}
"""


def stored(values: np.ndarray, real: str) -> np.ndarray:
    return values.astype(np.float32).astype(KINDS[real]).astype(np.float32)


def plain(result: object) -> np.ndarray:
    return np.asarray(result).astype(np.float32)


def weights(seed: int) -> dict[str, np.ndarray]:
    """Weights that narrow types hold, factors and terms that they do not; float32 holds all that
    is made of them."""
    draw = np.random.default_rng(seed).integers
    found = {
        "w": draw(-1, 2, (24, 12)),
        "s": draw(-(2**12), 2**12, 24) / 2**7,
        "u": draw(-(2**5), 2**5, 24) / 2**2,
        "t": draw(-(2**20), 2**20, 24) / 2**9,
    }
    return {f"main.G.{n}": a.astype(np.float32) for n, a in found.items()}


def with_weights(text: str, given: dict[str, np.ndarray]) -> ricci.Model:
    model = ricci.parse(text)
    for name, value in given.items():
        model.variables[name] = value
    return model


def rows(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1, 2, (30, 12)).astype(np.float32)


def expected(x: np.ndarray, given: dict[str, np.ndarray], real: str) -> np.ndarray:
    """Rounded once."""
    w, s, u, t = (given[f"main.G.{n}"].astype(np.float64) for n in "wsut")
    return stored(x @ w.T * (s * u) + t, real)


@pytest.mark.parametrize("real", KINDS)
@pytest.mark.parametrize("target", runnable_targets())
def test_what_is_derived_of_variables_is_rounded_once(real: str, target: str) -> None:
    given = weights(1)
    model = with_weights(NORMALISED, given)
    x = rows(2)
    run = model.compile(target, real=real)
    np.testing.assert_array_equal(plain(run(x)), expected(x, given, real))
    for name, value in weights(3).items():  # one by one: what depends on it is derived again
        run.variables[name] = given[name] = value
        np.testing.assert_array_equal(plain(run(x)), expected(x, given, real))
        shown = np.asarray(run.variables[name])
        np.testing.assert_array_equal(plain(shown), stored(value, real))
        assert shown.dtype == KINDS[real]
    narrow = {n: stored(v, real) for n, v in given.items()}
    for name, value in narrow.items():
        run.variables[name] = value.astype(KINDS[real])
    np.testing.assert_array_equal(plain(run(x)), expected(x, narrow, real))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files_are_not_rounded_as_they_are_read(tmp_path: Path, dtype: type) -> None:
    given = {n: v.astype(dtype) for n, v in weights(4).items()}
    model = with_weights(NORMALISED, given)
    folder = tmp_path / "model"
    model.save(folder)
    x = rows(5)
    run = ricci.load(folder).compile(real="bfloat16")
    np.testing.assert_array_equal(plain(run(x)), expected(x, given, "bfloat16"))


@pytest.mark.parametrize("target", ["cpu", "x86-64"])
def test_ahead_of_time(tmp_path: Path, target: str) -> None:
    """With what is derived by the builder, and by the program itself."""
    given = weights(6)
    model = with_weights(NORMALISED, given)
    x = rows(7)
    paths = model.build(tmp_path, target=target, real="bfloat16")
    (y,) = Model(paths).run([to_bfloat16(x).view(np.uint16)])
    found = from_bfloat16(y.view(np.uint16)) if y.dtype == np.uint16 else plain(y)
    np.testing.assert_array_equal(found, expected(x, given, "bfloat16"))


def deep(seed: int) -> dict[str, np.ndarray]:
    """Weights for sums of 40 terms, whose products with factors float32 holds, and adds up."""
    draw = np.random.default_rng(seed).integers
    found = {
        "w": 2 * draw(0, 2, (24, 40)) - 1,
        "s": 1 + draw(0, 2**12, 24) / 2**12,
        "u": np.full(24, 0.5),
        "t": draw(-(2**10), 2**10, 24) / 2**9,
    }
    return {f"main.G.{n}": a.astype(np.float32) for n, a in found.items()}


DEEP = NORMALISED.replace("30, 12", "30, 40").replace("24, 12", "24, 40")


@pytest.mark.parametrize("target", runnable_targets())
def test_factors_are_in_weights_that_are_rounded_once(tmp_path: Path, target: str) -> None:
    given = deep(10)
    model = with_weights(DEEP, given)
    x = np.random.default_rng(11).integers(-1, 2, (30, 40)).astype(np.float32)

    def want() -> np.ndarray:
        w, s, u, t = (given[f"main.G.{n}"].astype(np.float64) for n in "wsut")
        return stored(x @ stored(w * (s * u)[:, None], "bfloat16").T + t, "bfloat16")

    run = model.compile(target, real="bfloat16")
    np.testing.assert_array_equal(plain(run(x)), want())
    assert (want() != expected(x, given, "bfloat16")).any()
    for name, value in deep(12).items():
        run.variables[name] = given[name] = value
        np.testing.assert_array_equal(plain(run(x)), want())
    if target in ("cpu", "x86-64"):
        for name, value in given.items():
            model.variables[name] = value
        paths = model.build(tmp_path, target=target, real="bfloat16")
        (y,) = Model(paths).run([to_bfloat16(x).view(np.uint16)])
        np.testing.assert_array_equal(from_bfloat16(y.view(np.uint16)), want())


def test_numbers_that_might_lose_bits_keep_their_factors() -> None:
    """Those of float16, where what is below 6e-5 has fewer bits."""
    given = deep(13)
    model = with_weights(DEEP, given)
    x = np.random.default_rng(14).integers(-1, 2, (30, 40)).astype(np.float32)
    run = model.compile(real="float16")
    np.testing.assert_array_equal(plain(run(x)), expected(x, given, "float16"))
    assert "layer.scaled[" not in model.show("loops", real="float16")
    assert "layer.scaled[" in model.show("loops", real="bfloat16")


def test_what_only_the_preparation_reads_is_not_kept() -> None:
    model = with_weights(DEEP, deep(15))
    types = Types(real=DType.BFLOAT16)
    program = lower(model.graph, {}, types)
    target = this_machine()
    values = VariableValues(model.graph, types, lambda _: None)
    for name, value in model.variables.items():
        values.adopt(name, value)
    dtypes = [t.dtype.numpy() for t in program.variables]
    assert dtypes == [np.float32] * 4
    image = build(program, target)
    weights = Weights(Loaded(image), values.of(model.graph.variables, dtypes), 1)
    gone = {
        t.name.rpartition(".")[2]
        for t, at in zip(program.kept, weights.kept, strict=False)
        if not at
    }
    assert "scaled" in gone
    assert "start" not in gone
    assert all(v is None for v in weights.variables), "calls read nothing but what is kept"


TABLE = """
operator both {
    @input { x: real[n, m]; large: real[n, m]; small: real[m]; state: real[n, m]; }
    @output { y: real[n, m]; }
    @lower { y[i, j] = x[i, j] * small[j,] + large[i, j] + state[i, j], i < n, j < m; }
}

graph G {
    @input { x: real[200, 100]; }
    @variable { large: real[200, 100]; small: real[100]; state: real[200, 100]; }
    @output { y: real[200, 100]; }
    @compose { y = both(x, large, small, state); }
    @update { state = y; }
}
"""


def test_what_is_large_and_read_once_stays_narrow() -> None:
    """As does what calls change."""
    graph = with_state(ricci.parse(TABLE).graph)
    program = lower(graph, {}, Types(real=DType.BFLOAT16), states=1)
    found = {t.name.rpartition(".")[2]: t.dtype for t in program.variables}
    assert found == {"large": DType.BFLOAT16, "small": DType.FLOAT32}
    assert {t.dtype for t in program.inputs} == {DType.BFLOAT16}
    same = lower(graph, {}, Types(), states=1)
    assert {t.dtype for t in same.variables} == {DType.FLOAT32}


def test_a_state_advances_as_before() -> None:
    model = ricci.parse(TABLE)
    rng = np.random.default_rng(8)
    model.variables["main.G.large"] = large = rng.integers(-99, 100, (200, 100)).astype(np.float32)
    model.variables["main.G.small"] = small = (rng.integers(-999, 1000, 100) / 64).astype(
        np.float32
    )
    x = rng.integers(-9, 10, (200, 100)).astype(np.float32)
    state = np.zeros_like(x)
    model.variables["main.G.state"] = state
    run = model.compile(real="bfloat16")
    for _ in range(3):
        state = stored(x * small + large + state, "bfloat16")
        np.testing.assert_array_equal(plain(run(x)), state)
    np.testing.assert_array_equal(plain(run.variables["main.G.state"]), state)


# ------------------------------------------------------------------- residuals

RESIDUAL = """def f(REAL(M,N) x, REAL(M,N) a, REAL(N,N) b, REAL(N,N) c, REAL(N,N) d) -> (z) {
    s(m,n) +=! a(m,k) * b(k,n)
    s(m,n) = s(m,n) + x(m,n)
    t(m) min=! s(m,n)
    u(m,n) = s(m,n) - t(m)
    v(m,n) +=! u(m,k) * c(k,n)
    w(m,n) = v(m,n) > REAL(500.0) ? v(m,n) : REAL(0.0)
    z(m,n) +=! w(m,k) * d(k,n)
    z(m,n) = z(m,n) + u(m,n) }"""
"""A sum that is normalised, and its normalisation, which is multiplied and added to."""


def written(program: Program, name: str) -> list[Tensor]:
    """The tensors of this name that kernels hand to others."""
    found = [t for k in program.kernels for t in _written(k) if t.name == f"f.{name}"]
    return list(dict.fromkeys(found))


def _written(action: Action) -> list[Tensor]:
    local = action.local if isinstance(action, Group) else ()
    kernels = action.kernels if isinstance(action, Group) else (action,)
    return [
        t.tensor
        for k in kernels
        if isinstance(k, Reduce)
        for t in k.targets
        if t.tensor not in local
    ]


def lowered(text: str, real: DType, **sizes: int) -> Program:
    graph = ricci.tc.define(text.replace("REAL", real.value))["f"].graph
    return lower(graph, {s: sizes[s.name] for s in graph.symbols}, Types(real=real))


@pytest.mark.parametrize("real", KINDS)
@pytest.mark.parametrize("target", runnable_targets())
def test_what_products_are_added_to_is_not_rounded(real: str, target: str) -> None:
    rng = np.random.default_rng(9)
    count, depth = 24, 1024
    a = rng.integers(-3, 4, (count, depth)).astype(np.float32)
    b = rng.integers(-1, 2, (depth, depth)).astype(np.float32)
    c = np.zeros((depth, depth), np.float32)
    c[np.arange(depth), rng.permutation(depth)] = 1
    d = c[:, ::-1].copy()
    x = 32 * rng.integers(-100, 101, (count, depth)).astype(np.float32)
    s = a @ b + x
    u = s - s.min(1, keepdims=True)
    function = ricci.parse(RESIDUAL.replace("REAL", real), "tc").compile(target=target)
    given = (x, a, b, c, d)
    given = [to_bfloat16(g) if real == "bfloat16" else g.astype(np.float16) for g in given]
    v = stored(u, real).astype(np.float64) @ c
    want = stored(np.where(v > 500, v, 0), real) @ d + u
    np.testing.assert_array_equal(plain(function(*given)), stored(want, real))
    assert (stored(u, real) != u).any()
    assert (stored(s, real) != s).any()


def test_which_are_kept() -> None:
    """The sum, and a second one of its normalisation; less work leaves all as they are."""
    program = lowered(RESIDUAL, DType.BFLOAT16, M=24, N=1024)
    assert [t.dtype for t in written(program, "s")] == [DType.FLOAT32]
    assert sorted(t.dtype.value for t in written(program, "u")) == ["bfloat16", "float32"]
    for real, n in ((DType.BFLOAT16, 128), (DType.FLOAT32, 1024)):
        program = lowered(RESIDUAL, real, M=24, N=n)
        assert {t.dtype for n in "su" for t in written(program, n)} == {real}


def test_products_multiply_what_is_narrow() -> None:
    program = lowered(RESIDUAL, DType.BFLOAT16, M=24, N=1024)
    kernels = [k for k in program.kernels if isinstance(k, Reduce) and k.op == "add"]
    for kernel in kernels:
        assert {a.tensor.dtype for a in accesses(*kernel.values)} == {DType.BFLOAT16}
    added = [a.tensor for a in accesses(*kernels[-1].results, *kernels[-1].initial)]
    assert [(t.name, t.dtype) for t in added] == [("f.u", DType.FLOAT32)]


CHAIN = """def f(REAL(M,K) x, REAL(K,K) b, REAL(K,K) c, REAL(K,K) d) -> (z) {
    s(m,n) +=! x(m,k) * b(k,n)
    t(m,n) +=! s(m,k) * c(k,n)
    z(m,n) +=! t(m,k) * d(k,n)
    z(m,n) = z(m,n) + s(m,n) }"""
SHORTCUT = """def f(REAL(M,K) x, REAL(K,K) b, REAL(K,K) c) -> (z) {
    s(m,n) +=! x(m,k) * b(k,n)
    z(m,n) +=! x(m,k) * c(k,n)
    z(m,n) = z(m,n) + s(m,n) }"""


@pytest.mark.parametrize("text", [CHAIN, SHORTCUT])
def test_what_products_make_is_narrow_if_it_is_multiplied_or_a_term(text: str) -> None:
    program = lowered(text, DType.BFLOAT16, M=24, K=2048)
    assert [t.dtype for t in written(program, "s")] == [DType.BFLOAT16]


def test_results_have_their_type() -> None:
    text = RESIDUAL.replace("-> (z)", "-> (s, u, z)")
    program = lowered(text, DType.BFLOAT16, M=24, N=1024)
    assert {t.dtype for t in program.outputs} == {DType.BFLOAT16}
    assert {t.dtype for n in "suz" for t in written(program, n)} == {DType.BFLOAT16}


SCANNED = """
import linalg;
import math;
graph G {
    @input { x: real[24, 1024]; v: real[1024, 64]; w: real[1024, 64]; }
    @output { y: real[24, 64]; z: real[24, 64]; }
    @compose {
        a = linalg.matmul(x, v);
        b = linalg.matmul(x, w);
        y = with s = a for item : [a, b] do math.add(s, item);
        e = math.exp(b);
        z = math.add(e, b);
    }
}
"""


def test_items_that_loops_take_are_as_they_were() -> None:
    """Sums that would be kept otherwise."""
    rng = np.random.default_rng(16)
    x = rng.integers(-1, 2, (24, 1024)).astype(np.float32)
    v, w = (rng.integers(-1, 2, (1024, 64)).astype(np.float32) for _ in range(2))
    run = ricci.parse(SCANNED).compile(real="bfloat16")
    a, b = stored(x @ v, "bfloat16"), stored(x @ w, "bfloat16")
    found = run(x, v, w)
    want = stored(stored(stored(a + a, "bfloat16") + b, "bfloat16"), "bfloat16")
    np.testing.assert_array_equal(plain(found.y), want)


ITEMS = """
import math;
graph G {
    @input { x: real[64]; }
    @variable { p: real[64]; q: real[64]; }
    @output { y: real[64]; z: real[64]; }
    @compose {
        y = with s = x for item : [p, q] do math.add(s, item);
        z = math.mul(x, p);
    }
}
"""


def test_variables_that_loops_take_are_narrow() -> None:
    model = ricci.parse(ITEMS)
    rng = np.random.default_rng(17)
    p, q = ((1 + rng.integers(0, 2**12, 64) / 2**12).astype(np.float32) for _ in range(2))
    model.variables["main.G.p"], model.variables["main.G.q"] = p, q
    x = rng.integers(-9, 10, 64).astype(np.float32)
    found = model.compile(real="bfloat16")(x)
    p, q = stored(p, "bfloat16"), stored(q, "bfloat16")
    np.testing.assert_array_equal(plain(found.y), stored(stored(x + p, "bfloat16") + q, "bfloat16"))
    np.testing.assert_array_equal(plain(found.z), stored(x * p, "bfloat16"))


VIEWED = """
import layout;
import math;
graph G {
    @input { x: real[8, 8]; }
    @variable { p: real[64]; }
    @output { y: real[8, 8]; z: real[64]; }
    @compose {
        q = layout.reshape{shape=[8, 8]}(p);
        y = math.mul(x, q);
        r = layout.reshape{shape=[64]}(x);
        z = math.mul(r, p);
    }
}
"""


def test_variables_that_have_another_shape_for_some() -> None:
    model = ricci.parse(VIEWED)
    p = (1 + np.arange(64) / 2**12).astype(np.float32)
    model.variables["main.G.p"] = p
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    found = model.compile(real="bfloat16")(x)
    want = stored(x.ravel() * stored(p, "bfloat16"), "bfloat16")
    np.testing.assert_array_equal(plain(found.y).ravel(), want)
    np.testing.assert_array_equal(plain(found.z), want)


TWICE = """
operator square {
    @input { w: real[m, c]; }
    @output { y: real[m, c]; }
    @lower { y[i, j] = w[i, j] * w[i, j] + w[i, j], i < m, j < c; }
}

graph G {
    @input { x: real[40, 40]; }
    @variable { w: real[24, 40]; v: real[24, 40]; s: real[24]; t: real[24]; }
    @output { y: real[40, 24]; z: real[40, 24]; r: real[40, 24]; }
    @compose {
        y = layer(x, w);
        u = square(w);
        z = layer(x, u);
        q = layer(x, v);
        r = scaled(q, s, t);
    }
}
"""


def test_parts_of_the_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are read as they are, and derived from; other parts are taken over."""
    monkeypatch.setattr(preparation, "AT_ONCE", 0)
    rng = np.random.default_rng(18)
    given = {
        "w": rng.integers(-200, 201, (24, 40)),
        "v": 2 * rng.integers(0, 2, (24, 40)) - 1,
        "s": 1 + rng.integers(0, 2**12, 24) / 2**12,
        "t": rng.integers(-(2**10), 2**10, 24) / 2**9,
    }
    arrays = {f"main.G.{n}": a.astype(np.float32) for n, a in given.items()}
    model = with_weights(NORMALISED[: NORMALISED.index("graph G")] + TWICE, arrays)
    run, x = model.compile(real="bfloat16"), np.eye(40, dtype=np.float32)
    for step in range(3):
        w, v, s, t = (arrays[f"main.G.{n}"] for n in "wvst")
        found = run(x)
        np.testing.assert_array_equal(plain(found.y), w.T)
        np.testing.assert_array_equal(plain(found.z), stored(w * w + w, "bfloat16").T)
        want = stored(stored(v * s[:, None], "bfloat16").T + t, "bfloat16")
        np.testing.assert_array_equal(plain(found.r), want)
        name = "main.G.w" if step else "main.G.s"
        run.variables[name] = arrays[name] = arrays[name][::-1].copy()


SCATTERED = """
import layout;
import math;
graph G {
    @input { x: real[64]; i: int[40]; u: real[40]; }
    @variable { v: real[40]; }
    @output { y: real[64]; z: real[40]; }
    @compose {
        y = layout.scatter{axis=0}(x, i, v);
        z = math.mul(u, v);
    }
}
"""


def test_what_is_written_to_places_that_data_names() -> None:
    model = ricci.parse(SCATTERED)
    rng = np.random.default_rng(19)
    v = (1 + rng.integers(0, 2**12, 40) / 2**12).astype(np.float32)
    model.variables["main.G.v"] = v
    x, places = np.zeros(64, np.float32), rng.permutation(64)[:40]
    found = model.compile(real="bfloat16")(x, places, np.ones(40, np.float32))
    np.testing.assert_array_equal(plain(found.y)[places], stored(v, "bfloat16"))
    np.testing.assert_array_equal(plain(found.z), stored(v, "bfloat16"))
