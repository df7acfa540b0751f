"""Writing a model folder: the modules of a program, and its variables."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ...diagnostics import error
from . import storage, syntax
from .attributes import AttributeValue
from .library import is_library
from .modules import Program
from .printer_expressions import quote
from .values import Scalar


def write_model(
    folder: str | os.PathLike[str],
    program: Program,
    graph: syntax.Operator,
    attributes: Mapping[str, AttributeValue],
    variables: Mapping[str, NDArray[Any]],
) -> None:
    """Write a folder that loads as this program, with `attributes` as the graph's defaults.

    Texts are kept as they are written, with their comments. The main module is called `main`
    in a folder, so the names of variables begin with it. Raises `Error` E0707 if a file
    cannot be written, E0706 if a variable does not fit the file format, or if a value has no
    form in the text: that of an optional attribute, which takes no default, or a NaN.
    """
    folder = Path(folder)
    texts = {folder / "main.sknd": _set_defaults(graph, attributes)}
    for name, module in program.modules.items():
        if module is not program.main and not is_library(module):
            texts[folder.joinpath(*name.split(".")).with_suffix(".sknd")] = module.source.text
    for path, text in texts.items():
        make_folder(path.parent)
        storage.write_file(path, text.encode())
    own = program.main.name
    renamed = {f"main{name.removeprefix(own)}": value for name, value in variables.items()}
    storage.write_variables(folder, renamed)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, if they are not there; `Error` E0707 if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        reason = (getattr(problem, "strerror", None) or str(problem)).lower()
        raise error("E0707", f"cannot make the folder `{path}`: {reason}") from problem


def _set_defaults(graph: syntax.Operator, attributes: Mapping[str, AttributeValue]) -> str:
    """The text of the main module in which these values are the defaults of attributes."""
    text = graph.span.source.text
    for parameter in sorted(graph.attributes, key=lambda p: p.span.start, reverse=True):
        value = attributes.get(parameter.name)
        if value is None:
            continue
        if parameter.type.optional:
            raise error(
                "E0706",
                f"the value of the optional attribute `{parameter.name}` cannot be saved: "
                f"the text has no place for it",
                parameter.span,
                help="load the model without it to save, and give it when loading again",
            )
        if any(item != item for item in (value if isinstance(value, tuple) else (value,))):
            raise error(
                "E0706",
                f"the value of attribute `{parameter.name}` cannot be saved: "
                f"the language has no word for a value that is not a number",
                parameter.span,
            )
        if parameter.default is not None:
            start, end, lead = parameter.default.span.start, parameter.default.span.end, ""
        else:
            start = end = parameter.type.span.end
            lead = " = "
        text = text[:start] + lead + _format(value) + text[end:]
    return text


def _format(value: Scalar | tuple[Scalar, ...]) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_format, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    return str(value)
