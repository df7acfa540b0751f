"""What is done for each column of a matrix, by blocks of columns: where, and the numbers."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.dtypes import Types
from ricci.ir.loops import Group, Program
from ricci.passes import columns
from ricci.passes.partial import points_of
from ricci.passes.pipeline import lower

HEAD = "def f(float(M, N) X, float(N) Z)"
SOFTMAX = """m(j) max=! X(i, j)  e(i, j) = exp(X(i, j) - m(j))  s(j) +=! e(i, j)
    y(i, j) = e(i, j) / s(j)"""
VARIANCE = "m(j) +=! X(i, j)  y(i, j) = (X(i, j) - m(j) / M) * Z(j)"


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RICCI_NO_CACHE", "1")


def lowered(text: str, **sizes: int) -> Program:
    graph = ricci.tc.define(text)["f"].graph
    return lower(graph, {s: sizes[s.name] for s in graph.symbols}, Types())


def blocks_of(program: Program) -> list[int]:
    """How many blocks each group of kernels has."""
    return [points_of(k.shared) for k in program.kernels if isinstance(k, Group)]


def agree(text: str, *arrays: np.ndarray) -> None:
    model = ricci.parse(text, "tc")
    want = model.compile(target="interpreter")(*arrays)
    got = model.compile(threads=2)(*arrays)
    for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, want)), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


def arrays(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(0)
    return r.standard_normal((m, n), np.float32), r.standard_normal(n, np.float32)


@pytest.mark.parametrize(
    ("m", "n", "blocks"),
    [
        (256, 16384, [64]),  # 256 columns: longer than a core's caches hold
        (21, 100_000, [50]),  # 2000 columns of 252 bytes
        (1024, 16384, [64]),
        (1024, 16384 + 16, []),  # of which no number of whole vectors suits
        (21, 10_000, []),  # it is all small
        (60_000, 64, []),  # columns of which a few are too many bytes
    ],
)
def test_sizes_decide(m: int, n: int, blocks: list[int]) -> None:
    program = lowered(f"{HEAD} -> (y) {{ {SOFTMAX} }}", M=m, N=n)
    assert blocks_of(program) == blocks
    if m * n < 5_000_000:
        x, _ = arrays(m, n)
        run = ricci.tc.define(f"{HEAD} -> (y) {{ {SOFTMAX} }}", threads=2)["f"]
        power = np.exp(x.astype(np.float64) - x.max(0))
        np.testing.assert_allclose(run(x, x[0]), power / power.sum(0), 1e-5, 1e-9)


@pytest.mark.parametrize("results", ["y", "y, e", "e, m, y", "s, y", "y, s, m, e"])
@pytest.mark.parametrize("large", [False, True])
def test_what_is_a_result_stays(results: str, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what nothing else needs, powers are computed again where they are many."""
    monkeypatch.setattr(columns, "LARGE", 1 << 12)
    m, n = (128, 65536) if large else (24, 32768)
    text = f"{HEAD} -> ({results}) {{ {SOFTMAX} }}"
    program = lowered(text, M=m, N=n)
    (group,) = [k for k in program.kernels if isinstance(k, Group)]
    assert len(group.kernels) == 4
    local = {t.name.rpartition(".")[2] for t in group.local}
    assert local == {"m", "s", "e"} - {name.strip() for name in results.split(",")}
    if not large:
        agree(text, *arrays(m, n))


def test_columns_that_are_too_long_to_keep() -> None:
    """Powers of a block are more than a core's caches hold."""
    (group,) = [
        k
        for k in lowered(f"{HEAD} -> (y) {{ {SOFTMAX} }}", M=1024, N=16384).kernels
        if isinstance(k, Group)
    ]
    assert [t.name.rpartition(".")[2] for t in group.local] == ["m", "s"]


@pytest.mark.parametrize(
    ("body", "blocks"),
    [
        (VARIANCE, [32]),
        ("m(j) max=! X(i, j) * Z(j)  y(i, j) = X(i, j) - m(j) + Z(j)", [32]),
        ("m(j) +=! X(i, j)  y(i, j) = m(j) * X(i, j) + j", []),  # the index itself
        ("m(j) +=! X(i, j)  y(i, j) = m(j) * X(i, N - 1 - j)", []),
        ("m(j) +=! X(i, j)  y(j, i) = m(j) * X(i, j)", []),
    ],
)
def test_formulas(body: str, blocks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "LARGE", 1 << 12)
    text = f"{HEAD} -> (m, y) {{ {body} }}"
    assert blocks_of(lowered(text, M=40, N=32768)) == blocks
    agree(text, *arrays(40, 32768))


def test_batches_of_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "LARGE", 1 << 12)
    text = """def f(float(B, M, N) X) -> (y) { m(b, j) max=! X(b, i, j)
        e(b, i, j) = exp(X(b, i, j) - m(b, j))  s(b, j) +=! e(b, i, j)
        y(b, i, j) = e(b, i, j) / s(b, j) }"""
    assert blocks_of(lowered(text, B=4, M=700, N=1024)) == [16]
    x = np.random.default_rng(1).standard_normal((4, 700, 1024), np.float32)
    agree(text, x)


def test_columns_of_a_turned_matrix() -> None:
    """Whose columns are not contiguous."""
    x = np.random.default_rng(2).standard_normal((8192, 160), np.float32).T
    run = ricci.tc.define(f"{HEAD} -> (y) {{ {SOFTMAX} }}", threads=2)["f"]
    power = np.exp(x.astype(np.float64) - x.max(0))
    np.testing.assert_allclose(run(x, x[0]), power / power.sum(0), 1e-5, 1e-9)
