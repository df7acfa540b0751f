"""Variables and constants (2.7)."""

from __future__ import annotations

import numpy as np

from .case import Case
from .programs import program

X = np.arange(1.0, 4.0)
W = np.arange(6.0).reshape(2, 3)


def _constant(name: str, declaration: str, expected: object, given: str = "") -> Case:
    """The constant `c` of an operator with the attribute `n`, 3 unless it is given."""
    array = np.asarray(expected)
    kind = {"b": "bool", "i": "int", "f": "real"}[array.dtype.kind]
    text = program(
        f"""operator f {{ @attrib {{ n: int = 3; v: real = 0.5; p: int..(k) = [1, 2]; }}
        @constant {{ {declaration} }} @output {{ y: {kind}{list(array.shape)}; }}
        @compose {{ y = c; }} }}""",
        f"y = f{given}();",
        "",
        f"y: {kind};",
    )
    return Case("2.7", name, text, expected=array)


_SCALE = """operator scale { @attrib { m: int; } @input { x: real[n]; } @variable { w: real[m,n]; }
    @output { y: real[m]; } @compose { y = product(w, x); } }
    operator product { @input { w: real[m,n]; x: real[n]; } @output { y: real[m]; }
    @lower { y[i,] += w[i,j] * x[j,], i < m, j < n; } }"""

CASES = [
    _constant("uniform constant", "c: real[2,2] = 1.5;", np.full((2, 2), 1.5)),
    _constant("constant of rank zero", "c: int[] = n * n;", 9),
    _constant("uniform constant of an attribute", "c: real[n] = v;", np.full(3, 0.5)),
    _constant("list for all elements, row by row", "c: int[2,3] = [1, 2, 3, 4, 5, 6];",
              np.arange(1, 7).reshape(2, 3)),
    _constant("expression for all elements", "c: int[n] = [0:n] * 2;", np.arange(3) * 2),
    _constant("list from packs", "c: int[4] = [p.., 2 * p..];", np.array([1, 2, 2, 4])),
    _constant("identity matrix", "c: real[n,n] = i == j ? 1.0 : 0.0, i < n, j < n;", np.eye(3)),
    _constant("formula of indices", "c: real[2,n] = real(i) * v + real(j), i < 2, j < n;",
              np.add.outer(np.arange(2) * 0.5, np.arange(3.0))),
    _constant("formula of another size", "c: int[n,n] = i - j, i < n, j < n;",
              np.subtract.outer(np.arange(5), np.arange(5)), "{n = 5}"),
    _constant("formula with functions", "c: real[n] = `cos`(pi * real(i)), i < n;",
              np.array([1.0, -1.0, 1.0])),
    _constant("constant of bools", "c: bool[n] = i % 2 == 0, i < n;",
              np.array([True, False, True])),
    _constant("constant without elements", "c: real[0] = [];", np.zeros(0)),
    Case("2.7", "constant with the extent of an input", program(
        """operator f { @input { x: real[n]; } @constant { c: real[n] = real(i), i < n; }
        @output { y: real[n]; } @lower { y[i,] = x[i,] + c[i,], i < n; } }""",
        "y = f(x);", "x: real[3];"), (X,), lambda x: x + np.arange(3), "NumPy"),
    Case("2.7", "pack of constants", program(
        """operator f { @constant { cs: real[2]..(3) = [1.0, 2.0, 3.0]; } @output { y: real[2]; }
        @lower { y[i,] += cs[k][i,], i < 2, k < 3; } }""",
        "y = f();", ""), (), np.full(2, 6.0)),
    Case("2.7", "pack of constants of different shapes", program(
        """operator f { @constant { cs: real[..[2, 3]]..(2) = [1.0, 2.0]; } @output { y: real[5]; }
        @lower { y[2 * k + i,] = cs[k][i,], k < 2, i < 2 + k; } }""",
        "y = f();", ""), (), np.array([1.0, 1, 2, 2, 2])),
    Case("2.7", "variable of a graph", """
        graph G { @variable { w: real[2,3]; } @output { y: real[2,3]; } @compose { y = w; } }""",
        (), W, variables={"main.G.w": W}),
    Case("2.7", "variables of an operator, by label", program(
        _SCALE, "a = scale{m = 2}(x); b = second: scale{m = 3}(a); y = b;", "x: real[3];"),
        (X,), lambda x: W.T @ (W @ x), "NumPy",
        variables={"main.G.a.w": W, "main.G.second.w": W.T.copy()}),
    Case("2.7", "pack of variables", """
        operator total { @input { xs: real[n]..(k); } @output { y: real[n]; }
            @lower { y[i,] += xs[j][i,], i < n, j < k; } }
        graph G { @variable { ws: real[2]..(3); } @output { y: real[2]; }
            @compose { y = total(ws); } }""",
        (), np.array([9.0, 12.0]),
        variables={f"main.G.ws:{k + 1}": np.array([2.0 * k + 1, 2.0 * k + 2]) for k in range(3)}),
    Case("2.7", "variable of integers", """
        operator pick { @input { x: real[n]; at: int[k]; } @output { y: real[k]; }
            @lower { y[i,] = x[at[i,],], i < k; } }
        graph G { @input { x: real[3]; } @variable { at: int[2]; } @output { y: real[2]; }
            @compose { y = pick(x, at); } }""",
        (X,), X[[2, 0]], variables={"main.G.at": np.array([2, 0])}),
    Case("2.7", "variable without a value",
        "graph G { @variable { w: real[2]; } @output { y: real[2]; } @compose { y = w; } }",
        error="E0801", message=r"main\.G\.w"),
    Case("2.7", "variable of another shape",
        "graph G { @variable { w: real[2]; } @output { y: real[2]; } @compose { y = w; } }",
        error="E0705", message=r"main\.G\.w", variables={"main.G.w": X}),
]  # fmt: skip
