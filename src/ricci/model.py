"""A model: one graph, where it comes from, and the values of its variables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .diagnostics import Diagnostic, error
from .dtypes import DType
from .frontends.skriptnd import storage
from .frontends.skriptnd.stored_names import find_files
from .garbage import uncollected
from .ir.interpret_bind import initial_value
from .ir.nodes import Graph, Quantization, Tensor
from .stored import Stored

if TYPE_CHECKING:
    from .frontends.skriptnd.attributes import AttributeValue
    from .frontends.skriptnd.modules import Program
    from .outline import Outline
    from .runtime.compiler_process import Compiler
    from .runtime.executable import Executable
    from .runtime.whole import Whole

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Store:
    """The folder or file that a model is from, if there is one. A folder must have its weights;
    those of a file may lie beside it."""

    path: Path | None = None
    required: bool = False

    @property
    def folder(self) -> Path | None:
        """Where the weights are."""
        return self.path if self.path is None or self.required else self.path.parent

    def bytes(self) -> int:
        """How much the folder holds, in all its files."""
        if self.folder is None or not self.required:
            return 0
        with suppress(OSError), os.scandir(self.folder) as entries:
            return sum(entry.stat().st_size for entry in entries)
        return 0


class Variables(MutableMapping[str, Array]):
    """The weights of a model by scoped name, `main.G.kernel`.

    One of a folder is read when it is first used, and its file must stay as it is until then.
    Setting one checks shape and type against the declaration (`Error` E0705), and copies the array.
    """

    def __init__(self, graph: Graph, store: Store) -> None:
        self._tensors = {t.name: t for t in graph.variables}
        self._store = store
        self._initial = frozenset(t.name for t in graph.variables if t.data is not None)
        files = self._files()
        self._values: dict[str, Array | Stored] = {
            t.name: initial_value(t)
            for t in graph.variables
            if t.name in self._initial and t.name not in files
        }

    def __getitem__(self, name: str) -> Array:
        self._check_name(name)
        if name not in self._values:
            self._open()
        value = self._values[name]
        if isinstance(value, Stored):
            value = self._values[name] = value.read()
        return value

    def __setitem__(self, name: str, value: ArrayLike) -> None:
        self._values[name] = self.fit(name, value)

    def fit(self, name: str, value: ArrayLike) -> Array:
        """A value as a variable holds it; `Error` E0705 for another shape or type."""
        self._check_name(name)
        array = _make_array(name, value)
        return storage.fit_variable(self._tensors[name], array, "the value given")

    def __delitem__(self, name: str) -> None:
        raise error("E0801", f"variable `{name}` is part of the model and cannot be deleted")

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or `default` for a name that the model does not have."""
        return self[name] if name in self._tensors else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def stored(self) -> bool:
        """Whether the folder of the model has a file for any of them."""
        return bool(self._files())

    def _files(self) -> dict[str, Path]:
        folder = self._store.folder
        return {} if folder is None else find_files(folder, list(self._tensors), self._initial)

    def known(self) -> dict[str, Array | Stored]:
        """All values there are, those of files that nobody has asked for without reading them.

        A model folder must have all its weights, a single file all or none; those of a text
        are what was set.
        """
        if len(self._values) < len(self._tensors) and (self._store.required or self.stored()):
            self._open()
        return {name: self._values[name] for name in self._tensors if name in self._values}

    def _open(self) -> None:
        absent = [t for name, t in self._tensors.items() if name not in self._values]
        folder, path = self._store.folder, self._store.path
        if folder is None or path is None:
            raise error(
                "E0704",
                f"variable `{absent[0].name}` has no value",
                absent[0].span,
                help=f"set it: model.variables[{absent[0].name!r}] = array",
            )
        self._values |= storage.open_tensors(folder, absent, self._files(), path)

    def _check_name(self, name: str) -> None:
        if name not in self._tensors:
            known = ", ".join(self._tensors) or "none"
            raise error("E0801", f"the model has no variable `{name}`", notes=[f"it has: {known}"])


@dataclass(frozen=True, slots=True)
class Quantizer:
    """The operator that quantizes a tensor, and the attributes that it is given."""

    operator: str
    attributes: Mapping[str, Any]


def _once(all_quantizers: Iterable[list[Quantizer]]) -> tuple[Quantizer, ...]:
    """The quantizers of tensors of one name; those of an unrolled loop have the same."""
    found: list[list[Quantizer]] = []
    for quantizers in all_quantizers:
        found += [] if quantizers in found else [quantizers]
    return tuple([x for quantizers in found for x in quantizers])


class Origin(Protocol):
    """The program that a graph comes from, in whichever language."""

    @property
    def language(self) -> str: ...

    @property
    def program(self) -> Program | None:
        """The program that quantizers are defined in, if it is one of SkriptND."""
        ...

    @property
    def graph_name(self) -> str: ...

    @property
    def graphs(self) -> tuple[str, ...]: ...

    @property
    def subgraphs(self) -> frozenset[str]:
        """The names of the graphs that are parts of others."""
        ...

    @property
    def attributes(self) -> Mapping[str, AttributeValue]: ...

    @property
    def types(self) -> Mapping[str, str]: ...

    @property
    def numbers(self) -> tuple[str, str]:
        """The dtypes that stand for reals and integers unless a caller says otherwise."""
        ...

    def parameters(self, graph: str) -> tuple[set[str], set[str]]:
        """The names of the attributes and of the generic types of a graph."""
        ...

    def quantized(self, graph: Graph) -> Graph: ...

    def syntax(self) -> str:
        """The text in the formatter's form."""
        ...

    def write(
        self, folder: str | os.PathLike[str], values: Mapping[str, Array], composed: Graph | None
    ) -> None:
        """Write a model folder: of the program, or of what was composed."""
        ...


class Model:
    """One graph of a program with the values of its attributes, ready to be compiled.

    `graph` is its intermediate representation (`ricci.ir.nodes.Graph`), `graphs` names all
    graphs of the program (in Tensor Comprehensions its functions), `types` are what its generic
    types stand for, `warnings` are findings that did not prevent loading.
    """

    graph: Graph
    origin: Origin
    attributes: dict[str, AttributeValue]
    types: dict[str, str]
    _noted: tuple[Quantization, ...]

    _outline: Outline | None = None
    """What is known of the graph from an earlier process."""
    _compose: Callable[[], Model]
    """Makes the model if there is an outline alone."""
    _compiler: Compiler | None = None
    """A process that has composed the model, if it has just been kept."""
    keep: Callable[[Graph, str], None] | None = None
    """What is to be done with the graph and the hash of its text when it has been compiled."""

    def __init__(
        self,
        name: str,
        origin: Origin,
        graph: Graph,
        variables: Variables,
        warnings: tuple[Diagnostic, ...],
    ) -> None:
        self.name = name
        self.origin = origin
        self.graph = graph
        self.attributes = dict(origin.attributes)
        self.types = dict(origin.types)
        self.warnings = warnings
        self.variables = variables
        self._noted = graph.quantization

    @classmethod
    def outlined(
        cls,
        name: str,
        outline: Outline,
        variables: Variables,
        compose: Callable[[], Model],
        compiler: Compiler | None = None,
    ) -> Model:
        """A model that is composed only when somebody asks for more than an outline says; a
        process may have done so already."""
        model = cls.__new__(cls)
        model.name, model.variables, model.warnings = name, variables, ()
        model._outline, model._compose, model._compiler = outline, compose, compiler
        return model

    def __getattr__(self, name: str) -> Any:
        """What composing gives, of a model that was not composed."""
        if name not in _COMPOSED or self.__dict__.get("_outline") is None:
            raise AttributeError(f"a model has no attribute `{name}`")
        made = self._compose()
        self.__dict__.update((n, made.__dict__[n]) for n in _COMPOSED)
        self._outline = None
        return self.__dict__[name]

    def _with(self, graph: Graph) -> Model:
        """This model with another graph."""
        model = copy(self)
        model.graph, model.keep = graph, None
        return model

    @property
    def language(self) -> str:
        return self.origin.language

    @property
    def graph_name(self) -> str:
        return self.origin.graph_name

    @property
    def graphs(self) -> tuple[str, ...]:
        return self.origin.graphs

    @property
    def quantization(self) -> dict[str, tuple[Quantizer, ...]]:
        """What `@quantize` says of each tensor, by its scoped name; nearly always one quantizer."""
        found: dict[str, dict[Tensor, list[Quantizer]]] = {}
        for entry in self._noted:
            values = {name: json.loads(text) for name, text in entry.attributes}
            quantizers = found.setdefault(entry.name, {}).setdefault(entry.tensor, [])
            quantizers.append(Quantizer(entry.operator, values))
        return {name: _once(tensors.values()) for name, tensors in found.items()}

    def quantized(self) -> Model:
        """The model in which the tensors that `@quantize` names are quantized.

        The operator that it names for a tensor is invoked on it, and everything that reads the
        tensor reads the result. Variables are shared with this model. Raises `Error` E0217 for
        an operator that gives something else than a tensor of the same type and shape.
        """
        return self._with(self.origin.quantized(self.graph))

    def gradient(
        self, wrt: Sequence[str] | None = None, outputs: Sequence[str] | None = None
    ) -> Model:
        """The model of the gradients of this one, derived from its formulas.

        It takes the inputs of this model and, for each real output `y` in `outputs`, a gradient
        `d_y` with respect to it; it gives a gradient `d_x` for each real input or variable `x` in
        `wrt`. None of either name means all. Raises `Error` E0801 for a name that is not there or
        not real, E0805 for what has no gradient.
        """
        from .passes.gradient import gradient_graph

        return self._with(gradient_graph(self.graph, wrt, outputs))

    @uncollected()
    def compile(
        self,
        target: str = "cpu",
        threads: int | None = None,
        real: str | None = None,
        int: str | None = None,
        quantize: bool = False,
        options: object = None,
    ) -> Executable:
        """The model as something that can be called with arrays.

        `target` is "cpu", this machine, "interpreter" (plain NumPy, slow, the definition of
        meaning), or a processor that this machine can stand for, such as "x86-64-v3"; `real`
        and `int` are the dtypes that stand for the abstract types (`None`: float32 and int64; of an
        Einsum Tuple program float64 and int32); `threads` are at most that many (`None`: the
        setting RICCI_THREADS, else one per core); `quantize` compiles the model `quantized`.
        `options` say how kernels are computed: "tuned" as tuning has found best, else
        `ricci.tc.Options` or the same as a dictionary. Raises `Error` if variables of a folder
        have no files, or an argument is not one of the choices.
        """
        from .runtime.executable import compile_graph
        from .runtime.whole import Whole

        outline = self._outline if options is None and target != "interpreter" else None
        if outline is not None and not quantize:
            graph = outline.graph
            there = self.__dict__.pop("_compiler", None)  # of several threads one gets it
            whole = Whole(lambda: self.graph, outline.digest, there)
        else:
            graph = self.quantized().graph if quantize else self.graph
            whole = Whole(lambda: graph)
        real, int = self.numbers(real, int)
        needed = {t.name for t in graph.variables}
        known = {n: value for n, value in self.variables.known().items() if n in needed}
        made = compile_graph(graph, known, target, threads, real, int, options=options, whole=whole)
        if not quantize and target != "interpreter":
            self._keep(graph, whole)
        return made

    def kept(self) -> Graph | None:
        """The graph, if what a later process needs of it can be kept, and is now."""
        from .runtime.whole import Whole

        if self.keep is None:
            return None
        self._keep(self.graph, Whole(lambda: self.graph))
        return self.graph

    def _keep(self, graph: Graph, whole: Whole) -> None:
        if self.keep is not None:
            self.keep(graph, whole.digest)
            self.keep = None

    def build(
        self,
        directory: str | os.PathLike[str],
        name: str | None = None,
        target: str = "cpu",
        threads: int = 1,
        real: str | None = None,
        int: str | None = None,
        sizes: Mapping[str, int] | None = None,
        weights: str = "auto",
        force: bool = False,
        quantize: bool = False,
        options: object = None,
    ) -> tuple[Path, ...]:
        """Write the model as an object file that runs without Python, with a header and an example.

        Gives the paths of `NAME.o`, `NAME.h`, `example.c` and, where the constants stand apart,
        `NAME.weights`: with `weights` "file", not with "embedded", and with "auto" if they are
        large. Functions begin with `name`, by default that of the graph. `sizes` fixes open ones;
        others are arguments of a call. A model that is made from the object has up to `threads`.
        `target` is the processor, "cpu" this one; the rest is as in `compile`.

        Raises `Error` E0801 for an argument that is not one of the choices, E0805 for sizes that
        need a value, E0707 for files that are there (but with `force`) or cannot be written.
        """
        from .ahead.build import build_graph

        real, int = self.numbers(real, int)
        graph = self.quantized().graph if quantize else self.graph
        needed = {t.name for t in graph.variables}
        known = {n: value for n, value in self.variables.known().items() if n in needed}
        return build_graph(
            graph,
            known,
            directory,
            name,
            target,
            threads,
            real,
            int,
            sizes,
            weights,
            force,
            options,
        )

    def save(
        self,
        folder: str | os.PathLike[str],
        variables: Mapping[str, ArrayLike] | None = None,
        composed: bool = False,
    ) -> None:
        """Write the program and all variables as a model folder that loads as this model.

        `variables` replace those of the model, such as `executable.variables` after calls that
        updated them. Comments and modules are kept; attributes and types given at loading become
        the defaults, and the graph the first one. `composed` writes the graph as it was composed
        instead (stage "sknd" of `show`), which holds any values. Raises `Error` E0707 if a file
        cannot be written, E0704 if a variable has no value, E0706 if an optional attribute has
        one, since the text has no place for it, or for what a text cannot say.
        """
        given = {n: self.variables.fit(n, v) for n, v in (variables or {}).items()}
        values = {n: given[n] if n in given else self.variables[n] for n in self.variables}
        self.origin.write(folder, values, self.graph if composed else None)

    def show(
        self,
        stage: str,
        real: str | None = None,
        int: str | None = None,
        sizes: Mapping[str, int] | None = None,
        target: str = "cpu",
        kernel: str | None = None,
    ) -> str:
        """The program as text at a stage: "syntax", "sknd", "ir", "loops", "llvm" or "asm".

        "syntax" is the text in the formatter's form; "sknd" what was composed as a program with
        an operator for every formula, which composes to the same graph again. The last three are
        of a target ("cpu" is this machine), these dtypes, and the values of open `sizes`, and of
        one `kernel` alone if that is a number, or of those that a pattern of names means. Raises
        `Error` E0805 for what is not compiled to native code, or has sizes known only when it is
        called, E0706 for what SkriptND has no words for, and E0801 for an argument that is not one
        of the choices.
        """
        real, int = self.numbers(real, int)
        check_choice("stage", stage, STAGES)
        check_choice("real", real, [d.value for d in DType if d.is_real and not d.is_abstract])
        check_choice("int", int, [d.value for d in DType if d.is_int and not d.is_abstract])
        if stage == "syntax":
            return self.origin.syntax()
        if stage == "sknd":
            from .convert import to_skriptnd
            from .frontends.skriptnd.unparse import unparse_graph

            program = self.origin.program
            return unparse_graph(self.graph, program) if program else to_skriptnd([self.graph])
        if stage == "ir":
            from .ir.text import format_graph

            return format_graph(self.graph)
        from .runtime.stages import show_stage

        return show_stage(self.graph, stage, real, int, sizes or {}, target, kernel)

    def numbers(self, real: str | None = None, int: str | None = None) -> tuple[str, str]:
        """The dtypes that stand for the abstract types, with the language's for `None`."""
        usual = self.origin.numbers if self._outline is None else self._outline.numbers
        return real or usual[0], int or usual[1]

    def __repr__(self) -> str:
        attributes = "".join(f", {n}={v}" for n, v in self.attributes.items())
        return f"<ricci.Model {self.name}: graph {self.graph_name}{attributes}>"


_COMPOSED = ("origin", "graph", "attributes", "types", "_noted")
"""The attributes of a model that are there when it has been composed."""

STAGES = ("syntax", "sknd", "ir", "loops", "llvm", "asm")
"""What `Model.show` shows."""


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        notes = [f"choices: {', '.join(choices)}"]
        raise error("E0801", f"`{value}` is not a choice for `{name}`", notes=notes)


def _make_array(name: str, value: ArrayLike) -> Array:
    try:
        return np.array(value)
    except ValueError as problem:  # lists of different lengths
        message = f"the value given for variable `{name}` is not an array"
        raise error("E0705", message, notes=[str(problem)]) from problem
