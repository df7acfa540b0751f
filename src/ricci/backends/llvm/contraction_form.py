"""Recognises sums of products: which indices are rows, columns, batch and reduced.

    result[batch, row, column] = sum over k of  left[batch, row, k] * right[batch, column, k]

Any grouping of the factors of a product into two operands is such a form. Nothing is asked of the
subscripts: an operand is a whole expression of its indices, with the guards of its accesses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...dtypes import DType
from ...ir.loops import Reduce
from ...ir.nodes import Access, Binary, Const, Expr, Index, Local, Select, Unary
from ...ir.rewrite import free_indices, has_guard, nodes_through_locals
from .emit_access import extent_of, linear
from .kernels import Strides
from .sizes import likely, row_major, sizes_of

_MOST_FACTORS = 8
_TYPES = (DType.FLOAT32, DType.FLOAT64)


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of the product: an expression, and the result's indices that it alone has.

    `indices` are ordered by the stride of the result, the largest first.
    """

    value: Expr
    indices: tuple[Index, ...]

    @property
    def extent(self) -> int:
        return size(self.indices)

    @property
    def access(self) -> Access | None:
        """The operand, if it is nothing but an access whose elements all exist."""
        return self.value if isinstance(self.value, Access) else None


@dataclass(frozen=True, slots=True)
class Form:
    """A kernel as a contraction: sums of `left * right`, times `scale`.

    `batch` are the result's indices in both or neither operand.
    """

    kernel: Reduce
    dtype: DType
    left: Operand
    right: Operand
    batch: tuple[Index, ...]
    reduced: tuple[Index, ...]
    scale: float


def size(indices: Iterable[Index]) -> int:
    """How many points some indices span."""
    return math.prod(extent_of(i) for i in indices)


def find_form(kernel: Reduce, strides: Strides) -> Form | None:
    """The kernel as a contraction that moves least memory, or None if it is none."""
    if not _is_candidate(kernel):
        return None
    factors = list(_factors(kernel.values[0]))
    scale = math.prod(float(f.value) for f in factors if isinstance(f, Const))
    factors = [f for f in factors if not isinstance(f, Const)]
    if not 2 <= len(factors) <= _MOST_FACTORS or not _fold_condition(kernel.condition, factors):
        return None
    order = _by_stride(kernel, strides)
    forms = [f for f in _splits(kernel, factors, scale, order) if f is not None]
    return min(forms, key=_traffic, default=None)


def _is_candidate(kernel: Reduce) -> bool:
    return (
        kernel.op == "add"
        and len(kernel.targets) == 1
        and bool(kernel.reduced)
        and kernel.values[0].dtype in _TYPES
        and kernel.targets[0].tensor.dtype.is_real
        and kernel.targets[0].dtype == kernel.results[0].dtype
        and size((*kernel.domain, *kernel.reduced)) > 0
        and not has_guard(*kernel.initial, *kernel.results, kernel.targets[0])
        and not has_guard(*_unused(kernel))
    )


def _unused(kernel: Reduce) -> list[Local]:
    """Locals that no value has, whose guards leave out terms all the same."""
    used = {id(x) for x in nodes_through_locals(*kernel.values)}
    return [x for x in kernel.locals if id(x) not in used]


def _factors(expr: Expr) -> Iterator[Expr]:
    """The factors of a product, in the order written; a divisor becomes a reciprocal."""
    match expr:
        case Binary(op="mul", lhs=lhs, rhs=rhs):
            yield from _factors(lhs)
            yield from _factors(rhs)
        case Binary(op="div", lhs=lhs, rhs=rhs):
            yield from _factors(lhs)
            yield Binary("div", Const(1.0, expr.dtype), rhs)
        case Local(value=value):
            yield from _factors(value)
        case Unary(op="neg", operand=operand):
            yield Const(-1.0, expr.dtype)
            yield from _factors(operand)
        case _:
            yield expr


def _fold_condition(condition: Expr | None, factors: list[Expr]) -> bool:
    """Makes a condition part of factors that know its indices; whether that was possible.

    A term that it leaves out becomes zero, as one that a guard leaves out.
    """
    for part in () if condition is None else _conjuncts(condition):
        needed = set(free_indices(part))
        for k, factor in enumerate(factors):
            if needed <= set(free_indices(factor)):
                factors[k] = Select(part, factor, Const(0.0, factor.dtype))
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


def _by_stride(kernel: Reduce, strides: Strides) -> tuple[Index, ...]:
    """The indices of the domain, those of the target's largest strides first."""
    target = kernel.targets[0]
    steps = strides.get(target.tensor) or row_major(sizes_of(target.tensor.shape))
    found: dict[Index, int] = {}
    for subscript, step in zip(target.subscripts, steps, strict=True):
        for index, factor in linear(subscript.index).steps.items():
            found[index] = abs(factor * likely(step))
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
        Operand(_product(left), rows),
        Operand(_product(right), columns),
        tuple(i for i in order if i not in rows and i not in columns),
        kernel.reduced,
        scale,
    )


def _product(factors: list[Expr]) -> Expr:
    result = factors[0]
    for factor in factors[1:]:
        result = Binary("mul", result, factor)
    return result


def _traffic(form: Form) -> int:
    """Elements of both operands together, each packed once."""
    shared = size((*form.batch, *form.reduced))
    return shared * (form.left.extent + form.right.extent)
