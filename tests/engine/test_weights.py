"""Weights that depend on places alone: made once, along one dimension after the other, and what
that leaves is what the interpreter says."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ricci
from ricci.dtypes import Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Group, Kernel, Reduce
from ricci.ir.shapes import as_int
from ricci.passes.pipeline import lower

from .running import runnable_targets


def resized(
    operator: str, shape: tuple[int, ...], size: tuple[int, int], more: str = ""
) -> ricci.Model:
    result = (*shape[:2], *size)
    return ricci.parse(f"""
import image;
graph G {{
    @input {{ x: real[{", ".join(map(str, shape))}]; }}
    @output {{ y: real[{", ".join(map(str, result))}]; }}
    @compose {{
        y = image.{operator}{{axes=[2, 3], size=[{size[0]}, {size[1]}], antialias=false{more}}}(x);
    }}
}}""")


def parts(model: ricci.Model) -> tuple[list[Kernel], list[Reduce]]:
    """The kernels that run once, and the parts of all others."""
    program = lower(model.graph, {}, Types())
    late = [k for k in program.kernels if isinstance(k, Kernel)]
    found = [p for k in late for p in (k.kernels if isinstance(k, Group) else (k,))]
    return list(program.prepare), [p for p in found if isinstance(p, Reduce)]


@pytest.mark.parametrize("more", ["", ", coordinate_transform='ALIGNED'"])
@pytest.mark.parametrize("operator", ["linear_resize", "cubic_resize"])
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 3, 28, 28), (84, 84)),
        ((2, 8, 14, 15), (25, 22)),
        ((1, 8, 20, 33), (10, 11)),
        ((1, 1, 5, 7), (13, 64)),
        ((2, 2, 16, 16), (16, 40)),
    ],
)
def test_images_of_other_sizes(
    shape: tuple[int, ...], size: tuple[int, int], operator: str, more: str
) -> None:
    model = resized(operator, shape, size, more)
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    want = interpret(model.graph, {"x": x})["y"]
    for target in runnable_targets():
        got = model.compile(threads=2, target=target)(x)
        np.testing.assert_allclose(got, want, 1e-4, 1e-5, err_msg=target)


def test_one_dimension_after_the_other() -> None:
    """Sixteen terms become twice four; weights of both are made once."""
    early, late = parts(resized("cubic_resize", (1, 8, 28, 28), (45, 50)))
    assert len(early) == 2
    assert [len(k.reduced) for k in late] == [1, 1]
    assert not any(k.locals for k in late)


def test_what_comes_again_is_not_read() -> None:
    """Every second column has the same weights, which are numbers."""
    early, late = parts(resized("cubic_resize", (1, 8, 28, 28), (45, 56)))
    assert len(early) == 1
    assert [len(k.reduced) for k in late] == [1, 1]


def test_terms_from_anywhere_are_fewer() -> None:
    """Of four terms two and two are left, but rows are made wider where they are fewer."""
    _, late = parts(resized("linear_resize", (1, 8, 28, 28), (45, 50)))
    assert [len(k.reduced) for k in late] == [1, 1]
    shapes = [[as_int(e) for e in k.targets[0].tensor.shape] for k in late]
    assert shapes == [[8, 28, 50], [1, 8, 45, 50]]


FORMULAS = {
    "both in one": ("y[m, i, k] += `exp`(real(i * j + k * l) * -0.01) * x[m, |i + j|, |k + l|]", 1),
    "sums": ("y[m, i, k] += (real(j) * 0.5 + x[m, |i + j|, |k + l|]) * 0.25", 2),
    "of one alone": ("y[m, i, k] += `sin`(real(k) + real(l) * 0.5) * x[m, |i + j|, |k + l|]", 2),
    "that are read": ("y[m, i, k] += w[i % 3, j] * w[k % 3, l] * x[m, |i + j|, |k + l|]", 1),
    "maxima": ("y[m, i, k] >= `sin`(real(k + l)) * x[m, |i + j|, |k + l|]", 2),
    "of what is reduced alone": ("y[m, i, k] += `exp`(real(j + 1)) * x[m, |i + j|, |k + l|]", 2),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name: str) -> None:
    body, kernels = FORMULAS[name]
    model = ricci.parse(f"""
graph G {{
    @input {{ x: real[6, 20, 33]; w: real[3, 4]; }}
    @output {{ y: real[6, 20, 33]; }}
    @compose {{ y = o(x, w); }}
}}
operator o {{
    @input {{ x: real[c, p, q]; w: real[3, 4]; }}
    @output {{ y: real[c, p, q]; }}
    @lower {{ {body}, m < c, i < p, k < q, j < 4, l < 4; }}
}}""")
    r = np.random.default_rng(1)
    x, w = (r.standard_normal(s, np.float32) for s in ((6, 20, 33), (3, 4)))
    want = interpret(model.graph, {"x": x, "w": w})["y"]
    for target in runnable_targets():
        got = model.compile(threads=2, target=target)(x, w)
        np.testing.assert_allclose(got, want, 1e-4, 1e-5, err_msg=target)
    _, late = parts(model)
    assert len(late) == kernels


def test_rows_that_are_read_by_columns_are_no_product() -> None:
    """In a group a term whose factor of rows depends on the column, too."""
    model = resized("cubic_resize", (1, 64, 56, 56), (112, 112))
    x = np.random.default_rng(2).standard_normal((1, 64, 56, 56), np.float32)
    want = interpret(model.graph, {"x": x})["y"]
    np.testing.assert_allclose(model.compile(threads=2)(x), want, 1e-4, 1e-5)


def formula(shape: tuple[int, int], result: tuple[int, int], body: str) -> ricci.Model:
    """Of `y` from `x`."""
    ports = [f"{name}: real[{n}, {m}];" for name, (n, m) in (("x", shape), ("y", result))]
    return ricci.parse(f"""
graph G {{
    @input {{ {ports[0]} }}
    @output {{ {ports[1]} }}
    @compose {{ y = o(x); }}
}}
operator o {{
    @input {{ {ports[0]} }}
    @output {{ {ports[1]} }}
    @lower {{ {body} }}
}}""")


@pytest.mark.parametrize("rule", ["8 - l", "9", "8"])
def test_borders_with_an_index_of_their_own(rule: str) -> None:
    """They are no windows, nor are those that may lie outside, of which somebody is told."""
    place = f"|(i + j) / 2 <> 0 : {rule}|"
    body = f"y[i, k] += x[{place}, k + l], i < 18, k < 19, j < 3, l < 4;"
    model = formula((9, 33), (18, 19), body)
    x = np.random.default_rng(3).standard_normal((9, 33), np.float32)
    if rule == "9":
        with pytest.raises(ricci.Error, match=re.escape("dimension 0 of `main.G.x`")):
            model.compile()(x)
        return
    want = interpret(model.graph, {"x": x})["y"]
    np.testing.assert_allclose(model.compile()(x), want, 1e-5, 1e-5)


def test_locals_of_locals_take_no_longer() -> None:
    """Written out, each of these would be twice as long as the one before."""
    lines = ["a0 = real(j + l) * 0.1"]
    lines += [f"a{n} = a{n - 1} * a{n - 1} + 0.1" for n in range(1, 40)]
    body = "y[i, k] += a39 * x[|i / 2 + j|, |k + l|], i < 20, k < 33, j < 3, l < 3;"
    model = formula((20, 33), (20, 33), f"{', '.join(lines)}, {body}")
    x = np.ones((20, 33), np.float32)
    want = interpret(model.graph, {"x": x})["y"]
    np.testing.assert_allclose(model.compile()(x), want, 1e-4)
