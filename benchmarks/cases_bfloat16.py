"""Models, layers, products and attention in bfloat16, beside others that compute with such numbers.

Everybody has the same weights, of float32 at first, which each side rounds. PyTorch and Ricci take
and give bfloat16, OpenVINO float32, which it converts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from . import cases_convolutions, cases_models, cases_parts, cases_products, models
from .cases import Case, Row

DIFFERENT = 0.1
"""A scaled error that no rounding of networks to eight bits explains."""


def rows() -> Iterator[Row]:
    for name in models.NAMES:
        for batch in cases_models.BATCHES:
            family = partial(narrow, cases_models.case, name, batch)
            yield Row("bfloat16", f"{name} in bfloat16, batch {batch}", family, (), batch)
    for sizes in ((64, 64, 56, 3), (64, 256, 56, 1), (256, 256, 14, 3), (512, 512, 7, 3)):
        yield Row("bfloat16", "conv {3}x{3} {0}-{1} @{2} in bfloat16", _layer, sizes)
    for sizes in ((128, 1024, 1024), (197, 768, 3072), (1024, 1024, 1024)):
        family = partial(narrow, cases_products.constant)
        yield Row("bfloat16", "{}x{} by {} in bfloat16", family, sizes)
    for sizes in ((12, 512), (12, 1024), (16, 4096)):
        family = partial(narrow, cases_parts.attention)
        yield Row("bfloat16", "attention of {} heads, {} tokens in bfloat16", family, sizes)


def narrow(make: Callable[..., Case], *sizes: object) -> Case:
    """A case of which all sides compute with bfloat16."""
    return replace(make(*sizes), real="bfloat16", different=DIFFERENT)


def _layer(channels: int, filters: int, size: int, window: int) -> Case:
    layer = partial(cases_convolutions.convolution, window=window, stride=1, dilation=1, batch=1)
    return narrow(layer, channels, filters, size, 1)
