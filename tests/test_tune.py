"""Tuning: what it finds computes the same, is kept in a file for all processes, and is used only
if it is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci import tc
from ricci.backends.llvm import image
from ricci.backends.llvm.schedule import NO_SCHEDULES, Nest, Schedules
from ricci.cli import main
from ricci.diagnostics import Error
from ricci.dtypes import DType, Types
from ricci.runtime import tuning, tuning_file
from ricci.runtime.blocks import large_array
from ricci.runtime.tuning_problem import Problem

TEXT = """
def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }
def soft(float(M,N) I) -> (top, O) {
    top(m) max=! I(m,n)
    O(m,n) = exp(I(m,n) - top(m))
}
def pick(float(R,E) T, int32(B) at) -> (O) { O(b,e) = T(at(b), e) * 2 }
"""
NEST = Nest(1, 8, (0,), (2,), 1, 1, 4, 100)
"""A schedule of `tmm` that no cost model would choose."""


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


A, B = draw(20, 30), draw(40, 30)


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kept" / "tuning.json"
    monkeypatch.setenv("RICCI_TUNING_FILE", str(path))
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    return path


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Schedules]]:
    """The schedules of what is compiled."""
    seen: list[Schedules] = []
    build = image.build

    def watched(program: Any, target: Any, schedules: Schedules) -> Any:
        seen.append(schedules)
        return build(program, target, schedules)

    monkeypatch.setattr(image, "build", watched)
    yield seen


class Enough:
    """Interrupts the search after so many steps: how far it comes in a time is not certain."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __call__(self, share: float, kernel: str) -> None:
        assert 0 <= share <= 1
        assert kernel
        self.steps -= 1
        if self.steps < 0:
            raise KeyboardInterrupt


def tuned(entry: str, *arrays: object, steps: int = 8, **rest: Any) -> tc.Tuned:
    return tc.autotune(TEXT, entry, *arrays, **{"seconds": 600, "progress": Enough(steps)} | rest)


def keep(*shapes: tuple[int, ...], schedule: Nest = NEST) -> None:
    """Put an entry for `tmm` into the file."""
    result = tuned("tmm", *shapes, steps=0, threads=1)
    key = tuning_file.read(tuning_file.where(None))[-1].key
    entry = tuning_file.Entry(key, "tmm", (schedule,), 1, 2.0, 1.0, "today", "0")
    assert result.before > 0
    tuning_file.keep(entry, None)


def code(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(Error) as raised:
        call(*args, **kwargs)
    return raised.value.diagnostics[0].code


def test_what_is_found_computes_the_same(file: Path) -> None:
    result = tuned("tmm", A, B, steps=15)
    assert result.tried > 3
    assert not result.wrong
    assert "interpreter" in result.checked or not any(result.schedules)
    for options in (result, "tuned", result.to_json(), json.loads(json.dumps(result.to_json()))):
        found = tc.define(TEXT, options=options).tmm(A, B)
        np.testing.assert_allclose(found, A.astype(np.float64) @ B.T, rtol=1e-4, atol=1e-4)
    data = json.loads(file.read_text())["entries"]
    assert [e["shapes"] for e in data] == [[[20, 30], [40, 30]]]
    assert "tmm" in str(result)


def test_several_kernels_and_arrays_that_index() -> None:
    x = draw(50, 33)
    result = tuned("soft", x)
    top, out = tc.define(TEXT, options=result).soft(x)
    np.testing.assert_array_equal(top, x.max(1))
    np.testing.assert_allclose(out, np.exp(x - x.max(1)[:, None]), rtol=1e-5)
    table, at = draw(9, 17), np.array([8, 0, 3], np.int32)
    assert not tuned("pick", table, at).wrong
    assert not tuned("pick", tc.Spec((9, 17)), tc.Spec((3,), "int32")).wrong
    found = tc.define(TEXT, options="tuned").pick(table, at)
    np.testing.assert_array_equal(found, table[at] * 2)


def test_arrays_that_are_not_contiguous() -> None:
    a = np.asfortranarray(A)
    result = tuned("tmm", a, B)
    found = tc.define(TEXT, options=result).tmm(a, B)
    np.testing.assert_allclose(found, A @ B.T, rtol=1e-4, atol=1e-4)
    assert tuning_file.read(tuning_file.where(None))[0].key.strides == ((0, (1, 20)),)


def test_results_lie_as_those_of_calls_do() -> None:
    """Big ones are in large pages, and begin at the same place of one: it is not the same to write
    to others."""
    model = ricci.parse("def f(float(N,M) I) -> (O) { O(n,m) = I(n,m) * 2 }", "tc")
    types = Types(DType.FLOAT32, DType.INT64)
    subject = Problem(model.graph, {}, (draw(700, 600),), {}, types, False).subject(1)
    result = subject.arguments()[-1]
    place = large_array(result.shape, result.dtype).ctypes.data % (2 << 20)
    assert result.ctypes.data % (2 << 20) == place and not result.any()


def test_used_only_if_asked_for(built: list[Schedules]) -> None:
    keep((20, 30), (40, 30))
    tc.define(TEXT, threads=1).tmm(A, B)
    assert built == [NO_SCHEDULES]
    found = tc.define(TEXT, threads=1, options="tuned").tmm(A, B)
    assert built[1:] == [Schedules((NEST,), lenient=True)]
    np.testing.assert_allclose(found, A @ B.T, rtol=1e-4, atol=1e-4)
    renamed = TEXT.replace("tmm", "other").replace("A(", "X(").replace(" A", " X")
    tc.define(renamed, threads=1, options="tuned").other(A, B)
    assert built[2:] == [Schedules((NEST,), lenient=True)]


def test_the_nearest_size_is_used(built: list[Schedules]) -> None:
    wide = replace(NEST, vectors=2)
    keep((20, 30), (40, 30))
    keep((200, 300), (400, 300), schedule=wide)
    run = tc.define(TEXT, threads=1, options="tuned").tmm
    for m, expected in ((25, NEST), (150, wide)):
        a, b = draw(m, m), draw(2 * m, m)
        np.testing.assert_allclose(run(a, b), a @ b.T, rtol=1e-3, atol=1e-3)
        assert built[-1].kernels == (expected,)
    vector = tc.define("def f(float(N) x) -> (y) { y(i) = x(i) }", options="tuned")
    np.testing.assert_array_equal(vector.f(A[0]), A[0])
    assert not built[-1]


def test_a_schedule_that_does_not_fit_other_sizes_is_left_out() -> None:
    keep((20, 30), (40, 30), schedule=replace(NEST, outer=(0, 1), vector=2, reduced=()))
    run = tc.define(TEXT, threads=1, options="tuned").tmm
    a, b = draw(20, 30), draw(1, 30)  # without a loop over n
    np.testing.assert_allclose(run(a, b), a @ b.T, rtol=1e-4, atol=1e-4)


def test_schedules_of_callers(built: list[Schedules]) -> None:
    run = tc.define(TEXT, options=tc.Options(schedules=(NEST,), threads=1)).tmm
    np.testing.assert_allclose(run(A, B), A @ B.T, rtol=1e-4, atol=1e-4)
    assert built[-1].kernels == (NEST,)
    for schedules in ((NEST, NEST), (replace(NEST, lanes=3),), ("nest",), 5):
        options = {"schedules": schedules}
        expected = "E0801" if schedules == 5 else "E0807"
        assert code(lambda o: tc.define(TEXT, options=o).tmm(A, B), options) == expected
    for wrong in ("fast", 3, {"thread": 2}, {"threads": 0}, {"tuned": 1}):
        assert code(tc.define, TEXT, options=wrong) == "E0801"


def test_what_was_found_for_one_function_is_not_for_another(built: list[Schedules]) -> None:
    functions = tc.define(TEXT, options=tc.Options((NEST,), program="another"))
    functions.tmm(A, B)
    assert not built[-1]
    keep((20, 30), (40, 30))
    program = tuning_file.read(tuning_file.where(None))[-1].key.program
    functions = tc.define(TEXT, options={"schedules": [NEST], "program": program})
    functions.soft(A)
    assert not built[-1]
    functions.tmm(A, B)
    assert built[-1].kernels == (NEST,)


def test_two_processes_share_a_file(file: Path, tmp_path: Path) -> None:
    program = tmp_path / "p.tc"
    program.write_text(TEXT)
    command = [sys.executable, "-m", "ricci", "tune", str(program), "--json", "--seconds", "0.1"]
    sizes = [["--set", f"M={m}", "--set", "N=16", "--set", "K=16"] for m in (8, 16)]
    both = [subprocess.Popen([*command, "--graph", "tmm", *s], stdout=-1, stderr=-1) for s in sizes]
    for process in both:
        out, problem = process.communicate(timeout=120)
        assert process.returncode == 0, problem
        assert json.loads(out)["wrong"] == []
    found = {e.key.shapes[0] for e in tuning_file.read(file)}
    assert found == {(8, 16), (16, 16)}
    assert not list(file.parent.glob(".new-*"))


@pytest.mark.parametrize("text", ["{", "[]", '{"entries": 1}', "\udcff", "[" * 100_000])
def test_a_damaged_file_is_left_as_it_is(file: Path, text: str) -> None:
    file.parent.mkdir()
    damaged = text.encode("utf-8", "surrogateescape")
    file.write_bytes(damaged)
    assert code(tuned, "tmm", A, B) == "E0710"
    assert code(lambda: tc.define(TEXT, options="tuned").tmm(A, B)) == "E0710"
    assert file.read_bytes() == damaged
    tc.define(TEXT).tmm(A, B)


def test_entries_of_other_versions_are_kept(file: Path) -> None:
    others: list[object] = [{"version": 99}, 7, {"version": 1, "program": "x"}]
    file.parent.mkdir()
    file.write_text(json.dumps({"entries": others}))
    tuned("tmm", A, B, steps=0)
    assert json.loads(file.read_text())["entries"][:3] == others
    assert len(tuning_file.read(file)) == 1


def test_the_file_does_not_grow_without_end(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_file, "MOST_ENTRIES", 2)
    for n in (3, 4, 5, 5):
        tuned("tmm", (n, 8), (n, 8), steps=0)
    assert [e.key.shapes[0][0] for e in tuning_file.read(file)] == [4, 5]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    assert code(tuned, "tmm", A, B, file=tmp_path / "taken" / "t.json") == "E0707"
    assert code(tuned, "tmm", A, B, seconds=float("nan")) == "E0801"


def test_an_interruption_keeps_what_was_found(file: Path) -> None:
    progress = Enough(3)
    result = tuned("tmm", A, B, progress=progress)
    assert result.interrupted
    assert progress.steps == -1
    assert len(tuning_file.read(file)) == 1
    assert not tuned("tmm", A, B, seconds=0.001).interrupted


def test_wrong_results_are_reported_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    results = tuning.Trial.results

    def spoilt(trial: Any) -> Any:
        return [a + (trial.schedule is not None) for a in results(trial)]

    monkeypatch.setattr(tuning.Trial, "results", spoilt)
    result = tuned("tmm", A, B)
    assert result.wrong
    assert set(result.schedules) == {None}


def test_a_model_with_weights_state_and_packed_constants(tmp_path: Path) -> None:
    model = ricci.parse("""
        import nn;
        graph G {
            @input { x: real[2,8,9,9]; }
            @variable { f: real[16,8,3,3]; seen: real[2,16,9,9]; }
            @output { y: real[2,16,9,9]; }
            @compose { y = nn.conv{padding = 1}(x, f); }
            @update { seen = y; }
        }""")
    model.variables["main.G.f"] = draw(16, 8, 3, 3)
    model.variables["main.G.seen"] = np.zeros((2, 16, 9, 9))
    x = draw(2, 8, 9, 9)
    result = tuning.tune(
        model.graph, model.variables.known(), (x,), {}, seconds=600, progress=Enough(12)
    )
    assert result.tried
    assert not result.wrong
    expected = model.compile("interpreter")(x)
    for options in (result, "tuned"):
        run = model.compile(options=options)
        np.testing.assert_allclose(run(x), expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(run.variables["main.G.seen"], expected, rtol=1e-4, atol=1e-4)


def test_a_graph_whose_sizes_are_open() -> None:
    graph = ricci.parse("""
        import nn;
        graph G { @input { x: real[n|40]; } @output { y: real[n|40]; }
            @compose { y = nn.relu(x); } }""").graph
    assert code(tuning.tune, graph, {}, (draw(4),), {}) == "E0805"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "p.tc"
    program.write_text(TEXT)
    sizes = ["--graph", "soft", "--set", "M=8", "--set", "N=40"]
    assert main(["tune", str(program), *sizes, "--seconds", "0.2"]) == 0
    shown = capsys.readouterr()
    assert "soft" in shown.err
    assert "tried" in shown.out
    assert main(["bench", str(program), *sizes, "--tuned", "--calls", "2", "--json"]) == 0
    assert "median call" in json.loads(capsys.readouterr().out)
    assert main(["tune", str(program), "--graph", "soft", "--set", "M=8"]) == 1
    assert "E0801" in capsys.readouterr().err
