"""Reductions of one large tensor side by side: `s[i] += x[i, k]` and `q[i] += x[i, k] * x[i, k]`.

Requires: the kernels of a run, fused. Ensures: reductions over the same points, of which each reads
the same element of a tensor at each point, are one with several accumulators, so that memory is
read once; what the later one computed from the results of the earlier one at its own point is
computed from the accumulators. Does not: merge products whose operands are read many times, nor
kernels with guards or conditions.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import field
from typing import cast

from ..dtypes import DType
from ..ir import shapes
from ..ir.loops import Group, Kernel, Reduce, expressions_of, tensors_touched, tensors_written
from ..ir.nodes import ONE, Access, Cast, Const, Expr, Index, Tensor
from ..ir.rewrite import Replaceable, accesses, free_indices, has_guard, rebuild, substitute, walk
from ..records import dataclass, replace
from .epilogues import MOST_NODES, MOST_TENSORS, made_of_both
from .fuse import map_expressions
from .terms import factors_of
from .views import Views, root_of

MOST_ACCUMULATORS = 4
LEAST_SHARED = 1 << 18
"""Elements of a tensor that two products share for which they are merged all the same."""


def merge_siblings(
    kernels: Sequence[Kernel], views: Views, constant: Container[Tensor] = ()
) -> list[Kernel]:
    """The kernels, in order, with siblings merged that do not read a `constant` tensor: what
    depends on these alone is computed once."""
    run = _Siblings(views, constant, list(kernels))
    for position in range(len(kernels)):
        run.visit(position)
    return [k for k in run.kernels if k is not None]


@dataclass(slots=True)
class _Siblings:
    views: Views
    constant: Container[Tensor]
    kernels: list[Kernel | None]
    by_source: dict[Tensor, list[int]] = field(default_factory=dict)
    """Where reductions that read all of a tensor point by point are."""
    last_write: dict[Tensor, int] = field(default_factory=dict)
    last_touch: dict[Tensor, int] = field(default_factory=dict)

    def visit(self, position: int) -> None:
        """Merge a kernel into an earlier one, or note what it does."""
        kernel = self.kernels[position]
        assert kernel is not None
        sources = _sources(kernel) if isinstance(kernel, Reduce) else []
        sources = [a for a in sources if root_of(a.tensor, self.views) not in self.constant]
        for tensor in dict.fromkeys(a.tensor for a in sources):
            for earlier in reversed(self.by_source.get(tensor, [])[-4:]):
                if self._merge(earlier, cast(Reduce, kernel), tensor):
                    self.kernels[position] = None
                    self._note(earlier, cast(Kernel, self.kernels[earlier]))
                    return
        for tensor in dict.fromkeys(a.tensor for a in sources):
            self.by_source.setdefault(tensor, []).append(position)
        self._note(position, kernel)

    def _note(self, position: int, kernel: Kernel) -> None:
        for tensor in tensors_touched(kernel):
            root = root_of(tensor, self.views)
            self.last_touch[root] = max(position, self.last_touch.get(root, 0))
        for tensor in tensors_written(kernel):
            root = root_of(tensor, self.views)
            self.last_write[root] = max(position, self.last_write.get(root, 0))

    def _merge(self, position: int, kernel: Reduce, source: Tensor) -> bool:
        """Whether a kernel could become part of the one at an earlier position."""
        first = self.kernels[position]
        if not isinstance(first, Reduce) or first.op != kernel.op:
            return False
        made = {root_of(t, self.views) for t in tensors_written(first)}
        written = {root_of(t, self.views) for t in tensors_written(kernel)}
        for tensor in tensors_touched(kernel):
            root = root_of(tensor, self.views)
            if self.last_write.get(root, -1) > position:
                return False
            if root in made and tensor not in tensors_written(first):
                return False
        if any(self.last_touch.get(t, -1) >= position for t in written):
            return False
        merged = _merged(first, kernel, source)
        if merged is None or _is_too_large(merged):
            return False
        self.kernels[position] = merged
        return True


def _is_too_large(kernel: Reduce) -> bool:
    nodes = sum(1 for _ in walk(*expressions_of(kernel)))
    return (
        nodes > MOST_NODES
        or len(tensors_touched(kernel)) > MOST_TENSORS
        or len(kernel.targets) > MOST_ACCUMULATORS
    )


def _sources(kernel: Reduce) -> list[Access]:
    """The reads of a reduction that are a different element at each of its points."""
    if not kernel.reduced or not kernel.values or kernel.condition is not None:
        return []
    found = [a for a in accesses(*kernel.values) if _is_everywhere(a, kernel)]
    if not found or has_guard(*kernel.values, *kernel.initial, *kernel.results, *kernel.locals):
        return []
    if has_reuse(kernel):
        return [a for a in found if _count(a) >= LEAST_SHARED]
    return found


def has_reuse(kernel: Reduce) -> bool:
    """Whether a reduction reads elements at several of its points, or is a sum of products of
    different things, which has code of its own."""
    if not any(_is_everywhere(a, kernel) for a in accesses(*kernel.values)):
        return bool(kernel.values)
    return kernel.op == "add" and any(map(_is_mixed, kernel.values))


def is_of_pairs(kernel: Reduce) -> bool:
    """Whether a reduction is a sum of products of two numbers of bfloat16, held in float32."""
    if kernel.op != "add" or len(kernel.values) != 1 or kernel.values[0].dtype is not DType.FLOAT32:
        return False
    found = list(factors_of(kernel.values[0]))
    return len(found) == 2 and all(
        isinstance(f, Cast) and f.operand.dtype is DType.BFLOAT16 for f in found
    )


def factors_of_pairs(group: Group) -> list[Tensor]:
    """The local tensors of a group that nothing but sums of products of pairs reads."""
    factors = {id(v) for k in group.kernels if is_of_pairs(k) for v in k.values}
    read = {a.tensor for a in accesses(*(e for e in expressions_of(group) if id(e) not in factors))}
    return [t for t in group.local if t not in read]


def _is_mixed(value: Expr) -> bool:
    found = [set(free_indices(f)) for f in factors_of(value) if not isinstance(f, Const)]
    return any(f != found[0] for f in found)


def _is_everywhere(access: Access, kernel: Reduce) -> bool:
    """Whether an access is a different element at each point of a reduction."""
    plain = set(_plain(access))
    return all(i in plain for i in (*kernel.domain, *kernel.reduced) if i.extent != ONE)


def _plain(access: Access) -> Iterator[Index]:
    return (s.index for s in access.subscripts if isinstance(s.index, Index))


def _count(access: Access) -> float:
    return math.prod(shapes.as_int(i.extent) or math.inf for i in _plain(access))


def _merged(first: Reduce, second: Reduce, source: Tensor) -> Reduce | None:
    """Both in one, if their points are the same and they read the same element at each."""
    mapping = _mapping(first, second, source)
    if mapping is None or bool(first.locals) != bool(second.locals):
        return None  # sums without locals can be split later on
    second = renamed(second, mapping)
    results = _with_results(second, first)
    if results is None:
        return None
    merged = replace(
        first,
        targets=(*first.targets, *second.targets),
        initial=(*first.initial, *second.initial),
        values=(*first.values, *second.values),
        accumulators=(*first.accumulators, *second.accumulators),
        results=(*first.results, *results),
        locals=tuple(dict.fromkeys((*first.locals, *second.locals))),
    )
    return made_of_both(merged, first, second)


def renamed(kernel: Reduce, mapping: Mapping[Index, Index]) -> Reduce:
    """The kernel with other indices."""
    indices = cast("Mapping[Replaceable, Expr | Tensor]", mapping)
    new = map_expressions(kernel, lambda e: mapping.get(e, e) if isinstance(e, Index) else e)
    return replace(
        new,
        targets=tuple(cast(Access, substitute(t, indices)) for t in kernel.targets),
        domain=tuple(mapping.get(i, i) for i in kernel.domain),
        reduced=tuple(mapping.get(i, i) for i in kernel.reduced),
    )


def _mapping(first: Reduce, second: Reduce, source: Tensor) -> dict[Index, Index] | None:
    """The indices of the first for those of the second."""
    for a in (x for x in _sources(first) if x.tensor is source):
        for b in (x for x in _sources(second) if x.tensor is source):
            mapping = unified(a, b)
            if mapping is not None and is_one_to_one(mapping, first, second):
                return mapping
    return None


def unified(a: Access, b: Access) -> dict[Index, Index] | None:
    """What the indices of one access stand for in another with the same subscripts."""
    mapping: dict[Index, Index] = {}
    for s, t in zip(a.subscripts, b.subscripts, strict=True):
        if isinstance(s.index, Index) and isinstance(t.index, Index):
            if mapping.setdefault(t.index, s.index) is not s.index:
                return None
        elif free_indices(s.index, t.index) or not shapes.equal(s.index, t.index):
            return None
    return mapping


def is_one_to_one(mapping: Mapping[Index, Index], first: Reduce, second: Reduce) -> bool:
    for old, new in ((second.domain, first.domain), (second.reduced, first.reduced)):
        found = [mapping.get(i) for i in old]
        if len(old) != len(new) or set(found) != set(new):
            return False
    return all(shapes.equal(i.extent, j.extent) for i, j in mapping.items())


def _with_results(second: Reduce, first: Reduce) -> tuple[Expr, ...] | None:
    """The results of the second, with those of the first for reads of its targets at the same
    point; None if it reads them elsewhere."""
    made = {t.tensor: (t, r) for t, r in zip(first.targets, first.results, strict=True)}
    early = (*second.initial, *second.values, *second.locals)
    if any(a.tensor in made for a in accesses(*early)):
        return None
    for a in accesses(*second.results):
        if a.tensor in made and not same_place(a, made[a.tensor][0]):
            return None
    memo: dict[int, Expr] = {id(x): x for x in second.accumulators}

    def node(expr: Expr) -> Expr:
        if isinstance(expr, Access) and expr.tensor in made:
            return made[expr.tensor][1]
        return expr

    return tuple(rebuild(r, node, memo) for r in second.results)


def same_place(a: Access, b: Access) -> bool:
    pairs = zip(a.subscripts, b.subscripts, strict=True)
    return all(s.rule is None and shapes.equal(s.index, t.index) for s, t in pairs)
