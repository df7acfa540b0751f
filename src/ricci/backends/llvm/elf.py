"""What an object file of ELF says of itself: its machine, and the functions that it needs.

Source: System V Application Binary Interface, chapter 4, "Object Files" (64 bits, little-endian).
"""

from __future__ import annotations

import struct

_SYMBOLS = 2
"""The type of a section with symbols."""


def is_elf(data: bytes) -> bool:
    return data[:4] == b"\x7fELF"


def machine_of(data: bytes) -> int:
    """The number of the processor that code is for: 62 is x86-64, 183 AArch64."""
    return int(struct.unpack_from("<H", data, 18)[0])


def undefined_symbols(data: bytes) -> tuple[str, ...]:
    """The names that other objects have to define, sorted; none if the file is not ELF."""
    if not is_elf(data):
        return ()
    (sections,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, sections + k * size) for k in range(count)]
    found: set[str] = set()
    for _, kind, _, _, offset, length, link, _, _, width in headers:
        if kind == _SYMBOLS:
            names = headers[link][4]
            for at in range(offset, offset + length, width):
                name, _, _, section = struct.unpack_from("<IBBH", data, at)
                if section == 0 and name:
                    start = names + name
                    found.add(data[start : data.index(b"\0", start)].decode())
    return tuple(sorted(found))
