"""What tuning has found, in a file that people can read and all processes share.

The file is one JSON document. It is written under another name and renamed, so that readers see
whole files only, and whoever changes it holds a lock meanwhile. Entries of another version are kept
as they are. When there are too many, the oldest go.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .. import config
from ..backends.llvm.schedule import Schedule, from_json, to_json
from ..backends.llvm.target import Target
from ..diagnostics import Error, error
from ..dtypes import Types
from ..hashes import sha256
from ..ir.nodes import Graph, Symbol
from ..ir.shapes import evaluate
from ..records import dataclass, replace
from .fingerprint import fingerprint

VERSION = 1
MOST_ENTRIES = 1000
LARGEST = 64 << 20
"""Bytes of a file that is read at all."""
_PATIENCE = 20.0
"""Seconds to wait for the lock."""

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Key:
    """What a result is for: a program, the shapes and strides of its inputs, a machine."""

    program: str
    """Its `fingerprint`."""
    shapes: Shapes
    strides: tuple[tuple[int, tuple[int, ...]], ...]
    """In elements, by the number of the input, of those that are not row-major."""
    dtypes: str
    """What stands for the abstract types."""
    target: str
    threads: int

    def distance(self, other: Key) -> float:
        """How far the shapes are apart; infinite if the results are not for the same thing."""
        alike = ("program", "dtypes", "target", "threads")
        if any(getattr(self, name) != getattr(other, name) for name in alike):
            return math.inf
        if [k for k, _ in self.strides] != [k for k, _ in other.strides]:
            return math.inf
        return _apart(self.shapes, other.shapes)


def _apart(a: Shapes, b: Shapes) -> float:
    """The sum of the logarithms of the ratios of extents."""
    if [len(x) for x in a] != [len(x) for x in b]:
        return math.inf
    pairs = [(m, n) for x, y in zip(a, b, strict=True) for m, n in zip(x, y, strict=True)]
    return sum(abs(math.log(max(m, 0.5) / max(n, 0.5))) for m, n in pairs)


@dataclass(frozen=True)
class Entry:
    """A result. `before` and `after` are milliseconds of a call."""

    key: Key
    name: str
    schedules: tuple[Schedule | None, ...]
    use_threads: int
    """How many threads are best, at most those of the key."""
    before: float
    after: float
    date: str
    ricci: str


def target_name(target: Target) -> str:
    """A processor, as a key says it: what code is made for, and how large its caches are."""
    digest = sha256(repr(target).encode()).hexdigest()[:12]
    return f"{target.triple} {target.cpu} {digest}"


def key_of(
    graph: Graph,
    types: Types,
    threads: int,
    sizes: Mapping[Symbol, int],
    strides: Mapping[int, tuple[int, ...]],
    target: Target,
) -> Key:
    """The key of a graph, with its state as inputs, for sizes of all its symbols, and a target for
    whose `threads` it is cut, however many cores there are."""
    tensors = [t for p in graph.inputs for t in p.tensors]
    return Key(
        fingerprint(graph),
        tuple(tuple(evaluate(e, sizes) for e in t.shape) for t in tensors),
        tuple(strides.items()),
        f"{types.real.value} {types.int.value}",
        target_name(replace(target, cores=threads)),
        threads,
    )


def where(file: Path | None) -> Path:
    """The file that is meant: the one given, else that of the setting."""
    return Path(config.get("tuning_file")) if file is None else file


# ---------------------------------------------------------------------- reading

_known: dict[Path, tuple[tuple[int, int, int], list[Entry]]] = {}
"""What was read from a file when it had a size, a time and a number."""


def find(key: Key, file: Path | None) -> tuple[Entry | None, bool]:
    """The entry for a key, else the one for the nearest sizes; and whether it is for the same.

    Raises `Error` E0710 for a file that is damaged.
    """
    entries = read(where(file))
    near = [(key.distance(e.key), number) for number, e in enumerate(entries)]
    exact = [n for _, n in near if entries[n].key == key]
    if exact:
        return entries[exact[-1]], True
    distance, number = min(near, default=(math.inf, 0))
    return (entries[number], False) if math.isfinite(distance) else (None, False)


def read(path: Path) -> list[Entry]:
    """The entries of a file that this version understands; none if there is no file."""
    try:
        stat = path.stat()
    except OSError:
        return []
    state = stat.st_size, stat.st_mtime_ns, stat.st_ino
    if path not in _known or _known[path][0] != state:
        _known[path] = state, [e for e in map(_entry, _load(path)) if e is not None]
    return _known[path][1]


def _load(path: Path) -> list[Any]:
    """The entries of a file as data."""
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST >> 20} MB")
        data = json.loads(path.read_text("utf-8"))
        if not isinstance(data, dict) or not isinstance(data.get("entries"), list):
            raise ValueError("it has no list of entries")
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as problem:
        reason = str(getattr(problem, "strerror", None) or problem).lower()
        raise error(
            "E0710",
            f"the tuning file `{path}` cannot be used: {reason}",
            help="remove it, or name another with RICCI_TUNING_FILE",
        ) from None
    entries: list[Any] = data["entries"]
    return entries


def _entry(data: Any) -> Entry | None:
    """An entry from data; `None` if it is none, or of another version."""
    with suppress(Error, KeyError, TypeError, ValueError, AttributeError):
        if data["version"] != VERSION:
            return None
        key = Key(
            str(data["program"]),
            tuple(tuple(map(int, shape)) for shape in data["shapes"]),
            tuple((int(k), tuple(map(int, steps))) for k, steps in data["strides"]),
            str(data["dtypes"]),
            str(data["target"]),
            int(data["threads"]),
        )
        return Entry(
            key,
            str(data["name"]),
            tuple(None if s is None else from_json(s) for s in data["schedules"]),
            max(1, int(data["use_threads"])),
            float(data["before_ms"]),
            float(data["after_ms"]),
            str(data["date"]),
            str(data["ricci"]),
        )
    return None


# ---------------------------------------------------------------------- writing


def make_ready(file: Path | None) -> None:
    """Make sure that an entry can be kept: `Error` E0707 or E0710 if not."""
    path = where(file)
    read(path)
    with _reported(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            pass


def keep(entry: Entry, file: Path | None) -> None:
    """Add an entry, in place of one for the same key.

    Raises `Error` E0707 if the file cannot be written, E0710 if it is damaged.
    """
    path = where(file)
    with _reported(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            kept = [e for e in _load(path) if not _is_same(e, entry.key)]
            _write(path, [*kept, _as_data(entry)][-MOST_ENTRIES:])


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as problem:
        reason = str(getattr(problem, "strerror", None) or problem).lower()
        raise error("E0707", f"cannot write the tuning file `{path}`: {reason}") from None


def _is_same(data: Any, key: Key) -> bool:
    entry = _entry(data)
    return entry is not None and entry.key == key


def _as_data(entry: Entry) -> dict[str, Any]:
    key = entry.key
    return {
        "version": VERSION,
        "name": entry.name,
        "program": key.program,
        "shapes": [list(shape) for shape in key.shapes],
        "strides": [[k, list(steps)] for k, steps in key.strides],
        "dtypes": key.dtypes,
        "target": key.target,
        "threads": key.threads,
        "use_threads": entry.use_threads,
        "before_ms": entry.before,
        "after_ms": entry.after,
        "date": entry.date,
        "ricci": entry.ricci,
        "schedules": [None if s is None else to_json(s) for s in entry.schedules],
    }


def _write(path: Path, entries: Sequence[Any]) -> None:
    import tempfile

    rows = ",\n".join(_pretty(e) for e in entries)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f'{{"entries": [\n{rows}\n]}}\n')
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _pretty(entry: Any) -> str:
    """An entry with a line for each of its parts, and for each schedule."""
    if not isinstance(entry, dict):
        return json.dumps(entry)
    lines = []
    for name, value in entry.items():
        text = json.dumps(value)
        if name == "schedules" and isinstance(value, list):
            text = "[\n" + ",\n".join(f"   {json.dumps(s)}" for s in value) + "\n  ]"
        lines.append(f"  {json.dumps(name)}: {text}")
    return " {\n" + ",\n".join(lines) + "\n }"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock beside a file; `OSError` if another process holds it for too long."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system: the last one to write wins
        yield
        return
    with open(path.with_name(path.name + ".lock"), "w") as file:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise OSError("another process holds its lock") from None
                time.sleep(0.02)
        yield
