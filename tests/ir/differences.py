"""Gradients by central differences: the oracle for derived programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ricci.ir.interpret import interpret
from ricci.ir.nodes import Graph, Port
from ricci.ir.text import format_graph, parse_graph
from ricci.ir.verify import verify_graph
from ricci.passes.gradient import gradient_graph
from ricci.passes.gradient_pair import forward_and_backward
from ricci.runtime.executable import compile_graph

Array = np.ndarray[Any, np.dtype[Any]]
STEP = 1e-6


def run(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a graph without packs."""
    results = interpret(graph, inputs, real="float64")
    return {name: np.asarray(value) for name, value in results.items()}


def check_gradients(graph: Graph, inputs: Mapping[str, Array], native: bool = False) -> int:
    """Compare all gradients of a graph, without variables, with differences along random
    directions; how many gradients there are."""
    rng = np.random.default_rng(len(inputs))
    derived = gradient_graph(graph)
    verify_graph(derived)
    text = format_graph(derived)
    assert format_graph(parse_graph(text)) == text
    results = run(graph, inputs)
    cotangents: dict[str, Array] = {
        p.name: rng.standard_normal(results[p.name].shape) for p in _real(graph.outputs)
    }
    names = [p.name for p in derived.inputs[len(graph.inputs) :]]
    arguments: dict[str, Array] = {**inputs, **dict(zip(names, cotangents.values(), strict=True))}
    gradients = list(run(derived, arguments).values())
    _check_pair(graph, arguments, gradients)
    if native and gradients:
        found = compile_graph(derived, threads=1, real="float64")(**arguments)
        for want, got in zip(gradients, found if len(gradients) > 1 else [found], strict=True):
            np.testing.assert_allclose(got, want, 1e-7, 1e-7, err_msg=text)

    def loss(name: str, value: Array) -> float:
        values = run(graph, {**inputs, name: value})
        return float(sum((d * values[n]).sum() for n, d in cotangents.items()))

    for port, gradient in zip(_real(graph.inputs), gradients, strict=True):
        x = inputs[port.name]
        for _ in range(2):
            v = rng.standard_normal(x.shape)
            change = loss(port.name, x + STEP * v) - loss(port.name, x - STEP * v)
            difference = change / (2 * STEP)
            allowed = 1e-5 * (1 + float(abs(gradient * v).sum()))
            where = f"{port.name} of\n{format_graph(graph)}\n{text}"
            assert abs(difference - float((gradient * v).sum())) <= allowed, where
    return len(gradients)


def _real(ports: tuple[Port, ...]) -> list[Port]:
    return [p for p in ports if p.tensors[0].dtype.is_real]


def _check_pair(graph: Graph, arguments: Mapping[str, Array], gradients: list[Array]) -> None:
    """Forward and reverse graph give the same numbers."""
    forward, backward = forward_and_backward(graph)
    verify_graph(forward)
    verify_graph(backward)
    given = {p.name: arguments[p.name] for p in forward.inputs}
    values = {**arguments, **run(forward, given)}
    needed = {p.name: values[p.name] for p in backward.inputs}
    found = run(backward, needed).values()
    for want, got in zip(gradients, found, strict=True):
        np.testing.assert_allclose(got, want, 1e-9, 1e-9)
