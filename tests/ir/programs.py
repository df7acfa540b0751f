"""Random programs for differential tests: every executor must agree on them.

`random_program(seed)` gives a graph and arguments. The programs cover nested and gathered
subscripts, guards, remaps, conditions, selects that avoid an access, locals, all reductions,
updates that read their target, several targets, and several dtypes. All sizes are small.

Real inputs are multiples of 1/4, and comparisons and roundings apply only to what can be computed
from them exactly in any precision, so executors may differ by rounding but never take
different branches. Integers stay small enough not to overflow in 32 bits, save in 8-bit
tensors, which wrap. Nothing divides by zero and nothing is out of range, unless
`faults=True`, which drops some boundary rules: then an executor must give the same results, or
E0802 where `brute.evaluate` gives it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

from ricci.dtypes import DType
from ricci.ir import shapes
from ricci.ir.functions import ARITY
from ricci.ir.nodes import (
    Access,
    Apply,
    Assignment,
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Function,
    Graph,
    Index,
    Local,
    Operation,
    Port,
    Reduction,
    Remap,
    Select,
    Skip,
    Subscript,
    Symbol,
    Tensor,
    Unary,
    integer,
)

REALS = (DType.REAL, DType.REAL, DType.REAL, DType.FLOAT32)
INTS = (DType.INT, DType.INT, DType.INT8, DType.UINT8, DType.INT32)


@dataclass(frozen=True)
class Program:
    """A graph with arguments: `inputs` by port name."""

    seed: int
    graph: Graph
    inputs: dict[str, np.ndarray]


def random_program(
    seed: int, *, dynamic: bool = False, faults: bool = False, bound: int = 6
) -> Program:
    """A program that depends on the seed alone.

    With `dynamic` an extent is a symbol, with that bound. With `faults` indices may be out of range
    at run time.
    """
    return _Maker(seed, dynamic, faults, bound).program()


def arguments(graph: Graph, size: int, seed: int) -> dict[str, np.ndarray]:
    """Arguments of a graph for a size of its symbols."""
    rng = random.Random(seed)
    tensors = [t for port in graph.inputs for t in port.tensors]
    return {t.name: _array(t, dict.fromkeys(graph.symbols, size), rng) for t in tensors}


def _array(tensor: Tensor, sizes: dict[Symbol, int], random: random.Random) -> np.ndarray:
    rng = np.random.default_rng(random.randrange(2**32))
    shape = [shapes.evaluate(e, sizes) for e in tensor.shape]
    if tensor.dtype is DType.BOOL:
        return np.asarray(rng.random(shape) < 0.5)
    if tensor.dtype.is_real:
        return np.asarray(rng.integers(-8, 9, shape) / 4, _concrete(tensor.dtype))
    low = 0 if tensor.dtype is DType.UINT8 or tensor.name == "where" else -4
    return np.asarray(rng.integers(low, 5, shape)).astype(_concrete(tensor.dtype))


def _concrete(dtype: DType) -> np.dtype:
    return np.dtype({"real": "float64", "int": "int64"}.get(dtype.value, dtype.value))


class _Maker:
    def __init__(self, seed: int, dynamic: bool, faults: bool, bound: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.faults = faults
        self.symbols = (Symbol("n", integer(bound)),) if dynamic else ()
        self.sizes = {s: self.rng.randint(1, 6) for s in self.symbols}
        self.tensors: list[Tensor] = []
        self.indices: tuple[Index, ...] = ()
        self.locals: list[Local] = []

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # ---------------------------------------------------------------- program

    def program(self) -> Program:
        inputs = [self.tensor(f"x{k}", self.dtype()) for k in range(self.rng.randint(2, 4))]
        inputs.append(self.tensor("where", DType.INT, rank=1))
        if self.symbols:
            inputs.append(Tensor("sized", DType.REAL, (self.symbols[0],)))
        self.tensors = list(inputs)
        operations = tuple(self.operation(k) for k in range(self.rng.randint(1, 3)))
        outputs = [t for op in operations for t in op.outputs]
        graph = Graph(
            f"seed{self.seed}",
            tuple(Port(t.name, (t,)) for t in inputs),
            tuple(Port(t.name, (t,)) for t in outputs),
            operations,
            symbols=self.symbols,
        )
        arrays = {t.name: _array(t, self.sizes, self.rng) for t in inputs}
        return Program(self.seed, graph, arrays)

    def dtype(self) -> DType:
        kinds = (self.rng.choice(REALS), self.rng.choice(REALS), self.rng.choice(INTS), DType.BOOL)
        return self.rng.choice(kinds)

    def tensor(self, name: str, dtype: DType, rank: int | None = None) -> Tensor:
        rank = self.rng.choice((0, 1, 1, 2, 2, 3)) if rank is None else rank
        return Tensor(name, dtype, tuple(self.extent() for _ in range(rank)))

    def extent(self) -> Expr:
        if self.symbols and self.chance(0.4):
            n = self.symbols[0]
            return self.rng.choice((n, shapes.add(n, integer(2)), shapes.mul(n, integer(2))))
        return integer(self.rng.choice((1, 2, 3, 3, 4, 5, 8, 9)))

    # ------------------------------------------------------------- operations

    def operation(self, number: int) -> Operation:
        count = 2 if self.chance(0.2) else 1
        first = self.tensor(f"y{number}", self.dtype())
        outputs = [first]
        for k in range(1, count):
            outputs.append(Tensor(f"y{number}_{k}", self.dtype(), first.shape))
        body = [a for a in (self.initial(t) for t in outputs) if a is not None]
        if count == 2:
            body.append(self.statement(outputs, self.rng.choice(("update", "set"))))
        else:
            for _ in range(self.rng.randint(0, 2)):
                body.append(self.statement(outputs, self.reduction(first.dtype)))
        read = tuple(self.tensors)
        self.tensors += outputs
        return Operation(f"op{number}", tuple(outputs), tuple(body), read)

    def reduction(self, dtype: DType) -> Reduction:
        if dtype is DType.BOOL:
            return self.rng.choice(("and", "or", "update"))
        return self.rng.choice(("add", "add", "add", "mul", "min", "max", "update"))

    def initial(self, output: Tensor) -> Assignment | None:
        if self.chance(0.15):
            return None
        self.indices = tuple(Index(f"i{k}", e) for k, e in enumerate(output.shape))
        target = Access(output, tuple(Subscript(i) for i in self.indices))
        value = self.value(output.dtype, self.rng.randint(1, 3))
        return Assignment((target,), "set", (value,), self.indices)

    def statement(self, outputs: list[Tensor], op: Reduction) -> Assignment:
        """A statement with indices for the dimensions of the output and further ones."""
        own = [Index(f"i{k}", e) for k, e in enumerate(outputs[0].shape)]
        more = [Index(n, integer(self.rng.randint(1, 4))) for n in "jk"[: self.rng.randint(0, 2)]]
        domain = own + more
        if op == "set":
            more, domain = [], own
        else:
            self.rng.shuffle(domain)
        self.indices = tuple(domain)
        self.locals = []
        if op == "update" and self.chance(0.5):
            self.tensors += outputs
        for name in ("t", "u")[: self.rng.choice((0, 0, 1, 2))]:
            self.locals.append(Local(name, self.value(self.dtype(), 2)))
        plain = op == "set" or self.chance(0.5)
        targets = tuple(
            Access(t, tuple(self.target(i, e, plain) for i, e in zip(own, t.shape, strict=True)))
            for t in outputs
        )
        depth = 1 if op == "mul" else self.rng.randint(1, 3)
        if op == "add" and self.chance(0.4) and outputs[0].dtype.is_numeric:
            values = tuple(self.product(t.dtype) for t in outputs)
        else:
            values = tuple(self.value(t.dtype, depth) for t in outputs)
        if op == "update" and self.chance(0.4):
            values = (self.running(outputs[0], values[0]), *values[1:])
        condition = self.condition(1) if self.chance(0.25) else None
        if op == "set":
            condition = None
        self.tensors = [t for t in self.tensors if t not in outputs]
        found = tuple(self.locals)
        self.locals = []
        return Assignment(targets, op, values, self.indices, found, condition)

    def target(self, index: Index, extent: Expr, plain: bool) -> Subscript:
        """A subscript of a target: its own index, or anything in range."""
        return Subscript(index) if plain or self.chance(0.4) else self.subscript(extent)

    # ------------------------------------------------------------ expressions

    def value(self, dtype: DType, depth: int) -> Expr:
        """A value for a target: an exact one, or a smooth function of exact ones."""
        exact = self.scalar(dtype, depth)
        if dtype.is_real and self.chance(0.25):
            function: Function = self.rng.choice(("sin", "tanh", "exp", "erf", "atan"))
            return Apply(function, (exact,))
        if dtype is DType.REAL and self.chance(0.15):
            divisor = Binary("add", Apply("abs", (self.scalar(dtype, 1),)), self.literal(dtype, 1))
            return Binary("div", exact, divisor)
        return exact

    def running(self, output: Tensor, value: Expr) -> Expr:
        """A value that depends on what the output holds by now."""
        read = self.access(output)
        if output.dtype is DType.BOOL:
            return Binary("xor", read, value)
        op: BinaryOp = self.rng.choice(("add", "sub", "max"))
        return Binary(op, read, value)

    def product(self, dtype: DType) -> Expr:
        """A product of two accesses: what executors have templates for."""
        factors = [self.leaf(dtype), self.leaf(dtype)]
        return Binary("mul", *factors)

    def scalar(self, dtype: DType, depth: int) -> Expr:
        if dtype is DType.BOOL:
            return self.condition(depth)
        if depth <= 0 or self.chance(0.15):
            return self.leaf(dtype)
        kind = self.rng.random()
        if kind < 0.1:
            return Unary("neg", self.scalar(dtype, depth - 1))
        if kind < 0.25:
            return self.chosen(dtype, depth)
        if kind < 0.35:
            return self.converted(dtype)
        if kind < 0.45:
            names: tuple[Function, ...] = ("abs", "sign")
            names += ("floor", "ceil", "round", "fdim", "fma") if dtype.is_real else ()
            name = self.rng.choice(names)
            return Apply(name, tuple(self.leaf(dtype) for _ in range(ARITY[name])))
        if kind < 0.6 and dtype.is_int:
            return self.quotient(dtype, depth)
        op: BinaryOp = self.rng.choice(("add", "sub", "mul", "min", "max"))
        return Binary(op, self.scalar(dtype, depth - 1), self.leaf(dtype))

    def quotient(self, dtype: DType, depth: int) -> Expr:
        op: BinaryOp = self.rng.choice(("floordiv", "ceildiv", "mod", "pow"))
        if op == "pow":
            return Binary(op, self.leaf(dtype), self.literal(dtype, self.rng.randint(0, 3)))
        divisors = (1, 2, 3, 5) if dtype is DType.UINT8 else (1, 2, 3, 5, -2, -3)
        divisor: Expr = self.literal(dtype, self.rng.choice(divisors))
        if self.chance(0.3):
            one = self.literal(dtype, 1)
            read = self.leaf(dtype)
            divisor = Select(Binary("eq", read, self.literal(dtype, 0)), one, read)
        return Binary(op, self.scalar(dtype, depth - 1), divisor)

    def chosen(self, dtype: DType, depth: int) -> Expr:
        """A select; sometimes one that keeps an access in range."""
        if self.indices and self.chance(0.5):
            found = self.readable(dtype, least=1)
            if found:
                tensor = self.rng.choice(found)
                index = self.affine()
                inside = Binary(
                    "and",
                    Binary("ge", index, integer(0)),
                    Binary("lt", index, tensor.shape[0]),
                )
                rest = tuple(self.subscript(e, guards=False) for e in tensor.shape[1:])
                read = Access(tensor, (Subscript(index), *rest))
                return Select(inside, read, self.scalar(dtype, depth - 1))
        sides = self.scalar(dtype, depth - 1), self.leaf(dtype)
        return Select(self.condition(depth - 1), *sides)

    def converted(self, dtype: DType) -> Expr:
        others = [t for t in self.tensors if t.dtype is not dtype]
        if others:
            tensor = self.rng.choice(others)
            if not (dtype is DType.UINT8 and tensor.dtype.is_real):
                return Cast(dtype, self.access(tensor))
        if self.indices:
            return Cast(dtype, self.affine()) if dtype is not DType.INT else self.affine()
        return self.leaf(dtype)

    def condition(self, depth: int) -> Expr:
        if depth > 0 and self.chance(0.3):
            op: BinaryOp = self.rng.choice(("and", "or", "xor"))
            return Binary(op, self.condition(depth - 1), self.condition(0))
        if self.chance(0.15):
            return Unary("not", self.condition(depth - 1)) if depth > 0 else self.leaf(DType.BOOL)
        if self.chance(0.2):
            return self.leaf(DType.BOOL)
        compared: BinaryOp = self.rng.choice(("lt", "le", "gt", "ge", "eq", "ne"))
        if self.indices and self.chance(0.4):
            return Binary(compared, self.affine(), integer(self.rng.randint(-1, 4)))
        dtype = self.rng.choice((DType.REAL, DType.INT))
        return Binary(compared, self.leaf(dtype), self.leaf(dtype))

    def leaf(self, dtype: DType) -> Expr:
        """An access, a local or a literal."""
        exact = [x for x in self.locals if x.dtype is dtype and not _is_rounded(x.value)]
        if exact and self.chance(0.3):
            return self.rng.choice(exact)
        found = self.readable(dtype)
        if found and self.chance(0.8):
            return self.access(self.rng.choice(found))
        return self.literal(dtype, self.rng.randint(0, 4))

    def readable(self, dtype: DType, least: int = 0) -> list[Tensor]:
        """Tensors whose elements are exact: inputs, and ints and bools of any origin."""
        return [
            t
            for t in self.tensors
            if t.dtype is dtype and t.rank >= least and (t.name[0] != "y" or not dtype.is_real)
            and not (dtype is DType.INT and t.name[0] == "y")
        ]  # fmt: skip

    @staticmethod
    def literal(dtype: DType, value: int) -> Const:
        if dtype is DType.BOOL:
            return Const(value % 2 == 0, dtype)
        return Const(value / 2 if dtype.is_real else value, dtype)

    # ---------------------------------------------------------------- accesses

    def access(self, tensor: Tensor) -> Access:
        return Access(tensor, tuple(self.subscript(e) for e in tensor.shape))

    def affine(self) -> Expr:
        """A sum of some indices with small factors."""
        expr: Expr = integer(self.rng.choice((0, 0, 0, 1, -1, 2)))
        for index in self.rng.sample(self.indices, min(len(self.indices), self.rng.randint(1, 2))):
            term: Expr = index
            if self.chance(0.3):
                term = Binary("mul", integer(self.rng.choice((2, 3, -1))), index)
            expr = term if expr == integer(0) else Binary("add", term, expr)
        return expr

    def subscript(self, extent: Expr, guards: bool = True) -> Subscript:
        """A subscript of a dimension, certainly in range or with a rule."""
        fitting = [i for i in self.indices if shapes.less_equal(i.extent, extent)]
        if fitting and self.chance(0.5):
            return Subscript(self.rng.choice(fitting))
        index = self.index_expr()
        low, high = shapes.interval(shapes.sub(extent, index))[0], shapes.interval(index)[0]
        if (low >= 1 and high >= 0) or (self.faults and self.chance(0.4)):
            return Subscript(index)
        if guards and self.chance(0.6):
            return Subscript(index, Skip())
        if self.chance(0.5):
            last = shapes.sub(extent, integer(1))
            return Subscript(index, Remap(integer(0), last))
        return Subscript(shapes.mod(index, extent) if self.chance(0.5) else integer(0))

    def index_expr(self) -> Expr:
        kind = self.rng.random()
        where = next(t for t in self.tensors if t.name == "where")
        if kind < 0.2:
            inner = [i for i in self.indices if shapes.less_equal(i.extent, where.shape[0])]
            position: Expr = self.rng.choice(inner) if inner else integer(0)
            read: Expr = Access(where, (Subscript(position),))
            if self.indices and self.chance(0.3):
                return Binary("add", read, self.rng.choice(self.indices))
            return read
        if not self.indices:
            return integer(self.rng.randint(0, 2))
        if kind < 0.35:
            op: BinaryOp = self.rng.choice(("floordiv", "mod", "ceildiv"))
            return Binary(op, self.affine(), integer(self.rng.choice((2, 3))))
        if kind < 0.45:
            op = self.rng.choice(("min", "max"))
            return Binary(op, self.affine(), integer(self.rng.randint(0, 3)))
        return self.affine()


def _is_rounded(value: Expr) -> bool:
    """Whether a value of `_Maker.value` is not exact."""
    if isinstance(value, Apply):
        return value.function in ("sin", "tanh", "exp", "erf", "atan")
    return isinstance(value, Binary) and value.op == "div"


def without_operation(program: Program, number: int) -> Program:
    """The program with one operation and its outputs left out, to shrink a failure; the
    operation must not be read by others."""
    graph = program.graph
    gone = graph.operations[number]
    assert isinstance(gone, Operation)
    kept = tuple(op for op in graph.operations if op is not gone)
    outputs = tuple(p for p in graph.outputs if p.tensors[0] not in gone.outputs)
    return replace(program, graph=replace(graph, operations=kept, outputs=outputs))
