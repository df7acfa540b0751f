"""SHA-256 without OpenSSL, which `hashlib` loads: four megabytes, and a part of every start.

Python has the function by itself, too; only for what is long it takes much longer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Protocol

_LONG = 1 << 20
"""Bytes for which OpenSSL is worth loading."""


class Hash(Protocol):
    """What is being hashed."""

    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...

    def hexdigest(self) -> str: ...


def sha256(data: bytes = b"") -> Hash:
    """The hash of some bytes, and of those it is updated with."""
    make = _from_openssl() if len(data) > _LONG else _built_in()
    return make(data)


@cache
def _built_in() -> Callable[[bytes], Hash]:
    for name in ("_sha2", "_sha256"):  # since Python 3.12, and before
        with suppress(ImportError):
            module: Any = importlib.import_module(name)
            found: Callable[[bytes], Hash] = module.sha256
            return found
    return _from_openssl()


def _from_openssl() -> Callable[[bytes], Hash]:
    import hashlib

    return hashlib.sha256
