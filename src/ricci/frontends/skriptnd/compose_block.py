"""Components: what stands in `@compose`, `@update` and blocks (specification 2.10, 2.11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir import nodes
from . import syntax as s
from .compose_body import Body, Request, Results, Task
from .compose_branch import compose_branch
from .compose_callable import as_tensors, compose_callable
from .compose_declared import check_declared, check_length
from .compose_loop_step import compose_loop
from .compose_quantize import quantize
from .compose_state import update_variable
from .evaluate_dynamic import items_of, take_apart
from .evaluate_packs import require_int
from .labels import Scope, Wanted, automatic_label, item_name, result_names, single_name
from .values import AnyValue, DynamicPack, Value, describe, fail, is_expr


def compose_components(body: Body, components: tuple[s.Component, ...]) -> Task:
    """Compose each component in order, and assign its results."""
    for component in components:
        wanted = tuple(_wanted(body, result) for result in component.results)
        label = automatic_label(component)
        values = yield from compose_action(body, component.action, label, wanted)
        _assign_all(body, component, values)
        yield from quantize(body, result_names(component))
    return ()


def compose_action(
    body: Body, action: s.Action, label: str | None, wanted: tuple[Wanted, ...]
) -> Task:
    """Compose the right side of a component; its results."""
    if isinstance(action, s.Branch):
        return (yield from compose_branch(body, action, label, wanted))
    if isinstance(action, s.Loop):
        return (yield from compose_loop(body, action, label, wanted))
    return (yield from compose_callable(body, action, label, wanted))


def compose_block(request: Request) -> Task:
    """`{ ... yield x; }`: the yielded tensors take the names wanted outside."""
    body, block = request.body, request.node
    assert isinstance(block, s.Block)
    names = {
        node.name: name
        for node, name in zip(block.results, request.wanted, strict=False)
        if isinstance(node, s.Name)
    }
    inner = body.inner(_block_scope(body, block.label or request.label), names)
    yield from compose_components(inner, block.components)
    values = [(inner.evaluator.evaluate_any(node), node.span) for node in block.results]
    return tuple([as_tensors(body, value, span) for value, span in values])


def _block_scope(body: Body, label: str | None) -> Scope:
    scope = body.scope
    if label is None or scope.prefix is None:
        return Scope(scope.prefix if body.through else None, scope.visible)
    return Scope(f"{scope.prefix}.{label}", scope.visible)


# --------------------------------------------------------------------- results


def _wanted(body: Body, result: s.Result | s.ResultList | s.Omitted) -> Wanted:
    """The name that a result will have, of each item where a pack is taken apart."""
    if isinstance(result, s.Omitted):
        return None
    if isinstance(result, s.Result):
        return _result_name(body, result)
    names: list[str | None] = []
    for item in result.items:
        if isinstance(item, s.Omitted):
            names.append(None)
            continue
        name = _result_name(body, item)
        if item.pack is None:
            names.append(single_name(name))
        else:
            length = _length(body, item)
            if length is not None and not isinstance(length, int):
                return None
            names += [item_name(name, k) for k in range(length or 0)]
    return tuple(names)


def _result_name(body: Body, result: s.Result) -> Wanted:
    if result.name in body.wanted:
        return body.wanted[result.name]
    return body.scope.tensor(result.name)


def _pack(result: s.Result) -> s.Pack | None:
    return result.pack or (result.type.pack if result.type is not None else None)


def _length(body: Body, result: s.Result) -> int | nodes.Expr | None:
    """The declared length of a packed result; None where it is open."""
    pack = _pack(result)
    if pack is None or pack.length is None:
        return None
    value = body.evaluator.evaluate(pack.length)
    if is_expr(value):
        return value
    return require_int(value, pack.length.span, "the length of a pack")


def _assign_all(body: Body, component: s.Component, values: Results) -> None:
    if len(component.results) > len(values):
        raise fail(
            "E0412",
            f"{len(component.results)} results are named where there are {len(values)}",
            component.span,
        )
    for result, value in zip(component.results, values, strict=False):
        if isinstance(result, s.Result):
            _assign(body, result, value)
        elif isinstance(result, s.ResultList):
            _assign_list(body, result, value)


def _assign(body: Body, result: s.Result, value: AnyValue) -> None:
    what = f"result `{result.name}`"
    value = check_length(body, _pack(result), value, what, result.span)
    if result.type is not None:
        check_declared(body, result.type, value, what, result.span)
    if result.name in body.variables:
        update_variable(body, result, body.variables[result.name], value)
    else:
        body.evaluator.values[result.name] = value


def _assign_list(body: Body, results: s.ResultList, value: AnyValue) -> None:
    """`[a, b..(k)] = pack`: at most one packed result may leave its length open."""
    counts = [
        1 if isinstance(r, s.Omitted) or _pack(r) is None else _length(body, r)
        for r in results.items
    ]
    known = [c for c in counts if isinstance(c, int)]
    if isinstance(value, DynamicPack) or len(known) + counts.count(None) < len(counts):
        _assign_parts(body, results, value, counts)
        return
    items = value if isinstance(value, tuple) else ()
    rest = len(items) - sum(known)
    if value is None or rest < 0 or counts.count(None) > 1 or (rest > 0 and None not in counts):
        raise fail(
            "E0413",
            f"a pack of {len(items)} tensors does not fit these results",
            results.span,
        )
    start = 0
    for result, count in zip(results.items, counts, strict=True):
        stop = start + (count if isinstance(count, int) else rest)
        if isinstance(result, s.Result):
            _assign(body, result, items[start] if _pack(result) is None else items[start:stop])
        start = stop


def _assign_parts(
    body: Body,
    results: s.ResultList,
    value: AnyValue,
    counts: Sequence[int | nodes.Expr | None],
) -> None:
    """The same where a length is known only at run time."""
    if not isinstance(value, tuple | DynamicPack):
        raise fail("E0413", "a pack is needed for these results", results.span, describe(value))
    sizes = [nodes.integer(c) if isinstance(c, int) else c for c in counts]
    parts = take_apart(value, sizes, results.span, body.builder.budget, "E0413")
    for result, part in zip(results.items, parts, strict=True):
        if isinstance(result, s.Result):
            _assign(body, result, items_of(part)[0] if _pack(result) is None else part)


# --------------------------------------------------------------------- updates


def compose_updates(body: Body, declared: Mapping[str, Value]) -> Task:
    """`@update`: intermediates, and new values of the variables `declared`."""
    body.variables = dict(declared)
    for component in body.operator.update:
        wanted = tuple(None for _ in component.results)
        label = automatic_label(component)
        values = yield from compose_action(body, component.action, label, wanted)
        _assign_all(body, component, values)
        yield from quantize(body, [n for n in result_names(component) if n not in declared])
    return ()
