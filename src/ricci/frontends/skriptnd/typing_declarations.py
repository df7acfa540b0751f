"""The declarations of an operator: types, attributes, inputs, helpers, tensors, asserts.

They are checked in the order in which their names become known (2.2): attributes, inputs in
binding order, deferred defaults, helpers, constants, variables, outputs, asserts.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...diagnostics import Label, Report
from ...records import replace
from ...source import Span
from ..cycles import find_cycles
from . import binding
from . import syntax as s
from . import typing_shapes as shapes
from .scope import Scope, Symbol
from .types import ABSTRACT, INT, STR, UNKNOWN
from .typing_context import Context
from .typing_expressions import new_context
from .typing_tensors import (
    check_value,
    declare_constant,
    declare_output,
    declare_variable,
    name_span,
)
from .typing_using import check_using, using_names


def declare_operator(op: s.Operator, report: Report) -> Context:
    """Check all declarations of an operator; the context holds its names afterwards."""
    scope = Scope(report)
    generics = _check_types(op, scope)
    ctx = new_context(scope, generics)
    _announce(op, scope)
    _declare_attributes(ctx, op)
    _declare_inputs(ctx, op)
    _check_defaults(ctx, op)
    for using in op.using:
        check_using(ctx, using)
    ctx = replace(ctx, hint=_EXTENT_HINT)
    for parameter in op.constants:
        declare_constant(ctx, parameter, op)
    for parameter in op.variables:
        declare_variable(ctx, parameter, op)
    for parameter in op.outputs:
        declare_output(ctx, parameter, op)
    ctx = replace(ctx, hint="")
    for assertion in op.asserts:
        _check_assertion(ctx, assertion)
    return ctx


_EXTENT_HINT = "extents must be known from attributes, shapes of inputs, or @using"


def _announce(op: s.Operator, scope: Scope) -> None:
    """Note the names that become known later, to tell them from unknown ones."""
    for using in op.using:
        for name, span in using_names(using):
            scope.later.setdefault(name, Symbol(name, "helper", UNKNOWN, span))
    for kind, group in _tensors(op):
        for p in group:
            scope.later.setdefault(p.name, Symbol(p.name, kind, UNKNOWN, name_span(p)))


def _tensors(op: s.Operator) -> list[tuple[str, Sequence[s.Parameter]]]:
    groups = (op.inputs, op.constants, op.variables, op.outputs)
    return list(zip(("input", "constant", "variable", "output"), groups, strict=True))


# ------------------------------------------------------------ generic types


def _check_types(op: s.Operator, scope: Scope) -> dict[str, str]:
    generics: dict[str, str] = {}
    for parameter in op.dtypes:
        base = parameter.base
        if base not in ABSTRACT:
            scope.report.error(
                "E0210",
                f"the base of type `{parameter.name}` must be abstract",
                parameter.span,
                f"`{base}` is concrete",
                help="write `type`, `arith` or `num`",
            )
            base = "type"
        admitted = ABSTRACT[base]
        if parameter.default is not None and parameter.default not in admitted:
            kinds = ", ".join(f"`{n}`" for n in admitted)
            scope.report.error(
                "E0210",
                f"the default of type `{parameter.name}` is not one of {kinds}",
                parameter.span,
                f"`{parameter.default}`",
            )
        scope.declare(Symbol(parameter.name, "type", UNKNOWN, parameter.span))
        generics.setdefault(parameter.name, base)
    return generics


# --------------------------------------------------------------- attributes


def _declare_attributes(ctx: Context, op: s.Operator) -> None:
    for attribute in op.attributes:
        type = shapes.element_type(ctx, attribute.type)
        type = replace(
            type,
            optional=attribute.type.optional,
            packed=attribute.type.pack is not None,
            length=shapes.pack_length(attribute),
        )
        ctx.scope.declare(Symbol(attribute.name, "attribute", type, name_span(attribute)))
        if attribute.type.shape is not None:
            ctx.report.error(
                "E0305",
                f"attribute `{attribute.name}` must not be a tensor",
                attribute.type.span,
                help="declare tensors in @input, or leave out the shape",
            )
    for attribute in op.attributes:
        pack = attribute.type.pack
        form = None
        if pack is not None and pack.length is not None:
            form = binding.affine(pack.length, ctx.scope)
        if form is not None and pack is not None and pack.length is not None:
            node = binding.free_names(pack.length)[form[0]]
            _declare_length(ctx, op, form[0], node.span)


def _declare_length(ctx: Context, op: s.Operator, name: str, span: Span) -> None:
    """Declare the length of a packed attribute, unless an extent of an input has its name."""
    sizes = [e.size for p in op.inputs for e in p.type.shape or () if e.pack or e.distinct]
    if not any(name in binding.free_names(size) for size in sizes):
        ctx.scope.declare(Symbol(name, "length", INT, span))


def _check_defaults(ctx: Context, op: s.Operator) -> None:
    for attribute in op.attributes:
        shapes.check_pack_length(ctx, attribute)
        _check_default(ctx, attribute)
        _check_own_length(ctx, op, attribute)
    _check_cycles(ctx, op)


def _check_default(ctx: Context, attribute: s.Parameter) -> None:
    default, found = attribute.default, ctx.scope.find(attribute.name)
    if default is None or found is None:
        return
    if attribute.type.optional:
        ctx.report.error(
            "E0214",
            f"optional attribute `{attribute.name}` must not have a default",
            default.span,
            help="its default is null: leave out the value, or the word `optional`",
        )
    target = found.type
    if found.kind != "attribute":
        target = shapes.element_type(ctx, attribute.type)
    check_value(ctx, f"attribute `{attribute.name}`", target, default, uniform=True)


def _check_own_length(ctx: Context, op: s.Operator, attribute: s.Parameter) -> None:
    """Report a default that needs the length which only the attribute itself can give."""
    pack, default = attribute.type.pack, attribute.default
    if pack is None or pack.length is None or default is None:
        return
    used = binding.free_names(default)
    lengths = [a.type.pack.length for a in op.attributes if a.type.pack and a is not attribute]
    elsewhere = set[str]().union(*(binding.free_names(n) for n in lengths if n is not None))
    for parameter in op.inputs:
        elsewhere |= binding.declared_symbols(parameter.type, frozenset()).keys()
    for name in binding.free_names(pack.length).keys() & used.keys() - elsewhere:
        found = ctx.scope.find(name)
        if found is not None and found.kind == "length":
            ctx.report.error(
                "E0405",
                f"the default of attribute `{attribute.name}` depends on its own length `{name}`",
                used[name].span,
                labels=[Label(pack.length.span, "declared here")],
                help="the length of an attribute is known from its value, from another "
                "attribute or from an input",
            )


def _check_cycles(ctx: Context, op: s.Operator) -> None:
    """Report deferred defaults that depend on one another in a circle."""
    deferred = {a.name: a for a in op.attributes if binding.is_deferred(a)}
    needs = {
        name: [n for n in binding.free_names(a.default) if n in deferred]
        for name, a in deferred.items()
        if a.default is not None
    }
    for cycle in find_cycles(needs, lambda name: needs[name]):
        ctx.report.error(
            "E0405",
            "defaults of attributes depend on one another: "
            + " -> ".join(f"`{n}`" for n in [*cycle, cycle[0]]),
            deferred[cycle[0]].span,
            labels=[Label(deferred[n].span, "") for n in cycle[1:]],
            help="give one of them a default that does not depend on the others",
        )


# ------------------------------------------------------------------- inputs


def _declare_inputs(ctx: Context, op: s.Operator) -> None:
    bound = binding.bind(op)
    shapes.report_obstacles(ctx, op, bound.obstacles)
    failed = {o.position for o in bound.obstacles}
    rules = shapes.Rules("input", op.graph)
    for position in binding.order(op):
        parameter = op.inputs[position]
        shapes.declare_input_symbols(ctx, parameter)
        if position in failed:
            ctx.scope.missing |= {n for o in bound.obstacles for n in o.missing}
        shapes.check_pack_length(ctx, parameter)
        shapes.check_shape(ctx, parameter, rules)
        type = shapes.tensor_type(ctx, parameter)
        ctx.scope.declare(Symbol(parameter.name, "input", type, name_span(parameter)))
    for parameter in op.inputs:
        _check_input_default(ctx, parameter)


def _check_input_default(ctx: Context, parameter: s.Parameter) -> None:
    found = ctx.scope.find(parameter.name)
    if parameter.default is None or found is None:
        return
    if parameter.type.optional:
        ctx.report.error(
            "E0214",
            f"optional input `{parameter.name}` must not have a default",
            parameter.default.span,
            help="leave out the value, or the word `optional`",
        )
    check_value(ctx, f"the default of input `{parameter.name}`", found.type, parameter.default)


# ------------------------------------------------------------------ asserts


def _check_assertion(ctx: Context, assertion: s.Assertion) -> None:
    condition = ctx.expect_bool(assertion.condition, "the condition of an assert", packed=True)
    if assertion.message is not None:
        message = ctx.type_of(assertion.message)
        if not message.same(STR):
            ctx.mismatch(assertion.message.span, "the message of an assert must be text", message)
        if message.optional and not condition.optional:
            ctx.report.error(
                "E0304",
                "the message may be null although the condition cannot be",
                assertion.message.span,
                help="give the value in the message a fallback with `??`",
            )
    for shown in assertion.prints:
        ctx.type_of(shown.value)
