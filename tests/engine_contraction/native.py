"""Runs the code of one kernel on NumPy arrays, without the rest of the engine.

All arrays end where a page begins that must not be touched, so that a kernel that reads or writes
past the end of one crashes.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import threading
from collections.abc import Callable, Mapping

import numpy as np

from ricci.backends.llvm.jit import Library, compile_text, module_text
from ricci.backends.llvm.kernels import KernelCode
from ricci.backends.llvm.target import Target
from ricci.ir.nodes import Const, Symbol, Tensor

Arrays = Mapping[Tensor, np.ndarray]
_PAGE = mmap.PAGESIZE
_protect = ctypes.CDLL(None).mprotect


class Fenced:
    """Memory for an array between two pages that must not be touched."""

    def __init__(self, array: np.ndarray, at_end: bool) -> None:
        inside = -(-max(array.nbytes, 1) // _PAGE) * _PAGE
        self._map = mmap.mmap(-1, inside + 2 * _PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for fence in (start, start + _PAGE + inside):
            assert _protect(ctypes.c_void_p(fence), ctypes.c_size_t(_PAGE), 0) == 0
        offset = _PAGE + (inside - array.nbytes if at_end else 0)
        flat = np.frombuffer(self._map, array.dtype, array.size, offset)
        self.array = flat.reshape(array.shape)
        self.array[...] = array


@functools.lru_cache(2)
def _library(text: str, target: Target) -> Library:
    return Library([compile_text(text, target)], target)


class Native:
    """A kernel's machine code, bound to copies of arrays."""

    def __init__(
        self,
        code: KernelCode,
        arrays: Arrays,
        target: Target,
        at_end: bool = True,
        sizes: Mapping[Symbol, int] | None = None,
    ) -> None:
        self.code, self._at_end = code, at_end
        self._sizes = dict(sizes or {})
        codes = [("main", code)]
        codes += [(f"prepare{k}", p.code) for k, p in enumerate(code.prepare)]
        self._library = _library(module_text(codes, target), target)
        self._fenced = {t: Fenced(a, at_end) for t, a in arrays.items()}
        for prepare in code.prepare:
            shape = [int(e.value) for e in prepare.output.shape if isinstance(e, Const)]
            kind = prepare.output.dtype.numpy()
            empty = np.full(shape, -1 if prepare.output.dtype.is_int else np.nan, kind)
            self._fenced[prepare.output] = Fenced(empty, at_end)
        self.errors = np.zeros(4, np.int64)
        for k, prepare in enumerate(code.prepare):
            self._bind(f"prepare{k}", prepare.code)[0](1)
        self.run, self.do = self._bind("main", code)

    def array(self, tensor: Tensor) -> np.ndarray:
        """The elements that a tensor has now."""
        return self._fenced[tensor].array

    def _bind(
        self, symbol: str, code: KernelCode
    ) -> tuple[Callable[[int], None], Callable[[int, int], None]]:
        """What does all chunks, in some threads, and what does those of a range."""
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        function = ctypes.CFUNCTYPE(None, *kinds)(self._library.address(symbol))
        cells = np.array([self._sizes[s] for s in code.sizes], np.int64)
        places = [self.errors.ctypes.data, *(self.array(t).ctypes.data for t in code.tensors)]
        places += [cells.ctypes.data + 8 * k for k in range(len(cells))]
        table = (ctypes.c_void_p * len(places))(*places)
        chunks = code.chunks
        if code.counted:
            count = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
            chunks = count(self._library.address(f"{symbol}.count"))(ctypes.addressof(table))
            assert 0 <= chunks <= code.chunks
        scratch = np.full(-(-code.scratch // 64) * 64, 255, np.uint8)

        def run(threads: int = 1) -> None:
            assert len(cells) == len(code.sizes)  # and kept alive
            cuts = [chunks * k // threads for k in range(threads + 1)]
            workers = [
                threading.Thread(target=work, args=(cuts[k], cuts[k + 1])) for k in range(threads)
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()

        def work(begin: int, end: int) -> None:
            if begin == end:
                return
            own = Fenced(scratch, True)  # a whole number of cache lines, so aligned
            where = own.array.ctypes.data
            function(ctypes.addressof(table), where, begin, end)

        return run, work
