"""Results that are remembered by the identity of what they are of."""

from __future__ import annotations

from collections.abc import Sequence

from ricci import memo
from ricci.memo import forget, remembered


def test_a_result_is_found_once_for_the_same_nodes() -> None:
    asked = []

    @remembered
    def count(nodes: Sequence[object], more: object) -> int:
        asked.append(more)
        return len(nodes)

    a, b = object(), object()
    assert [count([a, b], a), count((a, b), a), count([a, b], a)] == [2, 2, 2]
    assert len(asked) == 1
    assert count([b, a], a) == 2 and count([a, b], b) == 2
    assert len(asked) == 3
    forget()
    assert count([a, b], a) == 2 and len(asked) == 4


def test_what_is_remembered_lives_as_long_and_no_longer() -> None:
    class Node:
        def __init__(self, number: int) -> None:
            self.number = number

    @remembered
    def number_of(node: Node) -> int:
        return node.number

    for number in range(3 * memo._MOST):  # each has a place of its own, as it is held
        assert number_of(Node(number)) == number
    known = memo._all[-1]
    assert 0 < len(known) <= memo._MOST
    forget()
    assert not known
