"""Making a case that is a bug smaller, as long as it stays the same bug."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from .isolate import run_apart
from .run import Case

Test = Callable[[Sequence[str]], bool]


SECONDS = 60.0
"""After this time a case is small enough."""


def minimise(case: Case, bug: str) -> Case:
    """The case with as little of its text, files and calls as the bug needs."""
    end = time.monotonic() + SECONDS

    def is_bug(candidate: Case) -> bool:
        return time.monotonic() < end and run_apart(candidate).bug == bug

    if not is_bug(case):
        return case
    for smaller in _parts(case):
        if is_bug(smaller(case)):
            case = smaller(case)
    if "text" in case:
        for pattern in (r"[^\n]*\n?", r"\s+|\w+|."):
            pieces = [p for p in re.findall(pattern, case["text"], re.S) if p]
            case = _with_text(case, is_bug, pieces)
    if "seeds" in case:
        for seed in case["seeds"]:
            if is_bug({**case, "seeds": [seed]}):
                return {**case, "seeds": [seed]}
    if "files" in case:
        for name in list(case["files"]):
            fewer = {k: v for k, v in case["files"].items() if k != name}
            if is_bug({**case, "files": fewer}):
                case = {**case, "files": fewer}
    return case


def _parts(case: Case) -> Iterator[Callable[[Case], Case]]:
    """Ways to leave a part of a case out."""
    for key in ("attribs", "types", "graph", "steps"):
        if key in case:
            yield partial(_without, key)
    for key in ("steps", "calls", "commands"):
        for item in case.get(key, ()):
            yield partial(_only, key, item)


def _without(key: str, case: Case) -> Case:
    return {k: v for k, v in case.items() if k != key}


def _only(key: str, item: object, case: Case) -> Case:
    return {**case, key: [item]} if key in case else case


def _with_text(case: Case, is_bug: Callable[[Case], bool], pieces: Sequence[str]) -> Case:
    """As few pieces of text as the bug needs."""
    kept = shrink(pieces, lambda part: is_bug({**case, "text": "".join(part)}))
    return {**case, "text": "".join(kept)}


def shrink(pieces: Sequence[str], is_bug: Test) -> list[str]:
    """As few of the pieces as `is_bug` holds for: halves, quarters ... are left out in turn."""
    kept = list(pieces)
    size = len(kept) // 2
    while size:
        start = 0
        while start < len(kept):
            fewer = kept[:start] + kept[start + size :]
            if is_bug(fewer):
                kept = fewer
            else:
                start += size
        size //= 2
    return kept
