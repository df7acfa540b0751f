"""Charts of the suite as SVG: the ratios of each group, and a roofline.

python -m benchmarks.charts FILE.json FOLDER
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

OURS, PEER, INK, FAINT = "#0b7285", "#e8590c", "#868e96", "#ced4da"
STYLE = f"""
text {{ font: 11px system-ui, sans-serif; fill: {INK}; }}
.title {{ font-size: 14px; font-weight: 600; }}
.value {{ font-size: 10px; }}
.end {{ text-anchor: end; }}
.middle {{ text-anchor: middle; }}
.axis {{ stroke: {FAINT}; stroke-width: 1; }}
.line {{ stroke: {INK}; stroke-width: 1.5; fill: none; }}
.link {{ stroke: {FAINT}; stroke-width: 1; }}
.ours {{ fill: {OURS}; }}
.peer {{ fill: {PEER}; }}
"""
"""Colours that can be seen on white and on black."""

Rows = Sequence[Mapping[str, Any]]


class Scale:
    """From numbers to places on a logarithmic axis."""

    def __init__(self, low: float, high: float, start: float, stop: float) -> None:
        self.low, self.high = math.log10(low), math.log10(high)
        self.start, self.stop = start, stop

    def __call__(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + part * (self.stop - self.start)

    def ticks(self) -> Iterable[float]:
        """The powers of ten, with 2 and 5 times them where there is room."""
        steps = (1, 2, 5) if self.high - self.low < 2.5 else (1,)
        for power in range(math.floor(self.low), math.ceil(self.high) + 1):
            for step in steps:
                tick = step * 10.0**power
                if self.low - 1e-9 <= math.log10(tick) <= self.high + 1e-9:
                    yield tick


def ratio_chart(rows: Rows, caption: str) -> str:
    """A bar per row from 1.0 to our time over that of the fastest peer."""
    ratios = [r["ratio"] for r in rows]
    names = max(len(r["name"]) for r in rows)
    left, top, step = 24 + 6.4 * names, 76.0, 16
    right, bottom = left + 480, top + step * len(rows) + 6
    at = Scale(min([0.5, *ratios]) / 1.3, max([2.0, *ratios]) * 1.3, left, right)
    title = "Time of Ricci over that of the fastest of the others: left of 1 is faster"
    parts = [text(16, 20, title, "title"), text(16, 38, caption)]
    for tick in at.ticks():
        parts.append(line(at(tick), top - 6, at(tick), bottom, "line" if tick == 1 else "axis"))
        parts.append(text(at(tick), top - 12, f"{tick:g}", "middle"))
    for number, row in enumerate(rows):
        parts += bar(row, at, top + step * number, left)
    return document(right + 16, bottom + 12, parts)


def bar(row: Mapping[str, Any], at: Scale, y: float, left: float) -> list[str]:
    ratio = row["ratio"]
    start, stop = sorted((at(1.0), at(ratio)))
    kind = "ours" if ratio <= 1 else "peer"
    beyond, anchor = (at(ratio) - 4, "value end") if ratio <= 1 else (at(ratio) + 4, "value")
    return [
        text(left - 8, y + 11, row["name"], "end"),
        f'<rect class="{kind}" x="{start:.1f}" y="{y + 3:.1f}" '
        f'width="{max(stop - start, 1):.1f}" height="10" rx="2"/>',
        text(beyond, y + 11, f"{ratio:.2f}", anchor),
    ]


def roofline(rows: Rows, machine: Mapping[str, Any], caption: str) -> str:
    """Operations a second by operations per byte: ours and the fastest peer's, and the limits."""
    peak = machine["peak GFLOP/s"] * 1e9
    memory = machine["memory GB/s"]["read"] * 1e9
    cache = machine["cache GB/s"]["read"] * 1e9
    points = [(r["flops"] / r["bytes"], *rates(r)) for r in rows]
    x = Scale(min([0.1, *(p[0] for p in points)]) / 1.5,
              max([100.0, *(p[0] for p in points)]) * 1.5, 70, 740)  # fmt: skip
    y = Scale(min([1e10, *(min(p[1:]) for p in points)]) / 1.5, peak * 2, 476, 72)
    parts = [text(16, 20, "Operations a second, by operations per byte", "title")]
    parts.append(text(16, 38, caption))
    parts += axes(x, y)
    for rate, name in [(memory, "memory"), (cache, "second cache")]:
        parts += roof(x, y, rate, peak, f"{name}, {rate / 1e9:.0f} GB/s")
    ceiling = f"multiply-adds, {peak / 1e9:.0f} GFLOP/s"
    parts.append(text(738, y(peak) - 6, ceiling, "end"))
    for row, (intensity, mine, other) in zip(rows, points, strict=True):
        parts += pair(row, x(intensity), y(mine), y(other))
    parts += [dot(540, 506, "ours", "Ricci"), text(550, 510, "Ricci")]
    parts += [dot(600, 506, "peer", "fastest"), text(610, 510, "the fastest of the others")]
    return document(756, 524, parts)


def rates(row: Mapping[str, Any]) -> tuple[float, float]:
    """Operations a second: ours, and those of the fastest peer."""
    times = row["times"]
    mine, other = times["ricci"]["median"], times[row["fastest peer"]]["median"]
    return row["flops"] / mine, row["flops"] / other


def axes(x: Scale, y: Scale) -> list[str]:
    parts = []
    for tick in x.ticks():
        parts.append(line(x(tick), y.start, x(tick), y.stop, "axis"))
        parts.append(text(x(tick), y.start + 16, f"{tick:g}", "middle"))
    for tick in y.ticks():
        parts.append(line(x.start, y(tick), x.stop, y(tick), "axis"))
        parts.append(text(x.start - 6, y(tick) + 4, f"{tick / 1e9:g}", "end"))
    parts.append(text(x.start, y.start + 34, "operations per byte"))
    parts.append(text(x.start - 54, y.stop - 6, "GFLOP/s"))
    return parts


def roof(x: Scale, y: Scale, rate: float, peak: float, name: str) -> list[str]:
    """The line of a bandwidth up to the peak, and on from there."""
    begin = max(10**x.low, 10**y.low / rate)
    knee = peak / rate
    middle = begin * 1.2
    return [
        line(x(begin), y(begin * rate), x(knee), y(peak), "line"),
        line(x(knee), y(peak), x.stop, y(peak), "line"),
        slanted(
            x(middle), y(middle * rate) - 6, x(knee) - x(begin), y(peak) - y(begin * rate), name
        ),
    ]


def pair(row: Mapping[str, Any], x: float, mine: float, other: float) -> list[str]:
    name = row["name"]
    return [
        line(x, mine, x, other, "link"),
        dot(x, other, "peer", f"{name}: {row['fastest peer']}"),
        dot(x, mine, "ours", f"{name}: Ricci"),
    ]


# ---------------------------------------------------------------------------- elements


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def slanted(x: float, y: float, run: float, rise: float, words: str) -> str:
    """Text along a line of that direction."""
    angle = math.degrees(math.atan2(rise, run))
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" transform="rotate({angle:.1f} {x:.1f} {y:.1f})">'
        f"{escape(words)}</text>"
    )


def line(x0: float, y0: float, x1: float, y1: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"/>'


def dot(x: float, y: float, kind: str, title: str) -> str:
    """A point whose title is shown where the pointer rests on it."""
    title = escape(title)
    return (
        f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{title}</title></circle>'
    )


def document(width: float, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><style>{STYLE}</style>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def draw_charts(folder: Path, data: Mapping[str, Any]) -> None:
    """Write `ratios-GROUP.svg` for every group, and `roofline.svg`."""
    machine = data["machine"]
    rows = [r for r in data["rows"] if r["fastest peer"]]
    caption = f"{machine['processor']}, {machine['threads']} threads, {machine['date'][:10]}"
    folder.mkdir(parents=True, exist_ok=True)
    for group in dict.fromkeys(r["group"] for r in rows):
        chart = ratio_chart([r for r in rows if r["group"] == group], caption)
        (folder / f"ratios-{group}.svg").write_text(chart)
    (folder / "roofline.svg").write_text(
        roofline([r for r in rows if r["flops"]], machine, caption)
    )


if __name__ == "__main__":
    results, charts = map(Path, sys.argv[1:])
    draw_charts(charts, json.loads(results.read_text()))
