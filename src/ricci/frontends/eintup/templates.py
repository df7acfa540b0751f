"""Shapes written under the groups of an array, with carets under some sizes.

filters[fpos.., ichan, ochan]
        3, 3    5      4
                ^ 3 would fit
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...records import dataclass
from . import syntax as s
from .printer import print_index
from .program import Array, Program

Ranks = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands for one dimension; marked ones get carets, and the last caption is shown."""

    text: str
    marked: bool = False
    caption: str = ""
    extra: bool = False
    """Whether the template has no dimension for it."""


def group_text(item: s.IndexExpr, rank: int) -> str:
    """A group as a template spells it: `chan`, and `pos..` unless it has one component."""
    if isinstance(item, s.Eintup) and rank != 1:
        return f"{item.name}.."
    return print_index(item)


def template_rows(
    program: Program, array: Array, ranks: Ranks, entries: Sequence[Entry]
) -> list[str]:
    """The template, the entries under their groups, and the carets if there are any."""
    head, sizes, marks = f"{array.name}[", "", ""
    rest = list(entries)
    for place, item in enumerate(array.signature):
        rank = program.ranks.rank_of(item, ranks)
        last = place == len(array.signature) - 1
        own = _take(rest, rank, last)
        text = group_text(item, rank) + ("]" if last else ",")
        below = ", ".join(entry.text for entry in own)
        width = len(head)
        sizes = f"{sizes.ljust(width)}{below}"
        marks += "".join(_carets(own, width, len(marks)))
        head += text if last else text.ljust(len(below)) + " "
    captions = [entry.caption for entry in entries if entry.marked and entry.caption]
    rows = [head, sizes]
    if marks:
        rows.append(" ".join([marks, *dict.fromkeys(captions)]))
    return [row.rstrip() for row in rows]


def _take(rest: list[Entry], rank: int, last: bool) -> list[Entry]:
    """The entries of one group, surplus ones included."""
    own: list[Entry] = []
    while rest and (last or rest[0].extra or sum(not e.extra for e in own) < rank):
        own.append(rest.pop(0))
    return own


def _carets(entries: Iterable[Entry], start: int, length: int) -> Iterator[str]:
    """What a row of carets, so far of some length, goes on with."""
    for entry in entries:
        if entry.marked:
            yield " " * (start - length) + "^" * len(entry.text)
            length = start + len(entry.text)
        start += len(entry.text) + 2


def plain_template(program: Program, array: Array, ranks: Ranks) -> str:
    """`filters[fpos.., ichan, ochan]`."""
    groups = [group_text(i, program.ranks.rank_of(i, ranks)) for i in array.signature]
    return f"{array.name}[{', '.join(groups)}]"
