"""Modules: how imports are found, and what is said when they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ricci.diagnostics import Error, Report
from ricci.frontends.reading import LARGEST
from ricci.frontends.skriptnd.modules import load_file, load_folder, load_text

GRAPH = "graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { y = x; } }"


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.sknd"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_modules_of_folders_and_of_the_library(tmp_path: Path) -> None:
    main = f"import own, parts.inner, nn; {GRAPH}"
    write(tmp_path, main=main, own="operator f { }", parts__inner="import own; operator g { }")
    program = load_folder(tmp_path, Report())
    assert {"main", "own", "parts.inner", "nn", "math", "layout"} <= set(program.modules)
    found = program.resolve(program.main, ("parts", "inner", "g"))
    assert found is not None and found[1].name == "g"
    assert program.resolve(program.main, ("math", "add")) is None, "main does not import math"
    assert program.resolve(program.modules["nn"], ("math", "add")) is not None


def test_own_module_comes_before_the_library(tmp_path: Path) -> None:
    write(tmp_path, main=f"import math; {GRAPH}", math="operator own { }")
    program = load_folder(tmp_path, Report())
    assert [o.name for o in program.modules["math"].operators] == ["own"]


def test_modules_may_import_each_other(tmp_path: Path) -> None:
    write(tmp_path, main=f"import a; {GRAPH}", a="import b;", b="import a;")
    report = Report()
    load_folder(tmp_path, report)
    assert not report.diagnostics


@pytest.mark.parametrize(
    "main, part",
    [
        ("import nowhere;", "cannot find module `nowhere`"),
        ("import a.b;", "cannot find module `a.b`"),
        ("import graphs;", "only the main module may"),
    ],
)
def test_bad_imports(tmp_path: Path, main: str, part: str) -> None:
    write(tmp_path, main=main + GRAPH, graphs=GRAPH)
    report = Report()
    load_folder(tmp_path, report)
    assert part in report.errors[0].message


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", secret="operator f { }")
    inside = write(tmp_path / "inside", main=f"import secret; {GRAPH}")
    (inside / "secret.sknd").symlink_to(outside / "secret.sknd")
    report = Report()
    load_folder(inside, report)
    assert "cannot find module" in report.errors[0].message


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"x" * (LARGEST + 1)])
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.sknd").write_bytes(content)
    with pytest.raises(Error):
        load_file(tmp_path / "m.sknd", Report())


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(Error, match="no main module"):
        load_folder(tmp_path, Report())
    with pytest.raises(Error, match="cannot read"):
        load_file(tmp_path / "none.sknd", Report())


def test_a_text_sees_the_library_only() -> None:
    program = load_text(f"import linalg; {GRAPH}", "main", Report())
    assert set(program.modules) == {"main", "linalg"}
