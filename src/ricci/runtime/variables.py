"""The variables of an executable, readable and assignable by scoped name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np

from ..diagnostics import error
from ..dtypes import BFLOAT16, NARROW, DType, Types, from_bfloat16, to_dtype
from ..ir import interpret_bind
from ..ir.nodes import Graph, Tensor
from ..ir.shapes import evaluate
from ..records import dataclass
from ..stored import Stored
from .arguments import Array, contiguous, fit, to_numpy, to_user
from .blocks import aligned_copy


@dataclass(frozen=True, slots=True)
class _Converted(Stored):
    """An array, or one that is stored, in another dtype."""

    value: Array | Stored

    def read(self, into: Array | None = None) -> Array:
        array = self.value.read() if isinstance(self.value, Stored) else self.value
        found = to_dtype(from_bfloat16(array) if array.dtype == BFLOAT16 else array, self.dtype)
        if into is None:
            return found
        into[...] = found
        return into


def _converted(value: Array | Stored, dtype: np.dtype[Any]) -> Array | Stored:
    return value if value.dtype == dtype else _Converted(value.shape, dtype, value)


class VariableValues(MutableMapping[str, Array]):
    """The variables of an executable by scoped name.

    Setting one checks its shape and dtype, copies it, and derives again what depends on it. Reading
    gives the value that the next call has, as an array that cannot be written to; a call that
    updates the variable leaves that array as it is. Those of files are not
    kept in memory for being read: that fails (E0701, E0702) when a file is gone or has changed.

    If reals are `float16` or `bfloat16`, a variable that calls do not update is kept in float32, if
    it is given so, from which programs derive what they read; reading it gives what is nearest.
    """

    def __init__(self, graph: Graph, types: Types, changed: Callable[[str], None]) -> None:
        self._tensors = {t.name: t for t in graph.variables}
        self._types = types
        self._changed = changed
        updated = {old.name for old, _ in graph.updates}
        self._exact = {
            t.name
            for t in graph.variables
            if t.dtype is DType.REAL and t.name not in updated and types.real in NARROW
        }
        """Those that are kept in float32."""
        self._values: dict[str, Array | Stored] = {
            t.name: to_dtype(interpret_bind.initial_value(t), self._kept(t))
            for t in graph.variables
            if t.data is not None
        }
        self._own: set[str] = set()
        """Those whose arrays nobody else has, so that calls may write to them."""
        self._lock = RLock()

    def __getitem__(self, name: str) -> Array:
        self._check_name(name)
        if name not in self._values:
            raise _missing([name])
        with self._lock:
            self._own.discard(name)
            value = _converted(self._values[name], self._dtype(self._tensors[name]))
        view = to_user(value.read() if isinstance(value, Stored) else value.view())
        view.flags.writeable = False
        return view

    def __setitem__(self, name: str, value: object) -> None:
        self._check_name(name)
        array = self._fitted(name, value)
        given = to_numpy(value, f"variable `{name}`")
        self._set(name, array.copy() if np.may_share_memory(array, given) else array)

    def adopt(self, name: str, value: object) -> None:
        """Set a variable to an array that nobody will write to: it is not copied if it fits; or to
        one that is read when it is needed."""
        self._check_name(name)
        if isinstance(value, Stored) and (held := self._held(name, value)) is not None:
            self._set(name, held)
        else:
            array = value.read() if isinstance(value, Stored) else value
            self._set(name, self._fitted(name, array))

    def _set(self, name: str, value: Array | Stored) -> None:
        with self._lock:
            self._own.discard(name)
            self._values[name] = value
        self._changed(name)

    def _held(self, name: str, value: Stored) -> Stored | None:
        """What is stored, in the dtype of the variable; none if only its elements show whether it
        can have that."""
        tensor = self._tensors[name]
        dtype = self._kept(tensor)
        if value.shape != self._shape(tensor):
            return None
        if value.dtype in (dtype, self._dtype(tensor)):
            return value
        is_exact = value.dtype.kind == "f" and tensor.dtype.is_abstract
        return _Converted(value.shape, dtype, value) if is_exact else None

    def _dtype(self, tensor: Tensor) -> np.dtype[Any]:
        """The dtype that a variable has for others."""
        return self._types.of(tensor.dtype).numpy()

    def _kept(self, tensor: Tensor) -> np.dtype[Any]:
        """The dtype in which it is kept."""
        is_exact = tensor.name in self._exact
        return DType.FLOAT32.numpy() if is_exact else self._dtype(tensor)

    def _shape(self, tensor: Tensor) -> tuple[int, ...]:
        return tuple(evaluate(e, {}) for e in tensor.shape)

    def _fitted(self, name: str, value: object) -> Array:
        tensor = self._tensors[name]
        what, narrow = f"variable `{name}`", self._dtype(tensor)
        dtype = narrow if to_numpy(value, what).dtype == narrow else self._kept(tensor)
        array = contiguous(fit(value, dtype, tensor.dtype, tensor.rank, what))
        shape = self._shape(tensor)
        if array.shape != shape:
            raise error(
                "E0801",
                f"variable `{name}` has another shape",
                tensor.span,
                notes=[f"expected {list(shape)}", f"got {list(array.shape)}"],
            )
        return array

    def __delitem__(self, name: str) -> None:
        raise error("E0801", f"variable `{name}` is part of the program and cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def of(
        self, tensors: Sequence[Tensor], dtypes: Sequence[np.dtype[Any]] | None = None
    ) -> list[Array]:
        """The values of these variables, in memory from now on, in their dtypes or in others;
        E0801 if some are not set."""
        for tensor, value in zip(tensors, self._known(tensors), strict=True):
            if isinstance(value, Stored):
                self._values[tensor.name] = value.read()
        held = self.held(tensors, dtypes)
        return [v.read() if isinstance(v, Stored) else v for v in held]

    def held(
        self, tensors: Sequence[Tensor], dtypes: Sequence[np.dtype[Any]] | None = None
    ) -> list[Array | Stored]:
        """The values of these variables as far as they are in memory, in their dtypes or in others;
        E0801 if some are not set."""
        asked = map(self._dtype, tensors) if dtypes is None else dtypes
        return [_converted(v, d) for v, d in zip(self._known(tensors), asked, strict=True)]

    def _known(self, tensors: Sequence[Tensor]) -> list[Array | Stored]:
        missing = [t.name for t in tensors if t.name not in self._values]
        if missing:
            raise _missing(missing)
        return [self._values[t.name] for t in tensors]

    @contextmanager
    def owned(self, tensors: Sequence[Tensor]) -> Iterator[list[Array]]:
        """The values of these variables, to be written to by one call, during which nobody reads
        or sets variables."""
        with self._lock:
            for tensor, array in zip(tensors, self.of(tensors), strict=True):
                if tensor.name not in self._own:
                    self._values[tensor.name] = aligned_copy(array)
                    self._own.add(tensor.name)
            yield self.of(tensors)

    def advance(self, tensors: Sequence[Tensor], values: Sequence[Array]) -> None:
        """Give variables the values that a call has computed for them."""
        self._values.update((t.name, v) for t, v in zip(tensors, values, strict=True))

    def _check_name(self, name: str) -> None:
        if name not in self._tensors:
            known = ", ".join(self._tensors) or "none"
            raise error("E0801", f"there is no variable `{name}`", notes=[f"variables: {known}"])


def _missing(names: Sequence[str]) -> Exception:
    shown = ", ".join(f"`{n}`" for n in names[:8]) + (" ..." if len(names) > 8 else "")
    return error(
        "E0801",
        f"variables without a value: {shown}",
        help=f"assign executable.variables[{names[0]!r}], or write random ones with `ricci init`",
    )
