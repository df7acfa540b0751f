"""What moves data more than it computes, at sizes that fit into the caches of a core and beyond."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.nn import functional as nn

from .cases import Case, Row, draw, draw_integers, graph_case, group_norm_nodes

PLANES = [(8, 128, 128), (64, 512, 512)]
"""Half a megabyte, and 64."""


def rows() -> Iterator[Row]:
    yield from softmaxes()
    yield from norms()
    yield from transposes()
    yield from reductions()
    yield from chains()
    yield from gathers()
    yield from windows()
    yield from joins()


# ------------------------------------------------------------------- softmax and norms


def softmaxes() -> Iterator[Row]:
    for axis, name in [(1, "last"), (0, "first")]:
        for sizes in [(128, 1000), (1024, 16384)]:
            family = partial(softmax, axis=axis)
            yield Row("streaming", f"softmax, {name} axis {{}}x{{}}", family, sizes)
    yield Row("streaming", "softmax, last axis {}x{}", partial(softmax, axis=1), (2364, 197))
    yield Row("streaming", "softmax, first axis {}x{}", partial(softmax, axis=0), (21, 100000))


def softmax(m: int, n: int, *, axis: int) -> Case:
    return graph_case(
        f"y = nn.softmax{{axes=[{axis}]}}(x);",
        f"y = Softmax <axis = {axis}> (x)",
        partial(torch.softmax, dim=axis),
        5.0 * m * n,
        {"x": draw(m, n)},
    )


def norms() -> Iterator[Row]:
    for pair in [(197, 768), (16384, 1024)]:
        yield Row("streaming", "layer norm {}x{}", layer_norm, pair)
    for sizes in [(1, 64, 32, 32), (8, 512, 64, 64)]:
        yield Row("streaming", "group norm {}x{}x{}x{}", partial(group_norm, groups=4), sizes)
    sizes = (1, 128, 256, 256)
    yield Row("streaming", "group norm by four channels {}x{}x{}x{}", norm_by_four, sizes)
    for sizes in [(1, 64, 56, 56), (8, 256, 112, 112)]:
        yield Row("streaming", "batch norm and relu {}x{}x{}x{}", batch_norm, sizes)


def layer_norm(m: int, n: int) -> Case:
    return graph_case(
        "y = nn.mean_variance_norm{axes=[1]}(x, b, w);",
        "y = LayerNormalization <axis = -1, epsilon = 1e-5> (x, w, b)",
        lambda x, b, w: nn.layer_norm(x, (n,), w, b),
        8.0 * m * n,
        {"x": draw(m, n)},
        {"b": draw(n), "w": draw(n, seed=1)},
    )


def group_norm(n: int, c: int, h: int, w: int, *, groups: int) -> Case:
    inner = c // groups * h * w
    return graph_case(
        f"parts = layout.reshape{{shape=[{n},{groups},{inner}]}}(x);"
        "normal = nn.mean_variance_norm{axes=[2]}(parts);"
        f"whole = layout.reshape{{shape=[{n},{c},{h},{w}]}}(normal);"
        "scaled = math.mul{rhs_align=1}(whole, w);"
        "y = math.add{rhs_align=1}(scaled, b);",
        group_norm_nodes((n, c, h, w), groups, (c, 1, 1)),
        lambda x, b, w: nn.group_norm(x, groups, w, b),
        8.0 * n * c * h * w,
        {"x": draw(n, c, h, w)},
        {"b": draw(c), "w": draw(c, seed=1)},
    )


def norm_by_four(n: int, c: int, h: int, w: int) -> Case:
    return group_norm(n, c, h, w, groups=c // 4)


def batch_norm(n: int, c: int, h: int, w: int) -> Case:
    return graph_case(
        "z = nn.batch_norm(x, m, v, b, w); y = nn.relu(z);",
        "z = BatchNormalization <epsilon = 1e-5> (x, w, b, m, v) y = Relu(z)",
        lambda x, m, v, b, w: torch.relu(nn.batch_norm(x, m, v, w, b)),
        3.0 * n * c * h * w,
        {"x": draw(n, c, h, w)},
        {"m": draw(c), "v": abs(draw(c, seed=1)), "b": draw(c, seed=2), "w": draw(c, seed=3)},
    )


# -------------------------------------------------------------------------- transposes


def transposes() -> Iterator[Row]:
    for pair in [(256, 384), (4096, 4096)]:
        yield Row("streaming", "transpose {}x{}", partial(transpose, order=(1, 0)), pair)
    for name, order, small, large in [
        ("NCHW to NHWC", (0, 2, 3, 1), (1, 64, 56, 56), (8, 256, 112, 112)),
        ("NHWC to NCHW", (0, 3, 1, 2), (1, 56, 56, 64), (8, 112, 112, 256)),
        ("heads", (0, 2, 1, 3), (1, 197, 12, 64), (16, 1024, 16, 64)),
        ("inner two", (0, 1, 3, 2), (1, 12, 197, 64), (16, 16, 1024, 64)),
        ("all", (3, 2, 1, 0), (16, 24, 16, 32), (64, 64, 64, 64)),
    ]:
        for sizes in (small, large):
            family = partial(transpose, order=order)
            yield Row("streaming", f"transpose, {name} {{}}x{{}}x{{}}x{{}}", family, sizes)


def transpose(*sizes: int, order: tuple[int, ...]) -> Case:
    listed = list(order)
    return graph_case(
        f"y = layout.transpose{{perm={listed}}}(x);",
        f"y = Transpose <perm = {listed}> (x)",
        lambda x: x.permute(order).contiguous(),
        0.0,
        {"x": draw(*sizes)},
    )


# -------------------------------------------------------------------------- reductions

REDUCTIONS = {
    "sum": ("sum_reduce", "ReduceSum", torch.sum),
    "max": ("max_reduce", "ReduceMax", torch.amax),
    "mean": ("mean_reduce", "ReduceMean", torch.mean),
}


def reductions() -> Iterator[Row]:
    for sizes in PLANES:
        for name in REDUCTIONS:
            for axis in range(3) if name != "mean" else (2,):
                family = partial(reduction, name=name, axis=axis)
                yield Row("streaming", f"{name} over axis {axis} {{}}x{{}}x{{}}", family, sizes)
        for axis in range(3):
            family = partial(argmax, axis=axis)
            yield Row("streaming", f"argmax over axis {axis} {{}}x{{}}x{{}}", family, sizes)
        yield Row("streaming", "sum of all {}x{}x{}", whole_sum, sizes)
        yield Row("streaming", "running sum, last axis {}x{}x{}", running_sum, sizes)
    for name in ("sum", "max"):
        short = partial(rows_reduced, name=name)
        yield Row("streaming", f"{name} of short rows {{}}x{{}}", short, (100000, 10))
    for count in (1000003, 20000003):
        yield Row("streaming", "dot product {}", dot_product, (count,))


def reduction(a: int, b: int, c: int, *, name: str, axis: int) -> Case:
    ours, onnx, function = REDUCTIONS[name]
    return graph_case(
        f"y = math.{ours}{{axes=[{axis}], squeeze=true}}(x);",
        f"a = Constant <value_ints = [{axis}]> () y = {onnx} <keepdims = 0> (x, a)",
        partial(function, dim=axis),
        1.0 * a * b * c,
        {"x": draw(a, b, c)},
    )


def rows_reduced(m: int, n: int, *, name: str) -> Case:
    ours, onnx, function = REDUCTIONS[name]
    return graph_case(
        f"y = math.{ours}{{axes=[1], squeeze=true}}(x);",
        f"a = Constant <value_ints = [1]> () y = {onnx} <keepdims = 0> (x, a)",
        partial(function, dim=1),
        1.0 * m * n,
        {"x": draw(m, n)},
    )


def dot_product(n: int) -> Case:
    return graph_case(
        "p = math.mul(a, b); y = math.sum_reduce{squeeze=true}(p);",
        "p = Mul(a, b) y = ReduceSum <keepdims = 0> (p)",
        torch.dot,
        2.0 * n,
        {"a": draw(n), "b": draw(n, seed=1)},
    )


def argmax(a: int, b: int, c: int, *, axis: int) -> Case:
    return graph_case(
        f"y = math.argmax{{axis={axis}, squeeze=true}}(x);",
        f"y = ArgMax <axis = {axis}, keepdims = 0> (x)",
        partial(torch.argmax, dim=axis),
        1.0 * a * b * c,
        {"x": draw(a, b, c)},
    )


def whole_sum(a: int, b: int, c: int) -> Case:
    return graph_case(
        "y = math.sum_reduce{squeeze=true}(x);",
        "y = ReduceSum <keepdims = 0> (x)",
        torch.sum,
        1.0 * a * b * c,
        {"x": draw(a, b, c)},
    )


def running_sum(a: int, b: int, c: int) -> Case:
    return graph_case(
        "y = math.cumsum{axis=2}(x);",
        "a = Constant <value_int = 2> () y = CumSum(x, a)",
        partial(torch.cumsum, dim=2),
        1.0 * a * b * c,
        {"x": draw(a, b, c)},
    )


# ---------------------------------------------------------------- element-wise chains


def chains() -> Iterator[Row]:
    for pair in [(128, 1024), (4096, 4096)]:
        yield Row("streaming", "add {}x{}", add, pair)
        yield Row("streaming", "gelu {}x{}", partial(gelu, approximate=False), pair)
        yield Row("streaming", "gelu by tanh {}x{}", partial(gelu, approximate=True), pair)
        yield Row("streaming", "silu {}x{}", silu, pair)
        yield Row("streaming", "five operators {}x{}", five, pair)
        yield Row("streaming", "a step of Adam {}x{}", adam, pair)
    yield Row("streaming", "power {}", power, (1000003,))
    for sizes in [(1, 64, 56, 56), (8, 256, 112, 112)]:
        yield Row("streaming", "bias, residual, relu {}x{}x{}x{}", residual, sizes)


def add(m: int, n: int) -> Case:
    return graph_case(
        "y = math.add(a, b);", "y = Add(a, b)", torch.add, 1.0 * m * n,
        {"a": draw(m, n), "b": draw(m, n, seed=1)},
    )  # fmt: skip


def gelu(m: int, n: int, *, approximate: bool) -> Case:
    return graph_case(
        "y = nn.gelu{approximate='TANH'}(x);" if approximate else "y = nn.gelu(x);",
        f'y = Gelu <approximate = "{"tanh" if approximate else "none"}"> (x)',
        partial(nn.gelu, approximate="tanh" if approximate else "none"),
        8.0 * m * n,
        {"x": draw(m, n)},
    )


def adam(m: int, n: int) -> Case:
    """New weights, and the moments of their gradients (D. Kingma and J. Ba, 2014), whose bias is in
    the rate."""

    def function(w: torch.Tensor, f: torch.Tensor, s: torch.Tensor, g: torch.Tensor) -> Any:
        first, second = 0.9 * f + 0.1 * g, 0.999 * s + 0.001 * g * g
        return w - 0.001 * first / (second.sqrt() + 1e-8), first, second

    numbers = {"b": 0.9, "c": 0.1, "d": 0.999, "h": 0.001, "e": 1e-8}
    return graph_case(
        "p = math.axpby(0.9, f, 0.1, g); k = math.sqr(g); q = math.axpby(0.999, s, 0.001, k);"
        " r = math.sqrt(q); t = math.add(r, 1e-8); u = math.div(p, t);"
        " y = math.axpby(1.0, w, -0.001, u);",
        "".join(f"{k} = Constant <value_float = {v}> () " for k, v in numbers.items())
        + "f1 = Mul(f, b) g1 = Mul(g, c) p = Add(f1, g1) k = Mul(g, g) k1 = Mul(k, h)"
        " s1 = Mul(s, d) q = Add(s1, k1) r = Sqrt(q) t = Add(r, e) u = Div(p, t) u1 = Mul(u, h)"
        " y = Sub(w, u1)",
        function,
        14.0 * m * n,
        {k: abs(draw(m, n, seed=i)) for i, k in enumerate("wfsg")},
        outputs="y p q",
    )


def silu(m: int, n: int) -> Case:
    return graph_case(
        "y = nn.silu(x);", "s = Sigmoid(x) y = Mul(x, s)", nn.silu, 4.0 * m * n, {"x": draw(m, n)}
    )


def five(m: int, n: int) -> Case:
    """tanh(|a * b + c| - a) * b."""
    return graph_case(
        "p = math.mul(a, b); q = math.add(p, c); r = math.abs(q); s = math.sub(r, a);"
        "t = math.tanh(s); y = math.mul(t, b);",
        "p = Mul(a, b) q = Add(p, c) r = Abs(q) s = Sub(r, a) t = Tanh(s) y = Mul(t, b)",
        lambda a, b, c: torch.tanh(torch.abs(a * b + c) - a) * b,
        6.0 * m * n,
        {"a": draw(m, n), "b": draw(m, n, seed=1), "c": draw(m, n, seed=2)},
    )


def power(n: int) -> Case:
    return graph_case(
        "y = math.pow(a, b);", "y = Pow(a, b)", torch.pow, 20.0 * n,
        {"a": abs(draw(n)), "b": draw(n, seed=1)},
    )  # fmt: skip


def residual(n: int, c: int, h: int, w: int) -> Case:
    return graph_case(
        "z = math.add{rhs_align=1}(x, b); s = math.add(z, r); y = nn.relu(s);",
        "z = Add(x, b) s = Add(z, r) y = Relu(s)",
        lambda x, r, b: torch.relu(x + b + r),
        3.0 * n * c * h * w,
        {"x": draw(n, c, h, w), "r": draw(n, c, h, w, seed=1)},
        {"b": draw(c, 1, 1)},
    )


# ------------------------------------------------------- gathers, windows, joining


def gathers() -> Iterator[Row]:
    yield Row("streaming", "rows of a table {}x{} by {}", lookup, (1000, 64, 512))
    yield Row("streaming", "rows of a table {}x{} by {}", lookup, (30000, 768, 4096))
    yield Row("streaming", "columns of a table {}x{} by {}", columns, (128, 1024, 512))
    yield Row("streaming", "columns of a table {}x{} by {}", columns, (4096, 4096, 2048))


def lookup(m: int, n: int, k: int) -> Case:
    return graph_case(
        "y = layout.gather{axis=0}(t, i);",
        "y = Gather <axis = 0> (t, i)",
        nn.embedding,
        0.0,
        {"i": draw_integers(m, k)},
        {"t": draw(m, n)},
        read=8 * k + 4 * n * k,
    )


def columns(m: int, n: int, k: int) -> Case:
    return graph_case(
        "y = layout.gather{axis=1}(t, i);",
        "y = Gather <axis = 1> (t, i)",
        lambda t, i: torch.index_select(t, 1, i),
        0.0,
        {"t": draw(m, n), "i": draw_integers(n, k)},
        read=8 * k + 4 * m * n,
    )


def windows() -> Iterator[Row]:
    for sizes in [(1, 64, 56, 56), (8, 64, 112, 112)]:
        yield Row("streaming", "maximum of 3x3/2 {}x{}x{}x{}", max_pool, sizes)
        yield Row("streaming", "mean of 2x2/2 {}x{}x{}x{}", mean_pool, sizes)
    yield Row("streaming", "maximum of 13x13 {}x{}x{}x{}", wide_max_pool, (1, 256, 20, 20))
    for method in PADS:
        bordered = partial(pad, method=method)
        name = f"border, {method.lower()} {{}}x{{}}x{{}}x{{}}"
        yield Row("streaming", name, bordered, (1, 3, 1024, 1024))
    for sizes in [(1, 2048, 7, 7), (64, 2048, 7, 7)]:
        yield Row("streaming", "mean of images {}x{}x{}x{}", image_mean, sizes)
    for sizes in [(1, 64, 28, 28), (8, 64, 112, 112)]:
        yield Row("streaming", "nearest, twice as large {}x{}x{}x{}", nearest, sizes)
        yield Row("streaming", "linear, twice as large {}x{}x{}x{}", linear, sizes)
    for mode, sizes in (
        ("linear", (21, 33, 512)),
        ("linear", (3, 512, 224)),
        ("cubic", (64, 56, 112)),
    ):
        name = f"{mode}, {{1}} to {{2}} {{0}} channels"
        yield Row("streaming", name, partial(resized, mode=mode), sizes)


def max_pool(n: int, c: int, h: int, w: int) -> Case:
    return graph_case(
        "y = nn.max_pool{size=3, stride=2, padding=1}(x);",
        "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)",
        lambda x: nn.max_pool2d(x, 3, 2, 1),
        9.0 / 4 * n * c * h * w,
        {"x": draw(n, c, h, w)},
    )


def wide_max_pool(n: int, c: int, h: int, w: int) -> Case:
    return graph_case(
        "y = nn.max_pool{size=13, stride=1, padding=6}(x);",
        "y = MaxPool <kernel_shape = [13, 13], strides = [1, 1], pads = [6, 6, 6, 6]> (x)",
        lambda x: nn.max_pool2d(x, 13, 1, 6),
        169.0 * n * c * h * w,
        {"x": draw(n, c, h, w)},
    )


PADS = {"CONSTANT": "constant", "REFLECT": "reflect"}
"""Borders, usually of 16 elements: as SkriptND and as the others call them."""


def pad(n: int, c: int, h: int, w: int, *, method: str) -> Case:
    border = min(16, h // 2)
    sizes = [0, 0, border, border] * 2
    return graph_case(
        f"y = layout.pad{{padding={sizes}, method='{method}'}}(x);",
        f'p = Constant <value_ints = {sizes}> () y = Pad <mode = "{PADS[method]}"> (x, p)',
        lambda x: nn.pad(x, (border,) * 4, mode=PADS[method]),
        0.0,
        {"x": draw(n, c, h, w)},
    )


def mean_pool(n: int, c: int, h: int, w: int) -> Case:
    return graph_case(
        "y = nn.avg_pool{size=2, stride=2, padding=0}(x);",
        "y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)",
        lambda x: nn.avg_pool2d(x, 2, 2),
        1.0 * n * c * h * w,
        {"x": draw(n, c, h, w)},
    )


def image_mean(n: int, c: int, h: int, w: int) -> Case:
    return graph_case(
        "y = math.mean_reduce{axes=[2, 3]}(x);",
        "y = GlobalAveragePool(x)",
        lambda x: nn.adaptive_avg_pool2d(x, 1),
        1.0 * n * c * h * w,
        {"x": draw(n, c, h, w)},
    )


def nearest(n: int, c: int, h: int, w: int) -> Case:
    return graph_case(
        "y = image.nearest_upsample{axes=[2, 3], factor=2}(x);",
        "f = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()"
        'y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",'
        ' nearest_mode = "floor"> (x, , f)',
        lambda x: nn.interpolate(x, scale_factor=2.0, mode="nearest"),
        0.0,
        {"x": draw(n, c, h, w)},
    )


def linear(n: int, c: int, h: int, w: int) -> Case:
    return graph_case(
        "y = image.linear_upsample{axes=[2, 3], factor=2}(x);",
        "f = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()"
        'y = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (x, , f)',
        lambda x: nn.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False),
        4 * 8.0 * n * c * h * w,
        {"x": draw(n, c, h, w)},
    )


def resized(c: int, size: int, to: int, *, mode: str) -> Case:
    """An image of another size; PyTorch calls modes by two letters more."""
    taps = {"linear": 2, "cubic": 4}[mode]
    return graph_case(
        f"y = image.{mode}_resize{{axes=[2, 3], size=[{to}, {to}], antialias=false}}(x);",
        f"n = Constant <value_ints = [1, {c}, {to}, {to}]> ()"
        f'y = Resize <mode = "{mode}", coordinate_transformation_mode = "half_pixel"> (x, , , n)',
        lambda x: nn.interpolate(x, size=(to, to), mode=f"bi{mode}", align_corners=False),
        2.0 * taps * c * (size * to + to**2),
        {"x": draw(1, c, size, size)},
    )


def joins() -> Iterator[Row]:
    for sizes in [(1, 64, 28, 28), (8, 256, 56, 56)]:
        yield Row("streaming", "channels joined {}x{}x{}x{}", partial(concat, axis=1), sizes)
    for sizes in [(1, 28, 28, 64), (8, 56, 56, 256)]:
        yield Row("streaming", "last axes joined {}x{}x{}x{}", partial(concat, axis=3), sizes)
    yield Row("streaming", "stacked, last axis {}x{}", stack, (1000, 1000))


def concat(*sizes: int, axis: int) -> Case:
    """Three arrays; the second is half as wide."""
    narrow = [s // 2 if k == axis else s for k, s in enumerate(sizes)]
    return graph_case(
        f"y = layout.concat{{axis={axis}}}([a, b, c]);",
        f"y = Concat <axis = {axis}> (a, b, c)",
        lambda a, b, c: torch.cat([a, b, c], axis),
        0.0,
        {"a": draw(*sizes), "b": draw(*narrow), "c": draw(*sizes, seed=2)},
    )


def stack(m: int, n: int) -> Case:
    return graph_case(
        "y = layout.stack{axis=2}([a, b]);",
        "l = Constant <value_ints = [2]> () p = Unsqueeze(a, l) q = Unsqueeze(b, l)"
        " y = Concat <axis = 2> (p, q)",
        lambda a, b: torch.stack([a, b], 2),
        0.0,
        {"a": draw(m, n), "b": draw(m, n, seed=1)},
    )
