"""Sorting by ordinary assignments: passes that merge neighbouring runs along a dimension.

Every element of a merged run finds where it comes from by a binary search for how many of those
up to it are of the first run, so all elements of a pass are independent. Where only the best few
are wanted, runs grow no longer than that, and every further pass halves what is left.
"""

from __future__ import annotations

import math
from dataclasses import field

from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...ir.nodes import ZERO, Expr, Index, Local, Tensor
from ...records import dataclass
from ...source import Span
from . import syntax as s
from .compose_graph import Builder
from .compose_tensors import make_outputs
from .evaluate import Evaluator
from .labels import Wanted
from .values import AnyValue, is_expr, to_expr

_MOST = 40
"""How often runs double along a dimension of which no greatest extent is known."""


def top_k(
    builder: Builder, operator: s.Operator, evaluator: Evaluator, wanted: list[Wanted]
) -> tuple[AnyValue, ...]:
    """`algo.top_k`: the k greatest or least elements along an axis, and where they are (4.7)."""
    source, axis, k = [evaluator.values[n] for n in ("input", "axis", "k")]
    outputs = make_outputs(builder, operator, evaluator, wanted)
    values, indices = outputs["values"], outputs["indices"]
    assert isinstance(source, Tensor)
    assert isinstance(values, Tensor)
    assert isinstance(indices, Tensor)
    assert isinstance(axis, int)
    assert isinstance(k, int) or is_expr(k)
    axis %= source.rank
    descending = evaluator.values["largest"] is True
    places = rank(builder, source, axis, to_expr(k), descending, operator.span)
    domain = domain_of(values)
    place = Local("place", at(places, domain))
    found = replaced(domain, axis, inside(place, source.shape[axis]))
    line = nodes.Assignment(
        (at(values, domain), at(indices, domain)),
        "set",
        (at(source, found), place),
        domain,
        (place,),
        span=operator.span,
    )
    add_operation(builder, builder.frames[-1].name, (values, indices), (line,), operator.span)
    return (values, indices)


def rank(
    builder: Builder, source: Tensor, axis: int, count: Expr, descending: bool, span: Span
) -> Tensor:
    """The positions along `axis` of the best elements of reals, best first: of all, or of `count`
    at least. Of equal ones the first comes first; NaN counts as infinity."""
    extent = source.shape[axis]
    rows = _begin(builder, source, axis, descending, span)
    doublings, passes = _plan(extent, count)
    for k in range(doublings):
        rows = rows.merged(2**k, 2 ** (k + 1), extent)
    run = nodes.integer(2**doublings)
    for k in range(passes):
        # All groups of runs but the last one have been merged to a whole run.
        group = nodes.integer(2 ** (doublings + k + 1))
        whole = shapes.mul(run, shapes.floordiv(extent, group))
        last = shapes.minimum(run, shapes.mod(extent, group))
        rows = rows.merged(2**doublings, 2**doublings, shapes.add(whole, last))
    return rows.places


def _plan(extent: Expr, count: Expr) -> tuple[int, int]:
    """How often runs double in length, and how often they are then merged at that length."""
    doublings = _doublings(shapes.interval(shapes.minimum(extent, count))[1])
    return doublings, _doublings(shapes.interval(extent)[1]) - doublings


def _doublings(size: float) -> int:
    """The least n with 2 ** n >= size."""
    return _MOST if math.isinf(size) else max(0, int(size) - 1).bit_length()


# ----------------------------------------------------------------------- passes


def _begin(builder: Builder, source: Tensor, axis: int, descending: bool, span: Span) -> _Rows:
    """Keys of which the greatest is best, in runs of one element."""
    keys = builder.tensor(None, DType.REAL, source.shape, span)
    places = builder.tensor(None, DType.INT, source.shape, span)
    domain = domain_of(source)
    element = at(source, domain)
    key: Expr = nodes.Select(nodes.Binary("ne", element, element), nodes.INFINITY, element)
    if not descending:
        key = nodes.Unary("neg", key)
    targets = (at(keys, domain), at(places, domain))
    line = nodes.Assignment(targets, "set", (key, domain[axis]), domain, span=span)
    add_operation(builder, "sort", (keys, places), (line,), span)
    return _Rows(builder, axis, span, keys, places)


@dataclass(frozen=True)
class _Rows:
    """Keys, and the positions that they had at first, sorted in runs along an axis."""

    builder: Builder
    axis: int
    span: Span
    keys: Tensor
    places: Tensor

    def merged(self, run: int, most: int, extent: Expr) -> _Rows:
        """Every two runs of length `run` as one, of which the first `most` elements are kept."""
        shape = replaced(self.keys.shape, self.axis, extent)
        keys = self.builder.tensor(None, DType.REAL, shape, self.span)
        places = self.builder.tensor(None, DType.INT, shape, self.span)
        domain = domain_of(keys)
        merge = _Merge(self.keys, domain, self.axis)
        source = replaced(domain, self.axis, merge.source(run, most))
        line = nodes.Assignment(
            (at(keys, domain), at(places, domain)),
            "set",
            (at(self.keys, source), at(self.places, source)),
            domain,
            tuple(merge.locals),
            span=self.span,
        )
        add_operation(self.builder, "sort", (keys, places), (line,), self.span)
        return _Rows(self.builder, self.axis, self.span, keys, places)


@dataclass
class _Merge:
    """What an element of a merged run computes, step by step."""

    keys: Tensor
    domain: tuple[Index, ...]
    axis: int
    locals: list[Local] = field(default_factory=list)

    def source(self, run: int, most: int) -> Expr:
        """Where the element comes from.

        The first `low` of those up to it are of the first run: the least number for which
        an element of the second run comes before the next one of the first.
        """
        index = self.domain[self.axis]
        begin = self._keep("begin", binary("mul", binary("floordiv", index, most), 2 * run))
        place = self._keep("place", binary("mod", index, most))
        left = binary("sub", self.keys.shape[self.axis], begin)
        first = self._keep("first", binary("min", left, run))
        second = self._keep("second", binary("sub", binary("min", left, 2 * run), first))
        low = self._keep("low", binary("max", binary("sub", place, second), 0))
        high = self._keep("high", binary("min", place, first))
        for _ in range(_doublings(run + 1)):
            middle = self._keep("middle", binary("floordiv", binary("add", low, high), 2))
            behind = binary("sub", binary("sub", place, 1), middle)
            precedes = self._precedes(begin, run, middle, behind)
            more = self._keep("more", binary("and", binary("lt", low, high), precedes))
            low = self._keep("low", nodes.Select(more, binary("add", middle, 1), low))
            high = self._keep("high", nodes.Select(more, high, middle))
        other = self._keep("other", binary("sub", place, low))
        is_first = binary("and", binary("lt", low, first), self._precedes(begin, run, low, other))
        is_first = binary("or", binary("ge", other, second), is_first)
        found = nodes.Select(is_first, low, binary("add", other, run))
        return self._inside(self._keep("found", binary("add", begin, found)))

    def _precedes(self, begin: Expr, run: int, first: Expr, second: Expr) -> Expr:
        """Whether an element of the first run comes before one of the second; a place outside
        means any element."""
        a = binary("add", begin, first)
        b = binary("add", binary("add", begin, run), second)
        return binary("ge", self._key(a), self._key(b))

    def _key(self, place: Expr) -> Expr:
        return at(self.keys, replaced(self.domain, self.axis, self._inside(place)))

    def _inside(self, place: Expr) -> Expr:
        return self._keep("at", inside(place, self.keys.shape[self.axis]))

    def _keep(self, name: str, value: Expr) -> Local:
        local = Local(name, value)
        self.locals.append(local)
        return local


# ------------------------------------------------------------------- shorthands


def binary(op: nodes.BinaryOp, lhs: Expr | int, rhs: Expr | int) -> Expr:
    """An operator on integers, or on any expressions."""
    a, b = [nodes.integer(x) if isinstance(x, int) else x for x in (lhs, rhs)]
    return nodes.Binary(op, a, b)


def inside(place: Expr, extent: Expr) -> Expr:
    """The nearest position that is in range."""
    return binary("min", binary("max", place, ZERO), shapes.sub(extent, nodes.ONE))


def domain_of(tensor: Tensor) -> tuple[Index, ...]:
    """A loop over the elements of a tensor."""
    return tuple([Index(f"i{k}", e, tensor.span) for k, e in enumerate(tensor.shape)])


def at(tensor: Tensor, indices: tuple[Expr, ...]) -> nodes.Access:
    """An element of a tensor."""
    return nodes.Access(tensor, tuple([nodes.Subscript(i) for i in indices]))


def replaced(items: tuple[Expr, ...], position: int, item: Expr) -> tuple[Expr, ...]:
    """Extents or indices with another one for a dimension."""
    return (*items[:position], item, *items[position + 1 :])


def add_operation(
    builder: Builder,
    name: str,
    outputs: tuple[Tensor, ...],
    body: tuple[nodes.Assignment, ...],
    span: Span,
) -> None:
    """An operation; what it reads are its inputs."""
    parts = [e for line in body for e in rewrite.expressions(line)]
    read = {a.tensor: None for a in rewrite.accesses(*parts)}
    inputs = tuple([t for t in read if t not in outputs])
    calls = builder.calls()
    builder.add(nodes.Operation(name, outputs, body, inputs, span=span, calls=calls))
