"""The symbol of an affine extent or length: `2 * n + 1` is 7, so `n` is 3 (specification 2.6)."""

from __future__ import annotations

from ...diagnostics import Label
from ...ir import nodes, shapes
from . import syntax as s
from .compose_graph import Builder
from .evaluate_scalars import binary
from .printer import format_expression
from .values import Item, fail, to_expr


def solve(
    size: int, form: tuple[str, int, int], expr: s.Expr, what: str, labels: tuple[Label, ...] = ()
) -> int:
    """The value of `name` with `factor * name + offset == size`, where `expr` has this `form`.

    Raises E0401 where there is none, E0416 where it is negative, E0504 beyond 64 bits.
    """
    name, factor, offset = form
    rest = binary("-", size, offset, expr.span)
    assert isinstance(rest, int)
    if rest % factor:
        message = f"{what} is {size}{_no_value(name, expr)}"
        raise fail("E0401", message, expr.span, labels=labels)
    result = rest // factor
    if result < 0:
        message = f"{what} is {size}{_negative_value(name, expr)}: {result}"
        raise fail("E0416", message, expr.span, labels=labels)
    return result


def solve_symbolic(
    builder: Builder,
    size: nodes.Expr,
    form: tuple[str, int, int],
    expr: s.Expr,
    what: str,
    unless: nodes.Expr = nodes.FALSE,
) -> Item:
    """The same for a size known only at run time, which is checked there; it does not matter where
    `unless` holds."""
    (name, factor, offset), span = form, expr.span
    rest = binary("-", size, offset, span)
    if abs(factor) != 1 and not shapes.divisible(to_expr(rest), factor):
        even = binary("==", binary("%", rest, factor, span), 0, span)
        even = shapes.logical_or(unless, to_expr(even))
        builder.check(even, (f"{what} is ", size, _no_value(name, expr)), span)
    result = binary("/", rest, factor, span)
    positive = binary(">=", result, 0, span)
    if positive is False and unless == nodes.FALSE:
        raise fail("E0416", f"{what} is too small for `{format_expression(expr)}`", span)
    if positive is not True:
        positive = shapes.logical_or(unless, to_expr(positive))
        builder.check(positive, (f"{what} is ", size, _negative_value(name, expr)), span)
    return result


def _no_value(name: str, expr: s.Expr) -> str:
    return f", which is not `{format_expression(expr)}` for any `{name}`"


def _negative_value(name: str, expr: s.Expr) -> str:
    return f", which is `{format_expression(expr)}` for a negative `{name}` only"
