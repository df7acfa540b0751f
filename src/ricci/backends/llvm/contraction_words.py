"""Recognises sums of products of narrow numbers, and puts several factors in a word.

    result[row, column] = sum over k of  left[row, k] * right[column, k]

becomes, for words of four, a sum over `k / 4` whose operands are words: integers of 32 bits made
of `left[row, 4 * k]`, `left[row, 4 * k + 1]` and so on. From there it is a contraction like others;
its register tile multiplies words (`words`). What lies beyond the end of k counts as zero. Factors
are small integers, or numbers of bfloat16 that are read as they are, whose bits words are made of.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...dtypes import DType
from ...ir.loops import Reduce
from ...ir.nodes import (
    Access,
    Binary,
    Cast,
    Const,
    Expr,
    Index,
    Local,
    Select,
    Subscript,
    Tensor,
    Unary,
    integer,
)
from ...ir.rewrite import accesses, free_indices, has_guard, substitute
from ...records import replace
from .contraction_form import Form, Operand, by_stride, factors, is_candidate, size
from .contraction_space import flat_form
from .emit_access import Range, extent_of, is_within, shape_of
from .emit_parts import View
from .emit_types import limits, width
from .kernels import Strides
from .sizes import Size, row_major
from .target import Target
from .words import Words, choose, choose_matrices, choose_numbers

_TYPES = (DType.INT32, DType.UINT32, DType.FLOAT32)
_OFFSET = 128
_WIDE = 16
"""Results that fill vectors whatever the other side has."""


def find_words(
    kernel: Reduce, strides: Strides, target: Target, matrices: bool = False
) -> Form | None:
    """The kernel as a contraction of words, or None if it is none; its right operand is to fill
    the vectors. Those of `matrices` are for registers that hold them."""
    if not is_candidate(kernel, _TYPES) or kernel.condition is not None:
        return None
    sides = list(factors(kernel.values[0]))
    if len(sides) != 2 or any(isinstance(x, Const) for x in sides):
        return None
    left, right = _sides(kernel, sides, by_stride(kernel, strides))
    if kernel.values[0].dtype is DType.FLOAT32:
        is_narrow = all(map(_is_number, sides))
        words = choose_numbers(target, matrices) if is_narrow else None
    else:
        by = choose_matrices if matrices else choose
        words = by(_bounds(left.value), _bounds(right.value), target)
    if words is not None and words.offset and has_guard(left.value):
        left, right = right, left  # what a guard leaves out is zero, and no byte is to be 128 then
        words = Words("vpdpwssd") if has_guard(left.value) else words
    if words is None or max(left.extent, right.extent) < 2:
        return None
    own = {*left.indices, *right.indices}
    batch = tuple(i for i in by_stride(kernel, strides) if i not in own)
    if words.is_real and min(left.extent, right.extent) < 2 <= size(batch):
        return None  # of a few vectors each, which other code multiplies as they are
    form = Form(kernel, kernel.values[0].dtype, left, right, batch, kernel.reduced, 1.0)
    return _in_words(form, words, strides)


def in_pairs(form: Form, strides: Strides, target: Target, matrices: bool) -> Form | None:
    """A form whose factors are numbers of bfloat16 as one of words; None if it is none, or no
    instruction, of `matrices` or not, multiplies them."""
    if not all(_is_number(o.value) for o in (form.left, form.right)):
        return None
    words = choose_numbers(target, matrices)
    return None if words is None else _in_words(form, words, strides)


def _in_words(form: Form, words: Words, strides: Strides) -> Form | None:
    """A form of words, or None if there is no index along which factors share one."""
    left, right = form.left, form.right
    index = _grouped(form.kernel, (left.value, right.value), words.count, strides)
    if index is None:
        return None
    inside = Index(index.name, integer(-(-extent_of(index) // words.count)))
    free = None if words.is_real else right if has_guard(right.value) else left
    return replace(
        form,
        left=_operand(left, index, inside, words, words.offset, free is left, strides),
        right=_operand(right, index, inside, words, False, free is right, strides),
        reduced=tuple(inside if k is index else k for k in form.reduced),
        words=words,
    )


def _is_number(expr: Expr) -> bool:
    """Whether a factor is an element of bfloat16 in memory."""
    return (
        isinstance(expr, Cast)
        and isinstance(expr.operand, Access)
        and expr.operand.dtype is DType.BFLOAT16
    )


def with_views(form: Form, constant: frozenset[Tensor]) -> frozenset[Tensor]:
    """The constant tensors, and what shows their memory as words."""
    return constant | {t for t in _views(form) if t.base in constant}


def with_strides(form: Form, strides: Strides) -> Strides:
    """The strides of tensors, and of what shows their memory as words."""
    found: dict[Tensor, tuple[Size, ...]] = {}
    for view in _views(form):
        count = width(view.dtype) // width(view.base.dtype)
        steps = [n for n in strides.get(view.base, ()) if isinstance(n, int)]
        if steps:
            found[view] = tuple(n // count or min(n, 1) for n in steps)
    return {**strides, **found} if found else strides


def _views(form: Form) -> list[View]:
    read = {a.tensor for side in (form.left, form.right) for a in accesses(side.value)}
    return [t for t in read if isinstance(t, View)]


def _sides(
    kernel: Reduce, sides: Sequence[Expr], order: Sequence[Index]
) -> tuple[Operand, Operand]:
    """The two operands; the right one has the index along which results are contiguous, unless
    that has few values."""
    free = [set(free_indices(x)) for x in sides]
    own = [tuple(i for i in order if i in free[k] and i not in free[1 - k]) for k in range(2)]
    first, second = (Operand(x, indices) for x, indices in zip(sides, own, strict=True))
    last = order[-1] if order else None
    if last in own[1] and second.extent >= _WIDE:
        return first, second
    if (last in own[0] and first.extent > 4) or second.extent * 4 < first.extent:
        return second, first
    return first, second


def _bounds(expr: Expr) -> Range:
    """The least and the greatest value of an integer expression."""
    low, high = _exact_bounds(expr)
    least, greatest = limits(expr.dtype) if expr.dtype.is_int else (0, 1)
    return (low, high) if least <= low and high <= greatest else (least, greatest)


def _exact_bounds(expr: Expr) -> Range:
    match expr:
        case Const(value=int(value)):
            return value, value
        case Local(value=value):
            return _bounds(value)
        case Cast(operand=operand) if not operand.dtype.is_real:
            return _bounds(operand)
        case Select(then=then, otherwise=otherwise):
            (a, b), (c, d) = _bounds(then), _bounds(otherwise)
            return min(a, c), max(b, d)
        case Unary(op="neg", operand=operand):
            low, high = _bounds(operand)
            return -high, -low
        case Binary(op="add" | "sub" | "mul" | "min" | "max" as op, lhs=lhs, rhs=rhs):
            return _of_binary(op, _bounds(lhs), _bounds(rhs))
    return -math.inf, math.inf


def _of_binary(op: str, a: Range, b: Range) -> Range:
    match op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _grouped(kernel: Reduce, sides: Sequence[Expr], count: int, strides: Strides) -> Index | None:
    """The reduced index whose neighbouring values share a word: one that no guard depends on, whose
    words are full, but for a quarter, without a rest if there is one, and contiguous in memory."""
    known = [k for k in kernel.reduced if extent_of(k) > 1 and not _is_guarded(k, sides)]
    known = [k for k in known if 3 * (-extent_of(k) % count) <= extent_of(k)]
    return min(
        known, key=lambda k: (extent_of(k) % count > 0, _step(k, sides, strides)), default=None
    )


def _is_guarded(index: Index, sides: Sequence[Expr]) -> bool:
    return any(
        index in free_indices(s.index) and not is_within(s.index, extent)
        for access in accesses(*sides)
        for s, extent in zip(access.subscripts, shape_of(access.tensor.shape), strict=True)
    )


def _step(index: Index, sides: Sequence[Expr], strides: Strides) -> int:
    """The least distance in memory of neighbouring values."""
    steps = (abs(flat_form(a, strides).steps.get(index, 0)) for a in accesses(*sides))
    return min((s for s in steps if s), default=1 << 30)


def _operand(
    side: Operand,
    index: Index,
    inside: Index,
    words: Words,
    offset: bool,
    free: bool,
    strides: Strides,
) -> Operand:
    """A side in words: read as they are if memory has them, else put together. Beyond the end of
    the index it has anything if it is `free`, since the other one has zeros."""
    stored = _stored(side.value, index, inside, words.count, strides)
    if stored is not None:
        return Operand(stored, side.indices, offset)
    return Operand(_word(side.value, index, inside, words, offset, free), side.indices)


def _stored(expr: Expr, index: Index, inside: Index, count: int, strides: Strides) -> Access | None:
    """A factor whose words lie in memory: narrow integers, contiguous along an index."""
    if not (isinstance(expr, Cast) and isinstance(expr.operand, Access)):
        return None
    access = expr.operand
    along = [d for d, s in enumerate(access.subscripts) if index in free_indices(s.index)]
    if len(along) != 1 or width(access.dtype) * count != 4 or extent_of(index) % count:
        return None
    (d,) = along
    place, extents = access.subscripts[d], list(shape_of(access.tensor.shape))
    steps = strides.get(access.tensor) or row_major(extents)
    apart = [n for k, n in enumerate(steps) if k != d and extents[k] > 1]
    if place.index is not index or place.rule is not None or steps[d] != 1 or extents[d] % count:
        return None
    if any(not isinstance(n, int) or n % count for n in apart):
        return None
    extents[d] //= count
    shape = tuple(map(integer, extents))
    view = View(f"{access.tensor.name}.words", _dtype(expr), shape, base=access.tensor)
    subscripts = list(access.subscripts)
    subscripts[d] = Subscript(inside)
    return Access(view, tuple(subscripts))


def _word(expr: Expr, index: Index, inside: Index, words: Words, offset: bool, free: bool) -> Expr:
    """The word of an operand: its factors at `count` neighbouring values of an index."""
    expr = _bits(expr) if words.is_real else expr
    result: Expr | None = None
    for number, part in enumerate(_parts(expr, index, inside, words.count, free)):
        if offset:
            part = Binary("add", part, Const(_OFFSET, expr.dtype))
        narrow = DType.UINT8 if words.count == 4 else DType.UINT16
        moved: Expr = Cast(expr.dtype, Cast(narrow, part))
        if number:
            moved = Binary("mul", moved, _const(1 << (32 // words.count * number), expr.dtype))
        result = moved if result is None else Binary("add", result, moved)
    assert result is not None
    return result


def _dtype(expr: Expr) -> DType:
    """The type of a factor's words."""
    return DType.INT32 if expr.dtype is DType.FLOAT32 else expr.dtype


def _bits(expr: Expr) -> Expr:
    """The bits of a factor that is a number of bfloat16."""
    assert isinstance(expr, Cast) and isinstance(expr.operand, Access)
    access = expr.operand
    base = access.tensor
    view = View(f"{base.name}.bits", DType.UINT16, base.shape, base=base)
    return Cast(DType.INT32, replace(access, tensor=view))


def _parts(expr: Expr, index: Index, inside: Index, count: int, free: bool) -> Iterator[Expr]:
    """The factors of a word; beyond the end of the index zero, or the last factor if `free`."""
    extent = extent_of(index)
    for number in range(count):
        at: Expr = Binary("mul", inside, integer(count))
        at = Binary("add", at, integer(number)) if number else at
        if number < (extent % count or count):
            yield substitute(expr, {index: at})
        else:
            last = Binary("min", at, integer(extent - 1))
            value = substitute(expr, {index: last})
            yield (
                value
                if free
                else Select(Binary("lt", at, integer(extent)), value, Const(0, expr.dtype))
            )


def _const(value: int, dtype: DType) -> Expr:
    low, high = limits(dtype)
    return Const((value - low) % (high - low + 1) + low, dtype)
