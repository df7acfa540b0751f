"""Invocations that an assert rejects: the operator, part of the assert's message, attributes, and
inputs by type and shape. Every assert of the library is violated at least once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .case import attribute_text


@dataclass(frozen=True)
class Rejected:
    """`inputs` are declarations like `real[2,3]`; a list of them is a pack, `~` is left out."""

    operator: str
    message: str
    attributes: Mapping[str, object]
    inputs: Sequence[str | Sequence[str]]
    outputs: str = "y"

    @property
    def text(self) -> str:
        flat: list[str] = []
        arguments = [self._argument(value, flat) for value in self.inputs]
        inputs = " ".join(f"x{k}: {t};" for k, t in enumerate(flat))
        call = f"{self.operator}{attribute_text(self.attributes)}({', '.join(arguments)})"
        return (
            f"import {self.operator.split('.')[0]}; import layout;\n"
            f"graph G {{\n"
            f"    @input {{ t: real[]; {inputs} }}\n"
            f"    @output {{ z: int; }}\n"
            f"    @compose {{ {self.outputs} = {call}; z = layout.shape(t); }}\n"
            f"}}\n"
        )

    def _argument(self, value: str | Sequence[str], flat: list[str]) -> str:
        if value == "~":
            return "~"
        if isinstance(value, str):
            flat.append(value)
            return f"x{len(flat) - 1}"
        return f"[{', '.join(self._argument(v, flat) for v in value)}]"


def axes_of(case: Rejected) -> list[int]:
    """The axes that a case gives."""
    axes = case.attributes["axes"]
    assert isinstance(axes, list)
    return axes


R = Rejected
AXIS, AXES = "'axis' must be from", "'axes' must be from"
DISTINCT = "must be distinct"


def _axis(name: str, attributes: Mapping[str, object], *inputs: str | Sequence[str],
          outputs: str = "y") -> list[Rejected]:  # fmt: skip
    """An axis beyond either end, for inputs of rank 2."""
    return [R(name, AXIS, {**attributes, "axis": a}, inputs, outputs) for a in (2, -3)]


def _axes(name: str, attributes: Mapping[str, object], *inputs: str, items: str = "",
          outputs: str = "y") -> list[Rejected]:  # fmt: skip
    """Axes out of range, and the same axis twice, for inputs of rank 3.

    `items` names an attribute that has as many items as there are axes.
    """

    def given(axes: list[int]) -> dict[str, object]:
        return {**attributes, "axes": axes, **({items: [1] * len(axes)} if items else {})}

    return [
        R(name, AXES, given([3]), inputs, outputs),
        R(name, AXES, given([1, -4]), inputs, outputs),
        R(name, DISTINCT, given([1, 1]), inputs, outputs),
        R(name, DISTINCT, given([1, -2]), inputs, outputs),
    ]


_M, _C = "real[2,3]", "real[1,2,3]"
_BLOCK: dict[str, object] = {"block_size": [2, 2]}

LAYOUT = [
    R("layout.constant", "must not be negative", {"shape": [-1, -2], "value": 1.0}, []),
    R("layout.tensor", "must not be negative", {"shape": [-1, -2], "value": 1.0}, []),
    R("layout.uniform", "must not be negative", {"shape": [2, -2]}, ["real[]"]),
    R("layout.range", "must not be zero", {"first": 0, "last": 3, "stride": 0}, []),
    R("layout.range", "must not be less", {"first": 3, "last": 0}, []),
    R("layout.range", "must not be greater", {"first": 0, "last": 3, "stride": -1}, []),
    *_axis("layout.reshape", {"shape": [6]}, _M),
    R("layout.reshape", "'rank' must be from", {"shape": [6], "rank": 3}, [_M]),
    R("layout.reshape", "'rank' must be from", {"shape": [6], "rank": -1}, [_M]),
    R("layout.reshape", "'rank' must be from", {"shape": [6], "axis": 1, "rank": 2}, [_M]),
    R("layout.reshape", "only one item", {"shape": [-1, -1]}, [_M]),
    R("layout.reshape", "must be positive, or -1", {"shape": [6, 0]}, [_M]),
    R("layout.reshape", "must be positive, or -1", {"shape": [-2, -3]}, [_M]),
    R("layout.reshape", "when there are no elements", {"shape": [-1]}, ["real[0,3]"]),
    R("layout.reshape", "must be divisible by", {"shape": [4, -1]}, [_M]),
    R("layout.reshape", "as many elements as", {"shape": [1, 3]}, [_M]),
    *_axis("layout.flatten", {}, _M),
    R("layout.flatten", "'rank' must be from", {"rank": 3}, [_M]),
    R("layout.flatten", "'rank' must be from", {"rank": -1}, [_M]),
    *_axis("layout.unflatten", {"shape": [2]}, _M),
    R("layout.unflatten", "must not be negative", {"axis": 0, "shape": [-1, -2]}, [_M]),
    R("layout.unflatten", "as many elements as", {"axis": 0, "shape": [3]}, [_M]),
    *_axes("layout.squeeze", {}, "real[1,1,1]"),
    R("layout.squeeze", "must be 1", {"axes": [1]}, [_C]),
    R("layout.unsqueeze", AXES, {"axes": [3]}, [_M]),
    R("layout.unsqueeze", AXES, {"axes": [-4]}, [_M]),
    R("layout.unsqueeze", DISTINCT, {"axes": [1, -3]}, [_M]),
    *_axis("layout.concat", {}, [_M, _M]),
    *_axis("layout.split", {"count": 1}, _M, outputs="[y]"),
    R("layout.split", "'count' must not be negative", {"axis": 0, "count": -1}, [_M], "y..(0)"),
    R("layout.split", "must have 'count' items", {"axis": 0, "count": 2, "sizes": [2]}, [_M],
      "[y]"),
    R("layout.split", "'sizes' must not be negative", {"axis": 0, "sizes": [3, -1]}, [_M],
      "[y, w]"),
    R("layout.split", "must add up to", {"axis": 1, "sizes": [1, 1]}, [_M], "[y, w]"),
    R("layout.split", "must add up to", {"axis": 1, "count": 2}, [_M], "[y, w]"),
    R("layout.stack", AXIS, {"axis": 3}, [[_M, _M]]),
    R("layout.stack", AXIS, {"axis": -4}, [[_M, _M]]),
    R("layout.stack", AXIS, {"axis": 2, "squeeze": True}, [["real[1,1]", "real[1,1]"]]),
    *_axis("layout.unstack", {}, "real[1,1]", outputs="[y]"),
    *_axes("layout.tile", {}, _C, items="repeats"),
    R("layout.tile", "must be positive", {"repeats": [1, 0]}, [_M]),
    *_axes("layout.broadcast", {}, "real[1,1,1]", items="shape"),
    R("layout.broadcast", "must be positive", {"shape": [0, 3]}, ["real[1,3]"]),
    R("layout.broadcast", "must be 1, or equal", {"shape": [4, 3]}, [_M]),
    *[
        R("layout.slice", c.message, {**c.attributes, "end": [1] * len(axes_of(c))},
          c.inputs)
        for c in _axes("layout.slice", {}, "real[4,4,4]", items="begin")
    ],
    R("layout.slice", "must not be zero", {"axes": [0], "begin": 0, "end": 1, "stride": 0}, [_M]),
    R("layout.slice", "'begin' must not be before", {"axes": [0], "begin": -3, "end": 2}, [_M]),
    R("layout.slice", "'begin' must not be after",
      {"axes": [0], "begin": 2, "end": 0, "stride": -1}, [_M]),
    R("layout.slice", "'end' must not be before", {"axes": [1], "begin": 2, "end": 1}, [_M]),
    R("layout.slice", "'end' must not be after",
      {"axes": [1], "begin": 0, "end": 1, "stride": -1}, [_M]),
    R("layout.pad", "'method' must be", {"padding": 1, "method": "WRAP"}, [_M]),
    R("layout.pad", "must not be negative", {"padding": [1, 1, 1, -1]}, [_M]),
    *[
        R("layout.pad", c.message, {**c.attributes, "padding": 1}, c.inputs)
        for c in _axes("layout.pad", {}, _C)
    ],
    R("layout.pad", "must be less than", {"padding": [0, 0, 2, 1], "method": "REFLECT"}, [_M]),
    R("layout.pad", "must not be greater", {"padding": [3, 0, 0, 0], "method": "SYMMETRIC"}, [_M]),
    R("layout.pad", "must have elements", {"padding": 1, "method": "REPLICATE"}, ["real[0,2]"]),
    *_axis("layout.transpose", {"perm": []}, _M),
    R("layout.transpose", "items of 'perm' must be from", {"perm": [0, 2]}, [_M]),
    R("layout.transpose", "items of 'perm' must be from", {"axis": 1, "perm": [0]}, [_M]),
    R("layout.transpose", "items of 'perm' must be from", {"perm": [0, -3]}, [_M]),
    R("layout.transpose", DISTINCT, {"perm": [0, -2]}, [_M]),
    *(
        R(f"layout.{name}", "'data_format' must be", {**_BLOCK, "data_format": "XCN"},
          ["real[4,4,4,4]"])
        for name in ("space_to_batch", "batch_to_space", "space_to_depth", "depth_to_space")
    ),
    *(
        R(f"layout.{name}", "'block_size' must be positive", {"block_size": [2, 0]},
          ["real[4,4,4,4]"])
        for name in ("space_to_batch", "batch_to_space", "space_to_depth", "depth_to_space")
    ),
    R("layout.space_to_batch", "must be divisible", _BLOCK, ["real[1,1,4,3]"]),
    R("layout.batch_to_space", "must be divisible", _BLOCK, ["real[6,1,4,4]"]),
    R("layout.space_to_depth", "must be divisible", _BLOCK, ["real[1,1,3,4]"]),
    R("layout.depth_to_space", "must be divisible", _BLOCK, ["real[1,6,4,4]"]),
    *_axis("layout.shuffle", {"groups": 1}, _M),
    R("layout.shuffle", "must be positive", {"axis": 0, "groups": 0}, [_M]),
    R("layout.shuffle", "must be divisible", {"axis": 0, "groups": 3}, [_M]),
    *_axis("layout.gather", {}, _M, "int[2]"),
    R("layout.gather_nd", "must not be negative", {"batch_dims": -1}, [_M, "int[2,1]"]),
    *_axis("layout.scatter", {}, _M, "int[2,3]", _M),
    R("layout.scatter_nd", "must not be negative", {"batch_dims": -1}, [_M, "int[2]", "real[]"]),
]  # fmt: skip

_BINARY = {
    **dict.fromkeys(("add sub mul div mod pow min max lt gt le ge eq ne").split(), "real"),
    **dict.fromkeys(("and", "or", "xor"), "bool"),
}
_FIT = "cannot be broadcast"


def _pairs(name: str, *shapes: str) -> list[Rejected]:
    """For every pair of inputs: the two with extents 2 and 3, the others with extent 1."""
    cases = []
    for i in range(len(shapes)):
        for j in range(i):
            extents = [2 if k == i else 3 if k == j else 1 for k in range(len(shapes))]
            inputs = [f"{t}[{n}]" for t, n in zip(shapes, extents, strict=True)]
            cases.append(R(name, _FIT, {}, inputs))
    return cases


MATH = [
    *(R(f"math.{n}", _FIT, {}, [f"{t}[2,3]", f"{t}[2]"]) for n, t in _BINARY.items()),
    *(R(f"math.{n}", _FIT, {"rhs_align": 1}, [f"{t}[2,3]", f"{t}[2]"]) for n, t in _BINARY.items()),
    *_pairs("math.select", "bool", "real", "real"),
    *_pairs("math.axpb", "real", "real", "real"),
    *_pairs("math.axpby", "real", "real", "real", "real"),
    *_pairs("math.clamp", "real", "real", "real"),
    *(
        case
        for name in ("min", "max", "sum", "prod", "mean")
        for case in _axes(f"math.{name}_reduce", {}, _C)
    ),
    *_axes("math.lp_reduce", {"p": 1.0}, _C),
    R("math.lp_reduce", "must be positive", {"p": 0.0}, [_C]),
    *_axes("math.any_reduce", {}, "bool[1,2,3]"),
    *_axes("math.all_reduce", {}, "bool[1,2,3]"),
    *_axis("math.argmin", {}, _M),
    *_axis("math.argmax", {}, _M),
    R("math.argmin", "must be positive", {"axis": 1}, ["real[2,0]"]),
    R("math.argmax", "must be positive", {"axis": 1}, ["real[2,0]"]),
    *(
        R(c.operator, c.message, c.attributes, c.inputs, f"y..({len(axes_of(c))})")
        for name in ("argmin_nd", "argmax_nd")
        for c in _axes(f"math.{name}", {}, _C)
    ),
    R("math.argmin_nd", "must be positive", {"axes": [1]}, ["real[2,0]"], "[y]"),
    R("math.argmax_nd", "must be positive", {"axes": [1]}, ["real[2,0]"], "[y]"),
    *_axes("math.moments", {}, _C, outputs="y, w"),
    *_axis("math.cumsum", {}, _M),
]

LINALG = [
    R("linalg.matmul", "the matrices do not match", {}, ["real[2,3]", "real[2,3]"]),
    R("linalg.matmul", "the matrices do not match", {"transA": True}, ["real[2,3]", "real[3,3]"]),
    R("linalg.matmul", "the matrices do not match", {"transB": True}, ["real[2,3]", "real[3,2]"]),
    R("linalg.matmul", "the batch extents of 'A' and 'B'", {}, ["real[2,1,1]", "real[3,1,1]"]),
    R("linalg.matmul", "must not have more dimensions", {}, [_M, "real[3,2]", "real[1,2,2]"]),
    R("linalg.matmul", "the batch extents of 'C'", {},
      ["real[2,1,1]", "real[2,1,1]", "real[3,1,1]"]),
]  # fmt: skip

_X, _F = "real[1,4,6,6]", "real[4,4,3,3]"
_WINDOWS: list[tuple[str, dict[str, object]]] = [
    ("'data_format' must be", {"data_format": "CXN"}),
    ("'filter_format' must be", {"filter_format": "NC"}),
    ("'padding_align' must be", {"padding_align": "MIDDLE"}),
    ("'stride' must be positive", {"stride": [1, 0]}),
    ("'dilation' must be positive", {"dilation": 0}),
    ("'groups' must not be negative", {"groups": -1}),
]
_POOLS: list[tuple[str, dict[str, object]]] = [
    ("'padding_align' must be", {"padding_align": "upper"}),
    ("'size' must be positive", {"size": 0}),
    ("'stride' must be positive", {"stride": [0, 1]}),
    ("'dilation' must be positive", {"dilation": -1}),
    ("the padded input must not", {"padding": 0, "size": 7}),
    ("the padded input must not", {"padding": 0, "size": 4, "dilation": 2}),
]


def _pools(name: str, more: dict[str, object]) -> list[Rejected]:
    common = {"size": 2, **more}
    return [
        *(R(name, message, {**common, **given}, [_X]) for message, given in _POOLS),
        *_axes(name, common, _C),
    ]


NN = [
    *(R("nn.conv", message, given, [_X, _F]) for message, given in _WINDOWS),
    *(R("nn.deconv", message, given, [_X, _F]) for message, given in _WINDOWS),
    R("nn.conv", "the padded input must not", {"padding": 0, "dilation": 3}, [_X, _F]),
    R("nn.conv", "output channels must be divisible", {"groups": 2}, [_X, "real[5,2,3,3]"]),
    R("nn.conv", "input channels must equal filter", {}, [_X, "real[4,3,3,3]"]),
    R("nn.conv", "input channels must equal filter", {"groups": 0}, [_X, _F]),
    R("nn.conv", "one item per output channel", {}, [_X, _F, "real[3]"]),
    R("nn.deconv", "'output_size' does not have", {"padding": 0, "output_size": [8, 9]}, [_X, _F]),
    R("nn.deconv", "the padding is larger", {"padding": 5}, [_X, _F]),
    R("nn.deconv", "input channels must equal", {}, [_X, "real[3,1,3,3]"]),
    R("nn.deconv", "input channels must be divisible", {"groups": 3}, [_X, _F]),
    R("nn.deconv", "one item per output channel", {"groups": 2}, [_X, _F, "real[4]"]),
    *_pools("nn.max_pool", {}),
    *_pools("nn.sum_pool", {}),
    *_pools("nn.avg_pool", {}),
    *_pools("nn.rms_pool", {}),
    *_pools("nn.lp_pool", {"p": 2.0}),
    R("nn.lp_pool", "'p' must be positive", {"size": 2, "p": -1.0}, [_X]),
    R("nn.relu", "'alpha' must be", {"alpha": -0.5}, [_M]),
    R("nn.relu", "'alpha' must be", {"alpha": 1.5}, [_M]),
    R("nn.relu", "'max' must be positive", {"max": 0.0}, [_M]),
    R("nn.prelu", AXIS, {"axis": 2}, [_M, "real[2]"]),
    R("nn.prelu", AXIS, {"axis": -3}, [_M, "real[3]"]),
    R("nn.thresholded_relu", "must not be negative", {"theta": -0.5}, [_M]),
    R("nn.gelu", "'approximate' must be", {"approximate": "ERF"}, [_M]),
    R("nn.batch_norm", "'epsilon' must not", {"epsilon": -1.0}, [_M, "real[3]", "real[3]"]),
    R("nn.batch_norm", "'channel_axis' must", {"channel_axis": 2}, [_M, "real[3]", "real[3]"]),
    R("nn.batch_norm", "one item per channel", {}, [_M, "real[2]", "real[2]"]),
    *_axes("nn.mean_variance_norm", {}, _C),
    R("nn.mean_variance_norm", "'epsilon' must not", {"epsilon": -1.0}, [_C]),
    *_axes("nn.local_response_norm", {"size": 3}, _C),
    R("nn.local_response_norm", "'alpha' must not", {"size": 3, "alpha": -1.0}, [_C]),
    R("nn.local_response_norm", "'beta' must not", {"size": 3, "beta": -1.0}, [_C]),
    R("nn.local_response_norm", "'bias' must not", {"size": 3, "bias": -1.0}, [_C]),
    *(case for p in (1, 2) for case in _axes(f"nn.l{p}_norm", {}, _C)),
    *(R(f"nn.l{p}_norm", "'bias' must not", {"axes": [0], "bias": -1.0}, [_C]) for p in (1, 2)),
    *(
        R(f"nn.l{p}_norm", "'epsilon' must not", {"axes": [0], "epsilon": -1.0}, [_C])
        for p in (1, 2)
    ),
    *_axes("nn.softmax", {}, _C),
]

_LINE = "real[1,4,6]"
_LAYERS: list[tuple[str, dict[str, object]]] = [
    ("'channels' must be positive", {"channels": 0}),
    ("'size' must be positive", {"size": [-1]}),
    ("'stride' must be positive", {"stride": 0}),
    ("'dilation' must be positive", {"dilation": 0}),
    ("'groups' must be positive", {"groups": 0}),
    ("input channels must be divisible", {"groups": 3}),
]
_TAPS: dict[str, object] = {"channels": 4, "size": [3]}

LAYER = [
    R("layer.linear", "'channels' must be positive", {"channels": 0}, [_M]),
    *(R("layer.conv", message, {**_TAPS, **given}, [_LINE]) for message, given in _LAYERS),
    *(R("layer.deconv", message, {**_TAPS, **given}, [_LINE]) for message, given in _LAYERS),
    R("layer.conv", "the padded input must not", {**_TAPS, "padding": 0, "dilation": 3}, [_LINE]),
    R("layer.conv", "'channels' must be divisible", {"channels": 5, "size": [3], "groups": 2},
      [_LINE]),
    R("layer.deconv", "'output_size' does not have", {**_TAPS, "output_size": [7]}, [_LINE]),
    R("layer.deconv", "the padding is larger", {**_TAPS, "padding": 5}, [_LINE]),
    R("layer.batch_norm", "'epsilon' must not", {"epsilon": -1.0}, [_LINE]),
    R("layer.batch_norm", "'momentum' must be", {"momentum": -0.5}, [_LINE]),
    R("layer.batch_norm", "'momentum' must be", {"momentum": 1.5}, [_LINE]),
]  # fmt: skip

_DRAWN: dict[str, dict[str, object]] = {"uniform": {}, "normal": {}, "bernoulli": {"prob": 0.5}}

RAND = [
    *(
        R(f"rand.{name}", "must not be negative", {"shape": [-1, -2], **given}, [])
        for name, given in _DRAWN.items()
    ),
    R("rand.uniform", "must not be less", {"shape": [2], "min": 1.0, "max": 0.5}, []),
    R("rand.draw", "must not be negative", {"shape": [-1], "min": 0.0, "max": 1.0}, ["int[]"]),
    R("rand.draw", "must not be less", {"shape": [2], "min": 1.0, "max": 0.5}, ["int[]"]),
    R("rand.normal", "'std' must not", {"shape": [2], "std": -1.0}, []),
    R("rand.bernoulli", "'prob' must be", {"shape": [2], "prob": -0.5}, []),
    R("rand.bernoulli", "'prob' must be", {"shape": [2], "prob": 1.5}, []),
]

_SAMPLED = ("nearest_downsample", "nearest_upsample", "area_downsample", "linear_upsample")
_RESIZED = ("nearest_resize", "linear_resize", "cubic_resize", "resize")
_ROIS = [_X, "real[2,4]", "int[2]"]

IMAGE = [
    *(case for n in _SAMPLED for case in _axes(f"image.{n}", {}, _C, items="factor")),
    *(R(f"image.{n}", "'factor' must be positive", {"factor": [1, 0]}, [_M]) for n in _SAMPLED),
    *(
        R(f"image.{n}_downsample", "must be divisible by 'factor'", {"factor": [2, 2]}, [_M])
        for n in ("nearest", "area")
    ),
    *(case for n in _RESIZED for case in _axes(f"image.{n}", {}, _C, items="size")),
    *_axes("image.rescale", {"factor": 1.0}, _C),
    *(R(f"image.{n}", "'size' must be positive", {"size": [1, 0]}, [_M]) for n in _RESIZED),
    R("image.rescale", "the rounded extents must be positive", {"factor": [0.2, 1.0]}, [_M]),
    *(
        R(f"image.{n}", "must have elements along", {"axes": [1], "size": 2}, ["real[2,0]"])
        for n in _RESIZED
    ),
    *(
        R(f"image.{n}", "'coordinate_transform' must be",
          {"coordinate_transform": "HALF_PIXEL", "factor" if n == "rescale" else "size": value},
          [_M])
        for n, value in [*((n, 2) for n in _RESIZED), ("rescale", 1.0)]
    ),
    *(
        R(f"image.{n}", "'rounding_method' must be", {"rounding_method": "ROUND", item: value},
          [_M])
        for n, item, value in (
            ("nearest_resize", "size", 2), ("resize", "size", 2), ("rescale", "factor", 1.0)
        )
    ),
    R("image.resize", "'mode' must be", {"size": 2, "mode": "AREA"}, [_M]),
    R("image.rescale", "'mode' must be", {"factor": 1.0, "mode": "AREA"}, [_M]),
    R("image.max_roi_pool", "'output_size' must be positive", {"output_size": [1, 0]}, _ROIS),
    R("image.avg_roi_pool", "'output_size' must be positive", {"output_size": [0, 1]}, _ROIS),
    R("image.grid_sample", "'mode' must be", {"mode": "BICUBIC"}, [_X, "real[1,5,5,2]"]),
    R("image.grid_sample", "'padding' must be", {"padding": "BORDER"}, [_X, "real[1,5,5,2]"]),
    R("image.grid_sample", "must have elements", {"padding": "REFLECT"},
      ["real[1,1,0,3]", "real[1,5,5,2]"]),
]  # fmt: skip

_ZERO: dict[str, object] = {"zero_point": 0, "scale": 1.0, "bits": 8}
_SPAN: dict[str, object] = {"min": -1.0, "max": 1.0, "bits": 8}

QUANT = [
    R("quant.zero_point_linear_quantize", "'scale' must be positive", {**_ZERO, "scale": 0.0},
      [_M]),
    R("quant.zero_point_linear_quantize", "'bits' must be positive", {**_ZERO, "bits": 0}, [_M]),
    R("quant.min_max_linear_quantize", "'bits' must be positive", {**_SPAN, "bits": 0}, [_M]),
    R("quant.min_max_linear_quantize", "'bits' must be greater than 1",
      {**_SPAN, "bits": 1, "symmetric": True}, [_M]),
    R("quant.min_max_linear_quantize", "'min' must not be greater",
      {**_SPAN, "max": [1.0, -2.0, 1.0]}, [_M]),
]  # fmt: skip

_NMS = ["real[1,5,4]", "real[1,2,5]"]

ALGO = [
    *_axis("algo.top_k", {"k": 1}, _M, outputs="y, w"),
    R("algo.top_k", "'k' must be positive", {"k": 0}, [_M], "y, w"),
    R("algo.nonmax_suppress", "'box_format' must be", {"box_format": "CORNER"}, _NMS),
    R("algo.nonmax_suppress", "'iou_threshold' must be", {"iou_threshold": 1.5}, _NMS),
    R("algo.nonmax_suppress", "'iou_threshold' must be", {"iou_threshold": -0.5}, _NMS),
    R("algo.nonmax_suppress", "'max_outputs_per_class' must not", {"max_outputs_per_class": -1},
      _NMS),
]  # fmt: skip

REJECTED = [*LAYOUT, *MATH, *LINALG, *NN, *LAYER, *RAND, *IMAGE, *QUANT, *ALGO]
