"""The rows of the benchmarks compute what they say, at small sizes; what is reported of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("torch")

from benchmarks import (
    cases_comprehensions,
    cases_convolutions,
    cases_parts,
    cases_products,
    cases_quantised,
    cases_streaming,
    quantised,
)
from benchmarks.cases import Row
from benchmarks.charts import draw_charts
from benchmarks.measure import Timing, scaled_error
from benchmarks.peers import onnx_runtime, ours, torch_eager
from benchmarks.report import Result, as_data, summary, table
from benchmarks.suite import bounds, reference
from ricci.backends.llvm.target import host

SMALL = 12
SOURCES = [
    cases_parts,
    cases_products,
    cases_convolutions,
    cases_comprehensions,
    cases_streaming,
]
MACHINE = {
    "processor": "P", "threads": 2, "date": "2026-01-01T00:00:00", "peak GFLOP/s": 100.0,
    "memory GB/s": {"read": 10.0, "copy": 8.0}, "cache GB/s": {"read": 90.0, "copy": 80.0},
}  # fmt: skip


def small_rows() -> Iterator[Row]:
    """One of all rows that are the same but for their sizes."""
    seen = set()
    for source in SOURCES:
        for row in source.rows():
            family = row.family
            made = (getattr(family, "func", family), str(getattr(family, "keywords", "")))
            key = (*made, *(min(s, SMALL) for s in row.sizes))
            if key not in seen:
                seen.add(key)
                yield row


@pytest.mark.parametrize("row", list(small_rows()), ids=lambda row: row.name)
def test_all_sides_agree(row: Row) -> None:
    case = row.case(SMALL)
    expected = reference(case)
    kind = np.float32 if expected.dtype == np.float64 else expected.dtype
    like = np.empty(expected.shape, kind)
    sides = [ours(case, 1), torch_eager(case, 1, like), onnx_runtime(case, 1, like)]
    for side in sides:
        side.call()
        found = side.result()
        assert found.shape == expected.shape, side.name
        assert scaled_error(found, expected) < 2e-6, side.name


def test_networks_of_8_bits_agree() -> None:
    small = partial(quantised.resnet50, 32, 8, 10, (1, 1, 1, 1))
    for make in (small, partial(quantised.layer, 12, 20, 9, 3)):
        case = cases_quantised.case(make)
        expected = reference(case)
        like = np.empty(expected.shape, np.float32)
        for side in [ours(case, 1), torch_eager(case, 1, like), onnx_runtime(case, 1, like)]:
            side.call()
            # without VNNI, its sums of two products of bytes saturate at 16 bits
            saturates = side.name == "ONNX Runtime" and not sums_words()
            assert scaled_error(side.result(), expected) < (0.5 if saturates else 0.05), side.name


def sums_words() -> bool:
    """Whether this processor adds products of bytes up in 32 bits, by one instruction."""
    return any(host().has(x) for x in ("avx512vnni", "avxvnni", "dotprod"))


def test_names_differ() -> None:
    names = [row.name for source in SOURCES for row in source.rows()]
    assert len(set(names)) == len(names)


def test_bytes_and_limits() -> None:
    row = next(r for r in cases_streaming.rows() if r.name == "rows of a table 1000x64 by 512")
    case = row.case()
    moved, limits = bounds(case, np.empty((512, 64)), 1)
    assert moved == 512 * 8 + 2 * 512 * 64 * 4  # the indices, and each row read and written
    assert set(limits) == {"copy"}  # nothing is computed
    copy = limits["copy"]
    assert copy.seconds(Timing(3.0, 2.0, 4.0)) == 3.0 * moved / copy.loop.amount


def test_what_is_hardly_read_is_held_against_writing() -> None:
    row = next(r for r in cases_streaming.rows() if r.name.startswith("nearest, twice as large"))
    moved, limits = bounds(row.case(8), np.empty((1, 8, 16, 16)), 1)
    assert set(limits) == {"copy", "write"}
    assert limits["write"].amount == 4 * 8 * 16 * 16 == moved * 0.8


def result(name: str, mine: float, others: dict[str, float], error: float = 1e-7) -> Result:
    row = Row("streaming", name, lambda: None, ())
    times = {"ricci": mine} | others
    timings = {n: Timing(t, t, t) for n, t in times.items()}
    errors = dict.fromkeys(others, 1e-7) | {"ricci": error}
    return Result(row, timings, errors, 1e9, 10**8, {"FMA": 0.01, "copy": 0.0125})


def test_report_and_charts(tmp_path: Path) -> None:
    fast = result("fast", 0.02, {"PyTorch": 0.08, "OpenVINO": 0.04})
    slow = result("slow < & >", 0.025, {"PyTorch": 0.0125}, error=3e-7)
    assert (fast.ratio, fast.fastest, fast.accurate) == (0.5, "OpenVINO", True)
    assert (slow.ratio, slow.limit, slow.share, slow.accurate) == (2.0, "copy", 0.5, False)
    lines = table([fast, slow], ["OpenVINO", "PyTorch"]).splitlines()
    assert len(lines) == 4 and len({line.count("|") for line in lines}) == 1
    text = summary([fast, slow], MACHINE)
    assert "1 of 2 rows at or below 1.0, geometric mean 1.00, worst 2.00" in text
    data = as_data(MACHINE, [fast, slow])
    read = [Result.of(row) for row in json.loads(json.dumps(data))["rows"]]
    assert table(read, ["PyTorch"]) == table([fast, slow], ["PyTorch"])
    draw_charts(tmp_path, data)
    space = "{http://www.w3.org/2000/svg}"
    bars = ElementTree.parse(tmp_path / "ratios-streaming.svg").findall(f"{space}rect")
    assert [bar.get("class") for bar in bars] == ["ours", "peer"]
    points = ElementTree.parse(tmp_path / "roofline.svg").findall(f"{space}circle/{space}title")
    assert "slow < & >: PyTorch" in [p.text for p in points]
