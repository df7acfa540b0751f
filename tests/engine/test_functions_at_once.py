"""How many vectors of elementary functions are computed at a time, and that rows which are no
multiple of these are computed to the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm.emit import Frame
from ricci.backends.llvm.nest_plan import make_plan
from ricci.backends.llvm.target import Target
from ricci.backends.llvm.targets import named
from ricci.dtypes import Types
from ricci.ir.loops import Reduce
from ricci.passes.pipeline import lower

FEW = named("x86-64-v3")
NARROW = replace(FEW, units=1)
MANY = named("x86-64-v4")

SIGMOID = "1.0 / (1.0 + exp(-X(i)))"


@pytest.mark.parametrize(
    ("target", "value", "length", "vectors"),
    [
        (FEW, SIGMOID, 48 * 8, 6),
        (FEW, SIGMOID, 47 * 8, 4),  # what is left of a row takes longer
        (FEW, "X(i) + 1.0", 48 * 8, 4),
        (FEW, "tanh(X(i))", 48 * 8, 4),
        (FEW, "log(X(i))", 48 * 8, 3),
        (FEW, "exp(X(i)) * log(X(i))", 48 * 8, 2),
        (NARROW, SIGMOID, 48 * 8, 4),
        (MANY, SIGMOID, 48 * 16, 4),
    ],
)
def test_vectors_at_once(target: Target, value: str, length: int, vectors: int) -> None:
    text = f"def f(float({length}) X) -> (O) {{ O(i) = {value} }}"
    assert plan_of(text, target) == vectors


def test_sums_of_functions_keep_theirs() -> None:
    text = "def f(float(8,384) X) -> (O) { O(i) +=! exp(X(k,i)) where k in 0:8 }"
    assert plan_of(text, FEW) == 4


def plan_of(text: str, target: Target) -> int:
    (kernel,) = lower(ricci.tc.define(text)["f"].graph, {}, Types()).kernels
    assert isinstance(kernel, Reduce)
    return make_plan(kernel, Frame({}, target), target).vectors


@pytest.mark.parametrize("length", [384, 385, 391, 431, 480, 999])
def test_to_the_end_of_a_row(length: int) -> None:
    x = np.random.default_rng(length).normal(size=(3, length)).astype(np.float32)
    text = f"def f(float(3,{length}) X) -> (O) {{ O(h,i) = {SIGMOID.replace('X(i)', 'X(h,i)')} }}"
    got = ricci.parse(text, "tc").compile(threads=1)(x)
    np.testing.assert_allclose(got, 1 / (1 + np.exp(-x.astype(float))), 5e-7)
