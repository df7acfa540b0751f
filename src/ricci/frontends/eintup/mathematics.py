"""Statements and constraints as Unicode mathematics.

`|a|` are the dims of `a`, `Σ_{a}` is a sum over all values of `a`, and `U[0, 1)` is a number drawn
uniformly (`Uℤ[0, 10)`: an integer). Names in a constraint are names of dims, as nothing else can
stand there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from . import syntax as s
from .uses import variables

_OR, _AND, _NOT, _COMPARE, _MOD, _ADD, _MUL, _ATOM = range(8)
_RELATIONS = {"<=": "≤", "==": "=", "!=": "≠", ">=": "≥"}
_REDUCTIONS = {"=": "Σ", "+=": "Σ", "*=": "Π", "max=": "max", "min=": "min"}
_REDUCTIONS |= {"and=": "∀", "or=": "∃"}
_ASSIGNMENTS = {"*=": "·=", "and=": "∧=", "or=": "∨="}


class _Shown(NamedTuple):
    """A text, and how tightly its outermost operator binds."""

    text: str
    level: int = _ATOM

    def at(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"


def statement_text(statement: s.Statement, first: bool) -> str:
    """A statement with its sums; the `first` of an array begins from nothing."""
    operator = "=" if first else statement.operator
    over = [v for v in variables(statement.value) if v not in variables(statement.target)]
    shown = _value(statement.value)
    body = shown.text
    if over:
        sign = f"{_REDUCTIONS[statement.operator]}_{{{','.join(over)}}}"
        body = f"{sign} {shown.at(_MUL)}"
    return f"{value_text(statement.target)} {_ASSIGNMENTS.get(operator, operator)} {body}"


def value_text(value: s.Value) -> str:
    return _value(value).text


def index_text(index: s.IndexExpr) -> str:
    return _index(index).text


def condition_text(index: s.IndexExpr, low: bool, bound: str | None) -> str:
    """That an index is not negative (`low`) and smaller than a bound, if there is one."""
    zero = "0 ≤ " if low else ""
    return f"{zero}{_index(index).at(_ADD)}{'' if bound is None else f' < {bound}'}"


def bound_text(index: s.IndexExpr) -> str:
    """The exclusive bounds of an index expression."""
    return str(index.value + 1) if isinstance(index, s.Whole) else _bars((index,))


# ---------------------------------------------------------- index expressions


def _index(index: s.IndexExpr) -> _Shown:
    match index:
        case s.Eintup(name):
            return _Shown(name)
        case s.Whole(value):
            return _whole(value)
        case s.Dims(items):
            return _Shown(_bars(items))
        case s.Rank(items):
            return _Shown(f"rank({_list(items)})")
        case s.Flat(items):
            return _Shown(f"flat({_list(items)})")
        case s.Slice(array, items):
            inside = ", ".join(":" if i is None else index_text(i) for i in items)
            return _Shown(f"{array.name}[{inside}]")
        case s.IndexBinary(operator, lhs, rhs):
            return _arithmetic(operator, _index(lhs), _index(rhs), "·")


def _bars(items: Sequence[s.IndexExpr]) -> str:
    """`|a, b|`, but in words if there would be bars inside."""
    text = _list(items)
    return f"dims({text})" if "|" in text or "dims" in text else f"|{text}|"


def _list(items: Sequence[s.IndexExpr]) -> str:
    return ", ".join(map(index_text, items))


def _whole(value: int) -> _Shown:
    return _Shown(str(value)) if value >= 0 else _Shown(f"−{-value}", _ADD)


def _arithmetic(operator: str, lhs: _Shown, rhs: _Shown, times: str) -> _Shown:
    """Two numbers with an arithmetic operator; `times` is the sign of products."""
    if operator in "+-":
        sign = "−" if operator == "-" else "+"
        return _Shown(f"{lhs.at(_ADD)} {sign} {rhs.at(_MUL)}", _ADD)
    if operator == "*":
        return _Shown(f"{lhs.at(_MUL)}{times}{rhs.at(_ATOM)}", _MUL)
    if operator == "%":  # binds loosest, so that it is never mistaken
        return _Shown(f"{lhs.at(_ATOM)} mod {rhs.at(_ATOM)}", _MOD)
    quotient = f"{lhs.at(_MUL)} / {rhs.at(_ATOM)}"
    if operator == "/":
        return _Shown(quotient, _MUL)
    left, right = "⌊⌋" if operator == "//" else "⌈⌉"
    return _Shown(f"{left}{quotient}{right}")


# --------------------------------------------------------------------- values


def _value(value: s.Value) -> _Shown:
    match value:
        case s.Number(_, text):
            return _Shown(text)
        case s.Access(array, items):
            return _Shown(f"{array.name}[{_list(items)}]")
        case s.DimsAt(dims, at):
            return _Shown(f"{_bars(dims.items)}[{at.name}]")
        case s.Rank():
            return _index(value)
        case s.Range(of, at):
            return _Shown(f"{of.name}[{at.name}]")
        case s.Random(low, high, kind):
            integers = "ℤ" if kind == "INT" else ""
            return _Shown(f"U{integers}[{value_text(low)}, {value_text(high)})")
        case s.Apply(function, arguments):
            return _apply(function.name, arguments)
        case s.Unary("-", operand):
            return _Shown(f"−{_value(operand).at(_MUL)}", _ADD)
        case s.Unary(_, operand):
            return _Shown(f"¬{_value(operand).at(_ATOM)}", _NOT)
        case s.Binary(operator, lhs, rhs):
            return _binary(operator, _value(lhs), _value(rhs))


def _apply(name: str, arguments: tuple[s.Value, ...]) -> _Shown:
    texts = [value_text(a) for a in arguments]
    if name == "where" and len(texts) == 3:
        condition, yes, no = texts
        return _Shown(f"{{{yes} if {condition}, else {no}}}")
    return _Shown(f"{name}({', '.join(texts)})")


def _binary(operator: str, lhs: _Shown, rhs: _Shown) -> _Shown:
    if operator == "and":
        return _Shown(f"{lhs.at(_AND)} ∧ {rhs.at(_NOT)}", _AND)
    if operator == "or":
        return _Shown(f"{lhs.at(_OR)} ∨ {rhs.at(_AND)}", _OR)
    if operator in ("<", "<=", "==", "!=", ">=", ">"):
        sign = _RELATIONS.get(operator, operator)
        return _Shown(f"{lhs.at(_MOD)} {sign} {rhs.at(_MOD)}", _COMPARE)
    return _arithmetic(operator, lhs, rhs, " · ")


# ---------------------------------------------------------------- constraints

Leaf = Callable[[s.Rank | s.Dims | s.DimOf], str]
"""What a rank or a list of dims is shown as."""


def name_of(leaf: s.Rank | s.Dims | s.DimOf) -> str:
    """Dims by the names of their eintups."""
    if isinstance(leaf, s.DimOf):
        return f"{name_of(leaf.dims)}[{leaf.at}]"
    names = _list(leaf.items)
    if isinstance(leaf, s.Rank):
        return f"rank({names})"
    return names if len(leaf.items) == 1 else f"({names})"


def term_text(term: s.Term, leaf: Leaf = name_of) -> str:
    return _term(term, leaf).text


def _term(term: s.Term, leaf: Leaf) -> _Shown:
    match term:
        case s.Whole(value):
            return _whole(value)
        case s.Smallest(function, arguments):
            return _Shown(f"{function}({', '.join(term_text(a, leaf) for a in arguments)})")
        case s.TermBinary(operator, lhs, rhs):
            return _arithmetic(operator, _term(lhs, leaf), _term(rhs, leaf), "·")
        case _:
            return _Shown(leaf(term))


def constraint_text(constraint: s.Constraint) -> str:
    if isinstance(constraint, s.Membership):
        middle = term_text(constraint.term)
        return f"{term_text(constraint.low)} ≤ {middle} ≤ {term_text(constraint.high)}"
    text = term_text(constraint.terms[0])
    for relation, term in zip(constraint.relations, constraint.terms[1:], strict=True):
        text += f" {_RELATIONS.get(relation, relation)} {term_text(term)}"
    return text
