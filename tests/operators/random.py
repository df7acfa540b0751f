"""Cases of random tensors; the oracle is the same hash, written with NumPy.

`test_random.py` looks at what the numbers are like.
"""

from __future__ import annotations

import math

import numpy as np

from .case import Array, Case, Family
from .draw import Rng, choice, coin, integer, shape

_KEY = np.uint64(0xD2B74E1C93A658F1)
_STEP = np.uint64(6364136223846793005)
_SHIFT = np.uint64(1442695040888963407)


def _turned(x: Array) -> Array:
    return (x >> np.uint64(32)) | (x << np.uint64(32))


def _moved(state: int) -> Array:
    return np.array([state], np.int64).astype(np.uint64) * _STEP


def words(state: int, count: int) -> Array:
    """The first random words of a state."""
    counter = _moved(state) + np.arange(count, dtype=np.uint64)
    y = counter * _KEY
    z = y + _KEY
    x = _turned(y * y + y)
    x = _turned(x * x + z)
    x = _turned(x * x + y)
    word = x * x + z
    x = _turned(word)
    return np.asarray(word + ((x * x + y) >> np.uint64(32)))


def units(state: int, shape: list[int]) -> Array:
    """Reals from 0 to 1, of 24 bits."""
    found = words(state, math.prod(shape)) >> np.uint64(40)
    return (found.astype(np.float64) * 2.0**-24).reshape(shape)


def next_state(state: int) -> Array:
    """The state after a call."""
    return (_moved(state) + _SHIFT).astype(np.int64).reshape(())


def _state(rng: Rng) -> int:
    return integer(rng, -3, 3) if coin(rng) else int(rng.integers(-(2**63), 2**63 - 1))


def _case(name: str, given: dict[str, object], state: int, expected: Array) -> Case:
    return Case(
        f"rand.{name}",
        given,
        (),
        (expected,),
        variables={"state": np.array(state)},
        updated={"state": next_state(state)},
        types=("int",) if expected.dtype.kind == "i" else (),
    )


def uniform(rng: Rng) -> Case:
    state, extents = _state(rng), shape(rng)
    given: dict[str, object] = {"shape": extents}
    low, high = 0.0, 1.0
    if coin(rng):
        low = integer(rng, -8, 8) / 4
        high = low + choice(rng, (0.0, 0.5, 7.0))
        given |= {"min": low, "max": high}
    return _case("uniform", given, state, low + units(state, extents) * (high - low))


def uniform_int(rng: Rng) -> Case:
    state, extents = _state(rng), shape(rng)
    given: dict[str, object] = {"shape": extents}
    low, high = 0, 1
    if coin(rng, 0.8):
        low = integer(rng, -9, 9)
        high = low + choice(rng, (0, 1, 6, 100, 2**40 + 7))
        given |= {"min": low, "max": high}
    found = words(state, math.prod(extents)) % np.uint64(high - low + 1)
    return _case("uniform", given, state, low + found.astype(np.int64).reshape(extents))


def normal(rng: Rng) -> Case:
    state, extents = _state(rng), shape(rng)
    given: dict[str, object] = {"shape": extents}
    mean, std = 0.0, 1.0
    if coin(rng):
        mean, std = choice(rng, (-1.0, 3.0)), choice(rng, (0.0, 0.25, 2.0))
        given |= {"mean": mean, "std": std}
    u = units(state, [2, *extents])
    z = np.sqrt(-2.0 * np.log(1.0 - u[0])) * np.cos(2.0 * np.pi * u[1])
    return _case("normal", given, state, np.asarray(mean + std * z))


def bernoulli(rng: Rng) -> Case:
    state, extents = _state(rng), shape(rng)
    prob = choice(rng, (0.0, 0.25, 0.5, 0.875, 1.0))
    given: dict[str, object] = {"shape": extents, "prob": prob}
    return _case("bernoulli", given, state, np.asarray(units(state, extents) < prob))


def draw(rng: Rng) -> Case:
    state, extents = _state(rng), shape(rng)
    low = integer(rng, -9, 9)
    given: dict[str, object] = {"min": float(low), "max": low + 2.5, "shape": extents}
    expected = low + units(state, extents) * 2.5
    return Case("rand.draw", given, (np.array(state),), (expected,), types=("real",))


def draw_int(rng: Rng) -> Case:
    state, extents = _state(rng), shape(rng)
    low = integer(rng, -9, 9)
    given: dict[str, object] = {"min": low, "max": low + 6, "shape": extents}
    found = words(state, math.prod(extents)) % np.uint64(7)
    expected = low + found.astype(np.int64).reshape(extents)
    return Case("rand.draw", given, (np.array(state),), (expected,), types=("int",))


def next_(rng: Rng) -> Case:
    state = _state(rng)
    return Case("rand.next", {}, (np.array(state),), (next_state(state),))


FAMILIES = [
    Family("rand.uniform", (uniform, uniform_int), "NumPy", 40),
    Family("rand.normal", normal, "NumPy"),
    Family("rand.bernoulli", bernoulli, "NumPy"),
    Family("rand.draw", (draw, draw_int), "NumPy"),
    Family("rand.next", next_, "NumPy"),
]
