"""Flattened index spaces: one number runs over several indices, row-major.

Neighbouring indices that every access steps through with one common stride are merged into a
group, which is then walked as if it were one long index: its last member carries the number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...ir.nodes import Access, Expr, Index, Local
from ...ir.rewrite import accesses, children, free_indices
from ...memo import remembered
from ...records import dataclass
from . import sizes
from .builder import Builder
from .contraction_form import Operand, size
from .emit import Mask, Place
from .emit_access import Linear, extent_of, is_within, linear, shape_of
from .emit_types import with_lanes
from .kernels import Strides

Places = dict[Index, Place]


@dataclass(frozen=True, slots=True)
class Space:
    """Indices in order, the outermost first, in groups that are walked as one index each."""

    groups: tuple[tuple[Index, ...], ...]

    @property
    def extent(self) -> int:
        return size(i for g in self.groups for i in g)

    @property
    def inner(self) -> int:
        """The extent of the last group."""
        return size(self.groups[-1]) if self.groups else 1


@remembered
def flat_form(access: Access, strides: Strides) -> Linear:
    """The element offset of an access, guards and checks aside; not to be changed."""
    steps = strides.get(access.tensor)
    if steps is None:
        steps = sizes.row_major(sizes.sizes_of(access.tensor.shape))
    form = Linear()
    for subscript, step in zip(access.subscripts, steps, strict=True):
        form.plus(linear(subscript.index), step)
    return form


@remembered
def coefficients(access: Access) -> tuple[dict[Index, int], ...]:
    """Of each subscript the coefficients of its indices; not to be changed."""
    return tuple([linear(s.index).steps for s in access.subscripts])


@remembered
def merge(indices: Sequence[Index], exprs: Sequence[Expr], strides: Strides) -> Space:
    """The space of some indices, as few groups as all accesses of the expressions allow."""
    indices = [i for i in indices if extent_of(i) > 1]
    if len(indices) < 2:
        return Space(tuple((i,) for i in indices))
    forms = [flat_form(a, strides) for a in accesses(*exprs)]
    fixed = _unmergeable(exprs)
    groups: list[tuple[Index, ...]] = []
    for index in indices:
        last = groups[-1][-1] if groups else None
        if last is not None and index not in fixed and last not in fixed:
            if all(_is_one_loop(f, last, index) for f in forms):
                groups[-1] = (*groups[-1], index)
                continue
        groups.append((index,))
    return Space(tuple(groups))


def step_of(operand: Operand, indices: Sequence[Index], strides: Strides) -> int:
    """The distance of neighbouring elements of an access along indices that merge; 0 if there are
    none."""
    access = operand.access
    assert access is not None
    groups = merge(indices, [access], strides).groups
    return flat_form(access, strides).steps.get(groups[-1][-1], 0) if groups else 0


def _is_one_loop(form: Linear, outer: Index, inner: Index) -> bool:
    """Whether a loop over two indices steps through an offset as one loop over both would."""
    step = form.indices.get(inner, 0)
    return form.indices.get(outer, 0) == sizes.times(extent_of(inner), step)


def _unmergeable(exprs: Sequence[Expr]) -> set[Index]:
    """Indices whose own value matters: in guards, checks, and outside linear subscripts."""
    fixed: set[Index] = set()
    for access in accesses(*exprs):
        for s, extent in zip(access.subscripts, shape_of(access.tensor.shape), strict=True):
            if linear(s.index).others or not is_within(s.index, extent):
                fixed.update(free_indices(s.index))
    fixed.update(n for n in _outside_subscripts(exprs) if isinstance(n, Index))
    return fixed


def _outside_subscripts(exprs: Sequence[Expr]) -> Iterator[Expr]:
    seen: set[int] = set()
    stack = list(exprs)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, Local):
            stack.append(node.value)
        elif not isinstance(node, Access):
            stack.extend(children(node))


def decode(b: Builder, space: Space, flat: str) -> Places:
    """The places of all indices at a point of the space."""
    places: Places = {}
    rest = flat
    for position in range(len(space.groups) - 1, -1, -1):
        group = space.groups[position]
        value = rest
        if position > 0:
            extent = size(group)
            value = b.pure(f"urem i64 {rest}, {extent}", rest) if rest.startswith("%") else rest
            rest = b.pure(f"udiv i64 {rest}, {extent}", rest)
        places.update(group_places(group, value))
    return places


def group_places(group: tuple[Index, ...], value: str, vector: bool = False) -> Places:
    """The places of a group's members; the last one carries the number."""
    places = {i: Place(None) for i in group}
    places[group[-1]] = Place(value, 0, vector)
    return places


@dataclass(frozen=True, slots=True)
class Step:
    """Some neighbouring points of a walk."""

    places: Places
    lanes: int
    mask: Mask
    live: str
    """How many of the lanes are there."""
    flat: str
    """The flat number of the first, relative to where the walk began."""


Body = Callable[[Step], None]


_WHOLE = (4, 8)
"""Lanes that are a vector of their own, if they are left over: what is behind a store under a mask
waits for it when it is loaded, though it is not written."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk over `begin <= flat < begin + count` of a space, `lanes` points at a time.

    A step never crosses from one run of the last group to the next. If `whole`, `begin` and
    `count` are multiples of `lanes`; if `inside`, the walk stays within one run.
    """

    space: Space
    lanes: int
    whole: bool = False
    inside: bool = False

    def write(self, b: Builder, begin: str, count: str, body: Body) -> None:
        """Write the loops around `body`."""
        groups = self.space.groups
        if not groups:
            body(Step({}, 1, Mask(), "1", "0"))
            return
        if self.inside:
            self._stretch(b, decode(b, self.space, begin), count, body)
            return
        if len(groups) == 1:
            self._run(b, {}, begin, plus(b, begin, count), "0", body)
            return
        inner = self.space.inner
        end = plus(b, begin, count)
        first = b.pure(f"udiv i64 {begin}, {inner}", begin)
        last = plus(b, b.pure(f"udiv i64 {plus(b, end, '-1')}, {inner}", end), "1")
        outer = Space(groups[:-1])
        with b.loop(first, last) as loop:
            start = b.pure(f"mul nsw i64 {loop.index}, {inner}", loop.index)
            low = minus(b, begin, start)
            high = minus(b, end, start)
            low = smax(b, low, "0")
            high = smin(b, high, str(inner))
            where = minus(b, start, begin)
            self._run(b, decode(b, outer, loop.index), low, high, where, body)

    def _run(self, b: Builder, outer: Places, low: str, high: str, where: str, body: Body) -> None:
        """The points `low <= x < high` of the last group; `where` is the number of `x = 0`, or
        of `x = low` if the space has but one group."""
        group = self.space.groups[-1]
        alone = len(self.space.groups) == 1

        def at(x: str, lanes: int, mask: Mask, live: str) -> None:
            places = outer | group_places(group, x, vector=lanes > 1)
            flat = minus(b, x, low) if alone else plus(b, where, x)
            body(Step(places, lanes, mask, live, flat))

        lanes = self.lanes
        if lanes == 1:
            with b.loop(low, high) as loop:
                at(loop.index, 1, Mask(), "1")
            return
        rest = low
        whole = self.whole and (alone or self.space.inner % lanes == 0)
        if self.space.inner >= lanes:
            count = minus(b, high, low)
            full = b.pure(f"and i64 {count}, {-lanes}", count)
            rest = plus(b, low, full)
            with b.loop(low, rest, lanes) as loop:
                at(loop.index, lanes, Mask(), str(lanes))
        if not whole:
            some = b.op(f"icmp slt i64 {rest}, {high}")
            with b.when(some):
                left = b.op(f"sub i64 {high}, {rest}")
                at(rest, lanes, Mask(None, prefix_mask(b, lanes, left), left), left)

    def _stretch(self, b: Builder, places: Places, count: str, body: Body) -> None:
        """The next `count` points, a number known now, all of one run."""
        last, lanes, total = self.space.groups[-1][-1], self.lanes, int(count)
        start = places[last].base or "0"

        def at(offset: str, lanes: int, mask: Mask, live: int) -> None:
            here = Place(plus(b, start, offset), 0, lanes > 1)
            body(Step(places | {last: here}, lanes, mask, str(live), offset))

        full = total // lanes * lanes
        if full == lanes:
            at("0", lanes, Mask(), lanes)
        elif full:
            with b.loop(0, full, lanes) as loop:
                at(loop.index, lanes, Mask(), lanes)
        rest = total - full
        if rest in _WHOLE:
            at(str(full), rest, Mask(), rest)
        elif rest:
            at(str(full), lanes, Mask(None, prefix_mask(b, lanes, str(rest))), rest)


def prefix_mask(b: Builder, lanes: int, count: str) -> str:
    """The mask of the first `count` lanes."""
    if not count.startswith("%"):
        bits = ", ".join(f"i1 {'true' if k < int(count) else 'false'}" for k in range(lanes))
        return f"<{bits}>"
    full = with_lanes("i64", lanes)
    one = b.pure(f"insertelement {full} poison, i64 {count}, i64 0", count)
    zeros = f"<{lanes} x i32> zeroinitializer"
    spread = b.pure(f"shufflevector {full} {one}, {full} poison, {zeros}", one)
    steps = ", ".join(f"i64 {k}" for k in range(lanes))
    return b.pure(f"icmp ult {full} <{steps}>, {spread}", spread)


@contextmanager
def nest(b: Builder, space: Space) -> Iterator[Places]:
    """Loops over all points of a space, one per group; gives the places."""
    if not space.groups:
        yield {}
        return
    group = space.groups[0]
    with b.loop(0, size(group)) as loop, nest(b, Space(space.groups[1:])) as inner:
        yield group_places(group, loop.index) | inner


def chunk_range(b: Builder, total: int, grain: int) -> tuple[str, str]:
    """The first piece of work of a call, and the one after its last, with `grain` in a chunk."""
    begin, end = times(b, "%begin", grain), times(b, "%end", grain)
    return begin, smin(b, end, str(total)) if total % grain else end


def chunk_after(b: Builder, number: str, total: int, grain: int, cores: int) -> str:
    """The piece of work, of `total`, that this thread is likely to do after one: the next one
    within a chunk, and if it takes chunks in front, as the caller does; if at the back, as workers
    do, one before. There need be none."""
    next = plus(b, number, "1")
    if cores == 1:
        return next
    chunks, chunk = -(-total // grain), quotient(b, number, grain)
    goes_on = b.pure(f"icmp ult i64 {chunk}, {chunks // cores}", chunk)
    before = times(b, plus(b, chunk, str(1 - cores)), grain)
    if grain > 1:
        rest = b.pure(f"urem i64 {next}, {grain}", next)
        is_inside = b.pure(f"icmp ne i64 {rest}, 0", rest)
        goes_on = b.pure(f"or i1 {is_inside}, {goes_on}", is_inside, goes_on)
    return b.pure(f"select i1 {goes_on}, i64 {next}, i64 {before}", goes_on, next, before)


def plus(b: Builder, x: str, y: str) -> str:
    """The sum of two i64."""
    if not x.startswith("%") and not y.startswith("%"):
        return str(int(x) + int(y))
    if x == "0" or y == "0":
        return y if x == "0" else x
    return b.pure(f"add nsw i64 {x}, {y}", x, y)


def times(b: Builder, x: str, factor: int) -> str:
    """An i64 times a constant."""
    if not x.startswith("%"):
        return str(int(x) * factor)
    return x if factor == 1 else b.pure(f"mul nsw i64 {x}, {factor}", x)


def product(b: Builder, x: str, y: str) -> str:
    """The product of two i64."""
    if not x.startswith("%"):
        return times(b, y, int(x))
    return times(b, x, int(y)) if not y.startswith("%") else b.pure(f"mul nsw i64 {x}, {y}", x, y)


def multiple(b: Builder, count: str, step: int) -> str:
    """The largest multiple of a step that is not greater."""
    if not count.startswith("%"):
        return str(int(count) // step * step)
    return times(b, b.pure(f"udiv i64 {count}, {step}", count), step)


def quotient(b: Builder, x: str, divisor: int | str) -> str:
    """`x / divisor`, rounded down, of numbers that are not negative."""
    if isinstance(divisor, str) and divisor.startswith("%"):
        return b.pure(f"udiv i64 {x}, {divisor}", x, divisor)
    if int(divisor) == 1:
        return x
    if not x.startswith("%"):
        return str(int(x) // int(divisor))
    return b.pure(f"udiv i64 {x}, {divisor}", x)


def minus(b: Builder, x: str, y: str) -> str:
    """The difference of two i64."""
    if not x.startswith("%") and not y.startswith("%"):
        return str(int(x) - int(y))
    return x if y == "0" else "0" if x == y else b.pure(f"sub nsw i64 {x}, {y}", x, y)


def smin(b: Builder, x: str, y: str) -> str:
    """The smaller of two i64."""
    return b.call("i64", "llvm.smin.i64", f"i64 {x}", f"i64 {y}")


def smax(b: Builder, x: str, y: str) -> str:
    """The larger of two i64."""
    return b.call("i64", "llvm.smax.i64", f"i64 {x}", f"i64 {y}")
