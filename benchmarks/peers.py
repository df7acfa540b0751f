"""The same computations in ONNX Runtime and PyTorch, on the same weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper

Arrays = Mapping[str, np.ndarray]


def run_onnx(
    nodes: Sequence[onnx.NodeProto],
    inputs: Arrays,
    weights: Arrays,
    output: str,
    threads: int,
) -> Callable[[], np.ndarray]:
    """A call of ONNX Runtime on a graph of `nodes`, with all its optimisations on."""
    graph = helper.make_graph(
        list(nodes),
        "peer",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feed = dict(inputs)
    return lambda: session.run(None, feed)[0]


def convolution(
    x: np.ndarray, w: np.ndarray, b: np.ndarray | None, threads: int, **attributes: Any
) -> Callable[[], np.ndarray]:
    """One `Conv` of ONNX Runtime, NCHW; weights are constants."""
    names = ["x", "w"] + (["b"] if b is not None else [])
    weights = {"w": w} | ({"b": b} if b is not None else {})
    node = helper.make_node("Conv", names, ["y"], **attributes)
    return run_onnx([node], {"x": x}, weights, "y", threads)


def product(a: np.ndarray, b: np.ndarray, threads: int) -> Callable[[], np.ndarray]:
    """One `MatMul` of ONNX Runtime; the right factor is a constant."""
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    return run_onnx([node], {"a": a}, {"b": b}, "y", threads)


_STRIDES = {1: 4}
_PADS = {1: 0, 2: 2, 3: 1, 4: 1, 5: 1, 6: 0}
_POOLED = (1, 2, 5)


def alexnet_onnx(x: np.ndarray, weights: Arrays, threads: int) -> Callable[[], np.ndarray]:
    """AlexNet (section 2.1 of the specification) in ONNX Runtime."""
    nodes = []
    value = "input"
    for k in range(1, 7):
        pads, stride = [_PADS[k]] * 4, [_STRIDES.get(k, 1)] * 2
        inputs = [value, f"kernel{k}", f"bias{k}"]
        nodes.append(helper.make_node("Conv", inputs, [f"c{k}"], pads=pads, strides=stride))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        value = f"r{k}"
        if k in _POOLED:
            nodes.append(
                helper.make_node("MaxPool", [value], [f"p{k}"], kernel_shape=[3, 3], strides=[2, 2])
            )
            value = f"p{k}"
    nodes.append(helper.make_node("Flatten", [value], ["flat"], axis=1))
    nodes.append(helper.make_node("Gemm", ["flat", "kernel7", "bias7"], ["c7"], transB=1))
    nodes.append(helper.make_node("Relu", ["c7"], ["r7"]))
    nodes.append(helper.make_node("Gemm", ["r7", "kernel8", "bias8"], ["c8"], transB=1))
    nodes.append(helper.make_node("Softmax", ["c8"], ["y"], axis=1))
    return run_onnx(nodes, {"input": x}, weights, "y", threads)


def alexnet_torch(x: np.ndarray, weights: Arrays) -> np.ndarray:
    """AlexNet (section 2.1 of the specification) in PyTorch, in the precision of `x`."""
    dtype = torch.from_numpy(x).dtype
    w = {n: torch.from_numpy(a).to(dtype) for n, a in weights.items()}
    value = torch.from_numpy(x)
    with torch.no_grad():
        for k in range(1, 7):
            value = F.relu(
                F.conv2d(value, w[f"kernel{k}"], w[f"bias{k}"], _STRIDES.get(k, 1), _PADS[k])
            )
            if k in _POOLED:
                value = F.max_pool2d(value, 3, 2)
        value = F.relu(F.linear(value.flatten(1), w["kernel7"], w["bias7"]))
        value = F.linear(value, w["kernel8"], w["bias8"])
        return np.asarray(F.softmax(value, 1))
