"""Constants behind sums move into them, and lie as kernels read them."""

from __future__ import annotations

import numpy as np
import pytest

import ricci

OPERATOR = """
operator sums {
    @input {
        x: real[n, c, h];
        w: real[m, c, k];
        t: real[m];
    }
    @output {
        y: real[n, m, h - k + 1];
    }
    @lower {
        y[b, i, j] = START,
            b < n, i < m, j < h - k + 1;
        y[b, i, j] += x[b, l, j + d] * w[i, l, d],
            b < n, i < m, j < h - k + 1, l < c, d < k;
    }
}

operator after {
    @input {
        q: real[n, m, g];
        x: real[n, c, h];
        s: real[m];
        t: real[m];
        u: real[m];
    }
    @output {
        y: real[n, m, g];
    }
    @lower {
        y[b, i, j] = AFTER,
            b < n, i < m, j < g;
    }
}

graph G {
    @input {
        x: real[2, 20, 9];
    }
    @variable {
        w: real[12, 20, 3];
        s: real[12];
        t: real[12];
        u: real[12];
    }
    @output {
        y: real[2, 12, 7];
    }
    @compose {
        q = sums(x, w, t);
        y = after(q, x, s, t, u);
    }
}
"""

SUM = "q[b, i, j]"
CASES = {
    "factor": ("0.0", f"{SUM} * s[i,]", True),
    "factor first": ("0.0", f"s[i,] * {SUM}", True),
    "normalised": ("0.0", f"({SUM} - t[i,]) / sqrt(u[i,] + 0.001) * s[i,] + t[i,]", True),
    "begun": ("t[i,]", f"({SUM} + u[i,]) * s[i,]", True),
    "terms": ("t[i,]", f"{SUM} + u[i,] - s[i,]", True),
    "number": ("0.0", f"{SUM} * 0.125 + 3.0", True),
    "nothing": ("0.0", f"{SUM} * 0.0 + t[i,]", True),
    "taken off": ("0.0", f"t[i,] - {SUM} * s[i,]", True),
    "of both": ("0.0", f"{SUM} * s[i,] + {SUM}", False),
    "also of a function": ("0.0", f"{SUM} * s[i,] + tanh({SUM})", False),
    "function": ("0.0", f"({SUM} >> 0.0) * s[i,]", False),
    "divided by": ("0.0", f"s[i,] / ({SUM} + 100.0)", False),
    "of what varies": ("0.0", f"{SUM} * x[b, i, j]", False),
    "square": ("0.0", f"{SUM} * {SUM} * s[i,]", False),
}


@pytest.mark.parametrize("real", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_constants_behind_a_sum(name: str, real: str) -> None:
    """The same numbers as without, and where it can be no multiplication behind the sum."""
    start, after, moves = CASES[name]
    model = ricci.parse(OPERATOR.replace("START", start).replace("AFTER", after))
    draw = np.random.default_rng(7).standard_normal
    for variable, shape in {"w": (12, 20, 3), "s": (12,), "t": (12,), "u": (12,)}.items():
        value = draw(shape)
        model.variables[f"main.G.{variable}"] = np.abs(value) if variable == "u" else value
    x = draw((2, 20, 9))
    run = model.compile(real=real)
    meant = model.compile("interpreter", real="float64")
    bound = 2e-6 if real == "float32" else 1e-13
    for _ in range(2):
        found, expected = run(x), meant(x)
        assert np.abs(found - expected).max() <= bound * np.abs(expected).max()
        for executable in (run, meant):  # what was derived from it follows
            executable.variables["main.G.s"] = np.arange(12.0)
    assert ("factor" in model.show("loops") or "start" in model.show("loops")) == moves


def test_infinite_factors() -> None:
    """What a factor makes infinite is so."""
    start, after, _ = CASES["factor"]
    model = ricci.parse(OPERATOR.replace("START", start).replace("AFTER", after))
    for variable, shape in {"w": (12, 20, 3), "s": (12,), "t": (12,), "u": (12,)}.items():
        model.variables[f"main.G.{variable}"] = np.ones(shape)
    model.variables["main.G.s"] = np.full(12, np.inf)
    found = model.compile()(np.ones((2, 20, 9)))
    assert np.isposinf(found).all()


ELEMENTS = {
    "a few of each map": ("x[b, i, j + d]", "w[i, d]", True),
    "a factor of each map besides": ("x[b, i, j + d]", "w[i, d] * u[i,]", True),
    "few of all maps": ("x[b, 0, j + d]", "w[i, d]", False),
}


@pytest.mark.parametrize(("element", "factor", "moves"), ELEMENTS.values(), ids=ELEMENTS)
def test_sums_of_few_terms(element: str, factor: str, moves: bool) -> None:
    """A constant of its own holds products with the factor, where results share no operand."""
    ports = "s: real[24]; t: real[24]; u: real[24]; w: real[24, 3];"
    model = ricci.parse(
        f"""operator f {{
            @input {{ x: real[2, 24, 9]; {ports} }}
            @output {{ y: real[2, 24, 7]; }}
            @lower {{
                y[b, i, j] = 0.0, b < 2, i < 24, j < 7;
                y[b, i, j] += {element} * {factor}, b < 2, i < 24, j < 7, d < 3;
            }}
        }}
        operator g {{
            @input {{ q: real[2, 24, 7]; s: real[24]; t: real[24]; }}
            @output {{ y: real[2, 24, 7]; }}
            @lower {{ y[b, i, j] = (q[b, i, j] - t[i,]) * s[i,], b < 2, i < 24, j < 7; }}
        }}
        graph G {{
            @input {{ x: real[2, 24, 9]; }}
            @variable {{ {ports} }}
            @output {{ y: real[2, 24, 7]; }}
            @compose {{ q = f(x, s, t, u, w); y = g(q, s, t); }}
        }}"""
    )
    rng = np.random.default_rng(0)
    for variable, shape in (("s", 24), ("t", 24), ("u", 24), ("w", (24, 3))):
        model.variables[f"main.G.{variable}"] = rng.standard_normal(shape, np.float32)
    x = rng.standard_normal((2, 24, 9), np.float32)
    want = model.compile(target="interpreter")(x)
    np.testing.assert_allclose(model.compile()(x), want, rtol=1e-5, atol=1e-5)
    assert ("scaled" in model.show("loops")) == moves


@pytest.mark.parametrize(("index", "size"), [("i + k - 1", 20), ("i + 2 * k", 60)])
def test_operands_with_other_indices(index: str, size: int) -> None:
    """No constant of its own: an element may be of no term, or of many."""
    model = ricci.parse(f"""
        operator f {{ @input {{ x: real[20]; w: real[{size}]; }} @output {{ y: real[20]; }}
            @lower {{ y[i,] = 0.0, i < 20;
                y[i,] += x[|i + k - 1|,] * w[{index},], i < 20, k < 3; }} }}
        operator g {{ @input {{ q: real[20]; }} @output {{ y: real[20]; }}
            @lower {{ y[i,] = q[i,] * 0.125, i < 20; }} }}
        graph G {{ @input {{ x: real[20]; }} @variable {{ w: real[{size}]; }}
            @output {{ y: real[20]; }} @compose {{ q = f(x, w); y = g(q); }} }}""")
    model.variables["main.G.w"] = np.arange(1.0, size + 1)
    x = np.arange(20, dtype=np.float32)
    want = model.compile(target="interpreter")(x)
    np.testing.assert_allclose(model.compile(threads=1)(x), want, rtol=1e-6)
    assert "scaled" not in model.show("loops")
