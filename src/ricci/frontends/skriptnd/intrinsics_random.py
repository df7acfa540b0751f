"""Random numbers: a formula of a state and of the place in the tensor, so that all executors,
whatever their types and threads, draw the same ones.

Element `i` is the hash of `state * STEP + i` under one key, four rounds of squaring and swapping
halves in 64-bit arithmetic that wraps (B. Widynski, "Squares: a fast counter-based RNG", 2020),
and a fifth for the lower half. An update moves the state by a linear congruence. SkriptND has no
integers of a certain width, which is why these are no formulas of the library.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dtypes import DType
from ...ir import nodes
from . import syntax as s
from .compose_graph import Builder
from .compose_tensors import make_outputs
from .evaluate import Evaluator
from .labels import Wanted
from .values import AnyValue, DynamicPack, Value, to_expr

_KEY = 0xD2B74E1C93A658F1
"""Odd, and without a pattern in its digits, as the hash demands."""
_STEP = 6364136223846793005
_SHIFT = 1442695040888963407
"""The multiplier and increment of the congruence: D. Knuth's, of full period."""
_HALF = 1 << 32


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
    rounds = _rounds(nodes.Access(state, ()), domain)
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
    moved = _plus(_times(_word(nodes.Access(state, ())), _const(_STEP)), _const(_SHIFT))
    value = nodes.Cast(result.dtype, moved)
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


# --------------------------------------------------------------------- arithmetic


def _const(value: int) -> nodes.Expr:
    return nodes.Const(value, DType.UINT64)


def _word(value: nodes.Expr) -> nodes.Expr:
    return nodes.Cast(DType.UINT64, value)


def _plus(a: nodes.Expr, b: nodes.Expr) -> nodes.Expr:
    return nodes.Binary("add", a, b)


def _times(a: nodes.Expr, b: nodes.Expr) -> nodes.Expr:
    return nodes.Binary("mul", a, b)


def _above(a: nodes.Expr, b: nodes.Expr) -> nodes.Expr:
    """The bits of a word above a power of 2."""
    return nodes.Binary("floordiv", a, b)


def _swapped(x: nodes.Expr) -> nodes.Expr:
    """A word with its halves exchanged."""
    return _plus(_above(x, _const(_HALF)), _times(x, _const(_HALF)))


def _rounds(state: nodes.Expr, domain: Sequence[nodes.Index]) -> tuple[nodes.Local, ...]:
    """The hash at a point of the domain, step by step; the last one is the random word."""
    place = _const(0)
    for index in domain:
        place = _plus(_times(place, _word(index.extent)), _word(index))
    counter = _plus(_times(_word(state), _const(_STEP)), place)
    y = nodes.Local("y", _times(counter, _const(_KEY)))
    z = nodes.Local("z", _plus(y, _const(_KEY)))
    steps = [y, z]
    x: nodes.Expr = y
    for k, term in enumerate((y, z, y)):
        squared = nodes.Local(f"x{k}", _plus(_times(x, x), term))
        x = nodes.Local(f"r{k}", _swapped(squared))
        steps += [squared, x]
    fourth = nodes.Local("x3", _plus(_times(x, x), z))
    x = nodes.Local("r3", _swapped(fourth))
    lower = _above(_plus(_times(x, x), y), _const(_HALF))
    return (*steps, fourth, x, nodes.Local("word", _plus(fourth, lower)))


def _integer(word: nodes.Expr, low: nodes.Expr, high: nodes.Expr) -> nodes.Expr:
    """One of the integers from `low` to `high`."""
    span = _plus(nodes.Binary("sub", _word(high), _word(low)), _const(1))
    return _plus(low, nodes.Cast(DType.INT, nodes.Binary("mod", word, span)))


def _real(word: nodes.Expr, low: nodes.Expr, high: nodes.Expr) -> nodes.Expr:
    """A real from 24 bits of the word, in two parts that every type of reals can hold."""
    upper = nodes.Cast(DType.REAL, _above(word, _const(1 << 52)))
    bits = nodes.Binary("mod", _above(word, _const(1 << 40)), _const(1 << 12))
    part = nodes.Const(2.0**-12, DType.REAL)
    unit = _times(_plus(upper, _times(nodes.Cast(DType.REAL, bits), part)), part)
    return _plus(low, _times(unit, nodes.Binary("sub", high, low)))
