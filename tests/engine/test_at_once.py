"""Calls with tensors, and some with arrays, that native code makes from beginning to end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ricci
import ricci.torch
from ricci.runtime import at_once as calls

DOUBLE = "def f(float(N,M) X) -> (Y) { Y(n,m) = X(n,m) * 2 }"
PICK = "def f(float(N) X, int32(M) I) -> (Y) { Y(m) = X(I(m)) }"
SEVERAL = """
import math;
graph Several {
    @input { x: real[3,4]; }
    @output { sums: real[3]; less: bool[3,4]; all: real[]; }
    @compose {
        sums = math.sum_reduce{axes=[1], squeeze=true}(x);
        less = math.lt(x, 0.5);
        all = math.sum_reduce{axes=[0,1], squeeze=true}(x);
    }
}
"""
SIDE = 512
Given = Callable[[np.ndarray[Any, Any]], Any]
both = pytest.mark.parametrize("given", [np.asarray, torch.from_numpy], ids=["array", "tensor"])
"""Arrays as they are, and as tensors."""


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def known(f: Any, *args: torch.Tensor) -> Callable[..., Any]:
    """What makes calls with tensors like these."""
    f(*args)
    made = getattr(f, "_executable", f)._engine.at_once
    assert made is not None
    assert made(*args) is not None
    return made


class _Sub(torch.Tensor):
    """Another class of tensors."""


def unlike(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """Tensors of the shape of `x`, and most of its strides and dtype, that need another way."""
    yield torch.complex(x, x).conj().imag
    yield x.as_subclass(_Sub)
    yield torch.randn(x.shape[::-1]).t()
    yield torch.randn(1, x.shape[1]).expand(x.shape)
    yield torch.from_numpy(np.zeros(4 * x.numel() + 1, np.uint8)[1:].view(np.float32)).view(x.shape)


def test_only_what_is_like_an_earlier_call_is_made_at_once() -> None:
    f = ricci.tc.define(DOUBLE).f
    x = torch.randn(4, 6)
    at_once = known(f, x)
    for like in (torch.randn(4, 6), torch.nn.Parameter(x), x.clone().requires_grad_(), x[:]):
        assert torch.equal(at_once(like), like.detach() * 2)
        assert not f(like).requires_grad
    for other in unlike(x):
        assert at_once(other) is None
        assert torch.equal(f(other), other.as_subclass(torch.Tensor).resolve_neg() * 2)
    assert at_once(x, x) is None
    assert at_once() is None
    assert at_once(x.numpy()) is None


@pytest.mark.parametrize(
    "change",
    [
        torch.Tensor.double,
        torch.Tensor.to_sparse,
        lambda x: x.to("meta"),
        lambda x: x[None],
        lambda x: x.to_mkldnn(),
        lambda x: torch._efficientzerotensor(x.shape),
    ],
)
def test_unfit_tensors_are_errors_as_before(change: Callable[[Any], Any]) -> None:
    f = ricci.tc.define(DOUBLE).f
    x = torch.randn(4, 6)
    known(f, x)
    with pytest.raises(ricci.Error, match="E0801"):
        f(change(x))


def test_who_transforms_or_looks_on_is_not_passed_by() -> None:
    f = ricci.tc.define(DOUBLE).f
    x = torch.randn(4, 6)
    at_once = known(f, x)
    seen = []

    def look(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(at_once(tensor))
        return tensor

    torch.vmap(look)(torch.randn(2, 4, 6))
    torch.func.grad(lambda t: look(t).sum())(x)
    torch.func.functionalize(look)(x)

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    with Mode():
        look(x)
    assert seen == [None] * 4
    assert at_once(x) is not None


def test_results_of_all_kinds() -> None:
    f = ricci.parse(SEVERAL, "skriptnd").compile()
    x = torch.rand(3, 4)
    known(f, x)
    got = f(x)
    assert got._fields == ("sums", "less", "all")
    torch.testing.assert_close(got.sums, x.sum(1))
    assert torch.equal(got.less, x < 0.5)
    torch.testing.assert_close(got.all, x.sum())
    for result in got:
        assert result.is_contiguous()
        assert result.data_ptr() % 64 == 0
        result.fill_(1)  # it is the caller's


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int8", "uint8", "int64"])
def test_dtypes(dtype: str) -> None:
    word = {"bfloat16": "bfloat16", "float64": "double"}.get(dtype, dtype)
    f = ricci.tc.define(DOUBLE.replace("float(", f"{word}(")).f
    x = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    known(f, x)
    assert torch.equal(f(x), x * 2)


def test_memory_of_a_result_is_used_again_when_nobody_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f = ricci.tc.define(DOUBLE).f
    x = torch.ones(SIDE, SIDE)
    at_once = known(f, x)
    first = at_once(x)
    view = first[3:5].numpy()
    place = first.data_ptr()
    del first
    assert at_once(x * 2).data_ptr() != place
    assert (view == 2).all()
    del view
    held = [at_once(x * k) for k in range(40)]
    assert place in [h.data_ptr() for h in held]
    assert [h.min() for h in held] == [h.max() for h in held] == [2 * k for k in range(40)]
    monkeypatch.setenv("RICCI_KEEP_RESULTS", "0")
    known(ricci.tc.define(DOUBLE).f, torch.ones(3, 3))
    del held
    assert int(calls._kept()[2]) == 0


def test_a_call_that_fails() -> None:
    f = ricci.tc.define(PICK).f
    x, right = torch.randn(5), torch.tensor([0, 4, 2], dtype=torch.int32)
    at_once = known(f, x, right)
    wrong = torch.tensor([0, 5, 2], dtype=torch.int32)
    for _ in range(2):
        assert at_once(x, wrong) is None
        with pytest.raises(ricci.Error, match="E0802"):
            f(x, wrong)
        assert torch.equal(at_once(x, right), x[right.long()])


def test_more_kinds_than_are_known() -> None:
    f = ricci.tc.define(DOUBLE).f
    kinds = [torch.randn(n, 3) for n in range(1, calls.AtOnce.MOST + 4)]
    for _ in range(3):
        for x in kinds:
            assert torch.equal(f(x), x * 2)


@both
def test_several_threads(given: Given) -> None:
    f = ricci.tc.define(DOUBLE).f
    f(given(ones(SIDE, SIDE)))
    known(f, given(ones(SIDE, SIDE)))

    def work(k: int) -> bool:
        x = given(ones(SIDE, SIDE) * k)
        return all(bool((f(x) == 2 * k).all()) for _ in range(30))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


@both
def test_new_values_of_variables_count(given: Given) -> None:
    text = """
    import math;
    graph Main {
        @input { x: real[2]; }
        @variable { w: real[2]; }
        @output { y: real[2]; }
        @compose { y = math.mul(x, w); }
    }
    """
    model = ricci.parse(text, "skriptnd")
    (name,) = [v.name for v in model.graph.variables]
    model.variables[name] = np.array([1, 2], np.float32)
    f = model.compile()
    x = given(np.array([3, 5], np.float32))
    f(x)
    known(f, x)
    for k in count(2):
        f.variables[name] = np.array([k, k], np.float32)
        assert f(x).tolist() == f(x).tolist() == [3 * k, 5 * k]
        known(f, x)
        if k == 4:
            break


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@both
def test_the_child_of_a_fork_has_workers_of_its_own(given: Given) -> None:
    f = ricci.tc.define(DOUBLE, threads=2).f
    x = given(ones(SIDE, SIDE))
    f(x)
    known(f, x)
    child = os.fork()
    if child == 0:
        right = all((np.asarray(f(x)) == 2).all() for _ in range(3))
        os._exit(0 if right and f._executable._engine.at_once(x) is not None else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_without_the_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_torch", lambda: None)
    f = ricci.tc.define(DOUBLE).f
    x = torch.randn(4, 6)
    for _ in range(3):
        assert torch.equal(f(x), x * 2)
    assert f._executable._engine.at_once is None
