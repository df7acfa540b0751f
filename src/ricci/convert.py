"""Programs of other languages as SkriptND."""

from __future__ import annotations

from collections.abc import Sequence

from .diagnostics import error
from .dtypes import DType
from .frontends.skriptnd.unparse import unparse_graphs
from .ir.nodes import Cast, Const, Expr, Graph, Operation, Step
from .ir.rewrite import all_steps, map_assignment, map_operation, rebuild, substitute_graph
from .records import replace


def to_skriptnd(graphs: Sequence[Graph]) -> str:
    """The text of a SkriptND module with these graphs, and an operator per formula.

    Sizes of inputs are attributes of the graph. SkriptND has one type of integers and one of
    reals, which stand for all there are: what wraps around or is rounded in a narrow type does
    not there. Raises `Error` E0706 for what the language has no words for.
    """
    return unparse_graphs([_abstract(graph) for graph in graphs])


def _abstract(graph: Graph) -> Graph:
    """The graph with abstract types in place of concrete ones."""
    tensors = {t for p in graph.inputs for t in p.tensors}
    tensors |= {t for step in all_steps(graph.operations) for t in step.outputs}
    graph = substitute_graph(graph, {t: replace(t, dtype=_type(t.dtype)) for t in tensors})
    return replace(graph, operations=tuple(map(_step, graph.operations)))


def _step(step: Step) -> Step:
    if not isinstance(step, Operation):
        raise error("E0706", "only graphs without branches and loops are converted")
    return map_operation(step, lambda a: map_assignment(a, lambda e: rebuild(e, _node)))


def _node(node: Expr) -> Expr:
    match node:
        case Const() if isinstance(node.value, int) and node.value > _LARGEST:
            raise error(
                "E0706",
                f"SkriptND has no words for arithmetic of 64 bits that wraps, with {node.value}",
                notes=["random numbers are drawn with such arithmetic"],
            )
        case Const():
            return replace(node, dtype=_type(node.dtype))
        case Cast():
            dtype = _type(node.dtype)
            return node.operand if _type(node.operand.dtype) is dtype else Cast(dtype, node.operand)
        case _:
            return node


_LARGEST = 2**63 - 1
"""Of the integers that a text holds."""


def _type(dtype: DType) -> DType:
    return DType.REAL if dtype.is_real else DType.INT if dtype.is_int else dtype
