"""Random operators with formulas, as text, and what they compute.

Every operator is made together with a plain Python function of each of its expressions, so
that what it must give is known without the front end, and so is which index is out of range or
which divisor is zero. Reals are multiples of 1/4, and comparisons and roundings apply only to what
is exact in single precision: executors differ by rounding, and take the same branches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .lower_expressions import Expressions
from .lower_nodes import (
    NUMPY,
    REDUCTIONS,
    Array,
    Fault,
    Index,
    Node,
    Program,
    Run,
    Statement,
    Tensor,
    execute,
    join,
    packed_node,
)


class Generator(Expressions):
    """Makes one operator; its number tells its names in a graph from those of others."""

    def program(self) -> Program:
        self._declare_inputs()
        if self.coin(0.3):
            value = self.rng.choice([0.5, -1.25, 2.0])
            self.attributes.append(("a", "real", value))
        if self.coin(0.3):
            self.attributes.append(("b", "int", self.rng.randint(-2, 3)))
        statements: list[Statement] = []
        for k in range(self.rng.choice([1, 1, 1, 2, 2, 3])):
            statements += self._output(k)
        return self._finish(statements)

    # ---------------------------------------------------------------------- tensors

    def _declare_inputs(self) -> None:
        for k in range(self.rng.choice([1, 2, 2, 3])):
            self.inputs.append(self._input(f"x{k}"))
        if not any(t.dtype == "int" for t in self.inputs) and self.coin(0.5):
            self.inputs.append(self._input("at", "int"))

    def _input(self, name: str, dtype: str = "") -> Tensor:
        dtype = dtype or self.rng.choice(["real", "real", "real", "int", "int", "bool"])
        rank = self.rng.choice([0, 1, 1, 2, 2, 2, 3])
        packed = self.coin(0.15)
        full = f"{name}_{self.number}"
        names = [f"{full}_{i}" for i in range(self.rng.randint(1, 3))] if packed else [full]
        if rank and not packed and self.coin(0.2):
            return self._input_of_packed_shape(name, dtype, rank, names)
        extents = [self._extent() for _ in range(rank)]
        shape = tuple(size for _, size in extents)
        tensor = Tensor(name, dtype, shape, [text for text, _ in extents], names, packed)
        tensor.arrays = [self._data(dtype, shape) for _ in names]
        return tensor

    def _input_of_packed_shape(self, name: str, dtype: str, rank: int, names: list[str]) -> Tensor:
        shape = tuple(self.rng.choice([1, 2, 2, 3]) for _ in range(rank))
        symbol = f"s{len(self.inputs)}"
        tensor = Tensor(name, dtype, shape, [f"{symbol}..({rank})"], names, rank_packed=symbol)
        tensor.arrays = [self._data(dtype, shape)]
        return tensor

    def _extent(self) -> tuple[str, int]:
        """A new symbol, one that there is, or a number."""
        if self.symbols and self.coin(0.5):
            name = self.rng.choice(list(self.symbols))
            return name, self.symbols[name]
        size = self.rng.choice([1, 2, 3, 3, 4, 5, 5, 6, 8, 0] if self.coin(0.3) else [2, 3, 4, 5])
        if self.coin(0.2):
            return str(size), size
        name = f"n{len(self.symbols)}"
        self.symbols[name] = size
        if self.coin(0.25):
            self.open[name] = f"{name}_{self.number}|{self.rng.choice([8, 9, 12])}"
        return name, size

    def _data(self, dtype: str, shape: tuple[int, ...]) -> Array:
        count = math.prod(shape)
        if dtype == "bool":
            values: list[Any] = [self.coin(0.5) for _ in range(count)]
        elif dtype == "int":
            values = [self.rng.randint(-1, 4) for _ in range(count)]
        else:
            values = [self.rng.randint(-16, 16) / 4 for _ in range(count)]
        return np.array(values, NUMPY[dtype]).reshape(shape)

    # -------------------------------------------------------------------- statements

    def _output(self, number: int) -> list[Statement]:
        dtype = self.rng.choice(["real", "real", "real", "int", "int", "bool"])
        full = f"y{number}_{self.number}"
        pack = next((t for t in self.inputs if t.packed), None)
        packed = pack is not None and self.coin(0.5)
        names = [f"{full}_{i}" for i in range(len(pack.names))] if pack and packed else [full]
        shaped = [t for t in self.inputs if t.rank_packed]
        if shaped and self.coin(0.6):
            like = self.rng.choice(shaped)
            tensor = Tensor(f"y{number}", dtype, like.shape, [f"{like.rank_packed}.."], names,
                            packed, rank_packed=like.rank_packed)  # fmt: skip
        else:
            extents = [self._result_extent() for _ in range(self.rng.choice([0, 1, 1, 2, 2, 3]))]
            shape = tuple(size for _, size in extents)
            tensor = Tensor(f"y{number}", dtype, shape, [t for t, _ in extents], names, packed)
        self.outputs.append(tensor)
        return self._statements(tensor)

    def _result_extent(self) -> tuple[str, int]:
        text, size = self._known_extent()
        draw = self.rng.random()
        if draw < 0.1:
            return f"{text} + 1", size + 1
        if draw < 0.15:
            return f"2 * {text}", 2 * size
        return (f"{text} \\ 2", -(-size // 2)) if draw < 0.2 else (text, size)

    def _known_extent(self) -> tuple[str, int]:
        if self.symbols and self.coin(0.8):
            name = self.rng.choice(list(self.symbols))
            return name, self.symbols[name]
        size = self.rng.randint(1, 4)
        return str(size), size

    def _statements(self, tensor: Tensor) -> list[Statement]:
        kinds = ["=", "+=", "*=", "<=", ">=", ":="] if tensor.dtype != "bool" else [
            "=", "&=", "|=", ":="]  # fmt: skip
        op = self.rng.choice(kinds)
        found = []
        if op == ":=" or (op != "=" and self.coin(0.5)):
            found.append(self._statement(tensor, "="))
        found.append(self._statement(tensor, op))
        return found

    def _statement(self, tensor: Tensor, op: str) -> Statement:
        self.indices, self.locals = [], []
        self.readable = list(self.inputs)
        item, unrolled = self._item_of_target(tensor)
        subscripts = self._target(tensor, op)
        for _ in range(self.rng.choice([0, 1, 1, 2]) if op != "=" else 0):
            if math.prod(math.prod(i.sizes) for i in self.indices) < 60:
                self._new_index(*self._loop_extent())
        domain = list(self.indices)
        self.rng.shuffle(domain)
        if tensor.packed and op == ":=":  # inside others it would be written out with all of them
            domain.sort(key=lambda index: index is not self.indices[0])
        if op == ":=":
            self.readable.append(tensor)
        for _ in range(self.rng.choice([0, 0, 0, 1, 2])):
            dtype = self.rng.choice(["real", "int", "bool"])
            local = self._expression(dtype, 2)
            if local.reads:
                self.locals.append((next(self.names), local))
        value = self._use_locals(self._expression(tensor.dtype, self.rng.choice([1, 2, 3, 3, 4])))
        if op == "*=" and value.dtype == "real":
            value = self._narrow(value)
        condition = self._expression("bool", 2) if op != "=" and self.coin(0.3) else None
        guards = [g for s in subscripts for g in s.guards]
        guards += [g for _, n in self.locals for g in n.guards]
        guards += condition.guards if condition else []
        guards += value.guards
        text = f"{tensor.name}{item[0]}[{join(subscripts)}] {op} {value.text}"
        head = "".join(f"{n} = {e.text}, " for n, e in self.locals)
        bounds = "".join(f", {i.text}" for i in domain if i is not unrolled)
        tail = f" | {condition.text}" if condition else ""
        start = f"unroll..({unrolled.name} -> {unrolled.bound}) " if unrolled else ""
        if unrolled:
            domain = [unrolled, *(i for i in domain if i is not unrolled)]
        target = (tensor, item[1], [s.run for s in subscripts], value)
        return Statement(
            f"{start}{head}{text}{bounds}{tail};", [target], op, domain, guards, self.locals,
            condition,
        )  # fmt: skip

    def _item_of_target(
        self, tensor: Tensor
    ) -> tuple[tuple[str, Callable[[Run], int]], Index | None]:
        """Which item of a pack is written: one after the other, by a loop or unrolled."""
        if not tensor.packed:
            return ("", lambda run: 0), None
        count = len(tensor.names)
        index = self._new_index(str(count), count)
        name = index.name
        return (f"[{name}]", lambda run: int(run.point[name])), index if self.coin(0.5) else None

    def _target(self, tensor: Tensor, op: str) -> list[Node]:
        if tensor.rank_packed:
            index = self._packed_index(tensor)
            if self.coin(0.2):
                text = f"{tensor.rank_packed} - 1 - {index.name}.."
                sizes = tensor.shape
                return [packed_node(text, lambda run: [
                    n - 1 - i for n, i in zip(sizes, run.point[index.name], strict=True)
                ])]  # fmt: skip
            return [packed_node(f"{index.name}..", lambda run: list(run.point[index.name]))]
        found = []
        for axis, (extent, size) in enumerate(zip(tensor.extents, tensor.shape, strict=True)):
            if op != "=" and self.coin(0.1) and self.indices:
                found.append(self._subscript(tensor, axis, extent, size))
                continue
            index = self._new_index(extent, size)
            name = index.name
            if self.coin(0.15):
                text = f"{extent} - 1 - {name}"
                found.append(Node(text, "int", lambda run, n=size, i=name: n - 1 - run.point[i]))
            else:
                found.append(Node(name, "int", lambda run, i=name: run.point[i]))
        return found

    def _new_index(self, bound: str, size: int) -> Index:
        index = Index(f"i{len(self.indices)}", bound, (size,))
        self.indices.append(index)
        return index

    def _packed_index(self, tensor: Tensor) -> Index:
        index = Index(f"i{len(self.indices)}", tensor.rank_packed, tensor.shape, packed=True)
        self.indices.append(index)
        return index

    def _loop_extent(self) -> tuple[str, int]:
        text, size = self._known_extent()
        return (f"{text} + 1", size + 1) if self.coin(0.2) else (text, size)

    # --------------------------------------------------------------------- the result

    def _finish(self, statements: Sequence[Statement]) -> Program:
        run = Run({t.name: t.arrays for t in self.inputs})
        faults: dict[Fault, bool] = {}
        for tensor in self.outputs:
            own = [s for s in statements if s.targets[0][0] is tensor]
            start = 0 if any(s.op == "=" for s in own) else REDUCTIONS[own[0].op][1][tensor.dtype]
            tensor.arrays = [
                np.full(tensor.shape, start, NUMPY[tensor.dtype]) for _ in tensor.names
            ]
            run.tensors[tensor.name] = tensor.arrays
        for statement in statements:
            for fault, certain in execute(statement, run):
                faults[fault] = certain or faults.get(fault, False)
        inputs = [(n, self._declared(t), a) for t in self.inputs
                  for n, a in zip(t.names, t.arrays, strict=True)]  # fmt: skip
        outputs = [(n, t.dtype) for t in self.outputs for n in t.names]
        expected = [a for t in self.outputs for a in t.arrays]
        return Program(self.seed, self._text(statements), inputs, self._call(), outputs, expected,
                       set(faults), any(faults.values()), self.risk > 0,
                       1e-5 * run.largest)  # fmt: skip

    def _declared(self, tensor: Tensor) -> str:
        """The declaration of an input of the graph, with open extents where they are to be."""
        if tensor.rank_packed:
            return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"
        shape = [
            self.open.get(e, str(n)) for e, n in zip(tensor.extents, tensor.shape, strict=True)
        ]
        return f"{tensor.dtype}[{', '.join(shape)}]"

    def _text(self, statements: Sequence[Statement]) -> str:
        def block(name: str, lines: Sequence[str]) -> str:
            inside = "".join(f"        {line}\n" for line in lines)
            return f"    @{name} {{\n{inside}    }}\n" if lines else ""

        def parameter(tensor: Tensor) -> str:
            pack = f"..({len(tensor.names)})" if tensor.packed else ""
            return f"{tensor.name}: {tensor.dtype}[{', '.join(tensor.extents)}]{pack};"

        return (
            f"operator f{self.number} {{\n"
            + block("attrib", [f"{n}: {kind};" for n, kind, _ in self.attributes])
            + block("input", [parameter(t) for t in self.inputs])
            + block("output", [parameter(t) for t in self.outputs])
            + block("lower", [s.text for s in statements])
            + "}\n"
        )

    def _call(self) -> str:
        def names(tensor: Tensor) -> str:
            return f"[{', '.join(tensor.names)}]" if tensor.packed else tensor.names[0]

        results = ", ".join(map(names, self.outputs))
        given = ", ".join(f"{n}={value}" for n, _, value in self.attributes)
        attributes = f"{{{given}}}" if given else ""
        return f"{results} = f{self.number}{attributes}({', '.join(map(names, self.inputs))});"


def make_program(seed: int, number: int = 0) -> Program:
    """The operator of a seed; `number` is part of its names."""
    return Generator(seed, number).program()


def graph_text(programs: Sequence[Program]) -> str:
    """A graph that invokes all of them."""
    lines = "".join(f"        {n}: {t};\n" for p in programs for n, t, _ in p.inputs)
    results = "".join(f"        {n}: {t};\n" for p in programs for n, t in p.outputs)
    calls = "".join(f"        {p.call}\n" for p in programs)
    return "".join(p.text for p in programs) + (
        f"graph G {{\n    @input {{\n{lines}    }}\n    @output {{\n{results}    }}\n"
        f"    @compose {{\n{calls}    }}\n}}\n"
    )
