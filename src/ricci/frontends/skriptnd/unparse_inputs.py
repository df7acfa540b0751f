"""The inputs of a graph as declarations, with the sizes that their shapes define (2.6)."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence

from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...ir.interpret_bind import hidden_ports
from ...records import replace
from . import syntax as s
from .unparse_expressions import Named, Namer, constant, integer, type_name, unparse, unsayable


class InputWriter:
    """Declares the inputs of a graph; sizes, and tensors, get their names on the way."""

    def __init__(
        self, graph: nodes.Graph, namer: Namer, names: MutableMapping[Named, s.Expr]
    ) -> None:
        self.graph = graph
        self.namer = namer
        self.names = names
        hidden = hidden_ports(graph.inputs)
        self.ports = [p for p in graph.inputs if p not in hidden]
        self.optional = [p for p in self.ports if p.optional and p.tensors]
        self.attributes: list[s.Parameter] = []
        """Sizes without bound; extents of the items of packs, which no shape can list."""
        self.bounds: dict[tuple[str, int], s.Extent] = {}
        """The extents that define sizes, by input and dimension."""

    def parameters(self) -> tuple[s.Parameter, ...]:
        for symbol in self.graph.symbols:
            if symbol.bound is None:
                self.names[symbol] = s.Name(self._name(symbol))
                self.attributes.append(s.Parameter(self._name_of(symbol), s.Type("int")))
        for port in self.ports:
            for axis, column in enumerate(_columns(port)):
                self._define(port, axis, column)
        for port in self.ports:
            for axis, column in enumerate(_columns(port)):
                self._solve(port, axis, column[0])
        return tuple([self._parameter(port) for port in self.ports])

    # ------------------------------------------------------------------------- sizes

    def _define(self, port: nodes.Port, axis: int, column: Sequence[nodes.Expr]) -> None:
        """A size that is itself an extent, or one for each tensor of a pack."""
        symbols = [e for e in column if isinstance(e, nodes.Symbol)]
        first = symbols[0] if symbols else None
        if first is None or len(symbols) < len(column) or any(x in self.names for x in symbols):
            return
        if all(x is first for x in symbols):
            self.names[first] = s.Name(self._name(first))
            extent = s.Extent(self.names[first], bound=integer(_bound(first)))
        elif len({_bound(x) for x in symbols}) == 1 and len(set(symbols)) == len(symbols):
            own = s.Name(self._name(first, "_1"))
            if port.length is None:  # else an item may not be there
                self.names.update((x, s.Subscript(own, integer(k))) for k, x in enumerate(symbols))
            extent = s.Extent(own, distinct=True, bound=integer(_bound(first)))
        else:
            return
        self.bounds[port.name, axis] = extent

    def _solve(self, port: nodes.Port, axis: int, extent: nodes.Expr) -> None:
        """A size of which an extent is a multiple, or more by a constant."""
        found = rewrite.free_symbols(extent)
        new = [x for x in found if x not in self.names]
        if (port.name, axis) in self.bounds or len(new) != 1 or len(found) > 1:
            return
        (symbol,) = new
        self.names[symbol] = s.Name(self._name(symbol))
        most = shapes.evaluate(extent, {symbol: _bound(symbol)})
        self.bounds[port.name, axis] = s.Extent(unparse(extent, self.names), bound=integer(most))

    def _name_of(self, symbol: nodes.Symbol) -> str:
        name = self.names[symbol]
        assert isinstance(name, s.Name)
        return name.name

    def _name(self, symbol: nodes.Symbol, number: str = "") -> str:
        """A name for a size, without the number that the first size of a pack has."""
        plain = symbol.name.removesuffix(number).lstrip(".").partition("[")[0]
        plain = plain.replace(".shape", "_extent")
        return self.namer(plain.lower() if symbol.name.startswith(".") else plain)

    # ----------------------------------------------------------------- optional inputs

    def using(self) -> tuple[s.Using, ...]:
        """Names for the sizes that only optional inputs define, which may be null elsewhere."""
        required = {x for p in self.ports if not p.optional for x in self._sizes(p)}
        lines: dict[str, s.Using] = {}
        for symbol in dict.fromkeys(x for p in self.optional for x in self._sizes(p)):
            name = self.names[symbol]
            own = name.pack if isinstance(name, s.Subscript) else name
            if symbol in required or not isinstance(own, s.Name):
                continue
            if own.name not in lines:
                given = s.UsingName(self.namer(f"{own.name}_given"))
                none = s.List((integer(0),)) if own is not name else integer(0)
                lines[own.name] = s.Using((given,), s.Coalesce(own, none), False)
            (known,) = lines[own.name].items
            assert isinstance(known, s.UsingName)
            new = s.Name(known.name)
            self.names[symbol] = replace(name, pack=new) if isinstance(name, s.Subscript) else new
        return tuple(lines.values())

    def _sizes(self, port: nodes.Port) -> tuple[nodes.Symbol, ...]:
        """The sizes that the shapes and the length of an input define."""
        found = rewrite.free_symbols(*(e for t in port.tensors for e in t.shape))
        return (*found, *(x for x, t in self.graph.sizes if t is port.length))

    def present(self) -> Iterator[tuple[nodes.Port, s.Assertion, s.Expr]]:
        """For each optional input that is there, an assert of that, and what it is then."""
        for port in self.optional:
            message = f"the graph was composed with input `{port.name}`"
            given = s.Name(port.name)
            there = s.Assertion(s.NullTest(port.name), s.Literal(message, message), ())
            dtype = port.tensors[0].dtype
            zero = constant(False if dtype is DType.BOOL else 0 if dtype.is_int else 0.0, dtype)
            none = s.List((zero,)) if port.packed else zero
            yield port, there, s.Coalesce(given, none)

    # ------------------------------------------------------------------- declarations

    def _parameter(self, port: nodes.Port) -> s.Parameter:
        if not port.tensors and not port.packed:
            absent = s.Type("real", optional=True, shape=(), pack=s.Pack(integer(0)))
            return s.Parameter(port.name, absent)
        columns = _columns(port)
        shape = tuple([self._extent(port, axis, column) for axis, column in enumerate(columns)])
        dtype = type_name(port.tensors[0].dtype) if port.tensors else "real"
        for position, tensor in enumerate(port.tensors):
            at = s.Name(port.name)
            self.names[tensor] = s.Subscript(at, integer(position)) if port.packed else at
        pack = self._pack(port) if port.packed else None
        type = s.Type(dtype, shape=shape, pack=pack, optional=port.optional)
        return s.Parameter(port.name, type)

    def _pack(self, port: nodes.Port) -> s.Pack:
        length = integer(len(port.tensors))
        if port.length is None:
            return s.Pack(length)
        symbol = next(x for x, tensor in self.graph.sizes if tensor is port.length)
        self.names[symbol] = self.names[port.length] = s.Name(self._name(symbol))
        return s.Pack(self.names[symbol], length)

    def _extent(self, port: nodes.Port, axis: int, column: Sequence[nodes.Expr]) -> s.Extent:
        known = self.bounds.get((port.name, axis))
        if known is not None:
            return known
        sizes = [unparse(e, self.names) for e in column]
        if all(size == sizes[0] for size in sizes):
            return s.Extent(sizes[0])
        if not all(isinstance(e, nodes.Const) for e in column):
            raise unsayable(f"the shapes of the tensors of input `{port.name}`")
        own = self.namer(f"{port.name}_extent")
        type = s.Type("int", pack=s.Pack(integer(len(column))))
        self.attributes.append(s.Parameter(own, type, s.List(tuple(sizes))))
        return s.Extent(s.Name(own), distinct=True)


def _columns(port: nodes.Port) -> list[tuple[nodes.Expr, ...]]:
    """For each dimension its extents in all tensors."""
    return [*zip(*(t.shape for t in port.tensors), strict=True)]


def _bound(symbol: nodes.Symbol) -> int:
    bound = None if symbol.bound is None else shapes.as_int(symbol.bound)
    if bound is None:
        raise unsayable(f"the size `{symbol.name}`, which has no upper bound")
    return bound
