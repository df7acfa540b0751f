"""Programs called with arrays: which they take, what they give, and what is wrong with others."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ricci
from ricci import eintup
from ricci.eintup import EinsumTuple

FOLDER = Path(__file__).parents[2] / "examples" / "eintup"
RNG = np.random.default_rng(0)

ROWS = """
A[i, k] = RANDOM(0, 1, FLOAT)
B[k, j] = RANDOM(0, 1, FLOAT)
C[i, j] = A[i, k] * B[k, j]
s[i] = A[i, k]

s, C
"""


def load(name: str, **how: Any) -> EinsumTuple:
    return eintup.load(FOLDER / f"{name}.et", **how)


def code_of(caught: pytest.ExceptionInfo[ricci.Error]) -> str:
    return caught.value.diagnostics[0].code


# ------------------------------------------------------------------------ calls


@pytest.mark.parametrize("rank", range(7))
def test_one_program_for_all_ranks(rank: int) -> None:
    batch = (2, 1, 3, 1, 2, 1)[:rank]
    a, b = RNG.random((*batch, 3, 4)), RNG.random((*batch, 4, 5))
    np.testing.assert_allclose(load("matmul")(a, b), a @ b)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution(rank: int, target: str) -> None:
    x, w = RNG.random((2, *(9, 8, 7)[:rank], 3)), RNG.random((*(3, 2, 4)[:rank], 3, 5))
    conv = [torch.conv1d, torch.conv2d, torch.conv3d][rank - 1]
    first, last = (0, rank + 1, *range(1, rank + 1)), (rank + 1, rank, *range(rank))
    given = torch.from_numpy(x).permute(first), torch.from_numpy(w).permute(last)
    expected = conv(*given, stride=2).movedim(1, -1)
    program = load("conv_valid_v2", target=target).at(dims={"stride": 2})
    np.testing.assert_allclose(program(x, w), expected)
    np.testing.assert_allclose(program(filters=w, input=x), expected)


def test_coordinates_from_data() -> None:
    params, indices = RNG.random((2, 5, 6, 3)), RNG.integers(0, 5, (2, 4, 2))
    rows = np.arange(2)[:, None]
    expected = params[rows, indices[..., 0], indices[..., 1]]
    gather = load("gather_nd").at(ranks={"batch": 1, "read": 2})
    np.testing.assert_array_equal(gather(params, indices), expected)

    slots, updates = RNG.integers(0, 4, (10, 2)), RNG.random((10, 3))
    scatter = load("scatter_nd").at(dims={"dest": [4, 4]})
    expected = np.zeros((4, 4, 3))
    np.add.at(expected, (slots[:, 0], slots[:, 1]), updates)
    np.testing.assert_allclose(scatter(slots, updates), expected)


def test_several_results_are_a_named_tuple() -> None:
    a, b = RNG.random((3, 4)), RNG.random((4, 5))
    results = eintup.parse(ROWS)(a, b)
    assert results._fields == ("s", "C")
    np.testing.assert_allclose(results.C, a @ b)
    np.testing.assert_allclose(results.s, a.sum(1))


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "int64", "uint8", "bool"]
)
def test_arrays_decide_about_types(dtype: str) -> None:
    a, b = (RNG.integers(0, 2, s).astype(dtype) for s in ((2, 3), (3, 2)))
    result = eintup.parse(ROWS)(a, b).C
    assert result.dtype == (a * 1 if dtype == "bool" else a).dtype or dtype == "bool"
    np.testing.assert_array_equal(result, a.astype(int) @ b.astype(int))


def test_types_promote_as_those_of_numpy() -> None:
    text = "a[i] = RANDOM(0, 1, FLOAT)\nb[i] = RANDOM(0, 9, INT)\nc[i] = a[i] * b[i]"
    program = eintup.parse(text)
    for left, right in itertools.product(["float32", "float64", "int16", "uint8"], repeat=2):
        a, b = np.ones(3, left), np.ones(3, right)
        assert program(a, b).dtype == (a * b).dtype


def test_what_stands_for_float_and_int() -> None:
    text = "a[i] = RANDOM(0, 1, FLOAT)\nb[i] = a[i] / 3\nc[i] = RANDOM(0, 9, INT)\n\nb, c"
    for real, int_, wide in (("float32", "int64", {}), ("float64", "int32", None)):
        how = {"real": real, "int": int_} if wide is not None else {}
        b, c = eintup.parse(text, **how).at(dims={"i": 4})(seed=1)
        assert (b.dtype, c.dtype) == (real, int_)


# ----------------------------------------------------------------------- arrays


def test_tensors_give_tensors() -> None:
    a, b = torch.rand(3, 4), torch.rand(4, 5)
    c = load("matmul")(a, b)
    assert isinstance(c, torch.Tensor)
    torch.testing.assert_close(c, a @ b)


class OnlyDLPack:
    def __init__(self, array: Any) -> None:
        self.array = array
        self.dtype, self.shape = array.dtype, list(array.shape)  # what no key is made of

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_arrays_of_any_kind() -> None:
    matmul = load("matmul")
    a, b = RNG.random((3, 4)), RNG.random((4, 5))
    a.flags.writeable = False
    wide = RNG.random((6, 8))
    wide[::2, ::2] = a
    for left in (
        a,
        a.tolist(),
        OnlyDLPack(a.copy()),
        wide[::2, ::2],
        a[::-1][::-1],
        np.asfortranarray(a),
    ):
        np.testing.assert_allclose(matmul(left, b), a @ b)
    np.testing.assert_allclose(matmul(a[::-1], b.T.copy().T), a[::-1] @ b)


def test_without_elements() -> None:
    matmul = load("matmul")
    assert matmul(np.ones((0, 3)), np.ones((3, 2))).shape == (0, 2)
    np.testing.assert_array_equal(matmul(np.ones((2, 0)), np.ones((0, 3))), np.zeros((2, 3)))
    assert load("flatten").at(ranks={"b": 0, "c": 0, "d": 0})(np.ones((2, 0), np.int32)).size == 0


def test_other_strides_and_shapes_in_turn() -> None:
    matmul = load("matmul")
    for _ in range(3):
        for n in (2, 3):
            a, b = RNG.random((4, n)).T, RNG.random((4, 5))
            np.testing.assert_allclose(matmul(a, b), a @ b)
            single = np.ascontiguousarray(a).astype(np.float32)
            assert matmul(single, b.astype(np.float32)).dtype == np.float32


# ------------------------------------------------------------------ random inputs


def test_inputs_are_drawn_if_there_is_a_seed() -> None:
    matmul = load("matmul").at(
        ranks={"batch": 1}, dims={"batch": 2, "row": 3, "col": 4, "inner": 5}
    )
    first, again, other = matmul(seed=3), matmul(seed=3), matmul(seed=4)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).min() > 0
    a = RNG.random((2, 3, 5))
    drawn = matmul(a, seed=3)
    np.testing.assert_array_equal(drawn, matmul(a, seed=3))
    assert drawn.shape == (2, 3, 4)


def test_inputs_left_out_are_named() -> None:
    with pytest.raises(ricci.Error) as caught:
        load("matmul")(RNG.random((3, 4)))
    assert code_of(caught) == "E0801"
    assert "is not given `right`" in str(caught.value)
    assert "seed=0" in caught.value.diagnostics[0].help


def test_a_program_that_draws_elsewhere_has_a_seed_too() -> None:
    text = "x[i] = RANDOM(0, 1, FLOAT)\ny[i] = x[i] + RANDOM(0, 1, FLOAT)"
    program = eintup.parse(text)
    noise = program(np.zeros(1000))
    np.testing.assert_array_equal(noise, program(np.zeros(1000), seed=0))
    assert not np.array_equal(noise, program(np.zeros(1000), seed=1))
    assert 0 <= noise.min() < 0.01 and 0.99 < noise.max() < 1


# ---------------------------------------------------------------- wrong arguments


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((1, 2, 3), {}, "2 inputs, and 3"),
        ((np.ones((2, 2)),), {"A": np.ones((2, 2))}, "given twice"),
        ((np.ones((2, 2)), np.ones((2, 2))), {"X": 1}, "no input `X`"),
        ((np.ones((2, 2)), np.ones((2, 2))), {"C": np.ones((2, 2))}, "no input `C`"),
        ((np.ones((2, 2), complex), np.ones((2, 2))), {}, "type"),
        ((object(), np.ones((2, 2))), {}, "not an array"),
        ((np.ones((2, 2)),), {"seed": -1}, "seed"),
        ((np.ones((2, 2)),), {"seed": "x"}, "seed"),
    ],
    ids=lambda x: str(x)[:20],
)
def test_wrong_arguments(args: tuple[Any, ...], kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(ricci.Error, match=said) as caught:
        eintup.parse(ROWS)(*args, **kwargs)
    assert code_of(caught) == "E0801"


def test_reals_are_no_coordinates() -> None:
    with pytest.raises(ricci.Error) as caught:
        load("embedding")(np.ones((3, 2)), np.ones((2, 1)))
    assert code_of(caught) == "E0301"


@pytest.mark.parametrize(
    ("ranks", "dims"),
    [
        ({"nothing": 1}, None),
        ({"batch": -1}, None),
        ({"batch": 1.5}, None),
        (None, {"batch": "x"}),
        (None, {"batch": [1, -2]}),
        ({"batch": 2}, {"batch": [1]}),
        ([1], None),
        (None, 3),
    ],
    ids=str,
)
def test_wrong_ranks_and_dims(ranks: Any, dims: Any) -> None:
    with pytest.raises(ricci.Error) as caught:
        load("matmul").at(ranks, dims)
    assert code_of(caught) == "E0801"


@pytest.mark.parametrize(
    "how", [{"real": "int32"}, {"int": "x"}, {"target": "gpu"}, {"threads": 0}]
)
def test_wrong_settings(how: dict[str, Any]) -> None:
    with pytest.raises(ricci.Error) as caught:
        load("matmul", **how)
    assert code_of(caught) == "E0801"


# ----------------------------------------------------------- looking at programs


def test_ranks_and_dims_of_a_call() -> None:
    conv = load("conv_valid_v1")
    found = conv.at(dims={"stride": 2}).infer(np.ones((2, 9, 8, 3)), (3, 2, 3, 5))
    assert found.ranks["ipos"] == 2
    assert found.dims["opos"] == (4, 4)
    again = conv.at(dims=found.dims)
    assert again.infer((2, 9, 8, 3), filters=(3, 2, 3, 5)).dims == found.dims


def test_configurations_are_legal_and_repeatable() -> None:
    matmul = load("matmul")
    found = list(matmul.configurations(2, seed=5))
    assert [c.ranks["batch"] for c in found] == [n for n in range(7) for _ in range(2)]
    assert [c.dims for c in matmul.configurations(2, seed=5)] == [c.dims for c in found]
    fixed = matmul.at(ranks={"batch": 2}, dims={"row": 3})
    assert all(c.dims["row"] == (3,) and c.ranks["batch"] == 2 for c in fixed.configurations(3))
    with pytest.raises(ricci.Error, match="no legal ranks"):
        next(matmul.at(ranks={"batch": 9}).configurations())


def test_what_a_program_is() -> None:
    program = load("conv_valid_v1")
    assert [p.name for p in program.inputs] == ["input", "filters"]
    assert [(p.name, p.dtype) for p in program.outputs] == [("output", "float64")]
    assert program.inputs[0].shape == ("batch", "ipos", "ichan")
    assert "output[" in program.source
    assert "stride" in str(program.explain())
    assert "RANK(ipos)=1" in repr(program.at(ranks={"ipos": 1}))


def test_texts_are_formatted() -> None:
    text = eintup.format("a[i]=RANDOM(0,1,FLOAT)  # one\nb[i]=a[ i ]+1\n")
    assert "# one" in text
    assert eintup.format(text) == text == ricci.format(text, "eintup")


def test_shapes_that_data_decides() -> None:
    text = """
    index[s, coord] = RANDOM(0, 10, INT)
    x[s] = RANDOM(0, 1, FLOAT)
    out[index[s, :]] = x[s]

    out
    """
    program = eintup.parse(text)
    for where in ([[0], [3], [3]], [[1], [0], [0]]):
        values = np.array([1.0, 2.0, 4.0])
        expected = np.bincount(np.array(where)[:, 0], values)
        np.testing.assert_array_equal(program(np.array(where), values), expected)
    with pytest.raises(ricci.Error) as caught:
        ricci.parse(text, "eintup")
    assert code_of(caught) == "E0507"


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_extents_from_data_need_64_bits(target: str) -> None:
    text = "x[i] = RANDOM(0, 9, INT)\nat[i, 0] = x[i]\nout[at[i, :]] = 1\n"
    program = eintup.parse(text, target=target)
    with pytest.raises(ricci.Error, match="1099511627777"):
        program(np.array([2**40, 0]))
    assert program(np.array([127, 0], np.int8)).shape == (128,)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_bounds_from_data_that_leave_no_integer(target: str) -> None:
    text = "x[i] = RANDOM(1, 9, INT)\ny[i] = 1 + RANDOM(2, x[i], INT)\n"
    program = eintup.parse(text, target=target)
    assert program(np.array([3, 3])).tolist() == [3, 3]
    with pytest.raises(ricci.Error) as caught:
        program(np.array([3, 2]))
    (found,) = caught.value.diagnostics
    assert (found.code, found.span.text) == ("E0419", "RANDOM(2, x[i], INT)")
    with pytest.raises(ricci.Error) as caught:
        eintup.parse(text.replace("x[i],", "9 // x[i],"), target=target)(np.array([3, 0]))
    assert code_of(caught) == "E0803"


def test_verify_keeps_to_what_is_fixed() -> None:
    conv = load("conv_valid_v2").at({"ipos": 2}, {"stride": 2, "batch": 7})
    found = conv.verify(reps=3, seed=2)
    assert found.ok and [case.id for case in found.cases] == ["1.1", "1.2", "1.3"]
    for case in found.cases:
        assert case.configuration is not None
        assert case.configuration.dims["stride"] == (2, 2)
        assert case.configuration.dims["batch"] == (7,)  # more than what is drawn
    with pytest.raises(ricci.Error, match="no legal ranks"):
        load("conv_valid_v2").at({"ipos": 9}).verify()


def test_failures_are_made_small_within_what_is_fixed() -> None:
    text = "x[a, b] = RANDOM(1, 2, FLOAT)\ny[a, b] = x[a, b] + 1\n\nnp.copy(x)\n\ny\n\n"
    text += "RANK(a) IN [0, 3]\nDIMS(a) IN [1, 5]\nDIMS(b) IN [2, 5]\n"
    (case,) = eintup.parse(text).at({"a": 2}, {"b": 9}).verify().cases
    assert case.smallest is not None
    assert case.smallest[0].dims == {"a": (1, 1), "b": (9,)}


def test_verify_is_what_the_command_does() -> None:
    found = load("sort").verify(reps=2, seed=2)
    assert found.ok
    assert len(found.cases) == 2


@pytest.mark.parametrize("count", [-1, "x", 1.5])
def test_counts_are_numbers(count: Any) -> None:
    matmul = load("matmul")
    for ask in (matmul.legal, matmul.illegal, lambda n: list(matmul.configurations(n))):
        with pytest.raises(ricci.Error) as caught:
            ask(count)
        assert code_of(caught) == "E0801"


def test_legal_and_illegal_arguments() -> None:
    matmul = load("matmul")
    for item in matmul.legal(5, seed=1):
        arrays = {name: np.ones(shape) for name, shape in item.shapes.items()}
        assert matmul.at(item.ranks, item.dims)(**arrays).ndim >= 2
    for item in matmul.illegal(5, seed=1):
        with pytest.raises(ricci.Error) as caught:
            matmul.infer(**item.shapes)
        assert item.is_expected(caught.value)
