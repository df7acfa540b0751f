"""The variables of an executable, readable and assignable by scoped name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence

import numpy as np

from ..diagnostics import error
from ..dtypes import to_dtype
from ..ir import interpret_bind
from ..ir.nodes import Graph, Tensor
from ..ir.shapes import evaluate
from ..passes.specialise import Types
from .arguments import Array, contiguous, fit, to_numpy, to_user


class VariableValues(MutableMapping[str, Array]):
    """The variables of an executable by scoped name.

    Setting one checks its shape and dtype, copies it, and derives again what depends on it. Reading
    gives the value that the next call has, as an array that cannot be written to; a call that
    updates the variable leaves that array as it is, and makes a new one.
    """

    def __init__(self, graph: Graph, types: Types, changed: Callable[[], None]) -> None:
        self._tensors = {t.name: t for t in graph.variables}
        self._types = types
        self._changed = changed
        self._values: dict[str, Array] = {
            t.name: to_dtype(interpret_bind.initial_value(t), types.of(t.dtype).numpy())
            for t in graph.variables
            if t.data is not None
        }

    def __getitem__(self, name: str) -> Array:
        self._check_name(name)
        if name not in self._values:
            raise _missing([name])
        view = to_user(self._values[name].view())
        view.flags.writeable = False
        return view

    def __setitem__(self, name: str, value: object) -> None:
        self.adopt(name, value)
        if np.may_share_memory(self._values[name], to_numpy(value, f"variable `{name}`")):
            self._values[name] = self._values[name].copy()

    def adopt(self, name: str, value: object) -> None:
        """Set a variable to an array that nobody will write to: it is not copied if it fits."""
        self._check_name(name)
        tensor = self._tensors[name]
        dtype = self._types.of(tensor.dtype).numpy()
        array = contiguous(fit(value, dtype, tensor.dtype, tensor.rank, f"variable `{name}`"))
        shape = tuple(evaluate(e, {}) for e in tensor.shape)
        if array.shape != shape:
            raise error(
                "E0801",
                f"variable `{name}` has another shape",
                tensor.span,
                notes=[f"expected {list(shape)}", f"got {list(array.shape)}"],
            )
        self._values[name] = array
        self._changed()

    def __delitem__(self, name: str) -> None:
        raise error("E0801", f"variable `{name}` is part of the program and cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def of(self, tensors: Sequence[Tensor]) -> list[Array]:
        """The values of these variables; E0801 if some are not set."""
        missing = [t.name for t in tensors if t.name not in self._values]
        if missing:
            raise _missing(missing)
        return [self._values[t.name] for t in tensors]

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
