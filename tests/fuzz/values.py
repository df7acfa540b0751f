"""Values that a caller may give, as texts that can be kept: arrays, and whatever is none."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ricci.dtypes import DType, to_dtype
from ricci.ir.interpret_bind import hidden_ports
from ricci.ir.nodes import Expr, Graph, Port, Symbol, Tensor, integer
from ricci.ir.rewrite import free_symbols, substitute
from ricci.ir.shapes import as_int, interval

from .work import OPEN

Sizes = dict[Symbol, int]


def draw(shape: Sequence[int], dtype: str, seed: int, *special: float) -> NDArray[Any]:
    """An array of quarters or small integers, some of which are the special values."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    array = np.asarray(rng.integers(0 if dtype.startswith("u") else -8, 9, shape))
    exact = "float64" if "float" in dtype else dtype
    array = np.asarray(array / 4 if "float" in dtype else array).astype(exact)
    with np.errstate(all="ignore"):
        for value in special:
            if array.size:
                array.reshape(-1)[rng.integers(array.size)] = np.asarray(value).astype(exact)
        return np.asarray(to_dtype(array, DType(dtype).numpy()))


class Strange:
    """An object that is no array, and whose repr is not short."""

    def __repr__(self) -> str:
        return "strange " * 100


_NAMES = {
    "np": np, "nan": float("nan"), "inf": float("inf"), "draw": draw, "Strange": Strange,
    "full": np.full, "range": range, "object": object, "set": set,
}  # fmt: skip


def evaluate(text: str) -> Any:
    """The value of a text that this module made."""
    return eval(text, {"__builtins__": {}}, _NAMES)


SCALARS = [
    "0", "1", "-1", "2", "3", "True", "False", "None", "0.5", "-0.0", "nan", "inf", "-inf", "1e308",
    "2**31", "2**63-1", "2**63", "-2**63", "-2**63-1", "10**30", "10**400", "''", "'x'", "'[1, 2]'",
    "b'x'", "1j", "np.float32(2)", "np.int8(3)", "np.bool_(True)", "np.array(3)", "np.array('a')",
    "np.datetime64('2000-01-01')", "Strange()", "{}", "set()", "'\\ud800'", "'{a}'", "range(3)",
    "np.uint64(2**64-1)", "100", "10**6", "10**9", "np.float64(nan)", "'a' * 10**5",
]  # fmt: skip


def make_value(rng: random.Random, depth: int = 0) -> str:
    """Anything that a caller may take for the value of an attribute."""
    if depth > 1 or rng.random() < 0.6:
        return rng.choice(SCALARS)
    length = rng.choice([0, 1, 1, 2, 2, 3, 4, 9])
    if rng.random() < 0.1:
        return f"[{rng.choice(SCALARS)}] * {rng.choice([100, 1000, 100000])}"
    items = [make_value(rng, depth + 1) for _ in range(length)]
    if rng.random() < 0.5:
        items = [rng.choice(["0", "1", "2", "3", "-1"]) for _ in range(length)]
    return rng.choice(["[{}]", "({})", "np.array([{}], object)"]).format(
        "".join(f"{i}, " for i in items)
    )


# -------------------------------------------------------------------------- arguments


def dtype_of(dtype: DType, real: str = "float32", int: str = "int64") -> str:
    """The name of NumPy's type."""
    return real if dtype is DType.REAL else int if dtype is DType.INT else dtype.value


def shape_of(tensor: Tensor, sizes: Mapping[Symbol, int]) -> list[int]:
    """The shape with these sizes; unknown ones are 1."""
    return [max(0, _extent(e, sizes)) for e in tensor.shape]


def _extent(expr: Expr, sizes: Mapping[Symbol, int]) -> int:
    known = {s: integer(sizes.get(s, 1)) for s in free_symbols(expr)}
    value = as_int(substitute(expr, known))
    return 1 if value is None else value


def make_calls(graph: Graph, seed: int) -> list[dict[str, str]]:
    """The arguments of one to three calls."""
    rng = random.Random(f"calls {seed}")
    return [_make_call(graph, rng) for _ in range(rng.choice([1, 1, 2, 3]))]


def _make_call(graph: Graph, rng: random.Random) -> dict[str, str]:
    """Arguments by name, of fitting shapes for the most part."""
    sizes = {s: _size(s, rng) for s in graph.symbols}
    wrong = rng.random() < 0.35
    hidden = hidden_ports(graph.inputs)
    ports = [p for p in graph.inputs if p not in hidden]
    call = {p.name: _argument(p, sizes, rng, wrong) for p in ports}
    if wrong and call and rng.random() < 0.1:
        del call[rng.choice(list(call))]
    if wrong and rng.random() < 0.05:
        call[rng.choice(["zz", "self", "args", "x y"])] = "1"
    return call


def _size(symbol: Symbol, rng: random.Random) -> int:
    bound = OPEN if symbol.bound is None else float(interval(symbol.bound)[1])
    most = int(min(bound, OPEN))
    return rng.choice([0, 1, most, most + 1, rng.randint(0, most), rng.randint(0, most)])


def _argument(port: Port, sizes: Sizes, rng: random.Random, wrong: bool) -> str:
    if not port.tensors and not port.packed:
        return rng.choice(["None", "None", "draw((2,), 'float32', 1)"])
    if not port.packed:
        return _array(port.tensors[0], sizes, rng, wrong)
    count = len(port.tensors)
    if port.length is not None or (wrong and rng.random() < 0.3):
        count = max(0, rng.choice([0, 1, count, count, count + 1, count - 1]))
    items = [_array(port.tensors[min(k, len(port.tensors) - 1)], sizes, rng, wrong)
             for k in range(count if port.tensors else 0)]  # fmt: skip
    return "[" + ", ".join(items) + "]"


def _array(tensor: Tensor, sizes: Sizes, rng: random.Random, wrong: bool) -> str:
    shape = shape_of(tensor, sizes)
    dtype = dtype_of(tensor.dtype)
    if wrong and rng.random() < 0.5:
        return make_wrong_array(shape, dtype, rng)
    special = ""
    if rng.random() < 0.4:
        kinds = _REALS if "float" in dtype else _INTS if "int" in dtype else ["True", "False"]
        special = "".join(f", {rng.choice(kinds)}" for _ in range(rng.choice([1, 2, 8])))
    return f"draw({tuple(shape)}, {dtype!r}, {rng.randrange(1000)}{special})"


_REALS = ["nan", "inf", "-inf", "3e38", "1e-45", "-0.0", "1e19", "-1e19", "0.5", "2.0**31", "0.0"]
_INTS = ["2**63-1", "-2**63", "-1", "0", "10**6", "2**31", "-2**31-1", "2**32", "100", "7", "2**62"]
_DTYPES = ["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "uint64", "bool",
           "complex64", "U3", "object"]  # fmt: skip


def make_wrong_array(shape: list[int], dtype: str, rng: random.Random) -> str:
    """Something else than an array of this shape and type."""
    draw_ = rng.random()
    if draw_ < 0.15:
        return make_value(rng)
    if draw_ < 0.5 and shape:
        axis = rng.randrange(len(shape))
        shape[axis] = max(0, shape[axis] + rng.choice([-1, 1, 1, 3, -shape[axis]]))
    elif draw_ < 0.7:
        shape = [*shape, 1] if rng.random() < 0.5 else shape[1:]
    else:
        dtype = rng.choice(_DTYPES)
    if dtype in ("complex64", "U3", "object"):
        return f"np.zeros({tuple(shape)}, {dtype!r})"
    view = rng.choice(["", "", "", "[::-1]", ".T", "[...]", ".tolist()", ".astype('>f4')"])
    return f"draw({tuple(shape)}, {dtype!r}, {rng.randrange(1000)})" + (view if shape else "")


def make_variables(graph: Graph, seed: int) -> dict[str, str]:
    """Values of the variables; now and then one has none, or another shape or type."""
    rng = random.Random(f"variables {seed}")
    given = {}
    for tensor in graph.variables:
        if rng.random() < 0.02:
            continue
        given[tensor.name] = _array(tensor, {}, rng, rng.random() < 0.05)
    return given
