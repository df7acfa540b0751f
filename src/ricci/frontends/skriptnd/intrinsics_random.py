"""Random numbers: a formula of a state and of the place in the tensor (`ir.random_words`), so that
all executors draw the same ones. SkriptND has no integers of a certain width, which is why these
are no formulas of the library.
"""

from __future__ import annotations

from ...dtypes import DType
from ...ir import nodes
from ...ir import random_words as words
from . import syntax as s
from .compose_graph import Builder
from .compose_tensors import make_outputs
from .evaluate import Evaluator
from .labels import Wanted
from .values import AnyValue, DynamicPack, Value, to_expr


def draw(
    builder: Builder, operator: s.Operator, evaluator: Evaluator, wanted: list[Wanted]
) -> tuple[Value, ...]:
    """`rand.draw`: reals from `min` up to `max`, or integers of which `max` is one."""
    state = evaluator.values["state"]
    outputs = make_outputs(builder, operator, evaluator, wanted)
    (result,) = outputs.values()
    assert isinstance(state, nodes.Tensor)
    assert isinstance(result, nodes.Tensor)
    low, high = [_scalar(evaluator.values[n]) for n in ("min", "max")]
    domain = tuple([nodes.Index(f"i{k}", e, result.span) for k, e in enumerate(result.shape)])
    place = words.place([(i, i.extent) for i in domain])
    rounds = words.rounds(nodes.Access(state, ()), place)
    value = _integer if result.dtype.is_int else _real
    target = nodes.Access(result, tuple([nodes.Subscript(i) for i in domain]))
    line = nodes.Assignment(
        (target,), "set", (value(rounds[-1], low, high),), domain, rounds, span=operator.span
    )
    _add(builder, operator, result, line, state)
    return (result,)


def advance(
    builder: Builder, operator: s.Operator, evaluator: Evaluator, wanted: list[Wanted]
) -> tuple[Value, ...]:
    """`rand.next`: the state after a call."""
    state = evaluator.values["state"]
    (result,) = make_outputs(builder, operator, evaluator, wanted).values()
    assert isinstance(state, nodes.Tensor)
    assert isinstance(result, nodes.Tensor)
    value = nodes.Cast(result.dtype, words.advanced(nodes.Access(state, ())))
    line = nodes.Assignment((nodes.Access(result, ()),), "set", (value,), (), span=operator.span)
    _add(builder, operator, result, line, state)
    return (result,)


def _add(
    builder: Builder,
    operator: s.Operator,
    result: nodes.Tensor,
    line: nodes.Assignment,
    state: nodes.Tensor,
) -> None:
    name, calls = builder.frames[-1].name, builder.calls()
    builder.add(
        nodes.Operation(name, (result,), (line,), (state,), span=operator.span, calls=calls)
    )


def _scalar(value: AnyValue) -> nodes.Expr:
    assert value is not None
    assert not isinstance(value, tuple | DynamicPack)
    return to_expr(value)


def _integer(word: nodes.Expr, low: nodes.Expr, high: nodes.Expr) -> nodes.Expr:
    """One of the integers from `low` to `high`."""
    span = nodes.Binary("sub", words.word(high), words.word(low))
    number = words.below(word, words.plus(span, words.const(1)))
    return words.plus(low, nodes.Cast(DType.INT, number))


def _real(word: nodes.Expr, low: nodes.Expr, high: nodes.Expr) -> nodes.Expr:
    """A real from `low` up to `high`."""
    span = nodes.Binary("sub", high, low)
    return words.plus(low, words.times(words.unit(word, DType.REAL), span))
