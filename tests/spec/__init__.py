"""The specification of SkriptND, section by section: cases that both executors must compute.

A module here that has a list `CASES` is found by itself; see `case.py` for how to add one.
"""

from __future__ import annotations

import importlib
import pkgutil

from .case import Case


def all_cases() -> list[Case]:
    """The cases of all modules of this package, in order of their names."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    modules = [importlib.import_module(f"{__name__}.{n}") for n in names if n[:5] != "test_"]
    return [case for module in modules for case in getattr(module, "CASES", [])]
