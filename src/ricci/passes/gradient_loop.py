"""The adjoint of a loop: a loop over the same steps, the last one first.

Requires: the cotangents of what it gives, and that the number of its steps has a bound. Ensures:
those of what it reads are collected; what a step reads from around the loop gets the sum over all
steps. The forward loop collects what its variables hold at the beginning of each step. Does not:
reverse a body that defines sizes.

If the number of steps is fixed, packs are scanned backwards. If not, the items of a pack are joined
in one tensor, of which reverse step `j` reads number `steps - 1 - j`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..diagnostics import error
from ..dtypes import DType
from ..ir.nodes import (
    ONE,
    Access,
    Assignment,
    Binary,
    Cast,
    Expr,
    Loop,
    Operation,
    Region,
    Step,
    Subscript,
    Tensor,
    integer,
)
from ..ir.rewrite import step_tensors
from ..ir.shapes import as_int
from ..records import replace
from .gradient_assignment import copy_of, like
from .gradient_body import reader
from .gradient_control import copied, outer_reads, reads

if TYPE_CHECKING:
    from .gradient_steps import Reverse

Pack = tuple[Tensor, ...]


def reverse_loop(outer: Reverse, loop: Loop, cotangents: Mapping[Tensor, Tensor]) -> Loop:
    """Collect the cotangents of what a loop reads; the loop, with its variables collected."""
    return _Loop(outer, loop, cotangents).run()


def _most_steps(loop: Loop) -> int:
    """How many steps a loop does at most."""
    counts = [len(pack) for pack in (*(p for _, p in loop.scans), *loop.collected)]
    known = _literal(loop)
    counts += [] if known is None else [max(known, 0)]
    if not counts:
        message = "the gradient of a loop whose number of steps has no bound is not available"
        raise error("E0805", message, loop.span)
    return min(counts)


def _literal(loop: Loop) -> int | None:
    """The count of a loop, if it is a number."""
    return None if loop.count is None or isinstance(loop.count, Tensor) else as_int(loop.count)


class _Loop:
    def __init__(self, outer: Reverse, loop: Loop, cotangents: Mapping[Tensor, Tensor]) -> None:
        self.outer, self.loop, self.cotangents = outer, loop, cotangents
        self.count = _most_steps(loop)
        literal = loop.count is None or _literal(loop) is not None
        self.fixed = literal and loop.condition is None
        self.copy = copied(loop.body, step_tensors(loop), outer, loop.span)
        self.step = outer.child()
        self.variables = [v for v in loop.variables if v.dtype.is_real]
        self.items = [(x, p) for x, p in loop.scans if any(map(outer.is_active, p))]
        self.steps = loop.steps or Tensor("steps", DType.INT, ())
        self.index = Tensor("back", DType.INT, ())
        self.scans: list[tuple[Tensor, Pack]] = []
        self.begin: list[Step] = []
        """What a reverse step begins with."""
        self.kept: dict[Tensor, Pack] = {}

    def new(self, tensor: Tensor) -> Tensor:
        return self.copy.new[tensor]

    def run(self) -> Loop:
        step = self.step
        step.activate(self.new(t) for t in (*self.variables, *(x for x, _ in self.items)))
        step.forward(self.copy.steps)
        around = dict.fromkeys(t for t in outer_reads(self.copy) if self.outer.is_active(t))
        sums = {t: like("d", t) for t in around}
        moving = {v: like("d", v) for v in self.variables}
        self._seed(moving)
        step.backward()
        results = [step.total(self.new(v)) for v in moving]
        for tensor, before in sums.items():
            step.gradient(tensor).wholes.append(before)
            results.append(step.total(tensor))
        results += [step.total(self.new(x)) for x, _ in self.items]
        steps = (*step.again(), *step.steps)
        self._provide({t for s in steps for t in reads(s)})
        self._emit(moving, sums, Region((*self.begin, *steps), tuple(results)))
        return self._keeping()

    def _seed(self, moving: Mapping[Tensor, Tensor]) -> None:
        """Give the results of a step their cotangents."""
        count = len(self.loop.variables)
        for variable, result in zip(self.loop.variables, self.copy.results, strict=False):
            if variable in moving and self.step.is_active(result):
                self.step.gradient(result).wholes.append(moving[variable])
        for pack, result in zip(self.loop.collected, self.copy.results[count:], strict=True):
            if self.step.is_active(result) and any(t in self.cotangents for t in pack):
                given = tuple(self.cotangents.get(t) or self._zeros(t) for t in pack)
                item = like("d", result)
                self.step.gradient(result).wholes.append(item)
                self._scan(item, given)

    def _zeros(self, tensor: Tensor) -> Tensor:
        return self.outer.zeros(like("d", tensor))

    # ------------------------------------------------------------ what steps read

    def _provide(self, read: set[Tensor]) -> None:
        """Let reverse steps have what the steps had."""
        loop = self.loop
        for variable in loop.variables:
            if self.new(variable) in read:
                self.kept[variable] = tuple(like("kept", variable) for _ in range(self.count))
                self._scan(self.new(variable), self.kept[variable])
        for item, pack in loop.scans:
            if self.new(item) in read:
                self._scan(self.new(item), pack)
        if loop.index is not None and self.new(loop.index) in read:
            own = self.new(loop.index)
            value = _of_type(self._number(), own.dtype)
            body = Assignment((Access(own, ()),), "set", (value,), ())
            self.begin.append(Operation("gradient", (own,), (body,), (self.index,)))

    def _number(self) -> Expr:
        """The number of the step that a reverse step is of."""
        last: Expr = integer(self.count - 1)
        if not self.fixed:
            last = Binary("sub", _of_type(Access(self.steps, ()), DType.INT), ONE)
        return Binary("sub", last, Access(self.index, ()))

    def _scan(self, item: Tensor, pack: Pack) -> None:
        """Let a reverse step have the item of its step."""
        pack = pack[: self.count]
        if self.fixed:
            self.scans.append((item, pack[::-1]))
            return
        joined = self._joined(item, pack)
        number = Subscript(self._number())
        body = copy_of(item, _element(joined, number))
        read = (joined, self.steps, self.index)
        self.begin.append(Operation("gradient", (item,), (body,), read))

    def _joined(self, item: Tensor, pack: Pack) -> Tensor:
        """All items of a pack as one tensor."""
        joined = replace(like("all", item), shape=(integer(self.count), *item.shape))
        body = []
        for k, tensor in enumerate(pack):
            copy = copy_of(tensor, reader(tensor))
            place = (Subscript(integer(k)), *copy.targets[0].subscripts)
            body.append(replace(copy, targets=(Access(joined, place),)))
        self.outer.emit([joined], body)
        return joined

    # --------------------------------------------------------- what the loop gives

    def _emit(
        self, moving: Mapping[Tensor, Tensor], sums: Mapping[Tensor, Tensor], body: Region
    ) -> None:
        loop, outer = self.loop, self.outer
        ends = dict(zip(loop.variables, loop.outputs, strict=True))
        starts = [self.cotangents.get(ends[v]) or self._zeros(v) for v in moving]
        starts += [self._zeros(t) for t in sums]
        outputs = tuple(like("d", t) for t in (*moving, *sums))
        collected = tuple(tuple(like("d", t) for t in p[: self.count]) for _, p in self.items)
        outer.steps.append(Loop(
            outputs, collected, (*moving.values(), *sums.values()), tuple(starts),
            tuple(self.scans), body, integer(self.count) if self.fixed else self.steps,
            self.index, span=loop.span,
        ))  # fmt: skip
        first = dict(zip(loop.variables, loop.initial, strict=True))
        for tensor, output in zip((*(first[v] for v in moving), *sums), outputs, strict=True):
            outer.gradient(tensor).wholes.append(output)
        for (item, pack), found in zip(self.items, collected, strict=True):
            self._hand_on(item, pack[: self.count], found)

    def _hand_on(self, item: Tensor, pack: Pack, found: Pack) -> None:
        """Add what reverse steps collected to the gradients of the items of a pack."""
        if self.fixed:
            for tensor, gradient in zip(pack, reversed(found), strict=True):
                self.outer.gradient(tensor).wholes.append(gradient)
            return
        joined = self._joined(like("d", item), found)
        steps = _of_type(Access(self.steps, ()), DType.INT)
        for k, tensor in enumerate(pack):
            total = self.outer.gradient(tensor)
            number = Subscript(Binary("sub", steps, integer(k + 1)))
            part = copy_of(total.tensor, _element(joined, number))
            there = Binary("lt", integer(k), steps)
            total.parts.append(replace(part, op="add", condition=there))

    def _keeping(self) -> Loop:
        """The loop that collects what its variables hold at the beginning of each step."""
        copies: list[Operation] = []
        for variable in self.kept:
            held = like("kept", variable)
            copy = copy_of(held, reader(variable))
            copies.append(Operation("gradient", (held,), (copy,), (variable,)))
        body = self.loop.body
        held_all = tuple(c.outputs[0] for c in copies)
        return replace(
            self.loop,
            collected=(*self.loop.collected, *self.kept.values()),
            body=Region((*copies, *body.operations), (*body.results, *held_all)),
            steps=self.loop.steps if self.fixed else self.steps,
        )


def _of_type(expr: Expr, dtype: DType) -> Expr:
    return expr if expr.dtype is dtype else Cast(dtype, expr)


def _element(joined: Tensor, number: Subscript) -> Callable[[tuple[Subscript, ...]], Expr]:
    return lambda subscripts: Access(joined, (number, *subscripts))
