"""The framework's call, whose results a program must equal."""

from __future__ import annotations

from ..tokens import Token
from . import syntax as s
from .parser_index import INDEX_LEVELS, IndexParser

_NAMED: dict[str, object] = {"True": True, "False": False, "None": None}


class CallParser(IndexParser):
    """Reads a call, and the line of its outputs."""

    def outputs(self) -> tuple[s.Identifier, ...]:
        names = [self.identifier("the name of an array")]
        while self.take(","):
            names.append(self.identifier("the name of an array"))
        self.end("the outputs are names of arrays, as in `A, B`")
        return tuple(names)

    def call_line(self) -> s.Call:
        start = self.token
        if not self.at_name():
            self.reject_token("expected a call", _CALL)
        node = self._call(self._qualified(), start)
        self.end("the line of a call holds nothing else")
        return node

    def _qualified(self) -> s.QualifiedName:
        start = self.token
        parts = [self.name("the name of a function").text]
        while self.take("."):
            # Behind a dot every word is a name of the framework.
            if self.token.kind != "name":
                self.reject_token("expected a name behind the dot")
            parts.append(self.advance().text)
        return s.QualifiedName(tuple(parts), self.since(start))

    def _call(self, function: s.QualifiedName, start: Token) -> s.Call:
        if not self.at("("):
            self.expect("(", "before the arguments", _CALL)
        if self.peek().text == ")":
            self.advance()
            self.advance()
            return s.Call(function, (), self.since(start))
        arguments = self.items(self._argument, "an argument")
        return s.Call(function, arguments, self.since(start))

    def _argument(self) -> tuple[s.Identifier | None, s.Argument]:
        if self.at_name() and self.peek().text == "=":
            name = self.identifier("the name of an argument")
            self.advance()
            return name, self._complete_value()
        return None, self._complete_value()

    def _complete_value(self) -> s.Argument:
        node = self._value()
        if self.token.text in (*INDEX_LEVELS, "/"):
            help = "arguments are not computed: compute it in the program, or as dims of an eintup"
            self.reject_token("expected `,` or `)`", help)
        return node

    def _value(self) -> s.Argument:
        self.enter()
        node = self._one_value()
        self.depth -= 1
        return node

    def _one_value(self) -> s.Argument:
        self.height = 0
        start = self.token
        if start.text == "RANK":
            return self.rank()
        if start.text == "DIMS":
            return self._item(start, self.dims())
        if start.text == "TENSOR":
            return self._tensor()
        if self.at_name() and start.text not in _NAMED:
            return self._named(start)
        return self._constant()

    def _named(self, start: Token) -> s.Argument:
        """An array, an attribute of a framework, or a call."""
        name = self._qualified()
        if self.at("("):
            return self._item(start, self._call(name, start))
        if len(name.parts) == 1:
            return s.Identifier(name.parts[0], name.span)
        return name

    def _item(self, start: Token, value: s.Dims | s.Call) -> s.Dims | s.Call | s.Item:
        """A tuple, or `[0]` of it."""
        if not self.at("["):
            return value
        opening = self.advance()
        if self.token.kind != "int":
            self.reject_token("expected a whole number", "one of several is `DIMS(a)[0]`")
        at = self.whole().value
        self.close(opening)
        return s.Item(value, at, self.since(start))

    def _tensor(self) -> s.TensorOf:
        start = self.advance()
        opening = self.expect("(", "behind `TENSOR`", _TENSOR)
        value = self._value()
        self.close(opening)
        self.grow(self.height)
        if not isinstance(value, s.Dims | s.Rank | s.Constant | s.Item):
            self.reject("E0102", "expected dims, a rank or a number", value.span, help=_TENSOR)
        return s.TensorOf(value, self.since(start))

    # ------------------------------------------------------------------ constants

    def _constant(self) -> s.Constant:
        start = self.token
        if not self.take("L"):
            return s.Constant(self._literal(), self.since(start))
        opening = self.expect("(", "behind `L`", "a literal is written `L('VALID')` or `'VALID'`")
        value = self._literal()
        self.close(opening)
        return s.Constant(value, self.since(start))

    def _literal(self) -> object:
        """A string, a number, a named constant, a list or a tuple."""
        self.height = 0
        token = self.token
        if token.text in _NAMED and token.kind == "name":
            return _NAMED[self.advance().text]
        if token.kind == "string":
            return _unquote(self.advance().text)
        if token.text in ("[", "(") and token.kind == "op":
            return self._sequence()
        sign = -1 if self.take("-") else 1
        if self.token.kind not in ("int", "real"):
            self.reject_token("expected an argument", _ARGUMENT)
        number = self.advance()
        return sign * (int(number.text) if number.kind == "int" else float(number.text))

    def _sequence(self) -> object:
        """`[a, b]`, `(a, b)`, `(a,)`, or `(a)`, which is `a`."""
        opening = self.advance()
        self.enter()
        closing = ")" if opening.text == "(" else "]"
        values: list[object] = []
        comma = True
        while comma and not self.at(closing):
            values.append(self._literal())
            comma = self.take(",")
        self.close(opening)
        self.depth -= 1
        if closing == "]":
            return values
        return values[0] if values and not comma and len(values) == 1 else tuple(values)


def _unquote(text: str) -> str:
    """The text that a string stands for."""
    parts: list[str] = []
    escaped = False
    for char in text[1:-1]:
        if escaped:
            parts.append(_ESCAPES.get(char, char))
        elif char != "\\":
            parts.append(char)
        escaped = char == "\\" and not escaped
    return "".join(parts)


_ESCAPES = {"n": "\n", "t": "\t"}

_CALL = "a call is written `tf.nn.softmax(A, axis=1)`"
_TENSOR = "a tensor of integers is `TENSOR(DIMS(a))`, `TENSOR(RANK(a))` or `TENSOR(3)`"
_ARGUMENT = (
    "an argument is an array, `DIMS(a)`, `RANK(a)`, `TENSOR(DIMS(a))`, a literal such as "
    "`L('VALID')`, or an attribute such as `tf.float32`"
)
