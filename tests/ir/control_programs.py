"""Random programs with branches and loops, nested in each other.

`random_control(seed)` gives a graph and arguments. Values are sums and minima of multiples of
1/4, so executors agree on every condition. Loops scan and collect packs, swap their variables,
take counts from data and stop on conditions, and end for certain.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from ricci.dtypes import DType
from ricci.ir.nodes import (
    Access,
    Assignment,
    Binary,
    Branch,
    Cast,
    Const,
    Expr,
    Graph,
    Index,
    Loop,
    Operation,
    Port,
    Region,
    Step,
    Subscript,
    Symbol,
    Tensor,
    integer,
)

from .programs import Program


def random_control(seed: int, *, dynamic: bool = False) -> Program:
    """A program that depends on the seed alone; with `dynamic` an extent is a symbol."""
    return _Maker(seed, dynamic).program()


class _Maker:
    def __init__(self, seed: int, dynamic: bool) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.symbols = (Symbol("n", integer(9)),) if dynamic else ()
        n: Expr = self.symbols[0] if dynamic else integer(5)
        self.shapes: list[tuple[Expr, ...]] = [(n,), (integer(3), n), ()]
        self.size = self.rng.randint(1, 9) if dynamic else 5
        self.count = 0

    def program(self) -> Program:
        inputs = [self.tensor(shape) for shape in self.shapes for _ in range(2)]
        number = self.tensor((), DType.INT)
        pool = [*inputs, number]
        steps, made = self.steps(pool, 2)
        outputs = [self.rng.choice(made) for _ in range(3)] if made else []
        outputs += [made[-1]] if made else [inputs[0]]
        graph = Graph(
            f"seed{self.seed}",
            tuple(Port(t.name, (t,)) for t in pool),
            tuple(Port(f"out{k}", (t,)) for k, t in enumerate(outputs)),
            tuple(steps),
            symbols=self.symbols,
        )
        return Program(self.seed, graph, {t.name: self.array(t) for t in pool})

    def array(self, tensor: Tensor) -> np.ndarray:
        rng = np.random.default_rng(self.rng.randrange(2**32))
        shape = [int(e.value) if isinstance(e, Const) else self.size for e in tensor.shape]
        if tensor.dtype is DType.INT:
            return np.asarray(rng.integers(0, 6, shape))
        return np.asarray(rng.integers(-8, 9, shape) / 4)

    def tensor(self, shape: tuple[Expr, ...], dtype: DType = DType.REAL) -> Tensor:
        self.count += 1
        return Tensor(f"t{self.count}", dtype, shape)

    # ------------------------------------------------------------------- steps

    def steps(self, pool: Sequence[Tensor], depth: int) -> tuple[list[Step], list[Tensor]]:
        """Some steps that read the pool, and what they make."""
        steps: list[Step] = []
        made: list[Tensor] = []
        for _ in range(self.rng.randint(1, 4)):
            kind = self.rng.random()
            known = [*pool, *made]
            if depth and kind < 0.25:
                step: Step = self.branch(known, depth - 1)
                outputs: tuple[Tensor, ...] = step.outputs
            elif depth and kind < 0.6:
                step = self.loop(known, depth - 1)
                outputs = (*step.outputs, *(t for pack in step.collected for t in pack))
                outputs += (step.steps,) if step.steps is not None else ()
            else:
                step = self.operation(known, self.rng.choice(self.shapes))
                outputs = step.outputs
            steps.append(step)
            made += outputs
        return steps, made

    def operation(self, pool: Sequence[Tensor], shape: tuple[Expr, ...]) -> Operation:
        """The minimum of two tensors, the sum of a tensor and a constant, or a sum over rows."""
        target = self.tensor(shape)
        if self.rng.random() < 0.3 and shape:
            return self.piece(pool, target) if len(shape) == 1 else self.stack(pool, target)
        same = [t for t in pool if t.shape == shape and t.dtype is DType.REAL]
        a, b = self.rng.choice(same), self.rng.choice(same)
        domain = tuple(Index(f"i{d}", e) for d, e in enumerate(shape))
        subscripts = tuple(Subscript(i) for i in domain)
        value: Expr = Binary(
            self.rng.choice(("add", "min", "sub")), Access(a, subscripts), Access(b, subscripts)
        )
        if self.rng.random() < 0.4:
            value = Binary("mul", value, Const(0.5, DType.REAL))
        bodies = [Assignment((Access(target, subscripts),), "set", (value,), domain)]
        if len(shape) == 1 and self.rng.random() < 0.4:
            wide = [t for t in pool if len(t.shape) == 2]
            k = Index("k", integer(3))
            read = Access(self.rng.choice(wide), (Subscript(k), *subscripts))
            bodies.append(Assignment((Access(target, subscripts),), "max", (read,), (*domain, k)))
        return Operation("op", (target,), tuple(bodies), ())

    def piece(self, pool: Sequence[Tensor], target: Tensor) -> Operation:
        """A row of a matrix."""
        i = Index("i", target.shape[0])
        rows = [t for t in pool if len(t.shape) == 2]
        row = Subscript(integer(self.rng.randrange(3)))
        read = Access(self.rng.choice(rows), (row, Subscript(i)))
        body = Assignment((Access(target, (Subscript(i),)),), "set", (read,), (i,))
        return Operation("piece", (target,), (body,), ())

    def stack(self, pool: Sequence[Tensor], target: Tensor) -> Operation:
        """Rows put together to a matrix."""
        rows = [t for t in pool if len(t.shape) == 1]
        bodies = []
        for k in self.rng.sample(range(3), 3):
            i = Index("i", target.shape[1])
            read = Access(self.rng.choice(rows[-4:]), (Subscript(i),))
            place = Access(target, (Subscript(integer(k)), Subscript(i)))
            bodies.append(Assignment((place,), "set", (read,), (i,)))
        return Operation("stack", (target,), tuple(bodies), ())

    def condition(self, pool: Sequence[Tensor]) -> Region:
        """Whether a number is below a limit."""
        scalars = [t for t in pool if not t.shape and t.dtype is not DType.BOOL]
        tensor = self.rng.choice(scalars)
        result = self.tensor((), DType.BOOL)
        limit = Const(self.rng.choice((-0.5, 0.5, 2.5)), DType.REAL)
        value: Expr = Access(tensor, ())
        value = Cast(DType.REAL, value) if tensor.dtype is DType.INT else value
        test = Assignment((Access(result, ()),), "set", (Binary("lt", value, limit),), ())
        return Region((Operation("test", (result,), (test,), ()),), (result,))

    def region(self, pool: Sequence[Tensor], types: Sequence[Tensor], depth: int) -> Region:
        """A region that gives tensors of these types: made in it, or from around it."""
        steps, made = self.steps(pool, depth)
        results = []
        for like in types:
            known = [t for t in (*pool, *made) if (t.dtype, t.shape) == (like.dtype, like.shape)]
            results.append(self.rng.choice(known[-4:]))
        return Region(tuple(steps), tuple(results))

    def branch(self, pool: Sequence[Tensor], depth: int) -> Branch:
        outputs = tuple(self.tensor(self.rng.choice(self.shapes)) for _ in range(2))
        conditions = tuple(self.condition(pool) for _ in range(self.rng.randint(1, 2)))
        branches = [self.region(pool, outputs, depth) for _ in range(len(conditions) + 1)]
        return Branch(outputs, conditions, tuple(branches))

    def loop(self, pool: Sequence[Tensor], depth: int) -> Loop:
        rng = self.rng
        initial = [rng.choice([t for t in pool if t.dtype is DType.REAL]) for _ in range(2)]
        if rng.random() < 0.4:  # two of one shape, which the body may swap
            initial[1] = rng.choice(
                [t for t in pool if t.shape == initial[0].shape and t.dtype is DType.REAL]
            )
        variables = [self.tensor(t.shape) for t in initial]
        outputs = [self.tensor(t.shape) for t in initial]
        most = rng.randint(0, 4)
        shape = rng.choice(self.shapes)
        packs = [t for t in pool if t.shape == shape and t.dtype is DType.REAL]
        scans = []
        if rng.random() < 0.5:
            scans = [(self.tensor(shape), tuple(rng.choice(packs) for _ in range(most)))]
        index = self.tensor((), DType.INT) if rng.random() < 0.5 else None
        numbers = [t for t in pool if t.dtype is DType.INT and not t.shape]
        from_data = rng.random() < 0.3 and bool(numbers)
        own = [*variables, *(item for item, _ in scans), *([index] if index else [])]
        inside = [*pool, *own, *own]
        result = self.tensor(rng.choice(self.shapes))
        collects = rng.random() < 0.6 and (bool(scans) or not from_data)
        types = [*initial, *([result] if collects else [])]
        body = self.region(inside, types, depth)
        collected = [tuple(self.tensor(result.shape) for _ in range(most))] if collects else []
        return Loop(
            tuple(outputs),
            tuple(collected),
            tuple(variables),
            tuple(initial),
            tuple(scans),
            body,
            rng.choice(numbers) if from_data else None if scans else integer(most),
            index,
            self.condition([*variables, *inside]) if rng.random() < 0.4 else None,
            rng.random() < 0.5,
            self.tensor((), DType.INT) if rng.random() < 0.3 else None,
        )
