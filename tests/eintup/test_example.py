"""The script in `examples` runs, and prints what it says."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "eintup_program.py"


def test_the_script_runs(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    names = runpy.run_path(str(SCRIPT))
    assert names["shapes"] == [(20, 10), (3, 20, 10), (8, 4, 20, 10)]
    shown = capsys.readouterr().out
    assert "RANK(batch) = 2" in shown and "error[E0410]" in shown
    arrays = [torch.tensor(names[n], requires_grad=True) for n in ("query", "key", "value")]
    torch.nn.functional.scaled_dot_product_attention(*arrays).sum().backward()
    for array, gradient in zip(arrays, names["gradients"], strict=True):
        np.testing.assert_allclose(gradient, array.grad.numpy(), atol=1e-8)
