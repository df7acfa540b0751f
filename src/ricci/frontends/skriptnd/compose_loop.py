"""Loops, as one step of the graph or unrolled (specification 2.10.1)."""

from __future__ import annotations

from collections.abc import Generator

from ...dtypes import DType
from ...ir import nodes, shapes
from . import syntax as s
from .compose_body import Body, Request, Results, Task, tensors_of
from .compose_branch import compose_condition
from .compose_callable import compose_callable
from .evaluate_packs import require_int
from .evaluate_shapes import evaluate_shape
from .labels import Wanted, item_name, single_name
from .values import Value, describe, dtype_of, fail, is_expr, is_static


def compose_loop(body: Body, node: s.Loop, label: str | None, wanted: tuple[Wanted, ...]) -> Task:
    """A loop as one step of the graph, or written out where it says `unroll`."""
    initial = [_initial(body, carried) for carried in node.carried]
    scans = [_scan(body, scan) for scan in node.scans]
    count = _count(body, node, scans)
    never = count == 0 and (node.pretest or node.condition is None)
    if node.unroll or never:
        return (yield from _unroll(body, node, label, wanted, initial, scans, count))
    return (yield from _loop(body, node, label, wanted, initial, scans, count))


def _initial(body: Body, carried: s.Carried) -> nodes.Tensor:
    """The first value of a loop variable; one value fills a declared shape."""
    value = body.evaluator.evaluate(carried.value)
    if value is None or isinstance(value, tuple):
        raise fail("E0608", "a loop variable is one tensor", carried.value.span, describe(value))
    if carried.type is not None:
        dtype = body.evaluator.dtype(carried.type.name, carried.type.span)
        if dtype_of(value) is not dtype:
            kind = dtype_of(value)
            raise fail("E0608", f"`{kind}` cannot start a `{dtype}`", carried.value.span)
        if carried.type.shape is not None and is_static(value):
            shape = evaluate_shape(body.evaluator, carried.type, None)
            return body.builder.constant(value, dtype, shape)
    return body.builder.scalar(value, carried.value.span)


def _scan(body: Body, scan: s.Scan) -> tuple[nodes.Tensor, ...]:
    value = body.evaluator.evaluate(scan.pack)
    if not isinstance(value, tuple):
        raise fail("E0608", "a loop scans a pack of tensors", scan.pack.span, describe(value))
    return tuple([body.builder.scalar(item, scan.pack.span) for item in value])


def _count(
    body: Body, node: s.Loop, scans: list[tuple[nodes.Tensor, ...]]
) -> int | nodes.Tensor | None:
    """How many steps a loop has at most. Raises E0608 for counts that disagree."""
    count: Value = None
    if node.count is not None and node.count.count is not None:
        count = body.evaluator.evaluate(node.count.count)
        if is_expr(count):
            count = body.builder.scalar(count, node.count.span)
        if not isinstance(count, nodes.Tensor) and count is not None:
            count = require_int(count, node.count.count.span, "a loop count")
        elif count is not None and (count.dtype is not DType.INT or count.rank):
            raise fail("E0608", "a loop count is one int", node.count.span, describe(count))
    lengths = [len(scan) for scan in scans] + ([count] if isinstance(count, int) else [])
    if any(n != lengths[0] for n in lengths):
        shown = ", ".join(str(n) for n in lengths)
        raise fail("E0608", "the counts of this loop disagree", node.span, shown)
    if count is None and lengths:
        count = lengths[0]
    if count is None and node.condition is None:
        raise fail("E0608", "nothing says how often this loop repeats", node.span)
    assert count is None or isinstance(count, int | nodes.Tensor)
    return count


def _unroll(
    body: Body,
    node: s.Loop,
    label: str | None,
    wanted: tuple[Wanted, ...],
    initial: list[nodes.Tensor],
    scans: list[tuple[nodes.Tensor, ...]],
    count: int | nodes.Tensor | None,
) -> Task:
    if not isinstance(count, int) or (node.condition is not None and count):
        raise fail("E0608", "an unrolled loop needs a count that is known", node.span)
    current: list[Value] = list(initial)
    collected: list[list[nodes.Tensor]] = [[] for _ in wanted[len(initial) :]]
    body.builder.sharing += 1
    for step in range(count):
        body.builder.budget.invoke(node.span)
        inner = body.inner(body.scope, {})
        inner.through = body.through
        _enter(inner, node, current, [scan[step] for scan in scans])
        if node.count is not None and node.count.index is not None:
            inner.evaluator.values[node.count.index] = step
        names = _step_names(wanted, len(initial), step, step == count - 1)
        results = yield from compose_callable(inner, node.body, label, names)
        _check_variables(node, initial, results)
        current = list(results[: len(initial)])
        while len(collected) < len(results) - len(initial):
            collected.append([])
        for pack, value in zip(collected, results[len(initial) :], strict=False):
            pack += tensors_of(value)
    body.builder.sharing -= 1
    return (*current, *(tuple(pack) for pack in collected))


def _step_names(
    wanted: tuple[Wanted, ...], variables: int, step: int, last: bool
) -> tuple[Wanted, ...]:
    finals = tuple([name if last else None for name in wanted[:variables]])
    return finals + tuple([item_name(name, step) for name in wanted[variables:]])


def _enter(inner: Body, node: s.Loop, current: list[Value], items: list[nodes.Tensor]) -> None:
    """Make loop variables and scanned items known in a step."""
    for carried, value in zip(node.carried, current, strict=True):
        inner.evaluator.values[carried.name] = value
    for scan, item in zip(node.scans, items, strict=True):
        inner.evaluator.values[scan.name] = item


def _check_variables(node: s.Loop, initial: list[nodes.Tensor], results: Results) -> None:
    """The new values of loop variables keep type and shape; all results are tensors."""
    if len(results) < len(initial) or any(not isinstance(v, nodes.Tensor) for v in results):
        raise fail(
            "E0608",
            f"the body of this loop must give at least {len(initial)} tensors",
            node.body.span,
            ", ".join(describe(v) for v in results),
        )
    for carried, old, new in zip(node.carried, initial, results, strict=False):
        assert isinstance(new, nodes.Tensor)
        fits = old.dtype is new.dtype and old.rank == new.rank
        if not fits or not all(map(shapes.equal, old.shape, new.shape)):
            raise fail(
                "E0608",
                f"loop variable `{carried.name}` changes its type or shape",
                carried.span,
                f"from {describe(old)} to {describe(new)}",
            )


def _loop(
    body: Body,
    node: s.Loop,
    label: str | None,
    wanted: tuple[Wanted, ...],
    initial: list[nodes.Tensor],
    scans: list[tuple[nodes.Tensor, ...]],
    count: int | nodes.Tensor | None,
) -> Task:
    builder = body.builder
    inner = body.inner(body.scope, {})
    inner.through = body.through
    variables = [builder.tensor(None, t.dtype, t.shape, node.span) for t in initial]
    items = [_scanned(body, scan, pack) for scan, pack in zip(node.scans, scans, strict=True)]
    _enter(inner, node, list(variables), items)
    index = _index(inner, node)
    condition = yield from _loop_condition(inner, node)
    with builder.region() as steps:
        anonymous = (None,) * len(wanted)
        results = yield from compose_callable(inner, node.body, label, anonymous)
    _check_variables(node, initial, results)
    names = (*wanted, *(None for _ in results[len(wanted) :]))
    outputs = [
        builder.tensor(single_name(name), t.dtype, t.shape, node.span)
        for name, t in zip(names, initial, strict=False)
    ]
    collected = _collect(body, node, names[len(initial) :], results[len(initial) :], scans, count)
    builder.add(
        nodes.Loop(
            tuple(outputs),
            collected,
            tuple(variables),
            tuple(initial),
            tuple(zip(items, scans, strict=True)),
            nodes.Region(tuple(steps), tuple([t for v in results for t in tensors_of(v)])),
            nodes.integer(count) if isinstance(count, int) else count,
            index,
            condition,
            node.pretest,
            node.span,
        )
    )
    return (*outputs, *collected)


def _index(inner: Body, node: s.Loop) -> nodes.Tensor | None:
    """The number of the current step, where the loop has a name for it."""
    if node.count is None or node.count.index is None:
        return None
    index = inner.builder.tensor(None, DType.INT, (), node.span)
    inner.evaluator.values[node.count.index] = index
    return index


def _loop_condition(inner: Body, node: s.Loop) -> Generator[Request, Results, nodes.Region | None]:
    if node.condition is None:
        return None
    found = yield from compose_condition(inner, node.condition)
    if isinstance(found, bool):
        raise fail("E0608", "the condition of a loop must depend on data", node.condition.span)
    return found


def _scanned(body: Body, scan: s.Scan, pack: tuple[nodes.Tensor, ...]) -> nodes.Tensor:
    """What stands for the current item in the body: items must have one shape."""
    if not pack:
        raise fail("E0608", "there is nothing to scan in this pack", scan.pack.span)
    first = pack[0]
    for other in pack[1:]:
        same = other.dtype is first.dtype and other.rank == first.rank
        if not same or not all(map(shapes.equal, other.shape, first.shape)):
            raise fail(
                "E0608",
                "the tensors that a loop scans must have one shape",
                scan.span,
                f"{describe(first)} and {describe(other)}",
                help="write the loop with `unroll`",
            )
    return body.builder.tensor(None, first.dtype, first.shape, scan.span)


def _collect(
    body: Body,
    node: s.Loop,
    names: tuple[Wanted, ...],
    results: Results,
    scans: list[tuple[nodes.Tensor, ...]],
    count: int | nodes.Tensor | None,
) -> tuple[tuple[nodes.Tensor, ...], ...]:
    """Packs for the results of each step.

    Spec: a count that is a tensor, or a condition, makes them packs of dynamic length.
    Ricci: they have the length of what is scanned; items beyond the last step are zero.
    """
    length = count if isinstance(count, int) else len(scans[0]) if scans else None
    if length is None and results:
        raise fail(
            "E0608",
            "only a loop over a pack, or with a known count, collects results",
            node.span,
        )
    return tuple(
        [
            tuple(
                [
                    body.builder.tensor(item_name(name, k), t.dtype, t.shape, node.span)
                    for k in range(length or 0)
                ]
            )
            for name, value in zip(names, results, strict=True)
            for t in tensors_of(value)
        ]
    )
