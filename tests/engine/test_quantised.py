"""Quantised tensors are kept as small integers, and their products added up in integers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest

import ricci
from ricci.dtypes import DType
from ricci.ir.loops import Reduce
from ricci.ir.nodes import Graph, Operation
from ricci.ir.text import parse_graph
from ricci.passes.pipeline import lower
from ricci.passes.ranges import Ranges
from ricci.passes.specialise import Types
from ricci.runtime.executable import compile_graph

LINEAR = "quant.zero_point_linear_quantize"
SPREAD = "quant.min_max_linear_quantize"
PLAIN = {
    "x": f"{LINEAR}{{zero_point=0, scale=0.03125, bits=8, signed=false}}",
    "w": f"{LINEAR}{{zero_point=0, scale=0.015625, bits=8, symmetric=true}}",
}
"""Scales are powers of two where results are to be the same to the bit."""

Arrays = Mapping[str, np.ndarray]


def _draw(*shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(low, high, shape).astype(np.float32)


def _model(body: str, quantizers: Mapping[str, str], weights: Arrays, **shapes: str) -> ricci.Model:
    """A graph from `x` to `y` with some variables."""
    variables = " ".join(f"{n}: real{list(a.shape)};" for n, a in weights.items())
    entries = " ".join(f"{name}: {entry};" for name, entry in quantizers.items())
    model = ricci.parse(
        f"""
        import nn, math, layout, quant;
        graph G {{
            @input {{ x: real{shapes["x"]}; }}
            @output {{ y: real{shapes["y"]}; }}
            @variable {{ {variables} }}
            @compose {{ {body} }}
            @quantize {{ {entries} }}
        }}
        """,
        "skriptnd",
    )
    for name, values in weights.items():
        model.variables[f"main.G.{name}"] = values
    return model


def _both(model: ricci.Model, *inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Results of native code and of the interpreter."""
    native = model.compile(quantize=True)(*inputs)
    meant = model.compile("interpreter", quantize=True)(*inputs)
    return np.asarray(native), np.asarray(meant)


def _is_kept(model: ricci.Model, tensor: str, dtype: str, target: str = "x86-64-v4-vnni") -> bool:
    """Whether kernels of a processor, one that multiplies bytes, have a tensor in an integer
    type."""
    text = model.quantized().show("loops", target=target)
    return f"{tensor}:quantized`: {dtype}[" in text


def _reduces(graph: Graph) -> list[Reduce]:
    program = lower(graph, {}, Types(DType.FLOAT32, DType.INT64))
    return [k for k in program.kernels if isinstance(k, Reduce)]


CONV = "y = nn.conv{padding=1}(x, w, b);"
CONV_SHAPES = {"x": "[2, 8, 9, 9]", "y": "[2, 20, 9, 9]"}


def _conv_weights() -> dict[str, np.ndarray]:
    return {"w": _draw(20, 8, 3, 3), "b": np.round(_draw(20) * 64) / 64}


def test_a_convolution_of_bytes_is_exact() -> None:
    model = _model(CONV, PLAIN, _conv_weights(), **CONV_SHAPES)
    assert _is_kept(model, "x", "uint8")
    assert _is_kept(model, "w", "int8")
    native, meant = _both(model, _draw(2, 8, 9, 9, low=-1, high=9))
    np.testing.assert_array_equal(native, meant)


@pytest.mark.parametrize("target", ["x86-64-v3", "aarch64-sve"])
def test_processors_that_multiply_halves_keep_halves_for_contractions(target: str) -> None:
    """Nothing else takes twice the memory: neither what is moved first, nor what is multiplied
    element by element."""
    body = (
        "p = nn.max_pool{size=2, stride=2}(x); c = nn.conv(p, w);"
        " y = nn.conv{groups=8, padding=1}(c, d);"
    )
    weights = {"w": _draw(8, 8, 1, 1), "d": _draw(8, 1, 3, 3)}
    shapes = {"x": "[1, 8, 12, 12]", "y": "[1, 8, 6, 6]"}
    quantizers = {**PLAIN, "c": PLAIN["x"], "d": PLAIN["w"]}
    model = _model(body, quantizers, weights, **shapes)
    kept = {"x": "uint8", "w": "int16", "c": "uint8", "d": "int8"}
    assert all(_is_kept(model, tensor, dtype, target) for tensor, dtype in kept.items())
    assert "G.p: int16[" in model.quantized().show("loops", target=target)
    assert all(_is_kept(model, tensor, "int8") for tensor in ("w", "d"))
    x = _draw(1, 8, 12, 12, low=-1, high=9)
    native, meant = _both(model, x)
    np.testing.assert_array_equal(native, meant)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
def test_other_processors_give_the_same(target: str) -> None:
    model = _model(CONV, PLAIN, _conv_weights(), **CONV_SHAPES)
    x = _draw(2, 8, 9, 9, low=-1, high=9)
    expected = np.asarray(model.compile("interpreter", quantize=True)(x))
    np.testing.assert_array_equal(model.compile(target, quantize=True)(x), expected)


CHANNELS = [0.015625 * 2 ** (n % 3) for n in range(20)]
QUANTIZERS = {
    "channels": f"{LINEAR}{{zero_point=0, scale={CHANNELS}, bits=8, channel_axis=0}}",
    "least is left out": f"{SPREAD}{{min=-1.984375, max=1.984375, bits=8, symmetric=true}}",
    "seven bits": f"{SPREAD}{{min=-1.0, max=0.984375, bits=7}}",
    "min of each channel": f"{SPREAD}{{min={[-s * 127 for s in CHANNELS]}, "
    f"max={[s * 127 for s in CHANNELS]}, bits=8, symmetric=true, channel_axis=0}}",
    "zero point": f"{LINEAR}{{zero_point=10, scale=0.015625, bits=8}}",
}


@pytest.mark.parametrize("name", QUANTIZERS)
def test_quantisers_of_weights(name: str) -> None:
    quantizers = PLAIN | {"w": QUANTIZERS[name]}
    model = _model(CONV, quantizers, _conv_weights(), **CONV_SHAPES)
    assert _is_kept(model, "w", "int16" if name == "zero point" else "int8")
    native, meant = _both(model, _draw(2, 8, 9, 9, low=-1, high=9))
    np.testing.assert_allclose(native, meant, rtol=2e-6, atol=2e-5)


@pytest.mark.parametrize(
    "entry",
    [
        f"{LINEAR}{{zero_point=-128, scale=0.03125, bits=8}}",
        f"{LINEAR}{{zero_point=7, scale=0.03125, bits=8}}",
        f"{LINEAR}{{zero_point=0, scale=0.03125, bits=8}}",
        f"{SPREAD}{{min=-1.0, max=6.96875, bits=8, signed=false}}",
        f"{SPREAD}{{min=-3.0, max=4.96875, bits=8}}",
    ],
)
def test_zero_points_count_nothing_in_the_padding(entry: str) -> None:
    model = _model(CONV, PLAIN | {"x": entry}, _conv_weights(), **CONV_SHAPES)
    assert "acc0 = 0:int32" in model.quantized().show("loops")
    native, meant = _both(model, _draw(2, 8, 9, 9, low=-5, high=9))
    np.testing.assert_allclose(native, meant, rtol=2e-6, atol=2e-5)


def test_an_offset_that_is_not_whole_stays_real() -> None:
    entry = f"{SPREAD}{{min=-0.7, max=6.0, bits=8}}"
    model = _model(CONV, PLAIN | {"x": entry}, _conv_weights(), **CONV_SHAPES)
    assert "int32" not in model.quantized().show("loops")
    native, meant = _both(model, _draw(2, 8, 9, 9, low=-5, high=9))
    np.testing.assert_allclose(native, meant, rtol=1e-5, atol=1e-4)


def test_what_is_between_keeps_integers() -> None:
    """Maxima, rectifiers, joined and moved elements."""
    body = """
        r = nn.relu(x);
        p = nn.max_pool{size=3, stride=2, padding=1}(r);
        j = layout.concat{axis=1}([p, p]);
        t = layout.reshape{shape=[4, 16, 25]}(j);
        y = nn.conv{padding=1}(t, w);
    """
    quantizers = PLAIN | {"x": f"{LINEAR}{{zero_point=0, scale=0.03125, bits=8}}"}
    weights = {"w": _draw(24, 16, 3)}
    model = _model(body, quantizers, weights, x="[4, 8, 9, 9]", y="[4, 24, 25]")
    text = model.quantized().show("loops")
    assert "acc0 max= " in text
    assert text.count("float32[4, ") == 2  # the input and the result
    native, meant = _both(model, _draw(4, 8, 9, 9, low=-2, high=3))
    np.testing.assert_array_equal(native, meant)


def test_a_maximum_of_nothing_stays_real() -> None:
    """Windows that lie beside the input give minus infinity, which no integer is."""
    body = """
        p = nn.max_pool{size=2, stride=2, padding=[2, 2, 0, 0]}(x);
        y = nn.conv(p, w);
    """
    model = _model(body, PLAIN, {"w": _draw(5, 3, 1, 1)}, x="[1, 3, 4, 4]", y="[1, 5, 3, 3]")
    assert "acc0 = -inf" in model.quantized().show("loops")
    native, meant = _both(model, _draw(1, 3, 4, 4, low=0))
    np.testing.assert_array_equal(np.isfinite(native), np.isfinite(meant))


def test_a_tensor_that_others_read_as_well() -> None:
    """A result of the graph, and the other term of a sum."""
    body = "y = nn.relu(x); c = nn.conv{padding=1}(y, w); z = math.add(c, y);"
    weights = {"w": _draw(8, 8, 3, 3)}
    shapes = {"x": "[1, 8, 6, 6]", "y": "[1, 8, 6, 6]; z: real[1, 8, 6, 6]"}
    model = _model(body, {"y": PLAIN["x"], "w": PLAIN["w"]}, weights, **shapes)
    assert _is_kept(model, "y", "uint8")
    x = _draw(1, 8, 6, 6, low=-1, high=9)
    native = model.compile(quantize=True)(x)
    meant = model.compile("interpreter", quantize=True)(x)
    for a, b in zip(native, meant, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_network_of_layers() -> None:
    """Each layer's result is quantised as it is made, with a step of the next."""
    body = """
        a = nn.relu(x);
        c = nn.conv{padding=1, stride=2}(x, w, b); d = nn.relu(c);
        e = nn.conv{padding=1, groups=16}(d, v); f = nn.relu(e);
        g = math.mean_reduce{axes=[2, 3], squeeze=true}(f);
        y = nn.linear(g, u);
    """
    step = f"{LINEAR}{{zero_point=0, scale=0.0625, bits=8, signed=false}}"
    fine = f"{LINEAR}{{zero_point=0, scale=0.015625, bits=8, symmetric=true}}"
    quantizers = PLAIN | {"d": step, "f": step, "g": step, "v": fine, "u": fine}
    weights = {"w": _draw(16, 3, 3, 3), "b": _draw(16), "v": _draw(16, 1, 3, 3), "u": _draw(10, 16)}
    model = _model(body.replace("a = nn.relu(x);", ""), quantizers, weights,
                   x="[2, 3, 16, 16]", y="[2, 10]")  # fmt: skip
    assert model.quantized().show("loops").count("acc0 = 0:int32") == 3
    native, meant = _both(model, _draw(2, 3, 16, 16, low=-1, high=5))
    np.testing.assert_allclose(native, meant, atol=16 * 0.0625 * 0.0625)


def test_sums_that_could_overflow_stay_real() -> None:
    wide = f"{LINEAR}{{zero_point=0, scale=0.001, bits=15, signed=false}}"
    body = "y = nn.linear(x, w);"
    for count, fits in ((2, True), (3, False)):  # of terms up to 2 ** 30, nearly
        shapes = {"x": f"[3, {count}]", "y": "[3, 40]"}
        model = _model(body, {"x": wide, "w": wide}, {"w": _draw(40, count)}, **shapes)
        assert ("int32" in model.quantized().show("loops")) == fits


def test_open_sizes_stay_real() -> None:
    model = _model("y = nn.linear(x, w);", PLAIN, {"w": _draw(5, 6)}, x="[n|10, 6]", y="[n, 5]")
    assert "int32" not in model.quantized().show("loops")
    native, meant = _both(model, _draw(7, 6, low=0, high=8))
    np.testing.assert_allclose(native, meant, rtol=1e-5)


def test_no_number_is_zero_unless_reals_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model("y = nn.linear(x, w);", PLAIN, {"w": _draw(5, 6)}, x="[1, 6]", y="[1, 5]")
    x = np.full((1, 6), np.nan, np.float32)
    assert (model.compile(quantize=True)(x) == 0).all()
    monkeypatch.setenv("RICCI_INTEGERS", "0")
    assert np.isnan(model.compile(quantize=True)(x)).all()


def test_scales_that_data_gives() -> None:
    """A step for each row of the input, computed with it."""
    graph = parse_graph(
        """
        graph G {
          input x = x: float32[6, 32];
          input w = w: int8[20, 32];
          s: float32[6] = largest(x) {
            s[i] = 0.0:float32 for i < 6;
            s[i] max= abs(x[i, k]) for i < 6, k < 32;
          }
          q: float32[6, 32] = step(x, s) {
            q[i, k] = min(max(round(x[i, k] / s[i] * 64.0:float32), -127.0:float32), 127.0:float32)
              * s[i]  for i < 6, k < 32;
          }
          y: float32[6, 20] = product(q, w) {
            y[i, j] += q[i, k] * float32(w[j, k]) for i < 6, j < 20, k < 32;
          }
          output y = y;
        }
        """
    )
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 32), np.float32)
    w = rng.integers(-128, 127, (20, 32)).astype(np.int8)
    sums = [a.dtype for k in _reduces(graph) for a in k.accumulators]
    assert DType.INT32 in sums
    run = compile_graph(graph, {}, "cpu")
    s = np.abs(x).max(1, keepdims=True)
    q = np.round(x / s * np.float32(64)).astype(np.float64) * s
    np.testing.assert_allclose(run(x, w), q @ w.T.astype(np.float64), rtol=1e-5, atol=1e-3)


def test_bounds_hold_for_every_item_of_a_constant() -> None:
    """All formulas of some sizes, against their values at all points."""
    graph = parse_graph(
        """
        graph G {
          input x = x: float64[5];
          constant c: float64[3] = { -2.0, 0.5, 3.0 };
          y: float64[3, 5] = f(x, c) {
            y[i, j] = round((min(max(x[j], c[i]), 4.0) - c[i]) / (4.0 - c[i]) * 15.0)
              for i < 3, j < 5;
          }
          output y = y;
        }
        """
    )
    (operation,) = graph.operations
    assert isinstance(operation, Operation)
    (assignment,) = operation.body
    low, high = Ranges(assignment.domain).of(assignment.values[0])
    assert low.min() == 0
    assert high.max() == 15
    for x, c in itertools.product(np.linspace(-9, 9, 37), (-2.0, 0.5, 3.0)):
        y = round((min(max(x, c), 4.0) - c) / (4.0 - c) * 15.0)
        assert low.min() <= y <= high.max()
