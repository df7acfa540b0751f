"""Derivatives of scalar expressions: from the cotangent of a value to those of what it reads.

Requires: an expression. Ensures: for each element that it reads, the cotangent that reaches it, as
an expression that may be evaluated wherever the value could be: what stands in a side of a `Select`
carries the path of conditions to it. Does not: look at subscripts and conditions, which carry none.
Equal expressions become one node, so that what two derivatives share is computed once.

Conventions where a derivative does not exist: the second operand of `min` and `max` gets it where
both are equal, and so does the side of a `Select` that is taken; `abs`, `sign` and roundings give 0
at their kinks, and `a ** b` has no derivative by b where a is not positive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from ..dtypes import DType
from ..ir.derivatives import derivatives
from ..ir.nodes import (
    Access,
    Apply,
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Function,
    Index,
    Local,
    Select,
    Symbol,
    Tensor,
    Unary,
)
from ..ir.rewrite import children, rebuild, walk
from ..records import dataclass
from .kernels import may_fail

Path = tuple[tuple[Expr, bool], ...]
"""Conditions, the outermost first, and what each must be."""

_MOST_PATHS = 8

Terms = dict[tuple[tuple[int, bool], ...], tuple[Path, Expr]]
"""A cotangent as a sum: what is added on which path."""


class Algebra:
    """Makes expressions of reals, simplified, and each only once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Expr] = {}
        self._memo: dict[int, Expr] = {}
        self._alive: list[Expr] = []
        self._locals: dict[int, Local] = {}

    def whole(self, expr: Expr) -> Expr:
        """An expression with its equal parts made one."""
        self._alive.append(expr)
        return rebuild(expr, self._unique, self._memo)

    def local(self, local: Local) -> Local:
        """A local whose value is made so."""
        if id(local) not in self._locals:
            value = self.whole(local.value)
            self._alive.append(local)
            self._locals[id(local)] = local if value is local.value else Local(local.name, value)
        return self._locals[id(local)]

    def replaced(self, expr: Expr, places: Mapping[int, Expr]) -> Expr:
        """An expression with some of its nodes, by their identity, replaced."""
        if not places:
            return expr

        def node(x: Expr) -> Expr:
            return x if isinstance(x, Local) else self._unique(x)

        memo: dict[int, Expr] = dict(places)
        return rebuild(expr, node, memo)

    def _unique(self, node: Expr) -> Expr:
        if isinstance(node, Local):
            return self.local(node)
        return self._known.setdefault(_key(node), node)

    # --------------------------------------------------------------- arithmetic

    def const(self, value: float, dtype: DType) -> Expr:
        return self._unique(Const(value, dtype))

    def neg(self, a: Expr) -> Expr:
        if isinstance(a, Unary) and a.op == "neg":
            return a.operand
        if isinstance(a, Const):
            return self.const(-_float(a), a.dtype)
        return self._unique(Unary("neg", a))

    def add(self, a: Expr, b: Expr) -> Expr:
        if is_number(a, 0):
            return b
        if is_number(b, 0):
            return a
        if isinstance(b, Unary) and b.op == "neg":
            return self.sub(a, b.operand)
        if isinstance(a, Unary) and a.op == "neg":
            return self.sub(b, a.operand)
        if a is b:
            return self.mul(self.const(2.0, a.dtype), a)
        return self._unique(Binary("add", a, b))

    def sub(self, a: Expr, b: Expr) -> Expr:
        if is_number(b, 0):
            return a
        if is_number(a, 0):
            return self.neg(b)
        return self._unique(Binary("sub", a, b))

    def mul(self, a: Expr, b: Expr) -> Expr:
        for x, y in ((a, b), (b, a)):
            if is_number(x, 0) or is_number(y, 1):
                return x
            if is_number(x, -1):
                return self.neg(y)
        if isinstance(a, Unary) and a.op == "neg":
            return self.neg(self.mul(a.operand, b))
        if isinstance(b, Unary) and b.op == "neg":
            return self.neg(self.mul(a, b.operand))
        if isinstance(a, Binary) and a.op == "div" and is_number(a.lhs, 1):
            a, b = b, a
        # not `a / c` for `a * (1 / c)`: `c` often stays the same in a loop where `a` does not
        return self._unique(Binary("mul", a, b))

    def div(self, a: Expr, b: Expr) -> Expr:
        if is_number(a, 0) or is_number(b, 1):
            return a
        if isinstance(a, Unary) and a.op == "neg":
            return self.neg(self.div(a.operand, b))
        return self._unique(Binary("div", a, b))

    def binary(self, op: BinaryOp, a: Expr, b: Expr) -> Expr:
        return self._unique(Binary(op, a, b))

    def apply(self, function: Function, a: Expr) -> Expr:
        return self._unique(Apply(function, (a,)))

    def cast(self, dtype: DType, a: Expr) -> Expr:
        return a if a.dtype is dtype else self._unique(Cast(dtype, a))

    def select(self, condition: Expr, then: Expr, otherwise: Expr) -> Expr:
        return then if then is otherwise else self._unique(Select(condition, then, otherwise))

    # -------------------------------------------------------------------- terms

    def total(self, terms: Iterable[tuple[Path, Expr]], dtype: DType) -> Expr:
        """A sum of what is on each path, as one expression."""
        zero = self.const(0.0, dtype)
        result = zero
        for path, value in terms:
            for condition, wanted in reversed(path):
                sides = (value, zero) if wanted else (zero, value)
                value = self.select(condition, *sides)
            result = self.add(result, value)
        return result


def _key(node: Expr) -> tuple[object, ...]:
    """What makes an expression whose parts are unique the same as another one."""
    parts = tuple(map(id, children(node)))
    match node:
        case Const():
            return (Const, type(node.value), repr(node.value), node.dtype)
        case Symbol() | Index() | Local():
            return (Local, id(node))
        case Unary() | Binary():
            return (Unary, node.op, parts)
        case Cast():
            return (Cast, node.dtype, parts)
        case Select():
            return (Select, parts)
        case Apply():
            return (Apply, node.function, parts)
        case Access():
            return (Access, node.tensor, tuple(type(s.rule) for s in node.subscripts), parts)


def is_number(expr: Expr, value: float) -> bool:
    """Whether an expression is this literal."""
    return isinstance(expr, Const) and not isinstance(expr.value, str) and expr.value == value


def _float(const: Const) -> float:
    assert isinstance(const.value, int | float)
    return float(const.value)


# ------------------------------------------------------------------ the sweep


@dataclass(frozen=True, slots=True)
class Seed:
    """A value, and its cotangent on a path."""

    value: Expr
    cotangent: Expr
    path: Path = ()


@dataclass(slots=True)
class Flow:
    """The cotangent of an element that is read: a sum."""

    access: Access
    terms: list[tuple[Path, Expr]] = field(default_factory=list)


def sweep(
    algebra: Algebra, seeds: Sequence[Seed], is_active: Callable[[Tensor], bool]
) -> list[Flow]:
    """The cotangents of all elements of active tensors that some values read.

    All expressions must be made unique by `algebra`. Source: reverse accumulation, as in Griewank
    and Walther, "Evaluating Derivatives", section 3.2.
    """
    run = _Sweep(algebra, is_active)
    order = list(walk(*(s.value for s in seeds), parts=_parts))
    run.find_active(order)
    for seed in seeds:
        run.give(seed.value, seed.path, seed.cotangent)
    flows = []
    for node in reversed(order):
        terms = run.taken(node)
        if isinstance(node, Access) and terms:
            flows.append(Flow(node, terms))
        for path, cotangent in terms:
            run.node(node, path, cotangent)
    for flow in flows:
        flow.terms = [(path, algebra.replaced(value, run.named)) for path, value in flow.terms]
    return flows[::-1]


def _parts(node: Expr) -> tuple[Expr, ...]:
    match node:
        case Local():
            return (node.value,)
        case Access():
            return ()
        case _:
            return children(node)


class _Sweep:
    def __init__(self, algebra: Algebra, is_active: Callable[[Tensor], bool]) -> None:
        self.make = algebra
        self.is_active = is_active
        self.active: set[int] = set()
        self.terms: dict[int, Terms] = {}
        self.named: dict[int, Local] = {}
        """The local that holds a value."""

    def find_active(self, order: Iterable[Expr]) -> None:
        """Mark what depends on an element whose cotangent is asked for."""
        for node in order:
            if not node.dtype.is_real:
                continue
            if isinstance(node, Access):
                found = self.is_active(node.tensor)
            else:
                found = any(id(p) in self.active for p in _parts(node))
            if found:
                self.active.add(id(node))
            if isinstance(node, Local):
                self.named[id(node.value)] = node

    def give(self, node: Expr, path: Path, cotangent: Expr) -> None:
        """Add to the cotangent of a node."""
        if id(node) not in self.active or is_number(cotangent, 0):
            return
        terms = self.terms.setdefault(id(node), {})
        key = tuple((id(c), wanted) for c, wanted in path)
        if key in terms:
            cotangent = self.make.add(terms[key][1], cotangent)
        terms[key] = (path, cotangent)
        if key and (other := (*key[:-1], (key[-1][0], not key[-1][1]))) in terms:
            values = (terms.pop(key)[1], terms.pop(other)[1])
            then, otherwise = values if path[-1][1] else values[::-1]
            self.give(node, path[:-1], self.make.select(path[-1][0], then, otherwise))

    def taken(self, node: Expr) -> list[tuple[Path, Expr]]:
        """The cotangent of a node, which is then done; a sum over many paths as one expression."""
        found = list(self.terms.pop(id(node), {}).values())
        if len(found) <= _MOST_PATHS or may_fail(node):
            return found
        return [((), self.make.total(found, node.dtype))]

    def node(self, node: Expr, path: Path, cotangent: Expr) -> None:
        """Hand the cotangent of a node to its parts."""
        match node:
            case Local():
                self.give(node.value, path, cotangent)
            case Unary():
                self.give(node.operand, path, self.make.neg(cotangent))
            case Cast():
                self.give(node.operand, path, self.make.cast(node.operand.dtype, cotangent))
            case Select():
                self.give(node.then, (*path, (node.condition, True)), cotangent)
                self.give(node.otherwise, (*path, (node.condition, False)), cotangent)
            case Binary():
                self._binary(node, path, cotangent)
            case Apply():
                self._apply(node, path, cotangent)

    def _apply(self, node: Apply, path: Path, cotangent: Expr) -> None:
        if not any(id(x) in self.active for x in node.arguments):
            return
        slopes = derivatives(node.function, node.arguments)
        for argument, slope in zip(node.arguments, slopes, strict=True):
            if slope is not None and id(argument) in self.active:
                self.give(argument, path, self.make.mul(cotangent, self.make.whole(slope)))

    def _binary(self, node: Binary, path: Path, g: Expr) -> None:
        make, a, b = self.make, node.lhs, node.rhs
        match node.op:
            case "add" | "sub":
                self.give(a, path, g)
                self.give(b, path, g if node.op == "add" else make.neg(g))
            case "mul":
                self.give(a, path, make.mul(g, b))
                self.give(b, path, make.mul(g, a))
            case "div":
                quotient = make.div(g, b)
                self.give(a, path, quotient)
                if id(b) in self.active:
                    self.give(b, path, make.neg(make.mul(quotient, node)))
            case "min" | "max":
                first = make.binary("lt" if node.op == "min" else "gt", a, b)
                self.give(a, (*path, (first, True)), g)
                self.give(b, (*path, (first, False)), g)
            case "mod":
                self.give(a, path, g)
                if id(b) in self.active:
                    count = make.apply("floor", make.div(a, b))
                    self.give(b, path, make.neg(make.mul(g, count)))
            case "pow":
                self._power(node, path, g)

    def _power(self, node: Binary, path: Path, g: Expr) -> None:
        make, a, b = self.make, node.lhs, node.rhs
        zero = make.const(0.0, node.dtype)
        if id(a) in self.active:
            self.give(a, path, make.mul(g, self._slope(a, b)))
        if id(b) in self.active:
            log = make.apply("log", a)
            positive = make.binary("gt", a, zero)
            self.give(b, path, make.mul(g, make.mul(node, make.select(positive, log, zero))))

    def _slope(self, a: Expr, b: Expr) -> Expr:
        """The derivative of `a ** b` by `a`: 0 for an exponent of 0, also where a is 0."""
        make = self.make
        if isinstance(b, Const):
            exponent = _float(b)
            if exponent in (0.0, 1.0):
                return make.const(exponent, a.dtype)
            less = make.const(exponent - 1.0, a.dtype)
            return make.mul(b, a if exponent == 2.0 else make.binary("pow", a, less))
        zero, one = make.const(0.0, a.dtype), make.const(1.0, a.dtype)
        power = make.mul(b, make.binary("pow", a, make.sub(b, one)))
        return make.select(make.binary("eq", b, zero), zero, power)
