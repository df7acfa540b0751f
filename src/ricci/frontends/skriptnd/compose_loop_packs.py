"""Loop variables that are packs whose length changes from step to step (specification 2.10.1).

Such a variable is carried as so many tensors as it has at most, and an integer that says how many
of them there are; extents that differ from item to item are carried, too. Spec: loop variables
keep their type / Ricci: the length of a pack is no part of it where a call decides it, or where
the variable is declared with a bound, `ps: real[n]..(~|10)`.
"""

from __future__ import annotations

from ...dtypes import DType
from ...ir import nodes, shapes
from ...records import dataclass
from . import syntax as s
from .compose_body import Body
from .compose_graph import Builder
from .evaluate_dynamic import AnyPack, is_there, items_of, length_of, pack_of
from .evaluate_packs import require_int
from .evaluate_shapes import check_number, evaluate_shape
from .labels import Wanted, item_name
from .values import AnyValue, DynamicPack, default_of, describe, fail, from_expr, shown_size


@dataclass(frozen=True, slots=True)
class OpenPack:
    """A pack that a loop carries, as it was before the first step."""

    carried: s.Carried
    value: AnyPack
    most: int
    dtype: DType
    extents: tuple[nodes.Expr | None, ...]
    """The shape of the items; none for an extent that each of them has for itself."""
    bounds: tuple[nodes.Expr | None, ...]

    def describe(self) -> str:
        """The variable, for diagnostics."""
        shown = ", ".join("~" if e is None else describe(from_expr(e)) for e in self.extents)
        return f"at most {self.most} of {self.dtype}[{shown}]"

    def suits(self, new: AnyValue) -> bool:
        """Whether a value has the variable's type and rank, and need not be too long."""
        if not isinstance(new, tuple | DynamicPack):
            return False
        tensors = [t for t in items_of(new) if isinstance(t, nodes.Tensor)]
        least = shapes.interval(length_of(new))[0]
        alike = all(t.dtype is self.dtype and t.rank == len(self.extents) for t in tensors)
        return alike and least <= self.most

    # ------------------------------------------------------------------ in a loop

    def fresh(self, builder: Builder, names: Wanted) -> tuple[DynamicPack, list[nodes.Tensor]]:
        """A new pack of this kind, and all tensors that hold it, sizes first."""
        span = self.carried.span
        length, size = self._size(builder, nodes.integer(self.most))
        sizes, items = [size], []
        for k in range(self.most):
            shape = []
            for extent, bound in zip(self.extents, self.bounds, strict=True):
                if extent is None:
                    extent, size = self._size(builder, bound)
                    sizes.append(size)
                shape.append(extent)
            items.append(builder.tensor(item_name(names, k), self.dtype, tuple(shape), span))
        return DynamicPack(tuple(items), length), [*sizes, *items]

    def _size(self, builder: Builder, bound: nodes.Expr | None) -> tuple[nodes.Expr, nodes.Tensor]:
        symbol = builder.symbol(None, bound, self.carried.span)
        size = builder.tensor(None, DType.INT, (), self.carried.span)
        builder.sizes.append((symbol, size))
        return symbol, size

    def kept(self, builder: Builder, value: AnyPack) -> AnyPack:
        """A new value, with the shapes that the items keep; it must not be too long."""
        span, length = self.carried.span, length_of(value)
        what = f"the length of loop variable `{self.carried.name}`"
        message = (f"{what} is ", *shown_size(length), f", more than its bound {self.most}")
        fits = shapes.compare("le", length, nodes.integer(self.most))
        builder.budget.demand(fits, message, span)
        items = [i for i in items_of(value)[: self.most] if isinstance(i, nodes.Tensor)]
        kept = [self._conform(builder, t, is_there(k, length)) for k, t in enumerate(items)]
        return pack_of(tuple(kept), shapes.minimum(length, nodes.integer(self.most)))

    def tensors(self, builder: Builder, value: AnyPack) -> list[nodes.Tensor]:
        """The tensors that hold a value, in the order of `fresh`."""
        kept, span = self.kept(builder, value), self.carried.span
        sizes = [builder.scalar(from_expr(length_of(kept)), span)]
        items = [i for i in items_of(kept) if isinstance(i, nodes.Tensor)]
        items += [self._absent(builder) for _ in range(self.most - len(items))]
        for item in items:
            pairs = zip(self.extents, item.shape, strict=True)
            sizes += [builder.scalar(from_expr(own), span) for e, own in pairs if e is None]
        return [*sizes, *items]

    def _absent(self, builder: Builder) -> nodes.Tensor:
        """What stands for an item that is not there."""
        shape = tuple([nodes.ZERO if e is None else e for e in self.extents])
        zero = nodes.Const(default_of(self.dtype), self.dtype)
        return builder.filled(zero, shape, None, self.carried.span)

    def _conform(self, builder: Builder, item: nodes.Tensor, there: nodes.Expr) -> nodes.Tensor:
        """An item in the variable's shape, which it must have if it is there."""
        span = self.carried.span
        what = f"the shape of loop variable `{self.carried.name}`"
        pairs = [(a, b) for a, b in zip(item.shape, self.extents, strict=True) if b is not None]
        if all(shapes.equal(a, b) for a, b in pairs):
            return item
        absent = shapes.logical_not(there)
        if not all(builder.agree(a, b, what, span, absent) for a, b in pairs):
            message = f"loop variable `{self.carried.name}` changes its type or shape"
            raise fail("E0608", message, span, f"{describe(item)} for {self.describe()}")
        extents = [a if b is None else b for a, b in zip(item.shape, self.extents, strict=True)]
        domain = tuple([nodes.Index(f"i{n}", e, span) for n, e in enumerate(extents)])
        access = nodes.Access(item, tuple([nodes.Subscript(i) for i in domain]), span)
        zero = nodes.Const(default_of(self.dtype), self.dtype)
        return builder.computed(shapes.select(there, access, zero), domain, span)


def open_pack(body: Body, carried: s.Carried, value: AnyPack) -> OpenPack:
    """A loop variable whose length is not fixed. Raises E0608 where nothing tells its shape."""
    builder, span = body.builder, carried.span
    tensors = [t for t in items_of(value) if isinstance(t, nodes.Tensor)]
    columns = list(zip(*(t.shape for t in tensors), strict=True)) if _alike(tensors) else None
    if columns is None:
        message = "the items of a loop variable must have one type and number of dimensions"
        raise fail("E0608", message, span, describe(value))
    if tensors:
        dtype = tensors[0].dtype
    else:
        dtype, shape = _declared(body, carried)
        columns = [(extent,) for extent in shape]
    extents = [c[0] if all(shapes.equal(e, c[0]) for e in c) else None for c in columns]
    bounds = tuple([builder.bound(column) for column in columns])
    return OpenPack(carried, value, _most(body, carried, value), dtype, tuple(extents), bounds)


def _alike(tensors: list[nodes.Tensor]) -> bool:
    return len({(t.dtype, t.rank) for t in tensors}) < 2


def _most(body: Body, carried: s.Carried, value: AnyPack) -> int:
    """How many items there may be: the bound that is declared, else as many as at first."""
    pack = None if carried.type is None else carried.type.pack
    if pack is None or pack.bound is None:
        return len(items_of(value))
    most = require_int(body.evaluator.evaluate(pack.bound), pack.bound.span, "an upper bound")
    check_number(most, pack.bound.span)
    return most


def _declared(body: Body, carried: s.Carried) -> tuple[DType, tuple[nodes.Expr, ...]]:
    """The type and shape of the items of a pack that begins empty."""
    type = carried.type
    if type is None or type.shape is None or any(isinstance(e.size, s.Omitted) for e in type.shape):
        message = f"nothing tells the shape of the items of loop variable `{carried.name}`"
        help = f"declare it: `{carried.name}: real[n]..(~|10) = ...`"
        raise fail("E0608", message, carried.span, help=help)
    dtype = body.evaluator.dtype(type.name, type.span)
    return dtype, evaluate_shape(body.evaluator, type, None)
