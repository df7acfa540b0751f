"""`@quantize`: which tensors are quantized, and how (specification 2.14).

An entry names a tensor of its operator, one inside an operator that it invokes by the path of
labels, or any by its full name, `main.G.conv.w`. Entries are known before the body of their
operator is composed, so a tensor is looked up where it is defined. There the quantizer is
noted, and in a graph that is composed to be quantized also invoked: everything that reads the
tensor from then on reads what it gives. A variable is quantized where it is read; what updates
it is not.

Spec: attaches quantizers, and does not say when they run. Ricci: on request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ...diagnostics import Label
from ...ir import nodes
from . import syntax as s
from .compose_body import Body, Request, Task, Wish, tensors_of
from .compose_tensors import same_shape
from .labels import Scope, relative
from .values import AnyValue, DynamicPack, Value, describe, fail, is_static, show


@contextmanager
def quantizers(body: Body) -> Iterator[None]:
    """Make the entries of an operator known while its body is composed."""
    added: list[str] = []
    for entry in body.operator.quantize:
        wish = Wish(body, entry)
        path = relative(entry.tensor, body.module, body.operator)
        name = ".".join(path)
        if len(path) == 1:
            body.quantizers.setdefault(name, []).append(wish)
        for full in {name, f"{body.scope.prefix or ''}.{name}"}:
            body.scoped_quantizers.setdefault(full, []).append(wish)
            added.append(full)
    yield
    for full in added:
        body.scoped_quantizers[full].pop()


def quantize(body: Body, names: Iterable[str], declared: bool = False) -> Task:
    """Quantize tensors that have just got their values, where entries name them.

    `declared` tells that they are variables or constants. Raises E0217 for a quantizer that
    gives something else than one tensor of the same type and shape.
    """
    if body.quantizers or body.scoped_quantizers:
        values = body.evaluator.values
        for name in names:
            for wish in _wishes(body, name, declared):
                (values[name],) = yield from _apply(wish, values.get(name))
    return ()


def _wishes(body: Body, name: str, declared: bool) -> list[Wish]:
    """What is wanted of a tensor: first by its own operator, then by those around it."""
    full = body.scope.declared(name) if declared else body.scope.tensor(name)
    scoped = body.scoped_quantizers.get(full, []) if full is not None else []
    return list(dict.fromkeys([*body.quantizers.get(name, []), *reversed(scoped)]))


def _apply(wish: Wish, value: AnyValue) -> Task:
    """Note a quantizer for a tensor, or each of a pack, and invoke it if that is asked for.

    An operator whose only component takes over its scope may have the same tensor again.
    """
    builder, entry = wish.body.builder, wish.entry
    found = [t for t in tensors_of(value) if t not in wish.done]
    if not found:
        return (value,)
    evaluate = wish.body.evaluator.evaluate
    attributes = tuple([(a.name, _literal(evaluate(a.value))) for a in entry.attributes])
    callee, raw = ".".join(entry.callee), builder.quantized
    builder.quantization += [(raw.get(t, t), callee, attributes) for t in found]
    wish.done.update(found)
    if not builder.quantizing:
        return (value,)
    results: list[nodes.Tensor] = []
    for tensor in found:
        (result,) = yield from _invoke(wish, tensor)
        assert isinstance(result, nodes.Tensor)
        raw[result] = raw.get(tensor, tensor)
        wish.done.add(result)
        results.append(result)
    if isinstance(value, DynamicPack):
        return (DynamicPack(tuple(results), value.length),)
    return (tuple(results) if isinstance(value, tuple) else results[0],)


def _literal(value: Value) -> str:
    """A value as JSON; one that depends on sizes known only at run time as it is shown."""
    items = value if isinstance(value, tuple) else (value,)
    return json.dumps(value if all(i is None or is_static(i) for i in items) else show(value))


_ARGUMENT = "|quantized|"
"""The name under which a quantizer is passed its tensor; no text can have it."""


def _invoke(wish: Wish, tensor: nodes.Tensor) -> Task:
    entry = wish.entry
    body = wish.body.inner(Scope(None, False), {})
    body.evaluator.values[_ARGUMENT] = tensor
    argument = s.Name(_ARGUMENT, span=entry.span)
    call = s.Invocation(
        None, entry.callee, entry.types, entry.attributes, (argument,), span=entry.span
    )
    name = None if tensor.name.startswith(".") else f"{tensor.name}:quantized"
    (result,) = yield Request(body, call, None, (name,))
    if (
        not isinstance(result, nodes.Tensor)
        or result.dtype is not tensor.dtype
        or not same_shape(result.shape, tensor.shape)
    ):
        raise fail(
            "E0217",
            "a quantizer must give a tensor of the same type and shape",
            entry.span,
            f"from {describe(tensor)} it gives {describe(result)}",
            labels=(Label(tensor.span, "quantized is this"),),
        )
    return (result,)
