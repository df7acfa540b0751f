"""Writing the files of a build."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ..diagnostics import error


def write_files(folder: Path, files: Mapping[str, bytes], force: bool) -> tuple[Path, ...]:
    """Write files into a folder, which is made; `Error` E0707 if one is there or cannot be written.

    With `force` those that are there are replaced.
    """
    paths = {folder / name: data for name, data in files.items()}
    present = [p for p in paths if p.exists() or p.is_symlink()]
    if present and not force:
        raise error(
            "E0707", f"cannot write `{present[0]}`: it exists",
            help="--force, or `force=True`, replaces what is there",
        )  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, data in paths.items():
            path.write_bytes(data)
    except (OSError, ValueError) as problem:
        for path in {*paths} - {*present}:
            with suppress(OSError, ValueError):
                path.unlink(missing_ok=True)  # a half written file would be there next time
        reason = (getattr(problem, "strerror", None) or str(problem)).lower()
        raise error("E0707", f"cannot write into `{folder}`: {reason}") from problem
    return tuple(paths)
