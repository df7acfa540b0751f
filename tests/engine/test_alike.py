"""Kernels that are alike: generated once, run with their own tensors, and nothing else shared."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import alike

LAYERS = """
import nn;
graph G {
    @input { x: real[1,4,9,9]; }
    @variable { f: real[4,4,3,3]; g: real[4,4,3,3]; h: real[4,4,3,3]; b: real[4]; c: real[4]; }
    @output { y: real[1,4,9,9]; }
    @compose {
        s = nn.conv{padding = 1}(x, f, b); t = nn.relu(s);
        u = nn.conv{padding = 1}(t, g, c); v = nn.relu(u);
        w = nn.conv{padding = 1}(v, h, b); y = nn.relu(w);
    }
}
"""


def test_repeated_layers_are_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    seen = []
    generate = alike.generate
    monkeypatch.setattr(alike, "generate", lambda *a: seen.append(a[0].name) or generate(*a))
    model = ricci.parse(LAYERS)
    rng = np.random.default_rng(3)
    for tensor in model.graph.variables:
        model.variables[tensor.name] = rng.standard_normal(
            [int(str(e.value)) for e in tensor.shape]
        )
    x = rng.standard_normal((1, 4, 9, 9))
    native, plain = model.compile(), model.compile(target="interpreter", real="float64")
    np.testing.assert_allclose(native(x), plain(x), rtol=1e-4, atol=1e-4)
    assert len(seen) < 4, seen


def test_numbers_tell_kernels_apart() -> None:
    formulas = " ".join(f"y{k}[i,] = x[i,] * {v}, i < n;" for k, v in enumerate(("0.0", "-0.0")))
    run = ricci.parse(f"""
        operator f {{ @input {{ x: real[n]; }} @output {{ y0: real[n]; y1: real[n]; }}
            @lower {{ {formulas} }} }}
        graph G {{ @input {{ x: real[3]; }} @output {{ y: real[3]; z: real[3]; }}
            @compose {{ y, z = f(x); }} }}""").compile()
    y, z = run(np.ones(3))
    assert not np.signbit(y).any()
    assert np.signbit(z).all()


def test_a_failing_check_names_the_tensor_of_its_own_kernel() -> None:
    run = ricci.parse("""
        import layout;
        graph G { @input { first: real[4]; second: real[4]; at: int[2]; to: int[2]; }
            @output { y: real[2]; z: real[2]; }
            @compose { y = layout.gather{axis = 0}(first, at);
                       z = layout.gather{axis = 0}(second, to); } }""").compile()
    x, good, bad = np.ones(4), np.array([0, 3]), np.array([0, 4])
    for arguments, name in (((x, x, bad, good), "first"), ((x, x, good, bad), "second")):
        with pytest.raises(ricci.Error, match=name) as caught:
            run(*arguments)
        assert caught.value.diagnostics[0].code == "E0802"
