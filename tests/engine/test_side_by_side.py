"""Windows over maps that are turned round, so that several maps are done side by side."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.api import Model
from ricci.backends.llvm import nest, targets
from ricci.backends.llvm.nest_maps import by_maps
from ricci.dtypes import Types
from ricci.ir.loops import Reduce
from ricci.ir.shapes import as_int
from ricci.passes.map_windows import over_elements, windows_of
from ricci.passes.pipeline import lower
from ricci.passes.side_by_side import side_by_side

from .running import HOST, run_code, runnable_targets
from .test_copied_borders import Case, arrays_for, check_numbers, depthwise, expected

CASES = [
    Case((1, 32, 14, 14), (5, 5), 2, 1, 2),
    Case((2, 16, 9, 11), (4, 6), 2, 1, 1),
    Case((3, 48, 13, 7), (5, 5), 3, 2, 4),
    Case((1, 64, 16, 16), (4, 4), 3, 1, 0),
    Case((1, 48, 7, 7), (5, 5), 1, 1, 2),
    Case((1, 16, 40, 64), (5, 5), 2, 1, 2),
    Case((2, 16, 7, 6, 5), (3, 3, 3), 2, 1, 1),
    Case((2, 32, 50), (17,), 2, 1, 8),
    Case((2, 32, 14, 14), (27, 27), 1, 1, 13),
    Case((1, 16, 10, 12), (23, 25), 1, 1, 12),
    Case((2, 16, 11, 13), (25, 25), 2, 1, 12),
    Case((1, 32, 4, 4), (7, 7), 1, 1, 3),
]
"""All of them are done so on every target."""

WHOLE = [
    (Case((1, 8, 9, 9), (17, 17), 1, 1, 8), (True, True)),
    (Case((1, 8, 5, 6), (11, 13), 1, 1, 6), (True, True)),
    (Case((1, 8, 11, 7), (21, 15), 2, 1, 10), (True, False)),
    (Case((1, 8, 5, 20), (9, 9), 1, 1, 4), (True, False)),
    (Case((1, 8, 20, 5), (9, 9), 1, 1, 4), (False, True)),
    (Case((1, 8, 5, 5), (8, 8), 1, 1, 4), (False, False)),
    (Case((1, 8, 5, 5), (8, 8), 2, 1, 4), (False, False)),
    (Case((1, 8, 9, 9), (17, 17), 1, 2, 16), (False, False)),
    (Case((1, 8, 3, 4, 3), (5, 5, 5), 1, 1, 2), (True, False, True)),
]
"""Windows, and along which lines every one of them has more terms than the line has elements, and
reaches all."""


def kernel_of(model: Model) -> Reduce:
    """The sums, the only kernel there is."""
    (kernel,) = lower(model.graph, {}, Types()).kernels
    assert isinstance(kernel, Reduce)
    return kernel


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize("case", CASES)
def test_numbers(case: Case, target: str) -> None:
    assert by_maps(kernel_of(depthwise(case)), {}, HOST) is not None
    check_numbers(case, target)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize(("shape", "stride", "pad"), [
    ((1, 32, 14, 14), 1, 1), ((2, 16, 7, 9), 1, 1), ((1, 16, 15, 15), 2, 0), ((3, 48, 5, 3), 3, 2),
])  # fmt: skip
def test_any_number_of_lanes(shape: tuple[int, ...], stride: int, pad: int, lanes: int) -> None:
    check_lanes(Case(shape, (3, 3), stride, 1, pad), lanes)


@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize(("case", "lines"), WHOLE)
def test_windows_that_reach_all(case: Case, lines: tuple[bool, ...], lanes: int) -> None:
    (found,) = windows_of(kernel_of(depthwise(case)))
    whole = over_elements(found)
    sizes = tuple(n if w else k for n, k, w in zip(case.shape[2:], case.size, lines, strict=True))
    assert tuple(as_int(i.extent) for i in whole.kernel.reduced) == sizes
    assert (whole is found) == (not any(lines))
    check_lanes(case, lanes)


def check_lanes(case: Case, lanes: int) -> None:
    """That so many maps side by side have the numbers expected."""
    kernel, want = kernel_of(depthwise(case)), expected(case)
    (found,) = windows_of(kernel)
    beside = side_by_side(found, lanes)
    assert beside is not None
    arrays = dict(zip("xwb", arrays_for(case), strict=True))
    code = nest.generate(beside.group, {}, HOST)
    got = np.full_like(want, np.nan)
    named = {t: got if t.name.endswith("y") else arrays[t.name[-1]] for t in code.tensors}
    assert not run_code(code, named).any()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("shape", [(1, 32, 14, 14), (1, 32, 16, 16)])
def test_filters_that_are_set_again(shape: tuple[int, ...]) -> None:
    """They are turned round whenever they are set, and not in calls."""
    size = 2 * shape[-1] - 1
    model = ricci.parse(
        f"""import nn; graph G {{
            @input {{ x: real[{", ".join(map(str, shape))}]; }}
            @variable {{ w: real[32, 1, {size}, {size}]; }}
            @output {{ y: real[{", ".join(map(str, shape))}]; }}
            @compose {{ y = nn.conv{{groups=32, padding={shape[-1] - 1}}}(x, w); }}
        }}""",
        "skriptnd",
    )
    program = lower(model.graph, {}, Types())
    (kernel,) = program.kernels
    code = nest.generate(kernel, {}, HOST, constant=frozenset(program.variables))
    (made,) = code.prepare
    assert made.output in code.tensors
    assert not set(program.variables) & set(code.tensors)
    case = Case(shape, (size, size), 1, 1, shape[-1] - 1)
    x, w, b = arrays_for(case)
    run = model.compile(threads=1)
    for factor in (1.0, -2.0):
        run.variables["main.G.w"] = factor * w
        want = factor * (expected(case) - b.reshape(1, -1, 1, 1))
        np.testing.assert_allclose(run(x), want, rtol=1e-5, atol=5e-5)


def test_largest_of_all() -> None:
    """Each result is that of all elements of a map."""
    x = np.random.default_rng(0).standard_normal((64, 9), np.float32)
    x[5, 2] = np.nan
    model = program(
        "x: real[64,9];", "y: real[64,9];", "y[c,i] = -inf",
        "y[c,i] >= x[c,|i+k-8|]", "c < 64, i < 9", "k < 17",
    )  # fmt: skip
    (found,) = windows_of(kernel_of(model))
    assert over_elements(found) is not found
    beside = side_by_side(found, 16)
    assert beside is not None
    got = np.full((64, 9), 7, np.float32)
    code = nest.generate(beside.group, {}, HOST)
    assert not run_code(code, {t: got if t.name.endswith("y") else x for t in code.tensors}).any()
    want = model.compile(target="interpreter")(x)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", targets.NAMES)
def test_windows_that_are_apart(name: str) -> None:
    """On every target, since borders are not copied for them."""
    kernel = kernel_of(depthwise(Case((1, 672, 14, 14), (5, 5), 2, 1, 2)))
    assert by_maps(kernel, {}, targets.named(name)) is not None


def test_strides_of_other_layouts() -> None:
    kernel = kernel_of(depthwise(Case((1, 64, 14, 14), (5, 5), 2, 1, 2)))
    strides = {kernel.targets[0].tensor: (1, 1, 448, 64)}
    assert by_maps(kernel, strides, HOST) is None


OTHERS = {
    "as in all above": ("x[c,2*i + k]", "w[c,k]", "0.0"),
    "one filter for all maps": ("x[c,2*i + k]", "w[0,k]", "0.0"),
    "a factor for each result": ("x[c,2*i + k]", "w[c,k] * s[i,]", "0.0"),
    "a part of each result": ("x[c,2*i + k]", "w[c,k]", "s[i,]"),
    "maps in another order": ("x[c,2*i + k]", "w[31 - c,k]", "0.0"),
}


@pytest.mark.parametrize(("element", "factor", "first"), OTHERS.values(), ids=OTHERS)
def test_what_is_not_done_so(element: str, factor: str, first: str) -> None:
    ports = "x: real[32, 43]; w: real[32, 17]; s: real[14];"
    model = ricci.parse(
        f"""operator f {{
            @input {{ {ports} }}
            @output {{ y: real[32, 14]; }}
            @lower {{
                y[c,i] = {first}, c < 32, i < 14;
                y[c,i] += {element} * {factor}, c < 32, i < 14, k < 17;
            }}
        }}
        graph G {{
            @input {{ {ports} }}
            @output {{ y: real[32, 14]; }}
            @compose {{ y = f(x, w, s); }}
        }}""",
        "skriptnd",
    )
    groups = [side_by_side(found, 16) for found in windows_of(kernel_of(model))]
    assert any(groups) == (factor == "w[c,k]" and first == "0.0")


def test_maps_that_do_not_divide() -> None:
    kernel = kernel_of(depthwise(Case((1, 24, 14, 14), (3, 3), 2, 1, 1)))
    (found,) = windows_of(kernel)
    assert side_by_side(found, 16) is None
    assert side_by_side(found, 8) is not None


def program(inputs: str, output: str, start: str, term: str, ranges: str, terms: str) -> Model:
    """A graph of one operator, whose result begins with a number and has more terms."""
    names = ", ".join(p.split(":")[0].strip() for p in inputs.split(";") if p.strip())
    return ricci.parse(
        f"""operator f {{
            @input {{ {inputs} }}
            @output {{ {output} }}
            @lower {{ {start}, {ranges}; {term}, {ranges}, {terms}; }}
        }}
        graph G {{
            @input {{ {inputs} }}
            @output {{ {output} }}
            @compose {{ y = f({names}); }}
        }}""",
        "skriptnd",
    )


WRONG = {
    "a line without a rule": (
        "x: real[32,14,14]; w: real[32,5,5];", "y: real[32,7,7];", "y[c,i,j] = 0.0",
        "y[c,i,j] += x[c,|2*i+k-2|,2*j+l-2] * w[c,k,l]", "c < 32, i < 7, j < 7", "k < 5, l < 5",
    ),
    "a copied border": (
        "x: real[32,40]; w: real[32,17];", "y: real[32,40];", "y[c,i] = 0.0",
        "y[c,i] += x[c,i+k-8] * w[c,k]", "c < 32, i < 40", "k < 17",
    ),
    "a maximum": (
        "x: real[32,40];", "y: real[32,12];", "y[c,i] = -inf",
        "y[c,i] >= x[c,2*i+k-8]", "c < 32, i < 12", "k < 17",
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_indices_out_of_range(text: tuple[str, str, str, str, str, str]) -> None:
    """What is outside, and not left out, is an error, and no zero."""
    with pytest.raises(ricci.Error, match="E0802"):
        model = program(*text)
        shapes = [[int(n) for n in p.split("[")[1].rstrip("] ").split(",")]
                  for p in text[0].split(";") if p.strip()]  # fmt: skip
        model.compile(threads=1)(*(np.ones(s, np.float32) for s in shapes))


def test_factors_of_terms_that_are_left_out() -> None:
    """An index of theirs may be out of range."""
    model = program(
        "x: real[64,14]; w: real[64,7];", "y: real[64,3];", "y[c,i] = 0.0",
        "y[c,i] += x[c,|2*i+k-5|] * w[c,k-1]", "c < 64, i < 3", "k < 8",
    )  # fmt: skip
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((64, 14), np.float32), rng.standard_normal((64, 7), np.float32)
    want = model.compile(target="interpreter")(*arrays)
    np.testing.assert_allclose(model.compile(threads=1)(*arrays), want, rtol=1e-5, atol=1e-5)


def test_windows_far_apart() -> None:
    """Most of what lies between them is not turned round."""
    model = program(
        "x: real[64,2048]; w: real[64,17];", "y: real[64,3];", "y[c,i] = 0.0",
        "y[c,i] += x[c,900*i+k] * w[c,k]", "c < 64, i < 3", "k < 17",
    )  # fmt: skip
    assert by_maps(kernel_of(model), {}, HOST) is None
