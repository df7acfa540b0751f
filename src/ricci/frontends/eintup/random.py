"""`RANDOM(low, high, kind)`: one number per combination of the eintups of its statement.

It is a formula (`ir.random_words`) of the seed, of the number of its occurrence in the program and
of the combination: whoever computes it, in whatever order, draws the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...diagnostics import error
from ...dtypes import DType
from ...ir import nodes as ir
from ...ir import random_words as words
from ...ir import shapes
from ...records import dataclass
from . import syntax as s
from .lower_nest import Nest
from .uses import walk

_APART = 0x9E3779B97F4A7C15
"""What separates the words of two occurrences: 2^64 over the golden ratio, odd."""


NO_INTEGER = "there is no integer from the first bound up to, without, the second"


@dataclass
class Draws:
    """The occurrences of `RANDOM` in a program, numbered; `seed` has no rank."""

    seed: ir.Tensor
    numbers: Mapping[int, int]
    used: bool = False

    def draw(
        self, value: s.Random, low: ir.Expr, high: ir.Expr, dtype: DType, nest: Nest
    ) -> ir.Expr:
        """A number from `low` up to, without, `high`."""
        self.used = True
        word = self._word(value, nest)
        if value.kind == "FLOAT":
            return _real(word, low, high, dtype)
        return _integer(word, low, high, dtype, value, nest)

    def _word(self, value: s.Random, nest: Nest) -> ir.Expr:
        place = words.place([(i, i.extent) for i in nest.domain])
        seed = words.plus(
            ir.Access(self.seed, ()), words.const(self.numbers[id(value)] * _APART % 2**64)
        )
        rounds = words.rounds(seed, place)
        nest.locals += rounds
        return rounds[-1]


def numbered(statements: tuple[s.Statement, ...]) -> dict[int, int]:
    """The occurrences of `RANDOM`, by identity, with their numbers."""
    found = [n for x in statements for n in walk(x) if isinstance(n, s.Random)]
    return {id(node): number for number, node in enumerate(found)}


def _real(word: ir.Expr, low: ir.Expr, high: ir.Expr, dtype: DType) -> ir.Expr:
    """What rounding makes equal to `high` is `low`."""
    span = ir.Binary("sub", high, low)
    result = words.plus(low, words.times(words.unit(word, dtype), span))
    return ir.Select(ir.Binary("lt", result, high), result, low)


def _integer(
    word: ir.Expr, low: ir.Expr, high: ir.Expr, dtype: DType, value: s.Random, nest: Nest
) -> ir.Expr:
    """Where nothing is between the bounds, the division by zero is found at run time."""
    span: ir.Expr = ir.Binary("sub", words.word(high), words.word(low))
    sure = _is_below(low, high)
    if sure is False and all(shapes.less(ir.ZERO, i.extent) for i in nest.domain):
        raise error("E0419", NO_INTEGER, value.span)
    if not sure:
        span = ir.Select(ir.Binary("lt", low, high), span, words.const(0))
    return words.plus(low, ir.Cast(dtype, words.below(word, span)))


def _is_below(low: ir.Expr, high: ir.Expr) -> bool | None:
    """Whether one bound is below the other; none if that depends on more than numbers and sizes."""
    plain = [_exact(e) for e in (low, high)]
    if plain[0] is None or plain[1] is None:
        return None
    known = shapes.compare("lt", plain[0], plain[1])
    return bool(known.value) if isinstance(known, ir.Const) else None


def _exact(value: ir.Expr) -> ir.Expr | None:
    """A literal or a size in 64 bits."""
    match value:
        case ir.Const(number):
            return ir.integer(int(number))
        case ir.Cast(_, operand) if operand.dtype is DType.INT:
            return operand
        case _:
            return None
