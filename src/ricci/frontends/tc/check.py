"""The check of a unit: names are bound, types are found, and what is wrong is reported.

Spec: of several functions of one name the first counts; a name that is nothing else is an index.
Ricci: both are errors, unless such a name is used to access a tensor, or has a range.
"""

from __future__ import annotations

from ...diagnostics import Report
from ...dtypes import DType
from ...ir.nodes import Symbol
from ..suggest import did_you_mean
from . import program as p
from . import syntax as s
from .check_statements import check_statement
from .lexer import TYPES
from .scope import FunctionScope, report_twice

LARGEST_SIZE = 2**63 - 1


def check_unit(unit: s.Unit, report: Report) -> tuple[p.Function, ...]:
    """The functions that are right; what is wrong with the others goes into the report."""
    names: dict[str, s.Identifier] = {}
    functions = []
    for function in unit.functions:
        known = names.setdefault(function.name.name, function.name)
        if known is not function.name:
            report_twice(report, function.name, "a function", known.span)
        checked = _check_function(function, report)
        if checked is not None:
            functions.append(checked)
    return tuple(functions)


def _check_function(node: s.Function, report: Report) -> p.Function | None:
    errors = len(report.errors)
    scope = FunctionScope(report)
    parameters = [_declare_parameter(parameter, scope) for parameter in node.parameters]
    for result in node.results:
        _declare_result(result, scope)
    for statement in reversed(node.statements):
        scope.later[statement.target.name] = statement.target.span
    statements = []
    for statement in node.statements:
        if scope.full:
            return None
        statements.append(_check_statement(statement, scope))
    for result in scope.results.values():
        _check_written(result, node, scope)
    if errors != len(report.errors) or scope.full:
        return None
    return p.Function(
        node.name.name,
        tuple(parameters),
        tuple(scope.tensors[r.name.name] for r in node.results),
        tuple(statement for statement in statements if statement is not None),
        tuple(scope.sizes.values()),
        node.span,
    )


def _declare_parameter(node: s.Declaration, scope: FunctionScope) -> p.Variable:
    if node.dtype is None:
        scope.report.error(
            "E0301",
            f"the parameter `{node.name.name}` has no type",
            node.span,
            help=did_you_mean(node.name.name, TYPES) or f"write `float(N) {node.name.name}`",
        )
    shape = tuple([_declare_size(dim, scope) for dim in node.dims or ()])
    dtype = node.dtype or DType.FLOAT32
    variable = p.Variable(node.name.name, dtype, len(shape), "parameter", shape, node.name.span)
    if scope.check_free(node.name, "a parameter"):
        scope.tensors[node.name.name] = variable
    if node.dtype is None:
        scope.tensors.pop(node.name.name, None)
        scope.broken.add(node.name.name)
    return variable


def _declare_size(node: s.Identifier | s.Number, scope: FunctionScope) -> int | Symbol:
    """A size; a name that comes again is the same size."""
    if isinstance(node, s.Number):
        if node.value > LARGEST_SIZE:
            message = f"`{node.text[:40]}` is too large for a size"
            scope.report.error("E0104", message, node.span)
        return int(node.value)
    if node.name not in scope.sizes and scope.check_free(node, "a size"):
        scope.sizes[node.name] = Symbol(node.name, span=node.span)
    return scope.sizes.get(node.name) or Symbol(node.name, span=node.span)


def _declare_result(node: s.Declaration, scope: FunctionScope) -> None:
    known = scope.results.get(node.name.name)
    if known is not None:
        report_twice(scope.report, node.name, "a result", known.span)
    elif scope.check_free(node.name, "a result"):
        scope.results[node.name.name] = node


def _check_statement(node: s.Statement, scope: FunctionScope) -> p.Statement | None:
    statement = check_statement(node, scope)
    name = node.target.name
    if statement is not None:
        scope.tensors.setdefault(name, statement.target)
    elif name not in scope.tensors:
        scope.broken.add(name)
    return statement


def _check_written(result: s.Declaration, node: s.Function, scope: FunctionScope) -> None:
    name = result.name.name
    if name not in scope.tensors and name not in scope.broken:
        targets = [s.target.name for s in node.statements if s.target.name not in scope.results]
        message = f"the result `{name}` is given no value"
        scope.report.error("E0603", message, result.span, help=did_you_mean(name, targets))
