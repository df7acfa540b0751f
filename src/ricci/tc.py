"""Tensor Comprehensions from Python: write a formula, call it with arrays.

    mm = ricci.tc.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
    c = mm.mm(a, b)

The language is described in docs/tensor-comprehensions.md.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .diagnostics import Diagnostic, Report, error
from .dtypes import BFLOAT16, DType, from_bfloat16, name_of, to_dtype
from .frontends.reading import make_source
from .frontends.tc import origin as origins
from .frontends.tc import syntax
from .frontends.tc.canonical import canonical as canonical_form
from .frontends.tc.parser import parse_unit
from .frontends.tc.printer import format_source, format_unit
from .ir.interpret_block import Store
from .ir.nodes import Expr, Graph, Symbol, Tensor
from .ir.shapes import as_int, evaluate
from .ir.text_print import format_expr
from .records import cached_property
from .runtime.arguments import Array, PortInfo, to_numpy, to_write
from .runtime.executable import Executable, check_execution, compile_graph
from .runtime.options import Options, as_options
from .runtime.signature import check_shapes
from .runtime.tuning import Progress, tune
from .runtime.tuning_result import Tuned

__all__ = [
    "Comprehension",
    "Comprehensions",
    "Options",
    "Spec",
    "Tuned",
    "assert_almost_equal",
    "autotune",
    "canonical",
    "compile",
    "define",
    "format",
    "infer",
    "parse",
]


@dataclass(frozen=True, slots=True)
class Spec:
    """An array that is not there yet: a shape, and a dtype if it is to be compared."""

    shape: tuple[int, ...]
    dtype: str | None = None


def define(
    text: str, *, threads: int | None = None, target: str = "cpu", options: object = None
) -> Comprehensions:
    """The functions of a text, each an attribute that can be called.

    A function is compiled when it is first called with arrays of certain shapes and strides.
    `target` is "cpu" or "interpreter", `threads` at most so many (`None`: one per core). `options`
    say how kernels are computed: "tuned" as `autotune` has found best, else `Options`, or the same
    as a dictionary. Raises `Error` with all that is wrong with the text.
    """
    check_execution(target, threads)
    report = Report()
    origin = origins.read(make_source(text, "tc"), report)
    return Comprehensions(origin, tuple(report.diagnostics), target, threads, as_options(options))


def compile(
    text: str,
    entry: str,
    *arrays: object,
    threads: int | None = None,
    target: str = "cpu",
    options: object = None,
) -> Comprehension:
    """One function of a text, compiled for arrays like these: arrays, shapes, or `Spec`s.

    Raises `Error` if the text, the entry or the shapes are wrong.
    """
    function = define(text, threads=threads, target=target, options=options)[entry]
    function.prepare(*arrays)
    return function


def autotune(
    text: str,
    entry: str,
    *arrays: object,
    seconds: float = 30.0,
    threads: int | None = None,
    file: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    options: object = None,
) -> Tuned:
    """Try schedules for a function, called with arrays like these, and keep the best.

    `arrays` are arrays, or shapes or `Spec`s for which some are drawn: normal reals, integers 0
    and 1. After about `seconds`, or a `KeyboardInterrupt`, what is best is kept in `file` (`None`:
    the setting RICCI_TUNING_FILE), where all processes find it that define the function with
    `options="tuned"`. `progress` is called with the share of the time that is over and the name of
    a kernel. `options` may hold schedules to begin with.

    The result are options as well: `define(text, options=autotune(...))`. Raises `Error` for a
    wrong text, entry or arguments, E0707 and E0710 for a file that cannot be used.
    """
    return define(text)[entry]._autotune(
        arrays, seconds, threads, None if file is None else Path(file), progress, options
    )


def infer(text: str, entry: str, *shapes: object) -> dict[str, list[tuple[Any, Any]]]:
    """The inferred ranges of the tensors that a function computes: (minimum, extent) by dimension.

    Numbers if the shapes of all parameters are given (as tuples or arrays), else texts such as
    `"M - KH + 1"` where it is not a number whatever the sizes.
    """
    return define(text)[entry].infer(*shapes)


def parse(text: str) -> syntax.Unit:
    """The tree of a text, as it was written; `str` of it is not the text: see `format`."""
    report = Report()
    unit = parse_unit(make_source(text, "tc"), report)
    report.raise_errors()
    return unit


def canonical(text: str, entry: str) -> str:
    """A function with all names replaced: the same for functions that differ in names alone."""
    for function in parse(text).functions:
        if function.name.name == entry:
            return canonical_form(function)
    raise error("E0801", f"there is no function `{entry}`")


def format(text: str | syntax.Unit) -> str:
    """A text in the formatter's form, with its comments; or a tree as a text."""
    if isinstance(text, syntax.Unit):
        return format_unit(text)
    return format_source(make_source(text, "tc"))


class Comprehensions(Mapping[str, "Comprehension"]):
    """The functions of a text by name: attributes and items."""

    def __init__(
        self,
        origin: origins.Origin,
        warnings: tuple[Diagnostic, ...],
        target: str,
        threads: int | None,
        options: Options,
    ) -> None:
        self.warnings = warnings
        self._functions = {
            name: Comprehension(origin.choose(name), target, threads, options)
            for name in origin.graphs
        }

    def __getitem__(self, name: str) -> Comprehension:
        if name not in self._functions:
            known = ", ".join(self._functions)
            raise error("E0801", f"there is no function `{name}`", notes=[f"there is: {known}"])
        return self._functions[name]

    def __getattr__(self, name: str) -> Comprehension:
        if name.startswith("_") and name not in self.__dict__.get("_functions", {}):
            raise AttributeError(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __repr__(self) -> str:
        return f"<ricci.tc.Comprehensions {', '.join(self._functions)}>"


class Comprehension:
    """A function that can be called with arrays.

    It takes NumPy arrays, PyTorch tensors on the CPU, and whatever has `__dlpack__` or
    `__array__`; elements are of the declared types, and strides are arbitrary: arrays are read
    where they are, unless they go backwards or are not aligned. It gives an array, or a named tuple
    of several: PyTorch tensors if an argument was one, else NumPy arrays; of bfloat16 in the dtype
    of the package `ml_dtypes`, or in float32 without it. `out` are arrays to write to instead, one
    per result: what an accumulation without `!` goes on from. `unchecked` does not look at dtypes
    where an earlier call had NumPy arrays of the same shapes and strides.

    Raises `Error`: E0801 wrong arguments, E0804 sizes that do not agree, E0501 sizes for which an
    index is out of range, E0802 an index from data that is out of range.
    """

    def __init__(
        self, origin: origins.Origin, target: str, threads: int | None, options: Options
    ) -> None:
        self.name = origin.graph_name
        self._options = options
        self._origin = origin
        self._target = target
        self._threads = threads

    @cached_property
    def graph(self) -> Graph:
        """The function in the intermediate representation, open in its sizes."""
        return self._lowered[0]

    @cached_property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Findings of the inference of ranges."""
        return tuple(self._lowered[1].diagnostics)

    @cached_property
    def _lowered(self) -> tuple[Graph, Report]:
        return self._origin.lower()

    @cached_property
    def _executable(self) -> Executable:
        return self._compiled(self.graph)

    @cached_property
    def _accumulated(self) -> tuple[str, ...]:
        """The results whose arrays are read if the caller passes them."""
        return self._origin.accumulated()

    @cached_property
    def _accumulating(self) -> Executable:
        return self._compiled(self._origin.lower(frozenset(self._accumulated))[0])

    def _compiled(self, graph: Graph) -> Executable:
        return compile_graph(
            graph, {}, self._target, self._threads, strided=True, options=self._options
        )

    @property
    def inputs(self) -> tuple[PortInfo, ...]:
        return self._executable.inputs

    @property
    def outputs(self) -> tuple[PortInfo, ...]:
        return self._executable.outputs

    def __call__(
        self, /, *args: object, out: object = None, unchecked: bool = False, **kwargs: object
    ) -> Any:
        if out is not None:
            return self._into(out, args, kwargs)
        if unchecked and not kwargs:
            return self._executable.unchecked(args)
        return self._executable(*args, **kwargs)

    def _into(self, out: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        given = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if not kwargs and self._executable.into_again(given, args):
            return out
        ports = self.outputs
        if len(given) != len(ports):
            raise error(
                "E0801",
                f"`{self.name}` needs {len(ports)} array{'s' * (len(ports) != 1)} for its results, "
                f"and {len(given)} were given",
            )
        arrays = [to_write(a, f"output `{p.name}`") for a, p in zip(given, ports, strict=True)]
        sources = [to_numpy(a, "an argument") for a in (*args, *kwargs.values())]
        before = [a for a, p in zip(arrays, ports, strict=True) if p.name in self._accumulated]
        targets = [_own(a, [*sources, *arrays[:k]]) for k, a in enumerate(arrays)]
        if before:
            named = dict(zip(self._accumulated, [a.copy() for a in before], strict=True))
            self._accumulating.into(targets, *args, **named, **kwargs)
        else:
            self._executable.into(targets, *args, **kwargs)
            if not kwargs and all(map(operator.is_, arrays, targets)):
                self._executable.remember_into(given, targets, args)
        for array, target in zip(arrays, targets, strict=True):
            if array is not target:
                np.copyto(array, target)
        return out

    def prepare(self, *arrays: object) -> None:
        """Compile for arrays like these now: arrays, shapes, or `Spec`s."""
        shapes = self._shapes(arrays)
        self._executable.prepare(shapes)

    def gradient(
        self, wrt: Sequence[str] | None = None, outputs: Sequence[str] | None = None
    ) -> Executable:
        """The gradients of this function, derived from its statements.

        Called with its arguments and, for each real result `y` in `outputs`, a gradient `d_y` with
        respect to it; gives a gradient `d_x` for each real parameter `x` in `wrt`. None of either
        name means all. `ricci.torch.custom_op` trains through them.
        """
        from .passes.gradient import gradient_graph

        return self._compiled(gradient_graph(self.graph, wrt, outputs))

    def _autotune(
        self,
        arrays: Sequence[object],
        seconds: float,
        threads: int | None,
        file: Path | None,
        progress: Progress | None,
        options: object,
    ) -> Tuned:
        shapes = self._shapes(arrays)
        rng = np.random.default_rng(0)
        ports = zip(arrays, self.graph.inputs, shapes, strict=True)
        given = [
            _drawn(port.tensors[0], shape, rng) if isinstance(a, (Spec, tuple, list)) else a
            for a, port, shape in ports
        ]
        return tune(
            self.graph, {}, given, {}, seconds=seconds, threads=threads, strided=True, file=file,
            options=as_options(options), progress=progress,
        )  # fmt: skip

    def infer(self, *shapes: object) -> dict[str, list[tuple[Any, Any]]]:
        """The ranges of what is computed: see `ricci.tc.infer`."""
        ranges = self._origin.ranges()
        sizes = self._sizes(self._shapes(shapes)) if shapes else None

        def number(expr: Expr) -> int | str:
            if sizes is not None:
                return evaluate(expr, sizes)
            value = as_int(expr)
            return format_expr(expr) if value is None else value

        return {
            v.name: [(number(r.minimum), number(r.extent)) for r in ranges.of_tensor(v)]
            for v in self._origin.computed()
        }

    def _shapes(self, arrays: Sequence[object]) -> list[tuple[int, ...]]:
        ports = self.graph.inputs
        if len(arrays) != len(ports):
            raise error(
                "E0801", f"`{self.name}` takes {len(ports)} inputs, and {len(arrays)} were given"
            )
        return [_shape(a, p.tensors[0], p.name) for a, p in zip(arrays, ports, strict=True)]

    def _sizes(self, shapes: Sequence[tuple[int, ...]]) -> Mapping[Symbol, int]:
        store = Store()
        for port, shape in zip(self.graph.inputs, shapes, strict=True):
            store.arrays[port.tensors[0]] = np.empty(shape, port.tensors[0].dtype.numpy())
        check_shapes(self.graph, store)
        return store.symbols

    def __repr__(self) -> str:
        return f"<ricci.tc.Comprehension {self.name}>"


def assert_almost_equal(
    actual: object,
    expected: object,
    *inputs: object,
    operations: int = 1,
    precision: float | None = None,
) -> None:
    """Raise `AssertionError` unless two arrays differ by no more than rounding explains.

    An element may differ by `operations * precision * scale`: `operations` are those that are
    accumulated into an element, `precision` is the relative error of one (`None`: the spacing of
    numbers of `actual`'s dtype near 1), `scale` the largest magnitude in `inputs`, or in
    `expected` if none are given, but at least 1. Elements that are not finite must be the same.
    """
    have, want = (_plain(a, "an array to compare") for a in (actual, expected))
    if have.shape != want.shape:
        raise AssertionError(f"shape {list(have.shape)} is not {list(want.shape)}")
    if precision is None:
        precision = _precision(to_numpy(actual, "an array to compare").dtype)
    arrays = [_plain(a, "an input") for a in inputs] or [want]
    scale = max(1.0, *[float(np.abs(a[np.isfinite(a)]).max(initial=0)) for a in arrays])
    wide, exact = have.astype(np.float64), want.astype(np.float64)
    limit = operations * precision * scale
    with np.errstate(invalid="ignore"):
        close = np.abs(wide - exact) <= limit
    close |= (wide == exact) | (np.isnan(wide) & np.isnan(exact))
    if not close.all():
        at = tuple(map(int, np.unravel_index(int(np.argmin(close)), close.shape)))
        raise AssertionError(
            f"{int(close.size - close.sum())} of {close.size} elements differ by more than "
            f"{limit:.3g}; the first, at {list(at)}, is {have[at]} and should be {want[at]}"
        )


def _plain(value: object, what: str) -> Array:
    """An array-like object as an array of a dtype that NumPy computes with."""
    array = to_numpy(value, what)
    return from_bfloat16(array) if array.dtype == BFLOAT16 else array


def _precision(dtype: np.dtype[Any]) -> float:
    """The spacing of numbers of a dtype near 1; none of integers."""
    if dtype == BFLOAT16:
        return 2.0**-7
    return float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0


def _shape(array: object, tensor: Tensor, name: str) -> tuple[int, ...]:
    """The shape that an argument, a `Spec` or a tuple stands for, and its dtype if it has one."""
    dtype = None
    if isinstance(array, Spec):
        shape, dtype = tuple(array.shape), _dtype_name(array.dtype, name)
    elif isinstance(array, (tuple, list)):
        shape = tuple(array)
    else:
        made = to_numpy(array, f"input `{name}`")
        shape, dtype = made.shape, name_of(made.dtype)
    if not all(isinstance(n, (int, np.integer)) and n >= 0 for n in shape):
        raise error("E0801", f"the shape for input `{name}` is not one", notes=[f"got {shape}"])
    if len(shape) != tensor.rank:
        raise error(
            "E0801",
            f"input `{name}` has the wrong number of dimensions",
            notes=[f"expected {tensor.rank}", f"got {len(shape)}"],
        )
    if dtype is not None and dtype != tensor.dtype.value:
        raise error(
            "E0801",
            f"input `{name}` has the wrong element type",
            notes=[f"expected {tensor.dtype}", f"got {dtype}"],
        )
    return tuple(map(int, shape))


def _dtype_name(dtype: str | None, name: str) -> str | None:
    """The dtype of a `Spec`, which may be spelled as NumPy spells it."""
    if dtype is None or dtype == DType.BFLOAT16.value:
        return dtype
    try:
        return np.dtype(dtype).name
    except TypeError:
        notes = [f"got {dtype!r}"]
        raise error("E0801", f"the dtype for input `{name}` is not one", notes=notes) from None


def _drawn(tensor: Tensor, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Normal reals; integers 0 and 1, which may index; fair bools."""
    if tensor.dtype.is_real:
        return to_dtype(rng.standard_normal(shape, np.float32), tensor.dtype.numpy())
    return rng.integers(0, 2, shape).astype(tensor.dtype.numpy())


def _own(array: Array, others: Sequence[Array]) -> Array:
    """Where to write the elements of an array: itself if it can be, else a new one."""
    if not (array.flags.c_contiguous and array.flags.aligned):
        return np.empty(array.shape, array.dtype)
    if any(np.may_share_memory(array, other) for other in others):
        return np.empty_like(array)
    return array
