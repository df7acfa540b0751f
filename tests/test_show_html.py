"""The page of `ricci show --html`: one whole file, in which no text of a program is markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import ricci
from ricci.cli import main
from ricci.dtypes import DType, Types
from ricci.ir.text import parse_graph
from ricci.passes.pipeline import lower
from ricci.report.build import page_of_graph
from ricci.report.contents import Contents, largest_sizes
from ricci.report.flow import find_flows
from ricci.report.memory import find_lives

RESIDUAL = """
import nn;
import math;

graph Net {
    @input { x: real[1, 4, 12, 12]; }
    @output { y: real[1, 4, 12, 12]; }
    @variable { K: real[4, 4, 3, 3]; L: real[4, 4, 3, 3]; }
    @compose {
        a = nn.conv(x, K);  # </script><script>alert(1)</script>
        b = nn.relu(a);
        c = nn.conv(b, L);
        y = math.add(c, b);
    }
}
"""
HOSTILE = (
    '</title></style></script><script>alert(1)</script><img src=x onerror="alert(2)">&amp;\x07'
)
EMPTY = {"meta", "input", "rect", "path", "line"}


class Page(HTMLParser):
    """What a page is made of; wrong nesting is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in EMPTY, tag
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def values(self, name: str) -> list[str]:
        return [a[name] or "" for _, a in self.elements if name in a]

    def count(self, tag: str, **attributes: str) -> int:
        """Elements with these words in attributes."""
        return sum(t == tag and _has(a, attributes) for t, a in self.elements)

    def words(self, tag: str) -> str:
        return "".join(text for inside, text in self.texts if inside == tag)


def _has(attrs: dict[str, str | None], wanted: dict[str, str]) -> bool:
    return all(v in (attrs.get(k.rstrip("_")) or "").split() for k, v in wanted.items())


def contents_of(text: str) -> Contents:
    program = lower(ricci.parse(text).graph, {}, Types(DType.FLOAT32, DType.INT64))
    return Contents("t", program, (), None, largest_sizes(program))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The page as the command writes it, without and with times."""
    folder = tmp_path_factory.mktemp("page")
    model = folder / "net.sknd"
    model.write_text(RESIDUAL)
    main(["init", str(model)])
    pages = {}
    for name, more in (("plain", []), ("timed", ["--profile", "--calls", "2"])):
        target = folder / f"{name}.html"
        assert main(["show", str(model), "--html", "-o", str(target), *more]) == 0
        pages[name] = target.read_text("utf-8")
    return pages


@pytest.mark.parametrize("kind", ["plain", "timed"])
def test_the_page_is_whole(written: dict[str, str], kind: str) -> None:
    page = Page(written[kind])
    kernels = len(contents_of(RESIDUAL).rows)
    assert kernels == 2
    assert page.count("g", class_="kernel") == page.count("article") == kernels
    assert len([1 for t, a in page.elements if t == "tr" and "data-kernel" in a]) == kernels
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {f"#{i}" for i in ids} >= set(page.values("href"))
    assert {int(n) for n in page.values("data-kernel")} == set(range(kernels))
    assert "nn.conv → b" not in page.words("text") and "nn.relu → b: float32" in page.words("text")
    assert "net.sknd:10:" in page.words("summary")
    assert ("bound" in page.words("th")) is (kind == "timed")
    assert ("It is bound by" in page.words("p")) is (kind == "timed")


def test_nothing_comes_from_elsewhere(written: dict[str, str]) -> None:
    page = Page(written["timed"])
    assert not page.values("src") and page.count("link") == page.count("iframe") == 0
    assert all(link.startswith("#") for link in page.values("href"))
    assert not re.search(r"@import|url\((?!#)|https?:|fetch\(|XMLHttp", page.words("style"))
    assert not re.search(r"https?:|fetch\(|XMLHttp|import\(|eval", page.words("script"))
    assert "default-src 'none'" in page.values("content")[0]


def test_no_text_of_a_program_is_markup(written: dict[str, str]) -> None:
    page = Page(written["plain"])
    assert page.count("script") == 1  # a comment of the program holds another
    assert "</script><script>alert(1)</script>" in page.words("code")
    quoted = json.dumps(HOSTILE)[1:-1]
    text = f"""graph `{quoted}` {{
      input x = x: real[4];
      `{quoted}.b`: real[4] = `{quoted}`(x) {{ `{quoted}.b`[i] = x[i] + 1.0  for i < 4; }}
      y: real[4] = plain(`{quoted}.b`) {{ y[i] = `{quoted}.b`[3 - i] / 2.0  for i < 4; }}
      output y = y;
    }}"""
    hostile = page_of_graph(parse_graph(text), HOSTILE, "float32", "int64", {})
    page = Page(hostile)
    assert page.count("script") == page.count("style") == 1
    assert page.count("img") == 0 and "\x07" not in hostile
    assert not [name for _, a in page.elements for name in a if name.startswith("on")]
    assert "<img src=x onerror=" in page.words("h1")


def test_the_ways_of_tensors() -> None:
    """`b` goes to the next kernel twice over: into its window, and past it into the sum."""
    contents = contents_of(RESIDUAL)
    ways = {(f.source, f.readers) for f in find_flows(contents)}
    assert ways == {(-1, (0,)), (0, (1,)), (1, (2,))}


LOOP = """
graph G {
    @input { x: real[4]; }
    @output { y: real[4]; }
    @compose { y = with s = x do..(3) twice(s); }
}
operator twice {
    @input { x: real[n]; }
    @output { y: real[n]; }
    @lower { y[i,] = x[n - 1 - i,] * 2.0, i < n; }
}
"""


def test_a_loop_goes_back() -> None:
    contents = contents_of(LOOP)
    back = [f for f in find_flows(contents) if f.back]
    assert back and all(reader <= f.source for f in back for reader in f.readers)
    assert {m.text.split()[0] for m in contents.marks} >= {"while"}


def test_blocks_of_the_arena_that_live_together_are_apart() -> None:
    chain = "".join(f"t{k + 1} = nn.conv(t{k}, K); " for k in range(6))
    text = RESIDUAL.replace("a = nn.conv(x, K);", f"t0 = nn.relu(x); {chain} a = nn.relu(t3);")
    text = text.replace("y = math.add(c, b);", "d = math.add(c, t6); y = math.add(d, t1);")
    contents = contents_of(text)
    lives = find_lives(contents)
    assert len(lives) > 3
    assert max(x.offset + x.size for x in lives) <= contents.program.arena
    for a in lives:
        for b in lives:
            together = a is not b and a.first <= b.last and b.first <= a.last
            assert not together or a.offset + a.size <= b.offset or b.offset + b.size <= a.offset


def test_a_large_graph_is_shown_whole() -> None:
    lines = "".join(f"t{k + 1} = turn(t{k}); " for k in range(250))
    text = f"""
    graph G {{
        @input {{ t0: real[6, 6]; }}
        @output {{ t250: real[6, 6]; }}
        @compose {{ {lines} }}
    }}
    operator turn {{
        @input {{ x: real[n, n]; }}
        @output {{ y: real[n, n]; }}
        @lower {{ y[i, j] += x[j, k] * x[k, i], i < n, j < n, k < n; }}
    }}
    """
    page = Page(page_of_graph(ricci.parse(text).graph, "large", "float32", "int64", {}))
    assert page.count("g", class_="kernel") == 250
    assert "t250: float32[6, 6]" in page.words("text")


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "net.sknd"
    model.write_text(RESIDUAL)
    place = tmp_path / "absent" / "page.html"
    assert main(["show", str(model), "--html", "-o", str(place)]) == 1
    assert "E0707" in capsys.readouterr().err
    assert main(["show", str(model), "--html", "--profile"]) == 1  # it has no weights
    assert "E0801" in capsys.readouterr().err
    assert main(["show", str(model), "--html", "--target", "interpreter"]) == 1
    assert "E0805" in capsys.readouterr().err
