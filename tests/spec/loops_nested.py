"""Loops with conditions, in each other, written out, in operators (2.10.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .case import Call, Case
from .flows import INPUTS, X, Z, fails, flow, fold, within

A = np.array([[1.0, 2.0], [0.5, -1.0]])


CONDITIONS = [
    flow(
        "while do",
        "y, ~ = with t = x, s = a while less(s, 3.0) do"
        " { u = add(t, z); v = add(s, 1.0); yield u, v; };",
        lambda x, z, a, n, c: x + max(0, int(np.ceil(3.0 - a))) * z,
    ),
    flow(
        "do while",
        "y, ~ = with t = x, s = a do"
        " { u = add(t, z); v = add(s, 1.0); yield u, v; } while less(s, 3.0);",
        lambda x, z, a, n, c: x + max(1, int(np.ceil(3.0 - a))) * z,
    ),
    flow(
        "a loop variable as the condition",
        "y, ~ = with t = x, go = c while go do"
        " { u = add(t, z); s = total(u); g = less(s, 40.0); yield u, g; };",
        lambda x, z, a, n, c: x + (2 if c else 0) * z,
    ),
    flow(
        "its final value",
        "t, y, ~ = with t = x, go = true, k = 0 while go do"
        " { u = add(t, z); j = next(k); g = less(j, n); yield u, g, j; };",
        lambda x, z, a, n, c: np.array(False),
        "y: bool;",
    ),
    flow(
        "a block as the condition",
        "y, k = with t = x, k = 0 while"
        " { j = next(k); g = less(j, n); yield g; }"
        " do { u = add(t, z); j = next(k); yield u, j; };",
        lambda x, z, a, n, c: (x + max(n - 1, 0) * z, np.maximum(n - 1, 0)),
        "y: real; k: int;",
    ),
    flow(
        "condition and count",
        "y, k = with t = x, k = 0 while less(k, n) do..(2)"
        " { u = add(t, z); j = next(k); yield u, j; };",
        lambda x, z, a, n, c: (x + min(n, 2) * z, np.minimum(n, 2)),
        "y: real; k: int;",
    ),
    flow(
        "condition after and count",
        "y, k = with t = x, k = 0 do..(2)"
        " { u = add(t, z); j = next(k); yield u, j; } while less(k, n);",
        lambda x, z, a, n, c: (x + min(max(n, 1), 2) * z, np.clip(n, 1, 2)),
        "y: real; k: int;",
    ),
    flow(
        "condition and a count of a tensor",
        "y, k = with t = x, k = 0 while less(k, 2) do..(n)"
        " { u = add(t, z); j = next(k); yield u, j; };",
        lambda x, z, a, n, c: (x + min(n, 2) * z, np.minimum(n, 2)),
        "y: real; k: int;",
    ),
    flow(
        "condition and scan",
        "y, k = with s = x, k = 0 for v : [z, x, z] while less(k, n) do"
        " { u = add(s, v); j = next(k); yield u, j; };",
        lambda x, z, a, n, c: (x + sum([z, x, z][:n]), n),
        "y: real; k: int;",
    ),
    flow(
        "condition and scan outputs",
        "~, ys = with k = 0 for v : [z, x, z] while less(k, n) do { j = next(k); yield j, v; };",
        lambda x, z, a, n, c: [z, x, z][: int(n)],
        "ys: real[3]..(~|3);",
    ),
    flow(
        "condition after and scan outputs",
        "~, ys = with k = 0 for v : [z, x, z] do { j = next(k); yield j, v; } while less(k, n);",
        lambda x, z, a, n, c: [z, x, z][: max(int(n), 1)],
        "ys: real[3]..(~|3);",
    ),
    flow(
        "condition and scan outputs, joined",
        "~, ys = with k = 0 for v : [z, x, z] while less(k, n) do { j = next(k); yield j, v; };"
        " y = join(ys);",
        lambda x, z, a, n, c: np.concatenate([*[z, x, z][: int(n)], x[:0]]),
    ),
    flow(
        "a condition over the item",
        "~, ys = with k = 0 for v : [x, z, x] while { t = total(v); g = less(t, 15.0); yield g; }"
        " do { j = next(k); yield j, v; };",
        lambda x, z, a, n, c: [x],
        "ys: real[3]..(~|3);",
    ),
    flow(
        "a condition over the index",
        "ys = for v : [x, z, x] while less(i, n) do..(i ->) add(v, v);",
        lambda x, z, a, n, c: [2 * v for v in [x, z, x][: int(n)]],
        "ys: real[3]..(~|3);",
    ),
    flow(
        "a condition that is known to hold",
        "y = with t = x while true do..(2) add(t, z);",
        lambda x, z, a, n, c: x + 2 * z,
    ),
    flow(
        "a condition that is known to fail",
        "y = with t = x while false do..(2) add(t, z);",
        lambda x, z, a, n, c: x,
    ),
    flow(
        "a condition that is known to fail, behind",
        "y = with t = x do..(2) add(t, z) while false;",
        lambda x, z, a, n, c: x + z,
    ),
    flow(
        "a condition that never changes",
        "y = with t = x while c do..(3) add(t, z);",
        lambda x, z, a, n, c: x + (3 if c else 0) * z,
    ),
]

NESTING = [
    flow(
        "loop in a loop",
        "y = with s = x for u : [x, z] do"
        " { t = with r = s for v : [x, z] do add(r, v); yield t; };",
        lambda x, z, a, n, c: x + 2 * (x + z),
    ),
    flow(
        "loop in a loop, its count from the outer index",
        "y = with s = x do..(i -> 3) { t = with r = s do..(i) add(r, z); yield t; };",
        lambda x, z, a, n, c: x + 3 * z,
    ),
    flow(
        "branch in a loop",
        "y = with s = x do..(i -> n) { e = even(i);"
        " t = if e then add(s, x) else add(s, z); yield t; };",
        lambda x, z, a, n, c: fold(lambda s, i: s + (z if i % 2 else x), x, int(n)),
    ),
    flow(
        "branch with extents in a loop",
        "y = with s = 0.0 do..(i -> n) { e = even(i);"
        " h = if e then head{k = 1}(x) else head{k = 2}(z);"
        " t = total(h); r = add(s, t); yield r; };",
        lambda x, z, a, n, c: fold(lambda s, i: s + (z[:2].sum() if i % 2 else x[0]), 0.0, int(n)),
    ),
    flow(
        "branch with extents collected",
        "ys = for v : [x, z, x] do..(i ->) { e = even(i);"
        " h = if e then head{k = 1}(v) else head{k = 2}(v); yield h; };",
        lambda x, z, a, n, c: [x[:1], z[:2], x[:1]],
        "ys: real[~]..(3);",
    ),
    flow(
        "branch with extents collected and joined",
        "ys = for v : [x, z, x] do..(i -> n) {"
        " e = even(i); h = if e then head{k = 1}(v) else head{k = 2}(v); yield h; };"
        " y = join(ys);",
        lambda x, z, a, n, c: np.concatenate([x[:1], z[:2], x[:1]][: int(n)] or [x[:0]]),
    ),
    flow(
        "loop in a branch",
        "y = if c then { t = with s = x do..(n) add(s, z); yield t; } else z;",
        lambda x, z, a, n, c: x + n * z if c else z,
    ),
    flow(
        "loop in a branch, collected",
        "ys = if c then { t = for v : [x, z, x] do..(n) add(v, v); yield t; } else { yield [z]; };",
        lambda x, z, a, n, c: [2 * v for v in [x, z, x][: int(n)]] if c else [z],
        "ys: real[3]..(~|3);",
    ),
    flow(
        "loop in an operator in a loop",
        "y = with s = x do..(2) power{k = 2}(s);",
        lambda x, z, a, n, c: 16 * x,
    ),
    flow(
        "a condition that loops",
        "y = with s = x while { t = with r = 0.0 for v : [s, s] do"
        " { q = total(v); p = add(r, q); yield p; }; g = less(t, 30.0); yield g; } do add(s, x);",
        lambda x, z, a, n, c: 3 * x,
    ),
    flow(
        "loops in a row",
        "t = with s = x do..(n) add(s, x); y = with s = t do..(n) add(s, z);",
        lambda x, z, a, n, c: x + n * (x + z),
    ),
    flow(
        "a loop of dynamic extents",
        "t = if c then head{k = 1}(x) else x; y = with s = t do..(n) add(s, t);",
        lambda x, z, a, n, c: (n + 1) * (x[:1] if c else x),
    ),
    flow(
        "a filled shape of dynamic extent",
        "t = if c then head{k = 1}(x) else x;"
        " y = with s: real[t.shape[0]] = 1.0 do..(n) add(s, t);",
        lambda x, z, a, n, c: 1 + n * (x[:1] if c else x),
    ),
]

ITEMS = """
operator second { @input { xs: real[n]..(k); } @output { y: real[n]; }
    @lower { y[i,] = xs[1][i,], i < n; } }
operator chosen { @input { xs: real[n]..(k); p: int[]; } @output { y: real[n]; }
    @lower { y[i,] = xs[p[]][i,], i < n; } }
operator weighted { @input { xs: real[n]..(k); } @output { y: real[n]; }
    @lower { y[i,] += xs[j][i,] * real(j + 1), i < n, j < k; } }
operator reversed { @input { xs: real[n]..(k); } @output { ys: real[n]..(k); }
    @lower { ys[j][i,] = xs[k - 1 - j][i,], i < n, j < k; } }
operator three { @attrib { w: real..(k); } @input { xs: real[n]..(k); } @output { y: real[n]; }
    @lower { unroll..(j -> k) y[i,] += xs[j][i,] * w[j], i < n; } }
"""


def items(name: str, body: str, expected: Any, **options: Any) -> Case:
    """What can be done with a pack of n tensors."""
    options.setdefault("outputs", "y: real;")
    collect = "ts = for v : [x, z, x] do..(n) add(v, v);"
    case = flow(name, f"{collect} {body}", expected, options["outputs"])
    return replace(case, program=ITEMS + case.program)


PARTS = [
    items(
        "a loop over items in a formula",
        "y = weighted(ts);",
        lambda x, z, a, n, c: sum(
            [2 * v * (k + 1) for k, v in enumerate([x, z, x][: int(n)])], 0 * x
        ),
    ),
    items(
        "items from behind in a formula",
        "ys..(ts.size) = reversed(ts);",
        lambda x, z, a, n, c: [2 * v for v in [x, z, x][: int(n)]][::-1],
        outputs="ys: real[3]..;",
    ),
    items(
        "an item in a branch that needs it",
        "k = ts.size; l = less(1, k); y = if l then { t = add(ts[1], x); yield t; } else x;",
        lambda x, z, a, n, c: 2 * z + x if n > 1 else x,
    ),
    items(
        "an item in a formula in a branch that needs it",
        "k = ts.size; l = less(1, k); y = if l then second(ts) else x;",
        lambda x, z, a, n, c: 2 * z if n > 1 else x,
    ),
    items(
        "an item chosen by a tensor",
        "k = ts.size; l = less(1, k); y = if l then chosen(ts, 1) else x;",
        lambda x, z, a, n, c: 2 * z if n > 1 else x,
    ),
    items(
        "as many weights as items",
        "k = ts.size; l = less(2, k); y = if l then three{w = [1.0, 2.0, 3.0]}(ts) else x;",
        lambda x, z, a, n, c: 8 * x + 4 * z if n > 2 else x,
    ),
]

DYNAMIC_SHAPES = [
    flow(
        "different shapes and a dynamic count",
        "h = head{k = 1}(z); g = head{k = 2}(x); ts = for v : [x, h, g] do..(n) twice(v);"
        " us = for t : ts do add(t, t); y = join(us);",
        lambda x, z, a, n, c: (
            2 * np.concatenate([*[np.tile(v, 2) for v in [x, z[:1], x[:2]][: int(n)]], x[:0]])
        ),
    ),
    flow(
        "different shapes in a pack of dynamic length",
        "h = head{k = 1}(z); g = head{k = 2}(x); ts = for v : [x, h, g] do..(n) twice(v);",
        lambda x, z, a, n, c: [np.tile(v, 2) for v in [x, z[:1], x[:2]][: int(n)]],
        "ts: real[~]..;",
    ),
    flow(
        "shapes that the steps decide, in two loops",
        "ts = for v : [x, z, x] do..(i -> n) { e = even(i);"
        " h = if e then head{k = 1}(v) else head{k = 2}(v); yield h; };"
        " us = for t : ts do twice(t); y = join(us); w = us.size;",
        lambda x, z, a, n, c: (
            np.concatenate([*[np.tile(v, 2) for v in [x[:1], z[:2], x[:1]][: int(n)]], x[:0]]),
            n,
        ),
        "y: real[~]; w: int;",
    ),
    flow(
        "a fold over shapes that the steps decide",
        "ts = for v : [x, z, x] do..(i -> n) { e = even(i);"
        " h = if e then head{k = 1}(v) else head{k = 2}(v); yield h; };"
        " y = with s = 0.0 for t : ts do { q = total(t); r = add(s, q); yield r; };",
        lambda x, z, a, n, c: sum([v.sum() for v in [x[:1], z[:2], x[:1]][: int(n)]], 0.0),
    ),
    flow(
        "a loop in a loop that collects shapes",
        "ys = for v : [x, z] do { ts = for w : [v, x, z] do..(n) add(w, v); j = join(ts);"
        " yield j; }; y = join(ys);",
        lambda x, z, a, n, c: np.concatenate(
            [*[w + v for v in [x, z] for w in [v, x, z][: int(n)]], x[:0]]
        ),
    ),
    flow(
        "a loop in each side of a branch",
        "ts = if c then { t = for v : [x, z, x] do..(n) add(v, v); yield t; }"
        " else { t, ~ = with u = x, k = 0 while less(k, n) do..(5)"
        " { w = add(u, z); j = next(k); yield w, j; }; yield [t]; }; y = join(ts);",
        lambda x, z, a, n, c: np.concatenate(
            [*([2 * v for v in [x, z, x][: int(n)]] if c else [x + n * z]), x[:0]]
        ),
    ),
]

UNROLLED = [
    flow(
        "unroll",
        "y = with s: real[3] = 0.0 for v : [x, z] unroll add(s, v);",
        lambda x, z, a, n, c: x + z,
    ),
    flow(
        "unroll with a count",
        "y = with t = x unroll..(3) add(t, z);",
        lambda x, z, a, n, c: x + 3 * z,
    ),
    flow(
        "unroll, the index an attribute",
        "y = with t = x unroll..(i -> 3) scale{f = real(i + 1)}(t);",
        lambda x, z, a, n, c: 6 * x,
    ),
    flow(
        "unroll, the index in a static condition",
        "y = with t = x unroll..(i -> 3) { u = if i == 1 then add(t, z) else t; yield u; };",
        lambda x, z, a, n, c: x + z,
    ),
    flow(
        "unroll, the index as a tensor",
        "y = with s = 0 unroll..(i -> 4) add(s, i);",
        lambda x, z, a, n, c: np.array(6),
        "y: int;",
    ),
    flow(
        "unroll, shapes that change with the index",
        "ys = for v : [x, z, x] unroll..(i ->) head{k = i + 1}(v);",
        lambda x, z, a, n, c: [x[:1], z[:2], x],
        "ys: real[~]..(3);",
    ),
    flow(
        "unroll over numbers",
        "y = with t = x for f : [2.0, 0.5, 4.0] unroll scale{f = f}(t);",
        lambda x, z, a, n, c: 4 * x,
    ),
    flow(
        "unroll over numbers and tensors",
        "ys = for f : [2.0, 3.0], v : [x, z] unroll scale{f = f}(v);",
        lambda x, z, a, n, c: [2 * x, 3 * z],
        "ys: real[3]..(2);",
    ),
    flow(
        "unroll with two results",
        "us, vs = for v : [x, z] unroll both(v, x);",
        lambda x, z, a, n, c: ([2 * x, x + z], [x * x, x * z]),
        "us: real[3]..(2); vs: real[3]..(2);",
    ),
    flow("unroll no times", "y = with t = x unroll..(0) add(t, z);", lambda x, z, a, n, c: x),
    flow(
        "unroll around a dynamic loop",
        "y = with t = x unroll..(i -> 3) {"
        " u = with r = t do..(n) scale{f = real(i)}(r); v = add(u, x); yield v; };",
        lambda x, z, a, n, c: fold(lambda t, i: t * float(i) ** int(n) + x, x, 3),
    ),
    flow(
        "unroll within a dynamic loop",
        "y = with t = x do..(n) {"
        " u = with r = t for f : [2.0, 0.25] unroll scale{f = f}(r); yield u; };",
        lambda x, z, a, n, c: x * 0.5 ** int(n),
    ),
    flow(
        "unroll around a branch",
        "y = with t = x unroll..(i -> 2) {"
        " u = if c then scale{f = real(i + 2)}(t) else t; yield u; };",
        lambda x, z, a, n, c: 6 * x if c else x,
    ),
]

OPERATOR_LOOPS = [
    within(
        "an optional count",
        f"@input {{ {INPUTS} }} @output {{ y: real; v: real; }}",
        "y = first([x, z, x]); v = first([x, z, x], n);",
        [
            Call(
                (X, Z, np.array(0.0), np.array(n), np.array(True)),
                lambda x, z, a, n, c: (2 * x + z, sum([x, z, x][: int(n)], 0 * x)),
            )
            for n in (0, 1, 3)
        ],
    ),
    within(
        "powers of a matrix",
        "@input { A: real[2,2]; p: int[]; } @output { B: real[2,2]; }",
        "B = matpow(A, p);",
        [Call((A, np.array(p)), lambda a, p: np.linalg.matrix_power(a, int(p))) for p in (0, 1, 5)],
    ),
    within(
        "a number as the count",
        "@input { A: real[2,2]; } @output { B: real[2,2]; }",
        "B = matpow(A, 3);",
        [Call((A,), lambda a: np.linalg.matrix_power(a, 3))],
    ),
    within(
        "a pack of any length",
        "@input { xs: real[3]..(4); z: real[3]; } @output { ys: real[3]..(4); y: real[3]; }",
        "ys..(4) = add_to_all(xs, z); y = add_all(xs);",
        [Call(([X, Z, X, Z], Z), lambda xs, z: ([x + z for x in xs], sum(xs)))],
    ),
    within(
        "a count from a dynamic extent",
        "@input { x: real[s|5]; } @output { y: real[s]; }",
        "y = with t = x do..(x.shape[0]) add(t, x);",
        [Call((np.ones(k),), lambda x: (1 + len(x)) * x) for k in (1, 4)],
    ),
    within(
        "a pack of dynamic length",
        "@input { xs: real[2]..(k|4); } @output { y: real[2]; }",
        "y = with s: real[2] = 1.0 for x : xs do add(s, x);",
        [
            Call(([np.array([1.0, i]) for i in range(k)],), lambda xs: sum(xs, np.ones(2)))
            for k in (0, 3, 4)
        ],
    ),
    within(
        "a pack of dynamic length, collected",
        "@input { xs: real[2]..(k|4); } @output { ys: real[2]..(k); y: real[~, 2]; }",
        "ys = for x : xs do add(x, x); y = pile(ys);",
        [
            Call(
                ([np.array([1.0, i]) for i in range(k)],),
                lambda xs: ([2 * x for x in xs], 2 * np.stack(xs)),
            )
            for k in (1, 4)
        ],
    ),
    within(
        "a pack of dynamic length, in two operators",
        "@input { xs: real[2]..(~|3); z: real[2]; } @output { y: real[2]; n: int; }",
        "ys..(xs.size) = add_to_all(xs, z); y = add_all(ys); n = ys.size;",
        [
            Call(
                ([A[0], A[1]][:k], A[0]),
                lambda xs, z: (sum([x + z for x in xs], 0 * z), np.array(len(xs))),
            )
            for k in (0, 2)
        ],
    ),
    within(
        "items of dynamic shapes",
        "@input { xs: real[~|4]..(3); } @output { y: real[~]; }",
        "ys = for x : xs do add(x, x); y = join(ys);",
        [Call(([np.ones(1), np.zeros(4), np.full(2, 3.0)],), lambda xs: 2 * np.concatenate(xs))],
    ),
]

FAILURES = [
    fails(
        "a count above the length",
        "y = with s = x for v : [x, z] do..(n) add(s, v);",
        "E0804",
        "size `n` is 5, more than its bound 2",
    ),
    fails(
        "a negative count",
        "y = with s = x do..(n) add(s, x);",
        "E0804",
        "size `n` is negative: -1",
        point=(0.5, -1, True),
    ),
    fails(
        "a pack without the item",
        "ys = for v : [x, z, x] do..(n) add(v, v); y = ys[1];",
        "E0501",
        "item",
        point=(0.5, 1, True),
    ),
    fails(
        "a pack of another length",
        "ys..(3) = for v : [x, z, x] do..(n) add(v, v); y = ys[1];",
        "E0501",
        "length",
        point=(0.5, 2, True),
    ),
    fails(
        "a loop variable that grows at run time",
        "t = if c then head{k = 1}(x) else head{k = 2}(x);"
        " u = if less(a, 1.0) then head{k = 2}(x) else x;"
        " y = with s = t do..(2) { yield u; };",
        "E0501",
        "loop variable",
    ),
]

CASES = [*CONDITIONS, *PARTS, *DYNAMIC_SHAPES, *NESTING, *UNROLLED, *OPERATOR_LOOPS, *FAILURES]
