"""Constants, variables and outputs, and the values of declarations (2.6, 2.7)."""

from __future__ import annotations

from collections.abc import Sequence

from ...records import replace
from ...source import Span
from . import syntax as s
from . import typing_shapes as shapes
from .scope import Symbol
from .types import INT, ONE, Type, clash, total
from .typing_context import Context, promotion_help


def name_span(parameter: s.Parameter) -> Span:
    """The name alone of a declaration."""
    span = parameter.span
    return Span(span.source, span.start, min(span.end, span.start + len(parameter.name)))


def check_value(
    ctx: Context, what: str, target: Type, value: s.Expr, *, uniform: bool = False
) -> Type:
    """The type of a value, which must suit the declared one; `uniform`: one for a pack."""
    type = ctx.type_of(value)
    if not target.same(type):
        help = promotion_help((value, type), (value, target)) if not type.free else ""
        ctx.report.error(
            "E0301", f"{what} must be of type `{target.name}`", value.span, str(type), help=help
        )
    elif type.packed and not target.packed and not target.unknown:
        ctx.report.error(
            "E0302",
            f"{what} is a single value, not a pack",
            value.span,
            str(type),
            help=f"declare it as a pack: `{target.name}..`",
        )
    elif target.packed and not type.packed and not uniform and not type.unknown:
        ctx.report.error(
            "E0302",
            f"{what} is a pack",
            value.span,
            str(type),
            help=f"write a list: `[{value.span.text}]`",
        )
    elif type.packed and clash(type.length, target.length):
        ctx.report.error(
            "E0506",
            f"{what} must have length {target.length}",
            value.span,
            f"length {type.length}",
        )
    return type


def _declare_tensor(ctx: Context, parameter: s.Parameter, kind: str, op: s.Operator) -> Type:
    shapes.check_pack_length(ctx, parameter)
    shapes.check_shape(ctx, parameter, shapes.Rules(kind, op.graph))
    type = shapes.tensor_type(ctx, parameter)
    symbol = Symbol(parameter.name, kind, type, name_span(parameter), kind != "output")
    ctx.scope.declare(symbol)
    _require_length(ctx, parameter, kind, op)
    return type


def _require_length(ctx: Context, parameter: s.Parameter, kind: str, op: s.Operator) -> None:
    """A pack has a length. Ricci: that of a composed output may be left out where it has an upper
    bound, `..(~|n)`, and in graphs, like an extent."""
    pack = parameter.type.pack
    free = kind == "input" or (
        kind == "output" and not op.lower and (op.graph or (pack and pack.bound))
    )
    if pack is not None and pack.length is None and not free:
        ctx.report.error(
            "E0302",
            f"{kind} `{parameter.name}` is a pack of unknown length",
            parameter.type.span,
            help="write its length, as in `..(n)`",
        )


def declare_variable(ctx: Context, parameter: s.Parameter, op: s.Operator) -> None:
    _declare_tensor(ctx, parameter, "variable", op)
    if parameter.default is not None:
        ctx.report.error(
            "E0214",
            f"variable `{parameter.name}` must not have a value",
            parameter.default.span,
            help="values of variables come from data files; declare it in @constant to fix it",
        )


def declare_output(ctx: Context, parameter: s.Parameter, op: s.Operator) -> None:
    for extent in parameter.type.shape or ():
        size = extent.size
        if extent.bound is None or not isinstance(size, s.Name):
            continue
        if ctx.scope.find(size.name) is None:
            ctx.scope.declare(Symbol(size.name, "extent", INT, size.span))
    pack = parameter.type.pack
    if pack is not None and pack.bound is not None and isinstance(pack.length, s.Name):
        if ctx.scope.find(pack.length.name) is None:
            ctx.scope.declare(Symbol(pack.length.name, "length", INT, pack.length.span))
    _declare_tensor(ctx, parameter, "output", op)
    if parameter.default is not None:
        ctx.report.error(
            "E0214",
            f"output `{parameter.name}` must not have a value",
            parameter.default.span,
            help="compute it in @lower or @compose",
        )


def declare_constant(ctx: Context, parameter: s.Parameter, op: s.Operator) -> None:
    value = parameter.default
    inner = ctx.within(ctx.scope.inner())
    type = _declare_tensor(ctx, parameter, "constant", op)
    declare_bounds(ctx, inner, parameter.bounds)
    if value is None:
        ctx.report.error(
            "E0214",
            f"constant `{parameter.name}` needs a value",
            name_span(parameter),
            help=f"write `{parameter.name}: ... = 0.0;`, or declare it in @variable",
        )
        return
    what = f"the value of constant `{parameter.name}`"
    free = replace(type, tensor=False)
    if type.packed:
        check_value(inner, what, free, value)
    else:
        found = check_value(
            inner, what, replace(free, packed=True, length=None), value, uniform=True
        )
        if found.packed and parameter.bounds:
            inner.expect_item(value, found, f"{what} for one position")
    _check_bound_count(inner, parameter, type)


def _check_bound_count(inner: Context, parameter: s.Parameter, type: Type) -> None:
    """A value by indices has as many of them as its constant has dimensions."""
    found = [inner.scope.find(b.name) for b in parameter.bounds]
    types = [f.type for f in found if f is not None]
    count = total([t.length if t.packed else ONE for t in types])
    if types and not type.packed and clash(count, type.rank):
        inner.report.error(
            "E0602",
            f"constant `{parameter.name}` has rank {type.rank}, but the indices of its value "
            f"cover {count}",
            parameter.bounds[0].span,
        )


def declare_bounds(ctx: Context, inner: Context, bounds: Sequence[s.Bound]) -> None:
    """Declare the indices of `, i < n, j < m`; extents do not see the indices."""
    seen: set[str] = set()
    for bound in bounds:
        type = ctx.compile_time().expect_int(bound.extent, "the bound of an index", packed=True)
        span = bound.span
        name = Span(span.source, span.start, min(span.end, span.start + len(bound.name)))
        index = Symbol(bound.name, "index", type.with_optional(False), name)
        if bound.name in seen:
            ctx.report.error("E0202", f"index `{bound.name}` has two bounds", name)
        else:
            inner.scope.declare(index)
        seen.add(bound.name)
