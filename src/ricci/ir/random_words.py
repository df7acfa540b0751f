"""Random words: a formula of a state and of a place, so that all executors, whatever their types
and threads, draw the same ones.

Word `i` is the hash of `state * STEP + i` under one key, four rounds of squaring and swapping
halves in 64-bit arithmetic that wraps (B. Widynski, "Squares: a fast counter-based RNG", 2020),
and a fifth for the lower half. A state moves on by a linear congruence.
"""

from __future__ import annotations

from ..dtypes import DType
from .nodes import Binary, Cast, Const, Expr, Local

_KEY = 0xD2B74E1C93A658F1
"""Odd, and without a pattern in its digits, as the hash demands."""
_STEP = 6364136223846793005
_SHIFT = 1442695040888963407
"""The multiplier and increment of the congruence: D. Knuth's, of full period."""
_HALF = 1 << 32


def const(value: int) -> Expr:
    """A word."""
    return Const(value, DType.UINT64)


def word(value: Expr) -> Expr:
    """An integer as a word."""
    return Cast(DType.UINT64, value)


def plus(a: Expr, b: Expr) -> Expr:
    return Binary("add", a, b)


def times(a: Expr, b: Expr) -> Expr:
    return Binary("mul", a, b)


def place(parts: list[tuple[Expr, Expr]]) -> Expr:
    """The number of a point, from indices and their extents, the outermost first."""
    number = const(0)
    for index, extent in parts:
        number = plus(times(number, word(extent)), word(index))
    return number


def advanced(state: Expr) -> Expr:
    """The state after this one."""
    return plus(times(word(state), const(_STEP)), const(_SHIFT))


def rounds(state: Expr, number: Expr) -> tuple[Local, ...]:
    """The hash of a place under a state, step by step; the last one is the random word."""
    counter = plus(times(word(state), const(_STEP)), number)
    y = Local("y", times(counter, const(_KEY)))
    z = Local("z", plus(y, const(_KEY)))
    steps = [y, z]
    x: Expr = y
    for k, term in enumerate((y, z, y)):
        squared = Local(f"x{k}", plus(times(x, x), term))
        x = Local(f"r{k}", _swapped(squared))
        steps += [squared, x]
    fourth = Local("x3", plus(times(x, x), z))
    x = Local("r3", _swapped(fourth))
    lower = _above(plus(times(x, x), y), const(_HALF))
    return (*steps, fourth, x, Local("word", plus(fourth, lower)))


def below(random: Expr, count: Expr) -> Expr:
    """One of the words from 0 to below `count`."""
    return Binary("mod", random, count)


def unit(random: Expr, dtype: DType) -> Expr:
    """A real from 0 to below 1: 24 bits of a word, in two parts that every type of reals holds."""
    upper = Cast(dtype, _above(random, const(1 << 52)))
    bits = Binary("mod", _above(random, const(1 << 40)), const(1 << 12))
    part = Const(2.0**-12, dtype)
    return times(plus(upper, times(Cast(dtype, bits), part)), part)


def _above(a: Expr, b: Expr) -> Expr:
    """The bits of a word above a power of 2."""
    return Binary("floordiv", a, b)


def _swapped(x: Expr) -> Expr:
    """A word with its halves exchanged."""
    return plus(_above(x, const(_HALF)), times(x, const(_HALF)))
