"""What a program means, derived from it.

The formula as mathematics, what each eintup is for, which ranks go together and why, the arrays,
and the dims that constraints compute: in words, in symbols, and worked out for an example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from ...dtypes import DType
from ...ir.nodes import integer
from ...ir.shapes import as_int
from . import syntax as s
from .conditions import Conditions, collides
from .constraint_words import constraint_words, term_words
from .dims import computed, draw_dims
from .explanation import Computed, Explanation, Formula, Group, RankClass, Signature
from .extents import shape_of
from .fixed import Fixed, combinations, illegal_ranks
from .lower import needs_data
from .mathematics import constraint_text, index_text, statement_text, term_text, value_text
from .printer import print_call
from .program import Array, Configuration, Program
from .rank_rules import Tie, names_in, terms_of
from .roles import computed_statements, places, role_text
from .typing import infer_types

_MOST = 1000
"""How many combinations of ranks an example is chosen from."""


def explain(program: Program, example: Configuration | None = None) -> Explanation:
    """The explanation of a program, with an example of dims: this one, or one that is drawn."""
    example = example or make_example(program)
    own = computed(program)
    conditions = Conditions(program, example.ranks)
    return Explanation(
        formulas=tuple(_formula(program, t, conditions) for t in computed_statements(program)),
        call=None if program.file.call is None else print_call(program.file.call),
        outputs=tuple(a.name for a in program.outputs),
        groups=tuple(_group(program, own, name) for name in program.eintups),
        classes=tuple(_rank_class(program, names) for names in program.ranks.classes),
        combinations=sum(1 for _ in program.ranks.combinations()),
        arrays=tuple(_signatures(program, example)),
        computed=tuple(
            _computed(program, name, constraint, example) for name, constraint in own.items()
        ),
        relations=tuple(_relations(program, own)),
        example=dict(example.dims),
    )


def make_example(program: Program, fixed: Fixed | None = None) -> Configuration:
    """Dims at the smallest ranks that a caller allows, from 1 on if that can be.

    Of a few drawings it is the one in which the fewest dims are 0 or 1.
    """
    fixed = fixed or Fixed()
    every = islice(combinations(program, fixed.wanted_ranks()), _MOST)
    ranks = min(every, key=lambda found: sum(r == 0 for r in found.values()), default=None)
    if ranks is None:
        raise illegal_ranks(program, fixed.wanted_ranks())
    known = fixed.dims_at(ranks)
    rng = np.random.default_rng(0)
    drawn = [draw_dims(program, ranks, rng, known=known) for _ in range(20)]
    return min(drawn, key=lambda c: sum(d < 2 for dims in c.dims.values() for d in dims))


def open_names(program: Program) -> tuple[str, ...]:
    """The eintups whose dims neither constraints compute nor the shapes of inputs show."""
    shown = {
        item.name for a in program.inputs for item in a.signature if isinstance(item, s.Eintup)
    }
    return tuple(n for n in program.eintups if n not in shown and n not in computed(program))


# ------------------------------------------------------------------- formulas


def _formula(program: Program, statement: s.Statement, conditions: Conditions) -> Formula:
    first = program.arrays[statement.target.array.name].first is statement
    notes = _notes(statement, first, conditions)
    return Formula(statement_text(statement, first), tuple(notes))


def _notes(statement: s.Statement, first: bool, conditions: Conditions) -> Iterator[str]:
    if found := conditions.of(statement):
        yield f"for {'; and '.join(found)}"
    if collides(statement):
        yield "values that reach one cell are " + (
            "summed" if statement.operator in ("=", "+=") else f"combined by {statement.operator}"
        )
    if statement.operator == "=" and not first:
        yield "other cells keep what they hold"


# -------------------------------------------------------------------- eintups


def _group(program: Program, own: Mapping[str, s.Constraint], name: str) -> Group:
    return Group(
        name,
        program.ranks.interval(name),
        _dims_text(program, own, name),
        role_text(program, name),
        places(program, name),
    )


def _dims_text(program: Program, own: Mapping[str, s.Constraint], name: str) -> str:
    """What constraints say about dims alone; the formula if they are computed."""
    if name in own:
        return term_text(_value_of(own[name], name))
    intervals = [c for c in program.file.constraints if _is_interval(c)]
    found = [c for c in intervals if _leaves(c) == [s.Dims((s.Eintup(name),))]]
    return "; ".join(map(_interval_text, found)) or "1 to 8"


def _interval_text(constraint: s.Constraint) -> str:
    match constraint:
        case s.Membership(s.Dims(), low, high):
            return f"{term_text(low)} to {term_text(high)}"
        case _:
            return constraint_text(constraint)


def _is_interval(constraint: s.Constraint) -> bool:
    """Whether a constraint bounds the dims, or the rank, of one eintup by numbers alone."""
    leaves = _leaves(constraint)
    return len(leaves) == 1 and len(names_in(leaves[0])) == 1


def _leaves(constraint: s.Constraint) -> list[s.Term]:
    """The ranks and dims that a constraint speaks of."""
    return [t for t in terms_of(constraint) if isinstance(t, s.Rank | s.Dims | s.DimOf)]


def _relations(program: Program, own: Mapping[str, s.Constraint]) -> Iterator[str]:
    """The constraints that relate dims and compute none, in symbols and in words."""
    used = {id(c) for c in own.values()}
    for constraint in program.file.constraints:
        on_ranks = all(isinstance(leaf, s.Rank) for leaf in _leaves(constraint))
        if id(constraint) not in used and not on_ranks and not _is_interval(constraint):
            yield f"{constraint_text(constraint)}: {constraint_words(constraint)}"


# ---------------------------------------------------------------------- ranks


def _rank_class(program: Program, names: tuple[str, ...]) -> RankClass:
    reasons = (tie.why for tie in program.ranks.ties if not _ranks_in(tie).isdisjoint(names))
    return RankClass(names, program.ranks.interval(names[0]), tuple(dict.fromkeys(reasons)))


def _ranks_in(tie: Tie) -> set[object]:
    return {key for r in tie.relations for key in r.unknowns() if isinstance(key, str)}


# --------------------------------------------------------------------- arrays


def _signatures(program: Program, example: Configuration) -> Iterator[Signature]:
    types = infer_types(program, {}, DType.FLOAT64, DType.INT32)
    outputs = {a.name for a in program.outputs}
    unknown = {a.name for a in needs_data(program)}
    for array in program.arrays.values():
        kind = "input" if array.is_input else "computed"
        yield Signature(
            array.name,
            "output" if array.name in outputs else kind,
            tuple(index_text(i) for i in array.signature),
            value_text(array.first.value) if array.is_input else str(types[array.name]),
            None if array.name in unknown else _shape(program, array, example),
        )


def _shape(program: Program, array: Array, example: Configuration) -> tuple[int, ...]:
    dims = {name: tuple(map(integer, own)) for name, own in example.dims.items()}
    return tuple(as_int(e) or 0 for e in shape_of(array, dims, program.arrays))


# -------------------------------------------------------------- computed dims


def _value_of(constraint: s.Constraint, name: str) -> s.Term:
    """The other side of an equality that gives dims."""
    assert isinstance(constraint, s.Comparison)
    lhs, rhs = constraint.terms[:2]
    return rhs if _subject(lhs) == name else lhs


def _subject(term: s.Term) -> str | None:
    """The eintup that a side of an equality is the dims of."""
    match term:
        case s.Dims((s.Eintup(name),)) | s.DimOf(s.Dims((s.Eintup(name),)), _):
            return name
        case _:
            return None


def _computed(
    program: Program, name: str, constraint: s.Constraint, example: Configuration
) -> Computed:
    value = _value_of(constraint, name)
    many = program.ranks.interval(name)[1] > 1
    words = f"`{name}` is {term_words(value)}{', for every component' * many}"
    result = _tuple_text(example.dims[name])
    worked = term_text(value, lambda leaf: _numbers(program, leaf, example))
    numbers = worked if worked == result else f"{worked} = {result}"
    return Computed(name, words, f"{name} = {term_text(value)}", f"{name} = {numbers}")


def _numbers(program: Program, leaf: s.Rank | s.Dims | s.DimOf, example: Configuration) -> str:
    match leaf:
        case s.Rank(items):
            return str(sum(program.ranks.rank_of(item, example.ranks) for item in items))
        case s.DimOf(dims, at):
            return str(_dims(dims, example)[at])
        case s.Dims():
            return _tuple_text(_dims(leaf, example))


def _dims(leaf: s.Dims, example: Configuration) -> tuple[int, ...]:
    return tuple(d for name in names_in(leaf) for d in example.dims[name])


def _tuple_text(dims: tuple[int, ...]) -> str:
    return str(dims[0]) if len(dims) == 1 else str(list(dims))
