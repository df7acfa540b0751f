"""Helpers of @using: their values, and lists that take packs apart (2.9)."""

from __future__ import annotations

from ...diagnostics import Label
from ...records import replace
from ...source import Span
from . import syntax as s
from .scope import Symbol
from .types import Length, Type, clash, length_of, total
from .typing_context import Context


def using_names(using: s.Using) -> list[tuple[str, Span]]:
    found: list[tuple[str, Span]] = []
    for item in using.items:
        if isinstance(item, s.UsingName):
            span = item.span
            end = min(span.end, span.start + len(item.name))
            found.append((item.name, Span(span.source, span.start, end)))
        else:
            found += [(name, item.span) for name in item.names]
    return found


def check_using(ctx: Context, using: s.Using) -> None:
    value = ctx.type_of(using.value)
    types = _take_apart(ctx, using, value) if using.listed else _single(ctx, using, value)
    for (name, type), (_, span) in zip(types, using_names(using), strict=True):
        ctx.scope.declare(Symbol(name, "helper", type, span))
    for item in using.items:
        pack = item.pack if isinstance(item, s.UsingName) else None
        if pack is not None and pack.length is not None:
            ctx.expect_int(pack.length, "the length of a pack")


def _single(ctx: Context, using: s.Using, value: Type) -> list[tuple[str, Type]]:
    (item,) = using.items
    assert isinstance(item, s.UsingName)
    hint = item.pack.length if item.pack is not None else None
    if item.pack is not None and not value.packed and not value.unknown:
        ctx.report.error(
            "E0302",
            f"helper `{item.name}` is declared as a pack, but its value is not one",
            using.value.span,
            str(value),
        )
    elif hint is not None:
        hinted = length_of(hint)
        if clash(hinted, value.length):
            _report_hint(ctx, using.value, hinted, value)
        value = replace(value, length=hinted if value.length is None else value.length)
    return [(item.name, value)]


def _report_hint(ctx: Context, value: s.Expr, hinted: Length | None, type: Type) -> None:
    ctx.report.error(
        "E0506",
        f"the pack has length {type.length}, not {hinted} as declared",
        value.span,
        str(type),
    )


def _take_apart(ctx: Context, using: s.Using, value: Type) -> list[tuple[str, Type]]:
    """The types of the names in `[a, b.., (c, d)..] = value`."""
    if not value.packed and not value.unknown:
        ctx.report.error(
            "E0302", "only a pack can be taken apart into a list", using.value.span, str(value)
        )
    open_items = [i for i in using.items if _is_open(i)]
    if len(open_items) > 1:
        ctx.report.error(
            "E0302",
            "only one item of a list may be open",
            open_items[1].span,
            "second open item",
            labels=[Label(open_items[0].span, "first open item")],
            help="give the length of the others, as in `a..(n)`",
        )
    parts = [_part_length(i) for i in using.items]
    if not open_items and clash(total(parts), value.length):
        _report_hint(ctx, using.value, total(parts), value)
    rest = _rest_length(using, parts, value.length) if len(open_items) == 1 else None
    types: list[tuple[str, Type]] = []
    for item in using.items:
        types += _part_types(item, value, rest)
    return types


def _is_open(item: s.UsingName | s.UsingZip) -> bool:
    if isinstance(item, s.UsingZip):
        return True
    return item.pack is not None and item.pack.length is None


def _part_length(item: s.UsingName | s.UsingZip) -> Length | None:
    if isinstance(item, s.UsingZip) or (item.pack is not None and item.pack.length is None):
        return Length((), 0)
    if item.pack is None:
        return Length((), 1)
    assert item.pack.length is not None
    return length_of(item.pack.length)


def _rest_length(using: s.Using, parts: list[Length | None], whole: Length | None) -> Length | None:
    taken = total(parts)
    if taken is None or whole is None:
        return None
    rest = whole + taken.times(-1)
    share = next((len(i.names) for i in using.items if isinstance(i, s.UsingZip)), 1)
    if any(f % share for _, f in rest.factors) or rest.constant % share:
        return None
    return Length(tuple((n, f // share) for n, f in rest.factors), rest.constant // share)


def _part_types(
    item: s.UsingName | s.UsingZip, value: Type, rest: Length | None
) -> list[tuple[str, Type]]:
    if isinstance(item, s.UsingZip):
        return [(name, value.packed_as(rest)) for name in item.names]
    if item.pack is None:
        return [(item.name, value.item)]
    known = length_of(item.pack.length) if item.pack.length is not None else rest
    return [(item.name, value.packed_as(known))]
