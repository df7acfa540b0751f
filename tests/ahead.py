"""Calls models that were compiled ahead of time: by the header, as a C program would.

The object file is loaded by LLVM's linker, so that no C compiler is needed.
"""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import ricci
from ricci.backends.llvm.jit import Library
from ricci.runtime.pool import this_machine

CC, CXX = shutil.which("cc"), shutil.which("c++")
DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.nnef2"

ALWAYS = {"calloc", "free", "memcpy", "memset"}
ARM = {"getauxval"}
MAPPING = {"open", "lseek", "mmap", "munmap", "close"}
THREADS = {
    "pthread_create", "pthread_join", "pthread_sigmask", "sched_getaffinity", "sched_getcpu",
    "sched_setaffinity", "sched_yield", "syscall",
}  # fmt: skip
"""The functions of the system that the page about building names."""
DTYPES = {"float32": "f4", "float64": "f8", "float16": "f2", "bfloat16": "u2", "bool": "?"}


def find(paths: tuple[Path, ...], suffix: str) -> Path:
    return next(p for p in paths if p.suffix == suffix)


class Failed(Exception):
    """A function returned a code that is not 0."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Model:
    """A model with the functions of an object file."""

    def __init__(self, paths: tuple[Path, ...], threads: int = 1, weights: str = "") -> None:
        self.header = find(paths, ".h").read_text("utf-8")
        self.name = find(paths, ".h").stem
        self.code = Library([find(paths, ".o").read_bytes()], this_machine())
        run = re.search(rf"^int {self.name}_run\((.*)\);$", self.header, re.M)
        assert run is not None
        self.parameters = [p.rpartition(" ") for p in run[1].split(", ")[1:]]
        self.rooms = self._rooms()
        self.packs = re.findall(rf"^#define {self.name}_(\w+)_ITEMS ", self.header, re.M)
        self.model = ctypes.c_void_p()
        create = self._function("create", ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
        path = weights or str(find(paths, ".weights")) if ".weights" in self.header else weights
        self._check(create(ctypes.addressof(self.model), threads, path.encode()))

    def _function(self, name: str, *types: type, result: type = ctypes.c_int) -> ctypes._CFuncPtr:
        address = self.code.address(f"{self.name}_{name}")
        assert address, f"there is no function {name}"
        return ctypes.CFUNCTYPE(result, *types)(address)

    def _rooms(self) -> dict[str, list[int]]:
        """How many elements arrays have, from the macros."""
        macro = rf"^#define {self.name}_(\w+)_COUNTS? (.*)$"
        return {
            name: [int(n) for n in re.findall(r"\d+", text)]
            for name, text in re.findall(macro, self.header, re.M)
        }

    def error(self) -> str:
        explain = self._function("error", ctypes.c_void_p, result=ctypes.c_char_p)
        return str(explain(self.model).decode())

    def _check(self, code: int) -> None:
        if code:
            raise Failed(code, self.error())

    def run(self, inputs: Sequence[object] = (), sizes: Sequence[int] = ()) -> list[object]:
        """The results, of packs as lists, for inputs and sizes in the order of the header."""
        given, numbers = iter(inputs), iter(sizes)
        call = _Call()
        for declared, _, name in self.parameters:
            stars, name = name.count("*") + declared.count("*const"), name.lstrip("*")
            if not stars and f"{name.removesuffix('_count')}" in self.packs:
                call.add(name, None)  # the length of the pack that comes next
            elif not stars:
                call.add(name, next(numbers))
            elif declared.startswith("const"):
                call.add(name, next(given))
                if f"{name}_count" in call.values:
                    call.values[f"{name}_count"] = len(call.values[name])
            elif name in self.rooms:
                items = [np.zeros(n + 8, self._dtype(name))[:n] for n in self.rooms[name]]
                call.add(name, items if stars > 1 else items[0])
                call.results.append(name)
            else:
                call.add(name, np.full(64, -1, np.int64))
        assert not [*given, *numbers], "too many arguments"
        run = self._function("run", ctypes.c_void_p, *call.types())
        self._check(run(self.model, *call.words()))
        return [self._result(name, call.values) for name in call.results]

    def _dtype(self, name: str) -> np.dtype:
        found = re.search(rf"^ \*   {name}: .*?(\w+)\[", self.header, re.M)
        assert found is not None, name
        return np.dtype(DTYPES.get(found[1], found[1]))

    def _result(self, name: str, values: dict[str, Any]) -> object:
        """What a call has given, cut to its shape."""
        value = values[name]
        items = value if isinstance(value, list) else [value]
        shapes = self._shapes(name, len(items), values.get(f"{name}_shape"))
        if f"{name}_count" in values:
            items = items[: int(values[f"{name}_count"][0])]
        found = [
            item[: math.prod(shape)].reshape(shape)
            for item, shape in zip(items, shapes, strict=False)
        ]
        return found if isinstance(value, list) else found[0]

    def _shapes(self, name: str, count: int, given: np.ndarray | None) -> list[tuple[int, ...]]:
        """The shapes of a result: those that the call gave, else those of the header."""
        text = re.search(rf"^ \*   {name}: (.*(?:\n \*  ? ?(?! ?\w+: ).+$)*)", self.header, re.M)
        assert text is not None
        plain = text[1].replace("\n *", " ")
        while re.search(r"\([^()]*\)", plain):  # commas of functions
            plain = re.sub(r"\([^()]*\)", "", plain)
        shapes = [re.split(r", +", s) if s else [] for s in re.findall(r"\w+\[([^\[\]]*)\]", plain)]
        shapes = shapes * count if len(shapes) == 1 else shapes
        if given is not None:
            values = iter(given.tolist())
            return [tuple(next(values) for _ in shape) for shape in shapes]
        return [tuple(map(int, shape)) for shape in shapes]

    def get(self, name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """The value of a variable."""
        value = np.zeros(shape, dtype)
        self._state("get", name, value)
        return value

    def set(self, name: str, value: np.ndarray) -> None:
        self._state("set", name, value)

    def _state(self, what: str, name: str, value: np.ndarray) -> None:
        types = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
        function = self._function(what, *types)
        self._check(function(self.model, name.encode(), value.ctypes.data, value.nbytes))

    def reset(self) -> None:
        self._function("reset", ctypes.c_void_p)(self.model)

    def destroy(self) -> None:
        self._function("destroy", ctypes.c_void_p)(self.model)
        self.model = ctypes.c_void_p()


@dataclass
class _Call:
    """The arguments of a call by name."""

    values: dict[str, Any] = field(default_factory=dict)
    results: list[str] = field(default_factory=list)
    _tables: list[np.ndarray] = field(default_factory=list)

    def add(self, name: str, value: object) -> None:
        self.values[name] = value

    def types(self) -> list[type]:
        return [
            ctypes.c_int64 if isinstance(v, int) else ctypes.c_void_p for v in self.values.values()
        ]

    def words(self) -> list[int]:
        return [v if isinstance(v, int) else self._address(v) for v in self.values.values()]

    def _address(self, value: np.ndarray | list[np.ndarray]) -> int:
        """Where the elements are, or the list of the addresses of those of several arrays."""
        if isinstance(value, np.ndarray):
            return int(value.ctypes.data)
        self._tables.append(np.array([*(x.ctypes.data for x in value), 0], np.int64))
        return int(self._tables[-1].ctypes.data)


# ------------------------------------------------------------------ with a compiler


def compile_c(paths: tuple[Path, ...], source: Path, compiler: str, *flags: str) -> Path:
    """A program of a source and the object."""
    program = source.with_suffix("")
    strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", *flags]
    files = [str(source), str(find(paths, ".o")), "-o", str(program), "-lm", "-lpthread"]
    done = subprocess.run([compiler, *strict, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def run_example(paths: tuple[Path, ...], *arguments: str) -> dict[str, np.ndarray]:
    """What the example prints, by the names of results; with a compiler alone."""
    assert CC is not None
    program = compile_c(paths, find(paths, ".c"), CC, "-std=c99", "-O1")
    done = subprocess.run(
        [program, *arguments], cwd=program.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = (line.removesuffix(" ...").split(":") for line in done.stdout.splitlines())
    return {name: np.array(text.split(), np.float64) for name, text in rows}


def check_headers(paths: tuple[Path, ...], folder: Path) -> None:
    """The header has no warnings in either language, where there is a compiler."""
    header = find(paths, ".h").name
    for compiler, name, flag in [(CC, "alone.c", "-std=c99"), (CXX, "alone.cpp", "-std=c++11")]:
        if compiler is not None:
            (folder / name).write_text(f'#include "{header}"\n#include "{header}"\n')
            flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", flag]
            subprocess.run([compiler, *flags, folder / name], check=True)


# --------------------------------------------------------------------- a model


TRACKER = """
import nn;
import math;

graph Tracker {
    @input {
        x: real[steps|20, batch|16, 8];
    }
    @output {
        y: real[steps, batch, 32];
        calls: int[];
    }
    @variable {
        W: real[128, 8];
        R: real[128, 32];
        B: real[128];
        count: int[];
    }
    @compose {
        y, ~, ~ = nn.lstm(x, W, R, B);
        calls = math.add(count, 1);
    }
    @update {
        count = calls;
    }
}
"""


def tracker() -> ricci.Model:
    model = ricci.parse(TRACKER)
    rng = np.random.default_rng(1)
    for name, shape in {"W": (128, 8), "R": (128, 32), "B": (128,)}.items():
        model.variables[f"main.Tracker.{name}"] = rng.normal(0, 0.3, shape)
    model.variables["main.Tracker.count"] = np.array(40)
    return model
