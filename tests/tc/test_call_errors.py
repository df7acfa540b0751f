"""Calls that are refused, and what they are answered with: golden texts in the folder `calls`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ricci

FOLDER = Path(__file__).parent / "calls"

TEXT = """
def mm(float(M, K) A, float(K, N) B) -> (C) {
    C(m, n) +=! A(m, k) * B(k, n)
}
def bias(float(N) A, float(3) B, float s, int32 k) -> (O) {
    O(n) = A(n) + s * k where exists B(0)
}
def lookup(float(E, D) T, int32(L) I) -> (O) {
    O(l, d) = T(I(l), d)
}
def triple(float(I) B, float(X) C, float(J) D) -> (A) {
    A(i, j) = B(i) * C(i + j) * D(j)
}
def valid(float(N) I, float(K) W) -> (O) {
    O(i) +=! I(i + k) * W(k)
}
def split(int32(N) A, int32(N) B) -> (O) {
    O(n) = A(n) / B(n)
}
"""

F = ricci.tc.define(TEXT)


def ones(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.ones(shape, dtype)


CALLS: dict[str, Callable[[], object]] = {
    "unknown_entry": lambda: ricci.tc.compile(TEXT, "nn", ones(2, 3), ones(3, 4)),
    "too_few_inputs": lambda: F.mm(ones(2, 3)),
    "too_many_inputs": lambda: F.mm(ones(2, 3), ones(3, 4), ones(4, 5)),
    "too_few_shapes": lambda: ricci.tc.compile(TEXT, "mm", (2, 3)),
    "input_that_is_not_there": lambda: F.mm(A=ones(2, 3), D=ones(3, 4)),
    "input_twice": lambda: F.mm(ones(2, 3), ones(3, 4), A=ones(2, 3)),
    "wrong_type": lambda: F.mm(ones(2, 3), ones(3, 4, dtype="float64")),
    "wrong_type_of_spec": lambda: ricci.tc.compile(
        TEXT, "mm", (2, 3), ricci.tc.Spec((3, 4), "int32")
    ),
    "wrong_rank": lambda: F.mm(ones(2, 3), ones(3)),
    "array_for_a_scalar": lambda: F.bias(ones(2), ones(3), ones(1), 1),
    "real_for_an_integer": lambda: F.bias(ones(2), ones(3), 1.0, 1.5),
    "not_an_array": lambda: F.mm(ones(2, 3), "text"),
    "two_values_of_a_size": lambda: F.mm(ones(2, 3), ones(4, 5)),
    "another_size_than_the_number": lambda: F.bias(ones(2), ones(4), 1.0, 1),
    "precondition_of_sizes": lambda: F.triple(ones(2), ones(2), ones(2)),
    "negative_range": lambda: F.valid(ones(2), ones(5)),
    "index_from_data": lambda: F.lookup(ones(4, 2), np.array([0, 7], np.int32)),
    "division_by_zero": lambda: F.split(ones(2, dtype="int32"), np.zeros(2, np.int32)),
    "result_of_another_shape": lambda: F.mm(ones(2, 3), ones(3, 4), out=ones(2, 3)),
    "result_of_another_type": lambda: F.mm(ones(2, 3), ones(3, 4), out=ones(2, 4, dtype="float64")),
    "number_of_results": lambda: F.mm(ones(2, 3), ones(3, 4), out=(ones(2, 4), ones(2, 4))),
    "read_only_result": lambda: F.mm(ones(2, 3), ones(3, 4), out=np.broadcast_to(0.0, (2, 4))),
    "shape_that_is_none": lambda: ricci.tc.compile(TEXT, "mm", (2, -3), (3, 4)),
    "options_that_are_none": lambda: ricci.tc.define(TEXT, options="fast"),
    "gradient_of_an_integer": lambda: F.lookup.gradient(["I"]),
    "gradient_of_nothing": lambda: F.mm.gradient(["X"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_refused_call(name: str, update_golden: bool) -> None:
    with pytest.raises(ricci.Error) as caught:
        CALLS[name]()
    golden = FOLDER / f"{name}.txt"
    text = str(caught.value) + "\n"
    if update_golden:
        golden.write_text(text)
    assert text == golden.read_text()


def test_every_golden_text_has_a_call() -> None:
    assert {p.stem for p in FOLDER.glob("*.txt")} == set(CALLS)
