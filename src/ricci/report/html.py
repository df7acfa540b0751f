"""HTML from Python, in which all text is escaped unless it is HTML already."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]"
)
"""Control characters, halves of characters, and what turns the direction of text around."""
_EMPTY = ("meta", "br", "input", "rect", "path", "line", "circle")
"""Elements that are not closed, or are drawn with attributes alone."""


class Html(str):
    """Text that is HTML."""

    __slots__ = ()


def escape(text: object) -> Html:
    """Any text as HTML."""
    return (
        text if isinstance(text, Html) else Html(html.escape(_UNPRINTABLE.sub("\ufffd", str(text))))
    )


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element. Attributes that are none are left out; `class_` is `class`, `data_x` `data-x`."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            words.append(f'{key.rstrip("_").replace("_", "-")}="{escape(_shown(value))}"')
    if name in _EMPTY and not children:
        return Html(f"<{' '.join(words)}/>")
    return Html(f"<{' '.join(words)}>{join(children)}</{name}>")


def join(parts: Iterable[object]) -> Html:
    return Html("".join(map(escape, parts)))


def _shown(value: object) -> object:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value


def shorten(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def amount(count: float) -> str:
    """`1.5 G`."""
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f}"


def duration(seconds: float) -> str:
    """`1.5 ms`."""
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds * 1e6:.2f} µs"
