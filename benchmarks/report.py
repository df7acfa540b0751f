"""What the suite says: lines as rows are ready, tables in Markdown, all numbers as JSON.

    python -m benchmarks.report FILE.json [FILE.json] [--svg DIR]

reads what several runs have written, and gives the tables and charts of all of it.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cases import Case, Row
from .charts import draw_charts
from .measure import Timing, format_table

OURS = "ricci"
SHORT = {"ONNX Runtime": "ORT", "OpenVINO": "OV", "PyTorch": "torch", "torch.compile": "compiled"}
FLOOR = 2e-7
"""An error below this, two roundings, is not worse than any other."""


@dataclass(frozen=True)
class Result:
    """What was measured of a row, by the names of the sides."""

    row: Row
    timings: Mapping[str, Timing]
    errors: Mapping[str, float]
    flops: float
    moved: int
    limits: Mapping[str, float]
    """The seconds that the row takes at each peak of the machine."""

    @property
    def ours(self) -> float:
        return self.timings[OURS].median

    @property
    def fastest(self) -> str | None:
        """The name of the fastest peer."""
        peers = [n for n in self.timings if n != OURS]
        return min(peers, key=lambda n: self.timings[n].median, default=None)

    @property
    def ratio(self) -> float:
        """Our time over that of the fastest peer."""
        return self.ours / self.timings[self.fastest].median if self.fastest else math.nan

    @property
    def limit(self) -> str:
        """The peak that the row is nearest to."""
        return max(self.limits, key=lambda n: self.limits[n])

    @property
    def share(self) -> float:
        return self.limits[self.limit] / self.ours

    @property
    def accurate(self) -> bool:
        """Whether our error is no more than twice that of the fastest peer."""
        bar = self.errors[self.fastest] if self.fastest else 0.0
        return self.errors[OURS] <= max(2 * bar, FLOOR)

    def line(self) -> str:
        """Shown as soon as the row was measured."""
        times = ", ".join(
            f"{SHORT.get(n, n)} {t.median * 1e3:.3f}" for n, t in self.timings.items()
        )
        errors = "" if self.accurate else f"  ERRORS {self.error_text()}"
        return f"{self.row.name}: {times} ms  ratio {self.ratio:.2f}{errors}"

    def error_text(self) -> str:
        return ", ".join(f"{SHORT.get(n, n)} {e:.0e}" for n, e in self.errors.items())

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Result:
        """From what `data` gave."""
        row = Row(data["group"], data["name"], _lost, (), data["batch"])
        timings = {n: Timing(**t) for n, t in data["times"].items()}
        return cls(row, timings, data["errors"], data["flops"], data["bytes"], data["limits"])

    def data(self) -> dict[str, Any]:
        return {
            "group": self.row.group,
            "name": self.row.name,
            "batch": self.row.batch,
            "times": {n: vars(t) for n, t in self.timings.items()},
            "errors": dict(self.errors),
            "ratio": self.ratio,
            "fastest peer": self.fastest,
            "flops": self.flops,
            "bytes": self.moved,
            "GFLOP/s": self.flops / self.ours / 1e9,
            "GB/s": self.moved / self.ours / 1e9,
            "held against": self.limit,
            "share": self.share,
            "limits": dict(self.limits),
        }


def _lost() -> Case:
    raise ValueError("a row that was read has no case")


def table(results: Sequence[Result], names: Sequence[str]) -> str:
    """A row per result; times are medians in milliseconds."""
    header = ["row", "ricci ms", "best-worst", *(f"{SHORT[n]} ms" for n in names)]
    header += ["ratio", "to", "GFLOP/s", "GB/s", "share", "of", "errors"]
    return format_table(header, [_cells(r, names) for r in results])


def _cells(result: Result, names: Sequence[str]) -> list[str]:
    mine = result.timings[OURS]
    others = [result.timings.get(n) for n in names]
    return [
        result.row.name,
        _ms(mine.median),
        f"{_ms(mine.best)}-{_ms(mine.worst)}",
        *(_ms(t.median) if t else "" for t in others),
        f"{result.ratio:.2f}",
        SHORT.get(result.fastest or "", ""),
        f"{result.flops / result.ours / 1e9:.0f}" if result.flops else "",
        f"{result.moved / result.ours / 1e9:.1f}",
        f"{result.share:.0%}",
        result.limit,
        result.error_text() + ("" if result.accurate else " (worse)"),
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 0.1 else f"{seconds * 1e3:.0f}"


def summary(results: Sequence[Result], machine: Mapping[str, Any]) -> str:
    """How many rows are faster, by group, and the machine's peaks."""
    lines = []
    for group in dict.fromkeys(r.row.group for r in results):
        ratios = [r.ratio for r in results if r.row.group == group and r.fastest]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            faster = sum(r <= 1.0 for r in ratios)
            lines.append(
                f"{group}: {faster} of {len(ratios)} rows at or below 1.0, "
                f"geometric mean {mean:.2f}, worst {max(ratios):.2f}"
            )
    cores = [r for r in results if r.row.group == "cores"]
    lines += [_slower(r, cores[0]) for r in cores[1:]]
    worse = [r.row.name for r in results if not r.accurate]
    lines.append(f"less accurate than twice the fastest peer's error: {', '.join(worse) or 'none'}")
    memory = machine["memory GB/s"]
    lines.append(
        f"{machine['processor']}, {machine['threads']} threads: {machine['peak GFLOP/s']} GFLOP/s, "
        f"{memory['read']} GB/s read, {memory['copy']} GB/s copied"
    )
    return "\n".join(lines)


def _slower(result: Result, than: Result) -> str:
    """How many times as long as another row every side takes for one."""
    times = ", ".join(
        f"{SHORT.get(n, n)} {t.median / than.timings[n].median:.2f}"
        for n, t in result.timings.items()
        if n in than.timings
    )
    return f"{result.row.name}, times as long as {than.row.name}: {times}"


def as_data(machine: Mapping[str, Any], results: Sequence[Result]) -> dict[str, Any]:
    """All that was measured, for JSON and for the charts."""
    return {"machine": dict(machine), "rows": [r.data() for r in results]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--svg", type=Path, help="a folder for the charts")
    options = parser.parse_args()
    runs = [json.loads(file.read_text()) for file in options.files]
    rows = {row["name"]: row for run in runs for row in run["rows"]}
    results = [Result.of(row) for row in rows.values()]
    names = [n for n in SHORT if any(n in r.timings for r in results)]
    for group in dict.fromkeys(r.row.group for r in results):
        print(f"## {group}\n\n{table([r for r in results if r.row.group == group], names)}\n")
    print(summary(results, runs[-1]["machine"]))
    if options.svg:
        draw_charts(options.svg, as_data(runs[-1]["machine"], results))


if __name__ == "__main__":
    main()
