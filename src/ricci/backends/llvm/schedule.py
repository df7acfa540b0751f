"""Schedules: how a kernel is computed, as plain data.

The cost models of `contraction_plan` and `nest_plan` choose one for every kernel; another may be
given instead. Which elements a kernel computes, and from which, does not depend on it: only the
order of sums does. Indices are named by their position in the kernel, so that a schedule says
nothing of names; sizes larger than what there is count as all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, ClassVar, Literal, get_args, get_type_hints

from ...diagnostics import Error, error
from ...records import dataclass

Side = Literal["left", "right"]
Source = Literal["prepared", "packed", "direct"]
"""Where a tile reads an operand: panels packed once ahead of time, panels packed by each chunk,
or the tensor itself."""

LARGEST = 1 << 40
"""No number in a schedule is larger."""


@dataclass(frozen=True, slots=True)
class Contraction:
    """A sum of products by register tiles: see `contraction_plan.Plan`.

    The `vector` operand of the product fills the vectors. `rows` and `vectors` are the register
    tile; a block of `row_block` x `lane_block` results is done at a time, and a chunk does `grain`
    blocks. `order` are the numbers of the reduced indices, the outermost first; the one at `split`
    is cut in blocks of `block` values.
    """

    template: ClassVar[str] = "contraction"
    vector: Side
    broadcast_source: Source
    vector_source: Source
    rows: int
    vectors: int
    row_block: int
    lane_block: int
    order: tuple[int, ...]
    split: int
    block: int
    grain: int


@dataclass(frozen=True, slots=True)
class Matrices:
    """A sum of products by matrices in registers: see `matrix`. Entries are as those of
    `Contraction`; tiles are as large as there are registers for."""

    template: ClassVar[str] = "matrices"
    vector: Side
    broadcast_source: Source
    vector_source: Source
    row_block: int
    lane_block: int
    order: tuple[int, ...]
    split: int
    block: int


@dataclass(frozen=True, slots=True)
class Dots:
    """Few rows, the `small` operand, times an operand contiguous along the reduced indices, of
    which `count` rows are read at the same time and `block` by a piece of work."""

    template: ClassVar[str] = "dots"
    small: Side
    count: int
    block: int


@dataclass(frozen=True, slots=True)
class Nest:
    """A plain loop nest.

    Indices are numbered through domain and reduced indices; those that run as part of another have
    no loop. The loop over `vector` (-1: none) goes in steps of `lanes` elements, and `vectors` of
    these at once; of the `outer` loops, the outermost first, the last does `rows` steps at once.
    Where `vector` is among them, its loop is cut in strips of `vectors`, and these are there. The
    work is divided into at most `chunks`, and inner loops are written out as long as a tile has
    about `unroll` instructions. Accumulators of `kept` vectors are in memory, if that is not 0, and
    take `terms` terms at a time.
    """

    template: ClassVar[str] = "nest"
    vector: int
    lanes: int
    outer: tuple[int, ...]
    reduced: tuple[int, ...]
    rows: int
    vectors: int
    chunks: int
    unroll: int
    kept: int = 0
    terms: int = 1


@dataclass(frozen=True, slots=True)
class Window:
    """A sum of products that reads copies of boxes: see `window_plan.WindowPlan`.

    The `vector` operand fills the vectors, along index `lane`; the vectors of the register tile are
    side by side along `beside` (most often the same), its rows along index `row` of the other, in
    `lines` of `rows`. Indices are numbered through domain and reduced indices. If the vector
    operand is constant, a piece of work does `row_block` values of the first of the other's
    indices, and `lane_block` lanes (0: all), for `outer_block` values of the index before these.
    """

    template: ClassVar[str] = "window"
    vector: Side
    row: int
    lane: int
    beside: int
    rows: int
    vectors: int
    lines: int = 1
    row_block: int = 0
    lane_block: int = 0
    outer_block: int = 1


@dataclass(frozen=True, slots=True)
class MatrixWindow:
    """A sum of products whose operands overlap by matrices in registers: see `matrix_window`.

    The `vector` operand is the constant, and gives the columns; tiles run along index `row` of the
    other, whose elements along the reduced index `depth` are in words. A piece of work does
    `row_block` values of the first of the rows' indices and `lane_block` columns, in turn for
    `depth_block` values of the depth (0: all). If `lanes_first` is not 0, pieces that follow on one
    another have the same columns. If `inside` is not 0, terms that are outside of what windows are
    over are left out, and not read as zeros from a border.
    """

    template: ClassVar[str] = "matrix window"
    vector: Side
    row: int
    depth: int
    row_block: int
    lane_block: int
    depth_block: int
    lanes_first: int
    inside: int = 0


@dataclass(frozen=True, slots=True)
class Winograd:
    """A sum of products with a constant filter of two by two or more, computed by fewer
    products: see `winograd_plan`.

    The `vector` operand is the constant, and fills the vectors. A piece of work does `tall` by
    `wide` tiles of two by two results (0: all), and `lane_block` lanes (0: all); `rows` of the
    tiles are those of the register tile.
    """

    template: ClassVar[str] = "winograd"
    vector: Side
    rows: int
    vectors: int
    tall: int
    wide: int
    lane_block: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Sums of products, with what is between them, of one block of rows after the other: see
    `group_product`.

    The register tiles of all products have `rows` rows, each product its number of `vectors`: of
    matrices side by side, where these multiply numbers of bfloat16. A block has about `block` rows.
    The work is divided into at most `chunks`.
    """

    template: ClassVar[str] = "chain"
    rows: int
    vectors: tuple[int, ...]
    block: int
    chunks: int


Schedule = Contraction | Matrices | Dots | Nest | Window | MatrixWindow | Winograd | Chain
_TEMPLATES: Mapping[str, type[Schedule]] = {
    t.template: t
    for t in (Contraction, Matrices, Dots, Nest, Window, MatrixWindow, Winograd, Chain)
}


@dataclass(frozen=True, slots=True)
class Schedules:
    """Schedules for the kernels of a program, alike ones counted once, in the order in which they
    run; `None` leaves a kernel to the cost model.

    If `lenient`, a schedule by which its kernel cannot be computed counts as `None`, too: it was
    found for other sizes.
    """

    kernels: tuple[Schedule | None, ...] = ()
    lenient: bool = False

    def __bool__(self) -> bool:
        return any(s is not None for s in self.kernels)


NO_SCHEDULES = Schedules()


def impossible(reason: str, kernel: str = "") -> Error:
    """The error for a schedule that cannot be followed."""
    where = f" `{kernel}`" if kernel else ""
    return error("E0807", f"kernel{where} cannot be computed by this schedule: {reason}")


def to_json(schedule: Schedule) -> dict[str, Any]:
    """A schedule as data; see `from_json`."""
    values = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(schedule).items()}
    return {"template": schedule.template, **values}


def from_json(value: object) -> Schedule:
    """The schedule that data describes; `Error` E0807 if it describes none."""
    if not isinstance(value, Mapping) or value.get("template") not in list(_TEMPLATES):
        known = ", ".join(_TEMPLATES)
        raise error(
            "E0807",
            "a schedule must be a dictionary that names its template",
            notes=[f"templates: {known}"],
        )
    kind = _TEMPLATES[value["template"]]
    wanted = {f.name for f in fields(kind)}
    given = {k: v for k, v in value.items() if k != "template"}
    if given.keys() != wanted:
        raise error(
            "E0807",
            f"a schedule of template `{kind.template}` has other entries",
            notes=[f"expected {', '.join(sorted(wanted))}", f"got {', '.join(map(str, given))}"],
        )
    hints = get_type_hints(kind)
    entries: dict[str, Any] = {n: _entry(n, hints[n], v) for n, v in given.items()}
    return kind(**entries)


def checked(schedule: Schedule) -> Schedule:
    """A schedule whose entries are of the right kinds; `Error` E0807 otherwise."""
    if type(schedule) not in _TEMPLATES.values():
        raise error("E0807", f"a schedule is needed, not {schedule!r:.60}")
    return from_json(to_json(schedule))


def _entry(name: str, hint: Any, value: object) -> object:
    choices = get_args(hint)
    if hint is int:
        if _is_number(value, -1 if name == "vector" else 0):
            return value
        raise error("E0807", f"`{name}` of a schedule is {value!r:.60}, and must be a number")
    if isinstance(choices[0], str):
        if isinstance(value, str) and value in choices:
            return value
        notes = [f"choices: {', '.join(choices)}"]
        raise error("E0807", f"`{name}` of a schedule cannot be {value!r:.60}", notes=notes)
    if isinstance(value, Sequence) and not isinstance(value, str):
        if all(_is_number(v, 0) for v in value):
            return tuple(value)
    raise error("E0807", f"`{name}` of a schedule is {value!r:.60}, and must be a list of numbers")


def _is_number(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= LARGEST


def describe(schedule: Schedule | None) -> str:
    """A schedule in a few words, for people."""
    match schedule:
        case Contraction() as s:
            sources = f"{s.broadcast_source} x {s.vector_source}"
            return (
                f"contraction: {s.vector} in vectors, {sources}, tile {s.rows}x{s.vectors}, "
                f"blocks {s.row_block}x{s.lane_block}x{s.block}, grain {s.grain}"
            )
        case Matrices() as m:
            return (
                f"matrices: {m.vector} in columns, {m.broadcast_source} x {m.vector_source}, "
                f"blocks {m.row_block}x{m.lane_block}x{m.block}"
            )
        case Dots() as d:
            return f"dots: {d.small} is small, {d.count} rows of {d.block}"
        case Window() as w:
            return (
                f"window: {w.vector} in vectors along {w.lane} by {w.beside}, rows along {w.row}, "
                f"tile {w.lines}x{w.rows}x{w.vectors}, "
                f"blocks {w.outer_block}x{w.row_block}x{w.lane_block}"
            )
        case MatrixWindow() as w:
            return (
                f"matrix window: {w.vector} in columns, rows along {w.row}, words along {w.depth}, "
                f"blocks {w.row_block}x{w.lane_block}x{w.depth_block}"
                + (", terms inside" if w.inside else "")
            )
        case Winograd() as f:
            return (
                f"winograd: {f.vector} in vectors, tile {f.rows}x{f.vectors}, "
                f"blocks {f.tall}x{f.wide}x{f.lane_block}"
            )
        case Chain() as c:
            tile = f"{c.rows}x{', '.join(map(str, c.vectors))}"
            return f"chain: tiles {tile}, blocks of {c.block} rows, {c.chunks} chunks"
        case Nest() as n:
            along = f"vectors along {n.vector} of {n.lanes}" if n.vector >= 0 else "no vectors"
            loops = "".join(f" {k}" for k in (*n.outer, *n.reduced))
            kept = f", {n.kept} vectors kept for {n.terms} terms" if n.kept else ""
            return (
                f"nest: {along}, tile {n.rows}x{n.vectors}, loops{loops or ' none'}, "
                f"{n.chunks} chunks, unroll {n.unroll}{kept}"
            )
    return "chosen by the cost model"
