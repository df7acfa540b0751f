"""Claims that cannot hold together: the fewest that contradict one another, named with places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...diagnostics import Diagnostic, Label
from ...records import dataclass
from ...source import Span
from .relations import INFINITY, Box, Empty, Relation, System
from .search import Exhausted, core, search

_WORK = 6000
"""Relations that one test may narrow; where that is not enough, claims count as possible."""

_ALL_WORK = 30_000
"""Relations that may be narrowed to find the fewest claims."""

_WIDEST = 1 << 12
"""How many values are tried of an unknown that nothing bounds."""


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """Relations that a line states, or that are inferred at a place; `why` is a clause."""

    relations: tuple[Relation, ...]
    why: str
    span: Span
    is_line: bool


def are_possible(claims: Iterable[Claim], start: Box) -> bool:
    """Whether there are values that satisfy claims, as far as a short search tells."""
    return _Test(claims, start).run(_WORK)


class _Test:
    """A search for values that satisfy claims."""

    def __init__(self, claims: Iterable[Claim], start: Box) -> None:
        self.system = System([relation for claim in claims for relation in claim.relations])
        self.box = dict(start)
        self.certain = True
        """Whether all values were tried, if none was found."""

    def run(self, limit: int) -> bool:
        try:
            self.system.narrow(self.box)
            order = [key for key in self.box if self.system.uses(key)]
            for key in order:
                low, high = self.box[key]
                if high > INFINITY // 2:
                    self.box[key] = (low, max(low, 0) + _WIDEST)
                    self.certain = False
            self.system.narrow(self.box)
            next(search(self.system, self.box, order, limit))
        except (Empty, StopIteration):
            return False
        except Exhausted:
            pass
        return True


def contradiction(
    claims: Sequence[Claim], start: Box, what: str, notes: Sequence[str] = ()
) -> Diagnostic:
    """The finding that there are no values of `what`; the fewest claims that say so are named."""
    if are_possible(claims, start):
        return _not_found(claims, what, notes)
    found, certain = _fewest(claims, start)
    lines = [claim for claim in found if claim.is_line]
    last = (lines or found)[-1]
    labels = [_label(claim) for claim in found if claim is not last]
    message = _message(found, lines) + (
        f": there are no such {what}" if certain else f": no such {what} were found"
    )
    return Diagnostic("E0420", message, last.span, labels=tuple(labels), notes=tuple(notes))


def _fewest(claims: Sequence[Claim], start: Box) -> tuple[list[Claim], bool]:
    """The fewest claims that are impossible, and whether that is certain."""
    left = _ALL_WORK

    def is_possible(some: Sequence[Claim]) -> bool:
        nonlocal left
        test = _Test(some, start)
        possible = left <= 0 or test.run(min(left, _WORK))
        left -= test.system.work
        return possible

    found = core(claims, is_possible)
    last = _Test(found, start)
    return found, not last.run(_WORK) and last.certain


def _message(found: Sequence[Claim], lines: Sequence[Claim]) -> str:
    if not lines:
        return found[-1].why
    if len(found) == 1:
        return f"{found[0].why} is impossible"
    texts = [line.why for line in lines]
    if len(lines) > 3:
        return f"these {len(lines)} lines cannot hold together"
    together = " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))
    if len(lines) == 1:
        return f"{together} contradicts what the program says"
    return f"{together} cannot hold together"


def _label(claim: Claim) -> Label:
    return Label(claim.span, "" if claim.is_line else claim.why)


def _not_found(claims: Sequence[Claim], what: str, notes: Sequence[str]) -> Diagnostic:
    lines = [claim for claim in claims if claim.is_line] or list(claims)
    return Diagnostic(
        "E0901",
        f"no {what} were found that satisfy all constraints",
        lines[-1].span,
        labels=tuple(Label(line.span, "") for line in lines[-8:-1]),
        notes=(*notes, "there may be some, but too many values do not fit"),
        help="narrow the intervals, so that more of the values in them fit",
    )
