"""What programs mean at a configuration: arrays against expected ones, on both executors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.dtypes import DType
from ricci.frontends.eintup.extents import Components, extents_of, shape_of
from ricci.frontends.eintup.lower import lower_program, needs_data
from ricci.frontends.eintup.typing import infer_types
from ricci.ir import nodes as ir
from ricci.ir.shapes import as_int
from ricci.runtime.executable import compile_graph
from ricci.runtime.stages import show_stage

from .random_programs import TARGETS, Case, differences, make_case, parse, run

Array = np.ndarray[Any, np.dtype[Any]]
Dims = Mapping[str, tuple[int, ...]]


def results(
    text: str, dims: Dims, given: Mapping[str, Array], seed: int = 0
) -> tuple[dict[str, Array], ...]:
    """All arrays at the end, by the compiler and by the interpreter; both say what loops say."""
    case = Case(text, dict(dims), dict(given), seed)
    assert differences(case) == []
    program = parse(case.text)
    return tuple(run(case, target, program) for target in TARGETS)


def value(text: str, dims: Dims, seed: int = 0, /, **given: Array) -> Array:
    """The array `y` at the end."""
    compiled, interpreted = [r["y"] for r in results(text, dims, given, seed)]
    np.testing.assert_array_equal(compiled, interpreted)
    return compiled


A4 = np.array([1.0, 2, 3, 4])
IN = "= RANDOM(0, 1, FLOAT)"

# ------------------------------------------------------- what pins the semantics down


def test_the_sum_spans_the_whole_right_side() -> None:
    a, b = np.arange(6.0).reshape(3, 2), np.arange(3.0)
    text = f"a[i, k] {IN}\nb[i] {IN}\ny[i] = a[i, k] + b[i]"
    np.testing.assert_array_equal(value(text, {"i": (3,), "k": (2,)}, a=a, b=b), a.sum(1) + 2 * b)


def test_collisions_add_up() -> None:
    text = f"a[x] {IN}\ny[x // 2] = a[x]"
    assert value(text, {"x": (5,)}, a=np.arange(1, 6.0)).tolist() == [3, 7, 5]


def test_cells_that_nothing_reaches_keep_what_they_held() -> None:
    text = f"a[e] {IN}\ny[d] = 7.0\ny[e - 2] = a[e]"
    assert value(text, {"d": (4,), "e": (4,)}, a=A4).tolist() == [3, 4, 7, 7]
    twice = f"a[e] {IN}\ny[d] = 7.0\ny[e // 2 + 1] = a[e]"
    assert value(twice, {"d": (4,), "e": (4,)}, a=A4).tolist() == [7, 3, 7, 7]
    data = f"I[e, c] = RANDOM(0, 4, INT)\na[e] {IN}\ny[d] = 7.0\ny[I[e, :]] = a[e]"
    index = np.array([[1], [-1], [1], [3]], np.int32)
    found = value(data, {"d": (4,), "e": (4,), "c": (1,)}, a=A4, I=index)
    assert found.tolist() == [7, 4, 7, 4]


def test_a_constant_index_sizes_an_array() -> None:
    assert value("y[3] = 1", {}).tolist() == [0, 0, 0, 1]


def test_what_is_on_one_side_only() -> None:
    assert value(f"x[e] {IN}\ny[d] = x[e]", {"d": (3,), "e": (4,)}, x=A4).tolist() == [10] * 3
    found = value(f"x[e] {IN}\ny[e, d] = x[e]", {"d": (2,), "e": (4,)}, x=A4)
    np.testing.assert_array_equal(found, np.stack([A4, A4], 1))


def test_any_index_out_of_range_skips_the_combination() -> None:
    text = f"a[i] {IN}\nb[i] {IN}\ny[i] = a[i - 1] + b[i]"
    assert value(text, {"i": (4,)}, a=A4, b=A4).tolist() == [0, 3, 5, 7]
    text = f"a[i] {IN}\ny[i] = where(a[i] < 3, 5.0, a[i + 1])"
    assert value(text, {"i": (4,)}, a=A4).tolist() == [5, 5, 4, 0]


def test_diagonals() -> None:
    x = np.arange(16.0).reshape(4, 4)
    np.testing.assert_array_equal(
        value(f"x[i, j] {IN}\ny[i] = x[i, i]", {"i": (4,), "j": (4,)}, x=x), np.diag(x)
    )
    np.testing.assert_array_equal(
        value(f"x[i] {IN}\ny[i, i] = x[i]", {"i": (4,)}, x=A4), np.diag(A4)
    )


def test_a_bare_eintup_is_clipped() -> None:
    text = f"v[a] {IN}\ny[a, b] = v[a] * v[b]"
    found = value(text, {"a": (4,), "b": (6,)}, v=A4)
    np.testing.assert_array_equal(found, np.outer(A4, [*A4, 0, 0]))
    np.testing.assert_array_equal(
        value(f"x[e] {IN}\ny[d] = 0.0\ny[e] = x[e]", {"d": (2,), "e": (4,)}, x=A4), A4[:2]
    )


def test_reshapes_and_sizes_of_zero() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    text = f"x[a, b] {IN}\ny[FLAT(a, b)] = x[a, b]\n\nRANK(a) = 2"
    np.testing.assert_array_equal(value(text, {"a": (2, 3), "b": (4,)}, x=x), x.ravel())
    text = f"x[a, b] {IN}\ny[a] = x[a, b]"
    assert value(text, {"a": (3,), "b": (0,)}, x=np.ones((3, 0))).tolist() == [0, 0, 0]
    assert value(text, {"a": (0,), "b": (3,)}, x=np.ones((0, 3))).shape == (0,)
    text = f"x[a, n] {IN}\ny[n, a] = x[a, n] + x[a, n]\n\nRANK(n) = 0"
    assert value(text, {"a": (4,), "n": ()}, x=A4).tolist() == [2, 4, 6, 8]


def test_what_is_flat_and_out_of_range_is_minus_one() -> None:
    text = f"x[a, b] {IN}\ny[FLAT(a - 1, b)] = x[a, b]"
    x = np.arange(6.0).reshape(3, 2)
    assert value(text, {"a": (3,), "b": (2,)}, x=x).tolist() == [2, 3, 4, 5]
    inner = "y[FLAT(a - 1, 0) + 1] = x[a, b]"
    assert value(f"x[a, b] {IN}\n{inner}", {"a": (3,), "b": (2,)}, x=x).tolist() == [1, 5, 9]


def test_what_a_statement_reads_is_what_was_there_before() -> None:
    text = "y[i] = 1.0\ny[i] = y[i - 1] + y[i]\ny[i + 1] += y[i]"
    assert value(text, {"i": (4,)}).tolist() == [1, 3, 4, 4]


# ------------------------------------------------------------------- operators

OPERATORS = {
    "=": ([3, 0, 3], [3, 4, 3]),
    "+=": ([3, 0, 3], [7, 4, 7]),
    "*=": ([2, 0, -10], [8, 4, -40]),
    "max=": ([2, 0, 5], [4, 4, 5]),
    "min=": ([1, 0, -2], [1, 4, -2]),
}
"""What `x` gives on a new array, and on one of fours."""


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators(operator: str) -> None:
    head = "I[e, c] = RANDOM(0, 9, INT)\nx[e] = RANDOM(0, 9, INT)\n"
    given = {
        "I": np.array([[0], [0], [2], [2]], np.int32),
        "x": np.array([1, 2, 5, -2], np.int32),
    }
    dims = {"e": (4,), "c": (1,), "d": (3,)}
    new, old = OPERATORS[operator]
    assert value(f"{head}y[I[e, :]] {operator} x[e]", dims, **given).tolist() == new
    assert value(f"{head}y[d] = 4\ny[I[e, :]] {operator} x[e]", dims, **given).tolist() == old


def test_bools_count_as_numbers() -> None:
    text = "x[i, k] = RANDOM(0, 9, INT)\ny[i] = x[i, k] > 3"
    x = np.array([[1, 5, 7], [4, 4, 4]], np.int32)
    found = value(text, {"i": (2,), "k": (3,)}, x=x)
    assert found.tolist() == [2, 3] and found.dtype == np.int32
    text = "x[i, k] = RANDOM(0, 9, INT)\ny[i] and= x[i, k] > 3"
    assert value(text, {"i": (2,), "k": (3,)}, x=x).tolist() == [False, True]
    again = text + "\ny[i] or= x[i, k] == 5"
    assert value(again, {"i": (2,), "k": (3,)}, x=x).tolist() == [True, True]


def test_functions_and_numbers_of_the_configuration() -> None:
    text = """
        x[i] = RANDOM(0, 9, INT)
        y[i] = max(x[i], 2) // 2 + x[i] %% -3 * RANK(a) + x[i] //^ 2 + RANGE[i, n] + DIMS(i, a)[m]
    """.replace("%%", "%")
    text = "\n".join(line.strip() for line in text.strip().split("\n")) + "\n\nRANK(a) = 2"
    x = np.array([1, 4, 7], np.int32)
    dims = {"i": (3,), "a": (5, 6), "n": (1,), "m": (3,)}
    each = np.maximum(x, 2) // 2 + x % -3 * 2 - -x // 2 + np.arange(3)
    assert value(text, dims, x=x).tolist() == (3 * each + 3 + 5 + 6).tolist()
    text = f"a[i] {IN}\ny[i] = exp(a[i]) + sqrt(a[i]) / 2 + pow(a[i], 2.0)"
    np.testing.assert_allclose(
        [r["y"] for r in run_both(text, {"i": (4,)}, a=A4)],
        [np.exp(A4) + np.sqrt(A4) / 2 + A4**2] * 2,
        rtol=1e-14,
    )


def run_both(text: str, dims: Dims, **given: Array) -> list[dict[str, Array]]:
    case = Case(text, dict(dims), given, 0)
    return [run(case, target, parse(text)) for target in TARGETS]


# --------------------------------------------------------------- gather, scatter


def test_gather_and_scatter_with_shared_eintups() -> None:
    rng = np.random.default_rng(0)
    index = rng.integers(0, 4, (2, 5, 1)).astype(np.int32)
    dims = {"b": (2,), "w": (5,), "c": (1,), "r": (4,), "e": (3,)}
    head = "I[b, w, c] = RANDOM(0, 4, INT)\n"
    p = rng.random((2, 4, 3))
    text = f"{head}P[b, r, e] {IN}\ny[b, w, e] = P[b, I[b, w, :], e]"
    expected = np.take_along_axis(p, index, 1)
    np.testing.assert_array_equal(value(text, dims, P=p, I=index), expected)
    u = rng.random((2, 5, 3))
    text = f"{head}U[b, w, e] {IN}\ny[b, r, e] = 0.0\ny[b, I[b, w, :], e] = U[b, w, e]"
    expected = np.zeros((2, 4, 3))
    np.add.at(expected, (np.arange(2)[:, None], index[..., 0]), u)
    np.testing.assert_allclose(value(text, dims, U=u, I=index), expected, rtol=1e-15)


def test_shapes_that_data_decides() -> None:
    text = f"I[c, s] = RANDOM(0, 9, INT)\nu[s] {IN}\ny[I[:, s] + 1, 1] = u[s]"
    program = parse(text)
    assert [a.name for a in needs_data(program)] == ["y"]
    index = np.array([[4, 0, 4], [2, 1, 2]], np.int32)
    found = value(text, {"c": (2,), "s": (3,)}, I=index, u=np.array([1.0, 2, 4]))
    assert found.shape == (6, 4, 2)
    assert found[5, 3, 1] == 5 and found[1, 2, 1] == 2 and found.sum() == 7


def test_guards_of_slices_that_cancel_still_count() -> None:
    text = f"I[s, c] = RANDOM(0, 9, INT)\nx[i] {IN}\ny[i] = x[i + I[i, :] * 0]"
    index = np.zeros((2, 1), np.int32)
    assert value(text, {"s": (2,), "c": (1,), "i": (4,)}, I=index, x=A4).tolist() == [1, 2, 0, 0]


# ----------------------------------------------------------------------- random


def test_random_numbers() -> None:
    dims = {"a": (1000,), "b": (3,), "r": (2, 5), "c": (2,)}
    text = """
        F[a, b] = RANDOM(-1, 1, FLOAT)
        G[a, b] = RANDOM(-1, 1, FLOAT)
        I[a, c] = RANDOM(0, DIMS(r)[c], INT)
        J[a, c] = RANDOM(I[a, c], 5, INT)
        y[a] = F[a, b] * 0 + RANDOM(0, 1, FLOAT)
    """
    text = "\n".join(line.strip() for line in text.strip().split("\n")) + "\n\nRANK(r) = 2"
    program = parse(text)
    case = Case(text, dims, {}, 7)
    found = [run(case, target, program) for target in TARGETS]
    for name in found[0]:
        np.testing.assert_array_equal(found[0][name], found[1][name])
    f, index, j = found[0]["F"], found[0]["I"], found[0]["J"]
    assert f.min() >= -1 and f.max() < 1 and abs(f.mean()) < 0.03 and len(np.unique(f)) > 2990
    assert set(index[:, 0]) == {0, 1} and set(index[:, 1]) == {0, 1, 2, 3, 4}
    assert (j >= index).all() and j.max() == 4
    assert abs(found[0]["y"].mean() - 1.5) < 0.05 and found[0]["y"].max() > 2
    assert not np.array_equal(f, found[0]["G"])
    other = run(Case(text, dims, {}, 8), "interpreter", program)
    assert not np.array_equal(other["F"], f)


def test_random_integers_need_room() -> None:
    text = "x[i] = RANDOM(0, DIMS(m)[c], INT)"
    dims = {"i": (3,), "m": (0,), "c": (1,)}
    with pytest.raises(ricci.Error, match="there is no integer from"):
        run_both(text, dims)
    assert run_both(text, {**dims, "i": (0,)})[0]["x"].shape == (0,)
    with pytest.raises(ricci.Error) as caught:
        run_both("k[i] = 3\nx[i] = RANDOM(k[i], 3, INT)", {"i": (3,)})
    assert caught.value.diagnostics[0].code == "E0803"


# ------------------------------------------------------------------------ types


def test_numbers_promote_as_those_of_numpy() -> None:
    names = ["bool", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32"]
    for a in names:
        for b in names:
            x, y = np.ones(1, a), np.ones(1, b)
            text = "x[i] = RANDOM(0, 9, INT)\ny[i] = RANDOM(0, 9, INT)\nz[i] = x[i] * y[i]"
            given = {"x": DType(a), "y": DType(b)}
            found = infer_types(parse(text), given, int=DType.INT32)["z"]
            expected = "int32" if a == b == "bool" else np.result_type(x, y).name
            assert found.value == expected, (a, b)


@pytest.mark.parametrize(
    ("value", "types"),
    [
        ("x[i] + 1", "int8 float32"),
        ("x[i] * 0.5", "float64 float32"),
        ("x[i] / 2", "float64 float32"),
        ("x[i] * RANK(i)", "int8 float32"),
        ("x[i] * DIMS(i)[i]", "int32 float32"),
        ("x[i] + RANGE[i, i] * 1.5", "float64 float32"),
        ("x[i] < 2", "int32 int32"),
        ("-x[i]", "int8 float32"),
        ("exp(x[i])", "float64 float32"),
        ("float(x[i])", "float64 float32"),
        ("int(x[i])", "int8 int32"),
        ("where(x[i] > 0, x[i], 0)", "int8 float32"),
        ("1 / 2", "float64 float64"),
    ],
)
def test_literals_give_way(value: str, types: str) -> None:
    program = parse(f"x[i] = RANDOM(0, 9, INT)\ny[i] = {value}")
    for given, expected in zip((DType.INT8, DType.FLOAT32), types.split(), strict=True):
        assert infer_types(program, {"x": given})["y"].value == expected


@pytest.mark.parametrize(
    "statement",
    [
        "x[i] = 0.5",
        "y[i] and= x[i]",
        "b[i] = x[i]",
        "b[i] += x[i] > 2",
        "x[i] or= b[i]",
        "y[i] = where(x[i], 1, 2)",
        "y[i] = not x[i]",
        "y[i] = RANDOM(0, 0.5, INT)",
        "y[i] = r[r[i, :]]",
    ],
)
def test_types_that_do_not_suit(statement: str) -> None:
    text = "x[i] = RANDOM(0, 9, INT)\nb[i] or= x[i] == 2\nr[i] = RANDOM(0, 1, FLOAT)\n"
    text = text.replace("r[i]", "r[i, n]") if "r[" in statement else text
    with pytest.raises(ricci.Error) as caught:
        program = parse(text + statement.replace("r[r[i, :]]", "r[r[i, :], n]"))
        infer_types(program, {})
    assert {d.code for d in caught.value.diagnostics} == {"E0301"}


def test_literals_must_fit() -> None:
    program = parse("x[i] = RANDOM(0, 9, INT)\ny[i] = x[i] + 300")
    dims = {"i": (ir.integer(3),)}
    with pytest.raises(ricci.Error, match="300 is beyond the range of int8"):
        lower_program(program, dims, {"x": DType.INT8}, ["y"])


def test_abstract_types_are_chosen_later() -> None:
    program = parse(
        f"x[i] {IN}\nn[i] = RANDOM(0, 9, INT)\ny[i] = x[i] * n[i] + 0.5\nz[i] = n[i] + 1"
    )
    given = {"x": DType.REAL, "n": DType.INT}
    graph = lower_program(
        program, {"i": (ir.integer(4),)}, given, ["y", "z"], DType.REAL, DType.INT, name="f"
    )
    n = np.arange(4)
    y, z = compile_graph(graph, real="float32", int="int64")(A4.astype(np.float32), n)
    assert (y.dtype, z.dtype, graph.name) == (np.float32, np.int64, "f")
    np.testing.assert_array_equal(y, A4 * n + 0.5)


# ---------------------------------------------------------------------- extents


@pytest.mark.parametrize(
    ("index", "bounds"),
    [
        ("e + 2", "6 2"),
        ("e - 2", "2 0"),
        ("e * 3", "10 0"),
        ("e // 2", "2 0"),
        ("e //^ 2", "3 1"),
        ("e % 3", "3 0"),
        ("e + g", "8 4"),
        ("e - g", "4 0"),
        ("e * g", "13 0"),
        ("5 - e", "6 6"),
        ("DIMS(e) - 1 - e", "4 0"),
        ("DIMS(e) - DIMS(g)", "0 0"),
        ("(DIMS(g) - 1) // 2 + e", "6 2"),
        ("RANK(e, g)", "3 3"),
        ("FLAT(e, g)", "20 0"),
        ("3", "4 4"),
        ("(2 - e) * (1 - g)", "4 4"),
        ("(e - 2) % 3", "3 3"),
    ],
)
def test_extents_are_true_bounds(index: str, bounds: str) -> None:
    """At 4 values of `e` and at none, and 5 of `g`."""
    array = parse(f"a[{index}] = 1").arrays["a"]
    for size, expected in zip((4, 0), bounds.split(), strict=True):
        dims = {"e": (ir.integer(size),), "g": (ir.integer(5),)}
        assert [as_int(n) for n in shape_of(array, dims)] == [int(expected)]
        assert extents_of(array.signature[0], dims) == shape_of(array, dims)


# ---------------------------------------------------------------------- kernels

FORMS = {
    "W[f, c, k] * X[b, f + DIMS(s) * q, c]": "W[p - DIMS(s) * q, c, k] * X[b, p, c]",
    "W[f, c, k] * X[b, f + DIMS(s) * q - 1, c]": "W[p + 1 - DIMS(s) * q, c, k] * X[b, p, c]",
}


@pytest.mark.parametrize("in_filter", FORMS)
@pytest.mark.parametrize("is_open", [False, True])
def test_both_forms_of_a_convolution_are_one_kernel(in_filter: str, is_open: bool) -> None:
    texts = []
    for value in (in_filter, FORMS[in_filter]):
        text = f"X[b, p, c] {IN}\nW[f, c, k] {IN}\ny[b, q, k] = {value}\n\nRANK(p) = 2"
        dims = {"p": (14, 15), "b": (2,), "c": (3,), "f": (3, 2), "k": (4,), "q": (6, 7)}
        known: dict[str, Components] = {n: tuple(map(ir.integer, v)) for n, v in dims.items()}
        if is_open:
            known |= {n: _symbols(n, len(dims[n])) for n in "bpcfk"}
        known["s"] = (ir.integer(2), ir.integer(2))
        given = {"X": DType.FLOAT32, "W": DType.FLOAT32}
        graph = lower_program(parse(text), known, given, ["y"], DType.FLOAT32)
        texts.append(_renamed(show_stage(graph, "loops", "float32", "int32", {})))
    assert texts[0] == texts[1]


def _symbols(name: str, count: int) -> Components:
    return tuple(ir.Symbol(f"{name}_{k}", ir.integer(99)) for k in range(count))


def _renamed(text: str) -> str:
    """Names in the order in which they appear."""
    names: dict[str, str] = {}
    return re.sub(
        r"`[^`]*`|\b[a-z]\d*\b(?!:)", lambda m: names.setdefault(m[0], f"v{len(names)}"), text
    )


def test_what_is_proved_to_be_reached_needs_no_account() -> None:
    pool = "X[p] = RANDOM(0, 1, FLOAT)\ny[q] max= X[q * 2 + f - 1]"
    dims = {"p": (ir.integer(8),), "q": (ir.integer(4),), "f": (ir.integer(3),)}
    graph = lower_program(parse(pool), dims, {"X": DType.FLOAT64}, ["y"])
    assert len(graph.operations) == 1
    kept = "X[p] = RANDOM(0, 1, FLOAT)\ny[q] max= X[q * 3 + f - 1]"
    assert len(lower_program(parse(kept), dims, {"X": DType.FLOAT64}, ["y"]).operations) == 3
    slice_ = "X[p] = RANDOM(0, 1, FLOAT)\ny[q] = 0.0\ny[p - 2] = X[p]"
    graph = lower_program(parse(slice_), dims, {"X": DType.FLOAT64}, ["y"])
    step = graph.operations[-1]
    assert isinstance(step, ir.Operation)
    (last,) = step.body
    assert last.op == "set" and len(last.domain) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "y[p // 2] = X[p]",
        "y[p % 3] += X[p]",
        "y[p // 2 * 2 + p % 2] = X[p]",
        "y[p // 4, FLAT(q, p % 4)] max= X[p] + X[q]",
        "y[DIMS(p) - 1 - p] = X[p]",
        "y[9 - p] = X[p]",
    ],
)
def test_targets_become_plain(statement: str) -> None:
    """So that each cell is computed from what reaches it, in parallel."""
    program = parse(f"X[p] {IN}\n{statement}")
    dims = {"p": (ir.integer(10),), "q": (ir.integer(3),)}
    graph = lower_program(program, dims, {"X": DType.FLOAT64}, ["y"])
    assert ":=" not in (text := show_stage(graph, "loops", "float32", "int32", {}))
    assert re.search(r"^  for ", text, re.M)
    x = np.random.default_rng(0).random(10)
    results(f"X[p] {IN}\n{statement}", {"p": (10,), "q": (3,)}, {"X": x})


def test_more_axes_than_arrays_can_have_are_refused() -> None:
    program = parse(f"x[i] {IN}\ny[i, j] = x[i]")
    for count in (32, 33):
        dims = {"i": (ir.ONE,) * 31, "j": (ir.ONE,) * (count - 31)}
        if count == 32:
            assert lower_program(program, dims, {"x": DType.FLOAT64}, ["y"])
            continue
        with pytest.raises(ricci.Error) as caught:
            lower_program(program, dims, {"x": DType.FLOAT64}, ["y"])
        assert caught.value.diagnostics[0].code == "E0901"


# -------------------------------------------------------------- random programs


@pytest.mark.parametrize("block", range(8))
def test_random_programs(block: int) -> None:
    for seed in range(block * 12, block * 12 + 12):
        case = make_case(seed)
        assert differences(case) == [], f"seed {seed}\n{case.text}"
