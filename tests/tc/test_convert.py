"""Functions written in SkriptND mean the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci.cli import main
from ricci.tc import assert_almost_equal

from .kernel_cases import FOLDER, KERNELS, Kernel, operations


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.file}-{k.name}")
def test_kernels_in_skriptnd(kernel: Kernel) -> None:
    text = ricci.parse(kernel.text, "tc", graph=kernel.name).show("sknd")
    graph = ricci.parse(kernel.text, "tc", graph=kernel.name).graph
    sizes = {s.name: kernel.small[s.name] for s in graph.symbols}
    arguments = kernel.draw(kernel.small)
    wide = [a if a.dtype == np.float32 else a.astype(np.int64) for a in arguments]
    result = ricci.parse(text, "skriptnd", attribs=sizes).compile("interpreter")(*wide)
    results = result if isinstance(result, tuple) else (result,)
    limit = 4 * operations(kernel, kernel.small)
    for actual, expected in zip(results, kernel.expected(arguments), strict=True):
        assert_almost_equal(actual, expected, *arguments, operations=limit, precision=2e-7)


def test_all_functions_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "moments.sknd"
    assert main(["convert", str(FOLDER / "moments.tc"), str(target)]) == 0
    assert ricci.graphs(target) == ricci.graphs(FOLDER / "moments.tc")
    run = ricci.load(target, {"N": 2, "K": 3}, graph="moments2").compile()
    mean, var = run(np.array([[1, 2, 3], [5, 5, 5]], np.float32))
    assert mean.tolist() == [2, 5]
    np.testing.assert_allclose(var, [2 / 3, 0], atol=1e-5)
    assert main(["convert", str(FOLDER / "moments.tc"), "-", "--graph", "mean"]) == 0
    assert "graph mean" in capsys.readouterr().out


def test_other_targets_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(FOLDER / "mm.tc"), str(tmp_path / "mm.onnx")]) == 1
    assert "E0708" in capsys.readouterr().err
