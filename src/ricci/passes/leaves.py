"""Large results that nothing in their program reads.

Requires: actions whose kernels are final. Ensures: each kernel that writes nothing else is known to
do so, for it need not leave anything in the caches. Does not: change what is done.

Example: a program of one convolution, whose results have more bytes than a cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..ir.loops import Action, Reduce, tensors_written
from ..ir.nodes import Tensor
from ..records import replace
from .in_place import uses_of
from .memory import size_of
from .views import root_of

LEAST_BYTES = 1 << 20
"""Results of fewer bytes stay in the caches of whoever asked for them."""


def mark_leaving(
    actions: Sequence[Action], results: Iterable[Tensor], views: Mapping[Tensor, Tensor]
) -> list[Action]:
    """The actions, in which `Reduce.leaves` is set where that is so."""
    leaving = {root_of(t, views) for t in results if size_of(t) >= LEAST_BYTES}
    if not leaving:
        return list(actions)
    for uses in (uses_of(a, views) for a in actions):
        leaving -= uses.read | uses.pointed
    return [
        replace(a, leaves=True)
        if isinstance(a, Reduce) and all(root_of(t, views) in leaving for t in tensors_written(a))
        else a
        for a in actions
    ]
