"""Random expressions of formulas: arithmetic, selects, conversions, accesses with their rules."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

from .lower_nodes import (
    BOOL_OPS,
    COMPARISONS,
    INT_OPS,
    REAL_OPS,
    ROUNDING,
    SMOOTH,
    Guard,
    Index,
    Node,
    Run,
    Tensor,
    join,
    packed_node,
    place_of,
    seen,
    to_int,
    wrap,
)


class Expressions:
    """Makes expressions of the tensors, indices and sizes that there are."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = random.Random(f"lower {seed}")
        self.seed = seed
        self.number = number
        self.symbols: dict[str, int] = {}
        self.open: dict[str, str] = {}
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.attributes: list[tuple[str, str, Any]] = []
        self.names = (f"v{k}" for k in itertools.count())
        self.risk = self.rng.choice([0.0, 0.0, 0.0, 0.1])
        """The chance of an index without a rule that may be out of range."""
        self.indices: list[Index] = []
        self.locals: list[tuple[str, Node]] = []
        self.readable: list[Tensor] = []

    def coin(self, chance: float) -> bool:
        return self.rng.random() < chance

    def _use_locals(self, value: Node) -> Node:
        """The value together with all locals, which are to be used."""
        for name, local in self.locals:
            read = Node(name, local.dtype, lambda run, n=name: run.locals[n], [], local.most,
                        local.grain)  # fmt: skip
            value = self._combine(value, self._convert(read, value.dtype))
        return value

    def _combine(self, a: Node, b: Node) -> Node:
        if a.dtype == "bool":
            return self._bool_binary("^", a, b)
        return self._number_binary("+", a, b)

    # ------------------------------------------------------------------- expressions

    def _expression(self, dtype: str, depth: int) -> Node:
        if depth <= 0 or self.coin(0.15):
            return self._leaf(dtype)
        made = {"real": self._real, "int": self._int, "bool": self._bool}[dtype](depth - 1)
        if made.dtype != "bool" and made.most > 1e6:
            return self._leaf(dtype)
        return made

    def _leaf(self, dtype: str) -> Node:
        tensors = [t for t in self.readable if t.dtype == dtype]
        if tensors and self.coin(0.7):
            return self._access(self.rng.choice(tensors))
        if dtype == "int":
            return self._index_value()
        if dtype == "bool":
            value = self.coin(0.5)
            return Node("true" if value else "false", "bool", lambda run: value)
        for name, kind, given in self.attributes:
            if kind == dtype and self.coin(0.5):
                return Node(name, dtype, lambda run, given=given: given)
        value = self.rng.randint(-8, 8) / 4
        return Node(f"({value})", "real", lambda run: value, most=2.0)

    def _index_value(self) -> Node:
        """A small integer of indices, sizes and numbers."""
        choices: list[Node] = []
        for index in self.indices:
            name = index.name
            if index.packed:
                choices.append(Node(f"({name} + ..)", "int", lambda run, n=name: sum(run.point[n]),
                                    most=sum(index.sizes)))  # fmt: skip
                at = self.rng.randrange(len(index.sizes))
                choices.append(
                    Node(f"{name}[{at}]", "int", lambda run, n=name, at=at: run.point[n][at])
                )
            else:
                choices.append(Node(name, "int", lambda run, n=name: run.point[n], most=9))
        for name, size in self.symbols.items():
            choices.append(Node(name, "int", lambda run, s=size: s, most=9))
        for name, kind, given in self.attributes:
            if kind == "int":
                choices.append(Node(name, "int", lambda run, g=given: g))
        if not choices or self.coin(0.25):
            value = self.rng.randint(-3, 5)
            return Node(f"({value})", "int", lambda run: value, most=5)
        return self.rng.choice(choices)

    def _real(self, depth: int) -> Node:
        draw = self.rng.random()
        if draw < 0.45:
            op = self.rng.choice(["+", "-", "*", "<<", ">>"])
            a, b = self._expression("real", depth), self._expression("real", depth)
            return self._number_binary(op, a, b)
        if draw < 0.55:
            return self._select("real", depth)
        if draw < 0.65:
            return self._function(self.rng.choice(list(ROUNDING)), depth, exact=True)
        if draw < 0.72:
            return self._function(self.rng.choice(list(SMOOTH)), depth, exact=False)
        if draw < 0.78:
            return self._quotient(depth)
        if draw < 0.85:
            return self._negated(self._expression("real", depth))
        return self._convert(self._expression(self.rng.choice(["int", "bool"]), depth), "real")

    def _int(self, depth: int) -> Node:
        draw = self.rng.random()
        if draw < 0.45:
            op = self.rng.choice(["+", "-", "*", "<<", ">>"])
            a, b = self._expression("int", depth), self._expression("int", depth)
            return self._number_binary(op, a, b)
        if draw < 0.6:
            return self._division(depth)
        if draw < 0.7:
            return self._select("int", depth)
        if draw < 0.78:
            return self._negated(self._expression("int", depth))
        if draw < 0.84:
            a = self._expression("int", depth)
            return Node(f"`abs`({a.text})", "int", lambda run: abs(a.run(run)), a.guards, a.most)
        return self._convert(self._expression(self.rng.choice(["real", "bool"]), depth), "int")

    def _bool(self, depth: int) -> Node:
        draw = self.rng.random()
        if draw < 0.5:
            dtype = self.rng.choice(["real", "int"])
            a, b = self._expression(dtype, depth), self._expression(dtype, depth)
            if a.exact and b.exact:
                return self._comparison(a, b) if a.text != b.text else self._leaf("bool")
        if draw < 0.75:
            a, b = self._expression("bool", depth), self._expression("bool", depth)
            return self._bool_binary(self.rng.choice(list(BOOL_OPS)), a, b)
        if draw < 0.85:
            a = self._expression("bool", depth)
            return Node(f"(!{a.text})", "bool", lambda run: not a.run(run), a.guards)
        if draw < 0.92:
            return self._select("bool", depth)
        return self._convert(self._expression("int", depth), "bool")

    def _number_binary(self, op: str, a: Node, b: Node) -> Node:
        if a.text == b.text:  # the composer knows what `a - a` is
            return a
        most = {"*": a.most * b.most, "+": a.most + b.most, "-": a.most + b.most}.get(
            op, max(a.most, b.most)
        )
        grain = a.grain * b.grain if op == "*" else min(a.grain, b.grain)
        f: Callable[[Any, Any], Any] = (INT_OPS if a.dtype == "int" else REAL_OPS)[op]
        return Node(f"({a.text} {op} {b.text})", a.dtype,
                    lambda run: seen(run, f(a.run(run), b.run(run))), a.guards + b.guards, most,
                    grain)  # fmt: skip

    def _bool_binary(self, op: str, a: Node, b: Node) -> Node:
        f = BOOL_OPS[op]

        def run(run: Run) -> bool:
            left, right = a.run(run), b.run(run)
            return f(left, right)

        return Node(f"({a.text} {op} {b.text})", "bool", run, a.guards + b.guards)

    def _comparison(self, a: Node, b: Node) -> Node:
        op = self.rng.choice(list(COMPARISONS))
        f = COMPARISONS[op]
        return Node(f"({a.text} {op} {b.text})", "bool", lambda run: f(a.run(run), b.run(run)),
                    a.guards + b.guards)  # fmt: skip

    def _select(self, dtype: str, depth: int) -> Node:
        c = self._data_condition()
        a, b = self._expression(dtype, depth), self._expression(dtype, depth)
        if c is None or not (a.reads or b.reads):  # the composer takes one of them
            return a
        return Node(f"({c.text} ? {a.text} : {b.text})", dtype,
                    lambda run: a.run(run) if c.run(run) else b.run(run),
                    c.guards + a.guards + b.guards, max(a.most, b.most),
                    min(a.grain, b.grain))  # fmt: skip

    def _data_condition(self) -> Node | None:
        """A condition that the composer cannot know: it takes one side, without its guards."""
        tensors = [t for t in self.readable if t not in self.outputs]
        tensor = self.rng.choice(tensors)
        c = self._access(tensor)
        if tensor.dtype == "bool":
            return c
        value = self.rng.randint(-1, 3)
        other = Node(f"({value})", "int", lambda run: value)
        return self._comparison(c, self._convert(other, c.dtype))

    def _negated(self, a: Node) -> Node:
        if a.dtype == "int":
            return Node(f"(-{a.text})", "int", lambda run: wrap(-a.run(run)), a.guards, a.most)
        return Node(f"(-{a.text})", "real", lambda run: -a.run(run), a.guards, a.most, a.grain)

    def _function(self, name: str, depth: int, exact: bool) -> Node:
        a = self._expression("real", depth)
        if exact and not a.exact:
            return a
        f = (ROUNDING if exact else SMOOTH)[name]
        most, grain = (a.most + 1, a.grain) if exact else (2.0, 0.0)
        return Node(f"`{name}`({a.text})", "real", lambda run: seen(run, float(f(a.run(run)))),
                    a.guards, most, grain)  # fmt: skip

    def _quotient(self, depth: int) -> Node:
        a, b = self._expression("real", depth), self._expression("real", depth)
        return Node(f"({a.text} / (`abs`({b.text}) + 0.5))", "real",
                    lambda run: seen(run, a.run(run) / (abs(b.run(run)) + 0.5)),
                    a.guards + b.guards, 2 * a.most, 0.0)  # fmt: skip

    def _division(self, depth: int) -> Node:
        op = self.rng.choice(["/", "\\", "%"])
        a, b = self._expression("int", depth), self._expression("int", depth)
        if not self.coin(self.risk):
            b = Node(f"(`abs`({b.text}) + 1)", "int", lambda run, b=b: abs(b.run(run)) + 1,
                     b.guards, b.most + 1)  # fmt: skip
        f = INT_OPS[op]

        def run(run: Run) -> int:
            left, right = a.run(run), b.run(run)
            if right == 0:
                run.faults.append("zero")
            return f(left, right or 1)

        return Node(f"({a.text} {op} {b.text})", "int", run, a.guards + b.guards,
                    max(a.most, b.most) + 1)  # fmt: skip

    def _convert(self, a: Node, dtype: str) -> Node:
        if a.dtype == dtype:
            return a
        if dtype == "bool":
            if not a.exact:
                return Node("true", "bool", lambda run: True)
            return Node(f"bool({a.text})", "bool", lambda run: a.run(run) != 0, a.guards)
        if dtype == "int" and a.dtype == "real":
            if not a.exact:
                a = self._leaf("real")
            return Node(f"int({a.text})", "int", lambda run: to_int(a.run(run)), a.guards, a.most)
        if dtype == "int":
            return Node(f"int({a.text})", "int", lambda run: int(a.run(run)), a.guards, 1)
        return Node(f"real({a.text})", "real", lambda run: float(a.run(run)), a.guards,
                    a.most if a.dtype == "int" else 1.0, 1.0)  # fmt: skip

    def _narrow(self, a: Node) -> Node:
        """A real near one, whose products stay small."""
        return Node(f"(1.0 + 0.25 * `tanh`({a.text}))", "real",
                    lambda run: 1.0 + 0.25 * math.tanh(a.run(run)), a.guards, 1.25,
                    0.0)  # fmt: skip

    # ---------------------------------------------------------------------- accesses

    def _access(self, tensor: Tensor, nesting: int = 0) -> Node:
        """An element of a tensor, or of an item of a pack."""
        item, number = self._item(tensor)
        subscripts = self._subscripts(tensor, nesting)
        guards = [g for s in subscripts for g in s.guards]
        functions = [s.run for s in subscripts]

        def run(run: Run) -> Any:
            place = place_of(tensor, functions, run)
            if place is None:
                return {"real": 0.0, "int": 0, "bool": False}[tensor.dtype]
            return seen(run, run.tensors[tensor.name][number(run)][place].item())

        most = {"real": 4.0, "int": 4.0, "bool": 1.0}[tensor.dtype]
        grain = 0.25
        if tensor in self.outputs:  # it holds what the statements give
            most, grain = 1e5, 0.0
        return Node(f"{tensor.name}{item}[{join(subscripts)}]", tensor.dtype, run, guards, most,
                    grain)  # fmt: skip

    def _item(self, tensor: Tensor) -> tuple[str, Callable[[Run], int]]:
        count = len(tensor.names)
        if not tensor.packed:
            return "", lambda run: 0
        fitting = [i for i in self.indices if not i.packed and i.sizes[0] <= count]
        if fitting and self.coin(0.7):
            name = self.rng.choice(fitting).name
            return f"[{name}]", lambda run: int(run.point[name])
        at = self.rng.randrange(count)
        return f"[{at}]", lambda run: at

    def _subscripts(self, tensor: Tensor, nesting: int) -> list[Node]:
        if tensor.rank_packed:
            fitting = [i for i in self.indices if i.packed and len(i.sizes) == len(tensor.shape)]
            if fitting:
                return [self._packed_subscript(tensor, self.rng.choice(fitting))]
        extents = tensor.extents
        if tensor.rank_packed:
            extents = [f"{tensor.rank_packed}[{k}]" for k in range(len(tensor.shape))]
        return [
            self._subscript(tensor, k, extent, size, nesting)
            for k, (extent, size) in enumerate(zip(extents, tensor.shape, strict=True))
        ]

    def _packed_subscript(self, tensor: Tensor, index: Index) -> Node:
        name, shift = index.name, self.rng.choice([0, 0, 1, -1, 2])
        extent = tensor.rank_packed

        def shifted(run: Run) -> list[int]:
            return [i + shift for i in run.point[name]]

        base = name if shift == 0 else f"{name} + {shift}" if shift > 0 else f"{name} - {-shift}"
        safe = shift == 0 and all(a <= b for a, b in zip(index.sizes, tensor.shape, strict=True))
        draw = self.rng.random()
        if safe and draw < 0.7:
            return packed_node(f"{base}..", shifted)
        if draw < 0.5:

            def passes(run: Run) -> bool:
                return all(0 <= i < n for i, n in zip(shifted(run), tensor.shape, strict=True))

            return packed_node(f"|{base}|..", shifted, [(False, passes)])
        return packed_node(f"|{base} <> 0 : {extent} - 1|..", lambda run: [
            0 if i < 0 else n - 1 if i >= n else i
            for i, n in zip(shifted(run), tensor.shape, strict=True)
        ])  # fmt: skip

    def _subscript(
        self, tensor: Tensor, axis: int, extent: str, size: int, nesting: int = 0
    ) -> Node:
        """One subscript: an index that fits, or any integer with a rule for the ends."""
        extent = f"({extent})" if " " in extent else extent
        fitting = [i for i in self.indices if not i.packed and i.sizes[0] <= size]
        if fitting and self.coin(0.55):
            name = self.rng.choice(fitting).name
            if self.coin(0.1):
                return Node(f"{extent} - 1 - {name}", "int",
                            lambda run: size - 1 - run.point[name])  # fmt: skip
            return Node(name, "int", lambda run: run.point[name])
        base = self._base(nesting)
        draw = self.rng.random()
        if self.coin(self.risk):
            return base
        if draw < 0.4 or size == 0:
            guard: Guard = (base.reads, lambda run: 0 <= base.run(run) < size)
            return Node(f"|{base.text}|", "int", base.run, [*base.guards, guard])
        if draw < 0.6:
            return Node(f"({base.text}) % {extent}", "int", lambda run: base.run(run) % size,
                        base.guards)  # fmt: skip
        return self._remapped(base, extent, size)

    def _remapped(self, base: Node, extent: str, size: int) -> Node:
        below = Node("0", "int", lambda run: 0)
        above = Node(f"{extent} - 1", "int", lambda run: size - 1)
        if self.coin(0.3):
            below, above = above, below
        if self.coin(self.risk):
            above = self._base(2)

        def run(run: Run) -> int:
            value = int(base.run(run))
            if value < 0:
                return int(below.run(run))
            return int(above.run(run)) if value >= size else value

        return Node(f"|{base.text} <> {below.text} : {above.text}|", "int", run,
                    base.guards + below.guards + above.guards)  # fmt: skip

    def _base(self, nesting: int) -> Node:
        """An integer near the indices, or one that data gives."""
        ints = [t for t in self.inputs if t.dtype == "int"]
        if ints and nesting < 2 and self.coin(0.3):
            return self._access(self.rng.choice(ints), nesting + 1)
        a = self._index_value()
        draw = self.rng.random()
        if draw < 0.3:
            return a
        if draw < 0.85:
            return self._number_binary(self.rng.choice(["+", "-"]), a, self._index_value())
        factor = self.rng.choice([2, 3])
        return Node(f"({factor} * {a.text})", "int", lambda run: factor * a.run(run), a.guards)
