"""Arrays that are somewhere else, in a file say, and are read whenever somebody needs them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .records import dataclass


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of such an array before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self, into: NDArray[Any] | None = None) -> NDArray[Any]:
        """The elements: in `into`, an array of this shape and dtype, or in a new array.

        Raises `Error` if they cannot be read any more, or are others than they were.
        """
        raise AssertionError("what is stored somewhere can be read")
