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
from ricci.passes.pipeline import lower
from ricci.passes.side_by_side import side_by_side

from .running import HOST, run_code, runnable_targets
from .test_copied_borders import depthwise, expected

CASES = [
    # shape, window, stride, dilation, padding
    ((1, 32, 14, 14), (5, 5), 2, 1, 2),
    ((2, 16, 9, 11), (4, 6), 2, 1, 1),
    ((3, 48, 13, 7), (5, 5), 3, 2, 4),
    ((1, 64, 16, 16), (4, 4), 3, 1, 0),
    ((1, 48, 7, 7), (5, 5), 1, 1, 2),
    ((1, 16, 40, 64), (5, 5), 2, 1, 2),
    ((2, 16, 7, 6, 5), (3, 3, 3), 2, 1, 1),
    ((2, 32, 50), (17,), 2, 1, 8),
]
"""All of them are done so on every target."""


def kernel_of(model: Model) -> Reduce:
    """The sums, the only kernel there is."""
    (kernel,) = lower(model.graph, {}, Types()).kernels
    assert isinstance(kernel, Reduce)
    return kernel


def arrays_for(shape: tuple[int, ...], size: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = (shape, (shape[1], 1, *size), (shape[1],))
    return [rng.standard_normal(s, np.float32) for s in shapes]


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize(("shape", "size", "stride", "dilation", "pad"), CASES)
def test_numbers(
    shape: tuple[int, ...],
    size: tuple[int, ...],
    stride: int,
    dilation: int,
    pad: int,
    target: str,
) -> None:
    model = depthwise(shape, size, stride, dilation, pad)
    assert by_maps(kernel_of(model), {}, HOST) is not None
    arrays = arrays_for(shape, size)
    want = expected(*arrays, stride, dilation, pad)
    for threads in (1, 2):
        got = model.compile(threads=threads, target=target)(*arrays)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize(("shape", "stride", "pad"), [
    ((1, 32, 14, 14), 1, 1), ((2, 16, 7, 9), 1, 1), ((1, 16, 15, 15), 2, 0), ((3, 48, 5, 3), 3, 2),
])  # fmt: skip
def test_any_number_of_lanes(shape: tuple[int, ...], stride: int, pad: int, lanes: int) -> None:
    kernel = kernel_of(depthwise(shape, (3, 3), stride, 1, pad))
    group = side_by_side(kernel, lanes)
    assert group is not None
    arrays = dict(zip("xwb", arrays_for(shape, (3, 3)), strict=True))
    want = expected(*arrays.values(), stride, 1, pad)
    code = nest.generate(group, {}, HOST)
    got = np.full_like(want, np.nan)
    named = {t: got if t.name.endswith("y") else arrays[t.name[-1]] for t in code.tensors}
    assert not run_code(code, named).any()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("name", targets.NAMES)
def test_windows_that_are_apart(name: str) -> None:
    """On every target, since borders are not copied for them."""
    kernel = kernel_of(depthwise((1, 672, 14, 14), (5, 5), 2, 1, 2))
    assert by_maps(kernel, {}, targets.named(name)) is not None


def test_strides_of_other_layouts() -> None:
    kernel = kernel_of(depthwise((1, 64, 14, 14), (5, 5), 2, 1, 2))
    strides = {kernel.targets[0].tensor: (1, 1, 448, 64)}
    assert by_maps(kernel, strides, HOST) is None


OTHERS = {
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
    assert side_by_side(kernel_of(model), 16) is None


def test_maps_that_do_not_divide() -> None:
    kernel = kernel_of(depthwise((1, 24, 14, 14), (3, 3), 2, 1, 1))
    assert side_by_side(kernel, 16) is None
    assert side_by_side(kernel, 8) is not None
