"""What is put into texts of Einsum Tuple to damage them."""

from __future__ import annotations

import random
import re
from pathlib import Path

from ricci.diagnostics import Report
from ricci.frontends.eintup import syntax as s
from ricci.frontends.eintup.lexer import KEYWORDS, tokenize
from ricci.frontends.eintup.parser import ASSIGNMENTS, parse_file
from ricci.frontends.reading import make_source
from ricci.ir.functions import ARITY

from ..eintup.random_programs import make_case
from .texts import Language, Text

LIBRARY = Path(__file__).parent.parent.parent / "examples" / "eintup"

SIGNS = ["+", "-", "*", "/", "//", "//^", "%", "<", "<=", "==", "!=", ">=", ">", "(", ")", "[", "]",
         ",", ":", ".", "and", "or", "not", "IN", "\n", "\n\n", *ASSIGNMENTS]  # fmt: skip
EXTREME = [
    "0", "1", "-1", "2", "3", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "1" + "0" * 1200, "1e400", "1e308", "0.0", "0.5", "-0.0", "1e", "a", "b",
    "DIMS(a)", "DIMS(a, b)", "DIMS(a)[0]", "DIMS(a)[coord]", "RANK(a)", "RANK(a, b)", "FLAT(a, b)",
    "FLAT(a, FLAT(b, a))", "A[a]", "A[a, b]", "A[a, :]", "A[:]", "A[:, :]", "A[a - 1]", "A[2*a]",
    "A[DIMS(a) - 1 - a]", "RANGE[a, coord]", "RANDOM(0, 10, INT)", "RANDOM(0, 0, INT)",
    "RANDOM(0, A[a], FLOAT)", "(1 // 0)", "(a // 0)", "(a % 0)", "(a * b)", "(a // 2)",
    "(a //^ 1000000007)", "min(1, 2)", "max(DIMS(a), 3)", "(DIMS(a) * DIMS(b))", "(1 / 0)",
    "exp(1000)", "int(1e30)", "where(1 < 2, 0, 1)", "sqrt(-1)", "L('VALID')", "None",
]  # fmt: skip
WRAPS = [
    ("(", ")"), ("-", ""), ("not ", ""), ("1 + ", ""), ("2 * (", ")"), ("", " - 1"), ("", " // 2"),
    ("", " //^ 3"), ("", " % 4"), ("", " / 2"), ("", " // 0"), ("max(0, ", ")"), ("exp(", ")"),
    ("int(", ")"), ("float(", ")"), ("FLAT(", ")"), ("FLAT(a, ", ")"), ("DIMS(", ")"),
    ("RANK(", ")"), ("DIMS(", ")[coord]"), ("DIMS(", ")[0]"), ("A[", "]"), ("A[", ", :]"),
    ("", " < 1"), ("(", " < 1 and 2 > 1)"), ("where(a < 1, ", ", 0)"), ("", " == 0"),
    ("RANDOM(0, ", ", INT)"), ("DIMS(a) - 1 - ", ""), ("", ", a"), ("1000000007 * ", ""),
    ("pow(", ", 2)"), ("min(", ")"), ("", " + DIMS(a)"), ("", " - b"), ("TENSOR(", ")"),
]  # fmt: skip
CONSTRAINTS = [
    "RANK(a) IN [0, 2]", "RANK(a) = 0", "RANK(a) = 1", "RANK(a) = RANK(b)", "RANK(a) = RANK(b) + 1",
    "RANK(a) < 3", "0 < RANK(a, b) <= 3", "RANK(a) IN [2, 1]", "RANK(a) IN [0, 60]", "RANK(a) = -1",
    "RANK(a) != 1", "RANK(a) * RANK(b) = 6", "DIMS(a) IN [0, 3]", "DIMS(a) = 2",
    "DIMS(a) = DIMS(b)",
    "DIMS(a) = DIMS(b) + 1", "DIMS(b) = DIMS(a) - 1", "DIMS(a) = DIMS(a)", "DIMS(a) < DIMS(b)",
    "DIMS(a)[0] = RANK(b)", "DIMS(a)[5] = 3", "DIMS(a) = 7 // DIMS(b)",
    "DIMS(a) = 9223372036854775807", "DIMS(a) = 1 // 0", "DIMS(a, b) = DIMS(b, a)",
    "DIMS(a) IN [DIMS(b), 9]", "DIMS(a) = max(DIMS(b) - 2, 0)", "DIMS(a) % 2 = 1",
    "DIMS(a) != DIMS(b) >= 2", "1 = 1", "1 = 2", "DIMS(zz) = 1",
]  # fmt: skip
STATEMENTS = [
    "A[a] = RANDOM(0, 9, INT)", "A[a] = 1.5", "A[a] += 1", "A[a, b] = RANDOM(0, 1, FLOAT)",
    "B[a] = A[a]", "B[a] max= A[a]", "B[a + 1] = A[a]", "B[0] or= A[a] > 1", "A[a] *= 2",
    "C[A[a, :]] += 1", "A[a] and= A[a]",
]  # fmt: skip

_INDICES = (s.Eintup, s.Whole, s.Dims, s.Rank, s.Flat, s.Slice, s.IndexBinary)
_VALUES = (s.Number, s.Access, s.DimsAt, s.Range, s.Random, s.Apply, s.Unary, s.Binary)
_ARGUMENTS = (s.Call, s.Constant, s.TensorOf, s.Item, s.QualifiedName)

KINDS = ["term", "argument", "identifier", *["statement"] * 3, *["constraint"] * 4]
KINDS += ["index"] * 5 + ["value"] * 5


def _suit(part: str, text: str, rng: random.Random) -> str:
    """Eintups and arrays of the text in the place of `a`, `b`, `coord` and `A`, mostly."""
    arrays = sorted(set(re.findall(r"^(\w+)\[", text, re.M)) - KEYWORDS)
    eintups = sorted(set(re.findall(r"(?<=[\[, (])[a-z]\w*(?=[\],)])", text)) - {*arrays})
    known = {"A": arrays, **dict.fromkeys(["a", "b", "coord"], eintups)}
    chosen = {name: rng.choice(some or [name]) for name, some in known.items()}
    if rng.random() < 0.1:
        return part
    return re.sub(r"\b(A|a|b|coord)\b", lambda found: chosen[found[0]], part)


PROGRAMS = Language(
    parse=lambda text: parse_file(make_source(text, "et"), Report()),
    tokenize=lambda text: tokenize(make_source(text, "et"), Report()),
    classes={
        **dict.fromkeys(_INDICES, "index"),
        **dict.fromkeys(_VALUES, "value"),
        **dict.fromkeys(_ARGUMENTS, "argument"),
        **dict.fromkeys((s.DimOf, s.Smallest, s.TermBinary), "term"),
        **dict.fromkeys((s.Comparison, s.Membership), "constraint"),
    },
    kinds=KINDS,
    between={"statement": "\n", "constraint": "\n", "value": " * ", "index": ", "},
    extreme=EXTREME,
    wraps=WRAPS,
    signs=SIGNS,
    words=["a", "A", "coord", "_", "np", *sorted(KEYWORDS), *ARITY],
    keywords=KEYWORDS,
    expressions=["value", "index", "index", "value", "term"],
    more={
        "statement": ["\n" + line for line in STATEMENTS],
        "constraint": ["\n" + line for line in CONSTRAINTS],
    },
    suit=_suit,
)


def texts() -> list[Text]:
    """The library, programs that are compared with NumPy, and random ones."""
    library = [p.read_text() for p in sorted(LIBRARY.glob("*.et"))]
    made = [make_case(seed).text for seed in range(40)]
    return [Text(t, PROGRAMS) for t in [*library, *FEATURES, *made]]


FEATURES = [
    """A[a, b] = RANDOM(-9, 9, INT)
B[b, c] = RANDOM(0, 1, FLOAT)
C[a, c] = A[a, b] * B[b, c]

np.matmul(A, B)

C

RANK(a, b, c) = 3
DIMS(b) IN [0, 4]
""",
    """A[a] = RANDOM(0, 1, FLOAT)
B[a, coord] = RANDOM(0, DIMS(b)[coord], INT)
C[b] = 0.0
C[B[a, :]] += A[a]
D[0] max= where(A[a] > 0.5 and not C[b] == 0, A[a] / C[b], RANGE[b, coord])

np.array(C)

C

RANK(a) IN [0, 2]
RANK(b) IN [1, 2]
DIMS(b) IN [1, 4]
""",
    """A[a] = RANDOM(0, 10, INT)
B[a // 2 + DIMS(c) - 1 - c] = A[a] % 3
C[FLAT(a, b)] = A[a] + RANK(b)
D[2*a - b] min= A[a - b] //^ 2

np.reshape(np.broadcast_to(A, DIMS(a)), -1)

A

RANK(b) = RANK(a) <= 2
DIMS(b) = max(DIMS(a) - 1, 0)
0 < DIMS(c) < 3
""",
]
