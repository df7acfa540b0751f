"""DIMS and RANK as numbers, at a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..frontends.eintup import syntax as s
from ..frontends.eintup.extents import Arithmetic, arithmetic
from ..frontends.eintup.program import Configuration, Program
from ..ir.nodes import Expr, integer
from ..ir.shapes import as_int


def components(dims: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[Expr, ...]]:
    """Dims as expressions."""
    return {name: tuple(map(integer, numbers)) for name, numbers in dims.items()}


def dims_of(
    items: Sequence[s.IndexExpr], program: Program, configuration: Configuration
) -> tuple[int, ...]:
    """The extents of a list of index expressions; `Error` E0507 if they depend on data."""
    found = [as_int(e) for e in _known(program, configuration).all_extents(tuple(items))]
    return tuple(n for n in found if n is not None)


def rank_of(items: Sequence[s.IndexExpr], program: Program, configuration: Configuration) -> int:
    """How many components a list of index expressions has."""
    return sum(map(_known(program, configuration).rank, items))


def _known(program: Program, configuration: Configuration) -> Arithmetic:
    return arithmetic(components(configuration.dims), program.arrays)
