"""Recognises sums of products: which indices are rows, columns, batch and reduced.

    result[batch, row, column] = sum over k of  left[batch, row, k] * right[batch, column, k]

Any grouping of the factors of a product into two operands is such a form. Nothing is asked of the
subscripts: an operand is a whole expression of its indices, with the guards of its accesses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from ...dtypes import DType
from ...ir.loops import Reduce
from ...ir.nodes import Access, Binary, Cast, Const, Expr, Index, Local, Select, Unary
from ...ir.rewrite import free_indices, has_guard, nodes_through_locals
from ...records import cached_property, dataclass
from .contraction_transpose import Loading
from .emit_access import extent_of, linear
from .kernels import Strides
from .sizes import likely, row_major, sizes_of
from .words import Words

_MOST_FACTORS = 8
TYPES = (DType.FLOAT32, DType.FLOAT64)


@dataclass(frozen=True)
class Operand:
    """One side of the product: an expression, and the result's indices that it alone has.

    `indices` are ordered by the stride of the result, the largest first.
    """

    value: Expr
    indices: tuple[Index, ...]
    flip: bool = False
    """Whether the highest bit of each byte is to be changed."""

    @cached_property
    def extent(self) -> int:
        return size(self.indices)

    @property
    def access(self) -> Access | None:
        """The operand, if it is nothing but an access whose elements all exist."""
        return self.value if isinstance(self.value, Access) else None

    @property
    def stored(self) -> Access | None:
        """The operand as memory has it, if it is an access but for what `loading` says."""
        value = self.value
        if isinstance(value, Cast) and value.dtype is DType.FLOAT32:
            inner = value.operand
            narrow = inner.dtype in (DType.FLOAT16, DType.BFLOAT16)
            return inner if narrow and isinstance(inner, Access) else None
        return self.access

    @property
    def loading(self) -> Loading:
        """What makes elements of the operand from those in memory."""
        if self.flip:
            return "flip"
        if self.stored is None or self.stored is self.value:
            return "plain"
        return "float16" if self.stored.dtype is DType.FLOAT16 else "bfloat16"


@dataclass(frozen=True, slots=True)
class Form:
    """A kernel as a contraction: sums of `left * right`, times `scale`.

    `batch` are the result's indices in both or neither operand. If there are `words`, elements of
    the operands are words of several factors, and the right one fills the vectors.
    """

    kernel: Reduce
    dtype: DType
    left: Operand
    right: Operand
    batch: tuple[Index, ...]
    reduced: tuple[Index, ...]
    scale: float
    words: Words | None = None

    def sides(self, vector: Literal["left", "right"]) -> tuple[Operand, Operand]:
        """The operands of rows and of columns, where that of a side fills the vectors."""
        return (self.left, self.right) if vector == "right" else (self.right, self.left)


def size(indices: Iterable[Index]) -> int:
    """How many points some indices span."""
    return math.prod([extent_of(i) for i in indices])


def find_form(kernel: Reduce, strides: Strides) -> Form | None:
    """The kernel as a contraction that moves least memory, or None if it is none."""
    if not is_candidate(kernel, TYPES):
        return None
    parts = list(factors(kernel.values[0]))
    scale = math.prod(float(f.value) for f in parts if isinstance(f, Const))
    parts = [f for f in parts if not isinstance(f, Const)]
    if not 2 <= len(parts) <= _MOST_FACTORS or not _fold_condition(kernel.condition, parts):
        return None
    order = by_stride(kernel, strides)
    forms = [f for f in _splits(kernel, parts, scale, order) if f is not None]
    return min(forms, key=_traffic, default=None)


def is_candidate(kernel: Reduce, types: Sequence[DType]) -> bool:
    """Whether a kernel computes plain sums of one of some types."""
    return (
        kernel.op == "add"
        and len(kernel.targets) == 1
        and bool(kernel.reduced)
        and kernel.values[0].dtype in types
        and kernel.targets[0].tensor.dtype is not DType.BOOL
        and kernel.targets[0].dtype == kernel.results[0].dtype
        and size((*kernel.domain, *kernel.reduced)) > 0
        and not has_guard(*kernel.initial, *kernel.results, kernel.targets[0])
        and not has_guard(*_unused(kernel))
    )


def _unused(kernel: Reduce) -> list[Local]:
    """Locals that no value has, whose guards leave out terms all the same."""
    used = {id(x) for x in nodes_through_locals(*kernel.values)}
    return [x for x in kernel.locals if id(x) not in used]


def factors(expr: Expr) -> Iterator[Expr]:
    """The factors of a product, in the order written; a divisor becomes a reciprocal."""
    match expr:
        case Binary(op="mul", lhs=lhs, rhs=rhs):
            yield from factors(lhs)
            yield from factors(rhs)
        case Binary(op="div", lhs=lhs, rhs=rhs):
            yield from factors(lhs)
            yield Binary("div", Const(1.0, expr.dtype), rhs)
        case Local(value=value):
            yield from factors(value)
        case Unary(op="neg", operand=operand):
            yield Const(-1.0, expr.dtype)
            yield from factors(operand)
        case _:
            yield expr


def _fold_condition(condition: Expr | None, parts: list[Expr]) -> bool:
    """Makes a condition part of factors that know its indices; whether that was possible.

    A term that it leaves out becomes zero, as one that a guard leaves out.
    """
    for test in () if condition is None else _conjuncts(condition):
        needed = set(free_indices(test))
        for k, factor in enumerate(parts):
            if needed <= set(free_indices(factor)):
                parts[k] = Select(test, factor, Const(0.0, factor.dtype))
                break
        else:
            return False
    return not (condition is not None and has_guard(condition))


def _conjuncts(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Binary) and expr.op == "and":
        yield from _conjuncts(expr.lhs)
        yield from _conjuncts(expr.rhs)
    else:
        yield expr


def by_stride(kernel: Reduce, strides: Strides) -> tuple[Index, ...]:
    """The indices of the domain, those of the target's largest strides first: before them those
    along which a thread keeps one element."""
    target = kernel.targets[0]
    steps = strides.get(target.tensor) or row_major(sizes_of(target.tensor.shape))
    found: dict[Index, float] = {}
    for subscript, step in zip(target.subscripts, steps, strict=True):
        for index, factor in linear(subscript.index).steps.items():
            found[index] = abs(factor * likely(step)) or math.inf
    return tuple(sorted(kernel.domain, key=lambda i: -found.get(i, 0)))


def _splits(
    kernel: Reduce, factors: list[Expr], scale: float, order: tuple[Index, ...]
) -> Iterator[Form | None]:
    """All ways to group the factors into two operands, the first factor on the left."""
    for choice in range(1, 1 << (len(factors) - 1)):
        right = [f for k, f in enumerate(factors[1:]) if choice >> k & 1]
        left = [factors[0]] + [f for k, f in enumerate(factors[1:]) if not choice >> k & 1]
        yield _form(kernel, left, right, scale, order)


def _form(
    kernel: Reduce, left: list[Expr], right: list[Expr], scale: float, order: tuple[Index, ...]
) -> Form | None:
    of_left, of_right = set(free_indices(*left)), set(free_indices(*right))
    rows = tuple(i for i in order if i in of_left and i not in of_right)
    columns = tuple(i for i in order if i in of_right and i not in of_left)
    if not any(i in of_left and i in of_right for i in kernel.reduced):
        return None
    return Form(
        kernel,
        kernel.values[0].dtype,
        Operand(product_of(left), rows),
        Operand(product_of(right), columns),
        tuple(i for i in order if i not in rows and i not in columns),
        kernel.reduced,
        scale,
    )


def product_of(factors: Sequence[Expr]) -> Expr:
    """The product of some expressions."""
    result = factors[0]
    for factor in factors[1:]:
        result = Binary("mul", result, factor)
    return result


def _traffic(form: Form) -> int:
    """Elements of both operands together, each packed once."""
    shared = size((*form.batch, *form.reduced))
    return shared * (form.left.extent + form.right.extent)
