"""The sections of the specification, and where the things that are tested belong."""

from __future__ import annotations

from dataclasses import dataclass

from ricci.frontends.skriptnd.modules import STDLIB, standard_module


@dataclass(frozen=True)
class Section:
    """A section, and the operators of the library that it defines."""

    number: str
    title: str
    operators: tuple[str, ...] = ()


def _names(module: str, names: str) -> tuple[str, ...]:
    return tuple(f"{module}.{name}" for name in names.split())


SECTIONS = [
    Section("2.1", "A first glance"),
    Section("2.2", "Operator definitions"),
    Section("2.3", "Type system"),
    Section("2.4", "Expressions"),
    Section("2.4.1", "Null propagation"),
    Section("2.5", "Operator attributes"),
    Section("2.6", "Operator inputs and outputs"),
    Section("2.6.1", "Binding order of input shapes"),
    Section("2.7", "Variable and constant tensors"),
    Section("2.8", "Operator validity checking"),
    Section("2.9", "Using helper symbols for intermediate expressions"),
    Section("2.10", "Composing operators"),
    Section("2.10.1", "Control flow"),
    Section("2.11", "Updating variables"),
    Section("2.12", "Defining lower level computation"),
    Section("2.13", "Generics"),
    Section("2.14", "Quantization"),
    Section("2.15", "Modules and imports"),
    Section("2.16", "Formal grammar definition"),
    Section("3", "Graph composition"),
    Section("3.1", "Dynamic tensor shapes"),
    Section(
        "4.1.1",
        "Tensor creation operators",
        _names("layout", "constant tensor uniform range shape cast"),
    ),
    Section(
        "4.1.2",
        "Data view operators",
        _names("layout", "reshape flatten unflatten squeeze unsqueeze"),
    ),
    Section(
        "4.1.3", "Joining and splitting operators", _names("layout", "concat split stack unstack")
    ),
    Section(
        "4.1.4",
        "Dimension expanding and shrinking operators",
        _names("layout", "tile broadcast slice pad"),
    ),
    Section(
        "4.1.5",
        "Dimension reordering operators",
        _names(
            "layout",
            "transpose space_to_batch batch_to_space space_to_depth depth_to_space shuffle",
        ),
    ),
    Section(
        "4.1.6",
        "Data indexing operators",
        _names("layout", "nonzero gather gather_nd scatter scatter_nd"),
    ),
    Section(
        "4.2.1",
        "Unary element-wise operators",
        _names(
            "math",
            "iden neg rcp sqr sqrt rsqr rsqrt exp log log2 sin cos tan sinh cosh tanh asin acos"
            " atan asinh acosh atanh abs sign not floor ceil round",
        ),
    ),
    Section(
        "4.2.2",
        "Binary element-wise operators",
        _names("math", "add sub mul div mod pow min max lt gt le ge eq ne and or xor"),
    ),
    Section("4.2.3", "Ternary select operator", _names("math", "select")),
    Section(
        "4.2.4",
        "Variadic n-ary element-wise operators",
        _names("math", "sum_n prod_n min_n max_n argmin_n argmax_n any_n all_n"),
    ),
    Section("4.2.5", "Miscellaneous element-wise operators", _names("math", "axpb axpby clamp")),
    Section(
        "4.2.6",
        "Reduction operators",
        _names(
            "math",
            "min_reduce max_reduce sum_reduce prod_reduce mean_reduce lp_reduce any_reduce"
            " all_reduce argmin argmax argmin_nd argmax_nd moments",
        ),
    ),
    Section("4.3", "Linear algebra operators", _names("linalg", "dot matvec matmul outer")),
    Section("4.4.1", "Linear operators", _names("nn", "linear conv deconv")),
    Section(
        "4.4.2", "Pooling operators", _names("nn", "max_pool sum_pool avg_pool rms_pool lp_pool")
    ),
    Section(
        "4.4.3",
        "Activation functions",
        _names("nn", "relu prelu thresholded_relu elu selu gelu silu sigmoid softplus erf"),
    ),
    Section(
        "4.4.4",
        "Normalization operators",
        _names(
            "nn",
            "batch_norm mean_variance_norm local_response_norm l1_norm l2_norm softmax",
        ),
    ),
    Section("4.4.5", "Recurrent operators", _names("nn", "lstm")),
    Section(
        "4.5.1",
        "Image up/down-sampling operators",
        _names("image", "nearest_downsample nearest_upsample area_downsample linear_upsample"),
    ),
    Section(
        "4.5.2",
        "Image resize/rescale operators",
        _names("image", "nearest_resize linear_resize cubic_resize resize rescale"),
    ),
    Section("4.5.3", "ROI operators", _names("image", "max_roi_pool avg_roi_pool")),
    Section(
        "4.6",
        "Quantization operators",
        _names("quant", "zero_point_linear_quantize min_max_linear_quantize"),
    ),
    Section("4.7", "Algorithmic operators", _names("algo", "top_k nonmax_suppress")),
]


def library_operators() -> list[str]:
    """All operators of the standard library that others may invoke."""
    names = []
    for path in sorted(STDLIB.glob("*.sknd")):
        module = standard_module(path.stem)
        assert module is not None
        names += [f"{path.stem}.{o.name}" for o in module.operators if o.name[0] != "_"]
    return names


def all_sections() -> list[Section]:
    """The sections, and one per module for its operators that the specification does not have."""
    described = {name for section in SECTIONS for name in section.operators}
    later: dict[str, list[str]] = {}
    for name in library_operators():
        if name not in described:
            later.setdefault(name.split(".")[0], []).append(name)
    return [
        *SECTIONS,
        *(Section(module, "beyond the draft", tuple(names)) for module, names in later.items()),
    ]


SECTION_OF_CODE = {
    "E0101": "2.16",
    "E0102": "2.16",
    "E0103": "2.16",
    "E0104": "2.16",
    "E0201": "2.2",
    "E0202": "2.2",
    "E0203": "2.15",
    "E0204": "2.10",
    "E0205": "2.10.1",
    "E0206": "2.9",
    "E0207": "2.2",
    "E0209": "2.10",
    "E0210": "2.13",
    "E0213": "2.10",
    "E0214": "2.7",
    "E0216": "2.12",
    "E0217": "2.14",
    "E0301": "2.3",
    "E0302": "2.3",
    "E0304": "2.4.1",
    "E0305": "2.3",
    "E0306": "2.4",
    "E0307": "2.12",
    "E0401": "2.6",
    "E0403": "2.6.1",
    "E0404": "2.6",
    "E0405": "2.5",
    "E0410": "2.6",
    "E0411": "2.6",
    "E0412": "2.10",
    "E0413": "2.6",
    "E0414": "2.5",
    "E0415": "2.13",
    "E0416": "2.6",
    "E0417": "3.1",
    "E0501": "2.8",
    "E0502": "2.4",
    "E0503": "2.4",
    "E0504": "2.4",
    "E0505": "2.4",
    "E0506": "2.4",
    "E0507": "3.1",
    "E0508": "2.4",
    "E0601": "2.12",
    "E0602": "2.12",
    "E0603": "2.10",
    "E0604": "2.12",
    "E0605": "2.2",
    "E0606": "2.10",
    "E0607": "2.12",
    "E0608": "2.10.1",
    "E0609": "2.14",
    "E0901": "3",
    "E0902": "3",
    "E0903": "3",
}
"""The section that a rejected program of `tests/errors` violates, by the code of its answer."""
