"""Invocations of operators: callees, attributes, arguments and generic types (2.10, 2.13)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ...diagnostics import Label
from ...records import dataclass, replace
from ...source import Span
from ..suggest import did_you_mean
from . import syntax as s
from .types import Length, Type, clash, length_of
from .typing_context import Context, promotion_help
from .typing_generics import (
    Callee,
    Deduction,
    bind_explicit,
    bind_type,
    check_deduced,
    count,
    target_type,
)


class Modules(Protocol):
    """What the checker needs to know of a program."""

    @property
    def modules(self) -> dict[str, s.Module]: ...

    def resolve(
        self, module: s.Module, path: tuple[str, ...]
    ) -> tuple[s.Module, s.Operator] | None: ...


@dataclass(frozen=True, slots=True)
class Unit:
    """The operator that is checked, its module and its program."""

    program: Modules
    module: s.Module
    operator: s.Operator


# --------------------------------------------------------------- resolution


def find_callee(
    unit: Unit, ctx: Context, path: tuple[str, ...], span: Span, *, graph_allowed: bool
) -> Callee | None:
    """The operator that a name refers to; reports names that lead nowhere."""
    found = unit.program.resolve(unit.module, path)
    if found is None:
        _report_unresolved(unit, ctx, path, span)
        return None
    callee = Callee(path, *found)
    if callee.operator.graph and not graph_allowed:
        ctx.report.error(
            "E0204",
            f"graph `{callee.text}` can be invoked as a branch, condition or loop body only",
            span,
            labels=[Label(callee.operator.name_span, "declared here")],
            help="declare it as an `operator`, or invoke it in control flow",
        )
    if callee.operator.name.startswith("_") and callee.module is not unit.module:
        ctx.report.error(
            "E0204",
            f"operator `{callee.text}` is private to its module",
            span,
            help="names that begin with `_` can be used in their own module only",
        )
    return callee


def _report_unresolved(unit: Unit, ctx: Context, path: tuple[str, ...], span: Span) -> None:
    *parents, name = path
    text = ".".join(path)
    if not parents:
        message, help = f"unknown operator `{text}`", _suggest_operator(unit, name)
    else:
        module = unit.program.modules.get(".".join(parents))
        imported = any(i.path == tuple(parents) for i in unit.module.imports)
        if module is None and imported:
            return  # the loader has said that the module is missing
        if module is not None and imported:
            choices = [f"{'.'.join(parents)}.{o.name}" for o in module.operators]
            message = f"module `{module.name}` has no operator `{name}`"
            help = did_you_mean(text, choices)
        else:
            message = f"module `{'.'.join(parents)}` is not imported"
            help = _suggest_import(unit, ".".join(parents))
    ctx.report.error("E0203", message, span, help=help)


def _suggest_operator(unit: Unit, name: str) -> str:
    for imported in unit.module.imports:
        module = unit.program.modules.get(".".join(imported.path))
        if module is not None and any(o.name == name for o in module.operators):
            return f"did you mean `{module.name}.{name}`?"
    return did_you_mean(name, [o.name for o in unit.module.operators])


def _suggest_import(unit: Unit, name: str) -> str:
    imports = [".".join(i.path) for i in unit.module.imports]
    known = did_you_mean(name, imports)
    return known or f"write `import {name};` at the top of the file"


# --------------------------------------------------------------- invocations


def check_invocation(
    unit: Unit, ctx: Context, call: s.Invocation, *, graph_allowed: bool = False
) -> list[Type] | None:
    """The types of the results of an invocation; None when the callee is not known."""
    span = callee_span(call)
    callee = find_callee(unit, ctx, call.callee, span, graph_allowed=graph_allowed)
    if callee is None:
        _check_loosely(ctx, call)
        return None
    deduction = Deduction(callee)
    bind_explicit(ctx, call.types, span, deduction)
    check_attributes(ctx, call.attributes, span, deduction)
    _check_arguments(ctx, call, span, deduction)
    check_deduced(ctx, span, deduction)
    return [_result_type(ctx, p, deduction) for p in callee.operator.outputs]


def callee_span(call: s.Invocation) -> Span:
    """The name of the callee in the text of an invocation."""
    return _name_in(call.span, call.callee, after_label=call.label is not None)


def _name_in(span: Span, path: tuple[str, ...], *, after_label: bool) -> Span:
    text = span.text
    begin = text.find(":") + 1 if after_label else 0
    start = text.find(path[0], begin)
    if start < 0:
        return span
    last = text.find(path[-1], start)
    return Span(span.source, span.start + start, span.start + last + len(path[-1]))


def _check_loosely(ctx: Context, call: s.Invocation) -> None:
    """Find errors inside the arguments of an invocation of nobody knows what."""
    for attribute in call.attributes:
        ctx.compile_time().type_of(attribute.value)
    for argument in call.arguments:
        if not isinstance(argument, s.Omitted):
            ctx.type_of(argument)


# ----------------------------------------------------------------- attributes


def check_attributes(
    ctx: Context, given: Iterable[s.Argument], span: Span, deduction: Deduction
) -> None:
    """Check the attributes in the braces of an invocation against their declarations."""
    declared = {p.name: p for p in deduction.callee.operator.attributes}
    seen: dict[str, s.Argument] = {}
    inner = ctx.compile_time()
    for argument in given:
        if argument.name in seen:
            ctx.report.error(
                "E0202",
                f"attribute `{argument.name}` is given twice",
                argument.span,
                labels=[Label(seen[argument.name].span, "first here")],
            )
        elif argument.name not in declared:
            ctx.report.error(
                "E0414",
                f"`{deduction.callee.text}` has no attribute `{argument.name}`",
                argument.span,
                help=did_you_mean(argument.name, declared) or _list_names(declared),
            )
            inner.type_of(argument.value)
        else:
            parameter = declared[argument.name]
            _check_attribute(inner, parameter, argument, deduction)
        seen.setdefault(argument.name, argument)
    _check_missing(ctx, seen, span, deduction)


def _list_names(names: Iterable[str]) -> str:
    quoted = ", ".join(f"`{n}`" for n in names)
    return f"its attributes are {quoted}" if quoted else "it has no attributes"


def _check_missing(
    ctx: Context, seen: dict[str, s.Argument], span: Span, deduction: Deduction
) -> None:
    for p in deduction.callee.operator.attributes:
        if p.name not in seen and p.default is None and not p.type.optional:
            ctx.report.error(
                "E0414",
                f"`{deduction.callee.text}` needs a value for attribute `{p.name}`",
                span,
                labels=[Label(p.span, "declared here")],
                help=f"write `{deduction.callee.text}{{{p.name}=...}}`",
            )


def _check_attribute(
    ctx: Context, parameter: s.Parameter, argument: s.Argument, deduction: Deduction
) -> None:
    type = ctx.type_of(argument.value)
    what = f"attribute `{parameter.name}` of `{deduction.callee.text}`"
    if _check_element(ctx, parameter, argument.value, type, what, deduction):
        _check_optional(ctx, parameter, argument.value, type, what)
    if type.packed and parameter.type.pack is None:
        ctx.report.error(
            "E0302",
            f"{what} is a single value, not a pack",
            argument.value.span,
            str(type),
            labels=[Label(parameter.span, "declared here")],
        )
    _check_length(ctx, parameter, argument.value, type, what)


def _check_element(
    ctx: Context,
    parameter: s.Parameter,
    value: s.Expr,
    type: Type,
    what: str,
    deduction: Deduction,
) -> bool:
    """Check the element type of what is given for a parameter, deducing generic types."""
    if parameter.type.name in deduction.bases:
        bind_type(ctx, parameter.type.name, type, value.span, deduction)
        return True
    target = target_type(parameter.type, deduction)
    if target.same(type):
        return True
    ctx.report.error(
        "E0301",
        f"{what} must be of type `{target.name}`",
        value.span,
        str(type),
        labels=[Label(parameter.span, "declared here")],
        help=promotion_help((value, type), (value, target)),
    )
    return False


def _check_optional(
    ctx: Context, parameter: s.Parameter, value: s.Expr, type: Type, what: str
) -> None:
    if type.optional and not parameter.type.optional:
        ctx.report.error(
            "E0304",
            f"{what} must not be null",
            value.span,
            str(type),
            labels=[Label(parameter.span, "declared here")],
            help=f"give it a fallback with `??`, or test it: `if ?{value.name} then ...`"
            if isinstance(value, s.Name)
            else "give it a fallback with `??`",
        )


def _check_length(
    ctx: Context, parameter: s.Parameter, value: s.Expr, type: Type, what: str
) -> None:
    pack = parameter.type.pack
    if pack is None or pack.length is None or not type.packed:
        return
    declared: Length | None = length_of(pack.length)
    if declared is None or declared.factors:
        return
    if clash(declared, type.length):
        ctx.report.error(
            "E0506",
            f"{what} must have {declared} items",
            value.span,
            f"length {type.length}",
            labels=[Label(parameter.span, "declared here")],
        )


# ------------------------------------------------------------------ arguments


def _check_arguments(ctx: Context, call: s.Invocation, span: Span, deduction: Deduction) -> None:
    parameters = deduction.callee.operator.inputs
    if len(call.arguments) > len(parameters):
        _report_arity(ctx, call, span, deduction)
    for parameter, argument in zip(parameters, call.arguments, strict=False):
        if isinstance(argument, s.Omitted):
            _check_omitted(ctx, parameter, argument.span, deduction)
        else:
            _check_argument(ctx, parameter, argument, deduction)
    for argument in call.arguments[len(parameters) :]:
        if not isinstance(argument, s.Omitted):
            ctx.type_of(argument)
    missing = [p for p in parameters[len(call.arguments) :] if _needed(p)]
    if missing:
        _report_arity(ctx, call, span, deduction, missing[0])


def _needed(parameter: s.Parameter) -> bool:
    return not parameter.type.optional and parameter.default is None


def _report_arity(
    ctx: Context,
    call: s.Invocation,
    span: Span,
    deduction: Deduction,
    missing: s.Parameter | None = None,
) -> None:
    parameters = deduction.callee.operator.inputs
    needed = sum(map(_needed, parameters))
    wanted = count(len(parameters), "argument")
    if needed < len(parameters):
        wanted = f"{needed} to {wanted}"
    labels = [] if missing is None else [Label(missing.span, "no argument for this input")]
    names = ", ".join(p.name for p in parameters)
    ctx.report.error(
        "E0412",
        f"`{deduction.callee.text}` takes {wanted}, but {len(call.arguments)} "
        f"{'is' if len(call.arguments) == 1 else 'are'} given",
        span,
        labels=labels,
        help=f"its inputs are ({names})" if names else "it has no inputs",
    )


def _check_omitted(ctx: Context, parameter: s.Parameter, span: Span, deduction: Deduction) -> None:
    if _needed(parameter):
        ctx.report.error(
            "E0412",
            f"input `{parameter.name}` of `{deduction.callee.text}` must not be omitted",
            span,
            labels=[Label(parameter.span, "neither optional nor with a default")],
        )


def _check_argument(
    ctx: Context, parameter: s.Parameter, argument: s.Expr, deduction: Deduction
) -> None:
    type = ctx.type_of(argument)
    what = f"input `{parameter.name}` of `{deduction.callee.text}`"
    if _check_element(ctx, parameter, argument, type, what, deduction):
        _check_optional(ctx, parameter, argument, type, what)
    if type.packed != (parameter.type.pack is not None) and not type.unknown:
        ctx.report.error(
            "E0302",
            f"{what} is {'a single tensor, not a pack' if type.packed else 'a pack of tensors'}",
            argument.span,
            str(type),
            labels=[Label(parameter.span, "declared here")],
            help="" if type.packed else f"write a list: `[{argument.span.text}]`",
        )
    _check_length(ctx, parameter, argument, type, what)


def _result_type(ctx: Context, parameter: s.Parameter, deduction: Deduction) -> Type:
    element = target_type(parameter.type, deduction)
    pack = parameter.type.pack
    length = length_of(pack.length) if pack is not None and pack.length is not None else None
    return replace(
        element,
        optional=parameter.type.optional,
        packed=pack is not None,
        length=length if length is not None and not length.factors else None,
        tensor=True,
    )
