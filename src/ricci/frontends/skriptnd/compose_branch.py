"""Branches: `if ... then ... else ...` (specification 2.10.1)."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from ...dtypes import DType
from ...ir import nodes, shapes
from ...source import Span
from . import syntax as s
from .compose_body import Body, Request, Results, Task, tensors_of
from .compose_callable import compose_callable
from .labels import Wanted, item_name, single_name
from .values import Value, describe, fail, from_expr

# ------------------------------------------------------------------- branching


def compose_branch(
    body: Body, node: s.Branch, label: str | None, wanted: tuple[Wanted, ...]
) -> Task:
    """`if ... then ... else ...`: of conditions known now only the branch taken is composed."""
    conditions: list[tuple[nodes.Region, Span]] = []
    taken: list[s.Callable] = []
    for condition, branch in zip(node.conditions, node.branches, strict=False):
        region = yield from compose_condition(body, condition)
        if region is False:
            continue
        taken.append(branch)
        if region is True:
            break
        assert isinstance(region, nodes.Region)
        conditions.append((region, condition.span))
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
    with builder.region() as steps:
        (result,) = yield from compose_callable(body, node, None, (None,))
    check_condition(result, node.span)
    assert isinstance(result, nodes.Tensor)
    return nodes.Region(tuple(steps), (result,))


def check_condition(value: Value, span: Span) -> None:
    """Raises E0608 unless a value is one bool tensor of volume 1."""
    if (
        not isinstance(value, nodes.Tensor)
        or value.dtype is not DType.BOOL
        or any(shapes.as_int(e) != 1 for e in value.shape)
    ):
        raise fail("E0608", "a condition must be a single bool", span, f"it is {describe(value)}")


def _compose_branches(
    body: Body,
    node: s.Branch,
    conditions: list[tuple[nodes.Region, Span]],
    taken: list[s.Callable],
    label: str | None,
    wanted: tuple[Wanted, ...],
) -> Task:
    builder = body.builder
    results: list[Results] = []
    steps: list[list[nodes.Step]] = []
    for branch in taken:
        with builder.region() as inside:
            values = yield from compose_callable(body, branch, label, (None,) * len(wanted))
        _check_results(results, values, branch)
        results.append(values)
        steps.append(inside)
    merge = _Merge(body, node, steps)
    names = (*wanted, *(None for _ in results[0][len(wanted) :]))
    columns = zip(names, *results, strict=True)
    values = tuple([merge.value(name, list(column)) for name, *column in columns])
    regions = tuple(
        nodes.Region(tuple(inside), tuple(row[k] for row in merge.rows))
        for k, inside in enumerate(steps)
    )
    branch_node = nodes.Branch(
        tuple(merge.outputs), tuple(r for r, _ in conditions), regions, node.span
    )
    builder.add(branch_node)
    return values


def _check_results(known: list[Results], values: Results, branch: s.Callable) -> None:
    """All branches give as many results, of the same packing."""
    same = not known or (
        len(known[0]) == len(values)
        and all(_packing(a) == _packing(b) for a, b in zip(known[0], values, strict=True))
    )
    if not same or any(v is None for v in values):
        kinds = ", ".join(describe(v) for v in values)
        notes = (f"the first branch gives {', '.join(describe(v) for v in known[0])}",)
        raise fail(
            "E0608",
            "the branches must give the same kinds of results",
            branch.span,
            f"this gives {kinds}",
            notes=notes if known else (),
        )


def _packing(value: Value) -> int | None:
    return len(value) if isinstance(value, tuple) else None


class _Merge:
    """Makes one tensor out of those that the branches give for a result."""

    def __init__(self, body: Body, node: s.Branch, steps: list[list[nodes.Step]]) -> None:
        self.body = body
        self.node = node
        self.steps = steps
        self.outputs: list[nodes.Tensor] = []
        self.rows: list[list[nodes.Tensor]] = []
        """For each output, the tensor of each branch."""

    def value(self, name: Wanted, column: list[Value]) -> Value:
        first = column[0]
        if not isinstance(first, tuple):
            return self._tensor(single_name(name), [t for v in column for t in tensors_of(v)])
        items = [tensors_of(v) for v in column]
        return tuple(
            [self._tensor(item_name(name, k), [t[k] for t in items]) for k in range(len(first))]
        )

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
        output = self.body.builder.tensor(name, first.dtype, shape, self.node.span)
        self.outputs.append(output)
        self.rows.append(tensors)
        return output

    def _extent(self, extents: list[nodes.Expr]) -> nodes.Expr:
        """The common extent; if they differ a size of its own, one more result says which."""
        first = extents[0]
        if all(e is first or shapes.equal(e, first) for e in extents):
            return first
        builder = self.body.builder
        bound = extents[0]
        for extent in extents[1:]:
            bound = shapes.maximum(bound, extent)
        symbol = builder.symbol(None, bound, self.node.span)
        size = builder.tensor(None, DType.INT, (), self.node.span)
        row = []
        for extent, inside in zip(extents, self.steps, strict=True):
            with builder.region() as steps:
                row.append(builder.scalar(from_expr(extent), self.node.span))
            inside += steps
        self.outputs.append(size)
        self.rows.append(row)
        builder.sizes.append((symbol, size))
        return symbol
