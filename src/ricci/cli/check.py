"""`ricci check`: is a program right, and do its weights fit?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ..diagnostics import Diagnostic, Error
from ..model import Model
from .arguments import Commands, add_bindings, add_command, add_json
from .eintup import is_program
from .model import load_model
from .output import count, print_diagnostics, print_json


def register(commands: Commands[ArgumentParser]) -> None:
    parser = add_command(commands, "check", "check programs and their weights", check)
    parser.add_argument("path", nargs="+", help="model folders, .sknd, .tc or .et files")
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
        lines, findings = _check_eintup(path) if is_program(path) else _check_graphs(path, options)
    except Error as problem:
        ok, findings = False, problem.diagnostics
    if not options.json:
        print(*(f"ok  {path}: {line}" for line in lines), sep="\n", end="\n" * bool(lines))
        print_diagnostics(() if ok else findings)
    shown = [d.to_json() for d in findings]
    return {"path": path, "ok": ok, "graphs": lines, "diagnostics": shown}


def _check_graphs(path: str, options: Namespace) -> tuple[list[str], tuple[Diagnostic, ...]]:
    first = load_model(options, path)
    findings = first.warnings
    rest = [_load_other(options, path, first, name) for name in _others(first)]
    more = {w: None for m in rest for w in m.warnings if w not in findings}
    print_diagnostics(tuple(more))
    return [f"graph {m.graph_name}: {_describe(m)}" for m in (first, *rest)], findings + tuple(more)


def _check_eintup(path: str) -> tuple[list[str], tuple[Diagnostic, ...]]:
    """Check a program whatever its ranks, and that it can be computed at the first legal ones."""
    from ..eintup import load

    program = load(path)
    print_diagnostics(program.warnings)
    next(program.configurations(), None)
    ranks = sum(1 for _ in program.program.ranks.combinations())
    statements = count(len(program.program.file.statements), "statement")
    text = f"{statements}, {count(ranks, 'combination')} of ranks"
    return [f"program {program.name}: {text}"], program.warnings


def _others(first: Model) -> list[str]:
    """The graphs besides the first; those that only others invoke are checked as their parts."""
    parts = first.origin.subgraphs
    return [name for name in first.graphs if name not in parts and name != first.graph_name]


def _load_other(options: Namespace, path: str, first: Model, graph: str) -> Model:
    """Load with the values of those attributes that the graph has; the first must have all."""
    names, types = first.origin.parameters(graph)
    chosen = {
        "attrib": [pair for pair in options.attrib if pair[0] in names],
        "type": [pair for pair in options.type if pair[0] in types],
    }
    return load_model(Namespace(**vars(options) | chosen), path, graph)


def _describe(model: Model) -> str:
    text = count(len(model.graph.operations), "operation")
    if not len(model.variables):
        return text
    text += ", " + count(len(model.variables), "variable")
    if not model.variables.stored():
        return f"{text} (no weights)"
    size = sum(v.nbytes for v in model.variables.known().values())
    return f"{text} ({size / 1e6:.1f} MB)"
