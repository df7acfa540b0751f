"""What kernels ask for long before they read it: rows of windows, and rows of tables."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import nest, nest_asked, nest_plan, nest_stream, nest_uses
from ricci.backends.llvm.emit import Frame
from ricci.backends.llvm.emit_access import Linear, extent_of
from ricci.backends.llvm.emit_parts import Asked
from ricci.backends.llvm.nest_uses import Use, uses_of
from ricci.backends.llvm.target import host
from ricci.dtypes import DType, Types
from ricci.ir.loops import Reduce
from ricci.ir.nodes import Index, Tensor
from ricci.ir.text import parse_graph
from ricci.passes.pipeline import lower
from ricci.runtime.executable import compile_graph

LANES = 16
ROWS = "def f(float(C,H,W) X) -> (Y) {{ Y(c,h,w) max=! X(c,{}) where p in 0:3, q in 0:3 }}"
LAST = "def f(float(H,W,C) X) -> (Y) {{ Y(h,w,c) max=! X({},c) where p in 0:3, q in 0:3 }}"
WINDOWS = [
    (form, shape, stride, dilation)
    for form, shape in ((ROWS, (4, 40, 64)), (LAST, (40, 20, 64)))
    for stride, dilation in ((1, 1), (2, 1), (1, 2))
]


def window(form: str, stride: int, dilation: int) -> str:
    return form.format(f"{stride}*h + {dilation}*p, {stride}*w + {dilation}*q")


def kernel_of(text: str, shape: tuple[int, ...]) -> Reduce:
    graph = ricci.tc.define(text).f.graph
    sizes = dict(zip(graph.symbols, shape, strict=True))
    kernels = lower(graph, sizes, Types(DType.FLOAT32, DType.INT64)).kernels
    reductions = [k for k in kernels if isinstance(k, Reduce)]
    (kernel,) = [k for k in reductions if k.reduced] or reductions
    return kernel


def reading(kernel: Reduce) -> Use:
    (use,) = [u for u in uses_of(kernel, Frame({}, host())) if not u.target]
    return use


def places(indices: tuple[Index, ...], step: int = 1) -> list[dict[Index, int]]:
    """All points, of which the last index makes steps."""
    *others, last = indices
    ranges = [*(range(extent_of(i)) for i in others), range(0, extent_of(last), step)]
    return [dict(zip(indices, p, strict=True)) for p in itertools.product(*ranges)]


def at(form: Linear, point: dict[Index, int]) -> int:
    assert isinstance(form.constant, int)
    return form.constant + sum(n * point[i] for i, n in form.steps.items())


@pytest.mark.parametrize(("form", "shape", "stride", "dilation"), WINDOWS)
def test_what_is_new_to_a_result_is_asked_for(
    form: str, shape: tuple[int, ...], stride: int, dilation: int
) -> None:
    """Of every result, all lines that no result before has read."""
    kernel = kernel_of(window(form, stride, dilation), shape)
    use, along = reading(kernel), kernel.domain[-1]
    asked = nest_asked.behind(kernel, use, along, LANES)
    counts = Counter[int]()
    for point in places(kernel.domain, LANES):
        for one in asked:
            first = at(one.form, point)
            counts.update(range(first, first + one.lines * LANES))
    read = {at(use.form, p) for p in places((*kernel.domain, *kernel.reduced))}
    # the first rows and columns are read before anything is asked for
    assert len(read - counts.keys()) <= 0.3 * len(read)
    assert len(counts.keys() - read) <= 0.3 * len(read)
    assert counts.total() <= 1.3 * len(read)


def test_only_windows_ask() -> None:
    for text, shape in (
        ("def f(float(N,C,W) X) -> (Y) { Y(n,w) max=! X(n,c,w) }", (8, 40, 64)),
        ("def f(float(N,W) X) -> (Y) { Y(n) max=! X(n,w) }", (40, 64)),
        (window(ROWS, 9, 1), (4, 90, 90)),
    ):
        kernel = kernel_of(text, shape)
        assert not nest_asked.behind(kernel, reading(kernel), kernel.domain[-1], LANES)


def test_windows_of_any_length() -> None:
    """Of an open program, whose tensors may well be large."""
    graph = parse_graph("""graph g { symbol n <= 200; symbol m <= 1000; symbol k <= 500;
        input x = x: real[n, 512, m + k]; input w = w: real[k];
        y: real[n, 512, m] = f(x, w) {
            y[i, c, j] += x[i, c, j + l] * w[l] + w[l]  for i < n, c < 512, j < m, l < k; }
        output y = y; }""")
    x = np.random.default_rng(0).standard_normal((3, 512, 40)).astype(np.float32)
    y = compile_graph(graph)(x, np.ones(4, np.float32))
    wanted = np.lib.stride_tricks.sliding_window_view(x, 4, axis=2)[:, :, :36].sum(-1) + 4
    assert np.allclose(y, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("form", "shape"), [(ROWS, (6, 90, 90)), (LAST, (90, 90, 6))])
def test_results_are_the_same(
    form: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nest_asked, "BEYOND", 0)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    axes, letters = ((0, 1), "H,W,C") if form is LAST else ((1, 2), "C,H,W")
    views = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axes)
    for stride in (1, 2):
        text = window(form, stride, 1).replace(letters, ",".join(map(str, shape)))
        program = ricci.parse(text, "tc")
        assert "prefetch" in program.show("llvm", target="x86-64-v4")
        steps = (slice(None, None, stride),) * 2
        steps = (*steps, slice(None)) if form is LAST else (slice(None), *steps)
        assert np.array_equal(program.compile()(x), views[steps].max((-1, -2)))


TABLES = {
    "rows": "def f(float(M,N) t, int64(K) i) -> (y) { y(k,n) = t(i(k),n) where n in 0:N }",
    "sums of rows": "def f(float(M,N) t, int64(K,L) i) -> (y) { y(k,n) +=! t(i(k,l),n) }",
    "dots": "def f(float(M,N) t, int64(K) i, float(N) w) -> (y) { y(k) +=! t(i(k),n) * w(n) }",
    "columns": "def f(float(M,N) t, int64(K) i) -> (y) { y(m,k) = t(m,i(k)) where m in 0:M }",
    "sums of columns": "def f(float(M,N) t, int64(K) i) -> (y) { y(m) +=! t(m,i(k)) }",
}
EXPECTED = {
    "rows": lambda t, i: t[i],
    "sums of rows": lambda t, i: t[i].sum(1),
    "dots": lambda t, i, w: t[i] @ w,
    "columns": lambda t, i: t[:, i],
    "sums of columns": lambda t, i: t[:, i].sum(1),
}


def table_of(name: str, rng: np.random.Generator) -> list[np.ndarray]:
    t = rng.standard_normal((300, 512)).astype(np.float32)
    sizes = (40, 19) if name == "sums of rows" else (400,)
    arrays = [t, rng.integers(0, 300, sizes)]
    return [*arrays, t[0]] if "dots" in name else arrays


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("large", [1, 1 << 60])
def test_results_of_tables(name: str, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same whether rows are asked for or not; and what is asked for is not looked for."""
    monkeypatch.setattr(nest_uses, "LARGE", large)
    found = list[Asked]()

    def noted(kernel: Reduce, plan: nest_plan.Plan, frame: Frame) -> dict[Tensor, list[Asked]]:
        asked = nest_asked.asked_of(kernel, plan, frame)
        found.extend(x for y in asked.values() for x in y)
        return asked

    monkeypatch.setattr(nest_stream, "asked_of", noted)
    arrays = table_of(name, np.random.default_rng(1))
    executable = ricci.parse(TABLES[name], "tc").compile(threads=2)
    assert np.allclose(executable(*arrays), EXPECTED[name](*arrays), rtol=1e-5, atol=1e-5)
    assert bool(found) == (large == 1)
    arrays[1].flat[-1] = 1 << 40
    with pytest.raises(ricci.Error, match="1099511627776"):
        executable(*arrays)


def test_all_lines_of_rows_are_asked_for() -> None:
    for columns, count in ((512, 400), (512, 100), (100, 400), (512, 17)):
        kernel = kernel_of(TABLES["columns"], (300, columns, count))
        plan = nest_plan.make_plan(kernel, Frame({}, host()), host())
        (use,) = [u for u in uses_of(kernel, Frame({}, host())) if u.form.others]
        asked = nest_asked.all_of_rows(plan, use, Frame({}, host()))
        if count == 17:  # few of the lines are read
            assert not asked
            continue
        (one,) = asked
        row, along = kernel.domain
        for k in range(3):
            points = [{row: k, along: n} for n in range(0, count, plan.lanes)]
            starts = [at(one.form, p) for p in points]
            lines = {(s + 16 * n) // 16 for s in starts for n in range(one.lines + 1)}
            assert lines >= {n // 16 for n in range((k + 1) * columns, (k + 1) * columns + count)}


def test_rows_to_come_are_within_the_table() -> None:
    kernel = kernel_of(TABLES["rows"], (300, 64, 400))
    plan = nest_plan.make_plan(kernel, Frame({}, host()), host())
    (use,) = [u for u in uses_of(kernel, Frame({}, host())) if u.form.others]
    (asked,) = nest_asked.rows_of_table(plan, use)
    rows, _ = kernel.domain
    assert asked.moved is not None and asked.form is use.form
    assert asked.moved[0] is rows and asked.moved[2] == 400
    assert asked.moved[1] * 64 * 4 >= nest_asked.ROWS


@pytest.mark.parametrize(("shape", "on_zen"), [((32768, 512), True), ((262144, 64), False)])
def test_rows_of_terms(shape: tuple[int, int], on_zen: bool) -> None:
    """A processor that looks ahead itself is told of long rows alone."""
    kernel = kernel_of("def f(float(M,N) X) -> (y) { y(i) +=! X(i,k) }", shape)
    for cpu, wanted in (("znver4", on_zen), ("skylake-avx512", True)):
        target = replace(host(), cpu=cpu)
        assert ("prefetch" in nest.generate(kernel, {}, target).text) == wanted


STEPS = {
    "sum": ("def f(float(M,N) X) -> (y) { y(j) +=! X(i,j) }", (64, 1 << 18), 0),
    "maximum": ("def f(float(M,N) X) -> (y) { y(j) max=! X(i,j) }", (64, 1 << 18), 8),
}


@pytest.mark.parametrize("name", STEPS)
def test_several_terms_at_a_time(name: str) -> None:
    """The processor finds rows itself where each takes one instruction."""
    text, shape, wanted = STEPS[name]
    code = nest.generate(kernel_of(text, shape), {}, replace(host(), cpu="znver4")).text
    assert code.count("call void @llvm.prefetch") == wanted


def first_kernel(sizes: str) -> str:
    """The code of the first kernel of softmax over the first axis."""
    model = ricci.parse(
        f"""import nn; graph G {{
            @input {{ x: real[{sizes}]; }}
            @output {{ y: real[{sizes}]; }}
            @compose {{ y = nn.softmax{{axes=[0]}}(x); }}
        }}""",
        "skriptnd",
    )
    parts = model.show("llvm", target="x86-64-v4").split("\ndefine ")[1:]
    (first,) = (f for f in parts if ".part0(" in f.partition("\n")[0])
    return first


@pytest.mark.parametrize(("sizes", "asks"), [("1024, 16640", False), ("60, 276000", True)])
def test_what_others_read_is_not_asked_for(sizes: str, asks: bool) -> None:
    """1 KB behind what the first kernel of a group reads is the next one of its blocks of 256
    columns, but the same one of those of 480."""
    assert ("call void @llvm.prefetch" in first_kernel(sizes)) == asks


def test_a_copy_of_a_block_asks_for_its_rows() -> None:
    """The same columns of the row after the next."""
    lines = first_kernel("1024, 16384").split("\n")
    asked = [before for before, line in pairwise(lines) if "@llvm.prefetch" in line]
    assert asked and all(line.endswith(f"i64 {2 * 4 * 16384}") for line in asked)


def test_rows_that_follow_each_other_are_asked_for() -> None:
    """Behind a short row is the next one, which the same kernel reads."""
    model = ricci.parse(
        """import math; graph G {
            @input { x: real[65536, 128]; }
            @output { y: int[128]; }
            @compose { y = math.argmax{axis=0, squeeze=true}(x); }
        }""",
        "skriptnd",
    )
    (kernel,) = lower(model.graph, {}, Types(DType.FLOAT32, DType.INT64)).kernels
    short = replace(host(), vector_bytes=32, registers=15, masks=False, features="", cpu="znver3")
    assert isinstance(kernel, Reduce)
    assert nest_plan.make_plan(kernel, Frame({}, short), short).terms > 1
    assert nest.generate(kernel, {}, short).text.count("call void @llvm.prefetch") >= 8


@pytest.mark.parametrize(("shape", "axis"), [((64, 1 << 18), 0), ((32768, 512), 1)])
def test_choices_ask_as_sums_do(shape: tuple[int, int], axis: int) -> None:
    """The first term, which is read before the others, does not count as another use."""
    found = shape[1 - axis]
    model = ricci.parse(
        f"""import math; graph G {{
            @input {{ x: real[{shape[0]}, {shape[1]}]; }}
            @output {{ y: int[{found}]; }}
            @compose {{ y = math.argmax{{axis={axis}, squeeze=true}}(x); }}
        }}""",
        "skriptnd",
    )
    (kernel,) = lower(model.graph, {}, Types(DType.FLOAT32, DType.INT64)).kernels
    assert isinstance(kernel, Reduce)
    assert "prefetch" in nest.generate(kernel, {}, replace(host(), cpu="znver4")).text
