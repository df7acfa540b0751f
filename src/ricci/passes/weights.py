"""Weights that depend on places alone, made once and read.

Requires: kernels, fused. Ensures: a part of a reduction's terms that takes some operations, reads
no tensor and depends on few indices is an element of a tensor of its own, which is made before: if
all of an image's rows have the same weights, each is computed once. Does not: touch what comes
again after a few steps, if these are done side by side, with numbers as weights; or sizes that are
not known.

Example: `w[i, j] * x[i + j, c]`, where `w` is a cubic of `j` and of what a division leaves of `i`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..ir import shapes
from ..ir.loops import Kernel, Reduce
from ..ir.nodes import Access, Binary, Expr, Index, Local, Subscript, Tensor
from ..ir.rewrite import (
    accesses,
    children,
    free_indices,
    has_guard,
    is_division,
    rebuild,
    used_locals,
    walk,
)
from ..records import replace
from .kernels import may_fail, size_written_out, without_locals
from .partial import points_of
from .rows import extent, is_known

_LEAST = 4
"""Operations that are worth it."""
_FEWER = 8
"""How many times as many terms there must be as weights."""
MOST_PHASES = 4
"""Steps after which what comes again is left as it is."""
MOST_NODES = 1000
"""Nodes of terms, with what locals stand for in their places as often as these occur, that are
looked through."""
_MOST_TERMS = 64
"""Terms of results that are done side by side, at most."""


def tabulate(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels, in order, those that make weights before those that read them."""
    out: list[Kernel] = []
    for kernel in kernels:
        out += _tabulated(kernel) if isinstance(kernel, Reduce) and kernel.reduced else [kernel]
    return out


def _tabulated(kernel: Reduce) -> list[Kernel]:
    if not is_known(kernel) or kernel.op == "update" or kernel.condition is not None:
        return [kernel]
    unused = {*kernel.locals}.difference(used_locals(kernel.locals, *kernel.values))
    if size_written_out(kernel.values) > MOST_NODES or has_guard(*unused):
        return [kernel]  # a guard leaves out a term, though no value needs it
    values = without_locals(kernel.values)
    made: list[Kernel] = []
    known: dict[Expr, Expr] = {}
    beside = _side_by_side(kernel, values)
    for value in values:
        for expr in _weights(value, kernel):
            own = {i for i in free_indices(expr) if i in kernel.domain}
            if expr not in known and not (own and own <= beside):
                table, read = _table(expr, kernel, len(made))
                made.append(table)
                known[expr] = read
    if not made:
        return [kernel]
    new = tuple(rebuild(v, lambda x: known.get(x, x)) for v in values)
    return [*made, replace(kernel, values=new, locals=())]


def _weights(value: Expr, kernel: Reduce) -> Iterator[Expr]:
    """The largest parts of a term that are worth a tensor."""
    stack = [value]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Access):
            continue
        if isinstance(expr, Binary) and expr.op == "mul" and _are_weights(expr, kernel):
            stack += (expr.lhs, expr.rhs)  # of other indices, so that both together have fewer
        elif _is_weight(expr, kernel):
            yield expr
        else:
            stack += children(expr)


def _are_weights(product: Binary, kernel: Reduce) -> bool:
    sides = product.lhs, product.rhs
    left, right = ({*free_indices(x)} for x in sides)
    return left != right and all(_is_weight(x, kernel) for x in sides)


def _is_weight(expr: Expr, kernel: Reduce) -> bool:
    used = free_indices(expr)
    if not used or not expr.dtype.is_real or accesses(expr) or may_fail(expr):
        return False
    if sum(1 for x in walk(expr) if children(x)) < _LEAST:
        return False
    return _FEWER * points_of(tuple(used)) <= points_of((*kernel.domain, *kernel.reduced))


def _side_by_side(kernel: Reduce, values: Sequence[Expr]) -> set[Index]:
    """The indices of whose steps a few are done at a time, since the one along which results are
    contiguous is divided where elements are read."""
    near, room = near_index(kernel), _MOST_TERMS // points_of(kernel.reduced)
    read = [s.index for a in accesses(*values) for s in a.subscripts]
    if near is None or not any(divisions(near, read)):
        return set()
    found: set[Index] = set()
    for index in (near, *(i for i in kernel.domain if i is not near)):
        count = period(index, values)
        if any(divisions(index, values)) and count <= min(MOST_PHASES, room):
            found.add(index)
            room //= count
        elif index is near:
            return set()
    return found


def near_index(kernel: Reduce) -> Index | None:
    """The index along which results are contiguous, if it is plain."""
    target = kernel.targets[0]
    for s, n in zip(reversed(target.subscripts), reversed(target.tensor.shape), strict=True):
        if (shapes.as_int(n) or 0) > 1:
            return s.index if isinstance(s.index, Index) else None
    return None


def divisions(index: Index, exprs: Sequence[Expr]) -> Iterator[tuple[int, int | None]]:
    """The divisors (0 if one is not known) in expressions, and how much of an index each divides
    (None if that is not linear)."""
    for node in walk(*exprs):
        if isinstance(node, Binary) and is_division(node) and index in free_indices(node.lhs):
            form = shapes.affine(node.lhs)
            yield abs(shapes.as_int(node.rhs) or 0), form and form[0].get(index, 0)


def period(index: Index, exprs: Sequence[Expr]) -> int:
    """After how many steps of an index its quotients in expressions have moved by whole numbers,
    all of them if there are none or that is not known."""
    count = 1
    for divisor, step in divisions(index, exprs):
        if divisor == 0 or step is None:
            return extent(index)
        count = math.lcm(count, divisor // math.gcd(divisor, step))
    return count if count > 1 else extent(index)


def _table(expr: Expr, kernel: Reduce, number: int) -> tuple[Reduce, Access]:
    """The kernel that makes a tensor of weights, and where a term reads it: the index along which
    results are contiguous is its last one."""
    used, near = set(free_indices(expr)), near_index(kernel)
    order = [i for i in (*kernel.reduced, *kernel.domain) if i in used and i is not near]
    order += [near] if near is not None and near in used else []
    name = f"{kernel.targets[0].tensor.name}.weights{number or ''}"
    tensor = Tensor(name, expr.dtype, tuple(i.extent for i in order))
    place = Access(tensor, tuple(map(Subscript, order)), kernel.targets[0].span)
    total = Local("acc0", expr)
    table = Reduce(
        kernel.name, (place,), tuple(order), (), "set", (expr,), (), (total,), (total,),
        span=kernel.span, operations=kernel.operations,
    )  # fmt: skip
    return table, place
