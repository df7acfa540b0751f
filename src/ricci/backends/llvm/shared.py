"""Functions that several kernels have, such as register tiles: a third of a network's text.

Those that call nothing of their kernel's are told apart by what they do, and stand in the first
file that needs them.
"""

from __future__ import annotations

import re

from ...hashes import sha256
from ...records import replace
from .kernels import KernelCode

_FUNCTION = re.compile(
    r"^define internal (?P<type>[^@\n]*)@(?P<name>kernel\.[\w.]+)(?P<arguments>\([^{\n]*\))"
    r"(?P<body>[^\n]*\{\n.*?^\}\n?)",
    re.MULTILINE | re.DOTALL,
)
_NAME = re.compile(r"@(kernel\.[\w.]+)")


class Shared:
    """The functions of kernels that are compiled alike."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known: set[str] = set()
        self._here: set[str] = set()
        """Those that stand in the file which is being put together."""

    def without(self, code: KernelCode) -> KernelCode:
        """A kernel that declares what stands before it."""
        names: dict[str, str] = {}
        declared: set[str] = set()

        def moved(function: re.Match[str]) -> str:
            body = function["arguments"] + function["body"]
            if "@kernel" in body:
                return function[0]
            digest = sha256((function["type"] + body).encode()).hexdigest()[:24]
            name = names[function["name"]] = self._prefix + digest
            if name not in self._known:
                self._known.add(name)
                self._here.add(name)
                return f"define {function['type']}@{name}{body}"
            if name not in self._here:
                declared.add(f"declare {function['type']}@{name}{function['arguments']}")
            return ""

        text = _FUNCTION.sub(moved, code.text)
        if not names:
            return code
        text = _NAME.sub(lambda found: "@" + names.get(found[1], found[1]), text)
        return replace(code, text=text, declarations=code.declarations | declared)

    def end_file(self) -> None:
        """What comes next stands in another file."""
        self._here.clear()
