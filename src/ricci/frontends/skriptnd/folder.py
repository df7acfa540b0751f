"""Writing a model folder: the modules of a program, and its variables."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ...diagnostics import Report, error
from ...source import Source
from . import storage, syntax
from .attributes import AttributeValue
from .modules import Program
from .parser import parse_module
from .printer_expressions import quote
from .standard_library import is_library
from .values import Scalar


def write_model(
    folder: str | os.PathLike[str],
    program: Program,
    main: str,
    variables: Mapping[str, NDArray[Any]],
) -> None:
    """Write a folder with this text as the main module, and the modules of the program.

    The main module is called `main` in a folder, so the names of variables begin with it.
    Raises `Error` E0707 if a file cannot be written, E0706 if a variable does not fit the file
    format.
    """
    folder = Path(folder)
    texts = {folder / "main.sknd": main}
    for name, module in program.modules.items():
        if module is not program.main and not is_library(module):
            texts[folder.joinpath(*name.split(".")).with_suffix(".sknd")] = module.source.text
    for path, data in [(path, _encoded(path, text)) for path, text in texts.items()]:
        make_folder(path.parent)
        storage.write_file(path, data)
    own = program.main.name
    renamed = {f"main{name.removeprefix(own)}": value for name, value in variables.items()}
    storage.write_variables(folder, renamed)


def _encoded(path: Path, text: str) -> bytes:
    """The bytes of a text; `Error` E0706 if it holds half a character."""
    try:
        return text.encode()
    except UnicodeEncodeError as problem:
        shown = ascii(text[problem.start])
        raise error("E0706", f"`{path}` cannot hold the character {shown}") from None


def main_text(
    program: Program,
    graph: syntax.Operator,
    attributes: Mapping[str, AttributeValue],
    types: Mapping[str, str],
) -> str:
    """The text of the main module, with its comments, that loads as this graph with these values.

    Values and types become defaults, and the graph the first one. Raises `Error` E0706 if a value
    has no form in the text: that of an optional attribute, which takes no default, or a NaN.
    """
    text = _set_defaults(graph, attributes, types)
    if program.graphs()[0].name == graph.name:
        return text
    graphs = parse_module(Source("", text), Report(), "").operators
    first = next(o for o in graphs if o.graph)
    chosen = next(o for o in graphs if o.graph and o.name == graph.name)
    begin, start = (_with_comments(text, o.span.start) for o in (first, chosen))
    end = chosen.span.end
    rest = text[begin:start].rstrip() + "\n\n" + text[end:].lstrip()
    return f"{text[:begin]}{text[start:end]}\n\n{rest.rstrip()}\n"


def _with_comments(text: str, start: int) -> int:
    """Where the comments directly above a definition begin, if there are some."""
    lines = text[:start].split("\n")
    while len(lines) > 1 and lines[-2].startswith("#"):
        del lines[-2]
    return len("\n".join(lines))


def make_folder(path: Path) -> None:
    """Make a folder and those above it, if they are not there; `Error` E0707 if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        reason = (getattr(problem, "strerror", None) or str(problem)).lower()
        raise error("E0707", f"cannot make the folder `{path}`: {reason}") from problem


def _set_defaults(
    graph: syntax.Operator, attributes: Mapping[str, AttributeValue], types: Mapping[str, str]
) -> str:
    """The text of the main module in which these are the defaults of attributes and types."""
    text = graph.span.source.text
    edits = [_set_type(p, types[p.name]) for p in graph.dtypes if p.name in types]
    for parameter in graph.inputs:
        if parameter.name in attributes:
            raise error(
                "E0706",
                f"the model was loaded without its input `{parameter.name}`, which the text "
                "cannot say",
                parameter.span,
                help="save the model as it is composed, with `composed=True`",
            )
    for parameter in graph.attributes:
        value = attributes.get(parameter.name)
        if value is None:
            continue
        if parameter.type.optional:
            raise error(
                "E0706",
                f"the value of the optional attribute `{parameter.name}` cannot be saved: "
                f"the text has no place for it",
                parameter.span,
                help="save the model as it is composed, with `composed=True`, or load it without "
                "the value to save it, and give the value when loading again",
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
        edits.append((start, end, lead + _format(value)))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _set_type(parameter: syntax.TypeParameter, type: str) -> tuple[int, int, str]:
    """The line of a generic type with another default, and the place where it stands."""
    line = f"{parameter.name}: {parameter.base} = {type};"
    return parameter.span.start, parameter.span.end, line


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
