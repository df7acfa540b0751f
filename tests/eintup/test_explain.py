"""What is said about a program: golden texts, and what an independent reading of it finds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import product
from math import ceil, floor, prod
from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci.cli import main
from ricci.eintup import EinsumTuple
from ricci.frontends.eintup.explanation import Explanation

from .brute import OutOfRange, Run, check, places, variables

GOLDEN = Path(__file__).parent / "explain"
LIBRARY = sorted((Path(__file__).parents[2] / "examples" / "eintup").glob("*.et"))

TEXTS = {
    "conv_valid": """
X[b, p, c] = RANDOM(0, 10, FLOAT)
W[f, c, k] = RANDOM(0, 1, FLOAT)
Y[b, q, k] = W[p - DIMS(stride)*q, c, k] * X[b, p, c]

tf.nn.convolution(input=X, filters=W, strides=DIMS(stride), padding=L('VALID'))

Y

RANK(p) IN [1, 3]
DIMS(b) IN [1, 4]
DIMS(p) IN [15, 24]
DIMS(f) IN [2, 5]
DIMS(stride) IN [1, 3]
DIMS(c) IN [1, 3]
DIMS(q) = (DIMS(p) - DIMS(f) + 1) //^ DIMS(stride)
""",
    "gather_nd": """
P[b, r, e] = RANDOM(0, 10, FLOAT)
I[b, w, coord] = RANDOM(0, DIMS(r)[coord], INT)
R[b, w, e] = P[b, I[b, w, :], e]

tf.gather_nd(P, I, batch_dims=RANK(b))

R

RANK(b) IN [0, 4]
RANK(r) IN [1, 4]
RANK(w) IN [1, 3]
RANK(e) IN [0, 3]
DIMS(b) IN [0, 4]
DIMS(coord) = RANK(r)
""",
    "flatten": """
X[a, b, c, d] = RANDOM(0, 10, INT)
O[FLAT(a, b, c, d)] = X[a, b, c, d]

tf.reshape(X, L(-1))

O

RANK(a) IN [1, 3]
RANK(b, c) <= 3
RANK(b) IN [0, 2]
RANK(c) IN [0, 2]
RANK(d) = RANK(c)
""",
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_the_golden_one(name: str, update_golden: bool) -> None:
    text = str(ricci.eintup.parse(TEXTS[name]).explain())
    golden = GOLDEN / f"{name}.txt"
    if update_golden:
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8")


@pytest.mark.parametrize("path", LIBRARY, ids=[p.stem for p in LIBRARY])
def test_what_is_said_about_the_library(path: Path) -> None:
    program = ricci.eintup.load(path)
    found = program.explain()
    assert json.loads(json.dumps(found.to_json()))["outputs"] == list(found.outputs)
    assert [g.name for g in found.groups] == list(program.program.eintups)
    assert found.combinations == len(list(program.configurations()))
    _check_numbers(found)
    _check_shapes(program, found)


def _check_numbers(found: Explanation) -> None:
    """The numbers of computed dims are what Python makes of the symbols."""
    for entry in found.computed:
        assert entry.symbols.startswith(f"{entry.name} = ")
        value, *shown = entry.numbers.partition(" = ")[2].split(" = ")
        dims = np.broadcast_to(_evaluate(value), len(found.example[entry.name]))
        assert dims.tolist() == list(found.example[entry.name])
        assert all(_evaluate(s).tolist() in (dims.tolist(), dims.tolist()[0]) for s in shown)


_PYTHON = {"−": "-", "·": "*", "⌈": "ceil(", "⌉": ")", "⌊": "floor(", "⌋": ")", " mod ": " % "}


def _evaluate(text: str) -> np.ndarray:
    for sign, python in _PYTHON.items():
        text = text.replace(sign, python)
    text = re.sub(r"(\[[^]]*\])", r"np.array(\1)", text)
    names = {
        "np": np,
        "ceil": np.vectorize(ceil),
        "floor": np.vectorize(floor),
        "max": lambda *a: np.max(np.broadcast_arrays(*a), axis=0),
        "min": lambda *a: np.min(np.broadcast_arrays(*a), axis=0),
    }
    return np.asarray(eval(text, names))


def _check_shapes(program: EinsumTuple, found: Explanation) -> None:
    """The shapes of the example are those of its arrays, where a call is not too large."""
    shapes = {a.name: a.shape for a in found.arrays}
    sizes = [prod(shape) for shape in shapes.values() if shape is not None]
    if max(sizes) > 10**4:
        return
    results = program.at(dims=found.example)(seed=0)
    several = results if isinstance(results, tuple) else (results,)
    for name, result in zip(found.outputs, several, strict=True):
        assert shapes[name] in (None, np.shape(result))


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("c[i] = a[i, k] + b[i]", "c[i] = Σ_{k} (a[i, k] + b[i])"),
        ("c[i] = a[i, k] * a[j, k]", "c[i] = Σ_{k,j} a[i, k] · a[j, k]"),
        ("c[i] max= -a[i, k]", "c[i] = max_{k} (−a[i, k])"),
        ("b[i] *= b[i + 1] * 2", "b[i] ·= b[i + 1] · 2"),
        ("c[i % 2] = b[i]", "c[i mod 2] = b[i]"),
        ("c[i] = b[(i + 1) % DIMS(i)] % 2", "c[i] = b[(i + 1) mod |i|] mod 2"),
        ("c[2*i//3, i//^2] = b[i]", "c[⌊2·i / 3⌋, ⌈i / 2⌉] = b[i]"),
        ("c[i] = where(b[i] >= 1, 0, b[i])", "c[i] = {0 if b[i] ≥ 1, else b[i]}"),
        ("c[i] or= not (a[i, k] != 0)", "c[i] = ∃_{k} (¬(a[i, k] ≠ 0))"),
        ("c[i] = RANGE[i, n] - (1 - RANK(i, k))", "c[i] = Σ_{n} (i[n] − (1 − rank(i, k)))"),
        ("c[FLAT(i, k)] = b[i] * DIMS(i, k)[n]", "c[flat(i, k)] = Σ_{n} b[i] · |i, k|[n]"),
        ("c[DIMS(i + DIMS(k)) - 1 - i] = b[i]", "c[dims(i + |k|) − 1 − i] = b[i]"),
        ("c[i] = b[i] * RANDOM(0, RANK(k) + 1, INT)", "c[i] = b[i] · Uℤ[0, rank(k) + 1)"),
    ],
)
def test_statements_as_mathematics(statement: str, shown: str) -> None:
    head = "a[i, k] = RANDOM(0, 9, INT)\nb[i] = RANDOM(0, 9, INT)\n"
    formulas = ricci.eintup.parse(head + statement).explain().formulas
    assert formulas[0].text == shown


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("c[i] = b[i]", ""),
        ("c[i] = b[i + 1]", "for i + 1 < |i|"),
        ("c[i] = b[i - 1]", "for 0 ≤ i − 1"),
        ("c[i - 1] = b[i]", "for 0 ≤ i − 1"),
        ("c[DIMS(i) - 1 - i] = b[DIMS(i) - 1 - i]", ""),
        ("c[i + k] = a[i, k]", ""),
        ("c[i % 3] = b[i]", ""),
        ("c[i] = b[(i + 2) % DIMS(i)]", ""),
        ("c[k] = a[i, i] * b[k]", "for i < |k|; and k < |i|"),
        ("c[FLAT(i, k)] = a[i, k]", ""),
        ("c[FLAT(i - 1, k)] = a[i, k]", "for 0 ≤ flat(i − 1, k)"),
        ("c[q] = a[i, k] * b[k + 2*q]", "for k + 2·q < |i|"),
        ("c[2*q + 1] = b[q // 2]", "for ⌊q / 2⌋ < |i|"),
        ("c[j] = b[j]", ""),
        ("c[i] = b[w[i, :]]", "for 0 ≤ w[i, :] < |i|"),
        ("c[i] = RANGE[i, n] * DIMS(i, k)[m]", ""),
    ],
)
def test_what_is_skipped_is_said(statement: str, condition: str) -> None:
    """Without a condition no combination is skipped; with one, some are at some dims."""
    constraint = "\n\nDIMS(j) = DIMS(i)" if "[j]" in statement else ""
    head = "a[i, k] = 1\nb[i] = 2\nw[i, 0] = RANGE[i, o] - 1\n"
    program = ricci.eintup.parse(head + statement + constraint)
    *_, formula = program.explain().formulas
    assert [n for n in formula.notes if n.startswith("for ")] == [condition] * bool(condition)
    skipped = sum(_count_skipped(program, c.dims) for c in program.configurations(reps=20))
    assert bool(skipped) == bool(condition)


def _count_skipped(program: EinsumTuple, dims: Mapping[str, tuple[int, ...]]) -> int:
    """How many combinations of the last statement plain loops skip."""
    *before, last = program.program.file.statements
    run = Run(dims, seed=0)
    for statement in before:
        run.execute(statement)
        run.signatures[statement.target.array.name] = statement.target.items
    names = variables(last)
    count = 0
    for values in product(*(places(dims[name]) for name in names)):
        point = dict(zip(names, values, strict=True))
        try:
            run.probe(last.value, point)
            cell = run.indices(last.target.items, point)
            check(cell, [high + 1 for i in last.target.items for _, high in run.ranges(i)])
        except OutOfRange:
            count += 1
    return count


def test_show_prints_the_explanation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "conv.et"
    path.write_text(TEXTS["conv_valid"], "utf-8")
    assert main(["show", str(path)]) == 0
    assert capsys.readouterr().out == str(ricci.eintup.load(path).explain())
    given = ["--attrib", "RANK(p)=2", "--attrib", "DIMS(stride)=[2, 3]"]
    assert main(["show", str(path), "--json", *given]) == 0
    example = json.loads(capsys.readouterr().out)["example"]
    assert (len(example["f"]), example["stride"]) == (2, [2, 3])
    dims = zip(example["p"], example["f"], example["stride"], strict=True)
    assert example["q"] == [ceil((p - f + 1) / s) for p, f, s in dims]


@pytest.mark.parametrize("stage", ["syntax", "sknd", "graph", "ir", "loops", "llvm", "asm"])
def test_show_takes_the_smallest_ranks(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "conv.et"
    path.write_text(TEXTS["conv_valid"], "utf-8")
    assert main(["show", str(path), "--stage", stage]) == 0
    assert capsys.readouterr().out.strip()
    assert main(["show", str(path), "--stage", stage, "--attrib", "RANK(p)=4"]) == 1
    assert "E0801" in capsys.readouterr().err


def test_other_languages_are_not_explained(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = Path(__file__).parents[1] / "tc" / "kernels" / "tmm.tc"
    assert main(["show", str(kernel), "--stage", "explain"]) == 1
    assert "only Einsum Tuple programs" in capsys.readouterr().err
