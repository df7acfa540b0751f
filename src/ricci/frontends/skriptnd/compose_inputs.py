"""The inputs of a main graph, whose shapes may be dynamic within bounds (specification 2.6)."""

from __future__ import annotations

from ...ir import nodes
from . import syntax as s
from .bind import Binder
from .binding import affine
from .evaluate_packs import require_int
from .evaluate_scalars import binary
from .evaluate_shapes import check_extent, evaluate_extent, pack_length
from .labels import Scope
from .values import Item, Value, fail, show


def bind_graph_inputs(binder: Binder, scope: Scope, absent: set[str]) -> list[nodes.Port]:
    """New tensors for the inputs of a graph; symbols for their dynamic extents.

    Raises E0417 for a dynamic extent without an upper bound, or with two.
    """
    inputs = _Inputs(binder, scope)
    for parameter in binder.operator.inputs:
        for extent in parameter.type.shape or ():
            if extent.bound is not None:
                inputs.define_symbols(extent)
    return [inputs.port(p, p.name in absent) for p in binder.operator.inputs]


class _Inputs:
    def __init__(self, binder: Binder, scope: Scope) -> None:
        self.binder = binder
        self.builder = binder.builder
        self.evaluator = binder.evaluator
        self.scope = scope
        self.bounds: dict[str, int] = {}

    def port(self, parameter: s.Parameter, absent: bool) -> nodes.Port:
        type = parameter.type
        if absent:
            if not type.optional:
                raise fail("E0412", f"input `{parameter.name}` is not optional", parameter.span)
            self.evaluator.values[parameter.name] = None
            return nodes.Port(parameter.name, (), type.pack is not None, True)
        self.binder.resolve_lengths()
        count = pack_length(self.evaluator, type, self.builder.budget)
        name = self.scope.tensor(parameter.name)
        if count is None:
            tensors: tuple[nodes.Tensor, ...] = (self._tensor(parameter, name, None),)
        else:
            items = range(count)
            tensors = tuple([self._tensor(parameter, f"{name}:{k + 1}", k) for k in items])
        self.evaluator.values[parameter.name] = tensors[0] if count is None else tensors
        return nodes.Port(parameter.name, tensors, count is not None, type.optional)

    def _tensor(self, parameter: s.Parameter, name: str | None, item: int | None) -> nodes.Tensor:
        type = parameter.type
        if type.shape is None:
            raise fail("E0417", "the shape of a graph's input must be given", parameter.span)
        dtype = self.evaluator.dtype(type.name, type.span)
        shape = [e for extent in type.shape for e in self._extents(extent, item)]
        if type.rank is not None:
            self.binder.define(type.rank, len(shape), "its rank", type.span)
        return self.builder.tensor(name, dtype, tuple(shape), parameter.span)

    # ------------------------------------------------------------------ extents

    def _extents(self, extent: s.Extent, item: int | None) -> list[nodes.Expr]:
        if isinstance(extent.size, s.Omitted):
            return [self._symbol(None, extent) for _ in range(self._count(extent))]
        if not self.binder.is_known(extent.size):
            missing = [
                n for n in self.builder.free_names(extent.size) if n not in self.evaluator.values
            ]
            raise fail(
                "E0417",
                f"extent `{missing[0]}` of a graph's input needs an upper bound",
                extent.span,
                help=f"write `{missing[0]}|100`, or declare it as an attribute",
            )
        found = evaluate_extent(self.evaluator, extent, item)
        return [check_extent(size, extent) for size in found]

    def _count(self, extent: s.Extent) -> int:
        if extent.pack is None:
            return 1
        if extent.pack.length is None:
            raise fail("E0417", "the rank of a graph's input must be given", extent.span)
        value = self.evaluator.evaluate(extent.pack.length)
        return require_int(value, extent.pack.length.span, "a number of dimensions")

    def _symbol(self, name: str | None, extent: s.Extent) -> nodes.Symbol:
        if extent.bound is None:
            raise fail("E0417", "a dynamic extent needs an upper bound", extent.span)
        symbol = self.builder.symbol(name, nodes.integer(self._bound(extent)), extent.span)
        self.builder.symbols.append(symbol)
        return symbol

    def _bound(self, extent: s.Extent) -> int:
        assert extent.bound is not None
        value = self.evaluator.evaluate(extent.bound)
        bound = require_int(value, extent.bound.span, "an upper bound")
        if bound < 0:
            raise fail("E0416", "an upper bound is negative", extent.bound.span, str(bound))
        return bound

    def define_symbols(self, extent: s.Extent) -> None:
        """`s|10` makes `s` a size that is known at run time; `2*s|10` as well."""
        if isinstance(extent.size, s.Omitted):
            return
        bound = self._bound(extent)
        form = affine(extent.size, self.evaluator.values)
        if form is None:
            self._check_bound(extent, bound)
            return
        name, factor, offset = form
        if factor < 0 or bound < offset:
            raise fail("E0417", "no size keeps this bound", extent.span, f"the bound is {bound}")
        self.bounds[name] = bound
        inner = s.Literal((bound - offset) // factor, "", span=extent.span)
        own = s.Extent(extent.size, bound=inner, span=extent.span)
        if extent.pack is None:
            value: Value = self._symbol(name, own)
        else:
            count = self._count(extent)
            value = tuple([self._symbol(f"{name}_{k + 1}", own) for k in range(count)])
        self.binder.define(name, value, f"at most {bound}", extent.span)

    def _check_bound(self, extent: s.Extent, bound: int) -> None:
        """A second bound of the same symbol must be the first."""
        if not isinstance(extent.size, s.Name) or extent.size.name not in self.bounds:
            if self.binder.is_known(extent.size):
                self._check_at_most(extent, bound)
            return
        known = self.bounds[extent.size.name]
        if known != bound:
            raise fail(
                "E0417",
                f"`{extent.size.name}` has two upper bounds, {known} and {bound}",
                extent.span,
                labels=self.binder.where(extent.size),
            )

    def _check_at_most(self, extent: s.Extent, bound: int) -> None:
        """An extent that is known already keeps the bound written with it."""
        value = self.evaluator.evaluate(extent.size)
        items: tuple[Item, ...] = value if isinstance(value, tuple) else ()
        if value is not None and not isinstance(value, tuple):
            items = (value,)
        for size in items:
            fits = binary("<=", size, bound, extent.span)
            if fits is False:
                raise fail("E0417", f"the extent {show(size)} exceeds {bound}", extent.span)
            if fits is not True:
                self.builder.check(
                    fits, ("an extent exceeds its upper bound ", str(bound)), extent.span
                )
