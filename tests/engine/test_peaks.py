"""Exponentials of what is less than the largest element of its row, their shares of their sum, and
those that only look so."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import emit, mathlib, nest_group
from ricci.backends.llvm.builder import Builder
from ricci.backends.llvm.group_peaks import Sums, is_share, known_to, peaks_of, sums_of
from ricci.backends.llvm.target import Target
from ricci.dtypes import DType, Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Group, Reduce
from ricci.ir.nodes import Binary, Const
from ricci.passes.pipeline import lower

from .running import HOST, run_code

_POWERS = "m(i) max=! X(i, k)  e(i, k) = exp(X(i, k) - m(i))"
SHARES = {
    "of its row": f"{_POWERS}  s(i) +=! e(i, k)  O(i, k) = e(i, k) / s(i)",
    "of another name": f"{_POWERS}  s(i) +=! e(i, q)  O(i, p) = e(i, p) / s(i)",
    "summed up": f"{_POWERS}  s(i) +=! e(i, k)  O(i) +=! e(i, k) / s(i)",
    "and more": f"{_POWERS}  s(i) +=! e(i, k)  O(i, k) = X(i, k) + e(i, k) / s(i) * 2.0",
}
NO_SHARES = {
    "a sum of others": f"{_POWERS}  s(i) +=! e(i, k) + fabs(X(i, k))  O(i, k) = e(i, k) / s(i)",
    "a part": f"{_POWERS}  s(i) +=! e(i, k) where k in 0:3  O(i, k) = e(i, k) / s(i)",
    "another value": f"{_POWERS}  s(i) +=! e(i, k)  O(i, k) = X(i, k) / s(i)",
    "of a negative": f"{_POWERS}  s(i) +=! e(i, k)  O(i, k) = (-e(i, k)) / s(i)",
    "the largest": f"{_POWERS}  s(i) max=! e(i, k)  O(i, k) = e(i, k) / s(i)",
    "scaled": f"{_POWERS}  s(i) +=! e(i, k) * 1e-30  O(i, k) = e(i, k) / s(i)",
    "of what is not the largest": (
        "m(i) min=! X(i, k)  e(i, k) = exp(X(i, k) - m(i))  s(i) +=! e(i, k)"
        "  O(i, k) = e(i, k) / s(i)"
    ),
    "of what is rounded": (
        "m(i) max=! X(i, k) * 0.3  e(i, k) = exp(X(i, k) * 0.3 - m(i))  s(i) +=! e(i, k)"
        "  O(i, k) = e(i, k) / s(i)"
    ),
    "of the largest of something": (
        "m(i) max=! X(i, k)  e(i, k) = exp(X(i, 4) - m(i)) where k in 0:K  s(i) +=! e(i, k)"
        "  O(i, k) = e(i, k) / s(i)"
    ),
    "from a large one on": (
        "m(i) = 40.0 where i in 0:N  m(i) max= X(i, k)  e(i, k) = exp(X(i, k) - m(i))"
        "  s(i) +=! e(i, k)  O(i, k) = e(i, k) / s(i)"
    ),
    "from a negative one on": (
        f"{_POWERS}  s(i) = -0.5 where i in 0:N  s(i) += e(i, k)  O(i, k) = e(i, k) / s(i)"
    ),
    "powers twice": f"{_POWERS}  s(i) +=! e(i, k)  O(i, k) = e(i, k) * e(i, k) / s(i)",
}
FEW = replace(HOST, vector_bytes=16, registers=15, masks=False, features="")
"""Without the instructions by which tables are picked from: with these, nothing is gained."""
FUSED = replace(FEW, features="+fma")
SIZES = {"N": 80, "K": 601}
BELOW = {
    "its row": "m(i) max=! X(i, k)  O(i, k) = exp(X(i, k) - m(i))",
    "of what is computed": (
        "m(i) max=! X(i, k) * 0.3 + Y(i, k)  O(i, k) = exp((X(i, k) * 0.3 + Y(i, k)) - m(i))"
    ),
    "summed up": "m(i) max=! X(i, k)  O(i) +=! exp(X(i, k) - m(i))",
    "along its row": "m(i) max=! X(i, k)  O(i) max=! exp(X(i, j) - m(i))",
}
OTHERS = {
    "part of its row": "m(i) max=! X(i, k) where k in 0:3  O(i, k) = exp(X(i, k) - m(i))",
    "another tensor": "m(i) max=! X(i, k)  O(i, k) = exp(Y(i, k) - m(i))",
    "another factor": "m(i) max=! X(i, k) * 0.3  O(i, k) = exp(X(i, k) * 0.4 - m(i))",
    "without a factor": "m(i) max=! X(i, k) * 0.3  O(i, k) = exp(X(i, k) - m(i))",
    "another function": "m(i) max=! fabs(X(i, k))  O(i, k) = exp(X(i, k) - m(i))",
    "a neighbour": "m(i) max=! X(i, k) + Y(i, k)  O(i, k) = exp((X(i, k) + Y(i, 4)) - m(i))",
    "a zero of the other sign": (
        "m(i) max=! fabs(X(i, k)) / (-0.0)  O(i, k) = exp(fabs(X(i, k)) / 0.0 - m(i))"
    ),
    "the least": "m(i) min=! X(i, k)  O(i, k) = exp(X(i, k) - m(i))",
    "the other way round": "m(i) max=! X(i, k)  O(i, k) = exp(m(i) - X(i, k))",
}


def run_of(body: str, target: Target) -> None:
    """The code of a program gives what the interpreter does."""
    text = f"def f(float(N, K) X, float(N, K) Y) -> (O) {{ {body} }}"
    graph = ricci.tc.define(text)["f"].graph
    (kernel,) = lower(graph, {s: SIZES[s.name] for s in graph.symbols}, Types()).kernels
    assert isinstance(kernel, Group)
    code = nest_group.write_group(kernel, {}, target, frozenset())
    rng = np.random.default_rng(len(body))
    given = {n: rng.normal(size=(80, 601)).astype(np.float32) * 12 for n in "XY"}
    given["X"][3] = -np.inf
    given["X"][4, 5] = np.nan
    given["X"][5, ::2] = -np.inf
    given["X"][6, 7] = np.inf
    given["X"][7] = 1.0
    given["X"][8] *= 1e36
    with np.errstate(all="ignore"):
        want = interpret(graph, given)
    made = {n: np.zeros(a.shape, np.float32) for n, a in want.items()}
    arrays = {t: (given | made)[t.name.rpartition(".")[2]] for t in code.tensors}
    assert not run_code(code, arrays).any()
    for name, expected in want.items():
        np.testing.assert_allclose(made[name], expected, 1e-6, 1e-37, err_msg=body)


def calls_of(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The functions that code calls from now on, which are put there."""
    called = set[str]()
    function = mathlib.function

    def noting(b: Builder, name: str, *rest: Any) -> str:
        called.add(name)
        return function(b, name, *rest)

    monkeypatch.setattr(mathlib, "function", noting)
    return called


def functions_of(body: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The functions that the code of a program calls."""
    called = calls_of(monkeypatch)
    run_of(body, FEW)
    return called


def shares_of(body: str, monkeypatch: pytest.MonkeyPatch) -> set[bool]:
    """Whether quotients in the code of a program are known to be shares."""
    found = set()
    quotients = emit.quotients

    def noting(*given: Any) -> str:
        found.add(given[5] is emit.Known.SHARE)
        return quotients(*given)

    monkeypatch.setattr(emit, "quotients", noting)
    run_of(body, FUSED)
    return found


@pytest.mark.parametrize("body", BELOW.values(), ids=BELOW)
def test_what_is_at_most_zero(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert functions_of(body, monkeypatch) == {mathlib.EXP_BELOW}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_what_may_be_more(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert functions_of(body, monkeypatch) - {"abs"} == {"exp"}


@pytest.mark.parametrize("body", SHARES.values(), ids=SHARES)
def test_what_is_a_share(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shares_of(body, monkeypatch) == {True}


@pytest.mark.parametrize("body", NO_SHARES.values(), ids=NO_SHARES)
def test_what_may_be_no_share(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shares_of(body, monkeypatch) == {False}


_CUBE = "m(i) max=! X(i, j, k)  e(i, j, k) = exp(X(i, j, k) - m(i))"
WHOLE = {
    "rows": (2, f"{_POWERS}  s(i) +=! e(i, k)  O(i, k) = e(i, k) / s(i)"),
    "columns": (
        2, "m(k) max=! X(i, k)  e(i, k) = exp(X(i, k) - m(k))  s(k) +=! e(i, k)"
        "  O(i, k) = e(i, k) / s(k)",
    ),
    "planes": (3, f"{_CUBE}  s(i) +=! e(i, j, k)  O(i, j, k) = e(i, j, k) / s(i)"),
    "all": (3, f"{_CUBE}  s +=! e(i, j, k)  O(i, j, k) = e(i, j, k) / s"),
    "diagonals": (
        2, "m max=! X(i, i)  e(i) = exp(X(i, i) - m)  s +=! e(i)  O(i) = e(i) / s"
    ),
}  # fmt: skip
PARTS = {
    "rows of planes": (3, f"{_CUBE}  s(i, j) +=! e(i, j, k)  O(i, j, k) = e(i, j, k) / s(i, j)"),
    "diagonals of planes": (3, f"{_CUBE}  s(i) +=! e(i, j, j)  O(i, j) = e(i, j, j) / s(i)"),
    "powers of diagonals of planes": (
        3, "m(i) max=! X(i, j, k)  e(i, j) = exp(X(i, j, j) - m(i))  s(i) +=! e(i, j)"
        "  O(i, j) = e(i, j) / s(i)",
    ),
    "a diagonal of rows": (
        2, "m(i) max=! X(i, k)  e(i, j) = exp(X(i, i) - m(i)) where j in 0:N  s +=! e(i, j)"
        "  O(i, j) = e(i, j) / s",
    ),
    "a diagonal of rows of planes": (
        3, "m(b, i) max=! X(b, i, k)  e(b, i, k) = exp(X(b, i, k) - m(b, i))"
        "  s(b) +=! e(b, k, k)  O(b, k) = e(b, k, k) / s(b)",
    ),
    "the other diagonal": (
        3, "m(b, i) max=! X(b, i, k)  e(b, i, k) = exp(X(b, i, k) - m(b, i))"
        "  s(b) +=! e(b, N - 1 - k, k) where k in 0:N"
        "  O(b, k) = e(b, N - 1 - k, k) / s(b) where k in 0:N",
    ),
    "the largest of other rows": (
        3, "m(b, i) max=! X(b, i, k)"
        "  e(b, k) = exp(X(b, N - 1 - k, k) - m(b, N - 1 - k)) where k in 0:N"
        "  s(b) +=! e(b, k)  O(b, k) = e(b, k) / s(b)",
    ),
    "some powers of a row": (
        2, "m(i) max=! X(i, k)  e(i, k) = exp(X(i, k) - m(i)) where k in 0:20"
        "  s(i) +=! e(i, k)  O(i, k) = e(i, k) / s(i)",
    ),
    "across rows": (2, f"{_POWERS}  s(k) +=! e(i, k)  O(i, k) = e(i, k) / s(k)"),
    "some of a row": (
        2, f"{_POWERS}  s(i) +=! e(i, k) where k in 0:3  O(i, k) = e(i, k) / s(i) where k in 0:3"
    ),
    "the least power": (
        2, f"{_POWERS}  s(i) = 0.0 where i in 0:N  s(i) min= e(i, k)  O(i, k) = e(i, k) / s(i)"
    ),
}  # fmt: skip


def kernels_of(rank: int, body: str) -> list[Reduce]:
    graph = ricci.tc.define(f"def f(float({'N, ' * (rank - 1)}N) X) -> (O) {{ {body} }}")["f"].graph
    kernels = lower(graph, dict.fromkeys(graph.symbols, 40), Types()).kernels
    reduces = [k for x in kernels for k in (x.kernels if isinstance(x, Group) else [x])]
    return [k for k in reduces if isinstance(k, Reduce)]


def is_known(kernels: list[Reduce], sums: Sums) -> bool:
    """Whether the last quotient of a program is known to be a share."""
    quotient = kernels[-1].initial[0]
    assert isinstance(quotient, Binary)
    return is_share(quotient, sums)


@pytest.mark.parametrize(("rank", "body"), WHOLE.values(), ids=WHOLE)
def test_sums_of_whole_rows(rank: int, body: str) -> None:
    kernels = kernels_of(rank, body)
    assert is_known(kernels, sums_of(kernels, peaks_of(kernels)))


@pytest.mark.parametrize(("rank", "body"), PARTS.values(), ids=PARTS)
def test_sums_of_parts(rank: int, body: str) -> None:
    """The largest may not be among what is added up, and all the rest of nearly no size."""
    kernels = kernels_of(rank, body)
    assert not is_known(kernels, sums_of(kernels, peaks_of(kernels)))


@pytest.mark.parametrize("number", range(3))
def test_what_is_written_again(number: int) -> None:
    kernels = kernels_of(*WHOLE["rows"])
    for place in range(number + 1, 4):
        again = [*kernels[:place], replace(kernels[number]), *kernels[place:]]
        assert not is_known(again, sums_of(again, peaks_of(again)))


def test_what_is_not_yet_known() -> None:
    """Before a kernel has run, a loop may have older values in what it writes."""
    kernels = kernels_of(*WHOLE["rows"])
    peaks = peaks_of(kernels)
    largest, powers, sum, last = kernels
    assert not sums_of([powers, largest, sum, last], peaks)
    assert not sums_of([largest, sum, powers, last], peaks)
    sums = sums_of(kernels, peaks)
    late = [largest, powers, last, sum]
    assert known_to(3, sums, kernels) == sums and not known_to(2, sums, late)
    assert known_to(1, sums, late) == sums  # of which it reads nothing
    assert known_to(1, peaks, kernels) == peaks
    assert not known_to(0, peaks, [powers, largest, sum, last])


def group_of(body: str, sizes: dict[str, int]) -> Group:
    graph = ricci.tc.define(f"def f(float(N, K) X) -> (O) {{ {body} }}")["f"].graph
    (group,) = lower(graph, {s: sizes[s.name] for s in graph.symbols}, Types()).kernels
    assert isinstance(group, Group)
    return group


def known_in(group: Group, order: str, monkeypatch: pytest.MonkeyPatch) -> set[emit.Known]:
    """What is known of quotients in the code of a group whose kernels come in another order, as
    those of a loop may, by the names of what they write."""
    made = {k.targets[0].tensor.name.rpartition(".")[2]: k for k in group.kernels}
    found = set[emit.Known]()
    quotients = emit.quotients

    def noting(*given: Any) -> str:
        found.add(given[5])
        return quotients(*given)

    with monkeypatch.context() as patch:
        patch.setattr(emit, "quotients", noting)
        ordered = replace(group, kernels=tuple(made[n] for n in order))
        nest_group.write_group(ordered, {}, FUSED, frozenset())
    return found


def test_quotients_by_older_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group knows only what is made before a kernel."""
    known = partial(known_in, group_of(SHARES["of its row"], SIZES), monkeypatch=monkeypatch)
    assert known(order="mesO") == {emit.Known.SHARE}
    assert known(order="meOs") == {emit.Known.NOTHING}
    spread = "m(i) +=! X(i, k)  d(i) +=! (X(i, k) - m(i)) * (X(i, k) - m(i))"
    spread = f"{spread}  e(i) = d(i) + 1.0  O(i, k) = (X(i, k) - m(i)) / e(i)"
    known = partial(known_in, group_of(spread, SIZES), monkeypatch=monkeypatch)
    assert known(order="meO") == {emit.Known.OF_SPREAD}
    assert known(order="mOe") == {emit.Known.NOTHING}


def test_powers_of_older_values(monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of(SHARES["of its row"], SIZES)
    called = calls_of(monkeypatch)
    for order, name in (("mesO", mathlib.EXP_BELOW), ("emsO", "exp")):
        called.clear()
        known_in(group, order, monkeypatch)
        assert called == {name}


def test_two_kernels_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last kernel of a row is done with another one of the next: what that reads is older."""
    body = f"{_POWERS}  s(i) +=! e(i, k)  l(i, k) = exp(e(i, k) / s(i))"
    group = group_of(f"{body}  p(i) +=! l(i, k)  O(i, k) = l(i, k) / p(i)", {"N": 4096, "K": 8192})
    assert emit.Known.SHARE in known_in(group, "meslpO", monkeypatch)
    assert known_in(group, "melspO", monkeypatch) == {emit.Known.NOTHING}


def test_what_is_written_in_part() -> None:
    """Of what a kernel does not write nothing is known."""
    kernels = kernels_of(*WHOLE["rows"])
    target = kernels[0].targets[0]
    wider = replace(target.tensor, shape=(Const(50, DType.INT),))
    changed = replace(kernels[0], targets=(replace(target, tensor=wider),))
    assert peaks_of(kernels) and not peaks_of([changed, *kernels[1:]])
