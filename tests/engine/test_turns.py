"""Maps that write a short last dimension in turns: which are one, and the numbers."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.api import Model
from ricci.dtypes import Types
from ricci.ir.loops import Reduce
from ricci.passes.pipeline import lower

from .running import runnable_targets


def stacked(count: int, axis: int, body: str = "") -> Model:
    """`count` tensors stacked along an axis."""
    names = [f"x{n}" for n in range(count)]
    shape = [37, 50]
    shape.insert(axis, count)
    given = " ".join(f"{n}: real[37, 50];" for n in names)
    used = [f"a{n}" if body else n for n in names]
    computed = " ".join(f"a{n} = {body}({n});" for n in names) if body else ""
    return ricci.parse(
        f"""import layout; import math; graph G {{
            @input {{ {given} }}
            @output {{ y: real[{", ".join(map(str, shape))}]; }}
            @compose {{ {computed} y = layout.stack{{axis={axis}}}([{", ".join(used)}]); }}
        }}""",
        "skriptnd",
    )


def targets_of(model: Model) -> list[int]:
    """The targets of each kernel."""
    kernels = lower(model.graph, {}, Types()).kernels
    return [len(k.targets) for k in kernels if isinstance(k, Reduce)]


def arrays(count: int) -> list[np.ndarray]:
    r = np.random.default_rng(0)
    return [r.standard_normal((37, 50), np.float32) for _ in range(count)]


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize("body", ["", "math.exp"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_stacked_along_the_last_axis(count: int, body: str, target: str) -> None:
    model = stacked(count, 2, body)
    assert targets_of(model) == [count]
    given = arrays(count)
    want = np.stack([np.exp(x) if body else x for x in given], 2)
    np.testing.assert_allclose(model.compile(threads=2, target=target)(*given), want, 1e-6)


@pytest.mark.parametrize(("count", "axis"), [(5, 2), (2, 1), (2, 0)])
def test_what_is_left_as_it_is(count: int, axis: int) -> None:
    model = stacked(count, axis)
    assert targets_of(model) == [1] * count
    given = arrays(count)
    np.testing.assert_array_equal(model.compile(threads=2)(*given), np.stack(given, axis))


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize(("pairs", "values"), [(64, 2), (50, 2), (33, 3), (16, 4), (4, 2)])
def test_an_index_of_few_values(pairs: int, values: int, target: str) -> None:
    """Pairs that are turned by an angle, in one formula."""
    shape = f"4, {pairs}, {values}"
    model = ricci.parse(
        f"""operator turn {{
            @input {{ x: real[{shape}]; c: real[{pairs}]; s: real[{pairs}]; }}
            @output {{ y: real[{shape}]; }}
            @lower {{
                y[b, d, k] = x[b, d, k] * c[d,] + (k == 0 ? -x[b, d, 1] : x[b, d, k - 1]) * s[d,],
                    b < 4, d < {pairs}, k < {values};
            }}
        }}
        graph G {{
            @input {{ x: real[{shape}]; c: real[{pairs}]; s: real[{pairs}]; }}
            @output {{ y: real[{shape}]; }}
            @compose {{ y = turn(x, c, s); }}
        }}""",
        "skriptnd",
    )
    r = np.random.default_rng(1)
    x, c, s = (r.standard_normal(n, np.float32) for n in [(4, pairs, values), pairs, pairs])
    other = np.concatenate([-x[..., 1:2], x[..., :-1]], 2)
    want = x * c[:, None] + other * s[:, None]
    np.testing.assert_allclose(model.compile(threads=2, target=target)(x, c, s), want, 1e-5, 1e-6)
    if pairs >= 16:
        assert "scatter" not in model.show("llvm")
