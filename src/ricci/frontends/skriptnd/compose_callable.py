"""Invocations, blocks and expressions of tensors, wherever one of them may stand."""

from __future__ import annotations

from ...source import Span
from . import syntax as s
from .compose_body import Body, Request, Task
from .labels import Wanted
from .values import AnyValue, DynamicPack


def compose_callable(
    body: Body, node: s.Callable, label: str | None, wanted: tuple[Wanted, ...]
) -> Task:
    """Compose an invocation or a block, or evaluate an expression of tensors."""
    if isinstance(node, s.Invocation | s.Block):
        return (yield Request(body, node, label, wanted))
    return (as_tensors(body, body.evaluator.evaluate_any(node), node.span),)


def as_tensors(body: Body, value: AnyValue, span: Span) -> AnyValue:
    """A value as a tensor or pack of tensors; scalars become constants of rank 0."""
    if value is None:
        return None
    if isinstance(value, DynamicPack):
        items = tuple([body.builder.scalar(item, span) for item in value.items])
        return DynamicPack(items, value.length)
    if isinstance(value, tuple):
        return tuple([body.builder.scalar(item, span) for item in value])
    return body.builder.scalar(value, span)
