"""What a program in Python uses: read a model, look at it, compile it, keep it.

In three lines:

    model = ricci.load("model.nnef2", attribs={"batch": 4})
    run = model.compile()
    output = run(input)
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .diagnostics import Diagnostic, Report, error
from .dtypes import DType
from .frontends.skriptnd import storage, syntax
from .frontends.skriptnd.attributes import AttributeValue, check_attributes
from .frontends.skriptnd.compose import compose
from .frontends.skriptnd.folder import main_text, write_model
from .frontends.skriptnd.format import DIALECTS, format_source
from .frontends.skriptnd.modules import Program, load_file, load_folder, load_text, make_source
from .frontends.skriptnd.stored_names import find_files
from .frontends.skriptnd.typing import check_program
from .frontends.skriptnd.unparse import unparse_graph
from .ir.interpret_bind import initial_value
from .ir.nodes import Graph
from .ir.text import format_graph

if TYPE_CHECKING:
    from .runtime.executable import Executable

Array = NDArray[Any]


def load(
    path: str | os.PathLike[str],
    attribs: Mapping[str, object] | None = None,
    graph: str | None = None,
    types: Mapping[str, str] | None = None,
) -> Model:
    """The model of a folder (with its `main.sknd`), or of one `.sknd` file.

    `attribs` are values of the graph's attributes, `types` of its generic types; `graph`
    chooses one by name where there are several, else the first is taken. Weights are read
    when they are first used. Raises `Error` with all that is wrong with the text.
    """
    path = Path(path)
    report = Report()
    program = _read_program(path, report)
    store = _Store(path, required=True) if path.is_dir() else _Store(path.parent)
    name = path.stem or path.absolute().stem
    return _build(program, report, _Choice(attribs or {}, graph, types or {}), store, name)


def graphs(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names of all graphs of a model folder or file, the primary one first.

    Nothing is composed, so graphs need no values for their attributes. Raises `Error` if the
    text cannot be read.
    """
    report = Report()
    program = _read_program(Path(path), report)
    report.raise_errors()
    return tuple(g.name for g in program.graphs())


def _read_program(path: Path, report: Report) -> Program:
    if not _exists(path):
        raise error("E0701", f"there is no file or folder `{path}`")
    if path.is_dir():
        return load_folder(path, report)
    _check_language(path.suffix, f"`{path}`")
    return load_file(path, report)


def parse(
    text: str,
    language: str = "skriptnd",
    attribs: Mapping[str, object] | None = None,
    graph: str | None = None,
    types: Mapping[str, str] | None = None,
) -> Model:
    """The model that a text describes; its variables have no values until they are set."""
    _check_language(language, f"language `{language}`")
    report = Report()
    program = load_text(text, "main", report)
    return _build(program, report, _Choice(attribs or {}, graph, types or {}), _Store())


def format(text: str, language: str = "skriptnd", dialect: str = "draft") -> str:
    """A program text in the formatter's form, with its comments.

    `dialect` is "draft" or "later". Raises `Error` with all syntax errors.
    """
    _check_language(language, f"language `{language}`")
    _check_choice("dialect", dialect, DIALECTS)
    return format_source(make_source(text, "main"), dialect)


@dataclass(frozen=True, slots=True)
class _Choice:
    """What a caller decides about a program: values, a graph, types."""

    attribs: Mapping[str, object]
    graph: str | None
    types: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Store:
    """The folder with the weights, if there is one, and whether they must be there."""

    folder: Path | None = None
    required: bool = False


class Variables(MutableMapping[str, Array]):
    """The weights of a model by scoped name, `main.G.kernel`.

    Those of a folder are read when the first is used. Setting one checks shape and type
    against the declaration (`Error` E0705), and copies the array.
    """

    def __init__(self, graph: Graph, store: _Store) -> None:
        self._tensors = {t.name: t for t in graph.variables}
        self._store = store
        self._initial = frozenset(t.name for t in graph.variables if t.data is not None)
        files = self._files()
        self._values: dict[str, Array] = {
            t.name: initial_value(t)
            for t in graph.variables
            if t.name in self._initial and t.name not in files
        }

    def __getitem__(self, name: str) -> Array:
        self._check_name(name)
        if name not in self._values:
            self._read()
        return self._values[name]

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

    def known(self) -> dict[str, Array]:
        """All values there are.

        A model folder must have all its weights, a single file all or none; those of a text
        are what was set.
        """
        if len(self._values) < len(self._tensors) and (self._store.required or self.stored()):
            self._read()
        return {name: self._values[name] for name in self._tensors if name in self._values}

    def _read(self) -> None:
        absent = [t for name, t in self._tensors.items() if name not in self._values]
        if self._store.folder is None:
            raise error(
                "E0704",
                f"variable `{absent[0].name}` has no value",
                absent[0].span,
                help=f"set it: model.variables[{absent[0].name!r}] = array",
            )
        self._values |= storage.read_tensors(self._store.folder, absent, self._files())

    def _check_name(self, name: str) -> None:
        if name not in self._tensors:
            known = ", ".join(self._tensors) or "none"
            raise error("E0801", f"the model has no variable `{name}`", notes=[f"it has: {known}"])


@dataclass(frozen=True, slots=True)
class Quantizer:
    """The operator that quantizes a tensor, and the attributes that it is given."""

    operator: str
    attributes: Mapping[str, Any]


class Model:
    """One graph of a program with the values of its attributes, ready to be compiled.

    `graph` is its intermediate representation (`ricci.ir.nodes.Graph`), `graphs` names all
    graphs of the program, `types` are what its generic types stand for, `warnings` are findings
    that did not prevent loading.
    """

    def __init__(
        self,
        name: str,
        program: Program,
        operator: syntax.Operator,
        graph: Graph,
        variables: Variables,
        attributes: Mapping[str, AttributeValue],
        types: Mapping[str, str],
        warnings: tuple[Diagnostic, ...],
    ) -> None:
        self.name = name
        self.program = program
        self.operator = operator
        self.graph = graph
        self.attributes = dict(attributes)
        self.types = dict(types)
        self.warnings = warnings
        self.variables = variables

    @property
    def graphs(self) -> tuple[str, ...]:
        return tuple(g.name for g in self.program.graphs())

    @property
    def quantization(self) -> dict[str, tuple[Quantizer, ...]]:
        """What `@quantize` says of each tensor, by its scoped name; nearly always one quantizer."""
        found: dict[str, tuple[Quantizer, ...]] = {}
        for tensor, operator, attributes in self.graph.quantization:
            values = {name: json.loads(text) for name, text in attributes}
            found[tensor.name] = (*found.get(tensor.name, ()), Quantizer(operator, values))
        return found

    def quantized(self) -> Model:
        """The model in which the tensors that `@quantize` names are quantized.

        The operator that it names for a tensor is invoked on it, and everything that reads the
        tensor reads the result. Variables are shared with this model. Raises `Error` E0217 for
        an operator that gives something else than a tensor of the same type and shape.
        """
        graph = compose(self.program, self.operator, self.attributes, self.types, quantize=True)
        return Model(
            self.name, self.program, self.operator, graph,
            self.variables, self.attributes, self.types, self.warnings,
        )  # fmt: skip

    def compile(
        self,
        target: str = "cpu",
        threads: int | None = None,
        real: str = "float32",
        int: str = "int64",
        quantize: bool = False,
    ) -> Executable:
        """The model as something that can be called with arrays.

        `target` is "cpu" or "interpreter" (plain NumPy, slow, the definition of meaning); `real`
        and `int` are the dtypes that stand for the abstract types; `threads` are at most that
        many (`None`: the setting RICCI_THREADS, else one per core); `quantize` compiles the
        model `quantized`. Raises `Error` if variables of a folder have no files, or an argument
        is not one of the choices.
        """
        from .runtime.executable import compile_graph

        if threads is not None and not _is_positive(threads):
            raise error(
                "E0801", f"`threads` must be a positive integer or None, not {short_repr(threads)}"
            )
        count = None if threads is None else index(threads)
        graph = self.quantized().graph if quantize else self.graph
        return compile_graph(graph, self.variables.known(), target, count, real, int)

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
        if composed:
            text = unparse_graph(self.graph, self.program)
        else:
            text = main_text(self.program, self.operator, self.attributes, self.types)
        write_model(folder, self.program, text, values)

    def show(self, stage: str, real: str = "float32", int: str = "int64") -> str:
        """The program as text at a stage: "syntax", "sknd", "ir", "loops", "llvm" or "asm".

        "syntax" is the text in the formatter's form; "sknd" what was composed as a program with
        an operator for every formula, which composes to the same graph again. The last three are
        of this machine and these dtypes; raises `Error` E0805 for what is not compiled to native
        code, or has sizes known only when it is called, E0706 for what SkriptND has no words
        for, and E0801 for an argument that is not one of the choices.
        """
        _check_choice("stage", stage, STAGES)
        _check_choice("real", real, [d.value for d in DType if d.is_real and not d.is_abstract])
        _check_choice("int", int, [d.value for d in DType if d.is_int and not d.is_abstract])
        if stage == "syntax":
            return format_source(self.program.main.source)
        if stage == "sknd":
            return unparse_graph(self.graph, self.program)
        if stage == "ir":
            return format_graph(self.graph)
        from .runtime.stages import show_stage

        return show_stage(self.graph, stage, real, int)

    def __repr__(self) -> str:
        attributes = "".join(f", {n}={v}" for n, v in self.attributes.items())
        return f"<ricci.Model {self.name}: graph {self.operator.name}{attributes}>"


def _is_positive(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) > 0


STAGES = ("syntax", "sknd", "ir", "loops", "llvm", "asm")
"""What `Model.show` shows."""


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        notes = [f"choices: {', '.join(choices)}"]
        raise error("E0801", f"`{value}` is not a choice for `{name}`", notes=notes)


def _make_array(name: str, value: ArrayLike) -> Array:
    try:
        return np.array(value)
    except ValueError as problem:  # lists of different lengths
        message = f"the value given for variable `{name}` is not an array"
        raise error("E0705", message, notes=[str(problem)]) from problem


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have, or a folder that is closed
        return False


def _check_language(name: str, shown: str) -> None:
    kind = str(name).lstrip(".").lower()
    if kind in ("sknd", "skriptnd"):
        return
    later = {"tc": "Tensor Comprehensions", "et": "Einsum Tuple"}
    notes = [f"{later[kind]} comes in a later version"] if kind in later else []
    raise error(
        "E0708",
        f"{shown} is not in a language that this version reads",
        notes=notes,
        help="it reads SkriptND: a model folder with a main.sknd, or a .sknd file",
    )


def _build(
    program: Program, report: Report, choice: _Choice, store: _Store, name: str = ""
) -> Model:
    for what, given in (("attribs", choice.attribs), ("types", choice.types)):
        if not isinstance(given, Mapping):
            raise error("E0801", f"`{what}` must be a dictionary, not {short_repr(given)}")
    check_program(program, report)
    report.raise_errors()
    operator = _choose(program, choice.graph)
    attributes = check_attributes(operator, choice.attribs, choice.types)
    graph = compose(program, operator, attributes, choice.types)
    variables = Variables(graph, store)
    warnings = tuple(report.diagnostics)
    return Model(
        name or operator.name, program, operator, graph,
        variables, attributes, choice.types, warnings,
    )  # fmt: skip


def _choose(program: Program, name: str | None) -> syntax.Operator:
    graphs = program.graphs()
    for graph in graphs:
        if name is None or graph.name == name:
            return graph
    where = program.main.source.name
    if not graphs:
        raise error("E0801", f"`{where}` defines no graph, so there is nothing to run")
    raise error(
        "E0801",
        f"`{where}` has no graph `{name}`",
        notes=[f"it has: {', '.join(g.name for g in graphs)}"],
    )
