"""Non-maximum suppression by ordinary assignments: boxes in the order of their scores are compared
with those chosen before, one after the other; batch items and classes are independent."""

from __future__ import annotations

from ...dtypes import DType
from ...ir import nodes, shapes
from ...ir.nodes import FALSE, ONE, ZERO, Expr, Index, Local, Tensor
from ...records import dataclass
from ...source import Span
from . import syntax as s
from .compose_graph import Builder
from .evaluate import Evaluator
from .intrinsics_sort import add_operation, at, binary, domain_of, inside, rank
from .labels import Wanted, single_name
from .lower import fill
from .values import AnyValue, is_expr, is_static, to_expr

_HALF = nodes.Const(0.5, DType.REAL)
_NOTHING = nodes.Const(0.0, DType.REAL)


def nonmax_suppress(
    builder: Builder, operator: s.Operator, evaluator: Evaluator, wanted: list[Wanted]
) -> tuple[AnyValue, ...]:
    """`algo.nonmax_suppress`: rows of batch item, class and box (4.7)."""
    values, span = evaluator.values, operator.span
    boxes, scores, threshold = [values[n] for n in ("boxes", "scores", "score_threshold")]
    assert isinstance(boxes, Tensor)
    assert isinstance(scores, Tensor)
    limit = _expr(values["max_outputs_per_class"])
    search = _Search(
        builder,
        span,
        _corners(builder, boxes, values["box_format"] == "CENTER", span),
        scores,
        rank(builder, scores, 2, scores.shape[2], True, span),
        shapes.minimum(limit, scores.shape[2]),
        _expr(values["iou_threshold"]),
        None if threshold is None else _expr(threshold),
    )
    chosen, count = search.choose()
    bound = shapes.product(*scores.shape[:2], limit)
    return (_listed(builder, chosen, count, bound, single_name(wanted[0]), span),)


def _expr(value: AnyValue) -> Expr:
    assert is_static(value) or is_expr(value)
    return to_expr(value)


# ------------------------------------------------------------------------ boxes


def _corners(builder: Builder, boxes: Tensor, centred: bool, span: Span) -> Tensor:
    """Boxes by their least and greatest coordinates: two least ones, then two greatest ones."""
    corners = builder.tensor(None, DType.REAL, boxes.shape, span)
    batch, box = (Index(n, e, span) for n, e in zip("bi", boxes.shape[:2], strict=True))
    values: list[Expr] = []
    a, b, c, d = (at(boxes, (batch, box, nodes.integer(k))) for k in range(4))
    for op in ("sub", "add") if centred else ("min", "max"):
        for first, second in ((a, c), (b, d)):
            extent = nodes.Binary("mul", second, _HALF) if centred else second
            values.append(nodes.Binary(op, first, extent))
    targets = tuple([at(corners, (batch, box, nodes.integer(k))) for k in range(4)])
    line = nodes.Assignment(targets, "set", tuple(values), (batch, box), span=span)
    add_operation(builder, "corners", (corners,), (line,), span)
    return corners


def _overlap(corners: Tensor, batch: Expr, a: Expr, b: Expr) -> tuple[Expr, tuple[Local, ...]]:
    """The area of the intersection of two boxes over that of their union, 0 if they do not
    intersect."""
    first, second = [
        [Local(f"c{k}", at(corners, (batch, box, nodes.integer(k)))) for k in range(4)]
        for box in (a, b)
    ]
    sides = []
    for k in range(2):
        low = nodes.Binary("max", first[k], second[k])
        high = nodes.Binary("min", first[k + 2], second[k + 2])
        sides.append(nodes.Binary("max", nodes.Binary("sub", high, low), _NOTHING))
    common = Local("common", nodes.Binary("mul", *sides))
    both = nodes.Binary("add", _area(first), _area(second))
    union = nodes.Binary("sub", both, common)
    intersect = nodes.Binary("gt", common, _NOTHING)
    share = nodes.Select(intersect, nodes.Binary("div", common, union), _NOTHING)
    return share, (*first, *second, common)


def _area(corners: list[Local]) -> Expr:
    sides = [nodes.Binary("sub", corners[k + 2], corners[k]) for k in range(2)]
    return nodes.Binary("mul", *sides)


# ----------------------------------------------------------------------- search


@dataclass(frozen=True)
class _Search:
    """Goes through the boxes of a class in the order of their scores.

    Each is compared with those that are chosen so far, and behind them, in one more step of the
    same loop, chosen if none of these overlapped.
    """

    builder: Builder
    span: Span
    corners: Tensor
    scores: Tensor
    order: Tensor
    most: Expr
    overlap: Expr
    threshold: Expr | None

    def choose(self) -> tuple[Tensor, Tensor]:
        """The boxes chosen of each class, and how many they are."""
        count = self._tensor(DType.INT)
        chosen = self._tensor(DType.INT, shapes.add(self.most, ONE))
        covered = self._tensor(DType.BOOL)
        body = (
            fill(chosen, ZERO, self.span),
            fill(count, ZERO, self.span),
            fill(covered, FALSE, self.span),
            self._step(count, chosen, covered),
        )
        add_operation(self.builder, "suppress", (chosen, count, covered), body, self.span)
        return chosen, count

    def _step(self, count: Tensor, chosen: Tensor, covered: Tensor) -> nodes.Assignment:
        counts = self._counting()
        batch, group, position = domain_of(counts)
        step = Index("step", chosen.shape[2], self.span)
        classes = (batch, group)
        box = Local("box", self._box(at(self.order, (*classes, position))))
        other = Local("other", self._box(at(chosen, (*classes, step))))
        share, parts = _overlap(self.corners, batch, box, other)
        number, is_covered = at(count, classes), at(covered, classes)
        is_last = binary("eq", step, self.most)
        free = nodes.Unary("not", is_covered)
        takes = nodes.Binary("and", is_last, free)
        place = at(chosen, (*classes, number))
        overlaps = nodes.Binary("gt", share, self.overlap)
        return nodes.Assignment(
            (place, number, is_covered),
            "update",
            (
                nodes.Select(takes, box, place),
                nodes.Select(takes, binary("add", number, 1), number),
                nodes.Select(is_last, FALSE, overlaps),
            ),
            (*classes, position, step),
            (box, other, *parts),
            _all(
                at(counts, (*classes, position)),
                binary("lt", number, self.most),
                nodes.Binary("or", is_last, _all(binary("lt", step, number), free)),
            ),
            self.span,
        )

    def _counting(self) -> Tensor:
        """Whether the boxes, in the order of their scores, may be chosen."""
        result = self._tensor(DType.BOOL, self.scores.shape[2])
        domain = domain_of(result)
        box = self._box(at(self.order, domain))
        score = Local("score", at(self.scores, (*domain[:2], box)))
        value = binary("eq", score, score)
        if self.threshold is not None:
            value = binary("gt", score, self.threshold)
        line = nodes.Assignment((at(result, domain),), "set", (value,), domain, (score,))
        add_operation(self.builder, "score", (result,), (line,), self.span)
        return result

    def _box(self, number: Expr) -> Expr:
        return inside(number, self.scores.shape[2])

    def _tensor(self, dtype: DType, *extents: Expr) -> Tensor:
        """A tensor with as much for each class."""
        return self.builder.tensor(None, dtype, (*self.scores.shape[:2], *extents), self.span)


def _all(*conditions: Expr) -> Expr:
    result, *others = conditions
    for other in others:
        result = nodes.Binary("and", result, other)
    return result


# ------------------------------------------------------------------------ result


def _listed(
    builder: Builder, chosen: Tensor, count: Tensor, bound: Expr, name: str | None, span: Span
) -> Tensor:
    """A row for every box that is chosen."""
    total = builder.tensor(None, DType.INT, (), span)
    domain = domain_of(count)
    body = (
        fill(total, ZERO, span),
        nodes.Assignment((at(total, ()),), "add", (at(count, domain),), domain, span=span),
    )
    add_operation(builder, "count", (total,), body, span)
    symbol = builder.symbol(None, builder.bound((bound,)), span)
    builder.sizes.append((symbol, total))
    rows = builder.tensor(name, DType.INT, (symbol, nodes.integer(3)), span)
    row = builder.tensor(None, DType.INT, (), span)
    here = at(row, ())
    batch, group, number = domain_of(chosen)
    columns = (batch, group, at(chosen, (batch, group, number)))
    line = nodes.Assignment(
        (*(at(rows, (here, nodes.integer(k))) for k in range(3)), here),
        "update",
        (*columns, binary("add", here, 1)),
        (batch, group, number),
        condition=binary("lt", number, at(count, (batch, group))),
        span=span,
    )
    start = (fill(rows, ZERO, span), fill(row, ZERO, span))
    add_operation(builder, builder.frames[-1].name, (rows, row), (*start, line), span)
    return rows
