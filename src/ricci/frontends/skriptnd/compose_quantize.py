"""`@quantize`: which tensors are quantized, and how (specification 2.14).

An entry names a tensor of its operator, one inside an operator that it invokes by the path of
labels, or any by its full name, `main.G.conv.w`. Entries are known before the body of their
operator is composed, so a tensor is looked up where it is defined. In a graph that is composed to
be quantized the quantizer is invoked there: everything that reads the tensor under that name reads
what it gives. Else it is noted, of a copy that they read instead; `compose_noted` leaves out the
copies that are all there is to read. A variable is quantized where it is read; what updates it is
not.

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
from .labels import Scope, item_name, relative
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
            full = body.scope.declared(name) if declared else body.scope.tensor(name)
            for wish in _wishes(body, name, full):
                (values[name],) = yield from _apply(wish, values.get(name), full)
    return ()


def _wishes(body: Body, name: str, full: str | None) -> list[Wish]:
    """What is wanted of a tensor: first by its own operator, then by those around it."""
    scoped = body.scoped_quantizers.get(full, []) if full is not None else []
    return list(dict.fromkeys([*body.quantizers.get(name, []), *reversed(scoped)]))


def _apply(wish: Wish, value: AnyValue, name: str | None) -> Task:
    """Quantize a tensor with this scoped name, or each of a pack, or note that for it.

    An operator whose only component takes over its scope may have the same tensor again.
    """
    results: list[nodes.Tensor] = []
    packed = not isinstance(value, nodes.Tensor)
    for position, tensor in enumerate(tensors_of(value)):
        result = tensor
        if tensor not in wish.done:
            own = item_name(name, position) if packed else name
            (result,) = tensors_of((yield from _quantized(wish, tensor, own))[0])
            wish.done.add(result)
        results.append(result)
    if isinstance(value, DynamicPack):
        return (DynamicPack(tuple(results), value.length),)
    return (tuple(results) if packed and value is not None else results[0] if results else None,)


def _quantized(wish: Wish, tensor: nodes.Tensor, name: str | None) -> Task:
    """What those read who read a tensor under this name: what the quantizer makes of it, or a copy
    for which it is noted."""
    builder, entry = wish.body.builder, wish.entry
    if builder.quantizing:
        return (yield from _invoke(wish, tensor))
    copy = builder.copy(tensor, name, entry.span)
    evaluate = wish.body.evaluator.evaluate
    attributes = tuple([(a.name, _literal(evaluate(a.value))) for a in entry.attributes])
    noted = nodes.Quantization(copy, name or tensor.name, ".".join(entry.callee), attributes)
    builder.quantization.append(noted)
    return (copy,)


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
