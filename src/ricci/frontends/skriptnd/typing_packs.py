"""The types of packs and of what takes them apart: lists, subscripts, substitution (2.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ...diagnostics import Label
from ...records import replace
from . import syntax as s
from . import typing_access as access
from .types import EMPTY, INT, ONE, UNKNOWN, Length, Type, join, length_of, literal, total
from .typing_context import Context, Rule

# ------------------------------------------------------------------- lists


def _list(ctx: Context, expr: s.Expr) -> Type:
    items = cast(s.List, expr).items
    if not items:
        return EMPTY
    types = [_list_item(ctx, item) for item in items]
    common = types[0]
    for first, (item, type) in zip(items, list(zip(items, types, strict=True))[1:], strict=False):
        message = "items of a list have different types"
        found = ctx.expect_same((first, common), (item, type), message)
        if found.unknown and not (common.unknown or type.unknown):
            return UNKNOWN
        common = join(common, type)
    length = total([t.length if t.packed else ONE for t in types])
    return Type(
        common.name,
        common.base,
        optional=any(t.optional for t in types),
        packed=True,
        tensor=any(t.tensor for t in types),
        length=length,
        rank=common.rank,
    )


def _list_item(ctx: Context, item: s.Expr) -> Type:
    type = ctx.type_of(item)
    if type.packed and not isinstance(item, s.Expand | s.Range | s.Zip):
        ctx.report.error(
            "E0302",
            "a pack must be expanded in a list",
            item.span,
            str(type),
            help=f"write `{item.span.text}..`",
        )
    return type


def _range(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Range, expr)
    ends = [e for e in (node.begin, node.end, node.stride) if e is not None]
    types = [ctx.expect_int(e, "an end or step of a range") for e in ends]
    if isinstance(node.stride, s.Literal) and node.stride.value == 0:
        ctx.report.error("E0508", "a range cannot have step 0", node.stride.span)
    length = _range_length(node) if node.begin is not None else None
    return replace(INT, packed=True, optional=any(t.optional for t in types), length=length)


def _range_length(node: s.Range) -> Length | None:
    """`end - begin` of a range in single steps, if it is known not to run the wrong way."""
    if node.stride is not None or node.begin is None or node.end is None:
        return None
    begin, end = length_of(node.begin), length_of(node.end)
    if begin is None or end is None:
        return None
    length = end + begin.times(-1)
    if not length.factors:
        return literal(max(0, length.constant))
    return length if length.constant >= 0 and all(f > 0 for _, f in length.factors) else None


def _expand(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Expand, expr)
    type = ctx.type_of(node.item)
    if node.count is None:
        if not type.packed and not type.unknown:
            ctx.report.error(
                "E0302",
                "`..` after a single value needs a count",
                expr.span,
                str(type),
                help=f"write `{node.item.span.text} ..(n)` to repeat it n times",
            )
        return type.packed_as(type.length)
    count = _count(ctx, node.count)
    if type.packed:
        ctx.report.error(
            "E0302",
            "a pack is expanded without a count",
            node.count.span,
            labels=[Label(node.item.span, str(type))],
            help=f"write `{node.item.span.text}..`",
        )
        return type
    length = length_of(node.count) if count.name == "int" else None
    return replace(type, packed=True, length=length, optional=type.optional or count.optional)


def _count(ctx: Context, count: s.Expr) -> Type:
    """The type of a repeat count: an integer, or a bool that includes the item or not."""
    type = ctx.compile_time().type_of(count)
    if not type.is_any("int", "bool"):
        ctx.mismatch(count.span, "a repeat count must be an `int` or a `bool`", type)
    else:
        ctx.expect_item(count, type, "a repeat count")
    if isinstance(count, s.Unary) and count.op == "-" and isinstance(count.operand, s.Literal):
        ctx.report.error("E0301", "a repeat count must not be negative", count.span)
    return type


def _zip(ctx: Context, expr: s.Expr) -> Type:
    items = cast(s.Zip, expr).items
    parts = [(item, ctx.type_of(item)) for item in items]
    single = next(((i, t) for i, t in parts if not t.packed and not t.unknown), None)
    if single is not None:
        ctx.report.error("E0302", "a zip takes packs only", single[0].span, str(single[1]))
    common = parts[0][1]
    for part in parts[1:]:
        common = ctx.expect_same(parts[0], part, "items of a zip have different types")
    length = ctx.expect_lengths(parts, "a zip")
    return replace(
        common,
        optional=any(t.optional for _, t in parts),
        packed=True,
        length=None if length is None else length.times(len(items)),
    )


# -------------------------------------------------------------- subscripts


def _subscript(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Subscript, expr)
    pack = _subscripted(ctx, node)
    index = _index(ctx, node.index)
    if pack.unknown:
        return UNKNOWN
    if index.is_any("bool") and not index.unknown:
        return _masked(ctx, node, pack, index)
    if not index.is_any("int"):
        ctx.mismatch(node.index.span, "an index must be an `int` or a pack of `bool`", index)
    optional = pack.optional or index.optional
    if pack.name == "str" and not pack.packed:
        return pack.with_optional(optional)
    if index.packed:
        return replace(pack, optional=optional, packed=True, length=_taken(node, pack, index))
    access.check_literal_index(ctx, node.index, pack.length)
    return pack.item.with_optional(optional)


def _subscripted(ctx: Context, node: s.Subscript) -> Type:
    """The type of what is subscripted: a pack, or a string."""
    if isinstance(node.pack, s.Name):
        found = ctx.scope.find(node.pack.name)
        if found is not None and found.is_tensor and not found.type.packed:
            access.report_missing_comma(ctx, node, found)
            return UNKNOWN
    pack = ctx.type_of(node.pack)
    if not (pack.packed or pack.unknown or pack.name == "str"):
        ctx.report.error(
            "E0302", "only packs, strings and tensors have subscripts", node.pack.span, str(pack)
        )
        return UNKNOWN
    return pack


def _index(ctx: Context, index: s.Expr) -> Type:
    if isinstance(index, s.Bounded):
        ctx.report.error(
            "E0305",
            "a guarded index `|i|` belongs into an access of a tensor",
            index.span,
            help=f"write `[{index.span.text},]`, with a comma, for a tensor with one dimension",
        )
        return UNKNOWN
    return ctx.type_of(index)


def _masked(ctx: Context, node: s.Subscript, pack: Type, mask: Type) -> Type:
    if not mask.packed:
        ctx.mismatch(node.index.span, "an index must be an `int` or a pack of `bool`", mask)
    elif pack.packed:
        ctx.expect_lengths(((node.pack, pack), (node.index, mask)), "a mask")
    return replace(pack, optional=pack.optional or mask.optional, length=None)


def _taken(node: s.Subscript, pack: Type, index: Type) -> Length | None:
    """How many items a pack of indices takes."""
    if not isinstance(node.index, s.Range):
        return index.length
    ends = node.index
    whole = ends.begin is None and ends.end is None
    step = ends.stride
    if whole and (step is None or _is_minus_one(step)):
        return pack.length
    if step is not None or pack.length is None:
        return None
    begin = literal(0) if ends.begin is None else _natural(ends.begin)
    end = pack.length if ends.end is None else _natural(ends.end)
    if begin is None or end is None:
        return None
    return end + begin.times(-1)


def _is_minus_one(expr: s.Expr) -> bool:
    return isinstance(expr, s.Unary) and expr.op == "-" and getattr(expr.operand, "value", 0) == 1


def _natural(expr: s.Expr) -> Length | None:
    """A literal position counted from the front; others may count from the back."""
    return length_of(expr) if isinstance(expr, s.Literal) else None


def _substitute(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Substitute, expr)
    pack, index = ctx.type_of(node.pack), _index(ctx, node.index)
    value = ctx.type_of(node.value)
    if not pack.packed and not pack.unknown:
        ctx.report.error("E0302", "only items of a pack can be replaced", node.pack.span, str(pack))
    if not index.is_any("int"):
        ctx.mismatch(node.index.span, "the index of `<-` must be an `int`", index)
    ctx.expect_same(
        (node.pack, pack), (node.value, value), "the new items of `<-` have another type"
    )
    if index.packed != value.packed and not (index.unknown or value.unknown):
        ctx.report.error(
            "E0302",
            "`<-` needs one value for one index, or a pack of values for a pack of indices",
            node.value.span,
            str(value),
            labels=[Label(node.index.span, str(index))],
        )
    elif not isinstance(node.index, s.Range):
        ctx.expect_lengths(((node.index, index), (node.value, value)), "`<-`")
    return pack.with_optional(pack.optional or index.optional or value.optional)


def _omitted(ctx: Context, expr: s.Expr) -> Type:
    ctx.report.error("E0305", "`~` is not a value", expr.span)
    return UNKNOWN


RULES: Mapping[type[s.Node], Rule] = {
    s.List: _list,
    s.Range: _range,
    s.Expand: _expand,
    s.Zip: _zip,
    s.Subscript: _subscript,
    s.Substitute: _substitute,
    s.Omitted: _omitted,
    **access.RULES,
}
