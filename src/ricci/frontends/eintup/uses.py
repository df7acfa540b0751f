"""What the parts of a tree use: its sub-expressions, its accesses, its variables."""

from __future__ import annotations

from collections.abc import Iterator

from . import syntax as s

Node = s.IndexExpr | s.Value | s.Statement


def parts(node: Node) -> tuple[Node, ...]:
    """The expressions right below a node, in the order in which they are written."""
    match node:
        case s.Dims(items) | s.Rank(items) | s.Flat(items) | s.Access(_, items):
            return items
        case s.Slice(_, items):
            return tuple(i for i in items if i is not None)
        case s.IndexBinary(_, lhs, rhs) | s.Binary(_, lhs, rhs):
            return (lhs, rhs)
        case s.DimsAt(dims, at):
            return (dims, at)
        case s.Range(of, at):
            return (of, at)
        case s.Random(low, high):
            return (low, high)
        case s.Apply(_, arguments):
            return arguments
        case s.Unary(_, operand):
            return (operand,)
        case s.Statement(target, _, value):
            return (target, value)
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    for part in parts(node):
        yield from walk(part)


def variables(*nodes: Node) -> tuple[str, ...]:
    """The eintups that run through their values, by first appearance.

    Those inside `DIMS()` and `RANK()` alone are constants.
    """
    found: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, s.Eintup):
            found[node.name] = None
        elif not isinstance(node, s.Dims | s.Rank):
            found.update(dict.fromkeys(variables(*parts(node))))
    return tuple(found)


def accesses(node: Node) -> Iterator[s.Access | s.Slice]:
    """The elements of arrays that a node speaks of, those inside indices included."""
    return (n for n in walk(node) if isinstance(n, s.Access | s.Slice))
