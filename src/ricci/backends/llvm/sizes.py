"""Sizes: numbers, or canonical expressions of symbols whose values a kernel reads when it runs.

What is a number stays one, so that a program without symbols is compiled as if there were none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ir import shapes
from ...ir.loops import Kernel, Reduce, Scatter, expressions_of, tensors_touched
from ...ir.nodes import Const, Expr
from ...ir.rewrite import free_symbols

Size = int | Expr

_LIKELY = 64
"""What a symbol is taken to be where code is planned for all its values, if its bound allows."""


def size_of(extent: Expr) -> Size:
    """An extent as a size."""
    return int(extent.value) if isinstance(extent, Const) else extent


def sizes_of(shape: Iterable[Expr]) -> tuple[Size, ...]:
    """A shape as sizes."""
    return tuple(map(size_of, shape))


def expression(size: Size) -> Expr:
    """A size as an expression."""
    return shapes.constant(size) if isinstance(size, int) else size


def plus(a: Size, b: Size) -> Size:
    """`a + b`."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return size_of(shapes.add(expression(a), expression(b)))


def minus(a: Size, b: Size) -> Size:
    """`a - b`."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return size_of(shapes.sub(expression(a), expression(b)))


def times(a: Size, b: Size) -> Size:
    """`a * b`."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return size_of(shapes.mul(expression(a), expression(b)))


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes."""
    total: Size = 1
    for size in sizes:
        total = times(total, size)
    return total


def quotient(a: Size, k: int) -> Size:
    """`a / k` rounded down."""
    if isinstance(a, int):
        return a // k
    return size_of(shapes.floordiv(a, shapes.constant(k)))


def least(a: Size, b: Size) -> Size:
    """The smaller one."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return size_of(shapes.minimum(expression(a), expression(b)))


def most(a: Size, b: Size) -> Size:
    """The larger one."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return size_of(shapes.maximum(expression(a), expression(b)))


def row_major(shape: Sequence[Size]) -> tuple[Size, ...]:
    """Strides in elements."""
    strides: list[Size] = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        size = shape[d + 1]
        strides[d] = times(strides[d + 1], max(size, 1) if isinstance(size, int) else size)
    return tuple(strides)


# ------------------------------------------------------------------ what is known


def limits(size: Size) -> tuple[float, float]:
    """The least and the greatest value that a size can have."""
    return (size, size) if isinstance(size, int) else shapes.interval(size)


def lower(size: Size) -> float:
    """The least value that a size can have."""
    return limits(size)[0]


def upper(size: Size) -> float:
    """The greatest value that a size can have."""
    return limits(size)[1]


def is_open(kernel: Kernel) -> bool:
    """Whether anything in a kernel depends on symbols."""
    sizes = [e for t in tensors_touched(kernel) for e in t.shape]
    if isinstance(kernel, Reduce):
        sizes += [i.extent for i in (*kernel.domain, *kernel.reduced)]
    elif isinstance(kernel, Scatter):
        sizes += [i.extent for i in kernel.assignment.domain]
    return bool(free_symbols(*sizes, *expressions_of(kernel)))


def likely(size: Size) -> int:
    """A value that a size may well have: what plans are made for."""
    if isinstance(size, int):
        return size
    guess = {s: int(min(_LIKELY, upper(s))) for s in free_symbols(size)}
    try:
        return max(1, shapes.evaluate(size, guess))
    except (ArithmeticError, ValueError):
        return _LIKELY
