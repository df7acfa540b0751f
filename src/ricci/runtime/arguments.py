"""Arguments of a call: from what the caller has to arrays that native code can read.

An array of the right dtype that is contiguous is used where it is; anything else is copied.
Integers and bools are converted for real inputs, other integers for integer inputs if every value
fits; everything else is an `Error` E0801.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from ..diagnostics import Error, error
from ..dtypes import DType
from ..ir.interpret_bind import hidden_ports
from ..ir.nodes import Expr, Port, Tensor
from ..ir.text_print import format_expr

Array = np.ndarray[Any, np.dtype[Any]]

_KINDS = {"real": "fiub", "int": "iu", "bool": "b"}


@dataclass(frozen=True, slots=True)
class PortInfo:
    """An input or output as users see it.

    `shape` holds integers, and texts such as `n` or `2*n + 1` for what the call determines. A pack
    has one shape and dtype per item in `shapes`; `count` is `None` for a single tensor.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    count: int | None = None
    shapes: tuple[tuple[int | str, ...], ...] = ()
    optional: bool = False


def describe(port: Port, dtypes: Sequence[str]) -> PortInfo:
    """A port of a graph, with the concrete dtypes of its tensors."""
    shapes = tuple(tuple(_extent(e) for e in t.shape) for t in port.tensors)
    count = len(shapes) if port.packed else None
    first = shapes[0] if shapes else ()
    return PortInfo(port.name, dtypes[0] if dtypes else "", first, count, shapes, port.optional)


def _extent(extent: Expr) -> int | str:
    text = format_expr(extent)
    return int(text) if text.lstrip("-").isdigit() else text


@dataclass
class Inputs:
    """The input ports of a program, and what an array for each of their tensors must be."""

    owner: str
    ports: tuple[Port, ...]
    dtypes: tuple[np.dtype[Any], ...]
    """Of all tensors of all ports, in order."""

    def __post_init__(self) -> None:
        hidden = hidden_ports(self.ports)
        self._visible = [p for p in self.ports if p not in hidden]
        simple = all(len(p.tensors) == 1 and not p.packed for p in self.ports)
        self._ranks = [p.tensors[0].rank for p in self.ports] if simple else None

    def are_ready(self, args: tuple[object, ...]) -> TypeGuard[tuple[Array, ...]]:
        """Whether positional arguments can be used as they are: a quick test of the usual case."""
        ranks = self._ranks
        if ranks is None or len(args) != len(ranks):
            return False
        for array, dtype, rank in zip(args, self.dtypes, ranks, strict=False):
            if type(array) is not np.ndarray or array.dtype != dtype or array.ndim != rank:
                return False
            flags = array.flags
            if not (flags.c_contiguous and flags.aligned):
                return False
        return True

    def collect(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[Array | None]:
        """An array per tensor, of the right dtype and rank, contiguous; none for an item of a pack
        that is beyond its length."""
        given = self._by_port(args, kwargs)
        found: dict[Tensor, Array | None] = {}
        dtypes = dict(zip((t for p in self.ports for t in p.tensors), self.dtypes, strict=True))
        for port, value in zip(self._visible, given, strict=True):
            items = self._items(port, value)
            for position, tensor in enumerate(port.tensors):
                found[tensor] = None
                if position < len(items):
                    dtype, what = dtypes[tensor], f"input `{port.name}`"
                    found[tensor] = fit(items[position], dtype, tensor.dtype, tensor.rank, what)
            if port.length is not None:
                found[port.length] = np.array(len(items), dtypes[port.length])
        return [found[t] for p in self.ports for t in p.tensors]

    def _by_port(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
        if len(args) > len(self._visible):
            raise self._error(
                f"`{self.owner}` takes {len(self._visible)} inputs, and {len(args)} were given"
            )
        given: dict[str, object] = {}
        for port, value in zip(self._visible, args, strict=False):
            given[port.name] = value
        names = {p.name for p in self._visible}
        for name, value in kwargs.items():
            if name not in names:
                raise self._error(f"`{self.owner}` has no input `{name}`")
            if name in given:
                raise self._error(f"input `{name}` of `{self.owner}` was given twice")
            given[name] = value
        for port in self._visible:
            if given.get(port.name) is None and (
                port.tensors or not (port.optional or port.packed)
            ):
                help = f'attribs={{"{port.name}": None}} when the model is loaded leaves it out'
                raise self._error(
                    f"input `{port.name}` of `{self.owner}` is missing",
                    help if port.optional else "",
                )
        return [given.get(p.name) for p in self._visible]

    def _items(self, port: Port, value: object) -> Sequence[object]:
        if not port.packed:
            if value is not None and not port.tensors:
                raise self._error(
                    f"input `{port.name}` is absent from this graph, and takes `None`"
                )
            return () if value is None else (value,)
        items = () if value is None else value
        if not isinstance(items, (list, tuple)):
            raise self._error(f"input `{port.name}` is a pack, and takes a list or tuple of arrays")
        most = len(port.tensors)
        if len(items) > most or (port.length is None and len(items) < most):
            size = str(most) if port.length is None else f"at most {most}"
            raise self._error(
                f"input `{port.name}` is a pack of {size} arrays, and got {len(items)}"
            )
        return items

    def _error(self, message: str, help: str = "") -> Error:
        shown = ", ".join(
            f"`{p.name}`" + (" (optional)" if p.optional else "") for p in self._visible
        )
        return error("E0801", message, notes=[f"inputs: {shown or 'none'}"], help=help)


def fit(value: object, dtype: np.dtype[Any], declared: DType, rank: int, what: str) -> Array:
    """An argument as a contiguous array of a dtype; E0801 if its kind or rank is another."""
    array = to_numpy(value, what)
    if array.ndim != rank:
        raise error(
            "E0801",
            f"{what} has the wrong number of dimensions",
            notes=[f"expected {rank}", f"got {array.ndim}: an array of shape {list(array.shape)}"],
        )
    if array.dtype != dtype:
        array = _converted(array, dtype, declared, what)
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.array(array, dtype, order="C")
    return array


def _converted(array: Array, dtype: np.dtype[Any], declared: DType, what: str) -> Array:
    kind = "real" if declared.is_real else "int" if declared.is_int else "bool"
    notes = [f"expected {dtype.name}", f"got {array.dtype.name}"]
    if not array.size:
        return np.empty(array.shape, dtype)
    if array.dtype.kind not in _KINDS[kind]:
        raise error("E0801", f"{what} has the wrong element type", notes=notes)
    if kind != "int":
        with np.errstate(over="ignore"):
            return array.astype(dtype)
    result = array.astype(dtype)
    limits = np.iinfo(dtype)
    if int(array.min()) < limits.min or int(array.max()) > limits.max:
        raise error("E0801", f"{what} has values that do not fit", notes=notes)
    return result


def to_numpy(value: object, what: str) -> Array:
    """Any array-like object as a NumPy array, without a copy where it can be."""
    if isinstance(value, np.ndarray):
        return value
    if is_torch(value):
        return _from_torch(value, what)
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as problem:
        raise error(
            "E0801", f"{what} is not an array", notes=[f"got {_shown(value)}: {problem}"]
        ) from None
    if array.dtype.kind not in "fiub":
        raise error("E0801", f"{what} is not an array of numbers", notes=[f"got {_shown(value)}"])
    return array


def _shown(value: object) -> str:
    return type(value).__name__


def is_torch(value: object) -> bool:
    """Whether a value is a PyTorch tensor; PyTorch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def _from_torch(value: Any, what: str) -> Array:
    try:
        return np.asarray(value.detach().numpy())
    except (TypeError, RuntimeError) as problem:
        raise error(
            "E0801",
            f"{what} is a tensor that NumPy cannot show",
            notes=[f"got {value.dtype} on {value.device}: {problem}"],
        ) from None


def to_torch(array: Array) -> object:
    """A PyTorch tensor with the bytes of an array."""
    return sys.modules["torch"].from_numpy(array)
