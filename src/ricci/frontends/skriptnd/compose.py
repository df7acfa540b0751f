"""Composition of a graph: from a checked program to the IR (specification, chapter 3).

    compose(program, graph, attributes, types) -> ir.nodes.Graph

Everything that composes is a generator: it yields the invocations and blocks it needs and is
sent their results. `_drive` keeps them on a stack of its own, so that how deep operators nest
is bounded by `invoke.DEEPEST` and not by Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ...diagnostics import Diagnostic, Error, Label
from ...ir import nodes
from ...records import replace
from ...source import NOWHERE, Span
from . import syntax as s
from .bind import Binder
from .compose_block import compose_block
from .compose_body import Body, Request, Results, Task, tensors_of
from .compose_gather import gather, name_size
from .compose_graph import Builder
from .compose_inputs import bind_graph_inputs
from .evaluate import Evaluator
from .invoke import compose_invocation, compose_operator
from .labels import Scope, Wanted, item_name, passes_through
from .modules import Program
from .standard_files import is_library_source
from .values import DTYPES, DynamicPack, Item, Value, fail, from_expr


def compose(
    program: Program,
    graph: s.Operator,
    attributes: Mapping[str, object] | None = None,
    types: Mapping[str, str] | None = None,
    quantize: bool = False,
) -> nodes.Graph:
    """Compose one graph of a program, all operators down to their formulas.

    `attributes` gives values to attributes of the graph, and None to optional inputs that
    shall be absent; `types` names the types that its generic types stand for; `quantize` tells
    whether the quantizers of `@quantize` are invoked, or only noted. The program has passed its
    checks. Raises `Error` with one diagnostic, which carries the stack of invocations, for
    whatever keeps the graph from being composed: E02 to E06, E09.
    """
    builder = Builder(program, f"{program.main.name}.{graph.name}", quantizing=quantize)
    builder.budget.gather = partial(gather, builder)
    builder.budget.name_size = partial(name_size, builder)
    try:
        return _compose_graph(builder, program.main, graph, attributes or {}, types or {})
    except Error as error:
        raise Error(_with_calls(d, builder) for d in error.diagnostics) from None
    except RecursionError:
        span = builder.frames[-1].span if builder.frames else graph.span
        deep = fail("E0902", "expressions nested too deeply to compose", span)
        raise Error(_with_calls(d, builder) for d in deep.diagnostics) from None


def _compose_graph(
    builder: Builder,
    module: s.Module,
    graph: s.Operator,
    attributes: Mapping[str, object],
    types: Mapping[str, str],
) -> nodes.Graph:
    evaluator = Evaluator({}, {}, builder.budget)
    binder = Binder(builder, graph, evaluator)
    scope = Scope(builder.name, True)
    _set_types(binder, types)
    absent = {p.name for p in graph.inputs if p.name in attributes and attributes[p.name] is None}
    given = {n: v for n, v in attributes.items() if n not in absent}
    binder.set_attributes(_given(graph, given), NOWHERE)
    binder.finish_types()
    inputs = bind_graph_inputs(binder, scope, absent)
    binder.finish()
    wanted: dict[str, Wanted] = {p.name: scope.tensor(p.name) for p in graph.outputs}
    body = Body(builder, module, graph, evaluator, scope, wanted, passes_through(graph))
    _drive(builder, compose_operator(body, None))
    return builder.finish(inputs, _outputs(body), graph.span)


def _set_types(binder: Binder, types: Mapping[str, str]) -> None:
    names = {p.name for p in binder.operator.dtypes}
    for name, type in types.items():
        if name not in names or type not in DTYPES:
            raise fail("E0415", f"type `{name}` of the graph cannot be `{type}`", NOWHERE)
        binder.unify(name, DTYPES[type], NOWHERE, "given for the graph")


def _given(graph: s.Operator, attributes: Mapping[str, object]) -> dict[str, tuple[Value, Span]]:
    """Attribute values from Python; an `int` may be given for a real."""
    reals = {p.name for p in graph.attributes if p.type.name == "real"}
    return {
        name: (None if value is None else _value(name, value, name in reals), NOWHERE)
        for name, value in attributes.items()
    }


def _value(name: str, value: object, real: bool) -> Value:
    tolist = getattr(value, "tolist", None)
    plain = tolist() if tolist is not None else value
    if isinstance(plain, list | tuple):
        return tuple([_scalar(name, item, real) for item in plain])
    return _scalar(name, plain, real)


def _scalar(name: str, value: object, real: bool) -> Item:
    if isinstance(value, int) and real and not isinstance(value, bool):
        return float(value)
    if isinstance(value, bool | int | float | str):
        return value
    kind = type(value).__name__
    raise fail("E0414", f"attribute `{name}` cannot be a `{kind}`", NOWHERE)


def _outputs(body: Body) -> list[nodes.Port]:
    """The results of the graph; what is not computed here, or is twice, is copied."""
    builder = body.builder
    computed: set[nodes.Tensor] = set()
    for step in builder.steps:
        computed |= set(step.outputs)
        if isinstance(step, nodes.Loop):
            computed |= {t for pack in step.collected for t in pack}
    ports = []
    for parameter in body.operator.outputs:
        value = body.evaluator.values[parameter.name]
        tensors = []
        name = body.scope.tensor(parameter.name)
        packed = not isinstance(value, nodes.Tensor)
        for k, tensor in enumerate(tensors_of(value)):
            if tensor not in computed:
                wanted = item_name(name, k) if packed else name
                tensor = builder.copy(tensor, wanted, parameter.span)
            computed.discard(tensor)
            tensors.append(tensor)
        length = None
        if isinstance(value, DynamicPack):
            length = builder.scalar(from_expr(value.length), parameter.span)
        ports.append(nodes.Port(parameter.name, tuple(tensors), packed, length=length))
        if length is not None:
            ports.append(nodes.Port(f"{parameter.name}.size", (length,)))
    return ports


# ----------------------------------------------------------------------- driver


def _drive(builder: Builder, task: Task) -> Results:
    """Run a task, and those it asks for, to the end."""
    stack = [task]
    results: Results | None = None
    while True:
        try:
            request = next(stack[-1]) if results is None else stack[-1].send(results)
        except StopIteration as stop:
            stack.pop()
            results = stop.value
            if not stack:
                return results
        else:
            stack.append(_start(request))
            results = None


def _start(request: Request) -> Task:
    if isinstance(request.node, s.Block):
        return compose_block(request)
    return compose_invocation(request)


def _with_calls(diagnostic: Diagnostic, builder: Builder) -> Diagnostic:
    """A finding with the stack of invocations, and a label where the user's text invokes.

    What is found in the library is shown in the user's text first.
    """
    spans = [frame.span for frame in reversed(builder.frames)]
    mine = next((span for span in spans if not is_library_source(span.source)), None)
    labels = diagnostic.labels
    shown = (diagnostic.span, *(label.span for label in labels))
    if mine is not None and not any(_inside(span, mine) for span in shown):
        labels = (*labels, Label(mine, "invoked here"))
    found = replace(diagnostic, labels=labels, calls=builder.calls())
    own = next((x for x in labels if not is_library_source(x.span.source)), None)
    if own is None or not is_library_source(diagnostic.span.source):
        return found
    there = Label(diagnostic.span, diagnostic.text)
    rest = tuple(x for x in labels if x is not own)
    return replace(found, span=own.span, text=own.text, labels=(there, *rest))


def _inside(span: Span, outer: Span) -> bool:
    return span.source is outer.source and outer.start <= span.start and span.end <= outer.end
