"""Arguments of a call: arrays of inputs and variables, and the sizes that they define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..diagnostics import Error, error
from ..dtypes import BFLOAT16, DType, from_bfloat16
from ..source import Span
from . import shapes
from .interpret_block import Store
from .interpret_scalar import Array
from .nodes import Check, Expr, Graph, Port, Symbol, Tensor
from .rewrite import free_symbols
from .text_print import format_expr

_KINDS = {"real": "fiub", "int": "iu", "bool": "b"}
"""The kinds of NumPy dtypes that each kind of tensor takes."""


def bind_inputs(graph: Graph, inputs: Mapping[str, Any], store: Store) -> None:
    """Put the arguments into the store, and the sizes that their shapes define."""
    unknown = [name for name in inputs if name not in {p.name for p in graph.inputs}]
    if unknown:
        known = ", ".join(f"`{p.name}`" for p in graph.inputs) or "none"
        message = f"`{unknown[0]}` is not an input of `{graph.name}`"
        raise error("E0801", message, notes=[f"inputs: {known}"])
    hidden = hidden_ports(graph.inputs)
    for port in graph.inputs:
        if port in hidden:
            continue
        arguments = _arguments(port, inputs)
        for tensor, array in zip(port.tensors, arguments, strict=False):
            store.arrays[tensor] = as_array(array, tensor, store, f"input `{port.name}`")
        if port.length is not None:
            store.arrays[port.length] = np.asarray(len(arguments), store.dtype(DType.INT))
    bind_shapes([t for p in graph.inputs for t in p.tensors], store)


def hidden_ports(ports: Sequence[Port]) -> frozenset[Port]:
    """The ports that hold the lengths of others."""
    lengths = {p.length for p in ports if p.length is not None}
    return frozenset(p for p in ports if lengths.intersection(p.tensors))


def bind_shapes(tensors: Sequence[Tensor], store: Store) -> None:
    """Give the symbols in the shapes of inputs the values that the store's arrays define.

    Tensors without an array, the last of a pack, become zeros; sizes that no other defines are 0.
    Raises `Error` E0804 or E0801 for a shape that does not fit.
    """
    _bind_symbols([t for t in tensors if t in store.arrays], store)
    for tensor in tensors:
        if tensor not in store.arrays:
            for symbol in free_symbols(*tensor.shape):
                store.symbols.setdefault(symbol, 0)
            shape = [shapes.evaluate(e, store.symbols) for e in tensor.shape]
            store.arrays[tensor] = np.zeros(shape, store.dtype(tensor.dtype))
        _check_shape(tensor, store)


def _arguments(port: Port, inputs: Mapping[str, Any]) -> Sequence[npt.ArrayLike]:
    given = inputs.get(port.name)
    if given is None:
        if port.tensors or not (port.optional or port.packed):
            raise error("E0801", f"input `{port.name}` is missing")
        return ()
    if not port.packed:
        if not port.tensors and _is_empty(given):
            return ()
        if not port.tensors:
            raise error("E0801", f"input `{port.name}` is absent from this graph")
        return (given,)
    if len(given) > len(port.tensors) or (port.length is None and len(given) < len(port.tensors)):
        most = "" if port.length is None else "at most "
        message = f"input `{port.name}` takes {most}{len(port.tensors)} tensors, not {len(given)}"
        raise error("E0801", message)
    return tuple(given)


def _is_empty(given: object) -> bool:
    return isinstance(given, list | tuple) and not given


def bind_variables(graph: Graph, variables: Mapping[str, npt.ArrayLike], store: Store) -> None:
    """Put the variables into the store; each must be there, or begin with a value."""
    missing = [t.name for t in graph.variables if t.name not in variables and t.data is None]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing[:8])
        raise error("E0801", f"variables without a value: {names}")
    for tensor in graph.variables:
        value = variables.get(tensor.name)
        if value is None:
            value = initial_value(tensor)
        store.arrays[tensor] = as_array(value, tensor, store, f"variable `{tensor.name}`")
        _check_shape(tensor, store)


def initial_value(tensor: Tensor) -> Array:
    """What a variable begins with; its shape is known."""
    shape = tuple(shapes.evaluate(e, {}) for e in tensor.shape)
    data = np.array(tensor.data)
    return data.reshape(shape) if data.ndim else np.full(shape, data)


def as_array(value: npt.ArrayLike, tensor: Tensor, store: Store, what: str) -> Array:
    """An argument as an array of its tensor's dtype and rank; E0801 if it is of another kind."""
    array = np.asarray(value)
    if array.dtype == BFLOAT16:
        array = from_bfloat16(array)
    kind = "real" if tensor.dtype.is_real else "int" if tensor.dtype.is_int else "bool"
    if array.dtype.kind not in _KINDS[kind] and array.size:
        message = f"{what} takes {tensor.dtype}, not {array.dtype}"
        raise error("E0801", message, tensor.span)
    if array.ndim != tensor.rank:
        message = f"{what} has {tensor.rank} dimensions, the argument {array.ndim}"
        raise error("E0801", message, tensor.span)
    return store.rounded(array, tensor.dtype).astype(store.dtype(tensor.dtype), copy=False)


def _bind_symbols(tensors: Sequence[Tensor], store: Store) -> None:
    """Give every symbol the value that the first extent which determines it gives."""
    pairs = [
        (extent, size, tensor)
        for tensor in tensors
        for extent, size in zip(tensor.shape, store.arrays[tensor].shape, strict=True)
    ]
    for plain in (True, False):
        for extent, size, tensor in pairs:
            unknown = [s for s in free_symbols(extent) if s not in store.symbols]
            if len(unknown) == 1 and (extent is unknown[0] or not plain):
                value = _solve(extent, unknown[0], size, store)
                if value is not None:
                    set_size(store, unknown[0], value, tensor.span)


def _solve(extent: Expr, symbol: Symbol, size: int, store: Store) -> int | None:
    """The value of a symbol with which an extent is `size`, where that is linear in it."""
    terms = shapes.affine(extent)
    if terms is None or symbol not in terms[0]:
        return None
    coefficients, rest = terms
    for other, c in coefficients.items():
        if other is not symbol and isinstance(other, Symbol):
            rest += c * store.symbols[other]
    value, remainder = divmod(size - rest, coefficients[symbol])
    return None if remainder else value


def set_size(store: Store, symbol: Symbol, value: int, span: Span) -> None:
    """Give a symbol its value; E0804 if that is negative or above its bound."""
    if value < 0:
        raise error("E0804", f"size `{symbol.name}` is negative: {value}", span)
    store.symbols[symbol] = value
    if symbol.bound is not None:
        bound = shapes.evaluate(symbol.bound, store.symbols)
        if value > bound:
            message = f"size `{symbol.name}` is {value}, more than its bound {bound}"
            raise error("E0804", message, span)


def _check_shape(tensor: Tensor, store: Store) -> None:
    found = store.arrays[tensor].shape
    for k, (extent, size) in enumerate(zip(tensor.shape, found, strict=True)):
        unknown = [s.name for s in free_symbols(extent) if s not in store.symbols]
        if unknown:
            form = f"`{format_expr(extent)}` for any size `{unknown[0]}`"
            message = f"dimension {k} of `{tensor.name}` is {size}, which is not {form}"
            raise error("E0804", message, tensor.span)
    expected = tuple(shapes.evaluate(e, store.symbols) for e in tensor.shape)
    if found != expected:
        declared = ", ".join(format_expr(e) for e in tensor.shape)
        symbols = free_symbols(*tensor.shape)
        where = ", ".join(f"{s.name} = {store.symbols[s]}" for s in symbols)
        notes = [f"declared as [{declared}]" + (f" where {where}" if where else "")]
        code = "E0804" if symbols else "E0801"
        message = f"`{tensor.name}` has shape {list(expected)}, the argument {list(found)}"
        raise error(code, message, tensor.span, notes=notes)


def unknown_checks(checks: Sequence[Check], store: Store) -> list[Check]:
    """Evaluate the checks whose symbols are known, and give back the others; E0501 for one
    that fails."""
    return [item for item in checks if not check(item, store)]


def checks_on_data(graph: Graph) -> list[Check]:
    """The checks that can be made only when data has defined a size."""
    defined = {s for s, _ in graph.sizes}
    return [c for c in graph.checks if not defined.isdisjoint(free_symbols(c.condition))]


def check(check: Check, store: Store) -> bool:
    """Whether the symbols of a check are known, so that it could be made; E0501 if it fails, E0803
    if it divides by zero."""
    known = [(s.name, store.symbols.get(s)) for s in free_symbols(check.condition)]
    if any(value is None for _, value in known):
        return False
    try:
        holds = shapes.evaluate(check.condition, store.symbols)
    except ZeroDivisionError:
        notes = [f"{name} = {value}" for name, value in known]
        message = "division by zero in arithmetic of sizes"
        raise error("E0803", message, check.span, notes=notes, calls=check.calls) from None
    if not holds:
        raise failed_check(check, store)
    return True


def failed_check(check: Check, store: Store) -> Error:
    """The diagnostic of a check that does not hold, with its values."""

    def shown(part: str | Expr | tuple[Expr, ...]) -> str:
        if isinstance(part, str):
            return part
        if isinstance(part, tuple):
            return str([shapes.evaluate(e, store.symbols) for e in part])
        return str(shapes.evaluate(part, store.symbols))

    message = "".join(map(shown, check.message)) or "an assertion does not hold"
    notes = [f"{label} = {shown(value)}" for label, value in check.values]
    return error("E0501", message, check.span, notes=notes, calls=check.calls)
