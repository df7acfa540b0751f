"""Code for processors by name: right where it runs here, and with the right instructions."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import targets
from ricci.cli import main
from ricci.diagnostics import Error

from .assembly import Loop, innermost

MULTIPLY_ADD = {
    "x86-64": r"^mulps\s.*%xmm",
    "x86-64-v3": r"^vfmadd\d+ps\s.*%ymm",
    "x86-64-v4": r"^vfmadd\d+ps\s.*%zmm",
    "aarch64": r"^fmla\s+v\d+\.4s",
    "aarch64-sve": r"^(fmla|fmad)\s+z\d+\.s",
}
FEW = ("x86-64", "x86-64-v3")
"""Those that have 16 vector registers, not 32."""
SCALAR = r"^v?(mul|add|fmadd\d+)ss\s|^f(mul|add|madd)\s+s\d"

PROGRAMS = {
    "product": """def f(float(120,150) A, float(150,192) B) -> (C) {
        C(m,n) +=! A(m,k) * B(k,n) }""",
    "odd product": """def f(float(31,35) A, float(35,45) B) -> (C) {
        C(m,n) +=! A(m,k) * B(k,n) }""",
    "convolution": """def f(float(1,32,34,34) A, float(64,32,3,3) W) -> (C) {
        C(n,o,y,x) +=! A(n,c,y+i,x+j) * W(o,c,i,j) }""",
    "depthwise": """def f(float(1,8,34,34) A, float(8,3,3) W) -> (C) {
        C(n,c,y,x) +=! A(n,c,y+i,x+j) * W(c,i,j) }""",
    "chain": """def f(float(1000) A, float(1000) B) -> (C) {
        C(i) = fmax(A(i) * B(i) + 1, 0) * exp(A(i)) }""",
    "softmax": """def f(float(16,1000) A) -> (M, S, C) {
        M(i) max=! A(i,j)
        S(i) +=! exp(A(i,j) - M(i))
        C(i,j) = exp(A(i,j) - M(i)) / S(i) }""",
}
RUNNABLE = ["x86-64"] if platform.machine() in ("x86_64", "AMD64") else ["aarch64"]


@cache
def _loops(program: str, target: str) -> list[Loop]:
    return innermost(ricci.parse(PROGRAMS[program], "tc").show("asm", target=target))


def _hottest(program: str, target: str) -> Loop:
    """The loop with most vector multiply-adds."""
    return max(_loops(program, target), key=lambda x: x.count(MULTIPLY_ADD[target]))


@pytest.mark.parametrize("target", MULTIPLY_ADD)
@pytest.mark.parametrize("program", ["product", "convolution"])
def test_tiles_fill_the_registers(program: str, target: str) -> None:
    """Sums stay in registers, many at a time; with few loads besides."""
    loop = _hottest(program, target)
    products = loop.count(MULTIPLY_ADD[target])
    assert products >= (10 if target in FEW else 20)
    assert not loop.spills
    assert not loop.count(SCALAR)
    if target == "x86-64":
        assert loop.count(r"^addps\s.*%xmm") == products
    assert loop.count(r"\(%r|^ld") <= products * 2 / 3


@pytest.mark.parametrize("target", MULTIPLY_ADD)
def test_windows_are_read_in_vectors(target: str) -> None:
    """All nine terms of each of some rows at once, so that these read what they share once; the
    weights may be read from the stack where there are too few registers."""
    loop = _hottest("depthwise", target)
    assert loop.count(MULTIPLY_ADD[target]) >= 27
    assert loop.count(r"\(%r|^ld") < 36
    assert len(_stored(loop)) <= (2 if target in FEW else 0)
    assert not loop.count(SCALAR)


def _stored(loop: Loop) -> list[str]:
    """What a loop puts on the stack."""
    return [x for x in loop.spills if re.search(r"mm\d+, \S*\(%r|^st", x)]


@pytest.mark.parametrize("target", MULTIPLY_ADD)
@pytest.mark.parametrize("program", ["chain", "softmax"])
def test_functions_are_computed_in_vectors(program: str, target: str) -> None:
    """Constants may be read from the stack where there are too few registers; hardly anything is
    put there, and nothing by most: three vectors side by side are worth it."""
    loop = _hottest(program, target)
    assert loop.count(MULTIPLY_ADD[target]) >= 5
    assert not loop.count(SCALAR)
    most = loop.count(MULTIPLY_ADD[target]) / 6 if target in FEW else 0
    assert len(_stored(loop)) <= most
    assert not loop.count(r"^(callq?|bl)\s")


@pytest.mark.parametrize("k", [64, 150])
@pytest.mark.parametrize("n", [45, 49, 61])
def test_nothing_of_a_product_is_stored_under_a_mask(n: int, k: int) -> None:
    """By AVX2: such a store takes as long as a dozen others; neither of panels nor of results."""
    text = f"""def f(float(50,{k}) A, float({k},{n}) B, float({n},{k}) W) -> (C, D) {{
        C(m,n) +=! A(m,k) * B(k,n)
        D(n,m) +=! A(m,k) * W(n,k) }}"""
    model = ricci.parse(text, "tc")
    assembly = model.show("asm", target="x86-64-v3")
    functions = re.split(r"^(?=\w[\w.]*:)", assembly, flags=re.M)
    masked = [x for x in functions if re.search(r"vmaskmovp.\s+%ymm\d+, %ymm\d+, ", x)]
    assert re.search(r"vfmadd\d+ps", assembly)
    # the function for blocks of any size is there, but these have panels of known ones
    assert {x.partition(":")[0].rpartition(".")[2] for x in masked} <= {"transpose"}
    arrays = _arrays(model)
    results = model.compile(target=_runnable()[-1])(*arrays)
    expected = model.compile(target="interpreter")(*arrays)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, 1e-4, 1e-4)


def _arrays(model: ricci.Model) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = [p.shape for p in model.compile(target="interpreter").inputs]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("program", PROGRAMS)
def test_other_targets_compute_the_same(program: str) -> None:
    model = ricci.parse(PROGRAMS[program], "tc")
    arrays = _arrays(model)
    expected = model.compile(target="interpreter")(*arrays)
    for target in _runnable():
        results = model.compile(target=target)(*arrays)
        for result, wanted in zip(_each(results), _each(expected), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=2e-4, atol=2e-4, err_msg=target)


def _each(results: Any) -> Sequence[np.ndarray]:
    return results if isinstance(results, tuple) else (results,)


def _runnable() -> list[str]:
    """The targets whose code this machine runs: one at least."""
    found = []
    for name in targets.NAMES:
        try:
            targets.check_runs(name)
        except Error as problem:
            assert problem.diagnostics[0].code == "E0805"
        else:
            found.append(name)
    assert set(RUNNABLE) <= set(found)
    return found


def test_code_of_another_processor_is_not_run() -> None:
    foreign = "aarch64" if RUNNABLE == ["x86-64"] else "x86-64-v3"
    with pytest.raises(Error, match=rf"(?s)E0805.*does not run code for `{foreign}`.*it lacks: "):
        ricci.parse(PROGRAMS["chain"], "tc").compile(target=foreign)


def test_a_wrong_name_is_answered_with_the_names() -> None:
    with pytest.raises(Error, match=r"(?s)there is no target `x86-64-v5`.*x86-64-v4.*did you mean"):
        ricci.parse(PROGRAMS["chain"], "tc").compile(target="x86-64-v5")
    with pytest.raises(Error, match="E0805"):
        ricci.parse(PROGRAMS["chain"], "tc").show("asm", target="interpreter")


def test_the_command_line_knows_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.tc"
    path.write_text(PROGRAMS["chain"])
    assert main(["show", str(path), "--stage", "asm", "--target", "aarch64-sve"]) == 0
    assert "z0.s" in capsys.readouterr().out
    assert main(["run", str(path), "--random", "1", "--target", RUNNABLE[0]]) == 0
    assert main(["run", str(path), "--random", "1", "--target", "z80"]) == 1
    assert "there is no target `z80`" in capsys.readouterr().err


def test_the_documents_list_the_targets() -> None:
    text = (Path(ricci.__file__).parents[2] / "docs" / "targets.md").read_text()
    assert tuple(re.findall(r"^\| `([\w-]+)` \|.* bits", text, re.M)) == targets.NAMES
