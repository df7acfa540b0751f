"""Code for kernels that are alike: generated once, and then used with the tensors of each.

Networks repeat their layers, and generating the text of a kernel takes much longer than comparing
it. Two kernels are alike if they are equal up to the identities of tensors, indices and locals, and
up to names. Requires that generated text holds neither (`kernels.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field, fields
from functools import cache
from typing import Any

from ...diagnostics import Error
from ...ir.loops import Kernel
from ...ir.nodes import Access, Symbol, Tensor
from ...records import dataclass, replace
from ...source import Span
from .kernels import KernelCode, Prepare, generate
from .schedule import NO_SCHEDULES, Schedule, Schedules
from .steps import Site
from .target import Target

Key = tuple[object, ...]


@dataclass
class Codes:
    """The code of kernels, by what they are up to names."""

    target: Target
    strides: Mapping[Tensor, tuple[int, ...]] = field(default_factory=dict)
    """Of the tensors that are not row-major."""
    schedules: Schedules = NO_SCHEDULES
    """Of the kernels that are not prepared."""
    found: int = 0
    """How many kernels that are not alike have been asked for, of those."""
    ahead: Callable[[int], KernelCode | None] | None = None
    """Gives the code of an expected kernel, if another process has generated it."""
    met: dict[int, object] = field(default_factory=dict)
    """The tensors, symbols and sources of expected kernels, by identity."""
    _known: dict[Key, tuple[KernelCode, list[Tensor]]] = field(default_factory=dict)
    _expected: list[tuple[Kernel, frozenset[Tensor]]] = field(default_factory=list)
    _numbers: dict[Key, int] = field(default_factory=dict)
    _described: dict[int, tuple[Key, list[Tensor], Kernel]] = field(default_factory=dict)
    """By identity of the kernel, which is kept."""

    def expect(
        self, prepared: Iterable[Kernel], kernels: Iterable[Kernel], constant: frozenset[Tensor]
    ) -> int:
        """Note what `of` and then `scheduled` will be asked for, without schedules; how many there
        are that are not alike."""
        asked = [(k, None) for k in prepared] + [(k, constant) for k in kernels]
        for kernel, given in asked:
            key, _ = self._describe(kernel, given)
            if key not in self._numbers:
                self._numbers[key] = len(self._expected)
                self._expected.append((kernel, given or frozenset()))
        return len(self._expected)

    def generate(self, number: int) -> KernelCode:
        """The code of an expected kernel."""
        return self._generate(*self._expected[number], None)

    def of(self, kernel: Kernel) -> KernelCode:
        """What `generate` gives for a kernel that prepares something."""
        key, tensors = self._describe(kernel, None)
        return self._of(key, tensors, kernel, frozenset(), None)

    def scheduled(self, kernel: Kernel, constant: frozenset[Tensor]) -> KernelCode:
        """What `generate` gives for another one, by its schedule if there is one."""
        key, tensors = self._describe(kernel, constant)
        schedule = None
        if key not in self._known:
            given = self.schedules.kernels
            schedule = given[self.found] if self.found < len(given) else None
            self.found += 1
        return self._of(key, tensors, kernel, constant, schedule)

    def _describe(
        self, kernel: Kernel, constant: frozenset[Tensor] | None
    ) -> tuple[Key, list[Tensor]]:
        """What `describe` says, once for each kernel, also of whether it prepares something: there
        is nothing constant for it then."""
        if id(kernel) not in self._described:
            key, tensors = describe(kernel, constant or frozenset(), self.strides, self.met)
            self._described[id(kernel)] = (constant is None, *key), tensors, kernel
        key, tensors, _ = self._described[id(kernel)]
        return key, tensors

    def _of(
        self,
        key: Key,
        tensors: list[Tensor],
        kernel: Kernel,
        constant: frozenset[Tensor],
        schedule: Schedule | None,
    ) -> KernelCode:
        if key not in self._known:
            number = self._numbers.get(key)
            code = None if number is None or self.ahead is None else self.ahead(number)
            if code is None:
                code = self._generate(kernel, constant, schedule)
            self._known[key] = code, tensors
            return code
        code, others = self._known[key]
        return _with_tensors(code, dict(zip(others, tensors, strict=True)))

    def _generate(
        self, kernel: Kernel, constant: frozenset[Tensor], schedule: Schedule | None
    ) -> KernelCode:
        if schedule is not None and self.schedules.lenient:
            with suppress(Error):
                return generate(kernel, self.strides, self.target, constant, schedule)
            schedule = None
        return generate(kernel, self.strides, self.target, constant, schedule)


def describe(
    kernel: Kernel,
    constant: frozenset[Tensor],
    strides: Mapping[Tensor, tuple[int, ...]],
    met: dict[int, object] | None = None,
) -> tuple[Key, list[Tensor]]:
    """What a kernel is, without names, and its tensors in the order of their first appearance; its
    tensors, symbols and sources are `met`."""
    key, tensors = _describe(kernel, constant, {} if met is None else met)
    return (*key, *((k, strides.get(t)) for k, t in enumerate(tensors))), tensors


def _describe(
    kernel: Kernel, constant: frozenset[Tensor], met: dict[int, object]
) -> tuple[tuple[object, ...], list[Tensor]]:
    """What a kernel is, without names, and its tensors in the order of their first appearance.

    Every object is numbered when it is first met, and later named by its number, so that shared
    parts are walked once. The places of accesses count: messages of failing checks show them.
    """
    words: list[object] = []
    numbers: dict[int, int] = {}
    tensors: list[Tensor] = []
    stack: list[object] = [kernel]
    while stack:
        item = stack.pop()
        kind: Any = type(item)
        names = _field_names(kind)
        if isinstance(item, tuple):
            words.append(("tuple", len(item)))
            stack += reversed(item)
        elif isinstance(item, Span):
            met[id(item.source)] = item.source
            words.append((id(item.source), item.start, item.end))
        elif isinstance(item, Symbol):
            met[id(item)] = item
            words.append(id(item))
        elif names is None:
            words.append((kind, repr(item)))
        elif id(item) in numbers:
            words.append(numbers[id(item)])
        else:
            numbers[id(item)] = len(numbers)
            words.append(kind)
            if isinstance(item, Tensor):
                met[id(item)] = item
                tensors.append(item)
                words.append(item in constant)
            stack += [getattr(item, name) for name in names]
    return tuple(words), tensors


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """The fields that tell objects of a class apart; none of what is compared as it is."""
    if not hasattr(kind, "__dataclass_fields__"):
        return None
    left_out = {"name", "data", "span", "operations"} if kind is not Access else set()
    return tuple(f.name for f in fields(kind) if f.name not in left_out)


def _with_tensors(code: KernelCode, new: Mapping[Tensor, Tensor]) -> KernelCode:
    """The code with other tensors, and new ones for what it prepares."""
    outputs = {p.output: replace(p.output) for p in code.prepare}
    new = {**new, **outputs}
    names = {old.name: tensor.name for old, tensor in new.items()}
    return replace(
        code,
        tensors=tuple(new[t] for t in code.tensors),
        sites=tuple(Site(names.get(s.tensor, s.tensor), s.dimension, s.span) for s in code.sites),
        prepare=tuple(Prepare(_with_tensors(p.code, new), outputs[p.output]) for p in code.prepare),
    )
