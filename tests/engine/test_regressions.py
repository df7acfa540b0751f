"""Programs for which native code was once wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci.ir.interpret import interpret
from ricci.ir.text import parse_graph
from ricci.runtime.executable import compile_graph

from .networks import weigh

_ROOT = Path(__file__).parents[2]

# Faults end the process, so that this runs in one of its own.
_FENCED = """
import sys
import numpy as np
import ricci
from tests.engine_contraction.native import Fenced

text, at_end = sys.argv[1], sys.argv[2] == "True"
model = ricci.parse(text)
rng = np.random.default_rng(0)
want, run = (model.compile(t, threads=1) for t in ("interpreter", "cpu"))
arrays = [Fenced(rng.standard_normal(p.shape).astype(np.float32), at_end) for p in run.inputs]
inputs = [a.array for a in arrays]
np.testing.assert_allclose(run(*inputs), want(*inputs), 1e-4, 1e-4)
"""


def check_fenced(text: str, at_end: bool) -> None:
    """Compare a model with the definition, with arguments beside pages that nobody may read."""
    command = [sys.executable, "-c", _FENCED, text, str(at_end)]
    paths = os.pathsep.join([str(_ROOT), *sys.path])
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("at_end", [False, True])
def test_masked_reads_stay_in_the_input(at_end: bool) -> None:
    """LLVM took the first tap's read out of a masked multiply-add, and left the mask there."""
    text = """
        import nn;
        graph G {
            @input { x: real[2, 17, 2, 16]; w: real[17, 1, 3, 1]; }
            @output { y: real[2, 17, 9, 20]; }
            @compose {
                y = nn.conv{
                    filter_format='NXC', groups=0, dilation=[2, 1], padding=[1, 4, 6, 2],
                    ceil_mode=true
                }(x, w);
            }
        }
    """
    check_fenced(text, at_end)


@pytest.mark.parametrize("size", [1, 37])
def test_float64_is_rounded_to_float16_once(size: int) -> None:
    """Processors have no instruction for it, and what LLVM calls instead was not there."""
    graph = parse_graph(f"""graph main.G {{
  input x = x: float64[{size}];
  y: float16[{size}] = f(x) {{
    y[i] = float16(x[i])  for i < {size};
  }}
  output y = y;
}}
""")
    tie = 1 + 2.0**-11
    values = [
        tie + 2.0**-40, tie, tie - 2.0**-40, -tie - 2.0**-40, 65519.999999, 65520.0, -1e300, 1e-300,
        2.0**-25, 2.0**-25 * (1 + 2.0**-40), -0.0, np.inf, -np.inf, np.nan, 1e-5,
    ]  # fmt: skip
    x = np.resize(np.array(values), size)
    found = compile_graph(graph, threads=1)(x)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, x.astype(np.float16))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_float16_becomes_an_integer_as_other_reals_do(bits: int) -> None:
    """LLVM made the least integer of NaN where it widened the number first."""
    graph = parse_graph(f"""graph main.G {{
  input x = x: float16[9];
  y: int{bits}[9] = f(x) {{
    y[i] = int{bits}(x[i])  for i < 9;
  }}
  output y = y;
}}
""")
    x = np.array([np.nan, np.inf, -np.inf, 2.9, -2.9, np.nan, 100.0, -0.0, -100.0], np.float16)
    limits = np.iinfo(f"int{bits}")
    expected = [0, limits.max, limits.min, 2, -2, 0, 100, 0, -100]
    np.testing.assert_array_equal(compile_graph(graph, threads=1)(x), expected)


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_sizes_and_loop_indices_wrap_in_small_integers(target: str) -> None:
    model = ricci.parse("""
        import math;
        graph G {
            @input { x: real[n|300]; }
            @output { last: int[]; size: int[]; }
            @compose {
                last = with s = 0 do..(i -> 200) { t = math.max(i, i); yield t; };
                size = n;
            }
        }
    """)
    run = model.compile(target, int="int8")
    assert [int(v) for v in run(np.zeros(300, np.float32))] == [199 - 256, 300 - 256]


@pytest.mark.parametrize("axis", [1, 2])
def test_groups_of_channels_that_are_a_part_of_more(axis: int) -> None:
    """What was made in groups was written as if it were all of the tensor it is joined in."""
    model = ricci.parse(f"""
        import layout, nn;
        graph G {{
            @input {{ x: real[2,4,5,5]; w: real[6,2,3,3]; z: real[2,6,5,5]; }}
            @output {{ y: real[{"2,12,5,5" if axis == 1 else "2,6,10,5"}]; }}
            @compose {{
                made = nn.conv{{padding=1, groups=2}}(x, w);
                y = layout.concat{{axis={axis}}}([made, z]);
            }}
        }}
    """)
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, np.float32) for shape in ((2, 4, 5, 5), (6, 2, 3, 3), (2, 6, 5, 5))]
    found, expected = (model.compile(t)(*arrays) for t in ("cpu", "interpreter"))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 5, 8])
def test_steps_in_order_over_an_open_size_leave_one_result(size: int) -> None:
    """There is no loop to cut where neither rows nor vectors are left, whatever the size is."""
    graph = parse_graph("""graph main.G {
  symbol n <= 8;
  input x = x: real[11];
  input sized = sized: int[n];
  y: real[] = f(x) {
    y[] = -1.0;
    y[] := x[i] - x[i + j]  for i < 3, j < n;
  }
  output y = y;
}
""")
    x = np.random.default_rng(0).standard_normal(11).astype(np.float32)
    found = compile_graph(graph, threads=2)(x, np.zeros(size, np.int32))
    assert found == (x[2] - x[2 + size - 1] if size else -1.0)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_new_variable_made_of_what_was_there_before_the_loop(count: int) -> None:
    """Its bytes held a part made before the loop; the old value was copied over that."""
    graph = parse_graph("""graph main.G {
  input x = x: real[5];
  input z = z: real[2, 5];
  input count = count: int[];
  loop {
    with start: real[5] = x;
    count 1;
    body {
      twice: real[5] = f(start) {
        twice[i] = start[i] + start[i]  for i < 5;
      }
      yield twice, twice;
    }
    outputs last: real[5];
    collected [made: real[5]];
  }
  loop {
    with a: real[2, 5] = z;
    with b: real[5] = x;
    count tensor count;
    body {
      next: real[2, 5] = stack(made, b) {
        next[0, i] = b[i]  for i < 5;
        next[1, i] = made[i]  for i < 5;
      }
      c: real[5] = g(b, made) {
        c[i] = b[i] * made[i]  for i < 5;
      }
      yield next, c;
    }
    outputs a1: real[2, 5], b1: real[5];
  }
  output a1 = a1;
  output b1 = b1;
}
""")
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal(5, np.float32), rng.standard_normal((2, 5), np.float32)
    a, b = z, x
    for _ in range(count):
        a, b = np.stack([b, x + x]), b * (x + x)
    found = compile_graph(graph, threads=1)(x, z, np.array(count))
    for ours, theirs in zip(found, (a, b), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("with t = s[j + n]: y[j] = t  for j < 2 if j > 5;", "E0802"),
        ("with t = s[j + n]: y[j] += t  for i < 8, j < 2 if j > 5;", "E0802"),
        ("with t = s[j + n]: y[i * j % 8] := t  for i < 8, j < 2 if j > 5;", "E0802"),
        ("with t = s[j % (n - 3)]: y[j] += s[n] * t  for i < 8, j < 2;", "E0803"),
        ("with t = s[j + n]: y[j] += 1.0  for i < 8, j < 2;", ""),
    ],
)
@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_locals_come_before_conditions_and_values(target: str, statement: str, code: str) -> None:
    """Native code computed what a local stands for only where the condition held."""
    text = f"graph g {{ symbol n <= 6; input s = s: real[n]; y: real[8] = op(s) {{ {statement} }}"
    run = compile_graph(parse_graph(text + " output y = y; }"), target=target)
    try:
        found = run(np.ones(3, np.float32))
    except ricci.Error as error:
        assert [d.code for d in error.diagnostics] == [code]
    else:
        assert not code and found.tolist() == [8.0] * 2 + [0.0] * 6


@pytest.mark.parametrize("place", ["k * where[|a|]", "where[|a|] - where[|a|] + k"])
@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_what_is_multiplied_by_zero_keeps_its_guards(target: str, place: str) -> None:
    graph = parse_graph(f"""
        graph g {{
          input x = x: real[3];
          input where = where: int[1];
          y: real[3] = op(x, where) {{ y[a] += x[{place}]  for a < 3, k < 1; }}
          output y = y;
        }}
    """)
    found = compile_graph(graph, target=target)(np.ones(3, np.float32), np.zeros(1, np.int64))
    assert found.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("channels", "size", "padding", "result"), [(32, 32, 2, 16), (16, 16, 4, 10), (64, 9, 2, 5)]
)
def test_every_second_element_with_channels_next_to_one_another(
    channels: int, size: int, padding: int, result: int
) -> None:
    """Windows of elements two apart that move on by two: those between count for nothing, and the
    others were read as if they were next to one another, where vectors lie along channels."""
    model = ricci.parse(f"""
        import layer;
        graph main {{
            @input {{ x: real[2, 4, {size}, {size}]; }}
            @output {{ y: real[2, 32, {result}, {result}]; }}
            @compose {{
                v = layer.conv{{channels={channels}, size=1, use_bias=false}}(x);
                y = layer.conv{{
                    channels=32, size=3, stride=2, padding={padding}, dilation=2, use_bias=false
                }}(v);
            }}
        }}""")
    weigh(model)
    x = np.random.default_rng(0).standard_normal((2, 4, size, size)).astype(np.float32)
    expected = model.compile(target="interpreter")(x)
    for threads in (1, 2):
        found = model.compile(threads=threads)(x)
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5 * np.abs(expected).max())


GUARDS = {
    "weights": (
        "with t = w[|2 * j|]: y[i, k] += (i * 3 + 1 == 4 || j + 2 == 3 ? 2.5:float32 :"
        " 1.5:float32 + 1.0:float32) * x[k]  for i < 8, k < 40, j < 6;"),
    "phases": (
        "with t = w[|i + j - 3|]: y[i, k] += x[(k + j) / 2] * 2.0:float32"
        "  for i < 8, k < 40, j < 6;"),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_a_local_that_leaves_out_terms_though_no_value_needs_it(name: str) -> None:
    """What stood for locals was put in their places, and they were forgotten."""
    graph = parse_graph(f"""graph g {{
        input x = x: float32[60];
        input w = w: float32[9];
        y: float32[8, 40] = op(x, w) {{ {GUARDS[name]} }}
        output y = y;
    }}""")
    x, w = (np.random.default_rng(0).standard_normal(n, np.float32) for n in (60, 9))
    want = interpret(graph, {"x": x, "w": w})["y"]
    got = compile_graph(graph, threads=1)(x, w)
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_a_quotient_of_an_index_whose_values_are_done_one_by_one() -> None:
    """One of them is zero; that the compiler found so was not expected."""
    text = """def f(int32(N) A) -> (T) {
        T(l, i, k) *=! N / k where l in 1:N, i in 0:N, k in 0:N - 2
        T(j, n, i) max= t where t = int32(-T(2 * (2 * n), max(0, min(N, 2)), 3))
    }"""
    function = ricci.tc.define(text, threads=1)["f"]
    for size in range(3, 24):
        with pytest.raises(ricci.Error, match=r"E0803|E0501"):  # by zero, or out of range
            function(np.zeros(size, np.int32))
