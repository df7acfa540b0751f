"""Operators of PyTorch on ordinary tensors, without its dispatcher, which takes longer than many a
kernel.

Requires: a graph, its forward graph, and the reverse graph of that. Ensures: a function of tensors
with a gradient. Only the gradients that are asked for are computed, from the cotangents that there
are: by a program of its own for each choice, derived and compiled when it first occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from .dtypes import DType
from .ir.nodes import Graph
from .passes.gradient import cotangent_names, is_real
from .passes.gradient_pair import backward_of
from .records import dataclass, replace

Compute = Callable[..., Any]
"""Computes a graph: a tensor, or a tuple of several, of tensors."""


def make_eager(
    graph: Graph,
    wrt: Sequence[str],
    forward: Graph,
    backward: Graph,
    implement: Callable[[Graph], Compute],
) -> Compute:
    """`graph` as a function of tensors with gradients of `wrt`.

    `forward` and `backward` are `forward_and_backward(graph, wrt)`; `implement` gives what
    computes a graph.
    """
    run = implement(forward)
    gradients = _Gradients(graph, wrt, forward, backward, implement)
    discrete = [k for k, p in enumerate(graph.outputs) if not is_real(p)]
    count, saved = len(graph.outputs), gradients.saved

    class Eager(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> Any:
            found = run(*inputs)
            results = found if isinstance(found, tuple) else (found,)
            known = (*inputs, *results)
            ctx.save_for_backward(*[known[k] for k in saved])
            ctx.set_materialize_grads(False)
            if count == 1:
                return results[0]
            ctx.shapes = [r.shape for r in results[:count]]
            if discrete:
                ctx.mark_non_differentiable(*[results[k] for k in discrete])
            return results[:count]

        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor | None) -> Any:
            # a gradient of a gradient is an error that is raised when it is computed
            compute = once if torch.is_grad_enabled() else gradients
            return compute(ctx, *cotangents)

    once: Compute = torch.autograd.function.once_differentiable(gradients)
    return cast(Compute, cast(Any, Eager).apply)


@dataclass(frozen=True, slots=True)
class _Way:
    """How some gradients are computed from some cotangents."""

    run: Compute
    places: list[int]
    """Of its arguments, among what is saved and then the cotangents."""
    order: list[int]
    """Of the gradients of all inputs, among its results; -1 for one that is not wanted."""
    has_zeros: bool = False
    """Whether zeros stand for cotangents that are missing."""


class _Gradients:
    """The gradients of all inputs, or `None`, from what a call has saved and the cotangents."""

    def __init__(
        self,
        graph: Graph,
        wrt: Sequence[str],
        forward: Graph,
        backward: Graph,
        implement: Callable[[Graph], Compute],
    ) -> None:
        self._graph, self._forward, self._backward = graph, forward, backward
        self._wrt, self._implement = list(wrt), implement
        names = [p.name for p in (*graph.inputs, *forward.outputs)]
        needed = {p.name for p in backward.inputs}
        self.saved = [k for k, name in enumerate(names) if name in needed]
        """Which of the inputs, and then of the results, of the forward graph are needed."""
        cotangents = cotangent_names(graph)
        known = [names[k] for k in self.saved]
        known += [cotangents.get(p.name, "") for p in graph.outputs]
        self._places = {name: k for k, name in enumerate(known)}
        self._ways: dict[object, _Way] = {}

    def __call__(self, ctx: Any, *cotangents: torch.Tensor | None) -> Any:
        needs = ctx.needs_input_grad
        key = needs, *[c is None for c in cotangents]
        way = self._ways.get(key)
        if way is None:
            way = self._ways[key] = self._way(needs, [c is None for c in cotangents])
        known = (*ctx.saved_tensors, *cotangents)
        if way.has_zeros:
            known = self._with_zeros(known, ctx.shapes)
        found = way.run(*[known[k] for k in way.places])
        gradients = (*found, None) if isinstance(found, tuple) else (found, None)
        return tuple([gradients[k] for k in way.order])

    def _way(self, needs: Sequence[bool], missing: Sequence[bool]) -> _Way:
        """What computes some gradients from some cotangents."""
        inputs = zip(self._graph.inputs, needs, strict=True)
        wanted = [p.name for p, is_needed in inputs if is_needed and p.name in self._wrt]
        outputs = zip(self._graph.outputs, missing, strict=True)
        given = [p.name for p, is_missing in outputs if not is_missing and is_real(p)]
        if not (wanted and given):
            return _Way(lambda: (), [], [-1] * len(needs))
        all_given = len(given) == len(cotangent_names(self._graph))
        if not (all_given and set(wanted) == set(self._wrt)):
            exact = backward_of(self._forward, self._graph, wanted, given)
            if exact is not None and self._places.keys() >= {p.name for p in exact.inputs}:
                return self._way_of(exact, wanted)
        return replace(self._way_of(self._backward, self._wrt), has_zeros=not all_given)

    def _way_of(self, graph: Graph, wrt: Sequence[str]) -> _Way:
        places = [self._places[p.name] for p in graph.inputs]
        order = [wrt.index(p.name) if p.name in wrt else -1 for p in self._graph.inputs]
        return _Way(self._implement(graph), places, order)

    def _with_zeros(
        self, known: Sequence[torch.Tensor | None], shapes: Sequence[torch.Size]
    ) -> tuple[torch.Tensor | None, ...]:
        """The same, with zeros for the cotangents that are missing."""
        count = len(shapes)
        dtypes = [torch_dtype(p.tensors[0].dtype) for p in self._graph.outputs]
        kinds = zip(known[-count:], shapes, dtypes, strict=True)
        zeros = [torch.zeros(n, dtype=t) if c is None else c for c, n, t in kinds]
        return (*known[:-count], *zeros)


def torch_dtype(dtype: DType) -> torch.dtype:
    """What PyTorch calls a type; the abstract ones are what a model is compiled with."""
    names = {DType.REAL: "float32", DType.INT: "int64"}
    return cast(torch.dtype, getattr(torch, names.get(dtype, dtype.value)))
