"""Dynamic shapes: sizes that the inputs, or the data, define (specification 2.6, 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..compare import Array
from .case import Call, Case

OPERATORS = """
import math;
import layout;

operator add {
    @input { x: real[s..]; y: real[s..]; } @output { z: real[s..]; }
    @lower { z[i..] = x[i..] + y[i..], i < s; } }
operator twice {
    @input { x: real[n]; } @output { y: real[2 * n]; }
    @lower { y[i,] = x[i / 2,], i < 2 * n; } }
operator odd {
    @input { x: real[2 * n + 1]; } @output { y: real[n]; }
    @lower { y[i,] = x[2 * i + 1,], i < n; } }
operator mean {
    @input { x: real[n]; } @output { y: real[]; }
    @lower { y[] += x[i,] / real(n), i < n; } }
operator four {
    @input { x: real[4]; } @output { y: real[4]; }
    @lower { y[i,] = 2.0 * x[i,], i < 4; } }
operator sizes {
    @input { x: real[s..(d)]; } @output { y: int[d]; }
    @lower { y[i,] = x.shape[i], i < d; } }
operator stack {
    @input { x: real[n,m]; y: real[k,m]; } @output { z: real[n + k,m]; }
    @lower { z[i,j] = i < n ? x[i,j] : y[i - n,j], i < n + k, j < m; } }
operator at_least {
    @attrib { least: int; } @input { x: real[n]; } @output { y: real[n]; }
    @assert { n >= least: "{n} is less than {least}", n; }
    @lower { y[i,] = x[i,] + 1.0, i < n; } }
operator nest {
    @input { x: real[n]; } @output { y: real[n]; }
    @compose { t = at_least{least=2}(x); y = at_least{least=1}(t); } }
operator window {
    @attrib { size: int; } @input { x: real[n]; } @output { y: real[n - size + 1]; }
    @lower { y[i,] += x[i + j,], i < n - size + 1, j < size; } }
operator chunks {
    @attrib { size: int; } @input { x: real[n]; } @output { y: real[n \\ size, size]; }
    @lower { y[i,j] = 0.0, i < n \\ size, j < size;
             y[i,j] := x[|size * i + j|,], i < n \\ size, j < size; } }
operator positions {
    @input { x: real[n]; } @output { p: int[~|n]; }
    @compose { all = layout.nonzero(x); p = first_row(all); } }
operator first_row {
    @input { x: int[m,n]; } @output { y: int[n]; }
    @lower { y[i,] = x[0,i], i < n; } }
operator take {
    @input { x: real[n]; p: int[k]; } @output { y: real[k]; }
    @lower { y[i,] = x[p[i,],], i < k; } }
operator count {
    @input { x: int[n]; } @output { y: int[]; }
    @lower { y[] = n; } }
"""


def line(count: int) -> Array:
    return np.arange(1.0, count + 1)


def grid(*shape: int) -> Array:
    return np.arange(float(np.prod(shape))).reshape(shape)


def case(
    name: str,
    graph: str,
    calls: list[Call],
    section: str = "3.1",
    oracle: str = "NumPy",
    **more: Any,
) -> Case:
    program = OPERATORS + graph
    return Case(section, name, program, oracle=oracle, calls=calls, **more)


def rejected(name: str, graph: str, error: str, message: str = "", section: str = "3.1") -> Case:
    return Case(section, name, OPERATORS + graph, error=error, message=message)


def sizes_of(function: Callable[..., Any], *sizes: int) -> list[Call]:
    """Calls with vectors of several lengths, after each other."""
    return [Call((line(n),), function) for n in sizes]


def graph(inputs: str, outputs: str, body: str, blocks: str = "") -> str:
    ports = f"@input {{ {inputs} }} @output {{ {outputs} }}"
    return f"graph G {{ {ports} {blocks} @compose {{ {body} }} }}"


def moving_sum(x: Array) -> Array:
    return np.convolve(x, np.ones(3), "valid")


def in_chunks(x: Array) -> Array:
    return np.pad(x, (0, -len(x) % 3)).reshape(-1, 3)


def chosen(x: Array) -> Array:
    return x[x != 0]


CASES = [
    # ------------------------------------------------------------- sizes of inputs
    case(
        "one size for two inputs",
        graph("x: real[s|10]; y: real[s];", "z: real[s];", "z = add(x, y);"),
        [
            Call((line(3), line(3)), lambda x, y: x + y),
            Call((line(10), line(10)), lambda x, y: x + y),
            Call((line(0), line(0)), lambda x, y: x + y),
            Call((line(3), line(4)), error="E0804", message="s = 3"),
            Call((line(11), line(11)), error="E0804", message="`s` is 11, more than its bound 10"),
        ],
        section="2.6",
    ),
    case(
        "the bound of a size may be written again",
        graph("x: real[s|10]; y: real[s|10];", "z: real[s];", "z = add(x, y);"),
        [
            Call((line(3), line(3)), lambda x, y: x + y),
            Call((line(3), line(4)), error="E0804"),
        ],
        section="2.6",
    ),
    case(
        "a size that is declared after its use",
        graph("y: real[s]; x: real[s|10];", "z: real[s];", "z = add(x, y);"),
        [
            Call((line(3), line(3)), lambda x, y: x + y),
            Call((line(3), line(4)), error="E0804"),
        ],
        section="2.6",
    ),
    rejected(
        "two bounds of one size",
        graph("x: real[s|10]; y: real[s|11];", "z: real[s];", "z = add(x, y);"),
        "E0417",
        "10 and 11",
        "2.6",
    ),
    rejected(
        "a size without a bound",
        graph("x: real[s];", "y: real[s];", "y = add(x, x);"),
        "E0417",
        "upper bound",
        "2.6",
    ),
    rejected(
        "an extent left out without a bound",
        graph("x: real[~];", "y: real;", "y = add(x, x);"),
        "E0417",
        "upper bound",
        "2.6",
    ),
    rejected(
        "a shape left out",
        graph("x: real;", "y: real;", "y = add(x, x);"),
        "E0417",
        "shape",
        "2.6",
    ),
    rejected(
        "a negative bound",
        graph("x: real[s|-1];", "y: real;", "y = add(x, x);"),
        "E0416",
        "bound",
        "2.6",
    ),
    case(
        "an extent left out has a size of its own",
        graph("x: real[~|10]; y: real[~|10];", "z: real[~];", "z = add(x, y);"),
        [
            Call((line(3), line(3)), lambda x, y: x + y),
            Call((line(3), line(4)), error="E0501", message=r"4 \(`y.shape\[0\]`\).*3 \(`x.shape"),
            Call((line(11), line(11)), error="E0804", message=r"`x.shape\[0\]` is 11"),
        ],
        section="2.6",
    ),
    case(
        "extents of several dimensions left out",
        graph("x: real[~|4, ~|5];", "y: real;", "y = add(x, x);"),
        [
            Call((grid(2, 3),), lambda x: 2 * x),
            Call((grid(4, 5),), lambda x: 2 * x),
            Call((grid(4, 6),), error="E0804", message=r"shape\[1\]"),
            Call((grid(4),), error="E0801"),
        ],
        section="2.6",
    ),
    case(
        "a pack of extents left out",
        graph("x: real[~|5 ..(3)];", "y: real;", "y = add(x, x);"),
        [
            Call((grid(2, 3, 1),), lambda x: 2 * x),
            Call((grid(1, 6, 1),), error="E0804"),
        ],
        section="2.6",
    ),
    case(
        "a pack of sizes",
        graph("x: real[s|5 ..(2)]; y: real[s..];", "z: real[s..];", "z = add(x, y);"),
        [
            Call((grid(2, 3), grid(2, 3)), lambda x, y: x + y),
            Call((grid(2, 3), grid(3, 2)), error="E0804"),
        ],
        section="2.6",
    ),
    case(
        "a bound for each of several extents",
        graph(
            "x: real[~|most..(d)]; y: real[s|most..(d)];",
            "z: real; w: real[s..];",
            "z = add(x, x); w = add(y, y);",
            "@attrib { most: int..(d) = [3, 5]; }",
        ),
        [
            Call((grid(3, 5), grid(2, 4)), lambda x, y: (2 * x, 2 * y)),
            Call((grid(4, 5), grid(2, 4)), error="E0804", message="4, more than its bound 3"),
            Call((grid(3, 5), grid(2, 6)), error="E0804", message="6, more than its bound 5"),
        ],
        section="2.6",
    ),
    case(
        "an extent that there may be",
        graph(
            "x: real[b|9 ..(batched), 3];",
            "y: real; n: int[];",
            "y = add(x, x); n = x.rank;",
            "@attrib { batched: bool = false; }",
        ),
        [Call((grid(3),), lambda x: (2 * x, np.array(1)))],
        section="2.6",
    ),
    case(
        "a dynamic extent that there is",
        graph(
            "x: real[b|9 ..(batched), 3];",
            "y: real;",
            "y = add(x, x);",
            "@attrib { batched: bool = true; }",
        ),
        [Call((grid(2, 3),), lambda x: 2 * x), Call((grid(10, 3),), error="E0804")],
        section="2.6",
    ),
    case(
        "an optional input that is left out has null sizes",
        graph(
            "x: optional real[s|9]; y: real[3];",
            "z: real[3];",
            "z = math.mul(y, real(k));",
            "@using { k = s ?? 7; }",
        ),
        [Call((None, line(3)), lambda x, y: 7 * y)],
        section="2.6",
        attribs={"x": None},
    ),
    case(
        "an optional input that is given",
        graph(
            "x: optional real[s|9]; y: real[3];",
            "z: real[3];",
            "z = math.mul(y, real(k));",
            "@using { k = s ?? 7; }",
        ),
        [Call((line(n), line(3)), lambda x, y: len(x) * y) for n in (2, 5)],
        section="2.6",
    ),
    case(
        "an input with its default",
        graph("x: real[] = 2.5; y: real[3];", "z: real[3];", "z = math.mul(y, x);"),
        [Call((None, line(3)), lambda x, y: 2.5 * y)],
        section="2.6",
        attribs={"x": None},
    ),
    rejected(
        "a number of dimensions left open",
        graph("x: real[~|5 ..];", "y: real;", "y = add(x, x);"),
        "E0417",
        "rank",
        "2.6",
    ),
    case(
        "a bound of attributes",
        graph("x: real[s|2 * m + 1];", "y: real;", "y = twice(x);", "@attrib { m: int = 2; }"),
        [
            Call((line(5),), lambda x: np.repeat(x, 2)),
            Call((line(6),), error="E0804", message="6, more than its bound 5"),
        ],
    ),
    case(
        "a bound of a given attribute",
        graph("x: real[s|m];", "y: real;", "y = twice(x);", "@attrib { m: int; }"),
        [Call((line(5),), lambda x: np.repeat(x, 2)), Call((line(9),), error="E0804")],
        attribs={"m": 8},
    ),
    case(
        "an affine extent of an input",
        graph("x: real[2 * n + 1|11];", "y: real[n];", "y = odd(x);"),
        [
            Call((line(5),), lambda x: x[1::2]),
            Call((line(1),), lambda x: x[1::2]),
            Call((line(6),), error="E0804", message="is 6, which is not `2 \\* n \\+ 1`"),
            Call((line(13),), error="E0804"),
        ],
    ),
    case(
        "a size is known where one extent is the size itself",
        graph(
            "x: real[2 * n]; y: real[n|4];",
            "z: real[~]; w: real[n];",
            "z = add(x, x); w = add(y, y);",
        ),
        [
            Call((line(6), line(3)), lambda x, y: (2 * x, 2 * y)),
            Call((line(5), line(3)), error="E0804"),
        ],
    ),
    case(
        "sizes and fixed extents side by side",
        graph("x: real[2, n|4, 3];", "y: int[3];", "y = sizes(x);"),
        [
            Call((grid(2, 4, 3),), lambda x: np.array(x.shape)),
            Call((grid(2, 5, 3),), error="E0804"),
        ],
    ),
    # ---------------------------------------------------------- sizes of operators
    case(
        "an affine extent of an operator",
        graph("x: real[~|11];", "y: real;", "y = odd(x);"),
        [
            Call((line(5),), lambda x: x[1::2]),
            Call((line(6),), error="E0501", message="is 6, which is not `2 \\* n \\+ 1`"),
            Call((line(0),), error="E0501", message="is 0"),
        ],
    ),
    case(
        "a dynamic extent for a literal one",
        graph("x: real[n|9];", "y: real[4];", "y = four(x);"),
        [
            Call((line(4),), lambda x: 2 * x),
            Call((line(3),), error="E0501", message=r"3 \(`n`\), which must be 4"),
        ],
    ),
    rejected(
        "a dynamic extent that can never be the literal one",
        graph("x: real[n|3];", "y: real;", "y = four(x);"),
        "E0401",
        "not 4",
    ),
    case(
        "extents are computed from sizes",
        graph("x: real[n|9];", "y: real;", "t = twice(x); y = twice(t);"),
        sizes_of(lambda x: np.repeat(x, 4), 0, 1, 9),
    ),
    case(
        "an extent is derived back",
        graph("x: real[n|9];", "y: real[n];", "t = twice(x); u = halve(t); y = add(u, x);")
        + """
        operator halve { @input { x: real[2 * n]; } @output { y: real[n]; }
            @lower { y[i,] = x[2 * i,], i < n; } }
        """,
        sizes_of(lambda x: 2 * x, 0, 5),
    ),
    case(
        "extents of two inputs are added",
        graph("x: real[a|4, 2]; y: real[b|4, 2];", "z: real[a + b, 2];", "z = stack(x, y);"),
        [
            Call((grid(2, 2), grid(3, 2)), lambda x, y: np.concatenate([x, y])),
            Call((grid(0, 2), grid(3, 2)), lambda x, y: np.concatenate([x, y])),
        ],
    ),
    case(
        "an extent that becomes negative",
        graph("x: real[n|9];", "y: real;", "y = window{size=3}(x);"),
        [
            Call((line(5),), moving_sum),
            Call((line(2),), lambda x: np.zeros(0)),
            Call((line(1),), error="E0501", message="negative"),
        ],
    ),
    case(
        "an extent rounded up",
        graph("x: real[n|9];", "y: real;", "y = chunks{size=3}(x);"),
        sizes_of(in_chunks, 0, 1, 3, 7),
    ),
    case(
        "an upper bound of an input of an operator",
        graph("x: real[n|9];", "y: real;", "y = short(x);")
        + """
        operator short { @input { x: real[n|4]; } @output { y: real[n]; }
            @lower { y[i,] = x[i,], i < n; } }
        """,
        [
            Call((line(4),), lambda x: x),
            Call((line(5),), error="E0501", message="above its bound 4"),
        ],
    ),
    case(
        "sizes as values in formulas",
        graph("x: real[n|9];", "y: real[];", "y = mean(x);"),
        sizes_of(lambda x: x.mean(), 1, 4),
    ),
    case(
        "the shape as values in formulas",
        graph("x: real[a|4, b|4];", "y: int[2];", "y = sizes(x);"),
        [Call((grid(2, 3),), lambda x: np.array(x.shape))],
    ),
    case(
        "the shape in conditions",
        graph("x: real[n|9];", "y: real[n];", "y = wave(x);")
        + """
        operator wave { @input { x: real[n]; } @output { y: real[n]; }
            @lower { y[i,] = 2 * i < x.shape[0] ? x[i,] : -x[n - 1 - i,], i < n; } }
        """,
        [Call((line(4),), np.array([1.0, 2, -2, -1])), Call((line(1),), np.array([1.0]))],
        oracle="by hand",
    ),
    case(
        "sizes as scalar arguments",
        graph("x: real[n|9];", "y: real[n];", "y = math.mul(x, real(n));"),
        sizes_of(lambda x: x * len(x), 1, 4),
    ),
    case(
        "sizes as attributes",
        graph("x: real[n|9];", "y: real;", "y = layout.reshape{shape=[n, 1]}(x);"),
        sizes_of(lambda x: x[:, None], 0, 4),
    ),
    case(
        "the rank is always known",
        graph("x: real[n|9, m|9];", "y: int[];", "y = rank(x);")
        + """
        operator rank { @input { x: real[s..]; } @output { y: int[]; } @lower { y[] = x.rank; } }
        """,
        [Call((grid(2, 3),), 2)],
        oracle="by hand",
    ),
    case(
        "shapes of other sizes in the same program",
        graph("x: real[n|9]; m: real[3];", "y: real; z: real[3];", "y = twice(x); z = add(m, m);"),
        [Call((line(2), line(3)), lambda x, m: (np.repeat(x, 2), 2 * m))],
    ),
    # ------------------------------------------------------------------ outputs
    case(
        "outputs with their dimensions only",
        graph("x: real[a|4, b|4];", "y: real[~, ~];", "y = add(x, x);"),
        [Call((grid(2, 3),), lambda x: 2 * x)],
        section="2.6",
    ),
    case(
        "outputs without a shape",
        graph("x: real[2, 3];", "y: real;", "y = add(x, x);"),
        [Call((grid(2, 3),), lambda x: 2 * x)],
        section="2.6",
    ),
    case(
        "outputs with a pack of dimensions",
        graph("x: real[a|4, b|4];", "y: real[~ ..(2)];", "y = add(x, x);"),
        [Call((grid(2, 3),), lambda x: 2 * x)],
        section="2.6",
    ),
    rejected(
        "outputs with another number of dimensions",
        graph("x: real[a|4, b|4];", "y: real[~];", "y = add(x, x);"),
        "E0411",
        section="2.6",
    ),
    rejected(
        "an output that can never have the declared extent",
        graph("x: real[a|4];", "y: real[a + 1];", "y = add(x, x);"),
        "E0401",
        section="2.6",
    ),
    case(
        "an output with the extent of another input",
        graph("x: real[a|4]; y: real[b|4];", "z: real[b];", "z = add(x, x);"),
        [
            Call((line(3), line(3)), lambda x, y: 2 * x),
            Call((line(3), line(2)), error="E0501", message=r"3 \(`a`\), which must be 2 \(`b`\)"),
        ],
        section="2.6",
    ),
    case(
        "an upper bound of an output",
        graph("x: real[a|9];", "y: real[~|4];", "y = add(x, x);"),
        [
            Call((line(4),), lambda x: 2 * x),
            Call((line(5),), error="E0501", message="above its bound 4"),
        ],
        section="2.6",
    ),
    rejected(
        "an output that is certainly above its bound",
        graph("x: real[5];", "y: real[~|4];", "y = add(x, x);"),
        "E0417",
        "5, above its bound 4",
        "2.6",
    ),
    case(
        "a symbol for two dynamic outputs",
        graph(
            "x: real[a|9]; y: real[b|9];",
            "u: real[s|9]; v: real[s|9];",
            "u = add(x, x); v = add(y, y);",
        ),
        [
            Call((line(4), line(4)), lambda x, y: (2 * x, 2 * y)),
            Call((line(4), line(5)), error="E0501"),
        ],
        section="2.6",
    ),
]
