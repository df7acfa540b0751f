"""Programs: a main module with all the modules that it imports, directly or not (2.15).

A module is one file. `import a.b;` names the file `a/b.sknd` below the folder of the main
module; what is not there is looked for in the standard library, which has no folders. Names
are identifiers, so no text can reach a file outside these two folders. Modules may import
each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import cast

from ...diagnostics import Error, Report
from ...records import dataclass
from ...source import Source
from ..reading import make_source, read_source
from . import syntax as s
from .module_files import local_path, main_of_file, main_of_folder
from .parser import parse_module
from .standard_files import STDLIB
from .standard_library import Operators, is_library, standard_module, standard_names

__all__ = [
    "STDLIB",
    "Program",
    "load_file",
    "load_folder",
    "load_module",
    "load_text",
    "standard_module",
]


@dataclass
class Program:
    """A main module and, by dotted name, all modules that it needs (itself among them)."""

    main: s.Module
    modules: dict[str, s.Module] = field(default_factory=dict)
    _operators: dict[str, dict[str, s.Operator]] = field(default_factory=dict, repr=False)

    def graphs(self) -> tuple[s.Operator, ...]:
        """The graphs of the main module, in the order of the text; the first is the primary."""
        return tuple(o for o in self.main.operators if o.graph)

    def subgraphs(self) -> set[str]:
        """The names of the graphs that are parts of others: branches, conditions, loop bodies."""
        found: set[str] = set()
        stack: list[object] = list(self.main.operators)
        while stack:
            node = stack.pop()
            if isinstance(node, s.Invocation):
                resolved = self.resolve(self.main, node.callee)
                found |= {resolved[1].name} if resolved is not None and resolved[1].graph else set()
            if isinstance(node, s.Node):
                values = [getattr(node, f) for f in node.__slots__]
                stack += [p for v in values for p in (v if isinstance(v, tuple) else (v,))]
        return found

    def resolve(
        self, module: s.Module, path: tuple[str, ...]
    ) -> tuple[s.Module, s.Operator] | None:
        """The operator that `path` names in `module`; the module must be imported there.

        Private operators of other modules are found too: who uses the result rejects them.
        """
        *parents, name = path
        owner: s.Module | None = module
        if parents and (dotted := ".".join(parents)) != module.name:
            imported = any(i.path == tuple(parents) for i in module.imports)
            owner = self.modules.get(dotted) if imported else None
        if owner is None:
            return None
        found = self._find(owner, name)
        return None if found is None else (owner, found)

    def _find(self, module: s.Module, name: str) -> s.Operator | None:
        if isinstance(module.operators, Operators):
            return module.operators.find(name)
        table = self._operators.get(module.name)
        if table is None:
            table = {o.name: o for o in reversed(module.operators)}
            self._operators[module.name] = table
        return table.get(name)


def load_folder(path: Path, report: Report) -> Program:
    """The program of a model folder; raises what `main_of_folder` does."""
    return load_module(*main_of_folder(path), report)


def load_file(path: Path, report: Report) -> Program:
    """The program of a single file."""
    return load_module(*main_of_file(path), report)


def load_text(text: str, name: str, report: Report) -> Program:
    """The program of a text, which can import the standard library only."""
    return load_module(make_source(text, name), name, None, report)


def load_module(
    source: Source,
    name: str,
    folder: Path | None,
    report: Report,
    known: Mapping[str, Source] | None = None,
) -> Program:
    """The program of a main module; `known` are the modules that it has besides, by dotted name, if
    they have been read."""
    main = parse_module(source, report, name)
    program = Program(main, {name: main})
    pending = [main]
    while pending:
        module = pending.pop()
        for imported in module.imports:
            dotted = ".".join(imported.path)
            if dotted in program.modules:
                continue
            found = _find_module(imported, folder, module, report, known)
            if found is not None:
                program.modules[dotted] = found
                pending.append(found)
    return program


def _find_module(
    imported: s.Import,
    folder: Path | None,
    importer: s.Module,
    report: Report,
    read: Mapping[str, Source] | None,
) -> s.Module | None:
    dotted = ".".join(imported.path)
    local = None if is_library(importer) else folder
    path = local_path(imported.path, local) if read is None else None
    source = None if read is None or local is None else read.get(dotted)
    if path is not None or source is not None:
        try:
            module = parse_module(source or read_source(cast(Path, path)), report, dotted)
        except Error as unreadable:
            found = unreadable.diagnostics[0]
            report.error(found.code, found.message, imported.span, help=found.help)
            return None
        _reject_graphs(module, report)
        return module
    known = standard_module(dotted) if len(imported.path) == 1 else None
    if known is None:
        _report_missing(imported, dotted, local, report)
    return known


def _report_missing(imported: s.Import, dotted: str, folder: Path | None, report: Report) -> None:
    where = (
        [] if folder is None else [f"there is no `{'/'.join(imported.path)}.sknd` in `{folder}`"]
    )
    report.error(
        "E0203",
        f"cannot find module `{dotted}`",
        imported.span,
        notes=where,
        help=f"the standard library has the modules {', '.join(standard_names())}",
    )


def _reject_graphs(module: s.Module, report: Report) -> None:
    for operator in module.operators:
        if operator.graph:
            report.error(
                "E0204",
                f"module `{module.name}` defines a graph, which only the main module may",
                operator.name_span,
                help="make it an `operator`",
            )
