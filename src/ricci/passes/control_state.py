"""What controls a loop: its counter and tests, and the operations and kernels that set them."""

from __future__ import annotations

from dataclasses import field

from ..dtypes import DType
from ..ir.loops import Reduce
from ..ir.nodes import (
    TRUE,
    Access,
    Assignment,
    Binary,
    Cast,
    Const,
    Expr,
    Local,
    Loop,
    Operation,
    Tensor,
    integer,
)
from ..records import dataclass, replace


@dataclass(slots=True)
class LoopState:
    """The tensors that control a loop."""

    loop: Loop
    counter: Tensor = field(default_factory=lambda: Tensor("step", DType.INT64, ()))
    test: Tensor = field(default_factory=lambda: Tensor("go", DType.BOOL, ()))
    again: Tensor = field(default_factory=lambda: Tensor("again", DType.BOOL, ()))
    limit: Tensor | None = None
    most: int | None = None
    """The number of steps, as far as it is known ahead."""

    def __post_init__(self) -> None:
        lengths = [len(pack) for _, pack in self.loop.scans]
        self.most = min(lengths, default=None)
        count = self.loop.count
        if isinstance(count, Const):
            least = max(int(count.value), 0)
            self.most = least if self.most is None else min(self.most, least)
        elif count is not None:
            self.limit = Tensor("count", DType.INT64, ())

    @property
    def is_exact(self) -> bool:
        """Whether each step that has a place for its results is done for certain."""
        if self.limit is not None or self.loop.condition is not None:
            return False
        return all(len(pack) == self.most for pack in self.loop.collected)

    def steps_allowed(self) -> Expr:
        """The number of steps where data has a say in it."""
        count = self.loop.count
        assert count is not None
        if isinstance(count, Tensor):
            count = Cast(DType.INT, Access(count, ()))
        return count if self.most is None else Binary("min", count, integer(self.most))

    def goes_on(self) -> Expr:
        """Whether there is another step, conditions that are tested before it aside."""
        counter = Cast(DType.INT, Access(self.counter, ()))
        parts: list[Expr] = []
        if self.limit is not None:
            parts.append(Binary("lt", counter, Cast(DType.INT, Access(self.limit, ()))))
        elif self.most is not None:
            parts.append(Binary("lt", counter, integer(self.most)))
        if self.loop.condition is not None and not self.loop.pretest:
            parts.append(Access(self.again, ()))
        if len(parts) == 2:
            return Binary("and", parts[0], parts[1])
        return parts[0] if parts else TRUE


def assign(target: Tensor, value: Expr) -> Operation:
    """An operation that sets a tensor of rank 0."""
    if value.dtype is not target.dtype and isinstance(value, Access):
        value = Cast(target.dtype, value)
    elif isinstance(value, Const) and value.dtype is DType.INT:
        value = replace(value, dtype=target.dtype)
    access = Access(target, ())
    return Operation("step", (target,), (Assignment((access,), "set", (value,), ()),))


def store(name: str, target: Tensor, value: Expr) -> Reduce:
    """A kernel that sets a tensor of rank 0."""
    accumulator = Local("value", value)
    return Reduce(
        name, (Access(target, ()),), (), (), "set", (value,), (), (accumulator,), (accumulator,)
    )
