"""Compile-time expressions: values as specification 2.4 and its dialect's facts say."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from ricci.diagnostics import Error, Report
from ricci.dtypes import DType
from ricci.frontends.skriptnd.evaluate import Evaluator
from ricci.frontends.skriptnd.parser import parse_module
from ricci.frontends.skriptnd.values import Budget, Value
from ricci.ir import nodes, shapes
from ricci.ir.text import format_expr
from ricci.source import Source

N = nodes.Symbol("N", nodes.integer(10))
M = nodes.Symbol("M", nodes.integer(10))
X = nodes.Tensor("x", DType.REAL, (nodes.integer(2), nodes.integer(3)))
Y = nodes.Tensor("y", DType.REAL, (N,))
NAMES: dict[str, Value] = {
    "a": 7,
    "b": 2,
    "z": 0,
    "p": (1, 2, 3),
    "q": (10, 20, 30),
    "e": (),
    "n": None,
    "np": None,
    "t": True,
    "f": False,
    "ts": (True, False, True),
    "r": 2.5,
    "s": "abcdef",
    "u": (7, 7),
    "N": N,
    "M": M,
    "x": X,
    "y": Y,
    "xs": (X, Y),
}


def evaluate(text: str) -> Value:
    report = Report()
    source = Source("test", f"operator f {{ @using {{ v = {text}; }} }}")
    module = parse_module(source, report, "main")
    report.raise_errors()
    evaluator = Evaluator(dict(NAMES), {"T": DType.REAL, "I": DType.INT}, Budget())
    return evaluator.evaluate(module.operators[0].using[0].value)


VALUES: list[tuple[str, Value]] = [
    # division rounds down, `\` up, `%` takes the divisor's sign
    ("7 / 2", 3),
    ("-7 / 2", -4),
    ("7 / -2", -4),
    ("-7 / -2", 3),
    ("7 \\ 2", 4),
    ("-7 \\ 2", -3),
    ("7 \\ -2", -3),
    ("-7 \\ -2", 4),
    ("7 % 2", 1),
    ("-7 % 2", 1),
    ("7 % -2", -1),
    ("-7 % -2", -1),
    ("r % 2.0", 0.5),
    ("r \\ 2.0", 2.0),
    ("-2.5 \\ 2.0", -1.0),
    ("5.0 / 2.0", 2.5),
    ("2 ** 10", 1024),
    ("a ** 0", 1),
    ("2 ** -1", 0),
    ("(-1) ** -3", -1),
    ("(-1) ** 4", 1),
    ("0 ** 5", 0),
    ("2.0 ** 0.5", 2.0**0.5),
    ("2 ** 3 ** 2", 64),
    ("-2 ** 2", -4),
    ("10.0 ** 400.0", math.inf),
    ("0.1 + 0.2", 0.1 + 0.2),
    ("1e-3", 1e-3),
    ("pi", math.pi),
    ("a << b", 2),
    ("a >> b", 7),
    ("1 + 2 << 5", 3),
    ("'a' + \"b\"", "ab"),
    ("2147483648 * 2", 4294967296),
    ("1 == 1 && 'a' != 'b'", True),
    ("t ^ t", False),
    ("f => f", True),
    ("t => f", False),
    ("!t", False),
    ("a == 7 == t", True),
    ("true || true && false", False),
    # casts and functions
    ("real(3)", 3.0),
    ("int(2.7)", 2),
    ("int(-2.7)", -2),
    ("bool(3)", True),
    ("int(t)", 1),
    ("int()", 0),
    ("real()", 0.0),
    ("bool()", False),
    ("str()", ""),
    ("T(1)", 1.0),
    ("T()", 0.0),
    ("int(inf)", nodes.Const(math.inf, DType.INT)),
    ("-int(inf)", nodes.Const(-math.inf, DType.INT)),
    ("`round`(2.5)", 3.0),
    ("`round`(-2.5)", -3.0),
    ("`round`(0.49999999999999994)", 0.0),
    ("`frac`(-2.5)", -0.5),
    ("`sign`(-3)", -1),
    ("`abs`(-3)", 3),
    ("`sign`(0.0)", 0.0),
    ("`floor`(-0.5)", -1.0),
    ("`ceil`(1.2)", 2.0),
    ("`log`(0.0)", -math.inf),
    ("`abs`([-1, 2])", (1, 2)),
    ("`sqrt`(4.0)", 2.0),
    # lists, ranges, zips
    ("[1, a, 3]", (1, 7, 3)),
    ("[p.., a, q..]", (1, 2, 3, 7, 10, 20, 30)),
    ("[a..(3)]", (7,) * 3),
    ("[a..(t)]", (7,)),
    ("[a..(f)]", ()),
    ("[a..(0)]", ()),
    ("[]", ()),
    ("[0, 2:4, p..]", (0, 2, 3, 1, 2, 3)),
    ("[5:0:-1]", (5, 4, 3, 2, 1)),
    ("[a:b:-2]", (7, 5, 3)),
    ("[0:0]", ()),
    ("[5:0]", ()),
    ("[0:5:-1]", ()),
    ("[b-1:-1:-1]", (1, 0)),
    ("[0:5:2]", (0, 2, 4)),
    ("[(p, q)..]", (1, 10, 2, 20, 3, 30)),
    ("[(p)..]", (1, 2, 3)),
    ("[(p, q).., 5]", (1, 10, 2, 20, 3, 30, 5)),
    # indexing
    ("p[0]", 1),
    ("p[-1]", 3),
    ("p[[0, -1]]", (1, 3)),
    ("p[e]", ()),
    ("p[ts]", (1, 3)),
    ("p[p > 1]", (2, 3)),
    ("p[1:]", (2, 3)),
    ("p[:-1]", (1, 2)),
    ("p[::-1]", (3, 2, 1)),
    ("p[2:-1:-1]", ()),
    ("p[0:10]", (1, 2, 3)),
    ("p[2:1]", ()),
    ("p[5:]", ()),
    ("p[::2]", (1, 3)),
    ("(p + 1)[0]", 2),
    ("[1, 2, 3][1]", 2),
    ("s[0]", "a"),
    ("s[1:3]", "bc"),
    ("s[::-1]", "fedcba"),
    ("s[[0, 2]]", "ac"),
    # substitution
    ("p[0] <- 9", (9, 2, 3)),
    ("p[[0, 0]] <- [8, 9]", (9, 2, 3)),
    ("p[0:2] <- [8, 9]", (8, 9, 3)),
    ("p[::-1] <- p", (3, 2, 1)),
    ("(p[0] <- 9) + 1", (10, 3, 4)),
    ("p[0] <- 9 + 1", (10, 2, 3)),
    # packs broadcast
    ("p + q", (11, 22, 33)),
    ("2 * p", (2, 4, 6)),
    ("p > 1", (False, True, True)),
    ("-p", (-1, -2, -3)),
    ("p > 1 ? p : -1", (-1, 2, 3)),
    ("t ? p : 0", (1, 2, 3)),
    ("t ? p : [1]", (1, 2, 3)),
    ("z != 0 ? a / z : 5", 5),
    ("[t, t] ? u : u / z", (7, 7)),
    # identity and containment
    ("p is 1", (True, False, False)),
    ("x is x", True),
    ("x is y", False),
    ("s is 'abcdef'", True),
    ("N is N", True),
    ("N is M", False),
    ("2 * N is N + N", True),
    ("N is 3", False),
    ("t < f", False),
    ("'a' < 'b'", True),
    ("2 in p", True),
    ("p in [1, 3]", (True, False, True)),
    ("a in p", False),
    # folds
    ("p + ..", 6),
    ("p * ..", 6),
    ("e + ..", 0),
    ("e * ..", 1),
    ("p << ..", 1),
    ("p >> ..", 3),
    ("e << ..", None),
    ("ts && ..", False),
    ("ts || ..", True),
    ("p < ..", True),
    ("u < ..", False),
    ("u <= ..", True),
    ("p > ..", False),
    ("[3, 1] > ..", True),
    ("u == ..", True),
    ("p == ..", False),
    ("e == ..", False),
    ("p != ..", True),
    ("u != ..", False),
    ("[1, 2, 1] != ..", False),
    ("[a, a] := ..", 7),
    ("p := ..", None),
    ("(p * 0) := ..", 0),
    ("[N, N] := ..", N),
    ("[N, M] := ..", None),
    ("e := ..", None),
    ("2 * p + ..", 12),
    ("42 + p + ..", 132),
    ("p + .. + 42", 48),
    ("p + ...", (1, 3, 6)),
    ("p * ...", (1, 2, 6)),
    ("e + ...", ()),
    ("[3, 1, 2] << ...", (3, 1, 1)),
    ("ts && ...", (True, False, False)),
    ("[1, p[::-1]..] * ...", (1, 3, 6, 6)),
    # null
    ("n + 1", None),
    ("n && f", None),
    ("f && n > 3", None),
    ("t || n > 3", None),
    ("[n, 1]", None),
    ("n ?? 3", 3),
    ("n + 1 ?? 3", 3),
    ("?n", False),
    ("?n ? n : 0", 0),
    ("a > 3 ? a", 7),
    ("a < 3 ? a", None),
    ("np[0]", None),
    ("np + ..", None),
    ("`abs`(n ?? 0)", 0),
    ("'{n}'", None),
    ("[0:n]", None),
    ("int(n)", None),
    ("n is 1", None),
    ("p[n]", None),
    # what the left side decides, errors on the right do not change
    ("z != 0 && a % z == 0", False),
    ("z == 0 || a % z == 0", True),
    # strings
    ("'a = {a + 2}'", "a = 9"),
    ("'{p} {t} {s} {r}'", "[1, 2, 3] true 'abcdef' 2.5"),
    ("'{e}'", "[]"),
    ("'{1.0} {0.1} {1e-07} {inf} {1.0 / 3.0}'", "1.0 0.1 1e-07 inf 0.333333"),
    ("'{a}{b}'", "72"),
    # tensors
    ("x.shape", (2, 3)),
    ("x.rank", 2),
    ("xs.size", 2),
    ("y.shape", (N,)),
    ("x.shape * ..", 6),
    ("xs[0]", X),
    ("xs[1:]", (Y,)),
    ("[x, xs..]", (X, X, Y)),
    ("t ? x : y", X),
    # sizes known at run time
    ("N - N", 0),
    ("(N * 2) / 2 is N", True),
    ("N < 11", True),
    ("N >= 0", True),
    ("N + 1 > N", True),
    ("N == N + 1", False),
    ("N * 0 + 3", 3),
    ("(4 * N) % 2", 0),
]


@pytest.mark.parametrize(("text", "expected"), VALUES, ids=[t for t, _ in VALUES])
def test_value(text: str, expected: Value) -> None:
    value = evaluate(text)
    if isinstance(expected, float) and math.isnan(expected):
        assert isinstance(value, float)
        assert math.isnan(value)
        return
    assert value == expected
    assert type(value) is type(expected)
    if isinstance(expected, tuple) and isinstance(value, tuple):
        assert [type(i) for i in value] == [type(i) for i in expected]


SYMBOLIC = [
    ("(N - 1) / 2 + 1", lambda n, m: (n - 1) // 2 + 1),
    ("(N + 2) \\ 3", lambda n, m: -(-(n + 2) // 3)),
    ("N % 3 * M", lambda n, m: n % 3 * m),
    ("N << M >> 2", lambda n, m: max(min(n, m), 2)),
    ("[N, M, 1] + ..", lambda n, m: n + m + 1),
    ("N > 4 ? N - 4 : M", lambda n, m: n - 4 if n > 4 else m),
    ("`abs`(N - M)", lambda n, m: abs(n - m)),
    ("[N, M][N % 2]", lambda n, m: [n, m][n % 2]),
    ("(N ** 2 - M) / 3", lambda n, m: (n * n - m) // 3),
]


@pytest.mark.parametrize(("text", "oracle"), SYMBOLIC, ids=[t for t, _ in SYMBOLIC])
def test_value_of_sizes(text: str, oracle: Callable[[int, int], int]) -> None:
    value = evaluate(text)
    assert isinstance(value, nodes.Expr)
    for n in range(11):
        for m in range(11):
            got = shapes.evaluate(value, {N: n, M: m})
            assert got == oracle(n, m), format_expr(value)


ERRORS = [
    ("a / z", "E0502", "a / z"),
    ("1.0 / 0.0", "E0502", "1.0 / 0.0"),
    ("a % 0", "E0502", "a % 0"),
    ("a \\ z", "E0502", "a \\ z"),
    ("0 ** -1", "E0502", "0 ** -1"),
    ("N / 0", "E0502", "N / 0"),
    ("1 + 1.0", "E0503", "1 + 1.0"),
    ("true + true", "E0503", "true + true"),
    ("-t", "E0503", "-t"),
    ("!a", "E0503", "!a"),
    ("int('3')", "E0503", "int('3')"),
    ("str(3)", "E0503", "str(3)"),
    ("`sqrt`(4)", "E0503", "`sqrt`(4)"),
    ("x + y", "E0503", "x + y"),
    ("a ? 1 : 2", "E0503", "a"),
    ("a[0]", "E0503", "a"),
    ("[p]", "E0503", "p"),
    ("a in b", "E0503", "b"),
    ("a + ..", "E0503", "a"),
    ("x[0,1]", "E0503", "x[0,1]"),
    ("9223372036854775807 + 1", "E0504", "9223372036854775807 + 1"),
    ("3 ** 100", "E0504", "3 ** 100"),
    ("2 ** 1000000000000", "E0504", "2 ** 1000000000000"),
    ("int(1e20)", "E0504", "int(1e20)"),
    ("p[3]", "E0505", "3"),
    ("p[-4]", "E0505", "-4"),
    ("e[0]", "E0505", "0"),
    ("p[[0, 5]]", "E0505", "[0, 5]"),
    ("p + u", "E0506", "p + u"),
    ("[(p, u)..]", "E0506", "(p, u).."),
    ("p[[t, f]]", "E0506", "[t, f]"),
    ("p[0:2] <- [1, 2, 3]", "E0506", "p[0:2] <- [1, 2, 3]"),
    ("[a..(-1)]", "E0506", "-1"),
    ("N > 3 ? 1", "E0507", "N > 3"),
    ("[0:5:0]", "E0508", "0:5:0"),
    ("p[::0]", "E0508", None),
    ("missing", "E0201", "missing"),
    ("[0:100000000]", "E0903", "0:100000000"),
]


@pytest.mark.parametrize(("text", "code", "place"), ERRORS, ids=[t for t, _, _ in ERRORS])
def test_error_of_value(text: str, code: str, place: str | None) -> None:
    with pytest.raises(Error) as caught:
        evaluate(text)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code, diagnostic.render()
    if place is not None:
        assert diagnostic.span.text.strip() == place
