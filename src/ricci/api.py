"""What a program in Python uses: read a model, look at it, compile it, keep it.

In three lines:

    model = ricci.load("model.nnef2", attribs={"batch": 4})
    run = model.compile()
    output = run(input)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Literal

from . import outline
from .diagnostics import Error, Report, error
from .frontends.reading import make_source, read_source
from .frontends.skriptnd.module_files import Main, main_module
from .garbage import uncollected
from .model import Model, Store, Variables, check_choice
from .source import Source

if TYPE_CHECKING:
    from .frontends.skriptnd.modules import Program
    from .frontends.skriptnd.syntax import Operator
    from .ir.nodes import Graph

Language = Literal["skriptnd", "tc", "eintup"]


@uncollected()
def load(
    path: str | os.PathLike[str],
    attribs: Mapping[str, object] | None = None,
    graph: str | None = None,
    types: Mapping[str, str] | None = None,
) -> Model:
    """The model of a folder (with its `main.sknd`), or of a `.sknd`, `.tc` or `.et` file.

    `attribs` are values of the graph's attributes, `types` of its generic types; `graph`
    chooses one by name where there are several (in Tensor Comprehensions a function), else the
    first is taken. Weights are read when they are first used. Raises `Error` with all that is
    wrong with the text.

    The attributes of an Einsum Tuple program are ranks and dims of its eintups: `"RANK(b)": 2`,
    `"DIMS(stride)": [2, 2]`. Ranks must be such that one combination is legal; dims that the shapes
    of the inputs give may stay open. `ricci.eintup` finds ranks and dims for each call.
    """
    path = Path(path)
    report = Report()
    name = path.stem or path.absolute().stem
    choice = _Choice(attribs, graph, types)
    language = _language_of(path)
    if language != "skriptnd":
        return _BUILDERS[language](read_source(path), report, choice, name)
    store = Store(path, required=path.is_dir())
    return _load_skriptnd(path, choice, store, name)


def graphs(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names of all graphs of a model folder or file, the primary one first.

    Nothing is composed, so graphs need no values for their attributes. Raises `Error` if the
    text cannot be read.
    """
    report = Report()
    path = Path(path)
    language = _language_of(path)
    if language == "eintup":
        from .frontends.eintup.origin import name_of
        from .frontends.eintup.origin import read as read_eintup

        return (name_of(read_eintup(read_source(path), report).source),)
    if language == "tc":
        from .frontends.tc.parser import parse_unit

        unit = parse_unit(read_source(path), report)
        report.raise_errors()
        return tuple(f.name.name for f in unit.functions)
    from .frontends.skriptnd.modules import load_module

    program = load_module(*main_module(path), report)
    report.raise_errors()
    return tuple(g.name for g in program.graphs())


@uncollected()
def parse(
    text: str,
    language: str = "skriptnd",
    attribs: Mapping[str, object] | None = None,
    graph: str | None = None,
    types: Mapping[str, str] | None = None,
) -> Model:
    """The model that a text describes; its variables have no values until they are set."""
    report = Report()
    choice = _Choice(attribs, graph, types)
    kind = _language(language, f"language `{language}`")
    if kind != "skriptnd":
        return _BUILDERS[kind](make_source(text, _ENDINGS[kind]), report, choice)
    from .frontends.skriptnd.modules import load_text

    return _build(load_text(text, "main", report), report, choice, Store())


def format(text: str, language: str = "skriptnd", dialect: str = "draft") -> str:
    """A program text in the formatter's form, with its comments.

    `dialect`, of SkriptND, is "draft" or "later". Raises `Error` with all syntax errors.
    """
    from .frontends.skriptnd.format import DIALECTS, format_source

    check_choice("dialect", dialect, DIALECTS)
    kind = _language(language, f"language `{language}`")
    if kind == "tc":
        from .frontends.tc.printer import format_source as format_tc

        return format_tc(make_source(text, "tc"))
    if kind == "eintup":
        from .frontends.eintup.format import format_source as format_eintup

        return format_eintup(make_source(text, "et"))
    return format_source(make_source(text, "main"), dialect)


class _Choice:
    """What a caller decides about a program: values, a graph, types."""

    def __init__(
        self,
        attribs: Mapping[str, object] | None,
        graph: str | None,
        types: Mapping[str, str] | None,
    ) -> None:
        self.attribs = {} if attribs is None else attribs
        self.graph = graph
        self.types = {} if types is None else types
        for what, given in (("attribs", self.attribs), ("types", self.types)):
            if not isinstance(given, Mapping):
                raise error("E0801", f"`{what}` must be a dictionary, not {short_repr(given)}")


# ------------------------------------------------------------------ languages

_LANGUAGES: dict[str, Language] = {
    "sknd": "skriptnd",
    "skriptnd": "skriptnd",
    "tc": "tc",
    "et": "eintup",
    "eintup": "eintup",
}
_ENDINGS: dict[Language, str] = {"skriptnd": "sknd", "tc": "tc", "eintup": "et"}


def _language(name: str, shown: str) -> Language:
    kind = str(name).lstrip(".").lower()
    if kind in _LANGUAGES:
        return _LANGUAGES[kind]
    raise error(
        "E0708",
        f"{shown} is not in a language that this version reads",
        help="it reads SkriptND (a model folder with a main.sknd, or a .sknd file), "
        "Tensor Comprehensions (a .tc file) and Einsum Tuple (a .et file)",
    )


def _language_of(path: Path) -> Language:
    """The language of a file, by its name; that of a folder is SkriptND."""
    if not _exists(path):
        raise error("E0701", f"there is no file or folder `{path}`")
    return "skriptnd" if path.is_dir() else _language(path.suffix, f"`{path}`")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have, or a folder that is closed
        return False


# ------------------------------------------------------------------- SkriptND

_LARGE = 32 << 20
"""Bytes of weights from which the memory of the front end counts (9 MB, as long as the process
lives), and who loads a model will hardly do so to look at it alone."""


def _load_skriptnd(path: Path, choice: _Choice, store: Store, name: str) -> Model:
    """The model of a main module; nothing is composed if an earlier process has done so, or if the
    one that will compile it can."""
    main = main_module(path)
    key = outline.key_of(main, choice.graph, choice.attribs, choice.types)
    known = None if key is None else outline.find(key, main)
    compiler = None
    if known is None and key is not None and store.bytes() >= _LARGE:
        from .runtime.compiler_process import composed

        given = (path, choice.attribs, choice.graph, choice.types)
        compiler = composed(partial(_graph_of, *given))
        known = None if compiler is None else outline.find(key, main)
    if known is None:
        return _compose(main, choice, store, name, key)
    variables = Variables(known.graph, store)
    make = partial(_compose, main, choice, store, name, None, known.modules)
    return Model.outlined(name, known, variables, make, compiler)


def _graph_of(
    path: Path,
    attribs: Mapping[str, object],
    graph: str | None,
    types: Mapping[str, str],
) -> Graph | None:
    """The graph of a model whose outline has been kept; none if there is something to be said about
    it, or nothing that can be kept."""
    try:
        return load(path, attribs, graph, types).kept()
    except Error:
        return None


def _compose(
    main: Main,
    choice: _Choice,
    store: Store,
    name: str,
    key: str | None,
    modules: Mapping[str, Source] | None = None,
) -> Model:
    """The model of a main module, and of other `modules` of the folder if they have been read;
    what is worth knowing is kept under the key when it is compiled."""
    from .frontends.skriptnd.modules import load_module

    report = Report()
    program = load_module(*main, report, modules)
    model = _build(program, report, choice, store, name)
    if key is not None and not report.diagnostics:
        others = {n: m.source for n, m in program.modules.items() if m is not program.main}
        model.keep = partial(
            outline.keep, key, numbers=model.origin.numbers, main=main[0], modules=others
        )
    return model


def _build(
    program: Program, report: Report, choice: _Choice, store: Store, name: str = ""
) -> Model:
    from .frontends.skriptnd.attributes import check_attributes
    from .frontends.skriptnd.compose import compose
    from .frontends.skriptnd.origin import Origin
    from .frontends.skriptnd.typing import check_program

    check_program(program, report)
    report.raise_errors()
    operator = _choose(program, choice.graph)
    attributes = check_attributes(operator, choice.attribs, choice.types)
    graph = compose(program, operator, attributes, choice.types)
    origin = Origin(program, operator, attributes, choice.types)
    variables = Variables(graph, store)
    return Model(name or operator.name, origin, graph, variables, tuple(report.diagnostics))


def _choose(program: Program, name: str | None) -> Operator:
    graphs = program.graphs()
    for graph in graphs:
        if name is None or graph.name == name:
            return graph
    where = program.main.source.name
    if not graphs:
        raise error("E0801", f"`{where}` defines no graph, so there is nothing to run")
    raise error(
        "E0801",
        f"`{where}` has no graph `{name}`",
        notes=[f"it has: {', '.join(g.name for g in graphs)}"],
    )


# ----------------------------------------------------- Tensor Comprehensions


def _build_tc(source: Source, report: Report, choice: _Choice, name: str = "") -> Model:
    for what, given in (("attributes", choice.attribs), ("generic types", choice.types)):
        if given:
            raise error("E0801", f"a Tensor Comprehension has no {what}")
    from .frontends.tc.origin import read

    origin = read(source, report).choose(choice.graph)
    graph, found = origin.lower()
    own = (d for d in report.diagnostics if origin.function.span.covers(d.span))
    warnings = (*own, *found.diagnostics)
    return Model(name or origin.graph_name, origin, graph, Variables(graph, Store()), warnings)


# ---------------------------------------------------------------- Einsum Tuple


def _build_eintup(source: Source, report: Report, choice: _Choice, name: str = "") -> Model:
    if choice.types:
        raise error("E0801", "an Einsum Tuple program has no generic types")
    from .frontends.eintup.fixed import fix_attributes
    from .frontends.eintup.origin import Origin, read

    program = read(source, report)
    origin = Origin(program, fix_attributes(program, choice.attribs))
    if choice.graph not in (None, origin.graph_name):
        raise error(
            "E0801",
            f"`{source.name}` has no graph `{choice.graph}`",
            notes=[f"it has: {origin.graph_name}"],
        )
    graph = origin.graph()
    variables = Variables(graph, Store())
    return Model(name or origin.graph_name, origin, graph, variables, tuple(report.diagnostics))


_BUILDERS: dict[Language, Callable[..., Model]] = {"tc": _build_tc, "eintup": _build_eintup}
