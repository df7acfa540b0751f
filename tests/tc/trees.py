"""Random trees of Tensor Comprehensions, for the round trip through text."""

from __future__ import annotations

from hypothesis import strategies as st

from ricci.dtypes import DType
from ricci.frontends.tc import syntax as s
from ricci.frontends.tc.lexer import ASSIGNMENTS, TYPES, value_of
from ricci.frontends.tc.parser_expressions import LEVELS

NAMES = st.sampled_from("a b i j k A B infinite nan0 maxval index_of def_ _".split())
INTEGERS = st.sampled_from("0 1 7 2147483647 0x1F".split())
REALS = st.sampled_from("0.5 3. .3 3e-3 3E-5 .5e-7 1.4 0x1.8p3".split())
DTYPES = st.sampled_from(list(dict.fromkeys(TYPES.values())))

identifiers = NAMES.map(s.Identifier)
integers = INTEGERS.map(lambda text: s.Number(value_of(text), DType.INT32, text))
reals = REALS.map(lambda text: s.Number(value_of(text), DType.FLOAT32, text))


def _extend(inner: st.SearchStrategy[s.Expression]) -> st.SearchStrategy[s.Expression]:
    some = st.lists(inner, max_size=3).map(tuple)
    extrema = st.sampled_from(["min", "max"]).map(s.Identifier)
    return st.one_of(
        st.builds(s.Apply, identifiers, some),
        st.builds(s.Apply, extrema, st.tuples(inner, inner)),
        st.builds(s.Cast, DTYPES, inner),
        st.builds(s.Unary, st.sampled_from(["-", "!"]), inner),
        st.builds(s.Binary, st.sampled_from(list(LEVELS)), inner, inner),
        st.builds(s.Conditional, inner, inner, inner),
    )


expressions = st.recursive(
    st.one_of(
        integers,
        reals,
        NAMES.map(s.Name),
        st.builds(s.SizeOf, identifiers, st.integers(0, 3)),
    ),
    _extend,
    max_leaves=15,
)
applications = st.builds(s.Apply, identifiers, st.lists(expressions, max_size=2).map(tuple))
clauses = st.one_of(
    st.builds(s.Range, identifiers, expressions, expressions),
    st.builds(s.Let, identifiers, expressions),
    st.builds(s.Exists, expressions),
)
statements = st.builds(
    s.Statement,
    identifiers,
    st.lists(identifiers, max_size=3).map(tuple),
    st.sampled_from(ASSIGNMENTS),
    expressions,
    st.none() | applications,
    st.lists(clauses, max_size=3).map(tuple),
)
dims = st.none() | st.lists(identifiers | integers, max_size=3).map(tuple)
declarations = st.one_of(
    st.builds(s.Declaration, identifiers),
    st.builds(s.Declaration, identifiers, DTYPES, dims),
)
functions = st.builds(
    s.Function,
    identifiers,
    st.lists(declarations, max_size=4).map(tuple),
    st.lists(declarations, max_size=3).map(tuple),
    st.lists(statements, max_size=3).map(tuple),
)
units = st.lists(functions, max_size=2).map(lambda found: s.Unit(tuple(found)))
