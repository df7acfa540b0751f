"""Models compiled ahead of time give the numbers that calls from Python give, and fail as these do.

With a C compiler the examples are compiled and run, too; objects are loaded without one.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci.ahead.build import build_graph
from ricci.ahead.header import CODES
from ricci.backends.llvm.elf import undefined_symbols
from ricci.ir.interpret import interpret
from ricci.ir.text import parse_graph

from .ahead import (
    ALWAYS,
    CC,
    DIGITS,
    MAPPING,
    THREADS,
    Failed,
    Model,
    check_headers,
    find,
    run_example,
    tracker,
)
from .ir.control_programs import random_control

# ----------------------------------------------------------------- whole models


@pytest.mark.parametrize("weights", ["embedded", "file"])
def test_network_with_weights(tmp_path: Path, weights: str) -> None:
    model = ricci.load(DIGITS, attribs={"batch": 8})
    paths = model.build(tmp_path, weights=weights)
    images = np.random.default_rng(0).random((8, 1, 8, 8), np.float32)
    expected = model.compile(threads=1)(images)
    built = Model(paths)
    for _ in range(2):
        np.testing.assert_allclose(built.run([images])[0], expected, 1e-5, 1e-7)
    built.destroy()
    needs = set(undefined_symbols(find(paths, ".o").read_bytes()))
    assert needs <= ALWAYS | (MAPPING if weights == "file" else set())
    check_headers(paths, tmp_path)
    if CC is not None:
        images.tofile(tmp_path / "images.raw")
        found = run_example(paths, "images=images.raw")
        np.testing.assert_allclose(found["probabilities"], expected.ravel()[:8], 1e-5)


def test_weights_in_a_file_are_those_of_the_object(tmp_path: Path) -> None:
    model = ricci.load(DIGITS, attribs={"batch": 1})
    paths = model.build(tmp_path, weights="file")
    file = find(paths, ".weights")
    data = bytearray(file.read_bytes())
    for damaged in (data[:-1], bytes([data[20] ^ 1]).join([data[:20], data[21:]]), b""):
        file.write_bytes(damaged)
        with pytest.raises(Failed) as found:
            Model(paths)
        assert found.value.code == CODES["WEIGHTS"][0]
    with pytest.raises(Failed):
        Model(paths, weights=str(tmp_path / "nothing"))


@pytest.mark.parametrize("threads", [1, 3])
def test_open_sizes_and_state(tmp_path: Path, threads: int) -> None:
    model = tracker()
    paths = model.build(tmp_path, threads=threads)
    run, built = model.compile(threads=1), Model(paths, threads=threads)
    other = Model(paths)
    for number, (steps, batch) in enumerate([(5, 2), (20, 16), (0, 3), (1, 1)], 41):
        x = np.random.default_rng(number).random((steps, batch, 8), np.float32)
        y, calls = built.run([x], [steps, batch])
        expected = run(x)
        np.testing.assert_allclose(y, expected.y, 1e-5, 1e-6)
        assert y.shape == expected.y.shape and calls == expected.calls == number
    name = "main.Tracker.count"
    assert built.get(name, "i8", ()) == 44 and other.get(name, "i8", ()) == 40
    with pytest.raises(Failed, match="804: `batch` is more than 16: 17"):
        built.run([x], [1, 17])
    with pytest.raises(Failed, match="804: `steps` is negative: -1"):
        built.run([x], [-1, 1])
    assert built.get(name, "i8", ()) == 44, "a call that fails updates nothing"
    built.set(name, np.array(7))
    assert built.run([x], [1, 1])[1] == 8 and built.error() == ""
    built.reset()
    assert built.get(name, "i8", ()) == 40
    with pytest.raises(Failed, match="801: there is no variable of this name"):
        built.get("count", "i8", ())
    with pytest.raises(Failed, match="801: the variable has another number of bytes"):
        built.get(name, "i4", ())
    built.destroy()
    other.destroy()
    needs = set(undefined_symbols(find(paths, ".o").read_bytes()))
    assert needs <= ALWAYS | (THREADS if threads > 1 else set())
    check_headers(paths, tmp_path)
    if CC is not None:
        assert run_example(paths, "steps=2", "batch=1")["calls"] == 41


def test_wrong_numbers_of_threads_are_refused(tmp_path: Path) -> None:
    paths = tracker().build(tmp_path, threads=2)
    for threads in (0, 3):
        with pytest.raises(Failed) as found:
            Model(paths, threads)
        assert found.value.code == CODES["ARGUMENT"][0]


@pytest.mark.parametrize("width", ["int8", "int16", "int32", "int64"])
def test_bools_and_integers(tmp_path: Path, width: str) -> None:
    text = """
graph main.Mixed {
  input new = new: bool[6];
  input `a b` = b: int[6];
  input model = k: int[6];
  any: bool[] = any(new) { any[] |= new[i]  for i < 6; }
  sum: int[] = sum(b) { sum[] += b[i]  for i < 6; }
  picked: int[6] = pick(b, k) { picked[i] = b[k[i]]  for i < 6; }
  ratio: int[6] = divide(b, k) { ratio[i] = b[i] / k[i]  for i < 6; }
  output any = any;
  output `class` = sum;
  output picked = picked;
  output ratio = ratio;
}
"""
    built = Model(build_graph(parse_graph(text), {}, tmp_path, int=width))
    flags = np.array([0, 0, 1, 0, 0, 0], bool)
    b, k = np.arange(-3, 3).astype(width), np.array([5, 4, 3, 2, 1, 1], width)
    found, total, picked, ratio = built.run([flags, b, k])
    assert found and total == -3
    np.testing.assert_array_equal(picked, b[k])
    np.testing.assert_array_equal(ratio, b // k)
    with pytest.raises(Failed, match="803: division of an integer by zero in `divide`"):
        built.run([flags, b, np.zeros_like(k)])
    with pytest.raises(Failed, match="802: index 6 is out of range for dimension 0 of `b`, whose"):
        built.run([flags, b, k + np.array(1, width)])
    np.testing.assert_array_equal(built.run([flags, b, k])[2], b[k])
    built.destroy()
    names = [name for _, _, name in built.parameters]
    assert names == ["*new_", "*a_b", "*model_2", "*any", "*class_", "*picked", "*ratio"]
    check_headers((find(tuple(tmp_path.iterdir()), ".h"),), tmp_path)


@pytest.mark.parametrize("real", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("target", ["cpu", "x86-64"])
def test_reals(tmp_path: Path, real: str, target: str) -> None:
    graph = parse_graph("""
graph g {
  input x = x: real[40];
  y: real[40] = op(x) { y[i] = x[i] * 3.0 + round(x[i])  for i < 40; }
  output y = y;
}
""")
    x = np.linspace(-4, 4, 40)
    expected = interpret(graph, {"x": x}, real=real)["y"]
    paths = build_graph(graph, {}, tmp_path, real=real, target=target)
    given = x.astype(real if real != "bfloat16" else np.float32)
    if real == "bfloat16":
        given = np.asarray((given.view(np.uint32) + 0x8000) >> 16, np.uint16)
        expected = interpret(graph, {"x": widened(given)}, real=real)["y"]
    (y,) = Model(paths).run([given])
    found = widened(y) if real == "bfloat16" else y
    np.testing.assert_allclose(
        found.astype(float), expected.astype(float), 1e-2 * (real != "float64")
    )


def widened(bits: np.ndarray) -> np.ndarray:
    """Numbers of bfloat16 as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


# ------------------------------------------------------- what data decides about


def parse(text: str) -> ricci.Model:
    return ricci.parse(text, "skriptnd")


def test_results_whose_shape_data_defines(tmp_path: Path) -> None:
    model = parse("""
        import layout;
        graph G {
            @input { x: real[n|12]; }
            @output { i: int[1, ~]; }
            @compose { i = layout.nonzero(x); }
        }
    """)
    paths = model.build(tmp_path)
    built = Model(paths)
    for n in (0, 1, 7, 12):
        x = np.random.default_rng(n).integers(-1, 2, n).astype(np.float32)
        np.testing.assert_array_equal(built.run([x], [n]), [[np.flatnonzero(x)]])
    if CC is not None:
        np.array([0, 3, 0, 0, 2], np.float32).tofile(tmp_path / "x.raw")
        assert run_example(paths, "n=5", "x=x.raw")["i"].tolist() == [1, 4]


def test_packs_as_long_as_a_call_says(tmp_path: Path) -> None:
    model = parse("""
        import math;
        graph G {
            @input { xs: real[3]..(k|4); v: real[3]; }
            @output { all: real[3]..; last: real[3]; }
            @compose {
                ys..(k) = for x : xs do math.neg(x);
                all = [ys.., v];
                last = all[-2];
            }
        }
    """)
    paths = model.build(tmp_path)
    run, built = model.compile(threads=1), Model(paths)
    rng = np.random.default_rng(0)
    v = rng.random(3, np.float32)
    for k in (1, 4, 2):
        xs = [rng.random(3, np.float32) for _ in range(k)]
        items, last = built.run([xs, v])
        expected = run(xs, v)
        np.testing.assert_array_equal(items, expected.all)
        np.testing.assert_array_equal(last, expected.last)
    with pytest.raises(ricci.Error) as found:
        run([], v)
    with pytest.raises(Failed, match=f"501: {re.escape(found.value.diagnostics[0].message)}"):
        built.run([[], v])
    with pytest.raises(Failed, match="801: `xs_count` is more than 4: 5"):
        built.run([[v] * 5, v])
    check_headers(paths, tmp_path)
    if CC is not None:
        assert list(run_example(paths)) == ["all", "last"]


HALVES = """
operator halve {
    @input { x: real[n, m]; }
    @output { y: real[n / 2, m]; }
    @assert { n >= 2: "at least two rows are needed", n; }
    @lower { y[i, j] = x[2 * i, j] + x[2 * i + 1, j], i < n / 2, j < m; }
}
graph G {
    @input { x: real[s|10, 3]; }
    @output { y: real[~, 3]; }
    @compose { y = halve(x); }
}
"""


def test_assertions_about_sizes_have_their_messages(tmp_path: Path) -> None:
    model = parse(HALVES)
    built = Model(model.build(tmp_path))
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    np.testing.assert_array_equal(built.run([x], [5])[0], x[:4:2] + x[1:4:2])
    with pytest.raises(ricci.Error) as found:
        model.compile()(x[:1])
    with pytest.raises(Failed, match=r"^501: ") as failed:
        built.run([x[:1]], [1])
    assert found.value.diagnostics[0].message in str(failed.value)
    assert built.run([x], [4]) and built.error() == ""


def test_sizes_that_are_given_are_no_arguments(tmp_path: Path) -> None:
    model = parse(HALVES)
    x = np.ones((6, 3), np.float32)
    built = Model(model.build(tmp_path / "six", sizes={"s": 6}))
    assert built.run([x])[0].shape == (3, 3)
    for size, code in [(1, "E0501"), (11, "E0804"), (-1, "E0801"), ("6", "E0801")]:
        with pytest.raises(ricci.Error) as found:
            model.build(tmp_path / "no", sizes={"s": size})
        assert found.value.diagnostics[0].code == code
    assert not (tmp_path / "no").exists()


def test_extents_that_become_negative_are_named(tmp_path: Path) -> None:
    graph = parse_graph("""
graph g {
  symbol n <= 8;
  input x = x: real[n];
  y: real[n - 3] = op(x) { y[i] = x[i + 3]  for i < n - 3; }
  output y = y;
}
""")
    built = Model(build_graph(graph, {}, tmp_path))
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(built.run([x], [7])[0], x[3:7])
    with pytest.raises(Failed, match="804: the extent of dimension 0 of `y` is -1"):
        built.run([x], [2])


def test_loops_that_do_not_end_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = parse_graph("""
graph g {
  input x = x: int[];
  loop {
    with v: int[] = x;
    pretest {
      less: bool[] = test() { less[] = v[] < 10; }
      yield less;
    }
    body {
      twice: int[] = op() { twice[] = v[] * 2; }
      yield twice;
    }
    outputs y: int[];
  }
  output y = y;
}
""")
    monkeypatch.setenv("RICCI_LOOP_STEPS", "1000")
    built = Model(build_graph(graph, {}, tmp_path))
    assert built.run([np.array(3)]) == [12]
    with pytest.raises(Failed, match="806: the loops have not ended after 1000 steps"):
        built.run([np.array(0)])
    assert built.run([np.array(1)]) == [16]


@pytest.mark.parametrize("dynamic", [False, True])
def test_random_control_flow(tmp_path: Path, dynamic: bool) -> None:
    for seed in range(12):
        program = random_control(seed, dynamic=dynamic)
        expected = interpret(program.graph, program.inputs, real="float32")
        paths = build_graph(program.graph, {}, tmp_path / str(seed))
        sizes: dict[str, int] = {}
        arrays = []
        for port in program.graph.inputs:
            tensor, value = port.tensors[0], np.asarray(program.inputs[port.name])
            names = [getattr(e, "name", None) for e in tensor.shape]
            sizes |= dict(zip(names, value.shape, strict=True))
            kind = {"real": "float32", "int": "int64"}.get(tensor.dtype.value, "bool")
            arrays.append(np.ascontiguousarray(value, kind))
        numbers = [sizes[s.name] for s in program.graph.symbols]
        built = Model(paths)
        for found, want in zip(built.run(arrays, numbers), expected.values(), strict=True):
            np.testing.assert_allclose(found, want, 1e-4, 1e-4, err_msg=f"seed {seed}")
        built.destroy()
