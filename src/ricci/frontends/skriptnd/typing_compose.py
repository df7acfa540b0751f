"""The @compose and @update blocks: assignments, blocks and branches (2.10, 2.11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...diagnostics import Label
from ...records import replace
from ...source import Span
from . import syntax as s
from .scope import Symbol
from .types import UNKNOWN, Type
from .typing_body import Body, leading
from .typing_calls import Unit, check_invocation
from .typing_context import Context
from .typing_expressions import tested_names
from .typing_generics import count
from .typing_loops import check_condition, loop_types
from .typing_results import assign_results


def check_composition(unit: Unit, ctx: Context) -> Context:
    """Check @compose of an operator whose declarations have been checked.

    The context that comes back holds the names that the block computes.
    """
    op = unit.operator
    outputs = _targets(ctx, op.outputs, "output")
    ctx = ctx.allow_tensors()
    body = Body(unit, ctx.within(ctx.scope.inner()), _act_in_flow, outputs)
    _check_components(body, op.compose)
    for output in op.outputs:
        if output.name in outputs and output.name not in body.done:
            body.report.error(
                "E0603",
                f"output `{output.name}` is never computed",
                output.span,
                help=f"assign `{output.name}` in @compose",
            )
    return body.ctx


def check_update(unit: Unit, ctx: Context) -> None:
    """Check @update, given the context that the composition left."""
    variables = _targets(ctx, unit.operator.variables, "variable")
    ctx = ctx.allow_tensors()
    body = Body(unit, ctx.within(ctx.scope.inner()), _act_in_flow, variables)
    _check_components(body, unit.operator.update)


def _targets(ctx: Context, parameters: Iterable[s.Parameter], kind: str) -> dict[str, Symbol]:
    found = [ctx.scope.find(p.name) for p in parameters]
    return {f.name: f for f in found if f is not None and f.kind == kind}


def _check_components(body: Body, components: Sequence[s.Component]) -> None:
    for component in components:
        for name, span in _result_names(component):
            if name not in body.targets and body.ctx.scope.find(name) is None:
                symbol = Symbol(name, "result", UNKNOWN, span)
                body.ctx.scope.later.setdefault(name, symbol)
    for component in components:
        types = _action_types(body, component.action)
        assign_results(body, component, types)


def _result_names(component: s.Component) -> Iterable[tuple[str, Span]]:
    for result in component.results:
        items = result.items if isinstance(result, s.ResultList) else (result,)
        for item in items:
            if isinstance(item, s.Result):
                yield item.name, leading(item.span, item.name)


# ------------------------------------------------------------------ actions


def _act_in_flow(body: Body, action: s.Action) -> list[Type] | None:
    """The types of what a part of a branch or loop results in; graphs may be invoked."""
    return _action_types(body, action, graph_allowed=True)


def _action_types(
    body: Body, action: s.Action, *, graph_allowed: bool = False
) -> list[Type] | None:
    """The types of what an action results in; None when an error hides them."""
    match action:
        case s.Invocation():
            _check_label(body, action.label, action.span)
            return check_invocation(body.unit, body.ctx, action, graph_allowed=graph_allowed)
        case s.Block():
            _check_label(body, action.label, action.span)
            return _block_types(body, action)
        case s.Branch():
            return _branch_types(body, action)
        case s.Loop():
            return loop_types(body, action)
    return [body.ctx.type_of(action)]


def _check_label(body: Body, label: str | None, span: Span) -> None:
    if label is None:
        return
    place = leading(span, label)
    if label in body.labels:
        body.report.error(
            "E0213",
            f"label `{label}` is used twice",
            place,
            labels=[Label(body.labels[label], "first here")],
            help="labels name tensors in files, so each needs one of its own",
        )
    body.labels.setdefault(label, place)


def _block_types(body: Body, block: s.Block) -> list[Type]:
    inner = body.block()
    _check_components(inner, block.components)
    types = [inner.ctx.type_of(r) for r in block.results]
    for expr, type in zip(block.results, types, strict=True):
        if type.optional:
            inner.report.error(
                "E0304",
                "a result of a block must not be null",
                expr.span,
                str(type),
                help="give it a fallback with `??`",
            )
    return types


def _branch_types(body: Body, branch: s.Branch) -> list[Type] | None:
    outer = dict(body.labels)
    seen: dict[str, Span] = {}
    results: list[list[Type] | None] = []
    for position, action in enumerate(branch.branches):
        names: list[str] = []
        if position < len(branch.conditions):
            condition = branch.conditions[position]
            check_condition(body, condition, "the condition of `if`")
            if not isinstance(condition, s.Invocation | s.Block):
                names = list(tested_names(condition))
        part = body.part(body.ctx.within(body.ctx.scope.narrow(names)))
        inner = replace(part, labels=dict(outer))
        results.append(body.act(inner, action))
        seen |= inner.labels
    body.labels.update(seen)
    return _common_results(body, branch, results)


def _common_results(
    body: Body, branch: s.Branch, results: list[list[Type] | None]
) -> list[Type] | None:
    """The types of the results of all branches, which must agree."""
    known = [(a, r) for a, r in zip(branch.branches, results, strict=True) if r is not None]
    if not known:
        return None
    first, types = known[0]
    for action, others in known[1:]:
        if len(others) != len(types):
            body.report.error(
                "E0412",
                "the branches have different numbers of results",
                action.span,
                count(len(others), "result"),
                labels=[Label(first.span, count(len(types), "result"))],
            )
            return None
        for a, b in zip(types, others, strict=True):
            _check_agreement(body, (first, a), (action, b))
    return [
        replace(t, tensor=any(r[i].tensor for _, r in known), rank=None)
        for i, t in enumerate(types)
    ]


def _check_agreement(body: Body, a: tuple[s.Callable, Type], b: tuple[s.Callable, Type]) -> None:
    packed = a[1].packed != b[1].packed and not (a[1].unknown or b[1].unknown)
    if not a[1].same(b[1]) or packed:
        body.report.error(
            "E0301",
            "the branches have results of different types",
            b[0].span,
            str(b[1]),
            labels=[Label(a[0].span, str(a[1]))],
        )
