"""Operators that invoke themselves for ever: recursion must pass a static condition (2.10.1)."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Label, Report
from ..cycles import find_cycles
from . import syntax as s
from .binding import free_names
from .typing_calls import Modules, callee_span


def check_recursion(program: Modules, modules: list[s.Module], report: Report) -> None:
    """Report every cycle of invocations that no static condition can end."""
    calls = _Calls(program)
    starts = [(m.name, o.name) for m in modules for o in m.operators]
    calls.known.update(((m.name, o.name), (m, o)) for m in modules for o in m.operators)
    for cycle in find_cycles(starts, calls.successors):
        after = [*cycle[1:], cycle[0]]
        _report_cycle([calls.edges[k][n] for k, n in zip(cycle, after, strict=True)], cycle, report)


_Key = tuple[str, str]


class _Calls:
    """The operators that each operator always invokes, with the invocations."""

    def __init__(self, program: Modules) -> None:
        self.program = program
        self.known: dict[_Key, tuple[s.Module, s.Operator]] = {}
        self.edges: dict[_Key, dict[_Key, s.Invocation]] = {}

    def successors(self, key: _Key) -> list[_Key]:
        module, op = self.known[key]
        edges = self.edges.setdefault(key, {})
        for call in _invocations(op):
            found = self.program.resolve(module, call.callee)
            if found is not None:
                following = (found[0].name, found[1].name)
                self.known.setdefault(following, found)
                edges.setdefault(following, call)
        return list(edges)


def _report_cycle(calls: list[s.Invocation], cycle: list[_Key], report: Report) -> None:
    names = [name for _, name in cycle]
    first, *others = calls
    chain = " -> ".join(f"`{n}`" for n in [*names, names[0]])
    report.error(
        "E0205",
        f"operator `{names[0]}` invokes itself without end: {chain}",
        callee_span(first),
        labels=[Label(callee_span(call), "") for call in others],
        help="put the invocation into a branch with a condition on attributes, "
        "as in `if n == 0 then x else f{n = n - 1}(x)`",
    )


def _invocations(op: s.Operator) -> Iterator[s.Invocation]:
    """The invocations that always take place when an operator is composed."""
    tensors = {p.name for p in (*op.inputs, *op.outputs, *op.constants, *op.variables)}
    tensors |= _assigned(op.compose)
    for component in (*op.compose, *op.update):
        yield from _certain(component.action, tensors)


def _assigned(components: tuple[s.Component, ...]) -> set[str]:
    names: set[str] = set()
    for component in components:
        for result in component.results:
            items = result.items if isinstance(result, s.ResultList) else (result,)
            names |= {i.name for i in items if isinstance(i, s.Result)}
    return names


def _certain(action: s.Action, tensors: set[str]) -> Iterator[s.Invocation]:
    match action:
        case s.Invocation():
            yield action
        case s.Block():
            inner = tensors | _assigned(action.components)
            for component in action.components:
                yield from _certain(component.action, inner)
        case s.Branch():
            yield from _certain_in_branch(action, tensors)
        case s.Loop():
            local = {c.name for c in action.carried} | {v.name for v in action.scans}
            yield from _certain(action.body, tensors | local)
            if action.condition is not None:
                yield from _certain(action.condition, tensors | local)


def _certain_in_branch(branch: s.Branch, tensors: set[str]) -> Iterator[s.Invocation]:
    """Branches behind a static condition may be left out; the others are all composed."""
    static = False
    for position, action in enumerate(branch.branches):
        if position < len(branch.conditions):
            condition = branch.conditions[position]
            if not static:
                yield from _certain(condition, tensors)
            static = static or _is_static(condition, tensors)
        if not static:
            yield from _certain(action, tensors)


def _is_static(condition: s.Callable, tensors: set[str]) -> bool:
    if isinstance(condition, s.Invocation | s.Block):
        return False
    nodes = free_names(condition)
    return not any(isinstance(node, s.Name) and name in tensors for name, node in nodes.items())
