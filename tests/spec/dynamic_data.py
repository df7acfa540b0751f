"""Sizes that data defines, packs whose length a call knows (specification 2.6, 3.1)."""

from __future__ import annotations

import numpy as np

from .case import Call, Case
from .dynamic_shapes import case, chosen, graph, grid, line, moving_sum, rejected

CASES: list[Case] = [
    # ------------------------------------------------------------------ asserts
    case(
        "an assert on sizes",
        graph("x: real[n|9];", "y: real;", "y = at_least{least=3}(x);"),
        [
            Call((line(3),), lambda x: x + 1),
            Call((line(2),), error="E0501", message="2 is less than 3"),
        ],
    ),
    case(
        "an assert of the graph",
        graph(
            "x: real[n|9];",
            "y: real;",
            "y = add(x, x);",
            "@assert { n % 2 == 0: 'an even number is needed', n; n > 0; }",
        ),
        [
            Call((line(4),), lambda x: 2 * x),
            Call((line(3),), error="E0501", message="even number.*\n(.*\n)*.*n = 3"),
            Call((line(0),), error="E0501", message="n > 0"),
        ],
    ),
    case(
        "asserts of operators within operators",
        graph("x: real[n|9];", "y: real;", "y = nest(x);"),
        [
            Call((line(2),), lambda x: x + 2),
            Call((line(1),), error="E0501", message="1 is less than 2"),
        ],
    ),
    rejected(
        "an assert that no size can keep",
        graph("x: real[n|4];", "y: real;", "y = at_least{least=5}(x);"),
        "E0501",
        "less than 5",
    ),
    case(
        "an assert in a branch matters when the branch is taken",
        graph(
            "x: real[n|9]; c: bool[];",
            "y: real[n];",
            "y = if c then at_least{least=3}(x) else x;",
        ),
        [
            Call((line(3), True), lambda x, c: x + 1),
            Call((line(1), False), lambda x, c: x),
            Call((line(1), True), error="E0501", message="1 is less than 3"),
        ],
    ),
    case(
        "an assert in a branch, and after it",
        graph(
            "x: real[n|9]; c: bool[];",
            "y: real[n];",
            "t = if c then at_least{least=3}(x) else x; y = at_least{least=3}(t);",
        ),
        [
            Call((line(3), False), lambda x, c: x + 1),
            Call((line(1), False), error="E0501", message="1 is less than 3"),
        ],
    ),
    case(
        "an assert in a loop matters when a step is done",
        graph(
            "x: real[n|9]; k: int[];",
            "y: real[n];",
            "y = with s = x do..(k) at_least{least=3}(s);",
        ),
        [
            Call((line(3), np.array(2)), lambda x, k: x + 2),
            Call((line(1), np.array(0)), lambda x, k: x),
            Call((line(1), np.array(2)), error="E0501", message="1 is less than 3"),
        ],
    ),
    case(
        "an extent that is negative in a branch that is not taken",
        graph(
            "x: real[n|9]; c: bool[];",
            "y: real;",
            "y = if c then window{size=3}(x) else x;",
        ),
        [
            Call((line(5), True), lambda x, c: moving_sum(x)),
            Call((line(1), False), lambda x, c: x),
        ],
    ),
    # ------------------------------------------------------- sizes from data
    case(
        "a size that data defines",
        graph("x: real[5];", "y: int[~|5];", "y = positions(x);"),
        [
            Call((np.array([0.0, 2, 0, 3, 4]),), np.flatnonzero),
            Call((np.zeros(5),), np.flatnonzero),
        ],
        section="2.6",
    ),
    case(
        "operators that use a size that data defines",
        graph(
            "x: real[5];",
            "y: real; n: int[];",
            "p = positions(x); t = take(x, p); y = twice(t); n = count(p);",
        ),
        [
            Call(
                (np.array(values),),
                lambda x: (np.repeat(chosen(x), 2), np.array(len(chosen(x)))),
            )
            for values in ([0.0, 2, 0, 3, 4], [1.0, 2, 3, 4, 5], [0.0] * 5)
        ],
    ),
    case(
        "an assert on a size that data defines",
        graph(
            "x: real[5];", "y: real;", "p = positions(x); t = take(x, p); y = at_least{least=2}(t);"
        ),
        [
            Call((np.array([0.0, 2, 0, 3, 4]),), lambda x: chosen(x) + 1),
            Call((np.array([0.0, 2, 0, 0, 0]),), error="E0501", message="1 is less than 2"),
        ],
    ),
    case(
        "a size from data agrees with one of an input",
        graph(
            "x: real[5]; y: real[n|5];",
            "z: real;",
            "p = positions(x); t = take(x, p); z = add(t, y);",
        ),
        [
            Call((np.array([0.0, 2, 0, 3, 0]), line(2)), lambda x, y: chosen(x) + y),
            Call((np.array([0.0, 2, 0, 3, 0]), line(3)), error="E0501", message="3.*2"),
        ],
    ),
    case(
        "a size from data and one of an input",
        graph("x: real[n|6];", "y: real;", "p = positions(x); y = take(x, p);"),
        [
            Call((np.array([0.0, 2, 3]),), chosen),
            Call((np.array([0.0, 2, 3, 0, 0, 4]),), chosen),
            Call((np.zeros(0),), chosen),
        ],
    ),
    # -------------------------------------------------------------------- packs
    case(
        "tensors of a pack share a size",
        graph("xs: real[n|5]..(2);", "y: real;", "y = layout.concat{axis=0}(xs);"),
        [
            Call(([line(3), line(3)],), np.concatenate),
            Call(([line(3), line(2)],), error="E0804"),
            Call(([line(3)],), error="E0801"),
        ],
    ),
    case(
        "tensors of a pack have sizes of their own",
        graph("xs: real[..n|5]..(2);", "y: real[n + ..];", "y = layout.concat{axis=0}(xs);"),
        [
            Call(([line(3), line(2)],), np.concatenate),
            Call(([line(0), line(5)],), np.concatenate),
            Call(([line(0), line(6)],), error="E0804", message="6"),
        ],
    ),
    case(
        "extents of the tensors of a pack left out",
        graph("xs: real[~|5]..(2);", "y: real;", "y = layout.concat{axis=0}(xs);"),
        [
            Call(([line(3), line(2)],), np.concatenate),
            Call(([line(3), line(6)],), error="E0804", message=r"xs:2.shape\[0\]"),
        ],
    ),
    case(
        "a pack of dynamic length",
        graph(
            "xs: real[3]..(n|4);",
            "y: real[3];",
            "y = with s: real[3] = 0.0 for x : xs do add(s, x);",
        ),
        [
            Call(([line(3)] * 2,), sum),
            Call(([line(3)] * 4,), sum),
            Call(([],), lambda xs: np.zeros(3)),
            Call(([line(3)] * 5,), error="E0801", message="at most 4"),
        ],
    ),
    case(
        "a pack with its length left out",
        graph(
            "xs: real[3]..(~|4);",
            "y: real[3];",
            "y = with s: real[3] = 0.0 for x : xs do add(s, x);",
        ),
        [Call(([line(3)] * 3,), sum)],
    ),
    case(
        "the length of a dynamic pack is a size",
        graph(
            "xs: real[3]..(n|4); y: real[n];",
            "z: real[n]; m: int[];",
            "z = math.mul(y, real(n)); m = xs.size;",
        ),
        [
            Call(([line(3)] * 2, line(2)), lambda xs, y: (2 * y, np.array(2))),
            Call(([line(3)] * 2, line(3)), error="E0501", message=r"`y.shape\[0\]` is 3"),
        ],
    ),
    case(
        "two packs of one dynamic length",
        graph(
            "xs: real[3]..(n|4); ys: real[3]..(n|4);",
            "z: real[3];",
            "z = with s: real[3] = 0.0 for x : xs, y : ys do { t = math.mul(x, y); "
            "u = add(s, t); yield u; };",
        ),
        [
            Call(
                ([line(3)] * 2, [line(3), -line(3)]),
                lambda xs, ys: sum(x * y for x, y in zip(xs, ys, strict=True)),
            ),
            Call(([line(3)] * 2, [line(3)]), error="E0501"),
        ],
    ),
    case(
        "a dynamic pack of tensors with a size",
        graph(
            "xs: real[m|5]..(n|4);",
            "y: real[m];",
            "y = with s: real[m] = 0.0 for x : xs do add(s, x);",
        ),
        [
            Call(([line(2)] * 3,), sum),
            Call(([line(2), line(3)],), error="E0804"),
        ],
    ),
    case(
        "the length of a dynamic pack is affine",
        graph("xs: real[3]..(2 * n|4); y: real[n|4];", "z: real[n];", "z = add(y, y);"),
        [
            Call(([line(3)] * 4, line(2)), lambda xs, y: 2 * y),
            Call(([line(3)] * 2, line(2)), error="E0501", message="xs"),
            Call(([line(3)] * 3, line(2)), error="E0501", message="xs"),
        ],
    ),
    case(
        "a dynamic pack is handed on to an operator",
        graph("xs: real[3]..(n|4);", "y: real[3]; k: int[];", "y, k = total(xs);")
        + """
        operator total { @input { xs: real[m]..(n); } @output { y: real[m]; k: int[]; }
            @compose { y = with s: real[m] = 0.0 for x : xs do add(s, x); k = n; } }
        """,
        [
            Call(([line(3)] * 2,), lambda xs: (sum(xs), np.array(len(xs)))),
            Call(([],), lambda xs: (np.zeros(3), np.array(0))),
        ],
    ),
    case(
        "a pack of a known length, with a bound",
        graph(
            "xs: real[3]..(m|4);",
            "y: real[3];",
            "y = with s: real[3] = 0.0 for x : xs do add(s, x);",
            "@attrib { m: int = 2; }",
        ),
        [
            Call(([line(3)] * 2,), sum),
            Call(([line(3)] * 3,), error="E0801", message="2"),
        ],
    ),
    case(
        "a dynamic pack as a result",
        graph("xs: real[3]..(n|4);", "ys: real[3]..(n); k: int[];", "ys = xs; k = ys.size;"),
        [Call((([line(3)] * k),), lambda xs: (xs, np.array(len(xs)))) for k in (0, 1, 4)],
    ),
    case(
        "an item of a dynamic pack",
        graph("xs: real[3]..(n|4);", "y: real[3];", "y = xs[1];"),
        [
            Call(([line(3), -line(3)],), lambda xs: xs[1]),
            Call(([line(3)],), error="E0501"),
        ],
    ),
    case(
        "a dynamic pack of tensors with sizes of their own",
        graph("xs: real[..m|5]..(n|4);", "s: int[];", "s = m + ..;"),
        [
            Call(([line(3), line(2)],), lambda xs: np.array(sum(map(len, xs)))),
            Call(([],), lambda xs: np.array(0)),
            Call(([line(3), line(6)],), error="E0804"),
        ],
    ),
    case(
        "an assert on the length of a dynamic pack",
        graph(
            "xs: real[3]..(n|4);",
            "y: real[3];",
            "y = xs[0];",
            "@assert { n > 0: 'at least one', n; }",
        ),
        [
            Call(([line(3)],), lambda xs: xs[0]),
            Call(([],), error="E0501", message="at least one"),
        ],
    ),
    case(
        "a dynamic pack for a pack of fixed length",
        graph("xs: real[3]..(n|4);", "y: real[3];", "y = second(xs);")
        + """
        operator second { @input { xs: real[m]..(2); } @output { y: real[m]; }
            @compose { y = add(xs[0], xs[1]); } }
        """,
        [
            Call(([line(3)] * 2,), sum),
            Call(([line(3)] * 3,), error="E0501", message="3 .`n`., which must be 2"),
        ],
    ),
    rejected(
        "a pack that never has a tensor for a shape to be deduced from",
        graph("xs: real[3]..(~|0);", "y: real[];", "y = first(xs);")
        + """
        operator first { @input { xs: real[m]..; } @output { y: real[]; }
            @compose { y = real(m); } }
        """,
        "E0411",
        "empty pack",
    ),
    rejected(
        "a pack of unknown length",
        graph("xs: real[3]..;", "y: real[3];", "y = xs[0];"),
        "E0417",
    ),
    # ------------------------------------------------------------- the library
    case(
        "reshaping of what has no dimensions",
        graph(
            "x: real[];",
            "y: real[1, 1]; z: real[1];",
            "y = layout.reshape{shape=[1, 1]}(x); z = layout.flatten(x);",
        ),
        [Call((2.5,), lambda x: (np.full((1, 1), x), np.full(1, x)))],
        section="4.1.2",
    ),
    case(
        "reshaping with an extent for what remains",
        graph(
            "x: real[a|4, b|4];",
            "y: real[~]; z: real[~, ~];",
            "y = layout.reshape{shape=[-1]}(x); z = layout.reshape{shape=[b, a]}(x);",
        ),
        [Call((grid(2, 3),), lambda x: (x.reshape(-1), x.reshape(x.shape[::-1])))],
    ),
    case(
        "library operators on sizes of every kind",
        graph(
            "x: real[a|4, b|4];",
            "y: real; z: real; w: real;",
            "y = layout.transpose{perm=[1, 0]}(x); "
            "z = layout.slice{axes=[0], begin=[1], end=[a]}(x); "
            "w = math.sum_reduce{axes=[1]}(x);",
        ),
        [Call((grid(2, 3),), lambda x: (x.T, x[1:], x.sum(1, keepdims=True)))],
    ),
]
