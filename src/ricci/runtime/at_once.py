"""Calls with NumPy arrays, or with tensors of PyTorch, as built-in functions of CPython, which do
everything: look at the arguments, run, and make the results.

An array is read where it is, a tensor in fifty nanoseconds through the C interface of DLPack;
attributes and methods in Python take twenty times as long, and more after a kernel that has filled
the cache.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import config
from ..backends.llvm.at_once import RECORD, at_once_text
from ..backends.llvm.jit import Library
from ..backends.llvm.tensor_memory import KEPT_LIMIT, KEPT_WORDS
from ..records import dataclass
from .arguments import Array
from .builtin import FASTCALL, Method, is_supported
from .instance import Instance
from .pool import generation_cell, make_module, runtime
from .repeated import span
from .results import Wanted, bytes_of, maker

_VERSION = 1
"""The version of DLPack that is known here."""
_FLAGS = 0x500
"""Of arrays: aligned, and writeable."""
_CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "b": 6}
"""What DLPack calls kinds of dtypes; `V` is bfloat16."""


class _Exchange(ctypes.Structure):
    """`DLPackExchangeAPI`."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("from_object", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("read", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    )


class _Tensor(ctypes.Structure):
    """`DLTensor`, the rank and the dtype as one word."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int64),
        ("head", ctypes.c_int64),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class _Library:
    """What there is for those who read and make arrays or tensors."""

    types: tuple[type, type]
    read: int = 0
    give: int = 0
    is_negative: object = None
    modes: object = None
    """Gives how many modes there are, which are told of what is done with tensors."""


@functools.cache
def _numpy() -> _Library | None:
    """None if arrays are not as they are known here: data, rank, shape, strides, base, dtype, and
    flags, behind the two words of every object."""
    if sys.platform == "win32" or not is_supported():
        return None
    probe = np.empty((3, 5), np.float32)[:, 1::2]
    _, _, data, rank, shape, strides, _, dtype, flags = (ctypes.c_int64 * 9).from_address(id(probe))
    if (data, rank & 0xFFFFFFFF, dtype) != (probe.ctypes.data, 2, id(probe.dtype)):
        return None
    extents = [list((ctypes.c_int64 * 2).from_address(place)) for place in (shape, strides)]
    right = extents == [[3, 2], [20, 8]] and flags & _FLAGS == _FLAGS
    return _Library((np.ndarray, np.ndarray)) if right else None


@functools.cache
def _torch() -> _Library | None:
    """None if PyTorch is too old, or too new."""
    torch: Any = sys.modules["torch"]
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None or sys.platform == "win32":
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    found = _Exchange.from_address(pointer(capsule, b"dlpack_exchange_api"))
    if found.major != _VERSION or not (found.read and found.to_object):
        return None
    types = (torch.Tensor, torch.nn.Parameter)
    modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
    if modes is None:
        return None
    return _Library(types, found.read, found.to_object, torch.Tensor.is_neg, modes)


@functools.cache
def _code() -> tuple[Method, Library]:
    """The built-in function, whose code is there for good: the last tensor to be given up may be
    so when Python ends."""
    library = make_module(at_once_text())
    _stay(library)
    return Method(b"ricci_at_once", library.address("ricci_at_once"), FASTCALL, None), library


@functools.cache
def _kept() -> Array:
    """Memory of earlier results, of all calls."""
    words = np.zeros(KEPT_WORDS, np.int64)
    _stay(words)
    return words


def _stay(thing: object) -> None:
    stay = ctypes.pythonapi.Py_IncRef
    stay.argtypes = (ctypes.py_object,)
    stay(thing)


class AtOnce:
    """Calls with arguments of kinds that are known: the newest kind is looked at first."""

    MOST = 16
    """How many kinds are known."""

    def __init__(self) -> None:
        self._count = 0
        self._last: tuple[Any, ...] | None = None
        self.call: Callable[..., Any] | None = None
        """Gives a result, or a tuple of several, or of none; or `None` if the arguments are of no
        known kind, or the call fails."""

    def add(
        self,
        args: Sequence[Any],
        wanted: Sequence[Wanted],
        take: Callable[[], Instance],
        targets: int = 0,
    ) -> None:
        """Know calls with arguments like these, which give `wanted`, and for which `take` gives an
        instance that nobody else uses. The last `targets` arguments are written to."""
        if self._count == self.MOST:
            return
        if type(args[0]) is np.ndarray:
            found = _of_arrays(args, wanted, targets)
        else:
            found = _of_tensors(args, wanted)
        if found is None:
            return
        instance = take()
        code, _ = _code()
        spans = np.array([_span(a) if targets else 0 for a in args], np.int64)
        before = 0 if self._last is None else self._last[0].ctypes.data
        words = _record(found.source, instance, before)
        words |= {"ARGS": len(args), "TARGETS": targets, "SPANS": spans.ctypes.data}
        words |= {"RESULTS": len(wanted)}
        record = [words[name] for name in RECORD if name != "SPECS"]
        self._last = (
            np.array([*record, *found.specs], np.int64), instance, found, spans, self._last
        )  # fmt: skip
        self._count += 1
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.POINTER(Method), ctypes.py_object, ctypes.c_void_p)
        self.call = make(ctypes.byref(code), self._last, None)


@dataclass(frozen=True, slots=True)
class _Described:
    """The words that describe arguments and results."""

    source: _Library
    specs: list[int]
    held: tuple[object, ...] = ()
    """Objects whose addresses are among the words."""


def _of_arrays(
    arrays: Sequence[Array], wanted: Sequence[Wanted], targets: int
) -> _Described | None:
    library = _numpy()
    backward = targets > 0 and any(step < 0 for a in arrays for step in a.strides)
    # a result in bfloat16 is given in another dtype
    if library is None or backward or any(dtype.kind == "V" for _, dtype in wanted):
        return None
    specs = [w for a in arrays for w in (a.ndim, id(a.dtype), *a.shape, *a.strides)]
    held: list[object] = [a.dtype for a in arrays]
    for shape, dtype in wanted:
        made = (maker(shape, dtype), shape, dtype)
        specs += [*map(id, made), 0]
        held += made
    return _Described(library, specs, tuple(held))


def _of_tensors(tensors: Sequence[Any], wanted: Sequence[Wanted]) -> _Described | None:
    """None if one cannot be read."""
    library = _torch()
    specs = None if library is None else _described(library.read, tensors)
    if library is None or specs is None:
        return None
    _kept()[KEPT_LIMIT] = int(config.get("keep_results")) << 20
    results = [word for shape, dtype in wanted for word in _result(shape, dtype)]
    return _Described(library, [*specs, *results])


def _span(value: Any) -> int:
    """The bytes from the first element to the last one, of what has no negative strides."""
    if type(value) is not np.ndarray:
        return span(value)
    steps = [(n - 1) * step for n, step in zip(value.shape, value.strides, strict=True)]
    return value.itemsize + sum(steps) if value.size else 0


def _record(library: _Library, instance: Instance, before: int) -> dict[str, int]:
    """The words of a record that are the same for all arguments."""
    place = instance.lend()
    cell = generation_cell()
    return {
        "RUN": runtime().address("ricci_run"), "NONE": id(None), "FALSE": id(False),
        "TYPE": id(library.types[0]), "OTHER": id(library.types[1]), "READ": library.read,
        "GIVE": library.give, "NEGATIVE": id(library.is_negative), "MODES": id(library.modes),
        "ZERO": id(0), "NEXT": before, "BUSY": 0,
        "MADE": int(cell[0]), "GENERATION": cell.ctypes.data, "INSTANCE": place.words,
        "CELLS": place.cells, "RECORDS": instance.records.ctypes.data,
        "FAILURES": instance.records.size if instance.can_fail else 0,
        "KEPT": _kept().ctypes.data,
    }  # fmt: skip


def _described(read: int, tensors: Sequence[Any]) -> list[int] | None:
    """What tensors are like: rank and dtype, shape and strides; none if one cannot be read."""
    words = []
    function = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))(read)
    for tensor in tensors:
        found = _Tensor()
        function(tensor, ctypes.byref(found))
        if not found.strides:
            return None
        rank = tensor.dim()
        words += [rank, found.head, *found.shape[:rank], *found.strides[:rank]]
    return words


def _result(shape: tuple[int, ...], dtype: np.dtype[Any]) -> list[int]:
    """The description of a result in order of its rows."""
    strides = np.cumprod([1, *shape[:0:-1]], dtype=np.int64)[::-1][: len(shape)].tolist()
    head = len(shape) | _CODES[dtype.kind] << 32 | 8 * dtype.itemsize << 40 | 1 << 48
    return [bytes_of(shape, dtype), head, *shape, *strides]
