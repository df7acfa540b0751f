"""Range inference: the values of every index, and the sizes of every tensor.

Ranges are rectangular, and as large as can be without a read out of range; `range_rounds` finds
those of a statement. The range of a tensor is the hull of the ranges of the statements that
write it; a statement may read what that holds by then.

Spec: what must hold besides is warned of and not checked. Ricci: on sizes alone it is checked in
every call, unless the read is in a side of a conditional; the rest is checked where it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from ...diagnostics import Report, error
from ...ir import shapes
from ...ir.nodes import Check, Expr, Symbol
from ...ir.rewrite import free_symbols
from ...ir.shapes_polynomial import has_more_parts
from ...records import dataclass
from . import program as tc
from .range_conditions import Conditions, Precondition
from .range_inequality import Range
from .range_rounds import Rounds, read_sites
from .range_terms import Terms, extents_in, find_sites

__all__ = ["Precondition", "Range", "Ranges", "infer_ranges"]


MOST_PARTS = 128
"""Parts of an end of a range."""


@dataclass
class Ranges:
    """What was inferred for a function; of a statement with an error, nothing."""

    indices: dict[tuple[tc.Statement, tc.IndexVariable], Range] = field(default_factory=dict)
    tensors: dict[tc.Variable, tuple[Range, ...]] = field(default_factory=dict)
    earlier: dict[tuple[tc.Statement, tc.Variable], tuple[Range, ...]] = field(default_factory=dict)
    preconditions: list[Precondition] = field(default_factory=list)

    def of(self, statement: tc.Statement, index: tc.IndexVariable) -> Range:
        """The values of an index of a statement."""
        return self.indices[statement, index]

    def of_tensor(self, variable: tc.Variable) -> tuple[Range, ...]:
        """The positions of a tensor's elements, in each dimension, when all is written."""
        return self.tensors[variable]

    def extent_at(self, statement: tc.Statement, extent: tc.Extent) -> Expr:
        """The value of `T.k` in a statement: that of a tensor may grow later."""
        return self.earlier[statement, extent.tensor][extent.dimension].extent

    def checks(self) -> Iterator[Check]:
        """The conditions on sizes, in an order in which none divides by zero."""
        for p in self.preconditions:
            if p.condition is not None:
                values = tuple((s.name, s) for s in free_symbols(p.condition))
                yield Check(p.condition, p.message, values, p.span)


def infer_ranges(
    function: tc.Function, report: Report, sizes: Mapping[Symbol, int] | None = None
) -> Ranges:
    """The ranges of a function, for all sizes or for given ones.

    Reports E0418 what cannot be inferred, E0419 what is empty, E0502 a division by zero, E0601 a
    read that is always out of range, and E0501 a condition that given sizes do not meet. Raises
    `Error` E0901 for expressions beyond all reason.
    """
    return _Inference(report, sizes or {}).run(function)


class _Inference:
    def __init__(self, report: Report, sizes: Mapping[Symbol, int]) -> None:
        self.report = report
        self.sizes = sizes
        self.ranges = Ranges()
        self.seen = self.ranges.tensors
        self.failed: set[tc.Variable] = set()
        self.conditions: set[Expr] = set()

    def run(self, function: tc.Function) -> Ranges:
        terms = Terms(self.sizes, self._extent)
        zero, one = shapes.constant(0), shapes.constant(1)
        for variable in function.parameters:
            sizes = [terms.size(n) for n in variable.shape or ()]
            self.seen[variable] = tuple(Range(zero, shapes.sub(n, one)) for n in sizes)
        for statement in function.statements:
            if self._reads_failed(statement) or not self._infer(statement):
                self.failed.add(statement.target)
        return self.ranges

    def _extent(self, tensor: tc.Variable, dimension: int) -> Expr | None:
        return self.seen[tensor][dimension].extent if tensor in self.seen else None

    def _reads_failed(self, statement: tc.Statement) -> bool:
        """Whether a statement needs what had an error; then there is nothing to say of it."""
        exprs = _expressions(statement)
        used = {site.tensor for site in find_sites(exprs)} | set(extents_in(exprs))
        return bool(self.failed & {statement.target, *used})

    def _infer(self, statement: tc.Statement) -> bool:
        """Find the ranges of a statement, and what its target holds then; not so after an error."""
        sites = read_sites(statement, self.seen)
        terms = Terms(self.sizes, self._extent)
        found = Rounds(statement, sites, self.seen, terms, self.report).run()
        if found is None:
            return False
        needed = Conditions(statement, found, self.seen, self.sizes, self.report).collect()
        if needed is None:
            return False
        for p in needed:
            if p.condition is None or p.condition not in self.conditions:
                self.ranges.preconditions.append(p)
            if p.condition is not None:
                self.conditions.add(p.condition)
        for tensor in extents_in(_expressions(statement)):
            self.ranges.earlier[statement, tensor] = self.seen[tensor]
        self.ranges.indices.update({(statement, i): own for i, own in found.ranges.items()})
        own = tuple(found.ranges[i] for i in statement.indices)
        hull = tuple(map(_hull, self.seen.get(statement.target, own), own))
        self._check_size(statement, hull)
        self.seen[statement.target] = hull
        return True

    def _check_size(self, statement: tc.Statement, hull: tuple[Range, ...]) -> None:
        """Raise E0901 for ranges that are too large to work with."""
        if any(has_more_parts(end, MOST_PARTS) for r in hull for end in (r.minimum, r.maximum)):
            name = statement.target.name
            message = f"a dimension of `{name}` depends on too many sizes"
            raise error("E0901", message, statement.span, help="give more dimensions the same size")


def _expressions(statement: tc.Statement) -> list[tc.Expr]:
    bounds = [bound for _, *both in statement.ranges for bound in both]
    return [statement.value, *statement.exists, *bounds]


def _hull(a: Range, b: Range) -> Range:
    return Range(shapes.minimum(a.minimum, b.minimum), shapes.maximum(a.maximum, b.maximum))
