"""Images as bytes: lines of JSON, the object code, the constants.

Steps have a line each, so that little is in memory beside what is made of them; most words are in
many of them, and are kept once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from sys import intern
from typing import Any, get_args

from ..backends.llvm.steps import Image, Info, Site, Slot, Step, StepKind
from ..ir.loops import Kind
from ..source import NOWHERE, Source, Span

_KINDS: dict[str, StepKind] = {kind: kind for kind in get_args(StepKind)}
_BLOCKS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}


def pack(image: Image) -> bytes:
    """An image as bytes."""
    sources: dict[Source, int] = {}
    header = {
        "code": [len(data) for data in image.code],
        "inputs": [_info(i) for i in image.inputs],
        "outputs": [_info(i) for i in image.outputs],
        "variables": [_info(i) for i in image.variables],
        "constants": [[*_info(i), len(data)] for i, data in image.constants],
        "kept": image.kept,
        "arena": image.arena,
        "sizes": [image.sizes, image.defined, image.checks, image.states],
        "prepare": len(image.prepare),
    }
    steps = [_step(s, sources) for s in (*image.prepare, *image.steps)]
    header["sources"] = [[s.name, s.text] for s in sources]
    lines = [json.dumps(line, separators=(",", ":")).encode() for line in (header, *steps)]
    text = b"\n".join(lines)
    blobs = [data for _, data in image.constants]
    return b"".join([len(text).to_bytes(8, "little"), text, *image.code, *blobs])


def unpack(data: bytes) -> Image | None:
    """The image of some bytes; none if they are not those of one."""
    try:
        return read(data)
    except (ValueError, KeyError, IndexError, TypeError):
        return None


def read(data: bytes) -> Image:
    """The image of the bytes that `pack` gave."""
    at = 8 + int.from_bytes(data[:8], "little")
    lines = _lines(data, 8, at)
    header: Any = next(lines, {})
    code, constants = [], []
    for length in header["code"]:
        code.append(data[at : at + length])
        at += length
    for name, dtype, shape, length in header["constants"]:
        constants.append((Info(name, dtype, tuple(shape)), data[at : at + length]))
        at += length
    if at != len(data):
        raise ValueError("cut short")
    sources = [Source(name, text) for name, text in header["sources"]]
    steps = [_read_step(line, sources) for line in lines]
    return Image(
        tuple(code),
        _infos(header["inputs"]),
        _infos(header["outputs"]),
        _infos(header["variables"]),
        tuple(constants),
        tuple(header["kept"]),
        tuple(steps[: header["prepare"]]),
        tuple(steps[header["prepare"] :]),
        header["arena"],
        *header["sizes"],
    )


def _lines(data: bytes, start: int, end: int) -> Iterator[Any]:
    """What the lines of a part of the bytes say."""
    while start < end:
        stop = data.find(b"\n", start, end)
        stop = end if stop < 0 else stop
        yield json.loads(data[start:stop])
        start = stop + 1


def _info(info: Info) -> list[Any]:
    return [info.name, info.dtype, info.shape]


def _infos(items: list[Any]) -> tuple[Info, ...]:
    return tuple(Info(intern(name), intern(dtype), tuple(shape)) for name, dtype, shape in items)


def _step(step: Step, sources: dict[Source, int]) -> list[Any]:
    slots = [[s.kind, s.number, s.offset] for s in step.slots]
    sites = [[s.tensor, s.dimension, *_span(s.span, sources)] for s in step.sites]
    return [
        step.kind, step.name, slots, step.symbol, step.chunks, step.shared, step.scratch, sites,
        step.counted, step.target, step.places, step.number, step.template, step.room,
    ]  # fmt: skip


def _span(span: Span, sources: dict[Source, int]) -> list[int]:
    if span is NOWHERE:
        return [-1, 0, 0]
    return [sources.setdefault(span.source, len(sources)), span.start, span.end]


def _read_step(item: list[Any], sources: list[Source]) -> Step:
    kind, name, slots, symbol, chunks, shared, scratch, sites, counted, target, *rest = item
    places, number, template, room = rest
    return Step(
        _KINDS[kind],
        intern(name),
        tuple(Slot(_BLOCKS[kind], number, offset) for kind, number, offset in slots),
        intern(symbol),
        chunks,
        shared,
        scratch,
        tuple(_read_site(s, sources) for s in sites),
        counted,
        target,
        tuple((row, slot) for row, slot in places),
        number,
        intern(template),
        tuple(room),
    )


def _read_site(item: list[Any], sources: list[Source]) -> Site:
    tensor, dimension, source, start, end = item
    span = NOWHERE if source < 0 else Span(sources[source], start, end)
    return Site(tensor, dimension, span)
