"""Assignments of the IR as an operator with formulas (specification 2.12).

Every tensor that they read or write is a parameter of the operator with the shape that it has;
sizes known only at run time are symbols of these shapes, or else attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...dtypes import DType
from ...ir import nodes, rewrite
from ...records import dataclass, replace
from . import syntax as s
from .parser import children
from .unparse_expressions import (
    Named,
    Namer,
    constant,
    integer,
    type_name,
    unparse,
    unsayable,
    with_blocks,
)
from .unparse_merge import Merger

ACCUMULATORS: dict[nodes.Reduction, str] = {
    "set": "=", "add": "+=", "mul": "*=", "min": "<=", "max": ">=", "and": "&=", "or": "|=",
    "update": ":=",
}  # fmt: skip


@dataclass(frozen=True)
class Formula:
    """An operator, and what it is invoked with."""

    operator: s.Operator
    """Without a name."""
    inputs: tuple[nodes.Tensor | tuple[nodes.Tensor, ...], ...]
    outputs: tuple[nodes.Tensor | tuple[nodes.Tensor, ...], ...]
    symbols: tuple[tuple[str, nodes.Symbol], ...]
    """The attributes, with the sizes that they are given."""
    sizes: Mapping[Named, s.Expr]
    """What the operator calls the sizes in it."""


@dataclass(frozen=True)
class Inputs:
    """What an operation reads, in the order in which it is shown, and what of it are packs."""

    tensors: tuple[nodes.Tensor, ...]
    lengths: Lengths


Lengths = Mapping[tuple[nodes.Tensor, ...], nodes.Symbol]
"""The packs whose length is known only at run time."""


Run = list[nodes.Assignment]
"""Lines of one output, or pack of outputs, with the same accumulator."""


# ------------------------------------------------------------------------ operators


class OperatorWriter:
    """Makes an operator of lines for its outputs, single ones and packs."""

    def __init__(
        self,
        slots: Sequence[tuple[tuple[nodes.Tensor, ...], list[Run]]],
        inputs: Inputs,
    ) -> None:
        self.slots = slots
        self.order = {tensor: number for number, tensor in enumerate(inputs.tensors)}
        self.lengths = inputs.lengths
        self.namer = Namer()
        self.names: dict[Named, s.Expr] = {}
        self.inputs: dict[str, nodes.Tensor] = {}
        self.packs: dict[str, tuple[nodes.Tensor, ...]] = {}
        self.symbols: dict[str, nodes.Symbol] = {}
        self.using: list[s.Using] = []

    def formula(self) -> Formula:
        lines = [line for _, runs in self.slots for run in runs for line in run]
        outputs = self._name_outputs()
        self._name_inputs(lines)
        self._name_symbols(lines)
        lower = tuple([self._line(run) for _, runs in self.slots for run in runs])
        read = {n.name for line in lower for n in all_nodes(line) if isinstance(n, s.Name)}
        inputs = [self._parameter(n, (t,), None) for n, t in self.inputs.items() if n in read]
        inputs += [self._parameter(n, ts, len(ts)) for n, ts in self.packs.items() if n in read]
        results = [
            self._parameter(name, tensors, len(tensors) if tensors[1:] else None)
            for name, (tensors, _) in zip(outputs, self.slots, strict=True)
        ]
        operator = s.Operator(
            "", inputs=tuple(inputs), outputs=tuple(results), using=tuple(self.using), lower=lower
        )
        return self._finish(operator, read)

    def _finish(self, operator: s.Operator, read: set[str]) -> Formula:
        """The operator with attributes for the sizes that no shape tells."""
        told = {
            size.name
            for p in operator.inputs
            for size in _sizes_told(p.type)
            if isinstance(size, s.Name)
        }
        used = {n.name for n in all_nodes(operator) if isinstance(n, s.Name)}
        symbols = tuple([(n, x) for n, x in self.symbols.items() if n in used - told])
        attributes = tuple([s.Parameter(n, s.Type("int")) for n, _ in symbols])
        return Formula(
            with_blocks(replace(operator, attributes=attributes)),
            (
                *(t for n, t in self.inputs.items() if n in read),
                *(ts for n, ts in self.packs.items() if n in read),
            ),
            tuple([ts if ts[1:] else ts[0] for ts, _ in self.slots]),
            symbols,
            {x: s.Name(name) for name, x in self.symbols.items() if name in used},
        )

    # -------------------------------------------------------------------------- names

    def _name_outputs(self) -> list[str]:
        found = []
        for number, (tensors, _) in enumerate(self.slots):
            wanted = "ys" if tensors[1:] else "y"
            name = self.namer(wanted if len(self.slots) == 1 else f"{wanted}{number + 1}")
            for position, tensor in enumerate(tensors):
                at: s.Expr = s.Name(name)
                self.names[tensor] = s.Subscript(at, integer(position)) if tensors[1:] else at
            found.append(name)
        return found

    def _name_inputs(self, lines: Sequence[nodes.Assignment]) -> None:
        read: dict[nodes.Tensor, None] = {}
        for line in lines:
            for access in rewrite.accesses(*rewrite.expressions(line)):
                if access.tensor not in self.names:
                    read[access.tensor] = None
        ordered = sorted(read, key=lambda t: self.order.get(t, len(self.order)))
        for number, tensor in enumerate(ordered):
            name = self.namer("x" if len(read) == 1 else f"x{number + 1}")
            self.names[tensor] = s.Name(name)
            self.inputs[name] = tensor

    def _name_symbols(self, lines: Sequence[nodes.Assignment]) -> None:
        exprs = [e for tensor in self.inputs.values() for e in tensor.shape]
        exprs += [e for tensors, _ in self.slots for t in tensors for e in t.shape]
        for line in lines:
            exprs += [*rewrite.expressions(line), *(i.extent for i in line.domain)]
        exprs += [x for pack, x in self.lengths.items() if self.order.keys() & set(pack)]
        for symbol in rewrite.free_symbols(*exprs):
            name = self.namer(symbol.name.rpartition(".")[2])
            self.names[symbol] = s.Name(name)
            self.symbols[name] = symbol

    # --------------------------------------------------------------------- parameters

    def _parameter(
        self, name: str, tensors: tuple[nodes.Tensor, ...], count: int | None
    ) -> s.Parameter:
        columns = zip(*(t.shape for t in tensors), strict=True)
        shape = tuple([self._extent(name, column) for column in columns])
        pack = None if count is None else s.Pack(integer(count))
        if tensors in self.lengths:
            pack = s.Pack(self.names[self.lengths[tensors]])
        return s.Parameter(name, s.Type(type_name(tensors[0].dtype), shape=shape, pack=pack))

    def _extent(self, name: str, column: Sequence[nodes.Expr]) -> s.Extent:
        """An extent of one tensor, or of all in a pack; one for each where they differ."""
        sizes = [unparse(e, self.names) for e in column]
        if all(size == sizes[0] for size in sizes):
            return s.Extent(sizes[0])
        own = self.namer("n")
        if name not in self.packs:
            self.using.append(s.Using((s.UsingName(own),), s.List(tuple(sizes)), False))
        return s.Extent(s.Name(own), distinct=True)

    def _pack(self, names: Sequence[str]) -> str | None:
        """A pack of inputs, if they are of one type and have as many dimensions each."""
        tensors = tuple([self.inputs[n] for n in names if n in self.inputs])
        kinds = {(t.dtype, t.rank) for t in tensors}
        if len(tensors) < len(names) or len(kinds) > 1:
            return None
        known = next((n for n, found in self.packs.items() if found == tensors), None)
        if known is None:
            known = self.namer("xs")
            self.packs[known] = tensors
        return known

    # -------------------------------------------------------------------------- lines

    def _line(self, run: Run) -> s.Lowering:
        """The lines of a run as one, which is unrolled if they are several."""
        namer = Namer(self.namer.taken)
        width = max(len(line.domain) for line in run)
        widest = next(line for line in run if len(line.domain) == width)
        indices = [namer(index.name) for index in widest.domain]
        locals = [namer(local.name) for local in run[0].locals]
        conditional = any(line.condition is not None for line in run)
        lines = [self._lowering(line, indices, locals, conditional) for line in run]
        if len(lines) == 1:
            return lines[0]
        merged = Merger(namer("k"), self._pack).lines(lines)
        return self._with_length(merged, len(lines))

    def _with_length(self, line: s.Lowering, count: int) -> s.Lowering:
        """An unrolled line with the length of the pack that it goes through, where data defines
        that."""
        assert line.unroll is not None
        for name, tensors in self.packs.items():
            here = any(isinstance(n, s.Name) and n.name == name for n in all_nodes(line))
            if here and tensors in self.lengths and len(tensors) == count:
                length = self.names[self.lengths[tensors]]
                return replace(line, unroll=replace(line.unroll, count=length))
        return line

    def _lowering(
        self, line: nodes.Assignment, indices: list[str], locals: list[str], conditional: bool
    ) -> s.Lowering:
        names = dict(self.names)
        names.update((i, s.Name(n)) for i, n in zip(line.domain, indices, strict=False))
        values = []
        for local, name in zip(line.locals, locals, strict=True):
            values.append(s.LocalValue(name, unparse(local.value, names)))
            names[local] = s.Name(name)
        extents = [unparse(i.extent, names) for i in line.domain]
        extents += [integer(1)] * (len(indices) - len(extents))
        condition: s.Expr | None = None
        if line.condition is not None:
            condition = unparse(line.condition, names)
        elif conditional:
            condition = constant(True, DType.BOOL)
        return s.Lowering(
            None,
            tuple(values),
            self._target(line, names),
            ACCUMULATORS[line.op],
            _all_or_one([unparse(v, names) for v in line.values]),
            tuple([s.Bound(n, e) for n, e in zip(indices, extents, strict=True)]),
            condition,
        )

    def _target(self, line: nodes.Assignment, names: dict[Named, s.Expr]) -> s.Expr:
        """The element that is written, or those of all tensors of a pack at once."""
        accesses = [unparse(target, names) for target in line.targets]
        first = accesses[0]
        assert isinstance(first, s.Access)
        if len(accesses) == 1:
            return first
        whole = next(ts for ts, _ in self.slots if line.targets[0].tensor in ts)
        if tuple(t.tensor for t in line.targets) != whole or len({t.dtype for t in whole}) > 1:
            raise unsayable("an assignment to several tensors at once that are not one pack")
        if len({t.rank for t in whole}) > 1:
            raise unsayable("an assignment to tensors of different ranks at once")
        assert isinstance(first.tensor, s.Subscript)
        columns = zip(*(a.indices for a in accesses if isinstance(a, s.Access)), strict=True)
        return s.Access(first.tensor.pack, tuple([_all_or_one(list(c)) for c in columns]))


def _sizes_told(type: s.Type) -> list[s.Expr | None]:
    """The extents of a declared shape, and the length of a pack."""
    return [*(e.size for e in type.shape or ()), type.pack.length if type.pack else None]


def all_nodes(root: s.Node) -> Iterator[s.Node]:
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += children(node)


def _all_or_one(items: list[s.Expr]) -> s.Expr:
    """The only item there is, or a list."""
    return items[0] if all(item == items[0] for item in items) else s.List(tuple(items))
