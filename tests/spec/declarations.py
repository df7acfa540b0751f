"""Both dialects of the language, freely mixed, and the order of blocks (2.2, 2.15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .case import Call, Case

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def case(name: str, program: str, expected: Callable[..., Any], section: str = "2.2") -> Case:
    return Case(section, name, program, (X,), expected, "NumPy")


def rows(operators: str, call: str = "f(x)") -> str:
    """A graph from x[2, 3] to y[2, 3] that invokes an operator."""
    ports = "@input { x: real[2, 3]; } @output { y: real[2, 3]; }"
    return f"""
    graph G {{ {ports} @compose {{ y = {call}; }} }}
    {operators}"""


CASES = [
    case(
        "blocks in the reverse order",
        rows(
            """
        operator f {
            @lower { y[i..] = by * x[i..] + c[], i < s; }
            @assert { by > T(0); }
            @output { y: T[s..]; }
            @constant { c: T[] = by; }
            @using { by = a + T(1); }
            @input { x: T[s..]; }
            @attrib { a: T = T(1); }
            @dtype { T: num = real; }
        }
        """,
            "f<real>(x)",
        ),
        lambda x: 2 * x + 2,
    ),
    case(
        "blocks of all kinds that are empty",
        rows("""
        operator f {
            @dtype {} @attrib {} @using {} @constant {} @variable {} @assert {} @update {}
            @quantize {} @input { x: real[s..]; } @output { y: real[s..]; }
            @lower { y[i..] = -x[i..], i < s; }
        }
        """),
        lambda x: -x,
    ),
    case(
        "an import without its semicolon",
        "import math\nimport layout\n" + rows("", "math.neg(x)"),
        lambda x: -x,
        "2.15",
    ),
    case(
        "several modules in one import",
        "import math, layout;" + rows("", "math.neg(x)"),
        lambda x: -x,
        "2.15",
    ),
    case(
        "a module imported twice",
        "import math; import math;" + rows("", "math.neg(x)"),
        lambda x: -x,
        "2.15",
    ),
    case(
        "an operator of the main module by its full name",
        rows(
            """
        operator f { @input { x: real[s..]; } @output { y: real[s..]; }
            @lower { y[i..] = -x[i..], i < s; } }
        """,
            "main.f(x)",
        ),
        lambda x: -x,
        "2.15",
    ),
    Case(
        "2.15",
        "a module that is not imported",
        rows("", "math.neg(x)"),
        error="E0203",
        message="not imported",
    ),
    case(
        "minimum and maximum of the draft",
        rows("""
        operator f { @input { x: real[n,m]; } @output { y: real[n,m]; }
            @lower { y[i,j] = x[i,j] >> 0.0 << 1.0, i < n, j < m; } }
        """),
        lambda x: x.clip(0, 1),
    ),
    case(
        "minimum and maximum of the later dialect",
        rows("""
        operator f { @input { x: real[n,m]; } @output { y: real[n,m]; }
            @lower { y[i,j] = x[i,j] >? 0.0 <? 1.0, i < n, j < m; } }
        """),
        lambda x: x.clip(0, 1),
    ),
    case(
        "both in one formula, and functions with and without back-ticks",
        rows("""
        operator f { @input { x: real[n,m]; } @output { y: real[n,m]; }
            @lower { y[i,j] = `exp`(x[i,j] >> 0.0) + exp(x[i,j] <? 0.5), i < n, j < m; } }
        """),
        lambda x: np.exp(np.maximum(x, 0)) + np.exp(np.minimum(x, 0.5)),
    ),
    case(
        "updates of both dialects",
        rows("""
        operator f { @input { x: real[n,m]; } @output { y: real[n,m]; }
            @compose { a, b = ends(x); y = spread(a, b, x); } }
        operator ends { @input { x: real[n,m]; } @output { a: real[n]; b: real[n]; }
            @lower {
                a[i,] = inf, i < n;
                a[i,] <= x[i,j], i < n, j < m;
                b[i,] = -inf, i < n;
                b[i,] >?= x[i,j], i < n, j < m;
            } }
        operator spread { @input { a: real[n]; b: real[n]; x: real[n,m]; } @output { y: real[n,m]; }
            @lower { y[i,j] = b[i,] - a[i,] + x[i,j], i < n, j < m; } }
        """),
        lambda x: x + (x.max(1) - x.min(1))[:, None],
    ),
    case(
        "local values of both dialects",
        rows("""
        operator f { @input { x: real[n,m]; } @output { y: real[n,m]; }
            @compose { t = g(x); y = h(t); } }
        operator g { @input { x: real[n,m]; } @output { y: real[n,m]; }
            @lower { a = x[i,j] * x[i,j], y[i,j] = a + a * x[i,j], i < n, j < m; } }
        operator h { @input { x: real[n,m]; } @output { y: real[n,m]; }
            @lower { with a = x[i,j] + 1.0, b = a * a: y[i,j] = b - a, i < n, j < m; } }
        """),
        lambda x: (x**2 + x**3 + 1) ** 2 - (x**2 + x**3 + 1),
    ),
    case(
        "static and dynamic markers of the later dialect",
        rows(
            """
        operator f {
            @attrib { shape: dynamic int..(d); by: optional real; }
            @input { x: real[b, static n]; xs: optional real[static n]..(static k); }
            @output { y: real[b, n]; }
            @variable { w: real[n]; }
            @lower { y[i,j] = x[i,j] * (by ?? 2.0) + real(shape * ..), i < b, j < n; }
        }
        """,
            "f{shape=[2, 3]}(x)",
        ).replace("            @variable { w: real[n]; }\n", ""),
        lambda x: 2 * x + 6,
    ),
    case(
        "the literal words of both dialects",
        rows("""
        operator f { @input { x: real[n,m]; } @output { y: real[n,m]; }
            @using { text = 'it' "s"; on = true && !false; }
            @assert { on: "{text}"; }
            @lower { y[i,j] = x[i,j] + pi - pi, i < n, j < m; } }
        """),
        lambda x: x,
    ),
    Case(
        "2.2",
        "a graph without inputs",
        """
        graph G { @output { y: real[3]; z: real[]; } @compose { y = ones(); z = 2.5; } }
        operator ones { @output { y: real[3]; } @lower { y[i,] = real(i), i < 3; } }
        """,
        calls=[Call((), (np.arange(3.0), 2.5))],
    ),
    Case(
        "2.2",
        "an output that is an input, and one that is another output",
        """
        graph G { @input { x: real[2]; } @output { y: real[2]; z: real[2]; w: real[2]; }
            @compose { y = x; z = f(x); w = z; } }
        operator f { @input { x: real[n]; } @output { y: real[n]; }
            @lower { y[i,] = -x[i,], i < n; } }
        """,
        calls=[Call((np.array([1.0, 2.0]),), lambda x: (x, -x, -x))],
        oracle="NumPy",
    ),
]
