"""Checks of operators that need no invocation: names, types, shapes, formulas, compositions.

`check_program` looks at every operator of the user's modules, whether it is invoked or not,
and reports all that is wrong. What depends on the values of attributes or on the extents of
actual tensors is left to composition.
"""

from __future__ import annotations

from ...diagnostics import Label, Report
from . import syntax as s
from .standard_library import is_library
from .typing_calls import Modules, Unit
from .typing_compose import check_composition, check_update
from .typing_declarations import declare_operator
from .typing_formulas import check_formulas
from .typing_quantize import check_quantization
from .typing_recursion import check_recursion


def check_program(program: Modules, report: Report) -> None:
    """Report whatever is wrong in the operators of a program's own modules."""
    modules = [m for m in program.modules.values() if not is_library(m)]
    for module in modules:
        check_module(program, module, report)
    check_recursion(program, modules, report)


def check_module(program: Modules, module: s.Module, report: Report) -> None:
    """Report whatever is wrong in the operators of one module."""
    seen: dict[str, s.Operator] = {}
    for op in module.operators:
        earlier = seen.setdefault(op.name, op)
        if earlier is not op:
            report.error(
                "E0202",
                f"operator `{op.name}` is defined twice",
                op.name_span,
                labels=[Label(earlier.name_span, "first here")],
            )
        check_operator(Unit(program, module, op), report)


def check_operator(unit: Unit, report: Report) -> None:
    """Report whatever is wrong in one operator."""
    try:
        _check_operator(unit, report)
    except RecursionError:
        report.error("E0901", "expressions nested too deeply to check", unit.operator.name_span)


def _check_operator(unit: Unit, report: Report) -> None:
    op = unit.operator
    ctx = declare_operator(op, report)
    if op.lower and op.compose:
        report.error(
            "E0207",
            f"operator `{op.name}` has both a @lower and a @compose block",
            op.name_span,
            help="an operator is either computed by formulas or composed of others",
        )
    elif op.graph and not op.compose and op.outputs:
        _report_empty_graph(op, report)
    after = ctx
    if op.lower:
        check_formulas(ctx, op)
    elif op.compose or op.update:
        after = check_composition(unit, ctx) if op.compose else ctx
    if op.update:
        check_update(unit, after)
    check_quantization(unit, after)


def _report_empty_graph(op: s.Operator, report: Report) -> None:
    report.error(
        "E0605",
        f"graph `{op.name}` does not compute its outputs",
        op.name_span,
        labels=[Label(p.span, "never computed") for p in op.outputs],
        help="add a @compose block",
    )
