"""Invocations of the library in a composed graph that no formula of the language can replace.

Data decides the sizes or the order of what they compute, or they need integers of a certain width
(`intrinsics`). What they are invoked with is read off their operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ir import nodes, rewrite, shapes
from ...records import dataclass, replace
from .standard_files import is_library_source
from .unparse_expressions import type_name


@dataclass(frozen=True)
class LibraryCall:
    """An operator of the library, and what it is invoked with; its first output is the result."""

    module: str
    operator: str
    types: tuple[str, ...] = ()
    attributes: tuple[tuple[str, nodes.Expr | tuple[nodes.Expr, ...] | str], ...] = ()


def folded(graph: nodes.Graph) -> nodes.Graph:
    """The graph with one operation for each invocation that consists of several.

    It is for those who read `library_call` only: no rule of the IR holds for what is folded.
    """
    steps = [*graph.operations]
    return replace(graph, operations=_folded(steps))


def library_call(operation: nodes.Operation) -> LibraryCall | None:
    """The invocation that an operation, after `folded`, stands for."""
    if not is_library_source(operation.span.source):
        return None
    match operation.name:
        case "layout.nonzero":
            return LibraryCall("layout", "nonzero")
        case "rand.next":
            return LibraryCall("rand", "next")
        case "rand.draw":
            return _draw(operation)
        case "algo.nonmax_suppress":
            return _suppress(operation)
    return None


def _draw(operation: nodes.Operation) -> LibraryCall:
    """`low + unit * (high - low)`, or `low + int(word % (high - low + 1))` of words."""
    (result,) = operation.outputs
    (value,) = operation.body[0].values
    assert isinstance(value, nodes.Binary)
    low, offset = value.lhs, value.rhs
    if isinstance(offset, nodes.Cast):
        width = _binary(offset.operand).rhs
        last = _binary(_binary(width).lhs).lhs
        assert isinstance(last, nodes.Cast)
        high = last.operand
    else:
        high = _binary(_binary(offset).rhs).lhs
    given = (("min", low), ("max", high), ("shape", result.shape))
    return LibraryCall("rand", "draw", (type_name(result.dtype),), given)


def _suppress(operation: nodes.Operation) -> LibraryCall:
    """What the operations of `intrinsics_suppress` were made with."""
    lines = {line.targets[0].tensor: line for line in operation.body}
    corners = next(line for line in operation.body if len(line.targets) == 4)
    centred = _binary(corners.values[0]).op == "sub"
    step = next(x for x in lines.values() if isinstance(x.values[-1], nodes.Select))
    covered = step.values[-1]
    assert isinstance(covered, nodes.Select)
    most = shapes.sub(step.targets[0].tensor.shape[2], nodes.ONE)
    counting = next(
        _binary(x.values[0])
        for x in lines.values()
        if len(x.locals) == 1 and isinstance(x.values[0], nodes.Binary)
        and x.values[0].op in ("gt", "eq") and x.values[0].lhs is x.locals[0]
    )  # fmt: skip
    attributes: list[tuple[str, nodes.Expr | tuple[nodes.Expr, ...] | str]] = [
        ("box_format", "CENTER" if centred else "CORNERS"),
        ("max_outputs_per_class", most),
        ("iou_threshold", _binary(covered.otherwise).rhs),
    ]
    if counting.op == "gt":
        attributes.append(("score_threshold", counting.rhs))
    return LibraryCall("algo", "nonmax_suppress", (), tuple(attributes))


def _binary(expr: nodes.Expr) -> nodes.Binary:
    assert isinstance(expr, nodes.Binary)
    return expr


# ------------------------------------------------------------------------ folding


def _folded(steps: Sequence[nodes.Step]) -> tuple[nodes.Step, ...]:
    result = [_with_folded_regions(step) for step in steps]
    for last in steps:
        if isinstance(last, nodes.Operation) and last.name == "algo.nonmax_suppress":
            if is_library_source(last.span.source):
                group = _group(last, [x for x in result if isinstance(x, nodes.Operation)])
                result[result.index(last)] = _as_one(group, last)
                result = [x for x in result if x not in group]
    return tuple(result)


def _with_folded_regions(step: nodes.Step) -> nodes.Step:
    return rewrite.map_regions(step, lambda r: replace(r, operations=_folded(r.operations)))


def _group(last: nodes.Operation, operations: Sequence[nodes.Operation]) -> list[nodes.Operation]:
    """The operations of one invocation: what its last one is made of, and what counts for it."""
    mine = [x for x in operations if x.calls == last.calls]
    group = {last}
    known = 0
    while known < len(group):
        known = len(group)
        made, read = _outputs(group), _inputs(group)
        group |= {x for x in mine if made & set(x.inputs) or read & set(x.outputs)}
    return [x for x in mine if x in group]


def _as_one(group: Sequence[nodes.Operation], last: nodes.Operation) -> nodes.Operation:
    made = _outputs(group)
    read = dict.fromkeys(t for x in group for t in x.inputs if t not in made)
    others = [t for x in group for t in x.outputs if t not in last.outputs]
    body = tuple([line for x in group for line in x.body])
    outputs = (*last.outputs, *others)
    return replace(last, outputs=outputs, body=body, inputs=_boxes_first(group, read))


def _boxes_first(
    group: Sequence[nodes.Operation], read: Iterable[nodes.Tensor]
) -> tuple[nodes.Tensor, ...]:
    """The boxes, which the corners are made of, and the scores, which may be the same tensor."""
    (boxes,) = next(x.inputs for x in group if x.name == "corners")
    scores = next(x for x in group if x.name == "score").inputs
    return (boxes, next((t for t in read if t in scores), boxes))


def _inputs(group: Iterable[nodes.Operation]) -> set[nodes.Tensor]:
    return {t for x in group for t in x.inputs}


def _outputs(group: Iterable[nodes.Operation]) -> set[nodes.Tensor]:
    return {t for x in group for t in x.outputs}
