"""The graph as a drawing: kernels from top to bottom in the order in which they run, each with the
operations that are in it, and the ways of tensors between them.

A tensor that only the next kernel reads goes straight down. Any other goes in a lane on the right,
from its source past the kernels that do not read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ..ir.labels import shown
from ..ir.nodes import Operation, Tensor
from ..records import dataclass
from ..runtime.profile import KernelProfile
from .contents import Contents, Row
from .flow import Flow, find_flows
from .html import Html, duration, shorten, tag

WIDTH, INDENT, LANE = 470, 18, 13
LEFT, TOP, GAP = 14, 14, 30
HEAD, LINE, PILL, MARK = 26, 19, 26, 24
_CHARACTERS = 62
"""That fit in a box, in a line of an operation."""
MOST_LINES = 8
"""Operations of a kernel that are drawn; the others are in its description."""


@dataclass(frozen=True, slots=True)
class Box:
    """Where a row is drawn."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height


@dataclass(slots=True, eq=False)
class _Drawing:
    contents: Contents
    boxes: dict[int, Box] = field(default_factory=dict)
    frames: list[tuple[Box, str]] = field(default_factory=list)
    y: float = TOP

    def place(self) -> None:
        """Find a place for everything but the ways of tensors."""
        rows, program = self.contents.rows, self.contents.program
        for number in range(len(program.inputs)):
            self._box(-1 - number, 0, PILL)
        for row in rows:
            for mark in [m for m in self.contents.marks if m.rows.start == row.number]:
                x = LEFT + INDENT * mark.depth
                self.frames.append((Box(x, self.y, WIDTH, MARK), mark.text))
                self.y += MARK
            lines = min(len(row.kernel.operations), MOST_LINES + 1)
            self._box(row.number, row.depth, HEAD + LINE * lines + 6)
        for number in range(len(program.outputs)):
            self._box(len(rows) + number, 0, PILL)

    def _box(self, row: int, depth: int, height: float) -> None:
        self.boxes[row] = Box(LEFT + INDENT * depth, self.y, WIDTH, height)
        self.y += height + GAP


def draw_graph(contents: Contents) -> Html:
    """The drawing."""
    drawing = _Drawing(contents)
    drawing.place()
    flows = find_flows(contents)
    ways, right = _draw_flows(contents, flows, drawing.boxes)
    program = contents.program
    ports = {-1 - n: ("input", t) for n, t in enumerate(program.inputs)}
    ports |= {len(contents.rows) + n: ("output", t) for n, t in enumerate(program.outputs)}
    parts: list[Html] = [_ARROW, *_draw_marks(drawing)]
    parts += [_draw_row(contents, r, drawing.boxes[r.number]) for r in contents.rows]
    parts += [_pill(contents, t, drawing.boxes[n], what) for n, (what, t) in ports.items()]
    return tag(
        "svg", *parts, *ways, id="graph", class_="graph", width=right, height=drawing.y,
        viewBox=f"0 0 {right:.0f} {drawing.y:.0f}", role="img",
        aria_label="the kernels and the tensors between them",
    )  # fmt: skip


_ARROW = tag(
    "defs",
    tag(
        "marker", tag("path", d="M0,0 L8,4 L0,8 z"), id="arrow", markerWidth=9, markerHeight=9,
        refX=7, refY=4, orient="auto", markerUnits="userSpaceOnUse",
    ),
)  # fmt: skip


# ------------------------------------------------------------------------ boxes


def _draw_row(contents: Contents, row: Row, box: Box) -> Html:
    """A kernel as a box: its number, code, shape and time, and a line for each operation."""
    head = f"{row.number}  {row.code}  {row.work}"
    lines = [_line(contents, row, o) for o in row.kernel.operations]
    if len(lines) > MOST_LINES + 1:
        lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more operations"]
    texts = [
        tag("text", shorten(head, 44), x=box.x + 12, y=box.y + 18, class_="head"),
    ]
    if row.profile is not None:
        time = _time(row.profile)
        texts.append(tag("text", time, x=box.right - 10, y=box.y + 18, class_="time"))
    for number, line in enumerate(lines):
        y = box.y + HEAD + LINE * number
        texts += [
            tag(
                "rect", x=box.x + 8, y=y, width=box.width - 16, height=LINE - 3, class_="operation"
            ),
            tag("text", shorten(line, _CHARACTERS), x=box.x + 14, y=y + 12, class_="line"),
        ]
    return tag(
        "g",
        tag("title", f"kernel {row.number}: {row.label}"),
        tag("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=6, class_="box"),
        tag("rect", x=box.x, y=box.y, width=5, height=box.height, class_=f"stripe {row.code}"),
        *texts,
        class_="kernel", data_kernel=row.number, tabindex=0, role="button",
    )  # fmt: skip


def _line(contents: Contents, row: Row, operation: Operation) -> str:
    results = ", ".join(shown(t, contents.program, row.kernel) for t in operation.outputs)
    return f"{operation.name} → {results}"


def _time(known: KernelProfile) -> str:
    return f"{duration(known.seconds)} · {known.share:.1%}" if known.runs else "not run"


def _pill(contents: Contents, tensor: Tensor, box: Box, what: str) -> Html:
    text = f"{what} {contents.shown(tensor)}"
    return tag(
        "g",
        tag("title", text),
        tag("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=13),
        tag("text", shorten(text, _CHARACTERS), x=box.x + 16, y=box.y + 17, class_="line"),
        class_=f"port {what}",
    )


def _draw_marks(drawing: _Drawing) -> list[Html]:
    """The borders of loops and branches."""
    parts = []
    right = max((b.right for b in drawing.boxes.values()), default=0.0) + 8
    for mark, (head, text) in zip(drawing.contents.marks, drawing.frames, strict=True):
        bottom = drawing.boxes[mark.rows[-1]].bottom + 6
        width = right - head.x
        parts += [
            tag("rect", x=head.x, y=head.y, width=width, height=bottom - head.y, class_="frame"),
            tag("text", shorten(text, _CHARACTERS), x=head.x + 6, y=head.y + 15, class_="mark"),
        ]
    return parts


# ------------------------------------------------------------------------- ways


def _draw_flows(
    contents: Contents, flows: Sequence[Flow], boxes: dict[int, Box]
) -> tuple[list[Html], float]:
    """The ways of tensors, and how wide the drawing is."""
    parts: list[Html] = []
    ends: list[float] = []  # where each lane is free from
    edge = max((b.right for b in boxes.values()), default=0.0) + 20
    order = {row: place for place, row in enumerate(_in_order(boxes))}
    for flow in sorted(flows, key=lambda f: min(order[f.source], *(order[r] for r in f.readers))):
        far = [r for r in flow.readers if flow.back or order[r] != order[flow.source] + 1]
        if len(far) < len(flow.readers):
            parts.append(_straight(contents, flow, boxes))
        if far:
            top = min(boxes[r].y for r in (flow.source, *far))
            lane = next((k for k, end in enumerate(ends) if end < top), len(ends))
            ends[lane : lane + 1] = [max(boxes[r].bottom for r in (flow.source, *far))]
            parts.append(_in_lane(contents, flow, far, boxes, edge + LANE * lane))
    return parts, edge + LANE * len(ends) + LEFT


def _in_order(boxes: dict[int, Box]) -> list[int]:
    return sorted(boxes, key=lambda row: boxes[row].y)


def _straight(contents: Contents, flow: Flow, boxes: dict[int, Box]) -> Html:
    source = boxes[flow.source]
    target = min((boxes[r] for r in flow.readers), key=lambda b: b.y)
    x = target.x + 60
    shape = f"[{contents.shape(flow.tensor)}]"
    return _way(
        contents, flow, f"M{x:.0f},{source.bottom:.0f} V{target.y - 1:.0f}",
        tag("text", shorten(shape, 40), x=x + 8, y=source.bottom + 18, class_="shape"),
    )  # fmt: skip


def _in_lane(
    contents: Contents, flow: Flow, readers: Sequence[int], boxes: dict[int, Box], x: float
) -> Html:
    source = boxes[flow.source]
    start = source.bottom - 8
    paths = []
    for reader in readers:
        target = boxes[reader]
        y = target.y + 8 + 5 * (flow.back is True)
        paths.append(f"M{source.right:.0f},{start:.0f} H{x:.0f} V{y:.0f} H{target.right + 1:.0f}")
    return _way(contents, flow, " ".join(paths))


def _way(contents: Contents, flow: Flow, path: str, *more: Html) -> Html:
    title = tag("title", contents.shown(flow.tensor))
    rows = " ".join(map(str, (flow.source, *flow.readers)))
    return tag(
        "g", title, tag("path", d=path, class_="wide"),
        tag("path", d=path, class_="way", marker_end="url(#arrow)"), *more,
        class_="flow back" if flow.back else "flow", data_rows=rows,
    )  # fmt: skip
