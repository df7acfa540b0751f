"""The whole page: one file, without anything from elsewhere."""

from __future__ import annotations

from pathlib import Path

from .contents import Contents
from .graph import draw_graph
from .html import Html, amount, duration, tag
from .kernels import kernel_articles, kernel_table, share_bar
from .memory import byte_words, draw_memory, weight_tables

_FOLDER = Path(__file__).parent
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Nothing is loaded, whatever names there are in a program."""
_SECTIONS = (("graph-section", "Graph"), ("kernels", "Kernels"), ("memory", "Memory"))


def make_page(contents: Contents) -> str:
    """The page as text."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{contents.title} - Ricci"),
        tag("style", Html(_read("page.css"))),
    )
    body = tag("body", _header(contents), _main(contents), tag("script", Html(_read("page.js"))))
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"


def _read(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


def _header(contents: Contents) -> Html:
    program, rows = contents.program, contents.rows
    operations = sum(row.work.operations for row in rows)
    facts = [
        f"{len(rows)} kernels",
        f"{amount(operations)} operations",
        f"{byte_words(sum(contents.bytes(t) for t in program.variables))} of variables",
        f"{byte_words(program.arena)} of memory between kernels",
    ]
    facts += [f"{s.name} = {n}" for s, n in contents.sizes.items()]
    links = (tag("a", title, href=f"#{name}") for name, title in _SECTIONS)
    return tag("header", tag("h1", contents.title), tag("p", " · ".join(facts)), tag("nav", *links))


def _main(contents: Contents) -> Html:
    hint = tag("p", "Choose a kernel to see its formula and where it comes from.", class_="hint")
    return tag(
        "main",
        tag("div", _measured(contents), _graph(contents), _kernels(contents), _memory(contents)),
        tag("aside", hint, *kernel_articles(contents), id="details"),
    )


def _measured(contents: Contents) -> Html:
    parts = [share_bar(contents)]
    if contents.profile is not None:
        machine, inside = contents.profile.machine, contents.profile
        total = sum(k.seconds * k.runs for k in inside.kernels)
        threads = f"{machine.threads} thread{'s' * (machine.threads != 1)}"
        parts.append(
            tag(
                "p",
                f"Kernels take {duration(total)} of {duration(inside.seconds)} for a call. "
                f"Measured just before, this machine reaches with {threads} "
                f"{machine.flops / 1e9:.0f} GFLOP/s in float32, {machine.memory / 1e9:.1f} GB/s "
                f"from memory and {machine.cache / 1e9:.0f} GB/s from caches.",
            )
        )
    return tag("section", *parts)


def _graph(contents: Contents) -> Html:
    tools = tag(
        "div", tag("button", "larger", id="larger"), tag("button", "smaller", id="smaller"),
        tag("button", "fit", id="fit"),
        tag("input", id="find", type="search", placeholder="find", aria_label="find"),
        class_="tools",
    )  # fmt: skip
    view = tag("div", draw_graph(contents), class_="view")
    return tag("section", tag("h2", "Graph"), tools, view, id="graph-section")


def _kernels(contents: Contents) -> Html:
    return tag("section", tag("h2", "Kernels"), kernel_table(contents), id="kernels")


def _memory(contents: Contents) -> Html:
    said = (
        f"The arena of {byte_words(contents.program.arena)}: each block from the kernel that "
        "writes it to the last that reads it."
    )
    chart = tag("div", draw_memory(contents), class_="scroll")
    return tag(
        "section", tag("h2", "Memory"), tag("p", said), chart, tag("h2", "Weights"),
        weight_tables(contents), id="memory",
    )  # fmt: skip
