"""Operators that a composed graph names and does not consist of: those of `@quantize`."""

from __future__ import annotations

from ...ir import nodes
from . import syntax as s
from .modules import Program
from .parser import children
from .standard_library import standard_names
from .unparse_expressions import unsayable


def copied_operators(
    graph: nodes.Graph, program: Program | None
) -> tuple[tuple[s.Operator, ...], tuple[str, ...]]:
    """The operators of the main module that quantizers are, or invoke, and the modules of others.

    Raises E0706 for one that is neither in the program nor in the library.
    """
    found: dict[str, s.Operator] = {}
    modules: dict[str, None] = {}
    pending = [tuple(x.operator.split(".")) for x in graph.quantization]
    while pending:
        path = pending.pop()
        known = None if program is None else program.resolve(program.main, path)
        if known is not None and program is not None and known[0] is program.main:
            if path[-1] not in found:
                found[path[-1]] = known[1]
                pending += _invoked(known[1])
        elif known is not None or path[0] in standard_names():
            modules[".".join(path[:-1])] = None
        else:
            raise unsayable(f"the quantizer `{'.'.join(path)}`, which is not known here")
    return tuple(found.values()), tuple(modules)


def _invoked(root: s.Node) -> list[tuple[str, ...]]:
    """The operators that an operator names."""
    names = []
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, s.Invocation | s.Quantization):
            names.append(node.callee)
        pending += children(node)
    return names
