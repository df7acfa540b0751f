"""Giving values to the attributes and generic types of an operator (specification 2.5, 2.6.1).

The order of an invocation: attributes that are given, and constant defaults; inputs in
their binding order (`bind_shapes`); deferred defaults; pack lengths, and single values that
stand for whole packs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ...diagnostics import Label
from ...dtypes import DType
from ...ir import nodes
from ...records import dataclass
from ...source import NOWHERE, Span
from . import syntax as s
from .bind_solve import solve, solve_symbolic
from .binding import affine, children
from .compose_graph import Builder
from .evaluate import Evaluator
from .evaluate_dynamic import length_of
from .evaluate_packs import require_int
from .evaluate_shapes import bounds_of
from .values import (
    DTYPES,
    LONGEST_PACK,
    AnyValue,
    DynamicPack,
    Item,
    Value,
    check_size,
    describe,
    dtype_of,
    fail,
    from_expr,
    is_expr,
    show,
    to_expr,
)

_BASES: dict[str, frozenset[DType]] = {
    "type": frozenset({DType.INT, DType.REAL, DType.BOOL, DType.STR}),
    "arith": frozenset({DType.INT, DType.REAL, DType.BOOL}),
    "num": frozenset({DType.INT, DType.REAL}),
}


@dataclass(eq=False)
class Binder:
    """Binds one invocation of an operator; fills the values and types of an evaluator."""

    builder: Builder
    operator: s.Operator
    evaluator: Evaluator
    origins: dict[str, Label] = field(default_factory=dict)
    """What gave each symbol and generic type its value, for diagnostics."""
    uniform: dict[str, tuple[s.Parameter, Item]] = field(default_factory=dict)
    """Single values given to packed attributes, until the length is known."""
    deferred: list[s.Parameter] = field(default_factory=list)
    unchecked: list[s.Parameter] = field(default_factory=list)
    """Packed attributes whose length is yet to be compared or deduced."""

    # ----------------------------------------------------------- generic types

    def set_types(self, types: tuple[str, ...], outer: Evaluator, span: Span) -> None:
        """Bind the types given explicitly, `op<real>(...)`, in the order of `@dtype`."""
        if len(types) > len(self.operator.dtypes):
            count = len(self.operator.dtypes)
            raise fail(
                "E0415",
                f"`{self.operator.name}` has {count} generic types, {len(types)} are given",
                span,
            )
        for parameter, name in zip(self.operator.dtypes, types, strict=False):
            self.unify(parameter.name, outer.dtype(name, span), span, "given here")

    def unify(self, name: str, dtype: DType, span: Span, what: str) -> None:
        """A value of type `dtype` where `name` is declared; the first one binds a generic.

        Raises E0415 for a generic type with two meanings or one outside its base, and E0301
        for a concrete type that differs.
        """
        concrete = DTYPES.get(name)
        if concrete is dtype:
            return
        if concrete is not None:
            raise fail(
                "E0301", f"a value of type `{dtype}` where `{concrete}` is declared", span, what
            )
        known = self.evaluator.types.get(name)
        if known is None:
            self._bind_type(name, dtype, span, what)
        elif known is not dtype:
            raise fail(
                "E0415",
                f"type `{name}` cannot stand for both `{known}` and `{dtype}`",
                span,
                f"`{dtype}`: {what}",
                labels=(self.origins[name],) if name in self.origins else (),
            )

    def _bind_type(self, name: str, dtype: DType, span: Span, what: str) -> None:
        parameter = next((p for p in self.operator.dtypes if p.name == name), None)
        if parameter is None:
            raise fail("E0201", f"type `{name}` is not known here", span)
        if dtype not in _BASES.get(parameter.base, _BASES["type"]):
            raise fail(
                "E0415",
                f"type `{name}` must be of kind `{parameter.base}`, not `{dtype}`",
                span,
                what,
                labels=(Label(parameter.span, "declared here"),),
            )
        self.evaluator.types[name] = dtype
        self.origins[name] = Label(span, f"`{dtype}`: {what}")

    def finish_types(self) -> None:
        """Use default types; raises E0415 for a type that nothing determines."""
        for parameter in self.operator.dtypes:
            if parameter.name in self.evaluator.types:
                continue
            if parameter.default is None:
                raise fail(
                    "E0415",
                    f"nothing tells what type `{parameter.name}` stands for",
                    parameter.span,
                    help=f"name it: `{self.operator.name}<real>(...)`",
                )
            dtype = DTYPES[parameter.default]
            self._bind_type(parameter.name, dtype, parameter.span, "the default")

    # -------------------------------------------------------------- attributes

    def set_attributes(self, given: Mapping[str, tuple[AnyValue, Span]], span: Span) -> None:
        """Bind the attributes that are given, and constant defaults; note what must wait.

        Raises E0414 for unknown and missing attributes, E0301 for values of the wrong type.
        """
        names = {p.name for p in self.operator.attributes}
        for name, (_, where) in given.items():
            if name not in names:
                raise fail(
                    "E0414",
                    f"`{self.operator.name}` has no attribute `{name}`",
                    where,
                    help=_listing(names),
                )
        for parameter in self.operator.attributes:
            if parameter.name in given:
                value, where = given[parameter.name]
                self._set(parameter, value, where)
            elif parameter.default is not None:
                self._set_default(parameter)
            elif parameter.type.optional:
                self.evaluator.values[parameter.name] = None
            else:
                raise self._missing(parameter, span)

    def _missing(self, parameter: s.Parameter, span: Span) -> Exception:
        name = f"attribute `{parameter.name}` of `{self.operator.name}`"
        if span is NOWHERE:
            return fail("E0414", f"{name} has no value", parameter.span, "declared here")
        label = Label(parameter.span, "declared here")
        return fail("E0414", f"{name} must be given", span, labels=(label,))

    def _set_default(self, parameter: s.Parameter) -> None:
        default = parameter.default
        assert default is not None
        if self.builder.free_names(default) or parameter.type.name not in DTYPES:
            self.deferred.append(parameter)
        else:
            self._set(parameter, self.evaluator.evaluate_any(default), default.span)

    def _set(self, parameter: s.Parameter, value: AnyValue, span: Span) -> None:
        name, type = parameter.name, parameter.type
        if value is None:
            if not type.optional:
                raise fail(
                    "E0414",
                    f"attribute `{name}` of `{self.operator.name}` must be supplied",
                    span,
                    "this is null",
                    labels=(Label(parameter.span, "declared here"),),
                )
            self.evaluator.values[name] = None
            return
        check_size(value.items if isinstance(value, DynamicPack) else value, span)
        self._check_type(parameter, value, span)
        self.origins[name] = Label(span, f"`{name}` is {show(value)}")
        if type.pack is None:
            if isinstance(value, tuple | DynamicPack):
                raise fail("E0301", f"attribute `{name}` takes one value", span, show(value))
            self.evaluator.values[name] = value
        elif isinstance(value, tuple | DynamicPack):
            self.evaluator.values[name] = value
            self.unchecked.append(parameter)
        else:
            self.uniform[name] = (parameter, value)

    def _check_type(self, parameter: s.Parameter, value: AnyValue, span: Span) -> None:
        what = f"attribute `{parameter.name}`"
        value = value.items if isinstance(value, DynamicPack) else value
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, nodes.Tensor | nodes.Subscript):
                raise fail("E0301", f"{what} must not be a tensor", span, describe(item))
            assert item is not None
            self.unify(parameter.type.name, dtype_of(item), span, what)
            if not is_expr(item) and len(value if isinstance(value, tuple) else ()) > 64:
                break

    # ------------------------------------------------------------ after inputs

    def finish(self) -> None:
        """Evaluate deferred defaults, fix types and pack lengths, and repeat single values.

        Raises E0413 for lengths that disagree or are not known, E0414 for a default that
        is null, E0415 for a type that nothing determines.
        """
        late = [p for p in self.deferred if p.default and _names_generic(p.default)]
        self.deferred = [p for p in self.deferred if p not in late]
        self._settle()
        self.finish_types()
        self.deferred += late
        self._settle()
        if self.deferred:
            raise self._undetermined(self.deferred[0])
        for parameter, value in self.uniform.values():
            raise fail(
                "E0413",
                f"nothing tells how many items attribute `{parameter.name}` has",
                parameter.span,
                f"a single value {show(value)} stands for a whole pack",
                help="give a list",
            )

    def _settle(self) -> None:
        progress = True
        while progress and (self.deferred or self.uniform or self.unchecked):
            progress = self._evaluate_deferred()
            progress |= self.resolve_lengths()

    def _undetermined(self, parameter: s.Parameter) -> Exception:
        default = parameter.default
        assert default is not None
        missing = [n for n in self.builder.free_names(default) if not self._has(n)]
        names = ", ".join(f"`{n}`" for n in missing)
        return fail(
            "E0414",
            f"the default of attribute `{parameter.name}` needs {names}, not known here",
            default.span,
        )

    def _evaluate_deferred(self) -> bool:
        waiting, self.deferred = self.deferred, []
        for parameter in waiting:
            default = parameter.default
            assert default is not None
            if all(self._has(n) for n in self.builder.free_names(default)):
                self._set(parameter, self.evaluator.evaluate_any(default), default.span)
            else:
                self.deferred.append(parameter)
        return len(self.deferred) < len(waiting)

    def _has(self, name: str) -> bool:
        return name in self.evaluator.values

    def resolve_lengths(self) -> bool:
        """Compare or deduce the lengths of packs; repeat single values of known length."""
        if not self.unchecked and not self.uniform:
            return False
        progress = bool(self.unchecked)
        waiting, self.unchecked = self.unchecked, []
        for parameter in waiting:
            value = self.evaluator.values[parameter.name]
            assert isinstance(value, tuple | DynamicPack)
            pack = parameter.type.pack
            if pack is not None and pack.length is not None:
                given = (self.origins[parameter.name],) if parameter.name in self.origins else ()
                what = f"the length of `{parameter.name}`"
                self.bind_size(pack.length, from_expr(length_of(value)), what, given)
        for name, (parameter, item) in list(self.uniform.items()):
            pack = parameter.type.pack
            assert pack is not None
            if pack.length is not None and self.is_known(pack.length):
                self.evaluator.values[name] = self._repeated(item, pack.length, parameter)
                del self.uniform[name]
                progress = True
        return progress

    def _repeated(self, item: Item, length: s.Expr, parameter: s.Parameter) -> Value:
        """A single value as a pack; itself where that is too long, or its length not known now.

        A formula can tell the two apart by `:= ..`, and constants take either.
        """
        value = self.evaluator.evaluate(length)
        if is_expr(value):
            return item
        count = require_int(value, length.span, "the length of a pack")
        if count > LONGEST_PACK:
            return item
        self.builder.budget.spend(max(count, 0), parameter.span)
        return (item,) * count

    # ----------------------------------------------------------------- symbols

    def is_known(self, expr: s.Expr) -> bool:
        """Whether every name in an expression has a value."""
        values = self.evaluator.values
        return all(name in values for name in self.builder.free_names(expr))

    def define(self, name: str, value: AnyValue, what: str, span: Span) -> None:
        """Give a symbol its value."""
        self.evaluator.values[name] = value
        self.origins[name] = Label(span, f"`{name}` is {show(value)}: {what}")

    def bind_size(
        self, expr: s.Expr, size: Item, what: str, labels: tuple[Label, ...] = ()
    ) -> None:
        """A length that is known: deduces the symbol of an affine expression, or compares.

        `labels` say where the length is from, for diagnostics.
        """
        if not self.is_known(expr):
            form = affine(expr, self.evaluator.values)
            if form is None:
                raise self.unknown(expr, what)
            if isinstance(size, int):
                value: Item = solve(size, form, expr, what, labels)
            else:
                value = solve_symbolic(self.builder, to_expr(size), form, expr, what)
            self.define(form[0], value, what, expr.span)
            return
        expected = self.evaluator.evaluate(expr)
        if isinstance(expected, bool):
            expected = int(expected)
        if expected is None or isinstance(expected, tuple):
            return
        if not self.builder.agree(to_expr(size), to_expr(expected), what, expr.span):
            raise fail(
                "E0413",
                f"{what} is {show(size)} where {show(expected)} is declared",
                expr.span,
                f"{show(expected)} is declared",
                labels=(*labels, *self.where(expr)),
                notes=bounds_of(to_expr(size), to_expr(expected)),
            )

    def unknown(self, expr: s.Expr, what: str) -> Exception:
        """A length that depends on symbols without a value."""
        missing = [n for n in self.builder.free_names(expr) if not self._has(n)]
        names = ", ".join(f"`{n}`" for n in missing)
        return fail("E0413", f"{what} depends on {names}, which nothing determines", expr.span)

    def where(self, expr: s.Expr) -> tuple[Label, ...]:
        """Where the symbols of an expression have their values from."""
        names = self.builder.free_names(expr)
        return tuple(self.origins[n] for n in names if n in self.origins)


def _names_generic(expr: s.Expr) -> bool:
    """Whether an expression converts to a generic type, which must then be known."""
    if isinstance(expr, s.Cast) and expr.type not in DTYPES:
        return True
    return any(_names_generic(child) for child in children(expr))


def _listing(names: set[str]) -> str:
    return f"its attributes are {', '.join(sorted(names))}" if names else "it has no attributes"
