"""Invoking an operator: binding, checking, then its formula or its components (chapter 3)."""

from __future__ import annotations

from ...diagnostics import Error
from ...ir import nodes
from . import syntax as s
from .bind import Binder
from .bind_shapes import Argument, bind_inputs
from .compose_asserts import check_early, evaluate_using
from .compose_block import compose_components, compose_updates
from .compose_body import Body, Request, Task, tensors_of
from .compose_declared import check_output
from .compose_graph import Builder
from .compose_parts import Frame
from .compose_quantize import quantize, quantizers
from .compose_tensors import declare_constants, declare_variables, make_outputs
from .evaluate import Evaluator
from .intrinsics import INTRINSICS
from .labels import Scope, Wanted, passes_through
from .lower import lower
from .standard_library import is_library
from .values import fail, show

DEEPEST = 256
"""How deep invocations may nest."""


def compose_invocation(request: Request) -> Task:
    """Compose an operator for one invocation of it; its results.

    Raises `Error` with everything that binding, evaluation and lowering find, E0201 for an
    unknown operator, E0605 for one without a body, E0902 for endless recursion.
    """
    outer, node = request.body, request.node
    assert isinstance(node, s.Invocation)
    builder = outer.builder
    found = builder.modules.resolve(outer.module, node.callee)
    if found is None:
        raise fail("E0201", f"operator `{'.'.join(node.callee)}` is not known here", node.span)
    module, operator = found
    evaluate = outer.evaluator.evaluate_any
    given = {a.name: (evaluate(a.value), a.value.span) for a in node.attributes}
    arguments = [Argument(outer.evaluator.evaluate_any(e), e.span) for e in node.arguments]
    _enter(builder, module, operator, node, arguments)
    evaluator = Evaluator({}, {}, builder.budget)
    binder = Binder(builder, operator, evaluator)
    binder.set_types(node.types, outer.evaluator, node.span)
    binder.set_attributes(given, node.span)
    try:
        bind_inputs(binder, arguments, node.span)
        binder.finish()
    except Error:
        check_early(builder, operator, evaluator)
        raise
    scope = _scope(request, module, operator)
    body = Body(
        builder,
        module,
        operator,
        evaluator,
        scope,
        _wanted(request, operator, scope),
        passes_through(operator),
        scoped_quantizers=outer.scoped_quantizers,
    )
    shared = operator.graph and node.label is None
    builder.sharing += shared
    yield from compose_operator(body, node)
    builder.sharing -= shared
    builder.frames.pop()
    return tuple([evaluator.values[p.name] for p in operator.outputs])


def _enter(
    builder: Builder,
    module: s.Module,
    operator: s.Operator,
    node: s.Invocation,
    arguments: list[Argument],
) -> None:
    builder.budget.invoke(node.span)
    values = tuple([a.value for a in arguments])
    name = f"{module.name}.{operator.name}"
    if len(builder.frames) >= DEEPEST:
        raise fail(
            "E0902",
            f"operators invoke each other more than {DEEPEST} deep",
            node.span,
            help="a recursive operator needs a condition that ends it",
        )
    builder.frames.append(Frame(name, operator, node.span, values))


def _scope(request: Request, module: s.Module, operator: s.Operator) -> Scope:
    node, outer = request.node, request.body
    if operator.graph and node.label is None:
        return Scope(f"{module.name}.{operator.name}", True)
    through = outer.through and node.label is None
    label = None if through else node.label or request.label
    return outer.scope.enter(operator, label, through)


def _wanted(request: Request, operator: s.Operator, scope: Scope) -> dict[str, Wanted]:
    """Names for the outputs: those that the caller gives them, else their own in the scope."""
    given = [*request.wanted, *(None for _ in operator.outputs[len(request.wanted) :])]
    pairs = zip(operator.outputs, given, strict=False)
    return {p.name: scope.tensor(p.name) if name is None else name for p, name in pairs}


def compose_operator(body: Body, node: s.Invocation | None) -> Task:
    """Check and compose an operator whose attributes and inputs are bound.

    The outputs are among the values of its evaluator afterwards.
    """
    with quantizers(body):
        yield from _compose(body, node)
    return ()


def _compose(body: Body, node: s.Invocation | None) -> Task:
    builder, operator, evaluator = body.builder, body.operator, body.evaluator
    evaluate_using(builder, operator, evaluator)
    yield from quantize(body, [p.name for p in operator.inputs])
    declare_constants(builder, operator, evaluator, body.scope)
    variables = declare_variables(builder, operator, evaluator, body.scope)
    declared = [p.name for p in (*operator.constants, *operator.variables)]
    yield from quantize(body, declared, declared=True)
    if operator.compose or (operator.graph and not operator.lower):
        yield from compose_components(body, operator.compose)
        for parameter in operator.outputs:
            evaluator.values[parameter.name] = check_output(body, parameter)
    else:
        if operator.lower:
            wanted = [body.wanted.get(p.name) for p in operator.outputs]
            _compute(body, wanted, node)
        else:
            _compute_intrinsic(body)
        yield from quantize(body, [p.name for p in operator.outputs])
    if operator.update:
        yield from compose_updates(body, variables)
    return ()


def _compute(body: Body, wanted: list[Wanted], node: s.Invocation | None) -> None:
    """One operation from the formula of an operator."""
    builder, operator, evaluator = body.builder, body.operator, body.evaluator
    outputs = make_outputs(builder, operator, evaluator, wanted)
    assignments, reads = lower(builder, operator, evaluator, outputs)
    given = [t for p in operator.inputs for t in tensors_of(evaluator.values[p.name])]
    position = {tensor: k for k, tensor in enumerate(given)}
    reads = tuple(sorted(reads, key=lambda t: position.get(t, len(given))))
    attributes = tuple(
        [
            (p.name, show(value))
            for p in operator.attributes
            if (value := evaluator.values[p.name]) is not None
        ]
    )
    builder.add(
        nodes.Operation(
            f"{body.module.name}.{operator.name}",
            tuple([t for value in outputs.values() for t in tensors_of(value)]),
            assignments,
            reads,
            attributes,
            node.span if node is not None else operator.span,
            builder.calls(),
        )
    )
    evaluator.values.update(outputs)


def _compute_intrinsic(body: Body) -> None:
    operator, module = body.operator, body.module
    name = f"{module.name}.{operator.name}"
    intrinsic = INTRINSICS.get(name) if is_library(module) else None
    if intrinsic is None:
        raise fail(
            "E0605",
            f"operator `{name}` has neither a formula nor components",
            operator.name_span,
            help="give it a block `@lower` or `@compose`",
        )
    wanted = [body.wanted.get(p.name) for p in operator.outputs]
    results = intrinsic(body.builder, operator, body.evaluator, wanted)
    for parameter, value in zip(operator.outputs, results, strict=True):
        body.evaluator.values[parameter.name] = value
