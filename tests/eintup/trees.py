"""Random trees of Einsum Tuple, for the round trip through text."""

from __future__ import annotations

from hypothesis import strategies as st

from ricci.frontends.eintup import syntax as s
from ricci.frontends.eintup.parser import ASSIGNMENTS
from ricci.frontends.eintup.parser_index import INDEX_LEVELS
from ricci.frontends.eintup.parser_values import VALUE_LEVELS
from ricci.source import Source

NAMES = st.sampled_from("a b i_2 A B Loss INput DIMSx max where tf _ L0 Random".split())
FUNCTIONS = st.sampled_from("exp min max where float int ranks".split())
PARTS = st.sampled_from("tf nn conv2d IN and L float32".split())

identifiers = NAMES.map(s.Identifier)
eintups = NAMES.map(s.Eintup)
wholes = st.sampled_from([0, 1, 7, 2**63 - 1]).map(s.Whole)
numbers = st.sampled_from("0 7 9223372036854775807 0.5 3. .25 1e-5 2.5E+3".split()).map(
    lambda text: s.Number(int(text) if text.isdigit() else float(text), text)
)


def _some(inner: st.SearchStrategy[object], most: int = 3) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(inner, min_size=1, max_size=most).map(tuple)


# --------------------------------------------------------------- index expressions


def _sliced(inner: st.SearchStrategy[object]) -> st.SearchStrategy[s.Slice]:
    return st.builds(s.Slice, identifiers, _some(st.none() | inner))


def _indices(inner: st.SearchStrategy[s.IndexExpr]) -> st.SearchStrategy[s.IndexExpr]:
    return st.one_of(
        st.builds(s.Dims, _some(inner)),
        st.builds(s.Rank, _some(inner)),
        st.builds(s.Flat, _some(inner)),
        _sliced(inner),
        st.builds(s.IndexBinary, st.sampled_from(list(INDEX_LEVELS)), inner, inner),
    )


indices = st.recursive(eintups | wholes, _indices, max_leaves=6)
lists = _some(indices)
dims = st.builds(s.Dims, lists)
ranks = st.builds(s.Rank, lists)
accesses = st.builds(s.Access, identifiers, lists)

# -------------------------------------------------------------------------- values


def _values(inner: st.SearchStrategy[s.Value]) -> st.SearchStrategy[s.Value]:
    return st.one_of(
        st.builds(s.Apply, FUNCTIONS.map(s.Identifier), _some(inner)),
        st.builds(s.Unary, st.sampled_from(["-", "not"]), inner),
        st.builds(s.Binary, st.sampled_from(list(VALUE_LEVELS)), inner, inner),
        st.builds(s.Random, inner, inner, st.sampled_from(["INT", "FLOAT"])),
    )


values = st.recursive(
    st.one_of(
        numbers,
        accesses,
        ranks,
        st.builds(s.DimsAt, dims, eintups),
        st.builds(s.Range, eintups, eintups),
    ),
    _values,
    max_leaves=10,
)
statements = st.builds(s.Statement, accesses, st.sampled_from(ASSIGNMENTS), values)

# --------------------------------------------------------------------- constraints

_listed = _some(eintups)


def _terms(inner: st.SearchStrategy[s.Term]) -> st.SearchStrategy[s.Term]:
    return st.one_of(
        st.builds(s.Smallest, st.sampled_from(["min", "max"]), _some(inner)),
        st.builds(s.TermBinary, st.sampled_from(list(INDEX_LEVELS)), inner, inner),
    )


terms = st.recursive(
    st.one_of(
        st.integers(-9, 9).map(s.Whole),
        st.builds(s.Rank, _listed),
        st.builds(s.Dims, _listed),
        st.builds(s.DimOf, st.builds(s.Dims, _listed), st.integers(0, 3)),
    ),
    _terms,
    max_leaves=6,
)
comparisons = st.lists(
    st.tuples(st.sampled_from(["<", "<=", "==", "!=", ">=", ">"]), terms), min_size=1, max_size=3
).flatmap(
    lambda rest: st.builds(
        s.Comparison,
        terms.map(lambda first: (first, *(term for _, term in rest))),
        st.just(tuple(relation for relation, _ in rest)),
    )
)
constraints = comparisons | st.builds(s.Membership, terms, terms, terms)

# ---------------------------------------------------------------------------- call

qualified = st.lists(PARTS, min_size=1, max_size=3).map(lambda p: s.QualifiedName(("tf", *p)))
literals = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-9, 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.sampled_from("aZ \\'\"#\n\t,:(\N{EURO SIGN}"), max_size=5),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)
constants = literals.map(s.Constant)
_plain = st.one_of(dims, ranks, constants, st.builds(s.Item, dims, st.integers(0, 3)))


def _arguments(inner: st.SearchStrategy[s.Argument]) -> st.SearchStrategy[s.Argument]:
    called = st.builds(
        s.Call,
        qualified | st.just(s.QualifiedName(("int",))),
        st.lists(st.tuples(st.none() | identifiers, inner), max_size=3).map(tuple),
    )
    return called | st.builds(s.Item, called, st.integers(0, 3))


arguments = st.recursive(
    st.one_of(identifiers, qualified, _plain, st.builds(s.TensorOf, _plain)),
    _arguments,
    max_leaves=6,
)
calls = st.builds(
    s.Call,
    qualified,
    st.lists(st.tuples(st.none() | identifiers, arguments), max_size=4).map(tuple),
)

# ---------------------------------------------------------------------------- file


def _file(
    body: list[s.Statement],
    call: s.Call | None,
    outputs: list[s.Identifier],
    rules: list[s.Constraint],
) -> s.File:
    named = tuple(outputs) or ((s.Identifier("A"),) if call else ())
    return s.File(tuple(body), call, named, tuple(rules), Source("<tree>", ""))


files = st.builds(
    _file,
    st.lists(statements, min_size=1, max_size=3),
    st.none() | calls,
    st.lists(identifiers, max_size=3),
    st.lists(constraints, max_size=3),
)
