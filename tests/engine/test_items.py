"""Graphs over a batch of an open size, one item after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.dtypes import Types
from ricci.ir.loops import Point, Program, Repeat, all_actions
from ricci.passes import items
from ricci.passes.pipeline import lower
from ricci.runtime import native
from ricci.runtime.compiler_process import image_of
from ricci.runtime.work import Work

from ..ahead import Model
from .networks import Network, weigh


@pytest.fixture
def anyhow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items are done one after the other wherever that is possible."""
    monkeypatch.setattr(items._Batch, "is_worthwhile", lambda self: True)


def program_of(model: ricci.Model) -> Program:
    return lower(model.graph, {}, Types())


def is_by_items(model: ricci.Model) -> bool:
    """Whether all kernels but the one that sets the counter are in a loop."""
    return [type(a) for a in program_of(model).actions[1:]] == [Repeat]


def formula(result: str, text: str) -> ricci.Model:
    """A model of one formula over a batch of `n` rows of five elements."""
    graph = result.replace("n", "b").replace("k", "5")
    return ricci.parse(f"""
        operator op {{
            @input {{ x: real[n, k]; }}
            @output {{ y: real[{result}]; }}
            @lower {{ {text} }}
        }}
        graph main {{
            @input {{ x: real[b|9, 5]; }}
            @output {{ y: real[{graph}]; }}
            @compose {{ y = op(x); }}
        }}""")


def check(model: ricci.Model, *shape: int, tolerance: float = 1e-5) -> None:
    """Compare with the definition, at several sizes, none among them."""
    run, expected = model.compile(threads=2), model.compile(target="interpreter")
    for batch in (1, 2, 0, 9, 5):
        x = np.random.default_rng(batch).standard_normal((batch, *shape)).astype(np.float32)
        pairs = zip(_all(run(x)), _all(expected(x)), strict=True)
        for found, wanted in pairs:
            np.testing.assert_allclose(found, wanted, 20 * tolerance, tolerance)


def _all(results: Any) -> list[np.ndarray]:
    return [results] if isinstance(results, np.ndarray) else list(results)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("n, k", "y[i,j] = x[i,j] + x[i,0], i < n, j < k;"),
        ("n, k", "y[i,j] = x[i,|j-1|], i < n, j < k;"),
        ("n, k", "y[i,j] += x[i,l] * x[i,j], i < n, j < k, l < k;"),
        ("n*k, 1", "y[i*k+j,0] = x[i,j], i < n, j < k;"),
        ("n*2, k", "y[2*i+r,j] = x[i,j], i < n, j < k, r < 2;"),
        ("n*2, k", "y[2*i+1,j] = x[i,j], i < n, j < k;"),
    ],
)
@pytest.mark.usefixtures("anyhow")
def test_items_by_themselves(result: str, text: str) -> None:
    model = formula(result, text)
    assert is_by_items(model)
    check(model, 5)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("n, k", "y[i,j] = x[n-1-i,j], i < n, j < k;"),
        ("n, k", "y[i,j] = x[i,j] + real(i), i < n, j < k;"),
        ("n, k", "y[i,j] = x[i,j] * real(n), i < n, j < k;"),
        ("n, k", "y[i,j] = x[|i-1|,j], i < n, j < k;"),
        ("n, k", "y[i,j] = x[|i-1 <> 0 : n-1|,j], i < n, j < k;"),
        ("n, k", "y[i,j] = x[i,(i+j)%k], i < n, j < k;"),
        ("n, k", "y[i,j] = x[i,j], i < n, j < k | i % 2 == 0;"),
        ("n, k", "y[i,j] += x[l,j], i < n, j < k, l < n;"),
        ("n, k", "y[i,j] += x[l,j] * x[i,j], i < n, j < k, l < n;"),
        ("n*2, k", "y[i+n*r,j] = x[i,j], i < n, j < k, r < 2;"),
        ("n*2, k", "y[i,j] = x[i,j], i < n, j < k;"),
        ("k, n", "y[j,i] = x[i,j], i < n, j < k;"),
        ("k", "y[j,] += x[i,j], i < n, j < k;"),
    ],
)
@pytest.mark.usefixtures("anyhow")
def test_items_that_depend_on_others_or_on_their_numbers(result: str, text: str) -> None:
    model = formula(result, text)
    assert not is_by_items(model)
    check(model, 5)


@pytest.mark.usefixtures("anyhow")
def test_networks_give_the_same_numbers() -> None:
    count = 0
    for seed in range(15):
        network = Network(seed)
        network.batch, network.bound = "n", "|9"
        model = network.model()
        count += is_by_items(model)
        check(model, network.channels, network.size, network.size)
    assert count == 15


ROWS = """
import layout, linalg, math, nn;
graph main {
    @input { x: real[b|BOUND, 128, 96]; s: real[96]; }
    @output { y: real[b, 128, 96]; z: real[b, 128*96]; }
    @variable { w: real[96, 96]; v: real[96, 96]; }
    @compose {
        r = layout.flatten{rank=2}(x);
        h = linalg.matmul(r, w);
        g = nn.relu(h);
        k = linalg.matmul(g, v);
        y = layout.unflatten{axis=0, shape=[b, 128]}(k);
        t = math.mul{rhs_align=2}(x, s);
        z = layout.flatten{axis=1, rank=2}(t);
    }
}
"""
"""The rows of all items are those of one matrix; another argument is the same for each."""


def rows(bound: int) -> ricci.Model:
    model = ricci.parse(ROWS.replace("BOUND", str(bound)))
    weigh(model)
    return model


def test_rows_of_all_items() -> None:
    model = rows(9)
    assert is_by_items(model)
    run, expected = model.compile(threads=2), model.compile(target="interpreter")
    for batch in (3, 1, 0, 9):
        r = np.random.default_rng(batch)
        x, s = r.random((batch, 128, 96), np.float32), r.random(96, np.float32)
        for found, wanted in zip(run(x, s), expected(x, s), strict=True):
            np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
        out = [np.empty_like(wanted) for wanted in expected(x, s)]
        run.into(out, x, s)
        for found, wanted in zip(out, expected(x, s), strict=True):
            np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


def test_items_are_not_steps_of_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph without loops is not said to have an endless one."""
    monkeypatch.setenv("RICCI_LOOP_STEPS", "2")
    model = rows(9)
    x, s = np.ones((9, 128, 96), np.float32), np.ones(96, np.float32)
    expected = model.compile(target="interpreter")(x, s)
    np.testing.assert_allclose(model.compile()(x, s).y, expected.y, 1e-5)


def test_memory_is_that_of_an_item() -> None:
    assert program_of(rows(9)).arena == program_of(rows(900)).arena < 3 * 128 * 96 * 4


def test_no_bound_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """One compilation is enough where there would be no memory for all items at the bound."""
    images = []

    def counted(work: Work, compiler: object) -> bytes:
        images.append(work.sizes)
        return image_of(work, None)

    monkeypatch.setattr(native, "image_of", counted)
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    model = rows(1 << 40)
    run, expected = model.compile(), model.compile(target="interpreter")
    for batch in (2, 5):
        r = np.random.default_rng(batch)
        x, s = r.random((batch, 128, 96), np.float32), r.random(96, np.float32)
        np.testing.assert_allclose(run(x, s).y, expected(x, s).y, 1e-5, 1e-6)
    assert images == [{}]


def test_a_few_products_are_not_worth_a_loop() -> None:
    """Nor are weights that would be read again for few of them."""
    text = ROWS.replace("BOUND", "9").replace("128", "4")
    assert not is_by_items(ricci.parse(text))
    text = text.replace("96", "1024")
    assert not is_by_items(ricci.parse(text))


def test_errors_name_the_same_place() -> None:
    """What is out of range is found in whatever item it is."""
    model = ricci.parse("""
        import linalg, layout;
        operator pick {
            @input { x: real[n, r, k]; at: int[n]; }
            @output { y: real[n, k]; }
            @lower { y[i, j] = x[i, at[i,], j], i < n, j < k; }
        }
        graph main {
            @input { x: real[b|9, 128, 128]; at: int[b]; w: real[128, 128]; }
            @output { y: real[b, 128]; z: real[b, 128, 128]; }
            @compose { y = pick(x, at); z = linalg.matmul(x, w); }
        }""")
    assert is_by_items(model)
    run, expected = model.compile(), model.compile(target="interpreter")
    x, w = np.ones((3, 128, 128), np.float32), np.ones((128, 128), np.float32)
    messages = []
    for call in (run, expected):
        with pytest.raises(ricci.Error) as found:
            call(x, np.array([0, 5, 128]), w)
        messages.append(found.value.diagnostics[0].message)
    assert messages[0] == messages[1] and "128" in messages[0]
    np.testing.assert_array_equal(run(x, np.array([0, 5, 127]), w).y, x[:, 0])


def test_items_without_bytes() -> None:
    """A tensor of no elements has the same place for every item."""
    model = ricci.parse("""
        import linalg, math;
        graph main {
            @input { x: real[b|100000, 128, 128]; e: real[b, 0]; w: real[128, 128]; }
            @output { y: real[b, 128, 128]; z: real[b]; }
            @compose {
                y = linalg.matmul(x, w);
                z = math.sum_reduce{axes=[1], squeeze=true}(e);
            }
        }""")
    assert is_by_items(model)
    steps = [a.step for a in all_actions(program_of(model).actions) if isinstance(a, Point)]
    assert None not in steps, "none is chosen from a table"
    x, w = np.ones((300, 128, 128), np.float32), np.ones((128, 128), np.float32)
    y, z = model.compile()(x, np.ones((300, 0), np.float32), w)
    np.testing.assert_array_equal(y, np.full_like(x, 128))
    np.testing.assert_array_equal(z, np.zeros(300, np.float32))


def test_ahead_of_time(tmp_path: Path) -> None:
    model = rows(9)
    built, run = Model(model.build(tmp_path)), model.compile()
    for batch in (2, 9, 1):
        r = np.random.default_rng(batch)
        x, s = r.random((batch, 128, 96), np.float32), r.random(96, np.float32)
        for found, wanted in zip(built.run([x, s], [batch]), run(x, s), strict=True):
            np.testing.assert_allclose(found, wanted, 1e-6)
    built.destroy()
