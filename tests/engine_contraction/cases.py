"""Contractions as data: builders of kernels, and a generator of random ones."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

from ricci.backends.llvm.targets import named
from ricci.dtypes import DType
from ricci.ir.loops import Reduce
from ricci.ir.nodes import (
    Access,
    Apply,
    Binary,
    BinaryOp,
    Const,
    Expr,
    Index,
    Local,
    Remap,
    Select,
    Skip,
    Subscript,
    Tensor,
    Unary,
    integer,
)

Rule = Skip | Remap | None

ZEN3 = replace(named("x86-64-v3"), cpu="znver3", l1=32 << 10, l2=1 << 19, shared=6 << 20, cores=2)
"""A processor with vectors of 32 bytes."""


@dataclass(frozen=True)
class Case:
    """A kernel and the tensors that it reads; `constant` ones may be prepared."""

    kernel: Reduce
    inputs: tuple[Tensor, ...]
    constant: frozenset[Tensor] = frozenset()

    @property
    def target(self) -> Tensor:
        return self.kernel.targets[0].tensor

    def arrays(self, seed: int) -> dict[Tensor, np.ndarray]:
        """Random elements for the inputs; the target starts as a marker."""
        rng = np.random.default_rng(seed)
        arrays = {}
        for tensor in self.inputs:
            shape = shape_of(tensor)
            if tensor.dtype.is_int:
                arrays[tensor] = rng.integers(0, int(tensor.name.split("<")[1]), shape)
            else:
                arrays[tensor] = rng.standard_normal(shape).astype(tensor.dtype.numpy())
        arrays[self.target] = np.full(shape_of(self.target), 7, self.target.dtype.numpy())
        return arrays


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    return tuple(int(e.value) for e in tensor.shape if isinstance(e, Const))


def tensor(name: str, *shape: int, dtype: DType = DType.FLOAT32) -> Tensor:
    return Tensor(name, dtype, tuple(integer(n) for n in shape))


def index(name: str, extent: int) -> Index:
    return Index(name, integer(extent))


def at(t: Tensor, *subscripts: Expr | Subscript) -> Access:
    return Access(t, tuple(s if isinstance(s, Subscript) else Subscript(s) for s in subscripts))


def binary(op: BinaryOp, a: Expr, b: Expr | int) -> Binary:
    return Binary(op, a, integer(b) if isinstance(b, int) else b)


def summed(
    target: Access,
    domain: tuple[Index, ...],
    reduced: tuple[Index, ...],
    value: Expr,
    initial: Expr | None = None,
    epilogue: list[Expr] | None = None,
    condition: Expr | None = None,
) -> Reduce:
    """A sum of `value`; each expression of `epilogue` is added, then relu is applied."""
    dtype = target.dtype
    acc = Local("acc", Const(0.0, dtype))
    result: Expr = acc
    if epilogue is not None:
        for part in epilogue:
            result = Binary("add", result, part)
        result = Binary("max", result, Const(0.0, dtype))
    return Reduce(
        "k",
        (target,),
        domain,
        reduced,
        "add",
        (initial or Const(0.0, dtype),),
        (value,),
        (acc,),
        (result,),
        condition=condition,
    )


def matmul(
    m: int, n: int, k: int, left: bool = False, right: bool = False, dtype: DType = DType.FLOAT32
) -> Case:
    """A product of matrices; either may be stored transposed. The right one is constant."""
    i, j, r = index("i", m), index("j", n), index("k", k)
    a = tensor("a", *((k, m) if left else (m, k)), dtype=dtype)
    b = tensor("b", *((n, k) if right else (k, n)), dtype=dtype)
    value = binary(
        "mul", at(a, *((r, i) if left else (i, r))), at(b, *((j, r) if right else (r, j)))
    )
    kernel = summed(at(tensor("c", m, n, dtype=dtype), i, j), (i, j), (r,), value)
    return Case(kernel, (a, b), frozenset([b]))


def convolution(
    n: int,
    channels: tuple[int, int],
    size: tuple[int, int],
    kernel: int,
    stride: int = 1,
    pad: int = 0,
    groups: int = 1,
    dilation: int = 1,
    bias: bool = False,
) -> Case:
    """A convolution in NCHW with constant weights."""
    ci, co = channels
    span = (kernel - 1) * dilation + 1
    oh, ow = ((s + 2 * pad - span) // stride + 1 for s in size)
    b, g, o = index("n", n), index("g", groups), index("o", co // groups)
    y, x, c = index("y", oh), index("x", ow), index("c", ci // groups)
    ky, kx = index("ky", kernel), index("kx", kernel)
    image = tensor("x", n, ci, *size)
    weight = tensor("w", co, ci // groups, kernel, kernel)
    offset = tensor("b", co)
    out: Expr = o if groups == 1 else binary("add", binary("mul", g, co // groups), o)
    channel: Expr = c if groups == 1 else binary("add", binary("mul", g, ci // groups), c)

    def window(p: Index, k: Index) -> Subscript:
        e = binary("add", binary("mul", p, stride), binary("mul", k, dilation))
        return Subscript(binary("sub", e, pad), Skip()) if pad else Subscript(e)

    value = binary(
        "mul", at(image, b, channel, window(y, ky), window(x, kx)), at(weight, out, c, ky, kx)
    )
    domain = (b, o, y, x) if groups == 1 else (b, g, o, y, x)
    made = summed(
        at(tensor("y", n, co, oh, ow), b, out, y, x),
        domain,
        (c, ky, kx),
        value,
        at(offset, out) if bias else None,
        [] if bias else None,
    )
    return Case(made, (image, weight, offset), frozenset([weight]))


# ------------------------------------------------------------------------ random ones


def random_product(seed: int) -> Case:
    """A product of matrices in a batch, every tensor with its dimensions in some order."""
    r = random.Random(seed)
    dtype = r.choice([DType.FLOAT32, DType.FLOAT32, DType.FLOAT64])
    batch = [index(f"b{n}", r.choice([2, 3, 5])) for n in range(r.choice([0, 1, 1, 2]))]
    i, j, k = index("i", 8), index("j", r.choice([9, 16, 33, 48])), index("k", r.choice([16, 64]))
    domain = [*batch, i, j]
    inputs: list[Tensor] = []

    def shuffled(indices: list[Index]) -> list[Index]:
        return r.sample(indices, len(indices)) if r.random() < 0.6 else indices

    def access(name: str, indices: list[Index], more: int = 0) -> Access:
        indices = shuffled(indices)
        made = tensor(name, *(size_of(i) + more for i in indices), dtype=dtype)
        inputs.append(made)
        return at(made, *indices)

    left = access("x", [*(b for b in batch if r.random() < 0.8), i, k], r.choice([0, 2]))
    right = access("w", [*(b for b in batch if r.random() < 0.5), k, j])
    order = shuffled(domain)
    target = at(tensor("c", *map(size_of, order), dtype=dtype), *order)
    results: list[Expr] = [access("e", domain)] if r.random() < 0.3 else []
    results += [access("v", [r.choice(domain)])] if r.random() < 0.5 else []
    initial = r.choice([None, target, access("s", [r.choice(domain)])])
    value = binary("mul", left, right)
    kernel = summed(target, tuple(domain), (k,), value, initial, results or None)
    return Case(kernel, tuple(inputs), frozenset(t for t in inputs if r.random() < 0.5))


def size_of(i: Index) -> int:
    """The extent of an index."""
    assert isinstance(i.extent, Const)
    return int(i.extent.value)


_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31, 33, 40, 50)
_MOST = 300_000


class RandomCase:
    """Draws a contraction: index classes, layouts, windows, gathers, conditions, epilogues."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.dtype = self.r.choice([DType.FLOAT32, DType.FLOAT32, DType.FLOAT64])
        self.inputs: list[Tensor] = []

    def draw(self) -> Case:
        r = self.r
        counts = (
            r.choice([0, 0, 1, 2]),
            r.choice([0, 1, 1, 2]),
            r.choice([1, 1, 2, 3]),
            r.choice([1, 2, 3]),
        )
        classes = self._indices(counts)
        batch, rows, columns, reduced = classes
        left = self._operand("a", [*batch, *rows, *reduced])
        right = self._operand("b", [*batch, *columns, *reduced])
        domain = [*batch, *rows, *columns]
        if r.random() < 0.5:
            r.shuffle(domain)
        order = list(domain)
        if r.random() < 0.5:
            r.shuffle(order)
        target = at(tensor("c", *(size_of(i) for i in order), dtype=self.dtype), *order)
        value: Expr = binary("mul", *((left, right) if r.random() < 0.5 else (right, left)))
        if r.random() < 0.1:
            value = binary("div", Unary("neg", value), Const(4.0, self.dtype))
        if r.random() < 0.1:
            value = Local("product", value)
        initial = self._plain("s", order) if r.random() < 0.3 else None
        epilogue = None
        if r.random() < 0.4:
            epilogue = [self._plain("r", order)]
            if rows:
                epilogue.append(self._plain("v", [r.choice(rows)]))
        condition = None
        if r.random() < 0.1:
            condition = binary("lt", r.choice(rows + reduced), r.choice(reduced))
        kernel = summed(target, tuple(domain), tuple(reduced), value, initial, epilogue, condition)
        tensors = tuple(self.inputs)
        constant = frozenset(t for t in tensors if r.random() < 0.4)
        return Case(kernel, tensors, constant)

    def _indices(self, counts: tuple[int, int, int, int]) -> list[list[Index]]:
        while True:
            found = [
                [index(f"{'brck'[c]}{n}", self.r.choice(_EXTENTS)) for n in range(count)]
                for c, count in enumerate(counts)
            ]
            extents = [size_of(i) for part in found for i in part]
            if np.prod(extents, dtype=np.int64) <= _MOST:
                return found

    def _input(self, name: str, shape: list[int], dtype: DType | None = None) -> Tensor:
        made = tensor(name, *shape, dtype=dtype or self.dtype)
        self.inputs.append(made)
        return made

    def _plain(self, name: str, indices: list[Index]) -> Expr:
        return at(self._input(name, [size_of(i) for i in indices]), *indices)

    def _operand(self, name: str, indices: list[Index]) -> Expr:
        r = self.r
        left = list(indices)
        r.shuffle(left)
        if r.random() < 0.3 and len(left) > 1:
            left.sort(key=lambda i: i.name)
        subscripts, shape = [], []
        while left:
            first = left.pop()
            kind = r.random()
            if kind < 0.35 and left:
                s, n = self._window(first, left.pop())
            elif kind < 0.45:
                s, n = self._gather(name, first)
            elif kind < 0.55:
                s, n = self._folded(first)
            else:
                s, n = Subscript(first), size_of(first) + r.choice([0, 0, 1, 3])
            subscripts.append(s)
            shape.append(n)
        value: Expr = at(self._input(name, shape), *subscripts)
        if r.random() < 0.2:
            value = Apply("tanh", (value,))
        if r.random() < 0.15 and indices:
            scaled = self._plain(f"{name}s", [r.choice(indices)])
            value = binary(r.choice(["add", "mul"]), value, scaled)
        if r.random() < 0.1 and indices:
            test = binary("eq", binary("mod", r.choice(indices), 3), 0)
            value = Select(test, value, Const(0.5, self.dtype))
        return value

    def _window(self, a: Index, b: Index) -> tuple[Subscript, int]:
        """`stride * a + dilation * b - pad`, inside, guarded or remapped."""
        r = self.r
        stride, dilation = r.choice([1, 1, 2, 3, 5]), r.choice([1, 1, 2])
        top = stride * (size_of(a) - 1) + dilation * (size_of(b) - 1)
        e = binary("add", binary("mul", a, stride), binary("mul", b, dilation))
        if r.random() < 0.2:
            e = binary("sub", integer(top), e)
        pad = r.choice([0, 1, 2])
        rule: Rule = None
        n = top + 1
        if pad:
            e = binary("sub", e, pad)
            n = max(1, top + 1 - 2 * pad)
            rule = Skip() if r.random() < 0.7 else Remap(integer(0), integer(n - 1))
        return Subscript(e, rule), n

    def _gather(self, name: str, i: Index) -> tuple[Subscript, int]:
        """Through a table of indices."""
        n = self.r.choice([3, 9, 20])
        table = self._input(f"{name}{i.name}<{n}", [size_of(i)], DType.INT64)
        return Subscript(at(table, i)), n

    def _folded(self, i: Index) -> tuple[Subscript, int]:
        """A quotient or a remainder."""
        k = self.r.choice([2, 3, 4])
        if self.r.random() < 0.5:
            return Subscript(binary("mod", i, k)), k
        return Subscript(binary("floordiv", i, k)), (size_of(i) - 1) // k + 1
