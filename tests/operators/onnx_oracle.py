"""Single operators of ONNX Runtime, in single precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from .case import Array

_OPSET = 19


def run_onnx(operator: str, inputs: Sequence[Array], **attributes: Any) -> Array:
    """The only output of an ONNX operator, as doubles."""
    names = [f"x{k}" for k in range(len(inputs))]
    node = helper.make_node(operator, names, ["y"], **attributes)
    declared = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape)
        for n, x in zip(names, inputs, strict=True)
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "G", declared, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = 9
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feed = {n: x.astype(np.float32) for n, x in zip(names, inputs, strict=True)}
    return np.asarray(session.run(None, feed)[0]).astype(np.float64)
