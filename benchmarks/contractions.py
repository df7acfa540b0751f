"""Sums of products of all shapes, written as formulas, beside ONNX Runtime and PyTorch.

    python -m benchmarks.contractions [--threads 2] [--rounds 15] [--only conv]

What is compiled has no operator: only index expressions, made here. Weights are variables of
the graph and constants of the ONNX model.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ricci.backends.llvm.emit_access import shape_of
from ricci.dtypes import DType
from ricci.ir.nodes import (
    Access,
    Assignment,
    Binary,
    Expr,
    Graph,
    Index,
    Operation,
    Port,
    Skip,
    Subscript,
    Tensor,
    integer,
)

from .measure import Peak, format_table, scaled_error, time_alternately

Call = Callable[[], np.ndarray]


def tensor(name: str, *shape: int) -> Tensor:
    return Tensor(name, DType.REAL, tuple(integer(n) for n in shape))


def index(name: str, extent: int) -> Index:
    return Index(name, integer(extent))


def at(t: Tensor, *subscripts: Expr | Subscript) -> Access:
    return Access(t, tuple(s if isinstance(s, Subscript) else Subscript(s) for s in subscripts))


def scaled(a: Expr, k: int, b: Expr) -> Expr:
    """`k * a + b`"""
    return Binary("add", Binary("mul", a, integer(k)) if k > 1 else a, b)


@dataclass(frozen=True)
class Problem:
    """`y[...] += x[...] * w[...]`, what it costs, and the same in ONNX Runtime and PyTorch."""

    title: str
    x: Tensor
    w: Tensor
    y: Tensor
    domain: tuple[Index, ...]
    assignment: tuple[Access, Access, Access]
    flops: float
    peers: Callable[[np.ndarray, np.ndarray, int], dict[str, Call]]
    constant: bool = True
    torch: bool = True

    def graph(self) -> Graph:
        """The formula as a graph; `w` is a variable if it is constant."""
        target, x, w = self.assignment
        body = Assignment((target,), "add", (Binary("mul", x, w),), self.domain)
        inputs = (self.x,) if self.constant else (self.x, self.w)
        operation = Operation("formula", (self.y,), (body,), (self.x, self.w))
        return Graph(
            "Problem",
            tuple(Port(t.name, (t,)) for t in inputs),
            (Port("y", (self.y,)),),
            (operation,),
            variables=(self.w,) if self.constant else (),
        )


def convolution(
    title: str,
    channels: int,
    filters: int,
    size: int,
    window: int,
    stride: int = 1,
    groups: int = 1,
    batch: int = 1,
    pad: int | None = None,
) -> Problem:
    """A convolution of square images, NCHW."""
    pad = window // 2 if pad is None else pad
    out = (size + 2 * pad - window) // stride + 1
    ci, co = channels // groups, filters // groups
    n, g, o, y, x = (
        index(*p) for p in (("n", batch), ("g", groups), ("o", co), ("y", out), ("x", out))
    )
    c, i, j = index("c", ci), index("i", window), index("j", window)
    image, weight = (
        tensor("x", batch, channels, size, size),
        tensor("w", filters, ci, window, window),
    )
    result = tensor("y", batch, filters, out, out)

    def inside(p: Index, k: Index) -> Subscript:
        e = scaled(p, stride, k)
        return Subscript(Binary("sub", e, integer(pad)), Skip()) if pad else Subscript(e)

    channel, filter_ = scaled(g, ci, c), scaled(g, co, o)
    if groups == 1:
        channel, filter_ = c, o
    accesses = (
        at(result, n, filter_, y, x),
        at(image, n, channel, inside(y, i), inside(x, j)),
        at(weight, filter_, c, i, j),
    )
    domain = (n, o, y, x, c, i, j) if groups == 1 else (n, g, o, y, x, c, i, j)

    def peers(x: np.ndarray, w: np.ndarray, threads: int) -> dict[str, Call]:
        import torch
        import torch.nn.functional as F

        from .peers import convolution as onnx

        tx, tw = torch.from_numpy(x), torch.from_numpy(w)
        attributes = {"strides": [stride] * 2, "pads": [pad] * 4, "group": groups}
        return {
            "ORT": onnx(x, w, None, threads, **attributes),
            "torch": lambda: F.conv2d(tx, tw, None, stride, pad, 1, groups).numpy(),
        }

    flops = 2.0 * batch * filters * out * out * ci * window**2
    return Problem(title, image, weight, result, domain, accesses, flops, peers)


def product(
    title: str,
    m: int,
    n: int,
    k: int,
    transposed: bool = False,
    batch: int = 0,
    constant: bool = True,
) -> Problem:
    """A product of matrices; the right one may be stored transposed."""
    i, j, r, b = index("i", m), index("j", n), index("k", k), index("b", max(batch, 1))
    lead, own = ((batch,), (b,)) if batch else ((), ())
    a = tensor("x", *lead, m, k)
    w = tensor("w", *lead, *((n, k) if transposed else (k, n)))
    y = tensor("y", *lead, m, n)
    right = (j, r) if transposed else (r, j)
    accesses = (at(y, *own, i, j), at(a, *own, i, r), at(w, *own, *right))

    def peers(x: np.ndarray, w: np.ndarray, threads: int) -> dict[str, Call]:
        import torch
        from onnx import helper

        from .peers import run_onnx

        tx, tw = torch.from_numpy(x), torch.from_numpy(w)
        tw = tw.mT if transposed else tw
        if transposed:
            nodes = [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)]
            if batch:
                nodes = [
                    helper.make_node("Transpose", ["w"], ["t"], perm=[0, 2, 1]),
                    helper.make_node("MatMul", ["x", "t"], ["y"]),
                ]
        else:
            nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
        inputs, weights = ({"x": x}, {"w": w}) if constant else ({"x": x, "w": w}, {})
        return {
            "ORT": run_onnx(nodes, inputs, weights, "y", threads),
            "torch": lambda: torch.matmul(tx, tw).numpy(),
        }

    flops = 2.0 * max(batch, 1) * m * n * k
    return Problem(title, a, w, y, (*own, i, j, r), accesses, flops, peers, constant)


PROBLEMS = [
    convolution("conv 7x7/2 3-64@224", 3, 64, 224, 7, 2),
    convolution("conv 1x1 64-256@56", 64, 256, 56, 1),
    convolution("conv 3x3 64-64@56", 64, 64, 56, 3),
    convolution("conv 1x1 256-64@56", 256, 64, 56, 1),
    convolution("conv 3x3/2 128-128@56", 128, 128, 56, 3, 2),
    convolution("conv 3x3 128-128@28", 128, 128, 28, 3),
    convolution("conv 3x3 256-256@14", 256, 256, 14, 3),
    convolution("conv 1x1 1024-256@14", 1024, 256, 14, 1),
    convolution("conv 3x3 512-512@7", 512, 512, 7, 3),
    convolution("conv 1x1 2048-512@7", 2048, 512, 7, 1),
    convolution("conv 1x1/2 256-512@56", 256, 512, 56, 1, 2),
    convolution("groups 32 of 4 @56", 128, 128, 56, 3, 1, 32, 4),
    convolution("groups 32 of 8 @28", 256, 256, 28, 3, 1, 32, 4),
    convolution("groups 32 of 16 @14", 512, 512, 14, 3, 1, 32, 4),
    convolution("groups 32 of 32 @7", 1024, 1024, 7, 3, 1, 32, 4),
    convolution("alexnet conv1 11x11/4", 3, 64, 224, 11, 4, pad=0),
    convolution("alexnet conv2 5x5", 64, 192, 26, 5),
    convolution("alexnet conv3 3x3", 192, 384, 12, 3),
    convolution("alexnet conv4 3x3", 384, 384, 12, 3),
    convolution("alexnet conv6 5x5 valid", 256, 4096, 5, 5, pad=0),
    product("matmul 1024 1024 1024", 1024, 1024, 1024),
    product("matmul 1024 1024 1024, both given", 1024, 1024, 1024, constant=False),
    product("matmul 128 1024 1024", 128, 1024, 1024),
    product("matmul 128 1024 1024 transposed", 128, 1024, 1024, True),
    product("500 x (26 72 26)", 26, 26, 72, False, 500, False),
    product("500 x (26 72 26) transposed", 26, 26, 72, True, 500, False),
    product("12 x (128 64 128) transposed", 128, 128, 64, True, 12, False),
    product("matvec 4096x4096", 1, 4096, 4096, True),
    product("matvec 9216x4096", 1, 4096, 9216, True),
    product("4 rows 9216x4096", 4, 4096, 9216, True),
    product("matvec 4096x4096 columns", 1, 4096, 4096),
]


@dataclass(frozen=True)
class Result:
    """What one problem gave: operations per second by contender."""

    title: str
    speeds: dict[str, float]
    peak: float
    error: float
    compiling: float

    def row(self, peak: float) -> list[str]:
        """One line of the report."""
        ours = self.speeds["ricci"]
        return [
            self.title,
            *(f"{self.speeds[name] / 1e9:.1f}" for name in ("ricci", "ORT", "torch")),
            f"{ours / peak:.0%}",
            f"{ours / self.speeds['ORT']:.2f}",
            f"{ours / self.speeds['torch']:.2f}",
            f"{self.error:.0e}",
            f"{self.compiling * 1e3:.0f} ms",
        ]


def run(problem: Problem, threads: int, rounds: int) -> Result:
    """Measures one problem. The best round counts: others may use the machine, too."""
    from ricci.runtime.executable import compile_graph

    rng = np.random.default_rng(0)
    x, w = (
        rng.standard_normal(shape_of(t.shape)).astype(np.float32) for t in (problem.x, problem.w)
    )
    start = time.perf_counter()
    variables = {"w": w} if problem.constant else {}
    call = compile_graph(problem.graph(), variables, threads=threads)
    compiling = time.perf_counter() - start
    arguments = (x,) if problem.constant else (x, w)
    calls: dict[str, Call] = {"ricci": lambda: call(*arguments)}
    calls |= problem.peers(x, w, threads)
    answers = {name: np.asarray(c()) for name, c in calls.items()}
    times = time_alternately(calls, rounds)
    speeds = {name: problem.flops / t.best for name, t in times.items()}
    error = scaled_error(answers["ricci"], answers["torch"])
    return Result(problem.title, speeds, Peak(threads).flops(0.02), error, compiling)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table in GFLOP/s; the peak is the best that was seen between the problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="")
    options = parser.parse_args(arguments)
    os.environ["RICCI_NO_CACHE"] = "1"
    import torch

    torch.set_num_threads(options.threads)
    chosen = [p for p in PROBLEMS if options.only in p.title]
    results = [run(p, options.threads, options.rounds) for p in chosen]
    peak = max(r.peak for r in results)
    header = [
        "GFLOP/s",
        "ricci",
        "ORT",
        "torch",
        "of peak",
        "/ORT",
        "/torch",
        "error",
        "compile ms",
    ]
    print(format_table(header, [r.row(peak) for r in results]))
    print(f"{options.threads} threads, peak {peak / 1e9:.0f} GFLOP/s")


if __name__ == "__main__":
    main()
