"""Evaluation of compile-time expressions (specification 2.4).

An `Evaluator` knows the values of names and the types that generic names stand for. Where
a value is known only at run time the result is an expression of the IR. Formulas are
evaluated by a subclass that also understands accesses to tensors (`lower_access`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...diagnostics import Error
from ...dtypes import DType
from ...ir import nodes, shapes
from ...source import Span
from . import evaluate_dynamic as dynamic
from . import evaluate_folds as folds
from . import evaluate_packs as packs
from . import syntax as s
from .evaluate_lists import PackEvaluator
from .evaluate_scalars import apply, binary, cast, identical, unary
from .values import (
    DTYPES,
    INT_LIMIT,
    AnyValue,
    Budget,
    DynamicPack,
    Item,
    Pack,
    Value,
    default_of,
    dtype_of,
    fail,
    format_value,
    from_expr,
    is_expr,
    show,
    to_expr,
)

_LEAST = s.Unary("-", s.Literal(INT_LIMIT, str(INT_LIMIT)))
"""The least integer, whose opposite does not fit into 64 bits."""


class Evaluator(PackEvaluator):
    """Names with their values, and what evaluates expressions over them."""

    def __init__(
        self, values: dict[str, AnyValue], types: dict[str, DType], budget: Budget
    ) -> None:
        super().__init__(budget)
        self.values = values
        self.types = types

    def evaluate_any(self, node: s.Expr) -> AnyValue:
        """As `evaluate`, for those who can handle packs of dynamic length."""
        return _EVALUATE[type(node)](self, node)

    def dtype(self, name: str, span: Span) -> DType:
        """The element type that a type's name stands for."""
        dtype = DTYPES.get(name) or self.types.get(name)
        if dtype is None:
            raise fail("E0201", f"type `{name}` is not known here", span)
        return dtype

    # ------------------------------------------------ what formulas do differently

    def access(self, node: s.Access) -> AnyValue:
        raise fail("E0503", "elements of tensors are read in formulas only", node.span)

    def bounded(self, node: s.Bounded) -> AnyValue:
        raise fail("E0503", "a guard `|...|` belongs into a formula", node.span)

    def select(self, condition: nodes.Expr, node: s.Select) -> AnyValue:
        """`c ? x : y` where `c` is known only at run time."""
        if node.otherwise is None:
            raise fail("E0507", "this condition must be known now", node.condition.span)
        then, otherwise = self.evaluate_any(node.then), self.evaluate_any(node.otherwise)
        if then is None or otherwise is None:
            return None

        def pick(a: Item, b: Item) -> Item:
            return self._choose(condition, a, b, node)

        if isinstance(then, DynamicPack) or isinstance(otherwise, DynamicPack):
            return dynamic.combine(pick, then, otherwise, node.span, self.budget)
        return packs.broadcast(pick, then, otherwise, node.span, self.budget)

    # ------------------------------------------------------------------- leaves

    def _literal(self, node: s.Literal) -> Value:
        value = node.value
        if type(value) is int and value >= INT_LIMIT:
            raise fail("E0504", "the integer does not fit into 64 bits", node.span)
        return value

    def _format(self, node: s.Format) -> Value:
        texts = []
        for part in node.parts:
            if isinstance(part, str):
                texts.append(part)
            else:
                value = self.evaluate(part)
                if value is None:
                    return None
                texts.append(format_value(value))
                self.budget.spend(len(texts[-1]), node.span)
        return "".join(texts)

    def _name(self, node: s.Name) -> AnyValue:
        try:
            return self.values[node.name]
        except KeyError:
            raise fail("E0201", f"`{node.name}` has no value here", node.span) from None

    def _member(self, node: s.Member) -> Value:
        value = self._name(s.Name(node.name, span=node.span))
        if value is None:
            return None
        if isinstance(value, tuple) and node.member == "size":
            return len(value)
        if isinstance(value, DynamicPack) and node.member == "size":
            return from_expr(value.length)
        if isinstance(value, nodes.Tensor) and node.member != "size":
            return value.rank if node.member == "rank" else shape_of(value)
        raise fail("E0503", f"`{node.name}` has no `.{node.member}`", node.span)

    def _omitted(self, node: s.Omitted) -> Value:
        return None

    # ---------------------------------------------------------------- operators

    def _unary(self, node: s.Unary) -> AnyValue:
        if node == _LEAST:
            return -INT_LIMIT
        value = self.evaluate_any(node.operand)
        return self._map(lambda item: unary(node.op, item, node.span), value, node.span)

    def _map(self, f: Callable[[Item], Item], value: AnyValue, span: Span) -> AnyValue:
        if isinstance(value, DynamicPack):
            self.budget.spend(len(value.items), span)
            return DynamicPack(tuple([f(item) for item in value.items]), value.length)
        if isinstance(value, tuple):
            self.budget.spend(len(value), span)
            return tuple([f(item) for item in value])
        return None if value is None else f(value)

    def _binary(self, node: s.Binary) -> AnyValue:
        op = node.op
        lhs = self.evaluate_any(node.lhs)
        if type(lhs) is bool and _DECIDING.get(op) is lhs:
            return self._short_circuit(lhs, node)
        rhs = self.evaluate_any(node.rhs)
        if lhs is None or rhs is None:
            return None
        if isinstance(lhs, DynamicPack) or isinstance(rhs, DynamicPack):
            return self._combine_dynamic(node, lhs, rhs)
        if op == "is":
            return packs.broadcast(identical, lhs, rhs, node.span, self.budget)
        if op == "in":
            return self._contains(lhs, rhs, node)
        if isinstance(lhs, tuple) or isinstance(rhs, tuple):
            return self._combine(node, lhs, rhs)
        return binary(op, lhs, rhs, node.span)

    def _combine(self, node: s.Binary, lhs: Value, rhs: Value) -> Value:
        op, span = node.op, node.span
        return packs.broadcast(lambda a, b: binary(op, a, b, span), lhs, rhs, span, self.budget)

    def _combine_dynamic(self, node: s.Binary, lhs: AnyValue, rhs: AnyValue) -> AnyValue:
        op, span = node.op, node.span
        if op == "in":
            return self._contains(lhs, rhs, node)
        f = identical if op == "is" else lambda a, b: binary(op, a, b, span)
        return dynamic.combine(f, lhs, rhs, span, self.budget)

    def _short_circuit(self, lhs: bool, node: s.Binary) -> Value:
        """Spec: a null operand makes logical operators null. Ricci: and where the left side
        decides, an error in the right side is none, so `b != 0 && a % b == 0` is safe."""
        try:
            rhs = self.evaluate(node.rhs)
        except Error as error:
            if error.diagnostics[0].code not in ("E0502", "E0504", "E0505"):
                raise
            return lhs if node.op != "=>" else True
        if rhs is None:
            return None
        return self._combine(node, lhs, rhs)

    def _contains(self, lhs: AnyValue, rhs: AnyValue, node: s.Binary) -> AnyValue:
        if not isinstance(rhs, tuple | DynamicPack):
            raise fail("E0503", "`in` looks into a pack", node.rhs.span, f"this is {show(rhs)}")
        self.budget.spend(len(dynamic.items_of(rhs)), node.span)
        if isinstance(rhs, DynamicPack):
            return self._map(lambda item: folds.contains(rhs, item, node.span), lhs, node.span)
        return self._map(lambda item: packs.contains(rhs, item, node.span), lhs, node.span)

    def _select(self, node: s.Select) -> AnyValue:
        condition = self.evaluate_any(node.condition)
        if condition is True:
            return self.evaluate_any(node.then)
        if condition is None:
            return None
        if condition is False:
            return None if node.otherwise is None else self.evaluate_any(node.otherwise)
        if isinstance(condition, DynamicPack):
            return self._select_dynamic(condition, node)
        if isinstance(condition, tuple):
            return self._select_items(condition, node)
        if isinstance(condition, nodes.Tensor):
            raise fail(
                "E0507",
                "what `?:` chooses must be known when the graph is composed",
                node.condition.span,
                f"this is a tensor, {show(condition)}",
                help="write `if c then x else y`",
            )
        if not is_expr(condition) or condition.dtype is not DType.BOOL:
            raise fail("E0503", "a condition must be a bool", node.condition.span, show(condition))
        return self.select(condition, node)

    def _select_dynamic(self, condition: DynamicPack, node: s.Select) -> AnyValue:
        """`c ? x : y` item by item, where `c` has as many items as a call says."""
        if node.otherwise is None:
            raise fail("E0503", "a packed condition needs both values", node.span)
        then, otherwise = self.evaluate_any(node.then), self.evaluate_any(node.otherwise)
        if then is None or otherwise is None:
            return None
        sides = [v for v in (then, otherwise) if isinstance(v, tuple | DynamicPack)]
        length, most = condition.length, len(condition.items)
        for side in sides:
            known = dynamic.pack_of(condition.items, length)
            length = dynamic.agree(known, side, node.span, self.budget)
            most = min(most, len(dynamic.items_of(side)))
        self.budget.spend(most, node.span)
        columns = [dynamic.column(v, most) for v in (condition, then, otherwise)]
        items = [
            a if c is True else b if c is False else self._choose(c, a, b, node)
            for c, a, b in zip(*columns, strict=True)
        ]
        return dynamic.pack_of(tuple(items), length)

    def _select_items(self, condition: Pack, node: s.Select) -> Value:
        """`c ? x : y` item by item; a side that no item takes is not evaluated."""
        if node.otherwise is None:
            raise fail("E0503", "a packed condition needs both values", node.span)
        then = (
            None if condition and all(c is False for c in condition) else self.evaluate(node.then)
        )
        other = (
            None
            if condition and all(c is True for c in condition)
            else self.evaluate(node.otherwise)
        )
        if not condition:
            return None if then is None or other is None else ()
        self.budget.spend(len(condition), node.span)
        result: list[Item] = []
        for k, c in enumerate(condition):
            a = _nth(then, k, condition, node)
            b = _nth(other, k, condition, node)
            picked = a if c is True else b if c is False else None
            if c is not True and c is not False and a is not None and b is not None:
                picked = self._choose(c, a, b, node)
            if picked is None:
                return None
            result.append(picked)
        return tuple(result)

    def _choose(self, condition: Item, a: Item, b: Item, node: s.Select) -> Item:
        """One item or the other, by a condition known at run time."""
        if isinstance(a, nodes.Tensor) and isinstance(b, nodes.Tensor) and is_expr(condition):
            place = shapes.select(condition, nodes.ZERO, nodes.ONE)
            return self.budget.gather((a, b), (place,), node.span)[0]
        for item, side in ((a, node.then), (b, node.otherwise or node.then)):
            if isinstance(item, nodes.Tensor | nodes.Subscript | str):
                raise fail(
                    "E0507",
                    "what this condition selects must be numbers or bools",
                    side.span,
                    f"this is {show(item)}",
                )
        x, y = to_expr(a), to_expr(b)
        if dtype_of(condition) is not DType.BOOL or x.dtype is not y.dtype:
            kinds = f"`{x.dtype}` and `{y.dtype}`"
            raise fail("E0503", f"a condition cannot select between {kinds}", node.span)
        return a if x == y else nodes.Select(to_expr(condition), x, y)

    def _coalesce(self, node: s.Coalesce) -> AnyValue:
        if isinstance(node.value, s.Fold):
            value = self._fold(node.value, node.fallback)
        else:
            value = self.evaluate_any(node.value)
        return self.evaluate_any(node.fallback) if value is None else value

    def _null_test(self, node: s.NullTest) -> Value:
        return self._name(s.Name(node.name, span=node.span)) is not None

    def _fold(self, node: s.Fold, fallback: s.Expr | None = None) -> AnyValue:
        """A fold; `fallback` is what `??` behind it gives in place of null."""
        value = self.evaluate_any(node.operand)
        if value is None:
            return None
        if isinstance(value, DynamicPack):
            self.budget.spend(len(value.items), node.span)
            if node.cumulative:
                return folds.cumulate(node.op, value, node.operand.span)
            empty = None if fallback is None else self.evaluate(fallback)
            return folds.fold(node.op, value, empty, node.operand.span)
        if not isinstance(value, tuple):
            if node.op == ":=":  # one value that stands for a pack too long to list
                return value
            raise fail("E0503", "a fold needs a pack", node.operand.span, f"this is {show(value)}")
        self.budget.spend(len(value), node.span)
        if node.cumulative:
            return packs.cumulate(node.op, value, node.span)
        return packs.fold(node.op, value, node.span)

    def _cast(self, node: s.Cast) -> AnyValue:
        dtype = self.dtype(node.type, node.span)
        if node.operand is None:
            return default_of(dtype)
        value = self.evaluate_any(node.operand)
        return self._map(lambda item: cast(dtype, item, node.span), value, node.span)

    def _builtin(self, node: s.Builtin) -> AnyValue:
        value = self.evaluate_any(node.operand)
        return self._map(lambda item: apply(node.function, item, node.span), value, node.span)

    def _access(self, node: s.Access) -> AnyValue:
        return self.access(node)

    def _bounded(self, node: s.Bounded) -> AnyValue:
        return self.bounded(node)


def shape_of(tensor: nodes.Tensor) -> Pack:
    """The extents of a tensor as a pack."""
    return tuple([from_expr(extent) for extent in tensor.shape])


def _nth(value: Value, k: int, condition: Pack, node: s.Select) -> Item | None:
    if not isinstance(value, tuple):
        return value
    packs.check_lengths(condition, value, node.span)
    return value[k]


_DECIDING: dict[str, bool] = {"&&": False, "||": True, "=>": False}
"""The left side with which a logical operator needs no right one."""

_EVALUATE: dict[type, Callable[[Any, Any], AnyValue]] = {
    s.Literal: Evaluator._literal,
    s.Format: Evaluator._format,
    s.Name: Evaluator._name,
    s.Member: Evaluator._member,
    s.Omitted: Evaluator._omitted,
    s.List: Evaluator._list,
    s.Subscript: Evaluator._subscript,
    s.Substitute: Evaluator._substitute,
    s.Bounded: Evaluator._bounded,
    s.Access: Evaluator._access,
    s.Unary: Evaluator._unary,
    s.Binary: Evaluator._binary,
    s.Select: Evaluator._select,
    s.Coalesce: Evaluator._coalesce,
    s.NullTest: Evaluator._null_test,
    s.Fold: Evaluator._fold,
    s.Cast: Evaluator._cast,
    s.Builtin: Evaluator._builtin,
}
