"""Names that look alike, for the help lines of diagnostics."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 64
"""Length of names from which nothing is compared: the time grows with its square."""

_MOST = 300
"""How many names are compared, those of like length first."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """A help line with the names that look alike; empty when none does."""
    choices = list(choices)
    near = {c for c in choices if abs(len(c) - len(name)) <= 4 and len(c) < _LONGEST}
    nearest = sorted(near, key=lambda c: (abs(len(c) - len(name)), c))[:_MOST]
    close = get_close_matches(name, nearest, n=2, cutoff=0.6)
    if not close:
        lower = {c.lower(): c for c in choices}
        close = [lower[name.lower()]] if name.lower() in lower else []
    return "did you mean " + " or ".join(f"`{c}`" for c in close) + "?" if close else ""
