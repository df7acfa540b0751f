"""Validity checks (2.8), helpers (2.9) and how they wait for each other."""

from __future__ import annotations

import numpy as np

from .case import Case
from .programs import program

X = np.arange(1.0, 7.0)


def _checked(name: str, asserts: str, attributes: str = "", given: str = "", error: str = "",
             using: str = "", section: str = "2.8") -> Case:  # fmt: skip
    """An operator with asserts: it copies a vector, or its assert says `error`."""
    text = program(
        f"""operator f {{ @attrib {{ {attributes} }} @input {{ x: real[s]; }}
        @using {{ {using} }} @assert {{ {asserts} }} @output {{ y: real[s]; }}
        @lower {{ y[i,] = x[i,], i < s; }} }}""",
        f"y = f{given}(x);",
        "x: real[6];",
    )
    if error:
        return Case(section, name, text, (X,), error="E0501", message=error)
    return Case(section, name, text, (X,), X)


ASSERTS = [
    _checked("assert that holds", "s == 6: 'six';"),
    _checked("assert that fails", "s == 5: 'not five';", error="not five"),
    _checked("assert without message", "s > a;", "a: int;", "{a = 9}", r"s > a"),
    _checked("values in the message", "a > s: '{a} is not above {s}';", "a: int;", "{a = 4}",
             "4 is not above 6"),
    _checked("values printed with the message", "a > 0: 'must be positive', a, 2 * a;", "a: int;",
             "{a = -4}", r"(?s)must be positive.*a = -4.*2 \* a = -8"),
    _checked("label of a printed value", "a > 0: 'wrong', 'the size': a;", "a: int;", "{a = -4}",
             "the size = -4"),
    _checked("pack of conditions that hold", "p > 0: 'positive';", "p: int..(k);",
             "{p = [1, 2]}"),
    _checked("pack of conditions of which one fails", "p > 0: 'positive', p;", "p: int..(k);",
             "{p = [1, 0]}", r"p = \[1, 0\]"),
    _checked("empty pack of conditions", "p > 0;", "p: int..(k) = [];"),
    _checked("null condition is skipped", "n > 100: 'large';", "n: optional int;"),
    _checked("condition on an optional value that is given", "n > 100: 'large';",
             "n: optional int;", "{n = 5}", "large"),
    _checked("brackets and signs in a message", r"a > 0: '100% of \{a\} is %d {a}';", "a: int;",
             "{a = 0}", r"100% of \{a\} is %d 0"),
    _checked("message on two lines", "a > 0: 'first ' 'second';", "a: int;", "{a = 0}",
             "first second"),
    Case("2.8", "assert of a nested operator", program(
        """operator inner { @input { x: real[n]; } @output { y: real[n]; }
        @assert { n > 9: "at least ten, not {n}"; } @lower { y[i,] = x[i,], i < n; } }
        operator outer { @input { x: real[n]; } @output { y: real[n]; }
        @compose { y = inner(x); } }""",
        "y = outer(x);", "x: real[6];"), (X,), error="E0501",
        message=r"(?s)at least ten, not 6.*called as main\.inner.*called as main\.outer"),
    Case("2.8", "assert of a graph", """
        graph G { @attrib { n: int = 3; } @input { x: real[n]; } @output { y: real[n]; }
        @assert { n % 2 == 0: "{n} is odd"; } @compose { y = x; } }""",
        (X,), error="E0501", message="3 is odd"),
]  # fmt: skip

ORDER = """operator f { @attrib { a: int; b: int; c: int; } @input { x: real[s]; }
    @using { r = a / b; }
    @assert {
        r + c == 42: "some condition must be true for a/b and c";
        b > 0: "b must be positive", b;
        a % b == 0: "a must be divisible by b", a, b;
    }
    @output { y: real[s]; } @lower { y[i,] = x[i,] * real(r), i < s; } }"""


def _ordered(name: str, given: str, error: str = "") -> Case:
    text = program(ORDER, f"y = f{{{given}}}(x);", "x: real[6];")
    if error:
        return Case("2.9", name, text, (X,), error="E0501", message=error)
    return Case("2.9", name, text, (X,), 20 * X)


HELPERS = [
    _checked("helper from helpers", "d == 36;", using="b = s; c = 2 * b; d = 3 * c;",
                  section="2.9"),
    _checked("head and tail", "h == 1 && (t == [2, 3] && ..);", "p: int..(k) = [1, 2, 3];",
             using="[h, t..] = p;", section="2.9"),
    _checked("front and last", "l == 3 && (r == [1, 2] && ..);", "p: int..(k) = [1, 2, 3];",
             using="[r.., l] = p;", section="2.9"),
    _checked("all items", "a + 10 * b + 100 * c == 321;", "p: int..(3) = [1, 2, 3];",
             using="[a, b, c] = p;", section="2.9"),
    _checked("parts with a length", "(h == [1, 2] && ..) && (t == [3] && ..);",
             "p: int..(k) = [1, 2, 3];", using="[h..(2), t..] = p;", section="2.9"),
    _checked("unzip", "(e == [1, 3] && ..) && (o == [2, 4] && ..);",
             "p: int..(2 * k) = [1, 2, 3, 4];", using="[(e, o)..] = p;", section="2.9"),
    _checked("length as a hint", "(q + [1, 1] == [3, 4]) && ..;", "p: int..(k) = [1, 2, 3];",
             using="q..(2) = p[p > 1];", section="2.9"),
    _checked("helper that is a string", "m == 'size 6';", using="m = 'size {s}';", section="2.9"),
    _checked("helper that is null", "(q ?? 4) == 4;", "n: optional int;", using="q = n + 1;",
             section="2.9"),
    _ordered("checks and helpers in turns", "a = 40, b = 2, c = 22"),
    _ordered("check before the helper that would fail", "a = 1, b = 0, c = 42",
             "b must be positive"),
    _ordered("second check before the helper", "a = 41, b = 2, c = 22", "divisible by b"),
    _ordered("check that needs the helper", "a = 40, b = 2, c = 0", "some condition"),
]  # fmt: skip

CASES = [*ASSERTS, *HELPERS]
