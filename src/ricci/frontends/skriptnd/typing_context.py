"""What the typing of an expression depends on, and the checks that many rules share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ...diagnostics import Label, Report
from ...records import dataclass, replace
from ...source import Span
from . import syntax as s
from .scope import Scope
from .types import BOOL, UNKNOWN, Length, Type, clash

Rule = Callable[["Context", s.Expr], Type]


@dataclass(frozen=True, slots=True)
class Context:
    """The names in view, and which kinds of values an expression may have here."""

    scope: Scope
    generics: Mapping[str, str]
    """The abstract type of every generic type of the operator."""
    rules: Mapping[type[s.Node], Rule]
    accesses: bool = False
    """Whether elements of tensors may be read, as in formulas."""
    tensors: bool = False
    """Whether whole tensors are values, as in compositions."""
    hint: str = ""
    """The help for an unknown name, where no other name looks like it."""

    @property
    def report(self) -> Report:
        return self.scope.report

    def type_of(self, expr: s.Expr) -> Type:
        """The type of an expression; what is wrong in it goes to the report."""
        return self.rules[type(expr)](self, expr)

    def within(self, scope: Scope) -> Context:
        return replace(self, scope=scope)

    def allow_tensors(self) -> Context:
        return replace(self, tensors=True)

    def compile_time(self) -> Context:
        """The same names where only compile-time values are allowed."""
        return replace(self, tensors=False, accesses=False)

    def declared(self, name: str) -> Type:
        """The type that a type name stands for; unknown if there is none such."""
        return Type(name, self.generics.get(name, ""))

    # ------------------------------------------------------- shared checks

    def mismatch(self, span: Span, message: str, found: Type, help: str = "") -> Type:
        """Report a value of the wrong type."""
        if not found.unknown:
            self.report.error("E0301", message, span, str(found), help=help)
        return UNKNOWN

    def expect_item(self, expr: s.Expr, type: Type, what: str) -> None:
        """Report a pack where one value is needed."""
        if type.packed:
            self.report.error(
                "E0302",
                f"{what} must be a single value, not a pack",
                expr.span,
                str(type),
                help=f"take one item, as in `{expr.span.text}[0]`"
                if isinstance(expr, s.Name)
                else "",
            )

    def expect_int(self, expr: s.Expr, what: str, *, packed: bool = False) -> Type:
        """The type of an expression that must be an integer, maybe null, maybe a pack."""
        type = self.type_of(expr)
        if not type.is_any("int"):
            message = f"{what} must be an integer"
            return self.mismatch(expr.span, message, type, int_help(expr, type))
        if not packed:
            self.expect_item(expr, type, what)
        return type

    def expect_bool(self, expr: s.Expr, what: str, *, packed: bool = False) -> Type:
        """The type of an expression that must be a truth value."""
        type = self.type_of(expr)
        if not type.is_any("bool"):
            help = f"compare it, as in `{expr.span.text} != 0`" if type.is_any("int") else ""
            self.mismatch(expr.span, f"{what} must be a `bool`", type, help)
            return BOOL
        if not packed:
            self.expect_item(expr, type, what)
        return type

    def expect_lengths(self, parts: Iterable[tuple[s.Expr, Type]], what: str) -> Length | None:
        """The common length of the packs among the parts; reports those that clash."""
        first: tuple[s.Expr, Type] | None = None
        for expr, type in parts:
            if not type.packed:
                continue
            if first is None or first[1].length is None:
                first = first if first is not None and type.length is None else (expr, type)
            elif clash(first[1].length, type.length):
                self._report_clash(first, (expr, type), what)
                return None
        return first[1].length if first is not None else None

    def _report_clash(self, a: tuple[s.Expr, Type], b: tuple[s.Expr, Type], what: str) -> None:
        self.report.error(
            "E0506",
            f"packs of different lengths in {what}",
            b[0].span,
            f"length {b[1].length}",
            labels=[Label(a[0].span, f"length {a[1].length}")],
        )

    def expect_same(self, a: tuple[s.Expr, Type], b: tuple[s.Expr, Type], message: str) -> Type:
        """The common element type of two expressions; reports types that differ."""
        if not a[1].same(b[1]):
            self.report.error(
                "E0301",
                message,
                b[0].span,
                str(b[1]),
                labels=[Label(a[0].span, str(a[1]))],
                help=promotion_help(a, b),
            )
            return UNKNOWN
        return b[1] if a[1].free and not b[1].unknown else a[1]


def either(names: Sequence[str]) -> str:
    """`int`, `real` or `str`."""
    quoted = [f"`{n}`" for n in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def int_help(expr: s.Expr, type: Type) -> str:
    if not type.is_any("real", "bool"):
        return ""
    name = "layout.cast<int>" if type.tensor else "int"
    return f"convert it with `{name}({expr.span.text})`"


def promotion_help(a: tuple[s.Expr, Type], b: tuple[s.Expr, Type]) -> str:
    """How to make two numbers of different types agree; there is no implicit conversion."""
    sides = [(expr, type, other) for (expr, type), (_, other) in ((b, a), (a, b))]
    sides.sort(key=lambda side: not isinstance(side[0], s.Literal))
    for expr, type, other in sides:
        text = conversion(expr, type, other)
        if text:
            return f"there is no implicit conversion: write `{text}`"
    return ""


_WIDENING = {"bool": 0, "int": 1, "real": 2}


def conversion(expr: s.Expr, type: Type, target: Type) -> str:
    """An expression of a wider type, or a generic one, written from another; may be empty."""
    if type.free or target.free or not type.is_any("int", "real", "bool"):
        return ""
    if target.base == "type" or not target.is_any("int", "real", "bool"):
        return ""
    if not target.base and _WIDENING.get(type.name, 3) > _WIDENING[target.name]:
        return ""
    if isinstance(expr, s.Literal) and type.name == "int" and target.name == "real":
        return f"{expr.text}.0"
    if type.tensor:
        return f"layout.cast<{target.name}>({expr.span.text})"
    return f"{target.name}({expr.span.text})"
