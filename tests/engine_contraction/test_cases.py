"""Named contractions: each is recognised, and gives what NumPy gives in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ricci.backends.llvm import contraction
from ricci.backends.llvm.contraction import follow
from ricci.backends.llvm.contraction_cost import most_apart
from ricci.backends.llvm.contraction_form import find_form
from ricci.backends.llvm.contraction_plan import MOST_CHUNKS, make_plan
from ricci.backends.llvm.contraction_storing import gathers
from ricci.backends.llvm.contraction_tiles import best_tile
from ricci.backends.llvm.contraction_write import write_contraction
from ricci.backends.llvm.kernels import KernelCode, choose
from ricci.backends.llvm.matvec import choose_dots, write_dots
from ricci.backends.llvm.schedule import Contraction, Schedule, Window, Winograd
from ricci.backends.llvm.target import Target, host
from ricci.backends.llvm.targets import named
from ricci.dtypes import DType
from ricci.ir.loops import Reduce
from ricci.ir.nodes import Binary, Const, Remap, Select, Skip, Subscript, Tensor, integer

from .cases import Case, at, binary, convolution, index, matmul, summed, tensor
from .native import Native
from .oracle import reduce


def diagonal_window() -> Case:
    """A window that walks diagonally over a padded image: `x[c, i + k - 1, j + k - 1]`."""
    c, o, i, j, k = (index(*p) for p in (("c", 6), ("o", 9), ("i", 20), ("j", 30), ("k", 3)))
    x, w, y = tensor("x", 6, 20, 30), tensor("w", 9, 6, 3), tensor("y", 9, 20, 30)
    sides = [Subscript(binary("sub", binary("add", p, k), 1), Skip()) for p in (i, j)]
    value = binary("mul", at(x, c, *sides), at(w, o, c, k))
    return Case(summed(at(y, o, i, j), (o, i, j), (c, k), value), (x, w), frozenset([w]))


def gathered_channels() -> Case:
    """A convolution that takes its channels through a table."""
    c, o, i, j, k = (index(*p) for p in (("c", 12), ("o", 9), ("i", 20), ("j", 28), ("k", 3)))
    x, w, y = tensor("x", 5, 20, 30), tensor("w", 9, 12, 3), tensor("y", 9, 20, 28)
    table = tensor("t<5", 12, dtype=DType.INT64)
    value = binary("mul", at(x, at(table, c), i, binary("add", j, k)), at(w, o, c, k))
    return Case(summed(at(y, o, i, j), (o, i, j), (c, k), value), (x, w, table))


def triangular() -> Case:
    """A product with a triangular matrix: the condition leaves out half of the terms."""
    case = matmul(40, 50, 40)
    row, k = case.kernel.domain[0], case.kernel.reduced[0]
    return replace(case, kernel=replace(case.kernel, condition=binary("le", k, row)))


def reflected() -> Case:
    """A convolution whose border repeats the edge."""
    c, o, i, k = (index(*p) for p in (("c", 6), ("o", 40), ("i", 70), ("k", 5)))
    x, w, y = tensor("x", 6, 70), tensor("w", 40, 6, 5), tensor("y", 40, 70)
    at_edge = Remap(integer(0), integer(69))
    window = Subscript(binary("sub", binary("add", i, k), 2), at_edge)
    value = binary("mul", at(x, c, window), at(w, o, c, k))
    return Case(summed(at(y, o, i), (o, i), (c, k), value), (x, w))


def scaled_factors() -> Case:
    """Three factors and a negation: `-(a[i, k] * s[k]) * relu(b[k, j])`."""
    i, j, k = index("i", 30), index("j", 45), index("k", 64)
    a, b, s, y = tensor("a", 30, 64), tensor("b", 64, 45), tensor("s", 64), tensor("y", 30, 45)
    left = binary("mul", at(a, i, k), at(s, k))
    right = binary("max", at(b, k, j), Const(0.0, DType.FLOAT32))
    value = binary("mul", left, binary("mul", Const(-1.0, DType.FLOAT32), right))
    return Case(summed(at(y, i, j), (i, j), (k,), value), (a, b, s))


def kronecker() -> Case:
    """`y[i * 6 + p, j * 7 + q]` from two small matrices and a sum over a third index."""
    i, j, p, q, k = (index(*x) for x in (("i", 5), ("j", 8), ("p", 6), ("q", 7), ("k", 9)))
    a, b, y = tensor("a", 5, 8, 9), tensor("b", 6, 7, 9), tensor("y", 30, 56)
    row, column = (binary("add", binary("mul", x, n), z) for x, n, z in ((i, 6, p), (j, 7, q)))
    value = binary("mul", at(a, i, j, k), at(b, p, q, k))
    return Case(summed(at(y, row, column), (i, p, j, q), (k,), value), (a, b))


def attention(keys_last: bool) -> Case:
    """Scores of several heads: both factors are computed."""
    h, i, j, k = (index(*x) for x in (("h", 3), ("i", 65), ("j", 80), ("k", 48)))
    q, y = tensor("q", 65, 3, 48), tensor("y", 3, 65, 80)
    keys = tensor("k", 80, 3, 48) if keys_last else tensor("k", 3, 48, 80)
    right = at(keys, j, h, k) if keys_last else at(keys, h, k, j)
    kernel = summed(at(y, h, i, j), (h, i, j), (k,), binary("mul", at(q, i, h, k), right))
    return Case(kernel, (q, keys))


def with_epilogue() -> Case:
    """A convolution, a bias, a residual and relu."""
    case = convolution(2, (8, 20), (9, 11), 3, pad=1, bias=True)
    target = case.kernel.targets[0]
    residual = tensor("r", 2, 20, 9, 11)
    acc = case.kernel.accumulators[0]
    total = Binary("add", acc, replace(target, tensor=residual))
    result = Binary("max", total, Const(0.0, DType.FLOAT32))
    return Case(replace(case.kernel, results=(result,)), (*case.inputs, residual), case.constant)


CASES = {
    "matmul": matmul(70, 90, 50),
    "matmul of stored transposes": matmul(33, 65, 129, True, True),
    "matmul in float64": matmul(33, 65, 129, dtype=DType.FLOAT64),
    "matmul with long k": matmul(20, 40, 3000),
    "matvec": matmul(1, 301, 333, right=True),
    "matvec of columns": matmul(1, 301, 333),
    "few rows": matmul(5, 301, 333, right=True),
    "few rows of columns": matmul(3, 900, 700),
    "1x1": convolution(1, (40, 30), (12, 13), 1),
    "3x3": convolution(1, (16, 24), (14, 14), 3, pad=1),
    "7x7 strided": convolution(1, (3, 16), (64, 64), 7, 2, 3),
    "strided by 4": convolution(1, (3, 16), (67, 67), 11, 4),
    "every second": convolution(1, (24, 40), (27, 29), 1, 2),
    "every third of a batch": convolution(3, (24, 40), (13, 16), 1, 3),
    "every fifth": convolution(1, (24, 40), (41, 46), 1, 5),
    "every eighth": convolution(1, (24, 40), (57, 65), 1, 8),
    "every second, with borders": convolution(2, (24, 40), (14, 14), 3, 2, 1),
    "dilated": convolution(1, (8, 12), (30, 30), 3, 1, 2, dilation=2),
    "small images in a batch": convolution(3, (32, 48), (7, 7), 3, pad=1),
    "large images in a batch": convolution(3, (16, 24), (24, 25), 1, bias=True),
    "groups": convolution(2, (24, 32), (15, 17), 3, pad=1, groups=4),
    "bias and relu": convolution(1, (16, 24), (14, 14), 3, pad=1, bias=True),
    "diagonal window": diagonal_window(),
    "gathered channels": gathered_channels(),
    "triangular": triangular(),
    "remapped border": reflected(),
    "several factors": scaled_factors(),
    "kronecker": kronecker(),
    "attention": attention(False),
    "attention, keys last": attention(True),
    "epilogue": with_epilogue(),
}


AS_PLAIN = (
    "triangular",
    "attention",
    "matmul with long k",
    "groups",
    "diagonal window",
    "gathered channels",
    "remapped border",
    "epilogue",
)
"""Where a plain loop nest is as fast on some processors: as only half of the products count, with
short sums in 16 registers, or over few windows."""
AS_PLAIN_SHORT = ("matmul", "1x1", "large images in a batch")
"""The same where vectors have 32 bytes at most."""


def as_contraction(case: Case, target: Target) -> KernelCode:
    """The code of the contraction that takes least, if a plain loop nest takes less or not."""
    form = contraction.form_of(case.kernel, {})
    assert form is not None
    return write_contraction(make_plan(form, {}, target, case.constant), {}, target)


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, halves: bool) -> None:
    """Also as code for processors that do vectors of 32 bytes in halves."""
    case, target = CASES[name], host()
    if halves:
        target = replace(target, vector_bytes=32, registers=16, units=1)
    code = contraction.match(case.kernel, {}, target, case.constant)
    plain = AS_PLAIN if target.long else AS_PLAIN + AS_PLAIN_SHORT
    if code is None and (halves or name in plain):
        code = as_contraction(case, target)
    assert code is not None, "not recognised as a contraction"
    arrays = case.arrays(0)
    native = Native(code, arrays, target)
    native.run(2)
    assert not native.errors.any()
    expected, found = reduce(case.kernel, arrays), native.array(case.target)
    scale = float(np.abs(expected).max())
    tolerance = 1e-13 if case.target.dtype is DType.FLOAT64 else 2e-5
    assert float(np.abs(found - expected).max()) <= tolerance * scale


def test_long_runs_are_done_one_after_another() -> None:
    """Images of 600 points lie apart in the result: none has panels that reach into the next."""
    case = CASES["large images in a batch"]
    form = find_form(case.kernel, {})
    assert form is not None
    plan = make_plan(form, {}, host(), case.constant)
    assert plan.outer == 3 and {plan.vector.extent, plan.broadcast.extent} == {600, 24}
    small = find_form(CASES["small images in a batch"].kernel, {})
    assert small is not None
    assert make_plan(small, {}, host(), frozenset()).outer == 1


def test_repeated_runs_agree() -> None:
    """Scratch memory that an earlier run left does not matter."""
    case = CASES["small images in a batch"]
    code = contraction.match(case.kernel, {}, host(), case.constant)
    assert code is not None
    native = Native(code, case.arrays(1), host())
    native.run(1)
    first = native.array(case.target).copy()
    native.run(3)
    assert np.array_equal(first, native.array(case.target))


def test_gathered_index_out_of_range_is_recorded() -> None:
    case = gathered_channels()
    code = as_contraction(case, host())
    arrays = case.arrays(0)
    table = case.inputs[2]
    arrays[table][3] = 77
    native = Native(code, arrays, host())
    native.run(1)
    site = code.sites[int(native.errors[0]) - 1]
    assert (site.tensor, site.dimension) == ("x", 0)
    assert native.errors[1:3].tolist() == [77, 5]


def declined() -> dict[str, Case]:
    """Kernels that are no contraction, or gain nothing from being one."""
    whole = matmul(8, 8, 8)
    ints = matmul(8, 8, 8, dtype=DType.INT32)
    zero = matmul(8, 0, 8)
    product = whole.kernel.values[0]
    assert isinstance(product, Binary)
    condition = Binary("lt", whole.kernel.domain[0], whole.kernel.domain[1])
    branch = Select(condition, product, Const(0.0, DType.FLOAT32))
    return {
        "a maximum": replace(whole, kernel=replace(whole.kernel, op="max")),
        "one factor": replace(whole, kernel=replace(whole.kernel, values=(product.lhs,))),
        "integers": ints,
        "nothing to compute": zero,
        "a condition on rows and columns": replace(
            whole, kernel=replace(whole.kernel, condition=condition)
        ),
        "a product inside a choice": replace(whole, kernel=replace(whole.kernel, values=(branch,))),
        "depthwise": convolution(1, (16, 16), (20, 20), 3, pad=1, groups=16),
    }


@pytest.mark.parametrize("name", declined())
def test_declined(name: str) -> None:
    case = declined()[name]
    assert contraction.match(case.kernel, {}, host(), case.constant) is None


def batch(count: int, rows: int, transposed: bool) -> Case:
    """Many small products."""
    b, i, j, k = (index(*x) for x in (("b", count), ("i", rows), ("j", 4), ("k", 512)))
    x, y = tensor("x", count, rows, 512), tensor("y", count, rows, 4)
    w = tensor("w", 4, 512) if transposed else tensor("w", 512, 4)
    right = at(w, j, k) if transposed else at(w, k, j)
    kernel = summed(at(y, b, i, j), (b, i, j), (k,), binary("mul", at(x, b, i, k), right))
    return Case(kernel, (x, w))


@pytest.mark.parametrize("rows", [1, 2])
def test_many_batches_make_few_chunks(rows: int) -> None:
    """A chunk takes several of more pieces than there may be chunks."""
    for transposed in (False, True):
        case = batch(5000, rows, transposed)
        form = find_form(case.kernel, {})
        assert form is not None
        dots = choose_dots(form, {}, host())
        if dots is None:
            code = write_contraction(make_plan(form, {}, host(), frozenset()), {}, host())
        else:
            code = write_dots(form, dots, {}, host())
        assert code.chunks <= MOST_CHUNKS
        arrays = case.arrays(0)
        native = Native(code, arrays, host())
        native.run(3)
        x, w = (arrays[t].astype(np.float64) for t in case.inputs)
        expected = x @ (w.T if transposed else w)
        assert np.allclose(native.array(case.target), expected, rtol=1e-4, atol=1e-3)


def rows_by_rows(m: int, n: int, k: int) -> tuple[Reduce, Tensor, Tensor, Tensor]:
    """The products of all rows of one matrix and another, and the tensors."""
    i, j, depth = (index(*p) for p in (("i", m), ("j", n), ("k", k)))
    x, w, y = tensor("x", m, k), tensor("w", n, k), tensor("y", m, n)
    value = binary("mul", at(x, i, depth), at(w, j, depth))
    return summed(at(y, i, j), (i, j), (depth,), value), x, w, y


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("extra", [0, 1, 17, 47, 63])
def test_dots_in_several_parts(rows: int, count: int, extra: int) -> None:
    """Whatever is left over behind the vectors of all parts."""
    kernel, x, w, y = rows_by_rows(rows, 37, 16 * host().lanes(DType.FLOAT32) + extra)
    form = find_form(kernel, {})
    assert form is not None
    dots = choose_dots(form, {}, host())
    assert dots is not None
    code = write_dots(form, replace(dots, count=count), {}, host())
    arrays = Case(kernel, (x, w)).arrays(0)
    native = Native(code, arrays, host())
    native.run(2)
    expected = arrays[x].astype(np.float64) @ arrays[w].T
    assert np.allclose(native.array(y), expected, rtol=1e-5, atol=1e-4)


def test_one_row_at_a_time_where_a_processor_follows_it() -> None:
    """If rows share pages, and come from beyond its caches."""
    zen = replace(named("x86-64-v4"), cpu="znver4", l2=1 << 20)
    other = replace(zen, cpu="sapphirerapids")
    for target, n, k, single in [
        (zen, 5000, 768, True),
        (zen, 5000, 1025, False),
        (zen, 300, 768, False),
        (other, 5000, 768, False),
    ]:
        form = find_form(rows_by_rows(1, n, k)[0], {})
        assert form is not None
        dots = choose_dots(form, {}, target)
        assert dots is not None
        assert (dots.count == 1) == single


@pytest.mark.parametrize("rows", [128, 1024])
def test_a_panel_stays_in_the_first_cache_by_choice(rows: int) -> None:
    """While all rows of a block pass by."""
    target = replace(named("x86-64-v4"), l1=48 << 10, l2=2 << 20)
    case = matmul(rows, 1040, 1024)
    form = find_form(case.kernel, {})
    assert form is not None
    plan = make_plan(form, {}, target, case.constant)
    assert plan.lane_block == plan.panel
    assert plan.row_block >= 128
    assert plan.depth.blocks > 4
    assert 24 << 10 < 4 * plan.panel * plan.depth.most < 42 << 10


ZEN5 = replace(named("x86-64-v4"), cpu="znver5", l1=48 << 10, l2=1 << 20, cores=2)
XEON = replace(ZEN5, cpu="sapphirerapids", l2=2 << 20)


@pytest.mark.parametrize(
    "schedule",
    [
        Contraction("right", "packed", "prepared", 4, 2, 8, 32, (0, 1, 2), 0, 64, 1),
        Window(
            "right",
            row=3,
            lane=1,
            beside=1,
            rows=8,
            vectors=3,
            row_block=1,
            lane_block=40,
            lines=1,
            outer_block=1,
        ),
        Winograd("right", 3, 2, 1, 0, 0),
    ],
    ids=["product", "window", "fewer products"],
)
@pytest.mark.parametrize("room", [1 << 17, 1 << 24])
def test_prepared_panels_are_asked_for_if_no_cache_of_a_core_holds_them(
    schedule: Schedule, room: int
) -> None:
    """Where vectors are done in halves: panels of 230 KB and more."""
    case = convolution(1, (160, 40), (9, 8), 3, pad=1)
    target = replace(ZEN5, cpu="znver4", l2=room)
    text = follow(case.kernel, schedule, {}, target, case.constant).text
    assert ("call void @llvm.prefetch" in text) == (room < 230 << 10)


@pytest.mark.parametrize(
    ("cpu", "size", "is_window"),
    [("znver4", 9, True), ("znver5", 9, False), ("znver4", 65, False)],
)
def test_short_runs_from_far_away_are_read_in_place(cpu: str, size: int, is_window: bool) -> None:
    """Eight elements of a line follow one another, then others of another line of the caches: they
    are not packed where vectors are done in halves."""
    case = convolution(1, (2048, 512), (size, size), 2)
    target = replace(ZEN5, cpu=cpu, l1=32 << 10, units=1, winograd=False)
    assert isinstance(choose(case.kernel, {}, target, case.constant), Window) == is_window


def test_tiles_are_chosen_with_their_blocks() -> None:
    """The tile that wastes least, of 9 x 3, would make uneven blocks for two cores, or panels that
    leave the first cache."""
    case = matmul(49, 512, 2048)
    form = find_form(case.kernel, {})
    assert form is not None
    plan = make_plan(form, {}, ZEN5, case.constant)
    assert (plan.rows, plan.vectors) != best_tile(49, 512, 16, ZEN5, most_apart(ZEN5))
    near = plan.rows if plan.is_deep else plan.panel
    assert 4 * near * plan.depth.most < ZEN5.l1
    assert plan.blocks % 2 == 0


@pytest.mark.parametrize("columns", [1024, 1040])
def test_results_pages_apart_are_stored_in_few_pieces(columns: int) -> None:
    """Where lines of results drive out each other, tiles are higher, or none is turned round, or
    they wait until lines are whole. (The second cache holds all rows: else they would come again
    for each panel.)"""
    case = matmul(2048, columns, 1024)
    form = find_form(case.kernel, {})
    assert form is not None
    plan = make_plan(form, {}, replace(ZEN5, cpu="sapphirerapids", l2=16 << 20), case.constant)
    in_pieces = plan.across and plan.rows < 10 and not gathers(plan, {})
    assert columns == 1040 or not in_pieces
    assert columns == 1024 or (plan.across and plan.rows < 10)


@pytest.mark.parametrize(("cpu", "across"), [("znver5", False), ("sapphirerapids", True)])
def test_prepared_rows_that_come_from_far_again_cost_time(cpu: str, across: bool) -> None:
    """So constants are in the vectors, of which a panel comes once for many rows."""
    case = matmul(2048, 1040, 1024)
    form = find_form(case.kernel, {})
    assert form is not None
    plan = make_plan(form, {}, replace(ZEN5, cpu=cpu), case.constant)
    assert plan.across == across
    assert (plan.vector_source == "prepared") == (not across)


def test_columns_from_far_away_are_packed_for_cores_on_a_mesh() -> None:
    """Those of a few pages at a time; others read them where they are."""
    case = matmul(64, 3136, 256)
    form, given = find_form(case.kernel, {}), frozenset(case.inputs[:1])
    assert form is not None
    plan = make_plan(form, {}, ZEN5, given)
    assert (plan.broadcast_source, plan.vector_source) == ("prepared", "direct")
    packed = make_plan(form, {}, XEON, given)
    assert (packed.broadcast_source, packed.vector_source) == ("prepared", "packed")
    assert packed.depth.most <= 64


@pytest.mark.parametrize(("columns", "source"), [(4096, "packed"), (4112, "direct")])
def test_many_columns_on_the_same_lines_of_a_cache_are_packed_for_cores_on_a_mesh(
    columns: int, source: str
) -> None:
    case = matmul(16, columns, 64)
    form, given = find_form(case.kernel, {}), frozenset(case.inputs[:1])
    assert form is not None
    assert make_plan(form, {}, XEON, given).vector_source == source


def test_few_rows_go_by_getting_columns() -> None:
    target, case = replace(named("x86-64-v4"), l1=48 << 10, l2=2 << 20), matmul(12, 512, 2048)
    form = find_form(case.kernel, {})
    assert form is not None
    plan = make_plan(form, {}, target, case.constant)
    assert plan.vector_source == "prepared"
    assert 4 * plan.panel * plan.depth.most > 42 << 10


@pytest.mark.parametrize("gap", [0, 5])
def test_short_rows_from_far_away_are_asked_for_ahead(gap: int) -> None:
    """Also where rows are apart, and the last tile is not whole."""
    r, n, k = index("r", 70_003), index("n", 12), index("k", 40)
    x, w, y = tensor("x", 70_003, 40 + gap), tensor("w", 12, 40), tensor("y", 70_003, 12)
    value = binary("mul", at(x, r, k), at(w, n, k))
    case = Case(summed(at(y, r, n), (r, n), (k,), value), (x, w))
    form, target = find_form(case.kernel, {}), replace(host(), l1=32 << 10, l2=1 << 20)
    assert form is not None
    plan = make_plan(form, {}, target, frozenset())
    assert plan.asks_ahead and plan.broadcast_source == "direct"
    arrays = case.arrays(0)
    native = Native(write_contraction(plan, {}, host()), arrays, host())
    native.run(2)
    expected = arrays[x][:, :40].astype(np.float64) @ arrays[w].T
    assert np.allclose(native.array(y), expected, rtol=1e-4, atol=1e-4)
