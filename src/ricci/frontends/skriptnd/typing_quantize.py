"""The @quantize block: names of tensors, and operators that quantize them (2.14)."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Label
from ...source import Span
from ..suggest import did_you_mean
from . import syntax as s
from .labels import automatic_label, passes_through, relative, result_names
from .standard_library import is_library
from .typing_calls import Modules, Unit, check_attributes, find_callee
from .typing_context import Context
from .typing_generics import Callee, Deduction


def check_quantization(unit: Unit, ctx: Context) -> None:
    """Check @quantize, given the names that the composition left."""
    seen: dict[tuple[str, ...], s.Quantization] = {}
    for entry in unit.operator.quantize:
        path = relative(entry.tensor, unit.module, unit.operator)
        earlier = seen.setdefault(path, entry)
        if earlier is not entry:
            ctx.report.error(
                "E0202",
                f"`{'.'.join(path)}` is quantized twice",
                _tensor_span(entry),
                labels=[Label(_tensor_span(earlier), "first here")],
            )
        _check_tensor(unit, ctx, entry, path)
        _check_quantizer(unit, ctx, entry)


def _tensor_span(entry: s.Quantization) -> Span:
    span = entry.span
    return Span(span.source, span.start, span.start + max(span.text.find(":"), 1))


# -------------------------------------------------------------------- tensors


def _check_tensor(unit: Unit, ctx: Context, entry: s.Quantization, path: tuple[str, ...]) -> None:
    if len(path) == 1:
        found = ctx.scope.find(path[0])
        if found is not None and found.is_tensor:
            return
        if found is not None or not passes_through(unit.operator):
            what = "is not a tensor" if found is not None else "is not known here"
            names = [n for n in ctx.scope.names() if (f := ctx.scope.find(n)) and f.is_tensor]
            _report(ctx, entry, f"`{path[0]}` {what}", did_you_mean(path[0], names))
            return
    search = _Search(unit.program)
    root = _graph_of(unit, path)
    if root is None:
        search.operator(unit.module, unit.operator, path, True)
    else:
        search.operator(*root, path[len(root[0].name.split(".")) + 1 :], True)
    if not search.found and root is None and len(path) > 2 and path[0] in unit.program.modules:
        _report(ctx, entry, f"there is no graph `{'.'.join(path[:2])}`", "")
    elif not search.found:
        _report(ctx, entry, search.message, search.help)


def _report(ctx: Context, entry: s.Quantization, message: str, help: str) -> None:
    ctx.report.error("E0609", message, _tensor_span(entry), help=help)


def _graph_of(unit: Unit, path: tuple[str, ...]) -> tuple[s.Module, s.Operator] | None:
    """The graph that a full name begins with."""
    for module in unit.program.modules.values():
        own = tuple(module.name.split("."))
        if path[: len(own)] != own or len(path) < len(own) + 2 or is_library(module):
            continue
        for operator in module.operators:
            if operator.graph and operator.name == path[len(own)]:
                return module, operator
    return None


class _Search:
    """Follows a path of labels into the operators that are invoked, and those within them."""

    def __init__(self, program: Modules) -> None:
        self.program = program
        self.found = False
        self.message = ""
        self.help = ""
        self._left: int | None = None
        self._seen: set[tuple[int, tuple[str, ...]]] = set()

    def operator(
        self, module: s.Module, operator: s.Operator, path: tuple[str, ...], visible: bool
    ) -> None:
        """Look for the tensor `path` in an operator; `visible` if it shows intermediates."""
        if (id(operator), path) in self._seen:
            return
        self._seen.add((id(operator), path))
        name = f"`{module.name}.{operator.name}`"
        declared = {p.name for p in (*operator.constants, *operator.variables)}
        others = {p.name for p in (*operator.inputs, *operator.outputs)}
        components = (*operator.compose, *operator.update)
        others.update(n for c in components for n in result_names(c))
        if len(path) == 1 and path[0] in (declared | others if visible else declared):
            self.found = True
        elif len(path) == 1 and path[0] in others:
            help = "variables and constants have names there, other tensors if it is `public`"
            self._fail(1, f"`{path[0]}` has no name outside of {name}", help)
        elif len(path) == 1:
            self._fail(1, f"{name} has no tensor `{path[0]}`", did_you_mean(path[0], others))
        else:
            labels = set(_labels(components))
            message = f"{name} has no invocation labelled `{path[0]}`"
            self._fail(len(path), message, did_you_mean(path[0], labels))
        through = passes_through(operator)
        for component in components:
            self._action(module, component.action, automatic_label(component), path, through)

    def _fail(self, left: int, message: str, help: str) -> None:
        """Note why the path does not lead on; the reason nearest to its end is told."""
        if self._left is None or left < self._left:
            self._left, self.message, self.help = left, message, help

    def _action(
        self, module: s.Module, node: s.Action, label: str | None, path: Path, through: bool
    ) -> None:
        match node:
            case s.Invocation():
                self._invocation(module, node, label, path, through)
            case s.Block():
                self._block(module, node, label, path, through)
            case s.Branch():
                for part in (*node.conditions, *node.branches):
                    self._action(module, part, label, path, through)
            case s.Loop():
                self._action(module, node.body, label, path, through)

    def _invocation(
        self, module: s.Module, node: s.Invocation, label: str | None, path: Path, through: bool
    ) -> None:
        found = self.program.resolve(module, node.callee)
        if found is None or (found[1].graph and node.label is None):
            return
        visible = found[1].public or found[1].graph
        if through and node.label is None:
            self.operator(*found, path, visible)
        elif len(path) > 1 and path[0] == (node.label or label):
            self.operator(*found, path[1:], visible)

    def _block(
        self, module: s.Module, node: s.Block, label: str | None, path: Path, through: bool
    ) -> None:
        label = node.label or label
        if label is not None and (len(path) == 1 or path[0] != label):
            return
        inner = path if label is None else path[1:]
        if len(inner) == 1 and any(inner[0] in result_names(c) for c in node.components):
            self.found = True
        for component in node.components:
            self._action(module, component.action, automatic_label(component), inner, False)


Path = tuple[str, ...]


def _labels(components: tuple[s.Component, ...]) -> Iterator[str]:
    """Explicit labels, and results that label their invocation."""
    for component in components:
        label = automatic_label(component)
        yield from () if label is None else (label,)
        yield from _action_labels(component.action)


def _action_labels(action: s.Action) -> Iterator[str]:
    match action:
        case s.Invocation(label=str(label)) | s.Block(label=str(label)):
            yield label
        case s.Branch():
            for part in (*action.conditions, *action.branches):
                yield from _action_labels(part)
        case s.Loop():
            yield from _action_labels(action.body)


# ----------------------------------------------------------------- quantizers


def _check_quantizer(unit: Unit, ctx: Context, entry: s.Quantization) -> None:
    start = entry.span.start + entry.span.text.find(entry.callee[0], entry.span.text.find(":"))
    span = Span(entry.span.source, start, start + len(".".join(entry.callee)))
    callee = find_callee(unit, ctx, entry.callee, span, graph_allowed=False)
    if callee is None:
        return
    _check_ports(ctx, callee, span)
    deduction = Deduction(callee, uncertain=True)
    check_attributes(ctx, entry.attributes, span, deduction)


def _check_ports(ctx: Context, callee: Callee, span: Span) -> None:
    op = callee.operator
    if len(op.inputs) != 1 or len(op.outputs) != 1:
        ctx.report.error(
            "E0217",
            f"a quantizer has one input and one output; `{callee.text}` has "
            f"{len(op.inputs)} and {len(op.outputs)}",
            span,
            labels=[Label(op.name_span, "declared here")],
        )
