"""Records are data classes: what `dataclasses` makes of the same class behaves alike."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, field
from typing import Any, ClassVar

import numpy as np
import pytest

import ricci
from ricci import records
from ricci.ir.nodes import Const, Index, integer

Decorator = Callable[..., Any]
Make = Callable[[Decorator], type[Any]]


def plain(dataclass: Decorator) -> type[Any]:
    @dataclass(frozen=True, slots=True)
    class Made:
        a: int
        b: float = 2.0

    return Made


def parted(dataclass: Decorator) -> type[Any]:
    @dataclass(frozen=True)
    class Made:
        """With all kinds of fields."""

        kind: ClassVar[str] = "kind"
        a: int
        b: list[int] = field(default_factory=list, compare=False)
        c: int = field(default=3, repr=False)
        d: int = field(default=4, init=False)
        _: KW_ONLY
        e: int = 5

        @property
        def sum(self) -> int:
            return self.a + self.c + self.d + self.e

    return Made


def finished(dataclass: Decorator) -> type[Any]:
    @dataclass(slots=True)
    class Made:
        a: int
        b: int = field(init=False)
        c: list[int] = field(init=False, default_factory=list)

        def __post_init__(self) -> None:
            self.b = self.a + 1

    return Made


def derived(dataclass: Decorator) -> type[Any]:
    @dataclass(frozen=True, slots=True)
    class Base:
        a: int
        b: int = 2

        def __repr__(self) -> str:
            return "base"

    @dataclass(frozen=True, slots=True)
    class Made(Base):
        c: int = 3

        def __hash__(self) -> int:
            return 7

    return Made


def alone(dataclass: Decorator) -> type[Any]:
    @dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
    class Made:
        a: int

    return Made


def by_name(dataclass: Decorator) -> type[Any]:
    @dataclass(kw_only=True, frozen=True, slots=True)
    class Made:
        a: int
        b: int = 2

    return Made


def empty(dataclass: Decorator) -> type[Any]:
    @dataclass(frozen=True, slots=True)
    class Made:
        pass

    return Made


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1,), {"c": 9}),
    ((1,), {"e": 9}),
    ((), {"a": 1}),
    ((1, 2, 3, 4, 5), {}),
    ((1,), {"d": 1}),
    ((1,), {"nothing": 1}),
]


def what(call: Callable[..., Any], *given: Any, **named: Any) -> str | None:
    """A result; none if it was refused."""
    try:
        return repr(call(*given, **named))
    except (TypeError, ValueError):
        return None


@pytest.mark.parametrize("make", [plain, parted, finished, derived, alone, by_name, empty])
def test_the_same_as_data_classes(make: Make) -> None:
    ours, theirs = make(records.dataclass), make(dataclasses.dataclass)
    for given, named in CALLS:
        mine, other = what(ours, *given, **named), what(theirs, *given, **named)
        assert mine == other
        if mine is None:
            continue
        one, two = ours(*given, **named), theirs(*given, **named)
        same_one, same_two = ours(*given, **named), theirs(*given, **named)
        for changes in ({}, {"a": 7}, {"b": [1]}, {"nothing": 1}):
            changed = what(records.replace, one, **changes)
            assert changed == what(dataclasses.replace, two, **changes)
        assert (one == same_one) == (two == same_two)
        assert (one == records.replace(one)) == (two == dataclasses.replace(two))
        assert one != two
        assert (what(hash, one) is None) == (what(hash, two) is None)
        if what(hash, one) is not None:
            assert (hash(one) == hash(same_one)) == (hash(two) == hash(same_two))
        assert repr(copy.copy(one)) == repr(one)
        assert dataclasses.asdict(one) == dataclasses.asdict(two)
    names = [f.name for f in dataclasses.fields(theirs)]
    assert [f.name for f in dataclasses.fields(ours)] == names
    for name in ("__match_args__", "__slots__"):
        assert getattr(ours, name, None) == getattr(theirs, name, None)


def test_hashes_are_those_of_values() -> None:
    made = plain(records.dataclass)
    assert hash(made(1)) == hash(made(1, 2.0)) != hash(made(2))
    assert len({made(1), made(1), made(3)}) == 2
    assert hash(derived(records.dataclass)(1)) == 7


def test_records_are_pickled() -> None:
    node = Index("i", integer(3))
    again = pickle.loads(pickle.dumps(node))
    assert (again.name, again.extent) == (node.name, Const(3, node.dtype))


def test_what_is_computed_once() -> None:
    class Made:
        count = 0

        @records.cached_property
        def value(self) -> int:
            """A value."""
            self.count += 1
            return self.count

    made = Made()
    assert (made.value, made.value, made.count) == (1, 1, 1)
    assert vars(Made)["value"].__doc__ == "A value."


def test_what_users_get_is_frozen() -> None:
    model = ricci.parse("def f(float(N) x) -> (y) { y(i) = x(i) }", "tc")
    run = model.compile(target="interpreter")
    port: Any = run.inputs[0]
    with pytest.raises(FrozenInstanceError):
        port.name = "z"
    with pytest.raises(ricci.Error) as caught:
        run(np.zeros((2, 2), np.float32))
    finding: Any = caught.value.diagnostics[0]
    with pytest.raises(FrozenInstanceError):
        finding.message = ""
