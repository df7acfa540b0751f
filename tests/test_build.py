"""Models compiled ahead of time give the numbers that calls from Python give, and fail as these do.

With a C compiler the examples are compiled and run, too; objects are loaded without one.
"""

from __future__ import annotations

import ctypes
import json
import platform
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.ahead import build as ahead_build
from ricci.ahead import plan
from ricci.ahead.build import build_graph
from ricci.ahead.header import CODES
from ricci.ahead.names import RESERVED, Names, identifier, prefix_for
from ricci.backends.llvm import standalone_check
from ricci.backends.llvm.elf import machine_of, undefined_symbols
from ricci.backends.llvm.target import host
from ricci.backends.llvm.targets import NAMES
from ricci.cli import main
from ricci.ir.interpret import interpret
from ricci.ir.text import parse_graph

from .ahead import Failed, Model, find
from .ir.control_programs import random_control

CC, CXX = shutil.which("cc"), shutil.which("c++")
DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.nnef2"

ALWAYS = {"calloc", "free", "memcpy", "memset"}
MAPPING = {"open", "lseek", "mmap", "munmap", "close"}
THREADS = {
    "pthread_create", "pthread_join", "pthread_sigmask", "sched_getaffinity", "sched_getcpu",
    "sched_setaffinity", "sched_yield", "syscall",
}  # fmt: skip
"""The functions of the system that the page about building names."""


def compile_c(paths: tuple[Path, ...], source: Path, compiler: str, *flags: str) -> Path:
    """A program of a source and the object."""
    program = source.with_suffix("")
    strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", *flags]
    files = [str(source), str(find(paths, ".o")), "-o", str(program), "-lm", "-lpthread"]
    done = subprocess.run([compiler, *strict, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def run_example(paths: tuple[Path, ...], *arguments: str) -> dict[str, np.ndarray]:
    """What the example prints, by the names of results; with a compiler alone."""
    assert CC is not None
    program = compile_c(paths, find(paths, ".c"), CC, "-std=c99", "-O1")
    done = subprocess.run(
        [program, *arguments], cwd=program.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = (line.removesuffix(" ...").split(":") for line in done.stdout.splitlines())
    return {name: np.array(text.split(), np.float64) for name, text in rows}


def check_headers(paths: tuple[Path, ...], folder: Path) -> None:
    """The header has no warnings in either language, where there is a compiler."""
    header = find(paths, ".h").name
    for compiler, name, flag in [(CC, "alone.c", "-std=c99"), (CXX, "alone.cpp", "-std=c++11")]:
        if compiler is not None:
            (folder / name).write_text(f'#include "{header}"\n#include "{header}"\n')
            flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", flag]
            subprocess.run([compiler, *flags, folder / name], check=True)


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


TRACKER = """
import nn;
import math;

graph Tracker {
    @input {
        x: real[steps|20, batch|16, 8];
    }
    @output {
        y: real[steps, batch, 32];
        calls: int[];
    }
    @variable {
        W: real[128, 8];
        R: real[128, 32];
        B: real[128];
        count: int[];
    }
    @compose {
        y, ~, ~ = nn.lstm(x, W, R, B);
        calls = math.add(count, 1);
    }
    @update {
        count = calls;
    }
}
"""


def tracker() -> ricci.Model:
    model = ricci.parse(TRACKER)
    rng = np.random.default_rng(1)
    for name, shape in {"W": (128, 8), "R": (128, 32), "B": (128,)}.items():
        model.variables[f"main.Tracker.{name}"] = rng.normal(0, 0.3, shape)
    model.variables["main.Tracker.count"] = np.array(40)
    return model


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


# ------------------------------------------------------------------- processors


@pytest.mark.parametrize("target", NAMES)
def test_objects_for_other_processors(tmp_path: Path, target: str) -> None:
    model = ricci.load(DIGITS, attribs={"batch": 2})
    paths = model.build(tmp_path, target=target, threads=2)
    data = find(paths, ".o").read_bytes()
    assert data[:4] == b"\x7fELF" and machine_of(data) == (183 if "aarch64" in target else 62)
    mathematics = {"floorf", "fmaf", "roundf", "truncf", "ceilf"}
    assert set(undefined_symbols(data)) <= ALWAYS | THREADS | mathematics
    assert target in find(paths, ".h").read_text()


def test_an_object_refuses_a_processor_that_lacks_its_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As which this machine counts where a leaf that no processor has is to tell of one of them."""
    if platform.machine() not in ("x86_64", "AMD64"):
        assert not standalone_check.is_checked(host())
        return
    model = ricci.load(DIGITS, attribs={"batch": 1})
    Model(model.build(tmp_path / "fits"))
    nowhere = ((0x7FFFFFF0, 0), 0, 0)
    monkeypatch.setitem(standalone_check._BITS, "sse4.2", nowhere)
    with pytest.raises(Failed) as failed:
        Model(model.build(tmp_path / "lacks"))
    assert failed.value.code == CODES["PROCESSOR"][0]


def test_what_variables_give_is_prepared_when_a_model_is_made_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is for processors whose code this machine cannot run."""
    model = ricci.load(DIGITS, attribs={"batch": 4})
    images = np.random.default_rng(3).random((4, 1, 8, 8), np.float32)
    expected = model.compile()(images)
    monkeypatch.setattr(ahead_build, "_runs", lambda target: False)
    for weights in ("embedded", "file"):
        paths = model.build(tmp_path / weights, target="x86-64", weights=weights)
        (found,) = Model(paths).run([images])
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


# --------------------------------------------------------------- names, mistakes


def test_names_of_c_are_safe_and_distinct() -> None:
    assert [identifier(t) for t in ("a.b", "int", "9x", "é", "_x_", "template", "a__b")] == [
        "a_b", "int_", "x9x", "x", "x", "template_", "a_b",
    ]  # fmt: skip
    names = Names(["model"])
    assert [names.new(t) for t in ("model", "a.b", "a_b", "a b", "int", "int")] == [
        "model_2", "a_b", "a_b_2", "a_b_3", "int_", "int_2",
    ]  # fmt: skip
    assert all(identifier(word) not in RESERVED for word in RESERVED)
    assert (prefix_for("pthread"), prefix_for("my.net"), prefix_for("3d")) == (
        "pthread_model", "my_net", "model3d",
    )  # fmt: skip


def test_text_of_a_program_cannot_leave_its_comment(tmp_path: Path) -> None:
    graph = parse_graph("""
graph g {
  input `*/ int x; ??/` = x: real[2];
  y: real[2] = op(x) { y[i] = x[i]  for i < 2; }
  output `a\\nb` = y;
}
""")
    paths = build_graph(graph, {}, tmp_path)
    check_headers(paths, tmp_path)
    assert "* / int x; ? ?/" in find(paths, ".h").read_text()
    (y,) = Model(paths).run([np.array([1, 2], np.float32)])
    assert y.tolist() == [1, 2]


def test_arrays_that_are_missing_are_named(tmp_path: Path) -> None:
    built = Model(ricci.load(DIGITS, attribs={"batch": 1}).build(tmp_path))
    run = built._function("run", *[ctypes.c_void_p] * 3)
    assert run(built.model, None, None) == 801 and built.error() == "`images` is NULL"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"name": "a-b"}, "E0801"),
        ({"name": "pthread"}, "E0801"),
        ({"name": 3}, "E0801"),
        ({"threads": 0}, "E0801"),
        ({"threads": 2.5}, "E0801"),
        ({"target": "interpreter"}, "E0805"),
        ({"target": "z80"}, "E0801"),
        ({"real": "int8"}, "E0801"),
        ({"weights": "cloud"}, "E0801"),
        ({"sizes": {"n": 3}}, "E0801"),
        ({"options": 5}, "E0801"),
        ({"directory": __file__}, "E0707"),
        ({"directory": "a\0b"}, "E0707"),
        ({"directory": 5}, "E0801"),
        ({"target": 5}, "E0801"),
        ({"sizes": 5}, "E0801"),
    ],
)
def test_mistakes_are_errors(tmp_path: Path, arguments: dict[str, Any], code: str) -> None:
    model = ricci.load(DIGITS, attribs={"batch": 1})
    with pytest.raises(ricci.Error) as found:
        model.build(**{"directory": tmp_path / "out", **arguments})
    assert found.value.diagnostics[0].code == code
    assert not (tmp_path / "out").exists()


def test_files_that_are_there_are_kept(tmp_path: Path) -> None:
    model = ricci.load(DIGITS, attribs={"batch": 1})
    (tmp_path / "example.c").write_text("mine")
    with pytest.raises(ricci.Error, match=r"E0707.*exists"):
        model.build(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["example.c"]
    assert len(model.build(tmp_path, force=True)) == 3


def test_variables_without_a_value_are_named(tmp_path: Path) -> None:
    with pytest.raises(ricci.Error, match="variables without a value"):
        ricci.parse(TRACKER).build(tmp_path)


def test_sizes_without_bounds_need_a_value(tmp_path: Path) -> None:
    text = "def f(float(N) x) -> (y) { y(i) = x(i) * 2.0 }"
    model = ricci.parse(text, "tc")
    with pytest.raises(ricci.Error, match=r"`N`, which has no upper bound(.|\n)*--set N=N"):
        model.build(tmp_path)
    built = Model(model.build(tmp_path, sizes={"N": 3}))
    assert built.run([np.array([1, 2, 3], np.float32)])[0].tolist() == [2, 4, 6]


def test_constants_that_are_too_large_to_embed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "MOST_EMBEDDED", 1000)
    monkeypatch.setattr(plan, "LARGE", 1000)
    model = ricci.load(DIGITS, attribs={"batch": 1})
    with pytest.raises(ricci.Error, match=r"E0901(.|\n)*--weights file"):
        model.build(tmp_path, weights="embedded")
    assert find(model.build(tmp_path), ".weights").stat().st_size > 1000


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "out")
    arguments = ["build", str(DIGITS), "--attrib", "batch=2", "-o", folder, "--name", "digits"]
    assert main([*arguments, "--json"]) == 0
    files = [Path(name) for name in json.loads(capsys.readouterr().out)["files"]]
    assert [f.name for f in files] == ["digits.o", "digits.h", "example.c"]
    (found,) = Model(tuple(files)).run([np.zeros((2, 1, 8, 8), np.float32)])
    assert found.shape == (2, 10)
    assert main(arguments) == 1 and "E0707" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0
    assert capsys.readouterr().out.splitlines() == [str(f) for f in files]


def test_symbols_are_those_of_the_linker(tmp_path: Path) -> None:
    """What is read from an object equals what the tool of the system says, where there is one."""
    paths = tracker().build(tmp_path, threads=2, weights="file")
    object_file, tool = find(paths, ".o"), shutil.which("nm")
    needs = undefined_symbols(object_file.read_bytes())
    assert set(needs) <= ALWAYS | MAPPING | THREADS and "mmap" in needs
    assert ", ".join(needs).split(", ") == list(needs)
    if tool is not None:
        rows = subprocess.run(
            [tool, "-u", object_file], capture_output=True, text=True, check=True
        ).stdout.split()
        assert sorted(rows[1::2]) == list(needs)
        rows = subprocess.run(
            [tool, "-g", "--defined-only", object_file], capture_output=True, text=True, check=True
        ).stdout.split()
        functions = ("create", "destroy", "error", "get", "reset", "run", "set")
        shown = [name for kind, name in zip(rows[1::3], rows[2::3], strict=True) if kind == "T"]
        assert shown == [f"Tracker_{f}" for f in functions]
        rest = {name for name in rows[2::3] if name not in shown}
        assert all(name.startswith("Tracker_") for name in rest), "names of its own"
    assert struct.unpack_from("<H", object_file.read_bytes(), 16) == (1,), "to be linked"
