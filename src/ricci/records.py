"""Data classes as `dataclasses` has them, in a quarter of the time to define, and a third to make.

For type checkers they are those of the standard library, and frozen ones are frozen; at run time
nothing guards these, since that takes longer than all else when one is made. A network is tens of
thousands of nodes, and what compiles it hundreds of classes. Ports, diagnostics and results, which
callers get, are of classes of the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["cached_property", "dataclass", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass, replace
    from functools import cached_property
else:
    import dataclasses
    from dataclasses import MISSING
    from functools import cache
    from reprlib import recursive_repr

    def dataclass(
        cls=None, /, *, frozen=False, eq=True, slots=False, kw_only=False, weakref_slot=False
    ):
        """As `dataclasses.dataclass`."""

        def made(cls):
            # without any it would get a signature, which takes as long again
            cls.__doc__ = cls.__doc__ or cls.__name__
            cls = dataclasses.dataclass(
                cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only,
                weakref_slot=weakref_slot,
            )  # fmt: skip
            fields = dataclasses.fields(cls)
            texts, names = _init(cls, fields)
            own = cls.__dict__
            if eq:
                compared = "".join(f"self.{f.name}, " for f in fields if f.compare)
                texts += _comparison(compared, frozen and own.get("__hash__") is None)
                if not frozen and own.get("__hash__") is None:
                    cls.__hash__ = None
            defined = {}
            exec("\n".join(texts), names, defined)
            defined["__repr__"] = _repr
            for name, function in defined.items():
                if name not in own or name == "__hash__":
                    setattr(cls, name, function)
            return cls

        return made if cls is None else made(cls)

    def _init(cls, fields):
        """The text of `__init__`, and the names in it."""
        names, given, lines = {"MISSING": MISSING}, [], []
        for f in fields:
            default, factory = f"default_{f.name}", f"factory_{f.name}"
            names[default], names[factory] = f.default, f.default_factory
            known = f.default is not MISSING or f.default_factory is not MISSING
            value = f.name if f.init else default
            if f.default_factory is not MISSING:
                value = f"{factory}()"
                if f.init:
                    value = f"{value} if {f.name} is MISSING else {f.name}"
            if f.init:
                given.append((f.kw_only, f"{f.name}={default}" if known else f.name))
            if f.init or known:
                lines.append(f"    self.{f.name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("    self.__post_init__()")
        head = ["self", *(text for by_name, text in given if not by_name)]
        rest = [text for by_name, text in given if by_name]
        if rest:
            head += ["*", *rest]
        return [f"def __init__({', '.join(head)}):", *(lines or ["    pass"])], names

    def _comparison(compared, hashed):
        other = compared.replace("self.", "other.")
        texts = [
            "def __eq__(self, other):",
            "    if other.__class__ is not self.__class__:",
            "        return NotImplemented",
            f"    return ({compared}) == ({other})",
        ]
        if hashed:
            texts += ["def __hash__(self):", f"    return hash(({compared}))"]
        return texts

    @recursive_repr()
    def _repr(self):
        shown = (f for f in dataclasses.fields(self) if f.repr)
        parts = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in shown)
        return f"{self.__class__.__qualname__}({parts})"

    def replace(record, /, **changes):
        """As `dataclasses.replace`."""
        kind = record.__class__
        for name in _given(kind):
            if name not in changes:
                changes[name] = getattr(record, name)
        return kind(**changes)

    @cache
    def _given(kind):
        """The names of the fields that are given when one is made."""
        return tuple(f.name for f in dataclasses.fields(kind) if f.init)

    class cached_property:
        """As `functools.cached_property`, without the lock that it has before Python 3.12."""

        def __init__(self, compute):
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, record, owner=None):
            if record is None:
                return self
            value = record.__dict__[self._name] = self._compute(record)
            return value
