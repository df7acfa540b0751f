"""What a C program sees of a graph: its sizes, inputs, outputs and variables, by names of C."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..backends.llvm.image import info
from ..dtypes import DType
from ..ir.interpret_bind import hidden_ports
from ..ir.nodes import Expr, Graph, Port, Symbol, Tensor
from ..ir.rewrite import Replaceable, free_symbols, substitute
from ..ir.shapes import interval
from ..ir.text_print import format_expr
from ..records import dataclass
from .names import Names

C_TYPES = {
    DType.BOOL: "bool",
    DType.FLOAT16: "uint16_t",
    DType.BFLOAT16: "uint16_t",
    DType.FLOAT32: "float",
    DType.FLOAT64: "double",
    **{d: f"{d.value}_t" for d in DType if d.is_int and not d.is_abstract},
}


@dataclass(frozen=True, slots=True)
class Item:
    """An array: its shape as text, its extents at most, and whether it has others at times."""

    dtype: DType
    shape: tuple[str, ...]
    largest: tuple[int, ...]
    varies: bool

    @property
    def count(self) -> int:
        """Elements at most."""
        return math.prod(self.largest)

    @property
    def bytes(self) -> int:
        return self.count * self.dtype.numpy().itemsize


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input or output. `first` is the number of its first tensor, `length` that of the tensor
    with its length."""

    title: str
    """As the program calls it."""
    name: str
    items: tuple[Item, ...]
    packed: bool
    first: int
    count: str = ""
    """The name of the argument with the length of the pack, if that is open."""
    length: int = -1
    shape: str = ""
    """The name of the argument that the shape is written to, of results whose shape varies."""

    @property
    def c_type(self) -> str:
        return C_TYPES[self.items[0].dtype]

    @property
    def rank(self) -> int:
        return len(self.items[0].shape)


@dataclass(frozen=True, slots=True)
class SizeParameter:
    """An open size, from 0 to a bound."""

    title: str
    name: str
    bound: str
    most: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that calls change."""

    title: str
    item: Item


@dataclass(frozen=True)
class Interface:
    """A graph of concrete dtypes as C sees it."""

    sizes: tuple[SizeParameter, ...]
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    variables: tuple[Variable, ...]


_TAKEN = ("model", "code", "argc", "argv", "main", "array", "draw", "given", "show")
"""Names that header and example use."""


def describe(graph: Graph, states: Sequence[Tensor]) -> Interface:
    """The interface of a specialised graph; `states` are the variables that calls change."""
    names = Names(_TAKEN)
    called = {s: names.new(s.name) for s in (*graph.symbols, *(s for s, _ in graph.sizes))}
    shown = _Shown({s: Symbol(name, s.bound) for s, name in called.items()})
    sizes = tuple(
        SizeParameter(s.name, called[s], shown.text(s.bound), int(interval(s.bound)[1]))
        for s in graph.symbols
        if s.bound is not None
    )
    inputs = _parameters(graph.inputs, names, shown, "")
    outputs = _parameters(graph.outputs, names, shown, "_shape")
    variables = tuple(Variable(t.name, shown.item(t)) for t in states)
    return Interface(sizes, inputs, outputs, variables)


@dataclass(frozen=True, slots=True)
class _Shown:
    """How extents are shown: with the names of sizes in C."""

    sizes: Mapping[Symbol, Symbol]

    def text(self, extent: Expr) -> str:
        known: dict[Replaceable, Expr | Tensor] = dict(self.sizes.items())
        return format_expr(substitute(extent, known))

    def item(self, tensor: Tensor) -> Item:
        shape = tuple(map(self.text, tensor.shape))
        return Item(tensor.dtype, shape, info(tensor).shape, bool(free_symbols(*tensor.shape)))


def _parameters(
    ports: Sequence[Port], names: Names, shown: _Shown, suffix: str
) -> tuple[Parameter, ...]:
    hidden, lengths, first = hidden_ports(ports), _lengths(ports), 0
    out = []
    for port in ports:
        start, first = first, first + len(port.tensors)
        if port in hidden or not port.tensors:
            continue
        name = names.new(port.name)
        items = tuple(map(shown.item, port.tensors))
        varies = bool(suffix) and any(i.varies for i in items)
        out.append(
            Parameter(
                port.name,
                name,
                items,
                port.packed,
                start,
                "" if port.length is None else names.new(f"{name}_count"),
                -1 if port.length is None else lengths[port.length],
                names.new(name + suffix) if varies else "",
            )
        )
    return tuple(out)


def _lengths(ports: Sequence[Port]) -> dict[Tensor, int]:
    """The numbers of tensors that are lengths of packs, where callers do not see them."""
    hidden = hidden_ports(ports)
    tensors = [(p, t) for p in ports for t in p.tensors]
    return {t: number for number, (port, t) in enumerate(tensors) if port in hidden}
