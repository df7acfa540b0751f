"""Products of items alone are done for all steps of a loop at once, ahead of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import ricci
from ricci.dtypes import Types
from ricci.ir.loops import Action, Reduce, Repeat, all_actions
from ricci.passes.pipeline import lower

TEXT = """
import layout, linalg, math;

graph Main {{
    @input {{
        x: real[{items}];
        w: real[3, 3];
        r: real[3, 3];
        n: int[];
    }}
    @output {{
        y: real[{out}, 2, 3];
    }}
    @compose {{
        {make}
        ~, ys = with s: real[2, 3] = 1.0 for z : xs do{count} {{
            a = math.tanh(z);
            b = linalg.matmul(a, w);
            c = linalg.matmul(s, r);
            t = math.add(b, c);
            yield t, t;
        }};
        y = layout.stack{{axis=0}}(ys);
    }}
}}
"""

SLICES = "xs..(5) = layout.unstack{axis=0}(x);"
INNER = "xs..(5) = layout.unstack{axis=1}(x);"
OWN = """ps..(5) = layout.unstack{axis=0}(x);
        p1 = math.sin(ps[1]);
        p2 = math.exp(ps[4]);
        xs = [p1, p2, ps[0]];"""


def model_of(items: str, out: int | str, make: str, count: str = "") -> ricci.Model:
    text = TEXT.format(items=items, out=out, make=make, count=count)
    return ricci.parse(text, "skriptnd")


def products(model: ricci.Model) -> tuple[list[int], list[int]]:
    """How many indices the products in front of the loop have, and those in it."""
    block = lower(model.graph, {}, Types()).actions
    inner = [a for loop in block if isinstance(loop, Repeat) for a in all_actions(loop.body)]
    return _indices_of_sums(block), _indices_of_sums(inner)


def _indices_of_sums(actions: Sequence[Action]) -> list[int]:
    return [len(k.domain) for k in actions if isinstance(k, Reduce) and k.reduced]


def expected(xs: list[np.ndarray], w: np.ndarray, r: np.ndarray, steps: int) -> np.ndarray:
    state, out = np.ones((2, 3)), []
    for x in xs[:steps]:
        state = np.tanh(x.astype(np.float64)) @ w + state @ r
        out.append(state)
    return np.stack(out)


@pytest.mark.parametrize("kind", ["slices", "inner", "own"])
def test_products_of_items_are_one_product(kind: str) -> None:
    rng = np.random.default_rng(1)
    shape = (2, 5, 3) if kind == "inner" else (5, 2, 3)
    make = {"inner": INNER, "own": OWN}.get(kind, SLICES)
    steps = 3 if kind == "own" else 5
    model = model_of(",".join(map(str, shape)), steps, make)
    x = rng.standard_normal(shape, np.float32)
    w, r = rng.standard_normal((2, 3, 3), np.float32) / 2
    xs = list(np.moveaxis(x, 1, 0)) if kind == "inner" else list(x)
    if kind == "own":
        xs = [np.sin(x[1]), np.exp(x[4]), x[0]]
    want = expected(xs, w, r, steps)
    assert np.allclose(model.compile()(x, w, r, 0), want, atol=1e-5)
    assert np.allclose(model.compile("interpreter")(x, w, r, 0), want, atol=1e-5)
    assert products(model) == ([3], [2])


def test_data_that_ends_a_loop_keeps_products_in_it() -> None:
    model = model_of("5, 2, 3", "~|5", SLICES, "..(n)")
    x = np.random.default_rng(2).standard_normal((5, 2, 3), np.float32)
    w, r = np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32)
    assert np.allclose(model.compile()(x, w, r, 2), expected(list(x), w, r, 2), atol=1e-5)
    assert products(model) == ([], [2, 2])
