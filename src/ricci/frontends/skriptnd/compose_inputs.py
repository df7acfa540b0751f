"""The inputs of a main graph, whose shapes may be dynamic within bounds (specification 2.6)."""

from __future__ import annotations

from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...source import Span
from . import syntax as s
from .bind import Binder
from .bind_shapes import Argument, bind_absent
from .bind_solve import solve_symbolic
from .binding import affine
from .evaluate_packs import require_int
from .evaluate_shapes import (
    MOST_TENSORS,
    check_extent,
    evaluate_extent,
    number_of_dimensions,
    pack_length,
)
from .labels import Scope, item_name
from .values import AnyValue, DynamicPack, Item, Value, fail, is_expr, show, to_expr


def bind_graph_inputs(binder: Binder, scope: Scope, absent: set[str]) -> list[nodes.Port]:
    """New tensors for the inputs of a graph; symbols for their dynamic extents and lengths.

    A pack of dynamic length has a port for its length behind its own. Raises E0417 for a
    dynamic extent or length without an upper bound, or with two.
    """
    inputs = _Inputs(binder, scope)
    binder.resolve_lengths()
    given = [p for p in binder.operator.inputs if p.name not in absent]
    for parameter in given:
        for extent in parameter.type.shape or ():
            if extent.bound is not None and not extent.distinct:
                inputs.define_symbols(extent)
    for parameter in given:
        inputs.define_length(parameter)
    ports = {p.name: inputs.ports(p, False) for p in given}
    ports |= {p.name: inputs.ports(p, True) for p in binder.operator.inputs if p.name in absent}
    return [port for p in binder.operator.inputs for port in ports[p.name]]


class _Inputs:
    def __init__(self, binder: Binder, scope: Scope) -> None:
        self.binder = binder
        self.builder = binder.builder
        self.evaluator = binder.evaluator
        self.scope = scope
        self.bounds: dict[str, int] = {}
        self.lengths: dict[str, tuple[nodes.Symbol, nodes.Tensor]] = {}
        """The packs of dynamic length: the size, and the tensor that holds it."""

    def ports(self, parameter: s.Parameter, absent: bool) -> list[nodes.Port]:
        """The port of an input, and that of the length of a pack if it is dynamic."""
        name, type = parameter.name, parameter.type
        packed = type.pack is not None
        if absent:
            self._bind_absent(parameter)
            return [nodes.Port(name, (), optional=True)]
        self.binder.resolve_lengths()
        full = self.scope.tensor(name)
        count = self._most(parameter) if packed else 1
        items = [item_name(full, k) for k in range(count)] if packed else [full]
        self._define_distinct(parameter, count)
        tensors = [self._tensor(parameter, n, k if packed else None) for k, n in enumerate(items)]
        value: AnyValue = tuple(tensors) if packed else tensors[0]
        length = None
        if name in self.lengths:
            symbol, length = self.lengths[name]
            value = DynamicPack(tuple(tensors), symbol)
        self.evaluator.values[name] = value
        may_be_absent = type.optional or parameter.default is not None
        packed = packed and bool(tensors or not may_be_absent)
        port = nodes.Port(name, tuple(tensors), packed, may_be_absent, length)
        return [port] if length is None else [port, nodes.Port(f"{name}.size", (length,))]

    def _bind_absent(self, parameter: s.Parameter) -> None:
        """An input that callers do not give: its default, or null with null symbols."""
        if parameter.default is None and not parameter.type.optional:
            raise fail("E0412", f"input `{parameter.name}` is not optional", parameter.span)
        bind_absent(self.binder, parameter, Argument(None, parameter.span))

    def _tensor(self, parameter: s.Parameter, name: str | None, item: int | None) -> nodes.Tensor:
        type = parameter.type
        if type.shape is None:
            raise fail("E0417", "the shape of a graph's input must be given", parameter.span)
        dtype = self.evaluator.dtype(type.name, type.span)
        shape: list[nodes.Expr] = []
        shown = parameter.name if item is None else f"{parameter.name}:{item + 1}"
        for extent in type.shape:
            for size in self._extents(extent, item, f"{shown}.shape", len(shape)):
                shape.append(self._separate(parameter, size, f"{shown}.shape[{len(shape)}]", item))
        if type.rank is not None:
            self.binder.define(type.rank, len(shape), "its rank", type.span)
        return self.builder.tensor(name, dtype, tuple(shape), parameter.span)

    def _separate(
        self, parameter: s.Parameter, extent: nodes.Expr, shown: str, item: int | None
    ) -> nodes.Expr:
        """An extent that depends on the length of a pack is one of its own, to be compared.

        The shapes of the arguments define their extents before lengths are known.
        """
        lengths = {symbol for symbol, _ in self.lengths.values()}
        if lengths.isdisjoint(rewrite.free_symbols(extent)):
            return extent
        most = shapes.interval(extent)[1]
        symbol = self._new_symbol(shown, int(most), parameter.span)
        absent: nodes.Expr = nodes.FALSE
        if item is not None and parameter.name in self.lengths:
            length = self.lengths[parameter.name][0]
            absent = shapes.compare("le", length, nodes.integer(item))
        self.builder.agree(symbol, extent, f"`{shown}`", parameter.span, absent)
        return symbol

    # ------------------------------------------------------------- pack lengths

    def define_length(self, parameter: s.Parameter) -> None:
        """`..(n|10)` and `..(~|10)` make the length of a pack a size known at run time."""
        pack, name = parameter.type.pack, parameter.name
        known = None if pack is None or pack.length is None else self._known_length(pack.length)
        if pack is None or (pack.bound is None and not is_expr(known)):
            return
        bound = self._most_items(pack, known)
        if known is not None and not is_expr(known):
            self.builder.keep_bound(known, bound, f"the length of `{name}`", pack.span)
            return
        if bound > MOST_TENSORS:
            raise fail("E0903", "a pack of too many tensors", parameter.type.span, str(bound))
        tensor = self.builder.tensor(None, DType.INT, (), pack.span)
        size = self.builder.symbol(self._length_name(pack, name), nodes.integer(bound), pack.span)
        self.builder.sizes.append((size, tensor))
        self.lengths[name] = size, tensor
        if pack.length is not None:
            self._bind_length(pack.length, size, name)

    def _known_length(self, length: s.Expr) -> Item | None:
        """The length of a pack, where everything in it has a value."""
        return self._length(length) if self.binder.is_known(length) else None

    def _most_items(self, pack: s.Pack, known: Item | None) -> int:
        """The bound that is written with a length, else the most that it can be."""
        if pack.bound is not None:
            return self._bound(pack.bound)
        assert known is not None
        most = shapes.interval(to_expr(known))[1]
        return MOST_TENSORS + 1 if most > MOST_TENSORS else int(most)

    def _length_name(self, pack: s.Pack, name: str) -> str:
        """What a length is called: as the symbol that it defines, else `xs.size`."""
        if isinstance(pack.length, s.Name) and pack.length.name not in self.evaluator.values:
            return pack.length.name
        return f"{name}.size"

    def _length(self, length: s.Expr) -> Item:
        value = self.evaluator.evaluate(length)
        if value is None or isinstance(value, tuple):
            raise fail("E0413", "the length of a pack must be one integer", length.span)
        return value

    def _bind_length(self, length: s.Expr, size: nodes.Symbol, name: str) -> None:
        """Define the symbol of a length, or have it compared where that is known already."""
        what = f"the length of `{name}`"
        form = affine(length, self.evaluator.values)
        if form is not None:
            value = solve_symbolic(self.builder, size, form, length, what)
            self.binder.define(form[0], value, what, length.span)
        elif not self.binder.is_known(length):
            raise self.binder.unknown(length, what)
        elif not self.builder.agree(size, to_expr(self._length(length)), what, length.span):
            raise fail("E0413", f"{what} can never be {show(self._length(length))}", length.span)

    def _most(self, parameter: s.Parameter) -> int:
        """The number of tensors that a pack has at most."""
        if parameter.name in self.lengths:
            bound = self.lengths[parameter.name][0].bound
            assert isinstance(bound, nodes.Const)
            count = int(bound.value)
        else:
            self._require_length(parameter)
            count = pack_length(self.evaluator, parameter.type, self.builder.budget) or 0
        self.builder.budget.spend(count, parameter.span)
        return count

    def _require_length(self, parameter: s.Parameter) -> None:
        pack = parameter.type.pack
        if pack is None or (pack.length is not None and self.binder.is_known(pack.length)):
            return
        shown = "~" if pack.length is None else pack.length.span.text
        raise fail(
            "E0417",
            f"the length of a graph's input `{parameter.name}` needs an upper bound",
            pack.span,
            help=f"write `..({shown}|100)`, or a length of attributes",
        )

    # ------------------------------------------------------------------ extents

    def _define_distinct(self, parameter: s.Parameter, count: int) -> None:
        """`..n|10`: a size of its own for each tensor of a pack."""
        for extent in parameter.type.shape or ():
            form = None if not extent.distinct else affine(extent.size, self.evaluator.values)
            if form is None or extent.bound is None:
                continue
            most = self._solve_bound(form, self._bound(extent.bound), extent)
            names = [f"{form[0]}_{k + 1}" for k in range(count)]
            symbols = tuple([self._new_symbol(n, most, extent.span) for n in names])
            value: AnyValue = symbols
            if parameter.name in self.lengths:
                value = DynamicPack(symbols, self.lengths[parameter.name][0])
            self.binder.define(form[0], value, f"extents of `{parameter.name}`", extent.span)

    def _solve_bound(self, form: tuple[str, int, int], bound: int, extent: s.Extent) -> int:
        """The most that the symbol of an affine extent can be."""
        _, factor, offset = form
        if factor < 0 or bound < offset:
            raise fail("E0417", "no size keeps this bound", extent.span, f"the bound is {bound}")
        return (bound - offset) // factor

    def _extents(
        self, extent: s.Extent, item: int | None, shown: str, axis: int
    ) -> list[nodes.Expr]:
        """The extents that an item of a shape stands for, the first at an axis."""
        if isinstance(extent.size, s.Omitted):
            count = range(self._count(extent))
            return [self._symbol(f"{shown}[{axis + k}]", extent, k) for k in count]
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
        found = self._evaluate(extent, item)
        return [check_extent(size, extent) for size in found]

    def _evaluate(self, extent: s.Extent, item: int | None) -> tuple[Item, ...]:
        known = self.evaluator.evaluate_any(extent.size) if extent.distinct else None
        if isinstance(known, DynamicPack) and item is not None:
            return (known.items[item],)
        return evaluate_extent(self.evaluator, extent, item)

    def _count(self, extent: s.Extent) -> int:
        if extent.pack is None:
            return 1
        if extent.pack.length is None or not self.binder.is_known(extent.pack.length):
            raise fail("E0417", "the rank of a graph's input must be given", extent.span)
        value = self.evaluator.evaluate(extent.pack.length)
        if value is None or isinstance(value, bool):
            return int(value or 0)
        return number_of_dimensions(value, extent.pack.length.span)

    def _symbol(self, name: str, extent: s.Extent, position: int = 0) -> nodes.Symbol:
        if extent.bound is None:
            raise fail("E0417", "a dynamic extent needs an upper bound", extent.span)
        return self._new_symbol(name, self._bound(extent.bound, position), extent.span)

    def _new_symbol(self, name: str, bound: int, span: Span) -> nodes.Symbol:
        symbol = self.builder.symbol(name, nodes.integer(bound), span)
        self.builder.symbols.append(symbol)
        return symbol

    def _bound(self, bound: s.Expr, position: int = 0) -> int:
        """An upper bound; of a pack of them, that of one of several extents."""
        value = self.evaluator.evaluate(bound)
        if isinstance(value, tuple) and position < len(value):
            value = value[position]
        most = require_int(value, bound.span, "an upper bound")
        if most < 0:
            raise fail("E0416", "an upper bound is negative", bound.span, str(most))
        return most

    def define_symbols(self, extent: s.Extent) -> None:
        """`s|10` makes `s` a size that is known at run time; `2*s|10` as well."""
        if isinstance(extent.size, s.Omitted) or extent.bound is None:
            return
        form = affine(extent.size, self.evaluator.values)
        if form is None:
            self._check_bound(extent, self._bound(extent.bound))
            return
        count = self._count(extent)
        bounds = [self._bound(extent.bound, k) for k in range(max(count, 1))]
        name = form[0]
        if isinstance(extent.size, s.Name):
            self.bounds[name] = bounds[0]
        most = [self._solve_bound(form, bound, extent) for bound in bounds]
        value: Value
        if extent.pack is None or self._is_conditional(extent):
            value = self._new_symbol(name, most[0], extent.span) if count else None
        else:
            names = [f"{name}_{k + 1}" for k in range(count)]
            pairs = zip(names, most, strict=False)
            value = tuple([self._new_symbol(n, m, extent.span) for n, m in pairs])
        self.binder.define(name, value, f"at most {bounds[0]}", extent.span)

    def _is_conditional(self, extent: s.Extent) -> bool:
        """`b|9 ..(flag)`: one extent or none, not a pack."""
        if extent.pack is None or extent.pack.length is None:
            return False
        return isinstance(self.evaluator.evaluate(extent.pack.length), bool)

    def _check_bound(self, extent: s.Extent, bound: int) -> None:
        """A second bound of the same symbol must be the first."""
        if not isinstance(extent.size, s.Name) or extent.size.name not in self.bounds:
            if self.binder.is_known(extent.size):
                value = self.evaluator.evaluate(extent.size)
                for size in value if isinstance(value, tuple) else (value,):
                    if size is not None:
                        self.builder.keep_bound(size, bound, "an extent", extent.span)
            return
        known = self.bounds[extent.size.name]
        if known != bound:
            raise fail(
                "E0417",
                f"`{extent.size.name}` has two upper bounds, {known} and {bound}",
                extent.span,
                labels=self.binder.where(extent.size),
            )
