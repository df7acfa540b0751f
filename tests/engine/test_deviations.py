"""Squared deviations over long rows, made from pieces: where that is done, and that sums agree."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.dtypes import Types
from ricci.ir.loops import Group, Program, Reduce
from ricci.ir.text_loops import format_program
from ricci.passes.pipeline import lower

LONG, SHORT = 150_000, 20_000
"""Elements of a row: more than a core's caches hold, and less."""
HEAD = "def f(float(N, K) X, float(N, K) Y)"
MEAN = "m(i) +=! X(i, k)  m(i) = m(i) / K"
SQUARES = "v(i) +=! (X(i, k) - m(i)) * (X(i, k) - m(i))"


def lowered(text: str, **sizes: int) -> Program:
    graph = ricci.tc.define(text)["f"].graph
    return lower(graph, {s: sizes[s.name] for s in graph.symbols}, Types())


def has_pieces(program: Program) -> bool:
    """Whether some sums are made from pieces of rows."""
    kernels = [a for a in program.actions if isinstance(a, Reduce | Group)]
    return any(i.name == "piece" for k in kernels if isinstance(k, Group) for i in k.shared)


def rows(seed: int, *shape: int, offset: float = 0.0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) + offset).astype(np.float32)


@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("n", [1, 5])
def test_mean_and_variance(n: int, offset: float) -> None:
    text = f"{HEAD} -> (m, v) {{ {MEAN}  {SQUARES} }}"
    assert has_pieces(lowered(text, N=n, K=LONG)) or n == 1
    x = rows(n, n, LONG, offset=offset)
    m, v = ricci.tc.define(text, threads=2)["f"](x, x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(m, wide.mean(1), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(v / LONG, wide.var(1), rtol=1e-5)


def test_whatever_is_taken_off() -> None:
    """The sum of a row instead of its mean; and an element of each row is an expression."""
    text = (
        f"{HEAD} -> (s, v) {{ s(i) +=! X(i, k) * 2 + Y(i, k)"
        "  v(i) +=! (X(i, k) * 2 + Y(i, k) - s(i)) * (X(i, k) * 2 + Y(i, k) - s(i)) }"
    )
    assert has_pieces(lowered(text, N=4, K=LONG))
    x, y = rows(1, 4, LONG), rows(2, 4, LONG)
    s, v = ricci.tc.define(text, threads=2)["f"](x, y)
    term = x.astype(np.float64) * 2 + y
    np.testing.assert_allclose(s, term.sum(1), rtol=1e-5, atol=0.05)
    # against the sum as it is, since that is what is squared
    np.testing.assert_allclose(v, ((term - s[:, None]) ** 2).sum(1), rtol=1e-5)


def test_rows_of_several_indices() -> None:
    text = (
        "def f(float(N, C, H, W) X) -> (m, v) { m(c) +=! X(n, c, h, w)  m(c) = m(c) / (N * H * W)"
        "  v(c) +=! (X(n, c, h, w) - m(c)) * (X(n, c, h, w) - m(c)) }"
    )
    assert has_pieces(lowered(text, N=20, C=6, H=96, W=80))
    x = rows(3, 20, 6, 96, 80, offset=3)
    m, v = ricci.tc.define(text, threads=2)["f"](x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(m, wide.mean((0, 2, 3)), rtol=1e-6)
    apart = wide - wide.mean((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(v, (apart**2).sum((0, 2, 3)), rtol=1e-5)


def test_nan_and_infinity_stay() -> None:
    text = f"{HEAD} -> (m, v) {{ {MEAN}  {SQUARES} }}"
    x = rows(4, 4, LONG)
    x[1, 77], x[2, LONG - 1] = np.nan, np.inf
    m, v = ricci.tc.define(text, threads=2)["f"](x, x)
    assert np.isfinite(v[[0, 3]]).all()
    assert np.isnan(m[1]) and np.isinf(m[2]) and np.isnan(v[[1, 2]]).all()


@pytest.mark.parametrize(
    ("body", "size"),
    [
        (f"{MEAN}  {SQUARES}", SHORT),
        (f"{MEAN}  {SQUARES}", 150_001),  # which no small number divides
        (f"m(i) +=! Y(i, k)  {SQUARES}", LONG),
        (f"m(i) +=! X(i, k) * X(i, k)  {SQUARES}", LONG),
        (f"m(i) max=! X(i, k)  {SQUARES}", LONG),
        (f"{MEAN}  v(i) +=! (X(i, k) - m(i)) * (X(i, k) + m(i))", LONG),
        (f"{MEAN}  v(i) +=! fabs(X(i, k) - m(i))", LONG),
        (f"{MEAN}  v(i) max=! (X(i, k) - m(i)) * (X(i, k) - m(i))", LONG),
    ],
)
def test_what_is_left_as_it_is(body: str, size: int) -> None:
    assert not has_pieces(lowered(f"{HEAD} -> (m, v) {{ {body} }}", N=4, K=size))


NORMAL = "y(i, k) = (X(i, k) - m(i)) / sqrt(v(i) / K + 1e-5)"


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_pieces_within_rows(offset: float) -> None:
    """What follows is done row by row, while the third cache has a row; its pieces within that."""
    text = f"{HEAD} -> (y) {{ {MEAN}  {SQUARES}  {NORMAL} }}"
    (group,) = lowered(text, N=18, K=LONG).kernels
    assert isinstance(group, Group)
    assert group.pieces == (0, 1)
    assert len(group.kernels) == 5
    assert [i.name for i in group.shared] == ["i"]
    assert "together for piece < " in format_program(lowered(text, N=18, K=LONG))
    x = rows(5, 18, LONG, offset=offset)
    wide = x.astype(np.float64)
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    for threads in (1, 2):
        y = ricci.tc.define(text, threads=threads)["f"](x, x)
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)


def test_pieces_of_few_rows_stay_by_themselves() -> None:
    text = f"{HEAD} -> (y) {{ {MEAN}  {SQUARES}  {NORMAL} }}"
    found = [k for k in lowered(text, N=4, K=LONG).kernels if isinstance(k, Group)]
    assert [len(k.shared) for k in found] == [2]
    x = rows(6, 4, LONG)
    y = ricci.tc.define(text, threads=2)["f"](x, x)
    np.testing.assert_allclose(y.std(1), 1, rtol=1e-4)


@pytest.mark.parametrize("batch", [1, 3])
def test_groups_of_channels_of_any_number_of_images(batch: int) -> None:
    """With one image, too, scale and offset of channels are part of the last map."""
    shape = (batch, 32, 120, 120)
    model = ricci.parse(
        f"""import nn; import layout; import math; graph G {{
            @input {{ x: real[{batch},32,120,120]; w: real[32]; b: real[32]; }}
            @output {{ y: real[{batch},32,120,120]; }}
            @compose {{
                parts = layout.reshape{{shape=[{batch},16,28800]}}(x);
                normal = nn.mean_variance_norm{{axes=[2]}}(parts);
                whole = layout.reshape{{shape=[{batch},32,120,120]}}(normal);
                scaled = math.mul{{rhs_align=1}}(whole, w);
                y = math.add{{rhs_align=1}}(scaled, b);
            }}
        }}""",
        "skriptnd",
    )
    (group,) = lower(model.graph, {}, Types()).kernels
    assert isinstance(group, Group)
    x, w, b = rows(7, *shape), rows(8, 32), rows(9, 32)
    wide = x.astype(np.float64).reshape(batch, 16, -1)
    normal = (wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-5)
    want = normal.reshape(shape) * w[:, None, None] + b[:, None, None]
    np.testing.assert_allclose(model.compile(threads=2)(x, w, b), want, rtol=1e-4, atol=1e-4)
