"""The last map of a group is done at a row while another one computes the next."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import nest_group, nest_uses
from ricci.ir.interpret import interpret
from ricci.passes import groups
from ricci.runtime.pool import this_machine

LATE = ".late("

LAST = {
    "quotients": "y[i,j,l] = p[i,j,l] / s[i,j,0]",
    "the other way round": "y[i,j,l] = p[i,j,k-1-l] / s[i,j,0] - p[i,j,l]",
    "with what was given": "y[i,j,l] = x[i,j,l] * s[i,j,0] - p[i,j,0]",
}


def text(shape: tuple[int, ...], last: str) -> str:
    sizes = ",".join(map(str, shape))
    return (
        f"import math; graph G {{ @input {{ x: real[{sizes}]; }} @output {{ y: real[{sizes}]; }}"
        " @compose { t = math.max_reduce{axes=[2]}(x); d = math.sub(x, t); p = math.exp(d);"
        " s = math.sum_reduce{axes=[2]}(p); y = last(x, p, s); } }\n"
        "operator last { @input { x: real[n,m,k]; p: real[n,m,k]; s: real[n,m,1]; }"
        " @output { y: real[n,m,k]; }"
        f" @lower {{ {last}, i < n, j < m, l < k; }} }}"
    )


def softmax(shape: tuple[int, ...]) -> ricci.Model:
    sizes = ",".join(map(str, shape))
    return ricci.parse(
        f"import nn; graph G {{ @input {{ x: real[{sizes}]; }} @output {{ y: real[{sizes}]; }}"
        f" @compose {{ y = nn.softmax{{axes=[{len(shape) - 1}]}}(x); }} }}",
        "skriptnd",
    )


def softmax_of(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    ("shape", "late"),
    [
        ((10, 21, 20_000), True),  # the last block has one row
        ((8, 5, 7, 16_384), True),
        ((33, 128_000), False),  # there is room for one row only
        ((10, 21, 20_011), False),  # no whole vectors, which can go past the caches
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_long_rows(shape: tuple[int, ...], late: bool, threads: int) -> None:
    model = softmax(shape)
    code = model.show("llvm", target="x86-64-v4")
    assert (LATE in code) == late
    assert "fixupimm" not in code  # no quotient is infinite
    x = np.random.default_rng(len(shape)).standard_normal(shape, np.float32)
    got = model.compile(threads=threads)(x)
    np.testing.assert_allclose(got, softmax_of(x), rtol=3e-6, atol=1e-9)


@pytest.mark.parametrize("columns", [512, 16_384])
def test_a_group_waits_once(columns: int) -> None:
    """Its kernels do not wait for what they write past the caches; the group does when it ends."""
    model = softmax(((1 << 23) // columns, columns))
    functions = model.show("llvm", target="x86-64-v4").split("\ndefine ")[1:]
    whole = [f for f in functions if not f.startswith("internal")]
    parts = [f for f in functions if f.startswith("internal")]
    assert any("nontemporal" in f for f in parts)
    assert not any("fence seq_cst" in f for f in parts)
    assert [f.count("fence seq_cst") for f in whole] == [1]
    assert whole[0].partition("fence seq_cst")[2].split() == ["ret", "void", "}"]


def test_where_results_begin() -> None:
    """Stores past the caches need whole lines; there is code for arrays that begin within one."""
    shape = (256, 20_480)
    model = softmax(shape)
    assert LATE in model.show("llvm")
    run = model.compile(threads=2)
    x = np.random.default_rng(2).standard_normal(shape, np.float32)
    want = softmax_of(x)
    memory = np.full(x.size + 64, 7, np.float32)
    for first in (0, 5, 16):
        out = memory[first : first + x.size].reshape(shape)
        run.into([out], x)
        np.testing.assert_allclose(out, want, rtol=3e-6, atol=1e-9)
        assert (memory[first + x.size :] == 7).all()
        memory[:] = 7


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("shape", [(4, 8, 96), (3, 13, 64), (5, 7, 32)])
@pytest.mark.parametrize("room", [1, 2, 5])
def test_as_the_interpreter_says(
    monkeypatch: pytest.MonkeyPatch, last: str, shape: tuple[int, ...], room: int
) -> None:
    """Small tensors taken for large, and `room` rows for what a block keeps."""
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    monkeypatch.setattr(groups, "LEAST_BYTES", 1)
    monkeypatch.setattr(groups, "LEAST_ROW", 1)
    monkeypatch.setattr(nest_uses, "LARGE", 1)
    monkeypatch.setattr(nest_group, "NEAR_BYTES", 1)
    row = 4 * shape[-1] + 8
    monkeypatch.setattr(nest_group, "LATE_BYTES", this_machine().l2 // (room * row + row // 2))
    model = ricci.parse(text(shape, LAST[last]), "skriptnd")
    assert (LATE in model.show("llvm")) == (room > 1)
    x = np.random.default_rng(room).standard_normal(shape, np.float32)
    want = interpret(model.graph, {"x": x})["y"]
    for threads in (1, 2):
        got = model.compile(threads=threads)(x)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
