"""Tensor data files, `<scoped name>.dat`: the weights of a model folder.

Little-endian: a header of 128 bytes, then the items in row-major order.

    offset  size  content
    0       2     magic 4E EF
    2       2     major and minor version: 1, 0
    4       4     length of the data in bytes
    8       4     rank, 0 to 8
    12      32    eight extents, 0 where unused
    44      4     bits per item
    48      4     code of the item type
    52      76    nineteen parameter words, 0

Booleans are packed eight to a byte, the first in the most significant bit.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from io import FileIO
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from ...diagnostics import Diagnostic, Error, error
from ...dtypes import DType
from ...ir.nodes import Tensor
from ...ir.shapes import as_int
from ...records import dataclass
from ...stored import Stored
from .stored_names import generated_files, variable_path

Array = NDArray[Any]

MAGIC = b"\x4e\xef"
HEADER_SIZE = 128
MAX_RANK = 8
_LAYOUT = struct.Struct("<2sBBII8III19I")
_LIMIT = 2**32

_FLOAT, _UNSIGNED, _QUANTIZED_UNSIGNED, _QUANTIZED_SIGNED, _SIGNED, _BOOL = range(6)
_KINDS = {
    _FLOAT: "f",
    _UNSIGNED: "u",
    _QUANTIZED_UNSIGNED: "u",
    _QUANTIZED_SIGNED: "i",
    _SIGNED: "i",
}
_CODES = {"f": _FLOAT, "u": _UNSIGNED, "i": _SIGNED, "b": _BOOL}
_QUANTIZED_CODES = {"u": _QUANTIZED_UNSIGNED, "i": _QUANTIZED_SIGNED}
_BITS = {"f": (16, 32, 64), "u": (8, 16, 32, 64), "i": (8, 16, 32, 64)}


@dataclass(frozen=True, slots=True)
class Header:
    """What a tensor file says of its contents; `dtype` is that of the array read from it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    quantized: bool = False

    @property
    def bits(self) -> int:
        return 1 if self.dtype == np.bool_ else 8 * self.dtype.itemsize

    @property
    def length(self) -> int:
        """Bytes of the data."""
        return (math.prod(self.shape) * self.bits + 7) // 8


# -------------------------------------------------------------------- reading


def read_header(path: str | os.PathLike[str]) -> Header:
    """The header of a tensor file, checked against the size of the file.

    Raises `Error`: E0701 if the file cannot be read, E0702 if it is damaged, E0703 if its
    version or item type is not supported.
    """
    with _open(Path(path)) as file:
        return _read_header(Path(path), file)


def read_tensor(path: str | os.PathLike[str]) -> Array:
    """The tensor of a file as a new array in the machine's byte order.

    Quantised tensors give their integer codes. Raises what `read_header` does; memory is
    taken only for data that the file really has.
    """
    with _open(Path(path)) as file:
        return _read_items(Path(path), file, _read_header(Path(path), file))


def _read_items(path: Path, file: FileIO, header: Header, into: Array | None = None) -> Array:
    """What follows the header: in `into` if that has the dtype of the file, else in a new array."""
    if header.dtype == np.bool_:
        bits: Array = np.empty(header.length, np.uint8)
        _fill(path, file, bits)
        items = np.unpackbits(bits, count=math.prod(header.shape))
        return items.view(np.bool_).reshape(header.shape)
    dtype = header.dtype.newbyteorder("<")
    data = into if into is not None and into.dtype == dtype else np.empty(header.shape, dtype)
    _fill(path, file, data)
    return data.astype(header.dtype, copy=False)


def _open(path: Path) -> FileIO:
    """Open a regular file: a directory or a pipe would fail later, or wait forever."""
    try:
        if path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise error("E0701", f"`{path}` is {kind}, where a tensor file is expected")
        return path.open("rb", buffering=0)
    except (OSError, ValueError) as problem:
        raise error("E0701", f"cannot read `{path}`: {_reason(problem)}") from problem


def _read_header(path: Path, file: FileIO) -> Header:
    size = os.fstat(file.fileno()).st_size
    data = file.read(HEADER_SIZE)
    if len(data) < HEADER_SIZE:
        found = f"it has {len(data)} bytes" if data else "it is empty"
        raise _damage(path, f"{found}, and the header alone takes {HEADER_SIZE}")
    magic, major, minor, length, rank, *words = _LAYOUT.unpack(data)
    if magic != MAGIC:
        raise _damage(
            path,
            f"it begins with the bytes {magic.hex(' ').upper()}, "
            f"where a tensor file has {MAGIC.hex(' ').upper()}",
        )
    if (major, minor) != (1, 0):
        raise error(
            "E0703", f"`{path}` is a tensor file of version {major}.{minor}; 1.0 is supported"
        )
    if rank > MAX_RANK:
        raise _damage(path, f"its header gives rank {rank}, and the most possible is {MAX_RANK}")
    extents, (bits, code, signed) = words[:MAX_RANK], words[MAX_RANK : MAX_RANK + 3]
    header = Header(
        tuple(extents[:rank]),
        _item_type(path, code, bits, bool(signed)),
        code in (_QUANTIZED_UNSIGNED, _QUANTIZED_SIGNED),
    )
    _check_sizes(path, header, length, size)
    return header


def _item_type(path: Path, code: int, bits: int, signed: bool) -> np.dtype[Any]:
    if code == _BOOL and bits == 1:
        return np.dtype(np.bool_)
    kind = _KINDS.get(code, "")
    if kind == "u" and code == _UNSIGNED and signed:  # how signed integers were written in 1.0
        kind = "i"
    if bits in _BITS.get(kind, ()):
        return np.dtype(f"{kind}{bits // 8}")
    raise error(
        "E0703",
        f"`{path}` has items of type code {code} with {bits} bits, which is not supported",
        notes=[
            "supported: 0 (float: 16, 32 or 64 bits), 1 and 4 (unsigned and signed: 8, 16, 32 "
            "or 64), 2 and 3 (quantised, unsigned and signed: the same), 5 (bool: 1)"
        ],
    )


def _check_sizes(path: Path, header: Header, length: int, size: int) -> None:
    shape = list(header.shape)
    if math.prod(max(extent, 1) for extent in shape) * header.bits >= 2**63:
        raise _damage(path, f"no tensor of shape {shape} fits any memory")
    if header.length != length:
        raise _damage(
            path,
            f"its header gives {length} bytes of data, and shape {shape} of {header.dtype} "
            f"takes {header.length}",
        )
    if size != HEADER_SIZE + length:
        raise _damage(
            path,
            f"it has {size} bytes, and its header together with shape {shape} of {header.dtype} "
            f"takes {HEADER_SIZE + length}",
        )


def _damage(path: Path, finding: str) -> Error:
    return error("E0702", f"`{path}` is damaged, or not a tensor file: {finding}")


def _fill(path: Path, file: FileIO, data: Array) -> None:
    """Read the data after the header into an array that it must fill."""
    if not data.nbytes:
        return
    view = _bytes_of(data)
    done = 0
    while done < len(view):
        count = file.readinto(view[done:])
        if not count:
            raise _damage(path, "it became shorter while it was read")
        done += count


def _bytes_of(data: Array) -> memoryview:
    return memoryview(data.reshape(-1).view(np.uint8).data)


# -------------------------------------------------------------------- writing


def write_tensor(path: str | os.PathLike[str], array: Array, quantized: bool = False) -> None:
    """Write an array of bool, integers or floats; the file appears whole or not at all.

    `quantized` marks integers as the codes of quantised values. Raises `Error`: E0706 if
    the format cannot hold the array, E0707 if the file cannot be written.
    """
    path = Path(path)
    array = np.asarray(array)
    header = _make_header(path, array, quantized)
    if array.dtype == np.bool_:
        data: Array = np.packbits(array.reshape(-1))
    else:
        data = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    write_file(path, header, _bytes_of(data))


def write_file(path: str | os.PathLike[str], *parts: bytes | memoryview) -> None:
    """Write a file that appears whole or not at all; `Error` E0707 if it cannot be written."""
    path = Path(path)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with scratch.open("wb", buffering=0) as file:
            for part in parts:
                _write_all(file, part)
        scratch.replace(path)
    except (OSError, ValueError) as problem:
        raise error("E0707", f"cannot write `{path}`: {_reason(problem)}") from problem
    finally:
        with suppress(OSError, ValueError):
            scratch.unlink(missing_ok=True)


def _reason(problem: Exception) -> str:
    return (getattr(problem, "strerror", None) or str(problem)).lower()


def _write_all(file: FileIO, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _make_header(path: Path, array: Array, quantized: bool) -> bytes:
    kind = array.dtype.kind
    bits = 1 if kind == "b" else 8 * array.dtype.itemsize
    code = (_QUANTIZED_CODES if quantized else _CODES).get(kind)
    if code is None or (kind != "b" and bits not in _BITS[kind]):
        marked = " quantised" if quantized else ""
        raise _unfit(path, f"items of type {array.dtype}, which have no{marked} form in it")
    if array.ndim > MAX_RANK:
        raise _unfit(path, f"rank {array.ndim}; the most possible is {MAX_RANK}")
    length = (array.size * bits + 7) // 8
    if length >= _LIMIT or max(array.shape, default=0) >= _LIMIT:
        raise _unfit(
            path, f"{length} bytes of data, shape {list(array.shape)}; less than 4 GiB fit"
        )
    extents = array.shape + (0,) * (MAX_RANK - array.ndim)
    return _LAYOUT.pack(MAGIC, 1, 0, length, array.ndim, *extents, bits, code, *[0] * 19)


def _unfit(path: Path, finding: str) -> Error:
    return error("E0706", f"`{path}` cannot hold this array: it has {finding}")


# ------------------------------------------------------- the variables of a model


def open_tensors(
    folder: Path, variables: Iterable[Tensor], files: Mapping[str, Path], model: Path
) -> dict[str, Array | Stored]:
    """The values of some variables of a model, a folder or a file, which are read from these files
    when they are needed.

    Shapes must be exactly as declared. An abstract real or int keeps the width that the file
    has; a concrete type is converted to within its kind, integers at once, since that may fail.
    Raises one `Error` with all findings: E0704 for files that are missing, E0705 for tensors that
    do not fit, and `read_header`'s.
    """
    tensors = list({t.name: t for t in variables}.values())
    missing = [t.name for t in tensors if t.name not in files]
    if missing:
        raise _missing(folder, missing, len(tensors), model)
    found: dict[str, Array | Stored] = {}
    findings: list[Diagnostic] = []
    for tensor in tensors:
        try:
            found[tensor.name] = _open_variable(files[tensor.name], tensor)
        except Error as problem:
            findings += problem.diagnostics
    if findings:
        raise Error(findings)
    return found


def _open_variable(path: Path, tensor: Tensor) -> Array | Stored:
    with _open(path) as file:
        header, state = _read_header(path, file), _state(file)
        _check_fits(tensor, header.shape, header.dtype, f"`{path}`")
        dtype = header.dtype if tensor.dtype.is_abstract else tensor.dtype.numpy()
        if dtype != header.dtype and dtype.kind in "iu":
            return _convert(tensor, _read_items(path, file, header), f"`{path}`")
        stored = StoredTensor(header.shape, dtype, str(path), header, state)
        _stored[id(stored)] = stored
        return stored


_State = tuple[int, int, int]
"""What changes with a file: its number, its size and when it was written."""


def _state(file: FileIO) -> _State:
    found = os.fstat(file.fileno())
    return found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True, slots=True, weakref_slot=True)
class StoredTensor(Stored):
    """A tensor in a file that must stay as it is, unless this process writes it.

    Reading it raises `Error` E0701 if the file is not there any more, and E0702 if it is another,
    or has been written since.
    """

    path: str
    """A path object takes four times as much memory."""
    header: Header
    state: _State
    kept: list[Array] = field(default_factory=list, compare=False)
    """What the file had, once this process has written something else to it."""

    def read(self, into: Array | None = None) -> Array:
        if self.kept:
            return self.kept[0].copy()
        path = Path(self.path)
        with _open(path) as file:
            if _state(file) != self.state or _read_header(path, file) != self.header:
                raise error(
                    "E0702",
                    f"`{self.path}` has changed since the model was loaded",
                    help="load the model again",
                )
            found = _read_items(path, file, self.header, into)
        return found.astype(self.dtype, copy=False)


_stored: WeakValueDictionary[int, StoredTensor] = WeakValueDictionary()
"""Those that somebody may still read, by identity."""


def fit_variable(tensor: Tensor, array: Array, origin: str) -> Array:
    """An array as the value of a variable, converted where its declaration has a concrete type.

    `origin` says in the diagnostic E0705 where the array is from.
    """
    _check_fits(tensor, array.shape, array.dtype, origin)
    return _convert(tensor, array, origin)


def _check_fits(tensor: Tensor, shape: tuple[int, ...], dtype: np.dtype[Any], origin: str) -> None:
    declared = [as_int(e) for e in tensor.shape]
    fits = len(declared) == len(shape) and all(
        want is None or want == have for want, have in zip(declared, shape, strict=True)
    )
    if not fits:
        expected = "[" + ", ".join("~" if e is None else str(e) for e in declared) + "]"
        raise _misfit(tensor, f"{origin} has shape {list(shape)}", f"shape {expected}")
    if dtype.kind not in _kinds(tensor.dtype):
        raise _misfit(tensor, f"{origin} has items of type {dtype}", f"type {tensor.dtype}")


def _kinds(dtype: DType) -> str:
    if dtype.is_real:
        return "f"
    return "iu" if dtype.is_int else "b"


def _convert(tensor: Tensor, array: Array, origin: str) -> Array:
    if tensor.dtype.is_abstract or tensor.dtype.numpy() == array.dtype:
        return array
    target: np.dtype[Any] = tensor.dtype.numpy()
    if target.kind in "iu" and array.size:
        limits = np.iinfo(target)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            found = f"{origin} has values from {low} to {high}"
            raise _misfit(tensor, found, f"type {tensor.dtype}")
    return array.astype(target)


def _misfit(tensor: Tensor, found: str, declared: str) -> Error:
    return error(
        "E0705",
        f"{found}, but variable `{tensor.name}` is declared with {declared}",
        tensor.span,
        f"declared with {declared}",
    )


def _missing(folder: Path, names: list[str], total: int, model: Path) -> Error:
    notes = [f"missing: {variable_path(folder, n).name}" for n in names[:_SHOWN]]
    if len(names) > _SHOWN:
        notes.append(f"and {len(names) - _SHOWN} more")
    if generated := generated_files(folder):
        notes.append(f"{len(generated)} files have generated names, as `{generated[0].name}`")
    return error(
        "E0704",
        f"`{folder}` lacks the data of {len(names)} of its {total} variables",
        notes=notes,
        help=f"`ricci init {model}` makes random ones, to try the model out",
    )


_SHOWN = 8
"""Missing files that are listed by name."""


def write_variables(folder: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Write every array to its file in an existing folder.

    Who has opened one of these files before goes on reading what was in it: files that have the
    array already are left alone, and what others had is kept in memory.
    """
    readers: dict[Path, list[StoredTensor]] = {}
    for stored in list(_stored.values()):
        readers.setdefault(Path(stored.path).resolve(), []).append(stored)
    for name, array in arrays.items():
        path = variable_path(Path(folder), name)
        if not _is_there(array, readers.get(path.resolve(), ())):
            write_tensor(path, array)


def _is_there(array: Array, readers: Iterable[StoredTensor]) -> bool:
    """Whether the file of these readers has this array; if not, they keep what it has."""
    header = Header(array.shape, array.dtype)
    for stored in readers:
        with suppress(Error):  # a file that has changed anyway
            held = stored.read()
            if not stored.kept and stored.header == header and _is_same(held, array):
                return True
            stored.kept[:] = [held]
    return False


def _is_same(held: Array, array: Array) -> bool:
    """Whether two arrays of one shape and type have the same bits."""
    return _bytes_of(held) == _bytes_of(np.ascontiguousarray(array))
