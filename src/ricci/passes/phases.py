"""Strided targets taken apart: `y[s*i + j] += x[i] * w[j]` as `s` reductions with plain targets.

Requires: an assignment. Ensures: where a subscript of the target is `s*i + d*j + c` with s and d
coprime, and the extent and that of j are known, the assignment is one per remainder `p` of the
subscript: with `t` for its quotient and `j = s*k + j0`, `i = t - d*k + (p - c - d*j0) / s`, so all
subscripts are linear. If s divides the extent, the target is a tensor of shape [extent / s, s] with
the bytes of the original, else its subscript is `s*t + p`. Does not: handle several targets, or
guards that depend on data.

Example: with s = 2, d = 1, c = -1, even elements take odd j, and odd elements even j.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from ..ir import shapes
from ..ir.nodes import Access, Assignment, Const, Expr, Index, Skip, Subscript, Tensor, integer
from ..ir.rewrite import Replaceable, free_indices, substitute_assignment
from ..records import dataclass, replace
from .turn import has_data_guard, replace_index


@dataclass(frozen=True, slots=True)
class _Form:
    """A subscript `step * outer + other * inner + constant` of dimension `d`."""

    d: int
    step: int
    outer: Index
    other: int
    inner: Index
    constant: int


def split_phases(a: Assignment) -> tuple[list[Assignment], dict[Tensor, Tensor]]:
    """The assignments that together are the given one, and the view that they write; that
    one alone if it is not of this kind."""
    if len(a.targets) != 1 or a.op in ("set", "update") or has_data_guard(a):
        return [a], {}
    forms = [f for d in range(len(a.targets[0].subscripts)) if (f := _form(a, d)) is not None]
    if not forms:
        return [a], {}
    parts: list[tuple[Assignment, dict[int, int]]] = [(a, {})]
    for form in forms:
        parts = [
            (phase, {**done, form.d: p})
            for part, done in parts
            for p in range(form.step)
            if (phase := _phase(part, form, p)) is not None
        ]
    if not parts:
        return [a], {}
    tensor = a.targets[0].tensor
    even = [f for f in forms if _int(tensor.shape[f.d]) % f.step == 0]
    if not even:
        return [_on_view(*part, tensor, forms) for part in parts], {}
    view = _view(tensor, even)
    return [_on_view(*part, view, forms) for part in parts], {view: tensor}


def are_all_phases(targets: Sequence[Access]) -> bool:
    """Whether what such assignments write, each a part of one tensor, is all of that."""
    steps: dict[int, int] = {}
    found = set()
    for target in targets:
        phases = []
        for d, (s, extent) in enumerate(zip(target.subscripts, target.tensor.shape, strict=True)):
            step, phase = 1, 0
            if not (isinstance(s.index, Index) and s.index.extent == extent):
                step, phase = _phase_of(s, shapes.as_int(extent)) or (0, 0)
            if steps.setdefault(d, step) != step or step == 0:
                return False
            phases.append(phase)
        found.add(tuple(phases))
    return len(found) == math.prod(steps.values())


def _phase_of(subscript: Subscript, extent: int | None) -> tuple[int, int] | None:
    """Of how many phases of a dimension a subscript reaches all of one, and of which."""
    if extent is None:
        return None
    if isinstance(subscript.index, Const):
        return extent, _int(subscript.index)
    strided = strided_index(subscript.index)
    if strided is None:
        return None
    index, step, phase = strided
    known = isinstance(index.extent, Const) and phase < step
    return (step, phase) if known and _int(index.extent) == -((phase - extent) // step) else None


def strided_index(place: Expr) -> tuple[Index, int, int] | None:
    """The index, step and constant of a subscript `step * index + constant`."""
    form = shapes.affine(place)
    if form is None or len(form[0]) != 1:
        return None
    ((index, step),) = form[0].items()
    return (index, step, form[1]) if isinstance(index, Index) and step > 1 else None


def joined(target: Access, tensor: Tensor) -> Access:
    """Where in a tensor an element of such a view of it is."""
    places, shape = list(target.subscripts), list(target.tensor.shape)
    subscripts = []
    for extent in tensor.shape:
        place = places.pop(0)
        if shape.pop(0) != extent:
            step, phase = shape.pop(0), places.pop(0)
            place = Subscript(shapes.add(shapes.mul(place.index, step), phase.index))
        subscripts.append(place)
    return Access(tensor, tuple(subscripts), target.span)


def _form(a: Assignment, d: int) -> _Form | None:
    target = a.targets[0]
    subscript, extent = target.subscripts[d], shapes.as_int(target.tensor.shape[d])
    form = shapes.affine(subscript.index)
    if not extent:
        return None
    if form is None or len(form[0]) != 2 or not all(isinstance(i, Index) for i in form[0]):
        return None
    if not isinstance(subscript.rule, Skip):
        low, high = shapes.interval(subscript.index)
        if low < 0 or high >= extent:
            return None
    elsewhere = free_indices(*(s.index for k, s in enumerate(target.subscripts) if k != d))
    pairs = cast("list[tuple[Index, int]]", list(form[0].items()))
    for (outer, step), (inner, other) in (pairs, pairs[::-1]):
        if 1 < step <= extent and math.gcd(step, other) == 1:
            known = isinstance(inner.extent, Const)
            if known and outer not in elsewhere and inner not in elsewhere:
                return _Form(d, step, outer, other, inner, form[1])
    return None


def _phase(a: Assignment, form: _Form, p: int) -> Assignment | None:
    """The terms that reach the elements whose subscript has the remainder `p`."""
    step, other = form.step, form.other
    first = (p - form.constant) * pow(other, -1, step) % step
    count = -(-(_int(form.inner.extent) - first) // step)
    if count <= 0:
        return None
    extent = -((p - _int(a.targets[0].tensor.shape[form.d])) // step)
    inner = Index(f"{form.inner.name}'", integer(count), form.inner.span)
    fresh = Index(f"{form.outer.name}'", integer(extent), form.outer.span)
    place = shapes.add(shapes.mul(inner, integer(step)), integer(first))
    new: dict[Replaceable, Expr | Tensor] = {form.inner: place}
    domain = tuple(inner if i is form.inner else i for i in a.domain)
    a = replace(substitute_assignment(a, new), domain=domain)
    moved = integer((p - form.constant - other * first) // step)
    rest = shapes.sub(shapes.add(fresh, moved), shapes.mul(inner, integer(other)))
    return replace_index(a, form.d, form.outer, fresh, shapes.simplify(rest), 1)


def _view(tensor: Tensor, forms: list[_Form]) -> Tensor:
    steps = {f.d: f.step for f in forms}
    shape: list[Expr] = []
    for d, extent in enumerate(tensor.shape):
        step = steps.get(d)
        shape += [extent] if step is None else [integer(_int(extent) // step), integer(step)]
    return replace(tensor, shape=tuple(shape))


def _on_view(a: Assignment, phases: dict[int, int], view: Tensor, forms: list[_Form]) -> Assignment:
    target = a.targets[0]
    steps = {f.d: f.step for f in forms}
    subscripts: list[Subscript] = []
    for d, s in enumerate(target.subscripts):
        if d not in phases:
            subscripts.append(s)
        elif _int(target.tensor.shape[d]) % steps[d] == 0:
            subscripts += [s, Subscript(integer(phases[d]))]
        else:
            place = shapes.mul(s.index, integer(steps[d]))
            subscripts.append(Subscript(shapes.add(place, integer(phases[d]))))
    return replace(a, targets=(Access(view, tuple(subscripts), target.span),))


def _int(extent: Expr) -> int:
    return int(cast(Const, extent).value)
