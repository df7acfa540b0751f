"""Results of sums of products that no cache holds are written past the caches, if they are whole
vectors that lie as they should; they are what NumPy gives in float64."""

from __future__ import annotations

import numpy as np
import pytest

from ricci.backends.llvm import contraction_results
from ricci.backends.llvm.contraction import follow
from ricci.backends.llvm.nest_stream import FENCE
from ricci.backends.llvm.schedule import Contraction, Schedule, Window, Winograd
from ricci.backends.llvm.target import Target, host

from .cases import Case, convolution
from .native import Native
from .oracle import reduce
from .test_random import narrow

HOST = host()
TARGETS = {"host": HOST, "32 bytes": narrow(HOST, 32), "16 bytes": narrow(HOST, 16)}

POINTWISE = Contraction("left", "packed", "packed", 5, 2, 20, 32, (0,), 0, 16, 2)
TILES = Window("right", 3, 1, 1, 7, 2)
PRODUCTS = Winograd("right", 3, 1, 2, 0, 0)

CASES: dict[str, tuple[Case, Schedule, bool]] = {
    "planes of whole vectors": (convolution(2, (5, 20), (8, 8), 1, bias=True), POINTWISE, True),
    "planes that are not": (convolution(2, (5, 20), (7, 7), 1, bias=True), POINTWISE, False),
    "rows of whole vectors": (convolution(2, (3, 20), (9, 68), 7, stride=2, pad=1), TILES, True),
    "rows that are not": (convolution(2, (3, 20), (9, 61), 7, stride=2, pad=1), TILES, False),
    "tiles of whole vectors": (convolution(2, (16, 24), (6, 32), 3, pad=1), PRODUCTS, True),
    "tiles that are not": (convolution(2, (16, 24), (6, 35), 3, pad=1), PRODUCTS, False),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_whole_vectors_go_past_the_caches(
    monkeypatch: pytest.MonkeyPatch, name: str, target: Target
) -> None:
    case, schedule, past = CASES[name]
    assert not _streams(case, schedule, target), "caches hold so few results"
    monkeypatch.setattr(contraction_results, "_FAR", 0)
    assert _streams(case, schedule, target) == past


def _streams(case: Case, schedule: Schedule, target: Target) -> bool:
    """Whether the code of a schedule, whose results are checked, has stores past the caches, and
    waits for them."""
    code = follow(case.kernel, schedule, {}, target, case.constant)
    arrays = case.arrays(0)
    native = Native(code, arrays, target)
    native.run(2)
    assert not native.errors.any()
    expected, found = reduce(case.kernel, arrays), native.array(case.target)
    assert np.abs(found - expected).max() < 3e-6 * np.abs(expected).max()
    streams = "!nontemporal" in code.text
    assert streams == (FENCE in code.text)
    return streams
