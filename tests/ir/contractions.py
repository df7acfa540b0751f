"""Random sums of products, as convolutions and matrix products are, for differential tests.

`random_contraction(seed)` gives a `Program` of one or two operations: an initial value, a sum of
products of two or three accesses whose subscripts are affine (strides, dilations, offsets with
guards, groups, transposed and shared dimensions, sometimes a gather), and perhaps an element-wise
operation on the result. Sizes are larger than those of `programs`, so that tiles and tails occur.
"""

from __future__ import annotations

import random

import numpy as np

from ricci.dtypes import DType
from ricci.ir import shapes
from ricci.ir.nodes import (
    Access,
    Assignment,
    Binary,
    Const,
    Expr,
    Graph,
    Index,
    Operation,
    Port,
    Reduction,
    Remap,
    Select,
    Skip,
    Subscript,
    Tensor,
    integer,
)

from .programs import Program

ZERO = Const(0.0, DType.REAL)


def random_contraction(seed: int) -> Program:
    """A program that depends on the seed alone; its inputs are small multiples of 1/4."""
    return _Maker(seed).program()


class _Maker:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.arrays: dict[Tensor, np.ndarray] = {}
        rows = [Index(n, self.size(37)) for n in "bcij"[: self.rng.randint(1, 4)]]
        while _points(rows) > 4000:
            rows.pop()
        self.rows = tuple(rows)
        self.reduced = tuple(Index(n, self.size(17)) for n in "kpq"[: self.rng.randint(1, 3)])
        self.used: set[Index] = set()

    def size(self, largest: int) -> Expr:
        low, high = self.rng.choice(((1, 4), (2, 9), (largest // 2, largest)))
        return integer(self.rng.randint(low, high))

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def program(self) -> Program:
        shape = tuple(i.extent for i in self.rows)
        sums = Tensor("sums", DType.REAL, shape)
        value = self.product()
        op: Reduction = "add" if self.chance(0.85) else "max"
        target = Access(sums, tuple(Subscript(i) for i in self.rows))
        domain = list(self.rows + self.reduced)
        if self.chance(0.3):
            self.rng.shuffle(domain)
        condition = None
        if self.chance(0.1):
            condition = Binary("le", self.rng.choice(self.reduced), self.rng.choice(self.rows))
        body = [Assignment((target,), "set", (self.initial(),), self.rows)]
        body.append(Assignment((target,), op, (value,), tuple(domain), (), condition))
        steps = [Operation("contract", (sums,), tuple(body), tuple(self.arrays))]
        outputs = [sums]
        if self.chance(0.5):
            steps.append(self.epilogue(sums))
            outputs.append(steps[1].outputs[0])
        graph = Graph(
            f"contraction{self.seed}",
            tuple(Port(t.name, (t,)) for t in self.arrays),
            tuple(Port(t.name, (t,)) for t in outputs),
            tuple(steps),
        )
        return Program(self.seed, graph, {t.name: a for t, a in self.arrays.items()})

    def initial(self) -> Expr:
        if self.chance(0.5):
            return ZERO
        index = self.rng.choice(self.rows)
        return Access(self.tensor("bias", [index.extent]), (Subscript(index),))

    def epilogue(self, sums: Tensor) -> Operation:
        result = Tensor("result", DType.REAL, sums.shape)
        place = tuple(Subscript(i) for i in self.rows)
        read = Access(sums, place)
        value: Expr = Select(Binary("lt", read, ZERO), ZERO, read)
        if self.chance(0.5):
            value = Binary("add", value, Access(self.tensor("skip", list(sums.shape)), place))
        assignment = Assignment((Access(result, place),), "set", (value,), self.rows)
        return Operation("finish", (result,), (assignment,), (sums,))

    def product(self) -> Expr:
        count = 3 if self.chance(0.15) else 2
        value: Expr = self.factor("a")
        for name in "de"[: count - 1]:
            value = Binary("mul", value, self.factor(name))
        return value

    def factor(self, name: str) -> Expr:
        """An access whose dimensions are affine in some of the indices."""
        chosen = [i for i in self.rows + self.reduced if self.chance(0.6)]
        if name == "d":
            chosen += [i for i in self.rows + self.reduced if i not in self.used | {*chosen}]
        self.used |= set(chosen)
        self.rng.shuffle(chosen)
        dimensions: list[tuple[Expr, Subscript]] = []
        while chosen:
            count = self.rng.choice((1, 1, 2))
            taken, chosen = chosen[:count], chosen[count:]
            if len(taken) == 1:
                dimensions.append(self.plain(taken[0]))
            else:
                dimensions.append(self.window(*taken))
        while _volume(dimensions) > 60_000:
            dimensions.pop()
        tensor = self.tensor(name, [extent for extent, _ in dimensions])
        return Access(tensor, tuple(s for _, s in dimensions))

    def plain(self, index: Index) -> tuple[Expr, Subscript]:
        if self.chance(0.1):
            positions = self.tensor(f"at_{index.name}{len(self.arrays)}", [index.extent], DType.INT)
            return integer(5), Subscript(Access(positions, (Subscript(index),)))
        if self.chance(0.1):
            half = Binary("floordiv", index, integer(2))
            return shapes.ceildiv(index.extent, integer(2)), Subscript(half)
        return index.extent, Subscript(index)

    def window(self, outer: Index, inner: Index) -> tuple[Expr, Subscript]:
        """`stride * outer + dilation * inner - offset`, in range, guarded or remapped."""
        stride, dilation = self.rng.randint(1, 3), self.rng.randint(1, 2)
        offset = self.rng.choice((0, 0, 1, 2))
        index = shapes.sub(
            shapes.add(shapes.mul(integer(stride), outer), shapes.mul(integer(dilation), inner)),
            integer(offset),
        )
        low, high = shapes.interval(index)
        if low >= 0 and self.chance(0.7):
            return integer(int(high) + 1), Subscript(index)
        extent = max(1, int(high) - self.rng.randint(0, 2))
        if self.chance(0.2):
            return integer(extent), Subscript(index, Remap(integer(0), integer(extent - 1)))
        return integer(extent), Subscript(index, Skip())

    def tensor(self, name: str, shape: list[Expr], dtype: DType = DType.REAL) -> Tensor:
        tensor = Tensor(name, dtype, tuple(shape))
        sizes = [shapes.evaluate(e, {}) for e in shape]
        rng = np.random.default_rng(self.rng.randrange(2**32))
        if dtype is DType.INT:
            self.arrays[tensor] = rng.integers(0, 5, sizes)
        else:
            self.arrays[tensor] = np.asarray(rng.integers(-8, 9, sizes) / 4)
        return tensor


def _points(domain: list[Index]) -> int:
    return shapes.evaluate(shapes.product(*(i.extent for i in domain)), {})


def _volume(dimensions: list[tuple[Expr, Subscript]]) -> int:
    return shapes.evaluate(shapes.product(*(extent for extent, _ in dimensions)), {})
