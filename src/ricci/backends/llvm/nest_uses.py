"""What the loops of a kernel touch: its accesses as linear forms, and where their guards hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.loops import Reduce
from ...ir.nodes import Access, Binary, Expr, Index, Local, Tensor
from ...ir.rewrite import accesses, children, free_indices, nodes_through_locals
from ...records import dataclass
from .emit import Frame
from .emit_access import Linear, Ranges, compared, is_within, linear, needs_check, range_of
from .emit_types import width
from .sizes import (
    Size,
    least,
    likely,
    lower,
    minus,
    most,
    plus,
    product,
    quotient,
    size_of,
    sizes_of,
    times,
    upper,
)
from .target import Target

LARGE = 16 << 20
"""Bytes of a tensor that no cache of a core holds."""


@dataclass(slots=True)
class Loop:
    """A loop of a nest: an index, or several neighbouring ones run as one."""

    index: Index
    extent: Size


@dataclass(slots=True)
class Use:
    """An access, with its element offset as a linear form."""

    access: Access
    form: Linear
    inner: bool
    """Whether it is touched for every point of the reduction."""
    target: bool


def uses_of(kernel: Reduce, frame: Frame) -> list[Use]:
    """All accesses of a kernel."""
    out = [Use(t, flat_form(t, frame), False, True) for t in kernel.targets]
    inner = accesses(*_inner(kernel))
    out += [Use(a, flat_form(a, frame), True, False) for a in inner]
    rest = accesses(*kernel.initial, *kernel.results)
    out += [Use(a, flat_form(a, frame), False, False) for a in rest if a not in inner]
    return out


def _inner(kernel: Reduce) -> list[Expr]:
    condition = [] if kernel.condition is None else [kernel.condition]
    return [*kernel.values, *condition, *(kernel.locals if kernel.values else ())]


def flat_form(access: Access, frame: Frame) -> Linear:
    """The element offset of an access, boundary rules aside."""
    form = Linear()
    for s, stride in zip(access.subscripts, frame.strides(access.tensor), strict=True):
        form.plus(linear(s.index), stride)
    return form


def is_dynamic(access: Access) -> bool:
    """Whether an access has a guard, a remapping or a check that matters."""
    shape = sizes_of(access.tensor.shape)
    return needs_check(access) or any(
        s.rule is not None and not is_within(s.index, n)
        for s, n in zip(access.subscripts, shape, strict=True)
    )


def loose_indices(kernel: Reduce, uses: Sequence[Use]) -> set[Index]:
    """Indices that matter other than through the linear offsets of plain accesses."""
    loose: set[Index] = set()
    for use in uses:
        loose.update(free_indices(*(e for e, _ in use.form.others.values())))
        if is_dynamic(use.access):
            loose.update(free_indices(use.access))
    exprs = [*kernel.initial, *kernel.values, *kernel.results, *kernel.locals]
    exprs += [] if kernel.condition is None else [kernel.condition]
    loose.update(value_indices(exprs))
    return loose


def value_indices(exprs: Sequence[Expr]) -> set[Index]:
    """Indices whose value is used outside subscripts."""
    found: set[Index] = set()
    seen: set[int] = set()
    stack: list[Expr] = list(exprs)
    while stack:
        expr = stack.pop()
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        if isinstance(expr, Index):
            found.add(expr)
        elif not isinstance(expr, Access):
            stack += _parts(expr)
    return found


def _parts(expr: Expr) -> tuple[Expr, ...]:
    return (expr.value,) if isinstance(expr, Local) else children(expr)


def collapse(indices: Sequence[Index], uses: Sequence[Use], loose: set[Index]) -> list[Loop]:
    """Neighbouring loops made one where every access steps through them alike.

    The inner index then runs through the product of the extents and the outer stays 0.
    """
    loops: list[Loop] = []
    for index in indices:
        extent = size_of(index.extent)
        if extent == 1:
            continue
        last = loops[-1] if loops else None
        if last is not None and index not in loose and last.index not in loose:
            if min(lower(extent), lower(last.extent)) >= 0 and all(
                u.form.indices.get(last.index, 0) == times(extent, u.form.indices.get(index, 0))
                for u in uses
            ):
                loops[-1] = Loop(index, times(last.extent, extent))
                continue
        loops.append(Loop(index, extent))
    return loops


def loops_of(kernel: Reduce, uses: Sequence[Use]) -> tuple[list[Loop], list[Loop], list[Index]]:
    """The loops over domain and reduced indices, and the indices that run as part of another."""
    loose = loose_indices(kernel, uses)
    outer = collapse(kernel.domain, uses, loose)
    reduced = collapse(kernel.reduced, uses, loose)
    kept = {x.index for x in outer} | {x.index for x in reduced}
    return outer, reduced, [i for i in (*kernel.domain, *kernel.reduced) if i not in kept]


def is_read_once(use: Use) -> bool:
    """Whether most elements of a tensor are read, each once: so what is behind one is wanted."""
    if use.form.others:
        return False
    points = likely(product([size_of(i.extent) for i in use.form.indices]))
    size = likely(product(sizes_of(use.access.tensor.shape)))
    return size <= 2 * points <= 2 * size


def is_large(tensor: Tensor) -> bool:
    """Whether no cache of a core holds a tensor."""
    return bytes_of(tensor) >= LARGE


def is_far(tensor: Tensor, target: Target) -> bool:
    """Whether a tensor has so many bytes that who reads it next finds little of it in the caches:
    where it is written, it may as well go past them."""
    return bytes_of(tensor) >= (min(LARGE, target.shared) if target.narrow else LARGE)


def only_adds(kernel: Reduce) -> bool:
    """Whether terms are added as they are read."""
    return kernel.op == "add" and all(isinstance(v, Access) for v in kernel.values)


def bytes_of(tensor: Tensor) -> int:
    """The size of a tensor; 0 if it is not known."""
    size = product(sizes_of(tensor.shape))
    return size * width(tensor.dtype) if isinstance(size, int) else 0


def interior(kernel: Reduce, index: Index, ranges: Ranges) -> tuple[Size, Size]:
    """The values of a domain index for which every guard that has it is sure to hold, and every
    test that compares it with a number comes out as it does for most values.

    As a half-open range; the others range over `ranges`, or all they can. With symbols the end may
    be below the start, for there are none.
    """
    low: Size = 0
    high = size_of(index.extent)
    exprs = _inner(kernel) or [*kernel.initial, *kernel.results]
    for access in accesses(*exprs):
        for s, extent in zip(access.subscripts, sizes_of(access.tensor.shape), strict=True):
            if s.rule is None or is_within(s.index, extent, ranges):
                continue
            form = linear(s.index)
            if index not in form.indices:
                continue
            a, b = _allowed(form, index, extent, ranges)
            low, high = most(low, a), least(high, b)
    for form in _tests(kernel, index, exprs):
        a, b = _usual(form, index, ranges)
        low, high = most(low, a), least(high, b)
    return (0, 0) if upper(minus(high, low)) <= 0 else (low, high)


def _tests(kernel: Reduce, index: Index, exprs: Sequence[Expr]) -> Iterator[Linear]:
    """What conditions compare with zero, as `form >= 0`, that depends on an index, and on no other
    but on those of terms."""
    for node in nodes_through_locals(*exprs):
        if isinstance(node, Binary) and (form := compared(node)) is not None:
            others = [i for i in form.indices if i is not index]
            if index in form.indices and all(i in kernel.reduced for i in others):
                yield form


def _usual(form: Linear, index: Index, ranges: Ranges) -> tuple[Size, Size]:
    """The values of an index for which `form >= 0` holds, or those for which it does not, whatever
    are more."""
    extent = size_of(index.extent)
    opposite = Linear(-1)
    opposite.plus(form, -1)
    sides = []
    for side in (form, opposite):
        a, b = _not_negative(side, index, ranges)
        sides.append((most(a, 0), least(b, extent)))
    return max(sides, key=lambda side: likely(minus(side[1], side[0])))


def _allowed(form: Linear, index: Index, extent: Size, ranges: Ranges) -> tuple[Size, Size]:
    """The range of an index within which `0 <= form < extent` for all values of the others."""
    room = Linear(minus(extent, 1))
    room.plus(form, -1)
    (a, b), (c, d) = (_not_negative(x, index, ranges) for x in (form, room))
    return most(a, c), least(b, d)


def _not_negative(form: Linear, index: Index, ranges: Ranges) -> tuple[Size, Size]:
    """The range of an index within which `form >= 0` for all values of the others; at the other end
    it is that of all values, at most."""
    step, extent = form.indices[index], size_of(index.extent)
    if form.others or not isinstance(step, int):
        return 0, 0
    low = form.constant
    for other, factor in form.indices.items():
        if other is index:
            continue
        if lower(factor) < 0 < upper(factor):
            return 0, 0
        a, b = range_of(other, ranges)
        low = plus(low, times(factor, a if lower(factor) >= 0 else b))
    if step > 0:
        return times(quotient(low, step), -1), extent
    return 0, plus(quotient(low, -step), 1)
