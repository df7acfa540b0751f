"""The @quantize block: names of tensors, and operators that quantize them (2.14)."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Label
from ...source import Span
from . import syntax as s
from .scope import did_you_mean
from .typing_calls import Unit, check_attributes, find_callee
from .typing_context import Context
from .typing_generics import Callee, Deduction


def check_quantization(unit: Unit, ctx: Context) -> None:
    """Check @quantize, given the names that the composition left."""
    seen: dict[tuple[str, ...], s.Quantization] = {}
    for entry in unit.operator.quantize:
        earlier = seen.setdefault(entry.tensor, entry)
        if earlier is not entry:
            ctx.report.error(
                "E0202",
                f"`{'.'.join(entry.tensor)}` is quantized twice",
                _tensor_span(entry),
                labels=[Label(_tensor_span(earlier), "first here")],
            )
        _check_tensor(unit, ctx, entry)
        _check_quantizer(unit, ctx, entry)


def _tensor_span(entry: s.Quantization) -> Span:
    span = entry.span
    return Span(span.source, span.start, span.start + max(span.text.find(":"), 1))


def _check_tensor(unit: Unit, ctx: Context, entry: s.Quantization) -> None:
    path = entry.tensor
    prefix = (*unit.module.name.split("."), unit.operator.name)
    if path[: len(prefix)] == prefix and len(path) > len(prefix):
        path = path[len(prefix) :]
    if len(path) > 1:
        _check_scope(unit, ctx, entry, path)
        return
    found = ctx.scope.find(path[0])
    if found is None or not found.is_tensor:
        what = "is not a tensor" if found is not None else "is not known here"
        names = [n for n in ctx.scope.names() if (f := ctx.scope.find(n)) and f.is_tensor]
        ctx.report.error(
            "E0609",
            f"`{path[0]}` {what}",
            _tensor_span(entry),
            help=did_you_mean(path[0], names),
        )


def _check_scope(unit: Unit, ctx: Context, entry: s.Quantization, path: tuple[str, ...]) -> None:
    labels = set(_labels(unit.operator.compose))
    if path[0] not in labels:
        ctx.report.error(
            "E0609",
            f"there is no invocation labelled `{path[0]}`",
            _tensor_span(entry),
            help=did_you_mean(path[0], labels),
        )


def _labels(components: tuple[s.Component, ...]) -> Iterator[str]:
    """Explicit labels, and results that label their invocation."""
    for component in components:
        for result in component.results:
            if isinstance(result, s.Result):
                yield result.name
        yield from _action_labels(component.action)


def _action_labels(action: s.Action) -> Iterator[str]:
    match action:
        case s.Invocation(label=label):
            yield from () if label is None else (label,)
        case s.Block(label=label):
            yield from () if label is None else (label,)
            yield from _labels(action.components)
        case s.Branch():
            for part in (*action.conditions, *action.branches):
                yield from _action_labels(part)
        case s.Loop():
            yield from _action_labels(action.body)
            if action.condition is not None:
                yield from _action_labels(action.condition)


def _check_quantizer(unit: Unit, ctx: Context, entry: s.Quantization) -> None:
    start = entry.span.start + entry.span.text.find(entry.callee[0], entry.span.text.find(":"))
    span = Span(entry.span.source, start, start + len(".".join(entry.callee)))
    callee = find_callee(unit, ctx, entry.callee, span, graph_allowed=False)
    if callee is None:
        return
    _check_ports(ctx, callee, span)
    deduction = Deduction(callee, uncertain=True)
    check_attributes(ctx, entry.attributes, span, deduction)


def _check_ports(ctx: Context, callee: Callee, span: Span) -> None:
    op = callee.operator
    if len(op.inputs) != 1 or len(op.outputs) != 1:
        ctx.report.error(
            "E0217",
            f"a quantizer has one input and one output; `{callee.text}` has "
            f"{len(op.inputs)} and {len(op.outputs)}",
            span,
            labels=[Label(op.name_span, "declared here")],
        )
