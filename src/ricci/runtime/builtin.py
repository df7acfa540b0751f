"""Native runs as built-in functions of CPython: calling one takes less than a tenth of a
microsecond, a foreign function with as many arguments half of one.

Used are parts of the stable interface of CPython (`PyMethodDef`, `METH_FASTCALL`), and the place of
the address of its elements in an array object.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import sysconfig
from collections.abc import Callable

import numpy as np

from ..backends.llvm.builtin_call import CALL_WORDS, call_text
from ..backends.llvm.jit import Library
from .arguments import Array
from .pool import make_module


def is_supported() -> bool:
    """Whether this Python calls built-in functions in the way known here."""
    return sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")


class Method(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


FASTCALL = 0x80


@functools.cache
def _method() -> tuple[Method, Library]:
    library = make_module(call_text())
    return Method(b"ricci_call", library.address("ricci_call"), FASTCALL, None), library


def make_builtin(run: int, instance: Array) -> tuple[Callable[..., None], Array]:
    """A function of arrays, or of integers that are addresses of elements: one for each argument
    and result of an instance; and the words of the instance from now on. `run` is `ricci_run`.
    """
    words = np.array([run, id(int), id(None), *instance.tolist()], np.int64)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.POINTER(Method), ctypes.py_object, ctypes.c_void_p)
    made: Callable[..., None] = make(ctypes.byref(_method()[0]), words, None)
    return made, words[CALL_WORDS:]
