"""The adjoint of one assignment: statements that add to the gradients of what it reads.

Requires: an assignment whose order does not matter. Ensures: each statement happens for just the
instances for which the assignment does: guards that it does not repeat are conditions. Does not:
know what becomes of the statements.

Example: of `y[i] += x[|i - k|] * w[k]` those are `d_x[|i - k|] += d_y[i] * w[k]` and
`d_w[k] += d_y[i] * x[|i - k|]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from ..dtypes import DType
from ..ir import shapes
from ..ir.nodes import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Access,
    Assignment,
    Binary,
    Expr,
    Index,
    Local,
    Reduction,
    Remap,
    Select,
    Skip,
    Subscript,
    Tensor,
    integer,
)
from ..ir.rewrite import (
    Replaceable,
    accesses,
    children,
    expressions,
    has_guard,
    map_assignment,
    nodes_through_locals,
    rebuild,
    substitute_assignment,
    walk,
)
from ..records import replace
from .gradient_scalar import Algebra, Flow, Path
from .kernels import covers, may_fail, plain_dimensions
from .specialise import shapes_inside


class Instance:
    """An assignment with unique expressions, whose points other statements share."""

    def __init__(self, algebra: Algebra, a: Assignment) -> None:
        self.make = algebra
        self.locals = tuple(algebra.local(x) for x in a.locals)
        self.assignment = a = replace(
            a,
            targets=tuple(cast(Access, algebra.whole(t)) for t in a.targets),
            values=tuple(map(algebra.whole, a.values)),
            condition=None if a.condition is None else algebra.whole(a.condition),
            locals=self.locals,
        )
        self.guards = self._guards(expressions(a))

    def _guards(self, exprs: Iterable[Expr]) -> dict[tuple[int, int], tuple[Expr, Expr]]:
        """The indices that must be in range, and their extents."""
        found: dict[tuple[int, int], tuple[Expr, Expr]] = {}
        for access in accesses(*exprs):
            for s, extent in zip(access.subscripts, access.tensor.shape, strict=True):
                if isinstance(s.rule, Skip) and not is_inside(s.index, extent):
                    extent = self.make.whole(extent)
                    found[id(s.index), id(extent)] = (s.index, extent)
        return found

    def statement(
        self, op: Reduction, targets: Sequence[Access], values: Sequence[Expr], path: Path = ()
    ) -> Assignment:
        """An assignment at the points of this one at which all conditions of a path hold."""
        conditions = [] if self.assignment.condition is None else [self.assignment.condition]
        conditions += [c if wanted else shapes.logical_not(c) for c, wanted in path]
        locals_ = self._used((*targets, *values, *conditions))
        kept = self._guards((*targets, *values, *(x.value for x in locals_), *conditions))
        missing = [_in_range(*g) for key, g in self.guards.items() if key not in kept]
        condition: Expr | None = None
        for part in (*(c for m in missing for c in m), *conditions):
            condition = part if condition is None else _both(condition, part)
        result = Assignment(
            tuple(targets), op, tuple(values), self.assignment.domain, locals_, condition,
            self.assignment.span,
        )  # fmt: skip
        risky = {x for x in locals_ if may_fail(x.value)} if missing else set()
        return _without_locals(result, risky) if risky else result

    def _used(self, exprs: Sequence[Expr]) -> tuple[Local, ...]:
        used = {x for x in nodes_through_locals(*exprs) if isinstance(x, Local)}
        return tuple(x for x in self.locals if x in used)

    def add(self, flow: Flow, gradient: Tensor) -> list[Assignment]:
        """The statements that add a cotangent to the gradient of what was read."""
        target = Access(gradient, flow.access.subscripts)
        if not _is_safe(flow.access) and any(path for path, _ in flow.terms):
            target = _guarded(target)
            return [
                self.statement("add", [target], [v], _without_guards(path, target))
                for path, v in flow.terms
            ]
        if len(flow.terms) == 1:
            path, value = flow.terms[0]
            statement = self.statement("add", [target], [value])
            if not path or not is_map(statement):
                return [self.statement("add", [target], [value], path)]
        total = self.make.total(flow.terms, gradient.dtype)
        return [self.statement("add", [target], [total])]


def is_inside(index: Expr, extent: Expr) -> bool:
    """Whether a subscript is certainly in range."""
    try:
        return shapes_inside(shapes.simplify(index), shapes.simplify(extent))
    except ZeroDivisionError:
        return False


def _is_safe(access: Access) -> bool:
    """Whether an element may be addressed also where the program does not."""
    for s, extent in zip(access.subscripts, access.tensor.shape, strict=True):
        rule = s.rule
        if accesses(s.index):
            return False
        if isinstance(rule, Remap):
            if not (is_inside(rule.below, extent) and is_inside(rule.above, extent)):
                return False
        elif rule is None and not is_inside(s.index, extent):
            return False
    return True


def _guarded(target: Access) -> Access:
    """The target with guards: where it is out of range the program does not read there."""
    subscripts = [
        s if s.rule is not None or accesses(s.index) or is_inside(s.index, n) else _skipping(s)
        for s, n in zip(target.subscripts, target.tensor.shape, strict=True)
    ]
    return replace(target, subscripts=tuple(subscripts))


def _skipping(s: Subscript) -> Subscript:
    return Subscript(s.index, Skip())


def _without_guards(path: Path, target: Access) -> Path:
    """The conditions of a path that guards of the target do not say already."""
    sides: list[Expr] = []
    for s, extent in zip(target.subscripts, target.tensor.shape, strict=True):
        if isinstance(s.rule, Skip):
            sides += [s.index, shapes.sub(shapes.sub(extent, ONE), s.index)]
    return tuple(
        (c, True)
        for condition, wanted in path
        for c in (_conjuncts(condition) if wanted else [shapes.logical_not(condition)])
        if not any(shapes.equal(_difference(c), side) for side in sides)
    )


def _conjuncts(condition: Expr) -> list[Expr]:
    if isinstance(condition, Binary) and condition.op == "and":
        return [*_conjuncts(condition.lhs), *_conjuncts(condition.rhs)]
    return [condition]


def _difference(condition: Expr) -> Expr:
    """What is not negative if a comparison of integers holds; -1 for any other condition."""
    if isinstance(condition, Binary) and condition.lhs.dtype is DType.INT:
        a, b = condition.lhs, condition.rhs
        match condition.op:
            case "ge":
                return shapes.sub(a, b)
            case "gt":
                return shapes.sub(shapes.sub(a, b), ONE)
            case "le":
                return shapes.sub(b, a)
            case "lt":
                return shapes.sub(shapes.sub(b, a), ONE)
    return integer(-1)


def _in_range(index: Expr, extent: Expr) -> list[Expr]:
    low, high = shapes.compare("ge", index, ZERO), shapes.compare("lt", index, extent)
    return [c for c in (low, high) if c != TRUE]


def _both(first: Expr, second: Expr) -> Expr:
    """Two conditions, of which the second may be evaluated only where the first holds."""
    if may_fail(second):
        return Select(first, second, FALSE)
    return Binary("and", first, second)


def _without_locals(a: Assignment, gone: set[Local]) -> Assignment:
    """The assignment without locals that could not be computed where its condition is false."""
    memo: dict[int, Expr] = {}
    for local in a.locals:
        value = rebuild(local.value, lambda x: x, memo)
        memo[id(local)] = value if local in gone else Local(local.name, value)
    changed = map_assignment(replace(a, locals=()), lambda x: memo.get(id(x), x))
    kept = tuple(cast(Local, memo[id(x)]) for x in a.locals if x not in gone)
    return replace(changed, locals=kept)


# ------------------------------------------------------------------ gradients


def like(prefix: str, tensor: Tensor) -> Tensor:
    """A tensor of the same type for something that belongs to one: `main.d_x` for `main.x`."""
    scope, dot, name = tensor.name.rpartition(".")
    return Tensor(f"{scope}{dot}{prefix}_{name}", tensor.dtype, tensor.shape, None, tensor.span)


class Gradient:
    """The gradient of a tensor while it is collected: a sum of statements and of tensors."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = like("d", tensor)
        self.parts: list[Assignment] = []
        self.wholes: list[Tensor] = []

    def body(self) -> tuple[Assignment, ...]:
        """The statements that compute it, the element-wise ones in one."""
        maps = [_copy(self.tensor, whole) for whole in self.wholes]
        maps += [a for a in self.parts if is_map(a)]
        rest = [a for a in self.parts if not is_map(a)]
        first = () if not maps else (_joined(maps),)
        return tuple(_with_own_indices(name_parts(a)) for a in (*first, *rest))


def is_map(a: Assignment) -> bool:
    """Whether a statement writes each element of its target once."""
    target = a.targets[0]
    dimensions = plain_dimensions(target)
    if dimensions is None or not covers(target, dimensions) or a.condition is not None:
        return False
    if len(a.targets) > 1 or not set(a.domain) <= set(dimensions):
        return False
    return not has_guard(*a.values, *a.locals)


def copy_of(tensor: Tensor, value: Callable[[tuple[Subscript, ...]], Expr]) -> Assignment:
    """A statement that gives every element of a tensor a value."""
    domain = tuple(Index(f"i{d}", extent) for d, extent in enumerate(tensor.shape))
    subscripts = tuple(map(Subscript, domain))
    return Assignment((Access(tensor, subscripts),), "set", (value(subscripts),), domain)


def _copy(tensor: Tensor, source: Tensor) -> Assignment:
    return copy_of(tensor, lambda subscripts: Access(source, subscripts))


def _joined(maps: Sequence[Assignment]) -> Assignment:
    """Element-wise statements as one, in the indices of the first that comes from a program."""
    first = next((m for m in maps if m.op != "set"), maps[0])
    places = [s.index for s in first.targets[0].subscripts]
    make = Algebra()
    value: Expr | None = None
    locals_: list[Local] = []
    for statement in maps:
        own = [s.index for s in statement.targets[0].subscripts]
        new: dict[Replaceable, Expr | Tensor] = {
            i: place for i, place in zip(own, places, strict=True) if isinstance(i, Index)
        }
        moved = substitute_assignment(statement, new)
        term = make.whole(moved.values[0])
        value = term if value is None else make.add(value, term)
        locals_ += [make.local(x) for x in moved.locals]
    assert value is not None
    return replace(first, op="set", values=(value,), locals=tuple(locals_))


def _with_own_indices(a: Assignment) -> Assignment:
    """The statement with indices that no other one has."""
    fresh: dict[Replaceable, Expr | Tensor] = {}
    fresh |= {i: Index(i.name, i.extent, i.span) for i in a.domain}
    return substitute_assignment(a, fresh)


def name_parts(a: Assignment) -> Assignment:
    """The assignment with a local for each larger expression that its values use repeatedly."""
    sizes: dict[int, int] = {}
    uses: dict[int, int] = {}
    order = list(walk(*a.values, parts=_value_parts))
    for node in order:
        sizes[id(node)] = 1 + sum(sizes[id(p)] for p in _value_parts(node))
        for part in _value_parts(node):
            uses[id(part)] = uses.get(id(part), 0) + 1
    memo: dict[int, Expr] = {}
    found: list[Local] = []
    for node in order:
        if uses.get(id(node), 0) > 1 and sizes[id(node)] >= _REPEATED and not may_fail(node):
            value = rebuild(node, lambda x: x, memo)
            found.append(Local(f"t{len(found) + 1}", value))
            memo[id(node)] = found[-1]
    if not found:
        return a
    values = tuple(rebuild(v, lambda x: x, memo) for v in a.values)
    return replace(a, values=values, locals=(*a.locals, *found))


_REPEATED = 5
"""The size from which an expression is worth a name."""


def _value_parts(node: Expr) -> tuple[Expr, ...]:
    return () if isinstance(node, Access) else children(node)


def with_reads(a: Assignment, read: Callable[[Access], Expr]) -> Assignment:
    """The assignment with its reads replaced, also those in subscripts of targets."""
    memo: dict[int, Expr] = {}

    def node(x: Expr) -> Expr:
        return read(x) if isinstance(x, Access) else x

    def new(x: Expr) -> Expr:
        return rebuild(x, node, memo)

    def subscript(s: Subscript) -> Subscript:
        rule = s.rule
        if isinstance(rule, Remap):
            rule = Remap(new(rule.below), new(rule.above))
        return Subscript(new(s.index), rule)

    locals_ = []
    for local in a.locals:
        value = new(local.value)
        memo[id(local)] = changed = local if value is local.value else Local(local.name, value)
        locals_.append(changed)
    targets = [replace(t, subscripts=tuple(map(subscript, t.subscripts))) for t in a.targets]
    return replace(
        a,
        targets=tuple(targets),
        values=tuple(map(new, a.values)),
        condition=None if a.condition is None else new(a.condition),
        locals=tuple(locals_),
    )
