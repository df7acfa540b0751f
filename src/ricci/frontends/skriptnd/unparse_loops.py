"""Loop variables of which each step decides the shape, as ones that keep theirs.

    loop { with x: real[n] = a; ... yield b; }        n, at most 9, is a loop variable, too
    loop { with p: real[9] = a, padded; x = the first n of p; ... yield b, padded; }

In the language a loop variable keeps its shape (specification 2.10.1). It may be as large as it
ever gets, as the sizes that are carried beside it tell how much of it counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...ir import nodes, rewrite
from ...records import replace
from .unparse_expressions import unsayable

Definitions = Mapping[nodes.Symbol, nodes.Tensor]


def with_fixed_variables(graph: nodes.Graph) -> nodes.Graph:
    """The graph with no loop variable whose shape changes.

    Raises E0706 where such a shape has no upper bound.
    """
    return replace(graph, operations=_fixed(graph.operations, dict(graph.sizes)))


def _fixed(steps: Sequence[nodes.Step], sizes: Definitions) -> tuple[nodes.Step, ...]:
    return tuple([new for step in steps for new in _fixed_step(step, sizes)])


def _fixed_step(step: nodes.Step, sizes: Definitions) -> Iterator[nodes.Step]:
    step = rewrite.map_regions(step, lambda r: replace(r, operations=_fixed(r.operations, sizes)))
    behind = []
    if isinstance(step, nodes.Loop):
        carried = {x for x, tensor in sizes.items() if tensor in step.variables}
        for position, variable in enumerate(step.variables):
            if carried.isdisjoint(rewrite.free_symbols(*variable.shape)):
                continue
            shape = tuple([_most(e) if e in carried else e for e in variable.shape])
            before, step, after = _padded(step, position, shape)
            yield before
            behind.append(after)
    yield step
    yield from behind


def _most(extent: nodes.Expr) -> nodes.Expr:
    if not isinstance(extent, nodes.Symbol) or extent.bound is None:
        raise unsayable("a loop variable whose size has no upper bound")
    return extent.bound


def _padded(
    loop: nodes.Loop, position: int, shape: tuple[nodes.Expr, ...]
) -> tuple[nodes.Operation, nodes.Loop, nodes.Operation]:
    """A loop with a variable of this shape in place of another, and what is around it."""
    tensors = [
        ts[position] for ts in (loop.initial, loop.variables, loop.body.results, loop.outputs)
    ]
    initial, variable, result, output = [replace(t, shape=shape, data=None) for t in tensors]
    taken = _copied(variable, tensors[1], tensors[1].shape)
    given = _copied(tensors[2], result, tensors[2].shape)
    body = nodes.Region(
        (taken, *loop.body.operations, given), _with(loop.body.results, position, result)
    )
    condition = loop.condition
    if condition is not None:
        condition = replace(condition, operations=(taken, *condition.operations))
    new = replace(
        loop,
        initial=_with(loop.initial, position, initial),
        variables=_with(loop.variables, position, variable),
        outputs=_with(loop.outputs, position, output),
        body=body,
        condition=condition,
    )
    before = _copied(tensors[0], initial, tensors[0].shape)
    return before, new, _copied(output, tensors[3], tensors[3].shape)


def _copied(
    source: nodes.Tensor, target: nodes.Tensor, shape: tuple[nodes.Expr, ...]
) -> nodes.Operation:
    """The elements within a shape; the others, if there are more, are zeros."""
    domain = tuple([nodes.Index(f"i{k}", extent) for k, extent in enumerate(shape)])
    at = tuple([nodes.Subscript(index) for index in domain])
    value = nodes.Access(source, at)
    line = nodes.Assignment((nodes.Access(target, at),), "set", (value,), domain)
    return nodes.Operation("resize", (target,), (line,), (source,))


def _with(
    tensors: Sequence[nodes.Tensor], position: int, new: nodes.Tensor
) -> tuple[nodes.Tensor, ...]:
    return (*tensors[:position], new, *tensors[position + 1 :])
