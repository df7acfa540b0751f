"""Several lines of a formula as one that is unrolled.

    y[i, j] = a[i, j], i < 4, j < 2;           unroll..(k -> 2) y[i, [0, 2][k] + j] = xs[k][i, j],
    y[i, 2 + j] = b[i, j], i < 4, j < 5;           i < 4, j < [2, 5][k];

An output has one line of each kind at most (specification 2.12), while an operation of the IR
may have any number. What differs between the trees of the lines becomes a list, an item of a
pack of tensors, or a choice by the number of the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, cast

from ...records import replace
from . import syntax as s
from .unparse_expressions import integer

Pack = Callable[[Sequence[str]], str | None]
"""Gives the name of a pack of tensors of these names, if they can be one."""


class Merger:
    """Makes one tree of several, in terms of the name of the number of the line."""

    def __init__(self, index: str, pack: Pack) -> None:
        self.index = index
        self.pack = pack

    def lines(self, lines: Sequence[s.Lowering]) -> s.Lowering:
        """One unrolled line instead of several with the same accumulator, indices and locals."""
        merged = self._same_class(lines)
        assert isinstance(merged, s.Lowering)
        return replace(merged, unroll=s.Count(self.index, integer(len(lines))))

    def _merge(self, found: Sequence[Any]) -> Any:
        first = found[0]
        if all(x == first for x in found[1:]):
            return first
        if all(isinstance(x, s.Bound | s.LocalValue) for x in found):
            return self._same_class(found)
        exprs = cast("Sequence[s.Expr]", found)
        if all(map(_is_constant, exprs)) and len({_kind(x) for x in exprs}) == 1:
            return s.Subscript(s.List(tuple(exprs)), s.Name(self.index))
        exprs = _with_zeros(exprs)
        if _are_alike(exprs):
            if not isinstance(first, s.Access):
                return self._same_class(exprs)
            if (access := self._access(cast("Sequence[s.Access]", exprs))) is not None:
                return access
        return self._choose(exprs)

    def _same_class(self, found: Sequence[Any]) -> Any:
        """Nodes of one class, part by part."""
        changed = {}
        for field in fields(found[0]):
            values = [getattr(x, field.name) for x in found]
            if isinstance(values[0], s.Node):
                changed[field.name] = self._merge(values)
            elif isinstance(values[0], tuple):
                changed[field.name] = tuple([self._merge(row) for row in zip(*values, strict=True)])
        return replace(found[0], **changed)

    def _access(self, found: Sequence[s.Access]) -> s.Access | None:
        names = [x.tensor.name if isinstance(x.tensor, s.Name) else "" for x in found]
        if len(set(names)) == 1:
            return cast("s.Access", self._same_class(found))
        pack = self.pack(names)
        if pack is None:
            return None
        indices = tuple([self._merge(row) for row in zip(*(x.indices for x in found), strict=True)])
        return s.Access(s.Subscript(s.Name(pack), s.Name(self.index)), indices)

    def _choose(self, found: Sequence[s.Expr]) -> s.Expr:
        """`k == 0 ? a : k == 1 ? b : c`: which one is known when the line is unrolled."""
        result = found[-1]
        for number in range(len(found) - 2, -1, -1):
            here = s.Binary("==", s.Name(self.index), integer(number))
            result = s.Select(here, found[number], result)
        return result


def _is_constant(node: s.Expr) -> bool:
    return isinstance(node, s.Literal) or (
        isinstance(node, s.Unary) and isinstance(node.operand, s.Literal)
    )


def _kind(node: s.Expr) -> type:
    literal = node.operand if isinstance(node, s.Unary) else node
    return type(literal.value) if isinstance(literal, s.Literal) else type(node)


def _with_zeros(found: Sequence[s.Expr]) -> Sequence[s.Expr]:
    """`j` as `0 + j` where another one is `3 + j`."""
    if not any(_is_shifted(x) for x in found):
        return found
    return [x if _is_shifted(x) else s.Binary("+", integer(0), x) for x in found]


def _is_shifted(node: s.Expr) -> bool:
    return isinstance(node, s.Binary) and node.op == "+" and _kind(node.lhs) is int


def _are_alike(found: Sequence[s.Node]) -> bool:
    """Whether nodes are of one class, and what they hold beside other nodes is equal."""
    first = found[0]
    if any(type(x) is not type(first) for x in found):
        return False
    for field in fields(first):
        values = [getattr(x, field.name) for x in found]
        if isinstance(values[0], tuple):
            if len({len(v) for v in values}) > 1:
                return False
        elif field.name != "span" and not isinstance(values[0], s.Node):
            if any(v != values[0] for v in values):
                return False
        elif field.name != "span" and any(v is None for v in values):
            return False
    return True
