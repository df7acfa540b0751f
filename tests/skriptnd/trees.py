"""Random syntax trees of SkriptND, for tests: every tree is one that a text can give."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

from ricci.frontends.skriptnd import syntax as s
from ricci.frontends.skriptnd.parser_expressions import BUILTINS, CUMULATIVE, FOLDS, LEVELS
from ricci.source import Source

T = TypeVar("T")

NAMES = ("a", "b", "x1", "_", "shape", "T", "exp", "long_name_of_something")
TEXTS = ("", "plain", "it's", 'say "so"', "{brace}", "back\\slash", "end\\", "\\{", "two\nlines",
         "\\'", "# no comment", "\u00e9\u4e2d", "many words in a row that need more than one line "
         "when they are printed, since they are so many")  # fmt: skip
NUMBERS = ("0", "7", "007", "1.", "2.5", "1e-3", "12345678901234567890123")
BINARY = tuple(op for op in LEVELS if op != ":=")


class Trees:
    """Makes trees from a seed; `size` bounds the nodes of each."""

    def __init__(self, seed: int, size: int = 12) -> None:
        self.random = random.Random(seed)
        self.left = self.size = size

    def some(self, make: Callable[[], T], least: int = 0, most: int = 3) -> tuple[T, ...]:
        return tuple(make() for _ in range(self.random.randint(least, most)))

    def maybe(self, make: Callable[[], T]) -> T | None:
        return make() if self.random.random() < 0.4 else None

    def name(self) -> str:
        return self.random.choice(NAMES)

    def flag(self) -> bool:
        return self.random.random() < 0.3

    # -------------------------------------------------------------- expressions

    def leaf(self) -> s.Expr:
        kind = self.random.randrange(6)
        if kind == 0:
            return self.number()
        if kind == 1:
            word, value = self.random.choice([("true", True), ("inf", float("inf"))])
            return s.Literal(value, word)
        if kind == 2:
            return self.text()
        if kind == 3:
            return s.Member(self.name(), self.random.choice(["shape", "rank", "size"]))
        return s.NullTest(self.name()) if kind == 4 else s.Name(self.name())

    def number(self) -> s.Literal:
        text = self.random.choice(NUMBERS)
        return s.Literal(int(text) if text.isdigit() else float(text), text)

    def text(self) -> s.Literal:
        text = self.random.choice(TEXTS)
        return s.Literal(text, text)

    def expression(self) -> s.Expr:
        """Any expression that may stand by itself."""
        if self.random.random() < 0.05:
            return self.bounded()
        return self.inner()

    def inner(self) -> s.Expr:
        self.left -= 1
        if self.left <= 0:
            return self.leaf()
        make = self.random.choice([
            self.leaf, self.unary, self.binary, self.binary, self.binary, self.select,
            self.coalesce, self.fold, self.call, self.list, self.subscript, self.substitute,
            self.access, self.format,
        ])  # fmt: skip
        return make()

    def unary(self) -> s.Expr:
        return s.Unary(self.random.choice("+-!"), self.inner())

    def binary(self) -> s.Expr:
        return s.Binary(self.random.choice(BINARY), self.inner(), self.inner())

    def select(self) -> s.Expr:
        otherwise = None if self.flag() else self.inner()
        return s.Select(self.inner(), self.inner(), otherwise)

    def coalesce(self) -> s.Expr:
        return s.Coalesce(self.inner(), self.inner())

    def fold(self) -> s.Expr:
        cumulative = self.flag()
        op = self.random.choice(sorted(CUMULATIVE if cumulative else FOLDS))
        return s.Fold(op, self.inner(), cumulative)

    def call(self) -> s.Expr:
        if self.flag():
            return s.Builtin(self.random.choice(sorted(BUILTINS)), self.inner())
        kind = self.random.choice(["int", "real", "T", "R"])
        return s.Cast(kind, None if self.flag() else self.inner())

    def bounded(self) -> s.Expr:
        if self.flag():
            return s.Bounded(self.inner(), self.inner(), self.inner())
        return s.Bounded(self.inner(), None, None)

    def list(self) -> s.Expr:
        return s.List(self.some(self.item))

    def item(self) -> s.Expr:
        kind = self.random.randrange(6)
        if kind == 0:
            return s.Range(self.inner(), self.inner(), self.maybe(self.inner))
        if kind == 1:
            return s.Expand(self.expression(), self.maybe(self.inner))
        if kind == 2:
            return s.Zip(self.some(self.inner, 2))
        return self.expression()

    def position(self) -> s.Expr:
        if self.flag():
            parts = [self.maybe(self.inner) for _ in range(3)]
            return s.Range(*parts)
        return self.inner()

    def subscript(self) -> s.Expr:
        return s.Subscript(self.inner(), self.position())

    def substitute(self) -> s.Expr:
        return s.Substitute(self.inner(), self.position(), self.inner())

    def index(self) -> s.Expr:
        kind = self.random.randrange(6)
        if kind == 0:
            return s.Range(None, None, None)
        if kind < 3:
            return s.Expand(self.expression(), self.maybe(self.inner))
        return self.bounded() if kind == 3 else self.inner()

    def access(self) -> s.Expr:
        tensor: s.Expr = s.Name(self.name())
        if self.flag():
            tensor = s.Subscript(tensor, self.inner())
        return s.Access(tensor, self.some(self.index))

    def format(self) -> s.Expr:
        """A string with substitutions, in which there are no others (no quotes are left)."""
        parts: list[str | s.Expr] = []
        for _ in range(self.random.randint(1, 3)):
            text = self.random.choice(TEXTS)
            parts += [text] if text else []
            inner = Trees(self.random.randrange(10**9), 3).inner()
            parts.append(s.Name("a") if has_format(inner) else inner)
        return s.Format(tuple(parts))

    # ------------------------------------------------------------- declarations

    def whole(self) -> s.Expr:
        self.left = self.size
        return self.expression()

    def pack(self) -> s.Pack:
        if self.flag():
            return s.Pack()
        marker = self.random.choice(["", "", "static", "dynamic"])
        length, bound = self.maybe(self.whole), self.maybe(self.whole)
        if length is None and bound is None:
            marker = ""
        return s.Pack(length, bound, marker)

    def extent(self) -> s.Extent:
        size = s.Omitted() if self.flag() else self.whole()
        bound = self.maybe(self.whole)
        pack = self.maybe(self.pack)
        return s.Extent(size, self.flag(), bound, pack, self.flag())

    def type(self, packed: bool = True) -> s.Type:
        shape = self.maybe(lambda: self.some(self.extent))
        name = self.random.choice(["real", "int", "T"])
        rank = self.maybe(self.name)
        pack = self.maybe(self.pack) if packed else None
        return s.Type(name, self.flag(), self.flag(), rank, shape, pack)

    def parameter(self) -> s.Parameter:
        bounds = self.some(self.bound, most=2)
        return s.Parameter(self.name(), self.type(), self.maybe(self.whole), bounds)

    def bound(self) -> s.Bound:
        return s.Bound(self.name(), self.whole())

    def using(self) -> s.Using:
        if self.flag():
            return s.Using(self.some(self.using_item, 1), self.whole(), True)
        return s.Using((s.UsingName(self.name(), self.maybe(self.pack)),), self.whole(), False)

    def using_item(self) -> s.UsingName | s.UsingZip:
        if self.flag():
            return s.UsingZip(self.some(self.name, 1))
        return s.UsingName(self.name(), self.maybe(self.pack))

    def assertion(self) -> s.Assertion:
        if self.flag():
            return s.Assertion(self.whole(), None, ())
        prints = self.some(lambda: s.Print(self.random.choice(TEXTS), self.whole()))
        return s.Assertion(self.whole(), self.whole(), prints)

    def lowering(self) -> s.Lowering:
        unroll = s.Count(self.name(), self.whole()) if self.flag() else None
        return s.Lowering(
            unroll,
            self.some(lambda: s.LocalValue(self.name(), self.whole()), most=2),
            self.access(),
            self.random.choice(["=", ":=", "+=", "*=", "&=", "|=", "<=", ">="]),
            self.whole(),
            self.some(self.bound),
            self.maybe(self.whole),
        )

    # -------------------------------------------------------------- composition

    def component(self, depth: int = 2) -> s.Component:
        results = self.some(self.result, 1)
        return s.Component(results, self.action(depth))

    def result(self) -> s.Result | s.ResultList | s.Omitted:
        if self.flag():
            return s.ResultList(self.some(self.single))
        return self.single()

    def single(self) -> s.Result | s.Omitted:
        if self.flag():
            return s.Omitted()
        type = self.type(packed=False) if self.flag() else None
        return s.Result(self.name(), type, self.maybe(self.pack))

    def action(self, depth: int) -> s.Action:
        kind = self.random.randrange(4 if depth else 2)
        if kind == 2:
            conditions = self.some(lambda: self.callable(depth - 1), 1)
            branches = [self.callable(depth - 1) for _ in range(len(conditions) + 1)]
            return s.Branch(conditions, tuple(branches))
        return self.loop(depth) if kind == 3 else self.callable(depth)

    def callable(self, depth: int) -> s.Callable:
        kind = self.random.randrange(4)
        if kind == 0 and depth:
            components = self.some(lambda: self.component(depth - 1), most=2)
            return s.Block(self.maybe(self.name), components, self.some(self.whole, 1, 2))
        return self.invocation() if kind < 3 else self.whole()

    def invocation(self) -> s.Invocation:
        return s.Invocation(
            self.maybe(self.name),
            self.some(self.name, 1),
            self.types(),
            self.attributes(),
            self.some(self.argument),
        )

    def argument(self) -> s.Expr:
        return s.Omitted() if self.flag() else self.whole()

    def types(self) -> tuple[str, ...]:
        return self.some(lambda: self.random.choice(["real", "T"]), most=2)

    def attributes(self) -> tuple[s.Argument, ...]:
        return self.some(lambda: s.Argument(self.name(), self.whole()))

    def loop(self, depth: int) -> s.Loop:
        condition = self.callable(depth - 1) if self.flag() else None
        index = self.maybe(self.name)
        count = s.Count(index, self.whole() if index is None else self.maybe(self.whole))
        carried = self.some(lambda: s.Carried(self.name(), self.maybe(self.type), self.whole()))
        scans = self.some(lambda: s.Scan(self.name(), self.whole()))
        pretest = condition is not None and self.flag()
        return s.Loop(
            carried,
            scans,
            condition,
            pretest,
            self.flag() and bool(carried or scans or pretest),
            count if self.flag() else None,
            self.callable(depth - 1),
        )

    def quantization(self) -> s.Quantization:
        tensor, callee = self.some(self.name, 1), self.some(self.name, 1)
        return s.Quantization(tensor, callee, self.types(), self.attributes())

    # ------------------------------------------------------------------ modules

    def operator(self) -> s.Operator:
        makers: dict[str, tuple[str, Callable[[], object]]] = {
            "dtype": ("dtypes", lambda: s.TypeParameter("Q", "num", self.maybe(lambda: "real"))),
            "attrib": ("attributes", self.parameter),
            "input": ("inputs", self.parameter),
            "output": ("outputs", self.parameter),
            "constant": ("constants", self.parameter),
            "variable": ("variables", self.parameter),
            "using": ("using", self.using),
            "assert": ("asserts", self.assertion),
            "lower": ("lower", self.lowering),
            "compose": ("compose", self.component),
            "update": ("update", self.component),
            "quantize": ("quantize", self.quantization),
        }
        blocks = self.random.sample(sorted(makers), self.random.randint(0, 4))
        found: dict[str, Any] = {makers[b][0]: self.some(makers[b][1]) for b in blocks}
        public, graph = self.flag(), self.flag()
        return s.Operator(self.name(), graph, public, blocks=tuple(blocks), **found)

    def module(self) -> s.Module:
        imports = self.some(lambda: s.Import(self.some(self.name, 1)))
        return s.Module("m", Source("m", ""), imports, self.some(self.operator))


def has_format(node: object) -> bool:
    """Whether there is a string with substitutions in an expression."""
    if isinstance(node, tuple):
        return any(map(has_format, node))
    if not isinstance(node, s.Node):
        return False
    names = node.__dataclass_fields__
    return isinstance(node, s.Format) or any(has_format(getattr(node, n)) for n in names)
