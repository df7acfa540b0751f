"""Maps as the results of what makes the elements that they read.

Requires: a reduction, and an element-wise kernel that reads what it makes. Ensures: the reduction
with the map's expression as its results, where each reads and writes the same places. Does not:
decide whether that is wanted, or possible in the order of kernels: see `fuse`.
"""

from __future__ import annotations

from typing import cast

from ..ir.loops import Kernel, Reduce, expressions_of, tensors_touched
from ..ir.nodes import ONE, Access, Const, Expr, Index, Tensor
from ..ir.rewrite import Replaceable, accesses, rebuild, substitute, walk
from ..records import replace
from .kernels import may_fail
from .phases import joined

MOST_NODES = 110
"""Size of the expressions of a kernel beyond which nothing more is put into it."""
MOST_TENSORS = 12


def made_of_both(kernel: Reduce, first: Reduce, second: Reduce) -> Reduce:
    """The kernel with the operations of two others as its own."""
    operations = dict.fromkeys((*first.operations, *second.operations))
    return replace(kernel, operations=tuple(operations))


def is_map(kernel: Reduce) -> bool:
    """Whether each element is one expression, computed alone."""
    return (
        not kernel.values
        and not kernel.locals
        and all(r is a for r, a in zip(kernel.results, kernel.accumulators, strict=True))
        and all(len(a.subscripts) == len(a.tensor.shape) for a in kernel.targets)
    )


def is_too_large(kernel: Reduce) -> bool:
    """Whether nothing more should be put into a kernel."""
    exprs = expressions_of(kernel)
    nodes = sum(1 for _ in walk(*exprs))
    return nodes > MOST_NODES or len(tensors_touched(kernel)) > MOST_TENSORS


def dimensions_of(target: Access) -> list[Index | None] | None:
    """The index of each dimension of a target that is written in full (None: extent 1)."""
    out: list[Index | None] = []
    for s, extent in zip(target.subscripts, target.tensor.shape, strict=True):
        if isinstance(s.index, Index) and s.index.extent == extent and s.index not in out:
            out.append(s.index)
        elif extent == Const(1, extent.dtype):
            out.append(None)
        else:
            return None
    return out


def with_epilogue(producer: Reduce, consumer: Reduce) -> Reduce | None:
    """The reduction with the consumer's expression as its results."""
    if len(consumer.targets) != 1 or len(producer.targets) != 1:
        return None
    made = dimensions_of(producer.targets[0])
    if made is None or any(i not in made and i.extent != ONE for i in producer.domain):
        return None
    return _at_same_places(producer, consumer, producer.targets[0].tensor)


def with_epilogue_of_part(
    producer: Kernel | None, consumer: Reduce, tensor: Tensor
) -> Reduce | None:
    """The reduction, which makes a part of a tensor, with the expression of a map that reads all of
    it element by element as its results."""
    if not isinstance(producer, Reduce) or is_map(producer) or len(producer.targets) != 1:
        return None
    if producer.targets[0].tensor in {a.tensor for a in accesses(*expressions_of(producer))}:
        return None
    new = _at_same_places(producer, consumer, tensor)
    new = None if new is None else made_of_both(new, producer, consumer)
    return None if new is None or is_too_large(new) else new


def _at_same_places(producer: Reduce, consumer: Reduce, tensor: Tensor) -> Reduce | None:
    """The producer, where it makes elements of a tensor, with what the consumer makes of them."""
    value = consumer.initial[0]
    reads = [a for a in accesses(value) if a.tensor is tensor]
    plain = [s.index for s in reads[0].subscripts]
    read = dimensions_of(reads[0])
    if read is None or any([s.index for s in a.subscripts] != plain for a in reads):
        return None
    if may_fail(value) or dimensions_of(consumer.targets[0]) is None:
        return None
    place = joined(producer.targets[0], tensor)
    pairs = zip(read, place.subscripts, strict=True)
    mapping = {i: s.index for i, s in pairs if i is not None}
    if any(i not in mapping and i.extent != ONE for i in consumer.domain):
        return None
    mapping |= {i: Const(0, i.dtype) for i in consumer.domain if i not in mapping}
    return _joined(producer, consumer, mapping, tensor)


def _joined(
    producer: Reduce, consumer: Reduce, mapping: dict[Index, Expr], tensor: Tensor
) -> Reduce:
    """The producer with the consumer's expression, in which it is the `tensor`."""

    def node(expr: Expr) -> Expr:
        if isinstance(expr, Access) and expr.tensor is tensor:
            return producer.results[0]
        return expr

    value = rebuild(consumer.initial[0], node)
    places = cast(dict[Replaceable, Expr | Tensor], mapping)
    memo: dict[int, Expr] = {id(x): x for x in walk(producer.results[0])}
    value = substitute(value, places, memo)
    new = cast(Access, substitute(consumer.targets[0], places))
    return replace(producer, targets=(new,), results=(value,))
