"""The arena over the course of a call, and the tensors that stay: as a chart and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.loops import tensors_touched
from ..ir.nodes import Tensor
from ..passes.memory import size_of
from ..records import dataclass
from .contents import Contents
from .html import Html, amount, escape, join, tag

HEIGHT, LEFT, BOTTOM, TOP = 260, 76, 26, 8
NARROWEST, WIDEST, WHOLE = 5.0, 40.0, 1000.0
"""Widths of a kernel, and about that of the chart."""


@dataclass(frozen=True, slots=True)
class Life:
    """A block of the arena: where, and from which kernel to which it is needed."""

    offset: int
    size: int
    first: int
    last: int
    tensors: tuple[Tensor, ...]
    """Names for the same bytes; the first is the one that they are written as."""


def find_lives(contents: Contents) -> list[Life]:
    """The blocks of the arena, in the order in which they are first written."""
    spans: dict[Tensor, tuple[int, int]] = {}
    for row in contents.rows:
        touched = [*tensors_touched(row.kernel), *contents.read(row)]
        for tensor in dict.fromkeys(touched):
            place = contents.place(tensor)
            if place is not None and place.kind == "arena":
                spans[tensor] = (spans.get(tensor, (row.number, 0))[0], row.number)
    for loop in contents.loops:
        start, end = loop.start, loop.stop - 1
        for tensor, (first, last) in spans.items():
            if first < start <= last <= end:
                spans[tensor] = (first, end)
            elif start <= first <= end < last:
                spans[tensor] = (start, last)
    return _joined(
        Life(contents.program.buffers[t].offset, size_of(t, contents.program.strides), *span, (t,))
        for t, span in spans.items()
    )


def _joined(lives: Iterable[Life]) -> list[Life]:
    """Blocks that are within others at the same time are names for a part of these."""
    out: list[Life] = []
    for life in sorted(lives, key=lambda x: (-x.size, x.first)):
        for number, other in enumerate(out):
            inside = other.offset <= life.offset < other.offset + max(other.size, 1)
            if inside and life.first <= other.last and other.first <= life.last:
                first, last = min(life.first, other.first), max(life.last, other.last)
                names = (*other.tensors, *life.tensors)
                out[number] = Life(other.offset, other.size, first, last, names)
                break
        else:
            out.append(life)
    return sorted(out, key=lambda x: (x.first, x.offset))


def draw_memory(contents: Contents) -> Html:
    """The arena: kernels from left to right, bytes from the bottom to the top."""
    lives, count = find_lives(contents), max(len(contents.rows), 1)
    arena = max(contents.program.arena, 1)
    if not lives:
        return tag("p", "No tensor is kept between kernels.")
    step = min(max(WHOLE / count, NARROWEST), WIDEST)
    width = LEFT + step * count + 10

    def y(offset: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - offset / arena)

    blocks = []
    for life in lives:
        top, bottom = y(life.offset + life.size), y(life.offset)
        width_of = step * (life.last - life.first + 1) - 1
        blocks.append(
            tag(
                "rect", tag("title", _title(contents, life)), x=LEFT + step * life.first, y=top,
                width=max(width_of, 2.0), height=max(bottom - top, 1.0),
                class_=f"life {contents.rows[life.first].code}", data_kernel=life.first,
            )
        )  # fmt: skip
    lines = [_level(y(arena * k / 4), width, arena * k / 4) for k in range(5)]
    numbers = [
        tag("text", n, x=LEFT + step * (n + 0.5), y=HEIGHT - 8, class_="axis number")
        for n in range(0, count, max(1, round(36 / step)))
    ]
    return tag(
        "svg", *lines, *numbers, *blocks, class_="memory", width=width, height=HEIGHT,
        viewBox=f"0 0 {width:.0f} {HEIGHT}", role="img", aria_label="the arena over the kernels",
    )  # fmt: skip


def _level(y: float, width: float, size: float) -> Html:
    return join(
        [
            tag("line", x1=LEFT, x2=width, y1=y, y2=y, class_="level"),
            tag("text", byte_words(size), x=LEFT - 6, y=y + 4, class_="axis"),
        ]
    )


def _title(contents: Contents, life: Life) -> str:
    names = ", ".join(contents.shown(t) for t in life.tensors)
    when = f"kernel {life.first}"
    if life.last > life.first:
        when = f"kernels {life.first} to {life.last}"
    return f"{names}\n{byte_words(life.size)} at {life.offset}, {when}"


def byte_words(size: float) -> str:
    """`1.5 MB`."""
    return f"{amount(size)}B" if size >= 1e3 else f"{amount(size)} B"


def weight_tables(contents: Contents) -> Html:
    """The tensors that live as long as the executable."""
    program = contents.program
    parts = [
        _tensors(contents, "Variables", program.variables),
        _tensors(contents, "Constants", program.constants),
        _tensors(contents, "Prepared whenever a variable is set", program.kept),
    ]
    return join(parts) or tag("p", "There are no weights.")


def _tensors(contents: Contents, title: str, tensors: Sequence[Tensor]) -> Html:
    if not tensors:
        return escape("")
    sizes = [size_of(t) for t in tensors]
    largest = max(*sizes, 1)
    rows = [
        tag(
            "tr", tag("td", contents.name(t)), tag("td", f"{t.dtype}[{contents.shape(t)}]"),
            tag("td", byte_words(n), class_="number", data_value=n), tag("td", _bar(n / largest)),
        )
        for t, n in zip(tensors, sizes, strict=True)
    ]  # fmt: skip
    head = tag("tr", *(tag("th", h) for h in ("tensor", "shape", "bytes", "")))
    summary = f"{title}: {len(tensors)}, {byte_words(sum(sizes))}"
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="sortable")
    return tag("details", tag("summary", summary), tag("div", table, class_="wide-table"))


def _bar(share: float) -> Html:
    shape = tag("rect", x=0, y=0, width=120 * share, height=8, class_="bar")
    return tag("svg", shape, width=120, height=8)
