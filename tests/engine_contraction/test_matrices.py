"""Products by matrices in registers, done by functions where the processor has no such registers,
and by the processor where it has: what NumPy gives in float64, as exact as by multiply-adds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import matrix_choice, target
from ricci.backends.llvm.contraction import cycles_of, follow, form_of
from ricci.backends.llvm.contraction_form import Form, find_form
from ricci.backends.llvm.contraction_schedule import schedule_of
from ricci.backends.llvm.contraction_words import find_words
from ricci.backends.llvm.kernels import KernelCode, choose
from ricci.backends.llvm.matrix import MatrixProduct, MatrixTile, panel_rows
from ricci.backends.llvm.matrix_choice import ranked_plans, room, until_done
from ricci.backends.llvm.matrix_tile import write_tile
from ricci.backends.llvm.schedule import Contraction, Matrices, Window
from ricci.backends.llvm.target import Target, as_allowed, host
from ricci.backends.llvm.targets import named
from ricci.diagnostics import Error
from ricci.dtypes import DType, Types
from ricci.ir.loops import Reduce
from ricci.ir.nodes import Cast
from ricci.passes.pipeline import lower
from ricci.runtime.options import Options, as_options

from .cases import Case, RandomCase, at, binary, convolution, index, matmul, summed, tensor
from .emulated import emulated
from .native import Native
from .oracle import reduce

HOST = host()
TARGET = replace(named("x86-64-v4-amx"), cores=2)


def natives(code: KernelCode, case: Case, arrays: dict) -> Iterator[np.ndarray]:
    """The results by functions, and by the processor if it has matrices."""
    forms: list[tuple[KernelCode, Target]] = [(emulated(code), HOST)]
    if HOST.matrices:
        forms.append((code, HOST))
    for form, machine in forms:
        for at_end in (True, False):
            native = Native(form, arrays, machine, at_end)
            native.run()
            assert not native.errors.any()
            yield native.array(case.target)


def schedules(case: Case) -> list[Matrices]:
    """One for each way to read the operands."""
    form = find_form(case.kernel, {})
    assert form is not None
    plans = ranked_plans(form, {}, TARGET, case.constant)
    found = [s for _, p in plans if isinstance(s := schedule_of(p), Matrices)]
    assert found
    return list(dict.fromkeys(found))


def check(case: Case, schedule: Matrices, seed: int = 0, tolerance: float = 1e-6) -> None:
    code = follow(case.kernel, schedule, {}, TARGET, case.constant)
    assert "tdpbf16ps" in code.text
    arrays = case.arrays(seed)
    expected = reduce(case.kernel, arrays)
    scale = float(np.abs(expected).max(initial=1.0))
    for found in natives(code, case, arrays):
        assert np.abs(found - expected).max(initial=0.0) < tolerance * scale


SHAPES = [
    ((33, 48, 64), False, False),
    ((37, 50, 70), False, True),
    ((16, 17, 33), True, False),
    ((5, 40, 31), True, True),
]


@pytest.mark.parametrize(("shape", "left", "right"), SHAPES)
def test_products_that_fill_no_matrix(shape: tuple[int, int, int], left: bool, right: bool) -> None:
    """Rows, columns and k that are no multiples of what matrices hold, stored either way."""
    case = matmul(*shape, left, right)
    for schedule in schedules(case)[::2]:
        check(case, schedule)
    check(case, replace(schedule, row_block=32, lane_block=32, block=32))


@pytest.mark.parametrize("seed", range(8))
def test_random_contractions(seed: int) -> None:
    """Whatever subscripts are: by random blocks, with what precedes and follows the sums."""
    r = random.Random(seed)
    for number in range(4):
        case = RandomCase(100 * seed + number).draw()
        form = find_form(case.kernel, {})
        if form is None or form.dtype is not DType.FLOAT32:
            continue
        schedule = r.choice(schedules(case))
        sizes = {"row_block": 32 * r.randint(1, 3), "lane_block": 32 * r.randint(1, 3)}
        schedule = replace(schedule, block=r.randint(1, 2 * schedule.block), **sizes)
        check(case, schedule, seed, 3e-6)


def test_convolutions_with_borders_and_a_bias() -> None:
    for stride, groups in ((1, 1), (2, 1), (1, 2)):
        case = convolution(2, (12, 40), (9, 11), 3, stride, 1, groups, bias=True)
        for schedule in schedules(case)[stride - 1 :: 2]:
            check(case, schedule)


def test_sums_are_as_exact_as_by_multiply_adds() -> None:
    """Of long sums, and of numbers of one sign, whose errors would add up if all had one."""
    case = matmul(32, 32, 4096)
    (schedule, *_) = schedules(case)
    code = follow(case.kernel, schedule, {}, TARGET, case.constant)
    for sign in (1, 0):
        arrays = {t: a if sign else np.abs(a) for t, a in case.arrays(3).items()}
        expected = reduce(case.kernel, arrays)
        a, b = (arrays[t] for t in case.inputs)
        plain = np.zeros((32, 32), np.float32)
        for k in range(4096):
            plain += a[:, k, None] * b[None, k]
        limit = np.sqrt(np.mean((plain - expected) ** 2))
        for found in natives(code, case, arrays):
            assert np.sqrt(np.mean((found - expected) ** 2)) < limit / 2


def test_each_product_has_all_bits() -> None:
    """A sum of one product is off by two units of its last place at most."""
    case = matmul(32, 32, 1)
    code = follow(case.kernel, schedules(case)[0], {}, TARGET, case.constant)
    arrays = case.arrays(5)
    a, b = (arrays[t] for t in case.inputs)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for found in natives(code, case, arrays):
        assert (np.abs(found - exact) / np.spacing(np.abs(found))).max() <= 2


@pytest.mark.parametrize("value", [-np.inf, np.nan, 3.4e38])
def test_numbers_that_are_no_sums_of_parts(value: float) -> None:
    """Infinities, NaN and what is nearly infinite reach the results that they are factors of, and
    no others."""
    case = matmul(40, 40, 70)
    a, b = case.inputs
    for place in (a, b):
        arrays = case.arrays(1)
        arrays[place][3, 5] = value
        arrays[b if place is a else a][5, 7] = 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            expected = (arrays[a].astype(np.float64) @ arrays[b].astype(np.float64)).astype("f4")
        for schedule in schedules(case)[::2]:
            code = follow(case.kernel, schedule, {}, TARGET, case.constant)
            for found in natives(code, case, arrays):
                np.testing.assert_allclose(found, expected, 1e-4, 1e-4)


@pytest.mark.parametrize("value", [1.0, np.inf])
@pytest.mark.parametrize("columns", [50, 63, 17])
def test_columns_are_read_in_place_whatever_their_number(columns: int, value: float) -> None:
    """And nothing beyond the last of them, by multiply-adds neither."""
    case = replace(matmul(40, columns, 70), constant=frozenset())
    a, b = case.inputs
    arrays = case.arrays(2)
    arrays[b][69, columns - 1] = value
    with np.errstate(invalid="ignore"):
        expected = arrays[a].astype(np.float64) @ arrays[b].astype(np.float64)
    found = [s for s in schedules(case) if (s.vector, s.vector_source) == ("right", "direct")]
    assert found
    for schedule in found:
        code = follow(case.kernel, schedule, {}, TARGET, case.constant)
        for result in natives(code, case, arrays):
            np.testing.assert_allclose(result, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("value", [1.0, np.inf])
@pytest.mark.parametrize("block", [32, 100])
def test_sums_that_wait_belong_to_the_tile_before(block: int, value: float) -> None:
    """Several tiles beside and below one another, in blocks of k with as many steps as there are
    pieces to add, or fewer; and blocks of multiply-adds among them."""
    case = matmul(70, 110, 170)
    a, b = case.inputs
    arrays = case.arrays(7)
    arrays[a][3, 40] = value
    with np.errstate(invalid="ignore"):
        expected = arrays[a].astype(np.float64) @ arrays[b].astype(np.float64)
    schedule = replace(schedules(case)[0], row_block=64, lane_block=96, block=block)
    code = follow(case.kernel, schedule, {}, TARGET, case.constant)
    for found in natives(code, case, arrays):
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def test_what_one_block_has_others_do_not_pay_for() -> None:
    """Blocks of rows behind one with an infinity are done by matrices: without multiply-adds they
    are as they should be, and that one is not."""
    case = matmul(64, 32, 70)
    schedule = replace(schedules(case)[0], vector="right", row_block=32, lane_block=32)
    code = follow(case.kernel, schedule, {}, TARGET, case.constant)
    text = "\n".join(x for x in code.text.splitlines() if "call void @kernel.tile." not in x)
    arrays = case.arrays(6)
    a, b = case.inputs
    arrays[a][3, 5] = np.inf
    expected = arrays[a][32:].astype(np.float64) @ arrays[b].astype(np.float64)
    for found in natives(replace(code, text=text), case, arrays):
        np.testing.assert_allclose(found[32:], expected, 1e-5, 1e-5)
        assert not np.isinf(found[3]).all()


@pytest.mark.parametrize(
    ("dtype", "products"), [(DType.FLOAT32, 6), (DType.FLOAT16, 5), (DType.BFLOAT16, 3)]
)
def test_narrow_numbers_are_sums_of_fewer_parts(dtype: DType, products: int) -> None:
    i, j, k = index("i", 40), index("j", 48), index("k", 70)
    a, b = tensor("a", 40, 70), tensor("b", 70, 48, dtype=dtype)
    right = at(b, k, j)
    value = binary("mul", at(a, i, k), right if dtype is a.dtype else Cast(a.dtype, right))
    case = Case(summed(at(tensor("c", 40, 48), i, j), (i, j), (k,), value), (a, b))
    form = find_form(case.kernel, {})
    assert form is not None
    for schedule in schedules(case)[::2]:
        code = follow(case.kernel, schedule, {}, TARGET, frozenset())
        tile = code.text.partition("define internal void @kernel.matrices.16.16x2")[2]
        assert tile.partition("\n}")[0].count("@llvm.x86.tdpbf16ps") == 2 * 4 * products
        arrays = case.arrays(2)
        numbers = np.random.default_rng(2).standard_normal((70, 48)).astype(np.float32)
        narrow = _narrow(numbers, dtype)
        arrays[b] = narrow.view(dtype.numpy()) if dtype is DType.BFLOAT16 else narrow
        expected = arrays[a].astype(np.float64) @ _wide(arrays[b], dtype)
        for found in natives(code, case, arrays):
            np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


def _narrow(numbers: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype is not DType.BFLOAT16:
        return numbers.astype(dtype.numpy())
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)


def _wide(numbers: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype is not DType.BFLOAT16:
        return numbers.astype(np.float64)
    bits = numbers.view(np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32).astype(np.float64)


KINDS = {
    ("int8", "int8"): "tdpbssd",
    ("uint8", "int8"): "tdpbusd",
    ("int8", "uint8"): "tdpbsud",
    ("uint8", "uint8"): "tdpbuud",
}


def _integers(m: int, n: int, k: int, left: str, right: str, turned: bool) -> Case:
    i, j, r = index("i", m), index("j", n), index("k", k)
    a = tensor(f"a<{256}", m, k, dtype=DType(left))
    b = tensor(f"b<{256}", *((n, k) if turned else (k, n)), dtype=DType(right))
    access = at(b, *((j, r) if turned else (r, j)))
    value = binary("mul", Cast(DType.INT32, at(a, i, r)), Cast(DType.INT32, access))
    c = tensor("c", m, n, dtype=DType.INT32)
    return Case(summed(at(c, i, j), (i, j), (r,), value), (a, b), frozenset([b]))


@pytest.mark.parametrize(("types", "instruction"), KINDS.items())
def test_integers_are_exact(types: tuple[str, str], instruction: str) -> None:
    for m, n, k, turned in ((33, 40, 64, False), (50, 33, 70, True), (16, 48, 256, True)):
        case = _integers(m, n, k, *types, turned)
        rng = np.random.default_rng(m)
        arrays = case.arrays(0)
        for t in case.inputs:
            kind = t.dtype.numpy()
            limits = np.iinfo(kind)
            arrays[t] = rng.integers(limits.min, limits.max, arrays[t].shape, kind, endpoint=True)
        a, b = (arrays[t].astype(np.int64) for t in case.inputs)
        expected = a @ (b.T if turned else b)
        form = find_words(case.kernel, {}, TARGET, matrices=True)
        assert form is not None
        for schedule in _of_words(form, case):
            code = follow(case.kernel, schedule, {}, TARGET, case.constant)
            assert f"@llvm.x86.{instruction}(" in code.text
            for found in natives(code, case, arrays):
                np.testing.assert_array_equal(found, expected)


def _of_words(form: Form, case: Case) -> Iterator[Matrices]:
    for number, (_, plan) in enumerate(ranked_plans(form, {}, TARGET, case.constant)):
        schedule = schedule_of(plan)
        assert isinstance(schedule, Matrices)
        small = replace(schedule, row_block=32, lane_block=32, block=5)
        yield small if number % 2 else schedule


def test_large_products_are_done_so_and_small_ones_are_not() -> None:
    def chosen(case: Case) -> object:
        return choose(case.kernel, {}, TARGET, case.constant)

    assert isinstance(chosen(matmul(512, 512, 512)), Matrices)
    assert isinstance(chosen(_integers(256, 256, 256, "uint8", "int8", True)), Matrices)
    assert isinstance(chosen(matmul(8, 8, 512)), Contraction | None)
    without = replace(TARGET, features=TARGET.features.replace("+amx", "-amx"))
    assert not isinstance(choose(matmul(512, 512, 512).kernel, {}, without), Matrices)


def test_schedules_for_processors_without_matrices_are_refused() -> None:
    case = matmul(64, 64, 64)
    (schedule, *_) = schedules(case)
    without = replace(TARGET, features=TARGET.features.replace("+amx", "-amx"))
    for machine, given in ((without, schedule), (TARGET, replace(schedule, row_block=0))):
        with pytest.raises(Error, match="E0807"):
            follow(case.kernel, given, {}, machine, case.constant)
    doubles = matmul(64, 64, 64, dtype=DType.FLOAT64)
    with pytest.raises(Error, match="E0807"):
        follow(doubles.kernel, schedule, {}, TARGET, case.constant)


def test_they_can_be_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of numbers; integers lose nothing."""
    case, exact = matmul(512, 512, 512), _integers(256, 256, 256, "uint8", "int8", True)
    asked = as_options({"matrices": False})
    assert as_options(asked.to_json()) == asked
    forbidden = asked.of(TARGET)
    assert not isinstance(choose(case.kernel, {}, forbidden, case.constant), Matrices)
    assert isinstance(choose(exact.kernel, {}, forbidden, exact.constant), Matrices)
    monkeypatch.setenv("RICCI_MATRICES", "0")
    assert Options().of(TARGET) == forbidden
    assert Options(matrices=True).of(forbidden) == TARGET
    with pytest.raises(Error) as caught:
        as_options({"matrices": 1})
    assert [d.code for d in caught.value.diagnostics] == ["E0801"]


def test_what_the_system_does_not_keep_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert as_allowed(replace(TARGET, features="+avx512f")).features == "+avx512f"
    monkeypatch.setattr(target, "may_use_matrices", lambda: False)
    assert not as_allowed(TARGET).matrices and as_allowed(TARGET).has("avx512f")
    monkeypatch.setattr(target, "may_use_matrices", lambda: True)
    assert as_allowed(TARGET) == TARGET


def test_a_server_is_known_by_its_instructions() -> None:
    """A virtual machine may say that it is another model."""
    half = {"avx512fp16": True}
    assert target._model("rocketlake", half) == "sapphirerapids"
    assert target._model("rocketlake", {}) == "rocketlake"
    assert target._model("znver4", half) == "znver4"


def test_steps_that_are_not_full_take_longer() -> None:
    """As many steps of fewer k, which are read under masks."""
    ragged, full = (
        until_done(ranked_plans(form, {}, TARGET, frozenset())[0][1], {}, TARGET)
        for k in (197, 224)
        if (form := find_form(matmul(197, 64, k).kernel, {})) is not None
    )
    assert ragged > full


def test_windows_in_panels() -> None:
    """What windows have in common is near when it is packed, so it does not matter that every
    second element is; nor is what is arranged ahead read under masks."""

    def cycles(case: Case, source: str) -> float:
        form = form_of(case.kernel, {})
        assert form is not None
        plans = ranked_plans(form, {}, TARGET, case.constant)
        return min(c for c, p in plans if source in (p.broadcast_source, p.vector_source))

    case = convolution(8, (256, 256), (28, 28), 3, stride=2, pad=1)
    alone = convolution(8, (9 * 256, 256), (28, 28), 1, stride=2)
    assert cycles(case, "packed") < 0.85 * cycles(alone, "packed")
    assert isinstance(choose(case.kernel, {}, TARGET, case.constant), Matrices)
    # of few channels boxes are copied sooner
    case = convolution(1, (3, 64), (224, 224), 7, stride=2, pad=3)
    assert isinstance(choose(case.kernel, {}, TARGET, case.constant), Window)


def test_what_is_prepared_is_not_read_under_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    case = convolution(1, (512, 512), (7, 7), 3, pad=1)
    form = form_of(case.kernel, {})
    assert form is not None
    plans = [p for _, p in ranked_plans(form, {}, TARGET, case.constant) if p.depth.most % 32]

    def costs() -> list[tuple[str, float]]:
        found = [(p, matrix_choice.MatrixCosts(p, {}, TARGET)) for p in plans]
        rows = [(p.broadcast_source, c.row) for p, c in found]
        return rows + [(p.vector_source, c.column) for p, c in found]

    before = costs()
    monkeypatch.setattr(matrix_choice, "_RAGGED", 100.0)
    changed = {a for (a, x), (_, y) in zip(before, costs(), strict=True) if x != y}
    assert "prepared" in dict(before) and "prepared" not in changed and "direct" in changed


def test_others_beside_matrices() -> None:
    """Panels take longer than estimated, nests less long."""
    few = matmul(49, 2048, 512)
    plain = replace(TARGET, in_parts=False)
    given = few.kernel, {}
    alone, beside = (cycles_of(*given, t, few.constant) for t in (plain, TARGET))
    assert isinstance(choose(*given, TARGET, few.constant), Contraction)
    assert beside == pytest.approx(1.08 * alone)
    model = ricci.parse("""
        import nn;
        graph main {
            @input { x: real[1, 3, 224, 224]; }
            @output { y: real[1, 64, 224, 224]; }
            @variable { w: real[64, 3, 3, 3]; }
            @compose { y = nn.conv{padding=[1, 1, 1, 1]}(x, w); }
        }""")
    (kernel,) = lower(model.graph, {}, Types()).kernels
    assert isinstance(kernel, Reduce)
    found = choose(kernel, {}, TARGET, frozenset(model.graph.variables))
    assert not isinstance(found, Matrices)


def test_chunks_may_fill_more_beside_large_operands() -> None:
    """Never more than the second cache has room for, nor less than is always there."""
    sizes = (128, 512, 1024, 4096)
    rooms = [room(form, TARGET) for n in sizes if (form := form_of(matmul(n, n, n).kernel, {}))]
    least, most = 5 << 17, 0.7 * TARGET.l2
    assert rooms[0] == least and rooms[2:] == [most] * 2
    assert rooms[1] == max(least, 0.15 * 3 * 4 * 512**2)
    form = form_of(matmul(1024, 1024, 1024).kernel, {})
    assert form is not None
    many = replace(TARGET, cores=64)
    assert room(form, many) == least
    (_, plan), *_ = ranked_plans(form, {}, many, frozenset())
    (_, larger), *_ = ranked_plans(form, {}, TARGET, frozenset())
    assert plan.row_block * plan.lane_block < larger.row_block * larger.lane_block


def test_the_smallest_products_come_first_and_parts_stay() -> None:
    """Six of the nine products of parts; a step reads each matrix of columns once, and those of the
    rows' first part twice."""
    m = MatrixProduct("tdpbf16ps", 3, 3)
    assert sorted(m.products) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    assert m.products[-1] == (0, 0)
    assert m.loads == (4, 3)
    text, _ = write_tile(MatrixTile(m, (16, 16), 2, 32, panel_rows(m, 32)))
    steps = [body for body in text.split(".body:") if "tdpbf16ps" in body]
    # a piece of sums that wait is added beside the first steps
    assert [step.count("tdpbf16ps") for step in steps] == [24, 24]
    assert [step.count("tileloadd64") for step in steps] == [2 * (4 + 3)] * 2
    assert [step.count("fadd") for step in steps] == [2 * 8, 0]
