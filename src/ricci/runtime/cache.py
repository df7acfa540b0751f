"""Compiled code on disk, by a hash of all that it depends on.

Nothing here raises: a cache that cannot be read or written is as if it were not there. Files are
written under another name and renamed, so that readers see whole files only; the oldest are
removed when there is too much.
"""

from __future__ import annotations

import functools
import os
import re
from contextlib import suppress
from pathlib import Path

import llvmlite

from .. import config
from ..hashes import sha256

LARGEST = 512 << 20
"""Bytes that the cache may take."""

TRIM_EVERY = 64
"""Writes after which a process looks whether the cache has grown too large."""

_VERSION = "1"
"""To be changed with the generated code or the format of files."""


def key(kind: str, *parts: str) -> str:
    """The name of an entry."""
    digest = sha256()
    for part in (
        _VERSION,
        version_of(*_BACK),
        llvmlite.__version__,
        *map(repr, config.cache_key()),
    ):
        digest.update(part.encode() + b"\0")
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return f"{kind}-{digest.hexdigest()[:40]}"


_BACK = ("ir", "passes", "backends", "runtime")
"""The folders of what makes code from a graph."""


@functools.cache
def version_of(*folders: str) -> str:
    """A hash of the sizes and times of files of the compiler, so that a changed one starts anew."""
    root = Path(__file__).parent.parent
    digest = sha256()
    for folder in folders:
        for path in sorted(p for p in (root / folder).rglob("*") if p.suffix in (".py", ".sknd")):
            stat = path.stat()
            digest.update(f"{path.relative_to(root)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def read(name: str) -> bytes | None:
    """An entry, if there is a whole one."""
    if config.get("no_cache"):
        return None
    path = _path(name)
    try:
        data = path.read_bytes() if path.is_file() else b""
    except OSError:
        return None
    if len(data) < 32 or sha256(data[32:]).digest() != data[:32]:
        return None
    with suppress(OSError):
        os.utime(path)
    return data[32:]


def write(name: str, data: bytes) -> None:
    """Keep an entry, if the disk lets us."""
    if config.get("no_cache"):
        return
    path = _path(name)
    # what `tempfile` does; that takes half a megabyte
    temporary = path.parent / f".new-{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(temporary, flags, 0o600)
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(sha256(data).digest() + data)
        os.replace(temporary, path)
        _count_write(path.parent)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)


def _path(name: str) -> Path:
    return Path(config.get("cache_dir")) / name


_writes: list[int] = [0]


def _count_write(folder: Path) -> None:
    """Look at the size of the folder now and then: first, and each `TRIM_EVERY` writes."""
    if _writes[0] % TRIM_EVERY == 0:
        _trim(folder)
    _writes[0] += 1


_NAME = re.compile(r"[a-z]+-[0-9a-f]{40}|\.new-\w+")
"""Of an entry, or of one that is being written."""


def _trim(folder: Path) -> None:
    """Remove the entries used longest ago, down to three quarters of the limit, and no other files:
    the folder may be one in which somebody keeps something else."""
    entries = []
    for path in folder.iterdir():
        if not _NAME.fullmatch(path.name):
            continue
        with suppress(OSError):
            stat = path.stat()
            entries.append((stat.st_mtime, stat.st_size, path))
    total = sum(size for _, size, _ in entries)
    if total <= LARGEST:
        return
    for _, size, path in sorted(entries):
        if total <= LARGEST * 3 // 4:
            break
        with suppress(OSError):
            path.unlink()
            total -= size
