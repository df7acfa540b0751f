"""Branches: `if ... then ... else ...` (specification 2.10.1)."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...records import dataclass
from ...source import Span
from . import syntax as s
from .compose_body import Body, Request, Results, Task, tensors_of
from .compose_callable import compose_callable
from .compose_parts import Part
from .compose_state import forbid_updates, merge_updates
from .labels import Wanted, item_name, single_name
from .values import AnyValue, DynamicPack, default_of, describe, fail, from_expr

# ------------------------------------------------------------------- branching


def compose_branch(
    body: Body, node: s.Branch, label: str | None, wanted: tuple[Wanted, ...]
) -> Task:
    """`if ... then ... else ...`: of conditions known now only the branch taken is composed."""
    conditions: list[nodes.Region] = []
    taken: list[s.Callable] = []
    for condition, branch in zip(node.conditions, node.branches, strict=False):
        region = yield from compose_condition(body, condition)
        if region is False:
            continue
        taken.append(branch)
        if region is True:
            break
        assert isinstance(region, nodes.Region)
        conditions.append(region)
    else:
        taken.append(node.branches[-1])
    if not conditions:
        return (yield from compose_callable(body, taken[0], label, wanted))
    return (yield from _compose_branches(body, node, conditions, taken, label, wanted))


ConditionTask: TypeAlias = Generator[Request, Results, bool | nodes.Region]


def compose_condition(body: Body, node: s.Callable) -> ConditionTask:
    """A condition: a bool where it is known now, else what computes it.

    Spec: `?x && c` lets `c` use `x` as if it were never null, while null makes `&&` null.
    Ricci: a condition that is null does not hold.
    """
    builder = body.builder
    if not isinstance(node, s.Invocation | s.Block):
        value = body.evaluator.evaluate(node)
        if value is None or isinstance(value, bool):
            return bool(value)
    with builder.region() as part:
        results = yield from compose_callable(body, node, None, (None,))
    if len(results) != 1:
        raise fail("E0608", f"a condition with {len(results)} results", node.span)
    (result,) = results
    check_condition(result, node.span)
    forbid_updates(part, node.span)
    assert isinstance(result, nodes.Tensor)
    return nodes.Region(tuple(part.steps), (result,))


def check_condition(value: AnyValue, span: Span) -> None:
    """Raises E0608 unless a value is one bool tensor of volume 1."""
    if (
        not isinstance(value, nodes.Tensor)
        or value.dtype is not DType.BOOL
        or any(shapes.as_int(e) != 1 for e in value.shape)
    ):
        raise fail("E0608", "a condition must be a single bool", span, f"it is {describe(value)}")


@dataclass(eq=False)
class _Side:
    """A branch that has been composed."""

    part: Part
    values: Results
    inside: frozenset[nodes.Symbol]
    """The sizes that only this branch knows."""


def _compose_branches(
    body: Body,
    node: s.Branch,
    conditions: list[nodes.Region],
    taken: list[s.Callable],
    label: str | None,
    wanted: tuple[Wanted, ...],
) -> Task:
    builder = body.builder
    sides: list[_Side] = []
    builder.sharing += 1
    for branch in taken:
        start = len(builder.sizes)
        with builder.region() as part:
            values = yield from compose_callable(body, branch, label, (None,) * len(wanted))
        _check_results(sides[0].values if sides else values, values, branch)
        inside = frozenset(symbol for symbol, _ in builder.sizes[start:])
        sides.append(_Side(part, values, inside))
    builder.sharing -= 1
    merge = _Merge(body, node, sides)
    names = (*wanted, *(None for _ in sides[0].values[len(wanted) :]))
    columns = zip(names, *(side.values for side in sides), strict=True)
    results = tuple([merge.value(name, list(column)) for name, *column in columns])
    merge.update_variables()
    regions = tuple(
        nodes.Region(tuple(side.part.steps), tuple(row[k] for row in merge.rows))
        for k, side in enumerate(sides)
    )
    builder.add(nodes.Branch(tuple(merge.outputs), tuple(conditions), regions, node.span))
    return results


def _check_results(known: Results, values: Results, branch: s.Callable) -> None:
    """All branches give as many results, tensors or packs of them."""
    same = len(known) == len(values) and all(map(_same_kind, known, values))
    if not same or any(v is None for v in values):
        kinds = ", ".join(describe(v) for v in values)
        first = ", ".join(describe(v) for v in known)
        raise fail(
            "E0608",
            "the branches must give the same kinds of results",
            branch.span,
            f"this gives {kinds}",
            notes=(f"the first branch gives {first}",) if known is not values else (),
        )


def _same_kind(a: AnyValue, b: AnyValue) -> bool:
    return isinstance(a, nodes.Tensor) == isinstance(b, nodes.Tensor)


class _Merge:
    """Makes one tensor out of those that the branches give for a result."""

    def __init__(self, body: Body, node: s.Branch, sides: list[_Side]) -> None:
        self.builder = body.builder
        self.node = node
        self.sides = sides
        self.outputs: list[nodes.Tensor] = []
        self.rows: list[list[nodes.Tensor]] = []
        """For each output, the tensor of each branch."""

    def value(self, name: Wanted, column: list[AnyValue]) -> AnyValue:
        if isinstance(column[0], nodes.Tensor):
            return self._tensor(single_name(name), [t for v in column for t in tensors_of(v)])
        length = self._extent([_length(value) for value in column])
        packs = [tensors_of(value) for value in column]
        most = max(len(pack) for pack in packs)
        items = tuple([self._tensor(item_name(name, k), self._row(packs, k)) for k in range(most)])
        return items if isinstance(length, nodes.Const) else DynamicPack(items, length)

    def _row(self, packs: list[list[nodes.Tensor]], position: int) -> list[nodes.Tensor]:
        """An item of each pack; one that a pack does not have is empty, as far as that is so."""
        found = next(pack[position] for pack in packs if position < len(pack))
        row = []
        for side, pack in zip(self.sides, packs, strict=True):
            if position < len(pack):
                row.append(pack[position])
                continue
            hidden = frozenset(s for other in self.sides for s in other.inside)
            shape = [_visible(e, hidden) for e in found.shape]
            with self.builder.region(side.part):
                zero = nodes.Const(default_of(found.dtype), found.dtype)
                row.append(self.builder.filled(zero, tuple(shape), None, self.node.span))
        return row

    def _tensor(self, name: str | None, tensors: list[nodes.Tensor]) -> nodes.Tensor:
        first = tensors[0]
        if any(t.dtype is not first.dtype or t.rank != first.rank for t in tensors):
            raise fail(
                "E0608",
                "the branches must give tensors of one type and number of dimensions",
                self.node.span,
                " and ".join(describe(t) for t in tensors),
            )
        columns = zip(*(t.shape for t in tensors), strict=True)
        shape = tuple([self._extent(list(column)) for column in columns])
        output = self.builder.tensor(name, first.dtype, shape, self.node.span)
        self.outputs.append(output)
        self.rows.append(tensors)
        return output

    def _extent(self, extents: list[nodes.Expr]) -> nodes.Expr:
        """The common extent; if they differ a size of its own, one more result says which."""
        first = extents[0]
        if all(e is first or shapes.equal(e, first) for e in extents):
            return first
        builder, span = self.builder, self.node.span
        symbol = builder.symbol(None, builder.bound(extents), span)
        size = builder.tensor(None, DType.INT, (), span)
        row = []
        for extent, side in zip(extents, self.sides, strict=True):
            with builder.region(side.part):
                row.append(builder.scalar(from_expr(extent), span))
        self.outputs.append(size)
        self.rows.append(row)
        builder.sizes.append((symbol, size))
        return symbol

    def update_variables(self) -> None:
        """Merge what the branches make of variables."""
        parts = [side.part for side in self.sides]
        outputs, rows = merge_updates(self.builder, parts, self.node.span)
        self.outputs += outputs
        self.rows += rows


def _length(value: AnyValue) -> nodes.Expr:
    if isinstance(value, DynamicPack):
        return value.length
    return nodes.integer(len(tensors_of(value)))


def _visible(extent: nodes.Expr, hidden: frozenset[nodes.Symbol]) -> nodes.Expr:
    return nodes.ZERO if hidden.intersection(rewrite.free_symbols(extent)) else extent
