"""`@quantize`: which tensors are quantized how, by their scoped names (specification 2.14)."""

from __future__ import annotations

from ...ir import nodes
from .compose_body import Body
from .values import fail, show


def quantize(body: Body) -> None:
    """Record the entries of an operator's `@quantize`.

    Names are looked up from the operator's own scope, then as full names. Raises E0609.
    """
    for entry in body.operator.quantize:
        tensors = _find(body, ".".join(entry.tensor))
        if not tensors:
            raise fail(
                "E0609",
                f"there is no tensor `{'.'.join(entry.tensor)}` to quantize",
                entry.span,
                help="tensors inside operators that are not `public` have no names",
            )
        evaluate = body.evaluator.evaluate
        attributes = tuple([(a.name, show(evaluate(a.value))) for a in entry.attributes])
        callee = ".".join(entry.callee)
        body.builder.quantization += [(t, callee, attributes) for t in tensors]


def _find(body: Body, name: str) -> list[nodes.Tensor]:
    """The tensor of a name, or the items of the pack."""
    own = body.evaluator.values.get(name)
    items = own if isinstance(own, tuple) else (own,)
    found = [item for item in items if isinstance(item, nodes.Tensor)]
    builder = body.builder
    known = {**builder.variables, **builder.named}
    for full in (f"{body.scope.prefix}.{name}", name):
        if found:
            break
        found = [known[full]] if full in known else []
        position = 1
        while f"{full}:{position}" in known:
            found.append(known[f"{full}:{position}"])
            position += 1
    return found
