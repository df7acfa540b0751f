"""Programs as models: ranks and dims as attributes, the rest open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci import eintup

FOLDER = Path(__file__).parents[2] / "examples" / "eintup"
RNG = np.random.default_rng(0)

NOISE = """
x[i] = RANDOM(0, 1, FLOAT)
y[i] = x[i] + RANDOM(0, 1, FLOAT)
"""


def load(name: str, attribs: dict[str, object] | None = None) -> ricci.Model:
    return ricci.load(FOLDER / f"{name}.et", attribs)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_sizes_stay_open(target: str) -> None:
    model = load("conv_valid_v2", {"RANK(ipos)": 2, "DIMS(stride)": [2, 1]})
    assert [s.name for s in model.graph.symbols][:3] == ["batch", "ipos_0", "ipos_1"]
    run = model.compile(target)
    program = eintup.load(FOLDER / "conv_valid_v2.et").at(dims={"stride": [2, 1]})
    for shapes in (((2, 9, 8, 3), (3, 2, 3, 5)), ((1, 4, 4, 1), (4, 4, 1, 2))):
        x, w = (RNG.random(s) for s in shapes)
        np.testing.assert_allclose(run(x, w), program(x, w))
    with pytest.raises(ricci.Error) as caught:
        run(RNG.random((1, 2, 8, 1)), RNG.random((6, 2, 1, 1)))
    assert caught.value.diagnostics[0].code == "E0501"
    assert "DIMS(opos)" in str(caught.value)


def test_types_are_chosen_when_it_is_compiled() -> None:
    model = load("matmul", {"RANK(batch)": 0})
    a, b = RNG.random((2, 3)), RNG.random((3, 4))
    for given, dtype in ((None, "float64"), ("float32", "float32"), ("float16", "float16")):
        result = model.compile(real=given)(a, b)
        assert result.dtype == dtype
        np.testing.assert_allclose(result, a @ b, rtol=1e-2)
    assert load("sort").numbers() == (
        "float64", "int32",
    )  # fmt: skip


def test_what_a_model_is() -> None:
    model = load("tile", {"DIMS(copy)": [2, 3]})
    assert (model.language, model.name, model.graphs) == ("eintup", "tile", ("tile",))
    assert model.attributes["RANK(elem)"] == 2
    assert model.attributes["DIMS(copy)"] == (2, 3)
    x = RNG.integers(0, 9, (2, 2))
    np.testing.assert_array_equal(model.compile()(x), np.tile(x, (2, 3)))
    assert ricci.graphs(FOLDER / "tile.et") == ("tile",)


@pytest.mark.parametrize("stage", ["syntax", "sknd", "ir", "loops"])
def test_stages(stage: str) -> None:
    model = load("matmul", {"RANK(batch)": 0, "DIMS(row)": 2, "DIMS(inner)": 3, "DIMS(col)": 4})
    assert "output" in model.show(stage)


def test_gradient() -> None:
    model = load("matmul", {"RANK(batch)": 1}).gradient(["right"])
    a, b, d = RNG.random((2, 3, 4)), RNG.random((2, 4, 5)), RNG.random((2, 3, 5))
    np.testing.assert_allclose(model.compile()(a, b, d), a.swapaxes(1, 2) @ d)


def test_saving_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ricci.Error) as caught:
        load("matmul", {"RANK(batch)": 0}).save(tmp_path / "m")
    assert caught.value.diagnostics[0].code == "E0706"
    assert "ricci convert" in caught.value.diagnostics[0].help


def test_a_seed_is_an_input() -> None:
    run = ricci.parse(NOISE, "eintup").compile()
    first, second = (run(np.zeros(5), np.array(n, np.uint64)) for n in (0, 1))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, eintup.parse(NOISE)(np.zeros(5)))


def test_sizes_that_others_determine() -> None:
    text = "x[c] = RANDOM(0, 1, FLOAT)\ny[m] = x[3 * m]\n\ny\n\nDIMS(c) = 3 * DIMS(m)"
    run = ricci.parse(text, "eintup").compile()
    np.testing.assert_array_equal(run(np.arange(6.0)), [0, 3])
    with pytest.raises(ricci.Error):
        run(np.arange(7.0))


def test_relations_are_checked() -> None:
    text = "x[i] = RANDOM(0, 1, FLOAT)\nw[j] = RANDOM(0, 1, FLOAT)\ny[i] = x[i] * w[j]\n\ny\n\n"
    run = ricci.parse(text + "DIMS(j) < DIMS(i)\nDIMS(i) IN [1, 4]", "eintup").compile()
    np.testing.assert_allclose(run(np.ones(6), np.ones(5)), np.full(6, 5.0))
    with pytest.raises(ricci.Error, match=r"DIMS\(j\) < DIMS\(i\)") as caught:
        run(np.ones(5), np.ones(5))
    assert caught.value.diagnostics[0].code == "E0501"


@pytest.mark.parametrize(
    ("name", "attribs", "said"),
    [
        ("matmul", {}, "RANK(batch): 0 to 6"),
        ("matmul", {"RANK(batch)": 7}, "can be 0 to 6"),
        ("matmul", {"RANK(b)": 1}, "no eintup `b`"),
        ("matmul", {"batch": 1}, "attributes are `RANK(name)` and `DIMS(name)`"),
        ("matmul", {"RANK(batch)": "two"}, "a number from 0"),
        ("matmul", {"DIMS(batch)": "[1, x]"}, "a list of numbers"),
        ("matmul", {"DIMS(batch)": [1, 2], "RANK(batch)": 1}, "has 2 components"),
        ("tile", {"RANK(elem)": 2}, '"DIMS(copy)": [2, 2]'),
        ("conv_valid_v1", {"RANK(ipos)": 1, "DIMS(stride)": 0}, "divides by zero"),
    ],
)
def test_wrong_attributes(name: str, attribs: dict[str, object], said: str) -> None:
    with pytest.raises(ricci.Error) as caught:
        load(name, attribs)
    assert said in str(caught.value)


def test_fixed_dims_obey_constraints() -> None:
    with pytest.raises(ricci.Error) as caught:
        load(
            "conv_valid_v1",
            {"DIMS(ipos)": 9, "RANK(ipos)": 1, "DIMS(fpos)": 2, "DIMS(stride)": 2, "DIMS(opos)": 9},
        )
    assert caught.value.diagnostics[0].code == "E0501"


@pytest.mark.parametrize("how", [{"types": {"T": "real"}}, {"graph": "other"}])
def test_wrong_choices(how: dict[str, Any]) -> None:
    with pytest.raises(ricci.Error) as caught:
        ricci.load(FOLDER / "sort.et", **how)
    assert caught.value.diagnostics[0].code == "E0801"


def test_open_sizes_of_zero_give_the_shapes_of_fixed_ones() -> None:
    text = "x[a] = RANDOM(0, 1, FLOAT)\ny[a, a * (DIMS(a) - 1) //^ 2] = 2 * x[a]\n\ny\n"
    for size in (0, 1, 2, 5):
        x = np.zeros(size)
        fixed = ricci.eintup.parse(text)(x)
        assert ricci.parse(text, "eintup").compile()(x).shape == fixed.shape
