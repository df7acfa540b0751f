"""The ranges of the indices of one statement.

Every subscript gives two inequalities. `where` fixes some indices. In each round an index is
solved if the inequalities that mention no other unsolved index bound it on both sides; at the end
of the round the others are taken for all values of what was solved. An inequality that is left
without an index, and is not proved, is a precondition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import reduce

from ...diagnostics import Label, Report
from ...ir import shapes
from ...ir.nodes import Expr, Local
from ...ir.shapes_polynomial import polynomial
from ...records import dataclass
from . import program as tc
from .range_inequality import (
    Bound,
    Inequality,
    Range,
    Relation,
    depends,
    direction,
    for_all,
    solve,
    split,
    strongest,
)
from .range_terms import Site, Terms, find_sites, indices_in, locals_in, source_text
from .range_text import show

Seen = Mapping[tc.Variable, tuple[Range, ...]]


@dataclass
class Findings:
    """The ranges of a statement, and what must hold besides.

    `sizes` are inequalities of sizes alone, `open` those that only run time can decide. `strides`
    are factors of indices that must be positive, or the ranges would be others.
    """

    ranges: dict[tc.IndexVariable, Range] = field(default_factory=dict)
    sizes: list[Inequality] = field(default_factory=list)
    open: list[Inequality] = field(default_factory=list)
    strides: dict[Expr, tc.IndexVariable] = field(default_factory=dict)


def read_sites(statement: tc.Statement, seen: Seen) -> list[Site]:
    """All that takes part in the inference: reads, those of `exists`, and for a reduction the
    elements that the target holds already."""
    sites = find_sites([statement.value]) + find_sites(statement.exists, happens=False)
    if statement.op != "set" and statement.target in seen:
        subscripts = tuple(tc.At(i, i.span) for i in statement.indices)
        held = not statement.fresh
        sites.append(Site(statement.target, subscripts, held, statement.span, held))
    return [site for site in sites if site.tensor in seen]


class Rounds:
    """Infers the ranges of one statement."""

    def __init__(
        self, statement: tc.Statement, sites: list[Site], seen: Seen, terms: Terms, report: Report
    ) -> None:
        self.statement = statement
        self.sites = sites
        self.seen = seen
        self.terms = terms
        self.report = report
        self.found = Findings()
        self.solved: dict[Local, Range] = {}
        self.bounds: dict[Relation, Bound | None] = {}
        self.names = {
            terms.index(v): v for v in dict.fromkeys((*statement.indices, *statement.reduced))
        }

    def run(self) -> Findings | None:
        """Ranges and preconditions; none if there is an error, which is reported."""
        inequalities = self._inequalities()
        fixed = self._fixed()
        if inequalities is None or fixed is None or not self._all_used(fixed):
            return None
        inequalities = self._solve(inequalities, fixed, inferred=False)
        while len(self.solved) < len(self.names):
            solved = self._round(inequalities)
            if solved is None:
                return None
            if not solved:
                self._not_inferred(inequalities)
                return None
            inequalities = self._solve(inequalities, solved)
        self._sort(inequalities)
        self.found.ranges = {self.names[x]: r for x, r in self.solved.items()}
        return self.found

    # ------------------------------------------------------------ inequalities

    def _inequalities(self) -> list[Inequality] | None:
        found: list[Inequality] = []
        pieces: dict[tuple[int, int], list[Relation]] = {}
        for site in self.sites:
            for dimension, subscript in enumerate(site.subscripts):
                value = self._convert(subscript)
                if value is None:
                    return None
                own = self.seen[site.tensor][dimension]
                for upper in (False, True):
                    left, right = (value, own.maximum) if upper else (own.minimum, value)
                    key = id(left), id(right)
                    if key not in pieces:
                        pieces[key] = split(Relation(left, right))
                    found += [Inequality(x, site, dimension, upper) for x in pieces[key]]
        return found

    def _convert(self, expr: tc.Expr) -> Expr | None:
        try:
            return self.terms.convert(expr)
        except ZeroDivisionError:
            span = self.statement.span if isinstance(expr, tc.Let) else expr.span
            self.report.error("E0502", "a division by zero", span)
            return None

    def _fixed(self) -> dict[Local, Range] | None:
        """The ranges that `where` gives."""
        fixed: dict[Local, Range] = {}
        for index, low, high in self.statement.ranges:
            first, end = self._where_bound(index, low), self._where_bound(index, high)
            if first is None or end is None:
                return None
            fixed[self.terms.index(index)] = Range(first, shapes.sub(end, shapes.constant(1)))
        return {x: r for x, r in fixed.items() if x in self.names}

    def _where_bound(self, index: tc.IndexVariable, expr: tc.Expr) -> Expr | None:
        value = self._convert(expr)
        if value is None or not locals_in(value):
            return value
        span = self.statement.span if isinstance(expr, tc.Let) else expr.span
        others = [i.name for i in indices_in([expr])]
        if others:
            self.report.error(
                "E0418",
                f"the range of `{index.name}` depends on the index `{others[0]}`",
                span,
                notes=["ranges are rectangular: their bounds hold numbers and sizes"],
                help=f"give `{index.name}` its largest range, and select by a condition: "
                f"`{index.name} < {source_text(expr, 'bound')} ? ... : 0`",
            )
        else:
            message = f"the range of `{index.name}` is no integer arithmetic of sizes"
            self.report.error("E0418", message, span)
        return None

    def _all_used(self, fixed: Mapping[Local, Range]) -> bool:
        """Whether every index without a range is in some subscript; what is not is reported."""
        used = set(indices_in(e for site in self.sites for e in site.subscripts))
        missing = [v for x, v in self.names.items() if x not in fixed and v not in used]
        for index in missing:
            kind = "reduction index" if index in self.statement.reduced else "index"
            self.report.error(
                "E0418",
                f"the {kind} `{index.name}` is in no subscript that would give it a range",
                index.span,
                help=f"give its range: `where {index.name} in 0:N`",
            )
        return not missing

    # ------------------------------------------------------------------ rounds

    def _solve(
        self,
        inequalities: list[Inequality],
        ranges: Mapping[Local, Range],
        inferred: bool = True,
    ) -> list[Inequality]:
        """What the inequalities say once some indices have ranges; not those that made them."""
        kept: list[Inequality] = []
        self.solved.update(ranges)
        done: dict[Relation, list[Relation] | None] = {}
        for inequality in inequalities:
            relation = inequality.relation
            if relation not in done:
                spent = inferred and self._is_spent(relation, ranges)
                done[relation] = [] if spent else for_all(relation, self.solved)
            pieces = done[relation]
            if pieces is None:
                self.found.open.append(inequality)
            else:
                kept += inequality.of(pieces)
        return kept

    def _is_spent(self, relation: Relation, ranges: Mapping[Local, Range]) -> bool:
        """Whether a range was made of what a relation says."""
        alone = relation.locals
        return len(alone) == 1 and alone[0] in ranges and self._bound(relation) is not None

    def _round(self, inequalities: list[Inequality]) -> dict[Local, Range] | None:
        """The indices that can be solved now; none after an error."""
        solved: dict[Local, Range] = {}
        for local, index in self.names.items():
            if local not in self.solved:
                own = self._range_of(local, inequalities)
                if own is not None:
                    solved[local] = own
                    if not self.terms.given and not self._may_have_values(index, own, inequalities):
                        return None
        return solved

    def _range_of(self, local: Local, inequalities: list[Inequality]) -> Range | None:
        alone: dict[Relation, Inequality] = {}
        for x in inequalities:
            if x.relation.locals == [local] and self._bound(x.relation) is not None:
                alone.setdefault(x.relation, x)
        found = [self._bound(x.relation) for x in strongest(list(alone.values()))]
        bounds = [b for b in found if b is not None]
        lows = [b.value for b in bounds if not b.upper]
        highs = [b.value for b in bounds if b.upper]
        if not lows or not highs:
            return None
        strides = [stride for b in bounds for stride in b.strides]
        self.found.strides.update(dict.fromkeys(strides, self.names[local]))
        return Range(reduce(shapes.maximum, lows), reduce(shapes.minimum, highs))

    def _bound(self, relation: Relation) -> Bound | None:
        """What a relation says of its only index."""
        if relation not in self.bounds:
            self.bounds[relation] = solve(relation.slack, relation.locals[0])
        return self.bounds[relation]

    def _may_have_values(
        self, index: tc.IndexVariable, own: Range, inequalities: list[Inequality]
    ) -> bool:
        """Whether an inferred range is not empty for all sizes, which is reported if so.

        A dimension that is declared with extent 0 makes its indices take no values rightly.
        """
        extent = own.extent
        largest = shapes.interval(extent)[1]
        if largest >= 1 or shapes.as_int(extent) == 0 == self._smallest_extent():
            return True
        local = self.terms.index(index)
        says = [x for x in inequalities if x.relation.locals == [local]]
        places = dict.fromkeys(x.site.span for x in says if x.site.span is not index.span)
        self.report.error(
            "E0419",
            f"the index `{index.name}` has an empty range: "
            f"from {show(own.minimum)} to {show(own.maximum)}",
            index.span,
            labels=[Label(span, "") for span in places],
            notes=[f"needed: {describe(x)}" for x in says],
        )
        return False

    def _smallest_extent(self) -> float:
        ranges = [r for site in self.sites for r in self.seen[site.tensor]]
        return min((shapes.interval(r.extent)[1] for r in ranges), default=1)

    def _not_inferred(self, inequalities: list[Inequality]) -> None:
        left = {x: v for x, v in self.names.items() if x not in self.solved}
        names = ", ".join(f"`{v.name}`" for v in left.values())
        wanted = set(left.values())
        says = [
            x
            for x in inequalities + self.found.open
            if wanted & set(indices_in([x.site.subscripts[x.dimension]]))
        ]
        several = len(left) > 1
        first = next(iter(left.values()))
        self.report.error(
            "E0418",
            f"the range{'s' if several else ''} of {names} cannot be inferred",
            first.span,
            labels=[Label(v.span, "") for v in list(left.values())[1:]],
            notes=[f"needed: {text}" for text in dict.fromkeys(map(describe, says))][:8],
            help=f"give {'one of them' if several else 'it'} a range: `where {first.name} in 0:N`",
        )

    # ----------------------------------------------------------- preconditions

    def _sort(self, inequalities: list[Inequality]) -> None:
        """Tell what sizes decide from what only run time does; drop what is proved."""
        self.found.sizes = [x for x in inequalities if not x.relation.locals]
        rest = [x for x in inequalities if x.relation.locals] + self.found.open
        self.found.open = [x for x in rest if not self._holds(x.relation)]

    def _holds(self, relation: Relation) -> bool:
        """Whether a relation holds for all values that its unknowns can have."""
        pending, steps = [relation], 0
        while pending:
            piece, steps = pending.pop(), steps + 1
            pieces = for_all(piece, self.solved)
            if pieces is None or steps > 100:
                return False
            for part in pieces:
                bounded = self._bounded(part)
                if bounded is None:
                    return False
                pending += split(bounded)
        return True

    def _bounded(self, part: Relation) -> Relation | None:
        """A stronger relation, with one unknown less."""
        slack = polynomial(part.slack)
        for local in part.locals:
            limits = self.terms.unknown.get(local)
            way = direction(slack, local, {})
            if limits is not None and way is not None:
                end = limits.low if way >= 0 else limits.high
                if end is not None and not depends(end, local):
                    return part.at(local, end)
        return None


def describe(inequality: Inequality) -> str:
    """An inequality and what it is needed for: "`i + j <= N - 1` (dimension 0 of `A`)"."""
    text = f"`{show(inequality.relation.left)} <= {show(inequality.relation.right)}`"
    return f"{text} (dimension {inequality.dimension} of `{inequality.site.tensor.name}`)"
