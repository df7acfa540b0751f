"""Loops: scans, folds, counts, conditions (specification 2.10.1)."""

from __future__ import annotations

import numpy as np

from .flows import flow

SCANS = [
    flow(
        "scan",
        "ys = for v : [x, z] do add(v, x); y = ys[0]; w = ys[1];",
        lambda x, z, a, n, c: (2 * x, z + x),
        "y: real; w: real;",
    ),
    flow(
        "scan with a length",
        "ys..(2) = for v : [x, z] do add(v, v); y = ys[1];",
        lambda x, z, a, n, c: 2 * z,
    ),
    flow(
        "scan as a result",
        "ys = for v : [x, z, x] do mul(v, v);",
        lambda x, z, a, n, c: [x * x, z * z, x * x],
        "ys: real[3]..(3);",
    ),
    flow(
        "two scans",
        "ys = for u : [x, z], v : [z, z] do mul(u, v);",
        lambda x, z, a, n, c: [x * z, z * z],
        "ys: real[3]..(2);",
    ),
    flow(
        "three scans, one of a slice",
        "ps = [x, z, x]; ys = for u : ps[1:], v : ps[:2], w : [a, 2.0] do"
        " { t = add(u, v); r = times(t, w); yield r; };",
        lambda x, z, a, n, c: [(z + x) * a, (x + z) * 2],
        "ys: real[3]..(2);",
    ),
    flow(
        "two scan outputs",
        "us, vs = for v : [x, z] do both(v, x);",
        lambda x, z, a, n, c: ([x + x, z + x], [x * x, z * x]),
        "us: real[3]..(2); vs: real[3]..(2);",
    ),
    flow(
        "a scan output dropped",
        "~, vs = for v : [x, z] do both(v, x);",
        lambda x, z, a, n, c: [x * x, z * x],
        "vs: real[3]..(2);",
    ),
    flow(
        "a scan of a scan",
        "ts = for v : [x, z] do add(v, v); ys = for t : ts do mul(t, t);",
        lambda x, z, a, n, c: [4 * x * x, 4 * z * z],
        "ys: real[3]..(2);",
    ),
    flow(
        "items of different shapes",
        "h = head{k = 1}(z); g = head{k = 2}(x); ys = for v : [x, h, g] do add(v, v);",
        lambda x, z, a, n, c: [2 * x, 2 * z[:1], 2 * x[:2]],
        "ys: real[~]..(3);",
    ),
    flow(
        "items of different shapes, folded",
        "h = head{k = 1}(z); y = with s = 0.0 for v : [x, h, z] do"
        " { t = total(v); r = add(s, t); yield r; };",
        lambda x, z, a, n, c: x.sum() + z[0] + z.sum(),
    ),
    flow(
        "items of different shapes, in one result",
        "h = head{k = 1}(z); ts = for v : [x, h] do twice(v); y = join(ts);",
        lambda x, z, a, n, c: np.concatenate([np.tile(x, 2), np.tile(z[:1], 2)]),
    ),
    flow(
        "items of different ranks",
        "ys = for v : [x, a] do add(v, v);",
        lambda x, z, a, n, c: [2 * x, 2 * a],
        "ys: real..(2);",
    ),
    flow(
        "numbers",
        "ys = for v : [1.0, 2.5] do times(x, v);",
        lambda x, z, a, n, c: [x, 2.5 * x],
        "ys: real[3]..(2);",
    ),
    flow(
        "names that shadow",
        "ys = for x : [z, x] do add(x, x);",
        lambda x, z, a, n, c: [2 * z, 2 * x],
        "ys: real[3]..(2);",
    ),
    flow(
        "nothing to scan",
        "y, ~ = with t = x for v : [x, z][2:] do { u = add(t, v); yield u, u; };",
        lambda x, z, a, n, c: x,
    ),
]

FOLDS = [
    flow("sum", "y = with s = x for v : [x, z] do add(s, v);", lambda x, z, a, n, c: 2 * x + z),
    flow(
        "declared start",
        "y = with s: real[3] = 1.0 for v : [x, z] do add(s, v);",
        lambda x, z, a, n, c: 1 + x + z,
    ),
    flow(
        "declared type only",
        "y = with s: real = x for v : [x, z] do add(s, v);",
        lambda x, z, a, n, c: 2 * x + z,
    ),
    flow(
        "declared open shape",
        "y = with s: real[~] = x for v : [x, z] do add(s, v);",
        lambda x, z, a, n, c: 2 * x + z,
    ),
    flow(
        "declared shape of a tensor",
        "y = with s: real[3] = x for v : [x, z] do add(s, v);",
        lambda x, z, a, n, c: 2 * x + z,
    ),
    flow(
        "a tensor of rank 0 fills a shape",
        "y = with s: real[3] = a for v : [x, z] do add(s, v);",
        lambda x, z, a, n, c: a + x + z,
    ),
    flow(
        "a size fills a shape",
        "t = with s: int[2] = x.shape[0] do..(2) add(s, s); y = t;",
        lambda x, z, a, n, c: np.array([12, 12]),
        "y: int;",
    ),
    flow(
        "fold and scan",
        "y, ys = with s = x for v : [x, z] do { t = add(s, v); yield t, v; };",
        lambda x, z, a, n, c: (2 * x + z, [x, z]),
        "y: real; ys: real[3]..(2);",
    ),
    flow(
        "partial sums",
        "~, ys = with s = x for v : [x, z] do { t = add(s, v); yield t, t; };",
        lambda x, z, a, n, c: [2 * x, 2 * x + z],
        "ys: real[3]..(2);",
    ),
    flow(
        "two loop variables",
        "y, v = with s = x, p = z for w : [x, z] do { t = add(s, p); q = mul(p, w); yield t, q; };",
        lambda x, z, a, n, c: (x + z + z * x, z * x * z),
        "y: real; v: real;",
    ),
    flow(
        "loop variables exchanged",
        "y, v = with s = x, t = z do..(3) { yield t, s; };",
        lambda x, z, a, n, c: (z, x),
        "y: real; v: real;",
    ),
    flow(
        "a loop variable dropped",
        "y, ~ = with s = x, p = z for w : [x, z] do { t = add(s, p); yield t, w; };",
        lambda x, z, a, n, c: 2 * x + z,
    ),
    flow(
        "a loop variable that shadows",
        "y = with x = z for v : [x, x] do add(x, v);",
        lambda x, z, a, n, c: z + 2 * x,
    ),
    flow(
        "a pack of loop variables",
        "ps = with ps = [x, z] do..(3) { s = add(ps[0], ps[1]); yield [ps[1], s]; };",
        lambda x, z, a, n, c: [x + 2 * z, 2 * x + 3 * z],
        "ps: real[3]..(2);",
    ),
    flow(
        "a declared pack of loop variables",
        "ps = with ps: real[3]..(2) = [1.0, 2.0] do..(2)"
        " { s = add(ps[0], ps[1]); yield [ps[1], s]; };",
        lambda x, z, a, n, c: [np.full(3, 3.0), np.full(3, 5.0)],
        "ps: real[3]..(2);",
    ),
    flow(
        "a body that uses the outside",
        "y = with s = x for v : [x, z] do { t = mul(v, z); u = add(s, t); yield u; };",
        lambda x, z, a, n, c: x + x * z + z * z,
    ),
    flow(
        "an integer",
        "y = with s = 0 for v : [x, z] do next(s);",
        lambda x, z, a, n, c: np.array(2),
        "y: int;",
    ),
]

COUNTS = [
    flow("static count", "y = with t = x do..(4) add(t, t);", lambda x, z, a, n, c: 16 * x),
    flow("count of a tensor", "y = with t = x do..(n) add(t, z);", lambda x, z, a, n, c: x + n * z),
    flow(
        "count of a result",
        "k = next(n); y = with t = x do..(k) add(t, z);",
        lambda x, z, a, n, c: x + (n + 1) * z,
    ),
    flow(
        "count of an expression",
        "y = with t = x do..(x.shape[0] - 1) add(t, z);",
        lambda x, z, a, n, c: x + 2 * z,
    ),
    flow("no steps", "y = with t = x do..(0) add(t, z);", lambda x, z, a, n, c: x),
    flow(
        "index",
        "s = with s = 0 do..(i -> n) add(s, i); y = s;",
        lambda x, z, a, n, c: np.array(sum(range(n))),
        "y: int;",
    ),
    flow(
        "index and a static count",
        "y = with t = x do..(i -> 3) { r = to_real(i); u = times(z, r); v = add(t, u); yield v; };",
        lambda x, z, a, n, c: x + 3 * z,
    ),
    flow(
        "index without a count",
        "ys = for v : [x, z, x] do..(i ->) { r = to_real(i); u = times(v, r); yield u; };",
        lambda x, z, a, n, c: [0 * x, z, 2 * x],
        "ys: real[3]..(3);",
    ),
    flow(
        "index of a scan",
        "ys = for v : [x, z] do..(i -> 2) { r = to_real(i); u = times(v, r); yield u; };",
        lambda x, z, a, n, c: [0 * x, z],
        "ys: real[3]..(2);",
    ),
    flow(
        "index that shadows",
        "y = with s = 0 do..(n -> 3) add(s, n);",
        lambda x, z, a, n, c: np.array(3),
        "y: int;",
    ),
    flow(
        "results without scan or start",
        "ys = do..(3) add(x, z);",
        lambda x, z, a, n, c: [x + z] * 3,
        "ys: real[3]..(3);",
    ),
    flow(
        "a part of a scan",
        "y = with s = x for v : [z, x, z] do..(n) add(s, v);",
        lambda x, z, a, n, c: x + sum([z, x, z][:n]),
    ),
    flow(
        "a part of a scan, collected",
        "ys = for v : [z, x, z] do..(n) add(v, x);",
        lambda x, z, a, n, c: [v + x for v in [z, x, z][:n]],
        "ys: real[3]..(~|3);",
    ),
    flow(
        "a part of a scan, joined",
        "ys = for v : [z, x, z] do..(n) add(v, x); y = join(ys);",
        lambda x, z, a, n, c: np.concatenate([v + x for v in [z, x, z][:n]] or [x[:0]]),
    ),
    flow(
        "a part of a scan, piled up",
        "ys = for v : [z, x, z] do..(n) add(v, x); y = pile(ys);",
        lambda x, z, a, n, c: np.stack([v + x for v in [z, x, z][:n]] or [x])[: int(n)],
    ),
    flow(
        "a part of a scan, its length",
        "ys = for v : [z, x, z] do..(n) add(v, x); y = ys.size;",
        lambda x, z, a, n, c: n,
        "y: int;",
    ),
    flow(
        "a part of a scan, scanned again",
        "ts = for v : [z, x, z] do..(n) add(v, x); y = with s = x for t : ts do add(s, t);",
        lambda x, z, a, n, c: x + sum([v + x for v in [z, x, z][:n]]),
    ),
    flow(
        "a part of a scan, scanned with another",
        "ts = for v : [z, x, z] do..(n) add(v, x); us = for v : ts do mul(v, v);"
        " ys = for t : ts, u : us do add(t, u);",
        lambda x, z, a, n, c: [(v + x) * (v + x + 1) for v in [z, x, z][:n]],
        "ys: real[3]..(~|3);",
    ),
    flow(
        "a part of a scan, with more before it",
        "ts = for v : [z, x, z] do..(n) add(v, x); ys = [x, ts..];",
        lambda x, z, a, n, c: [x, *(v + x for v in [z, x, z][:n])],
        "ys: real[3]..(~|4);",
    ),
    flow(
        "a part of a part",
        "ts = for v : [z, x, z] do..(n) add(v, x); ys = ts[1:];",
        lambda x, z, a, n, c: [v + x for v in [z, x, z][:n]][1:],
        "ys: real[3]..(~|2);",
    ),
]

CASES = [*SCANS, *FOLDS, *COUNTS]
