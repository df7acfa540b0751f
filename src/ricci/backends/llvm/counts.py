"""Arithmetic on i64 operands that are numbers where they are known, else names of values."""

from __future__ import annotations

from .builder import Builder

Count = str | int


def product(b: Builder, x: Count, y: Count) -> Count:
    """`x * y`."""
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    if 0 in (x, y):
        return 0
    if 1 in (x, y):
        return y if x == 1 else x
    return b.pure(f"mul nsw i64 {x}, {y}", str(x), str(y))


def difference(b: Builder, x: Count, y: Count) -> Count:
    """`x - y`."""
    if isinstance(x, int) and isinstance(y, int):
        return x - y
    return x if y == 0 else b.pure(f"sub nsw i64 {x}, {y}", str(x), str(y))


def quotient(b: Builder, x: Count, y: Count) -> Count:
    """`x / y` rounded down; neither is negative, and `y` is not zero."""
    if isinstance(x, int) and isinstance(y, int):
        return x // y
    return x if y == 1 else b.pure(f"udiv i64 {x}, {y}", str(x), str(y))


def rounded_up(b: Builder, x: Count, y: int) -> Count:
    """`x / y` rounded up."""
    if isinstance(x, int):
        return -(-x // y)
    return quotient(b, b.pure(f"add nsw i64 {x}, {y - 1}", x), y) if y > 1 else x


def multiple(b: Builder, x: Count, y: int) -> Count:
    """The largest multiple of `y` that is not above `x`."""
    return product(b, quotient(b, x, y), y)


def least(b: Builder, x: Count, y: Count) -> Count:
    """The smaller one."""
    if isinstance(x, int) and isinstance(y, int):
        return min(x, y)
    return x if x == y else b.call("i64", "llvm.smin.i64", f"i64 {x}", f"i64 {y}")


def most(b: Builder, x: Count, y: Count) -> Count:
    """The larger one."""
    if isinstance(x, int) and isinstance(y, int):
        return max(x, y)
    return x if x == y else b.call("i64", "llvm.smax.i64", f"i64 {x}", f"i64 {y}")
