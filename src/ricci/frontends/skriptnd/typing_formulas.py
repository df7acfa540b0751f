"""The formulas of @lower: targets, accumulators, indices, and whether all is computed (2.12)."""

from __future__ import annotations

from dataclasses import field

from ...diagnostics import Label
from ...records import dataclass, replace
from ...source import Span
from ..suggest import did_you_mean
from . import syntax as s
from .scope import Symbol
from .types import INT, Type, clash
from .typing_access import report_missing_comma
from .typing_context import Context, either, promotion_help
from .typing_tensors import declare_bounds

_ACCUMULATORS = {
    "+=": ("int", "real"),
    "*=": ("int", "real"),
    "<=": ("int", "real"),
    ">=": ("int", "real"),
    "&=": ("bool",),
    "|=": ("bool",),
}
"""The types that each accumulator works on; `=` and `:=` work on all."""


_INDEX_HINT = "an index needs a bound after the formula, as in `, i < n`"


@dataclass(slots=True)
class _Done:
    """The formulas of one output so far."""

    first: s.Lowering | None = None
    second: s.Lowering | None = None
    nullable: list[tuple[s.Lowering, s.Expr, Type]] = field(default_factory=list)
    """Those of them that may be left out: a value, or the bound of an index, may be null."""

    @property
    def certain(self) -> bool:
        """Whether the output has a value even where all that may be null is null."""
        null = [lowering for lowering, _, _ in self.nullable]
        needed = [self.first] if self.second is None or self.second.op == ":=" else []
        needed = needed or [self.first, self.second]
        return any(f is not None and all(f is not n for n in null) for f in needed)


def check_formulas(ctx: Context, op: s.Operator) -> None:
    """Check the @lower block of an operator whose declarations have been checked."""
    ctx = replace(ctx, accesses=True, hint=_INDEX_HINT)
    done: dict[str, _Done] = {}
    for lowering in op.lower:
        _check_formula(ctx, lowering, op, done)
    for name, formulas in done.items():
        _check_null(ctx, name, formulas)
    _check_outputs(ctx, op, done)


def _check_formula(
    ctx: Context, lowering: s.Lowering, op: s.Operator, done: dict[str, _Done]
) -> None:
    inner = _declare_names(ctx, lowering)
    found = _check_target(inner, lowering, op)
    formulas = _Done() if found is None else done.setdefault(found[0].name, _Done())
    if found is not None:
        _check_order(ctx, lowering, found[0], formulas)
        if lowering.op != "=":
            _mark_assigned(inner, found[0])
    value = _check_value(inner, lowering, found[1] if found is not None else None)
    if value.optional:
        formulas.nullable.append((lowering, lowering.value, value))
    for bound in lowering.bounds:
        extent = inner.compile_time().type_of(bound.extent)
        if extent.optional:
            formulas.nullable.append((lowering, bound.extent, extent))
    if lowering.condition is not None:
        inner.expect_bool(lowering.condition, "the condition of a formula")
    if found is not None:
        _mark_assigned(ctx, found[0])


def _declare_names(ctx: Context, lowering: s.Lowering) -> Context:
    """Declare unroll index, indices and local values, in the order of their evaluation."""
    inner = ctx.within(ctx.scope.inner())
    if lowering.unroll is not None:
        _declare_unroll(ctx, inner, lowering.unroll)
    declare_bounds(inner, inner, lowering.bounds)
    for local in lowering.locals:
        type = inner.type_of(local.value)
        span = local.span
        name = Span(span.source, span.start, min(span.end, span.start + len(local.name)))
        inner.scope.declare(Symbol(local.name, "local value", type, name))
    return inner


def _declare_unroll(ctx: Context, inner: Context, count: s.Count) -> None:
    if count.count is not None:
        ctx.compile_time().expect_int(count.count, "the count of `unroll`")
    if count.index is not None:
        inner.scope.declare(Symbol(count.index, "index", INT, count.span))


# ------------------------------------------------------------------ targets


def _check_target(ctx: Context, lowering: s.Lowering, op: s.Operator) -> tuple[Symbol, Type] | None:
    """The output that a formula computes, and the type that its value must have."""
    target = lowering.target
    if not isinstance(target, s.Access):
        _report_target(ctx, target)
        return None
    name = target.tensor.pack if isinstance(target.tensor, s.Subscript) else target.tensor
    if not isinstance(name, s.Name):
        _report_target(ctx, target)
        return None
    found = ctx.scope.lookup(name.name, name.span)
    if found is None:
        return None
    outputs = [o.name for o in op.outputs]
    if found.kind != "output" and found.name in outputs:
        return None
    if found.kind != "output":
        ctx.report.error(
            "E0209",
            f"a formula computes an output, but `{name.name}` is "
            f"{'an' if found.kind[0] in 'aeiou' else 'a'} {found.kind}",
            name.span,
            labels=[Label(found.span, "declared here")],
            help=did_you_mean(name.name, outputs),
        )
        return None
    writable = ctx.within(ctx.scope.inner())
    writable.scope.put(replace(found, assigned=True))
    type = writable.type_of(target)
    if type.packed and not (found.type.packed or type.unknown):
        _report_spread(ctx, target, type)
        type = type.item
    return found, type


def _report_spread(ctx: Context, target: s.Access, type: Type) -> None:
    ctx.report.error(
        "E0302",
        "a pack of subscripts on the left side must be expanded",
        target.span,
        str(type),
        help=_expansion_help(ctx, target),
    )


def _expansion_help(ctx: Context, access: s.Expr) -> str:
    """How to expand the packs among the subscripts of an access; may be empty."""
    if not isinstance(access, s.Access) or isinstance(access.tensor, s.Subscript):
        return ""
    indices = [f"{i.span.text}.." if _is_pack(ctx, i) else i.span.text for i in access.indices]
    if indices == [i.span.text for i in access.indices]:
        return ""
    return f"write `{access.tensor.span.text}[{','.join(indices)}]`"


def _is_pack(ctx: Context, index: s.Expr) -> bool:
    found = ctx.scope.find(index.name) if isinstance(index, s.Name) else None
    return found is not None and found.type.packed


def _report_target(ctx: Context, target: s.Expr) -> None:
    pack = target.pack if isinstance(target, s.Subscript) else target
    found = ctx.scope.find(pack.name) if isinstance(pack, s.Name) else None
    single = found is not None and found.is_tensor and not found.type.packed
    if found is not None and single and isinstance(target, s.Subscript):
        report_missing_comma(ctx, target, found)
        return
    ctx.report.error(
        "E0209",
        "the left side of a formula must be an element of an output",
        target.span,
        help="write `y[i,j]`, `y[i,]` for one dimension, `y[]` for none",
    )


def _mark_assigned(ctx: Context, found: Symbol) -> None:
    """From here on the output may be read."""
    ctx.scope.put(replace(found, assigned=True))


# --------------------------------------------------------------------- order


def _check_order(ctx: Context, lowering: s.Lowering, found: Symbol, done: _Done) -> None:
    """At most one `=` and then one other formula for each output."""
    if done.second is not None or (done.first is not None and lowering.op == "="):
        earlier = done.second or done.first
        assert earlier is not None
        _report_order(ctx, lowering, found, earlier)
        return
    if lowering.op == "=":
        done.first = lowering
        return
    done.second = lowering
    if lowering.op == ":=" and done.first is None:
        ctx.report.error(
            "E0216",
            f"`:=` updates `{found.name}`, which has no initial value",
            lowering.target.span,
            help=f"add a formula with `=` for `{found.name}` before it",
        )
    kinds = _ACCUMULATORS.get(lowering.op)
    if kinds is not None and not found.type.is_any(*kinds):
        ctx.report.error(
            "E0307",
            f"`{lowering.op}` accumulates values of type {either(kinds)}",
            lowering.target.span,
            f"`{found.name}` is {found.type.name}",
            labels=[Label(found.span, "declared here")],
        )


def _report_order(ctx: Context, lowering: s.Lowering, found: Symbol, earlier: s.Lowering) -> None:
    ctx.report.error(
        "E0216",
        f"output `{found.name}` has too many formulas",
        lowering.target.span,
        f"second `{lowering.op}`" if lowering.op == earlier.op else f"`{lowering.op}` here",
        labels=[Label(earlier.target.span, f"`{earlier.op}` here")],
        help="an output has at most one formula with `=`, followed by at most one other",
    )


# -------------------------------------------------------------------- values


def _check_value(ctx: Context, lowering: s.Lowering, target: Type | None) -> Type:
    value = ctx.type_of(lowering.value)
    if target is not None and not target.unknown:
        _compare_value(lowering, target, value, ctx)
    return value


def _compare_value(lowering: s.Lowering, target: Type, value: Type, ctx: Context) -> None:
    if not target.same(value):
        help = promotion_help((lowering.value, value), (lowering.value, target))
        ctx.report.error(
            "E0301",
            f"a formula for `{target.name}` has a value of type `{value.name}`",
            lowering.value.span,
            str(value),
            labels=[Label(lowering.target.span, target.name)],
            help=help,
        )
    elif value.packed and not target.packed:
        ctx.report.error(
            "E0302",
            "a formula for one element has a pack as its value",
            lowering.value.span,
            str(value),
            labels=[Label(lowering.target.span, str(target))],
            help=_expansion_help(ctx, lowering.value) or "fold the pack, or take one item of it",
        )
    elif value.packed and clash(value.length, target.length):
        ctx.report.error(
            "E0506",
            "packs of different lengths in a formula",
            lowering.value.span,
            f"length {value.length}",
            labels=[Label(lowering.target.span, f"length {target.length}")],
        )


def _check_null(ctx: Context, name: str, formulas: _Done) -> None:
    """An output needs a formula whose value cannot be null; the others are left out then."""
    if not formulas.nullable or formulas.certain:
        return
    lowering, part, type = formulas.nullable[0]
    if part is not lowering.value:
        message = f"`{name}` is not computed where the bound of an index is null"
        help = "give the bound a fallback with `??`, or take it from an input that is not optional"
    else:
        message, help = f"the value of `{name}` may be null", "give it a fallback with `??`"
        if lowering.op != "=":
            help += f", or give `{name}` an initial value with `=`"
    ctx.report.error("E0304", message, part.span, str(type), help=help)


def _target_name(target: s.Expr) -> str | None:
    node = target.tensor if isinstance(target, s.Access) else target
    node = node.pack if isinstance(node, s.Subscript) else node
    return node.name if isinstance(node, s.Name) else None


def _check_outputs(ctx: Context, op: s.Operator, done: dict[str, _Done]) -> None:
    tried = {_target_name(lowering.target) for lowering in op.lower}
    for output in op.outputs:
        if output.name not in done and output.name not in tried:
            ctx.report.error(
                "E0603",
                f"output `{output.name}` is never computed",
                output.span,
                help=f"add a formula for `{output.name}` to @lower",
            )
