"""Quantised tensors kept as small integers, and their products added up in integers.

Requires: the kernels of a run in order, not fused yet. Ensures: where all terms of a sum are
products of two tensors whose elements are a known factor times whole numbers of few bits,

    y[c] = t[c] + sum over k of (f * p[k]) * (g[c] * q[c, k])

the kernel is `y[c] = t[c] + f * g[c] * sum over k of p[k] * q[c, k]`, its sum is one of integers of
32 bits, which cannot overflow, and memory has `p` and `q` in 8 or 16 bits. Whoever else reads these
tensors multiplies. Maxima, parts, moved and clamped elements of such tensors are such again. Does
not: keep a tensor so that no sum of products reads, or touch sizes that are open.

Example: a convolution whose operands `quant.zero_point_linear_quantize` has made.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import field

from .. import config
from ..dtypes import DType
from ..ir.loops import Fill, Kernel, Reduce, expressions_of, tensors_written
from ..ir.nodes import (
    Access,
    Binary,
    Cast,
    Const,
    Expr,
    Index,
    Local,
    Select,
    Subscript,
    Tensor,
)
from ..ir.rewrite import Replaceable, accesses, free_indices, substitute
from ..ir.shapes import as_int
from ..records import dataclass, replace
from .epilogues import is_map
from .fuse import map_expressions
from .ranges import Ranges, limits
from .reached import is_always_reached
from .scaled import Scaled, Scaling, in_integers
from .specialise import shapes_inside
from .views import Views

_REALS = (DType.FLOAT32, DType.FLOAT64)
_NARROW = (DType.INT8, DType.UINT8, DType.INT16)
"""What tensors are kept in."""
_MOST = 1 << 31
"""What sums stay below."""
_EXACT = {DType.FLOAT32: 1 << 24, DType.FLOAT64: 1 << 53}
"""Up to which reals are exact."""


def keep_integers(
    kernels: Sequence[Kernel],
    results: Container[Tensor],
    split: Views,
    factors: DType = DType.INT8,
) -> tuple[list[Kernel], Views]:
    """The kernels with such tensors as integers, and what has which other tensor's bytes.

    `results` are read by others, `split` are tensors that are written under another shape. What
    contractions read has at least the bits of `factors`, the least integers that the processor
    multiplies with each other.
    """
    run = _Integers(kernels, results, split, factors)
    products = run.products() if config.get("integers") else {}
    return run.rewritten(products) if products else (list(kernels), split)


@dataclass(frozen=True, slots=True)
class _Written:
    """What a kernel writes, `factor * whole`, and where."""

    dimensions: tuple[Index | None, ...]
    factor: Expr | None
    whole: Expr
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _Stored:
    """A real tensor that can be kept as integers: it is `factor` times them.

    The factor depends on the index of each dimension.
    """

    integers: Tensor
    dimensions: tuple[Index | None, ...]
    factor: Expr | None
    bounds: tuple[int, int]

    def element(self, access: Access) -> Scaled | None:
        """An element that is read, unless its factor is not known at all places."""
        whole = Cast(access.dtype, replace(access, tensor=self.integers))
        if self.factor is None or not free_indices(self.factor):
            return Scaled(self.factor, whole)
        at: dict[Replaceable, Expr | Tensor] = {}
        at |= {d: s.index for d, s in zip(self.dimensions, access.subscripts, strict=True) if d}
        factor = substitute(self.factor, at)
        read = [(s, n) for a in accesses(factor) for s, n in _places(a)]
        if not all(shapes_inside(s.index, n) for s, n in read):
            return None
        return Scaled(factor, whole)

    def value(self, access: Access) -> Expr:
        """The real number that is read."""
        found = self.element(access)
        assert found is not None
        return _scaled(found.whole, found.factor)


def _places(access: Access) -> Iterator[tuple[Subscript, Expr]]:
    return zip(access.subscripts, access.tensor.shape, strict=True)


def _scaled(value: Expr, factor: Expr | None) -> Expr:
    return value if factor is None else Binary("mul", value, factor)


@dataclass(slots=True)
class _Integers:
    kernels: Sequence[Kernel]
    results: Container[Tensor]
    split: Views
    factors: DType = DType.INT8
    makers: dict[Tensor, list[Kernel]] = field(default_factory=dict)
    """Who writes a tensor, also under another shape."""
    written: dict[int, _Written | None] = field(default_factory=dict)
    stored: dict[Tensor, _Stored | None] = field(default_factory=dict)
    bounds: dict[Tensor, tuple[int, int]] = field(default_factory=dict)
    """Of the integers that are stored."""
    contracted: set[Tensor] = field(default_factory=set)
    """What contractions read."""

    def __post_init__(self) -> None:
        for kernel in self.kernels:
            for tensor in tensors_written(kernel):
                self.makers.setdefault(tensor, []).append(kernel)
                if tensor in self.split:
                    self.makers.setdefault(self.split[tensor], []).append(kernel)
            if isinstance(kernel, Reduce) and _is_sum_of_products(kernel):
                self.contracted |= _contracted(kernel)

    # ------------------------------------------------------------------ finding

    def products(self) -> dict[int, Reduce]:
        """Sums of products that are computed in integers, by the kernel that they replace."""
        found: dict[int, Reduce] = {}
        for kernel in self.kernels:
            if isinstance(kernel, Reduce) and _is_sum_of_products(kernel):
                new = self._product(kernel)
                if new is not None:
                    found[id(kernel)] = new
        return found

    def _scaling(self, kernel: Reduce) -> Scaling:
        return Scaling(Ranges((*kernel.domain, *kernel.reduced), self.bounds), self._lookup)

    def _lookup(self, access: Access) -> Scaled | None:
        stored = self._of(access.tensor)
        return None if stored is None else stored.element(access)

    def _of(self, tensor: Tensor) -> _Stored | None:
        if tensor not in self.stored:
            self.stored[tensor] = None  # while it is looked at
            self.stored[tensor] = stored = self._find(tensor)
            if stored is not None:
                self.bounds[stored.integers] = stored.bounds
        return self.stored[tensor]

    def _find(self, tensor: Tensor) -> _Stored | None:
        """How a tensor can be kept, from all who write it."""
        makers = self.makers.get(tensor, [])
        if tensor.dtype not in _REALS or not makers or tensor in self.split:
            return None
        parts: list[_Written] = []
        low, high = 0, 0
        for maker in makers:
            if isinstance(maker, Fill):
                continue
            part = self._written(maker)
            if part is None:
                return None
            parts.append(part)
        if not parts:
            return None
        low, high = min(p.low for p in parts), max(p.high for p in parts)
        if len(makers) > len(parts):
            low, high = min(low, 0), max(high, 0)
        first = parts[0]
        if len(makers) > 1 or tensor not in tensors_written(makers[0]):
            if any(not _is_same(p.factor, first.factor) for p in parts):
                return None
        least = self.factors if tensor in self.contracted else DType.INT8
        dtype = _narrowest(low, high, least)
        if dtype is None:
            return None
        integers = replace(tensor, dtype=dtype)
        return _Stored(integers, first.dimensions, first.factor, (low, high))

    def _written(self, kernel: Kernel) -> _Written | None:
        if id(kernel) not in self.written:
            self.written[id(kernel)] = self._find_written(kernel)
        return self.written[id(kernel)]

    def _find_written(self, kernel: Kernel) -> _Written | None:
        if not isinstance(kernel, Reduce) or len(kernel.targets) != 1:
            return None
        if is_map(kernel):
            value = kernel.initial[0]
        elif _is_maximum(kernel):
            value = kernel.values[0]
        else:
            return None
        scaling = self._prepared(kernel, value)
        form = scaling.of(value)
        if form is None or not set(_indices(form.factor)) <= set(kernel.domain):
            return None
        if kernel.reduced and not scaling.is_positive(form.factor):
            return None
        low, high = (float(x) for x in _extremes(scaling, form.whole))
        if not (math.isfinite(low) and math.isfinite(high)):
            return None
        places = (s.index for s in kernel.targets[0].subscripts)
        dimensions = tuple(p if isinstance(p, Index) else None for p in places)
        if not set(_indices(form.factor)) <= set(dimensions):
            return None
        return _Written(dimensions, form.factor, form.whole, math.floor(low), math.ceil(high))

    def _prepared(self, kernel: Reduce, value: Expr) -> Scaling:
        """What finds forms in a kernel, once those of all that it reads are known."""
        for access in accesses(value):
            self._of(access.tensor)
        return self._scaling(kernel)

    def _product(self, kernel: Reduce) -> Reduce | None:
        value = kernel.values[0]
        scaling = self._prepared(kernel, value)
        form = scaling.of(value)
        if form is None or not set(_indices(form.factor)).isdisjoint(kernel.reduced):
            return None
        if any(as_int(i.extent) is None for i in (*kernel.domain, *kernel.reduced)):
            return None
        terms = math.prod(as_int(i.extent) or 0 for i in kernel.reduced)
        size = max(abs(x) for x in _extremes(scaling, form.whole))
        if not size * terms < _MOST:
            return None
        whole = in_integers(form.whole, DType.INT32)
        if not all(a.dtype in _NARROW for a in accesses(whole)):
            return None
        return _with_sum(kernel, whole, form.factor)

    # ---------------------------------------------------------------- rewriting

    def rewritten(self, products: Mapping[int, Reduce]) -> tuple[list[Kernel], Views]:
        """All kernels with these sums, and with what they read kept as integers."""
        needed = self._needed(products)
        of = {t: s for t in needed if (s := self.stored[t]) is not None}
        fine = {v: t for v, t in self.split.items() if t in of}
        narrow = {v: replace(v, dtype=of[t].integers.dtype) for v, t in fine.items()}
        narrow |= {t: s.integers for t, s in of.items()}
        made: list[Kernel] = []
        for kernel in self.kernels:
            if not set(tensors_written(kernel)).isdisjoint(narrow):
                made.append(_reading(self._narrowed(kernel, narrow), of))
            else:
                made.append(_reading(products.get(id(kernel), kernel), of))
        made = _with_reals(made, of, self.results)
        views = {narrow.get(v, v): narrow.get(t, t) for v, t in self.split.items()}
        return made, views

    def _needed(self, products: Mapping[int, Reduce]) -> list[Tensor]:
        """The tensors whose integers are read, from the last to the first."""
        reals = {s.integers: t for t, s in self.stored.items() if s is not None}
        pending = [a.tensor for k in products.values() for a in accesses(*k.values)]
        needed: dict[Tensor, None] = {}
        while pending:
            tensor = reals.get(pending.pop())
            if tensor is None or tensor in needed:
                continue
            needed[tensor] = None
            parts = [self.written.get(id(k)) for k in self.makers[tensor]]
            pending += [a.tensor for p in parts if p is not None for a in accesses(p.whole)]
        return list(needed)

    def _narrowed(self, kernel: Kernel, narrow: Mapping[Tensor, Tensor]) -> Kernel:
        """The kernel that writes integers instead."""
        if isinstance(kernel, Fill):
            return replace(kernel, tensor=narrow[kernel.tensor])
        part = self._written(kernel)
        assert part is not None and isinstance(kernel, Reduce)
        (target,) = kernel.targets
        target = replace(target, tensor=narrow[target.tensor])
        value = _stored_value(part.whole, target.dtype)
        if not kernel.reduced:
            total = (Local(kernel.accumulators[0].name, value),)
            return replace(
                kernel, targets=(target,), initial=(value,), accumulators=total, results=total
            )
        start = Const(limits(target.dtype)[0], target.dtype)
        total = (Local(kernel.accumulators[0].name, start),)
        return replace(
            kernel, targets=(target,), initial=(start,), values=(value,), accumulators=total,
            results=total,
        )  # fmt: skip


def _stored_value(whole: Expr, dtype: DType) -> Expr:
    """A whole number in the type that it is kept in; a conversion saturates, so that what it is
    clamped to at the ends of the type is clamped already."""
    if _is_moved(whole, dtype):
        return in_integers(whole, dtype)
    least, greatest = limits(dtype)
    match whole:
        case Binary(op="max", lhs=lhs, rhs=Const(value=int() | float() as value)):
            if value <= least:
                return _stored_value(lhs, dtype)
        case Binary(op="min", lhs=lhs, rhs=Const(value=int() | float() as value)):
            if value >= greatest:
                return _stored_value(lhs, dtype)
    return Cast(dtype, whole)


def _is_moved(whole: Expr, dtype: DType) -> bool:
    """Whether a whole number is one of some numbers of a type."""
    match whole:
        case Const(value=value):
            return limits(dtype)[0] <= float(value) <= limits(dtype)[1]
        case Cast(operand=operand) if operand.dtype in _NARROW:
            (low, high), (least, greatest) = limits(operand.dtype), limits(dtype)
            return least <= low and high <= greatest
        case Binary(op="min" | "max", lhs=lhs, rhs=rhs) | Select(then=lhs, otherwise=rhs):
            return _is_moved(lhs, dtype) and _is_moved(rhs, dtype)
    return False


def _is_sum_of_products(kernel: Reduce) -> bool:
    return (
        kernel.op == "add"
        and len(kernel.targets) == 1
        and bool(kernel.reduced)
        and not kernel.locals
        and kernel.results[0] is kernel.accumulators[0]
        and kernel.values[0].dtype in _REALS
        and len(accesses(kernel.values[0])) >= 2
    )


def _is_maximum(kernel: Reduce) -> bool:
    """Whether each element is the largest of some others, and of one at least."""
    return (
        kernel.op == "max"
        and not kernel.locals
        and kernel.condition is None
        and kernel.results[0] is kernel.accumulators[0]
        and isinstance(kernel.initial[0], Const)
        and kernel.initial[0].value == -math.inf
        and is_always_reached(kernel)
    )


def _indices(expr: Expr | None) -> tuple[Index, ...]:
    return () if expr is None else free_indices(expr)


def _extremes(scaling: Scaling, whole: Expr) -> tuple[float, float]:
    low, high = scaling.ranges.of(whole)
    return float(low.min()), float(high.max())


def _narrowest(low: int, high: int, like: DType) -> DType | None:
    """The type for integers between two bounds, with the bits of another one at least."""
    for dtype in _NARROW:
        least, greatest = limits(dtype)
        if least <= low and high <= greatest and limits(like)[1] <= greatest:
            return dtype
    return None


def _contracted(kernel: Reduce) -> set[Tensor]:
    """The tensors of products of which each side is read for several elements of the other."""
    reads = [(a, set(free_indices(a)) & set(kernel.domain)) for a in accesses(*kernel.values)]
    return {a.tensor for a, own in reads if any(own - other and other - own for _, other in reads)}


def _is_same(a: Expr | None, b: Expr | None) -> bool:
    """Whether two factors are the same number, whatever the index."""
    return a is b or (isinstance(a, Const) and isinstance(b, Const) and a == b)


def _with_sum(kernel: Reduce, whole: Expr, factor: Expr | None) -> Reduce:
    """The kernel with an integer sum, which is multiplied by the factor at the end."""
    start, name = kernel.initial[0], kernel.accumulators[0].name
    none = Const(0, whole.dtype)
    total = Local(name, none)
    result = _scaled(Cast(start.dtype, total), factor)
    if not (isinstance(start, Const) and start.value == 0):
        result = Binary("add", start, result)
    return replace(
        kernel, initial=(none,), values=(whole,), accumulators=(total,), results=(result,)
    )


def _reading(kernel: Kernel, of: Mapping[Tensor, _Stored]) -> Kernel:
    """A map with integers in place of the reals that it reads."""
    if not isinstance(kernel, Reduce) or not is_map(kernel):
        return kernel
    read = [a for a in accesses(*kernel.initial) if a.tensor in of]
    if not read or any(s.rule is not None for a in read for s in a.subscripts):
        return kernel
    if any(of[a.tensor].element(a) is None for a in read):
        return kernel

    def node(expr: Expr) -> Expr:
        if isinstance(expr, Access) and expr.tensor in of:
            return of[expr.tensor].value(expr)
        return expr

    new = map_expressions(kernel, node)
    return replace(new, results=new.accumulators)


def _with_reals(
    kernels: Sequence[Kernel], of: Mapping[Tensor, _Stored], results: Container[Tensor]
) -> list[Kernel]:
    """The kernels, and those that give the reals that something still reads."""
    read = {a.tensor for k in kernels for a in accesses(*expressions_of(k))}
    wanted = {s.integers: t for t, s in of.items() if t in read or t in results}
    last = {t: n for n, k in enumerate(kernels) for t in tensors_written(k)}
    out: list[Kernel] = []
    for number, kernel in enumerate(kernels):
        out.append(kernel)
        for tensor in tensors_written(kernel):
            if tensor in wanted and last[tensor] == number:
                out.append(_real(wanted[tensor], of, kernel))
    return out


def _real(tensor: Tensor, of: Mapping[Tensor, _Stored], maker: Kernel) -> Reduce:
    """The map that gives a tensor from its integers."""
    indices = tuple(Index(f"i{d}", n) for d, n in enumerate(tensor.shape))
    target = Access(tensor, tuple(map(Subscript, indices)))
    value = of[tensor].value(target)
    total = (Local("acc0", value),)
    return Reduce(
        maker.name, (target,), indices, (), "set", (value,), (), total, total,
        operations=maker.operations,
    )  # fmt: skip
