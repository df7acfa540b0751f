"""Gradients of the library's layers against those of PyTorch, on both executors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import ricci
from ricci.ir.interpret import interpret
from ricci.ir.verify import verify_graph
from ricci.passes.gradient import gradient_graph
from ricci.runtime.executable import compile_graph

Function = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Case:
    """Statements that compute `y` from real inputs, named in order, and what PyTorch does."""

    name: str
    text: str
    shapes: dict[str, list[int]]
    oracle: Function
    positive: bool = False


def conv(name: str, attributes: str, x: list[int], w: list[int], **options: int) -> Case:
    shapes = {"x": x, "w": w, "b": [w[0]]}
    oracle = F.conv1d if len(x) == 3 else F.conv2d
    text = f"y = nn.conv{{{attributes}}}(x, w, b);"
    return Case(name, text, shapes, lambda x, w, b: oracle(x, w, b, **options))


def one(
    text: str, oracle: Function, shape: list[int] | None = None, positive: bool = False
) -> Case:
    return Case(text, f"y = {text};", {"x": shape or [3, 4]}, oracle, positive)


IMAGE = [2, 3, 7, 8]

CASES = [
    conv("conv", "padding=[0,0,0,0]", IMAGE, [4, 3, 3, 2]),
    conv("conv stride", "stride=2, padding=[1,1,1,1]", IMAGE, [4, 3, 3, 3], stride=2, padding=1),
    conv("conv stride 3", "stride=3, padding=[2,2]", [2, 3, 11], [4, 3, 4], stride=3, padding=2),
    conv("conv dilation", "dilation=2, padding=[2,2,2,2]", IMAGE, [4, 3, 3, 3],
         dilation=2, padding=2),
    conv("conv stride and dilation", "stride=2, dilation=3, padding=[3,3]", [2, 3, 12], [4, 3, 3],
         stride=2, dilation=3, padding=3),
    conv("conv groups", "groups=2, stride=2, padding=[1,1,1,1]", [2, 4, 7, 8], [6, 2, 3, 3],
         groups=2, stride=2, padding=1),
    conv("conv per channel", "groups=4, padding=[1,1,1,1]", [2, 4, 6, 6], [4, 1, 3, 3],
         groups=4, padding=1),
    Case("deconv", "y = nn.deconv{stride=2, padding=[1,1,1,1]}(x, w);",
         {"x": [2, 4, 4, 5], "w": [4, 3, 3, 3]},
         lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1)),
    Case("linear", "y = nn.linear(x, w, b);", {"x": [3, 5], "w": [4, 5], "b": [4]}, F.linear),
    Case("matmul", "y = linalg.matmul(x, w);", {"x": [2, 3, 5], "w": [2, 5, 4]}, torch.matmul),
    one("nn.max_pool{size=[3,2], stride=2, padding=[1,0,1,0]}(x)",
        lambda x: F.max_pool2d(x, (3, 2), 2, (1, 0)), IMAGE),
    one("nn.avg_pool{size=[3,3], stride=2, padding=[1,1,1,1], ignore_border=true}(x)",
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), IMAGE),
    one("nn.avg_pool{size=[3,3], padding=[1,1,1,1], ignore_border=false}(x)",
        lambda x: F.avg_pool2d(x, 3, 1, 1), IMAGE),
    one("nn.softmax{axes=[1]}(x)", lambda x: F.softmax(x, 1), IMAGE),
    one("nn.gelu(x)", F.gelu),
    one("nn.silu(x)", F.silu),
    one("nn.elu(x)", F.elu),
    one("nn.relu(x)", F.relu),
    one("nn.sigmoid(x)", torch.sigmoid),
    one("nn.softplus(x)", F.softplus),
    one("nn.local_response_norm{size=[3], alpha=0.3, beta=0.7, bias=1.5}(x)",
        lambda x: F.local_response_norm(x, 3, 0.3, 0.7, 1.5), IMAGE),
    one("nn.l2_norm{axes=[1]}(x)", lambda x: x / x.norm(dim=1, keepdim=True)),
    Case("instance norm", "y = nn.mean_variance_norm{epsilon=0.01}(x, b, s);",
         {"x": IMAGE, "b": [3], "s": [3]},
         lambda x, b, s: F.instance_norm(x, weight=s, bias=b, eps=0.01)),
    Case("layer norm", "y = nn.mean_variance_norm{axes=[1,2,3]}(x);", {"x": IMAGE},
         lambda x: F.layer_norm(x, x.shape[1:])),
    Case("batch norm", "y = nn.batch_norm(x, m, v, b, s);",
         {"x": IMAGE, "m": [3], "v": [3], "b": [3], "s": [3]},
         lambda x, m, v, b, s: (x - m[:, None, None]) * (s / (v + 1e-5).sqrt())[:, None, None]
         + b[:, None, None], positive=True),
    Case("attention", """s = linalg.matmul{transB=true}(x, k); p = nn.softmax{axes=[2]}(s);
         y = linalg.matmul(p, v);""", {"x": [2, 3, 4], "k": [2, 5, 4], "v": [2, 5, 6]},
         lambda x, k, v: F.scaled_dot_product_attention(x, k, v, scale=1.0)),
    one("math.prod_reduce{axes=[1]}(x)", lambda x: x.prod(1, keepdim=True)),
    one("math.max_reduce{axes=[1]}(x)", lambda x: x.amax(1, keepdim=True)),
    one("math.min_reduce{axes=[0, 1]}(x)", lambda x: x.amin((0, 1), keepdim=True)),
    one("math.mean_reduce{axes=[0]}(x)", lambda x: x.mean(0, keepdim=True)),
    one("math.cumsum{axis=1}(x)", lambda x: x.cumsum(1)),
    one("math.cumsum{axis=0, reverse=true, exclusive=true}(x)",
        lambda x: x.flip(0).cumsum(0).flip(0) - x),
    one("math.clamp(x, -0.3, 0.4)", lambda x: x.clamp(-0.3, 0.4)),
    Case("select", "c = math.lt(x, z); y = math.select(c, x, z);", {"x": [3, 4], "z": [3, 4]},
         lambda x, z: torch.where(x < z, x, z)),
    Case("pow", "y = math.pow(x, z);", {"x": [3, 4], "z": [3, 4]}, torch.pow, positive=True),
    Case("joined", "a = layout.concat{axis=1}([x, z]); y = layout.pad{padding=[0,1,0,2]}(a);",
         {"x": [3, 4], "z": [3, 2]}, lambda x, z: F.pad(torch.cat([x, z], 1), (1, 2))),
    *(one(f"math.{n}(x)", getattr(torch, n)) for n in
      ("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "exp", "abs")),
    *(one(f"math.{n}(x)", getattr(torch, n), positive=True) for n in ("log", "sqrt", "rsqrt")),
]  # fmt: skip


def _graph(case: Case, shape: list[int]) -> ricci.Model:
    inputs = "".join(f"{n}: real{s}; " for n, s in case.shapes.items())
    return ricci.parse(f"""
        import nn, math, layout, linalg;
        graph G {{ @input {{ {inputs} }} @output {{ y: real{shape}; }} @compose {{ {case.text} }} }}
    """)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gradient(case: Case) -> None:
    rng = np.random.default_rng(5)
    low = 0.2 if case.positive else -0.9
    arrays = {name: rng.uniform(low, 0.9, shape) for name, shape in case.shapes.items()}
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays.values()]
    y = case.oracle(*tensors)
    cotangent = rng.standard_normal(y.shape)
    expected = torch.autograd.grad(y, tensors, torch.tensor(cotangent))
    derived = gradient_graph(_graph(case, list(y.shape)).graph)
    verify_graph(derived)
    arguments = {**arrays, "d_y": cotangent}
    found = list(interpret(derived, arguments, real="float64").values())
    native = compile_graph(derived, threads=1, real="float64")(**arguments)
    for results in (found, list(native) if len(found) > 1 else [native]):
        for name, want, got in zip(arrays, expected, results, strict=True):
            np.testing.assert_allclose(got, want.numpy(), 1e-9, 1e-9, err_msg=name)


def test_embedding_and_variables() -> None:
    """The gradient of a table is a scatter; variables are given by their scoped names."""
    model = ricci.parse("""
        import layout;
        graph G { @input { k: int[5]; } @variable { w: real[4, 3]; } @output { y: real[5, 3]; }
                  @compose { y = layout.gather{axis=0}(w, k); } }
    """)
    derived = gradient_graph(model.graph, ["main.G.w"])
    k, d = np.array([1, 3, 3, 0, 1]), np.random.default_rng(0).standard_normal((5, 3))
    w = torch.zeros(4, 3, dtype=torch.float64, requires_grad=True)
    (wanted,) = torch.autograd.grad(F.embedding(torch.tensor(k), w), w, torch.tensor(d))
    found = compile_graph(derived, real="float64")(k, d)
    np.testing.assert_allclose(found, wanted.numpy(), 1e-12)


def test_lstm() -> None:
    """The gates of PyTorch stand in the same order, its bias is the sum of two."""
    model = ricci.parse("""
        import nn;
        graph G { @input { X: real[3, 2, 3]; W: real[16, 3]; R: real[16, 4]; B: real[16];
                           h: real[2, 4]; c: real[2, 4]; }
                  @output { Y: real[3, 2, 4]; hN: real[2, 4]; cN: real[2, 4]; }
                  @compose { Y, hN, cN = nn.lstm(X, W, R, B, h, c); } }
    """)
    rng = np.random.default_rng(2)
    shapes = [[3, 2, 3], [16, 3], [16, 4], [16], [2, 4], [2, 4]]
    arrays = [rng.standard_normal(shape) for shape in shapes]
    X, W, R, B, h, c = (torch.tensor(a, requires_grad=True) for a in arrays)
    weights = [W, R, B, torch.zeros_like(B)]
    Y, hN, cN = torch.lstm(X, (h[None], c[None]), weights, True, 1, 0.0, False, False, False)
    cotangents = [rng.standard_normal(t.shape) for t in (Y, hN[0], cN[0])]
    wanted = torch.autograd.grad(
        [Y, hN[0], cN[0]], [X, W, R, B, h, c], [torch.tensor(d) for d in cotangents]
    )
    derived = compile_graph(gradient_graph(model.graph), threads=1, real="float64")
    for want, got in zip(wanted, derived(*arrays, *cotangents), strict=True):
        np.testing.assert_allclose(got, want.numpy(), 1e-9, 1e-9)
