"""Names of C for what a program calls as it likes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..diagnostics import error

_WORDS = """
alignas alignof and and_eq asm assert atomic_cancel atomic_commit atomic_noexcept auto bitand bitor
bool break case catch char char8_t char16_t char32_t class co_await co_return co_yield compl
complex concept const const_cast consteval constexpr constinit continue decltype default delete do
double dynamic_cast else enum errno explicit export extern false float for friend goto i386 if
imaginary inline int int8_t int16_t int32_t int64_t linux long mutable namespace new noexcept not
not_eq nullptr operator or or_eq private protected public reflexpr register reinterpret_cast
requires restrict return short signed sizeof size_t static static_assert static_cast stderr stdin
stdout struct switch synchronized template this thread_local throw true try typedef typeid typename
typeof uint8_t uint16_t uint32_t uint64_t union unix unsigned using virtual void volatile wchar_t
while xor xor_eq NULL
"""
RESERVED = frozenset(_WORDS.split())
"""Keywords of C and C++, and what headers and compilers define."""


def identifier(text: str, otherwise: str = "x") -> str:
    """A name of C that is as near to a text as can be."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_") or otherwise
    if not name[0].isalpha():
        name = f"{otherwise}{name}"
    return f"{name}_" if name in RESERVED else name


class Names:
    """Names that differ from one another."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def new(self, text: str) -> str:
        """A name for something that is called so."""
        name = first = identifier(text)
        count = 1
        while name in self._taken:
            count += 1
            name = f"{first.rstrip('_')}_{count}"
        self._taken.add(name)
        return name


_NEEDED = ("pthread", "sched")
"""What functions of the system begin with that an object may need."""


def prefix_for(name: str) -> str:
    """What the functions of a model begin with, by the name of its graph."""
    found = identifier(name, "model")
    return f"{found}_model" if found in _NEEDED else found.rstrip("_")


def check_prefix(name: object) -> str:
    """The name that a user gives; `Error` E0801 if functions cannot begin with it."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        shown = f"{name!r:.60}"
        help = f"`{prefix_for(name)}` would do" if isinstance(name, str) else ""
        raise error("E0801", f"functions of C cannot begin with {shown}", help=help)
    if name in _NEEDED:
        raise error("E0801", f"functions of the system begin with `{name}`")
    return name
