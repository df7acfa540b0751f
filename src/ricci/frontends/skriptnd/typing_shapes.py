"""Types and shapes of declared tensors, and the symbols that input shapes declare (2.6, 2.7)."""

from __future__ import annotations

from collections.abc import Iterable

from ...diagnostics import Label
from ...records import dataclass, replace
from ...source import Span
from . import binding
from . import syntax as s
from .scope import Symbol, did_you_mean_type
from .types import (
    ABSTRACT,
    CONCRETE,
    INT,
    ONE,
    UNKNOWN,
    Length,
    Type,
    length_of,
    symbol,
    total,
)
from .typing_context import Context


def element_type(ctx: Context, type: s.Type) -> Type:
    """The element type that a declaration names; it must be concrete or generic."""
    if type.name in CONCRETE or type.name in ctx.generics:
        return ctx.declared(type.name)
    if type.name in ABSTRACT:
        ctx.report.error(
            "E0301",
            f"`{type.name}` is an abstract type",
            _name_span(type),
            help=f"declare a type in a @dtype block, `T: {type.name};`, and use `T` here",
        )
    else:
        help = did_you_mean_type(type.name, [*CONCRETE, *ctx.generics])
        ctx.report.error("E0201", f"unknown type `{type.name}`", _name_span(type), help=help)
    return UNKNOWN


def _name_span(type: s.Type) -> Span:
    """The name alone of a type."""
    start = type.span.start + max(type.span.text.find(type.name), 0)
    return Span(type.span.source, start, start + len(type.name))


def pack_length(parameter: s.Parameter) -> Length | None:
    """The length of a declared pack; one without a name is called `|name|`."""
    pack = parameter.type.pack
    if pack is None:
        return None
    if pack.length is None or isinstance(pack.length, s.Omitted):
        return symbol(f"|{parameter.name}|")
    return length_of(pack.length)


def check_pack_length(ctx: Context, parameter: s.Parameter) -> None:
    """The length of a pack must be an integer."""
    pack = parameter.type.pack
    if pack is None:
        return
    for expr in (pack.length, pack.bound):
        if expr is not None and not isinstance(expr, s.Omitted):
            ctx.expect_int(expr, "the length of a pack")


def tensor_type(ctx: Context, parameter: s.Parameter) -> Type:
    """The type of a declared tensor, or pack of tensors, whose shape has been checked."""
    declared = parameter.type
    rank = None
    if declared.shape is not None:
        rank = total([_extent_count(ctx, e) for e in declared.shape])
    return replace(
        element_type(ctx, declared),
        optional=declared.optional,
        packed=declared.pack is not None,
        length=pack_length(parameter),
        tensor=True,
        rank=rank,
    )


def _extent_count(ctx: Context, extent: s.Extent) -> Length | None:
    """How many dimensions an extent stands for, where the definition tells."""
    if extent.pack is not None and extent.pack.length is not None:
        names = binding.free_names(extent.pack.length)
        found = [ctx.scope.find(n) for n in names]
        ints = all(f is not None and f.type == INT for f in found)
        return length_of(extent.pack.length) if ints else None
    if isinstance(extent.size, s.Omitted):
        return ONE if extent.pack is None else None
    size = ctx.type_of(extent.size)
    if size.optional or size.unknown:
        return None
    return ONE if extent.pack is None else size.length


# ----------------------------------------------------------------- extents


@dataclass(frozen=True, slots=True)
class Rules:
    """What the shapes of one kind of tensors may contain."""

    kind: str
    graph: bool

    @property
    def may_omit(self) -> bool:
        """Whether `~` without a bound is an extent."""
        return self.kind == "input" or (self.kind == "output" and self.graph)


def check_shape(ctx: Context, parameter: s.Parameter, rules: Rules) -> None:
    """Check the extents of a tensor whose symbols are all declared."""
    shape = parameter.type.shape
    if shape is None:
        if not (rules.graph and rules.kind in ("input", "output")):
            ctx.report.error(
                "E0404",
                f"{rules.kind} `{parameter.name}` has no shape",
                parameter.type.span,
                help=f"write `{parameter.type.name}[]` for a tensor without dimensions; only "
                "inputs and outputs of graphs may leave out their shapes",
            )
        return
    for extent in shape:
        _check_extent(ctx, extent, parameter, rules)


def _check_extent(ctx: Context, extent: s.Extent, parameter: s.Parameter, rules: Rules) -> None:
    if extent.bound is not None:
        ctx.expect_int(extent.bound, "the bound of an extent", packed=True)
    counted = extent.pack is not None and extent.pack.length is not None
    if counted and extent.pack is not None and extent.pack.length is not None:
        _check_count(ctx, extent.pack.length)
    if isinstance(extent.size, s.Omitted):
        _check_omitted(ctx, extent, rules)
        return
    type = ctx.expect_int(extent.size, "an extent", packed=True)
    _check_sign(ctx, extent.size)
    if extent.distinct:
        _check_distinct(ctx, extent, parameter, type)
    elif type.packed and extent.pack is None:
        ctx.report.error(
            "E0302",
            "a pack of extents must be expanded",
            extent.size.span,
            str(type),
            help=f"write `{extent.size.span.text}..`",
        )
    elif not type.packed and extent.pack is not None and not counted and not type.unknown:
        ctx.report.error(
            "E0302",
            "`..` after a single extent",
            extent.size.span,
            str(type),
            help=f"leave out `..`, or write `{extent.size.span.text} ..(n)` to repeat it",
        )


def _check_count(ctx: Context, count: s.Expr) -> None:
    type = ctx.type_of(count)
    if not type.is_any("int", "bool"):
        message = "the number of extents must be an `int` or a `bool`"
        ctx.mismatch(count.span, message, type)
    else:
        ctx.expect_item(count, type, "the number of extents")


def _check_sign(ctx: Context, size: s.Expr) -> None:
    form = length_of(size)
    if form is not None and not form.factors and form.constant < 0:
        ctx.report.error("E0404", "an extent must not be negative", size.span)


def _check_distinct(ctx: Context, extent: s.Extent, parameter: s.Parameter, type: Type) -> None:
    if parameter.type.pack is None:
        ctx.report.error(
            "E0302",
            f"`..{extent.size.span.text}` gives every tensor of a pack its own extent, but "
            f"`{parameter.name}` is a single tensor",
            extent.span,
            help=f"write `{extent.size.span.text}..` for a pack of extents",
        )
    elif type.packed:
        pair = (parameter.type.pack.length or extent.size, INT.packed_as(pack_length(parameter)))
        ctx.expect_lengths([pair, (extent.size, type)], "a shape with distinct extents")


def _check_omitted(ctx: Context, extent: s.Extent, rules: Rules) -> None:
    if rules.may_omit or (rules.kind == "output" and extent.bound is not None):
        return
    if rules.kind == "output":
        help = "give its upper bound, as in `~|n`; only graphs leave it out"
    else:
        help = "write the extent"
    message = f"the extent of {rules.kind}s of operators must not be left open"
    if rules.kind in ("constant", "variable"):
        message = f"the extents of a {rules.kind} must be known"
    ctx.report.error("E0404", message, extent.span, help=help)


# ------------------------------------------------------------ input symbols


def declare_input_symbols(ctx: Context, parameter: s.Parameter) -> None:
    """Declare what the shape of an input gives values to, in the order of the text."""
    type = parameter.type
    if type.rank is not None and ctx.scope.find(type.rank) is None:
        ctx.scope.declare(Symbol(type.rank, "rank", _maybe(INT, type), type.span))
    lengths = [e.pack.length for e in type.shape or () if e.pack is not None]
    lengths.append(type.pack.length if type.pack is not None else None)
    for length in lengths:
        if length is not None:
            _declare(ctx, length, _maybe(INT, type), "length")
    for extent in type.shape or ():
        _declare(ctx, extent.size, _extent_type(ctx, extent, parameter), "extent")


def _maybe(type: Type, declared: s.Type) -> Type:
    return type.with_optional(declared.optional)


def _extent_type(ctx: Context, extent: s.Extent, parameter: s.Parameter) -> Type:
    """The type of the symbol that an extent of an input declares."""
    base = _maybe(INT, parameter.type)
    if extent.distinct:
        return base.packed_as(pack_length(parameter))
    if extent.pack is None:
        return base
    count = extent.pack.length
    if count is None:
        return base.packed_as(symbol(f"|{extent.size.span.text}|"))
    if _is_bool(ctx, count):
        return base.with_optional(True)
    return base.packed_as(length_of(count))


def _is_bool(ctx: Context, count: s.Expr) -> bool:
    """Whether a count is a truth value, told by its form and names without reports."""
    match count:
        case s.Name(name=name):
            found = ctx.scope.find(name)
            return found is not None and found.type.name == "bool"
        case s.Literal(value=value):
            return isinstance(value, bool)
        case s.Binary(op=op):
            return op in ("<", "<=", ">", ">=", "==", "!=", "&&", "||", "^", "=>", "is", "in")
        case s.Fold(op=op):
            return op in ("<", "<=", ">", ">=", "==", "!=", "&&", "||")
        case s.Unary(op="!") | s.NullTest():
            return True
        case s.Select(then=then):
            return _is_bool(ctx, then)
        case s.Cast(type=type):
            return type == "bool"
        case s.Coalesce(fallback=fallback):
            return _is_bool(ctx, fallback)
    return False


def _declare(ctx: Context, expr: s.Expr, type: Type, kind: str) -> None:
    form = binding.affine(expr, ctx.scope)
    if form is None:
        return
    node = binding.free_names(expr)[form[0]]
    ctx.scope.declare(Symbol(form[0], kind, type, node.span))


def report_obstacles(ctx: Context, op: s.Operator, obstacles: Iterable[binding.Obstacle]) -> None:
    """Report the inputs whose shapes cannot be bound, with the components at fault."""
    for obstacle in obstacles:
        parameter = op.inputs[obstacle.position]
        if obstacle.flexible:
            _report_flexible(ctx, op, parameter, obstacle)
        else:
            _report_unknown_part(ctx, op, parameter, obstacle)


def _report_flexible(
    ctx: Context, op: s.Operator, parameter: s.Parameter, obstacle: binding.Obstacle
) -> None:
    first, *others = obstacle.parts
    ctx.report.error(
        "E0403",
        f"the shape of input `{parameter.name}` cannot be divided among its packed extents",
        first.span,
        _why_open(op, first),
        labels=[Label(p.span, _why_open(op, p)) for p in others],
        notes=["at most one packed extent of a shape may have a length that is not known before"],
        help="give the length of one of them by an attribute, as in `s..(r)` with `r: int`, "
        "or by the shape of another input",
    )


def _why_open(op: s.Operator, part: s.Expr | s.Extent) -> str:
    """Why the length of a packed extent is not known beforehand."""
    pack = part.pack if isinstance(part, s.Extent) else None
    names = binding.free_names(pack.length) if pack is not None and pack.length else {}
    for attribute in op.attributes:
        length = attribute.type.pack.length if attribute.type.pack is not None else None
        if attribute.name in names:
            kind = "optional" if attribute.type.optional else "deferred"
            return f"of unknown length: `{attribute.name}` is {kind}"
        if length is not None and names.keys() & binding.free_names(length).keys():
            return f"of unknown length: one value may be given for the pack `{attribute.name}`"
    for parameter in op.inputs:
        symbols = binding.declared_symbols(parameter.type, frozenset())
        if parameter.type.optional and names.keys() & symbols.keys():
            return f"of unknown length: the optional input `{parameter.name}` may be absent"
    return "of unknown length"


def _report_unknown_part(
    ctx: Context, op: s.Operator, parameter: s.Parameter, obstacle: binding.Obstacle
) -> None:
    (part,) = obstacle.parts
    names = [n for n in obstacle.missing if ctx.scope.find(n) is None] or list(obstacle.missing)
    if any(a.name in obstacle.missing for a in op.attributes):
        _report_attribute_part(ctx, op, parameter, obstacle)
        return
    missing = " and ".join(f"`{n}`" for n in names)
    ctx.report.error(
        "E0403",
        f"{missing} cannot be deduced from the shape of input `{parameter.name}`",
        part.span,
        help="a shape gives a value to one new name, in a form such as `n`, `n + 1` or `2 * n` "
        "with literal numbers; anything else must be known from attributes or other inputs",
    )


def _report_attribute_part(
    ctx: Context, op: s.Operator, parameter: s.Parameter, obstacle: binding.Obstacle
) -> None:
    (part,) = obstacle.parts
    found = next(a for a in op.attributes if a.name in obstacle.missing)
    why = "optional" if found.type.optional else "packed" if found.type.pack else "deferred"
    ctx.report.error(
        "E0403",
        f"the shape of input `{parameter.name}` depends on the {why} attribute `{found.name}`",
        part.span,
        labels=[Label(found.span, f"not known before the inputs: it is {why}")],
        help=f"attributes that size inputs must not be {why}",
    )
