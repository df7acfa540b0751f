"""What is proved of an assignment: whether it reaches each cell, and whether more than once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

from ...ir import nodes as ir
from ...ir import shapes
from ...ir.rewrite import Replaceable, accesses, expressions, free_indices, substitute
from .extents import in_range

_TRIALS = 100
"""Most choices of the summed indices for which reaching a cell is tried to be proved."""


def guards(a: ir.Assignment) -> Iterator[ir.Expr]:
    """The conditions under which indices, but those of the target itself, are in range."""
    for access in accesses(*expressions(a)):
        if access not in a.targets:
            yield from guards_of(access)


def guards_of(access: ir.Access) -> Iterator[ir.Expr]:
    """The conditions under which the indices of an element are in range."""
    for subscript, extent in zip(access.subscripts, access.tensor.shape, strict=True):
        if isinstance(subscript.rule, ir.Skip):
            yield in_range(subscript.index, extent)


def is_single(a: ir.Assignment) -> bool:
    """Whether each cell is certainly reached by one combination at most."""
    left = {i for i in a.domain if not shapes.less_equal(i.extent, ir.ONE)}
    progress = True
    while left and progress:
        progress = False
        for subscript in a.targets[0].subscripts:
            decided = _digits(subscript.index, left)
            progress |= bool(decided)
            left -= decided
    return not left


def _digits(index: ir.Expr, unknown: set[ir.Index]) -> set[ir.Index]:
    """The indices that a subscript decides, if all others in it are known: the digits of a number
    whose weights are far enough apart."""
    form = shapes.linear(index)
    if form is None:
        return set()
    inside = {i: abs(w) for i, f in form[0].items() if i in unknown and (w := shapes.as_int(f))}
    if len(inside) < len([i for i in form[0] if i in unknown]):
        return _symbolic_digits(form[0], unknown)
    reach: ir.Expr = ir.ZERO
    for i, weight in sorted(inside.items(), key=lambda pair: pair[1]):
        if not shapes.less(reach, ir.integer(weight)):
            return set()
        most = shapes.sub(i.extent, ir.ONE)
        reach = shapes.add(reach, shapes.mul(most, ir.integer(weight)))
    return set(inside)


def _symbolic_digits(form: dict[ir.Index, ir.Expr], unknown: set[ir.Index]) -> set[ir.Index]:
    """As `_digits` where weights are sizes: exactly those of a mixed-radix number."""
    left = {i: f for i, f in form.items() if i in unknown}
    weight: ir.Expr = ir.ONE
    found: set[ir.Index] = set()
    while left:
        index = next((i for i, f in left.items() if shapes.equal(f, weight)), None)
        if index is None:
            return set()
        del left[index]
        found.add(index)
        weight = shapes.mul(weight, index.extent)
    return found


def is_covering(a: ir.Assignment) -> bool:
    """Whether each cell is certainly reached."""
    left = list(a.domain)
    for subscript, extent in zip(a.targets[0].subscripts, a.targets[0].tensor.shape, strict=True):
        digits = _all_digits(subscript, extent)
        if digits is None or not all(i in left for i in digits):
            return False
        left = [i for i in left if i not in digits]
    some = all(shapes.less_equal(ir.ONE, i.extent) for i in left)
    return some and _has_witness(a, left)


def _has_witness(a: ir.Assignment, summed: list[ir.Index]) -> bool:
    """Whether, for one choice of the summed indices, no combination is skipped."""
    conditions = list(guards(a))
    if a.condition is not None:
        conditions.append(a.condition)
    used = set(free_indices(*conditions))
    chosen = [i for i in summed if i in used]
    choices = product(*[_candidates(a, i) for i in chosen])
    return not conditions or any(
        _all_hold(conditions, dict(zip(chosen, values, strict=True)))
        for values in islice(choices, _TRIALS)
    )


def _all_hold(conditions: list[ir.Expr], values: dict[ir.Index, ir.Expr]) -> bool:
    known: dict[Replaceable, ir.Expr | ir.Tensor] = dict(values.items())
    return all(shapes.simplify(substitute(c, known)) == ir.TRUE for c in conditions)


def _candidates(a: ir.Assignment, index: ir.Index) -> list[ir.Expr]:
    """The first value of an index, the one at which a guarded subscript has no offset, the last."""
    last = shapes.sub(index.extent, ir.ONE)
    found: list[ir.Expr] = [ir.ZERO]
    for access in accesses(*expressions(a)):
        for subscript in access.subscripts:
            form = shapes.linear(subscript.index) if subscript.rule is not None else None
            if form is not None and shapes.as_int(form[0].get(index, ir.ZERO)) == 1:
                offset = shapes.neg(form[1])
                if shapes.less_equal(ir.ZERO, offset) and shapes.less_equal(offset, last):
                    found.append(offset)
    return list(dict.fromkeys([*found, last]))


def _all_digits(subscript: ir.Subscript, extent: ir.Expr) -> set[ir.Index] | None:
    """The indices of a mixed-radix number that takes every value below an extent."""
    form = shapes.linear(subscript.index)
    if form is None or form[1] != ir.ZERO:
        return None
    digits = _symbolic_digits(form[0], set(form[0]))
    size = shapes.product(*[i.extent for i in digits])
    if len(digits) < len(form[0]) or not shapes.less_equal(extent, size):
        return None
    return digits


def is_plain(a: ir.Assignment) -> bool:
    """Whether each subscript of the target is in range and counts indices of its own."""
    digits = [_all_digits(x, ir.ZERO) for x in a.targets[0].subscripts if x.rule is None]
    return len(digits) == len(a.targets[0].subscripts) and all(d is not None for d in digits)
