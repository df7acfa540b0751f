"""Comparing composed tensors with what is declared: type, shape, upper bounds (2.6, 3.1)."""

from __future__ import annotations

from ...diagnostics import Label
from ...ir import nodes, shapes
from ...source import Span
from . import syntax as s
from .compose_body import Body, tensors_of
from .evaluate_dynamic import items_of, length_of
from .evaluate_packs import require_int
from .evaluate_shapes import bounds_of, evaluate_extent
from .values import AnyValue, DynamicPack, Item, fail, from_expr, is_expr, show, to_expr


def check_output(body: Body, parameter: s.Parameter) -> AnyValue:
    """The tensors composed for an output, compared with what is declared.

    Raises E0603 where there are none, E0401, E0411 and E0417 where the shape differs.
    """
    value = body.evaluator.values.get(parameter.name)
    if value is None:
        raise fail("E0603", f"output `{parameter.name}` gets no value", parameter.span)
    what = f"output `{parameter.name}`"
    value = check_length(body, parameter.type.pack, value, what, parameter.span)
    check_declared(body, parameter.type, value, what, parameter.span)
    return value


def check_length(
    body: Body, pack: s.Pack | None, value: AnyValue, what: str, span: Span
) -> AnyValue:
    """Compare the length of a pack with the declared one, which it has from then on.

    Raises E0413 for another length; that of a pack of dynamic length is checked at run time.
    """
    if pack is None or value is None:
        return value
    if not isinstance(value, tuple | DynamicPack):
        raise fail("E0413", f"{what} is declared as a pack, but is a single tensor", span)
    actual = length_of(value)
    if pack.bound is not None:
        bound = body.evaluator.evaluate(pack.bound)
        if bound is not None and not isinstance(bound, tuple):
            body.builder.keep_bound(from_expr(actual), bound, f"the length of {what}", span)
    declared = _declared_length(body, pack, actual)
    if declared is None:
        return value
    if not body.builder.agree(actual, declared, f"the length of {what}", span):
        shown = show(from_expr(declared))
        raise fail(
            "E0413",
            f"{what} is declared as a pack of {shown} tensors, but is one of "
            f"{show(from_expr(actual))}",
            span,
        )
    known = shapes.as_int(declared)
    return value if known is None else items_of(value)[:known]


def _declared_length(body: Body, pack: s.Pack, actual: nodes.Expr) -> nodes.Expr | None:
    """The length that is declared; `n|10` with a new `n` stands for what there is."""
    length = pack.length
    if length is None or isinstance(length, s.Omitted):
        return None
    values = body.evaluator.values
    if pack.bound is not None and isinstance(length, s.Name) and length.name not in values:
        values[length.name] = from_expr(actual)
        return None
    value = body.evaluator.evaluate(length)
    if is_expr(value):
        return value
    return nodes.integer(require_int(value, length.span, "the length of a pack"))


def check_declared(body: Body, type: s.Type, value: AnyValue, what: str, span: Span) -> None:
    """Compare tensors with a declared type and shape; `~` and no shape fit everything."""
    dtype = body.evaluator.dtype(type.name, type.span)
    for k, tensor in enumerate(tensors_of(value)):
        if tensor.dtype is not dtype:
            raise fail("E0401", f"{what} has type `{tensor.dtype}`, declared is `{dtype}`", span)
        if type.shape is not None:
            _check_shape(body, type.shape, tensor, k, what, _is_absent(value, k))


def _is_absent(value: AnyValue, position: int) -> nodes.Expr:
    """The condition that a pack has no such item."""
    if not isinstance(value, DynamicPack):
        return nodes.FALSE
    return shapes.compare("le", value.length, nodes.integer(position))


def _check_shape(
    body: Body,
    shape: tuple[s.Extent, ...],
    tensor: nodes.Tensor,
    item: int,
    what: str,
    absent: nodes.Expr,
) -> None:
    axis = 0
    for extent in shape:
        count = _check_extent(body, extent, tensor, axis, item, what, absent)
        if count is None:
            return
        if extent.bound is not None:
            _check_bounds(body, extent, tensor.shape[axis : axis + count], axis, what)
        axis += count
    if axis != tensor.rank:
        span = shape[0].span.to(shape[-1].span) if shape else tensor.span
        raise fail("E0411", f"{what} has {tensor.rank} dimensions, declared are {axis}", span)


def _check_extent(
    body: Body,
    extent: s.Extent,
    tensor: nodes.Tensor,
    axis: int,
    item: int,
    what: str,
    absent: nodes.Expr,
) -> int | None:
    """Compare the dimensions of an extent; how many there are, or `None` for all that are left."""
    if isinstance(extent.size, s.Omitted):
        if extent.pack is None:
            return 1
        if extent.pack.length is None:
            return None
        length = body.evaluator.evaluate(extent.pack.length)
        return require_int(length, extent.pack.length.span, "a number of dimensions")
    if _binds_symbol(body, extent, tensor, axis):
        return 1
    sizes = evaluate_extent(body.evaluator, extent, item)
    for k, size in enumerate(sizes):
        if axis + k < tensor.rank:
            _check_axis(body, extent, tensor, axis + k, size, what, absent)
    return len(sizes)


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
    body: Body,
    extent: s.Extent,
    tensor: nodes.Tensor,
    axis: int,
    size: Item,
    what: str,
    absent: nodes.Expr,
) -> None:
    actual = tensor.shape[axis]
    if not (is_expr(size) or type(size) is int):
        raise fail("E0416", "an extent must be an integer", extent.span, show(size))
    shown = f"dimension {axis} of {what}"
    if not body.builder.agree(actual, to_expr(size), shown, extent.span, absent):
        raise fail(
            "E0401",
            f"dimension {axis} of {what} is {show(from_expr(actual))}, not {show(size)}",
            extent.span,
            f"{show(size)} is declared",
            labels=(Label(tensor.span, "computed here"),) if tensor.span is not extent.span else (),
            notes=bounds_of(actual, to_expr(size)),
        )


def _check_bounds(
    body: Body, extent: s.Extent, sizes: tuple[nodes.Expr, ...], axis: int, what: str
) -> None:
    """Extents keep the upper bound that is written with them."""
    assert extent.bound is not None
    value = body.evaluator.evaluate(extent.bound)
    bounds = value if isinstance(value, tuple) else (value,) * len(sizes)
    for k, (size, bound) in enumerate(zip(sizes, bounds, strict=False)):
        if bound is not None:
            shown = f"dimension {axis + k} of {what}"
            body.builder.keep_bound(from_expr(size), bound, shown, extent.bound.span)
