"""The inputs of a graph as declarations, with the sizes that their shapes define (2.6)."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

from ...ir import nodes, rewrite, shapes
from ...ir.interpret_bind import hidden_ports
from . import syntax as s
from .unparse_expressions import Named, Namer, integer, type_name, unparse, unsayable


class InputWriter:
    """Declares the inputs of a graph; sizes, and tensors, get their names on the way."""

    def __init__(
        self, graph: nodes.Graph, namer: Namer, names: MutableMapping[Named, s.Expr]
    ) -> None:
        self.graph = graph
        self.namer = namer
        self.names = names
        self.ports = [p for p in graph.inputs if p.tensors and p not in hidden_ports(graph.inputs)]
        self.attributes: list[s.Parameter] = []
        """Extents of the items of packs, which no shape can list."""
        self.bounds: dict[tuple[str, int], s.Extent] = {}
        """The extents that define sizes, by input and dimension."""

    def parameters(self) -> tuple[s.Parameter, ...]:
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
            own = s.Name(self._name(first))
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

    def _name(self, symbol: nodes.Symbol) -> str:
        plain = symbol.name.lstrip(".").partition("[")[0].replace(".shape", "_extent")
        return self.namer(plain.lower() if symbol.name.startswith(".") else plain)

    # ------------------------------------------------------------------- declarations

    def _parameter(self, port: nodes.Port) -> s.Parameter:
        columns = _columns(port)
        shape = tuple([self._extent(port, axis, column) for axis, column in enumerate(columns)])
        dtype = type_name(port.tensors[0].dtype)
        for position, tensor in enumerate(port.tensors):
            at = s.Name(port.name)
            self.names[tensor] = s.Subscript(at, integer(position)) if port.packed else at
        pack = self._pack(port) if port.packed else None
        return s.Parameter(port.name, s.Type(dtype, shape=shape, pack=pack))

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
