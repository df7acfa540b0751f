"""Derived gradients against finite differences in float64, by PyTorch's own check."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ricci
import ricci.torch
from ricci import eintup

FOLDER = Path(__file__).parents[2] / "examples" / "eintup"
_NUMBERS = itertools.count()

CASES: dict[str, tuple[dict[str, int], dict[str, Any], list[tuple[int, ...]]]] = {
    "matmul": ({"batch": 1}, {}, [(2, 3, 4), (2, 4, 2)]),
    "conv_valid_v1": ({}, {"stride": [2, 1]}, [(2, 5, 4, 2), (3, 2, 2, 3)]),
    "conv_valid_v2": ({}, {"stride": [2]}, [(2, 7, 2), (3, 2, 3)]),
    "conv_same_v2": ({}, {"stride": [2]}, [(1, 6, 2), (3, 2, 2)]),
    "tconv_valid_v1": ({}, {"stride": [2]}, [(1, 4, 2), (3, 2, 2)]),
    "softmax": ({"left": 1, "right": 0}, {}, [(2, 4)]),
    "layer_norm": ({"batch": 1}, {}, [(2, 3), (3,), (3,)]),
    "attention": ({"batch": 0}, {}, [(3, 2), (4, 2), (4, 3)]),
    "cumsum": ({"left": 0, "right": 1}, {}, [(4, 2)]),
}

FORMULAS = {
    "flatten": ("y[FLAT(a, b)] = x[a, b] * x[a, b]", ""),
    "tile": ("y[2 * m + a] = exp(x[a])", "DIMS(m) = 2"),
    "collide": ("y[a // 2] = x[a] * x[a]", ""),
    "skipped": ("y[a] = x[a - 1] + x[a + 1] * x[a]", ""),
    "diagonal": ("y[a] = x[a, a] * x[a, a]", ""),
    "largest": ("y[z] max= x[a]", "RANK(z) = 0"),
    "product": ("y[z] *= 1 + x[a]", "RANK(z) = 0"),
    "condition": ("y[a] = where(x[a] < 0.5, x[a] * x[a], 2 * x[a])", ""),
    "rewritten": ("y[a] = x[a]\ny[a] *= x[a]\ny[a] += x[c]", "DIMS(c) = DIMS(a)"),
    "partly": ("y[a] = x[a]\ny[a - 2] = x[a] * x[a]", ""),
}


def checked(program: Any, arguments: list[torch.Tensor]) -> None:
    operator = ricci.torch.custom_op(f"eintup_test::op{next(_NUMBERS)}", program)
    assert torch.autograd.gradcheck(operator, arguments)


def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.from_numpy(rng.random(shape)).requires_grad_()


@pytest.mark.parametrize("name", CASES)
def test_library(name: str) -> None:
    ranks, dims, shapes = CASES[name]
    program = eintup.load(FOLDER / f"{name}.et").at(ranks, dims)
    rng = np.random.default_rng(0)
    checked(program.at(program.infer(*shapes).ranks), [draw(rng, s) for s in shapes])


@pytest.mark.parametrize(("formula", "constraint"), FORMULAS.values(), ids=FORMULAS.keys())
def test_formulas(formula: str, constraint: str) -> None:
    pair = "x[a, " in formula
    start = f"x[a{', b' * pair}] = RANDOM(0, 1, FLOAT)"
    program = eintup.parse(f"{start}\n{formula}\n\ny\n\n{constraint}")
    checked(program, [draw(np.random.default_rng(1), (4, 4) if pair else (5,))])


def test_gather() -> None:
    gather = eintup.load(FOLDER / "gather_nd.et", int="int64")
    rng = np.random.default_rng(2)
    params, indices = draw(rng, (2, 3, 4)), torch.from_numpy(rng.integers(0, 3, (2, 5, 1)))
    ranks = {"batch": 1, "read": 1, "write": 1, "elem": 1}
    checked(gather.at(ranks), [params, indices])


def test_scatter() -> None:
    scatter = eintup.load(FOLDER / "scatter_nd.et", int="int64")
    rng = np.random.default_rng(3)
    slots, updates = torch.from_numpy(rng.integers(0, 3, (6, 2))), draw(rng, (6, 2))
    checked(scatter.at({"slot": 1, "elem": 1}, {"dest": [3, 3]}), [slots, updates])


def test_gradient_of_calls() -> None:
    program = eintup.load(FOLDER / "matmul.et")
    gradient = program.gradient()
    rng = np.random.default_rng(4)
    for batch in ((), (2,), (2, 3)):
        a, b, d = (rng.random((*batch, *s)) for s in ((3, 4), (4, 5), (3, 5)))
        d_a, d_b = gradient(a, b, d)
        np.testing.assert_allclose(d_a, d @ b.swapaxes(-1, -2))
        np.testing.assert_allclose(d_b, a.swapaxes(-1, -2) @ d)
        only = program.gradient(["left"])
        np.testing.assert_allclose(only(a, d_output=d, right=b), d_a)
        tensors = gradient(*map(torch.from_numpy, (a, b, d)))
        torch.testing.assert_close(tensors[1], torch.from_numpy(d_b))


def test_calls_that_have_no_gradient() -> None:
    program = eintup.load(FOLDER / "matmul.et")
    with pytest.raises(ricci.Error, match="no input `a`"):
        program.gradient(["a"])
    with pytest.raises(ricci.Error, match="no output `y`"):
        program.gradient(outputs=["y"])
    a, b, d = np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2))
    for args, kwargs, said in (
        ((a, b), {}, "`d_output` is missing"),
        ((a, b, d, d), {}, "too many"),
        ((a, b, d), {"d_x": d}, "no input `d_x`"),
    ):
        with pytest.raises(ricci.Error, match=said) as caught:
            program.gradient()(*args, **kwargs)
        assert caught.value.diagnostics[0].code == "E0801"
    with pytest.raises(ricci.Error, match="not real"):
        program.gradient(["left"])(a.astype(int), b, d)


def test_training() -> None:
    text = "x[b, i] = RANDOM(0, 1, FLOAT)\nw[i, o] = RANDOM(0, 1, FLOAT)\n"
    text += "y[b, o] = x[b, i] * w[i, o]"
    operator = ricci.torch.custom_op("eintup_test::layer", eintup.parse(text, real="float32"))
    torch.manual_seed(0)
    x, wanted = torch.rand(16, 3), torch.rand(3, 2)
    w = torch.zeros(3, 2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    for _ in range(300):
        optimizer.zero_grad()
        (operator(x, w) - x @ wanted).square().mean().backward()
        optimizer.step()
    torch.testing.assert_close(w.detach(), wanted, atol=0.02, rtol=0)
