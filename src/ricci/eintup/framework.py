"""The call line of a program: a function of a framework, called with the program's arrays.

A name is looked up attribute by attribute, from the framework's module on, and only in modules of
that framework; nothing is evaluated as Python. Names of what works on files, code or settings are
refused.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from ..diagnostics import Error, error
from ..dtypes import BFLOAT16
from ..frontends.eintup import syntax as s
from ..frontends.eintup.program import Configuration, Program
from ..frontends.suggest import did_you_mean
from ..runtime.arguments import Array, to_numpy
from .constants import dims_of, rank_of

_LONGEST = 400
"""Characters of what a framework says about a call that fails."""

_FORBIDDEN = re.compile(
    r"(?i).*(file|save|load|dump|serialize|restore|checkpoint|memmap|txt|datasource).*"
    r"|testing|f2py|hub|io|utils|distributed|multiprocessing|jit|package|ctypeslib|compile"
    r"|test|app|data|applications|onnx|export|fromregex"
    r"|set_.*|seterr.*|setflags|config|(manual_)?seed"
)
"""Names of what works on files, code or settings, not on arrays."""


class CallFailed(Exception):
    """What a framework said instead of giving results."""


@dataclass(frozen=True, slots=True)
class Framework:
    """A library that programs are compared with."""

    title: str
    package: str
    """What is imported first, and what there is to install."""
    owners: tuple[str, ...]
    """The packages in whose modules names are looked up."""
    tensor: Callable[[Any, Array], object]
    """Makes a tensor of an array, with the imported package."""
    context: Callable[[Any], AbstractContextManager[object]] = lambda package: nullcontext()
    """What calls run in."""


def _wide(jax: Any) -> AbstractContextManager[Any]:
    """Numbers of 64 bits, which JAX has only if one asks for them."""
    owner = jax if hasattr(jax, "enable_x64") else import_module("jax.experimental")
    made: AbstractContextManager[Any] = owner.enable_x64(True)
    return made


_TENSORFLOW = Framework(
    "TensorFlow", "tensorflow", ("tensorflow", "keras", "tf_keras"), lambda tf, a: tf.constant(a)
)
_PYTORCH = Framework("PyTorch", "torch", ("torch",), lambda torch, a: torch.from_numpy(a.copy()))
_NUMPY = Framework("NumPy", "numpy", ("numpy",), lambda numpy, a: a.copy())
_JAX = Framework("JAX", "jax", ("jax",), lambda jax, a: jax.numpy.asarray(a), _wide)

_ROOTS = {
    "tf": (_TENSORFLOW, "tensorflow"),
    "torch": (_PYTORCH, "torch"),
    "np": (_NUMPY, "numpy"),
    "numpy": (_NUMPY, "numpy"),
    "jnp": (_JAX, "jax.numpy"),
    "jax": (_JAX, "jax"),
}
"""The first part of a name: its framework, and the module that it stands for."""


class Oracle:
    """The call of a program, with all its names looked up."""

    def __init__(self, program: Program, call: s.Call) -> None:
        """Raises `Error` E0203 for a framework or name that is not there, E0204 for one that
        cannot be called, E0202 for an argument that is given twice."""
        self._program = program
        self._call = call
        self._found = {name: _look_up(name) for name in _names(call)}
        for inner in _calls(call):
            if not callable(self._found[inner.function]):
                shown = ".".join(inner.function.parts)
                raise error("E0204", f"`{shown}` is not a function", inner.function.span)
            _check_names(inner)
        self.arrays = tuple(dict.fromkeys(_arrays(call)))
        """The names of the arrays that the call reads."""

    def run(self, configuration: Configuration, arrays: Mapping[str, Array]) -> list[Array]:
        """The results of the call; raises `CallFailed` if the framework does."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with _framework(self._call.function).context(_package(self._call.function)):
                value = _Run(self, configuration, arrays).call(self._call)
                return [_as_array(result) for result in _several(value)]

    def program(self) -> Program:
        return self._program

    def meaning(self, name: s.QualifiedName) -> Any:
        return self._found[name]


@dataclass(frozen=True, slots=True)
class _Run:
    """One evaluation of a call."""

    oracle: Oracle
    configuration: Configuration
    given: Mapping[str, Array]

    def call(self, call: s.Call) -> object:
        function = call.function
        values = [(name, self._argument(a, function)) for name, a in call.arguments]
        plain = [value for name, value in values if name is None]
        named = {name.name: value for name, value in values if name is not None}
        try:
            return self.oracle.meaning(function)(*plain, **named)
        except (Exception, SystemExit) as problem:
            raise CallFailed(_said(problem)) from None

    def _argument(self, argument: s.Argument, function: s.QualifiedName) -> object:
        match argument:
            case s.Identifier():
                return _tensor(function, self.given[argument.name])
            case s.TensorOf():
                numbers = np.array(self._argument(argument.value, function))
                return _tensor(function, _narrow(numbers))
            case s.Constant():
                return argument.value
            case s.QualifiedName():
                return self.oracle.meaning(argument)
            case s.Call():
                return _adopted(self.call(argument), argument.function, function)
            case s.Item():
                return self._item(argument, function)
            case s.Dims():
                return list(dims_of(argument.items, self.oracle.program(), self.configuration))
            case s.Rank():
                return rank_of(argument.items, self.oracle.program(), self.configuration)

    def _item(self, item: s.Item, function: s.QualifiedName) -> object:
        several: Any = self._argument(item.value, function)
        try:
            return several[item.at]
        except Exception as problem:
            raise CallFailed(f"item [{item.at}]: {_said(problem)}") from None


# ---------------------------------------------------------------------- names


def _arguments(call: s.Call) -> Iterator[s.Argument]:
    """All arguments, those of inner calls too."""
    for _, argument in call.arguments:
        yield argument
        inner = argument.value if isinstance(argument, s.Item | s.TensorOf) else argument
        if isinstance(inner, s.Item):
            inner = inner.value
        if isinstance(inner, s.Call):
            yield inner
            yield from _arguments(inner)


def _calls(call: s.Call) -> list[s.Call]:
    return [call, *(a for a in _arguments(call) if isinstance(a, s.Call))]


def _names(call: s.Call) -> list[s.QualifiedName]:
    names = [a for a in _arguments(call) if isinstance(a, s.QualifiedName)]
    return [*(c.function for c in _calls(call)), *names]


def _check_names(call: s.Call) -> None:
    seen: set[str] = set()
    for name, _ in call.arguments:
        if name is not None and name.name in seen:
            raise error("E0202", f"the argument `{name.name}` is given twice", name.span)
        seen |= {name.name} if name is not None else set()


def _arrays(call: s.Call) -> list[str]:
    return [a.name for a in _arguments(call) if isinstance(a, s.Identifier)]


def _framework(name: s.QualifiedName) -> Framework:
    return _ROOTS[name.parts[0]][0]


def _package(name: s.QualifiedName) -> ModuleType:
    return sys.modules[_framework(name).package]


def _look_up(name: s.QualifiedName) -> object:
    """What a qualified name stands for."""
    root = name.parts[0]
    if root not in _ROOTS:
        raise error(
            "E0203",
            f"there is no framework `{root}`",
            name.span,
            notes=[f"frameworks: {', '.join(_ROOTS)}"],
            help=did_you_mean(root, _ROOTS),
        )
    framework, module = _ROOTS[root]
    value: object = _import(framework, module, name)
    for k, part in enumerate(name.parts[1:], 1):
        value = _attribute(value, part, ".".join(name.parts[:k]), framework, name)
    return value


def _import(framework: Framework, module: str, name: s.QualifiedName) -> ModuleType:
    if framework is _TENSORFLOW:  # it writes to stderr as it starts, unless told not to
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    try:
        import_module(framework.package)
        return import_module(module)
    except ImportError as problem:
        absent = isinstance(problem, ModuleNotFoundError) and problem.name == framework.package
        raise error(
            "E0203",
            f"{framework.title}, which the call needs, is not installed"
            if absent
            else f"{framework.title}, which the call needs, cannot be imported",
            name.span,
            notes=[] if absent else [_said(problem)],
            help=f"pip install {framework.package}",
        ) from None


def _attribute(
    owner: object, part: str, path: str, framework: Framework, name: s.QualifiedName
) -> object:
    if part.startswith("_") or _FORBIDDEN.fullmatch(part):
        raise error(
            "E0204",
            f"a call may not use `{part}` of `{path}`",
            name.span,
            notes=["names of what is internal, or works on files, code or settings, are refused"],
        )
    value = _member(owner, part)
    if value is _ABSENT or not _belongs(value, framework):
        raise error(
            "E0203",
            f"`{path}` has no `{part}`",
            name.span,
            help=did_you_mean(part, [n for n in dir(owner) if not n.startswith("_")]),
        )
    return value


_ABSENT = object()


def _member(owner: object, part: str) -> object:
    """What a name stands for; also a module that its package does not import by itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return getattr(owner, part)
        except Exception:  # modules that are imported when they are asked for raise all kinds
            pass
        if not isinstance(owner, ModuleType):
            return _ABSENT
        try:
            return import_module(f"{owner.__name__}.{part}")
        except ImportError:
            return _ABSENT


def _belongs(value: object, framework: Framework) -> bool:
    """Whether this is data, or a module or function of the framework or of NumPy."""
    if isinstance(value, ModuleType):
        home: object = value.__name__
    else:
        home = getattr(value, "__module__", None) if callable(value) else None
    known = (*framework.owners, "numpy")
    return not isinstance(home, str) or home.partition(".")[0] in known


# --------------------------------------------------------------------- values


def _tensor(function: s.QualifiedName, array: Array) -> object:
    """A tensor of the framework whose function is called."""
    try:
        return _framework(function).tensor(_package(function), array)
    except Exception as problem:
        raise CallFailed(_said(problem)) from None


def _adopted(value: object, source: s.QualifiedName, function: s.QualifiedName) -> object:
    """The result of an inner call, as a tensor of the framework that gets it."""
    if _framework(source) is _framework(function) or not hasattr(value, "__array__"):
        return value
    return _tensor(function, _as_array(value))


def _narrow(numbers: Array) -> Array:
    """Integers in 32 bits, as TENSOR makes them, if they fit."""
    if numbers.dtype.kind != "i" or (numbers != numbers.astype(np.int32)).any():
        return numbers
    return numbers.astype(np.int32)


def _several(value: object) -> Sequence[object]:
    """The results of a call: the items of a list or tuple, save one of plain numbers."""
    if not isinstance(value, list | tuple) or all(type(v) in (bool, int, float) for v in value):
        return [value]
    return value


def _as_array(result: object) -> Array:
    try:
        array = to_numpy(result, "a result of the call")
    except Error as problem:
        first = problem.diagnostics[0]
        raise CallFailed(": ".join([first.message, *first.notes])) from None
    if array.dtype.kind not in "fiub" and array.dtype != BFLOAT16:
        what = f"{array.dtype.name} elements"
        raise CallFailed(f"a result of the call is not an array of numbers: got {what}")
    return array


def _said(problem: BaseException) -> str:
    """What an exception says, on one line."""
    text = re.sub(r"\{\{.*?\}\}\s*|\[Op:\w+\]( name:)?", "", str(problem))  # of TensorFlow
    text = "".join([c if c.isprintable() else " " for c in text])
    text = " ".join(text.split()) or "no message"
    short = text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
    return f"{type(problem).__name__}: {short}"
