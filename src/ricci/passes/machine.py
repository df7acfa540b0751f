"""What passes know of the processor that kernels are for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ..dtypes import DType
from ..ir.loops import Reduce
from ..ir.nodes import Tensor
from ..records import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """`factors` are the least integers that it multiplies, `cache` the bytes that are likely to
    stay in caches from one kernel to the next, 0 if nobody knows, and `threads` are those of a
    call. `fewer` says whether windows of neighbours with constant factors take fewer products, and
    `keeps`, if anything, whether the code of a sum of products, some tensors being constant, leaves
    out by itself what of its windows is outside. `takes`, if anything, estimates cycles until all
    cores have done such a sum, given the strides of tensors that are not row-major, too. If it
    `clashes`, rows that fall on few lines of a core's caches come from far away again and again.
    `near` are the bytes of a core's own cache, 0 if nobody knows, and `pairs` says whether numbers
    of bfloat16 are multiplied two by two."""

    factors: DType = DType.INT8
    cache: int = 0
    threads: int = 2
    fewer: bool = False
    keeps: Callable[[Reduce, Collection[Tensor]], bool] | None = None
    takes: (
        Callable[[Reduce, Mapping[Tensor, tuple[int, ...]], Collection[Tensor]], float] | None
    ) = None
    clashes: bool = False
    near: int = 0
    pairs: bool = False


UNKNOWN = Machine()
