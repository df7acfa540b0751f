"""Ricci compiles tensor programs in index notation: the formula is the operator.

In three lines:

    model = ricci.load("model.nnef2", attribs={"batch": 4})
    run = model.compile()
    output = run(input)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .diagnostics import Error

if TYPE_CHECKING:
    from .api import format, graphs, load, parse
    from .model import Model
    from .runtime.executable import Executable

__version__ = "0.1.0"

__all__ = ["Error", "Executable", "Model", "format", "graphs", "load", "parse"]

_LATER = {
    "Executable": ".runtime.executable",
    "Model": ".model",
    "format": ".api",
    "graphs": ".api",
    "load": ".api",
    "parse": ".api",
}

_MODULES = ("eintup", "tc", "torch")
"""Of one language, or one library, each."""


def __getattr__(name: str) -> object:
    """The rest is imported when it is first asked for, with NumPy and the compiler behind it.

    So the command is soon where an interruption ends it quietly.
    """
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in _LATER:
        return getattr(import_module(_LATER[name], __name__), name)
    raise AttributeError(f"module 'ricci' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULES})
