"""Reads expressions and assignments in the text form that `text_print` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import field
from typing import NoReturn, TypeVar, cast, get_args

from ..diagnostics import error
from ..dtypes import DType
from ..records import dataclass
from ..source import Source, Span
from .nodes import (
    Access,
    Apply,
    Assignment,
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Function,
    Index,
    Local,
    Reduction,
    Remap,
    Scalar,
    Select,
    Skip,
    Subscript,
    Symbol,
    Tensor,
    Unary,
)
from .text_print import ASSIGN, OPERATORS, POWER, SELECT, SUM

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<number>(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|(?:inf|nan)\b)(?![\w@]))
    | (?P<name>(?:[A-Za-z_]\w*(?:\.\w+)*|`(?:[^`\\]|\\.)*`)(?:@\d+)?)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<sign>\*\*|<>|<=|>=|==|!=|&&|\|\||\+=|\*=|&=|\|=|:=|[-+*/\\%^!<>=?:;,|(){}\[\]])
    | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)

DTYPES = {d.value: d for d in DType}
_FUNCTIONS = frozenset(get_args(Function))
_REDUCTIONS: dict[str, Reduction] = {v: cast(Reduction, k) for k, v in ASSIGN.items()}
_LEVELS = dict(OPERATORS.values())
_BINARY: dict[str, BinaryOp] = {
    symbol: cast(BinaryOp, op) for op, (symbol, _) in OPERATORS.items() if op != "div"
}


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    start: int


def _tokens(source: Source) -> list[Token]:
    found = []
    for match in _TOKEN.finditer(source.text):
        kind = match.lastgroup or "other"
        if kind == "other":
            span = Span(source, match.start(), match.end())
            raise error("E0101", f"unexpected character {match.group()!r}", span)
        if kind != "space":
            found.append(Token(kind, match.group(), match.start()))
    return [*found, Token("end", "", len(source.text))]


@dataclass
class Scope:
    """What the names stand for: scalars (symbols, indices, locals) and tensors."""

    scalars: dict[str, Symbol | Index | Local] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)


T = TypeVar("T")


class StatementParser:
    """Recursive descent over the tokens of one text: expressions and assignments."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = _tokens(source)
        self.at = 0
        self.scope = Scope()

    # ----------------------------------------------------------------- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def fail(self, expected: str) -> NoReturn:
        token = self.token
        span = Span(self.source, token.start, token.start + max(1, len(token.text)))
        shown = f"`{token.text}`" if token.text else "the end"
        raise error("E0102", f"expected {expected}, found {shown}", span)

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind != "string":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"`{text}`")

    def take(self, kind: str) -> str:
        if self.token.kind != kind:
            self.fail(f"a {kind}")
        self.at += 1
        return self.tokens[self.at - 1].text

    def name(self) -> str:
        """A name as its object has it: without back-ticks and suffix."""
        return _plain(self.take("name"))

    def string(self) -> str:
        return str(json.loads(self.take("string")))

    def listed(self, item: Callable[[], T], end: str) -> tuple[T, ...]:
        """Items with commas between them, up to `end`, which is taken."""
        items: list[T] = []
        while not self.accept(end):
            if items:
                self.expect(",")
            items.append(item())
        return tuple(items)

    # ------------------------------------------------------------ expressions

    def expr(self, level: int = SELECT) -> Expr:
        """An expression whose operators bind at least as tightly as `level`."""
        result = self._prefix()
        while True:
            symbol = self.token.text
            own = _LEVELS.get(symbol, -1) if self.token.kind == "sign" else -1
            if own < max(level, 1):
                break
            self.at += 1
            result = self._binary(symbol, result, self.expr(own + 1))
        if level == SELECT and self.accept("?"):
            then = self.expr(SELECT + 1)
            self.expect(":")
            return Select(result, then, self.expr())
        return result

    def _binary(self, symbol: str, lhs: Expr, rhs: Expr) -> Expr:
        if symbol == "/" and lhs.dtype.is_real:
            return Binary("div", lhs, rhs)
        return Binary(_BINARY[symbol], lhs, rhs)

    def _prefix(self) -> Expr:
        if self.accept("!"):
            return Unary("not", self.expr(POWER - 1))
        if self.accept("-"):
            if self.token.kind == "number":
                return self._literal(negative=True)
            return Unary("neg", self.expr(POWER - 1))
        return self._primary()

    def _primary(self) -> Expr:
        token = self.token
        if self.accept("("):
            result = self.expr()
            self.expect(")")
            return result
        if token.kind in ("number", "string") or token.text in ("true", "false"):
            return self._literal()
        if token.kind != "name":
            self.fail("an expression")
        self.at += 1
        following = self.token.text if self.token.kind == "sign" else ""
        if following == "(":
            return self._call(token.text)
        if following == "[":
            return self._access(token)
        if token.text not in self.scope.scalars:
            self._unknown(token)
        return self.scope.scalars[token.text]

    def _unknown(self, token: Token) -> NoReturn:
        span = Span(self.source, token.start, token.start + len(token.text))
        raise error("E0201", f"unknown name {token.text}", span)

    def _literal(self, negative: bool = False) -> Const:
        token = self.token
        value = self.scalar(None, negative)
        dtype = _dtype_of(value, token.text)
        after = self.tokens[self.at : self.at + 2]
        adjacent = after[0].start == token.start + len(token.text) and after[0].text == ":"
        if adjacent and len(after) > 1 and after[1].text in DTYPES:
            self.at += 2
            dtype = DTYPES[after[1].text]
        return Const(_as(value, dtype), dtype)

    def scalar(self, dtype: DType | None, negative: bool = False) -> Scalar:
        """A literal's value, of the given dtype or as written."""
        token = self.token
        self.at += 1
        if token.kind == "string":
            return str(json.loads(token.text))
        if token.text in ("true", "false"):
            return token.text == "true"
        if token.kind != "number":
            self.at -= 1
            self.fail("a literal")
        value = int(token.text) if token.text.isdigit() else float(token.text)
        value = -value if negative else value
        return value if dtype is None else _as(value, dtype)

    def _call(self, name: str) -> Expr:
        self.expect("(")
        arguments = self.listed(self.expr, ")")
        if name in DTYPES and len(arguments) == 1:
            return Cast(DTYPES[name], arguments[0])
        if name in ("min", "max") and len(arguments) == 2:
            return Binary(cast(BinaryOp, name), *arguments)
        if name not in _FUNCTIONS or not arguments:
            self.at -= 1
            self.fail("a function with its arguments")
        return Apply(cast(Function, name), arguments)

    def _access(self, token: Token) -> Access:
        if token.text not in self.scope.tensors:
            self._unknown(token)
        self.expect("[")
        return Access(self.scope.tensors[token.text], self.listed(self._subscript, "]"))

    def _subscript(self) -> Subscript:
        if not self.accept("|"):
            return Subscript(self.expr())
        index = self.expr()
        if self.accept("|"):
            return Subscript(index, Skip())
        self.expect("<>")
        below = self.expr(SELECT + 1)
        self.expect(":")
        above = self.expr(SELECT + 1)
        self.expect("|")
        return Subscript(index, Remap(below, above))

    # ------------------------------------------------------------- statements

    def assignment(self) -> Assignment:
        outer = dict(self.scope.scalars)
        start, end = self.at, self._statement_end()
        domain = self._domain(end)
        after, self.at = self.at, start
        locals_ = self._locals() if self.accept("with") else ()
        targets = [self._target()]
        while self.accept(","):
            targets.append(self._target())
        op = self._reduction()
        values = [self.expr()]
        while self.accept(","):
            values.append(self.expr())
        if domain:
            self.expect("for")
            self.at = after
        condition = self.expr() if self.accept("if") else None
        self.expect(";")
        self.scope.scalars = outer
        return Assignment(tuple(targets), op, tuple(values), domain, locals_, condition)

    def _statement_end(self) -> int:
        at = self.at
        while self.tokens[at].text not in (";", "") or self.tokens[at].kind == "string":
            at += 1
        return at

    def _domain(self, end: int) -> tuple[Index, ...]:
        """The indices after `for`, which are read before what stands to their left."""
        words = (k for k in range(self.at, end) if self.tokens[k].text == "for")
        self.at = next(words, end - 1) + 1
        domain: list[Index] = []
        while self.at < end and (not domain or self.accept(",")):
            token = self.token
            name = self.name()
            self.expect("<")
            index = Index(name, self.expr(SUM))
            self.scope.scalars[token.text] = index
            domain.append(index)
        return tuple(domain)

    def _locals(self) -> tuple[Local, ...]:
        found: list[Local] = []
        while not found or self.accept(","):
            token = self.token
            name = self.name()
            self.expect("=")
            local = Local(name, self.expr())
            self.scope.scalars[token.text] = local
            found.append(local)
        self.expect(":")
        return tuple(found)

    def _target(self) -> Access:
        token = self.token
        self.take("name")
        return self._access(token)

    def _reduction(self) -> Reduction:
        token = self.token
        if token.text in ("min", "max"):
            self.at += 1
            self.expect("=")
            return "min" if token.text == "min" else "max"
        if token.text not in _REDUCTIONS:
            self.fail("an assignment sign")
        self.at += 1
        return _REDUCTIONS[token.text]


def _plain(text: str) -> str:
    text = re.sub(r"(`|\w)@\d+\Z", r"\1", text)
    return str(json.loads(f'"{text[1:-1]}"')) if text.startswith("`") else text


def _dtype_of(value: Scalar, text: str) -> DType:
    if isinstance(value, bool):
        return DType.BOOL
    if isinstance(value, str):
        return DType.STR
    return DType.INT if text.isdigit() else DType.REAL


def _as(value: Scalar, dtype: DType) -> Scalar:
    if dtype.is_real and isinstance(value, int):
        return float(value)
    return value
