"""Runs single kernels: compiles one for this machine and calls it on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from ricci.backends.llvm import jit, nest, targets
from ricci.backends.llvm.kernels import KernelCode
from ricci.backends.llvm.target import host
from ricci.diagnostics import Error
from ricci.ir.loops import Kernel
from ricci.ir.nodes import Tensor

HOST = host()
_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def runnable_targets() -> list[str]:
    """This machine, and the others that it stands for."""
    found = ["cpu"]
    for name in targets.NAMES:
        try:
            targets.check_runs(name)
        except Error:
            continue
        found.append(name)
    return found


def run_code(code: KernelCode, arrays: Mapping[Tensor, np.ndarray]) -> np.ndarray:
    """Run all chunks, one call each, in order; gives the error record."""
    text = jit.module_text([("tested", code)], HOST)
    library = jit.Library([jit.compile_text(text, HOST)], HOST)
    record = np.zeros(4, np.int64)
    addresses = [record.ctypes.data, *(arrays[t].ctypes.data for t in code.tensors)]
    table = (ctypes.c_void_p * len(addresses))(*addresses)
    scratch = np.zeros(code.scratch + 64, np.uint8)
    call = _CALL(library.address("tested"))
    for chunk in range(code.chunks):
        call(ctypes.addressof(table), scratch.ctypes.data, chunk, chunk + 1)
    return record


def run_kernel(kernel: Kernel, arrays: Mapping[Tensor, np.ndarray]) -> np.ndarray:
    """Run a kernel as a plain loop nest."""
    return run_code(nest.generate(kernel, {}, HOST), arrays)
