"""What `ricci.load` and `ricci.parse` give, and how they answer mistakes."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci.cli import main
from ricci.frontends.skriptnd.attributes import Written

TWO_GRAPHS = """
# The first comment is kept.
graph First {
    @dtype { T: num = real; }
    @attrib {
        n: int = 3;
        scale: real = 1.0;
        flag: bool = false;
        title: str = 'it';
        many: int.. = [1, 2];
        odd: optional int;
    }
    @input { x: real[n]; }
    @output { y: real[n]; }
    @variable { w: real[n]; }
    @assert { true; }
    @compose { y = shift{by=scale}(x, w); }
}

graph Second {
    @input { x: real[2]; }
    @output { y: real[2]; }
    @compose { y = shift{by=0.0}(x, x); }
}

operator shift {
    @attrib { by: real; }
    @input { x: real[n]; w: real[n]; }
    @output { y: real[n]; }
    @lower { y[i,] = x[i,] + w[i,] + by, i < n; }
}
"""


TITLED = """graph G {
    @attrib { title: str = "t"; n: int = 1; }
    @input { x: real[n]; }
    @output { y: real[n]; }
    # @assert { false: "no", title; }
    @compose { y = x; }
}"""


def codes(action: object, *arguments: object, **named: object) -> list[str]:
    assert callable(action)
    with pytest.raises(ricci.Error) as caught:
        action(*arguments, **named)
    assert str(caught.value)
    return [d.code for d in caught.value.diagnostics]


# ----------------------------------------------------------------------- attributes


def test_attributes_reach_the_graph() -> None:
    model = ricci.parse(TWO_GRAPHS, attribs={"n": np.int64(4), "scale": 2, "many": np.arange(3)})
    assert model.attributes == {"n": 4, "scale": 2.0, "many": (0, 1, 2)}
    assert type(model.attributes["scale"]) is float
    model.variables["main.First.w"] = np.ones(4)
    assert model.compile("interpreter")(np.zeros(4, np.float32)).tolist() == [3.0] * 4


def test_attributes_as_text() -> None:
    texts = {"n": "4", "scale": "2", "flag": "true", "title": "5", "many": "[3,4]", "odd": "-1"}
    model = ricci.parse(TWO_GRAPHS, attribs={k: Written(v) for k, v in texts.items()})
    assert model.attributes == {
        "n": 4, "scale": 2.0, "flag": True, "title": "5", "many": (3, 4), "odd": -1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        {"n": 2.0}, {"n": True}, {"n": "3"}, {"n": None}, {"n": [3]}, {"n": 2**63}, {"n": {}},
        {"scale": "1"}, {"scale": 10**400}, {"flag": 1}, {"title": 1}, {"many": ["a"]},
        {"many": [[1]]}, {"odd": 1.5}, {"n": Written("x")}, {"n": Written("[1]")},
        {"n": Written("4.0")}, {"n": object()},
    ],
)  # fmt: skip
def test_wrong_values_are_findings(value: dict[str, object]) -> None:
    assert codes(ricci.parse, TWO_GRAPHS, attribs=value) == ["E0801"]


def test_all_wrong_values_are_reported_together() -> None:
    found = codes(ricci.parse, TWO_GRAPHS, attribs={"N": 1, "scale": "x"}, types={"U": "int"})
    assert found == ["E0801"] * 3


def test_unknown_names_suggest_known_ones() -> None:
    with pytest.raises(ricci.Error, match="did you mean `scale`"):
        ricci.parse(TWO_GRAPHS, attribs={"scales": 1.0})
    assert codes(ricci.parse, TWO_GRAPHS, types={"T": "bool"}) == ["E0801"]


@pytest.mark.parametrize(
    "choice", [{"threads": 0}, {"threads": "2"}, {"target": "gpu"}, {"real": "int8"}, {"int": "x"}]
)
def test_wrong_choices_are_findings(choice: dict[str, object]) -> None:
    assert codes(ricci.parse(TWO_GRAPHS).compile, **choice) == ["E0801"]


# --------------------------------------------------------------------------- graphs


def test_graphs_are_chosen_by_name() -> None:
    model = ricci.parse(TWO_GRAPHS, graph="Second")
    assert model.graphs == ("First", "Second")
    assert model.name == "Second" and not len(model.variables)
    assert model.compile("interpreter")(np.ones(2)).tolist() == [2.0, 2.0]
    assert codes(ricci.parse, TWO_GRAPHS, graph="Third") == ["E0801"]


def test_a_text_without_graphs() -> None:
    assert codes(ricci.parse, "operator f {}")


# ------------------------------------------------------------------------- variables


def test_variables_are_checked_and_copied() -> None:
    model = ricci.parse(TWO_GRAPHS)
    assert list(model.variables) == ["main.First.w"]
    assert codes(lambda: model.variables["main.First.w"]) == ["E0704"]
    value = np.ones(3)
    model.variables["main.First.w"] = value
    value[0] = 9
    assert model.variables["main.First.w"].tolist() == [1, 1, 1]
    assert codes(model.variables.__setitem__, "main.First.w", np.ones(4)) == ["E0705"]
    assert codes(model.variables.__setitem__, "main.First.w", np.ones(3, int)) == ["E0705"]
    assert codes(model.variables.__setitem__, "main.First.v", np.ones(3)) == ["E0801"]
    assert codes(model.variables.__delitem__, "main.First.w") == ["E0801"]


def test_the_same_model_comes_back(tmp_path: Path) -> None:
    attribs = {"n": 4, "scale": math.inf, "title": 'it\'s "so"', "many": ()}
    model = ricci.parse(TWO_GRAPHS, attribs=attribs)
    model.variables["main.First.w"] = np.arange(4, dtype=np.float64)
    model.save(tmp_path / "copy")
    copy = ricci.load(tmp_path / "copy")
    assert copy.name == "copy"
    assert copy.graph.inputs[0].tensors[0].shape == model.graph.inputs[0].tensors[0].shape
    w = copy.variables["main.First.w"]
    assert w.dtype == np.float64 and w.tolist() == [0, 1, 2, 3]
    assert "first comment is kept" in (tmp_path / "copy" / "main.sknd").read_text()
    copy.save(tmp_path / "copy")
    assert len(list((tmp_path / "copy").iterdir())) == 2


def test_the_value_of_an_optional_attribute_cannot_be_saved(tmp_path: Path) -> None:
    model = ricci.parse(TWO_GRAPHS, attribs={"odd": 5})
    model.variables["main.First.w"] = np.ones(3)
    assert codes(model.save, tmp_path) == ["E0706"]


@pytest.mark.parametrize("title", ["", "back\\", "'\"\\\\'", "{n} \\\\{n}", "two\nlines", "é"])
def test_strings_come_back(tmp_path: Path, title: str) -> None:
    model = ricci.parse(TITLED, attribs={"title": title})
    model.save(tmp_path)
    again = ricci.load(tmp_path)
    with pytest.raises(ricci.Error) as expected:
        ricci.parse(TITLED.replace("#", ""), attribs={"title": title})
    with pytest.raises(ricci.Error) as caught:
        ricci.parse(again.origin.operator.span.source.text.replace("#", ""))
    assert caught.value.diagnostics[0].notes == expected.value.diagnostics[0].notes


def test_that_an_input_was_left_out_is_saved_with_what_was_composed(tmp_path: Path) -> None:
    text = """
    import math;
    graph G {
        @input { x: real[3]; o: optional real[3]; }
        @output { y: real[3]; }
        @compose { y = if ?o then math.add(x, o) else x; }
    }
    """
    model = ricci.parse(text, attribs={"o": None})
    assert codes(model.save, tmp_path) == ["E0706"]
    model.save(tmp_path, composed=True)
    run = ricci.load(tmp_path).compile()
    assert run(np.ones(3), None).tolist() == [1, 1, 1]


def test_a_nan_cannot_be_saved(tmp_path: Path) -> None:
    model = ricci.parse(TWO_GRAPHS, attribs={"scale": math.nan})
    model.variables["main.First.w"] = np.ones(3)
    assert codes(model.save, tmp_path) == ["E0706"]


def test_modules_are_saved_with_the_model(tmp_path: Path) -> None:
    source = tmp_path / "one.nnef2"
    (source / "own").mkdir(parents=True)
    operator = TWO_GRAPHS[TWO_GRAPHS.index("operator") :]
    (source / "own" / "ops.sknd").write_text("public " + operator)
    main = TWO_GRAPHS[: TWO_GRAPHS.index("operator")].replace("shift{", "own.ops.shift{")
    (source / "main.sknd").write_text("import own.ops;\n" + main)
    model = ricci.load(source)
    model.variables["main.First.w"] = np.ones(3)
    model.save(tmp_path / "two.nnef2")
    files = {
        str(p.relative_to(tmp_path / "two.nnef2")) for p in (tmp_path / "two.nnef2").rglob("*")
    }
    assert files == {"own", "own/ops.sknd", "main.sknd", "main.First.w.dat"}
    assert ricci.load(tmp_path / "two.nnef2").compile("interpreter")(np.zeros(3)).sum() == 6


def test_one_file_has_its_weights_beside_it(tmp_path: Path) -> None:
    (tmp_path / "net.sknd").write_text(TWO_GRAPHS)
    model = ricci.load(tmp_path / "net.sknd")
    assert list(model.variables) == ["net.First.w"]
    executable = model.compile("interpreter")  # weights need not be there
    executable.variables["net.First.w"] = np.ones(3)
    assert executable(np.zeros(3)).tolist() == [2, 2, 2]
    model.variables["net.First.w"] = np.ones(3)
    model.save(tmp_path)
    assert list(ricci.load(tmp_path).variables) == ["main.First.w"]


@pytest.mark.parametrize("name", ["", "net.sknd"], ids=["folder", "file"])
def test_the_command_that_makes_weights(tmp_path: Path, name: str) -> None:
    """Of a model that lacks them: as it is named in the error."""
    (tmp_path / (name or "main.sknd")).write_text(TWO_GRAPHS)
    model = ricci.load(tmp_path / name)
    with pytest.raises(ricci.Error) as caught:
        dict(model.variables)
    found = re.search(r"`ricci (init .*)`", str(caught.value))
    assert found is not None and main(found[1].split()) == 0
    assert len(dict(ricci.load(tmp_path / name).variables)) == 1


def test_a_folder_without_weights(tmp_path: Path) -> None:
    (tmp_path / "main.sknd").write_text(TWO_GRAPHS)
    model = ricci.load(tmp_path)
    assert codes(model.compile) == ["E0704"]
    assert codes(model.save, tmp_path) == ["E0704"]
    model.variables["main.First.w"] = np.ones(3)
    assert model.compile("interpreter")(np.zeros(3)).tolist() == [2, 2, 2]


# ----------------------------------------------------------------------------- paths


@pytest.mark.parametrize("name", ["m.eintup.txt", "m.onnx", "m"])
def test_files_of_other_kinds(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert codes(ricci.load, tmp_path / name) == ["E0708"]


@pytest.mark.parametrize("name", ["m.sknd", "m.tc", "m", "a/b", "a\0b", "a" * 5000])
def test_paths_of_nothing(tmp_path: Path, name: str) -> None:
    assert codes(ricci.load, tmp_path / name) == ["E0701"]


def test_a_folder_without_a_main_module(tmp_path: Path) -> None:
    assert codes(ricci.load, tmp_path) == ["E0701"]


def test_languages() -> None:
    assert codes(ricci.parse, "", "tc") == ["E0801"]
    assert codes(ricci.parse, "", "fortran") == ["E0708"]


def test_variables_are_a_mapping() -> None:
    variables = ricci.parse(TWO_GRAPHS).variables
    assert "main.First.w" in variables and "w" not in variables and 5 not in variables
    assert variables.get("w", 4) == 4
    assert codes(variables.__setitem__, "main.First.w", [[1.0], [2.0, 3.0]]) == ["E0705"]


def test_wrong_arguments_are_findings(tmp_path: Path) -> None:
    assert codes(ricci.parse, b"graph G {}") == ["E0801"]
    assert codes(ricci.parse, TWO_GRAPHS, attribs=["n"]) == ["E0801"]
    assert codes(ricci.parse, TWO_GRAPHS, attribs={1: 2}) == ["E0801"]
    assert codes(ricci.parse, TWO_GRAPHS, language=None) == ["E0708"]
    model = ricci.parse(TITLED)
    assert codes(model.show, "machine") == ["E0801"]
    assert codes(model.show, "llvm", real="int8") == ["E0801"]
    assert codes(model.compile, threads=True) == ["E0801"]
    assert codes(model.save, f"{tmp_path}/a\0b") == ["E0707"]


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.sknd")
    assert codes(ricci.load, tmp_path / "pipe.sknd") == ["E0701"]


# ------------------------------------------------------------------------ quantization

QUANTIZED = """
operator steps { @attrib { n: real; } @input { x: real[s..]; } @output { y: real[s..]; }
    @lower { y[i..] = `round`(n * x[i..]) / n, i < s; } }
operator total { @input { x: real[n]; } @output { y: real[]; } @lower { y[] += x[i,], i < n; } }
graph G { @input { x: real[m|4]; } @output { y: real[m]; } @variable { w: real[2]..(2); }
    @compose { t = steps{n=1.0}(x); y = steps{n=0.5}(t); }
    @quantize { t: steps{n=4.0}; x: steps{n=real(m)}; } }
"""


def test_quantizers_are_noted_and_applied_on_request() -> None:
    model = ricci.parse(QUANTIZED)
    found = {
        n: [(q.operator, dict(q.attributes)) for q in qs] for n, qs in model.quantization.items()
    }
    assert found == {"main.G.t": [("steps", {"n": 4.0})], "main.G.x": [("steps", {"n": "real(m)"})]}
    quantized = model.quantized()
    assert quantized.quantization == model.quantization and quantized.variables is model.variables
    assert len(quantized.graph.operations) == len(model.graph.operations) + 2
    x = np.array([0.4, 1.3])
    for w in model.variables:
        model.variables[w] = np.zeros(2)
    assert model.compile("interpreter")(x).tolist() == [0, 2]
    twice = model.compile("interpreter", quantize=True)(np.array([0.3, 0.6, 1.4, 1.7]))
    assert twice.tolist() == quantized.compile("interpreter")([0.3, 0.6, 1.4, 1.7]).tolist()


def test_a_quantizer_of_another_shape_is_found_when_it_is_applied() -> None:
    model = ricci.parse(QUANTIZED.replace("t: steps{n=4.0}", "t: total"))
    with pytest.raises(ricci.Error, match=r"from real\[m\] it gives real\[\]"):
        model.quantized()
