"""Functions of nodes whose results are remembered: passes and cost models ask the same of the same
nodes again and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")

_MOST = 1024
"""Results that are remembered of a function, those of a few kernels."""

_all: list[dict[Any, Any]] = []
"""What is remembered of each function."""


def forget() -> None:
    """Let go of all nodes: those to come will be others."""
    for known in _all:
        known.clear()


def remembered(function: Callable[P, Result]) -> Callable[P, Result]:
    """A function that looks at nothing but its arguments, which do not change, and whose result
    nobody changes. Arguments are told apart by identity, and those in sequences one by one:
    comparing nodes would go through all that they are made of."""
    known: dict[tuple[object, ...], tuple[object, Result]] = {}
    _all.append(known)

    @wraps(function)
    def found(*args: P.args, **named: P.kwargs) -> Result:
        assert not named
        given: tuple[Any, ...] = args
        key = tuple([tuple(map(id, a)) if type(a) in (tuple, list) else id(a) for a in given])
        entry = known.get(key)
        if entry is None:
            if len(known) >= _MOST:
                known.clear()
            # what is held here is not freed, so that nothing else gets its identity
            held = [tuple(a) if type(a) is list else a for a in given]
            entry = known[key] = held, function(*args, **named)
        return entry[1]

    return found
