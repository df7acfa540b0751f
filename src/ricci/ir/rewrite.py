"""Walking and rebuilding expressions and the nodes above them.

All functions keep sharing: a node that occurs in several places is visited once, and a
node none of whose parts changed is returned as it is, so that directed acyclic graphs of
expressions stay linear in time and space. They do not recurse over operators; only
through a `Local` or an `Access` in an `Access` do calls nest, which front ends
keep below a few hundred levels. Comparing or hashing nodes with `==` and
`hash` does recurse (Python's limit allows about 300 levels), so nothing here does that.

A `Local` is a leaf of the expressions that use it: its value belongs to the
assignment that lists it. `free_indices` and `accesses` look through locals.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from ..memo import remembered
from ..records import replace
from .nodes import (
    Access,
    Apply,
    Assignment,
    Binary,
    Branch,
    Cast,
    Expr,
    Graph,
    Index,
    Local,
    Loop,
    Operation,
    Port,
    Region,
    Remap,
    Select,
    Skip,
    Step,
    Subscript,
    Symbol,
    Tensor,
    Unary,
)

# ---------------------------------------------------------------- expressions


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct parts of an expression, in the order written; of an access its subscripts
    with what they are remapped to. `Const`, `Symbol`, `Index` and `Local` have none."""
    parts = _PARTS.get(type(expr))
    return () if parts is None else parts(expr)


def _parts_of_access(access: Access) -> tuple[Expr, ...]:
    parts = []
    for subscript in access.subscripts:
        parts.append(subscript.index)
        if isinstance(subscript.rule, Remap):
            parts += (subscript.rule.below, subscript.rule.above)
    return tuple(parts)


_PARTS: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Binary: operator.attrgetter("lhs", "rhs"),
    Access: _parts_of_access,
    Unary: lambda node: (node.operand,),
    Cast: lambda node: (node.operand,),
    Select: operator.attrgetter("condition", "then", "otherwise"),
    Apply: operator.attrgetter("arguments"),
}
"""By class: expressions are walked more often than anything else is done."""


def is_division(expr: Binary) -> bool:
    """Whether an operator is a division of integers."""
    return expr.op in ("floordiv", "ceildiv", "mod") and expr.dtype.is_int


def walk(*roots: Expr, parts: Callable[[Expr], tuple[Expr, ...]] | None = None) -> Iterator[Expr]:
    """Every node of the expressions once, parts before wholes.

    `parts` tells what a node is made of: `children`, if it is not given.
    """
    seen: set[int] = set()
    # a node whose parts have been pushed above it is in a tuple
    stack: list[Expr | tuple[Expr]] = [*reversed(roots)]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            yield node[0]
            continue
        key = id(node)
        if key in seen:
            continue
        seen.add(key)
        of = _PARTS.get(type(node)) if parts is None else parts
        below = () if of is None else of(node)
        if below:
            stack.append((node,))
            stack += below[::-1]
        else:
            yield node


def with_children(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """`expr` with other parts, given in the order of `children`; itself if none differs."""
    old = children(expr)
    assert len(parts) == len(old), f"{len(parts)} parts for {len(old)}"
    return _with_children(expr, old, parts)


def _with_children(expr: Expr, old: tuple[Expr, ...], parts: tuple[Expr, ...]) -> Expr:
    """The same, of an expression with such parts."""
    if all(map(operator.is_, old, parts)):
        return expr
    match expr:
        case Binary():
            return Binary(expr.op, *parts)
        case Unary():
            return Unary(expr.op, *parts)
        case Cast():
            return Cast(expr.dtype, *parts)
        case Select():
            return Select(*parts)
        case Apply():
            return Apply(expr.function, parts)
        case Access():
            return Access(expr.tensor, _with_parts(expr.subscripts, parts), expr.span)
        case _:
            return expr


def _with_parts(old: tuple[Subscript, ...], parts: tuple[Expr, ...]) -> tuple[Subscript, ...]:
    rest = iter(parts)
    new = []
    for subscript in old:
        index, rule = next(rest), subscript.rule
        if isinstance(rule, Remap):
            below, above = next(rest), next(rest)
            if below is not rule.below or above is not rule.above:
                rule = Remap(below, above)
        same = index is subscript.index and rule is subscript.rule
        new.append(subscript if same else Subscript(index, rule))
    return tuple(new)


def rebuild(expr: Expr, f: Callable[[Expr], Expr], memo: dict[int, Expr] | None = None) -> Expr:
    """`expr` with every node replaced by `f(node)`, parts first: `f` sees each node once, with
    its parts replaced already.

    `memo` (node's `id` to result), handed to several calls, keeps what the expressions
    share shared; its owner must keep the expressions alive.
    """
    done = {} if memo is None else memo
    stack: list[Expr | tuple[Expr, tuple[Expr, ...]]] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            node, parts = node
            if id(node) not in done:
                made = tuple([done[id(p)] for p in parts])
                done[id(node)] = f(_with_children(node, parts, made))
        elif id(node) not in done:
            if parts := children(node):
                stack.append((node, parts))
                stack += reversed(parts)
            else:
                done[id(node)] = f(node)
    return done[id(expr)]


Replaceable = Index | Symbol | Local | Tensor


def substitute(
    expr: Expr,
    replacements: Mapping[Replaceable, Expr | Tensor],
    memo: dict[int, Expr] | None = None,
) -> Expr:
    """`expr` with indices, symbols and locals replaced by expressions, and tensors by tensors.

    Locals inside are looked through: one whose value changes is replaced by a new local. The
    replacements themselves are not searched again. `memo` as in `rebuild`.
    """
    done = {} if memo is None else memo

    def replaced(node: Expr) -> Expr:
        match node:
            case Index() | Symbol():
                return cast(Expr, replacements.get(node, node))
            case Local():
                return _substitute_local(node, replacements, done)
            case Access() if node.tensor in replacements:
                tensor = cast(Tensor, replacements[node.tensor])
                return Access(tensor, node.subscripts, node.span)
            case _:
                return node

    return rebuild(expr, replaced, done)


def _substitute_local(
    local: Local, replacements: Mapping[Replaceable, Expr | Tensor], memo: dict[int, Expr]
) -> Expr:
    if local in replacements:
        return cast(Expr, replacements[local])
    value = substitute(local.value, replacements, memo)
    return local if value is local.value else Local(local.name, value)


def used_locals(locals_: Sequence[Local], *roots: Expr) -> list[Local]:
    """The locals that expressions depend on, in order."""
    used = {n for n in nodes_through_locals(*roots) if isinstance(n, Local)}
    return [local for local in locals_ if local in used]


def nodes_through_locals(*roots: Expr) -> Iterator[Expr]:
    """Like `walk`, and then the values of the locals met, each node at least once."""
    seen: set[int] = set()
    pending = list(roots)
    while pending:
        found: list[Expr] = []
        for node in walk(*pending):
            yield node
            if isinstance(node, Local) and id(node) not in seen:
                seen.add(id(node))
                found.append(node.value)
        pending = found


_Node = TypeVar("_Node", Index, Symbol, Access)


def _nodes_of(kind: type[_Node], roots: Iterable[Expr]) -> list[_Node]:
    """What `nodes_through_locals` gives of one class, each once."""
    found: list[_Node] = []
    seen: set[int] = set()
    stack: list[Any] = list(roots)[::-1]
    below: list[Expr] = []  # the values of locals, which come after all else
    while stack or below:
        if not stack:
            stack += below[::-1]
            below.clear()
        node: Any = stack.pop()
        of: Any = node.__class__
        if of is tuple:  # an access, whose parts have been pushed above it
            found += node
            continue
        parts = _PARTS.get(of)
        if parts is None and of is not kind and of is not Local:
            continue
        key = id(node)
        if key in seen:
            continue
        seen.add(key)
        if parts is not None:
            if of is kind:
                stack.append((node,))
            stack += parts(node)[::-1]
        elif of is kind:
            found.append(node)
        else:
            below.append(node.value)
    return found


def free_indices(*exprs: Expr) -> tuple[Index, ...]:
    """The indices that the expressions depend on, in order of first occurrence."""
    return tuple(_nodes_of(Index, exprs))


def free_symbols(*exprs: Expr) -> tuple[Symbol, ...]:
    """The symbols that the expressions depend on, in order of first occurrence; those in the
    extents of indices are not counted."""
    return tuple(_nodes_of(Symbol, exprs))


@remembered
def accesses(*exprs: Expr) -> tuple[Access, ...]:
    """The accesses in the expressions, inner ones first, each node once."""
    return tuple(_nodes_of(Access, exprs))


def has_guard(*exprs: Expr) -> bool:
    """Whether some access in the expressions has a `Skip`."""
    return any(isinstance(s.rule, Skip) for a in accesses(*exprs) for s in a.subscripts)


# ---------------------------------------------------------------- assignments


def expressions(assignment: Assignment) -> tuple[Expr, ...]:
    """The expressions of an assignment: targets, values of locals, condition, values."""
    condition = () if assignment.condition is None else (assignment.condition,)
    values = tuple(local.value for local in assignment.locals)
    return (*assignment.targets, *values, *condition, *assignment.values)


def map_assignment(assignment: Assignment, f: Callable[[Expr], Expr]) -> Assignment:
    """The assignment with `f` applied to every node of its expressions, as by `rebuild`.

    Locals whose value changes become new ones, and their uses follow. `f` must give an access
    for each target. The domain stays.
    """
    memo: dict[int, Expr] = {}
    locals_ = []
    for local in assignment.locals:
        value = rebuild(local.value, f, memo)
        new = local if value is local.value else Local(local.name, value)
        memo[id(local)] = new
        locals_.append(new)
    condition = assignment.condition
    result = replace(
        assignment,
        targets=tuple(cast(Access, rebuild(t, f, memo)) for t in assignment.targets),
        values=tuple(rebuild(v, f, memo) for v in assignment.values),
        locals=tuple(locals_),
        condition=None if condition is None else rebuild(condition, f, memo),
    )
    return _unless_same(assignment, result)


def substitute_assignment(
    assignment: Assignment, replacements: Mapping[Replaceable, Expr | Tensor]
) -> Assignment:
    """The assignment with indices, symbols and tensors replaced as by `substitute`, also in the
    extents of the domain. An index of the domain that is replaced leaves the domain; where
    an index replaces it, that takes its place. Indices whose extent changes become new ones."""
    full = dict(replacements)
    domain = []
    for index in assignment.domain:
        new = replacements.get(index) or _with_extent(index, replacements)
        if new is not index:
            full[index] = new
        if isinstance(new, Index) and new not in domain:
            domain.append(new)
    memo: dict[int, Expr] = {}
    locals_ = tuple(cast(Local, substitute(x, full, memo)) for x in assignment.locals)
    condition = assignment.condition
    result = replace(
        assignment,
        domain=tuple(domain),
        locals=locals_,
        targets=tuple(cast(Access, substitute(t, full, memo)) for t in assignment.targets),
        values=tuple(substitute(v, full, memo) for v in assignment.values),
        condition=None if condition is None else substitute(condition, full, memo),
    )
    return _unless_same(assignment, result)


def _with_extent(index: Index, replacements: Mapping[Replaceable, Expr | Tensor]) -> Index:
    extent = substitute(index.extent, replacements)
    return index if extent is index.extent else Index(index.name, extent, index.span)


def _unless_same(old: Assignment, new: Assignment) -> Assignment:
    """The new assignment; the old one if all parts are the same objects."""
    before = (*old.domain, *old.locals, *old.targets, *old.values, old.condition)
    after = (*new.domain, *new.locals, *new.targets, *new.values, new.condition)
    same = len(before) == len(after) and all(map(operator.is_, before, after))
    return old if same else new


# ------------------------------------------------------------------- programs


def map_operation(operation: Operation, f: Callable[[Assignment], Assignment]) -> Operation:
    """The operation with every assignment replaced; itself if none changes."""
    body = tuple(f(a) for a in operation.body)
    if all(a is b for a, b in zip(body, operation.body, strict=True)):
        return operation
    return replace(operation, body=body)


def substitute_tensors(step: Step, replacements: Mapping[Tensor, Tensor]) -> Step:
    """The step with tensors replaced wherever it names them: read, written, or listed."""
    if not replacements:
        return step

    def new(tensor: Tensor) -> Tensor:
        return replacements.get(tensor, tensor)

    def new_all(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple(map(new, tensors))

    def region(old: Region) -> Region:
        steps = tuple(substitute_tensors(s, replacements) for s in old.operations)
        return Region(steps, new_all(old.results))

    match step:
        case Operation():
            tensors = cast(Mapping[Replaceable, Expr | Tensor], replacements)
            body = tuple(substitute_assignment(a, tensors) for a in step.body)
            outputs, inputs = new_all(step.outputs), new_all(step.inputs)
            return replace(step, outputs=outputs, inputs=inputs, body=body)
        case Branch():
            return replace(
                step,
                outputs=new_all(step.outputs),
                conditions=tuple(map(region, step.conditions)),
                branches=tuple(map(region, step.branches)),
            )
        case Loop():
            return replace(
                step,
                outputs=new_all(step.outputs),
                collected=tuple(map(new_all, step.collected)),
                variables=new_all(step.variables),
                initial=new_all(step.initial),
                scans=tuple((new(item), new_all(pack)) for item, pack in step.scans),
                body=region(step.body),
                count=new(step.count) if isinstance(step.count, Tensor) else step.count,
                index=None if step.index is None else new(step.index),
                steps=None if step.steps is None else new(step.steps),
                condition=None if step.condition is None else region(step.condition),
            )


def substitute_graph(graph: Graph, replacements: Mapping[Tensor, Tensor]) -> Graph:
    """The graph with tensors replaced everywhere: ports, steps, variables, constants, sizes."""

    def new_all(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(replacements.get(t, t) for t in tensors))

    def port(old: Port) -> Port:
        length = None if old.length is None else replacements.get(old.length, old.length)
        return replace(
            old, tensors=tuple(replacements.get(t, t) for t in old.tensors), length=length
        )

    return replace(
        graph,
        inputs=tuple(map(port, graph.inputs)),
        outputs=tuple(map(port, graph.outputs)),
        operations=tuple(substitute_tensors(s, replacements) for s in graph.operations),
        variables=new_all(graph.variables),
        constants=new_all(graph.constants),
        sizes=tuple((s, replacements.get(t, t)) for s, t in graph.sizes),
        updates=tuple((replacements.get(a, a), replacements.get(b, b)) for a, b in graph.updates),
        quantization=tuple(
            replace(q, tensor=replacements.get(q.tensor, q.tensor)) for q in graph.quantization
        ),
    )


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps and those of the regions in them, outer ones first."""
    for step in steps:
        yield step
        for region in regions(step):
            yield from all_steps(region.operations)


def regions(step: Step) -> tuple[Region, ...]:
    """The parts of the graph that a step runs."""
    match step:
        case Operation():
            return ()
        case Branch():
            return (*step.conditions, *step.branches)
        case Loop():
            return (step.body,) if step.condition is None else (step.body, step.condition)


def map_regions(step: Step, f: Callable[[Region], Region]) -> Step:
    """The step with every region of its own replaced."""
    match step:
        case Operation():
            return step
        case Branch():
            conditions, branches = map(f, step.conditions), map(f, step.branches)
            return replace(step, conditions=tuple(conditions), branches=tuple(branches))
        case Loop():
            condition = None if step.condition is None else f(step.condition)
            return replace(step, body=f(step.body), condition=condition)


def results(step: Step) -> tuple[Tensor, ...]:
    """The tensors that a step computes for those around it."""
    return loop_results(step) if isinstance(step, Loop) else step.outputs


def loop_results(loop: Loop) -> tuple[Tensor, ...]:
    """What a loop computes: final variables, the items of its packs, the number of steps."""
    steps = () if loop.steps is None else (loop.steps,)
    return (*loop.outputs, *(t for pack in loop.collected for t in pack), *steps)


def step_tensors(loop: Loop) -> tuple[Tensor, ...]:
    """What each step of a loop begins with: variables, items, its number."""
    index = () if loop.index is None else (loop.index,)
    return (*loop.variables, *(item for item, _ in loop.scans), *index)


def tensors_read(assignment: Assignment) -> tuple[Tensor, ...]:
    """The tensors that an assignment reads by accesses (subscripts of targets included)."""
    own = {id(t) for t in assignment.targets}
    found = (a.tensor for a in accesses(*expressions(assignment)) if id(a) not in own)
    return tuple(dict.fromkeys(found))
