"""A conflict in words: which arrays and groups disagree, and where they say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...diagnostics import Label
from ...records import dataclass
from . import syntax as s
from .dims_rules import Key, definitions
from .equations import Equation, Equations, Fixed, Shapes, Size
from .printer import print_constraint, print_index
from .rank_rules import rank_form, terms_of
from .readings import Reader
from .relations import ANY, Box, Empty, Expr, Unknown, bounds, total, unknowns, value
from .templates import plain_template


@dataclass(frozen=True, slots=True)
class Finding:
    """What a diagnostic says of a conflict; the first label is its place."""

    code: str
    message: str
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()


def listed(words: Sequence[str], link: str = "and") -> str:
    """`a, b and c`."""
    return f" {link} ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def component_text(key: Key, ranks: Mapping[str, int]) -> str:
    """`ichan`, or one component of `ipos`."""
    name, at = key
    return f"`{name}`" if ranks[name] == 1 else f"component {at} of `{name}`"


# ----------------------------------------------------------------------- ranks


def ranks_finding(
    reader: Reader, counts: Mapping[str, int], arrays: Sequence[str], fixed: Sequence[str]
) -> Finding:
    """Numbers of dimensions that no ranks give."""
    labels = tuple(
        Label(reader.program.arrays[name].span, f"{_dimensions(counts[name])} received")
        for name in arrays
    )
    notes = [_rank_note(reader, name) for name in arrays]
    given = reader.fixed_ranks()
    notes += [f"RANK({name}) is fixed as {given[name]}" for name in fixed]
    words = [f"`{name}` has {_dimensions(counts[name])}" for name in arrays]
    if not arrays:
        return Finding("E0801", "no legal ranks have those that are fixed", notes=tuple(notes))
    if not fixed and reader.choices({arrays[0]: counts[arrays[0]]}, {}).empty:
        return Finding("E0411", f"{listed(words)}: no ranks give that many", labels, tuple(notes))
    ranks = f" with {listed([f'RANK({name}) = {given[name]}' for name in fixed])}" if fixed else ""
    return Finding("E0411", f"{listed(words)}{ranks}: no ranks fit that", labels, tuple(notes))


def _dimensions(count: int) -> str:
    return f"{count} dimension{'s' * (count != 1)}"


def _rank_note(reader: Reader, name: str) -> str:
    """Of how many dimensions an array is, by its groups."""
    program = reader.program
    array = program.arrays[name]
    form = total(rank_form(slot, program.ranks.signatures) for slot in array.signature)
    intervals = {n: program.ranks.interval(n) for n in program.eintups}
    box: Box = dict(intervals.items())
    try:
        low, high = bounds(form, box)
    except Empty:
        low, high = ANY
    open_ones = [str(k) for k in unknowns(form) if box.get(k, (0, 1))[0] != box.get(k, (0, 1))[1]]
    base = value(form, {**box, **dict.fromkeys(open_ones, (0, 0))})
    terms = [f"RANK({n})" for n in dict.fromkeys(open_ones)]
    terms += [str(base)] if base or not terms else []
    many = f"{low} to {high}" if low != high else str(low)
    ranks = dict.fromkeys(program.eintups, 1) | dict.fromkeys(open_ones, 2)
    why = f", that is {many}" if open_ones else ""
    noun = "dimension" if terms == ["1"] else "dimensions"
    return f"`{plain_template(program, array, ranks)}` has {' + '.join(terms)} {noun}{why}"


# ------------------------------------------------------------------------ dims


def dims_finding(
    reader: Reader, at: Equations, shapes: Shapes, conflict: Sequence[Equation]
) -> Finding:
    """Sizes that contradict each other, a constraint, or what the caller fixed."""
    return _Conflict(reader, at, shapes, conflict).finding()


class _Conflict:
    """Equations at some ranks, none of which can be left out of the contradiction."""

    def __init__(
        self, reader: Reader, at: Equations, shapes: Shapes, conflict: Sequence[Equation]
    ) -> None:
        self.reader = reader
        self.program = reader.program
        self.at = at
        self.shapes = shapes
        self.conflict = conflict
        self.sizes = [e for e in conflict if isinstance(e.origin, Size)]
        self.rules = [e for e in conflict if isinstance(e.origin, s.Comparison | s.Membership)]
        self.fixed = [e for e in conflict if isinstance(e.origin, Fixed)]

    def finding(self) -> Finding:
        if self.rules:
            return self._broken_rule()
        if not self.sizes:
            return Finding("E0801", f"{listed([self._said(e) for e in self.fixed])}: too large")
        bare = all(isinstance(e.relation.lhs, Unknown) for e in self.conflict)
        if bare and len(self.conflict) == 2:
            return self._two_sizes()
        return self._other_extent()

    def _two_sizes(self) -> Finding:
        """One component has two sizes."""
        said = [self._said(e) for e in [*self.sizes, *self.fixed]]
        text = f"{said[0]}, but {said[1].split(' is ', 1)[1]}"
        return Finding("E0410", text, self._labels(), self._ranks_note())

    def _other_extent(self) -> Finding:
        """A dimension has not the extent that its index expression has."""
        culprit = next(
            (e for e in reversed(self.sizes) if not isinstance(e.relation.lhs, Unknown)),
            self.sizes[-1],
        )
        assert isinstance(culprit.origin, Size)
        expected = value(culprit.relation.lhs, self._others(culprit))
        text = f"dimension {culprit.origin.position} of `{culprit.origin.array}` is "
        text += f"{culprit.relation.rhs}, but `{print_index(self._slot(culprit.origin)[0])}` "
        text += "cannot have that extent" if expected is None else f"has extent {expected}"
        others = [e for e in self.conflict if e is not culprit]
        if expected is not None:
            others = self._givers(culprit)
        said = listed([self._said(e) for e in others])
        return Finding(
            "E0401", f"{text}: {said}" if said else text, self._labels(culprit), self._ranks_note()
        )

    def _others(self, culprit: Equation) -> Box:
        """What all sizes but one say of the components."""
        said = [*self.reader.given(self.at, self.shapes), *self.at.rules]
        found = self.reader.solve(self.at, [e for e in said if e.origin != culprit.origin])
        return {} if found is None else {key: (n, n) for key, n in found.known.items()}

    def _givers(self, culprit: Equation) -> list[Equation]:
        """For each component of an extent, the first that says what it is."""
        said = self.reader.given(self.at, self.shapes)
        first: dict[object, Equation] = {}
        for equation in said:
            if isinstance(equation.relation.lhs, Unknown):
                first.setdefault(equation.relation.lhs.key, equation)
        return [first[k] for k in dict.fromkeys(unknowns(culprit.relation.lhs)) if k in first]

    def _broken_rule(self) -> Finding:
        rule = self.rules[-1]
        assert isinstance(rule.origin, s.Comparison | s.Membership)
        said = [self._said(e) for e in [*self.sizes, *self.fixed]] + self._rank_values(rule.origin)
        because = f": {listed(said)}" if said else ""
        others = [e.origin for e in self.rules[:-1] if e.origin != rule.origin]
        notes = [f"and `{print_constraint(o)}`" for o in others if not isinstance(o, Size | Fixed)]
        text = f"`{print_constraint(rule.origin)}`"
        code, message = "E0501", f"{text} does not hold{because}"
        negative = self._negative(rule)
        if negative is not None:
            name, number = negative
            code, message = "E0416", f"`DIMS({name})` comes out as {number}{because}"
        labels = (*self._labels(), Label(rule.origin.span, "this must hold"))
        return Finding(code, message, labels, (*dict.fromkeys(notes), *self._ranks_note()))

    def _negative(self, rule: Equation) -> tuple[str, int] | None:
        """The eintup that a rule computes, if its dims come out negative."""
        box = self._known(rule)
        computed = definitions(self.program)
        for one, other in _sides(rule):
            if isinstance(one, Unknown) and isinstance(one.key, tuple) and one.key[0] in computed:
                try:
                    high = bounds(other, box)[1]
                except Empty:
                    return None
                if high < 0:
                    return str(one.key[0]), high
        return None

    # ------------------------------------------------------------------ details

    def _known(self, without: Equation) -> Box:
        """The components that all others in the conflict determine."""
        said = [e for e in self.conflict if e is not without]
        found = self.reader.solve(self.at, said)
        values = {} if found is None else dict(found.known)
        box: Box = {key: (number, number) for key, number in values.items()}
        return {**dict.fromkeys(self.at.unknowns, (0, ANY[1])), **box}

    def _said(self, equation: Equation) -> str:
        """`ichan` is 3 in `input`."""
        number, extent = equation.relation.rhs, equation.relation.lhs
        if isinstance(equation.origin, Fixed):
            return f"{component_text(_key(extent), self.at.ranks)} is fixed as {number}"
        assert isinstance(equation.origin, Size)
        if isinstance(extent, Unknown):
            what = component_text(_key(extent), self.at.ranks)
        else:
            what = f"`{print_index(self._slot(equation.origin)[0])}`"
        return f"{what} is {number} in `{equation.origin.array}`"

    def _rank_values(self, constraint: s.Constraint) -> list[str]:
        """`RANK(read)` is 1 in `params`."""
        items = [i for t in terms_of(constraint) if isinstance(t, s.Rank) for i in t.items]
        return [self._rank_value(item) for item in dict.fromkeys(items)]

    def _rank_value(self, item: s.IndexExpr) -> str:
        rank = self.program.ranks.rank_of(item, self.at.ranks)
        text = f"RANK({print_index(item)}) is {rank}"
        if isinstance(item, s.Eintup):
            low, high = self.program.ranks.interval(item.name)
            arrays = [n for n in self.shapes if item in self.program.arrays[n].signature]
            if low != high and arrays:
                text += f" in {listed([f'`{name}`' for name in arrays])}"
        return text

    def _slot(self, size: Size) -> tuple[s.IndexExpr, int]:
        return slot_of(self.reader, self.at, size)

    def _labels(self, first: Equation | None = None) -> tuple[Label, ...]:
        """Where the arrays of the conflict are declared."""
        order = sorted(self.sizes, key=lambda e: e is not first)
        found = []
        for equation in order:
            assert isinstance(equation.origin, Size)
            item, _ = self._slot(equation.origin)
            found.append(Label(item.span, f"{equation.relation.rhs} in `{equation.origin.array}`"))
        return tuple(found)

    def _ranks_note(self) -> tuple[str, ...]:
        """With which ranks this is so, where others are possible."""
        counts = {name: len(shape) for name, shape in self.shapes.items()}
        choices = list(self.reader.choices(counts))
        if len(choices) < 2:
            return ()
        varying = [
            names[0]
            for names in self.program.ranks.classes
            if len({ranks[names[0]] for ranks in choices}) > 1
        ]
        text = listed([f"RANK({name}) = {self.at.ranks[name]}" for name in varying])
        return (f"this is so with {text}; other ranks do not fit either",)


def slot_of(reader: Reader, at: Equations, size: Size) -> tuple[s.IndexExpr, int]:
    """The group that a dimension belongs to, and which of its components it is."""
    position = size.position
    for item in reader.program.arrays[size.array].signature:
        rank = reader.program.ranks.rank_of(item, at.ranks)
        if position < rank:
            return item, position
        position -= rank
    raise AssertionError(size)


def _sides(rule: Equation) -> Iterator[tuple[Expr, Expr]]:
    yield rule.relation.lhs, rule.relation.rhs
    yield rule.relation.rhs, rule.relation.lhs


def _key(extent: Expr) -> Key:
    assert isinstance(extent, Unknown) and isinstance(extent.key, tuple)
    return extent.key
