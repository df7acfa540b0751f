"""Checking asserts, and evaluating the lines of `@using` (specification 2.8, 2.9)."""

from __future__ import annotations

from collections.abc import Sequence

from ...diagnostics import Error
from ...dtypes import DType
from ...ir import nodes, shapes
from . import evaluate_dynamic as dynamic
from . import syntax as s
from .binding import free_names
from .compose_graph import Builder
from .evaluate import Evaluator
from .evaluate_folds import present
from .evaluate_packs import require_int
from .evaluate_scalars import binary
from .evaluate_shapes import bounds_of
from .printer import format_expression
from .values import (
    DynamicPack,
    Item,
    Pack,
    Value,
    check_size,
    dtype_of,
    fail,
    format_value,
    from_expr,
    is_expr,
    show,
    shown_size,
    to_expr,
)


def evaluate_using(builder: Builder, operator: s.Operator, evaluator: Evaluator) -> None:
    """Evaluate `@using`, each assert checked as soon as its names are known.

    Raises E0501 for an assert that does not hold, E0506 for packs that cannot be taken apart.
    """
    schedule = builder.plan(operator).asserts
    for position, asserts in enumerate(schedule):
        for assertion in asserts:
            check(builder, evaluator, assertion, operator.using[position:])
        if position < len(operator.using):
            _define(evaluator, operator.using[position])


def check_early(builder: Builder, operator: s.Operator, evaluator: Evaluator) -> None:
    """Check the asserts whose names are known already: when binding fails one may say why."""
    for assertion in operator.asserts:
        if all(n in evaluator.values for n in builder.free_names(assertion.condition)):
            check(builder, evaluator, assertion, ())


# --------------------------------------------------------------------- asserts


def check(
    builder: Builder, evaluator: Evaluator, assertion: s.Assertion, later: Sequence[s.Using]
) -> None:
    """Check one assert now, or have it checked at run time; a null one is skipped.

    `later` are the lines of `@using` that are still to come.
    """
    value = evaluator.evaluate_any(assertion.condition)
    if isinstance(value, DynamicPack):
        value = present(value, assertion.condition.span, 1)
    if value is None or value is True:
        return
    items = value if isinstance(value, tuple) else (value,)
    result = True
    for item in items:
        if dtype_of(item) is not DType.BOOL or isinstance(item, nodes.Tensor):
            raise fail("E0503", "an assert must be a bool", assertion.condition.span, show(value))
        result = result and item is not False
    open_items = [item for item in items if item is not True]
    if not open_items:
        return
    _define_for_message(evaluator, assertion, later)
    if not result:
        raise _failure(evaluator, assertion)
    _check_later(builder, evaluator, assertion, open_items)


def _define_for_message(
    evaluator: Evaluator, assertion: s.Assertion, later: Sequence[s.Using]
) -> None:
    """Evaluate helpers that are still to come, if the message names one and they can be."""
    message = assertion.message
    parts = message.parts if isinstance(message, s.Format) else ()
    shown = [p for p in parts if not isinstance(p, str)] + [p.value for p in assertion.prints]
    if all(name in evaluator.values for node in shown for name in free_names(node)):
        return
    for using in later:
        try:
            _define(evaluator, using)
        except Error:
            return


def _failure(evaluator: Evaluator, assertion: s.Assertion) -> Error:
    message = _message(evaluator, assertion)
    text = "".join(p if isinstance(p, str) else format_value(p) for p in message)
    prints = _prints(evaluator, assertion)
    values = [value if isinstance(value, tuple) else (value,) for _, value in prints]
    sizes = [item for items in values for item in items if is_expr(item)]
    notes = (*(f"{label} = {show(value)}" for label, value in prints), *bounds_of(*sizes))
    return fail("E0501", text, assertion.condition.span, "does not hold", notes=notes)


def _check_later(
    builder: Builder, evaluator: Evaluator, assertion: s.Assertion, items: list[Item]
) -> None:
    condition = items[0]
    for item in items[1:]:
        condition = binary("&&", condition, item, assertion.span)
    message = tuple(p if isinstance(p, str) else _exprs(p) for p in _message(evaluator, assertion))
    values = tuple(
        (label, _exprs(value))
        for label, value in _prints(evaluator, assertion)
        if value is not None
    )
    builder.check(condition, message, assertion.condition.span, values)


def _exprs(value: Value) -> nodes.Expr | tuple[nodes.Expr, ...]:
    """A value of a message, as the IR has it; tensors by their shape."""
    if isinstance(value, tuple):
        return tuple([to_expr(i) for i in value if not isinstance(i, nodes.Tensor)])
    if value is None or isinstance(value, nodes.Tensor | nodes.Subscript):
        return nodes.Const(format_value(value), DType.STR)
    return to_expr(value)


def _message(evaluator: Evaluator, assertion: s.Assertion) -> list[str | Value]:
    """Texts and the values known only at run time, in turn."""
    if assertion.message is None:
        return [f"assert failed: {format_expression(assertion.condition)}"]
    message = assertion.message
    parts = message.parts if isinstance(message, s.Format) else (message,)
    result: list[str | Value] = []
    for part in parts:
        if isinstance(part, str):
            result.append(part)
            continue
        value = _attempt(evaluator, part)
        symbolic = any(is_expr(i) for i in value) if isinstance(value, tuple) else is_expr(value)
        text = value if part is message and isinstance(value, str) else format_value(value)
        result.append(value if symbolic else text)
    return result


def _prints(evaluator: Evaluator, assertion: s.Assertion) -> list[tuple[str, Value]]:
    """What is printed with the message: as listed, else the identifiers of the condition."""
    if assertion.message is not None or assertion.prints:
        return [
            (p.label or format_expression(p.value), _attempt(evaluator, p.value))
            for p in assertion.prints
        ]
    found = free_names(assertion.condition)
    return [(format_expression(node), _attempt(evaluator, node)) for node in found.values()]


def _attempt(evaluator: Evaluator, node: s.Expr) -> Value:
    """A value to print; null where it cannot be had, for the assert is what matters."""
    try:
        return evaluator.evaluate(node)
    except Error:
        return None


# ----------------------------------------------------------------------- using


def _define(evaluator: Evaluator, using: s.Using) -> None:
    value = evaluator.evaluate_any(using.value)
    if isinstance(value, DynamicPack):
        _define_dynamic(evaluator, using, value)
        return
    check_size(value, using.value.span)
    if not using.listed:
        (item,) = using.items
        assert isinstance(item, s.UsingName)
        _check_hint(evaluator, item, value)
        evaluator.values[item.name] = value
    elif value is None:
        for item in using.items:
            names = item.names if isinstance(item, s.UsingZip) else (item.name,)
            evaluator.values.update(dict.fromkeys(names, None))
    elif isinstance(value, tuple):
        _take_apart(evaluator, using, value)
    else:
        raise fail("E0503", "only a pack can be taken apart", using.value.span, show(value))


def _define_dynamic(evaluator: Evaluator, using: s.Using, value: DynamicPack) -> None:
    """A pack whose length is known only at run time, as a whole or taken apart."""
    budget, span = evaluator.budget, using.span
    check_size(value.items, using.value.span)
    if not using.listed:
        (item,) = using.items
        assert isinstance(item, s.UsingName)
        _agree_hint(evaluator, item, value)
        evaluator.values[item.name] = value
        return
    counts = [_open_count(evaluator, item) for item in using.items]
    parts = dynamic.take_apart(value, counts, span, budget)
    for item, part in zip(using.items, parts, strict=True):
        if isinstance(item, s.UsingZip):
            columns = dynamic.deal(part, len(item.names), item.span, budget)
            evaluator.values.update(zip(item.names, columns, strict=True))
        elif item.pack is None:
            evaluator.values[item.name] = dynamic.items_of(part)[0]
        else:
            evaluator.values[item.name] = part


def _open_count(evaluator: Evaluator, item: s.UsingName | s.UsingZip) -> nodes.Expr | None:
    """How many items a name takes, which may be known only at run time."""
    if isinstance(item, s.UsingName) and item.pack is not None and item.pack.length is not None:
        value = evaluator.evaluate(item.pack.length)
        if is_expr(value):
            return value
    count = _count(evaluator, item)
    return None if count is None else nodes.integer(count)


def _agree_hint(evaluator: Evaluator, item: s.UsingName, value: DynamicPack) -> None:
    """The length that is written with a name is compared when the graph runs."""
    length = None if item.pack is None else item.pack.length
    expected = None if length is None else evaluator.evaluate(length)
    if length is None or expected is None:
        return
    if not is_expr(expected):
        expected = nodes.integer(require_int(expected, length.span, "the length of a pack"))
    same = shapes.compare("eq", value.length, expected)
    if same == nodes.FALSE:
        message = f"`{item.name}` never has {show(from_expr(expected))} items"
        raise fail("E0506", message, length.span, f"it has {show(from_expr(value.length))}")
    shown = (f"`{item.name}` has ", *shown_size(value.length), " items, not ", expected)
    evaluator.budget.demand(same, shown, length.span)


def _check_hint(evaluator: Evaluator, item: s.UsingName, value: Value) -> None:
    if item.pack is None or item.pack.length is None or value is None:
        return
    expected = evaluator.evaluate(item.pack.length)
    count = len(value) if isinstance(value, tuple) else 1
    if expected is not None and expected != count:
        raise fail(
            "E0506",
            f"`{item.name}` has {count} items, not {show(expected)}",
            item.pack.length.span,
            notes=(f"{item.name} = {show(value)}",),
        )


def _take_apart(evaluator: Evaluator, using: s.Using, value: Pack) -> None:
    """`[a, b.., (c, d)..] = value`; one part without a length takes what is left."""
    counts = [_count(evaluator, item) for item in using.items]
    rest = len(value) - sum(c for c in counts if c is not None)
    if rest < 0 or counts.count(None) > 1 or (rest > 0 and None not in counts):
        raise fail(
            "E0506",
            f"a pack of {len(value)} items does not fit these names",
            using.span,
            notes=(f"value: {show(value)}",),
        )
    start = 0
    for item, known in zip(using.items, counts, strict=True):
        stop = start + (rest if known is None else known)
        _assign(evaluator, item, value[start:stop])
        start = stop


def _count(evaluator: Evaluator, item: s.UsingName | s.UsingZip) -> int | None:
    if isinstance(item, s.UsingZip):
        return None
    if item.pack is None:
        return 1
    if item.pack.length is None:
        return None
    value = evaluator.evaluate(item.pack.length)
    return require_int(value, item.pack.length.span, "the length of a pack")


def _assign(evaluator: Evaluator, item: s.UsingName | s.UsingZip, part: Pack) -> None:
    if isinstance(item, s.UsingName):
        evaluator.values[item.name] = part[0] if item.pack is None else part
        return
    width = len(item.names)
    if len(part) % width:
        raise fail("E0506", f"{len(part)} items cannot be dealt out to {width} packs", item.span)
    for k, name in enumerate(item.names):
        evaluator.values[name] = part[k::width]
