"""Calls with arguments like those of an earlier call, which need not be looked at again.

What is remembered is keyed by library, dtype, shape and strides of every argument; all else that
is asked of an argument is tested each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from .arguments import Array, is_torch

Known = TypeVar("Known")

_MOST = 4096
"""How many kinds of arguments are remembered."""
_NOT_KNOWN = (AttributeError, TypeError, RuntimeError)
"""What objects that are neither arrays nor ordinary tensors raise when they are asked."""


class Repeated(Generic[Known]):
    """What is known about calls by the kinds of their arguments and of arrays for results.

    Calls with and without arrays for results are kept apart: by the first part of a key.
    """

    def __init__(self) -> None:
        self._known: dict[object, tuple[Known, list[int]]] = {}
        """With the bytes that tensors extend over, where there are some for results."""

    def of_arrays(self, args: tuple[Any, ...], out: tuple[Any, ...]) -> Known | None:
        """What is known of a call with NumPy arrays: aligned, and results apart from the rest."""
        try:
            key: Any = []
            for a in args:
                if not a.flags.aligned:
                    return None
                key += (type(a), a.dtype, a.shape, a.strides)
            key = tuple(key)
            found = self._known.get((key, _kinds(out)) if out else key)
        except _NOT_KNOWN:
            return None
        if found is None or (out and not _are_free(args, out)):
            return None
        return found[0]

    def of_tensors(
        self, args: tuple[Any, ...], out: tuple[Any, ...]
    ) -> tuple[Known, list[int]] | None:
        """What is known of a call with tensors of PyTorch, and all their addresses."""
        try:
            key: Any = []
            addresses = []
            for t in args:
                key += (type(t), t.dtype, t.shape, t.stride())
                addresses.append(t.data_ptr() if t.is_cpu and not t.is_neg() else 0)
            for t in out:
                addresses.append(t.data_ptr() if t.is_cpu and not t.is_neg() else 0)
            key = tuple(key)
            found = self._known.get((key, _tensor_kinds(out)) if out else key)
        except _NOT_KNOWN:
            return None
        if found is None or 0 in addresses:  # elsewhere, without elements, or none that are there
            return None
        known, spans = found
        if spans and not _are_apart(addresses, spans, len(args)):
            return None
        return known, addresses

    def remember(
        self,
        args: tuple[Any, ...],
        out: tuple[Any, ...],
        used: Sequence[Array | None],
        known: Known,
    ) -> bool:
        """Keep what is known, if `used`, what arguments and then results became, is where they
        are; whether it is."""
        given = args + out
        if len(given) != len(used) or not args:
            return False
        spans: list[int] = []
        if all(map(_is_same_array, given, used)):
            kinds: Any = _kinds
        elif all(map(_is_same_tensor, given, used)):
            kinds = _tensor_kinds
            spans = [span(t) for t in given] if out else []
        else:
            return False
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[(kinds(args), kinds(out)) if out else kinds(args)] = known, spans
        return True


def _kinds(arrays: tuple[Any, ...]) -> tuple[object, ...]:
    return tuple([x for a in arrays for x in (type(a), a.dtype, a.shape, a.strides)])


def _tensor_kinds(tensors: tuple[Any, ...]) -> tuple[object, ...]:
    return tuple([x for t in tensors for x in (type(t), t.dtype, t.shape, t.stride())])


def span(tensor: Any) -> int:
    """The bytes from the first element to the last one."""
    steps = [(n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True)]
    return int(tensor.element_size() * (1 + sum(steps))) if tensor.numel() else 0


def _are_apart(addresses: Sequence[int], spans: Sequence[int], first: int) -> bool:
    """Whether none of the memory from number `first` on is also that of one before."""
    for k in range(first, len(spans)):
        begin, end = addresses[k], addresses[k] + spans[k]
        for other in range(k):
            if begin < addresses[other] + spans[other] and addresses[other] < end:
                return False
    return True


def _are_free(args: tuple[Array, ...], out: tuple[Array, ...]) -> bool:
    """Whether results can be written to these arrays."""
    for k, array in enumerate(out):
        if not (array.flags.writeable and array.flags.aligned):
            return False
        for other in (*args, *out[:k]):
            if np.may_share_memory(array, other):
                return False
    return True


def _is_same_array(given: Any, used: Array | None) -> bool:
    """Whether elements were used where they are: `used` may name bfloat16 in another way."""
    return type(given) is np.ndarray and (used is given or getattr(used, "base", None) is given)


def _is_same_tensor(given: Any, used: Array | None) -> bool:
    if not is_torch(given) or type(given).__module__ not in ("torch", "torch.nn.parameter"):
        return False
    if used is None or not given.is_cpu or given.is_neg():
        return False
    size = given.element_size()
    return (
        used.shape == tuple(given.shape)
        and used.itemsize == size
        and used.strides == tuple(size * step for step in given.stride())
        and used.ctypes.data == given.data_ptr()
    )
