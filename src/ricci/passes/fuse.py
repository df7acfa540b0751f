"""Fusion: several operations in one pass over memory.

Requires: kernels in order, each tensor complete before it is read. Ensures: the same values. Three
rewrites, each of a kernel with the producers of what it reads, in one walk over the list:

* an element-wise producer with one reader is computed where it is read;
* a producer that only moves elements is replaced, in every reader, by reading its source;
* an element-wise consumer of a reduction becomes its results (its epilogue), or of several that
  each make a part of what it reads, all of theirs.

Does not: duplicate arithmetic, but for one operation on an element that takes no longer than to
store and read its result, move arithmetic into the inner loop of a product (whose operands
are better read than computed), or fuse what may fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import cast

from ..ir import shapes
from ..ir.loops import Kernel, Reduce, expressions_of, tensors_touched, tensors_written
from ..ir.nodes import (
    ONE,
    Access,
    Binary,
    Const,
    Expr,
    Index,
    Local,
    Skip,
    Subscript,
    Tensor,
)
from ..ir.rewrite import Replaceable, accesses, has_guard, rebuild, substitute, walk
from ..records import dataclass, replace
from .epilogues import (
    dimensions_of,
    is_map,
    is_too_large,
    made_of_both,
    with_epilogue,
    with_epilogue_of_part,
)
from .kernels import may_fail
from .phases import are_all_phases
from .refine import refine
from .reshaped import with_common_shape
from .specialise import shapes_inside
from .views import Views, root_of

_MOST_READERS = 3
"""Of an operation that each does again."""


def fuse(kernels: Sequence[Kernel], outputs: Sequence[Tensor], views: Views) -> list[Kernel]:
    """The kernels after fusion, in order."""
    run = _Fusion(kernels, outputs, views)
    for position in range(len(kernels)):
        run.visit(position)
    return run.in_order()


@dataclass(slots=True)
class _Fusion:
    given: Sequence[Kernel]
    outputs: Sequence[Tensor]
    views: Views
    kernels: list[Kernel | None] = field(default_factory=list)
    makers: dict[Tensor, list[int]] = field(default_factory=dict)
    readers: dict[Tensor, set[int]] = field(default_factory=dict)
    fixed: set[Tensor] = field(default_factory=set)
    """Tensors that must be in memory: outputs, and those that are viewed or written twice."""
    mixed: set[Tensor] = field(default_factory=set)
    """Tensors that some kernels write as they are, and others under another shape."""
    finer: dict[Tensor, Tensor] = field(default_factory=dict)
    """For a tensor that is written under one finer shape, the tensor of that shape."""
    shapes: dict[Tensor, set[Tensor]] = field(default_factory=dict)
    """For a tensor that others are views of, these and itself."""
    first: set[int] = field(default_factory=set)
    """Kernels that come before all others, which make nothing that they read."""

    def __post_init__(self) -> None:
        self.kernels = list(self.given)
        self.fixed = {*self.outputs, *self.views, *self.views.values()}
        for position, kernel in enumerate(self.given):
            self._note(position, kernel)
            for tensor in tensors_written(kernel):
                self.makers.setdefault(tensor, []).append(position)
        self.fixed |= {t for t, made in self.makers.items() if len(made) > 1}
        self.mixed = {t for v, t in self.views.items() if v in self.makers and t in self.makers}
        whole = list(self.views.values())
        self.finer = {t: v for v, t in self.views.items() if whole.count(t) == 1}
        for view in self.views:
            root = root_of(view, self.views)
            self.shapes.setdefault(root, {root}).add(view)

    def _note(self, position: int, kernel: Kernel) -> None:
        written = set(tensors_written(kernel))
        for tensor in tensors_touched(kernel):
            if tensor not in written:
                self.readers.setdefault(tensor, set()).add(position)

    def in_order(self) -> list[Kernel]:
        """What has become of the kernels."""
        order = sorted(range(len(self.kernels)), key=lambda n: n not in self.first)
        return [k for n in order if (k := self.kernels[n]) is not None]

    def visit(self, position: int) -> None:
        """Fuse a kernel with the producers of what it reads, as long as something can be."""
        kernel = self.kernels[position]
        if not isinstance(kernel, Reduce):
            return
        changed = True
        while changed:
            changed = False
            for tensor in tensors_touched(kernel):
                new = self._with_producer(position, kernel, tensor)
                if new is not None:
                    kernel, changed = new, True
                    break
        if is_map(kernel) and len(kernel.targets) == 1:
            self._into_parts(position, kernel)

    def _into_parts(self, position: int, kernel: Reduce) -> None:
        """Make a map the epilogue of all kernels that each make a part of a tensor it reads."""
        for tensor in tensors_touched(kernel):
            written = self.finer.get(tensor, tensor)
            made = self.makers.get(written, [])
            if len(made) < 2 or not self._is_private(position, tensor, written):
                continue
            if self._makers_of(kernel.targets[0].tensor) != {position}:
                continue
            needed = self._needed(position, tensor, min(made))
            if needed is None or not self.first.isdisjoint(made):
                continue
            found = (with_epilogue_of_part(self.kernels[n], kernel, tensor) for n in made)
            new = [part for part in found if part is not None]
            if len(new) < len(made) or not are_all_phases([k.targets[0] for k in new]):
                continue
            for n, part in zip(made, new, strict=True):
                self._replace(n, part)
            self._remove(position)
            self.first |= needed
            target = kernel.targets[0].tensor
            self.makers[target] = self.makers.pop(written)
            self.fixed.add(target)
            return

    def _is_private(self, position: int, tensor: Tensor, written: Tensor) -> bool:
        """Whether a kernel alone reads the elements of a tensor, and others write them under one
        shape."""
        return self.readers.get(tensor) == {position} and not any(
            t in self.outputs
            or (t is not tensor and self.readers.get(t))
            or (t is not written and t in self.makers)
            for t in self._all_shapes(tensor)
        )

    def _all_shapes(self, tensor: Tensor) -> set[Tensor]:
        """A tensor under all the shapes that it has."""
        return self.shapes.get(root_of(tensor, self.views), {tensor})

    def _needed(self, position: int, tensor: Tensor, before: int) -> set[int] | None:
        """The kernels that must come first for a kernel to have what it reads, `tensor` aside,
        before another; none if that cannot be."""
        needed: set[int] = set()
        late = [n for n in self._made_for(position, tensor) if n >= before]
        while late:
            n = late.pop()
            needed.add(n)
            if n >= position:
                return None
            late += self._made_for(n) - needed
        # what others write, too, others may read before that
        written = {t for n in needed if (k := self.kernels[n]) for t in tensors_written(k)}
        return needed if all(len(self._makers_of(t)) == 1 for t in written) else None

    def _made_for(self, position: int, but: Tensor | None = None) -> set[int]:
        """The kernels that make what a kernel reads, under any of the shapes that it has."""
        kernel = self.kernels[position]
        assert kernel is not None
        read = set(tensors_touched(kernel)) - {but, *tensors_written(kernel)}
        return {n for t in read for n in self._makers_of(t)} - {position}

    def _makers_of(self, tensor: Tensor) -> set[int]:
        """The kernels that write a tensor, under any of its shapes."""
        return {n for t in self._all_shapes(tensor) for n in self.makers.get(t, [])}

    def _may_wait(self, producer: int, position: int) -> bool:
        """Whether what a kernel reads is still the same when a later one is done."""
        kernel = self.kernels[producer]
        assert kernel is not None
        read = set(tensors_touched(kernel)) - set(tensors_written(kernel))
        return not any(producer < n <= position for t in read for n in self._makers_of(t))

    def _with_producer(self, position: int, kernel: Reduce, tensor: Tensor) -> Reduce | None:
        made = self.makers.get(tensor, [])
        if tensor in self.mixed:
            return None
        if not made and tensor in self.finer:
            return self._with_finer_producer(position, kernel, tensor)
        if not made and tensor in self.views:
            return self._with_reshaped_producer(position, kernel, tensor)
        if len(made) != 1 or made[0] == position or tensor in tensors_written(kernel):
            return None
        producer = self.kernels[made[0]]
        if not isinstance(producer, Reduce) or len(producer.targets) != 1:
            return None
        if not self._may_wait(made[0], position):
            return None
        alone = self.readers[tensor] == {position} and tensor not in self.fixed
        new = None
        if is_map(producer) and (
            alone or is_movement(producer) or self._is_cheaper_again(tensor, producer)
        ):
            new = inline(kernel, producer)
        elif alone and not is_map(producer) and is_map(kernel):
            new = with_epilogue(producer, kernel)
        if new is None or is_too_large(new):
            return None
        new = made_of_both(new, producer, kernel)
        self._replace(position, new)
        self.readers[tensor].discard(position)
        if not self.readers[tensor] and tensor not in self.fixed:
            self._remove(made[0])
        return new

    def _is_cheaper_again(self, tensor: Tensor, producer: Reduce) -> bool:
        """Whether all kernels that read a map's result may as well read what it is made of, so that
        nothing is stored."""
        readers = [self.kernels[n] for n in self.readers[tensor]]
        if tensor in self.fixed or len(readers) > _MOST_READERS or not _is_shifted(producer):
            return False
        return all(isinstance(k, Reduce) and inline(k, producer) is not None for k in readers)

    def _with_finer_producer(self, position: int, kernel: Reduce, tensor: Tensor) -> Reduce | None:
        """Together with a kernel that writes the tensor under a finer shape."""
        fine = self.finer[tensor]
        producer = self._only_maker(position, kernel, tensor, fine)
        finer = None if producer is None else refine(kernel, tensor, fine)
        if producer is None or finer is None:
            return None
        new = inline(finer, producer) if is_map(producer) else with_epilogue(producer, finer)
        return self._written_finer(position, kernel, new, producer)

    def _with_reshaped_producer(
        self, position: int, kernel: Reduce, tensor: Tensor
    ) -> Reduce | None:
        """With the map computed where it is read that makes the tensor under another shape."""
        root = self.views[tensor]
        producer = self._only_maker(position, kernel, tensor, root)
        if producer is None or not is_map(producer):
            return None
        both = with_common_shape(kernel, tensor, producer, root)
        new = None if both is None else inline(*both)
        return self._written_finer(position, kernel, new, producer)

    def _only_maker(
        self, position: int, kernel: Reduce, tensor: Tensor, other: Tensor
    ) -> Reduce | None:
        """What makes a tensor under another shape, if a map alone reads it, and writes something
        that may have another shape, too."""
        made = self.makers.get(other, [])
        producer = self.kernels[made[0]] if len(made) == 1 else None
        if (
            not isinstance(producer, Reduce)
            or not is_map(kernel)
            or not self._is_private(position, tensor, other)
            or not self._may_wait(made[0], position)
            or len(kernel.targets) != 1
            or self.makers[kernel.targets[0].tensor] != [position]
        ):
            return None
        return producer

    def _written_finer(
        self, position: int, kernel: Reduce, new: Reduce | None, producer: Reduce
    ) -> Reduce | None:
        """Put a kernel in the place of two, whose result may now have a finer shape."""
        if new is None or is_too_large(new):
            return None
        new = made_of_both(new, producer, kernel)
        self._replace(position, new)
        self._remove(self.makers[producer.targets[0].tensor][0])
        old, target = kernel.targets[0].tensor, new.targets[0].tensor
        if target is not old:
            self.views[target] = old
            self.shapes.setdefault(root_of(old, self.views), {old}).add(target)
            self.finer[old] = target
            self.makers[target] = self.makers.pop(old)
            self.fixed |= {old, target}
        return new

    def _replace(self, position: int, new: Kernel) -> None:
        self._remove(position)
        self.kernels[position] = new
        self._note(position, new)

    def _remove(self, position: int) -> None:
        kernel = self.kernels[position]
        assert kernel is not None
        for tensor in tensors_touched(kernel):
            self.readers.get(tensor, set()).discard(position)
        self.kernels[position] = None


def is_movement(kernel: Reduce) -> bool:
    """Whether a map copies elements, and its reader may as well read the source."""
    return isinstance(kernel.initial[0], (Access, Const)) and not may_fail(kernel.initial[0])


def _is_shifted(producer: Reduce) -> bool:
    """Whether a map is one operation on an element and something that many elements share."""
    value = producer.initial[0]
    if not isinstance(value, Binary) or value.op not in ("add", "sub", "mul"):
        return False
    wanted = {i for i in producer.domain if i.extent != ONE}
    sides = (value.lhs, value.rhs)
    if not all(isinstance(x, (Access, Const)) for x in sides):
        return False
    whole = [wanted <= _indices(x) for x in sides]
    return whole.count(True) == 1


def is_product(kernel: Reduce) -> bool:
    """Whether a reduction is a sum of products, or the like, whose operands are read many times."""
    return any(_is_pair(v) for v in kernel.values)


def _is_pair(value: Expr) -> bool:
    return isinstance(value, Binary) and len(accesses(value)) >= 2


# ------------------------------------------------------------------- inlining


def inline(kernel: Reduce, producer: Reduce) -> Reduce | None:
    """The kernel with the producer's expression where it reads the producer's target."""
    target = producer.targets[0]
    value = producer.initial[0]
    dimensions = dimensions_of(target)
    if dimensions is None or may_fail(value):
        return None
    reads = [a for a in accesses(*expressions_of(kernel)) if a.tensor is target.tensor]
    if not all(_can_inline(a, value, dimensions) for a in reads):
        return None
    if not is_movement(producer) and not _is_read_once(kernel, reads):
        return None
    if is_movement(producer) and is_product(kernel) and not _stays_linear(value):
        return None
    if is_product(kernel) and has_guard(value) and not _are_inner(kernel, reads):
        return None  # products have guards in their terms alone

    made: dict[tuple[Subscript, ...], Expr] = {}

    def node(expr: Expr) -> Expr:
        if not isinstance(expr, Access) or expr.tensor is not target.tensor:
            return expr
        if expr.subscripts not in made:  # equal reads share one expression
            made[expr.subscripts] = _moved(expr, value, dimensions)
        return made[expr.subscripts]

    return map_expressions(kernel, node)


def _can_inline(read: Access, value: Expr, dimensions: list[Index | None]) -> bool:
    """Whether the boundary rules of a read can be kept when it is replaced."""
    guarded = []
    for d, (s, extent) in enumerate(zip(read.subscripts, read.tensor.shape, strict=True)):
        if accesses(s.index):
            if s.rule is not None or may_fail(read):
                return False
            continue
        if shapes_inside(s.index, extent):
            continue
        if not isinstance(s.rule, Skip):
            return False
        guarded.append(d)
    return not guarded or (
        isinstance(value, Access) and all(_carries(value, dimensions[d]) for d in guarded)
    )


def _carries(value: Access, index: Index | None) -> bool:
    """Whether exactly one subscript of a moved element is the index, with the same extent."""
    if index is None:
        return False
    found = [
        n for s, n in zip(value.subscripts, value.tensor.shape, strict=True) if s.index is index
    ]
    uses = sum(index in _indices(s.index) for s in value.subscripts)
    return len(found) == 1 and uses == 1 and found[0] == index.extent


def _indices(expr: Expr) -> set[Index]:
    return {x for x in walk(expr) if isinstance(x, Index)}


def _moved(read: Access, value: Expr, dimensions: list[Index | None]) -> Expr:
    """The producer's value at the subscripts of a read, which keep their rules."""
    places = {d: s for d, s in zip(dimensions, read.subscripts, strict=True) if d is not None}
    new = substitute(value, {d: s.index for d, s in places.items()})
    if not isinstance(value, Access) or not isinstance(new, Access):
        return rebuild(new, _simplified)
    subscripts = []
    for old, s in zip(value.subscripts, new.subscripts, strict=True):
        rule = places[old.index].rule if isinstance(old.index, Index) else None
        subscripts.append(Subscript(shapes.simplify(s.index), rule))
    return replace(new, subscripts=tuple(subscripts))


def _simplified(expr: Expr) -> Expr:
    if not isinstance(expr, Access):
        return expr
    subscripts = tuple(replace(s, index=shapes.simplify(s.index)) for s in expr.subscripts)
    return replace(expr, subscripts=subscripts)


def _stays_linear(value: Expr) -> bool:
    """Whether a moved element is addressed linearly, which products need for their operands."""
    return isinstance(value, Access) and all(shapes.affine(s.index) for s in value.subscripts)


def _is_read_once(kernel: Reduce, reads: Sequence[Access]) -> bool:
    """Whether each element of what is read is read once, so that inlining repeats no work."""
    distinct = {tuple(s.index for s in a.subscripts) for a in reads}
    if len(distinct) != 1:
        return False
    read = reads[0]
    indices = [s.index for s in read.subscripts if not isinstance(s.index, Const)]
    if any(not isinstance(i, Index) for i in indices):
        return not kernel.values and all(isinstance(i, Index) or _is_shift(i) for i in indices)
    is_inner = any(_are_inner(kernel, [a]) for a in reads)
    needed = {*kernel.domain, *(kernel.reduced if is_inner else ())}
    needed = {i for i in needed if i.extent != Const(1, i.extent.dtype)}
    return needed <= set(cast("list[Index]", indices)) and not (is_inner and is_product(kernel))


def _are_inner(kernel: Reduce, reads: Sequence[Access]) -> bool:
    """Whether reads are all part of the terms of a reduction."""
    inner = {id(a) for a in accesses(*kernel.values, *kernel.locals)}
    return all(id(a) in inner for a in reads)


def _is_shift(expr: Expr) -> bool:
    """Whether a subscript is an index plus a constant: distinct points read distinct elements."""
    form = shapes.affine(expr)
    return form is not None and len(form[0]) == 1 and abs(next(iter(form[0].values()))) >= 1


def map_expressions(kernel: Reduce, node: Callable[[Expr], Expr]) -> Reduce:
    """The kernel with a function applied to every node of its expressions.

    Accumulators stay; other locals are made anew where their value changes.
    """
    memo: dict[int, Expr] = {id(a): a for a in kernel.accumulators}

    def visit(expr: Expr) -> Expr:
        if isinstance(expr, Local):
            value = rebuild(expr.value, visit, memo)
            return expr if value is expr.value else Local(expr.name, value)
        return node(expr)

    return _mapped(kernel, lambda expr: rebuild(expr, visit, memo), memo)


def _mapped(kernel: Reduce, new: Callable[[Expr], Expr], memo: dict[int, Expr]) -> Reduce:
    """The kernel with all expressions but targets made anew; `memo` holds what has been made."""
    initial = tuple(map(new, kernel.initial))
    accumulators = tuple(
        a if i is a.value else Local(a.name, i)
        for a, i in zip(kernel.accumulators, initial, strict=True)
    )
    memo |= {id(old): a for old, a in zip(kernel.accumulators, accumulators, strict=True)}
    return replace(
        kernel,
        initial=initial,
        values=tuple(map(new, kernel.values)),
        accumulators=accumulators,
        results=tuple(map(new, kernel.results)),
        locals=tuple(cast(Local, new(x)) for x in kernel.locals),
        condition=None if kernel.condition is None else new(kernel.condition),
    )


def substitute_kernel(
    kernel: Reduce, known: Mapping[Replaceable, Expr | Tensor], domain: tuple[Index, ...]
) -> Reduce:
    """The kernel over another domain, with indices and tensors replaced as by `substitute`."""
    memo: dict[int, Expr] = {}

    def new(expr: Expr) -> Expr:
        return substitute(expr, known, memo)

    targets = tuple(cast(Access, new(t)) for t in kernel.targets)
    return replace(_mapped(kernel, new, memo), targets=targets, domain=domain)
