"""What is done for each column of a matrix, by blocks of columns: where, and the numbers."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import machine
from ricci.dtypes import DType, Types
from ricci.ir.loops import Group, Program
from ricci.ir.nodes import Access, Tensor, integer
from ricci.passes import columns
from ricci.passes.machine import Machine
from ricci.passes.partial import points_of
from ricci.passes.pipeline import lower
from ricci.records import replace

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


def copies_of(program: Program) -> list[int]:
    """The bytes of the copies that groups make of a block of what they read."""
    return [
        4 * points_of(k.domain) // points_of(group.shared)
        for group in program.kernels
        if isinstance(group, Group)
        for k in group.kernels
        if isinstance(k.initial[0], Access) and not k.reduced and k.targets[0].tensor in group.local
    ]


@pytest.mark.parametrize(
    ("m", "n", "copied"),
    [
        (1024, 16384, [1 << 20]),
        (2048, 8192, [1 << 20]),
        (512, 8192, [512 << 10]),
        (1024, 16640, []),  # rows that fall on all lines
        (256, 16384, []),  # fewer, which stay
        (4096, 4096, []),  # more than the cache has room for
    ],
)
def test_rows_on_the_same_lines_are_copied(m: int, n: int, copied: list[int]) -> None:
    """Of processors that wait for what they read again."""
    text = f"{HEAD} -> (y) {{ {SOFTMAX} }}"
    graph = ricci.tc.define(text)["f"].graph
    sizes = {s: {"M": m, "N": n}[s.name] for s in graph.symbols}
    for clashes in (False, True):
        program = lower(graph, sizes, Types(), machine=Machine(clashes=clashes))
        assert copies_of(program) == (copied if clashes else [])
        assert copies_of(program) == [] or len(blocks_of(program)) == 1


@pytest.mark.parametrize(
    ("rows", "blocks", "columns_of", "clashes"),
    [
        (1024, 64, 256, True),
        (2048, 32, 256, True),
        (4096, 16, 256, False),  # more than the cache has room for
        (256, 256, 256, False),  # so little that it stays anyway
        (1024, 65, 256, False),  # 1 KB apart but for what is a multiple of all lines
        (1024, 66, 256, True),
    ],
)
def test_rows_that_clash(rows: int, blocks: int, columns_of: int, clashes: bool) -> None:
    kinds = ((rows, blocks, columns_of), (rows, blocks * columns_of), (rows * blocks, columns_of))
    finer, whole, other = (Tensor("x", DType.FLOAT32, tuple(map(integer, k))) for k in kinds)
    assert columns._clashes(finer, {finer: whole}) == clashes
    assert not columns._clashes(finer, {finer: other})
    assert not columns._clashes(finer, {})


def test_what_is_read_once_is_not_copied() -> None:
    text = """
        def f(float(M, N) X, float(M, N) W) -> (y, s) {
            m(j) max=! X(i, j)  s(j) +=! exp(W(i, j) - m(j))
            y(i, j) = exp(W(i, j) - m(j)) / s(j)
        }"""
    graph = ricci.tc.define(text)["f"].graph
    sizes = {s: {"M": 1024, "N": 16384}[s.name] for s in graph.symbols}
    program = lower(graph, sizes, Types(), machine=Machine(clashes=True))
    assert len(copies_of(program)) == 1


@pytest.mark.parametrize("body", [SOFTMAX, VARIANCE, SOFTMAX.replace("X(i, j)", "X(i, j) * Z(j)")])
def test_what_copies_give(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of small matrices, copied as large ones are."""
    monkeypatch.setattr(columns, "LARGE", 1 << 12)
    monkeypatch.setattr(columns, "_MOST_COPIED", 64 << 10)
    monkeypatch.setattr(columns, "NEAR_BYTES", 16 << 10)
    of, copy, found = machine.machine_of, columns._over_copy, list[Access]()

    def counted(group: Group, read: Access) -> Group:
        found.append(read)
        return copy(group, read)

    monkeypatch.setattr(machine, "machine_of", lambda target: replace(of(target), clashes=True))
    monkeypatch.setattr(columns, "_over_copy", counted)
    agree(f"{HEAD} -> (y) {{ {body} }}", *arrays(40, 4096))
    assert found
