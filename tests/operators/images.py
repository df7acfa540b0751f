"""Cases of sampling and resizing; oracles are ONNX Runtime, PyTorch and NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F

from .case import Array, Case, Family, Make
from .draw import Rng, axes, choice, coin, integer, positive, reals, signed
from .onnx_oracle import run_onnx

Attributes = dict[str, object]


def _some_axes(rng: Rng, rank: int) -> tuple[list[int], Attributes]:
    """Some axes, and as attributes; all of them in order may be left out."""
    if coin(rng, 0.3):
        return list(range(rank)), {}
    chosen = axes(rng, rank, least=1)
    return chosen, {"axes": [signed(rng, a, rank) for a in chosen]}


def _one_or_all(rng: Rng, values: list[int]) -> int | list[int]:
    """A single value where all are equal, now and then."""
    return values[0] if len(set(values)) == 1 and coin(rng) else values


def _along(x: Array, axis: int, change: Callable[[Array], Array]) -> Array:
    """Every line of an array along an axis changed."""
    return np.apply_along_axis(change, axis, x)


# ------------------------------------------------- sampling by whole factors 4.5.1


def _sample(name: str, rng: Rng) -> Case:
    extents = positive(rng, integer(rng, 1, 4), 4)
    chosen, given = _some_axes(rng, len(extents))
    factors = [integer(rng, 1, 4 if len(chosen) < 3 else 2) for _ in chosen]
    for axis, factor in zip(chosen, factors, strict=True):
        extents[axis] *= 1 if name == "nearest_upsample" else factor
    x = y = reals(rng, extents)
    for axis, factor in zip(chosen, factors, strict=True):
        if name == "nearest_upsample":
            y = np.repeat(y, factor, axis)
        elif name == "nearest_downsample":
            y = np.take(y, range(0, y.shape[axis], factor), axis)
        else:
            parts = [*y.shape[:axis], y.shape[axis] // factor, factor, *y.shape[axis + 1 :]]
            y = y.reshape(parts).mean(axis + 1)
    return Case(f"image.{name}", {**given, "factor": _one_or_all(rng, factors)}, (x,), (y,))


def area_downsample_torch(rng: Rng) -> Case:
    rank = integer(rng, 1, 3)
    factors = [integer(rng, 1, 3) for _ in range(rank)]
    x = reals(rng, [2, 3, *(f * integer(rng, 1, 4) for f in factors)])
    size = [n // f for n, f in zip(x.shape[2:], factors, strict=True)]
    y = F.interpolate(torch.from_numpy(x), size, mode="area").numpy()
    given = {"axes": list(range(2, x.ndim)), "factor": factors}
    return Case("image.area_downsample", given, (x,), (y,))


def _upsampled(line: Array, factor: int, symmetric: bool, border: bool) -> Array:
    places = np.arange(len(line) * factor) / factor
    if symmetric:
        places += 0.5 / factor - 0.5
    if border:
        return np.interp(places, np.arange(len(line)), line)
    return np.interp(places, np.arange(-1, len(line) + 1), [0.0, *line, 0.0])


def linear_upsample(rng: Rng) -> Case:
    x = y = reals(rng, positive(rng, integer(rng, 1, 3), 5))
    chosen, given = _some_axes(rng, x.ndim)
    factors = [integer(rng, 1, 4) for _ in chosen]
    symmetric, border = coin(rng), coin(rng)
    for axis, factor in zip(chosen, factors, strict=True):
        y = _along(y, axis, lambda v, f=factor: _upsampled(v, f, symmetric, border))
    if not symmetric or coin(rng):
        given["symmetric"] = symmetric
    if not border or coin(rng):
        given["replicate_border"] = border
    return Case("image.linear_upsample", {**given, "factor": factors}, (x,), (y,))


_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def linear_upsample_torch(rng: Rng) -> Case:
    rank = integer(rng, 1, 3)
    factors = [integer(rng, 1, 4) for _ in range(rank)]
    x = reals(rng, [2, 3, *(integer(rng, 1, 5) for _ in factors)])
    size = [n * f for n, f in zip(x.shape[2:], factors, strict=True)]
    y = F.interpolate(torch.from_numpy(x), size, mode=_LINEAR[rank]).numpy()
    given = {"axes": list(range(2, x.ndim)), "factor": factors}
    return Case("image.linear_upsample", given, (x,), (y,))


# ------------------------------------------------- resizing and rescaling 4.5.2

TRANSFORMS = {
    "SYMMETRIC": "half_pixel",
    "ASYMMETRIC": "asymmetric",
    "ALIGNED": "align_corners",
}
HALF = Fraction(1, 2)
ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "FLOOR": math.floor,
    "CEIL": math.ceil,
    "ROUND_PREFER_FLOOR": lambda x: math.ceil(x - HALF),
    "ROUND_PREFER_CEIL": lambda x: math.floor(x + HALF),
}


def places(transform: str, extent: int, size: int) -> list[Fraction]:
    """The input coordinates of the output positions along an axis."""
    if transform == "ALIGNED":
        scale, offset = Fraction(extent - 1, max(1, size - 1)), Fraction(0)
    else:
        scale, offset = Fraction(extent, size), Fraction(0)
    if transform == "SYMMETRIC":
        offset = scale / 2 - HALF
    return [scale * i + offset for i in range(size)]


def _keys(t: float, a: float) -> float:
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a


def _weights(mode: str, at: Fraction, extent: int, rounding: str, a: float) -> Array:
    """The weights of the elements of a line in the one at a coordinate."""
    row = np.zeros(extent)
    base = math.floor(at)
    if mode == "NEAREST":
        taps = {ROUNDINGS[rounding](at): 1.0}
    elif mode == "LINEAR":
        taps = {base: float(1 - (at - base)), base + 1: float(at - base)}
    else:
        taps = {base + j: _keys(float(abs(at - base - j)), a) for j in (-1, 0, 1, 2)}
    for tap, weight in taps.items():
        row[min(max(tap, 0), extent - 1)] += weight
    return row


def _resized(x: Array, axis: int, size: int, mode: str, given: Attributes) -> Array:
    transform = str(given.get("coordinate_transform", "SYMMETRIC"))
    rounding = str(given.get("rounding_method", "ROUND_PREFER_FLOOR"))
    a = given.get("coeff_a", given.get("cubic_coeff_a", -0.75))
    assert isinstance(a, float)
    matrix = np.stack(
        [
            _weights(mode, at, x.shape[axis], rounding, a)
            for at in places(transform, x.shape[axis], size)
        ]
    )
    return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)


def _choices(name: str, mode: str, transform: str, rounding: str, rng: Rng) -> Attributes:
    """The attributes of an operator that resizes; defaults may be left out."""
    given: Attributes = {"mode": mode} if name in ("resize", "rescale") else {}
    if transform != "SYMMETRIC" or coin(rng):
        given["coordinate_transform"] = transform
    if mode == "NEAREST" and (rounding != "ROUND_PREFER_FLOOR" or coin(rng)):
        given["rounding_method"] = rounding
    if mode == "CUBIC" and coin(rng):
        given["coeff_a" if name == "cubic_resize" else "cubic_coeff_a"] = -0.5
    if mode != "NEAREST" and coin(rng, 0.3):
        given["antialias"] = coin(rng)
    return given


def _resize(name: str, mode: str, transform: str, rounding: str, rng: Rng) -> Case:
    """Any axes of any rank, by matrices of weights."""
    x = y = reals(rng, positive(rng, integer(rng, 1, 3), 7))
    chosen, given = _some_axes(rng, x.ndim)
    given |= _choices(name, mode, transform, rounding, rng)
    sizes = [integer(rng, 1, 9) for _ in chosen]
    if name == "rescale":
        given["factor"] = [
            (n + choice(rng, (-0.375, 0.0, 0.375))) / x.shape[a]
            for n, a in zip(sizes, chosen, strict=True)
        ]
    else:
        given["size"] = _one_or_all(rng, sizes)
    for axis, size in zip(chosen, sizes, strict=True):
        y = _resized(y, axis, size, mode, given)
    return Case(f"image.{name}", given, (x,), (y,))


def _is_decided(x: int, size: int, transform: str, rounding: str) -> bool:
    """Whether single precision rounds a coordinate as exact arithmetic does: there is no tie, or
    the scale is exact."""
    jump = Fraction(0) if rounding in ("FLOOR", "CEIL") else HALF
    tie = any((at - jump).denominator == 1 for at in places(transform, x, size))
    exact = Fraction(size, x).denominator.bit_count() == 1
    return transform == "ALIGNED" or exact or not tie


def _resize_onnx(name: str, mode: str, transform: str, rounding: str, rng: Rng) -> Case:
    ranks = {"NEAREST": (1, 2, 3), "LINEAR": (1, 2, 3), "CUBIC": (2,)}[mode]
    pairs: list[tuple[int, int]] = []
    rank = choice(rng, ranks)
    while len(pairs) < rank:
        s, size = integer(rng, 1, 12), integer(rng, 1, 16)
        if mode != "NEAREST" or _is_decided(s, size, transform, rounding):
            pairs.append((s, size))
    x = reals(rng, [1, 2, *(s for s, _ in pairs)])
    sizes = [size for _, size in pairs]
    given = {"axes": list(range(2, x.ndim)), **_choices(name, mode, transform, rounding, rng)}
    a = given.get("coeff_a", given.get("cubic_coeff_a", -0.75))
    y = run_onnx(
        "Resize",
        [x, None, None, np.array([1, 2, *sizes])],
        mode=mode.lower(),
        coordinate_transformation_mode=TRANSFORMS[transform],
        nearest_mode=rounding.lower(),
        cubic_coeff_a=a,
    )
    if name == "rescale":
        given["factor"] = [size / s for s, size in pairs]
    else:
        given["size"] = sizes
    return Case(f"image.{name}", given, (x,), (y,))


def _makes(make: Callable[[str, str, str, str, Rng], Case], name: str, *modes: str) -> list[Make]:
    """One way to make a case for each mode, coordinate transform and rounding method."""
    return [
        partial(make, name, mode, transform, rounding)
        for mode in modes
        for transform, rounding in product(TRANSFORMS, ROUNDINGS)
        if mode == "NEAREST" or rounding == "FLOOR"
    ]


def _resizing(name: str, *modes: str) -> list[Family]:
    return [
        Family(f"image.{name}", _makes(_resize, name, *modes), "NumPy", 36),
        Family(f"image.{name}", _makes(_resize_onnx, name, *modes), "ONNX Runtime", 36),
    ]


ALL = ("CUBIC", "LINEAR", "NEAREST")

FAMILIES = [
    *(
        Family(f"image.{n}", partial(_sample, n), "NumPy")
        for n in ("nearest_downsample", "nearest_upsample", "area_downsample")
    ),
    Family("image.area_downsample", area_downsample_torch, "PyTorch"),
    Family("image.linear_upsample", linear_upsample, "NumPy", 40),
    Family("image.linear_upsample", linear_upsample_torch, "PyTorch"),
    *_resizing("nearest_resize", "NEAREST"),
    *_resizing("linear_resize", "LINEAR"),
    *_resizing("cubic_resize", "CUBIC"),
    *_resizing("resize", *ALL),
    *_resizing("rescale", *ALL),
]
