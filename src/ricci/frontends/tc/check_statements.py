"""Statements: their indices, clauses and targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...diagnostics import Label, Severity
from ...dtypes import DType
from ...source import Span
from ..suggest import did_you_mean
from . import program as p
from . import syntax as s
from .builtins import ARGUMENTS
from .check_expressions import ExpressionChecker
from .parser_expressions import HIGHEST
from .scope import FunctionScope, StatementScope, read_names, report_builtin, report_twice
from .typing import convert, fits, place

OPERATIONS: dict[str, p.Reduction] = {
    "=": "set", "+=": "add", "*=": "mul", "min=": "min", "max=": "max",
}  # fmt: skip

MOST_LEVELS = HIGHEST + 20
"""Levels of the highest expression, with the values of its lets, and conversions."""

LARGEST = 10_000
"""Nodes of the largest expression, each let counted where it is used."""


def check_statement(node: s.Statement, function: FunctionScope) -> p.Statement | None:
    """A statement with its names bound; none if it is wrong, which is reported."""
    return _StatementChecker(node, function).check()


class _Facts(NamedTuple):
    """Of an expression with the values of its lets: its height, how many nodes it has, and a place
    where it reads a tensor."""

    height: int
    size: int
    read: p.Read | None


class _StatementChecker(ExpressionChecker):
    def __init__(self, node: s.Statement, function: FunctionScope) -> None:
        super().__init__(StatementScope(function))
        self.node = node
        self.lets: dict[p.Let, _Facts] = {}
        self.errors = len(self.report.errors)

    def check(self) -> p.Statement | None:
        self._check_target()
        self._bind_left()
        reduced = self._bind_right()
        ranges, exists = self._clauses()
        value = self.value(self.node.value)
        self._check_size(value)
        self._check_equivalent()
        op = OPERATIONS[self.node.operator.rstrip("!")]
        if op == "set" and reduced:
            self._report_reduced(reduced)
        if value is None or self.errors != len(self.report.errors):
            return None
        written = self.function.tensors.get(self.node.target.name)
        target = self._target(value.dtype, written, op)
        if target is None:
            return None
        return p.Statement(
            target=target,
            indices=tuple(self.scope.indices[i.name] for i in self.node.indices),
            reduced=reduced,
            op=op,
            value=convert(value, target.dtype),
            fresh=self.node.operator.endswith("!"),
            first=written is None,
            ranges=ranges,
            exists=exists,
            span=self.node.span,
        )

    # ------------------------------------------------------------------- indices

    def _bind_left(self) -> None:
        for index in self.node.indices:
            known = self.scope.indices.get(index.name)
            if known is not None:
                report_twice(self.report, index, "an index", known.span)
            self._add_index(index.name, index.span)

    def _add_index(self, name: str, span: Span) -> p.IndexVariable:
        if name in ARGUMENTS:
            report_builtin(self.report, name, span, "an index")
        index = p.IndexVariable(name, span)
        self.scope.indices[name] = index
        return index

    def _bind_right(self) -> tuple[p.IndexVariable, ...]:
        """The names that stand for indices, and are not on the left: those in subscripts, and
        those with a range."""
        clauses = self.node.clauses
        lets = {c.name.name for c in clauses if isinstance(c, s.Let)}
        ranged = {c.index.name for c in clauses if isinstance(c, s.Range)}
        reduced = []
        for name, inside in self._all_names():
            known = name.name in lets or name.name in self.scope.indices
            if known or self.function.knows(name.name) or not (inside or name.name in ranged):
                continue
            reduced.append(self._add_index(name.name, name.span))
        self.scope.pending = {
            c.name.name: c.name.span for c in reversed(clauses) if isinstance(c, s.Let)
        }
        return tuple(reduced)

    def _all_names(self) -> Iterator[tuple[s.Name, bool]]:
        """The names of the value and the clauses; the bounds of ranges use indices, but do not
        make any."""
        yield from read_names(self.node.value)
        for clause in self.node.clauses:
            if not isinstance(clause, s.Range):
                yield from read_names(clause.value)

    # ------------------------------------------------------------------- clauses

    def _clauses(
        self,
    ) -> tuple[tuple[tuple[p.IndexVariable, p.Expr, p.Expr], ...], tuple[p.Expr, ...]]:
        ranges: dict[str, tuple[p.IndexVariable, p.Expr, p.Expr]] = {}
        spans: dict[str, Span] = {}
        exists: list[p.Expr] = []
        for clause in self.node.clauses:
            if isinstance(clause, s.Let):
                self._let(clause)
            elif isinstance(clause, s.Exists):
                value = self.value(clause.value)
                self._check_size(value)
                exists += [] if value is None else [value]
            else:
                index = self._range_index(clause, spans)
                low = self._bound(clause.low)
                high = self._bound(clause.high)
                if index is not None and low is not None and high is not None:
                    ranges[index.name] = (index, low, high)
        return tuple(ranges.values()), tuple(exists)

    def _range_index(self, clause: s.Range, spans: dict[str, Span]) -> p.IndexVariable | None:
        name = clause.index
        if name.name in spans:
            report_twice(self.report, name, "another range", spans[name.name])
        spans.setdefault(name.name, name.span)
        index = self.scope.indices.get(name.name)
        if index is None:
            self.report.error(
                "E0201",
                f"`{name.name}` is not an index of this statement, so it cannot have a range",
                name.span,
                help=did_you_mean(name.name, self.scope.indices),
            )
        return index

    def _bound(self, node: s.Expression) -> p.Expr | None:
        value = self.integer(node, "a bound")
        read = None if value is None else self._facts(value).read
        if read is not None:
            message = "the bounds of a range cannot depend on elements of tensors"
            self.report.error("E0305", message, read.span)
        return value

    def _let(self, clause: s.Let) -> None:
        name = clause.name
        value = self.value(clause.value)
        known = self.scope.indices.get(name.name)
        if name.name in ARGUMENTS:
            report_builtin(self.report, name.name, name.span, "a value")
        elif known is not None:
            report_twice(self.report, name, "an index", known.span)
        elif name.name in self.scope.lets:
            first = self.scope.pending[name.name]
            report_twice(self.report, name, "another value", first)
        let = None if value is None else p.Let(name.name, value)
        if value is not None and let is not None:
            self.lets[let] = self._facts(value)
            let = let if self._check_size(value) else None
        self.scope.lets[name.name] = let

    # ---------------------------------------------------------------------- size

    def _facts(self, expr: p.Expr) -> _Facts:
        if isinstance(expr, p.Let):
            return self.lets[expr]
        below = [self._facts(child) for child in p.children(expr)]
        read = expr if isinstance(expr, p.Read) else next((f.read for f in below if f.read), None)
        height = 1 + max((f.height for f in below), default=0)
        return _Facts(height, 1 + sum(f.size for f in below), read)

    def _check_size(self, value: p.Expr | None) -> bool:
        if value is None:
            return True
        facts = self._facts(value)
        fit = facts.height <= MOST_LEVELS and facts.size <= LARGEST
        if not fit:
            self.report.error(
                "E0901",
                "the expression is too large, with the values of `where` put in",
                place(value),
                notes=[f"it has {facts.size} parts, {facts.height} levels deep; "
                       f"there may be {LARGEST}, {MOST_LEVELS} levels deep"],
                help="compute a part of it in a statement of its own",
            )  # fmt: skip
        return fit

    # -------------------------------------------------------------------- target

    def _check_target(self) -> None:
        """Report a target to which nothing can be assigned."""
        target = self.node.target
        if target.name in ARGUMENTS:
            report_builtin(self.report, target.name, target.span, "a tensor")
        known = self.function.place_of(target.name)
        if known is not None and known[0] in ("a size", "a parameter"):
            what, span = known
            message = f"`{target.name}` is {what}, and cannot be assigned to"
            labels = [Label(span, f"{what} here")]
            self.report.error("E0209", message, target.span, labels=labels)

    def _target(
        self, value: DType, written: p.Variable | None, op: p.Reduction
    ) -> p.Variable | None:
        target = written or self._declare(value)
        span, count = self.node.target.span, len(self.node.indices)
        if target is None or not self.check_rank(target, count, span):
            return None
        if not fits(value, target.dtype):
            self._report_narrow(value, target)
            return None
        if target.dtype is DType.BOOL and op in ("add", "mul"):
            help = "convert the values, as in `int32(x)`, or use `max=!` for any, `min=!` for all"
            what = "summed" if op == "add" else "multiplied"
            self.report.error("E0307", f"bools cannot be {what} up", span, help=help)
            return None
        if written is None and op != "set" and not self.node.operator.endswith("!"):
            self._warn_of_start(target)
        return target

    def _declare(self, value: DType) -> p.Variable | None:
        """The tensor that this statement is the first to write."""
        name, rank = self.node.target, len(self.node.indices)
        declared = self.function.results.get(name.name)
        dtype = value
        if declared is not None and declared.dtype is not None:
            dtype = declared.dtype
            if len(declared.dims or ()) != rank:
                self.report.error(
                    "E0411",
                    f"`{name.name}` is declared with rank {len(declared.dims or ())}, "
                    f"and is assigned with rank {rank}",
                    name.span,
                    labels=[Label(declared.span, "declared here")],
                )
                return None
        kind: p.Kind = "temporary" if declared is None else "result"
        return p.Variable(name.name, dtype, rank, kind, None, name.span)

    def _report_narrow(self, value: DType, target: p.Variable) -> None:
        declared = self.function.results.get(target.name)
        if declared is not None and declared.dtype is not None:
            label = Label(declared.span, f"declared as {target.dtype} here")
        else:
            label = Label(target.span, f"of type {target.dtype} by its first statement, here")
        self.report.error(
            "E0301",
            f"a value of type {value} does not fit into `{target.name}`, of type {target.dtype}",
            self.node.target.span,
            labels=[label],
            help=f"convert it, as in `{target.dtype}(x)`",
        )

    def _warn_of_start(self, target: p.Variable) -> None:
        operator = self.node.operator
        if target.kind == "result":
            start = f"what the caller passes as `{target.name}`, or from the identity"
        else:
            start = "the identity"
        self.report.error(
            "W0218",
            f"nothing was written to `{target.name}` before, so `{operator}` starts from {start}",
            self.node.target.span,
            help=f"write `{operator}!` to start from the identity",
            severity=Severity.WARNING,
        )

    def _report_reduced(self, reduced: tuple[p.IndexVariable, ...]) -> None:
        index = reduced[0]
        self.report.error(
            "E0607",
            f"`=` cannot assign all values of the index `{index.name}`, which is not on the left",
            index.span,
            labels=[Label(self.node.target.span, f"add `{index.name}` to its indices")],
            help="or reduce, with `+=!`, `*=!`, `min=!` or `max=!`",
        )

    def _check_equivalent(self) -> None:
        """Names of the library call must be known; it has no effect."""
        equivalent = self.node.equivalent
        known = {self.node.target.name, *self.scope.names()}
        for argument in equivalent.arguments if equivalent is not None else ():
            for name, _ in read_names(argument):
                if name.name not in known:
                    self._report_unknown(s.Identifier(name.name, name.span))
