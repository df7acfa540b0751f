"""Targets with a stride, `y[2 * i + k] += ...`, as a kernel for each remainder: what each begins
with, and elements that are stored a few apart."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.dtypes import Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Reduce
from ricci.ir.nodes import Access
from ricci.passes.pipeline import lower
from ricci.records import replace

from .running import runnable_targets

SUM = "y[|2 * i + k - 1|, j] += x[i, j] * w[k,], i < n, k < 4, j < m;"
CASES = {
    "zeros": (1, SUM, 2),
    "numbers": (1, f"y[i, j] = 0.5, i < 2 * n, j < m; {SUM}", 2),
    "an element of another axis": (1, f"y[i, j] = w[j % 4,], i < 2 * n, j < m; {SUM}", 2),
    "what is at each place": (1, f"y[i, j] = x[i / 2, j] + real(i), i < 2 * n, j < m; {SUM}", 2),
    "maxima": (
        1,
        "y[i, j] = 0.25, i < 2 * n, j < m;"
        " y[|2 * i + k|, j] >= x[i, j] * w[k,], i < n, k < 3, j < m;",
        2,
    ),
    "remainders without a term": (
        1,
        "y[i, j] = w[1,], i < 2 * n, j < m; y[2 * i, j] += x[i, j], i < n, j < m;",
        1,
    ),
    "by three along both": (
        3,
        "y[i, j] = real(i) * w[0,] + real(j), i < 3 * n, j < 3 * m;"
        " y[|3 * i + k - 1|, |3 * j + l|] += x[i, j] * w[k,] * w[l,],"
        " i < n, j < m, k < 4, l < 3;",
        3,  # the columns are counted through by two indices
    ),
    "by two along both": (
        2,
        "y[i, j] = real(i) * w[0,] + real(j), i < 2 * n, j < 2 * m;"
        " y[|2 * i + k|, |2 * j + l|] += x[i, j] * w[k,] * w[l,], i < n, j < m, k < 3, l < 3;",
        4,
    ),
    "by four, but not all rows": (
        4,
        "y[i, j] = w[0,], i < 4 * n, j < 4 * m;"
        " y[i, |4 * j + l - 2|] += x[i % n, j] * w[l,], i < 3 * n, j < m, l < 4;",
        5,
    ),
    "by four": (
        4,
        "y[i, |4 * j + l - 2|] += x[i % n, j] * w[l,], i < 4 * n, j < m, l < 4;",
        4,
    ),
}


def text(name: str, n: int, m: int) -> str:
    step, body, _ = CASES[name]
    rows, columns = (2, 1) if step == 1 else (step, step)
    return f"""
graph G {{
    @input {{ x: real[{n}, {m}]; w: real[4]; }}
    @output {{ y: real[{rows * n}, {columns * m}]; }}
    @compose {{ y = spread(x, w); }}
}}
operator spread {{
    @input {{ x: real[n, m]; w: real[4]; }}
    @output {{ y: real[{rows} * n, {columns} * m]; }}
    @lower {{ {body} }}
}}"""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("n", "m"), [(5, 6), (3, 50), (16, 16), (1, 33)])
def test_as_the_interpreter_says(name: str, n: int, m: int) -> None:
    model = ricci.parse(text(name, n, m))
    r = np.random.default_rng(m)
    x, w = (r.standard_normal(s, np.float32) for s in ((n, m), 4))
    want = interpret(model.graph, {"x": x, "w": w})["y"]
    for target in runnable_targets():
        got = model.compile(threads=2, target=target)(x, w)
        np.testing.assert_allclose(got, want, 1e-5, 1e-5, err_msg=target)


@pytest.mark.parametrize("name", CASES)
def test_how_many_kernels_there_are(name: str) -> None:
    """None of their own write what others begin with, where these write everything."""
    program = lower(ricci.parse(text(name, 5, 6)).graph, {}, Types())
    assert len(program.kernels) == CASES[name][2]


DOUBLED = """operator doubled {
    @input { x: real[n, m]; }
    @output { y: real[n, m]; }
    @lower { y[i, j] = x[i, j] * 2.0, i < n, j < m; }
}
"""
UNEVEN = {
    "nothing before": "",
    "a number before": "y[i, j] = real(i) + 0.5 * real(j), i < 2 * n + 1, j < 3 * m + 1;",
}


@pytest.mark.parametrize("name", UNEVEN)
@pytest.mark.parametrize("taps", [(3, 4), (2, 3), (4, 2), (1, 4)])
@pytest.mark.parametrize(("n", "m"), [(5, 6), (3, 50), (2, 33), (40, 17)])
def test_elements_left_over(n: int, m: int, taps: tuple[int, int], name: str) -> None:
    """Remainders do not have the same number of elements; those without a term are left alone."""
    model = ricci.parse(f"""
graph G {{
    @input {{ x: real[{n}, {m}]; w: real[4]; }}
    @output {{ y: real[{2 * n + 1}, {3 * m + 1}]; }}
    @compose {{ z = spread(x, w); y = doubled(z); }}
}}
{DOUBLED}operator spread {{
    @input {{ x: real[n, m]; w: real[4]; }}
    @output {{ y: real[2 * n + 1, 3 * m + 1]; }}
    @lower {{
        {UNEVEN[name]}
        y[|2 * i + k|, |3 * j + l - 1|] += x[i, j] * w[k,] * w[l,],
            i < n, j < m, k < {taps[0]}, l < {taps[1]};
    }}
}}""")
    r = np.random.default_rng(n)
    x, w = (r.standard_normal(s, np.float32) for s in ((n, m), 4))
    want = interpret(model.graph, {"x": x, "w": w})["y"]
    for target in runnable_targets():
        got = model.compile(threads=2, target=target)(x, w)
        np.testing.assert_allclose(got, want, 1e-5, 1e-5, err_msg=target)
    kernels = lower(model.graph, {}, Types()).kernels
    sums = [k for k in kernels if isinstance(k, Reduce) and k.op == "add" and k.values]
    assert len(sums) == min(taps[0], 2) * min(taps[1], 3)


def test_sums_to_what_is_written() -> None:
    """The second statement that is taken apart adds to what the first has left."""
    graph = ricci.parse(text("numbers", 5, 6)).graph
    (operation,) = graph.operations
    twice = replace(operation, body=(*operation.body, operation.body[-1]))
    kernels = lower(replace(graph, operations=(twice,)), {}, Types()).kernels
    reads = [isinstance(k.initial[0], Access) for k in kernels if isinstance(k, Reduce)]
    assert reads == [False, False, True, True]


def test_channels_that_are_counted_through_groups() -> None:
    """Each kernel begins with the number of its channel."""
    model = ricci.parse("""
import nn;
graph G {
    @input { x: real[2, 6, 9]; w: real[6, 4, 4]; b: real[8]; }
    @output { y: real[2, 8, 18]; }
    @compose { y = nn.deconv{groups=2, stride=2, padding=1}(x, w, b); }
}""")
    r = np.random.default_rng(3)
    given = {
        p.name: r.standard_normal(p.shape, np.float32) for p in model.compile("interpreter").inputs
    }
    want = interpret(model.graph, given)["y"]
    np.testing.assert_allclose(model.compile()(**given), want, 1e-5, 1e-5)
    assert len(lower(model.graph, {}, Types()).kernels) == 2


@pytest.mark.parametrize("terms", [2, 4])
@pytest.mark.parametrize("n", [2, 19])
def test_who_reads_what_is_split_and_taken_apart(n: int, terms: int) -> None:
    """Where remainders without a term are what a kernel before has written, it stays."""
    model = ricci.parse(f"""
graph G {{
    @input {{ x: real[2, {n}]; w: real[4]; }}
    @output {{ y: real[4, {4 * n}]; }}
    @compose {{ z = spread(x, w); y = doubled(z); }}
}}
{DOUBLED}operator spread {{
    @input {{ x: real[2, m]; w: real[4]; }}
    @output {{ y: real[4, 4 * m]; }}
    @lower {{
        y[i, j] = 1.0, i < 4, j < 4 * m;
        y[2 * i + g, |4 * j + k|] += x[i, j] * w[k,], i < 2, g < 2, j < m, k < {terms};
    }}
}}""")
    r = np.random.default_rng(n)
    x, w = (r.standard_normal(s, np.float32) for s in ((2, n), 4))
    want = interpret(model.graph, {"x": x, "w": w})["y"]
    np.testing.assert_allclose(model.compile()(x, w), want, 1e-5, 1e-5)
    assert (want == 2).any() == (terms < 4)


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize(("kind", "dtype"), [
    ("real", "float32"), ("real", "float64"), ("int", "int32"), ("int", "int8"),
])  # fmt: skip
@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_elements_between_those_that_are_stored_stay(
    step: int, kind: str, dtype: str, target: str
) -> None:
    """Also those behind the last, of which there need be no memory."""
    types = {kind: dtype}
    for count in (16, 23, 61):
        size = step * (count - 1) + 1
        model = ricci.parse(f"""
graph G {{
    @input {{ a: {kind}[2, {size}]; x: {kind}[2, {count}]; }}
    @output {{ y: {kind}[2, {size}]; }}
    @compose {{ y = laid(a, x); }}
}}
operator laid {{
    @input {{ a: {kind}[n, s]; x: {kind}[n, m]; }}
    @output {{ y: {kind}[n, s]; }}
    @lower {{ y[i, j] = a[i, j], i < n, j < s; y[i, {step} * k] += x[i, k], i < n, k < m; }}
}}""")
        run = model.compile(target=target, **types)
        a, x = (np.arange(2 * n, dtype=dtype).reshape(2, n) for n in (size, count))
        memory = np.full(2 * size + 64, 77, dtype)
        out = memory[: 2 * size].reshape(2, size)
        run.into([out], a, x)
        want = a.copy()
        want[:, ::step] += x
        np.testing.assert_array_equal(out, want)
        assert (memory[2 * size :] == 77).all()


def test_they_are_stored_by_whole_vectors() -> None:
    model = ricci.parse(text("by four", 4, 64))
    assert "scatter" not in model.show("llvm", target="x86-64-v4")
    assert "scatter" in model.show("llvm", target="x86-64-v3")


BEHIND = {
    "one map": ("y = nn.relu(a);", 4),
    "several, and what is read once more": (
        "b = nn.batch_norm(a, m, v); c = nn.relu(b); y = math.mul(c, 2.0);",
        5,  # the deviations, which do not wait for the sums
    ),
    "what was made before": ("s = math.exp(z); t = math.add(a, s); y = nn.relu(t);", 4),
    "what is made of that": (
        "s = math.exp(z); t = math.sum_reduce{axes=[1]}(s); y = math.add(a, t);",
        5,
    ),
    "read twice": ("y = math.mul(a, a);", 4),
    "read by two": ("s = math.exp(a); t = math.sum_reduce{axes=[1]}(a); y = math.mul(s, t);", 6),
    "read otherwise": ("y = layout.transpose{perm=[0, 1, 3, 2]}(a);", 4),
    "a result itself": ("y = nn.relu(a); w2 = layout.reshape{shape=[1, 8, -1]}(a);", 5),
}  # fmt: skip


@pytest.mark.parametrize("size", [8, 9])
@pytest.mark.parametrize("name", BEHIND)
def test_maps_of_all_parts_are_results_of_each(name: str, size: int) -> None:
    """Whether the remainders have the same number of elements, or not."""
    body, count = BEHIND[name]
    more = "w2: real[1, 8, _];" if "w2" in body else ""
    out = 2 * size - size % 2
    shape = f"1, 8, {out}, {out}"
    pad = "[1, 1, 1, 1]" if size % 2 == 0 else "[1, 1, 2, 2]"
    model = ricci.parse(f"""
import math, nn, layout;
graph G {{
    @input {{
        x: real[1, 6, {size}, {size}]; z: real[{shape}];
        w: real[6, 8, 4, 4]; m: real[8]; v: real[8];
    }}
    @output {{ y: real[{shape}]; {more.replace("_", str(out * out))} }}
    @compose {{ a = nn.deconv{{stride=2, padding={pad}}}(x, w); {body} }}
}}""")
    r = np.random.default_rng(size)
    given = {
        p.name: r.uniform(0.5, 1.5, p.shape).astype(np.float32)
        for p in model.compile("interpreter").inputs
    }
    want = interpret(model.graph, given)["y"]
    for target in runnable_targets():
        got = model.compile(threads=2, target=target)(**given)
        got = got.y if "w2" in body else got
        np.testing.assert_allclose(got, want, 2e-5, 1e-5, err_msg=target)
    assert len(lower(model.graph, {}, Types()).kernels) == count


def test_a_result_under_another_shape_is_written() -> None:
    """Although a map of it, which alone reads it by name, is made where it is."""
    model = ricci.parse("""
import math, nn, layout;
graph G {
    @input { x: real[2, 3, 4, 5]; w: real[3, 2, 3, 3]; }
    @output { y: real[2, 2, 12, 15]; z: real[2, 2, 12, 15]; }
    @compose {
        a = nn.deconv{stride=3, padding=0}(x, w);
        b = math.neg(a);
        y = layout.reshape{shape=[2, 2, 12, 15]}(b);
        z = math.mul(b, 1.5);
    }
}""")
    r = np.random.default_rng(0)
    x, w = (r.standard_normal(s, np.float32) for s in ((2, 3, 4, 5), (3, 2, 3, 3)))
    want = interpret(model.graph, {"x": x, "w": w})
    got = model.compile()(x, w)
    np.testing.assert_allclose(got.y, want["y"], 1e-5, 1e-5)
    np.testing.assert_allclose(got.z, want["z"], 1e-5, 1e-5)


STRIDED = "d[|2 * i + k - 1|, j] += x[i, j] * w[k,], i < n, k < 4, j < m;"
MAP = "v[i, j] = d[i, j] + z[i, j], i < 2 * n, j < m;"
LATER = "v[i, j] += z[i, j] * w[k,], i < 2 * n, j < m, k < 4;"
SEQUENCES = {
    "sums behind a map of the parts": f"{STRIDED} {MAP} {LATER}",
    "a scatter behind it": f"{STRIDED} {MAP} v[(5 * i) % (2 * n), j] += x[i, j], i < n, j < m;",
    "parts that read what is added to": "v[i, j] = z[i, j] * 0.5, i < 2 * n, j < m;"
    f" {STRIDED.replace('w[k,]', 'w[k,] * v[i, j]')} {LATER}",
    "a copy of what is added to": f"{STRIDED} {MAP} u[i, j] = v[i, j], i < 2 * n, j < m; {LATER}",
    "a map of what is added to": "v[i, j] = z[i, j] * 0.5, i < 2 * n, j < m;"
    f" u[i, j] = v[i, j] * 3.0, i < 2 * n, j < m; {LATER} {STRIDED}",
}


@pytest.mark.parametrize("behind", ["math.neg(v)", "math.add(d, v)", "math.neg(u)"])
@pytest.mark.parametrize("name", SEQUENCES)
def test_what_changes_later_is_read_before(name: str, behind: str) -> None:
    body = SEQUENCES[name]
    if "u[" not in body:
        body += " u[i, j] = d[i, j] * 2.0, i < 2 * n, j < m;"
    model = ricci.parse(f"""
import math;
graph G {{
    @input {{ x: real[6, 8]; z: real[12, 8]; w: real[4]; }}
    @output {{ y: real[12, 8]; q: real[12, 8]; }}
    @compose {{ d, v, u = o(x, z, w); y = {behind}; q = math.mul(u, v); }}
}}
operator o {{
    @input {{ x: real[n, m]; z: real[2 * n, m]; w: real[4]; }}
    @output {{ d: real[2 * n, m]; v: real[2 * n, m]; u: real[2 * n, m]; }}
    @lower {{ {body} }}
}}""")
    r = np.random.default_rng(4)
    given = {
        "x": r.standard_normal((6, 8), np.float32),
        "z": r.standard_normal((12, 8), np.float32),
        "w": r.standard_normal(4, np.float32),
    }
    want = interpret(model.graph, given)
    got = model.compile(threads=1)(**given)
    np.testing.assert_allclose(got.y, want["y"], 1e-5, 1e-5)
    np.testing.assert_allclose(got.q, want["q"], 1e-5, 1e-5)


def test_elements_that_are_replaced_behind_a_deconvolution() -> None:
    model = ricci.parse("""
import layout, nn;
graph G {
    @input { x: real[1, 2, 4, 4]; w: real[2, 2, 4, 4]; p: int[1, 2, 1, 8]; u: real[1, 2, 1, 8]; }
    @output { y: real[1, 2, 8, 8]; }
    @compose {
        d = nn.deconv{stride=2, padding=1}(x, w);
        s = layout.scatter{axis=2}(d, p, u);
        y = nn.relu(s);
    }
}""")
    r = np.random.default_rng(5)
    given = {
        "x": r.standard_normal((1, 2, 4, 4), np.float32),
        "w": r.standard_normal((2, 2, 4, 4), np.float32),
        "p": r.integers(0, 8, (1, 2, 1, 8)),
        "u": r.uniform(5, 6, (1, 2, 1, 8)).astype(np.float32),
    }
    want = interpret(model.graph, given)["y"]
    np.testing.assert_allclose(model.compile()(**given), want, 1e-5, 1e-5)


def test_kernels_that_come_first_keep_their_order() -> None:
    """Parts with the result of a kernel behind them as a term are not moved in front of it."""
    model = ricci.parse("""
import math, nn;
graph G {
    @input {
        x: real[2, 8, 4, 4]; z: real[2, 8, 8, 8]; w: real[8, 8, 4, 4]; v: real[8, 8, 4, 4];
        f: real[8, 8, 3, 3];
    }
    @output { y: real[2, 8, 8, 8]; }
    @compose {
        a = nn.deconv{stride=2, padding=1}(x, w);
        t = nn.conv{padding=1}(z, f);
        b = math.add(a, t);
        c = nn.deconv{stride=2, padding=1}(x, v);
        q = dot(b, t);
        y = math.add(c, q);
    }
}
operator dot {
    @input { a: real[n, c, h, w]; b: real[n, c, h, w]; }
    @output { q: real[n, c, 1, 1]; }
    @lower {
        q[i, j, 0, 0] += a[i, j, k, l] * b[i, j, k, l], i < n, j < c, k < h, l < w;
    }
}""")
    r = np.random.default_rng(6)
    given = {
        p.name: r.standard_normal(p.shape, np.float32) for p in model.compile("interpreter").inputs
    }
    want = interpret(model.graph, given)["y"]
    for _ in range(3):
        np.testing.assert_allclose(model.compile()(**given), want, 1e-3, 1e-3)


BETWEEN = {
    "constants that change": "c[i, j] = 0.5, i < 2 * n, j < m;"
    " b[i, j] = c[2 * n - 1 - i, j], i < 2 * n, j < m; a[i, j] = 0.5, i < 2 * n, j < m;"
    " c[|3 * i + k|, j] += a[i, j], i < n, k < 3, j < m;"
    " b[i, j] += c[i, j] * w[k,], i < 2 * n, j < m, k < 4;",
    "what a map of parts needs": "a[|3 * i + k|, j] += z[i, j], i < n, k < 3, j < m;"
    " c[i, j] = z[i, j], i < 2 * n, j < m; b[i, j] = c[i, j], i < 2 * n, j < m;"
    " c[(5 * i) % (2 * n), j] += x[i, j], i < n, j < m;",
}


@pytest.mark.parametrize("name", BETWEEN)
def test_what_is_read_between_two_changes(name: str) -> None:
    model = ricci.parse(f"""
import math;
graph G {{
    @input {{ x: real[6, 8]; z: real[12, 8]; w: real[4]; }}
    @output {{ y: real[12, 8]; q: real[12, 8]; }}
    @compose {{
        a, b, c = o(x, z, w);
        t = math.add(c, a);
        y = math.mul(t, 1.5);
        q = math.mul(b, 1.5);
    }}
}}
operator o {{
    @input {{ x: real[n, m]; z: real[2 * n, m]; w: real[4]; }}
    @output {{ a: real[2 * n, m]; b: real[2 * n, m]; c: real[2 * n, m]; }}
    @lower {{ {BETWEEN[name]} }}
}}""")
    r = np.random.default_rng(8)
    shapes = {"x": (6, 8), "z": (12, 8), "w": (4,)}
    given = {k: r.standard_normal(s, np.float32) for k, s in shapes.items()}
    want = interpret(model.graph, given)
    got = model.compile(threads=1)(**given)
    np.testing.assert_allclose(got.y, want["y"], 1e-5, 1e-5)
    np.testing.assert_allclose(got.q, want["q"], 1e-5, 1e-5)
