"""Numbers of bfloat16, multiplied two by two: by matrices in registers and by vectors, in functions
where the processor has no such instructions, and by the processor where it has."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

from ricci.backends.llvm.contraction import choose, follow, form_of
from ricci.backends.llvm.contraction_form import Form
from ricci.backends.llvm.contraction_plan import make_plan
from ricci.backends.llvm.contraction_schedule import schedule_of
from ricci.backends.llvm.contraction_words import find_words, with_strides, with_views
from ricci.backends.llvm.kernels import KernelCode
from ricci.backends.llvm.matrix_choice import ranked_plans
from ricci.backends.llvm.matrix_window import choose_matrix_window
from ricci.backends.llvm.schedule import Contraction, Matrices, MatrixWindow, Schedule, Window
from ricci.backends.llvm.target import Target, host
from ricci.backends.llvm.targets import named
from ricci.backends.llvm.window_choice import choose_window
from ricci.diagnostics import Error
from ricci.dtypes import DType, from_bfloat16, to_bfloat16
from ricci.ir.nodes import Binary, Cast, Const, Expr, Local, Skip, Subscript, Tensor

from .cases import Case, at, binary, index, summed, tensor
from .emulated import has_pairs, results_of
from .oracle import reduce

HOST = host()
AMX = replace(named("x86-64-v4-amx"), cores=2)
VECTORS = replace(named("x86-64-v4-bf16"), cores=2)
Arrays = Mapping[Tensor, np.ndarray]


def single(value: Expr) -> Expr:
    return Cast(DType.FLOAT32, value)


def product(m: int, n: int, k: int, left: bool = False, right: bool = False) -> Case:
    """A product of matrices, either of which may be stored transposed; the right one is given."""
    i, j, r = index("i", m), index("j", n), index("k", k)
    a = tensor("a", *((k, m) if left else (m, k)), dtype=DType.BFLOAT16)
    b = tensor("b", *((n, k) if right else (k, n)), dtype=DType.BFLOAT16)
    x, y = at(a, *((r, i) if left else (i, r))), at(b, *((j, r) if right else (r, j)))
    value = binary("mul", single(x), single(y))
    kernel = summed(at(tensor("c", m, n), i, j), (i, j), (r,), value)
    return Case(kernel, (a, b), frozenset([b]))


def windows(
    size: tuple[int, int], channels: tuple[int, int], stride: int, pad: int, narrow: bool = False
) -> Case:
    """Three by three neighbours, channels side by side; the results of bfloat16 if `narrow`, with
    an offset for each channel."""
    n, y, x = index("n", 2), index("y", size[0]), index("x", size[1])
    o, c, p, q = index("o", channels[1]), index("c", channels[0]), index("p", 3), index("q", 3)
    extents = [stride * (e - 1) + 3 - 2 * pad for e in size]
    image = tensor("x", 2, *extents, channels[0], dtype=DType.BFLOAT16)
    weight = tensor("w", channels[1], channels[0], 3, 3, dtype=DType.BFLOAT16)
    bias = tensor("b", channels[1], dtype=DType.BFLOAT16)
    places = []
    for own, inside in ((y, p), (x, q)):
        place = binary("add", binary("mul", own, stride), inside)
        places.append(Subscript(binary("sub", place, pad), Skip() if pad else None))
    value = binary("mul", single(at(image, n, *places, c)), single(at(weight, o, c, p, q)))
    dtype = DType.BFLOAT16 if narrow else DType.FLOAT32
    target = at(tensor("y", 2, *size, channels[1], dtype=dtype), n, y, x, o)
    kernel = summed(
        at(tensor("y", 2, *size, channels[1]), n, y, x, o), (n, y, x, o), (c, p, q), value
    )
    if narrow:
        acc = Local("acc", Const(0.0, DType.FLOAT32))
        result = Cast(dtype, Binary("add", acc, single(at(bias, o))))
        kernel = replace(kernel, targets=(target,), accumulators=(acc,), results=(result,))
    return Case(kernel, (image, weight, *([bias] if narrow else [])), frozenset([weight, bias]))


def numbers(case: Case, seed: int) -> dict[Tensor, np.ndarray]:
    """Inputs in float32 that are numbers of bfloat16."""
    rng = np.random.default_rng(seed)
    found = {}
    for t in case.inputs:
        shape = [int(e.value) for e in t.shape if isinstance(e, Const)]
        found[t] = from_bfloat16(to_bfloat16(rng.standard_normal(shape).astype(np.float32)))
    return found


def natives(code: KernelCode, case: Case, arrays: Arrays, target: Target) -> Iterator[np.ndarray]:
    """The results by functions, and by the processor if it has what the target has."""
    given = {t: to_bfloat16(a) for t, a in arrays.items()}
    shape = [int(e.value) for e in case.target.shape if isinstance(e, Const)]
    given[case.target] = np.zeros(shape, case.target.dtype.numpy())
    return results_of(code, given, case.target, has_pairs(target))


def wanted(case: Case, arrays: Arrays) -> np.ndarray:
    shape = [int(e.value) for e in case.target.shape if isinstance(e, Const)]
    with np.errstate(invalid="ignore", over="ignore"):
        return reduce(case.kernel, {**arrays, case.target: np.zeros(shape, np.float32)})


def check(
    case: Case, schedule: Schedule, target: Target, arrays: Arrays | None = None, seed: int = 0
) -> None:
    assert isinstance(schedule, Contraction | Matrices | Window | MatrixWindow)
    code = follow(case.kernel, schedule, {}, target, case.constant)
    by_matrices = isinstance(schedule, Matrices | MatrixWindow)
    assert ("tdpbf16ps" if by_matrices else "avx512bf16.dpbf16ps") in code.text
    arrays = arrays or numbers(case, seed)
    expected = wanted(case, arrays)
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1.0))
    error = 1e-6 if case.target.dtype is DType.FLOAT32 else 4e-3
    for found in natives(code, case, arrays, target):
        np.testing.assert_allclose(found, expected, error, error * scale)


def words(case: Case, target: Target, matrices: bool) -> Form:
    found = find_words(case.kernel, {}, target, matrices)
    assert found is not None
    return found


def by_matrices(case: Case) -> Iterator[Matrices]:
    """Schedules for each way to read the operands."""
    form = words(case, AMX, True)
    given = with_strides(form, {}), AMX, with_views(form, case.constant)
    for _, plan in ranked_plans(form, *given):
        schedule = schedule_of(plan)
        assert isinstance(schedule, Matrices)
        yield schedule


def by_vectors(case: Case) -> Contraction:
    form = words(case, VECTORS, False)
    plan = make_plan(form, with_strides(form, {}), VECTORS, with_views(form, case.constant))
    schedule = schedule_of(plan)
    assert isinstance(schedule, Contraction)
    return schedule


SHAPES = [
    (33, 48, 64, False, False),
    (37, 50, 71, False, True),
    (16, 17, 34, True, False),
    (5, 40, 33, True, True),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_products_that_fill_neither_words_nor_matrices(
    shape: tuple[int, int, int, bool, bool],
) -> None:
    case = product(*shape)
    for number, schedule in enumerate(by_matrices(case)):
        check(case, schedule, AMX)
        if number % 2:
            check(case, replace(schedule, row_block=32, lane_block=32, block=3), AMX)
    schedule = by_vectors(case)
    check(case, schedule, VECTORS)
    check(case, replace(schedule, row_block=schedule.rows, block=5), VECTORS)


@pytest.mark.parametrize(("stride", "pad"), [(1, 1), (2, 0), (2, 1)])
@pytest.mark.parametrize("narrow", [False, True])
def test_windows(stride: int, pad: int, narrow: bool) -> None:
    """Channels that do not fill matrices, with a border and without."""
    case = windows((7, 18), (36, 40), stride, pad, narrow)
    form = words(case, AMX, True)
    given = with_strides(form, {}), AMX, with_views(form, case.constant)
    found = choose_matrix_window(form, *given, math.inf)
    assert found is not None
    check(case, found[1], AMX)
    check(case, replace(found[1], row_block=7, depth_block=6), AMX)
    form = words(case, VECTORS, False)
    target = VECTORS if form.words is None else form.words.room(VECTORS)
    strides, constant = with_strides(form, {}), with_views(form, case.constant)
    window = choose_window(form, strides, target, constant, math.inf, math.inf)
    assert window is not None
    check(case, window, VECTORS)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize(
    ("row_block", "lane_block", "depth_block", "lanes_first"),
    [(20, 64, 32, 0), (10, 32, 16, 1), (5, 64, 16, 1), (10, 32, 8, 0)],
)
def test_words_are_read_where_they_lie(
    stride: int, pad: int, row_block: int, lane_block: int, depth_block: int, lanes_first: int
) -> None:
    """Those of pixels in their box, and of columns where they are prepared, if there are rows of
    tiles enough, and if blocks are whole steps."""
    case = windows((20, 32), (64, 64), stride, pad)
    form = words(case, AMX, True)
    given = with_strides(form, {}), AMX, with_views(form, case.constant)
    found = choose_matrix_window(form, *given, math.inf)
    assert found is not None
    schedule = replace(
        found[1], row_block=row_block, lane_block=lane_block, depth_block=depth_block,
        lanes_first=lanes_first,
    )  # fmt: skip
    check(case, schedule, AMX)
    text = follow(case.kernel, schedule, {}, AMX, case.constant).text
    is_whole, many = depth_block % 16 == 0, row_block >= 8
    assert ("kernel.matrices.rows." in text) != is_whole
    assert ("kernel.matrices.columns." in text) != (is_whole and many)


def test_columns_stay_in_a_cache() -> None:
    """Those of an item, though nothing is copied: others are read by later items."""
    case = windows((32, 32), (512, 512), 1, 1)
    form = words(case, AMX, True)
    given = with_strides(form, {}), AMX, with_views(form, case.constant)
    found = choose_matrix_window(form, *given, math.inf)
    assert found is not None
    lanes, deep = found[1].lane_block or 512, 2 * (found[1].depth_block or 256)
    assert 9 * 2 * lanes * deep < AMX.l2


def test_channels_that_fill_no_words() -> None:
    """Three of them: the fourth of two words is zero, even beside an infinity."""
    case = windows((9, 16), (3, 40), 1, 1)
    arrays = numbers(case, 3)
    arrays[case.inputs[0]][1, 4, 5, 2] = np.inf
    for schedule in itertools.islice(by_matrices(case), 3):
        check(case, schedule, AMX, arrays)
    check(case, by_vectors(case), VECTORS, arrays)


def test_strides_of_what_words_are_made_of() -> None:
    """Rows side by side in memory: words are put together from elements that are apart."""
    m, n, k = 33, 40, 38
    case = product(m, n, k, right=True)
    a = case.inputs[0]
    strides = {a: (1, m)}
    arrays = numbers(case, 7)
    expected = wanted(case, arrays)
    arrays[a] = np.ascontiguousarray(arrays[a].T).reshape(m, k)
    for target, matrices in ((AMX, True), (VECTORS, False)):
        form = find_words(case.kernel, strides, target, matrices)
        assert form is not None
        given = with_strides(form, strides), target, with_views(form, case.constant)
        plan = ranked_plans(form, *given)[0][1] if matrices else make_plan(form, *given)
        schedule = schedule_of(plan)
        assert isinstance(schedule, Contraction | Matrices)
        code = follow(case.kernel, schedule, strides, target, case.constant)
        assert "bf16ps" in code.text
        for found in natives(code, case, arrays, target):
            np.testing.assert_allclose(found, expected, 1e-6, 1e-5)


def test_infinities_and_what_is_no_number() -> None:
    """Where they are read, and nowhere else; of a word that is not full, too."""
    case = product(20, 40, 35, False, True)
    arrays = numbers(case, 5)
    a, b = case.inputs
    arrays[a][3, 34], arrays[a][7, 0], arrays[b][11, 34] = np.inf, np.nan, -np.inf
    for schedule in by_matrices(case):
        check(case, schedule, AMX, arrays)
    check(case, by_vectors(case), VECTORS, arrays)


def test_what_is_chosen() -> None:
    """Pairs for all sums of products but those of single rows or channels."""
    for target, kinds in ((AMX, Matrices), (VECTORS, Contraction)):
        assert isinstance(choose(product(256, 256, 256).kernel, {}, target, frozenset()), kinds)
        case = windows((28, 28), (64, 64), 1, 1)
        chosen = choose(case.kernel, {}, target, case.constant)
        assert isinstance(chosen, MatrixWindow if target is AMX else Window)
    assert find_words(product(8, 8, 8).kernel, {}, named("x86-64-v4")) is None
    assert find_words(product(1, 64, 64).kernel, {}, AMX) is not None


def depthwise(channels: int, size: int, pad: int) -> Case:
    """Three by three neighbours of each channel, which lie side by side."""
    c, y, x = index("c", channels), index("y", size), index("x", size)
    p, q = index("p", 3), index("q", 3)
    wide = size + 2 - 2 * pad
    image = tensor("x", wide, wide, channels, dtype=DType.BFLOAT16)
    weight = tensor("w", channels, 3, 3, dtype=DType.BFLOAT16)
    places = [
        Subscript(binary("sub", binary("add", own, inside), pad), Skip() if pad else None)
        for own, inside in ((y, p), (x, q))
    ]
    value = binary("mul", single(at(image, *places, c)), single(at(weight, c, p, q)))
    target = at(tensor("y", size, size, channels), y, x, c)
    kernel = summed(target, (y, x, c), (p, q), value)
    return Case(kernel, (image, weight), frozenset([weight]))


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("target", [AMX, VECTORS, named("x86-64-v4"), named("x86-64-v3")])
def test_windows_of_single_channels_are_plain_loops(target: Target, pad: int, cores: int) -> None:
    case = depthwise(576, 14, pad)
    assert find_words(case.kernel, {}, target) is None
    assert choose(case.kernel, {}, replace(target, cores=cores), case.constant) is None


def test_they_can_be_forbidden() -> None:
    """Where tiny numbers count: factors are made float32 then."""
    case = product(64, 64, 64)
    for target in (AMX, VECTORS):
        forbidden = replace(target, in_parts=False)
        assert find_words(case.kernel, {}, forbidden) is None
        assert find_words(case.kernel, {}, forbidden, matrices=True) is None
        schedule = choose(case.kernel, {}, forbidden, case.constant)
        assert isinstance(schedule, Contraction)
        text = follow(case.kernel, schedule, {}, forbidden, case.constant).text
        assert "bf16ps" not in text and "cvtneps2bf16" not in text


def test_schedules_that_do_not_fit_are_refused() -> None:
    case = product(64, 64, 64)
    schedule = by_vectors(case)
    with pytest.raises(Error, match="E0807"):
        follow(case.kernel, replace(schedule, vector="left"), {}, VECTORS, case.constant)
    assert form_of(case.kernel, {}) is not None


def test_results_are_rounded_by_the_instruction() -> None:
    """Of sums of pairs alone: it takes tiny numbers for zero, as these do."""
    case = windows((8, 16), (32, 32), 1, 1, narrow=True)
    kinds = [(AMX, True), (VECTORS, True), (named("x86-64-v4"), False)]
    for target, is_there in (*kinds, (replace(AMX, in_parts=False), False)):
        schedule = choose(case.kernel, {}, target, case.constant)
        assert schedule is not None
        text = follow(case.kernel, schedule, {}, target, case.constant).text
        assert ("cvtneps2bf16" in text) is is_there
