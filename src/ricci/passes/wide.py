"""What follows a sum of narrow numbers, in float32 until it is stored.

Requires: kernels in their final form. Ensures: what a kernel makes of sums that it holds in
float32, and stores as `float16` or `bfloat16`, is computed in float32 and rounded once, as if the
operations that follow the sum were one. Does not: touch kernels that add nothing up, or what is in
groups.

Example: `bfloat16(total) * scale + offset`, both of bfloat16, becomes
`bfloat16(total * float32(scale) + float32(offset))`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..dtypes import DType, from_bfloat16, to_dtype
from ..ir.loops import Action, Choose, Reduce, Repeat
from ..ir.nodes import COMPARISONS, Apply, Binary, Cast, Const, Expr, Local, Select, Unary
from ..records import replace

NARROW = (DType.FLOAT16, DType.BFLOAT16)
_ARITHMETIC = ("add", "sub", "mul", "div", "min", "max")
_STEPS = (
    "sign", "round", "floor", "ceil", "trunc", "frac", "fmod", "remainder", "logb", "nextafter",
)  # fmt: skip
"""Functions whose results may be far from each other if arguments are not the same."""


def hold_in_float32(actions: Sequence[Action]) -> list[Action]:
    """The actions, with such results."""
    out: list[Action] = []
    for action in actions:
        match action:
            case Repeat():
                before, body = map(tuple, map(hold_in_float32, (action.before, action.body)))
                action = replace(action, before=before, body=body)
            case Choose():
                then, other = map(tuple, map(hold_in_float32, (action.then, action.otherwise)))
                action = replace(action, then=then, otherwise=other)
            case Reduce() if _holds_sums(action):
                action = _held(action)
        out.append(action)
    return out


def _holds_sums(kernel: Reduce) -> bool:
    """Whether sums of a kernel are wider than what is made of them."""
    return (
        kernel.op == "add"
        and bool(kernel.reduced)
        and all(a.dtype is DType.FLOAT32 for a in kernel.accumulators)
        and all(r.dtype in NARROW for r in kernel.results)
    )


def _held(kernel: Reduce) -> Reduce:
    wide = _Wide()
    for local in kernel.accumulators:
        wide.known[id(local)] = local
    results = tuple(Cast(r.dtype, wide.of(r)) for r in kernel.results)
    return replace(kernel, results=results)


class _Wide:
    """Expressions of narrow numbers as those of float32."""

    def __init__(self) -> None:
        self.known: dict[int, Expr] = {}
        """By the identity of what they were."""

    def of(self, expr: Expr) -> Expr:
        """An expression without the roundings in it; of a type that is not narrow, the same but for
        what is compared."""
        if id(expr) not in self.known:
            self.known[id(expr)] = self._of(expr)
        return self.known[id(expr)]

    def _of(self, expr: Expr) -> Expr:
        match expr:
            case Select(condition, then, otherwise) if expr.dtype in NARROW:
                return Select(self.of(condition), self.of(then), self.of(otherwise))
            case Binary(op=op, lhs=lhs, rhs=rhs) if op in COMPARISONS or expr.dtype is DType.BOOL:
                return Binary(op, self.of(lhs), self.of(rhs))
            case Unary(op="not", operand=operand):
                return Unary("not", self.of(operand))
        if expr.dtype not in NARROW:
            return expr
        match expr:
            case Const(value=value):
                return Const(_rounded(float(value), expr.dtype), DType.FLOAT32)
            case Binary(op=op, lhs=lhs, rhs=rhs) if op in _ARITHMETIC:
                return Binary(op, self.of(lhs), self.of(rhs))
            case Unary(op="neg", operand=operand):
                return Unary("neg", self.of(operand))
            case Apply(function, arguments) if function not in _STEPS:
                return Apply(function, tuple(map(self.of, arguments)))
            case Local(name=name, value=value):
                return Local(name, self.of(value))
            case Cast(operand=operand) if operand.dtype is DType.FLOAT32:
                return operand
        return Cast(DType.FLOAT32, expr)


def _rounded(value: float, dtype: DType) -> float:
    """The nearest number of a narrow type."""
    found = to_dtype(np.array(value), dtype.numpy())
    return float(from_bfloat16(found) if dtype is DType.BFLOAT16 else found)
