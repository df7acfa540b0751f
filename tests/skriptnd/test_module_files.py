"""Programs of several modules: where they are found, what is refused, the standard library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ricci.diagnostics import Error, Report
from ricci.frontends import reading
from ricci.frontends.skriptnd import parser, standard_files, standard_library
from ricci.frontends.skriptnd.modules import Program, load_file, load_folder, load_text

GRAPH = "graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { y = x; } }"
Write = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Makes a model folder of texts by path."""

    def make(texts: Mapping[str, str]) -> Path:
        folder = tmp_path / "model"
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder

    return make


def loaded(folder: Path) -> Program:
    report = Report()
    program = load_folder(folder, report)
    assert [d.render() for d in report.diagnostics] == []
    return program


def rejected(folder: Path) -> list[str]:
    """Codes and files of what is reported for a folder."""
    report = Report()
    load_folder(folder, report)
    return [f"{d.code} {Path(d.span.source.name).name}" for d in report.diagnostics]


def found(program: Program, path: str, module: str = "main") -> str | None:
    """The module and operator that a name leads to."""
    place = program.resolve(program.modules[module], tuple(path.split(".")))
    return None if place is None else f"{place[0].name}:{place[1].name}"


def test_folder_with_nested_modules(write: Write) -> None:
    program = loaded(
        write(
            {
                "main.sknd": f"import a, own.a; import nn; {GRAPH} operator here {{}}",
                "a.sknd": "import own.deep.b; operator f {} operator _hidden {}",
                "own/a.sknd": "operator g {}",
                "own/deep/b.sknd": "import a; operator h {}",
            }
        )
    )
    assert [g.name for g in program.graphs()] == ["G"]
    assert {"main", "a", "own.a", "own.deep.b", "nn", "math", "layout"} <= set(program.modules)
    assert found(program, "here") == found(program, "main.here") == "main:here"
    assert found(program, "a.f") == "a:f"
    assert found(program, "own.a.g") == "own.a:g"
    assert found(program, "nn.relu") == "nn:relu"
    assert found(program, "a._hidden") == "a:_hidden"
    assert found(program, "own.deep.b.h", "a") == "own.deep.b:h"
    assert found(program, "a.f", "own.deep.b") == "a:f", "modules may import each other"


def test_names_that_lead_nowhere(write: Write) -> None:
    program = loaded(
        write({"main.sknd": f"import a; {GRAPH}", "a.sknd": "import b;", "b.sknd": "operator f {}"})
    )
    assert found(program, "f") is None
    assert found(program, "a.f") is None
    assert found(program, "b.f") is None, "only the importing module sees an import"
    assert found(program, "math.add") is None
    assert found(program, "b.f", "a") == "b:f"


def test_the_first_of_two_operators_counts() -> None:
    text = "operator f { @attrib { a: int; } } operator f {}"
    program = load_text(text, "main", Report())
    place = program.resolve(program.main, ("f",))
    assert place is not None and place[1] is program.main.operators[0]


def test_own_modules_come_before_the_library(write: Write) -> None:
    program = loaded(
        write({"main.sknd": f"import math, nn; {GRAPH}", "math.sknd": "operator mine {}"})
    )
    assert found(program, "math.mine") == "math:mine"
    assert found(program, "math.add") is None


def test_missing_modules(write: Write) -> None:
    texts = {"main.sknd": f"import a, nowhere; {GRAPH}", "a.sknd": "import own.missing, a;"}
    assert rejected(write(texts)) == ["E0203 main.sknd", "E0203 a.sknd"]
    report = Report()
    load_text("import mat; graph G {}", "main", report)
    assert "layout" in report.diagnostics[0].help and "math" in report.diagnostics[0].help


def test_graph_in_an_imported_module(write: Write) -> None:
    assert rejected(write({"main.sknd": f"import a; {GRAPH}", "a.sknd": GRAPH})) == ["E0204 a.sknd"]


def test_errors_of_all_modules_are_collected(write: Write) -> None:
    texts = {"main.sknd": f"import a; {GRAPH} operator", "a.sknd": "operator f { $ }"}
    assert rejected(write(texts)) == ["E0102 main.sknd", "E0101 a.sknd"]


def test_a_long_way_of_imports(write: Write) -> None:
    texts = {f"m{i}.sknd": f"import m{i + 1};" for i in range(300)}
    program = loaded(write({"main.sknd": f"import m0; {GRAPH}", **texts, "m300.sknd": ""}))
    assert len(program.modules) == 302


def test_text_and_file(write: Write) -> None:
    folder = write({"net.sknd": f"import other; {GRAPH}", "other.sknd": "operator f {}"})
    report = Report()
    program = load_file(folder / "net.sknd", report)
    assert not report.diagnostics
    assert (program.main.name, found(program, "other.f", "net")) == ("net", "other:f")
    load_text("import other;", "main", report)
    assert [d.code for d in report.diagnostics] == ["E0203"]


# ------------------------------------------------------------------------- files


def refused(load: Callable[[Path, Report], Program], path: Path) -> str:
    with pytest.raises(Error) as caught:
        load(path, Report())
    return caught.value.diagnostics[0].code


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert refused(load_folder, tmp_path) == "E0701"
    assert refused(load_folder, tmp_path / "absent") == "E0701"
    assert refused(load_file, tmp_path / "absent.sknd") == "E0701"
    assert refused(load_file, tmp_path) == "E0701"
    latin = tmp_path / "latin.sknd"
    latin.write_bytes(b"# one\n# caf\xe9\n")
    with pytest.raises(Error, match="byte 11, on line 2, is not UTF-8"):
        load_file(latin, Report())


def test_files_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST", 100)
    path = tmp_path / "main.sknd"
    path.write_text("#" * 101)
    assert refused(load_file, path) == refused(load_folder, tmp_path) == "E0901"
    with pytest.raises(Error):
        load_text("#" * 101, "main", Report())
    path.write_text("#" * 100)
    load_file(path, Report())


def test_an_imported_file_that_cannot_be_read(write: Write) -> None:
    folder = write({"main.sknd": f"import a; {GRAPH}"})
    (folder / "a.sknd").write_bytes(b"\xff\xfe")
    assert rejected(folder) == ["E0701 main.sknd"]


def test_nothing_outside_the_folder_is_read(write: Write, tmp_path: Path) -> None:
    (tmp_path / "secret.sknd").write_text("operator f {}")
    folder = write({"main.sknd": f"import link; {GRAPH}"})
    (folder / "link.sknd").symlink_to(tmp_path / "secret.sknd")
    assert rejected(folder) == ["E0203 main.sknd"]
    for name in ("..secret", ".secret", "/secret", "..\\secret"):
        (folder / "main.sknd").write_text(f"import {name}; {GRAPH}")
        assert "E0102 main.sknd" in rejected(folder)
    (folder / "main.sknd").write_text(f"import {'n' * 5000}; {GRAPH}")
    assert rejected(folder) == ["E0203 main.sknd"]
    (folder / "loop.sknd").symlink_to(folder / "loop.sknd")
    (folder / "main.sknd").write_text(f"import loop; {GRAPH}")
    assert rejected(folder) == ["E0203 main.sknd"]


def test_byte_order_mark_and_line_ends(write: Write) -> None:
    folder = write({"main.sknd": ""})
    text = "\ufeff" + GRAPH.replace(" ", "\r\n")
    (folder / "main.sknd").write_bytes(text.encode())
    assert [g.name for g in loaded(folder).graphs()] == ["G"]


# --------------------------------------------------------------- standard library

LIBRARY = sorted(standard_files.STDLIB.glob("*.sknd"))


@pytest.mark.parametrize("path", LIBRARY, ids=lambda p: p.stem)
def test_library_parsed_piece_by_piece_is_the_whole(path: Path) -> None:
    report = Report()
    whole = parser.parse_module(reading.read_source(path), report, path.stem)
    assert [d.render() for d in report.diagnostics] == []
    module = standard_library.standard_module(path.stem)
    assert module is not None
    assert tuple(module.operators) == tuple(whole.operators)
    assert module.operators[1:3] == whole.operators[1:3]
    last, wanted = module.operators[-1].span, whole.operators[-1].span
    assert (last.start, last.end) == (wanted.start, wanted.end)
    assert module.source.name == f"ricci/stdlib/{path.name}"
    assert module.imports == whole.imports
    assert not any(o.graph for o in whole.operators)
    assert standard_library.is_library(module)


def test_library_operators_are_parsed_once() -> None:
    program = load_text("import nn; graph G {}", "main", Report())
    first = program.resolve(program.main, ("nn", "conv"))
    second = load_text("import nn; graph H {}", "main", Report())
    again = second.resolve(second.main, ("nn", "conv"))
    assert first is not None and again is not None and first[1] is again[1]


def test_every_import_of_the_library_is_there() -> None:
    names = standard_library.standard_names()
    report = Report()
    load_text(f"import {', '.join(names)}; graph G {{}}", "main", report)
    assert [d.render() for d in report.diagnostics] == []
