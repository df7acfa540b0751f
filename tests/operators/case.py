"""A case: one operator with attributes and inputs, and what it must compute."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Input = Array | list[Array] | None
"""A tensor, a pack of tensors, or an optional input that is left out."""
Result = Array | list[Array]


@dataclass(frozen=True)
class Case:
    """One invocation of `operator`, a name like `nn.conv`; `expected` has an item per output.

    `tolerance` bounds the scaled error |got - expected| / (1 + |expected|) of reals; integers
    and booleans must be equal.
    """

    operator: str
    attributes: Mapping[str, object] = field(default_factory=dict)
    inputs: Sequence[Input] = ()
    expected: Sequence[Result] = ()
    types: Sequence[str] = ()
    tolerance: float = 1e-5
    bounds: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Extents of outputs that the data decides: output -> dimension -> upper bound."""
    variables: Mapping[str, Array] = field(default_factory=dict)
    """Values of the operator's variables by the names that it declares."""
    updated: Mapping[str, Array] = field(default_factory=dict)
    """What some of them must be after the call."""

    @property
    def text(self) -> str:
        """The case as a graph with this one operator."""
        return graph_text(self)

    @property
    def arrays(self) -> list[Array]:
        """The arguments of the graph, packs taken apart."""
        return [array for value in self.inputs for array in _items(value)]

    @property
    def results(self) -> list[Array]:
        """The expected outputs of the graph, packs taken apart, and variables after the call."""
        outputs = [array for value in self.expected for array in _items(value)]
        return [*outputs, *self.updated.values()]


Make = Callable[[np.random.Generator], Case]


@dataclass(frozen=True)
class Family:
    """The cases of one operator: made at random, each from its own seed.

    Of several ways to make a case, each has its turn.
    """

    operator: str
    make: Make | Sequence[Make]
    oracle: str
    count: int = 24

    def case(self, number: int) -> Case:
        """The case of that number, the same in every run."""
        seed = self.seed(number)
        make = self.make if callable(self.make) else self.make[number % len(self.make)]
        with np.errstate(all="ignore"):
            return make(np.random.default_rng(seed))

    def seed(self, number: int) -> int:
        return zlib.crc32(f"{self.operator} {number}".encode())


def _items(value: Input | Result) -> list[Array]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


# ------------------------------------------------------------------- graph text

_TYPES = {"f": "real", "i": "int", "b": "bool"}


def graph_text(case: Case) -> str:
    """A graph that invokes the operator of a case; its outputs are declared with their shapes."""
    names = iter(f"x{i}" for i in range(10_000))
    arguments, inputs = [], []
    for value in case.inputs:
        own = [next(names) for _ in _items(value)]
        inputs += [f"{n}: {_declared(a)};" for n, a in zip(own, _items(value), strict=True)]
        arguments.append(_argument(value, own))
    while arguments and arguments[-1] == "~":
        arguments.pop()
    results, outputs = _results(case)
    types = f"<{', '.join(case.types)}>" if case.types else ""
    call = f"{case.operator}{types}{attribute_text(case.attributes)}({', '.join(arguments)})"
    lines = [
        f"import {case.operator.split('.')[0]};",
        "graph G {",
        _block("input", inputs),
        _block("output", outputs),
        f"    @compose {{ {', '.join(results)} = {call}; }}",
        "}",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _block(name: str, lines: Iterable[str]) -> str:
    text = " ".join(lines)
    return f"    @{name} {{ {text} }}" if text else ""


def _argument(value: Input, names: Sequence[str]) -> str:
    if value is None:
        return "~"
    return f"[{', '.join(names)}]" if isinstance(value, list) else names[0]


def _results(case: Case) -> tuple[list[str], list[str]]:
    results, outputs = [], []
    for k, value in enumerate(case.expected):
        open_ = case.bounds.get(k, {})
        names = [f"y{k}_{i}" for i in range(len(value))] if isinstance(value, list) else [f"y{k}"]
        outputs += [
            f"{n}: {_declared(a, open_)};" for n, a in zip(names, _items(value), strict=True)
        ]
        results.append(f"[{', '.join(names)}]" if isinstance(value, list) else names[0])
    return results, outputs


def _declared(array: Array, open_: Mapping[int, int] = {}) -> str:
    extents = ("~" if d in open_ else str(n) for d, n in enumerate(array.shape))
    return f"{_TYPES[array.dtype.kind]}[{', '.join(extents)}]"


def attribute_text(attributes: Mapping[str, object]) -> str:
    """Attributes as an invocation has them; `None` is left out."""
    given = [f"{n}={_literal(v)}" for n, v in attributes.items() if v is not None]
    return f"{{{', '.join(given)}}}" if given else ""


def _literal(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, float | np.floating):
        return repr(float(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    assert isinstance(value, list | tuple), value
    return f"[{', '.join(_literal(item) for item in value)}]"
