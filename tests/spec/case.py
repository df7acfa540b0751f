"""A case: a program, inputs, and what it must compute; data only.

How to add one: put it into the list `CASES: list[Case]` of a module of this package (any name),
where it is found by itself.

    CASES = [
        Case(
            section="2.12",
            name="sum of rows",
            program='''
                operator rows { @input { x: real[n, m]; } @output { y: real[n]; }
                    @lower { y[i,] += x[i,j], i < n, j < m; } }
                graph G { @input { x: real[2, 3]; } @output { y: real[2]; }
                    @compose { y = rows(x); } }
            ''',
            inputs=(np.arange(6.0).reshape(2, 3),),
            expected=lambda x: x.sum(axis=1),
            oracle="NumPy",
        ),
    ]

A tensor is an array (or a number, for rank 0), a pack is a list of them, an absent input `None`.
Several inputs or outputs are a tuple, or, for inputs, a dictionary by name. `expected` is such a
value, or a function that gets the inputs (by position, or by name if they are a dictionary) and
returns it; it must not use Ricci. Several calls in a row, for state and changing sizes, are
`calls=[Call(inputs, expected), ...]`.

A program that must be answered with a diagnostic has `error="E0804"` and, where the text matters,
`message`, a regular expression that is searched in what is printed. It may come at any time: from
reading the program, compiling it, or the call. In a `Call` the other calls must succeed.

    pytest tests/spec -k interpreter          # one executor
    pytest tests/spec -k "2.10 and cpu"     # one section
    python -m tests.spec                      # the table of all sections and operators
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..compare import Array

Value = Array | float | int | bool | list[Array] | None
"""A tensor, a pack of tensors, or an optional input that is left out."""
Inputs = tuple[Value, ...] | Mapping[str, Value]
Expected = Callable[..., Any] | Value | tuple[Value, ...]


@dataclass(frozen=True)
class Call:
    """One call of a compiled program, and what it must give."""

    inputs: Inputs = ()
    expected: Expected = None
    error: str = ""
    message: str = ""
    updated: Mapping[str, Array] = field(default_factory=dict)
    """Variables by scoped name, with the values that they must have after the call."""


@dataclass(frozen=True)
class Case:
    """A program of one section of the specification, and what it must compute.

    `tolerance` bounds the scaled error |got - expected| / (1 + |expected|) of reals; integers
    and booleans must be equal. Reals are float64 on the interpreter and float32 on `cpu`.
    """

    section: str
    name: str
    program: str
    inputs: Inputs = ()
    expected: Expected = None
    oracle: str = "by hand"
    """Where `expected` is from: "NumPy", "PyTorch", "by hand"."""
    calls: Sequence[Call] = ()
    """Several calls in a row, instead of `inputs` and `expected`."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """Files beside the program by name, `ops` or `folder/ops`: it is then read from a folder."""
    attribs: Mapping[str, object] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    graph: str | None = None
    quantize: bool = False
    """Whether it is compiled with the quantizers of `@quantize`."""
    variables: Mapping[str, Array] = field(default_factory=dict)
    """Their values by scoped name, `main.G.w`."""
    updated: Mapping[str, Array] = field(default_factory=dict)
    """Variables by scoped name, with the values that they must have after the calls."""
    error: str = ""
    """The code of the diagnostic that the program must be answered with."""
    message: str = ""
    """A regular expression for the text of that diagnostic."""
    warnings: tuple[str, ...] = ()
    """Codes of the warnings that the program must give."""
    tolerance: float = 1e-5

    def __str__(self) -> str:
        return f"{self.section} {self.name}"

    @property
    def runs(self) -> Sequence[Call]:
        """All calls; `inputs` and `expected` of the case itself are one."""
        return self.calls or (Call(self.inputs, self.expected, self.error, self.message),)
