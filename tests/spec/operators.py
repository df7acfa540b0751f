"""Chapter 4 of `docs/skriptnd.md`, as the texts of the standard library have it."""

from __future__ import annotations

import re

from ricci.frontends.skriptnd import syntax as s
from ricci.frontends.skriptnd.modules import STDLIB, standard_module

from .sections import Section, all_sections

_COMMENT = re.compile(r"((?:^# .*\n)+)operator (\w+)", re.MULTILINE)


def chapter() -> str:
    """All sections with tables of their operators."""
    comments, operators = _read_library()
    parts = []
    for section in all_sections():
        if section.operators:
            rows = "\n".join(
                _row(name, operators[name], comments[name]) for name in section.operators
            )
            parts.append(f"{_heading(section)}\n\n{_HEADER}\n{rows}\n")
    return "\n".join(parts)


_HEADER = "| operator | tensors | attributes | what it gives |\n|---|---|---|---|"


def _heading(section: Section) -> str:
    if section.number[0].isdigit():
        return f"{'#' * (section.number.count('.') + 1)} {section.number}. {section.title}"
    return f"## Module `{section.number}`, {section.title}"


def _read_library() -> tuple[dict[str, str], dict[str, s.Operator]]:
    """The comment and the definition of each operator, by full name."""
    comments, operators = {}, {}
    for path in sorted(STDLIB.glob("*.sknd")):
        for text, name in _COMMENT.findall(path.read_text("utf-8")):
            comments[f"{path.stem}.{name}"] = " ".join(text.replace("\n# ", " ")[2:].split())
        module = standard_module(path.stem)
        assert module is not None
        operators |= {f"{path.stem}.{operator.name}": operator for operator in module.operators}
    return comments, operators


def _row(name: str, operator: s.Operator, comment: str) -> str:
    inputs, outputs = _names(operator.inputs), _names(operator.outputs)
    tensors = f"{inputs} → {outputs}" if inputs else f"→ {outputs}"
    cells = [f"`{name}`", tensors, _names(operator.attributes), _shown(comment)]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _names(parameters: tuple[s.Parameter, ...]) -> str:
    """Names; a question mark behind what may be left out."""
    return ", ".join(p.name + "?" * _can_be_left_out(p) for p in parameters)


def _can_be_left_out(parameter: s.Parameter) -> bool:
    return parameter.type.optional or parameter.default is not None


def _shown(comment: str) -> str:
    """A comment as Markdown: what the draft and Ricci do stands out."""
    text = comment.replace("|", "\\|").replace("*", "\\*")
    return re.sub(r"(Spec|Ricci|Later):", r"**\1**:", text)
