"""The built-in functions of `Apply`: how many arguments each takes."""

from __future__ import annotations

from typing import get_args

from .nodes import Function

_SEVERAL: dict[str, int] = {
    "hypot": 2, "atan2": 2, "fdim": 2, "fmax": 2, "fmin": 2, "fmod": 2, "remainder": 2,
    "copysign": 2, "nextafter": 2, "fma": 3,
}  # fmt: skip

ARITY: dict[str, int] = {name: _SEVERAL.get(name, 1) for name in get_args(Function)}
"""The number of arguments of each function; all are of the dtype of the result."""

OF_INTEGERS = frozenset({"abs", "sign"})
"""The functions that take integers too; all others are of reals."""
