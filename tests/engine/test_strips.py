"""Windows over vectors of neighbours, such as channels that are next to one another: by strips of
them, and rows beyond an end. Against NumPy."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from ricci.backends.llvm import nest, nest_asked
from ricci.backends.llvm.emit import Frame
from ricci.backends.llvm.nest_plan import make_plan
from ricci.backends.llvm.schedule import Nest
from ricci.backends.llvm.target import Target, host
from ricci.backends.llvm.targets import named
from ricci.diagnostics import Error
from ricci.dtypes import DType, Types
from ricci.ir.loops import Reduce
from ricci.ir.text import parse_graph
from ricci.passes.pipeline import lower
from ricci.runtime.executable import compile_graph
from ricci.runtime.options import Options

Shape = tuple[int, int, int]
SHAPES: list[Shape] = [(14, 14, 384), (7, 7, 960), (5, 90, 144), (9, 1, 2048), (2, 40, 528)]


def text_of(shape: Shape, step: int, kind: str, beyond: int = 1) -> str:
    """Sums, or maxima, over windows of 3 x 3, `beyond` rows and columns of which are outside."""
    h, w, c = shape
    y = [(n + 2 * beyond - 3) // step + 1 for n in (h, w)]
    term = f"x[|{step} * i + p - {beyond}|, |{step} * j + q - {beyond}|, c]"
    value = f"+= {term} * f[p, q, c]" if kind == "sum" else f"max= {term} + f[p, q, c]"
    return f"""graph g {{
      input x = x: real[{h}, {w}, {c}];
      input f = f: real[3, 3, {c}];
      y: real[{y[0]}, {y[1]}, {c}] = op(x, f) {{
        y[i, j, c] = {"0.0" if kind == "sum" else "-inf"}  for i < {y[0]}, j < {y[1]}, c < {c};
        y[i, j, c] {value}  for i < {y[0]}, j < {y[1]}, c < {c}, p < 3, q < 3;
      }}
      output y = y;
    }}"""


def arrays_of(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x, f = rng.standard_normal(shape), rng.standard_normal((3, 3, shape[2]))
    return x.astype(np.float32), f.astype(np.float32)


def expected(x: np.ndarray, f: np.ndarray, step: int, kind: str, beyond: int = 1) -> np.ndarray:
    outside = 0.0 if kind == "sum" else -np.inf
    around = ((beyond, beyond), (beyond, beyond), (0, 0))
    padded = np.pad(x.astype(np.float64), around, constant_values=outside)
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (0, 1))[::step, ::step]
    weights = f.transpose(2, 0, 1)
    both = (views * weights).sum((-1, -2)) if kind == "sum" else (views + weights).max((-1, -2))
    return np.asarray(both)


def kernel_of(text: str) -> Reduce:
    graph = parse_graph(text)
    kernels = lower(graph, {}, Types(DType.FLOAT32, DType.INT64)).kernels
    (kernel,) = [k for k in kernels if isinstance(k, Reduce) and k.reduced]
    return kernel


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("kind", ["sum", "maximum"])
def test_results(shape: Shape, step: int, kind: str) -> None:
    x, f = arrays_of(shape)
    found = compile_graph(parse_graph(text_of(shape, step, kind)), threads=2)(x, f)
    np.testing.assert_allclose(found, expected(x, f, step, kind), 1e-4, 1e-5)


@pytest.mark.parametrize("target", [host(), named("x86-64-v3"), named("x86-64-v4")])
def test_where_a_window_is_more_than_the_first_cache(target: Target) -> None:
    for channels, rows in ((384, 40), (2048, 9)):
        kernel = kernel_of(text_of((14, rows, channels), 1, "sum"))
        plan = make_plan(kernel, Frame({}, target), target)
        assert plan.strip is not None and plan.outer[0] is plan.strip
        assert plan.strip.extent == channels // (plan.lanes * plan.vectors)
        assert plan.rows * plan.vectors >= 6
    few = kernel_of(text_of((14, 14, target.l1 // 2 // (3 * 14 * 4) // 64 * 64), 1, "sum"))
    assert make_plan(few, Frame({}, target), target).strip is None


@pytest.mark.parametrize("outer", list(permutations((0, 1, 2))))
def test_strips_anywhere(outer: tuple[int, ...]) -> None:
    shape, target = (6, 11, 192), host()
    kernel = kernel_of(text_of(shape, 1, "sum"))
    plain = nest.choose(kernel, {}, target)
    assert isinstance(plain, Nest) and plain.vector == 2
    schedule = replace(plain, outer=outer, rows=3, vectors=2, lanes=8)
    if outer[-1] == 2:  # rows of a tile are of one strip
        with pytest.raises(Error, match="strips"):
            nest.generate(kernel, {}, target, schedule)
        return
    x, f = arrays_of(shape)
    graph = parse_graph(text_of(shape, 1, "sum"))
    found = compile_graph(graph, threads=2, options=Options((schedule,)))(x, f)
    np.testing.assert_allclose(found, expected(x, f, 1, "sum"), 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("outer", "rows", "vectors"),
    [((2, 0, 1), 2, 5), ((2, 2, 0, 1), 2, 1), ((2, 0, 1), 1, 32), ((2, 0), 2, 1)],
)
def test_impossible_strips(outer: tuple[int, ...], rows: int, vectors: int) -> None:
    kernel = kernel_of(text_of((6, 11, 192), 1, "sum"))
    plain = nest.choose(kernel, {}, host())
    assert isinstance(plain, Nest)
    schedule = replace(plain, outer=(2, 0, 1), rows=2, vectors=1, lanes=8)
    nest.generate(kernel, {}, host(), schedule)
    wrong = replace(schedule, outer=outer, rows=rows, vectors=vectors)
    with pytest.raises(Error) as caught:
        nest.generate(kernel, {}, host(), wrong)
    assert [d.code for d in caught.value.diagnostics] == ["E0807"]


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_asked_for_is_in_the_strip(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest_asked, "BEYOND", 0)
    kernel, target = kernel_of(text_of(shape, 1, "sum")), host()
    frame = Frame({}, target)
    plan = make_plan(kernel, frame, target)
    asked = [x for found in nest_asked.asked_of(kernel, plan, frame).values() for x in found]
    for one in asked:
        assert one.distance > 0
        assert plan.strip is None or one.distance % (4 * shape[2]) == 0


def test_rows_that_are_not_there() -> None:
    """Not under a mask without lanes: that is slow where there is no memory before the first."""
    text = nest.generate(kernel_of(text_of((14, 14, 384), 1, "sum")), {}, named("x86-64-v4")).text
    assert "masked.load" not in text
    assert "select i1" in text
