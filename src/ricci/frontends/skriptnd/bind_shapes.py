"""Binding tensors to the inputs of an operator, and computing the shapes of outputs (2.6)."""

from __future__ import annotations

from ...diagnostics import Label
from ...ir import nodes, shapes
from ...records import dataclass
from ...source import Span
from . import syntax as s
from .bind import Binder
from .bind_solve import solve, solve_symbolic
from .binding import affine, declared_symbols
from .evaluate_packs import require_int
from .evaluate_shapes import bounds_of, evaluate_shape
from .values import (
    AnyValue,
    DynamicPack,
    Item,
    Pack,
    Value,
    describe,
    dtype_of,
    fail,
    from_expr,
    is_expr,
    show,
    to_expr,
)


@dataclass(frozen=True, slots=True)
class Argument:
    """What an invocation passes for one input: a value, and where it stands."""

    value: AnyValue
    span: Span


def bind_inputs(binder: Binder, arguments: list[Argument], span: Span) -> None:
    """Bind all inputs in their binding order.

    Raises E0301, E0401, E0410 to E0413 and E0416 for arguments that do not fit.
    """
    operator = binder.operator
    if len(arguments) > len(operator.inputs):
        raise fail(
            "E0412",
            f"`{operator.name}` takes {len(operator.inputs)} inputs, {len(arguments)} are given",
            arguments[len(operator.inputs)].span,
        )
    late = []
    for position in binder.builder.plan(operator).order:
        parameter = operator.inputs[position]
        argument = arguments[position] if position < len(arguments) else Argument(None, span)
        if argument.value is None:
            late.append((parameter, argument))
            continue
        _bind_input(binder, parameter, argument)
        binder.resolve_lengths()
    for parameter, argument in late:
        bind_absent(binder, parameter, argument)


def bind_absent(binder: Binder, parameter: s.Parameter, argument: Argument) -> None:
    """An input that is not given: its default, or null with null symbols."""
    values = binder.evaluator.values
    if parameter.default is not None:
        value = binder.evaluator.evaluate(parameter.default)
        default = Argument(value, parameter.default.span)
        shape = parameter.type.shape or ()
        if isinstance(value, tuple) or not all(binder.is_known(e.size) for e in shape):
            _bind_input(binder, parameter, default)
        else:
            values[parameter.name] = _fill(binder, parameter, default)
    elif parameter.type.optional:
        values[parameter.name] = None
        for name in declared_symbols(parameter.type, values.keys()):
            values.setdefault(name, None)
    else:
        label = Label(parameter.span, "declared here")
        raise fail(
            "E0412",
            f"input `{parameter.name}` of `{binder.operator.name}` must be given",
            argument.span,
            labels=(label,),
        )


def _fill(binder: Binder, parameter: s.Parameter, default: Argument) -> nodes.Tensor:
    """Spec: a default is a tensor of rank 0. Ricci: it fills the declared shape."""
    value = default.value
    assert value is not None
    assert not isinstance(value, tuple | DynamicPack)
    binder.unify(parameter.type.name, dtype_of(value), default.span, "the default")
    shape = evaluate_shape(binder.evaluator, parameter.type, None)
    if isinstance(value, bool | int | float):
        return binder.builder.constant(value, dtype_of(value), shape)
    return binder.builder.scalar(value, default.span)


def _bind_input(binder: Binder, parameter: s.Parameter, argument: Argument) -> None:
    type, value, builder = parameter.type, argument.value, binder.builder
    what = f"input `{parameter.name}`"
    if isinstance(value, tuple | DynamicPack) != (type.pack is not None):
        kinds = ("one tensor", "a pack") if type.pack is None else ("a pack", "one tensor")
        raise fail(
            "E0412",
            f"{what} of `{binder.operator.name}` takes {kinds[0]}, not {kinds[1]}",
            argument.span,
            describe(value),
            labels=(Label(parameter.span, "declared here"),),
        )
    pack = value.items if isinstance(value, DynamicPack) else value
    items = pack if isinstance(pack, tuple) else (pack,)
    tensors = tuple([builder.scalar(i, argument.span) for i in items if i is not None])
    for tensor in tensors:
        binder.unify(type.name, tensor.dtype, argument.span, what)
    bound: AnyValue = tensors
    length: Item = len(tensors)
    if isinstance(value, DynamicPack):
        bound, length = DynamicPack(tensors, value.length), value.length
    elif not isinstance(value, tuple):
        bound = tensors[0]
    binder.evaluator.values[parameter.name] = bound
    if type.pack is not None:
        _bind_length(binder, type.pack, length, what, Label(argument.span, _given(bound)))
    if type.shape is not None:
        _ShapeBinder(binder, parameter, bound, argument.span).bind(type.shape)


def _given(value: AnyValue) -> str:
    return f"the argument is {describe(value)}"


def _bind_length(binder: Binder, pack: s.Pack, length: Item, what: str, given: Label) -> None:
    what = f"the length of {what}"
    if pack.bound is not None and binder.is_known(pack.bound):
        bound = binder.evaluator.evaluate(pack.bound)
        if bound is not None and not isinstance(bound, tuple):
            binder.builder.keep_bound(length, bound, what, pack.bound.span)
    if pack.length is not None:
        binder.bind_size(pack.length, length, what, (given,))


class _ShapeBinder:
    """Binds the symbols of one shape to the extents of a tensor, or of a pack of them."""

    def __init__(self, binder: Binder, parameter: s.Parameter, value: AnyValue, span: Span) -> None:
        self.binder = binder
        self.evaluator = binder.evaluator
        self.parameter = parameter
        self.value = value
        self.length = value.length if isinstance(value, DynamicPack) else None
        pack = value.items if isinstance(value, DynamicPack) else value
        items = pack if isinstance(pack, tuple) else (pack,)
        self.tensors = tuple([t for t in items if isinstance(t, nodes.Tensor)])
        self.span = span

    @property
    def given(self) -> Label:
        """The argument, for diagnostics."""
        return Label(self.span, _given(self.value))

    def _absent(self, item: int) -> nodes.Expr:
        """The condition that a pack has no such item when the graph runs."""
        if self.length is None:
            return nodes.FALSE
        return shapes.compare("le", self.length, nodes.integer(item))

    def bind(self, shape: tuple[s.Extent, ...]) -> None:
        if not self.tensors:
            raise fail("E0411", "an empty pack has no shape", self.span, labels=self._declared())
        rank = self.tensors[0].rank
        if any(t.rank != rank for t in self.tensors):
            raise fail(
                "E0411",
                "the tensors of a pack must have the same number of dimensions",
                self.span,
                describe(self.value),
                labels=self._declared(),
            )
        if self.parameter.type.rank is not None:
            what = f"the rank of `{self.parameter.name}`"
            self.binder.define(self.parameter.type.rank, rank, what, self.parameter.span)
        start = 0
        for extent, count in zip(shape, self._split(shape, rank), strict=True):
            self._bind_extent(extent, start, start + count)
            start += count

    def _declared(self) -> tuple[Label, ...]:
        return (Label(self.parameter.span, "declared here"),)

    # -------------------------------------------------------------- dimensions

    def _split(self, shape: tuple[s.Extent, ...], rank: int) -> list[int]:
        """How many dimensions each extent covers; deduces the one length that is not known."""
        counts: list[int] = []
        flexible = None
        for position, extent in enumerate(shape):
            count = self._count(extent)
            if count is None:
                flexible = position
            counts.append(count or 0)
        rest = rank - sum(counts)
        if rest < 0 or (rest > 0 and flexible is None):
            raise self._wrong_rank(sum(counts), rank, flexible is not None)
        if flexible is not None:
            counts[flexible] = rest
            pack = shape[flexible].pack
            if pack is not None and pack.length is not None:
                part = "rank" if len(shape) == 1 else "number of these dimensions"
                what = f"the {part} of `{self.parameter.name}`"
                self.binder.bind_size(pack.length, rest, what, (self.given,))
        return counts

    def _wrong_rank(self, least: int, rank: int, open: bool) -> Exception:
        dims = "dimension" if least == 1 else "dimensions"
        return fail(
            "E0411",
            f"input `{self.parameter.name}` must have {'at least ' * open}{least} {dims}, "
            f"not {rank}",
            self.parameter.span,
            "declared here",
            labels=(self.given,),
        )

    def _count(self, extent: s.Extent) -> int | None:
        """The number of dimensions of an extent; None where the tensor decides."""
        length = extent.pack.length if extent.pack is not None else None
        if extent.pack is None:
            return 0 if self._is_null(extent.size) else 1
        if length is None:
            if isinstance(extent.size, s.Omitted) or not self.binder.is_known(extent.size):
                return None
            value = self.evaluator.evaluate(extent.size)
            return len(value) if isinstance(value, tuple) else 0 if value is None else None
        if not self.binder.is_known(length):
            return None
        value = self.evaluator.evaluate(length)
        if value is None or isinstance(value, bool):
            return int(value or 0)
        count = require_int(value, length.span, "a number of dimensions")
        if count < 0:
            raise fail(
                "E0411",
                f"a part of the shape of `{self.parameter.name}` has {count} dimensions",
                length.span,
                labels=(self.given, *self.binder.where(length)),
            )
        return count

    def _is_null(self, size: s.Expr) -> bool:
        return (
            not isinstance(size, s.Omitted | s.Literal)
            and self.binder.is_known(size)
            and self.evaluator.evaluate(size) is None
        )

    # ----------------------------------------------------------------- extents

    def _bind_extent(self, extent: s.Extent, start: int, stop: int) -> None:
        if extent.bound is not None and self.binder.is_known(extent.bound):
            self._check_bounds(extent, extent.bound, start, stop)
        if isinstance(extent.size, s.Omitted):
            return
        name = extent.size.name if isinstance(extent.size, s.Name) else None
        conditional = self._is_conditional(extent)
        if name is not None and name not in self.evaluator.values:
            value = self._found(extent, start, stop, conditional)
            what = f"dimension {start} of `{self.parameter.name}`"
            if extent.pack is not None and not conditional:
                what = f"dimensions {start} to {stop - 1} of `{self.parameter.name}`"
            self.binder.define(name, value, what, extent.span)
        elif not self.binder.is_known(extent.size):
            self._deduce(extent, self._found(extent, start, stop, conditional), start)
        elif start < stop:
            self._compare(extent, self.evaluator.evaluate_any(extent.size), start, stop)

    def _check_bounds(self, extent: s.Extent, written: s.Expr, start: int, stop: int) -> None:
        """Spec: graphs bound the extents of their inputs / Ricci: operators may too."""
        value = self.evaluator.evaluate(written)
        bounds = value if isinstance(value, tuple) else (value,) * (stop - start)
        for k, bound in zip(range(start, stop), bounds, strict=False):
            what = f"dimension {k} of `{self.parameter.name}`"
            for tensor in self.tensors:
                if bound is not None:
                    size = from_expr(tensor.shape[k])
                    self.binder.builder.keep_bound(size, bound, what, written.span)

    def _is_conditional(self, extent: s.Extent) -> bool:
        """`b ..(flag)`: one extent or none, not a pack."""
        if extent.pack is None or extent.pack.length is None:
            return False
        length = extent.pack.length
        return self.binder.is_known(length) and isinstance(self.evaluator.evaluate(length), bool)

    def _found(self, extent: s.Extent, start: int, stop: int, conditional: bool) -> AnyValue:
        """The extents of the arguments, as the symbol of an extent has them."""
        if extent.distinct:
            distinct = tuple([from_expr(t.shape[start]) for t in self.tensors])
            return distinct if self.length is None else DynamicPack(distinct, self.length)
        for item in range(1, len(self.tensors)):
            for k in range(start, stop):
                self._agree(extent, k, item)
        items = tuple([from_expr(e) for e in self.tensors[0].shape[start:stop]])
        if extent.pack is None or conditional:
            return items[0] if items else None
        return items

    def _agree(self, extent: s.Extent, k: int, item: int) -> None:
        """A shared extent of an item is that of the first."""
        a, b = self.tensors[0].shape[k], self.tensors[item].shape[k]
        what = f"dimension {k} of `{self.parameter.name}`"
        if not self.binder.builder.agree(a, b, what, extent.span, self._absent(item)):
            raise fail(
                "E0410",
                f"the tensors of `{self.parameter.name}` differ in dimension {k}",
                extent.span,
                f"{show(from_expr(a))} and {show(from_expr(b))}",
                labels=(self.given,),
                help="extents that may differ are written with `..` before them",
            )

    def _deduce(self, extent: s.Extent, value: AnyValue, start: int) -> None:
        """The symbol of an affine extent, from the extents found."""
        form = affine(extent.size, self.evaluator.values)
        what = f"dimension {start} of `{self.parameter.name}`"
        if form is None:
            missing = [
                n
                for n in self.binder.builder.free_names(extent.size)
                if n not in self.evaluator.values
            ]
            names = ", ".join(f"`{n}`" for n in missing)
            raise fail("E0416", f"{what} depends on {names}, not known here", extent.span)
        if isinstance(value, DynamicPack):
            rows = enumerate(value.items)
            items = [self._solve(i, form, extent, what, self._absent(k)) for k, i in rows]
            open_pack = DynamicPack(tuple(items), value.length)
            self.binder.define(form[0], open_pack, what, extent.span)
            return
        found = value if isinstance(value, tuple) else () if value is None else (value,)
        solved = tuple([self._solve(i, form, extent, what) for i in found])
        single = not isinstance(value, tuple)
        result: Value = (solved[0] if solved else None) if single else solved
        self.binder.define(form[0], result, what, extent.span)

    def _solve(
        self,
        size: Item,
        form: tuple[str, int, int],
        extent: s.Extent,
        what: str,
        absent: nodes.Expr = nodes.FALSE,
    ) -> Item:
        if isinstance(size, int) and absent == nodes.FALSE:
            return solve(size, form, extent.size, what, (self.given,))
        return solve_symbolic(self.binder.builder, to_expr(size), form, extent.size, what, absent)

    def _compare(self, extent: s.Extent, expected: AnyValue, start: int, stop: int) -> None:
        """Extents that are declared by known symbols must be those of the argument."""
        known = expected.items if isinstance(expected, DynamicPack) else expected
        places = [(n, k) for n in range(len(self.tensors)) for k in range(start, stop)]
        if isinstance(known, tuple):
            wanted: Pack = known if extent.distinct else known * len(self.tensors)
            if len(wanted) != len(places):
                raise self._wrong_length(extent, known, stop - start)
        else:
            assert known is not None
            wanted = (known,) * len(places)
        for (n, k), item in zip(places, wanted, strict=True):
            self._check_item(extent, n, k, item)

    def _wrong_length(self, extent: s.Extent, expected: Pack, count: int) -> Exception:
        return fail(
            "E0411",
            f"`{self.parameter.name}` has {count} dimensions where {len(expected)} are declared",
            extent.span,
            "declared here",
            labels=(self.given, *self.binder.where(extent.size)),
        )

    def _check_item(self, extent: s.Extent, position: int, k: int, item: Item) -> None:
        actual, absent = self.tensors[position].shape[k], self._absent(position)
        if type(item) is int and type(actual) is nodes.Const and item == actual.value:
            return
        what = f"dimension {k} of `{self.parameter.name}`"
        if not (is_expr(item) or type(item) is int):
            raise fail("E0503", "an extent must be an integer", extent.span, show(item))
        if not self.binder.builder.agree(actual, to_expr(item), what, extent.span, absent):
            raise fail(
                "E0410" if isinstance(extent.size, s.Name) else "E0401",
                f"{what} is {show(from_expr(actual))}, not {show(item)}",
                extent.span,
                f"{show(item)} is declared",
                labels=(self.given, *self.binder.where(extent.size)),
                notes=bounds_of(actual, to_expr(item)),
            )
