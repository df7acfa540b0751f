"""Building: the names of C, mistakes, and the command."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.ahead import plan
from ricci.ahead.build import build_graph
from ricci.ahead.names import RESERVED, Names, identifier, prefix_for
from ricci.cli import main
from ricci.ir.text import parse_graph

from .ahead import DIGITS, TRACKER, Model, check_headers, find


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


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "example.c").mkdir()
    with pytest.raises(ricci.Error, match=r"E0707.*cannot write into"):
        ricci.load(DIGITS).build(tmp_path, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["example.c"]


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
