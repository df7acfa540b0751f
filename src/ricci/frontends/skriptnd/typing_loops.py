"""Loops of @compose, and the conditions of loops and branches (2.10.1)."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Label
from ...records import replace
from ...source import Span
from . import syntax as s
from . import typing_shapes as shapes
from .scope import Symbol, report_twice
from .types import INT, Type, clash, length_of
from .typing_body import Body, leading
from .typing_context import Context, promotion_help
from .typing_generics import count


def check_condition(body: Body, condition: s.Callable, what: str) -> None:
    """A condition is one single truth value."""
    types = _condition_types(body, condition)
    if types is None:
        return
    if len(types) != 1:
        body.report.error("E0412", f"{what} has {count(len(types), 'result')}", condition.span)
        return
    (type,) = types
    if not type.is_any("bool"):
        body.ctx.mismatch(condition.span, f"{what} must be a `bool`", type)
    elif type.packed:
        body.report.error("E0302", f"{what} must be a single value", condition.span, str(type))
    elif type.optional:
        body.report.error(
            "E0304",
            f"{what} must not be null",
            condition.span,
            str(type),
            help=f"write `{condition.span.text} ?? false`",
        )


def _condition_types(body: Body, condition: s.Callable) -> list[Type] | None:
    """The types of the results of a condition.

    Spec: `?x` in a conjunction makes `x` non-optional where it holds. Ricci: also in the other
    terms, as a condition that is null does not hold.
    """
    terms = list(_terms(condition)) if isinstance(condition, s.Binary) else []
    names = [t.name for t in terms if isinstance(t, s.NullTest)]
    if not names:
        return body.act(body, condition)
    inner = body.ctx.within(body.ctx.scope.narrow(names))
    types = [
        (body.ctx if isinstance(t, s.NullTest) else inner).expect_bool(t, "an operand of `&&`")
        for t in terms
    ]
    return [next((t for t in types if t.optional), types[0])]


def _terms(condition: s.Expr) -> Iterator[s.Expr]:
    """The terms of a conjunction."""
    if isinstance(condition, s.Binary) and condition.op == "&&":
        yield from _terms(condition.lhs)
        yield from _terms(condition.rhs)
    else:
        yield condition


def loop_types(body: Body, loop: s.Loop) -> list[Type] | None:
    ctx = body.ctx.within(body.ctx.scope.inner())
    carried = [_declare_carried(body, ctx, c) for c in loop.carried]
    _declare_scans(body, ctx, loop)
    _check_count(body, ctx, loop)
    inner = body.part(ctx)
    if loop.condition is not None:
        check_condition(inner, loop.condition, "the condition of `while`")
    types = body.act(inner, loop.body)
    _check_ends(body, loop, types, len(carried))
    if types is None:
        return None
    if len(types) < len(carried):
        body.report.error(
            "E0412",
            f"the loop carries {count(len(carried), 'variable')}, but its body has "
            f"{count(len(types), 'result')}",
            loop.body.span,
            labels=[Label(c.span, "carried") for c in loop.carried[len(types) :]],
        )
        return None
    if not _check_carried(body, loop, carried, types):
        return None
    return [*carried, *(t.packed_as(None) for t in types[len(carried) :])]


def _declare_carried(body: Body, ctx: Context, carried: s.Carried) -> Type:
    type = body.ctx.type_of(carried.value)
    if carried.type is not None:
        wanted = shapes.element_type(body.ctx, carried.type)
        for extent in carried.type.shape or ():
            if not isinstance(extent.size, s.Omitted):
                body.ctx.compile_time().expect_int(extent.size, "an extent", packed=True)
        if not wanted.same(type):
            both = ((carried.value, type), (carried.value, wanted))
            help = promotion_help(*both) if type.is_any("int") else ""
            body.report.error(
                "E0301",
                f"loop variable `{carried.name}` is declared as `{wanted.name}`",
                carried.value.span,
                str(type),
                help=help,
            )
        _check_declared_length(body, carried.type.pack)
        open_length = carried.type.pack is not None and carried.type.pack.bound is not None
        type = replace(wanted, packed=type.packed, length=None if open_length else type.length)
    if type.optional:
        body.report.error(
            "E0304", "a loop variable must not be null", carried.value.span, str(type)
        )
    type = replace(type, tensor=True, rank=None, optional=False)
    _put_local(ctx, carried.name, carried.span, type)
    return type


def _check_declared_length(body: Body, pack: s.Pack | None) -> None:
    """The length and bound of a loop variable that is a pack are integers."""
    for expr in () if pack is None else (pack.length, pack.bound):
        if expr is not None and not isinstance(expr, s.Omitted):
            body.ctx.expect_int(expr, "the length of a pack")


def _put_local(ctx: Context, name: str, span: Span, type: Type) -> None:
    symbol = Symbol(name, "loop variable", type, leading(span, name))
    known = ctx.scope.symbols.get(name)
    if known is not None:
        report_twice(ctx.report, symbol, known)
    ctx.scope.put(symbol)


def _declare_scans(body: Body, ctx: Context, loop: s.Loop) -> None:
    parts = [(scan.pack, body.ctx.type_of(scan.pack)) for scan in loop.scans]
    for scan, (_, type) in zip(loop.scans, parts, strict=True):
        if not type.packed and not type.unknown:
            body.report.error(
                "E0302",
                "a `for` loop goes through a pack",
                scan.pack.span,
                str(type),
                help="take a tensor apart with `layout.unstack`" if type.tensor else "",
            )
        tensor = type.tensor or not loop.unroll
        _put_local(ctx, scan.name, scan.span, replace(type.item, tensor=tensor))
    body.ctx.expect_lengths(parts, "a `for` loop")


def _check_count(body: Body, ctx: Context, loop: s.Loop) -> None:
    if loop.count is None:
        return
    if loop.count.count is not None:
        type = body.ctx.expect_int(loop.count.count, "the count of a loop")
        if loop.unroll and type.tensor:
            body.report.error(
                "E0608",
                "the count of an unrolled loop must be known at compile time",
                loop.count.count.span,
                str(type),
                help="write `do` instead of `unroll`",
            )
        elif loop.scans and len(loop.scans) == 1 and not type.tensor:
            _compare_count(body, loop, loop.count.count)
    if loop.count.index is not None:
        _put_local(ctx, loop.count.index, loop.count.span, replace(INT, tensor=not loop.unroll))


def _compare_count(body: Body, loop: s.Loop, expr: s.Expr) -> None:
    scan = loop.scans[0].pack
    length = body.ctx.type_of(scan).length
    if clash(length_of(expr), length):
        body.report.error(
            "E0506",
            f"the count of the loop is not the length of the pack, {length}",
            expr.span,
            labels=[Label(scan.span, f"length {length}")],
        )


def _check_ends(body: Body, loop: s.Loop, types: list[Type] | None, carried: int) -> None:
    counted = loop.count is not None and loop.count.count is not None
    if not (loop.scans or counted or loop.condition is not None):
        body.report.error(
            "E0608",
            "nothing ends this loop",
            loop.span,
            help="add `for x : xs`, a count `do..(n)`, or `while`",
        )
    elif loop.unroll and loop.condition is not None:
        body.report.error(
            "E0608",
            "a loop with a condition cannot be unrolled",
            loop.condition.span,
            help="write `do` instead of `unroll`",
        )
    elif not (loop.scans or counted) and types is not None and len(types) > carried:
        body.report.error(
            "E0608",
            "a loop without `for` and without a count cannot collect results",
            loop.body.span,
            f"{count(len(types), 'result')} for {count(carried, 'loop variable')}",
            help="add a count, which bounds the number of steps",
        )


def _check_carried(body: Body, loop: s.Loop, carried: list[Type], types: list[Type]) -> bool:
    """Whether the first results of the body suit the loop variables."""
    good = True
    for variable, start, type in zip(loop.carried, carried, types, strict=False):
        packed = start.packed != type.packed and not (start.unknown or type.unknown)
        if not start.same(type) or packed:
            good = False
            body.report.error(
                "E0301",
                f"the new value of loop variable `{variable.name}` has another type",
                loop.body.span,
                str(type),
                labels=[Label(variable.span, str(start))],
            )
    return good
