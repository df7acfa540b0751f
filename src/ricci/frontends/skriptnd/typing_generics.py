"""The generic types of a callee, and what they stand for in one invocation (2.13)."""

from __future__ import annotations

from dataclasses import field

from ...diagnostics import Label
from ...records import dataclass
from ...source import Span
from . import syntax as s
from .scope import did_you_mean_type
from .types import ABSTRACT, CONCRETE, UNKNOWN, Type
from .typing_context import Context


def count(number: int, noun: str) -> str:
    """`1 result`, `2 results`, `no results`."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Callee:
    """An operator as an invocation or a quantization names it."""

    path: tuple[str, ...]
    module: s.Module
    operator: s.Operator

    @property
    def text(self) -> str:
        return ".".join(self.path)


@dataclass
class Deduction:
    """The types that the generic types of a callee stand for in one invocation."""

    callee: Callee
    found: dict[str, tuple[Type, Span]] = field(default_factory=dict)
    uncertain: bool = False
    """Whether an erroneous argument might have given a type."""

    @property
    def bases(self) -> dict[str, str]:
        return {p.name: p.base for p in self.callee.operator.dtypes}


def bind_explicit(ctx: Context, types: tuple[str, ...], span: Span, deduction: Deduction) -> None:
    parameters = deduction.callee.operator.dtypes
    if len(types) > len(parameters):
        ctx.report.error(
            "E0415",
            f"`{deduction.callee.text}` has {count(len(parameters), 'generic type')}, but "
            f"{len(types)} are given",
            span,
        )
    for parameter, name in zip(parameters, types, strict=False):
        if name not in CONCRETE and name not in ctx.generics:
            help = did_you_mean_type(name, [*CONCRETE, *ctx.generics])
            message = f"unknown type `{name}`"
            if name in ABSTRACT:
                message, help = f"`{name}` is an abstract type", "give a concrete one"
            ctx.report.error("E0415", message, span, help=help)
            deduction.uncertain = True
            continue
        bind_type(ctx, parameter.name, ctx.declared(name), span, deduction)


def bind_type(ctx: Context, name: str, type: Type, span: Span, deduction: Deduction) -> None:
    """Let a generic type of a callee stand for a type, which must suit it."""
    if type.free:
        deduction.uncertain |= type.unknown
        return
    base = deduction.bases[name]
    earlier = deduction.found.get(name)
    if earlier is not None:
        if not earlier[0].same(type):
            ctx.report.error(
                "E0301",
                f"type `{name}` of `{deduction.callee.text}` stands for two types",
                span,
                f"`{type.name}` here",
                labels=[Label(earlier[1], f"`{earlier[0].name}` here")],
                help=_agreement_help(earlier[0], type, span),
            )
        return
    if not type.is_any(*ABSTRACT.get(base, CONCRETE)):
        ctx.report.error(
            "E0301",
            f"type `{name}` of `{deduction.callee.text}` must be of kind `{base}`",
            span,
            f"`{type.name}`",
            labels=[Label(_parameter_span(deduction, name), "declared here")],
        )
    deduction.found[name] = (type, span)


def _agreement_help(earlier: Type, type: Type, span: Span) -> str:
    if earlier.name == "real" and type.name == "int" and span.text.isdigit():
        return f"there is no implicit conversion: write `{span.text}.0`"
    return "there is no implicit conversion: what shares a type must have the same one"


def _parameter_span(deduction: Deduction, name: str) -> Span:
    return next(p.span for p in deduction.callee.operator.dtypes if p.name == name)


def check_deduced(ctx: Context, span: Span, deduction: Deduction) -> None:
    for parameter in deduction.callee.operator.dtypes:
        if parameter.name in deduction.found or deduction.uncertain:
            continue
        if parameter.default is None:
            ctx.report.error(
                "E0415",
                f"type `{parameter.name}` of `{deduction.callee.text}` cannot be deduced",
                span,
                labels=[Label(parameter.span, "declared here")],
                help=f"give it explicitly, as in `{deduction.callee.text}<real>(...)`",
            )
        else:
            deduction.found[parameter.name] = (Type(parameter.default), span)


def target_type(declared: s.Type, deduction: Deduction) -> Type:
    """The type that a parameter has in an invocation, unknown while it is not deduced."""
    if declared.name in deduction.bases:
        found = deduction.found.get(declared.name)
        return UNKNOWN if found is None else found[0]
    return Type(declared.name)
