"""Values that a caller supplies for the attributes of a graph, from Python or as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from reprlib import repr as short_repr

from ...diagnostics import Diagnostic, Error
from . import syntax
from .values import DTYPES, Scalar

AttributeValue = Scalar | tuple[Scalar, ...] | None


def check_attributes(
    graph: syntax.Operator, values: Mapping[str, object], types: Mapping[str, str]
) -> dict[str, AttributeValue]:
    """The values as composition wants them: Python scalars, and tuples for packs.

    Integers are taken where a real is declared, one value where a pack is, `None` where the
    attribute is optional, and for an optional input that shall be absent. Raises one `Error`
    E0801 with all findings.
    """
    declared = {p.name: p for p in graph.attributes}
    findings: list[Diagnostic] = []
    checked: dict[str, AttributeValue] = {}
    omissible = {p.name: p for p in graph.inputs if p.type.optional or p.default is not None}
    for name, value in values.items():
        if name in omissible:
            if value is None or (isinstance(value, Written) and value in _NULL):
                checked[name] = None
            else:
                findings.append(_not_an_attribute(omissible[name]))
        elif name not in declared:
            findings.append(_unknown(graph, name, "attribute", list(declared)))
        else:
            allowed = _scalar_types(graph, declared[name].type, types)
            result = _check(declared[name], value, allowed)
            if isinstance(result, Diagnostic):
                findings.append(result)
            else:
                checked[name] = result
    findings += _check_types(graph, types)
    if findings:
        raise Error(findings)
    return checked


class Written(str):
    """A value as text, `4`, `true`, `[1, 2]` or `null`, to be read by the type that the graph
    declares."""

    __slots__ = ()


_NULL = ("null", "None")

_NUMBER = re.compile(r"[-+]?(inf|\d+(\.\d*)?([eE][-+]?\d+)?)")


def _read(text: str, allowed: frozenset[str]) -> object:
    """What a text stands for; text of no form that is allowed stays text, to be refused."""
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        items = [item.strip() for item in inner[1:-1].split(",")]
        return tuple(_read_item(item, allowed) for item in items if item)
    return _read_item(inner, allowed)


def _read_item(text: str, allowed: frozenset[str]) -> object:
    if allowed == {"str"}:
        quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
        return text[1:-1] if quoted else text
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if re.search(r"[.eEi]", text) else int(text)
    return text


def _scalar_types(
    graph: syntax.Operator, declared: syntax.Type, types: Mapping[str, str]
) -> frozenset[str]:
    """The concrete types that a value may have; those of a generic are what its base allows."""
    for parameter in graph.dtypes:
        if parameter.name == declared.name:
            chosen = types.get(parameter.name)
            return frozenset({chosen}) if chosen else _BASES[parameter.base]
    return frozenset({declared.name})


_BASES = {
    "num": frozenset({"int", "real"}),
    "arith": frozenset({"int", "real", "bool"}),
    "type": frozenset({"int", "real", "bool", "str"}),
}


def _check(
    parameter: syntax.Parameter, value: object, allowed: frozenset[str]
) -> AttributeValue | Diagnostic:
    if isinstance(value, Written) and value in _NULL and parameter.type.optional:
        value = None
    if value is None:
        return None if parameter.type.optional else _wrong(parameter, value)
    if isinstance(value, Written):
        value = _read(value, allowed)
    if hasattr(value, "tolist"):  # NumPy's arrays and scalars
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = [_convert(item, allowed) for item in value]
        if parameter.type.pack is None or None in items:
            return _wrong(parameter, value)
        return tuple(item for item in items if item is not None)
    scalar = _convert(value, allowed)
    return _wrong(parameter, value) if scalar is None else scalar


def _convert(value: object, allowed: frozenset[str]) -> Scalar | None:
    """A scalar of one of the types, or null if it is of none of them."""
    if isinstance(value, bool):
        return value if "bool" in allowed else None
    if isinstance(value, str):
        return value if "str" in allowed else None
    if isinstance(value, int) and "int" in allowed:
        return value if -(2**63) <= value < 2**63 else None
    if isinstance(value, int | float) and "real" in allowed:
        return float(value) if isinstance(value, float) or abs(value) <= _LARGEST else None
    return None


_LARGEST = 2.0**1023


def _check_types(graph: syntax.Operator, types: Mapping[str, str]) -> list[Diagnostic]:
    declared = {p.name: p for p in graph.dtypes}
    findings = []
    for name, chosen in types.items():
        if name not in declared:
            findings.append(_unknown(graph, name, "generic type", list(declared)))
        elif chosen not in DTYPES or chosen not in _BASES[declared[name].base]:
            allowed = ", ".join(sorted(_BASES[declared[name].base]))
            findings.append(
                Diagnostic(
                    "E0801",
                    f"generic type `{name}` cannot be `{chosen}`; it may be one of {allowed}",
                    declared[name].span,
                    f"declared as `{declared[name].base}`",
                )
            )
    return findings


def _unknown(graph: syntax.Operator, name: str, what: str, known: list[str]) -> Diagnostic:
    close = get_close_matches(str(name), known, 1)
    span = graph.name_span
    return Diagnostic(
        "E0801",
        f"graph `{graph.name}` has no {what} `{name}`",
        span,
        notes=(f"it has: {', '.join(known)}",) if known else ("it has none",),
        help=f"did you mean `{close[0]}`?" if close else "",
    )


def _not_an_attribute(parameter: syntax.Parameter) -> Diagnostic:
    return Diagnostic(
        "E0801",
        f"`{parameter.name}` is an input, and can only be null here, which leaves it out",
        parameter.span,
    )


def _wrong(parameter: syntax.Parameter, value: object) -> Diagnostic:
    declared = parameter.type
    text = declared.name + (".." if declared.pack else "")
    if declared.optional:
        text = f"optional {text}"
    return Diagnostic(
        "E0801",
        f"attribute `{parameter.name}` cannot be {short_repr(value)}; its type is `{text}`",
        parameter.span,
        f"declared as `{text}`",
    )
