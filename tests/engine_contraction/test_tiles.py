"""The loops of register tiles, for processors that this one need not be."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import pytest

from ricci.backends.llvm import targets
from ricci.backends.llvm.contraction_cost import most_apart
from ricci.backends.llvm.contraction_tiles import tiles
from ricci.backends.llvm.jit import assembly
from ricci.backends.llvm.microkernel import Tile, call_tile, declarations, write_tile
from ricci.backends.llvm.tile_step import steps_in_turn, vectors_ahead
from ricci.backends.llvm.window_tile import WindowTile
from ricci.dtypes import DType

from ..engine.assembly import Loop, innermost

FLOAT32 = DType("float32")
SHORT = targets.named("x86-64-v3")
SHAPES = sorted(tiles(SHORT))
Rows = Literal["packed", "in place", "asked for"]
PRODUCT = r"^vfmadd\d+ps\s.*%ymm"


def loops(rows: int, vectors: int, kind: Rows) -> list[Loop]:
    """The loops over k of a tile whose rows are packed or read in place."""
    lanes = SHORT.lanes(FLOAT32)
    panel = vectors * lanes
    down, deep = (1, rows) if kind == "packed" else (768, 1)
    tile = Tile(
        FLOAT32, lanes, rows, vectors, down, deep, panel, panel,
        rows_ahead=rows * down if kind == "asked for" else 0,
        turn=steps_in_turn(rows, vectors, SHORT),
    )  # fmt: skip
    call = call_tile(tile, "%a", "%b", "%n", "%c", "%first")
    text = "\n".join(sorted(declarations(tile))) + "\n" + write_tile(tile)
    text += "define void @use(ptr %a, ptr %b, i64 %n, ptr %c, i1 %first) {\n"
    return innermost(assembly(f"{text}  {call}\n  ret void\n}}\n", SHORT))


@pytest.mark.parametrize("kind", ["packed", "in place", "asked for"])
@pytest.mark.parametrize(("rows", "vectors"), SHAPES)
def test_sums_stay_in_registers(rows: int, vectors: int, kind: Rows) -> None:
    found = [x for x in loops(rows, vectors, kind) if x.count(PRODUCT)]
    assert {x.count(PRODUCT) % (rows * vectors) for x in found} == {0}
    assert all(not x.spills for x in found)


@pytest.mark.parametrize("extent", [3, 7, 11, 13])
@pytest.mark.parametrize("apart", [1, 2, 100])
@pytest.mark.parametrize(("rows", "vectors"), [(r, v) for r, v in SHAPES if r * v >= 8])
def test_sums_of_windows_stay_in_registers(
    rows: int, vectors: int, apart: int, extent: int
) -> None:
    """Rows are a few elements apart: steps of a turn meet those of others, and read them again."""
    lanes = SHORT.lanes(FLOAT32)
    tile = WindowTile(
        FLOAT32, lanes, tuple(range(0, rows * apart, apart)), vectors, lanes,
        ((3, 5000, 7 * extent * vectors * lanes), (7, 229, extent * vectors * lanes),
         (extent, 1, vectors * lanes)),
        vectors * lanes, SHORT.registers, turn=steps_in_turn(rows, vectors, SHORT),
    )  # fmt: skip
    call = tile.call("%a", "%b", "%c", "%n", "%first")
    text = "\n".join(sorted(tile.declarations())) + "\n" + tile.text()
    text += "define void @use(ptr %a, ptr %b, i64 %n, ptr %c, i1 %first) {\n"
    found = innermost(assembly(f"{text}  {call}\n  ret void\n}}\n", SHORT))
    found = [x for x in found if x.count(PRODUCT)]
    steps = tile.unrolled
    assert [x.count(PRODUCT) for x in found] == [steps * rows * vectors]
    assert not found[0].spills


@pytest.mark.parametrize(
    ("extents", "registers", "stretches"),
    [
        ((3, 7, 7), 32, 1),  # all is one stretch, too long for an exact sum
        ((3, 7, 7), 16, 0),  # where the end of a stretch costs more
        ((16, 3, 3, 16), 32, 1),
        ((2, 7, 7), 32, 0),
    ],
)
def test_long_sums_of_windows_are_cut(
    extents: tuple[int, ...], registers: int, stretches: int
) -> None:
    loops = tuple((n, 1, 16) for n in extents)
    tile = WindowTile(FLOAT32, 16, (0,), 1, 16, loops, 16, registers)
    assert tile.stretches == stretches


@pytest.mark.parametrize("kind", ["packed", "in place"])
@pytest.mark.parametrize("shape", [(4, 3), (5, 2), (6, 2)])
def test_little_is_around_the_products(shape: tuple[int, int], kind: Rows) -> None:
    """Besides products and loads of their factors, half an instruction for each k, at most."""
    rows, vectors = shape
    loop = max(loops(rows, vectors, kind), key=lambda x: x.count(PRODUCT))
    steps = loop.count(PRODUCT) // (rows * vectors)
    assert steps == 4
    needed = steps * (rows * vectors + rows + vectors)
    assert needed <= len(loop.lines) <= needed + 6


def test_all_rows_are_asked_for_once_in_a_line() -> None:
    """Of six rows, whose lines hold 16 elements: two in a turn of four."""
    loop = max(loops(6, 2, "asked for"), key=lambda x: x.count(PRODUCT))
    places = [x for x in loop.lines if re.search(r"^prefetch", x)]
    assert len(places) == 2


@pytest.mark.parametrize(
    ("cpu", "vector_bytes", "near", "far"),
    [
        ("skylake-avx512", 64, True, True),
        ("znver3", 32, False, False),
        ("znver4", 64, False, True),
        ("znver5", 64, True, True),
    ],
)
def test_vectors_are_asked_for_where_there_is_room(
    cpu: str, vector_bytes: int, near: bool, far: bool
) -> None:
    """Near vectors stay in the core's second cache."""
    target = replace(SHORT, cpu=cpu, vector_bytes=vector_bytes)
    for elements, asks in ((target.l2 // 4, near), (target.l2 // 4 + 1, far)):
        ahead = vectors_ahead(48, FLOAT32, target, elements)
        assert (ahead > 0) == asks
        assert ahead % 48 == 0


@pytest.mark.parametrize(("l1", "most"), [(2 << 10, 1), (32 << 10, 8), (48 << 10, 9)])
def test_rows_that_lie_pages_apart_find_room(l1: int, most: int) -> None:
    """A line of each of them is on the same place in each page of the first cache."""
    assert most_apart(replace(SHORT, l1=l1)) == most
