"""Cycles in graphs of dependencies, found in time linear in the edges."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def find_cycles(starts: Iterable[K], successors: Callable[[K], Sequence[K]]) -> Iterator[list[K]]:
    """Cycles that can be reached from some nodes, each as its nodes in order.

    Every cyclic part of the graph gives at least one cycle; no two have a node in common.
    """
    finished: set[K] = set()
    reported: set[K] = set()
    for start in starts:
        if start in finished:
            continue
        path: dict[K, Iterator[K]] = {start: iter(successors(start))}
        while path:
            node, rest = next(reversed(path.items()))
            following = next(rest, None)
            if following is None:
                del path[node]
                finished.add(node)
            elif following in path:
                nodes = list(path)
                cycle = nodes[nodes.index(following) :]
                if reported.isdisjoint(cycle):
                    reported.update(cycle)
                    yield cycle
            elif following not in finished:
                path[following] = iter(successors(following))
