"""Definition-time checks: types of expressions, binding orders, programs that are right.

Programs that are wrong are in `tests/errors`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import ricci.frontends.skriptnd
from ricci.diagnostics import Report
from ricci.frontends.skriptnd import binding, modules, typing
from ricci.frontends.skriptnd.parser import parse_module
from ricci.frontends.skriptnd.typing_declarations import declare_operator
from ricci.frontends.skriptnd.typing_recursion import check_recursion
from ricci.source import Source

LIBRARY = Path(ricci.frontends.skriptnd.__file__).parent / "stdlib"

DECLARED = """
@dtype { T: num; S: type; }
@attrib {
    a: int; b: int; p: int..(k); q: int..(k); r: real; w: real..(k); n: optional int;
    np: optional int..; t: bool; ts: bool..(k); s: str; ss: str..; g: T; h: S; hs: S..;
}
@input { x: real[m,e..(d)]; xs: real[m]..(c); o: optional real[m]; }
"""

TYPES = [
    # literals and names
    ("1", "int"),
    ("1.5e-3", "real"),
    ("true", "bool"),
    ("inf", "real"),
    ("'text'", "str"),
    ("'{a + 1} of {p}'", "str"),
    ("'{n}'", "optional str"),
    ("p", "int..(k)"),
    ("m", "int"),
    ("e", "int..(d)"),
    ("x.rank", "int"),
    ("x.shape", "int..(d + 1)"),
    ("xs.size", "int"),
    ("o.shape", "optional int..(1)"),
    # lists
    ("[1, a, 3]", "int..(3)"),
    ("[p.., a, q..]", "int..(2 * k + 1)"),
    ("[a..(5)]", "int..(5)"),
    ("[a..(t)]", "int.."),
    ("[n, 1]", "optional int..(2)"),
    ("[0:a]", "int..(a)"),
    ("[a:0:-1]", "int.."),
    ("[(p, q)..]", "int..(2 * k)"),
    ("[]", "type..(0)"),
    # subscripts
    ("p[0]", "int"),
    ("p[-1]", "int"),
    ("p[[0, 1]]", "int..(2)"),
    ("p[1:]", "int..(k - 1)"),
    ("p[::-1]", "int..(k)"),
    ("p[p > 1]", "int.."),
    ("p[n]", "optional int"),
    ("s[0]", "str"),
    ("s[1:3]", "str"),
    ("p[0] <- 9", "int..(k)"),
    ("p[[0, 1]] <- [8, 9]", "int..(k)"),
    ("p[0:2] <- [8, 9]", "int..(k)"),
    # operators
    ("a + b", "int"),
    ("a / b \\ 2 % 3", "int"),
    ("r ** 2.0", "real"),
    ("p + 1", "int..(k)"),
    ("p * q", "int..(k)"),
    ("n + 1", "optional int"),
    ("-p", "int..(k)"),
    ("!ts", "bool..(k)"),
    ("a < b", "bool"),
    ("p == q", "bool..(k)"),
    ("s == 'x'", "bool"),
    ("h == h", "bool"),
    ("g + g", "T"),
    ("g < g", "bool"),
    ("t && a > 0 => a < 9", "bool"),
    ("a << b >> 3", "int"),
    ("a is b", "bool"),
    ("p is 1", "bool..(k)"),
    ("o is o", "optional bool"),
    ("x is o", "optional bool"),
    ("2 in p", "bool"),
    ("p in [1, 3]", "bool..(k)"),
    ("h in hs", "bool"),
    # select, coalesce, null tests
    ("t ? a : b", "int"),
    ("t ? a", "optional int"),
    ("t ? p : 0", "int.."),
    ("t ? p : [1]", "int.."),
    ("ts ? p : 0", "int..(k)"),
    ("?n", "bool"),
    ("?n ? n : 0", "int"),
    ("?n && t ? n : 0", "int"),
    ("t && ?n ? n : 0", "int"),
    ("n ?? 0", "int"),
    ("np ?? p", "int.."),
    ("n + 1 ?? 3", "int"),
    ("np ?? []", "int.."),
    # folds
    ("p + ..", "int"),
    ("w * ..", "real"),
    ("ts && ..", "bool"),
    ("p < ..", "bool"),
    ("ss == ..", "bool"),
    ("hs != ..", "bool"),
    ("p := ..", "optional int"),
    ("p << ..", "optional int"),
    ("p + ...", "int..(k)"),
    ("ts || ...", "bool..(k)"),
    ("(np + ..)", "optional int"),
    ("(p >> ..) ?? 0", "int"),
    # casts and functions
    ("real(a)", "real"),
    ("int(p > 1)", "int..(k)"),
    ("bool(r)", "bool"),
    ("int(inf)", "int"),
    ("T(a)", "T"),
    ("T()", "T"),
    ("S()", "S"),
    ("real()", "real"),
    ("`sqrt`(w)", "real..(k)"),
    ("sqrt(real(a))", "real"),
    ("`abs`(a)", "int"),
    ("`sign`(g)", "T"),
]


@pytest.mark.parametrize(("text", "expected"), TYPES, ids=[t for t, _ in TYPES])
def test_type_of_expression(text: str, expected: str) -> None:
    report = Report()
    source = Source("test", f"operator f {{ {DECLARED} @using {{ v = {text}; }} }}")
    module = parse_module(source, report, "test")
    ctx = declare_operator(module.operators[0], report)
    assert [d.render() for d in report.diagnostics] == []
    found = ctx.scope.find("v")
    assert found is not None
    value = found.type
    if value.packed and value.length is not None and "|" in str(value.length):
        assert str(value).split("(")[0] == expected
    else:
        assert str(value) == expected


ORDERS = [
    ("", "x: real[n]; y: real[m];", [0, 1]),
    ("", "x: real[s..(d),t..]; y: real[s..(d)];", [1, 0]),
    ("r: int;", "x: real[s..(r),t..];", [0]),
    (
        "r: int; a: optional int; b: int..(d) = 0; c: int = 2 * d + r;",
        "x: real[s..(r),z..(d),t..]; y: real[s..(r),z..(d)];",
        [1, 0],
    ),
    ("", "x: optional real[n]; y: real[n];", [1, 0]),
    ("", "a: optional real[n]; b: real[s..(d),t..]; c: real[s..(d)];", [2, 1, 0]),
    ("", "x: real[n / 2]; y: real[n];", [1, 0]),
    ("k: int;", "x: real^(r)[s..(k < 0 ? k + r : k),z,t..];", [0]),
    ("k: int = 0;", "data: real[b..(k),s..(d),t..]; at: int[b..(k),z..,d];", [1, 0]),
    ("f: bool;", "x: real[b,c ..(f),s..];", [0]),
]


@pytest.mark.parametrize(("attributes", "inputs", "expected"), ORDERS)
def test_binding_order(attributes: str, inputs: str, expected: list[int]) -> None:
    report = Report()
    text = f"operator f {{ @attrib {{ {attributes} }} @input {{ {inputs} }} }}"
    operator = parse_module(Source("test", text), report, "test").operators[0]
    assert not report.diagnostics
    assert binding.order(operator) == expected
    assert not binding.bind(operator).obstacles


AFFINE = [
    ("n", ("n", 1, 0)),
    ("n + 2", ("n", 1, 2)),
    ("2 + n", ("n", 1, 2)),
    ("2 * n - 1", ("n", 2, -1)),
    ("(n + 1) * 2", ("n", 2, 2)),
    ("5 - n", ("n", -1, 5)),
    ("n + n", ("n", 2, 0)),
    ("3", None),
    ("n / 2", None),
    ("n * n", None),
    ("n + m", None),
    ("0 * n + 2", None),
    ("known", None),
    ("n + known", None),
]


@pytest.mark.parametrize(("text", "expected"), AFFINE)
def test_affine_extents(text: str, expected: tuple[str, int, int] | None) -> None:
    source = Source("test", f"operator f {{ @using {{ v = {text}; }} }}")
    operator = parse_module(source, Report(), "test").operators[0]
    assert binding.affine(operator.using[0].value, {"known"}) == expected


RIGHT = Path(__file__).with_name("accepted")


@pytest.mark.parametrize("path", sorted(RIGHT.glob("*.sknd")), ids=lambda p: p.stem)
def test_accepted_program(path: Path) -> None:
    report = Report()
    program = modules.load_text(path.read_text(), path.stem, report)
    typing.check_program(program, report)
    assert [d.render() for d in report.diagnostics] == []


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.sknd")), ids=lambda p: p.stem)
def test_standard_library(path: Path) -> None:
    report = Report()
    program = modules.load_text(f"import {path.stem};\ngraph G {{}}", "main", report)
    typing.check_module(program, program.modules[path.stem], report)
    check_recursion(program, [program.modules[path.stem]], report)
    assert [d.render() for d in report.errors] == []


def codes(folder: Path, **files: str) -> list[str]:
    """The codes of what is wrong with a model folder of some files."""
    for name, text in files.items():
        (folder / f"{name}.sknd").write_text(text)
    report = Report()
    program = modules.load_folder(folder, report)
    typing.check_program(program, report)
    return [d.code for d in report.diagnostics]


COPY = "@input { x: real[n]; } @output { y: real[n]; }"
BODY = "@lower { y[i,] = x[i,], i < n; }"


def test_private_operators(tmp_path: Path) -> None:
    copy = f"operator copy {{ {COPY} @compose {{ y = _copy(x); }} }}"
    own = f"operator _copy {{ {COPY} {BODY} }} {copy}"
    main = "import own; graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { %s } }"
    assert codes(tmp_path, own=own, main=main % "y = own.copy(x);") == []
    assert codes(tmp_path, own=own, main=main % "y = own._copy(x);") == ["E0204"]


def test_imported_modules_are_checked(tmp_path: Path) -> None:
    own = f"operator copy {{ {COPY} @lower {{ y[i,] = z[i,], i < n; }} }}"
    assert codes(tmp_path, own=own, main="import own; graph G {}") == ["E0201"]


def test_all_errors_are_reported(tmp_path: Path) -> None:
    main = (
        "operator f { @attrib { a: int = 1.0; a: bool; } @using { b = c + 1; d = a && 2; } }\n"
        "operator g { @input { x: real[n / 2]; } @output { y: real[1]; } }\n"
        f"operator h {{ {COPY} @lower {{ y[i] = x[i], i < n; }} }}\n"
        "graph G {}"
    )
    found = codes(tmp_path, main=main)
    assert sorted(found) == sorted(["E0202", "E0301", "E0201", "E0301", "E0403", "E0305", "E0305"])


def test_deep_expressions_end(tmp_path: Path) -> None:
    main = f"operator f {{ @using {{ a = {' + '.join(['1'] * 100_000)}; }} }} graph G {{}}"
    assert codes(tmp_path, main=main) in ([], ["E0901"])
