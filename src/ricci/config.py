"""The settings that the environment can change: one table, and nothing outside it.

Arguments of functions come first, then the environment, then the default. An empty variable
counts as absent.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .diagnostics import error
from .records import dataclass


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting. `cached` says whether its value is part of the key of compiled code."""

    name: str
    variable: str
    type: type[bool] | type[int] | type[str] | type[Path]
    default: bool | int | str | Path | Callable[[], Path]
    help: str
    cached: bool = False

    def value(self) -> Any:
        """The value now, of the knob's type; `Error` E0709 if the environment's is malformed."""
        text = os.environ.get(self.variable, "")
        if not text:
            return self.default() if callable(self.default) else self.default
        try:
            return _read(self.type, text)
        except (ValueError, RuntimeError):
            expected = _EXPECTED[self.type]
            raise error(
                "E0709",
                f"the environment variable {self.variable} must be {expected}, not {text!r}",
                notes=[f"{self.variable}: {self.help}"],
            ) from None


def get(name: str) -> Any:
    """The value of the setting `name`, of the type that the table gives."""
    return _BY_NAME[name].value()


def cache_key() -> tuple[tuple[str, Any], ...]:
    """The settings that change generated code, for the key of the cache."""
    return tuple((k.name, k.value()) for k in KNOBS if k.cached)


def _cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base:
        return Path(base) / "ricci"
    try:
        return Path.home() / ".cache" / "ricci"
    except RuntimeError:  # a user without a home: nothing can be kept there
        return Path(os.devnull) / "ricci"


def _tuning_file() -> Path:
    return Path(get("cache_dir")) / "tuning.json"


def _read(kind: type, text: str) -> bool | int | str | Path:
    if kind is bool:
        return _read_switch(text.strip().lower())
    if kind is int:
        number = int(text)
        if number < 0:
            raise ValueError
        return number
    return Path(text).expanduser() if kind is Path else text


def _read_switch(text: str) -> bool:
    if text not in _SWITCHES:
        raise ValueError
    return _SWITCHES[text]


_EXPECTED: dict[type, str] = {
    bool: "0 or 1",
    int: "an integer that is not negative",
    Path: "a folder whose `~user` exists",
}

_SWITCHES = {"1": True, "true": True, "yes": True, "on": True}
_SWITCHES |= {"0": False, "false": False, "no": False, "off": False}

KNOBS = (
    Knob("cache_dir", "RICCI_CACHE_DIR", Path, _cache_dir, "where compiled code is kept"),
    Knob("no_cache", "RICCI_NO_CACHE", bool, False, "compile anew, and keep nothing on disk"),
    Knob(
        "tuning_file",
        "RICCI_TUNING_FILE",
        Path,
        _tuning_file,
        "where what tuning has found is kept",
    ),
    Knob("verify", "RICCI_VERIFY", bool, False, "check the program after each pass (slow)"),
    Knob(
        "integers",
        "RICCI_INTEGERS",
        bool,
        True,
        "keep quantised tensors as small integers, in which NaN is zero",
        cached=True,
    ),
    Knob(
        "loop_steps",
        "RICCI_LOOP_STEPS",
        int,
        0,
        "most steps of the loops of a call; 0: 2^31, in the interpreter 2^20",
    ),
    Knob(
        "keep_results",
        "RICCI_KEEP_RESULTS",
        int,
        256,
        "megabytes of big results that are kept, to be used again when nobody has them",
    ),
    Knob(
        "winograd",
        "RICCI_WINOGRAD",
        bool,
        True,
        "save products of 3x3 filters, by sums and differences (Winograd); it costs a bit",
    ),
    Knob(
        "matrices",
        "RICCI_MATRICES",
        bool,
        True,
        "multiply float32 in parts by matrices in registers (AMX); numbers below 8e-34 lose bits",
    ),
    Knob(
        "compiler_process",
        "RICCI_COMPILER_PROCESS",
        bool,
        True,
        "compile large programs in a process of their own, whose memory is given back",
    ),
    Knob("threads", "RICCI_THREADS", int, 0, "threads of a compiled model; 0: one per core"),
)

_BY_NAME = {knob.name: knob for knob in KNOBS}
