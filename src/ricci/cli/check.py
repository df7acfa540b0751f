"""`ricci check`: is a program right, and do its weights fit?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from .. import api
from ..diagnostics import Diagnostic, Error
from ..frontends.skriptnd.syntax import Operator
from .arguments import Commands, add_bindings, add_command, add_json
from .model import load_model
from .output import count, print_diagnostics, print_json


def register(commands: Commands[ArgumentParser]) -> None:
    parser = add_command(commands, "check", "check programs and their weights", check)
    parser.add_argument("path", nargs="+", help="model folders or .sknd files")
    add_bindings(parser)
    add_json(parser)


def check(options: Namespace) -> int:
    """Check every path; one line on stdout for each graph that is right."""
    results = [_check_path(path, options) for path in options.path]
    if options.json:
        print_json(results)
    return 0 if all(result["ok"] for result in results) else 1


def _check_path(path: str, options: Namespace) -> dict[str, object]:
    lines: list[str] = []
    findings: tuple[Diagnostic, ...] = ()
    ok = True
    try:
        first = load_model(options, path)
        findings = first.warnings
        rest = [_load_other(options, path, g) for g in _others(first)]
        lines = [f"graph {m.operator.name}: {_describe(m)}" for m in (first, *rest)]
    except Error as problem:
        ok, findings = False, problem.diagnostics
    if not options.json:
        print(*(f"ok  {path}: {line}" for line in lines), sep="\n", end="\n" * bool(lines))
        print_diagnostics(() if ok else findings)
    shown = [d.to_json() for d in findings]
    return {"path": path, "ok": ok, "graphs": lines, "diagnostics": shown}


def _others(first: api.Model) -> list[Operator]:
    """The graphs besides the first; those that only others invoke are checked as their parts."""
    parts = first.program.subgraphs()
    found = [g for g in first.program.graphs() if g.name not in parts]
    return [g for g in found if g is not first.operator]


def _load_other(options: Namespace, path: str, graph: Operator) -> api.Model:
    """Load with the values of those attributes that the graph has; the first must have all."""
    names = {p.name for p in graph.attributes}
    types = {p.name for p in graph.dtypes}
    chosen = {
        "attrib": [pair for pair in options.attrib if pair[0] in names],
        "type": [pair for pair in options.type if pair[0] in types],
    }
    return load_model(Namespace(**vars(options) | chosen), path, graph.name)


def _describe(model: api.Model) -> str:
    text = count(len(model.graph.operations), "operation")
    if not len(model.variables):
        return text
    text += ", " + count(len(model.variables), "variable")
    if not model.variables.stored():
        return f"{text} (no weights)"
    size = sum(v.nbytes for v in model.variables.known().values())
    return f"{text} ({size / 1e6:.1f} MB)"
