"""Calls with tensors of PyTorch as built-in functions of CPython, which do everything: look at the
arguments, run, and make the results.

A tensor is read in fifty nanoseconds through the C interface of DLPack; methods of Python take
twenty times as long, and more after a kernel that has filled the cache.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import config
from ..backends.llvm.jit import Library
from ..backends.llvm.tensor_call import KEPT_LIMIT, KEPT_WORDS, RECORD, tensor_call_text
from .arguments import Array
from .builtin import FASTCALL, Method
from .instance import Instance
from .pool import generation_cell, make_module, runtime
from .results import Wanted, bytes_of

_VERSION = 1
"""The version of DLPack that is known here."""
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
class _Torch:
    """What PyTorch has for those who read and make tensors."""

    read: int
    give: int
    types: tuple[type, type]
    is_negative: object
    modes: object
    """Gives how many modes there are, which are told of what is done with tensors."""


@functools.cache
def _torch() -> _Torch | None:
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
    return _Torch(found.read, found.to_object, types, torch.Tensor.is_neg, modes)


@functools.cache
def _code() -> tuple[Method, Library]:
    """The built-in function, whose code is there for good: the last tensor to be given up may be
    so when Python ends."""
    library = make_module(tensor_call_text())
    _stay(library)
    return Method(b"ricci_tensors", library.address("ricci_tensors"), FASTCALL, None), library


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


class TensorCalls:
    """Calls with tensors of kinds that are known: the newest kind is looked at first."""

    MOST = 16
    """How many kinds are known."""

    def __init__(self) -> None:
        self._count = 0
        self._last: tuple[Any, ...] | None = None
        self.call: Callable[..., Any] | None = None
        """Gives a tensor, or a tuple of several; or `None` if the arguments are of no known kind,
        or the call fails."""

    def add(
        self, args: Sequence[Any], wanted: Sequence[Wanted], take: Callable[[], Instance]
    ) -> None:
        """Know calls with tensors like these, which give `wanted`, and for which `take` gives an
        instance that nobody else uses."""
        torch = _torch()
        specs = None if torch is None else _described(torch.read, args)
        if torch is None or specs is None or self._count == self.MOST:
            return
        instance = take()
        code, _ = _code()
        _kept()[KEPT_LIMIT] = int(config.get("keep_results")) << 20
        before = 0 if self._last is None else self._last[0].ctypes.data
        words = _record(torch, instance, before, len(args), len(wanted))
        results = [word for shape, dtype in wanted for word in _result(shape, dtype)]
        self._last = (
            np.array([*words, *specs, *results], np.int64), instance, torch, self._last
        )  # fmt: skip
        self._count += 1
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.POINTER(Method), ctypes.py_object, ctypes.c_void_p)
        self.call = make(ctypes.byref(code), self._last, None)


def _record(torch: _Torch, instance: Instance, before: int, args: int, results: int) -> list[int]:
    """The words of a record, without descriptions."""
    place = instance.lend()
    cell = generation_cell()
    words = {
        "RUN": runtime().address("ricci_run"), "NONE": id(None), "FALSE": id(False),
        "TYPE": id(torch.types[0]), "OTHER": id(torch.types[1]), "READ": torch.read,
        "GIVE": torch.give, "NEGATIVE": id(torch.is_negative), "MODES": id(torch.modes),
        "ZERO": id(0), "NEXT": before, "BUSY": 0,
        "MADE": int(cell[0]), "GENERATION": cell.ctypes.data, "INSTANCE": place.words,
        "CELLS": place.cells, "ARGS": args, "RESULTS": results,
        "RECORDS": instance.records.ctypes.data,
        "FAILURES": instance.records.size if instance.can_fail else 0,
        "KEPT": _kept().ctypes.data,
    }  # fmt: skip
    return [words[name] for name in RECORD if name != "SPECS"]


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
        words += [found.head, *found.shape[:rank], *found.strides[:rank]]
    return words


def _result(shape: tuple[int, ...], dtype: np.dtype[Any]) -> list[int]:
    """The description of a result in order of its rows."""
    strides = np.cumprod([1, *shape[:0:-1]], dtype=np.int64)[::-1][: len(shape)].tolist()
    head = len(shape) | _CODES[dtype.kind] << 32 | 8 * dtype.itemsize << 40 | 1 << 48
    return [bytes_of(shape, dtype), head, *shape, *strides]
