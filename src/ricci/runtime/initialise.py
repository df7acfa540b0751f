"""Random weights for a model that has none: to try it out, and to time it."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..diagnostics import error
from ..ir.interpret_bind import initial_value
from ..ir.nodes import Tensor
from ..ir.shapes import as_int


def draw_weights(tensor: Tensor, seed: int) -> NDArray[Any]:
    """A value for a variable of a known shape; the same for the same name, shape and seed.

    Reals of rank 2 and more are normal with variance 2 over the size of all dimensions but the
    first: it keeps the scale of activations through layers with rectifiers, and near it in
    others (K. He et al., "Delving Deep into Rectifiers", 2015, section 2.2). Vectors and
    scalars lie between 0.05 and 0.15, since some are variances. Integers are 0, which is in
    range for whatever they index; booleans are fair. A variable that begins with a value gets
    that. Raises `Error` E0705 where an extent is known only when the graph runs.
    """
    shape = _known_shape(tensor)
    if tensor.data is not None:
        return initial_value(tensor)
    rng = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
    if tensor.dtype.is_int:
        return np.zeros(shape, np.int64 if tensor.dtype.is_abstract else tensor.dtype.numpy())
    if not tensor.dtype.is_real:
        return rng.random(shape) < 0.5
    dtype = np.float32 if tensor.dtype.is_abstract else tensor.dtype.numpy()
    if len(shape) < 2:
        return np.asarray(rng.uniform(0.05, 0.15, shape), dtype)
    values = rng.standard_normal(shape, np.float32)
    values *= math.sqrt(2.0 / max(math.prod(shape[1:]), 1))
    return values.astype(dtype, copy=False)


def _known_shape(tensor: Tensor) -> tuple[int, ...]:
    extents = [as_int(extent) for extent in tensor.shape]
    known = tuple(e for e in extents if e is not None)
    if len(known) < len(extents):
        raise error(
            "E0705",
            f"variable `{tensor.name}` has an extent that is known only when the graph runs",
            tensor.span,
        )
    return known
