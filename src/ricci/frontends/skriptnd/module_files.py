"""Which files the modules of a program are in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...diagnostics import error
from ...source import Source
from ..reading import read_source

Main = tuple[Source, str, Path]
"""A main module: its text, its name, and the folder in which others are looked for."""


def main_module(path: Path) -> Main:
    """The main module of a model folder or a single file."""
    return main_of_folder(path) if path.is_dir() else main_of_file(path)


def main_of_file(path: Path) -> Main:
    """The main module of a single file, which has the name of the file.

    Spec: silent. Ricci: its other modules are looked for beside the file.
    """
    return read_source(path), path.stem, path.parent


def main_of_folder(path: Path) -> Main:
    """The main module of a model folder, the file `main.sknd`.

    Raises `Error` E0701 if there is no such file, or it cannot be read.
    """
    main = path / "main.sknd"
    if not _is_there(main):
        raise error(
            "E0701",
            f"the folder `{path}` has no main module",
            help="a model folder holds a file `main.sknd`",
        )
    return read_source(main), "main", path


def _is_there(path: Path) -> bool:
    """Whether there is a file, or something that cannot be looked at: reading it tells why."""
    try:
        return path.is_file()
    except OSError:
        return True


def local_path(parts: Sequence[str], folder: Path | None) -> Path | None:
    """The file of a module of the folder, if there is one; no link leads out of the folder."""
    if folder is None:
        return None
    path = folder.joinpath(*parts).with_suffix(".sknd")
    try:
        inside = path.is_file() and path.resolve().is_relative_to(folder.resolve())
    except OSError:  # a name that is too long for the file system, or a circle of links
        return None
    return path if inside else None
