"""What emission deals in: values, places of indices, masks, addresses."""

from __future__ import annotations

from ...dtypes import DType
from ...ir.nodes import Index, Tensor
from ...records import dataclass
from .emit_access import Linear

SAFE_BYTES = 64
"""Size of the place where loads and stores go that must have no effect."""

FAIL = """\
define internal void @kernel.fail(ptr %record, i64 %site, i64 %value, i64 %extent) noinline cold {
  %old = cmpxchg ptr %record, i64 0, i64 %site monotonic monotonic
  %first = extractvalue { i64, i1 } %old, 1
  br i1 %first, label %write, label %end
write:
  %place = getelementptr i64, ptr %record, i64 1
  store i64 %value, ptr %place
  %next = getelementptr i64, ptr %record, i64 2
  store i64 %extent, ptr %next
  br label %end
end:
  ret void
}
"""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class View(Tensor):
    """The memory of another, compact tensor, taken for elements of another type."""

    base: Tensor


@dataclass(frozen=True, slots=True)
class Value:
    """An emitted value; a `vector` has one element per lane."""

    text: str
    dtype: DType
    vector: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """The value of an index: `base + offset`, plus the lane number if `vector`."""

    base: str | None
    offset: int = 0
    vector: bool = False


@dataclass(frozen=True, slots=True)
class Mask:
    """Which lanes are there: an i1 for all, and an i1 for each; none means true."""

    all: str | None = None
    each: str | None = None
    first: str | None = None
    """How many lanes are there, fewer than all, if it is said that these are the first."""

    @property
    def is_full(self) -> bool:
        return self.all is None and self.each is None


FULL = Mask()


@dataclass(frozen=True, slots=True)
class Kept:
    """A tensor of which a thread keeps a part, elements `strides` apart. A pointer to where the
    first element of the whole would be is in the table, `number` entries before the error record's.
    """

    number: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """Lines of a tensor that will be wanted, from the element at the linear form of the places, and
    a number of bytes behind it; or a number of steps of an index later, before its end."""

    tensor: Tensor
    form: Linear
    distance: int
    lines: int
    moved: tuple[Index, int, int] | None = None
    """The index, the steps, and the number of its values."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the elements of an access are: lane 0 at `pointer`, the next `stride` elements on.

    With `offsets` (i64 elements per lane) instead, they lie anywhere; but `apart` is the distance
    of neighbouring lanes if there is one, be it a number or not. `mask` excludes what failed a
    check.
    """

    pointer: str
    stride: int
    offsets: str | None
    mask: Mask
    apart: str | None
