"""Every kernel of the folder gives what PyTorch gives in float64, on both executors."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.tc import assert_almost_equal

from .kernel_cases import FOLDER, KERNELS, Kernel, operations


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.file}-{k.name}")
def test_kernels_compute_what_they_say(kernel: Kernel, target: str) -> None:
    arguments = kernel.draw(kernel.small)
    result = ricci.tc.define(kernel.text, target=target)[kernel.name](*arguments)
    results = result if isinstance(result, tuple) else (result,)
    limit = 4 * operations(kernel, kernel.small)
    for actual, expected in zip(results, kernel.expected(arguments), strict=True):
        if actual.dtype.kind == "i":
            np.testing.assert_array_equal(actual, expected)
        else:
            assert_almost_equal(actual, expected, *arguments, operations=limit)


def test_every_function_of_the_folder_is_called() -> None:
    called = {(k.file or k.name, k.name) for k in KERNELS}
    for file in FOLDER.glob("*.tc"):
        for name in ricci.tc.define(file.read_text()):
            in_introduction = ("introduction", name) in called
            assert in_introduction or (file.stem, name) in called, f"{file.name}: {name}"
