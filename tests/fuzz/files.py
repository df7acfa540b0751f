"""Model folders with damaged files: bytes of tensor files, names, links, folders."""

from __future__ import annotations

import base64
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ricci.frontends.skriptnd.storage import write_tensor

Files = dict[str, dict[str, str]]
"""What is at each path: `text`, `bytes` in base 64, a `link` to somewhere, or a `folder`."""

MODEL = """import nn;
operator scale {
    @input { x: real[s..(d)]; }
    @variable { w: real[2]; flags: bool[3, 5]; }
    @output { y: real[s..]; }
    @lower { y[i..,] = x[i..,] * w[1], i < s; }
}
graph G {
    @attrib { n: int = 2; }
    @input { x: real[n, 3]; }
    @variable { kernel: real[4, 3]; bias: real[4]; codes: int[0, 2]; }
    @output { y: real[n, 4]; }
    @compose { h = a: scale(x); y = nn.linear(h, kernel, bias); }
}
"""

SMALL = "graph G { @variable { w: real[2, 2]; } @output { y: real[2, 2]; } @compose { y = w; } }"

NAMES = [
    "main.G.w.dat", ".T1.dat", ".T99999999999.dat", "main.G.w:1.dat", "a" * 200 + ".dat",
    "main.G.w.dat/x", "é.dat", "\n.dat", "main.sknd.dat", ".dat", "main.dat", "-x.dat", "w.dat",
    "main.G..dat", "main.G.w.DAT", "[0m.dat", "main.sknd/x", "nn.sknd", ".T.dat", ".T-1.dat",
    "\udcff.dat",
]  # fmt: skip


def write_files(folder: str, files: Files) -> None:
    """Make the files; what cannot be made, as a file in a file, is left out."""
    for name, content in files.items():
        path = Path(folder, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, content)
        except OSError:
            pass


def _write(path: Path, content: Mapping[str, str]) -> None:
    match content:
        case {"text": text}:
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
        case {"bytes": data}:
            path.write_bytes(base64.b64decode(data))
        case {"link": target}:
            path.symlink_to(target)
        case _:
            path.mkdir()


def make_files(rng: random.Random) -> Files:
    """A folder that is right, and then damaged."""
    files = _folder(rng)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        rng.choices([f for f, _ in _DAMAGE], [w for _, w in _DAMAGE])[0](files, rng)
    return files


def _folder(rng: random.Random) -> Files:
    text = rng.choice([MODEL, SMALL])
    if text is SMALL:
        return {"main.sknd": {"text": text}, "main.G.w.dat": _tensor(_random(rng, (2, 2)))}
    shapes = {"kernel": (4, 3), "bias": (4,), "a.w": (2,)}
    files: Files = {"main.sknd": {"text": text}}
    for name, shape in shapes.items():
        files[f"main.G.{name}.dat"] = _tensor(_random(rng, shape))
    files["main.G.a.flags.dat"] = _tensor(np.ones((3, 5), bool))
    files["main.G.codes.dat"] = _tensor(np.zeros((0, 2), np.int32))
    return files


def _random(rng: random.Random, shape: tuple[int, ...]) -> np.ndarray:
    return np.full(shape, rng.random(), rng.choice(["float32", "float32", "float64", "float16"]))


def _tensor(array: np.ndarray) -> dict[str, str]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "x.dat")
        write_tensor(path, array)
        return _bytes(path.read_bytes())


def _bytes(data: bytes) -> dict[str, str]:
    return {"bytes": base64.b64encode(data).decode()}


# ----------------------------------------------------------------------------- damage


def _pick(files: Files, rng: random.Random) -> str:
    return rng.choice(list(files) or ["main.sknd"])


def _data(files: Files, rng: random.Random) -> tuple[str, bytearray]:
    """A tensor file of the folder, and its bytes."""
    names = [n for n, f in files.items() if "bytes" in f]
    if not names:
        return "main.G.w.dat", bytearray(128)
    name = rng.choice(names)
    return name, bytearray(base64.b64decode(files[name]["bytes"]))


def _set_word(files: Files, rng: random.Random) -> None:
    """One of the header's words becomes another."""
    name, data = _data(files, rng)
    at = rng.choice([0, 4, 8, 8, 12, 16, 20, 40, 44, 48, 52, 56, rng.randrange(32) * 4])
    word = rng.choice([0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 32, 64, 65536, 2**31, 2**31 - 1, 2**32 - 1])
    if len(data) >= at + 4:
        struct.pack_into("<I", data, at, word)
    files[name] = _bytes(bytes(data))


def _set_extents(files: Files, rng: random.Random) -> None:
    """A shape whose product overflows, or is that of the file by chance."""
    name, data = _data(files, rng)
    rank = rng.choice([0, 1, 2, 4, 8, 9, 1000])
    extents = [rng.choice([0, 1, 2, 4, 65536, 2**31, 2**32 - 1]) for _ in range(8)]
    length = rng.choice([0, 4, 16, 2**32 - 1, len(data) - 128])
    if len(data) >= 128:
        struct.pack_into("<II8I", data, 4, max(0, length), rank, *extents)
    files[name] = _bytes(bytes(data))


def _cut(files: Files, rng: random.Random) -> None:
    name, data = _data(files, rng)
    size = rng.choice([0, 1, 2, 4, 127, 128, 129, len(data) - 1, len(data) + 1, rng.randrange(200)])
    files[name] = _bytes(bytes(data[:size]) + bytes(max(0, size - len(data))))


def _flip(files: Files, rng: random.Random) -> None:
    name, data = _data(files, rng)
    for _ in range(rng.choice([1, 1, 4, 30])):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    files[name] = _bytes(bytes(data))


def _remove(files: Files, rng: random.Random) -> None:
    files.pop(_pick(files, rng), None)


def _rename(files: Files, rng: random.Random) -> None:
    content = files.pop(_pick(files, rng), {"folder": ""})
    files[rng.choice(NAMES)] = content


def _copy(files: Files, rng: random.Random) -> None:
    files[rng.choice(NAMES)] = files.get(_pick(files, rng), {"folder": ""})


def _make_folder(files: Files, rng: random.Random) -> None:
    files[_pick(files, rng)] = {"folder": ""}


def _link(files: Files, rng: random.Random) -> None:
    name = _pick(files, rng)
    targets = [name, "..", ".", "/dev/zero", "/dev/null", "nowhere", "a/b", "/", _pick(files, rng)]
    files[name] = {"link": rng.choice(targets)}


def _set_text(files: Files, rng: random.Random) -> None:
    """The main module becomes another text, or no text."""
    imports = [f"import {m};" for m in ("m", "a.b", "main", "nn", "x" * 300, "a." * 300 + "b")]
    text = files.get("main.sknd", {}).get("text", SMALL)
    changed = rng.choice(
        [
            *("", "\0", "\ufeff" + text, text * 2, text.replace("\n", "\r")),
            text[: rng.randrange(len(text) + 1)],
            *(f"{i}\n{text}" for i in imports),
        ]
    )
    files["main.sknd"] = {"text": changed} if rng.random() < 0.8 else _bytes(b"\xff\xfexx")


def _add_module(files: Files, rng: random.Random) -> None:
    """The main module imports one, which imports others, the main one, or itself."""
    text = files.get("main.sknd", {}).get("text", SMALL)
    files["main.sknd"] = {"text": f"import m;\n{text}"}
    imported = rng.choice(["m", "main", "nn", "k", "a.b", "m, m"])
    rest = rng.choice(["", text, "graph H {}"])
    content: dict[str, str] = {"text": f"import {imported};\n{rest}"}
    if rng.random() < 0.2:
        content = {"link": rng.choice(["m.sknd", "main.sknd", "/etc/passwd", "../m.sknd"])}
    files["m.sknd"] = content
    if rng.random() < 0.5:
        files["a/b.sknd"] = {"text": "import m; operator f {}"}


_DAMAGE: Sequence[tuple[Callable[[Files, random.Random], None], int]] = [
    (_set_word, 6), (_set_extents, 4), (_cut, 3), (_flip, 4), (_remove, 2), (_rename, 3),
    (_copy, 2), (_make_folder, 1), (_link, 2), (_set_text, 2), (_add_module, 2),
]  # fmt: skip

PATHS = [
    *["."] * 20, "main.sknd", "main.sknd", "main.G.w.dat", "nowhere", "a/b.sknd", "./../.", "\0",
    "x" * 300,
]  # fmt: skip
