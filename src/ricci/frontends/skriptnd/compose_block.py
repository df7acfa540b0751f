"""Components: what stands in `@compose`, `@update` and blocks (specification 2.10, 2.11)."""

from __future__ import annotations

from ...diagnostics import Label
from ...ir import nodes
from ...source import Span
from . import syntax as s
from .compose_body import Body, Request, Results, Task, tensors_of
from .compose_branch import compose_branch
from .compose_callable import as_tensors, compose_callable
from .compose_loop import compose_loop
from .evaluate_packs import require_int
from .evaluate_shapes import evaluate_extent
from .labels import Scope, Wanted, automatic_label, item_name, single_name
from .values import Item, Value, fail, from_expr, is_expr, show, to_expr


def compose_components(body: Body, components: tuple[s.Component, ...]) -> Task:
    """Compose each component in order, and assign its results."""
    for component in components:
        wanted = tuple(_wanted(body, result) for result in component.results)
        label = automatic_label(component)
        values = yield from compose_action(body, component.action, label, wanted)
        _assign_all(body, component, values)
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
    values = [(inner.evaluator.evaluate(node), node.span) for node in block.results]
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
            names += [item_name(name, k) for k in range(_length(body, item) or 0)]
    return tuple(names)


def _result_name(body: Body, result: s.Result) -> Wanted:
    if result.name in body.wanted:
        return body.wanted[result.name]
    return body.scope.tensor(result.name)


def _length(body: Body, result: s.Result) -> int | None:
    """The declared length of a packed result; None where it is open."""
    pack = result.pack or (result.type.pack if result.type is not None else None)
    if pack is None or pack.length is None:
        return None
    value = body.evaluator.evaluate(pack.length)
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


def _assign(body: Body, result: s.Result, value: Value) -> None:
    length = _length(body, result)
    if length is not None and value is not None:
        count = len(value) if isinstance(value, tuple) else 1
        if not isinstance(value, tuple) or count != length:
            raise fail(
                "E0413",
                f"`{result.name}` is declared as a pack of {length} tensors, but is "
                + (f"one of {count}" if isinstance(value, tuple) else "a single one"),
                result.span,
            )
    if result.type is not None:
        check_declared(body, result.type, value, f"result `{result.name}`", result.span)
    body.evaluator.values[result.name] = value
    name = body.scope.tensor(result.name)
    if name is not None:
        body.builder.remember(name, value)


def _assign_list(body: Body, results: s.ResultList, value: Value) -> None:
    """`[a, b..(k)] = pack`: at most one packed result may leave its length open."""
    items = value if isinstance(value, tuple) else ()
    counts = [
        1
        if isinstance(r, s.Omitted) or (r.pack is None and (r.type is None or r.type.pack is None))
        else _length(body, r)
        for r in results.items
    ]
    rest = len(items) - sum(c for c in counts if c is not None)
    if value is None or rest < 0 or counts.count(None) > 1 or (rest > 0 and None not in counts):
        raise fail(
            "E0413",
            f"a pack of {len(items)} tensors does not fit these results",
            results.span,
        )
    start = 0
    for result, known in zip(results.items, counts, strict=True):
        stop = start + (rest if known is None else known)
        if isinstance(result, s.Result):
            packed = result.pack is not None or (
                result.type is not None and result.type.pack is not None
            )
            _assign(body, result, items[start:stop] if packed else items[start])
        start = stop


# ---------------------------------------------------------------------- checks


def check_output(body: Body, parameter: s.Parameter) -> Value:
    """The tensors composed for an output, compared with what is declared.

    Raises E0603 where there are none, E0401 and E0411 where the shape differs.
    """
    value = body.evaluator.values.get(parameter.name)
    if value is None:
        raise fail("E0603", f"output `{parameter.name}` gets no value", parameter.span)
    what = f"output `{parameter.name}`"
    check_declared(body, parameter.type, value, what, parameter.span)
    return value


def check_declared(body: Body, type: s.Type, value: Value, what: str, span: Span) -> None:
    """Compare tensors with a declared type and shape; `~` and no shape fit everything."""
    tensors = tensors_of(value)
    if not tensors:
        return
    dtype = body.evaluator.dtype(type.name, type.span)
    if type.pack is not None and type.pack.length is not None:
        length = body.evaluator.evaluate(type.pack.length)
        if isinstance(length, int) and length != len(tensors):
            raise fail("E0413", f"{what} has {len(tensors)} tensors, not {length}", span)
    for k, tensor in enumerate(tensors):
        if tensor.dtype is not dtype:
            raise fail("E0401", f"{what} has type `{tensor.dtype}`, declared is `{dtype}`", span)
        if type.shape is not None:
            _check_shape(body, type.shape, tensor, k, what)


def _check_shape(
    body: Body, shape: tuple[s.Extent, ...], tensor: nodes.Tensor, item: int, what: str
) -> None:
    axis = 0
    for extent in shape:
        if isinstance(extent.size, s.Omitted):
            count = 1
            if extent.pack is not None:
                if extent.pack.length is None:
                    return
                length = body.evaluator.evaluate(extent.pack.length)
                count = require_int(length, extent.pack.length.span, "a number of dimensions")
            axis += count
            continue
        if _binds_symbol(body, extent, tensor, axis):
            axis += 1
            continue
        for size in evaluate_extent(body.evaluator, extent, item):
            if axis < tensor.rank:
                _check_axis(body, extent, tensor, axis, size, what)
            axis += 1
    if axis != tensor.rank:
        span = shape[0].span.to(shape[-1].span) if shape else tensor.span
        raise fail("E0411", f"{what} has {tensor.rank} dimensions, declared are {axis}", span)


def _binds_symbol(body: Body, extent: s.Extent, tensor: nodes.Tensor, axis: int) -> bool:
    """`s|k` with a new symbol stands for the extent that was composed."""
    size = extent.size
    if extent.bound is None or not isinstance(size, s.Name) or axis >= tensor.rank:
        return False
    if size.name in body.evaluator.values:
        return False
    body.evaluator.values[size.name] = from_expr(tensor.shape[axis])
    return True


def _check_axis(
    body: Body, extent: s.Extent, tensor: nodes.Tensor, axis: int, size: Item, what: str
) -> None:
    actual = tensor.shape[axis]
    if not (is_expr(size) or type(size) is int):
        raise fail("E0416", "an extent must be an integer", extent.span, show(size))
    if not body.builder.agree(actual, to_expr(size), f"dimension {axis} of {what}", extent.span):
        raise fail(
            "E0401",
            f"dimension {axis} of {what} is {show(from_expr(actual))}, not {show(size)}",
            extent.span,
            f"{show(size)} is declared",
            labels=(Label(tensor.span, "computed here"),) if tensor.span is not extent.span else (),
        )


# --------------------------------------------------------------------- updates


def compose_updates(body: Body) -> Task:
    """`@update`: intermediates, and new values of variables."""
    declared = {p.name: body.evaluator.values[p.name] for p in body.operator.variables}
    for component in body.operator.update:
        wanted = tuple(None for _ in component.results)
        label = automatic_label(component)
        values = yield from compose_action(body, component.action, label, wanted)
        for result, value in zip(component.results, values, strict=False):
            if isinstance(result, s.Result) and result.name in declared:
                _update(body, result, declared[result.name], value)
            elif isinstance(result, s.Result):
                _assign(body, result, value)
            elif isinstance(result, s.ResultList):
                _assign_list(body, result, value)
    return ()


def _update(body: Body, result: s.Result, variable: Value, value: Value) -> None:
    old, new = tensors_of(variable), tensors_of(value)
    if len(old) != len(new) or isinstance(variable, tuple) != isinstance(value, tuple):
        raise fail("E0413", f"variable `{result.name}` cannot take this value", result.span)
    for a, b in zip(old, new, strict=True):
        fits = a.dtype is b.dtype and a.rank == b.rank
        what = f"variable `{result.name}`"
        pairs = zip(a.shape, b.shape, strict=False)
        if not fits or not all(body.builder.agree(x, y, what, result.span) for x, y in pairs):
            raise fail(
                "E0401",
                f"the new value of {what} has another type or shape",
                result.span,
                f"{show(b)} for {show(a)}",
            )
        body.builder.updates.append((a, b))
