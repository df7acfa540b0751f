"""Maps and reductions whose results take turns: `y[i] = x[i / 2]` as `y[2*q] = x[q]` and
`y[2*q + 1] = x[q]`, or `y[q, k] = k == 0 ? a[q] : b[q]`.

A subscript that divides the index along which results are contiguous reads lanes from anywhere.
With one target for each remainder, or phase, of the index it is linear, weights that depend on the
remainder are numbers, and the phases, whole vectors, are interleaved as they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from ...ir import shapes
from ...ir.loops import Reduce
from ...ir.nodes import ONE, Access, Expr, Index, Local, Tensor, integer
from ...ir.rewrite import Replaceable, accesses, has_guard, substitute
from ...passes.kernels import simple, size_written_out, without_locals
from ...passes.weights import MOST_NODES, divisions
from ...records import replace
from .emit import Frame
from .emit_access import Linear
from .emit_spread import picks_lanes
from .nest_uses import flat_form, loops_of, uses_of
from .sizes import plus

MOST_PHASES, MOST_TERMS = 16, 64
"""Of an element each: what is written out, and how many terms that makes."""
_MOST_APART, _MOST_SPREAD = 4, 2.9
"""Elements from lane to lane of a phase, and of results next to one another, at most, that are
loaded as vectors."""
MOST_SHORT, LEAST_LONG = 4, 16
"""Values of an index that is taken apart although nothing divides it, and of the one after it."""


def by_phases(kernel: Reduce, frame: Frame) -> Reduce | None:
    """The kernel with targets for the phases of the indices that subscripts divide, if the one
    along which results are contiguous is among them."""
    if kernel.op == "update" or kernel.condition is not None:
        return None
    if kernel.locals:
        if size_written_out(kernel.values) > MOST_NODES or has_guard(*kernel.locals):
            return None
        kernel = replace(kernel, locals=(), values=without_locals(kernel.values))
    exprs = [*kernel.initial, *kernel.values, *kernel.results]
    if has_guard(*exprs):
        return None  # a guard leaves out the terms of all results, here of all phases
    read = accesses(*exprs)
    if {t.tensor for t in kernel.targets} & {a.tensor for a in read}:
        return None
    near = [i for i in kernel.domain if all(_step(t, i, frame) == 1 for t in kernel.targets)]
    divided = {i: n for i in kernel.domain if (n := _phases(i, exprs, read)) > 1}
    if near and near[-1] not in divided and _is_short(near[-1], kernel, frame):
        divided = {near[-1]: shapes.as_int(near[-1].extent) or 0}
    if not near or near[-1] not in divided or _is_spread(near[-1], divided[near[-1]], read, frame):
        return None
    room = MOST_PHASES // len(kernel.targets)
    room = min(room, MOST_TERMS // _terms(kernel))
    counts: dict[Index, int] = {}
    for index in sorted(divided, key=lambda i: (i is not near[-1], -kernel.domain.index(i))):
        if divided[index] <= room:
            counts[index] = divided[index]
            room //= divided[index]
    return _taken_apart(kernel, counts) if near[-1] in counts else None


def _is_spread(near: Index, count: int, read: Sequence[Access], frame: Frame) -> bool:
    """Whether lanes of a phase are far apart, and those of neighbouring results in few vectors."""
    target = frame.target
    if target is None or not picks_lanes(target, target.vector_bytes // 4):
        return False
    found = list(divisions(near, [s.index for a in read for s in a.subscripts]))
    pairs = [(divisor, step) for divisor, step in found if divisor and step]
    far = any(count * abs(step) > _MOST_APART * divisor for divisor, step in pairs)
    return far and all(0 < step <= _MOST_SPREAD * divisor for divisor, step in pairs)


def _is_short(near: Index, kernel: Reduce, frame: Frame) -> bool:
    """Whether results lie next to one another only along an index of a few values, which no loop
    goes on from: vectors of each value, in turns, are whole ones along the index after it."""
    extent = shapes.as_int(near.extent) or 0
    if not 1 < extent <= MOST_SHORT or len(kernel.targets) > 1 or kernel.reduced:
        return False
    outer, _, _ = loops_of(kernel, uses_of(kernel, frame))
    alone = any(x.index is near and x.extent == extent for x in outer)
    next_ones = [x for x in outer if _step(kernel.targets[0], x.index, frame) == extent]
    return alone and any(isinstance(x.extent, int) and x.extent >= LEAST_LONG for x in next_ones)


def _step(target: Access, index: Index, frame: Frame) -> object:
    return flat_form(target, frame).indices.get(index, 0)


def _terms(kernel: Reduce) -> int:
    """The terms of a result; very many if that is not known."""
    extents = [shapes.as_int(i.extent) for i in kernel.reduced]
    return math.prod(MOST_TERMS + 1 if n is None else max(n, 1) for n in extents)


def _phases(index: Index, exprs: Sequence[Expr], read: Sequence[Access]) -> int:
    """After how many steps of an index all quotients and remainders have moved by whole numbers:
    one if no subscript divides it, or if steps would be left over."""
    subscripts = [s.index for a in read for s in a.subscripts]
    if all(step == 0 for _, step in divisions(index, subscripts)):
        return 1
    count = 1
    for divisor, step in divisions(index, exprs):
        if divisor == 0 or step is None:
            return 1
        count = math.lcm(count, divisor // math.gcd(divisor, step))
    extent = shapes.as_int(index.extent)
    return count if extent and extent % count == 0 else 1


def _taken_apart(kernel: Reduce, counts: dict[Index, int]) -> Reduce:
    fresh = {
        i: Index(i.name, integer((shapes.as_int(i.extent) or 0) // n), i.span)
        for i, n in counts.items()
    }
    whole = {i for i, x in fresh.items() if x.extent == ONE}
    order = sorted(counts, key=kernel.domain.index)
    order.append(order.pop(order.index(next(iter(counts)))))
    parts: dict[str, list[Expr]] = {"initial": [], "values": [], "results": []}
    accumulators: list[Local] = []
    targets: list[Access] = []
    for phase in product(*(range(counts[i]) for i in order)):
        new: dict[Replaceable, Expr | Tensor] = {
            i: integer(p)
            if i in whole
            else shapes.add(shapes.mul(fresh[i], integer(counts[i])), integer(p))
            for i, p in zip(order, phase, strict=True)
        }
        for target in kernel.targets:
            access = shapes.simplify(substitute(target, new))
            assert isinstance(access, Access)
            targets.append(access)
        for local in kernel.accumulators:
            own = Local(f"{local.name}.{len(accumulators)}", substitute(local.value, new))
            accumulators.append(own)
            new[local] = own
        for name in ("initial", "values", "results"):
            parts[name] += [simple(substitute(x, new)) for x in getattr(kernel, name)]
    return Reduce(
        kernel.name,
        tuple(targets),
        tuple(fresh.get(i, i) for i in kernel.domain if i not in whole),
        kernel.reduced,
        kernel.op,
        tuple(parts["initial"]),
        tuple(parts["values"]),
        tuple(accumulators),
        tuple(parts["results"]),
        span=kernel.span,
        operations=kernel.operations,
    )


def _follows(kernel: Reduce, forms: Sequence[Linear], first: int, by: int) -> bool:
    """Whether a target writes so many elements behind another."""
    a, b = forms[first], forms[first + by]
    same = kernel.targets[first].tensor is kernel.targets[first + by].tensor
    return (
        same
        and a.indices == b.indices
        and not a.others | b.others
        and (plus(a.constant, by) == b.constant)
    )


def runs_of(kernel: Reduce, index: Index, frame: Frame) -> dict[int, int]:
    """The numbers of targets with which runs of them begin that together are contiguous along an
    index, and how many these are."""
    forms = [flat_form(t, frame) for t in kernel.targets]
    found: dict[int, int] = {}
    k = 0
    while k < len(forms):
        step = forms[k].indices.get(index, 0)
        count = step if isinstance(step, int) and 1 < step <= len(forms) - k else 1
        if count > 1 and all(_follows(kernel, forms, k, n) for n in range(1, count)):
            found[k] = count
            k += count
        else:
            k += 1
    return found
