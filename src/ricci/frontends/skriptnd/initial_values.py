"""Variables that have a value before anybody sets one: the states of random numbers.

Spec: variables are never given a value in the text. Ricci: nor are these; a model may invoke an
operator that draws random numbers without bringing a file for its state.
"""

from __future__ import annotations

import zlib

from . import syntax as s
from .parser import children
from .standard_files import is_library_source


def draws_numbers(operator: s.Operator) -> bool:
    """Whether an operator with states moves them on, by invoking `rand.next`."""
    if not any(is_state(parameter) for parameter in operator.variables):
        return False
    pending: list[s.Node] = [*operator.compose, *operator.update]
    while pending:
        node = pending.pop()
        if isinstance(node, s.Invocation) and _is_next(node, operator):
            return True
        pending += children(node)
    return False


def _is_next(node: s.Invocation, operator: s.Operator) -> bool:
    own = node.callee == ("next",) and is_library_source(operator.span.source)
    return own or node.callee == ("rand", "next")


def is_state(parameter: s.Parameter) -> bool:
    """Whether a variable is a single integer."""
    type = parameter.type
    return type.name == "int" and type.shape == () and type.pack is None


def initial_state(name: str) -> int:
    """The state that a variable begins with: different names give different random numbers.

    31 bits, which every type of integers that a model is likely to be compiled with can hold.
    """
    return zlib.crc32(name.encode()) & 0x7FFFFFFF
