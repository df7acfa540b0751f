"""Derived gradients against finite differences in float64, by PyTorch's own check."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import library as registry

import ricci
import ricci.torch

from .kernel_cases import KERNELS, Kernel

_NUMBERS = itertools.count()

FORMULAS = {
    "element-wise": "O(i) = exp(A(i)) * sin(B(i)) + tanh(A(i) * B(i))",
    "quotient": "O(i) = A(i) / (2 + B(i) * B(i)) - B(i) / (1 + exp(A(i)))",
    "power": "O(i) = pow(2 + tanh(A(i)), 1.5 + tanh(B(i)))",
    "roots": "O(i) = sqrt(2 + A(i) * A(i)) * cbrt(3 + B(i) * B(i)) + rsqrt(1 + A(i) * A(i))",
    "logarithms": "O(i) = log(3 + sin(A(i))) * log1p(2 + cos(B(i))) + log2(4 + sin(B(i)))",
    "angles": "O(i) = atan2(A(i), 2 + B(i) * B(i)) + asin(0.5 * sin(A(i))) * acos(0.5 * sin(B(i)))",
    "hyperbolic": "O(i) = sinh(A(i)) / cosh(B(i)) + asinh(A(i)) + atanh(0.5 * sin(B(i)))",
    "error function": "O(i) = erf(A(i)) * erfc(B(i)) + normcdf(A(i) + B(i))",
    "gamma": "O(i) = lgamma(3 + sin(A(i))) + tgamma(2 + cos(B(i)))",
    "bessel": "O(i) = j0(A(i)) * j1(B(i)) + y0(4 + sin(A(i))) + cyl_bessel_i0(B(i))",
    "norms": "O(i) = hypot(A(i), 3 + B(i)) + norm3d(A(i), B(i), 2) * rhypot(A(i), 4 + B(i) * B(i))",
    "fused": "O(i) = fma(A(i), B(i), A(i)) + fdim(A(i), B(i)) + fmod(A(i), 7)",
    "extremes": "O(i) = min(A(i), B(i)) + fmax(A(i), 0.3) * max(A(i) * B(i), 0.1)",
    "condition": "O(i) = A(i) < B(i) ? A(i) * B(i) : (B(i) > 0 ? A(i) : B(i) * B(i))",
    "convert": "O(i) = float64(float32(1)) * A(i) + B(int32(i))",
    "shift": "O(i) = A(i + 1) * B(i) + A(i) * A(i + 2)",
    "stride": "O(i) = A(2 * i) * B(2 * i + 1) where i in 0:2",
    "reverse": "O(i) = A(4 - i) * B(i)",
    "windows": "O(i) +=! A(i + k) * B(k) where k in 0:3",
    "strided windows": "O(i) +=! A(2 * i + k) * B(k) where k in 0:3",
    "remainder": "O(i) = A(i % 3) * B(i / 2) where i in 0:5",
    "sum of squares": "O +=! (A(i) - B(i)) * (A(i) - B(i))",
    "product": "O *=! 1 + 0.5 * A(i) * B(i)",
    "largest": "O max=! A(i) * B(i)",
    "least of rows": "O(i) min=! A(i) * B(j)",
    "outer": "O(i, j) = A(i) * B(j)",
    "let": "O(i) = t * t + t where t = A(i) * B(i)",
    "gather": "O(i) = A(I(i)) * B(i)",
    "gathered sum": "O +=! A(I(i)) * A(I(j)) * B(i)",
    "gathered twice": "O(i) = A(I(I(i))) * B(I(i))",
    "two statements": "T(i) = A(i) * B(i) O(i) +=! T(i) * T(j)",
    "rewriting": "O(i) = A(i) O(i) += B(i) * B(i) O(i) *= A(i) O(i) = tanh(O(i))",
    "softmax": "m max=! A(i) e(i) = exp(A(i) - m) s +=! e(i) O(i) = e(i) / s * B(i)",
    "norm": "s +=! A(i) * A(i) O(i) = A(i) * rsqrt(s + 1e-5) * B(i)",
    "partly written": "O(i) = A(i) O(i) = B(i) * A(i) where i in 1:3",
    "sums of several": "O(i) +=! A(i) * B(j) + A(j) * B(i) - A(i) * A(j)",
    "prefix sums": "O(i) +=! j <= i ? A(j) * B(i) : 0 where i in 0:5",
}


def _operator(text: str, name: str) -> tuple[object, str]:
    named = f"test::op{next(_NUMBERS)}"
    return ricci.torch.custom_op(named, ricci.tc.define(text)[name]), named


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS.keys())
def test_formulas(formula: str) -> None:
    integers = ", int32(N) I" if "I(" in formula else ""
    text = f"def f(float64(N) A, float64(N) B{integers}) -> (O) {{ {formula} }}"
    rng = np.random.default_rng(len(formula))
    arguments = [torch.from_numpy(rng.standard_normal(5)).requires_grad_() for _ in range(2)]
    index = [torch.tensor([2, 0, 4, 2, 1], dtype=torch.int32)] if integers else []
    operator, _ = _operator(text, "f")
    assert torch.autograd.gradcheck(operator, [*arguments, *index])


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.file}-{k.name}")
def test_kernels(kernel: Kernel) -> None:
    text = re.sub(r"\bfloat\b", "float64", kernel.text)
    arguments = [
        torch.from_numpy(a.astype(np.float64)).requires_grad_()
        if a.dtype == np.float32
        else torch.from_numpy(a)
        for a in kernel.draw(kernel.small)
    ]
    operator, _ = _operator(text, kernel.name)

    def real(*given: torch.Tensor) -> list[torch.Tensor]:
        result = operator(*given)
        results = result if isinstance(result, tuple) else (result,)
        return [r for r in results if r.is_floating_point()]

    assert torch.autograd.gradcheck(real, arguments)


@pytest.mark.parametrize("name", ["gconv", "group_norm_single", "lut1", "maxpool2x2", "mlp3"])
def test_registration(name: str) -> None:
    kernel = next(k for k in KERNELS if k.name == name)
    arguments = [torch.from_numpy(a) for a in kernel.draw(kernel.small)]
    arguments = [a.requires_grad_() if a.is_floating_point() else a for a in arguments]
    _, named = _operator(kernel.text, name)
    namespace, short = named.split("::")
    for suffix in ("", "_forward"):
        operator = getattr(getattr(torch.ops, namespace), short + suffix).default
        registry.opcheck(operator, arguments)


def test_compilation_has_no_breaks() -> None:
    kernel = next(k for k in KERNELS if k.name == "gconv")
    arguments = [torch.from_numpy(a).requires_grad_() for a in kernel.draw(kernel.small)]
    operator, _ = _operator(kernel.text, "gconv")

    def loss(*given: torch.Tensor) -> torch.Tensor:
        return torch.relu(operator(*given)).square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    wanted = torch.autograd.grad(loss(*arguments), arguments)
    found = torch.autograd.grad(compiled(*arguments), arguments)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_gradients_by_hand() -> None:
    both = ricci.tc.define(next(k for k in KERNELS if k.name == "matmul").text)
    a, b = (torch.randn(s, requires_grad=True) for s in ((3, 4), (4, 5)))
    wanted = torch.autograd.grad((a @ b).square().sum(), (a, b))
    apply = ricci.torch.make_autograd(both.matmul, both.matmul_grad)
    found = torch.autograd.grad(apply(a, b).square().sum(), (a, b))
    gradient = ricci.torch.custom_op("test::matmul_grad", both.matmul_grad, wrt=[])
    operator = ricci.torch.custom_op("test::matmul", both.matmul, backward=gradient)
    again = torch.autograd.grad(operator(a, b).square().sum(), (a, b))
    for x, y, z in zip(found, again, wanted, strict=True):
        torch.testing.assert_close(x, z)
        torch.testing.assert_close(y, z)
    registry.opcheck(torch.ops.test.matmul.default, (a, b))


def test_a_model_is_trained() -> None:
    text = """
    graph G {
        @input { x: real[4, 3]; w: real[3, 2]; }
        @output { y: real[4, 2]; }
        @compose { y = linalg.matmul(x, w); }
    }
    """
    model = ricci.parse("import linalg;" + text)
    operator = ricci.torch.custom_op("test::product", model)
    x, w = torch.randn(4, 3), torch.randn(3, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad(operator(x, w).sum(), (w,))
    torch.testing.assert_close(gradient, x.sum(0)[:, None].expand(3, 2))


SEVERAL = """
def several(float64(N) A, float64(N) B, int32(N) I) -> (S, J, O, P) {
    S +=! A(i) * B(i)
    J(i) = I(i) + 1
    O(i) = tanh(A(i) * B(i)) * S
    P(i) = exp(B(i))
}
"""

REPEATED = """
operator mul { @input { x: real[n]; y: real[n]; } @output { z: real[n]; }
    @lower { z[i,] = x[i,] * y[i,], i < n; } }
graph G { @input { A: real[3]; B: real[3]; } @output { P: real[3]; Q: real[3]; }
    @compose { P = with t = A do..(3) mul(t, B); Q = mul(A, B); } }
"""


def _several(a: torch.Tensor, b: torch.Tensor, _: torch.Tensor) -> list[torch.Tensor]:
    s = (a * b).sum()
    return [s, torch.tanh(a * b) * s, torch.exp(b) + 0 * a]


def _repeated(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    return [a * b * b * b, a * b]


def _choices(count: int) -> list[tuple[bool, ...]]:
    return [c for c in itertools.product((True, False), repeat=count) if any(c)]


@pytest.mark.parametrize("text", [SEVERAL, REPEATED], ids=["formulas", "loop"])
def test_some_gradients_of_some_results(text: str) -> None:
    """Whatever is asked for, in whatever order: also where a loop has to be done again."""
    name = f"test::some_{next(_NUMBERS)}"
    integers: tuple[torch.Tensor, ...] = ()
    if text is SEVERAL:
        operator = ricci.torch.custom_op(name, ricci.tc.define(text).several)
        integers, dtype, count = (torch.arange(3, dtype=torch.int32),), torch.float64, 3
    else:
        operator = ricci.torch.custom_op(name, ricci.parse(text))
        dtype, count = torch.float32, 2
    formula: Callable[..., list[torch.Tensor]] = _several if text is SEVERAL else _repeated
    drawn = torch.randn(2, 3, dtype=dtype)
    for needed, used in itertools.product(_choices(2), _choices(count)):
        a, b = (t.clone().requires_grad_(n) for t, n in zip(drawn, needed, strict=True))
        wrt = [t for t in (a, b) if t.requires_grad]
        results = [r for r in operator(a, b, *integers) if r.is_floating_point()]
        found, wanted = (
            torch.autograd.grad(_loss(r, used), wrt, allow_unused=True)
            for r in (results, formula(a, b, *integers))
        )
        for x, y, of in zip(found, wanted, wrt, strict=True):
            torch.testing.assert_close(x, torch.zeros_like(of) if y is None else y)


def _loss(results: list[torch.Tensor], used: tuple[bool, ...]) -> torch.Tensor:
    chosen = [r for r, is_used in zip(results, used, strict=True) if is_used]
    return sum((r.square().sum() for r in chosen), torch.zeros(()))


def test_gradient_of_a_gradient_is_an_error() -> None:
    operator = ricci.torch.custom_op("test::once", ricci.tc.define(SEVERAL).several)
    a, b = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    loss = operator(a, b, torch.zeros(3, dtype=torch.int32))[0].square()
    (gradient,) = torch.autograd.grad(loss, (a,), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_gradient_in_numpy() -> None:
    mul = ricci.tc.define("def f(float(N) A, float(N) B) -> (O) { O(i) = A(i) * B(i) }").f
    a, b, d = (np.random.default_rng(k).standard_normal(4, np.float32) for k in range(3))
    d_a, d_b = mul.gradient()(a, b, d)
    np.testing.assert_allclose(d_a, d * b)
    np.testing.assert_allclose(d_b, d * a)
    np.testing.assert_allclose(mul.gradient(["B"])(a, b, d_O=d), d * a)


@pytest.mark.parametrize("name", ["gconv", "a::b::c", "", "::", "aten::add"])
def test_names_that_cannot_be(name: str) -> None:
    f = ricci.tc.define("def f(float(N) A) -> (O) { O(i) = A(i) }").f
    with pytest.raises(ricci.Error) as caught:
        ricci.torch.custom_op(name, f)
    assert caught.value.diagnostics[0].code == "E0801"
