"""The formatter: it changes spaces and spellings only, loses no comment, and settles at once."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ricci
from ricci.cli import main
from ricci.diagnostics import Report
from ricci.frontends.layout import Align, Comment, Line, Whole, render
from ricci.frontends.skriptnd import format as formatter
from ricci.frontends.skriptnd import syntax as s
from ricci.frontends.skriptnd.lexer import find_comments, tokenize
from ricci.frontends.skriptnd.parser import parse_module
from ricci.frontends.skriptnd.standard_files import STDLIB
from ricci.source import Source

ROOT = Path(__file__).parent.parent.parent
SMALL = sorted(
    [*(ROOT / "tests/programs").glob("*.sknd"), *(ROOT / "tests/skriptnd/accepted").glob("*.sknd")]
)
FILES = [*SMALL, *sorted(ROOT.glob("examples/**/*.sknd")), *sorted(STDLIB.glob("*.sknd"))]
DIALECTS = ("draft", "later")

COMMENTS = (" # c\n", "\n# c 'it\n", "\n\n# c\n\n# d{\n", "#\n\n")

Captured = pytest.CaptureFixture[str]


once = functools.lru_cache(16)
"""For what depends on the text alone, and is compared with itself in several ways."""


@once
def formatted_as(text: str, dialect: str = "draft") -> str:
    return ricci.format(text, dialect=dialect)


@once
def parse(text: str) -> s.Module:
    report = Report()
    module = parse_module(Source("m", text), report, "m")
    assert not report.errors, text
    return module


@once
def places(text: str) -> list[tuple[str, int]]:
    """Every comment, with how many statements and blocks end or begin before it."""
    source = Source("m", text)
    ends = [t.start for t in tokenize(source, Report()) if t.text in (";", "{", "}")]
    return [(c.text.rstrip(), sum(e < c.start for e in ends)) for c in find_comments(source)]


def check(text: str, dialect: str) -> str:
    """The formatted text, which says the same, with all comments, and stays as it is."""
    formatted = formatted_as(text, dialect)
    assert parse(formatted) == parse(text)
    assert [comment for comment, _ in places(formatted)] == [c for c, _ in places(text)]
    assert formatted_as(formatted, dialect) == formatted
    assert not any(line != line.rstrip() for line in formatted.splitlines())
    return formatted


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_programs_keep_their_meaning_and_comments(path: Path, dialect: str) -> None:
    text = path.read_text()
    formatted = check(text, dialect)
    assert places(formatted) == places(text)
    assert max(map(len, formatted.splitlines())) <= 100
    assert formatted_as(formatted) == formatted_as(text), "dialects lead to the same draft"


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_comments_survive_wherever_they_stand(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SMALL)).read_text()
    tokens = tokenize(Source("m", text), Report())
    chosen = data.draw(st.sets(st.integers(0, len(tokens) - 1), min_size=1, max_size=12))
    for number in sorted(chosen, reverse=True):
        at = tokens[number].start
        comment = data.draw(
            st.sampled_from([" # c\n", "\n# c 'it\n", "\n\n# c\n\n# d{\n", "#\n\n"])
        )
        text = text[:at] + comment + text[at:]
    check(text, data.draw(st.sampled_from(DIALECTS)))
    assert places(ricci.format(text)) == places(text)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_any_spaces_give_the_same_statements(data: st.DataObject) -> None:
    """Spaces and line ends between tokens never change the program, nor stop the formatter."""
    text = data.draw(st.sampled_from(SMALL)).read_text()
    tokens = tokenize(Source("m", text), Report())[:-1]
    gaps = data.draw(st.lists(st.sampled_from([" ", "\n", "\n\n\n", "\t", "\r\n"]), min_size=5))
    words = [text[t.start : t.end] for t in tokens]
    check("".join(w + gaps[i % len(gaps)] for i, w in enumerate(words)), "draft")


# --------------------------------------------------------------------------- layout

MESSY = """# A file.
import nn,layout
# of one
operator   f{ # opens
@dtype{T:num=real;}

@attrib{a:optional int..(d);b:T=T( 1 );}
@input { x:T^(r)[s..(d),window ..(d),~|10 ..(2)]..(k); w: real[n, m] ; }


@assert{
a>0:'x is {exp(b)<?b}',b,"sum":a+..;  # why
a<3;
    # last
}
@lower{unroll ..(j->k) with z=x[j][i,]*2,v=-z: y[j][i,]>?=sqrt( z )<?- -1.0,i<n|z>0;
y[i , 0]=x[i,j ,]+w[|i-1<>0:n-1|,],
i<n;
}}
graph G{@compose{y,~,[t,u..(2)]=l:nn.f<int>{a=1,b=[2],}(x,~);
v=if c then x elif {w=f(x);yield w;} then y else nn.g();
w=with s:real[n]=0.0 for e:p while c do..(i->3){
# inside
t=f(s,e); yield t;}}@quantize{a.b:q{bits=8};}@update{}}  # end
# after all
"""

DRAFT = """# A file.
import nn, layout;

# of one
operator f {  # opens
    @dtype { T: num = real; }

    @attrib { a: optional int..(d); b: T = T(1); }
    @input { x: T^(r)[s..(d), window ..(d), ~|10 ..(2)]..(k); w: real[n, m]; }

    @assert {
        a > 0: 'x is {`exp`(b)<<b}', b, "sum": a + ..;  # why
        a < 3;
        # last
    }
    @lower {
        unroll..(j -> k) z = x[j][i,] * 2, v = -z, y[j][i,] >= `sqrt`(z) << - -1.0, i < n | z > 0;
        y[i, 0] = x[i, j] + w[|i - 1 <> 0 : n - 1|,],
            i < n;
    }
}

graph G {
    @compose {
        y, ~, [t, u..(2)] = l: nn.f<int>{a=1, b=[2]}(x, ~);
        v = if c then x elif { w = f(x); yield w; } then y else nn.g();
        w = with s: real[n] = 0.0 for e : p while c do..(i -> 3) {
            # inside
            t = f(s, e);
            yield t;
        };
    }
    @quantize { a.b: q{bits=8}; }
    @update {}
}  # end
# after all
"""


def test_layout() -> None:
    assert check(MESSY, "draft") == DRAFT


def test_layout_of_the_later_dialect() -> None:
    text = check(MESSY, "later")
    assert "'x is {exp(b)<?b}'" in text
    assert "unroll..(j -> k) with z = x[j][i,] * 2, v = -z:\n" in text
    assert "y[j][i,] >?= sqrt(z) <? - -1.0" in text


def test_long_statements_are_broken_at_the_loosest_places() -> None:
    term = "first_name * second_name[i..] - (third_name + fourth_name) * fifth_name"
    choice = "mode == 'FIRST' ? some_value_of_first : "
    text = f"""operator f {{ @using {{ v = {term} + {term}; w = {choice * 3}other; }}
        @lower {{ y[i..] += {term}, i < first_name, j < second_name | condition[i] > {term}; }}
        @assert {{ {term}: "a message that is rather long", first_name, second_name, third_name; }}
        @compose {{ y = some.operation{{attribute={term}, other=1}}({", ".join(["argument"] * 12)});
            z = if condition then some.operation{{other={term}}}(argument) else argument; }} }}
    """
    formatted = ricci.format(text)
    check(text, "draft")
    assert (
        formatted
        == """operator f {
    @using {
        v = first_name * second_name[i..] - (third_name + fourth_name) * fifth_name +
            first_name * second_name[i..] - (third_name + fourth_name) * fifth_name;
        w = mode == 'FIRST' ? some_value_of_first :
            mode == 'FIRST' ? some_value_of_first :
            mode == 'FIRST' ? some_value_of_first :
            other;
    }
    @lower {
        y[i..] += first_name * second_name[i..] - (third_name + fourth_name) * fifth_name,
            i < first_name, j < second_name
            | condition[i] >
              first_name * second_name[i..] - (third_name + fourth_name) * fifth_name;
    }
    @assert {
        first_name * second_name[i..] - (third_name + fourth_name) * fifth_name:
            "a message that is rather long", first_name, second_name, third_name;
    }
    @compose {
        y = some.operation{attribute=first_name * second_name[i..] -
                                     (third_name + fourth_name) * fifth_name,
                           other=1}(argument, argument, argument, argument, argument, argument,
                                    argument, argument, argument, argument, argument, argument);
        z = if condition then
                some.operation{other=first_name * second_name[i..] -
                                     (third_name + fourth_name) * fifth_name}(argument)
            else argument;
    }
}
"""
    )


def test_line_ends_of_a_file_are_kept() -> None:
    text = "# one\r\ngraph G {\r\n    @compose { y = 'a\r\nb'; # x\r\n}\r\n}"
    formatted = ricci.format(text)
    assert formatted.count("\r\n") == formatted.count("\n")
    assert parse(formatted) == parse(text)


def test_documents_break_outer_lines_first() -> None:
    inner = ["g(", Align(["bb,", Line(before="cc)"), "cc)"])]
    outer = ["f(", Align(["aaaa,", Line(before=inner), inner]), ");"]
    assert render(outer, width=30) == "f(aaaa, g(bb, cc));\n"
    assert render(outer, width=15) == "f(aaaa,\n  g(bb, cc));\n"
    assert render(outer, width=9) == "f(aaaa,\n  g(bb,\n    cc));\n"
    whole = Whole(["a", Line(whole=True), "b", Line(whole=True), "c"])
    assert render(whole, width=4) == "a\nb\nc\n"
    assert render(["a", Comment("# c", True), Line(), "b"], width=30) == "a  # c\nb\n"


# -------------------------------------------------------------------------- command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    (tmp_path / "main.sknd").write_text(MESSY)
    (tmp_path / "inner" / "done.sknd").write_text(DRAFT)
    (tmp_path / "wrong.sknd").write_text("operator {")
    return tmp_path


def test_files_are_rewritten_and_named(folder: Path, capsys: Captured) -> None:
    assert main(["fmt", str(folder / "main.sknd"), str(folder / "inner")]) == 0
    assert capsys.readouterr().out == f"{folder / 'main.sknd'}\n"
    assert (folder / "main.sknd").read_text() == DRAFT
    assert main(["fmt", str(folder / "main.sknd")]) == 0
    assert capsys.readouterr().out == ""


def test_a_wrong_file_is_reported_and_left(folder: Path, capsys: Captured) -> None:
    assert main(["fmt", str(folder)]) == 1
    captured = capsys.readouterr()
    assert captured.out == f"{folder / 'main.sknd'}\n", "the others are formatted"
    assert "E0102" in captured.err
    assert (folder / "wrong.sknd").read_text() == "operator {"
    assert main(["fmt", str(folder / "missing.sknd")]) == 1
    assert "E0701" in capsys.readouterr().err


def test_check_and_diff_write_nothing(folder: Path, capsys: Captured) -> None:
    path = str(folder / "main.sknd")
    assert main(["fmt", "--check", path, str(folder / "inner")]) == 1
    assert capsys.readouterr().out == f"{path}\n"
    assert main(["fmt", "--diff", path]) == 0
    assert "\n+import nn, layout;\n" in capsys.readouterr().out
    assert (folder / "main.sknd").read_text() == MESSY
    assert main(["fmt", "--check", str(folder / "inner")]) == 0


def test_standard_input_goes_to_standard_output() -> None:
    command = [sys.executable, "-m", "ricci", "fmt", "-", "--dialect", "later"]
    done = subprocess.run(command, input=MESSY.encode(), capture_output=True, check=True)
    assert done.stdout.decode() == ricci.format(MESSY, dialect="later")


def test_a_changed_program_would_be_a_bug(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """What would come out as another program is not written."""
    monkeypatch.setattr(formatter, "render", lambda *_, **__: "graph H {}\n")
    assert main(["fmt", str(folder / "main.sknd")]) == 3
    assert "bug of Ricci" in capsys.readouterr().err
    assert (folder / "main.sknd").read_text() == MESSY


def test_arguments_of_the_library() -> None:
    with pytest.raises(ricci.Error, match="E0102"):
        ricci.format("operator {")
    with pytest.raises(ricci.Error, match="E0801"):
        ricci.format("", dialect="new")
    with pytest.raises(ricci.Error, match="E0708"):
        ricci.format("", language="fortran")
    assert ricci.format("") == ""
    assert ricci.format("# alone") == "# alone\n"
