"""What a graph is, whatever its names: the same in every process."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any

from ..hashes import sha256
from ..ir.nodes import Graph

_LEFT_OUT = {"name", "span", "data", "attributes", "checks", "quantization"}
"""Fields that say nothing of how the graph is computed."""


def fingerprint(graph: Graph) -> str:
    """A hash that two graphs share if they differ only in names, places and values of constants.

    Every object is numbered when it is first met, and later named by its number.
    """
    digest = sha256()
    numbers: dict[int, int] = {}
    stack: list[object] = [graph]
    while stack:
        item = stack.pop()
        kind: Any = type(item)
        names = _field_names(kind)
        if isinstance(item, tuple):
            word = f"({len(item)}"
            stack += reversed(item)
        elif names is None:
            word = repr(item.value if isinstance(item, Enum) else item)
        elif id(item) in numbers:
            word = f"#{numbers[id(item)]}"
        else:
            numbers[id(item)] = len(numbers)
            word = kind.__name__
            stack += [getattr(item, name) for name in names]
        digest.update(word.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()[:32]


@cache
def _field_names(kind: Any) -> tuple[str, ...] | None:
    if not hasattr(kind, "__dataclass_fields__"):
        return None
    return tuple(f.name for f in fields(kind) if f.name not in _LEFT_OUT)
