"""Compile-time values: what expressions of SkriptND evaluate to.

A value is null (`None`), an item, or a pack (`tuple` of items). An item is a Python scalar, a
tensor, an expression of the IR where something is known only at run time (a dynamic
extent, an index of a formula, an element of a tensor), or a subscript with a boundary rule.
Packs never contain null: a list with a null item is null (specification 2.4.1).

A pack whose length is known only at run time is none of these: most of what reads packs cannot
handle it, so it is passed on only where `AnyValue` says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeAlias, TypeGuard

from ...diagnostics import Diagnostic, Error, Label
from ...dtypes import DType
from ...ir import nodes, rewrite
from ...ir.text import format_expr
from ...records import dataclass
from ...source import Span

Scalar: TypeAlias = bool | int | float | str
Item: TypeAlias = Scalar | nodes.Expr | nodes.Tensor | nodes.Subscript
Pack: TypeAlias = tuple[Item, ...]
Value: TypeAlias = Item | Pack | None


@dataclass(frozen=True, slots=True, eq=False)
class DynamicPack:
    """All items that a pack may have, and how many of them it has when the graph runs."""

    items: Pack
    length: nodes.Expr


AnyValue: TypeAlias = Value | DynamicPack

EXPR_TYPES = frozenset(
    {
        nodes.Const,
        nodes.Symbol,
        nodes.Index,
        nodes.Local,
        nodes.Unary,
        nodes.Binary,
        nodes.Select,
        nodes.Cast,
        nodes.Apply,
        nodes.Access,
    }
)

DTYPES: dict[str, DType] = {
    "real": DType.REAL,
    "int": DType.INT,
    "bool": DType.BOOL,
    "str": DType.STR,
}

_STATIC_DTYPES: dict[type, DType] = {
    bool: DType.BOOL,
    int: DType.INT,
    float: DType.REAL,
    str: DType.STR,
}

INT_LIMIT = 1 << 63
"""Integers `i` of the language satisfy `-INT_LIMIT <= i < INT_LIMIT`."""


def is_expr(value: object) -> TypeGuard[nodes.Expr]:
    """Whether a value is an expression of the IR."""
    return type(value) in EXPR_TYPES


def is_static(value: object) -> TypeGuard[Scalar]:
    """Whether an item is a Python scalar."""
    return type(value) in _STATIC_DTYPES


def dtype_of(item: Item) -> DType:
    """The element type of an item; subscripts are integers."""
    dtype = _STATIC_DTYPES.get(type(item))
    if dtype is not None:
        return dtype
    if isinstance(item, nodes.Subscript):
        return DType.INT
    assert not isinstance(item, bool | int | float | str)
    return item.dtype


def to_expr(item: Item) -> nodes.Expr:
    """An item as an expression of the IR; Python scalars become literals.

    Tensors and subscripts have no such form: callers exclude them.
    """
    if is_expr(item):
        return item
    assert is_static(item), item
    return nodes.Const(item, _STATIC_DTYPES[type(item)])


def from_expr(expr: nodes.Expr) -> Item:
    """An expression as an item: literals become Python scalars."""
    if type(expr) is nodes.Const and not _is_infinite_int(expr):
        return expr.value
    return expr


def _is_infinite_int(expr: nodes.Const) -> bool:
    return expr.dtype is DType.INT and isinstance(expr.value, float)


def exceeds(expr: nodes.Expr, limit: int) -> bool:
    """Whether an expression, written out as text, has more than `limit` parts."""
    stack, count = [expr], 0
    while stack and count <= limit:
        count += 1
        stack += rewrite.children(stack.pop())
    return count > limit


def check_size(value: Value, span: Span) -> None:
    """Raises E0903 for an expression known only at run time that grew too large.

    Values are used in many places, so expressions built from each other could grow without end.
    """
    for item in value if isinstance(value, tuple) else (value,):
        if is_expr(item) and exceeds(item, LARGEST_EXPRESSION):
            raise fail(
                "E0903", "an expression that is known only at run time grows too large", span
            )


LARGEST_EXPRESSION = 1000


def default_of(dtype: DType) -> Scalar:
    """`T()`: the default value of a type."""
    return _DEFAULTS[dtype]


_DEFAULTS: dict[DType, Scalar] = {
    DType.INT: 0,
    DType.REAL: 0.0,
    DType.BOOL: False,
    DType.STR: "",
}


# ------------------------------------------------------------------ formatting


def format_real(value: float) -> str:
    """Six significant digits, with a point or an exponent."""
    text = f"{value:g}"
    return text if not math.isfinite(value) or "." in text or "e" in text else text + ".0"


def format_item(item: Item) -> str:
    """An item as string formatting shows it."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int):
        return str(item)
    if isinstance(item, float):
        return format_real(item)
    if isinstance(item, str):
        return f"'{item}'"
    if isinstance(item, nodes.Tensor):
        return describe(item)
    if isinstance(item, nodes.Subscript):
        return f"|{format_expr(item.index)}|"
    return format_expr(item).replace("`", "")


_LONGEST = 64
"""Items of a pack that diagnostics and the listing of attributes show."""


def format_value(value: Value, longest: int | None = None) -> str:
    """A value as string formatting shows it; with `longest`, long packs are cut."""
    if value is None:
        return "null"
    if isinstance(value, tuple):
        shown = value if longest is None else value[:longest]
        items = [format_item(item) for item in shown]
        return f"[{', '.join(items + ['...'] * (len(shown) < len(value)))}]"
    return format_item(value)


def show(value: AnyValue) -> str:
    """A value as diagnostics show it: strings in quotes, long packs cut."""
    if isinstance(value, DynamicPack):
        return f"{show(value.items)}, {format_expr(value.length)} of them"
    text = format_value(value, _LONGEST)
    return text if len(text) <= 1000 else text[:1000] + "..."


def describe(value: AnyValue) -> str:
    """What stands for a value in a listing of arguments: tensors by type and shape."""
    if isinstance(value, DynamicPack):
        return f"{format_expr(value.length)} of {describe(value.items)}"
    if isinstance(value, nodes.Tensor):
        extents = ", ".join(format_item(from_expr(e)) for e in value.shape)
        return f"{value.dtype}[{extents}]"
    if isinstance(value, tuple) and any(isinstance(item, nodes.Tensor) for item in value):
        shown = [describe(item) for item in value[:8]]
        return f"[{', '.join(shown + ['...'] * (len(value) > 8))}]"
    return show(value)


# ---------------------------------------------------------------------- errors


def fail(
    code: str,
    message: str,
    span: Span,
    text: str = "",
    *,
    labels: tuple[Label, ...] = (),
    notes: tuple[str, ...] = (),
    help: str = "",
) -> Error:
    """An error found while composing; the stack of invocations is added on its way out."""
    return Error([Diagnostic(code, message, span, text, labels, notes, help)])


Message: TypeAlias = tuple[str | nodes.Expr, ...]
"""Texts, and sizes whose value the call fills in."""

Gather: TypeAlias = Callable[[Pack, Sequence[nodes.Expr], Span], Pack]
"""The items of a pack at places, of which each is known only at run time."""


def _gather_nothing(items: Pack, places: Sequence[nodes.Expr], span: Span) -> Pack:
    raise fail("E0507", "which tensor this is must be known when the graph is composed", span)


NameSize: TypeAlias = Callable[[nodes.Expr, Span], nodes.Expr]
"""A size that is computed when the graph runs, from others."""


def _name_nothing(size: nodes.Expr, span: Span) -> nodes.Expr:
    return size


def shown_size(size: nodes.Expr) -> Message:
    """A size in a message of a check: its value, and what it is called."""
    return (size,) if isinstance(size, nodes.Const) else (size, f" (`{show(size)}`)")


@dataclass
class Budget:
    """Bounds the work that one program may ask of the composer."""

    items: int = 8_000_000
    invocations: int = 30_000
    demands: list[tuple[nodes.Expr, Message, Span]] = field(default_factory=list)
    """Conditions over sizes that the composer relies on, to be checked when the graph runs."""
    gather: Gather = _gather_nothing
    """Makes tensors that are one of several each; the graph under construction does."""
    name_size: NameSize = _name_nothing
    """Gives a long expression of sizes a name; the graph under construction does."""

    def demand(self, condition: nodes.Expr, message: Message, span: Span) -> None:
        """Rely on a condition."""
        if condition != nodes.TRUE:
            self.demands.append((condition, message, span))

    def spend(self, items: int, span: Span) -> None:
        """Account for a pack or string of so many items.

        Raises E0903 when one is longer than `LONGEST_PACK`, or all together too long.
        """
        self.items -= items
        if items > LONGEST_PACK or self.items < 0:
            raise fail(
                "E0903",
                "this program makes packs that are too long to handle",
                span,
                f"{items} items",
                notes=(f"one pack may have {LONGEST_PACK} items",),
            )

    def invoke(self, span: Span, count: int = 1) -> None:
        """Account for invocations, or steps of an unrolled loop; raises E0903."""
        self.invocations -= count
        if self.invocations < 0:
            raise fail("E0903", "this program invokes too many operators", span)


LONGEST_PACK = 1 << 21
