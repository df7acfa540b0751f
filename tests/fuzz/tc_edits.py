"""What is put into texts of Tensor Comprehensions to damage them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ricci.diagnostics import Report
from ricci.frontends.reading import make_source
from ricci.frontends.tc import syntax as s
from ricci.frontends.tc.builtins import ARGUMENTS
from ricci.frontends.tc.lexer import ASSIGNMENTS, KEYWORDS, TYPES, tokenize
from ricci.frontends.tc.parser import parse_unit

from .tc_programs import make_program
from .texts import Language, Text

KERNELS = Path(__file__).parent.parent / "tc" / "kernels"

SIGNS = ["+", "-", "*", "/", "%", "<", "<=", "==", "!=", "&&", "||", "?", ":", ",", "(", ")", "->",
         "<=>", "[", "]", ".", "!", "{", "}", *ASSIGNMENTS]  # fmt: skip
EXTREME = [
    "0", "1", "-1", "2147483647", "2147483648", "-2147483648", "-2147483649",
    "9223372036854775807",
    "9223372036854775808", "1" + "0" * 30, "1" + "0" * 1200, "1e400", "1e38", "1E39", "1e-60",
    "0.0", "-0.0", ".5", "3.", "0x7f", "0x1p4", "0x1p5000", "1e", "3E-5", "inf", "nan", "N", "A.0",
    "A.7", "int64(9223372036854775807)", "N", "M", "i", "j", "i + 1", "0", "1", "2",
    "uint8(300)", "float16(1e9)", "bfloat16(0.1)",
    "(1 / 0)", "(N % 0)", "(0.0 / 0.0)", "float64(0.1)", "bool(2)", "N * N * N * N * N * N * N",
]  # fmt: skip
WRAPS: Sequence[tuple[str, str]] = [
    ("(", ")"), ("-", ""), ("!", ""), ("1 + ", ""), ("2 * (", ")"), ("min(", ", 1)"),
    ("max(0, ", ")"), ("", " / 2"), ("", " % 3"), ("", " / 0"), ("A(", ")"), ("", "(i)"),
    ("int32(", ")"), ("float64(", ")"), ("uint8(", ")"), ("bool(", ")"), ("exp(", ")"), ("", ".0"),
    ("i < 1 ? ", " : 0"), ("", " == 0"), ("(", " < 1 && N > 2 ? 1 : 3)"), ("(", " + 1)"),
    ("1000000007 * ", ""),
    ("pow(", ", 2)"), ("fma(", ", 1)"), ("N - ", ""), ("", " + k"), ("", " - i"),
    ("", " <=> f(i)"),
]  # fmt: skip
CLAUSES = [
    "i in 0:N", "j in 1:N - 1", "k = [0, 2[", "i = [0, 0[", "i in 3:1", "i in 0:1000000007",
    "i in -5:5",
    "i in 0:9223372036854775807", "x = A(i)", "x = i + 1", "exists A(i)", "exists A(i, j)",
    "i in 0:A.0", "i in 0:j", "i in 0:A(0)", "i in 0:1.5", "x = x", "i in 0:N * N", "i in 0:N / 0",
]  # fmt: skip

_EXPRESSIONS = (
    s.Number, s.Name, s.Apply, s.SizeOf, s.Cast, s.Unary, s.Binary, s.Conditional,
)  # fmt: skip
_CLAUSES = (s.Range, s.Let, s.Exists)

COMPREHENSIONS = Language(
    parse=lambda text: parse_unit(make_source(text, "tc"), Report()),
    tokenize=lambda text: tokenize(make_source(text, "tc"), Report()),
    classes={
        **dict.fromkeys(_EXPRESSIONS, "expression"),
        **dict.fromkeys(_CLAUSES, "clause"),
    },
    kinds=["statement"] * 4 + ["expression"] * 8 + ["clause"] * 4 + ["declaration", "function"],
    between={"statement": "\n", "expression": " + ", "clause": ", ", "declaration": ", "},
    extreme=EXTREME,
    wraps=WRAPS,
    signs=SIGNS,
    words=["N", "i", "A", "x", "true", "infinite", "nan0", "_", *sorted(KEYWORDS), *ARGUMENTS],
    keywords=frozenset(TYPES),
    expressions=["expression"],
    more={
        "statement": [f" where {c}" for c in CLAUSES],
        "clause": [f", {c}" for c in CLAUSES],
    },
)


def texts() -> list[Text]:
    """The kernels of the tests, and some random programs."""
    kernels = [p.read_text() for p in sorted(KERNELS.glob("*.tc"))]
    made = [make_program(seed).text for seed in range(40)]
    return [Text(t, COMPREHENSIONS) for t in [*kernels, *FEATURES, *made]]


FEATURES = [
    """def f(float16(N) A, bfloat16(N) B, uint64 s) -> (float64(N) O, P, Q) {
    O(i) = A(i) * B(N - 1 - i) + s
    P(i) +=! A(i / 2 + k) where k = [0, 2[
    Q(i) = x > 0 ? A(x) : B(i) where x = i - 1, i in 0:B.0
}""",
    """def f(int32(N) I, float(M, 4) T) -> (O, m) {
    O(i, d) = T(min(max(I(i), 0), M - 1), d) <=> gather(T, I)
    m max=! O(i, d)
    O(i, d) = O(i, d) / m
}
def g(bool(N, N) A, int8 k) -> (C, D) {
    C(i) min=! A(i, j) && A(j, i)
    D(i) += int64(k) % (i + 1) where exists A(i, i)
}""",
]  # fmt: skip
