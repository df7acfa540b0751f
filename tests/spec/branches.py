"""Branches, of conditions known early or late; promotion of optional values (2.10.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case
from .flows import flow

BRANCHES = [
    flow(
        "if with an invocation",
        "y = if less(a, 1.0) then add(x, z) else mul(x, z);",
        lambda x, z, a, n, c: x + z if a < 1 else x * z,
    ),
    flow(
        "if with a tensor",
        "y = if c then add(x, z) else mul(x, z);",
        lambda x, z, a, n, c: x + z if c else x * z,
    ),
    flow(
        "if with blocks",
        "y = if { t = is_not(c); yield t; } then { r = add(x, z); yield r; }"
        " else { r = mul(x, z); yield r; };",
        lambda x, z, a, n, c: x * z if c else x + z,
    ),
    flow("bare tensors", "y = if c then x else z;", lambda x, z, a, n, c: x if c else z),
    flow(
        "literals",
        "y = if c then 1.5 else -2.5;",
        lambda x, z, a, n, c: np.array(1.5 if c else -2.5),
    ),
    flow(
        "literal integers",
        "y = if c then 1 else n;",
        lambda x, z, a, n, c: np.array(1) if c else n,
        "y: int;",
    ),
    flow(
        "elif",
        "y = if less(a, 0.75) then x elif less(a, 2.0) then z else mul(x, x);",
        lambda x, z, a, n, c: x if a < 0.75 else z if a < 2 else x * x,
    ),
    flow(
        "three elif",
        "y = if less(n, 1) then 1.0 elif less(n, 2) then 2.0 elif less(n, 3) then 3.0 else 4.0;",
        lambda x, z, a, n, c: np.array(1.0 + n),
    ),
    flow(
        "a condition of volume one",
        "y = if lone(c) then x else z;",
        lambda x, z, a, n, c: x if c else z,
    ),
    flow(
        "two results",
        "y, v = if c then both(x, z) else { yield z, x; };",
        lambda x, z, a, n, c: (x + z, x * z) if c else (z, x),
        "y: real; v: real;",
    ),
    flow(
        "a result dropped",
        "~, y = if c then both(x, z) else { yield z, x; };",
        lambda x, z, a, n, c: x * z if c else x,
    ),
    flow(
        "a pack from each side",
        "ys..(2) = if c then pair(x) else { yield [z, x]; }; y = ys[1];",
        lambda x, z, a, n, c: 2 * x if c else x,
    ),
    flow(
        "nested in a block",
        "y = if c then { t = if less(a, 1.0) then x else add(x, x); yield t; } else z;",
        lambda x, z, a, n, c: (x if a < 1 else 2 * x) if c else z,
    ),
    flow(
        "nested in the condition",
        "y = if { t = if c then less(a, 1.0) else less(a, 9.0); yield t; } then x else z;",
        lambda x, z, a, n, c: x if (a < 1 if c else a < 9) else z,
    ),
    flow(
        "used afterwards",
        "t = if c then x else z; y = add(t, t);",
        lambda x, z, a, n, c: 2 * (x if c else z),
    ),
    flow(
        "two branches in a row",
        "t = if c then x else z; y = if less(a, 1.0) then t else x;",
        lambda x, z, a, n, c: (x if c else z) if a < 1 else x,
    ),
    flow(
        "extents that differ",
        "y = if c then head{k = 1}(x) else head{k = 2}(z);",
        lambda x, z, a, n, c: x[:1] if c else z[:2],
    ),
    flow(
        "extents that differ, used later",
        "t = if c then head{k = 1}(x) else head{k = 3}(z); u = twice(t); y = total(u); v = u;",
        lambda x, z, a, n, c: (2 * (x[:1] if c else z).sum(), np.tile(x[:1] if c else z, 2)),
        "y: real; v: real[~];",
    ),
    flow(
        "extents that differ, with themselves",
        "t = if c then head{k = 1}(x) else z; u = add(t, t); y = mul(u, t);",
        lambda x, z, a, n, c: 2 * (x[:1] if c else z) ** 2,
    ),
    flow(
        "extents of three sides",
        "y = if less(n, 1) then head{k = 1}(x) elif less(n, 3) then head{k = 2}(x) else x;",
        lambda x, z, a, n, c: x[: 1 if n < 1 else 2 if n < 3 else 3],
    ),
    flow(
        "nested extents",
        "y = if c then { t = if less(a, 1.0) then head{k = 1}(x) else head{k = 2}(x);"
        " u = twice(t); yield u; } else z;",
        lambda x, z, a, n, c: np.tile(x[: 1 if a < 1 else 2], 2) if c else z,
    ),
    flow(
        "an empty side",
        "y = if c then head{k = 0}(x) else x;",
        lambda x, z, a, n, c: x[:0] if c else x,
    ),
    flow(
        "packs of different lengths",
        "ys = if c then { yield [x, z]; } else { yield [z]; }; y = pile(ys);",
        lambda x, z, a, n, c: np.stack([x, z] if c else [z]),
    ),
    flow(
        "a pack of dynamic length as a result",
        "ys = if c then { yield [x, z]; } else { yield [z]; };",
        lambda x, z, a, n, c: [x, z] if c else [z],
        "ys: real[3]..(~|2);",
    ),
    flow(
        "a side that is never taken may fail",
        "y = if less(n, 3) then head{k = 1}(x) else { t = for v : [x, z, x] do..(n) add(v, v);"
        " u = join(t); yield u; };",
        lambda x, z, a, n, c: x[:1] if n < 3 else 2 * np.concatenate([x, z, x]),
    ),
]

STATIC = [
    flow("if true", "y = if true then add(x, z) else mul(x, z);", lambda x, z, a, n, c: x + z),
    flow("if false", "y = if 1 > 2 then x else z;", lambda x, z, a, n, c: z),
    flow("sides of different ranks", "y = if false then x else a;", lambda x, z, a, n, c: a),
    flow(
        "a static elif after a dynamic if",
        "y = if c then x elif true then z else mul(x, x);",
        lambda x, z, a, n, c: x if c else z,
    ),
    flow(
        "a dynamic elif after a static if",
        "y = if false then a elif c then x else z;",
        lambda x, z, a, n, c: x if c else z,
    ),
    flow(
        "a condition over shapes",
        "y = if x.shape[0] == 3 && x.rank == 1 then x else z;",
        lambda x, z, a, n, c: x,
    ),
    flow("recursion with an end", "y = power{k = 5}(x);", lambda x, z, a, n, c: 32 * x),
    flow(
        "an optional attribute, given",
        "y = biased{f = 3.0}(x, z);",
        lambda x, z, a, n, c: 3 * x + z,
    ),
    flow("an optional attribute, null", "y = biased(x, z);", lambda x, z, a, n, c: x + z),
    flow("an optional input, null", "y = biased(x);", lambda x, z, a, n, c: x),
]

PROMOTION = """
operator chosen {{ @attrib {{ f: optional real; g: optional real; k: int = 2; }}
    @input {{ x: real[n]; b: optional real[n]; }} @output {{ y: real[n]; }}
    @compose {{ y = {} }} }}
"""


def promotion(name: str, action: str, call: str, expected: Any) -> Case:
    case = flow(name, f"y = {call};", expected)
    return Case(
        "2.10.1", name, PROMOTION.format(action) + case.program, calls=case.calls, oracle="NumPy"
    )


BOTH = "if ?f && ?g then scale{f = f * g}(x) elif ?f then scale{f = f}(x) else x;"
AFTER = "if k > 1 && ?f && f > 0.0 then scale{f = f}(x) else x;"
BIASED = "if ?b && k == 2 then add(x, b) else x;"
NESTED = "if ?f then { t = if ?b then add(x, b) else x; u = scale{f = f}(t); yield u; } else x;"

PROMOTIONS = [
    promotion("both are there", BOTH, "chosen{f = 2.0, g = 3.0}(x)", lambda x, *_: 6 * x),
    promotion("one is there", BOTH, "chosen{f = 2.0}(x)", lambda x, *_: 2 * x),
    promotion("the other is there", BOTH, "chosen{g = 2.0}(x)", lambda x, *_: x),
    promotion("a conjunction that holds", AFTER, "chosen{f = 4.0}(x)", lambda x, *_: 4 * x),
    promotion("a conjunction over the value", AFTER, "chosen{f = -4.0}(x)", lambda x, *_: x),
    promotion("a conjunction with null", AFTER, "chosen(x)", lambda x, *_: x),
    promotion("an input in a conjunction", BIASED, "chosen(x, z)", lambda x, z, *_: x + z),
    promotion(
        "an input, and a condition that fails", BIASED, "chosen{k = 1}(x, z)", lambda x, *_: x
    ),
    promotion("nested promotions", NESTED, "chosen{f = 2.0}(x, z)", lambda x, z, *_: 2 * (x + z)),
    promotion("nested promotions, null inside", NESTED, "chosen{f = 2.0}(x)", lambda x, *_: 2 * x),
]

CASES = [*BRANCHES, *STATIC, *PROMOTIONS]
