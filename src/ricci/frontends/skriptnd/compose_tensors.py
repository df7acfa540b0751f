"""Tensors that an operator declares: outputs, variables and constants (specification 2.6, 2.7)."""

from __future__ import annotations

import math
from itertools import product

from ...diagnostics import Label
from ...dtypes import DType
from ...ir import nodes, shapes
from ...ir.rewrite import free_symbols
from . import syntax as s
from .compose_graph import Builder
from .evaluate import Evaluator
from .evaluate_shapes import dynamic_length, evaluate_shape, most_items, pack_length
from .initial_values import draws_numbers, initial_state, is_state
from .labels import Scope, Wanted, item_name, single_name
from .lower import lower
from .values import (
    AnyValue,
    DynamicPack,
    Item,
    Pack,
    Scalar,
    Value,
    describe,
    dtype_of,
    fail,
    is_static,
    show,
)

_MOST_LISTED = 64
"""Elements that are listed even if all are the same."""

_MOST_POINTS = 4096
"""Elements of a constant with a formula that are computed while composing."""


def make_outputs(
    builder: Builder, operator: s.Operator, evaluator: Evaluator, wanted: list[Wanted]
) -> dict[str, AnyValue]:
    """New tensors for the outputs of an operator that computes them itself."""
    outputs: dict[str, AnyValue] = {}
    for parameter, names in zip(operator.outputs, wanted, strict=True):
        _require_shape(parameter)
        length = dynamic_length(evaluator, parameter.type)
        if length is None:
            count = pack_length(evaluator, parameter.type, builder.budget)
        else:
            count = most_items(length, parameter.span)
        if count is None:
            name = single_name(names)
            outputs[parameter.name] = _output(builder, parameter, evaluator, name, None)
            continue
        items = tuple(
            [_output(builder, parameter, evaluator, item_name(names, k), k) for k in range(count)]
        )
        outputs[parameter.name] = items if length is None else DynamicPack(items, length)
    return outputs


def _require_shape(parameter: s.Parameter) -> None:
    for extent in parameter.type.shape or ():
        if isinstance(extent.size, s.Omitted):
            raise fail(
                "E0416",
                f"the shape of output `{parameter.name}` must be given for a formula",
                extent.span,
            )


def _output(
    builder: Builder,
    parameter: s.Parameter,
    evaluator: Evaluator,
    name: str | None,
    item: int | None,
) -> nodes.Tensor:
    dtype = evaluator.dtype(parameter.type.name, parameter.type.span)
    shape = evaluate_shape(evaluator, parameter.type, item)
    return builder.tensor(name, dtype, shape, parameter.span)


# ------------------------------------------------------------------- variables


def declare_variables(
    builder: Builder, operator: s.Operator, evaluator: Evaluator, scope: Scope
) -> dict[str, Value]:
    """Make the variables of an operator known under their names, with the values that they hold
    here; the variables themselves are the result.

    Raises E0606 where a variable has no scoped name, or another one has it; one with an initial
    value, which needs no file, gets a name of its own.
    """
    declared: dict[str, Value] = {}
    random = draws_numbers(operator)
    for parameter in operator.variables:
        name = scope.declared(parameter.name)
        data = None
        if random and is_state(parameter):
            name = name or _free_name(builder)
            data = initial_state(name)
        if name is None:
            raise fail(
                "E0606",
                f"`{operator.name}` declares variable `{parameter.name}`, so its invocation "
                "needs a label",
                parameter.span,
                help=f"write `label: {operator.name}(...)`",
            )
        count = pack_length(evaluator, parameter.type, builder.budget)
        if count is None:
            variable = _variable(builder, parameter, evaluator, name, None, data)
            declared[parameter.name] = variable
            evaluator.values[parameter.name] = builder.current(variable)
        else:
            variables = tuple(
                [
                    _variable(builder, parameter, evaluator, f"{name}:{k + 1}", k)
                    for k in range(count)
                ]
            )
            declared[parameter.name] = variables
            evaluator.values[parameter.name] = tuple([builder.current(v) for v in variables])
    return declared


def _free_name(builder: Builder) -> str:
    """A name for a state of random numbers to which nobody gave one."""
    number = 1
    while (name := f"{builder.name}._rand{number}.state") in builder.variables:
        number += 1
    return name


def _variable(
    builder: Builder,
    parameter: s.Parameter,
    evaluator: Evaluator,
    name: str,
    item: int | None,
    data: Scalar | None = None,
) -> nodes.Tensor:
    dtype = evaluator.dtype(parameter.type.name, parameter.type.span)
    shape = evaluate_shape(evaluator, parameter.type, item)
    if free_symbols(*shape):
        shown = ", ".join(describe(e) for e in shape)
        cause = "data" if builder.is_defined_by_data(shape) else "the sizes of a call"
        raise fail(
            "E0507",
            f"the shape of variable `{parameter.name}` depends on {cause}",
            parameter.span,
            f"it is {dtype}[{shown}]",
        )
    known = builder.variables.get(name)
    if known is None:
        tensor = builder.tensor(name, dtype, shape, parameter.span, data)
        builder.variables[name] = tensor
        return tensor
    if not builder.sharing or known.dtype is not dtype or not same_shape(known.shape, shape):
        raise fail(
            "E0606",
            f"two variables have the name `{name}`",
            parameter.span,
            labels=(Label(known.span, "the other one"),),
            help="give one of the invocations a label of its own",
        )
    return known


def same_shape(a: tuple[nodes.Expr, ...], b: tuple[nodes.Expr, ...]) -> bool:
    """Whether two shapes certainly agree."""
    return len(a) == len(b) and all(x == y or shapes.equal(x, y) for x, y in zip(a, b, strict=True))


# ------------------------------------------------------------------- constants


def declare_constants(
    builder: Builder, operator: s.Operator, evaluator: Evaluator, scope: Scope
) -> None:
    """Make the constants of an operator: uniform, listed row by row, or by a formula.

    Raises E0413 and E0607 for values that do not fit the declared shape and type.
    """
    for parameter in operator.constants:
        name = scope.declared(parameter.name)
        if parameter.bounds:
            value: Value = _by_formula(builder, parameter, evaluator, name)
        else:
            value = _by_value(builder, parameter, evaluator, name)
        evaluator.values[parameter.name] = value


def _by_value(
    builder: Builder, parameter: s.Parameter, evaluator: Evaluator, name: str | None
) -> Value:
    if parameter.default is None:
        raise fail("E0607", f"constant `{parameter.name}` has no value", parameter.span)
    value = evaluator.evaluate(parameter.default)
    if value is None:
        raise fail("E0607", f"the value of constant `{parameter.name}` is null", parameter.span)
    count = pack_length(evaluator, parameter.type, builder.budget)
    if count is None:
        shape = evaluate_shape(evaluator, parameter.type, None)
        return _constant(builder, parameter, evaluator, value, shape, name)
    if not isinstance(value, tuple) or len(value) != count:
        raise fail(
            "E0413",
            f"constant `{parameter.name}` is a pack of {count} tensors, each of one value",
            parameter.default.span,
            show(value),
        )
    return tuple(
        [
            _constant(
                builder,
                parameter,
                evaluator,
                item,
                evaluate_shape(evaluator, parameter.type, k),
                None if name is None else f"{name}:{k + 1}",
            )
            for k, item in enumerate(value)
        ]
    )


def _constant(
    builder: Builder,
    parameter: s.Parameter,
    evaluator: Evaluator,
    value: Value,
    shape: tuple[nodes.Expr, ...],
    name: str | None,
) -> nodes.Tensor:
    assert parameter.default is not None
    dtype = evaluator.dtype(parameter.type.name, parameter.type.span)
    items = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) and len(value) != _volume(shape):
        raise fail(
            "E0413",
            f"{len(value)} values for constant `{parameter.name}`",
            parameter.default.span,
            f"it is {dtype}[{', '.join(describe(e) for e in shape)}]",
        )
    if not isinstance(value, tuple) or _is_uniform(value):
        return builder.constant(_datum(items[0], dtype, parameter), dtype, shape, name)
    data = tuple([_datum(item, dtype, parameter) for item in items])
    return builder.constant(data, dtype, shape, name)


def _is_uniform(items: Pack) -> bool:
    """Whether a value was repeated to many."""
    return len(items) > _MOST_LISTED and all(item is items[0] for item in items)


def _datum(item: Item | None, dtype: DType, parameter: s.Parameter) -> Scalar:
    """An element as data; `int(inf)` keeps its infinity."""
    assert parameter.default is not None
    if isinstance(item, nodes.Const):
        item = item.value
    elif item is None or not is_static(item):
        raise fail(
            "E0507",
            f"the value of constant `{parameter.name}` must be known when the graph is composed",
            parameter.default.span,
            show(item),
        )
    elif dtype_of(item) is not dtype:
        raise fail(
            "E0607",
            f"constant `{parameter.name}` has type `{dtype}`, its value `{dtype_of(item)}`",
            parameter.default.span,
            labels=(Label(parameter.type.span, "declared here"),),
        )
    return item


def _volume(shape: tuple[nodes.Expr, ...]) -> int | None:
    return shapes.as_int(shapes.product(*shape))


def _by_formula(
    builder: Builder, parameter: s.Parameter, evaluator: Evaluator, name: str | None
) -> nodes.Tensor:
    """A constant whose elements, row by row, are an expression of indices."""
    shape = evaluate_shape(evaluator, parameter.type, None)
    volume = _volume(shape)
    if volume is not None and volume <= _MOST_POINTS:
        value = _points(parameter, evaluator)
        if value is not None:
            return _constant(builder, parameter, evaluator, value, shape, name)
    dtype = evaluator.dtype(parameter.type.name, parameter.type.span)
    tensor = builder.tensor(name, dtype, shape, parameter.span)
    builder.add(_operation(builder, parameter, evaluator, tensor))
    return tensor


def _points(parameter: s.Parameter, evaluator: Evaluator) -> Value:
    """All elements, computed; null where an extent is not known now."""
    inner = Evaluator(dict(evaluator.values), evaluator.types, evaluator.budget)
    names: list[tuple[str, bool, int]] = []
    ranges: list[range] = []
    for bound in parameter.bounds:
        value = inner.evaluate(bound.extent)
        extents = value if isinstance(value, tuple) else (value,)
        if any(type(e) is not int for e in extents):
            return None
        names.append((bound.name, isinstance(value, tuple), len(extents)))
        ranges += [range(e) for e in extents if isinstance(e, int)]
    assert parameter.default is not None
    count = math.prod(r.stop for r in ranges) if all(ranges) else 0
    if count > _MOST_POINTS:
        raise fail("E0413", f"{count} values for constant `{parameter.name}`", parameter.span)
    result: list[Item] = []
    for point in product(*ranges):
        start = 0
        for name, packed, width in names:
            inner.values[name] = point[start : start + width] if packed else point[start]
            start += width
        item = inner.evaluate(parameter.default)
        if item is None or isinstance(item, tuple):
            raise fail("E0607", "an element must be one value", parameter.default.span, show(item))
        result.append(item)
    return tuple(result)


def _operation(
    builder: Builder, parameter: s.Parameter, evaluator: Evaluator, tensor: nodes.Tensor
) -> nodes.Operation:
    """An operation that computes a constant: a formula with one index per dimension."""
    assert parameter.default is not None
    span = parameter.span
    indices = tuple(_index(bound, evaluator) for bound in parameter.bounds)
    line = s.Lowering(
        None,
        (),
        s.Access(s.Name(parameter.name, span=span), indices, span=span),
        "=",
        parameter.default,
        parameter.bounds,
        None,
        span=span,
    )
    formula = s.Operator(parameter.name, outputs=(parameter,), lower=(line,))
    body, reads = lower(builder, formula, evaluator, {parameter.name: tensor})
    return nodes.Operation("constant", (tensor,), body, reads, span=span, calls=builder.calls())


def _index(bound: s.Bound, evaluator: Evaluator) -> s.Expr:
    name = s.Name(bound.name, span=bound.span)
    packed = isinstance(evaluator.evaluate(bound.extent), tuple)
    return s.Expand(name, None, span=bound.span) if packed else name
