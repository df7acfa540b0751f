"""Finds the small constant filter of a sum of products, and its two directions: see
`winograd_plan`."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir import shapes
from ...ir.nodes import (
    Access,
    Binary,
    Const,
    Expr,
    Index,
    Select,
    Skip,
    Tensor,
    integer,
)
from ...ir.rewrite import free_indices, rebuild, substitute
from ...records import dataclass, replace
from .builder import Builder
from .contraction_form import Form, Operand
from .contraction_plan import reduced_loops
from .contraction_space import flat_form, plus, times
from .emit_access import extent_of, linear, shape_of
from .kernels import Strides
from .window_box import access_of
from .window_plan import is_affine, is_given

TAPS, TILE = 3, 2
"""The length of a filter, or of parts of it, at most; and the results of a tile along an index."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One of the two directions of the filter: an index of the result, and that of two or three
    values which goes with it, against it if `flipped`. From one result to the next it moves on by
    `stride` elements, one or two. If the filter's are more than one apart (`dilation`), so are the
    results of a tile, and so many tiles lie in one another."""

    own: Index
    tap: Index
    dimension: int
    flipped: bool
    stride: int
    dilation: int
    unit: int = 1
    """Elements from one that counts to the next: where a filter of four or more moves on by two,
    its values in even and in odd places are filters of their own, of each second element."""

    @property
    def tiles(self) -> int:
        return -(-extent_of(self.own) // (TILE * self.dilation)) * self.dilation

    @property
    def pitch(self) -> int:
        """Elements from tile to tile, if these do not lie in one another."""
        return TILE * self.stride

    @property
    def taps(self) -> int:
        """Values of the filter."""
        return extent_of(self.tap)

    @property
    def points(self) -> int:
        """Elements that a tile reads, and products of it."""
        return self.pitch - self.stride + self.taps

    @property
    def sums(self) -> int:
        """Sums of the filter that elements are multiplied by."""
        return self.taps + 1

    @property
    def kinds(self) -> tuple[tuple[int, int, int, int | None], ...]:
        """Products of a tile by what is multiplied, in the order of the filter's sums: the first
        and how many, the number of its sum (that of each next one follows), and, where these are no
        sums but elements of the filter, of which. The last products of all are those that only the
        second result needs."""
        if self.taps == 2:
            return (0, 1, 0, 0), (1, 1, 1, None), (2, 1, 2, 1)
        if self.stride == 1:
            return (0, 1, 0, 0), (1, 2, 1, None), (3, 1, 3, 2)
        return (0, 2, 0, 0), (3, 2, 1, 1), (2, 1, 3, None)

    def result(self, b: Builder, tile: str) -> str:
        """The first result of a tile."""
        if self.dilation == 1:
            return times(b, tile, TILE)
        number = b.pure(f"udiv i64 {tile}, {self.dilation}", tile)
        return plus(b, tile, times(b, number, self.dilation))

    def first(self, access: Access) -> int:
        """Where the elements of the first tile begin in a tensor."""
        constant = linear(access.subscripts[self.dimension].index).constant
        assert isinstance(constant, int)
        return constant - (self.taps - 1) * self.dilation * self.unit * self.flipped

    def extent(self, access: Access) -> int:
        """How many elements the tensor has along it."""
        return shape_of(access.tensor.shape)[self.dimension]


@dataclass(frozen=True, slots=True)
class Filter:
    """A contraction that has such a filter: what its indices are."""

    form: Form
    broadcast: Operand
    vector: Operand
    line: Axis
    row: Axis
    lane: Index
    channel: Index
    more: tuple[Index, ...]

    @property
    def is_alone(self) -> bool:
        """Whether the channel goes through a dimension of its own, element by element."""
        return _is_alone(self.channel, access_of(self.broadcast), self.form)

    @property
    def fixed(self) -> tuple[Index, ...]:
        """The other indices of the operand that is not constant."""
        return tuple(i for i in self.broadcast.indices if i not in (self.line.own, self.row.own))


def find_filter(
    form: Form, side: str, strides: Strides, constant: frozenset[Tensor]
) -> Filter | str:
    """The filter of a contraction whose `side` is constant, or why there is none."""
    vector, broadcast = (form.left, form.right) if side == "left" else (form.right, form.left)
    if not is_affine(broadcast):
        return "an operand is not an element with linear subscripts"
    lanes = [i for i in vector.indices if extent_of(i) > 1]
    if len(lanes) != 1 or not is_given(vector, form, constant):
        return "no operand is constant, with one index of its own"
    form = _in_parts(form, broadcast)
    vector, broadcast = (form.left, form.right) if side == "left" else (form.right, form.left)
    steps = flat_form(form.kernel.targets[0], strides).steps
    axes = list(_axes(access_of(broadcast), broadcast, form))
    axes = sorted(axes, key=lambda axis: -abs(steps.get(axis.own, 0)))[-2:]
    if len(axes) != 2:
        return "it is no sum over two by two or three by three neighbours"
    line, row = axes
    others = [k for k in reduced_loops(form) if k is not line.tap and k is not row.tap]
    access, axes_of = access_of(broadcast), (line.dimension, row.dimension)
    beside = {i for d in axes_of for i in linear(access.subscripts[d].index).steps}
    channels = [k for k in others if k not in beside]
    if row.dilation * row.unit > 1:  # vectors lie along channels
        channels = [k for k in channels if _is_alone(k, access, form)]
    if not channels:
        return "it is no sum over one more index"
    channel = max(channels, key=extent_of)
    more = tuple(k for k in others if k is not channel)
    return Filter(form, broadcast, vector, line, row, lanes[0], channel, more)


def _is_alone(k: Index, access: Access, form: Form) -> bool:
    """Whether an index of the sum goes through one dimension, batches aside, element by element."""
    used = [linear(s.index).steps for s in access.subscripts if k in linear(s.index).steps]
    return len(used) == 1 and used[0][k] == 1 and all(i is k or i in form.batch for i in used[0])


def _axes(access: Access, broadcast: Operand, form: Form) -> Iterator[Axis]:
    """The subscripts that are the sum of an own index and one of two or three values, which occur
    nowhere else, and of other terms' indices."""
    used = [linear(s.index).steps for s in access.subscripts]
    for dimension, steps in enumerate(used):
        own = [i for i in steps if i in broadcast.indices]
        taps = [i for i in steps if i in form.reduced and 2 <= extent_of(i) <= TAPS]
        two = len(own) == 1 and steps[own[0]] == 2 and any(abs(steps[i]) == 2 for i in taps)
        if two:
            taps = [i for i in taps if abs(steps[i]) == 2]
        taps = [i for i in taps if all(abs(steps[i]) <= abs(steps[k]) for k in taps)]
        rest = [i for i in steps if i not in own and i not in taps]
        if len(own) != 1 or len(taps) != 1 or any(i not in form.reduced for i in rest):
            continue
        alone = all(sum(i in other for other in used) == 1 for i in steps)
        stride, apart = steps[own[0]], steps[taps[0]]
        by_two = (stride, abs(apart), extent_of(taps[0])) == (2, 1, TAPS)
        if not alone or extent_of(own[0]) == 1:
            continue
        if two:
            yield Axis(own[0], taps[0], dimension, apart < 0, 1, 1, 2)
        elif stride == 1 or by_two:
            yield Axis(own[0], taps[0], dimension, apart < 0, stride, abs(apart))


def _in_parts(form: Form, broadcast: Operand) -> Form:
    """The form with longer filters in parts of three values, or of two if they have four or move on
    by two; what is beyond their ends counts as zero."""
    is_left = broadcast is form.left
    for steps in [linear(s.index).steps for s in access_of(broadcast).subscripts]:
        long = [i for i in steps if i in form.reduced and extent_of(i) > TAPS]
        own = [i for i in steps if i in broadcast.indices]
        if len(steps) == 2 and len(long) == 1 and own:
            form = _cut(form, is_left, long[0], abs(steps[own[0]]))
    return form


def _cut(form: Form, is_left: bool, tap: Index, stride: int) -> Form:
    """The form with one filter cut, whose constant is the right operand if the other `is_left`.
    Elements beyond its end may be read, and are multiplied by zero."""
    taps = 2 if extent_of(tap) == 4 or stride == 2 else TAPS
    count = -(-extent_of(tap) // taps)
    part, inner = Index(f"{tap.name}.part", integer(count)), Index(tap.name, integer(taps))
    place = shapes.add(shapes.mul(part, integer(taps)), inner)

    def node(expr: Expr) -> Expr:
        if not isinstance(expr, Access):
            return expr
        subscripts = (
            replace(s, rule=s.rule or Skip()) if tap in free_indices(s.index) else s
            for s in expr.subscripts
        )
        return replace(expr, subscripts=tuple(subscripts))

    def cut(operand: Operand, is_constant: bool) -> Operand:
        value = substitute(rebuild(operand.value, node), {tap: place})
        if is_constant and extent_of(tap) % taps:
            inside = Binary("lt", place, integer(extent_of(tap)))
            value = Select(inside, value, Const(0.0, value.dtype))
        return replace(operand, value=value)

    reduced = tuple(i for k in form.reduced for i in ((part, inner) if k is tap else (k,)))
    left, right = cut(form.left, not is_left), cut(form.right, is_left)
    return replace(form, left=left, right=right, reduced=reduced)
