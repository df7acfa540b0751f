"""Images as bytes: a JSON header, the object code, the constants."""

from __future__ import annotations

import json
from typing import Any

from ..backends.llvm.steps import Image, Info, Site, Slot, Step
from ..source import NOWHERE, Source, Span


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
        "prepare": [_step(s, sources) for s in image.prepare],
        "steps": [_step(s, sources) for s in image.steps],
    }
    header["sources"] = [[s.name, s.text] for s in sources]
    text = json.dumps(header, separators=(",", ":")).encode()
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
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    at = 8 + size
    code, constants = [], []
    for length in header["code"]:
        code.append(data[at : at + length])
        at += length
    for name, dtype, shape, length in header["constants"]:
        constants.append((Info(name, dtype, tuple(shape)), data[at : at + length]))
        at += length
    sources = [Source(name, text) for name, text in header["sources"]]
    if at != len(data):
        raise ValueError("cut short")
    return Image(
        tuple(code),
        _infos(header["inputs"]),
        _infos(header["outputs"]),
        _infos(header["variables"]),
        tuple(constants),
        tuple(header["kept"]),
        tuple(_read_step(s, sources) for s in header["prepare"]),
        tuple(_read_step(s, sources) for s in header["steps"]),
        header["arena"],
        *header["sizes"],
    )


def _info(info: Info) -> list[Any]:
    return [info.name, info.dtype, info.shape]


def _infos(items: list[Any]) -> tuple[Info, ...]:
    return tuple(Info(name, dtype, tuple(shape)) for name, dtype, shape in items)


def _step(step: Step, sources: dict[Source, int]) -> list[Any]:
    slots = [[s.kind, s.number, s.offset] for s in step.slots]
    sites = [[s.tensor, s.dimension, *_span(s.span, sources)] for s in step.sites]
    return [
        step.kind, step.name, slots, step.symbol, step.chunks, step.shared, step.scratch, sites,
        step.counted, step.target, step.places, step.number, step.template, step.filled,
    ]  # fmt: skip


def _span(span: Span, sources: dict[Source, int]) -> list[int]:
    if span is NOWHERE:
        return [-1, 0, 0]
    return [sources.setdefault(span.source, len(sources)), span.start, span.end]


def _read_step(item: list[Any], sources: list[Source]) -> Step:
    kind, name, slots, symbol, chunks, shared, scratch, sites, counted, target, *rest = item
    places, number, template, filled = rest
    return Step(
        kind,
        name,
        tuple(Slot(*s) for s in slots),
        symbol,
        chunks,
        shared,
        scratch,
        tuple(_read_site(s, sources) for s in sites),
        counted,
        target,
        tuple((row, slot) for row, slot in places),
        number,
        template,
        tuple(filled),
    )


def _read_site(item: list[Any], sources: list[Source]) -> Site:
    tensor, dimension, source, start, end = item
    span = NOWHERE if source < 0 else Span(sources[source], start, end)
    return Site(tensor, dimension, span)
