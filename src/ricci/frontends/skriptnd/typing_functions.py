"""The types of folds, casts and built-in functions (2.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ...records import replace
from ..suggest import did_you_mean
from . import syntax as s
from .scope import did_you_mean_type
from .types import BOOL, CONCRETE, REAL, UNKNOWN, Type
from .typing_access import report_whole_operand
from .typing_context import Context, Rule, either, promotion_help

BUILTINS_REAL = frozenset(
    {"sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"}
    | {"asinh", "acosh", "atanh", "erf", "round", "floor", "ceil", "frac"}
)
BUILTINS_NUMERIC = frozenset({"abs", "sign"})

_FOLDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("+", "*", "<<", ">>", "<", "<=", ">", ">="), ("int", "real")),
    **dict.fromkeys(("&&", "||"), ("bool",)),
    **dict.fromkeys(("==", "!=", ":="), CONCRETE),
}
_CUMULATIVE = frozenset({"+", "*", "<<", ">>", "&&", "||"})
_OPTIONAL_FOLDS = frozenset({"<<", ">>", ":="})


def _fold(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Fold, expr)
    dots = "..." if node.cumulative else ".."
    type = ctx.type_of(node.operand)
    if report_whole_operand(ctx, node.operand, node.op, type) or type.unknown:
        return UNKNOWN
    if node.op not in (_CUMULATIVE if node.cumulative else _FOLDS):
        kind = "cumulative fold" if node.cumulative else "fold"
        ctx.report.error("E0301", f"there is no {kind} `{node.op} {dots}`", expr.span)
        return UNKNOWN
    if not type.packed:
        ctx.report.error(
            "E0302",
            f"the fold `{node.op} {dots}` needs a pack",
            node.operand.span,
            str(type),
        )
    if not type.is_any(*_FOLDS[node.op]):
        kinds = either([f"{n}.." for n in _FOLDS[node.op]])
        message = f"the fold `{node.op} {dots}` needs a pack of type {kinds}"
        return ctx.mismatch(node.operand.span, message, type)
    return type if node.cumulative else _folded(node.op, type)


def _folded(op: str, type: Type) -> Type:
    if op in ("<", "<=", ">", ">=", "==", "!="):
        return BOOL.with_optional(type.optional)
    return type.item.with_optional(type.optional or op in _OPTIONAL_FOLDS)


def _cast(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Cast, expr)
    target = ctx.declared(node.type)
    if node.type not in CONCRETE and node.type not in ctx.generics:
        help = did_you_mean_type(node.type, [*CONCRETE, *ctx.generics])
        if ctx.tensors and not help:
            help = f"an operator is invoked on its own: `r = {expr.span.text};`"
        ctx.report.error("E0201", f"unknown type `{node.type}`", expr.span, help=help)
        if ctx.tensors:
            return UNKNOWN
        target = UNKNOWN
    if node.operand is None:
        return target
    source = ctx.type_of(node.operand)
    if report_whole_operand(ctx, node.operand, node.type, source):
        return UNKNOWN
    if not (target.is_any("int", "real", "bool") and source.is_any("int", "real", "bool")):
        ctx.report.error(
            "E0306",
            f"`{source}` cannot be converted to `{node.type}`",
            expr.span,
            help=_cast_help(target, source, node),
        )
        return target
    return replace(source, name=target.name, base=target.base)


def _cast_help(target: Type, source: Type, node: s.Cast) -> str:
    if target.name == "str":
        text = node.operand.span.text if node.operand is not None else ""
        return f'format it: `"{{{text}}}"`'
    if "type" in (target.base, source.base):
        return "a type declared as `type` may be `str`; declare it as `arith` or `num`"
    return ""


def _builtin(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Builtin, expr)
    type = ctx.type_of(node.operand)
    if report_whole_operand(ctx, node.operand, node.function, type):
        return UNKNOWN
    if node.function in BUILTINS_NUMERIC:
        if not type.numeric:
            return ctx.mismatch(node.operand.span, f"`{node.function}` needs a number", type)
        return type
    if node.function not in BUILTINS_REAL:
        help = did_you_mean(node.function, BUILTINS_REAL | BUILTINS_NUMERIC)
        message = f"unknown function `{node.function}`"
        ctx.report.error("E0201", message, expr.span, help=help)
        return UNKNOWN
    if not type.is_any("real"):
        help = promotion_help((node.operand, type), (node.operand, REAL))
        message = f"`{node.function}` needs a real number"
        ctx.mismatch(node.operand.span, message, type, help)
        return replace(type, name="real", base="")
    return type


RULES: Mapping[type[s.Node], Rule] = {s.Fold: _fold, s.Cast: _cast, s.Builtin: _builtin}
