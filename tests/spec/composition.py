"""Composition: results, packs, blocks (specification 2.10)."""

from __future__ import annotations

import numpy as np

from .flows import flow

COMPOSITION = [
    flow("a tensor as it is", "y = x;", lambda x, z, a, n, c: x, section="2.10"),
    flow("a literal", "y = 2.5;", lambda x, z, a, n, c: np.array(2.5), section="2.10"),
    flow(
        "scalar arguments",
        "y = less(1.0, a);",
        lambda x, z, a, n, c: a > 1.0,
        "y: bool;",
        section="2.10",
    ),
    flow(
        "several results",
        "u, y = both(x, z); v = u;",
        lambda x, z, a, n, c: (x * z, x + z),
        "y: real; v: real;",
        section="2.10",
    ),
    flow(
        "a result that is not needed",
        "~, y = both(x, z);",
        lambda x, z, a, n, c: x * z,
        section="2.10",
    ),
    flow("a pack taken apart", "[~, y] = pair(x);", lambda x, z, a, n, c: 2 * x, section="2.10"),
    flow(
        "a pack with its length",
        "ys..(2) = pair(x); y = ys[1];",
        lambda x, z, a, n, c: 2 * x,
        section="2.10",
    ),
    flow(
        "a part of a pack",
        "[y, r..(1)] = pair(x); v = r[0];",
        lambda x, z, a, n, c: (x, 2 * x),
        "y: real; v: real;",
        section="2.10",
    ),
    flow(
        "an omitted input",
        "y = biased{f = 2.0}(x, ~);",
        lambda x, z, a, n, c: 2 * x,
        section="2.10",
    ),
    flow(
        "a declared result",
        "t: real[3] = add(x, z); y = t;",
        lambda x, z, a, n, c: x + z,
        section="2.10",
    ),
    flow(
        "a list of tensors", "ys = [x, z, x]; y = ys[1];", lambda x, z, a, n, c: z, section="2.10"
    ),
    flow(
        "a pack as a result",
        "ys = [x, z];",
        lambda x, z, a, n, c: [x, z],
        "ys: real[3]..(2);",
        section="2.10",
    ),
    flow(
        "a shape as a tensor",
        "y = x.shape[0];",
        lambda x, z, a, n, c: np.array(3),
        "y: int;",
        section="2.10",
    ),
]

BLOCKS = [
    flow("block", "y = { t = add(x, z); yield t; };", lambda x, z, a, n, c: x + z),
    flow("block that shadows", "y = { x = add(x, x); yield x; };", lambda x, z, a, n, c: 2 * x),
    flow(
        "outer name behind a block",
        "t = { x = add(x, x); yield x; }; y = add(t, x);",
        lambda x, z, a, n, c: 3 * x,
    ),
    flow(
        "nested blocks",
        "y = { t = { u = add(x, z); yield u; }; v = add(t, t); yield v; };",
        lambda x, z, a, n, c: 2 * (x + z),
    ),
    flow(
        "block with two results",
        "y, v = { t = add(x, z); yield t, x; };",
        lambda x, z, a, n, c: (x + z, x),
        "y: real; v: real;",
    ),
    flow("block with a pack", "ys..(2) = { yield [z, x]; }; y = ys[0];", lambda x, z, a, n, c: z),
    flow("labelled block", "y = here: { t = mul(x, z); yield t; };", lambda x, z, a, n, c: x * z),
    flow(
        "block that yields a literal",
        "y = { yield 3; };",
        lambda x, z, a, n, c: np.array(3),
        "y: int;",
    ),
]

CASES = [*COMPOSITION, *BLOCKS]
