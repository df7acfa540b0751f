"""`@update`: new values of variables, also from within branches and loops (specification 2.11).

Within one invocation of an operator a variable has its old value. What it is given is what the
next invocation that shares it sees: one in the next step of a loop, one in a later call.

Spec: does not speak of updates in branches and loops. Ricci: a variable is updated by the branch
that is taken, and by each step; in a condition there are no updates.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import nodes, rewrite
from ...records import replace
from ...source import Span
from . import syntax as s
from .compose_body import Body, tensors_of
from .compose_graph import Builder
from .compose_parts import Part
from .values import AnyValue, DynamicPack, Value, fail, show


def update_variable(body: Body, result: s.Result, variable: Value, value: AnyValue) -> None:
    """Let a variable, or each of a pack, hold a new value. Raises E0413 and E0401."""
    old, new = tensors_of(variable), tensors_of(value)
    if isinstance(value, DynamicPack) and len(old) <= len(new):
        what, count = f"the number of items for variable `{result.name}`", nodes.integer(len(old))
        fits = body.builder.agree(value.length, count, what, result.span)
        new = new[: len(old)] if fits else new
    packed = isinstance(variable, tuple), not isinstance(value, nodes.Tensor)
    if len(old) != len(new) or packed[0] != packed[1]:
        found = f"a pack of {len(new)}" if packed[1] else "a single tensor"
        wanted = f"a pack of {len(old)}" if packed[0] else "a single tensor"
        message = f"variable `{result.name}` is {wanted}, and its new value {found}"
        raise fail("E0413", message, result.span)
    what = f"variable `{result.name}`"
    for a, b in zip(old, new, strict=True):
        pairs = zip(a.shape, b.shape, strict=False)
        fits = a.dtype is b.dtype and a.rank == b.rank
        if not fits or not all(body.builder.agree(x, y, what, result.span) for x, y in pairs):
            message = f"the new value of {what} has another type or shape"
            raise fail("E0401", message, result.span, f"{show(b)} for {show(a)}")
        if b is not a:
            body.builder.update(a, b)


def forbid_updates(part: Part, span: Span) -> None:
    """Raises E0608 for a condition that updates variables."""
    if part.updates:
        names = ", ".join(f"`{v.name}`" for v in part.updates)
        raise fail("E0608", "a condition must not update variables", span, f"it updates {names}")


def carry_updates(builder: Builder, part: Part, step: nodes.Loop) -> nodes.Loop:
    """The loop with the variables that its body updates carried from step to step."""
    known = len(step.variables)
    results = list(step.body.results)
    unchanged: dict[nodes.Tensor, nodes.Tensor] = {}
    for variable, held in part.held.items():
        before = builder.current(variable)
        if variable not in part.updates:
            unchanged[held] = before
            continue
        after = builder.tensor(None, variable.dtype, variable.shape, step.span)
        results.insert(known, part.updates[variable])
        step = replace(
            step,
            outputs=(*step.outputs, after),
            variables=(*step.variables, held),
            initial=(*step.initial, before),
        )
        known += 1
        builder.update(variable, after)
    step = replace(step, body=replace(step.body, results=tuple(results)))
    carried = rewrite.substitute_tensors(step, unchanged)
    assert isinstance(carried, nodes.Loop)
    return carried


def merge_updates(
    builder: Builder, parts: Sequence[Part], span: Span
) -> tuple[list[nodes.Tensor], list[list[nodes.Tensor]]]:
    """The variables that some branch updates, as they are behind all: the outputs, and for each
    what every branch gives."""
    outputs, rows = [], []
    updated = list(dict.fromkeys(v for part in parts for v in part.updates))
    for variable in updated:
        before = builder.current(variable)
        rows.append([part.updates.get(variable, before) for part in parts])
        outputs.append(builder.tensor(None, variable.dtype, variable.shape, span))
    for variable, output in zip(updated, outputs, strict=True):
        builder.update(variable, output)
    return outputs, rows
