"""The standard library: modules of which an operator is parsed when it is first asked for.

The whole library has some thousand lines, and a program uses a few operators of it; finding
where they stand takes a fraction of the time of parsing all. Its files keep to a layout that
makes this easy: a definition begins, and its last brace stands, at the beginning of a line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import overload

from ...diagnostics import Report
from ...source import Source
from . import syntax as s
from .parser import parse_part
from .standard_files import STDLIB, is_library_source, library_source

_DEFINITION = re.compile(r"^(?:public )?operator (\w+) \{$.*?^\}$", re.MULTILINE | re.DOTALL)


class Operators(Sequence[s.Operator]):
    """The operators of a text, which are parsed one by one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._places = {m[1]: m.span() for m in _DEFINITION.finditer(source.text)}
        self._parsed: dict[str, s.Operator] = {}

    @property
    def begin(self) -> int:
        """The offset of the first definition."""
        return min((start for start, _ in self._places.values()), default=0)

    def find(self, name: str) -> s.Operator | None:
        """The operator of a name, if there is one."""
        if name in self._places and name not in self._parsed:
            report = Report()
            part = parse_part(self._source, report, *self._places[name])
            report.raise_errors()
            self._parsed[name] = part.operators[0]
        return self._parsed.get(name)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> s.Operator: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[s.Operator, ...]: ...

    def __getitem__(self, index: int | slice) -> s.Operator | tuple[s.Operator, ...]:
        names = list(self._places)[index]
        found = [self.find(n) for n in ([names] if isinstance(names, str) else names)]
        operators = tuple(o for o in found if o is not None)
        return operators[0] if isinstance(index, int) else operators


def is_library(module: s.Module) -> bool:
    """Whether a module belongs to the standard library."""
    return is_library_source(module.source)


def standard_names() -> list[str]:
    """The modules that there are, in alphabetical order."""
    return sorted(path.stem for path in STDLIB.glob("*.sknd"))


def standard_module(name: str) -> s.Module | None:
    """A module of the standard library, read once; `None` if there is none of this name."""
    return _read(name) if name in standard_names() else None


@cache
def _read(name: str) -> s.Module:
    source = library_source(name)
    operators = Operators(source)
    report = Report()
    head = parse_part(source, report, 0, operators.begin)
    report.raise_errors()
    return s.Module(name, source, head.imports, operators)
