"""All families of cases."""

from __future__ import annotations

from . import (
    blocks,
    elementwise,
    images,
    layers,
    layout,
    linalg,
    moving,
    neural,
    pooling,
    quantize,
    random,
    recurrent,
    reduction,
    regions,
    selection,
    windows,
)
from .case import Family

FAMILIES: list[Family] = [
    *layout.FAMILIES,
    *moving.FAMILIES,
    *blocks.FAMILIES,
    *elementwise.FAMILIES,
    *reduction.FAMILIES,
    *linalg.FAMILIES,
    *windows.FAMILIES,
    *pooling.FAMILIES,
    *neural.FAMILIES,
    *recurrent.FAMILIES,
    *layers.FAMILIES,
    *random.FAMILIES,
    *images.FAMILIES,
    *regions.FAMILIES,
    *quantize.FAMILIES,
    *selection.FAMILIES,
]
