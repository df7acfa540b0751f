"""Random sums of products with a symbol for one extent: one code, compared for several sizes."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import contraction_open, contraction_open_write, nest
from ricci.backends.llvm.contraction_form import find_form
from ricci.backends.llvm.contraction_open import match
from ricci.backends.llvm.contraction_open_write import begins_earlier
from ricci.backends.llvm.contraction_plan import make_plan
from ricci.backends.llvm.contraction_results import result_step
from ricci.backends.llvm.kernels import KernelCode, generate
from ricci.backends.llvm.target import host
from ricci.backends.llvm.targets import named
from ricci.dtypes import DType
from ricci.ir import shapes
from ricci.ir.loops import Reduce, expressions_of
from ricci.ir.nodes import Access, Expr, Index, Symbol, Tensor, integer
from ricci.ir.rewrite import Replaceable, accesses, free_indices
from ricci.passes.fuse import substitute_kernel

from .cases import Case, RandomCase, convolution, matmul, random_product
from .native import Native
from .oracle import reduce

_TOLERANCE = {DType.FLOAT32: 3e-5, DType.FLOAT64: 1e-12}


def changed(kernel: Reduce, index: Index, new: Index, tensors: dict[Tensor, Tensor]) -> Reduce:
    """The kernel with another index and other tensors."""
    mapping: dict[Replaceable, Expr | Tensor] = {index: new, **tensors}
    domain = tuple(new if i is index else i for i in kernel.domain)
    reduced = tuple(new if i is index else i for i in kernel.reduced)
    return replace(substitute_kernel(kernel, mapping, domain), reduced=reduced)


def every_access(kernel: Reduce) -> tuple[Access, ...]:
    return (*kernel.targets, *accesses(*expressions_of(kernel)))


def opened(case: Case, index: Index, symbol: Symbol) -> Case | None:
    """The case with a symbol for the extent of an index, if no longer subscript has that."""
    tensors: dict[Tensor, Tensor] = {}
    for a in every_access(case.kernel):
        shape = list(a.tensor.shape)
        for d, s in enumerate(a.subscripts):
            if s.index is index:
                shape[d] = shapes.add(symbol, shapes.sub(shape[d], index.extent))
            elif index in free_indices(s.index):
                return None
        if tuple(shape) != a.tensor.shape or a.tensor in tensors:
            new = tensors.setdefault(a.tensor, replace(a.tensor, shape=tuple(shape)))
            if new.shape != tuple(shape):
                return None
    kernel = changed(case.kernel, index, Index(index.name, symbol), tensors)
    inputs = tuple(tensors.get(t, t) for t in case.inputs)
    return Case(kernel, inputs, frozenset(tensors.get(t, t) for t in case.constant))


Sizes = Mapping[Symbol, int]


def closed(case: Case, sizes: Sizes) -> tuple[Case, dict[Tensor, Tensor]]:
    """The case for one choice of sizes, and its tensors."""
    tensors: dict[Tensor, Tensor] = {}
    for tensor in dict.fromkeys((*case.inputs, *(a.tensor for a in every_access(case.kernel)))):
        shape = tuple(integer(shapes.evaluate(e, sizes)) for e in tensor.shape)
        tensors[tensor] = replace(tensor, shape=shape)
    kernel, new = case.kernel, tensors
    for index in (*kernel.domain, *kernel.reduced):
        if isinstance(index.extent, Symbol):
            kernel = changed(kernel, index, Index(index.name, integer(sizes[index.extent])), new)
            new = {}
    return Case(kernel, tuple(tensors[t] for t in case.inputs)), tensors


def compare(case: Case, code: KernelCode, sizes: Sizes, seed: int) -> None:
    """Run the code for one choice of sizes between fences, against NumPy."""
    known, tensors = closed(case, sizes)
    values = known.arrays(seed)
    arrays = {old: values[new] for old, new in tensors.items() if new in values}
    native = Native(code, arrays, host(), at_end=seed % 3 > 0, sizes=sizes)
    native.run(1 + seed % 3)
    assert not native.errors.any()
    expected, found = reduce(known.kernel, values), native.array(case.target)
    scale = float(np.abs(expected).max(initial=1.0))
    error = float(np.abs(found - expected).max(initial=0.0)) / scale
    assert error < _TOLERANCE[case.target.dtype], f"seed {seed}, {sizes}: error {error}"


def check(case: Case, code: KernelCode, symbol: Symbol, seed: int) -> None:
    """Compare for the sizes at the ends, and others."""
    r = random.Random(seed)
    bound = int(shapes.interval(symbol)[1])
    for size in sorted({0, 1, 2, r.randint(1, bound), r.randint(1, bound), bound}):
        compare(case, code, {symbol: size}, seed + size)


def test_random_contractions() -> None:
    """As loop nests, since the open index may be anywhere."""
    tried = 0
    for seed in range(6):
        r = random.Random(seed)
        drawn = RandomCase(seed).draw()
        indices = [*drawn.kernel.domain, *drawn.kernel.reduced]
        symbol = Symbol("n", integer(r.choice([3, 40, 90])))
        r.shuffle(indices)
        case = next((c for i in indices if (c := opened(drawn, i, symbol))), None)
        if case is not None:
            check(case, nest.generate(case.kernel, {}, host()), symbol, seed)
            tried += 1
    assert tried > 3


def test_random_products() -> None:
    peeled = 0
    for seed in range(24):
        r = random.Random(seed)
        case, symbols = random_product(seed), list[Symbol]()
        names = [i.name for i in case.kernel.domain]
        for name in r.sample(names, min(len(names), r.choice([1, 2, 2, 3]))):
            index = next(i for i in case.kernel.domain if i.name == name)
            symbol = Symbol(name, integer(r.choice([17, 40, 90])))
            wider = opened(case, index, symbol)
            if wider is not None:
                case = wider
                symbols.append(symbol)
        code = match(case.kernel, {}, host(), case.constant)
        peeled += code is not None
        code = code or generate(case.kernel, {}, host(), case.constant)
        for _ in range(4 if symbols else 0):
            sizes = {s: r.choice([0, 1, 2, 5, 17, r.randint(1, 17)]) for s in symbols}
            compare(case, code, sizes, seed)
    assert peeled > 10


PEELED = {
    "product": matmul(8, 96, 64),
    "product of a transposed matrix": matmul(8, 40, 128, right=True),
    "product in float64": matmul(8, 33, 65, dtype=DType.FLOAT64),
    "convolution": convolution(2, (8, 16), (9, 11), 3, pad=1, bias=True),
    "strided": convolution(2, (6, 32), (15, 13), 3, stride=2),
    "groups": convolution(2, (32, 32), (8, 8), 3, pad=1, groups=2),
}


@pytest.mark.parametrize("name", PEELED)
def test_kernels_for_known_sizes_in_a_loop(name: str) -> None:
    symbol = Symbol("n", integer(101))
    if "product" not in name:
        symbol = Symbol("n", integer(17))
    case = opened(PEELED[name], PEELED[name].kernel.domain[0], symbol)
    assert case is not None
    code = match(case.kernel, {}, host(), case.constant)
    assert code is not None
    check(case, code, symbol, len(name))


def test_constants_of_inner_kernels_have_names_of_their_own() -> None:
    uses = "define void @kernel(ptr %t) {\n  %v = load i32, ptr @kernel.zeros\n  ret void\n}\n"
    alone = "define internal void @kernel.alone() {\n  ret void\n}\n"
    texts = [
        f"@kernel.zeros = internal constant [{n} x i32] zeroinitializer\n{uses}{alone}"
        for n in (2, 3)
    ]
    joined = contraction_open_write._joined(texts)
    assert joined.count("define internal void @kernel.alone()") == 1
    for number, n in enumerate((2, 3)):
        assert f"@kernel.inner{number}.zeros = internal constant [{n} x i32]" in joined
        assert f"load i32, ptr @kernel.inner{number}.zeros\n" in joined


def test_rows_that_are_added_to_are_done_once() -> None:
    symbol = Symbol("n", integer(120))
    product = matmul(8, 96, 64)
    kernel = replace(product.kernel, initial=product.kernel.targets)
    kernel = substitute_kernel(kernel, {}, kernel.domain)
    case = opened(replace(product, kernel=kernel), kernel.domain[0], symbol)
    assert case is not None
    code = match(case.kernel, {}, host(), case.constant)
    assert code is not None
    for rows in (2, 7, 50, 101, 119):
        compare(case, code, {symbol: rows}, rows)


@pytest.mark.parametrize(
    ("columns", "terms", "short"), [(512, 512, False), (512, 512, True), (1000, 2048, False)]
)
def test_blocks_of_all_sizes_read_the_same_prepared_columns(
    columns: int, terms: int, short: bool
) -> None:
    """Also where the largest would have lower tiles by itself, which would read each twice for the
    rows of a block between."""
    caches = {"l1": 48 << 10, "l2": (512 if short else 2048) << 10, "shared": 32 << 20}
    target = replace(named("x86-64-v3" if short else "x86-64-v4"), cores=2, units=2, **caches)
    symbol = Symbol("n", integer(512))
    product = matmul(8, columns, terms)
    case = opened(product, product.kernel.domain[0], symbol)
    assert case is not None
    code = match(case.kernel, {}, target, case.constant)
    assert code is not None
    assert len(code.prepare) == 1
    assert len(re.findall(r"define internal void @kernel\.inner\d+\(", code.text)) > 4
    assert short or ".tile.9x" in code.text
    here = match(case.kernel, {}, host(), case.constant)
    assert here is not None
    for rows in (1, 7, 75):
        compare(case, here, {symbol: rows}, rows)


@pytest.mark.parametrize("right", [False, True])
def test_rows_and_columns(right: bool) -> None:
    n, m = Symbol("n", integer(150)), Symbol("m", integer(90))
    product = matmul(8, 9, 64, right=right)
    rows = opened(product, product.kernel.domain[0], n)
    assert rows is not None
    case = opened(rows, rows.kernel.domain[1], m)
    assert case is not None
    code = match(case.kernel, {}, host(), case.constant)
    assert code is not None
    for size in ((0, 3), (1, 1), (2, 90), (17, 16), (150, 1), (64, 64), (85, 79), (150, 90)):
        compare(case, code, dict(zip((n, m), size, strict=True)), sum(size))


def test_rows_far_apart() -> None:
    """The rows are the inner dimension of the operand and of the result, whose other strides are
    then not known."""
    n = Symbol("n", integer(110))
    product = matmul(8, 64, 96, left=True)
    case = opened(product, product.kernel.domain[0], n)
    assert case is not None
    code = match(case.kernel, {}, host(), case.constant)
    assert code is not None
    check(case, code, n, 5)


@pytest.mark.parametrize("again", [False, True])
def test_sums_of_some_terms_are_no_results(again: bool) -> None:
    """Where another thread may have stored these. Rows of constant columns that stay in the first
    cache have sums of several runs of terms."""
    target = replace(host(), cpu="znver5", vector_bytes=64, units=2, l1=48 << 10, l2=1 << 20)
    case = matmul(36, 512, 512)
    kernel = replace(case.kernel, again=again)
    form = find_form(kernel, {})
    assert form is not None
    plan = make_plan(form, {}, target, case.constant)
    assert plan.runs > 1
    assert (result_step(plan, {}) is None) == again


@pytest.mark.parametrize("repeatable", [False, True])
@pytest.mark.parametrize("sizes", [(36, 18, 9, 4, 2, 1), (64, 16, 1), (8, 4, 2, 1), (1,)])
def test_blocks_cover_everything(sizes: tuple[int, ...], repeatable: bool) -> None:
    """By as few rows as may be: what is computed twice is less than what smaller blocks would
    read again, and none if it must not be."""
    for total in range(150):
        rows, left = [0] * total, total
        for number, size in enumerate(sizes):
            first = total - left
            blocks, left = divmod(left, size)
            if repeatable and blocks and left in begins_earlier(sizes[number:]):
                blocks, left = blocks + 1, 0
            for block in range(blocks):
                begin = min(first + block * size, total - size)
                for row in range(begin, begin + size):
                    rows[row] += 1
        assert left == 0
        assert all(n in (1, 2) for n in rows)
        assert sum(rows) == total or repeatable
    assert begins_earlier((9, 4, 2, 1)) == [3, 5, 6, 7, 8]
    assert begins_earlier((8, 4, 2, 1)) == [3, 5, 6, 7]


@pytest.mark.parametrize("tiles", [4, 11, 25])
def test_large_blocks(monkeypatch: pytest.MonkeyPatch, tiles: int) -> None:
    """Of which more may be left than there are bits in a register. (For one core: what several
    divide unevenly may be done by other code.)"""
    monkeypatch.setattr(contraction_open, "_TILES", tiles)
    n = Symbol("n", integer(600))
    product = matmul(8, 48, 96)
    case = opened(product, product.kernel.domain[0], n)
    assert case is not None
    code = match(case.kernel, {}, replace(host(), cores=1), case.constant)
    assert code is not None
    known = [
        (int(bits), int(width)) for width, bits in re.findall(r"lshr i(\d+) (\d+), %", code.text)
    ]
    assert len(known) > 2 and all(bits < 1 << width for bits, width in known)
    for rows in (1, 63, 64, 65, 127, 128, 180, 239, 250, 301, 449, 600):
        compare(case, code, {n: rows}, rows)


@pytest.mark.parametrize(
    ("terms", "columns", "counts"),
    [(512, 512, (7, 33, 40, 58)), (3000, 2, (12, 16, 51, 53)), (2048, 1, (12, 53))],
)
def test_threads_that_do_the_same_rows(terms: int, columns: int, counts: tuple[int, ...]) -> None:
    """None sees, or leaves, what another one has of them before it has all, and the terms of a row
    are added up in the same order wherever in a block it is."""
    model = ricci.parse(f"""
import nn;
graph G {{
    @input {{ x: real[b|64, {terms}]; }}
    @variable {{ w: real[{columns}, {terms}]; }}
    @output {{ y: real[b, {columns}]; }}
    @compose {{ y = nn.linear(x, w); }}
}}""")
    run = model.compile(threads=2)
    rng = np.random.default_rng(1)
    w = run.variables["main.G.w"] = rng.standard_normal((columns, terms), np.float32)
    for rows in counts:
        x = rng.standard_normal((rows, terms), np.float32)
        first = run(x)
        np.testing.assert_allclose(first, x.astype(np.float64) @ w.T, 1e-4, 3e-4)
        for _ in range(300):
            np.testing.assert_array_equal(run(x), first)
