"""Programs written in SkriptND give the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci import eintup
from ricci.cli import main
from ricci.eintup.execute import evaluate

FOLDER = Path(__file__).parents[2] / "examples" / "eintup"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.et"))

Captured = pytest.CaptureFixture[str]


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", PROGRAMS)
def test_library(name: str) -> None:
    program = eintup.load(FOLDER / f"{name}.et")
    configurations = list(program.configurations(seed=1))
    configuration = configurations[len(configurations) // 2]
    names = [port.name for port in program.inputs]
    inputs = evaluate(program.program, configuration, {}, names, seed=3)
    expected = as_list(program.at(dims=configuration.dims)(**inputs))
    model = program.model(configuration)
    actual = model.compile()(**inputs)
    for one, other in zip(as_list(actual), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    converted = ricci.parse(model.show("sknd")).compile("interpreter", real="float64")
    for one, other in zip(as_list(converted(**inputs)), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_open_sizes_are_attributes(tmp_path: Path) -> None:
    source, target = FOLDER / "conv_valid_v2.et", tmp_path / "conv.sknd"
    given = ["--attrib", "RANK(ipos)=2", "--attrib", "DIMS(stride)=[2,1]"]
    assert main(["convert", str(source), str(target), *given]) == 0
    sizes = {"batch": 2, "ipos_0": 9, "ipos_1": 8, "ichan": 3}
    sizes |= {"fpos_0": 3, "fpos_1": 2, "ochan": 5}
    rng = np.random.default_rng(0)
    x, w = rng.random((2, 9, 8, 3)), rng.random((3, 2, 3, 5))
    expected = eintup.load(source).at(dims={"stride": [2, 1]})(x, w)
    run = ricci.load(target, sizes).compile(real="float64")
    np.testing.assert_allclose(run(x, w), expected)
    with pytest.raises(ricci.Error, match="opos"):
        ricci.load(target, sizes | {"ipos_1": 0})


def test_gradients_are_written_too(capsys: Captured) -> None:
    assert (
        main(["convert", str(FOLDER / "matmul.et"), "-", "--attrib=RANK(batch)=0", "--gradient"])
        == 0
    )
    text = capsys.readouterr().out
    run = ricci.parse(text, attribs={"row": 2, "inner": 3, "col": 4}).compile(real="float64")
    rng = np.random.default_rng(0)
    a, b, d = rng.random((2, 3)), rng.random((3, 4)), rng.random((2, 4))
    d_a, d_b = run(a, b, d)
    np.testing.assert_allclose(d_a, d @ b.T)
    np.testing.assert_allclose(d_b, a.T @ d)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x[i] = RANDOM(0, 1, FLOAT)\ny[i] = x[i] * RANDOM(0, 1, FLOAT)", "random numbers"),
        ("x[i] = RANDOM(0, 1, FLOAT)\nx[i] += 1\n\nx", "two inputs or outputs"),
        ("graph[i] = RANDOM(0, 1, FLOAT)\ny[i] = graph[i]", "reserved word"),
    ],
)
def test_what_skriptnd_cannot_say(text: str, said: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "f.et").write_text(text)
    assert main(["convert", str(tmp_path / "f.et"), "-"]) == 1
    shown = capsys.readouterr().err
    assert "E0706" in shown
    assert said in shown


def test_open_ranks_are_named(capsys: Captured) -> None:
    assert main(["convert", str(FOLDER / "tile.et"), "-"]) == 1
    assert 'attribs={"RANK(elem)": 1}, or --attrib "RANK(elem)=1"' in capsys.readouterr().err
    assert main(["convert", str(FOLDER / "tile.et"), "-", "--attrib", "RANK(elem)=2"]) == 1
    assert '--attrib "DIMS(copy)=[2,2]"' in capsys.readouterr().err
    given = ["--attrib", "DIMS(copy)=[2,3]"]
    assert main(["convert", str(FOLDER / "tile.et"), "-", *given]) == 0
    assert "elem_1" in capsys.readouterr().out
