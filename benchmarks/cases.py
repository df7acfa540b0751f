"""What a benchmark computes: the same formula as every side has it, and on which numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx.parser
import torch
from onnx import TensorProto, helper, numpy_helper

import ricci
from ricci.dtypes import to_bfloat16

Array = np.ndarray
Arrays = Mapping[str, Array]
Call = Callable[[], Any]

OPSET = 21
ALIGNMENT = 64
"""Bytes to which arrays are aligned, so that no side is slowed down by where they lie."""


@dataclass(frozen=True)
class Case:
    """One computation; its first result is what is compared."""

    inputs: Arrays
    build: Callable[..., Call]
    """A call of ours, for a number of threads, and the type of real numbers."""
    module: torch.nn.Module
    onnx: bytes | None
    """None where ONNX has no such operator."""
    flops: float
    weights: Arrays = field(default_factory=dict)
    read: int | None = None
    """Bytes that must be read, if not all inputs and weights."""
    others: int = 0
    """Bytes of the results that are not compared."""
    pick: int = 0
    """Which of our results is compared with the first of the others."""
    onnx_inputs: Arrays | None = None
    """What the ONNX model takes, if not the inputs."""
    different: float = 1e-2
    """A scaled error that no rounding explains."""
    real: str = "float32"
    """What all sides compute with: `float32`, or `bfloat16`, in which case arrays here, and those
    that others are given, have float32."""


@dataclass(frozen=True)
class Row:
    """A case at given sizes, made when it is its turn: some take gigabytes."""

    group: str
    label: str
    """The name, with {} for sizes."""
    family: Callable[..., Case]
    sizes: tuple[int, ...]
    batch: int = 1
    threads: int | None = None
    """A number of threads of its own."""
    busy: int = 0
    """How many other processes keep a core busy meanwhile."""

    @property
    def name(self) -> str:
        return self.label.format(*self.sizes)

    def case(self, limit: int | None = None) -> Case:
        """With no size above `limit`."""
        return self.family(*(min(s, limit or s) for s in self.sizes))


class Function(torch.nn.Module):
    """A function of inputs and weights; the weights are constants of the module."""

    def __init__(self, function: Callable[..., Any], weights: Arrays) -> None:
        super().__init__()
        self.function = function
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.from_numpy(w), requires_grad=False) for w in weights.values()
        )

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs, *self.weights)


def graph_case(
    body: str,
    nodes: str | None,
    function: Callable[..., Any],
    flops: float,
    inputs: Arrays,
    weights: Arrays | None = None,
    *,
    operators: str = "",
    read: int | None = None,
    outputs: str = "y",
) -> Case:
    """A case of a SkriptND graph, whose weights are variables; ONNX has them as constants.

    `body` and `nodes` compute `outputs` from what `inputs` and `weights` name.
    """
    weights = weights or {}
    results = results_of(function, [*inputs.values(), *weights.values()])
    named = dict(zip(outputs.split(), results, strict=True))
    text = graph_text(body, inputs, weights, named, operators)
    return Case(
        inputs,
        partial(compiled_graph, text, inputs, weights),
        Function(function, weights),
        None if nodes is None else onnx_model(nodes, inputs, weights, results[0], outputs),
        flops,
        weights,
        read,
        sum(r.numel() * r.element_size() for r in results[1:]),
    )


def results_of(function: Callable[..., Any], arrays: list[Array]) -> tuple[torch.Tensor, ...]:
    """Tensors without elements, of the shapes and types of a function's results."""
    metas = [torch.empty(a.shape, dtype=torch.from_numpy(a).dtype, device="meta") for a in arrays]
    with torch.no_grad():
        result = function(*metas)
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


def result_of(function: Callable[..., Any], arrays: list[Array]) -> torch.Tensor:
    """The same of the first result."""
    return results_of(function, arrays)[0]


def graph_text(
    body: str,
    inputs: Arrays,
    weights: Arrays,
    results: Mapping[str, torch.Tensor],
    operators: str,
) -> str:
    """A SkriptND graph."""
    made = " ".join(
        f"{name}: {'real' if r.is_floating_point() else 'int'}[{','.join(map(str, r.shape))}];"
        for name, r in results.items()
    )
    variables = f"@variable {{ {declarations(weights)} }}" if weights else ""
    return f"""
import nn; import math; import linalg; import layout; import image;
{operators}
graph Main {{
    @input {{ {declarations(inputs)} }}
    {variables}
    @output {{ {made} }}
    @compose {{ {body} }}
}}
"""


def declarations(arrays: Arrays) -> str:
    kinds = {"f": "real", "i": "int", "b": "bool"}
    return " ".join(
        f"{name}: {kinds[a.dtype.kind]}[{','.join(map(str, a.shape))}];"
        for name, a in arrays.items()
    )


def compiled_graph(
    text: str, inputs: Arrays, weights: Arrays, threads: int, real: str = "float32"
) -> Call:
    run = ricci.parse(text, "skriptnd").compile(threads=threads, real=real)
    set_variables(run, weights)
    return partial(run, *in_type(inputs, real).values())


def in_type(arrays: Arrays, real: str) -> Arrays:
    """The arrays, with real numbers of a type."""
    if real != "bfloat16":
        return arrays
    return {n: to_bfloat16(a) if a.dtype.kind == "f" else a for n, a in arrays.items()}


def set_variables(run: ricci.Executable, weights: Arrays) -> None:
    """Assign variables by the last part of their scoped names."""
    for name in list(run.variables):
        run.variables[name] = weights[name.rpartition(".")[2]]


def onnx_model(
    nodes: str, inputs: Arrays, weights: Arrays, result: torch.Tensor, outputs: str = "y"
) -> bytes:
    """An ONNX model of nodes that are written in ONNX's text form and compute `outputs`."""
    first, *others = outputs.split()
    parsed = onnx.parser.parse_graph(f"g () => (y) {{ {nodes} }}")
    kind = TensorProto.FLOAT if result.is_floating_point() else TensorProto.INT64
    graph = helper.make_graph(
        list(parsed.node),
        "case",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [
            helper.make_tensor_value_info(first, kind, list(result.shape)),
            *(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in others),
        ],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 10
    return bytes(model.SerializeToString())


def group_norm_nodes(shape: tuple[int, ...], groups: int, channels: tuple[int, ...]) -> str:
    """Group normalisation of `x`, times `w`, plus `b`, which have the shape `channels`.

    As PyTorch exports it; the operator `GroupNormalization` is slower in ONNX Runtime.
    """
    inner = math.prod(shape[1:]) // groups
    ones, zeros = ([value] * groups for value in (1.0, 0.0))
    return (
        f"sp = Constant <value_ints = [{shape[0]}, {groups}, {inner}]> () p = Reshape(x, sp)"
        f"one = Constant <value_floats = {ones}> () zero = Constant <value_floats = {zeros}> ()"
        "q = InstanceNormalization <epsilon = 1e-5> (p, one, zero)"
        f"sr = Constant <value_ints = {list(shape)}> () r = Reshape(q, sr)"
        f"sc = Constant <value_ints = {list(channels)}> () u = Reshape(w, sc) v = Reshape(b, sc)"
        "t = Mul(r, u) y = Add(t, v)"
    )


def draw(*shape: int, seed: int = 0) -> Array:
    """Normally distributed numbers; their array is aligned."""
    array = aligned(shape, np.dtype(np.float32))
    np.random.default_rng([seed, *shape]).standard_normal(out=array, dtype=np.float32)
    return array


def draw_integers(below: int, *shape: int) -> Array:
    array = aligned(shape, np.dtype(np.int64))
    array[...] = np.random.default_rng([below, *shape]).integers(below, size=shape)
    return array


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array, not filled, whose first element is at a multiple of the alignment."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
