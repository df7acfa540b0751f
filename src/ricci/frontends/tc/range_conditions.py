"""What must hold besides for the ranges of a statement to be right, as preconditions.

A read does not happen where an index has no values: a condition on it holds there too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from ...diagnostics import Report
from ...ir import shapes
from ...ir.nodes import FALSE, TRUE, Binary, Expr, Symbol
from ...ir.rewrite import free_symbols, walk
from ...records import dataclass
from ...source import NOWHERE, Span
from . import program as tc
from .range_inequality import Inequality, Range, strongest
from .range_rounds import Findings, Seen
from .range_terms import source_text
from .range_text import show

Message = tuple[str | Expr, ...]

LARGEST = 2**63 - 1
"""What an index or an extent may reach."""


@dataclass(frozen=True, slots=True, eq=False)
class Precondition:
    """What must hold and is not proved.

    `condition` is over sizes, and so is checked before anything runs; without one, the access
    itself is checked as it is read. A `read` must stay from `lower` to `upper` in a dimension of
    the tensor; of a `range`, the extent must not be negative; a `stride`, the factor of an index,
    must be positive. `message` alternates text and values.
    """

    kind: Literal["read", "range", "stride"]
    statement: tc.Statement
    text: str
    message: Message
    condition: Expr | None = None
    span: Span = NOWHERE
    tensor: tc.Variable | None = None
    dimension: int = 0
    subscript: tc.Expr | None = None
    lower: Expr | None = None
    upper: Expr | None = None


class Conditions:
    """Finds the preconditions of one statement; those that never hold are errors."""

    def __init__(
        self,
        statement: tc.Statement,
        found: Findings,
        seen: Seen,
        sizes: Mapping[Symbol, int],
        report: Report,
    ) -> None:
        self.statement = statement
        self.found = found
        self.seen = seen
        self.sizes = sizes
        self.report = report
        self.failed = False
        self.extents = {index: own.extent for index, own in found.ranges.items()}

    def collect(self) -> list[Precondition] | None:
        """The preconditions, in an order in which none divides by zero; none after an error."""
        found = [*self._strides(), *self._extents()]
        if not self.failed and all(shapes.interval(e)[1] >= 1 for e in self.extents.values()):
            found += self._reads()
        return None if self.failed else found

    def _strides(self) -> Iterator[Precondition]:
        for stride, index in self.found.strides.items():
            condition = shapes.compare("le", shapes.constant(1), stride)
            message = f"the range of `{index.name}` cannot be inferred where {show(stride)} is "
            yield Precondition(
                "stride",
                self.statement,
                f"1 <= {show(stride)}",
                (message, stride),
                condition,
                index.span,
            )

    def _extents(self) -> Iterator[Precondition]:
        message: Message
        for index, extent in self.extents.items():
            low, high = shapes.interval(extent)
            own = self.found.ranges[index]
            for end in map(shapes.as_int, (own.minimum, own.maximum, extent)):
                if end is not None and abs(end) > LARGEST:
                    message = (f"the index `{index.name}` reaches {end}, which exceeds 64 bits",)
                    self._fail("E0504", message, index.span)
                    break
            if _may_exceed(extent):
                yield self._in_64_bits(index, extent)
            known = self.found.strides.keys()
            if low >= 0 and not _may_divide_by_zero(extent, known):
                continue
            message = (
                f"the index `{index.name}` has an empty range: from ",
                own.minimum,
                " to ",
                own.maximum,
            )
            if high < 0:
                self._fail("E0419", message, index.span)
            condition = Binary("le", shapes.constant(0), extent)  # even if it is true without zeros
            text = f"0 <= {show(extent)}"
            yield Precondition("range", self.statement, text, message, condition, index.span)

    def _in_64_bits(self, index: tc.IndexVariable, extent: Expr) -> Precondition:
        condition = Binary("le", extent, shapes.constant(LARGEST))
        message = (f"the index `{index.name}` has more values than 64 bits can count: ", extent)
        text = f"{show(extent)} <= {LARGEST}"
        return Precondition("range", self.statement, text, message, condition, index.span)

    # ------------------------------------------------------------------- reads

    def _reads(self) -> Iterator[Precondition]:
        """Those on sizes, the strongest ones; then those for run time, one for each subscript."""
        sure = [x for x in self.found.sizes if x.site.sure and x.site.happens]
        sure = [x for x in sure if not self._follows(x)]
        for inequality in strongest(sure):
            if shapes.interval(inequality.relation.slack)[1] < 0:
                self._fail("E0601", _reaches(inequality), _span_of(inequality))
            yield self._on_sizes(inequality)
        rest = [x for x in self.found.sizes if not x.site.sure] + self.found.open
        later = {(id(x.site), x.dimension): x for x in rest if x.site.happens}
        yield from (self._at_run_time(x) for x in later.values())

    def _follows(self, x: Inequality) -> bool:
        """Whether an inequality holds wherever all indices have values: it is one of `e >= 1`."""
        one = shapes.constant(1)
        return any(
            shapes.less_equal(shapes.sub(e, one), x.relation.slack) for e in self.extents.values()
        )

    def _on_sizes(self, x: Inequality) -> Precondition:
        empty: Expr = FALSE
        for extent in dict.fromkeys(self.extents.values()):
            none = shapes.compare("le", extent, shapes.constant(0))
            empty = shapes.logical_or(empty, none)
        condition = shapes.compare("le", x.relation.left, x.relation.right)
        if _may_divide_by_zero(condition):
            condition = shapes.select(empty, TRUE, condition)
        else:
            condition = shapes.logical_or(empty, condition)
        return self._of_read(x, f"{show(x.relation.left)} <= {show(x.relation.right)}", condition)

    def _at_run_time(self, x: Inequality) -> Precondition:
        own = self._range(x)
        value = source_text(x.site.subscripts[x.dimension], "the index")
        return self._of_read(x, f"{show(own.minimum)} <= {value} <= {show(own.maximum)}", None)

    def _of_read(self, x: Inequality, text: str, condition: Expr | None) -> Precondition:
        own = self._range(x)
        return Precondition(
            "read",
            self.statement,
            text,
            _reaches(x),
            condition,
            _span_of(x),
            x.site.tensor,
            x.dimension,
            x.site.subscripts[x.dimension],
            own.minimum,
            own.maximum,
        )

    def _range(self, x: Inequality) -> Range:
        return self.seen[x.site.tensor][x.dimension]

    # ------------------------------------------------------------------ errors

    def _fail(self, code: str, message: Message, span: Span) -> None:
        """Report what holds for no sizes, or not for those given."""
        self.failed = True
        text = "".join(part if isinstance(part, str) else show(part) for part in message)
        given = ", ".join(f"{symbol.name} = {value}" for symbol, value in self.sizes.items())
        code = "E0501" if given and code != "E0504" else code
        self.report.error(code, text, span, notes=[f"with {given}"] if given else [])


def _may_exceed(extent: Expr) -> bool:
    """Whether sizes of a million are enough for an extent beyond 64 bits."""
    symbols: tuple[Expr, ...] = free_symbols(extent)
    most = shapes.interval(extent, dict.fromkeys(symbols, (0, 10**6)))[1]
    return LARGEST < most < math.inf


def _may_divide_by_zero(expr: Expr, positive: Collection[Expr] = ()) -> bool:
    """Whether some sizes make a divisor zero, other than those that are checked anyway."""
    divisors = [n.rhs for n in walk(expr) if isinstance(n, Binary) and n.op in _QUOTIENTS]
    limits = [shapes.interval(d) for d in divisors if d not in positive]
    return any(low <= 0 <= high for low, high in limits)


_QUOTIENTS = frozenset({"floordiv", "mod", "ceildiv"})


def _reaches(x: Inequality) -> Message:
    value, bound = (
        (x.relation.left, x.relation.right) if x.upper else (x.relation.right, x.relation.left)
    )
    index = source_text(x.site.subscripts[x.dimension], "")
    named = f"index `{index}`" if index else "an index"
    ends = "largest" if x.upper else "smallest"
    return (
        f"{named} in dimension {x.dimension} of `{x.site.tensor.name}` reaches ",
        value,
        f", and the {ends} is ",
        bound,
    )


def _span_of(x: Inequality) -> Span:
    subscript = x.site.subscripts[x.dimension]
    if isinstance(subscript, tc.Let) or subscript.span is NOWHERE:
        return x.site.span
    return subscript.span
