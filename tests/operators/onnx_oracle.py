"""Single operators of ONNX Runtime, in single precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from .case import Array

_OPSET = 19
_TYPES = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL}


def run_onnx(operator: str, inputs: Sequence[Array | None], **attributes: Any) -> Array:
    """The only output of an ONNX operator; reals come back as doubles."""
    return run_onnx_all(operator, inputs, 1, **attributes)[0]


def run_onnx_all(
    operator: str, inputs: Sequence[Array | None], outputs: int, **attributes: Any
) -> list[Array]:
    """The outputs of an ONNX operator; `None` is an input that is left out."""
    feed = {f"x{k}": _narrow(x) for k, x in enumerate(inputs) if x is not None}
    names = [f"x{k}" if x is not None else "" for k, x in enumerate(inputs)]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(operator, names, results, **attributes)
    declared = [
        helper.make_tensor_value_info(n, _TYPES[x.dtype.kind], x.shape) for n, x in feed.items()
    ]
    open_ = [helper.make_empty_tensor_value_info(n) for n in results]
    graph = helper.make_graph([node], "G", declared, open_)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = 9
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [_wide(np.asarray(y)) for y in session.run(None, feed)]


def _narrow(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype.kind == "f" else x


def _wide(y: Array) -> Array:
    return y.astype(np.float64) if y.dtype.kind == "f" else y
