"""Arguments of a call: from what the caller has to arrays that native code can read.

An array of the right dtype that is contiguous is used where it is; anything else is copied.
Integers and bools are converted for real inputs, other integers for integer inputs if every value
fits; everything else is an `Error` E0801. Numbers of bfloat16 are tensors of PyTorch, or arrays of
the dtype of the package `ml_dtypes`, never unsigned integers.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import numpy as np

from ..diagnostics import Error, error
from ..dtypes import BFLOAT16, DType, from_bfloat16, name_of, to_dtype
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
    strided: bool = False
    """Whether arrays need not be contiguous."""

    def __post_init__(self) -> None:
        hidden = hidden_ports(self.ports)
        self._visible = [p for p in self.ports if p not in hidden]

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
                    array = fit(items[position], dtype, tensor.dtype, tensor.rank, what)
                    if not (self.strided and array.flags.aligned and _has_regular_strides(array)):
                        array = contiguous(array)
                    found[tensor] = array
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
            if port.tensors:
                return (value,)
            if value is None or (isinstance(value, list | tuple) and not value):
                return ()
            raise self._error(f"input `{port.name}` is absent from this graph, and takes `None`")
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


def _has_regular_strides(array: Array) -> bool:
    """Whether elements lie forward from the first one, in whole steps."""
    size = array.itemsize
    return all(step >= 0 and step % size == 0 for step in array.strides)


def contiguous(array: Array) -> Array:
    """An array in row-major order, aligned; a copy if it is not so."""
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.array(array, array.dtype, order="C")


def fit(value: object, dtype: np.dtype[Any], declared: DType, rank: int, what: str) -> Array:
    """An argument as an array of a dtype; E0801 if its kind or rank is another.

    Elements of a concrete declared type must have it, save numbers of Python.
    """
    array = to_numpy(value, what)
    if type(value) in (bool, int, float):  # Python's numbers have no size
        declared = DType.REAL if declared.is_real else DType.INT if declared.is_int else declared
    if array.ndim != rank:
        raise error(
            "E0801",
            f"{what} has the wrong number of dimensions",
            notes=[f"expected {rank}", f"got {array.ndim}: an array of shape {list(array.shape)}"],
        )
    if array.dtype != dtype:
        array = _converted(array, dtype, declared, what)
    return array


def _converted(array: Array, dtype: np.dtype[Any], declared: DType, what: str) -> Array:
    if not declared.is_abstract and declared is not DType.BOOL:
        raise _wrong_type(array, dtype, what)
    kind = "real" if declared.is_real else "int" if declared.is_int else "bool"
    if not array.size:
        return np.empty(array.shape, dtype)
    if array.dtype == BFLOAT16 and kind == "real":
        array = from_bfloat16(array)
    if array.dtype.kind not in _KINDS[kind]:
        raise _wrong_type(array, dtype, what)
    if kind != "int":
        with np.errstate(over="ignore"):
            return to_dtype(array, dtype)
    result = array.astype(dtype)
    limits = np.iinfo(dtype)
    if int(array.min()) < limits.min or int(array.max()) > limits.max:
        notes = [f"expected {name_of(dtype)}", f"got {name_of(array.dtype)}"]
        raise error("E0801", f"{what} has values that do not fit", notes=notes)
    return result


def _wrong_type(array: Array, dtype: np.dtype[Any], what: str) -> Error:
    notes = [f"expected {name_of(dtype)}", f"got {name_of(array.dtype)}"]
    return error("E0801", f"{what} has the wrong element type", notes=notes)


def to_numpy(value: object, what: str) -> Array:
    """Any array-like object as a NumPy array, without a copy where it can be."""
    if isinstance(value, np.ndarray):
        return _with_known_dtype(value)
    if is_torch(value):
        return _from_torch(value, what)
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return _from_dlpack(value, what)
        array = _with_known_dtype(np.asarray(value))
    except (AttributeError, TypeError, ValueError, RuntimeError, BufferError) as problem:
        raise error(
            "E0801", f"{what} is not an array", notes=[f"got {_shown(value)}: {problem}"]
        ) from None
    if array.dtype.kind not in "fiub" and array.dtype != BFLOAT16:
        raise error("E0801", f"{what} is not an array of numbers", notes=[f"got {_shown(value)}"])
    return array


def to_write(value: object, what: str) -> Array:
    """An array that a result is written to: the memory of what the caller has, not a copy."""
    array = to_numpy(value, what)
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        raise error("E0801", f"the array for {what} has another byte order than this machine")
    if not hasattr(value, "__dlpack__") or (is_torch(value) and cast(Any, value).is_neg()):
        raise error("E0801", f"{what} cannot be written to", notes=[f"got {_shown(value)}"])
    if not array.flags.writeable:
        raise error("E0801", f"the array for {what} is read-only")
    return array


def _shown(value: object) -> str:
    return type(value).__name__


def is_torch(value: object) -> bool:
    """Whether a value is a PyTorch tensor; PyTorch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def _from_torch(value: Any, what: str) -> Array:
    if value.device.type != "cpu":
        notes = [f"got {value.dtype} on {value.device}"]
        raise error("E0801", f"{what} is not in the memory of the CPU", notes=notes)
    try:
        plain = value.detach()
        plain = plain.resolve_neg() if plain.is_neg() else plain
        if plain.layout == sys.modules["torch"].strided and plain.numel() and not plain.data_ptr():
            raise RuntimeError("it stands for another tensor")
        if plain.dtype == sys.modules["torch"].bfloat16:
            return np.asarray(plain.view(sys.modules["torch"].int16).numpy()).view(BFLOAT16)
        return np.asarray(plain.numpy())
    except (TypeError, RuntimeError) as problem:
        raise error(
            "E0801",
            f"{what} is a tensor that NumPy cannot show",
            notes=[f"got {value.dtype} on {value.device}: {problem}"],
        ) from None


_CPU = 1
"""The CPU among the devices of DLPack."""


def _from_dlpack(value: Any, what: str) -> Array:
    device = value.__dlpack_device__()
    if device[0] != _CPU:
        raise error("E0801", f"{what} is not in the memory of the CPU", notes=[f"got {device}"])
    return _with_known_dtype(np.from_dlpack(value))


def _with_known_dtype(array: Array) -> Array:
    """An array of `ml_dtypes.bfloat16` with the dtype that stands for it here; one of another
    byte order in that of the machine."""
    array, dtype = with_own_bfloat16(array), array.dtype
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def with_own_bfloat16(array: Array) -> Array:
    """An array of `ml_dtypes.bfloat16` with the dtype that stands for it here; others as they
    are."""
    dtype = array.dtype
    return array.view(BFLOAT16) if dtype.kind == "V" and dtype.name == "bfloat16" else array


def to_torch(array: Array) -> object:
    """A PyTorch tensor with the bytes of an array."""
    torch = sys.modules["torch"]
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_user(array: Array) -> Array:
    """An array as callers get it: bfloat16 in the dtype of `ml_dtypes` if there is that package,
    else in float32."""
    if array.dtype != BFLOAT16:
        return array
    dtype = _ml_dtype()
    return from_bfloat16(array) if dtype is None else array.view(dtype)


@functools.cache
def _ml_dtype() -> Any:
    try:
        return import_module("ml_dtypes").bfloat16
    except ImportError:
        return None
