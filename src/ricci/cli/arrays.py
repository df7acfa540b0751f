"""Arrays from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, open_memmap
from numpy.typing import NDArray

from ..diagnostics import error
from ..frontends.skriptnd.storage import read_tensor

Array = NDArray[Any]


def read_array(path: Path) -> Array:
    """The array of a `.dat` or `.npy` file; E0701 if it cannot be read."""
    if path.suffix == ".dat":
        return read_tensor(path)
    try:
        if path.exists() and not path.is_file():  # a pipe would make the reader wait
            raise ValueError("it is not a regular file")
        with path.open("rb") as file:
            if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
                raise ValueError("it does not begin as a .npy file does")
        return np.array(open_memmap(path, mode="r"))
    except Exception as problem:  # for damaged headers NumPy raises errors of many kinds
        reason = (getattr(problem, "strerror", None) or str(problem)).lower()
        raise error("E0701", f"cannot read `{path}` as a NumPy array: {reason}") from problem
