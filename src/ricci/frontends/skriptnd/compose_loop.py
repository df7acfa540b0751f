"""Loops: their clauses, and loops that are written out (specification 2.10.1).

`compose_loop_step` composes a loop as one step of the graph.
"""

from __future__ import annotations

from ...dtypes import DType
from ...ir import nodes, shapes
from ...records import dataclass
from ...source import Span
from . import syntax as s
from .compose_body import Body, Results, Task, tensors_of
from .compose_callable import compose_callable
from .compose_declared import check_length
from .compose_graph import Builder
from .compose_loop_packs import OpenPack, open_pack
from .evaluate_dynamic import items_of
from .evaluate_shapes import evaluate_shape
from .labels import Wanted, item_name
from .values import (
    AnyValue,
    DynamicPack,
    Item,
    Pack,
    Value,
    describe,
    dtype_of,
    fail,
    is_expr,
    show,
    to_expr,
)


@dataclass(frozen=True, slots=True)
class Scan:
    """What a clause `for x : xs` goes through: all items that there may be."""

    node: s.Scan
    items: Pack
    length: nodes.Expr


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop whose clauses have been evaluated."""

    node: s.Loop
    initial: list[Value | OpenPack]
    """For each loop variable a tensor, a pack of them, or one whose length may change."""
    scans: list[Scan]
    count: nodes.Expr | None

    @property
    def most(self) -> int | None:
        """How many steps there are at most, where something says it."""
        if self.count is None:
            return None
        high = shapes.interval(self.count)[1]
        return int(high) if high < 1 << 31 else None


def evaluate_clauses(body: Body, node: s.Loop) -> Loop:
    """The initial values, packs and count of a loop. Raises E0608 and E0413."""
    initial = [_initial(body, carried) for carried in node.carried]
    scans = [_scan(body, scan) for scan in node.scans]
    count = _count(body, node, scans)
    known = None if count is None else shapes.as_int(count)
    if known is not None:
        scans = [Scan(x.node, x.items[:known], nodes.integer(known)) for x in scans]
    return Loop(node, initial, scans, count)


# --------------------------------------------------------------- loop variables


def _initial(body: Body, carried: s.Carried) -> Value | OpenPack:
    """The first value of a loop variable; one value fills a declared shape."""
    value = body.evaluator.evaluate_any(carried.value)
    if value is None:
        raise fail("E0608", "a loop variable must not be null", carried.value.span)
    type, span = carried.type, carried.value.span
    pack = None if type is None else type.pack
    if type is not None:
        _check_type(body, type, value, span)
        value = check_length(body, pack, value, f"loop variable `{carried.name}`", span)
    assert value is not None
    if not isinstance(value, tuple | DynamicPack):
        return _first(body, type, value, None, span)
    items = tuple([_first(body, type, i, k, span) for k, i in enumerate(items_of(value))])
    if isinstance(value, DynamicPack):
        return open_pack(body, carried, DynamicPack(items, value.length))
    return items if pack is None or pack.bound is None else open_pack(body, carried, items)


def _check_type(body: Body, type: s.Type, value: AnyValue, span: Span) -> None:
    dtype = body.evaluator.dtype(type.name, type.span)
    for item in items_of(value) if isinstance(value, tuple | DynamicPack) else (value,):
        if item is not None and dtype_of(item) is not dtype:
            raise fail("E0608", f"`{dtype_of(item)}` cannot start a `{dtype}`", span)


def _first(
    body: Body, type: s.Type | None, item: Item, position: int | None, span: Span
) -> nodes.Tensor:
    """Spec: a compile-time scalar fills the shape. Ricci: so does any tensor of rank 0."""
    builder = body.builder
    if type is None or type.shape is None or any(_is_open(e) for e in type.shape):
        return builder.scalar(item, span)
    shape = evaluate_shape(body.evaluator, type, position)
    if not isinstance(item, nodes.Tensor):
        if isinstance(item, bool | int | float):
            return builder.constant(item, dtype_of(item), shape)
        return builder.filled(to_expr(item), shape, None, span)
    if not item.rank and shape:
        return builder.filled(nodes.Access(item, (), span), shape, None, span)
    fits = item.rank == len(shape) and all(
        builder.agree(a, b, "the initial value of a loop variable", span)
        for a, b in zip(item.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(describe(e) for e in shape)
        message = f"the initial value is {describe(item)}, declared is {item.dtype}[{wanted}]"
        raise fail("E0608", message, span)
    return item


def _is_open(extent: s.Extent) -> bool:
    return isinstance(extent.size, s.Omitted)


# ------------------------------------------------------------- scans and counts


def _scan(body: Body, scan: s.Scan) -> Scan:
    value = body.evaluator.evaluate_any(scan.pack)
    if isinstance(value, DynamicPack):
        return Scan(scan, value.items, value.length)
    if not isinstance(value, tuple):
        raise fail("E0608", "a loop scans a pack", scan.pack.span, describe(value))
    return Scan(scan, value, nodes.integer(len(value)))


def _count(body: Body, node: s.Loop, scans: list[Scan]) -> nodes.Expr | None:
    """How many steps a loop has at most. Raises E0608 for counts that disagree."""
    length = _length(body, node, scans)
    given = node.count.count if node.count is not None else None
    value = None if given is None else body.evaluator.evaluate(given)
    if given is None or value is None:
        if length is None and node.condition is None:
            raise fail("E0608", "nothing says how often this loop repeats", node.span)
        return length
    if isinstance(value, nodes.Tensor):
        return _count_of_tensor(body, value, given.span, scans, length)
    if type(value) is int:
        return _static_count(body, value, node, given.span, length)
    if not is_expr(value) or value.dtype is not DType.INT:
        raise fail("E0608", "a loop count is one int", given.span, show(value))
    body.builder.guard(value, given.span)
    _check_at_most(body, value, given.span, length)
    return value


def _length(body: Body, node: s.Loop, scans: list[Scan]) -> nodes.Expr | None:
    """The common length of all packs that are scanned."""
    for scan in scans[1:]:
        first = scans[0].length
        if not body.builder.agree(first, scan.length, "the length of scanned packs", node.span):
            shown = ", ".join(describe(x.length) for x in scans)
            raise fail("E0608", "the packs of this loop differ in length", node.span, shown)
    return scans[0].length if scans else None


def _static_count(
    body: Body, count: int, node: s.Loop, span: Span, length: nodes.Expr | None
) -> nodes.Expr:
    if count < 0:
        raise fail("E0608", "a loop count must not be negative", span, str(count))
    result = nodes.integer(count)
    what = "the count of a loop and the length of its pack"
    if length is not None and not body.builder.agree(length, result, what, span):
        shown = f"{describe(length)}, {count}"
        raise fail("E0608", "the counts of this loop disagree", node.span, shown)
    return result


def _count_of_tensor(
    body: Body, count: nodes.Tensor, span: Span, scans: list[Scan], length: nodes.Expr | None
) -> nodes.Expr:
    """Spec: the length of what is scanned is an upper bound of a count that is a tensor.
    Ricci: a count above it, and one below zero, is an error when the graph runs (E0804)."""
    if count.dtype is not DType.INT or count.rank:
        raise fail("E0608", "a loop count is one int", span, describe(count))
    builder = body.builder
    if type(count.data) is int:
        return _constant_count(body, count.data, span, length)
    most = min((len(scan.items) for scan in scans), default=None)
    bound = None if most is None else nodes.integer(most)
    symbol = builder.symbol(span.text if span.text.isidentifier() else "count", bound, span)
    copy = builder.filled(nodes.Access(count, (), span), (), None, span)
    builder.sizes.append((symbol, copy))
    _check_at_most(body, symbol, span, length)
    return symbol


def _constant_count(body: Body, count: int, span: Span, length: nodes.Expr | None) -> nodes.Expr:
    """A number given for a tensor is a count like any other, which may be below the length."""
    result = nodes.integer(count)
    if count < 0:
        raise fail("E0608", "a loop count must not be negative", span, str(count))
    _check_at_most(body, result, span, length)
    return result


def _check_at_most(body: Body, count: nodes.Expr, span: Span, length: nodes.Expr | None) -> None:
    if length is None or shapes.less_equal(count, length):
        return
    if shapes.less(length, count):
        shown = f"{describe(length)} and {describe(count)}"
        raise fail("E0608", "a loop counts further than its pack goes", span, shown)
    message = "a loop counts further than its pack goes"
    body.builder.budget.demand(shapes.compare("le", count, length), (message,), span)


# -------------------------------------------------------------------- each step


def enter(inner: Body, node: s.Loop, variables: list[AnyValue], items: list[Item]) -> None:
    """Make loop variables and scanned items known in a step."""
    for carried, value in zip(node.carried, variables, strict=True):
        inner.evaluator.values[carried.name] = value
    for scan, item in zip(node.scans, items, strict=True):
        inner.evaluator.values[scan.name] = item


def step_body(body: Body) -> Body:
    """Where a step is composed."""
    inner = body.inner(body.scope, {})
    inner.through = body.through
    return inner


def check_results(body: Body, loop: Loop, results: Results) -> None:
    """The new values of loop variables keep type and shape; the other results are tensors."""
    node, known = loop.node, len(loop.initial)
    if len(results) < known:
        message = f"the body of this loop must give {known} loop variables"
        raise fail("E0608", message, node.body.span, f"it gives {len(results)}")
    for value in results[known:]:
        if not isinstance(value, nodes.Tensor):
            message = "what a loop collects must be a single tensor in each step"
            raise fail("E0608", message, node.body.span, describe(value))
    for carried, old, new in zip(node.carried, loop.initial, results, strict=False):
        if not _same(body, carried, old, new):
            before = old.describe() if isinstance(old, OpenPack) else describe(old)
            raise fail(
                "E0608",
                f"loop variable `{carried.name}` changes its type or shape",
                carried.span,
                f"from {before} to {describe(new)}",
            )


def _same(body: Body, carried: s.Carried, old: Value | OpenPack, new: AnyValue) -> bool:
    if isinstance(old, OpenPack):
        return old.suits(new)
    if isinstance(new, DynamicPack) or isinstance(old, tuple) != isinstance(new, tuple):
        return False
    before, after = tensors_of(old), tensors_of(new)
    what = f"the shape of loop variable `{carried.name}`"
    return len(before) == len(after) and all(
        a.dtype is b.dtype
        and a.rank == b.rank
        and all(
            body.builder.agree(x, y, what, carried.span)
            for x, y in zip(a.shape, b.shape, strict=True)
        )
        for a, b in zip(before, after, strict=True)
    )


# ---------------------------------------------------------------------- unrolled


def unroll(
    body: Body, loop: Loop, steps: int, label: str | None, wanted: tuple[Wanted, ...]
) -> Task:
    """A loop written out, step by step."""
    node, builder = loop.node, body.builder
    known = len(loop.initial)
    current = [v.value if isinstance(v, OpenPack) else v for v in loop.initial]
    collected: list[list[nodes.Tensor]] = [[] for _ in wanted[known:]]
    builder.budget.invoke(node.span, steps)
    builder.sharing += 1
    for step in range(steps):
        inner = step_body(body)
        enter(inner, node, current, [scan.items[step] for scan in loop.scans])
        if node.count is not None and node.count.index is not None:
            inner.evaluator.values[node.count.index] = step
        names = _step_names(wanted, known, step, step == steps - 1)
        results = yield from compose_callable(inner, node.body, label, names)
        check_results(body, loop, results)
        current = [_kept(builder, *pair) for pair in zip(loop.initial, results, strict=False)]
        while len(collected) < len(results) - known:
            collected.append([])
        for pack, value in zip(collected, results[known:], strict=True):
            pack += tensors_of(value)
    builder.sharing -= 1
    return (*current, *(tuple(pack) for pack in collected))


def _kept(builder: Builder, old: Value | OpenPack, new: AnyValue) -> AnyValue:
    """The new value of a loop variable."""
    if isinstance(old, OpenPack) and isinstance(new, tuple | DynamicPack):
        return old.kept(builder, new)
    return new


def _step_names(
    wanted: tuple[Wanted, ...], variables: int, step: int, last: bool
) -> tuple[Wanted, ...]:
    finals = tuple([name if last else None for name in wanted[:variables]])
    return finals + tuple([item_name(name, step) for name in wanted[variables:]])
