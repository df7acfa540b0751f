"""Changes of variables, by which loops get shorter and targets are addressed by plain indices.

An index that a guard keeps in a window counts through the window instead:

`Y[q] += W[|p - 2 * q|] * X[p]` with p < 100 and `W: [3]` has a hundred terms for each q, of which
three are not skipped. With `f = p - 2 * q`, below 3, it is `Y[q] += W[f] * X[|f + 2 * q|]`.

An index of which a target uses quotient or remainder is taken apart: `Y[p / 2] += X[p]` becomes
`Y[u] += X[|2 * u + v|]` with v < 2.

What is executed are the same combinations, for any operator.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir import nodes as ir
from ...ir import shapes
from ...ir.rewrite import (
    accesses,
    children,
    expressions,
    free_indices,
    map_assignment,
    substitute_assignment,
    walk,
)
from ...records import dataclass, replace
from .extents import in_range


@dataclass(frozen=True, slots=True)
class _Window:
    """`subscript`, below `extent`, is `sign * index + rest`."""

    index: ir.Index
    sign: int
    rest: ir.Expr
    extent: ir.Expr


def narrowed(a: ir.Assignment) -> ir.Assignment:
    """The assignment with digits for indices, and over as small windows as its guards allow."""
    for index in a.domain:
        a = _taken_apart(a, index)
    made: set[ir.Index] = set()
    for _ in a.domain:
        window = next((w for w in _windows(a) if w.index not in made), None)
        if window is None:
            break
        a, new = _through(a, window)
        made.add(new)
    return a


def _windows(a: ir.Assignment) -> Iterator[_Window]:
    """The changes that make loops shorter and keep targets plain; then those of an index that is
    not summed by which one that is summed gets a shorter loop."""
    kept = set(free_indices(*a.targets))
    last: list[_Window] = []
    for access in accesses(*expressions(a)):
        for window in _of_access(a, access):
            if access in a.targets or window.index not in kept:
                yield window
            elif not kept.issuperset(free_indices(window.rest)):
                last.append(window)
    yield from last


def _of_access(a: ir.Assignment, access: ir.Access) -> Iterator[_Window]:
    for subscript, extent in zip(access.subscripts, access.tensor.shape, strict=True):
        is_free = isinstance(subscript.rule, ir.Skip) or access in a.targets
        form = shapes.linear(subscript.index) if is_free else None
        for index, factor in ({} if form is None else form[0]).items():
            sign = shapes.as_int(factor)
            if sign not in (1, -1) or index not in a.domain:
                continue
            rest = shapes.sub(subscript.index, shapes.mul(factor, index))
            window = _Window(index, sign, rest, extent)
            if _is_shorter(window) or (access in a.targets and _is_as_long(window)):
                yield window


def _is_shorter(window: _Window) -> bool:
    """Whether a window is the shorter loop; of open sizes, if it is certainly not the longer one
    and its place is the difference of two that move: a filter's, not an image's."""
    extent = window.index.extent
    if shapes.less(window.extent, extent):
        return True
    sizes = shapes.as_int(window.extent), shapes.as_int(extent)
    if None not in sizes or shapes.less_equal(extent, window.extent):
        return False
    form = shapes.linear(window.rest)
    return form is not None and any(
        shapes.less_equal(shapes.mul(factor, ir.integer(window.sign)), ir.ZERO)
        for factor in form[0].values()
    )


def _is_as_long(window: _Window) -> bool:
    """Whether a window is passed through in another order: `n - 1 - i` for `i`."""
    new = ir.Index(window.index.name, window.extent)
    place = _place(window, new)
    return (
        window.rest != ir.ZERO
        and shapes.equal(window.extent, window.index.extent)
        and in_range(place, window.extent) == ir.TRUE
    )


def _place(window: _Window, new: ir.Index) -> ir.Expr:
    """The index, from the one that counts through a window."""
    return shapes.mul(ir.integer(window.sign), shapes.sub(new, window.rest))


def _through(a: ir.Assignment, window: _Window) -> tuple[ir.Assignment, ir.Index]:
    """The assignment that counts through a window, and the index that does."""
    new = ir.Index(f"{window.index.name}'", window.extent, window.index.span)
    return replaced(a, window.index, (new,), _place(window, new)), new


def _taken_apart(a: ir.Assignment, index: ir.Index) -> ir.Assignment:
    """The assignment with a quotient and a remainder for an index, where its target uses no more of
    it than these."""
    subscripts = [s.index for s in a.targets[0].subscripts]
    uses = [n for n in walk(*subscripts) if any(part is index for part in children(n))]
    parts = [n for n in uses if isinstance(n, ir.Binary) and n.op in ("floordiv", "mod")]
    if len(parts) < len(uses) or any(x is index for x in subscripts):
        return a
    divisors = {shapes.as_int(n.rhs) for n in parts}
    divisor = divisors.pop() if len(divisors) == 1 else None
    if divisor is None or divisor < 2 or not shapes.less(ir.integer(divisor), index.extent):
        return a
    high = ir.Index(index.name, shapes.ceildiv(index.extent, ir.integer(divisor)), index.span)
    low = ir.Index(f"{index.name}'", ir.integer(divisor), index.span)
    place = shapes.add(shapes.mul(high, ir.integer(divisor)), low)
    return replaced(a, index, (high, low), place)


def replaced(
    a: ir.Assignment, old: ir.Index, new: tuple[ir.Index, ...], place: ir.Expr
) -> ir.Assignment:
    """The assignment with `place`, an expression of new indices, for an index.

    Places beyond its extent are skipped: by a guard of some access, else by the condition.
    """
    bounded = _bounds(a, old)
    domain = tuple(x for i in a.domain for x in (new if i is old else (i,)))
    a = replace(substitute_assignment(a, {old: place}), domain=domain)
    a = map_assignment(a, lambda node: _guarded(node, new))
    if bounded:
        return a
    condition = in_range(place, old.extent)
    if a.condition is not None:
        condition = shapes.logical_and(a.condition, condition)
    return replace(a, condition=None if condition == ir.TRUE else condition)


def _bounds(a: ir.Assignment, index: ir.Index) -> bool:
    """Whether some access keeps an index within its extent: as a subscript of its own."""
    return any(
        s.index is index and shapes.less_equal(extent, index.extent)
        for access in accesses(*expressions(a))
        for s, extent in zip(access.subscripts, access.tensor.shape, strict=True)
    )


def _guarded(node: ir.Expr, new: tuple[ir.Index, ...]) -> ir.Expr:
    """An access whose subscripts with a new index skip what is not proved to be in range."""
    if not isinstance(node, ir.Access) or set(new).isdisjoint(free_indices(node)):
        return node
    pairs = zip(node.subscripts, node.tensor.shape, strict=True)
    return replace(node, subscripts=tuple(guarded(s.index, e) for s, e in pairs))


def guarded(index: ir.Expr, extent: ir.Expr) -> ir.Subscript:
    """A subscript that skips what is out of range, if that can be."""
    index = shapes.simplify(index)
    sure = shapes.less_equal(ir.ZERO, index) and shapes.less(index, extent)
    return ir.Subscript(index, None if sure else ir.Skip())
