"""All families of cases."""

from __future__ import annotations

from . import blocks, elementwise, layout, linalg, moving, neural, reduction, windows
from .case import Family

FAMILIES: list[Family] = [
    *layout.FAMILIES,
    *moving.FAMILIES,
    *blocks.FAMILIES,
    *elementwise.FAMILIES,
    *reduction.FAMILIES,
    *linalg.FAMILIES,
    *windows.FAMILIES,
    *neural.FAMILIES,
]
