"""Which file of a model folder holds which variable.

A variable `main.G.conv.w` is in `main.G.conv.w.dat`. The tools that write folders have two more
ways, which are read as well; both say nothing new where a file has the right name:

* They print graphs flat: the variable `conv_w` of the text then is in `main.G.conv.w.dat`, and
  `ws_1` in `main.G.ws:1.dat`. Names agree if they do with `_` for each sign that is no letter or
  digit. The first part, the name of the main module when the folder was written, may differ.
* Variables within operators that are not public have generated names, `.T4.dat`. The numbers
  count all unnamed tensors in the order of composition, so their order is that of the variables.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from pathlib import Path

_GENERATED = re.compile(r"\.T(\d+)")


def variable_path(folder: Path, name: str) -> Path:
    """Where a model folder keeps the variable of that scoped name."""
    return folder / f"{name}.dat"


def is_stored(folder: Path, name: str) -> bool:
    """Whether there is a file of a variable, or one in a closed folder: reading it tells why."""
    try:
        return variable_path(folder, name).exists()
    except PermissionError:
        return True
    except OSError:  # a name that no file can have
        return False


def find_files(
    folder: Path, names: Sequence[str], optional: Container[str] = ()
) -> dict[str, Path]:
    """The files of variables, which are given in the order of composition.

    Those without a file are left out; the `optional` ones need none.
    """
    found = {n: variable_path(folder, n) for n in names if is_stored(folder, n)}
    left = [n for n in names if n not in found and n not in optional and n.startswith("main.")]
    if left:
        found |= _flat_names(left, _other_files(folder, found))
        left = [n for n in left if n not in found]
        found |= _generated_names(left, _other_files(folder, found))
    return found


def generated_files(folder: Path) -> list[Path]:
    """The files with generated names, in the order of their numbers."""
    return _generated(_other_files(folder, {}))


def _other_files(folder: Path, found: dict[str, Path]) -> list[Path]:
    taken = set(found.values())
    try:
        return sorted(p for p in folder.iterdir() if p.suffix == ".dat" and p not in taken)
    except OSError:
        return []


def _flat_names(names: Sequence[str], files: Sequence[Path]) -> dict[str, Path]:
    keys: dict[str, list[Path]] = {}
    for path in files:
        keys.setdefault(_key(path.stem), []).append(path)
    wanted = [(name, keys.get(_key(name), [])) for name in names]
    return {name: paths[0] for name, paths in wanted if len(paths) == 1}


def _key(name: str) -> str:
    """A scoped name without its module, flat; of a generated name, that without the point.

    `main.G.conv.w` and `main.G.conv_w` give `G_conv_w`; `.T1`, `main.G.T1` and `main.G._T1`
    give `T1`.
    """
    local = name.rpartition(".")[2].lstrip("_")
    if re.fullmatch(r"T\d+", local):
        return local
    return re.sub(r"\W", "_", name.partition(".")[2])


def _generated_names(names: Sequence[str], files: Sequence[Path]) -> dict[str, Path]:
    generated = _generated(files)
    return dict(zip(names, generated, strict=True)) if len(names) == len(generated) else {}


def _generated(files: Sequence[Path]) -> list[Path]:
    numbered = [(int(m[1]), p) for p in files if (m := _GENERATED.fullmatch(p.stem))]
    return [path for _, path in sorted(numbered)]
