"""Lanes whose places lie in order, near one another: which are picked from vectors, and numbers."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import ricci

from .running import runnable_targets
from .test_regressions import check_fenced

PICKS = re.compile(r"vperm(i2|t2)?(ps|d)\b")
GATHERS = re.compile(r"gather")


def text_of_rows(
    place: str, size: int, count: int, kind: str = "real", term: str = "x[r, {}]", height: int = 12
) -> str:
    """A graph of, of rows of so many elements, those at places that depend on `i`."""
    return f"""
        operator pick {{
            @input {{ x: {kind}[h, w]; }}
            @output {{ y: {kind}[h, {count}]; }}
            @lower {{ y[r, i] = {term.format(place)}, r < h, i < {count}; }}
        }}
        graph main {{
            @input {{ x: {kind}[{height}, {size}]; }}
            @output {{ y: {kind}[{height}, {count}]; }}
            @compose {{ y = pick(x); }}
        }}"""


def rows(
    place: str, size: int, count: int, kind: str = "real", term: str = "x[r, {}]"
) -> ricci.Model:
    return ricci.parse(text_of_rows(place, size, count, kind, term))


def check(model: ricci.Model, size: int, dtype: type = np.float32, **options: str) -> None:
    rng = np.random.default_rng(size)
    x = rng.integers(-1000, 1000, (12, size)).astype(dtype)
    expected = model.compile(target="interpreter", int="int32")(x)
    for threads in (1, 2):
        found = model.compile(threads=threads, int="int32", **options)(x)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize(
    ("place", "size", "count"),
    [
        ("(16 * i + 4) / 7", 512, 224),
        ("(5 * i) / 7", 90, 126),
        ("(5 * i) / 7 + 3", 93, 126),
        ("|(5 * i) / 7 - 2 <> 0 : w - 1|", 90, 126),
        ("|(5 * i) / 7 + 2 <> 0 : w - 1|", 90, 126),
        ("w - 1 - (5 * i) / 7", 90, 126),
        ("(11 * i) / 13 + (3 * i) / 17", 200, 190),
        ("2 * ((9 * i) / 23)", 128, 150),
        ("(37 * i) / 11", 700, 207),
        ("(67 * i) / 11", 1300, 207),
        ("(5 * i) / 7", 15, 20),
    ],
)
def test_numbers(place: str, size: int, count: int, target: str) -> None:
    check(rows(place, size, count), size, target=target)
    check(rows(place, size, count, "int"), size, np.int32, target=target)


def test_random_places() -> None:
    r = random.Random(0)
    for _ in range(60):
        by, over, more = (
            r.randint(1, 40),
            r.choice([3, 5, 6, 7, 11, 12, 25, 100]),
            r.randint(-20, 20),
        )
        count, size = r.choice([5, 16, 24, 33, 64, 100]), r.choice([7, 31, 47, 48, 64, 65, 130])
        place = f"|({by} * i + {more}) / {over} <> 0 : w - 1|"
        term = r.choice(["x[r, {0}]", "x[r, {0}] * 2.0 - x[h - 1 - r, {0}]"])
        check(rows(place, size, count, term=term), size)


def text_of(model: ricci.Model, target: str) -> str:
    return model.show("asm", target=target)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_picked_from_vectors(target: str) -> None:
    text = text_of(rows("(16 * i + 4) / 7", 512, 224), target)
    assert PICKS.search(text) and not GATHERS.search(text)
    assert text.count("imul") < 8, "quotients are computed in lanes"


@pytest.mark.parametrize("place", ["w - 1 - (5 * i) / 7", "(5 * i) % 7"])
def test_gathered(place: str) -> None:
    """Places that become less."""
    text = text_of(rows(place, 90, 126), "x86-64-v4")
    assert GATHERS.search(text) and not PICKS.search(text)


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize(
    ("place", "size", "count"),
    [
        ("(16 * i + 4) / 7", 512, 224),
        ("|(5 * i) / 7 + 2 <> 0 : w - 1|", 90, 126),
        ("(5 * i) / 7", 90, 125),
    ],
)
def test_vectors_stay_in_the_row(place: str, size: int, count: int, at_end: bool) -> None:
    check_fenced(text_of_rows(place, size, count, height=1), at_end)
