"""Object files loaded without LLVM: those that it writes for x86-64 under Linux.

LLVM's own loader takes sixty megabytes of memory and a quarter of the time of a start. What the
code generator writes for code that is loaded at once is simple: sections, symbols, and
addresses of 64 bits to be filled in. Whatever else there is in a file is for LLVM.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from functools import cache

from ...records import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SIMPLE = b"\x7fELF\x02\x01\x01"
"""The magic number, and: 64 bits, little-endian, version 1."""

_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELOCATIONS, _WITHOUT_DATA = 2, 4, 8
_WRITABLE, _ALLOCATED, _THREAD = 1, 2, 0x400
_UNDEFINED = 0
_LOCAL = 0
_ADDRESS, _DISTANCE_32, _DISTANCE_64 = 1, 2, 24
"""Relocations: the address; how far it is, in 32 and in 64 bits."""


class Unknown(Exception):
    """What this loader does not know."""


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int

    @property
    def is_loaded(self) -> bool:
        """Whether the code needs it: nothing is ever thrown through it."""
        return bool(self.flags & _ALLOCATED) and self.name != ".eh_frame"


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    is_local: bool
    section: int
    value: int


class _File:
    """One object file, taken apart."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        header = _HEADER.unpack_from(data)
        if data[:7] != _SIMPLE or header[1:3] != (_RELOCATABLE, _X86_64):
            raise Unknown
        first, size, count, names = header[6], header[11], header[12], header[13]
        raw = [_SECTION.unpack_from(data, first + size * k) for k in range(count)]
        self.sections = [
            _Section(self._text(raw[names][4], s[0]), s[1], s[2], s[4], s[5], s[6], s[7], s[8])
            for s in raw
        ]
        if any(s.flags & _THREAD for s in self.sections):
            raise Unknown
        self.symbols: list[_Symbol] = []
        for section in self.sections:
            if section.kind == _SYMBOLS:
                self.symbols = list(self._symbols(section))

    def _text(self, table: int, offset: int) -> str:
        start = table + offset
        return self.data[start : self.data.index(b"\0", start)].decode()

    def part(self, section: _Section) -> bytes:
        return self.data[section.offset : section.offset + section.size]

    def _symbols(self, section: _Section) -> Sequence[_Symbol]:
        names = self.sections[section.link].offset
        return [
            _Symbol(self._text(names, name), info >> 4 == _LOCAL, where, value)
            for name, info, _, where, value, _ in _SYMBOL.iter_unpack(self.part(section))
        ]


class Code:
    """Functions of object files in memory, for as long as this object lives.

    Raises `Unknown` for files that this loader does not know, or names that are nowhere.
    """

    def __init__(self, objects: Sequence[bytes]) -> None:
        if sys.platform != "linux" or platform.machine() != "x86_64":
            raise Unknown
        try:
            self._files = [_File(data) for data in objects]
            self._load()
        except (struct.error, ValueError, IndexError, OverflowError, OSError) as problem:
            raise Unknown from problem

    def address(self, symbol: str) -> int:
        """Where a function is; 0 if there is none."""
        return self._known.get(symbol, 0)

    def _load(self) -> None:
        places, size, self._code_size = self._arranged()
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, max(size, 1), flags=flags)
        self._first = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._places = {key: self._first + place for key, place in places.items()}
        self._known = dict(self._defined())
        for number, file in enumerate(self._files):
            self._copy(number, file)
            self._relocate(number, file)
        if _protect()(self._first, self._code_size, mmap.PROT_READ | mmap.PROT_EXEC):
            raise Unknown
        self._files = []

    def _arranged(self) -> tuple[dict[tuple[int, int], int], int, int]:
        """Where each section goes, and the size of all: what can be written to is behind, on pages
        of its own. What stands before takes the last number of bytes."""
        places: dict[tuple[int, int], int] = {}
        at = 0
        for writable in (0, _WRITABLE):
            for number, file in enumerate(self._files):
                for k, section in enumerate(file.sections):
                    if section.is_loaded and section.flags & _WRITABLE == writable:
                        at = -(-at // max(section.align, 1)) * max(section.align, 1)
                        places[number, k] = at
                        at += section.size
            if not writable:
                code_size = at = -(-at // mmap.PAGESIZE) * mmap.PAGESIZE
        return places, at, code_size

    def _defined(self) -> Mapping[str, int]:
        return {
            s.name: self._places[number, s.section] + s.value
            for number, file in enumerate(self._files)
            for s in file.symbols
            if not s.is_local and (number, s.section) in self._places
        }

    def _copy(self, number: int, file: _File) -> None:
        for k, section in enumerate(file.sections):
            if (number, k) in self._places and section.kind != _WITHOUT_DATA:
                start = self._places[number, k] - self._first
                self._memory[start : start + section.size] = file.part(section)

    def _relocate(self, number: int, file: _File) -> None:
        for section in file.sections:
            place = self._places.get((number, section.info))
            if section.kind != _RELOCATIONS or place is None:
                continue
            for offset, info, addend in _RELOCATION.iter_unpack(file.part(section)):
                symbol = self._value(number, file.symbols[info >> 32])
                self._fill(place + offset, info & 0xFFFFFFFF, symbol + addend)

    def _value(self, number: int, symbol: _Symbol) -> int:
        if (number, symbol.section) in self._places:
            return self._places[number, symbol.section] + symbol.value
        if symbol.section != _UNDEFINED:
            raise Unknown
        return self._known.get(symbol.name) or _outside(symbol.name)

    def _fill(self, place: int, kind: int, target: int) -> None:
        at = place - self._first
        if kind == _ADDRESS:
            struct.pack_into("<Q", self._memory, at, target)
        elif kind == _DISTANCE_64:
            struct.pack_into("<q", self._memory, at, target - place)
        elif kind == _DISTANCE_32:
            struct.pack_into("<i", self._memory, at, target - place)
        else:
            raise Unknown


def _outside(name: str) -> int:
    """A function of the libraries of this process."""
    try:
        return ctypes.cast(getattr(_process(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise Unknown from None


@cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@cache
def _protect() -> ctypes._NamedFuncPointer:
    function = _process().mprotect
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function
