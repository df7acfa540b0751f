"""The recurrent operators as the draft writes them, and steps that are refused."""

from __future__ import annotations

import numpy as np
import pytest

import ricci

from ..compare import TARGETS, Array

DRAFT = """
import nn, math, layout;

operator _lstm_step {
    @input {
        h0: real[b,n]; c0: real[b,n]; x: real[b,c];
        W: real[4*n,c]; R: real[4*n,n]; B: real[4*n];
    }
    @output { h1: real[b,n]; c1: real[b,n]; }
    @compose {
        y = nn.linear(x, W, B);
        z = nn.linear(h0, R);
        s = math.add(y, z);
        [i, f, g, o] = layout.split{axis=1, count=4}(s);
        sf = nn.sigmoid(f);
        si = nn.sigmoid(i);
        so = nn.sigmoid(o);
        tg = math.tanh(g);
        c1 = math.axpby(sf, c0, si, tg);
        tc = math.tanh(c1);
        h1 = math.mul(so, tc);
    }
}

operator _lstm_loop {
    @input {
        X: real[s,b,c]; W: real[4*n,c]; R: real[4*n,n]; B: real[4*n];
        h0: real[b,n]; c0: real[b,n]; steps: optional int[];
    }
    @output { Y: real[~|s,b,n]; hN: real[b,n]; cN: real[b,n]; }
    @compose {
        Xs..(s) = layout.unstack{axis=0}(X);
        hN, cN, hs = with hi = h0, ci = c0 for Xi : Xs do..(steps) {
            h1, c1 = step: _lstm_step(hi, ci, Xi, W, R, B);
            yield h1, c1, h1;
        };
        Y = layout.stack{axis=0}(hs);
    }
}

operator _jagged_lstm_loops {
    @input {
        X: real[s,b,c]; W: real[4*n,c]; R: real[4*n,n]; B: real[4*n];
        h0: real[b,n]; c0: real[b,n]; steps: int[b];
    }
    @output { Y: real[~|s,b,n]; hN: real[b,n]; cN: real[b,n]; }
    @compose {
        counts..(b) = layout.unstack{axis=0}(steps);
        Xs: real[s,1,c]..(b) = layout.unstack{axis=1, squeeze=false}(X);
        h0s: real[1,n]..(b) = layout.unstack{axis=0, squeeze=false}(h0);
        c0s: real[1,n]..(b) = layout.unstack{axis=0, squeeze=false}(c0);
        Ys..(b), hNs..(b), cNs..(b) =
            for Xi : Xs, h0i : h0s, c0i : c0s, cnt : counts do..(b)
                item: _lstm_loop(Xi, W, R, B, h0i, c0i, cnt);
        Y = layout.stack{axis=1, squeeze=true}(Ys);
        hN = layout.stack{axis=0, squeeze=true}(hNs);
        cN = layout.stack{axis=0, squeeze=true}(cNs);
    }
}

operator lstm {
    @input {
        X: real[s,b,c]; W: real[4*n,c]; R: real[4*n,n]; B: real[4*n];
        h0: real[b,n] = 0.0; c0: real[b,n] = 0.0; steps: optional int[b];
    }
    @output { Y: real[~|s,b,n]; hN: real[b,n]; cN: real[b,n]; }
    @compose {
        Y, hN, cN = if ?steps then
                        _jagged_lstm_loops(X, W, R, B, h0, c0, steps)
                    else
                        _lstm_loop(X, W, R, B, h0, c0);
    }
}

graph G {
    @input {
        X: real[5,3,2]; W: real[16,2]; R: real[16,4]; B: real[16];
        h0: real[3,4]; steps: optional int[3];
    }
    @output { Y: real[~|5,3,4]; hN: real[3,4]; cN: real[3,4]; }
    @compose { Y, hN, cN = CALLED(X, W, R, B, h0, ~, steps); }
}
"""
SHAPES = ((5, 3, 2), (16, 2), (16, 4), (16,), (3, 4))


def _run(operator: str, steps: list[int] | None, target: str) -> list[Array]:
    absent = {"steps": None} if steps is None else {}
    model = ricci.parse(DRAFT.replace("CALLED", operator), attribs=absent)
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, shape) for shape in SHAPES]
    if steps is not None:
        arrays.append(np.array(steps))
    return list(model.compile(target=target, real="float64")(*arrays))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", [None, [4, 4, 4], [1, 1, 1], [0, 0, 0]])
def test_loops_of_the_draft_give_what_the_library_gives(
    steps: list[int] | None, target: str
) -> None:
    ours, draft = _run("nn.lstm", steps, "interpreter"), _run("lstm", steps, target)
    assert ours[0].shape == (5 if steps is None else steps[0], 3, 4)
    assert all(np.allclose(a, b, rtol=1e-12) for a, b in zip(ours, draft, strict=True))


@pytest.mark.parametrize("target", TARGETS)
def test_steps_of_different_length_are_not_stacked(target: str) -> None:
    with pytest.raises(ricci.Error, match="dimension 0 of `inputs`"):
        _run("lstm", [4, 2, 5], target)
    y, h, _ = _run("nn.lstm", [4, 2, 5], target)
    assert np.array_equal(h, [y[3, 0], y[1, 1], y[4, 2]])
    assert not y[4, 0].any()
    assert not y[2:, 1].any()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", [[6, 1, 1], [-1, -1, -2]])
def test_steps_that_there_are_not(steps: list[int], target: str) -> None:
    with pytest.raises(ricci.Error, match="E0804"):
        _run("nn.lstm", steps, target)


OPEN = """
import nn;
graph G {
    @input { X: real[s|7,b|6,2]; W: real[16,2]; R: real[16,4]; B: real[16]; steps: int[b]; }
    @output { Y: real[~,~,4]; Z: real[~,~,4]; hN: real[~,4]; }
    @compose {
        Y, ~, ~ = nn.lstm(X, W, R, B);
        Z, hN, ~ = nn.lstm(X, W, R, B, ~, ~, steps);
    }
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_time_and_batch_may_be_open(target: str) -> None:
    run = ricci.parse(OPEN).compile(target=target, real="float64")
    rng = np.random.default_rng(0)
    weights = [rng.uniform(-1, 1, shape) for shape in SHAPES[1:4]]
    for steps in ([3, 1], [0, 5, 2, 4]):
        x = rng.uniform(-1, 1, (5, len(steps), 2))
        y, z, h = run(x, *weights, np.array(steps))
        assert y.shape == (5, len(steps), 4)
        assert z.shape == (max(steps), len(steps), 4)
        for item, count in enumerate(steps):
            assert np.allclose(z[:count, item], y[:count, item], rtol=1e-12)
            assert not z[count:, item].any()
            assert np.allclose(h[item], y[count - 1, item] if count else 0.0, rtol=1e-12)
