"""From a checked program at a configuration to a graph.

Every statement becomes operations that compute a new tensor: the next version of its array, from
the version before it where that counts. All that a statement reads is what arrays held before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from ...diagnostics import error
from ...dtypes import DType
from ...ir import nodes as ir
from ...ir.rewrite import free_symbols
from ...records import dataclass
from . import syntax as s
from .extents import Arithmetic, Components, Range, has_slice, shape_of
from .lower_nest import MOST_AXES, Nest, make_nest, nest_over
from .lower_value import Values
from .lower_window import narrowed
from .lower_write import REDUCTIONS, Write, is_zero, operation, operations
from .program import Array, Program
from .random import Draws, numbered
from .typing import Types, program_types
from .uses import accesses, variables


def lower_program(
    program: Program,
    dims: Mapping[str, Components],
    given: Mapping[str, DType],
    wanted: Sequence[str],
    real: DType = DType.FLOAT64,
    int: DType = DType.INT32,
    shapes: Mapping[str, tuple[int, ...]] = {},
    name: str = "main",
) -> ir.Graph:
    """The graph of a program whose eintups have `dims`: numbers, or expressions of symbols.

    Its inputs are the `given` arrays, by dtype, in the program's order, and, if anything is drawn,
    a seed: one number of type uint64. Its outputs are the final values of the `wanted` arrays.
    `shapes` are those of the arrays that `needs_data` lists.
    """
    run = _Lowering(program, dims, given, real, int, shapes)
    run.run(tuple(wanted), program.file.statements)
    return run.graph(name, [ir.Port(n, (run.tensors[n],)) for n in wanted])


def needs_data(program: Program) -> tuple[Array, ...]:
    """The arrays whose shape depends on what others hold, in the program's order."""
    return tuple(a for a in program.arrays.values() if any(map(has_slice, a.signature)))


def lower_shape(
    program: Program,
    array: str,
    dims: Mapping[str, Components],
    given: Mapping[str, DType],
    real: DType = DType.FLOAT64,
    int: DType = DType.INT32,
    shapes: Mapping[str, tuple[int, ...]] = {},
    name: str = "main",
) -> ir.Graph:
    """A graph with one output, `shape`: that of an array which depends on data.

    Its inputs are as those of `lower_program`; `shapes` are those of the arrays before this one.
    """
    statements = program.file.statements
    first = program.arrays[array].first
    before = statements[: next(k for k, x in enumerate(statements) if x is first)]
    run = _Lowering(program, dims, given, real, int, shapes)
    run.run(tuple(dict.fromkeys(a.array.name for a in _indexed(first.target))), before)
    return run.graph(name, [ir.Port("shape", (run.shape(program.arrays[array]),))])


def _indexed(target: s.Access) -> Iterator[s.Access | s.Slice]:
    return (a for item in target.items for a in accesses(item))


@dataclass
class _Lowering:
    program: Program
    dims: Mapping[str, Components]
    given: Mapping[str, DType]
    real: DType
    integer: DType
    shapes: Mapping[str, tuple[int, ...]]
    types: Types = field(init=False)
    draws: Draws = field(init=False)
    tensors: dict[str, ir.Tensor] = field(default_factory=dict)
    steps: list[ir.Operation] = field(default_factory=list)
    inputs: list[ir.Port] = field(default_factory=list)
    zeros: set[str] = field(default_factory=set)
    """Arrays that hold nothing but zeros yet."""

    def __post_init__(self) -> None:
        self.types = program_types(self.program, self.given, self.real, self.integer)
        self.types.report.raise_errors()
        seed = ir.Tensor("seed", DType.UINT64, ())
        self.draws = Draws(seed, numbered(self.program.file.statements))
        for name in self.program.arrays:
            if name in self.given:
                self.tensors[name] = self._tensor(name)
                self.inputs.append(ir.Port(name, (self.tensors[name],)))

    def _tensor(self, name: str) -> ir.Tensor:
        array = self.program.arrays[name]
        known = self.shapes.get(name)
        if known is None:
            shape = shape_of(array, self.dims, self.program.arrays)
        else:
            shape = tuple(map(ir.integer, known))
        if len(shape) > MOST_AXES:
            message = f"`{name}` has {len(shape)} axes: {MOST_AXES} are the most"
            raise error("E0901", message, array.span)
        return ir.Tensor(name, self.types.arrays[name], shape, span=array.span)

    def run(self, wanted: tuple[str, ...], statements: tuple[s.Statement, ...]) -> None:
        """Carry out the statements that some arrays need."""
        for statement in self._needed(wanted, statements):
            self._statement(statement)

    def _needed(
        self, wanted: tuple[str, ...], statements: tuple[s.Statement, ...]
    ) -> list[s.Statement]:
        needed, kept = set(wanted), []
        for statement in reversed(statements):
            name = statement.target.array.name
            is_given = name in self.given and self.program.arrays[name].first is statement
            if name in needed and not is_given:
                kept.append(statement)
                needed |= {a.array.name for a in accesses(statement)}
        return kept[::-1]

    # -------------------------------------------------------------- statements

    def _statement(self, statement: s.Statement) -> None:
        name = statement.target.array.name
        before = self.tensors.get(name)
        after = self._tensor(name) if before is None else ir.Tensor(
            name, before.dtype, before.shape, span=before.span
        )  # fmt: skip
        write = self._write(statement, after)
        adds = write.reduction == "add"
        self.steps += operations(write, None if adds and name in self.zeros else before)
        self.tensors[name] = after
        self.zeros.discard(name)
        if adds and before is None and is_zero(write.line.values[0]):
            self.zeros.add(name)

    def _write(self, statement: s.Statement, after: ir.Tensor) -> Write:
        nest = make_nest(statement, self.tensors, self.dims, self.program.arrays)
        values = Values(nest, self.types, self.draws)
        value = values.value(statement.value, after.dtype)
        target = nest.access(after, statement.target)
        nest.keep_guards(target, value)
        line = ir.Assignment(
            (target,), REDUCTIONS[statement.operator], (value,), nest.domain, tuple(nest.locals),
            nest.condition(), statement.span,
        )  # fmt: skip
        return Write(narrowed(line), statement.operator)

    # ------------------------------------------------------ shapes that data gives

    def shape(self, array: Array) -> ir.Tensor:
        """The shape of an array as a tensor."""
        stored = Arithmetic(
            self.dims, self.program.arrays, lambda _: (), lambda node: self._stored(array, node)
        )
        extents = stored.all_extents(array.signature)
        result = ir.Tensor("shape", DType.INT64, (ir.integer(len(extents)),))
        body = [
            ir.Assignment(
                (ir.Access(result, (ir.Subscript(ir.integer(k)),)),),
                "set",
                (ir.Cast(DType.INT64, extent),),
                (),
            )
            for k, extent in enumerate(extents)
        ]
        self.steps.append(operation(result, body))
        return result

    def _stored(self, array: Array, node: s.Slice) -> tuple[Range, ...]:
        """The smallest and largest index that a slice stores, where it is in range."""
        first = array.first
        nest = nest_over(variables(node), first, self.tensors, self.dims, self.program.arrays)
        return tuple(
            (self._extreme(nest, value, "min"), self._extreme(nest, value, "max"))
            for value in nest.slice(node)
        )

    def _extreme(self, nest: Nest, value: ir.Expr, op: ir.Reduction) -> ir.Expr:
        tensor = ir.Tensor(op, DType.INT64, ())
        target = ir.Access(tensor, ())
        start = ir.Const(0 if op == "min" else -1, DType.INT64)
        body = [
            ir.Assignment((target,), "set", (start,), ()),
            ir.Assignment(
                (target,), op, (ir.Cast(DType.INT64, value),), nest.domain,
                condition=nest.condition(),
            ),
        ]  # fmt: skip
        self.steps.append(operation(tensor, body))
        return ir.Cast(DType.INT, target)

    # -------------------------------------------------------------------- graph

    def graph(self, name: str, outputs: list[ir.Port]) -> ir.Graph:
        inputs = list(self.inputs)
        if self.draws.used:
            inputs.append(ir.Port(self._seed_name(), (self.draws.seed,)))
        extents = [e for p in inputs for t in p.tensors for e in t.shape]
        return ir.Graph(
            name, tuple(inputs), tuple(outputs), tuple(self.steps), symbols=free_symbols(*extents)
        )

    def _seed_name(self) -> str:
        name = "seed"
        while name in self.program.arrays:
            name += "_"
        return name
