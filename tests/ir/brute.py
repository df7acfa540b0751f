"""Evaluates a graph of operations in plain Python, point by point: slow, and independent of
the interpreter. The oracle for random programs."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ricci.dtypes import DType
from ricci.ir.nodes import (
    Access,
    Apply,
    Assignment,
    Binary,
    Cast,
    Const,
    Expr,
    Graph,
    Index,
    Local,
    Operation,
    Remap,
    Select,
    Skip,
    Symbol,
    Tensor,
    Unary,
)
from ricci.ir.rewrite import nodes_through_locals


class OutOfRangeError(Exception):
    """An unguarded index is out of range."""


class _SkippedError(Exception):
    """A guard leaves this point out."""


Env = dict[Any, Any]

_NAMES = {DType.REAL: "float64", DType.INT: "int64"}


def _numpy(dtype: DType) -> np.dtype[Any]:
    return np.dtype(_NAMES.get(dtype, dtype.value))


def evaluate(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a graph of operations whose ports are single tensors, with float64 and
    int64 for abstract types."""
    arrays: dict[Tensor, np.ndarray] = {p.tensors[0]: inputs[p.name] for p in graph.inputs}
    symbols: Env = {}
    for tensor, array in arrays.items():
        for extent, size in zip(tensor.shape, array.shape, strict=True):
            if isinstance(extent, Symbol):
                symbols[extent] = size
    for step in graph.operations:
        assert isinstance(step, Operation)
        for tensor in step.outputs:
            shape = [_scalar(e, symbols, arrays) for e in tensor.shape]
            arrays[tensor] = np.zeros(shape, _numpy(tensor.dtype))
        for assignment in step.body:
            _assign(assignment, symbols, arrays)
    return {p.name: arrays[p.tensors[0]] for p in graph.outputs}


def _assign(assignment: Assignment, symbols: Env, arrays: dict[Tensor, np.ndarray]) -> None:
    extents = [_scalar(i.extent, symbols, arrays) for i in assignment.domain]
    condition = () if assignment.condition is None else (assignment.condition,)
    used = set(filter(_is_local, nodes_through_locals(
        *assignment.targets, *assignment.values, *condition
    )))  # fmt: skip
    sums: dict[tuple[int, tuple[int, ...]], Any] = {}
    for point in itertools.product(*map(range, extents)):
        env = {**symbols, **dict(zip(assignment.domain, point, strict=True))}
        try:
            _guards(assignment, env, arrays)
        except _SkippedError:
            continue
        for local in filter(used.__contains__, assignment.locals):
            env[local] = _scalar(local.value, env, arrays)
        if assignment.condition is not None and not _scalar(assignment.condition, env, arrays):
            continue
        values = [_scalar(v, env, arrays) for v in assignment.values]
        places = [_position(t, env, arrays) for t in assignment.targets]
        for k, (target, place, value) in enumerate(
            zip(assignment.targets, places, values, strict=True)
        ):
            array = arrays[target.tensor]
            if assignment.op in ("set", "update"):
                array[place] = value
                continue
            old = sums.get((k, place), array[place].item())
            sums[k, place] = new = _fit(_REDUCE[assignment.op](old, value), DType.FLOAT64
                if target.dtype.is_real else target.dtype)  # fmt: skip
            array[place] = _fit(new, target.dtype)


def _is_local(expr: Expr) -> bool:
    return isinstance(expr, Local)


def _guards(assignment: Assignment, env: Env, arrays: dict[Tensor, np.ndarray]) -> None:
    condition = [] if assignment.condition is None else [assignment.condition]
    roots = [*assignment.targets, *(x.value for x in assignment.locals), *condition]
    for expr in [*roots, *assignment.values]:
        _guards_in(expr, {**env, **{x: x for x in assignment.locals}}, arrays)


def _guards_in(expr: Expr, env: Env, arrays: dict[Tensor, np.ndarray]) -> None:
    """Raise `_SkippedError` if a guard anywhere in the expression is out of range."""
    match expr:
        case Access():
            for k, subscript in enumerate(expr.subscripts):
                _guards_in(subscript.index, env, arrays)
                if isinstance(subscript.rule, Remap):
                    _guards_in(subscript.rule.below, env, arrays)
                    _guards_in(subscript.rule.above, env, arrays)
                extent = arrays[expr.tensor].shape[k]
                guarded = isinstance(subscript.rule, Skip)
                if guarded and not 0 <= _scalar(subscript.index, env, arrays) < extent:
                    raise _SkippedError
        case Binary():
            _guards_in(expr.lhs, env, arrays)
            _guards_in(expr.rhs, env, arrays)
        case Unary() | Cast():
            _guards_in(expr.operand, env, arrays)
        case Select():
            for part in (expr.condition, expr.then, expr.otherwise):
                _guards_in(part, env, arrays)
        case Apply():
            for part in expr.arguments:
                _guards_in(part, env, arrays)
        case _:
            pass


def _position(access: Access, env: Env, arrays: dict[Tensor, np.ndarray]) -> tuple[int, ...]:
    found = []
    for k, subscript in enumerate(access.subscripts):
        extent = arrays[access.tensor].shape[k]
        value = _scalar(subscript.index, env, arrays)
        if isinstance(subscript.rule, Remap):
            if value < 0:
                value = _scalar(subscript.rule.below, env, arrays)
            elif value >= extent:
                value = _scalar(subscript.rule.above, env, arrays)
        if not 0 <= value < extent:
            raise OutOfRangeError(f"{access.tensor.name}: {value} in dimension {k}")
        found.append(value)
    return tuple(found)


def _scalar(expr: Expr, env: Env, arrays: dict[Tensor, np.ndarray]) -> Any:
    match expr:
        case Const():
            return _cast(expr.value, expr.dtype) if expr.dtype.is_int else expr.value
        case Symbol() | Index():
            return env[expr]
        case Local():
            known = env[expr]
            return _scalar(expr.value, env, arrays) if known is expr else known
        case Unary(op="not"):
            return not _scalar(expr.operand, env, arrays)
        case Unary():
            return _fit(-_scalar(expr.operand, env, arrays), expr.dtype)
        case Binary():
            a, b = _scalar(expr.lhs, env, arrays), _scalar(expr.rhs, env, arrays)
            return _fit(_BINARY[expr.op](a, b), expr.dtype)
        case Select():
            taken = expr.then if _scalar(expr.condition, env, arrays) else expr.otherwise
            return _scalar(taken, env, arrays)
        case Cast():
            return _cast(_scalar(expr.operand, env, arrays), expr.dtype)
        case Apply():
            arguments = [_scalar(x, env, arrays) for x in expr.arguments]
            return _fit(_FUNCTIONS[expr.function](*arguments), expr.dtype)
        case Access():
            return arrays[expr.tensor][_position(expr, env, arrays)].item()


def _fit(value: Any, dtype: DType) -> Any:
    """A result in its dtype: integers wrap, reals are rounded."""
    if dtype is DType.BOOL:
        return bool(value)
    if dtype.is_real:
        return float(value) if dtype is DType.REAL else float(_numpy(dtype).type(value))
    info = np.iinfo(_numpy(dtype))
    return (int(value) - info.min) % (1 << info.bits) + info.min


def _cast(value: Any, dtype: DType) -> Any:
    if dtype.is_int and isinstance(value, float):
        if math.isnan(value):
            return 0
        info = np.iinfo(_numpy(dtype))
        return max(info.min, min(info.max, math.trunc(max(-1e30, min(1e30, value)))))
    return _fit(value != 0 if dtype is DType.BOOL else value, dtype)


def _round(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floordiv": operator.floordiv, "ceildiv": lambda a, b: -(-a // b), "mod": operator.mod,
    "pow": operator.pow, "min": min, "max": max,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip

_REDUCE: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "mul": operator.mul, "min": min, "max": max,
    "and": operator.and_, "or": operator.or_,
}  # fmt: skip

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "sign": lambda x: (x > 0) - (x < 0),
    "floor": math.floor, "ceil": math.ceil, "round": _round,
    "frac": lambda x: x - math.trunc(x), "cos": math.cos,
    "sin": math.sin, "tanh": math.tanh, "exp": math.exp, "erf": math.erf, "atan": math.atan,
    "fdim": lambda x, y: 0.0 if x <= y else x - y, "fma": lambda x, y, z: x * y + z,
}  # fmt: skip
