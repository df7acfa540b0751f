"""What a kernel makes of narrow numbers, in float32 until it is stored.

Requires: kernels in their final form. Ensures: numbers of `float16` and `bfloat16` that a kernel
computes are held in float32 until it stores them, so that an expression of several operations is
rounded once. Does not: touch what is stored between kernels, recurrences, or what functions with
steps are of and what is made integers.

Example: `bfloat16(total) * scale + offset`, all of bfloat16, becomes
`bfloat16(total * float32(scale) + float32(offset))`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from ..dtypes import NARROW, DType, from_bfloat16, to_dtype
from ..ir.loops import Action, Choose, Group, Reduce, Repeat
from ..ir.nodes import Access, Apply, Binary, Cast, Const, Expr, Local, Select, Tensor, Unary
from ..ir.rewrite import nodes_through_locals
from ..records import replace
from .fuse import map_expressions
from .siblings import factors_of_pairs

_PLAIN = (
    "add", "sub", "mul", "div", "pow", "min", "max",
    "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor",
)  # fmt: skip
"""Operators whose results are near each other if operands are, or tell of these."""
_STEPS = (
    "sign", "round", "floor", "ceil", "trunc", "frac", "fmod", "remainder", "logb", "nextafter",
)  # fmt: skip
"""Functions whose results may be far from each other if arguments are not the same."""
_EXACT = ("min", "max")
"""Operators whose results are narrow if operands are."""


def hold_in_float32(actions: Sequence[Action], pairs: bool = False) -> list[Action]:
    """The actions, whose kernels round what they store; rows of a group that are multiplied two by
    two stay narrow if the processor does `pairs`."""
    return [_held(a, pairs) for a in actions]


def _held(action: Action, pairs: bool) -> Action:
    def held(actions: Sequence[Action]) -> tuple[Action, ...]:
        return tuple(hold_in_float32(actions, pairs))

    match action:
        case Repeat():
            return replace(action, before=held(action.before), body=held(action.body))
        case Choose():
            return replace(action, then=held(action.then), otherwise=held(action.otherwise))
        case Group():
            return _group(action, pairs)
        case Reduce():
            return hold(action)
    return action


def _group(group: Group, pairs: bool) -> Group:
    """A group of such kernels, whose threads keep rows of float32, but for factors of pairs."""
    wide = {t for t in group.local if t.dtype in NARROW}
    if pairs:
        wide -= set(factors_of_pairs(group))
    kept = {t: replace(t, dtype=DType.FLOAT32) if t in wide else t for t in group.local}

    kernels = tuple(hold(retyped(k, kept)) for k in group.kernels)
    return replace(group, kernels=kernels, local=tuple(kept.values()))


def retyped(kernel: Reduce, now: Mapping[Tensor, Tensor]) -> Reduce:
    """A kernel with tensors of another type for some: what it reads of them has the type that it
    had, and what it stores in them has theirs."""

    def node(expr: Expr) -> Expr:
        found = now.get(expr.tensor) if isinstance(expr, Access) else None
        if not isinstance(expr, Access) or found is None or found is expr.tensor:
            return expr
        return Cast(expr.dtype, replace(expr, tensor=found))

    changed = map_expressions(kernel, node)
    targets = tuple(replace(t, tensor=now.get(t.tensor, t.tensor)) for t in changed.targets)
    results = tuple(
        r if r.dtype is t.dtype else Cast(t.dtype, r)
        for t, r in zip(targets, changed.results, strict=True)
    )
    return replace(changed, targets=targets, results=results)


def hold(kernel: Reduce) -> Reduce:
    """A kernel that rounds what it stores."""
    if kernel.op == "update" or not _rounds_between(kernel):
        return kernel
    wide = _Wide()
    initial = tuple(map(wide.of, kernel.initial))
    accumulators = []
    for old, value in zip(kernel.accumulators, initial, strict=True):
        accumulators.append(old if old.value is value else Local(old.name, value))
        wide.known[id(old)] = old, accumulators[-1]
    return replace(
        kernel,
        initial=initial,
        values=tuple(map(wide.of, kernel.values)),
        accumulators=tuple(accumulators),
        results=tuple(
            Cast(r.dtype, wide.of(r)) if _is_narrow(r) else wide.of(r) for r in kernel.results
        ),
        locals=tuple(cast(Local, wide.now(x)) for x in kernel.locals),
    )


def _rounds_between(kernel: Reduce) -> bool:
    """Whether more is rounded in a kernel than what it stores."""
    found = nodes_through_locals(*kernel.initial, *kernel.values, *kernel.results)
    stored = sum(t.dtype is not DType.FLOAT32 for t in kernel.targets)
    return len({id(x) for x in found if _is_rounded(x)}) > stored


def _is_rounded(expr: Expr) -> bool:
    """Whether an operation has a narrow result that others than that are near."""
    if not _is_narrow(expr):
        return False
    match expr:
        case Binary(op=op):
            return op not in _EXACT
        case Cast(operand=operand):
            return not _is_narrow(operand)
        case Apply():
            return True
    return False


def _is_narrow(expr: Expr) -> bool:
    return expr.dtype in NARROW


class _Wide:
    """Expressions with numbers of float32 for narrow ones."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Expr, Expr]] = {}
        """What expressions were, and are, by their identity."""

    def now(self, expr: Expr) -> Expr:
        """What an expression is, if it was met, else itself."""
        return self.known.get(id(expr), (expr, expr))[1]

    def of(self, expr: Expr) -> Expr:
        """An expression in which nothing is rounded that is not made an integer; itself if there
        is nothing to change."""
        if id(expr) not in self.known:
            self.known[id(expr)] = expr, self._of(expr)
        return self.now(expr)

    def _of(self, expr: Expr) -> Expr:
        match expr:
            case Cast(dtype=DType.FLOAT32, operand=operand) if _is_narrow(operand):
                return expr if isinstance(operand, Access) else self.of(operand)
            case Cast(operand=operand) if _is_narrow(expr):
                is_single = operand.dtype is DType.FLOAT32
                return self.of(operand) if is_single else Cast(DType.FLOAT32, expr)
            case Const(value=value) if _is_narrow(expr):
                return Const(_rounded(float(value), expr.dtype), DType.FLOAT32)
            case Local(name=name, value=value):
                found = self.of(value)
                return expr if found is value else Local(name, found)
            case Binary(op=op, lhs=lhs, rhs=rhs) if op in _PLAIN:
                parts = self._parts(lhs, rhs)
                return expr if parts is None else Binary(op, *parts)
            case Unary(op=op, operand=operand):
                parts = self._parts(operand)
                return expr if parts is None else Unary(op, *parts)
            case Select(condition=condition, then=then, otherwise=otherwise):
                parts = self._parts(condition, then, otherwise)
                return expr if parts is None else Select(*parts)
            case Apply(function=function, arguments=arguments) if function not in _STEPS:
                parts = self._parts(*arguments)
                return expr if parts is None else Apply(function, tuple(parts))
        return Cast(DType.FLOAT32, expr) if _is_narrow(expr) else expr

    def _parts(self, *parts: Expr) -> list[Expr] | None:
        """The parts of an expression; None if they are the same."""
        found = [self.of(x) for x in parts]
        return None if all(a is b for a, b in zip(found, parts, strict=True)) else found


def _rounded(value: float, dtype: DType) -> float:
    """The nearest number of a narrow type."""
    found = to_dtype(np.array(value), dtype.numpy())
    return float((from_bfloat16(found) if dtype is DType.BFLOAT16 else found).item())
