"""Attributes that are known only when the graph runs: the sizes of its inputs (`dynamic`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ricci

from ..compare import TARGETS, Array

Expected = Callable[[Array, int], Array]
CALLS: list[tuple[str, str, Expected]] = [
    ("layout.tensor{value=n}()", "int[]", lambda x, n: np.array(n)),
    ("layout.tensor{value=x.shape[0]}()", "int[]", lambda x, n: np.array(n)),
    ("layout.tensor{shape=[2], value=[n, n + 1]}()", "int[2]", lambda x, n: np.array([n, n + 1])),
    ("layout.tensor{shape=[n, 2], value=4.0}()", "real[~,2]", lambda x, n: np.full((n, 2), 4.0)),
    ("layout.constant{shape=[n], value=4}()", "int[~]", lambda x, n: np.full(n, 4)),
    ("layout.uniform{shape=[2, n]}(1.0)", "real[2,~]", lambda x, n: np.ones((2, n))),
    ("layout.range{first=0, last=n}()", "int[~]", lambda x, n: np.arange(n)),
    ("layout.range{first=n, last=0, stride=-1}()", "int[~]", lambda x, n: np.arange(n, 0, -1)),
    ("layout.reshape{shape=[2, n]}(x)", "real[2,~]", lambda x, n: x.reshape(2, n)),
    ("layout.reshape{shape=[2, -1]}(x)", "real[2,~]", lambda x, n: x.reshape(2, n)),
    ("layout.unflatten{axis=0, shape=[n, 1]}(x)", "real[~,1,2]", lambda x, n: x[:, None]),
    ("layout.split{axis=0, sizes=[1, n - 1]}(x)", "real[~,2]", lambda x, n: x[1:]),
    ("layout.slice{axes=[0], begin=1, end=n}(x)", "real[~,2]", lambda x, n: x[1:]),
    ("layout.slice{axes=[0], begin=n - 1, end=n}(x)", "real[~,2]", lambda x, n: x[-1:]),
    ("layout.pad{padding=[0, 0, n, 0]}(x)", "real[~,2]", lambda x, n: np.pad(x, ((0, n), (0, 0)))),
    ("layout.broadcast{axes=[0], shape=[n]}(z)", "real[~,2]", lambda x, n: x[:1].repeat(n, 0)),
    ("layout.tile{axes=[0], repeats=[n]}(z)", "real[~,2]", lambda x, n: x[:1].repeat(n, 0)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("call", "type", "expected"), CALLS, ids=[c[0] for c in CALLS])
def test_sizes_are_attributes(call: str, type: str, expected: Expected, target: str) -> None:
    result = "[~, y]" if "split" in call else "y"
    text = f"""
import layout;
graph G {{
    @input {{ x: real[n|6, 2]; z: real[1, 2]; }}
    @output {{ y: {type}; }}
    @compose {{ {result} = {call}; }}
}}
"""
    run = ricci.parse(text).compile(target=target)
    for n in (3, 1, 6):
        x = np.arange(2.0 * n).reshape(n, 2)
        got, want = run(x, x[:1]), expected(x, n)
        assert got.dtype.kind == want.dtype.kind
        assert np.array_equal(got, want)


@pytest.mark.parametrize("operator", ["tensor", "constant"])
def test_one_value_fills_a_tensor_of_any_size(operator: str) -> None:
    call = f"layout.{operator}{{shape=[2000, 2000], value=2.0}}()"
    text = (
        f"import layout; graph G {{ @output {{ y: real[2000,2000]; }} @compose {{ y = {call}; }} }}"
    )
    model = ricci.parse(text)
    assert len(model.show("ir")) < 400
    assert (model.compile()() == 2.0).all()
