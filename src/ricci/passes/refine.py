"""Maps over a tensor that is written under a finer shape.

Requires: a map kernel that reads `y: [12]`, whose bytes a kernel writes as `y': [4, 3]`. Ensures:
the same map over `y'`, its target split alike. Does not: change what else it reads, but for
subscripts, in which `i` becomes `3 * g + k`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir import shapes
from ..ir.loops import Reduce
from ..ir.nodes import ONE, ZERO, Access, Expr, Index, Local, Subscript, Tensor, integer
from ..ir.rewrite import Replaceable, accesses, rebuild, substitute
from ..records import replace

Digits = Mapping[Index, tuple[Index, ...]]
"""Indices that count together as one did, the most significant first."""


def refine(kernel: Reduce, coarse: Tensor, fine: Tensor) -> Reduce | None:
    """The map kernel reading `fine` instead of `coarse`; its target becomes a tensor of a finer
    shape. None if its subscripts are not plain."""
    reads = [a for a in accesses(*kernel.initial) if a.tensor is coarse]
    groups = _groups(coarse, fine)
    plain = [s.index for s in reads[0].subscripts]
    if groups is None or any([s.index for s in a.subscripts] != plain for a in reads):
        return None
    digits: dict[Index, tuple[Index, ...]] = {}
    for index, extent, sizes in zip(plain, coarse.shape, groups, strict=True):
        if len(sizes) < 2:
            continue
        if not isinstance(index, Index) or index in digits or index.extent != extent:
            return None
        digits[index] = tuple(Index(f"{index.name}{n}", size) for n, size in enumerate(sizes))
    target = _split_target(kernel.targets[0], digits)
    if target is None:
        return None
    there = [bool(sizes) for sizes in groups]
    return _rewritten(kernel, coarse, fine, digits, target, there)


def _groups(coarse: Tensor, fine: Tensor) -> list[list[Expr]] | None:
    """The extents of `fine` that make up each extent of `coarse`: none where it is one, unless
    `fine` has it, too."""
    rest = list(fine.shape)
    out: list[list[Expr]] = []
    for extent in coarse.shape:
        if extent == ONE and (not rest or rest[0] != ONE):
            out.append([])
            continue
        group = [rest.pop(0)] if rest else []
        product = group[0] if group else ZERO
        while rest and product != ZERO and not shapes.equal(product, extent):
            group.append(rest.pop(0))
            product = shapes.mul(product, group[-1])
        if not shapes.equal(product, extent):
            return None
        out.append(group)
    return None if rest else out


def _split_target(target: Access, digits: Digits) -> Access | None:
    shape: list[Expr] = []
    subscripts: list[Subscript] = []
    for s, extent in zip(target.subscripts, target.tensor.shape, strict=True):
        found = digits.get(s.index) if isinstance(s.index, Index) else None
        if found is None:
            shape.append(extent)
            subscripts.append(s)
        elif shapes.equal(shapes.product(*(i.extent for i in found)), extent):
            shape += [i.extent for i in found]
            subscripts += [Subscript(i) for i in found]
        else:
            return None  # it writes a part
    used = {s.index for s in subscripts if isinstance(s.index, Index)}
    if any(i not in used for group in digits.values() for i in group):
        return None
    return replace(
        target, tensor=replace(target.tensor, shape=tuple(shape)), subscripts=tuple(subscripts)
    )


def _rewritten(
    kernel: Reduce,
    coarse: Tensor,
    fine: Tensor,
    digits: Digits,
    target: Access,
    there: Sequence[bool],
) -> Reduce:
    """The kernel with `digits` for indices; `there` tells which dimensions of `coarse` the finer
    tensor has."""
    whole: dict[Replaceable, Expr | Tensor] = {}
    for index, group in digits.items():
        total: Expr = integer(0)
        for digit in group:
            total = shapes.add(shapes.mul(total, digit.extent), digit)
        whole[index] = total
    read = next(a for a in accesses(*kernel.initial) if a.tensor is coarse)
    plain: tuple[Subscript, ...] = ()
    for s in (s for s, kept in zip(read.subscripts, there, strict=True) if kept):
        found = digits.get(s.index) if isinstance(s.index, Index) else None
        plain += (s,) if found is None else tuple(Subscript(i) for i in found)
    value = _with_reads(substitute(kernel.initial[0], whole), coarse, fine, plain)
    domain = tuple(d for i in kernel.domain for d in digits.get(i, (i,)))
    accumulator = Local(kernel.accumulators[0].name, value)
    return replace(
        kernel, targets=(target,), domain=domain, initial=(value,),
        accumulators=(accumulator,), results=(accumulator,),
    )  # fmt: skip


def _with_reads(
    value: Expr, coarse: Tensor, fine: Tensor, subscripts: tuple[Subscript, ...]
) -> Expr:
    def node(expr: Expr) -> Expr:
        if isinstance(expr, Access) and expr.tensor is coarse:
            return Access(fine, subscripts, expr.span)
        return expr

    return rebuild(value, node)
