"""The sides of a benchmark: Ricci, and other software in its best form for repeated calls.

Each has inputs of its own that lie aligned where it wants them, weights as constants, and, if it
can be told so, memory for the results that is used again.
"""

from __future__ import annotations

import copy
import ctypes
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

from ricci.dtypes import BFLOAT16, from_bfloat16

from .cases import Array, Case

try:
    import openvino
except ImportError:
    openvino = None


@dataclass(frozen=True)
class Side:
    """Something that computes a case: a call, and the result that the last call left."""

    name: str
    call: Callable[[], Any]
    result: Callable[[], Array]


def ours(case: Case, threads: int) -> Side:
    call = case.build(threads, *([case.real] if case.real != "float32" else []))

    def result() -> Array:
        found = np.asarray(picked(call(), case.pick))
        return from_bfloat16(found) if found.dtype == BFLOAT16 else found

    return Side("ricci", call, result)


def picked(result: Any, index: int = 0) -> Any:
    return result[index] if isinstance(result, tuple | list) else result


def onnx_runtime(case: Case, threads: int, like: Array) -> Side:
    """All optimisations, inputs and results in memory of the runtime."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(case.onnx, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    arrays = case.inputs if case.onnx_inputs is None else case.onnx_inputs
    for node in session.get_inputs():
        binding.bind_ortvalue_input(node.name, ort.OrtValue.ortvalue_from_numpy(arrays[node.name]))
    result = ort.OrtValue.ortvalue_from_numpy(np.zeros(like.shape, like.dtype))
    compared, *others = (node.name for node in session.get_outputs())
    binding.bind_ortvalue_output(compared, result)
    for name in others:
        binding.bind_output(name)
    return Side("ONNX Runtime", lambda: session.run_with_iobinding(binding), result.numpy)


def open_vino(case: Case, threads: int, like: Array) -> Side:
    """For latency, one stream, a request that is used again; float32 throughout, or bfloat16."""
    core = openvino.Core()
    compiled = core.compile_model(
        core.read_model(case.onnx),
        "CPU",
        {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[case.real],
        },
    )
    request = compiled.create_infer_request()
    arrays = case.inputs if case.onnx_inputs is None else case.onnx_inputs
    for port in compiled.inputs:
        tensor = openvino.Tensor(arrays[port.any_name], shared_memory=True)
        request.set_tensor(port, tensor)
    direct = super(openvino.InferRequest, request)  # without what Python does for every call

    def call() -> object:
        return direct.infer({}, share_outputs=True, decode_strings=True)

    return Side("OpenVINO", call, lambda: np.array(request.get_output_tensor(0).data))


def torch_eager(case: Case, threads: int, like: Array) -> Side:
    return torch_side("PyTorch", module_of(case), case)


def torch_compiled(case: Case, threads: int, like: Array) -> Side:
    """Compiled with the weights frozen."""
    import torch._inductor.config as inductor

    inductor.freezing = True
    torch._dynamo.reset()
    return torch_side("torch.compile", torch.compile(module_of(case), dynamic=False), case)


def torch_side(name: str, function: Callable[..., Any], case: Case) -> Side:
    arrays = [torch.from_numpy(a) for a in case.inputs.values()]
    if case.real == "bfloat16":
        arrays = [a.bfloat16() if a.is_floating_point() else a for a in arrays]
    call = partial(function, *arrays)

    def result() -> Array:
        found = picked(call()).detach()
        return np.asarray((found.float() if found.dtype == torch.bfloat16 else found).numpy())

    return Side(name, call, result)


def module_of(case: Case) -> torch.nn.Module:
    """The module, in the type that all sides compute with."""
    return copy.deepcopy(case.module).bfloat16() if case.real == "bfloat16" else case.module


PEERS: dict[str, Callable[[Case, int, Array], Side]] = {
    "ONNX Runtime": onnx_runtime,
    "OpenVINO": open_vino,
    "PyTorch": torch_eager,
    "torch.compile": torch_compiled,
}


def available(compile_torch: bool) -> list[str]:
    """The names of the peers that this machine has."""
    missing = {
        "OpenVINO": openvino is None,
        "torch.compile": not compile_torch or not shutil.which("g++"),
    }
    return [name for name in PEERS if not missing.get(name, False)]


def keep_freed_memory() -> None:
    """Have the C library keep what is freed, so that a result does not cost fresh pages each call.

    PyTorch takes the memory of every result from it; the others have memory of their own.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_max = -1, -4
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(mmap_max, 0)
