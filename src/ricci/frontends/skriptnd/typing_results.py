"""Assignment of results to names in @compose and @update (2.10)."""

from __future__ import annotations

from ...diagnostics import Label
from ...records import replace
from . import syntax as s
from . import typing_shapes as shapes
from .scope import Scope, Symbol, report_twice
from .types import ONE, UNKNOWN, Length, Type, clash, length_of, total
from .typing_body import Body, leading
from .typing_context import promotion_help
from .typing_generics import count

_TENSORS = frozenset({"input", "output", "constant", "variable", "result", "loop variable"})
"""Kinds of names that an inner block may use anew."""


def assign_results(body: Body, component: s.Component, types: list[Type] | None) -> None:
    results = component.results
    if types is not None and len(results) != len(types):
        span = results[0].span.to(results[-1].span)
        missing = len(types) - len(results)
        body.report.error(
            "E0412",
            f"the right side has {count(len(types), 'result')}, the left side "
            f"{count(len(results), 'name')}",
            span,
            help="write `~` for results that are not needed" if missing > 0 else "",
        )
        types = None
    known = types if types is not None else [UNKNOWN] * len(results)
    for result, type in zip(results, known, strict=True):
        _assign(body, component, result, type)


def _assign(
    body: Body, component: s.Component, result: s.Result | s.ResultList | s.Omitted, type: Type
) -> None:
    if isinstance(result, s.Result):
        _check_result_pack(body, component, result, type)
        _assign_name(body, result, type, component.action)
    elif isinstance(result, s.ResultList):
        _assign_list(body, component, result, type)


def _check_result_pack(body: Body, component: s.Component, result: s.Result, type: Type) -> None:
    """A packed result needs its length, unless the right side or a declaration tells it."""
    if result.pack is not None:
        if result.pack.length is not None:
            body.ctx.compile_time().expect_int(result.pack.length, "the length of a pack")
            if type.packed and clash(length_of(result.pack.length), type.length):
                body.report.error(
                    "E0506",
                    f"result `{result.name}` has length {type.length}",
                    result.span,
                    f"length {length_of(result.pack.length)}",
                )
        if not type.packed and not type.unknown:
            body.report.error(
                "E0302",
                f"result `{result.name}` is a single tensor, not a pack",
                result.span,
                help=f"write `{result.name}` without `..`",
            )
    elif _hides_length(body, component, result, type):
        body.report.error(
            "E0302",
            f"result `{result.name}` is a pack, whose length must be given",
            result.span,
            help=f"write `{result.name}..(n)`, or take it apart: `[a, b]`",
        )


def _hides_length(body: Body, component: s.Component, result: s.Result, type: Type) -> bool:
    """Whether neither the right side nor a declaration tells the length of a packed result."""
    known = result.name in body.targets or type.length is not None
    return type.packed and isinstance(component.action, s.Invocation) and not known


def _assign_list(body: Body, component: s.Component, result: s.ResultList, type: Type) -> None:
    if not type.packed and not type.unknown:
        body.report.error(
            "E0302",
            "a single tensor cannot be taken apart into a list",
            result.span,
            str(type),
        )
    lengths = [_item_length(i) for i in result.items]
    open_items = [i for i in result.items if _is_open(i)]
    if open_items:
        body.report.error(
            "E0302",
            "the length of a packed result must be given",
            open_items[0].span,
            help="write it after the name, as in `ys..(n)`",
        )
    elif type.packed and clash(total(lengths), type.length):
        body.report.error(
            "E0506",
            f"a pack of {type.length} is taken apart into {total(lengths)}",
            result.span,
        )
    for item in result.items:
        if isinstance(item, s.Result):
            _assign_name(body, item, _item_type(body, item, type), component.action)


def _is_open(item: s.Result | s.Omitted) -> bool:
    return isinstance(item, s.Result) and item.pack is not None and item.pack.length is None


def _item_length(item: s.Result | s.Omitted) -> Length | None:
    if isinstance(item, s.Omitted) or item.pack is None:
        return ONE
    return None if item.pack.length is None else length_of(item.pack.length)


def _item_type(body: Body, item: s.Result, type: Type) -> Type:
    if item.pack is None:
        return type.item
    if item.pack.length is not None:
        body.ctx.compile_time().expect_int(item.pack.length, "the length of a pack")
    return type.packed_as(_item_length(item))


def _assign_name(body: Body, result: s.Result, type: Type, action: s.Action) -> None:
    span = leading(result.span, result.name)
    if result.type is not None:
        type = _annotated(body, result, result.type, type)
    if result.pack is not None and type.length is None and result.pack.length is not None:
        type = replace(type, length=length_of(result.pack.length))
    target = body.targets.get(result.name)
    own = body.ctx.scope.symbols.get(result.name)
    earlier = body.done.get(result.name) or (own.span if own is not None else None)
    if earlier is not None:
        body.report.error(
            "E0209",
            f"`{result.name}` is assigned twice",
            span,
            labels=[Label(earlier, "first here")],
            help="every result needs a name of its own",
        )
    elif target is not None:
        _assign_target(body, result, target, type, action)
    else:
        _assign_new(body, result, type)


def _assign_target(
    body: Body, result: s.Result, target: Symbol, type: Type, action: s.Action
) -> None:
    span = leading(result.span, result.name)
    body.done[result.name] = span
    _home(body.ctx.scope, target.name).put(replace(target, assigned=True))
    if not target.type.same(type):
        body.report.error(
            "E0301",
            f"{target.kind} `{target.name}` is declared as `{target.type.name}`",
            span,
            f"is given `{type.name}`",
            labels=[Label(target.span, "declared here")],
            help=_conversion_help(action, type, target.type),
        )
    elif type.packed != target.type.packed and not type.unknown:
        body.report.error(
            "E0302",
            f"{target.kind} `{target.name}` is {_packing(target.type)}",
            span,
            f"is given {_packing(type)}",
            labels=[Label(target.span, "declared here")],
        )
    elif type.optional and not target.type.optional:
        body.report.error(
            "E0304",
            f"{target.kind} `{target.name}` must not be null",
            span,
            str(type),
            help="give it a fallback with `??`",
        )
    elif type.packed and clash(type.length, target.type.length):
        body.report.error(
            "E0506",
            f"{target.kind} `{target.name}` has length {target.type.length}",
            span,
            f"is given {type.length}",
            labels=[Label(target.span, "declared here")],
        )


def _home(scope: Scope, name: str) -> Scope:
    """The scope that holds a declared name."""
    while scope.outer is not None and name not in scope.symbols:
        scope = scope.outer
    return scope


def _conversion_help(action: s.Action, type: Type, target: Type) -> str:
    if isinstance(action, s.Literal | s.Name | s.Unary | s.Binary) and not type.tensor:
        return promotion_help((action, type), (action, target))
    if type.is_any("int", "real", "bool") and target.is_any("int", "real", "bool"):
        return f"convert it with `layout.cast<{target.name}>(...)`"
    return ""


def _packing(type: Type) -> str:
    return "a pack" if type.packed else "a single tensor"


def _assign_new(body: Body, result: s.Result, type: Type) -> None:
    span = leading(result.span, result.name)
    symbol = Symbol(result.name, "result", replace(type, tensor=True), span)
    scope = body.ctx.scope
    known = scope.find(result.name)
    later = scope.later.get(result.name)
    if later is not None and later.span == span:
        del scope.later[result.name]
    if known is None or (body.nested and known.kind in _TENSORS):
        scope.put(symbol)
    elif known.kind == "variable":
        body.report.error(
            "E0209",
            f"variable `{result.name}` cannot be assigned in @compose",
            span,
            labels=[Label(known.span, "declared here")],
            help="variables are assigned in @update",
        )
    elif known.kind in ("input", "constant", "output"):
        body.report.error(
            "E0209",
            f"{known.kind} `{result.name}` cannot be assigned here",
            span,
            labels=[Label(known.span, "declared here")],
            help="outputs are assigned in @compose"
            if known.kind == "output"
            else "give the result a name of its own",
        )
    else:
        report_twice(scope.report, symbol, known)


def _annotated(body: Body, result: s.Result, declared: s.Type, type: Type) -> Type:
    """The type of a result with a type of its own."""
    wanted = shapes.element_type(body.ctx, declared)
    for extent in declared.shape or ():
        if not isinstance(extent.size, s.Omitted):
            body.ctx.compile_time().expect_int(extent.size, "an extent", packed=True)
    if not wanted.same(type):
        body.report.error(
            "E0301",
            f"result `{result.name}` is declared as `{wanted.name}`",
            result.span,
            f"is given `{type.name}`",
        )
    return replace(wanted, packed=type.packed, length=type.length, tensor=True)
