"""Expressions of compile-time values (2.4): what each form gives."""

from __future__ import annotations

import math
from functools import partial

from .case import Case
from .values import values

_of = partial(values, "2.4")

LITERALS = [
    _of("integer literals", {"123": 123, "0": 0, "007": 7, "-5": -5, "+5": 5}),
    _of(
        "integers have 64 bits",
        {"9223372036854775807": 2**63 - 1, "-9223372036854775807 - 1": -(2**63)},
    ),
    _of(
        "real literals",
        {"1.23": 1.23, "1e-5": 1e-5, "1.": 1.0, "1E3": 1e3, "1.5e+2": 150.0, "2e0": 2.0},
    ),
    _of("words", {"true": True, "false": False, "pi": math.pi, "inf": math.inf, "-inf": -math.inf}),
    _of("strings in either quotes", {'"it\'s"': "it's", "'say \"a\"'": 'say "a"'}),
    _of("adjacent strings are one", {"'ab' \"cd\"\n    'ef'": "abcdef", "'it''s'": "its"}),
    _of("default values of types", {"int()": 0, "real()": 0.0, "bool()": False, "str()": ""}),
    _of("identifiers", {"a": 7, "p": [1, 2, 3], "w": [0.5, -1.5], "t": True}),
]

LISTS = [
    _of("list", {"[a, 2, b]": [7, 2, 2], "[1.5]": [1.5], "[t, f]": [True, False]}),
    _of(
        "packs expanded in a list",
        {"[a, p.., b]": [7, 1, 2, 3, 2], "[p.., q..]": [1, 2, 3, 10, 20, 30], "[e.., a]": [7]},
    ),
    _of(
        "repeated item",
        {"[a ..(3)]": [7, 7, 7], "[1 ..(2), a ..(b)]": [1, 1, 7, 7], "[5, a ..(0)]": [5]},
    ),
    _of(
        "conditional item",
        {"[a ..(t), b ..(f)]": [7], "[b ..(a > 3), a ..(a < 3), 0]": [2, 0]},
    ),
    _of("expanded expression", {"[2 * p.., (p + 1)..]": [2, 4, 6, 2, 3, 4]}),
    _of(
        "range",
        {"[0:4]": [0, 1, 2, 3], "[b:a]": [2, 3, 4, 5, 6], "[1:8:3]": [1, 4, 7], "[3:4]": [3]},
    ),
    _of("range backwards", {"[5:0:-1]": [5, 4, 3, 2, 1], "[a:b:-2]": [7, 5, 3]}),
    _of("ranges among items", {"[0, 2:a, q..]": [0, 2, 3, 4, 5, 6, 10, 20, 30]}),
    _of("empty range", {"[9, 0:0]": [9], "[9, 5:0]": [9], "[9, 0:5:-1]": [9]}),
    _of(
        "zip",
        {"[(p, q)..]": [1, 10, 2, 20, 3, 30], "[(p, p, q)..]": [1, 1, 10, 2, 2, 20, 3, 3, 30]},
    ),
    _of("unzip by stride", {"[(p, q)..][0::2]": [1, 2, 3], "[(p, q)..][1::2]": [10, 20, 30]}),
]

INDEXING = [
    _of("index", {"p[0]": 1, "p[b]": 3, "q[a - 6]": 20, "[4, 5, 6][1]": 5, "(p + q)[2]": 33}),
    _of("negative index", {"p[-1]": 3, "p[-3]": 1, "q[-b]": 20}),
    _of(
        "pack as index",
        {"q[[2, 0]]": [30, 10], "q[[0, -1, 0]]": [10, 30, 10], "q[p - 1]": [10, 20, 30]},
    ),
    _of(
        "slice",
        {"q[0:2]": [10, 20], "q[1:3]": [20, 30], "q[0:3:2]": [10, 30], "[9, q[1:1]..]": [9]},
    ),
    _of(
        "slice with open ends",
        {"q[1:]": [20, 30], "q[:2]": [10, 20], "q[:]": [10, 20, 30], "q[::2]": [10, 30]},
    ),
    _of("slice from the end", {"q[-2:]": [20, 30], "q[:-1]": [10, 20], "q[-3:-1]": [10, 20]}),
    _of(
        "slice backwards",
        {
            "q[::-1]": [30, 20, 10],
            "q[1::-1]": [20, 10],
            "q[:0:-1]": [30, 20],
            "[9, q[2:-1:-1]..]": [9],
        },
    ),
    _of(
        "mask",
        {"q[ts]": [10, 30], "q[p > 1]": [20, 30], "q[p != 2]": [10, 30], "[9, q[p > 5]..]": [9]},
    ),
    _of("character", {"s[0]": "a", "s[-1]": "f", "s[a - 5]": "c"}),
    _of("substring", {"s[1:3]": "bc", "s[4:]": "ef", "s[::-1]": "fedcba", "s[::2]": "ace"}),
    _of("characters of a discontinuous range", {"s[[0, 2, 5]]": "acf"}),
    _of("substituted item", {"p[0] <- 9": [9, 2, 3], "p[-1] <- a + 1": [1, 2, 8]}),
    _of(
        "substituted items", {"q[[0, 2]] <- [1, 3]": [1, 20, 3], "q[[2, 0]] <- p[0:2]": [2, 20, 1]}
    ),
    _of("substituted range", {"q[0:2] <- [8, 9]": [8, 9, 30], "q[::-1] <- p": [3, 2, 1]}),
    _of("item substituted twice", {"p[[0, 0]] <- [8, 9]": [9, 2, 3]}),
    _of("substitution in parentheses", {"(p[0] <- 9) + 1": [10, 3, 4]}),
]

OPERATORS = [
    _of("signs", {"-a": -7, "+a": 7, "-r": -2.5, "-p": [-1, -2, -3], "- -a": 7}),
    _of("negation", {"!t": False, "!ts": [False, True, False], "!(a > b)": False}),
    _of("sums and products", {"a + b": 9, "a - b": 5, "a * b": 14, "r + 1.0": 3.5, "r * r": 6.25}),
    _of("division of reals", {"r / 2.0": 1.25, "1.0 / 4.0": 0.25, "-1.0 / 8.0": -0.125}),
    _of(
        "division rounds down",
        {"7 / 2": 7 // 2, "-7 / 2": -7 // 2, "7 / -2": 7 // -2, "-7 / -2": -7 // -2, "6 / 3": 2},
        "Python",
    ),
    _of(
        "division rounds up",
        {"7 \\ 2": 4, "-7 \\ 2": -3, "7 \\ -2": -3, "-7 \\ -2": 4, "6 \\ 3": 2},
    ),
    _of(
        "remainder has the sign of the divisor",
        {"7 % 2": 7 % 2, "-7 % 2": -7 % 2, "7 % -2": 7 % -2, "-7 % -2": -7 % -2, "6 % 3": 0},
        "Python",
    ),
    _of("powers", {"b ** 10": 1024, "r ** 2.0": 6.25, "4.0 ** 0.5": 2.0, "a ** 0": 1}),
    _of("minimum and maximum", {"a << b": 2, "a >> b": 7, "r << 1.0": 1.0, "p << 2": [1, 2, 2]}),
    _of("minimum and maximum, later spelling", {"a <? b": 2, "a >? b": 7, "p >? 2": [2, 2, 3]}),
    _of(
        "comparisons of integers",
        {
            "a < b": False,
            "a <= 7": True,
            "a > b": True,
            "a >= 8": False,
            "a == 7": True,
            "a != 7": False,
        },
    ),
    _of("comparisons of reals", {"r < 2.5": False, "r <= 2.5": True, "inf > 1e300": True}),
    _of(
        "comparisons of strings and bools",
        {'s == "abcdef"': True, "s != 'x'": True, "t == f": False, "t != f": True},
    ),
    _of("and, or, exclusive or", {"t && f": False, "t || f": True, "t ^ f": True, "t ^ t": False}),
    _of(
        "errors where the left side decides",
        {"a != 7 && 1 / 0 == 1": False, "a == 7 || 1 % 0 == 1": True, "a < b => p[a] == 1": True},
    ),
    _of("implication", {"t => f": False, "t => t": True, "f => f": True, "f => t": True}),
    _of(
        "operators on packs",
        {"p + q": [11, 22, 33], "q / p": [10, 10, 10], "p < [2, 2, 2]": [True, False, False]},
    ),
    _of(
        "one value and a pack",
        {"p * 10": [10, 20, 30], "10 - p": [9, 8, 7], "ts && t": [True, False, True]},
    ),
    _of("strings joined", {"s + 'g'": "abcdefg", "'a' + 'b' + 'c'": "abc"}),
]

PRECEDENCE = [
    _of(
        "products before sums", {"1 + 2 * 3": 7, "10 - 4 - 3": 3, "100 / 10 / 5": 2, "7 / 2 * 2": 6}
    ),
    _of("powers before signs", {"-2 ** 2": -4, "2 ** -1": 0, "2 * 3 ** 2": 18}),
    _of("powers from left to right", {"2 ** 3 ** 2": 64}),
    _of("minimum after sums", {"1 + 2 << 5": 3, "1 + 2 << 5 * 0": 0, "a >> b + 9": 11}),
    _of("comparison after minimum", {"a << b < 3": True, "1 + 1 == b": True}),
    _of("logic after comparison", {"a > 1 && b > 1": True, "a < 1 || b > 1": True}),
    _of("implication after logic", {"f => f => f": False, "t && f => f": True}),
    _of("selection last", {"t && f ? 1 : 2": 2, "f ? 1 : t ? 2 : 3": 2, "t ? 1 : f ? 2 : 3": 1}),
    _of("fallback last", {"n ?? a + 1": 8, "n + 1 ?? 3": 3, "m ?? 3": 5}),
    _of("parentheses", {"(1 + 2) * 3": 9, "-(2 ** 2)": -4, "(-2) ** 2": 4, "(t => f) || t": True}),
]

SELECTION = [
    _of("selection", {"t ? a : b": 7, "f ? a : b": 2, "a > b ? 'x' : 'yz'": "x"}),
    _of("selection of packs", {"t ? p : q": [1, 2, 3], "f ? p : [5]": [5], "t ? p : 0": [1, 2, 3]}),
    _of(
        "selection item by item",
        {"p > 1 ? p : -1": [-1, 2, 3], "ts ? p : q": [1, 20, 3], "ts ? 1 : 0": [1, 0, 1]},
    ),
    _of("only the taken side is evaluated", {"b == 0 ? 1 : a / b": 3, "t ? 1 : a / 0": 1}),
    _of("selection without another value", {"f ? a": None, "(t ? a) ?? 0": 7, "(f ? a) ?? 0": 0}),
    _of("identity of values", {"a is 7": True, "a is b": False, "s is 'abcdef'": True}),
    _of("identity item by item", {"p is 1": [True, False, False], "p is q": [False, False, False]}),
    _of("containment", {"2 in p": True, "a in p": False, "s in ['x', 'abcdef']": True}),
    _of("containment of a pack", {"p in [1, 3]": [True, False, True], "p in q": [False] * 3}),
]

FOLDS = [
    _of("sum and product", {"p + ..": 6, "q * ..": 6000, "w + ..": -1.0, "2 * p + ..": 12}),
    _of("sum and product of nothing", {"e + ..": 0, "e * ..": 1}),
    _of(
        "all and any",
        {"ts && ..": False, "ts || ..": True, "p > 0 && ..": True, "p > 3 || ..": False},
    ),
    _of("all and any of nothing", {"(e > 0) && ..": True, "(e > 0) || ..": False}),
    _of(
        "smallest and largest",
        {"(q << ..) ?? 0": 10, "(q >> ..) ?? 0": 30, "(w << ..) ?? 0.0": -1.5},
    ),
    _of(
        "smallest and largest of nothing", {"e << ..": None, "e >> ..": None, "(e >> ..) ?? -1": -1}
    ),
    _of(
        "ascending",
        {"p < ..": True, "[1, 1, 2] < ..": False, "[1, 1, 2] <= ..": True, "[2, 1] <= ..": False},
    ),
    _of(
        "descending",
        {"p > ..": False, "[3, 2] > ..": True, "[2, 2] > ..": False, "[2, 2] >= ..": True},
    ),
    _of("nothing is sorted", {"e < ..": True, "e <= ..": True, "e > ..": True, "e >= ..": True}),
    _of(
        "unique",
        {"p != ..": True, "[1, 2, 1] != ..": False, "[1, 1] != ..": False, "e != ..": True},
    ),
    _of("uniform", {"p == ..": False, "[2, 2] == ..": True, "['a', 'a'] == ..": True}),
    _of(
        "uniform value",
        {
            "(([a, a] := ..) ?? 0)": 7,
            "[1, 2] := ..": None,
            "([b ..(3)] := ..) ?? 0": 2,
            "e := ..": None,
        },
    ),
    _of("uniform value of expressions", {"(([a, a] + 1) := ..) ?? 0": 8}),
    _of("fold that goes on", {"p + .. + 42": 48, "p * .. * 2": 12, "1 + (p + ..)": 7}),
    _of(
        "cumulative sum and product",
        {"p + ...": [1, 3, 6], "p * ...": [1, 2, 6], "w + ...": [0.5, -1.0]},
    ),
    _of(
        "cumulative logic",
        {"ts && ...": [True, False, False], "!ts || ...": [False, True, True]},
    ),
    _of(
        "cumulative extremes",
        {"[2, 1, 3] << ...": [2, 1, 1], "[2, 1, 3] >> ...": [2, 2, 3]},
    ),
    _of("cumulative fold of nothing", {"[9, (e + ...)..]": [9], "[9, (e << ...)..]": [9]}),
]

FUNCTIONS = [
    _of(
        "casts to real",
        {"real(3)": 3.0, "real(t)": 1.0, "real(r)": 2.5, "real(p)": [1.0, 2.0, 3.0]},
    ),
    _of(
        "casts to int",
        {"int(2.7)": 2, "int(-2.7)": -2, "int(t)": 1, "int(a)": 7, "int(ts)": [1, 0, 1]},
    ),
    _of("casts to bool", {"bool(3)": True, "bool(0)": False, "bool(0.5)": True, "bool(f)": False}),
    _of(
        "functions",
        {
            "`sqrt`(4.0)": 2.0,
            "`exp`(1.0)": math.e,
            "`log`(r)": math.log(2.5),
            "`erf`(r)": math.erf(2.5),
        },
        "Python",
    ),
    _of(
        "circular functions",
        {
            **{f"`{n}`(0.5)": getattr(math, n)(0.5) for n in ("sin", "cos", "tan", "asin", "acos")},
            "`atan`(r)": math.atan(2.5),
        },
        "Python",
    ),
    _of(
        "hyperbolic functions",
        {
            **{
                f"`{n}`(0.5)": getattr(math, n)(0.5)
                for n in ("sinh", "cosh", "tanh", "asinh", "atanh")
            },
            "`acosh`(r)": math.acosh(2.5),
        },
        "Python",
    ),
    _of(
        "rounding",
        {"`round`(2.5)": 3.0, "`round`(-2.5)": -3.0, "`floor`(-0.5)": -1.0, "`ceil`(r)": 3.0},
    ),
    _of("fractional part", {"`frac`(2.5)": 0.5, "`frac`(-2.5)": -0.5}),
    _of(
        "absolute value and sign",
        {"`abs`(-3)": 3, "`abs`(-r)": 2.5, "`sign`(-3)": -1, "`sign`(0)": 0, "`sign`(r)": 1.0},
    ),
    _of("functions of packs", {"`abs`(-p)": [1, 2, 3], "`floor`(w)": [0.0, -2.0]}),
    _of("functions without back-ticks", {"sqrt(4.0)": 2.0, "abs(-3)": 3, "floor(r)": 2.0}),
    _of(
        "formatted strings",
        {"'a = {a + 2}'": "a = 9", "'{a}{b}'": "72", "'{r} {t} {p}'": "2.5 true [1, 2, 3]"},
    ),
    _of("escaped braces", {r"'\{a\}' == '{s}'": False, r"'\{{a}\}'[1]": "7"}),
]

NULLS = [
    values(
        "2.4.1", "operators on null", {"n + 1": None, "-n": None, "n == n": None, "a < n": None}
    ),
    values("2.4.1", "logic of null", {"n > 3 || t": None, "?n && n > 3": None}),
    values(
        "2.4.1", "selection with null", {"n > 0 ? a : b": None, "t ? n : 1": None, "f ? n : 1": 1}
    ),
    values("2.4.1", "lists with null", {"[n, 1]": None, "[0:n]": None, "[np.., 1]": None}),
    values("2.4.1", "functions of null", {"real(n)": None, "`abs`(n)": None, "'{n}'": None}),
    values("2.4.1", "folds and indices of null", {"np + ..": None, "np[0]": None, "p[n]": None}),
    values("2.4.1", "fallback", {"n ?? 3": 3, "m ?? 3": 5, "np ?? p": [1, 2, 3], "n ?? m ?? 1": 5}),
    values("2.4.1", "fallback of another length", {"np ?? [8]": [8]}),
    values("2.4.1", "null test", {"?n": False, "?m": True, "?np": False}),
    values(
        "2.4.1",
        "tested values are not optional",
        {"?n ? n : 0": 0, "?m ? m : 0": 5, "?m && t ? m : 0": 5, "t && ?m ? m + 1 : 0": 6},
    ),
]

CASES: list[Case] = [
    *LITERALS,
    *LISTS,
    *INDEXING,
    *OPERATORS,
    *PRECEDENCE,
    *SELECTION,
    *FOLDS,
    *FUNCTIONS,
    *NULLS,
]
