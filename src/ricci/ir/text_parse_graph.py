"""Reads graphs in the text form that `text_print` writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from ..dtypes import DType
from ..source import Source
from .nodes import (
    Branch,
    Check,
    Expr,
    Graph,
    Loop,
    Operation,
    Port,
    Quantization,
    Region,
    Scalar,
    Step,
    Symbol,
    Tensor,
)
from .text_parse import DTYPES, StatementParser

T = TypeVar("T")


class GraphParser(StatementParser):
    """Recursive descent over the tokens of one text: steps and graphs."""

    # ------------------------------------------------------------------ steps

    def tensor(self) -> Tensor:
        """A tensor: declared by `name: dtype[shape]`, or one declared before."""
        token = self.token
        name = self.name()
        if not self.accept(":"):
            if token.text not in self.scope.tensors:
                self._unknown(token)
            return self.scope.tensors[token.text]
        dtype = self._dtype()
        self.expect("[")
        tensor = Tensor(name, dtype, self.listed(self.expr, "]"))
        self.scope.tensors[token.text] = tensor
        return tensor

    def _dtype(self) -> DType:
        if self.token.text not in DTYPES:
            self.fail("an element type")
        return DTYPES[self.take("name")]

    def tensors_until(self, end: str) -> tuple[Tensor, ...]:
        return self.listed(self.tensor, end)

    def steps(self, *ends: str) -> tuple[Step, ...]:
        """Steps up to one of the words in `ends`, which stays."""
        found: list[Step] = []
        while self.token.text not in ends:
            found.append(self.step())
        return tuple(found)

    def step(self) -> Step:
        if self.accept("if"):
            return self._branch()
        if self.accept("loop"):
            return self._loop()
        return self._operation()

    def _operation(self) -> Operation:
        """The inputs are read before the outputs: a shape cannot need an output."""
        outputs = self.tensors_until("=")
        name = self.name()
        attributes = self._attributes() if self.token.text == "{" else ()
        self.expect("(")
        inputs = self.tensors_until(")")
        self.expect("{")
        body = []
        while not self.accept("}"):
            body.append(self.assignment())
        return Operation(name, outputs, tuple(body), inputs, attributes)

    def _attributes(self) -> tuple[tuple[str, str], ...]:
        self.expect("{")
        return self.listed(self._attribute, "}")

    def _attribute(self) -> tuple[str, str]:
        key = self.name()
        self.expect("=")
        return key, self.string()

    def _region(self) -> Region:
        self.expect("{")
        steps = self.steps("yield")
        self.expect("yield")
        results = self.tensors_until(";")
        self.expect("}")
        return Region(steps, results)

    def _branch(self) -> Branch:
        self.expect("outputs")
        outputs = self.tensors_until("{")
        conditions, branches = [], []
        while self.accept("if"):
            conditions.append(self._region())
            self.expect("then")
            branches.append(self._region())
        self.expect("else")
        branches.append(self._region())
        self.expect("}")
        return Branch(outputs, tuple(conditions), tuple(branches))

    def _loop(self) -> Loop:
        self.expect("{")
        variables, initial, scans = [], [], []
        while self.accept("with"):
            variables.append(self.tensor())
            self.expect("=")
            initial.append(self.tensor())
            self.expect(";")
        while self.accept("scan"):
            item = self.tensor()
            self.expect("=")
            self.expect("[")
            scans.append((item, self.tensors_until("]")))
            self.expect(";")
        count = self._count() if self.accept("count") else None
        index = self._line_tensor() if self.accept("index") else None
        pretest = self.token.text != "posttest"
        tested = self.accept("pretest") or self.accept("posttest")
        condition = self._region() if tested else None
        self.expect("body")
        body = self._region()
        outputs = self.tensors_until(";") if self.accept("outputs") else ()
        collected = []
        while self.accept("collected"):
            self.expect("[")
            collected.append(self.tensors_until("]"))
            self.expect(";")
        steps = self._line_tensor() if self.accept("steps") else None
        self.expect("}")
        return Loop(
            outputs, tuple(collected), tuple(variables), tuple(initial), tuple(scans), body,
            count, index, condition, pretest, steps,
        )  # fmt: skip

    def _count(self) -> Expr | Tensor:
        count: Expr | Tensor = self.tensor() if self.accept("tensor") else self.expr()
        self.expect(";")
        return count

    def _line_tensor(self) -> Tensor:
        tensor = self.tensor()
        self.expect(";")
        return tensor

    # ------------------------------------------------------------------ graph

    def graph(self) -> Graph:
        self.expect("graph")
        name = self.name()
        self.expect("{")
        symbols = self._symbols("symbol")
        sizes = self._symbols("size")
        inputs = self._ports("input")
        variables = self._lines("variable", self._data)
        constants = self._lines("constant", self._data)
        checks = self._lines("check", self._check)
        steps = self.steps("output", "size", "update", "quantize", "}")
        outputs = self._ports("output")
        pairs = tuple(zip(sizes, self._lines("size", self._size_tensor), strict=True))
        updates = self._lines("update", self._update)
        quantization = self._lines("quantize", self._quantization)
        self.expect("}")
        return Graph(
            name, inputs, outputs, steps, variables, constants, symbols, pairs, checks,
            updates, quantization,
        )  # fmt: skip

    def _lines(self, word: str, item: Callable[[], T]) -> tuple[T, ...]:
        found: list[T] = []
        while self.accept(word):
            found.append(item())
            self.expect(";")
        return tuple(found)

    def _symbols(self, word: str) -> tuple[Symbol, ...]:
        return self._lines(word, self._symbol)

    def _symbol(self) -> Symbol:
        token = self.token
        name = self.name()
        symbol = Symbol(name, self.expr() if self.accept("<=") else None)
        self.scope.scalars[token.text] = symbol
        return symbol

    def _ports(self, word: str) -> tuple[Port, ...]:
        return self._lines(word, self._port)

    def _port(self) -> Port:
        optional = self.accept("optional")
        name = self.name()
        self.expect("=")
        if self.accept("["):
            tensors = self.tensors_until("]")
            length = self.tensor() if self.accept("length") else None
            return Port(name, tensors, True, optional, length)
        absent = self.token.text == ";"
        return Port(name, () if absent else (self.tensor(),), False, optional)

    def _data(self) -> Tensor:
        token = self.token
        plain = self.tensor()
        data: Scalar | tuple[Scalar, ...] | None = None
        if self.accept("="):
            if self.accept("{"):
                data = self.listed(lambda: self._element(plain.dtype), "}")
            else:
                data = self._element(plain.dtype)
        tensor = Tensor(plain.name, plain.dtype, plain.shape, data)
        self.scope.tensors[token.text] = tensor
        return tensor

    def _element(self, dtype: DType) -> Scalar:
        return self.scalar(dtype, negative=self.accept("-"))

    def _check(self) -> Check:
        condition = self.expr()
        message: list[str | Expr | tuple[Expr, ...]] = []
        if self.accept(":"):
            message.append(self._part())
            while self.accept(","):
                message.append(self._part())
        values: list[tuple[str, Expr | tuple[Expr, ...]]] = []
        if self.accept("values"):
            while not values or self.accept(","):
                label = self.string()
                self.expect("=")
                values.append((label, cast("Expr | tuple[Expr, ...]", self._part())))
        return Check(condition, tuple(message), tuple(values))

    def _part(self) -> str | Expr | tuple[Expr, ...]:
        if self.accept("["):
            return self.listed(self.expr, "]")
        if self.token.kind == "string" and self.tokens[self.at + 1].text != ":":
            return self.string()
        return self.expr()

    def _size_tensor(self) -> Tensor:
        self.take("name")
        self.expect("=")
        return self.tensor()

    def _update(self) -> tuple[Tensor, Tensor]:
        old = self.tensor()
        self.expect("=")
        return old, self.tensor()

    def _quantization(self) -> Quantization:
        name = self.name()
        self.expect("=")
        operator = self.name()
        attributes = self._attributes() if self.token.text == "{" else ()
        self.expect("(")
        tensor = self.tensor()
        self.expect(")")
        return Quantization(tensor, name, operator, attributes)


def parse_graph(text: str, name: str = "<ir>") -> Graph:
    """The graph that `format_graph` printed as `text`; raises `Error` if it is malformed."""
    parser = GraphParser(Source(name, text))
    graph = parser.graph()
    if parser.token.kind != "end":
        parser.fail("the end")
    return graph
