"""Operators that no formula of the language can express, because data decides their sizes or
their order: one table.

An operator of the standard library without a body is looked up here by its qualified name. What
the table gives are operations like all others; nothing later knows their names.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dtypes import DType
from ...ir import nodes, shapes
from . import intrinsics_random, intrinsics_sort, intrinsics_suppress
from . import syntax as s
from .compose_graph import Builder
from .evaluate import Evaluator
from .labels import Wanted, single_name
from .lower import fill
from .values import AnyValue

Intrinsic = Callable[[Builder, s.Operator, Evaluator, list[Wanted]], tuple[AnyValue, ...]]


def _nonzero(
    builder: Builder, operator: s.Operator, evaluator: Evaluator, wanted: list[Wanted]
) -> tuple[AnyValue, ...]:
    """`layout.nonzero`: the positions of what is not zero, in row-major order (4.1.6).

    Counts them, which gives the size; then writes one after the other, the position at which
    to write being an output of its own.
    """
    (source,) = [evaluator.values[p.name] for p in operator.inputs]
    assert isinstance(source, nodes.Tensor)
    span = operator.span
    domain = tuple([nodes.Index(f"i{k}", e, span) for k, e in enumerate(source.shape)])
    element = nodes.Access(source, tuple([nodes.Subscript(i) for i in domain]))
    found = _is_nonzero(element)
    count = builder.tensor(None, DType.INT, (), span)
    at_count = nodes.Access(count, ())
    body = (
        fill(count, nodes.ZERO, span),
        nodes.Assignment((at_count,), "add", (nodes.ONE,), domain, condition=found, span=span),
    )
    calls = builder.calls()
    builder.add(nodes.Operation("count", (count,), body, (source,), span=span, calls=calls))
    symbol = builder.symbol(None, shapes.product(*source.shape), span)
    builder.sizes.append((symbol, count))
    shape = (nodes.integer(source.rank), symbol)
    result = builder.tensor(single_name(wanted[0]), DType.INT, shape, span)
    position = builder.tensor(None, DType.INT, (), span)
    at = nodes.Access(position, ())
    targets = [
        nodes.Access(result, (nodes.Subscript(nodes.integer(k)), nodes.Subscript(at)))
        for k in range(source.rank)
    ]
    step = nodes.Assignment(
        (*targets, at),
        "update",
        (*domain, nodes.Binary("add", at, nodes.ONE)),
        domain,
        condition=found,
        span=span,
    )
    start = (fill(result, nodes.ZERO, span), fill(position, nodes.ZERO, span))
    name = builder.frames[-1].name
    outputs = (result, position)
    builder.add(nodes.Operation(name, outputs, (*start, step), (source,), span=span, calls=calls))
    return (result,)


def _is_nonzero(element: nodes.Access) -> nodes.Expr:
    if element.dtype is DType.BOOL:
        return element
    zero = 0.0 if element.dtype is DType.REAL else 0
    return nodes.Binary("ne", element, nodes.Const(zero, element.dtype))


INTRINSICS: dict[str, Intrinsic] = {
    "algo.top_k": intrinsics_sort.top_k,
    "algo.nonmax_suppress": intrinsics_suppress.nonmax_suppress,
    "rand.draw": intrinsics_random.draw,
    "rand.next": intrinsics_random.advance,
    "layout.nonzero": _nonzero,
}
