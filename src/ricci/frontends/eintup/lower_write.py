"""What a statement does to its array: assignments to the next version of it.

`=` zeroes a cell when the first combination that is executed reaches it, and then adds; other cells
keep what they held. Of the other operators, the first mention of an array starts from what changes
nothing, and leaves 0 in cells that nothing reaches. Where it is proved that each cell is
reached, or by one combination at most, no account is kept of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...dtypes import DType
from ...ir import nodes as ir
from ...ir import shapes
from ...ir.rewrite import free_indices, tensors_read
from ...records import dataclass, replace
from . import syntax as s
from .lower_cover import guards, is_covering, is_plain, is_single

REDUCTIONS: dict[s.Assign, ir.Reduction] = {
    "=": "add", "+=": "add", "*=": "mul", "max=": "max", "min=": "min", "and=": "and", "or=": "or",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Write:
    """What a statement does: `line` combines values with its one target, by `operator`."""

    line: ir.Assignment
    operator: s.Assign

    @property
    def target(self) -> ir.Access:
        return self.line.targets[0]

    @property
    def reduction(self) -> ir.Reduction:
        return self.line.op

    def assignment(self, op: ir.Reduction) -> ir.Assignment:
        return replace(self.line, op=op)


def operations(write: Write, before: ir.Tensor | None) -> Iterator[ir.Operation]:
    """The operations that compute the target from its version before."""
    after, op = write.target.tensor, write.reduction
    if before is None and op in ("add", "or"):
        plain = is_single(write.line) and is_plain(write.line)
        yield operation(after, [write.assignment("set" if plain else op)])
    elif before is None and is_single(write.line):
        yield operation(after, [write.assignment("set")])
    elif before is None:
        yield from _from_identity(write)
    elif write.operator != "=":
        yield operation(after, [_copy(after, before), write.assignment(op)])
    elif is_covering(write.line):
        yield operation(after, [write.assignment("set" if is_single(write.line) else op)])
    elif is_single(write.line):
        yield operation(after, [_copy(after, before), write.assignment("update")])
    else:
        yield from _over(write, before)


def _from_identity(write: Write) -> Iterator[ir.Operation]:
    """`*=`, `max=`, ... of a new array."""
    after, op = write.target.tensor, write.reduction
    start = _whole(after, lambda _: identity(op, after.dtype))
    reduce = write.assignment(op)
    if is_covering(write.line):
        yield operation(after, [start, reduce])
        return
    mask = reached(write)
    assert mask.outputs
    found = ir.Tensor(after.name, after.dtype, after.shape, span=after.span)
    moved = ir.Access(found, write.target.subscripts, write.target.span)
    yield mask
    first = _whole(found, lambda _: identity(op, after.dtype))
    yield operation(found, [first, replace(write.line, targets=(moved,))])
    yield operation(after, [_whole(after, lambda at: ir.Select(
        ir.Access(mask.outputs[0], at), ir.Access(found, at), zero(after.dtype)
    ))])  # fmt: skip


def _over(write: Write, before: ir.Tensor) -> Iterator[ir.Operation]:
    """`=` where cells that nothing reaches keep what they held."""
    after = write.target.tensor
    mask = reached(write)
    yield mask
    start = _whole(after, lambda at: ir.Select(
        ir.Access(mask.outputs[0], at), zero(after.dtype), ir.Access(before, at)
    ))  # fmt: skip
    yield operation(after, [start, write.assignment(write.reduction)])


def reached(write: Write) -> ir.Operation:
    """Which cells some executed combination reaches."""
    tensor = write.target.tensor
    mask = ir.Tensor(f"{tensor.name}.reached", DType.BOOL, tensor.shape, span=tensor.span)
    condition = ir.TRUE if write.line.condition is None else write.line.condition
    for guard in guards(write.line):
        condition = shapes.logical_and(condition, guard)
    target = ir.Access(mask, write.target.subscripts, write.target.span)
    used = set(free_indices(target, condition))
    for index in write.line.domain:
        if index not in used:
            some = shapes.compare("ge", index.extent, ir.ONE)
            condition = shapes.logical_and(condition, some)
    line = ir.Assignment(
        (target,),
        "or",
        (ir.TRUE,),
        tuple(i for i in write.line.domain if i in used),
        condition=None if condition == ir.TRUE else condition,
        span=write.target.span,
    )
    return operation(mask, [line])


# ------------------------------------------------------------------------ parts


def operation(tensor: ir.Tensor, body: list[ir.Assignment]) -> ir.Operation:
    """What computes a tensor."""
    read = dict.fromkeys(t for line in body for t in tensors_read(line) if t is not tensor)
    return ir.Operation(tensor.name, (tensor,), tuple(body), tuple(read), span=tensor.span)


def _copy(after: ir.Tensor, before: ir.Tensor) -> ir.Assignment:
    return _whole(after, lambda at: ir.Access(before, at))


def _whole(tensor: ir.Tensor, value: Any) -> ir.Assignment:
    """Every cell of a tensor set to what `value` makes of its subscripts."""
    domain = tuple(ir.Index(f"i{k}", e) for k, e in enumerate(tensor.shape))
    at = tuple(map(ir.Subscript, domain))
    return ir.Assignment((ir.Access(tensor, at),), "set", (value(at),), domain)


def zero(dtype: DType) -> ir.Const:
    if dtype is DType.BOOL:
        return ir.FALSE
    return ir.Const(0.0 if dtype.is_real else 0, dtype)


def is_zero(value: ir.Expr) -> bool:
    """Whether a value is the number 0."""
    return isinstance(value, ir.Const) and not value.value


def identity(op: ir.Reduction, dtype: DType) -> ir.Const:
    """What changes nothing: 1, true, the largest or the smallest value of a type."""
    if op == "mul":
        return ir.Const(1.0 if dtype.is_real else 1, dtype)
    if dtype is DType.BOOL:
        return ir.Const(op == "and", dtype)
    if dtype.is_real or dtype is DType.INT:
        return ir.Const(math.inf if op == "min" else -math.inf, dtype)
    limits = np.iinfo(np.dtype(dtype.value))
    return ir.Const(int(limits.max if op == "min" else limits.min), dtype)
