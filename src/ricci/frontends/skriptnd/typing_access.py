"""The types of accesses to elements of tensors, and whole tensors out of place (2.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ...diagnostics import Label
from ...records import replace
from . import syntax as s
from .scope import Symbol, article
from .types import INT, ONE, UNKNOWN, Length, Type, clash, length_of, literal, total
from .typing_context import Context, Rule


def check_literal_index(ctx: Context, index: s.Expr, length: Length | None) -> None:
    position = length_of(index)
    if position is None or position.factors or length is None or length.factors:
        return
    if not -length.constant <= position.constant < length.constant:
        ctx.report.error(
            "E0505",
            f"index {position.constant} is out of range for a pack of {length.constant} items",
            index.span,
        )


def report_whole_tensor(ctx: Context, expr: s.Expr, found: Symbol) -> None:
    """Report a tensor where a number is needed."""
    if ctx.accesses:
        help = f"write {_access_text(found)}"
    elif found.kind == "output":
        help = ""
    else:
        help = "only its shape is known at compile time: `.shape`, `.rank`, or its extents"
    ctx.report.error(
        "E0305",
        f"{found.kind} `{found.name}` is a tensor, which is not a value here",
        expr.span,
        str(found.type),
        labels=[Label(found.span, "declared here")],
        help=help,
    )


def _access_text(found: Symbol) -> str:
    rank = found.type.rank
    if rank == literal(0):
        return f"`{found.name}[]` for the value of a tensor without dimensions"
    if rank == ONE:
        return f"`{found.name}[i,]` for an element of it (with the comma)"
    return f"an element of it, as in `{found.name}[i,j]` or `{found.name}[i..]`"


def report_whole_operand(ctx: Context, expr: s.Expr, op: str, type: Type) -> bool:
    """Report an operator of numbers that is applied to a whole tensor."""
    if type.tensor:
        ctx.report.error(
            "E0305",
            f"operator `{op}` works on numbers, not on whole tensors",
            expr.span,
            str(type),
            help="invoke an operator such as `math.add`, or write a formula in @lower",
        )
    return type.tensor


def report_missing_comma(ctx: Context, node: s.Subscript, found: Symbol) -> None:
    """Report `x[i]` where `x` is a tensor: without a comma it indexes a pack."""
    text = node.index.span.text
    if not ctx.accesses:
        report_not_accessible(ctx, node, found)
        return
    ctx.report.error(
        "E0305",
        f"`{found.name}` is a tensor, and `{node.span.text}` takes an item of a pack",
        node.span,
        labels=[Label(found.span, f"{found.kind} `{found.name}`: {found.type}")],
        help=f"write `{found.name}[{text},]`, with a comma, to access a tensor with one "
        f"dimension, or `{found.name}[{text}..]` for a pack of indices",
    )


def report_not_accessible(ctx: Context, node: s.Expr, found: Symbol) -> None:
    ctx.report.error(
        "E0305",
        f"elements of {article(found.kind)} can be read in formulas only",
        node.span,
        labels=[Label(found.span, "declared here")],
        help="write the formula in a @lower block",
    )


def _access(ctx: Context, expr: s.Expr) -> Type:
    """An element, or a pack of them: of the items of a pack, along a slice, or at several
    positions of one dimension, as in `indices[i,[0:d]]`."""
    node = cast(s.Access, expr)
    type = _accessed(ctx, node)
    inner = replace(ctx, tensors=False)
    indices = [_access_index(inner, index) for index in node.indices]
    if type is None:
        return UNKNOWN
    _check_rank(ctx, node, indices, type)
    spread = [t for i, t in zip(node.indices, indices, strict=True) if _spreads(i, t)]
    result = replace(type, tensor=False, rank=None)
    if spread and not result.packed:
        result = result.packed_as(spread[0].length)
    return result.with_optional(type.optional or any(t.optional for t in indices))


def _spreads(index: s.Expr, type: Type) -> bool:
    """Whether one subscript stands for several positions of one dimension."""
    return type.packed and not isinstance(index, s.Expand)


def _check_rank(ctx: Context, node: s.Access, indices: list[Type], type: Type) -> None:
    """The subscripts must be as many as the dimensions, where both are known."""
    dimensions: list[Length | None] = []
    for index, found in zip(node.indices, indices, strict=True):
        expanded = found.packed and not _spreads(index, found)
        dimensions.append(found.length if expanded else ONE)
    count = total(dimensions)
    if clash(count, type.rank) and not any(t.optional for t in indices):
        _report_rank(ctx, node, count, type)


def _accessed(ctx: Context, node: s.Access) -> Type | None:
    """The type of the tensor that is accessed, or of the pack of tensors."""
    name = node.tensor.pack if isinstance(node.tensor, s.Subscript) else node.tensor
    if not isinstance(name, s.Name):
        ctx.report.error("E0305", "only named tensors can be accessed", node.tensor.span)
        return None
    found = ctx.scope.lookup(name.name, name.span)
    if found is None or found.type.unknown:
        return None
    if not found.is_tensor:
        _report_not_tensor(ctx, node, found)
        return None
    if not ctx.accesses:
        report_not_accessible(ctx, node, found)
        return None
    if not found.assigned:
        ctx.allow_tensors().type_of(name)
    if isinstance(node.tensor, s.Subscript):
        return _accessed_item(ctx, node.tensor, found)
    return found.type


def _accessed_item(ctx: Context, item: s.Subscript, found: Symbol) -> Type | None:
    if not found.type.packed:
        ctx.report.error(
            "E0302",
            f"`{found.name}` is a single tensor, not a pack of them",
            item.span,
            labels=[Label(found.span, str(found.type))],
            help="write all subscripts in one pair of brackets: `x[i,j]`",
        )
        return None
    index = replace(ctx, tensors=False).expect_int(item.index, "the index of a pack", packed=True)
    check_literal_index(ctx, item.index, found.type.length)
    if index.packed:
        return found.type.packed_as(index.length)
    return found.type.item.with_optional(found.type.optional or index.optional)


def _report_not_tensor(ctx: Context, node: s.Access, found: Symbol) -> None:
    help = ""
    if found.type.packed and len(node.indices) == 1:
        help = f"write `{found.name}[{node.indices[0].span.text}]`, without a comma"
    ctx.report.error(
        "E0305",
        f"{found.kind} `{found.name}` is not a tensor",
        node.tensor.span,
        str(found.type),
        labels=[Label(found.span, "declared here")],
        help=help,
    )


def _report_rank(ctx: Context, node: s.Access, count: Length | None, type: Type) -> None:
    name = node.tensor.pack if isinstance(node.tensor, s.Subscript) else node.tensor
    found = ctx.scope.find(name.name) if isinstance(name, s.Name) else None
    ctx.report.error(
        "E0602",
        f"`{node.tensor.span.text}` has rank {type.rank}, but is accessed with "
        f"{count} {'subscript' if str(count) == '1' else 'subscripts'}",
        node.span,
        labels=[] if found is None else [Label(found.span, "declared here")],
    )


def _access_index(ctx: Context, index: s.Expr) -> Type:
    """The type of one subscript of an access."""
    type = ctx.type_of(index)
    if isinstance(index, s.Range) or type.is_any("int"):
        return type
    ctx.mismatch(index.span, "a subscript must be an `int`", type)
    return replace(INT, packed=type.packed, length=type.length)


def _bounded(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Bounded, expr)
    if not ctx.accesses:
        message = "a guarded index `|i|` has a meaning in formulas only"
        ctx.report.error("E0305", message, expr.span)
    parts = [e for e in (node.index, node.below, node.above) if e is not None]
    pairs = [(e, ctx.expect_int(e, "a guarded index", packed=True)) for e in parts]
    length = ctx.expect_lengths(pairs, "a guarded index")
    optional = any(t.optional for _, t in pairs)
    packed = any(t.packed for _, t in pairs)
    return replace(INT, packed=packed, length=length, optional=optional)


RULES: Mapping[type[s.Node], Rule] = {s.Access: _access, s.Bounded: _bounded}
