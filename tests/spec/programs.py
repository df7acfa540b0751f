"""Texts of the smallest programs around an operator."""

from __future__ import annotations


def program(
    operators: str, body: str, inputs: str = "x: real[5];", outputs: str = "y: real;"
) -> str:
    """Operators, and a graph that invokes them; shapes of its outputs may be left out."""
    given = f"@input {{ {inputs} }} " if inputs else ""
    return f"{operators}\ngraph G {{ {given}@output {{ {outputs} }}\n    @compose {{ {body} }} }}\n"


def formula(
    lower: str, inputs: str, outputs: str, actual: str, results: str = "y: real;", extra: str = ""
) -> str:
    """An operator of formulas, invoked on all inputs of a graph.

    `inputs` and `outputs` are the operator's, `actual` declares those of the graph in the same
    order, `extra` are further blocks.
    """
    names = ", ".join(part.split(":")[0].strip() for part in actual.split(";") if part.strip())
    gives = ", ".join(part.split(":")[0].strip() for part in results.split(";") if part.strip())
    takes = f"@input {{ {inputs} }} " if inputs else ""
    operator = (
        f"operator f {{ {takes}{extra}@output {{ {outputs} }}\n    @lower {{\n{lower}\n    }} }}"
    )
    return program(operator, f"{gives} = f({names});", actual, results)
