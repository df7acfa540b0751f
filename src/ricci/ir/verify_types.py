"""The dtype rules of expression nodes, one by one."""

from __future__ import annotations

from ..dtypes import DType
from .functions import ARITY, OF_INTEGERS
from .nodes import (
    COMPARISONS,
    LOGICAL,
    Access,
    Apply,
    Binary,
    Cast,
    Const,
    Expr,
    Remap,
    Select,
    Unary,
)


def agree(a: DType, b: DType, concrete: bool) -> bool:
    """Whether two dtypes are one; in a concrete graph `INT` is another word for `INT64`."""
    return a is b or (concrete and {a, b} == {DType.INT, DType.INT64})


def type_fault(node: Expr, concrete: bool) -> str:
    """What is wrong with the dtypes of a node and its direct parts; empty if nothing is."""
    if concrete and node.dtype is DType.REAL:
        return "an abstract dtype"
    match node:
        case Const():
            return _const_fault(node)
        case Binary():
            return _binary_fault(node, concrete)
        case Unary():
            wanted = node.dtype is DType.BOOL if node.op == "not" else node.dtype.is_numeric
            return "" if wanted else f"`{node.op}` of {node.dtype}"
        case Select():
            return _select_fault(node, concrete)
        case Cast():
            fits = _is_arithmetic(node.dtype) and _is_arithmetic(node.operand.dtype)
            return "" if fits else f"a cast of {node.operand.dtype} to {node.dtype}"
        case Apply():
            return _apply_fault(node, concrete)
        case Access():
            return _access_fault(node)
        case _:
            return ""


def _is_arithmetic(dtype: DType) -> bool:
    return dtype.is_numeric or dtype is DType.BOOL


def _const_fault(node: Const) -> str:
    value = node.value
    if node.dtype is DType.STR:
        fits = isinstance(value, str)
    elif node.dtype is DType.BOOL:
        fits = isinstance(value, bool)
    elif node.dtype.is_int:
        infinite = isinstance(value, float) and abs(value) == float("inf")
        fits = infinite or (isinstance(value, int) and not isinstance(value, bool))
    else:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "" if fits else f"{value!r} is no {node.dtype}"


def _binary_fault(node: Binary, concrete: bool) -> str:
    left, right = node.lhs.dtype, node.rhs.dtype
    if not agree(left, right, concrete):
        return f"operands of {left} and {right}"
    if node.op in ("eq", "ne"):
        return ""
    if node.op in LOGICAL:
        return "" if left is DType.BOOL else f"`{node.op}` of {left}"
    if not left.is_numeric or (node.op == "div" and left.is_int):
        return f"`{node.op}` of {left}"
    if node.op == "floordiv" and left.is_real:
        return f"`{node.op}` of {left}"
    return "" if node.op in COMPARISONS or node.dtype is left else "a dtype of its own"


def _select_fault(node: Select, concrete: bool) -> str:
    if node.condition.dtype is not DType.BOOL:
        return "a condition that is not a bool"
    if not agree(node.then.dtype, node.otherwise.dtype, concrete):
        return f"sides of {node.then.dtype} and {node.otherwise.dtype}"
    return ""


def _apply_fault(node: Apply, concrete: bool) -> str:
    if len(node.arguments) != ARITY[node.function]:
        return f"{len(node.arguments)} arguments of `{node.function}`"
    other = [x.dtype for x in node.arguments if not agree(x.dtype, node.dtype, concrete)]
    if other:
        return f"arguments of {node.dtype} and {other[0]}"
    takes = node.dtype.is_numeric if node.function in OF_INTEGERS else node.dtype.is_real
    return "" if takes else f"`{node.function}` of {node.dtype}"


def _access_fault(node: Access) -> str:
    if len(node.subscripts) != node.tensor.rank:
        return f"{len(node.subscripts)} subscripts for {node.tensor.rank} dimensions"
    for subscript in node.subscripts:
        parts: list[Expr] = [subscript.index]
        if isinstance(subscript.rule, Remap):
            parts += [subscript.rule.below, subscript.rule.above]
        for part in parts:
            if not part.dtype.is_int:
                return f"a subscript of {part.dtype}"
    return ""
