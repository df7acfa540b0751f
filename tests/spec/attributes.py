"""Attributes (2.5): values, defaults, deferred defaults, uniform values, optional ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case
from .programs import program

X = np.arange(1.0, 7.0)


def _scaled(attribute: str, given: str, factor: str, expected: Any, name: str) -> Case:
    """A vector of six, times an expression of attributes."""
    text = program(
        f"""operator f {{ @attrib {{ {attribute} }} @input {{ x: real[s]; }}
        @output {{ y: real[s]; }} @lower {{ y[i,] = x[i,] * {factor}, i < s; }} }}""",
        f"y = f{given}(x);",
        "x: real[6];",
    )
    return Case("2.5", name, text, (X,), X * expected)


def _taken(attribute: str, given: str, expected: list[int], name: str, inputs: str = "") -> Case:
    """The values of the packed attribute `a` of an operator, as a tensor."""
    size = len(expected)
    text = program(
        f"""operator f {{ @attrib {{ {attribute} }} @input {{ x: real[s..(d)]; }}
        @constant {{ c: int[{size}] = a; }} @output {{ y: int[{size}]; }}
        @compose {{ y = c; }} }}""",
        f"y = f{given}(x);",
        inputs or "x: real[2,3];",
        "y: int;",
    )
    shape = [int(n) for n in inputs[8:-2].split(",")] if inputs else [2, 3]
    return Case("2.5", name, text, (np.zeros(shape),), np.array(expected))


def _graph(name: str, attribute: str, attribs: dict[str, object], expected: Any) -> Case:
    """The value of the attribute `a` of a graph, as its result."""
    array = np.asarray(expected)
    kind = {"b": "bool", "i": "int", "f": "real"}[array.dtype.kind]
    text = f"""graph G {{ @attrib {{ {attribute} }} @output {{ y: {kind}{list(array.shape)}; }}
        @constant {{ c: {kind}{list(array.shape)} = a; }} @compose {{ y = c; }} }}"""
    return Case("2.5", name, text, expected=array, attribs=attribs)


CASES = [
    _scaled("a: real;", "{a = 2.5}", "a", 2.5, "value"),
    _scaled("a: real = 3.0;", "", "a", 3.0, "default"),
    _scaled("a: real = 3.0;", "{a = 0.5}", "a", 0.5, "value instead of the default"),
    _scaled("a: int = 3; b: bool = true;", "{b = false}", "(b ? real(a) : -1.0)", -1.0,
            "attributes of several types"),
    _scaled("mode: str = 'DOUBLE';", "", "(mode == 'DOUBLE' ? 2.0 : 1.0)", 2.0, "string"),
    _scaled("a: real; b: real = 2.0 * a;", "{a = 4.0}", "b", 8.0, "default from an attribute"),
    _scaled("b: real = 2.0 * a; a: real;", "{a = 4.0}", "b", 8.0,
            "default from an attribute that is declared later"),
    _scaled("a: real = real(s);", "", "a", 6.0, "default from an extent"),
    _scaled("a: real = real(s); b: real = a + 1.0;", "", "b", 7.0, "default from a default"),
    _scaled("a: optional real;", "", "(a ?? 5.0)", 5.0, "optional, left out"),
    _scaled("a: optional real;", "{a = 2.0}", "(a ?? 5.0)", 2.0, "optional, given"),
    _scaled("a: dynamic int = 2;", "", "real(a)", 2.0, "marker of the later dialect"),
    _scaled("a: int..(k);", "{a = [1, 2, 4]}", "real(a + ..) * real(k)", 21.0, "length of a pack"),
    _scaled("a: int.. = [];", "", "real(a * ..)", 1.0, "empty pack"),
    _scaled("a: int..(2 * k);", "{a = [1, 2, 4, 5]}", "real(k)", 2.0, "length that is affine"),
    _scaled("a: real..(3);", "{a = 2.0}", "(a + ..)", 6.0, "one value for a fixed length"),
    _taken("r: int; a: int.. = [0:r];", "{r = 4}", [0, 1, 2, 3], "default that is a range"),
    _taken("r: int; a: int..(r) = 7;", "{r = 3}", [7, 7, 7], "one value as default of a pack"),
    _taken("r: int; a: int..(r);", "{r = 3, a = 5}", [5, 5, 5], "one value for a pack"),
    _taken("a: int..(d) = 1;", "", [1, 1, 1], "one value as often as there are dimensions",
           "x: real[2,1,3];"),
    _taken("a: int..(d) = s;", "", [2, 3], "default that is a shape"),
    _taken("a: int..(d) = 1;", "{a = [4, 6]}", [4, 6], "list instead of the default"),
    _taken("a: int..(k) = 1; b: int..(k);", "{b = [8, 9]}", [1, 1], "length from another pack"),
    _taken("r: optional int; a: int..(k) = [0:r];", "{r = 2}", [0, 1],
           "optional default that has a value"),
    _taken("r: optional int; a: int..(k) = [0:r];", "{a = [5, 6]}", [5, 6],
           "value instead of a default that is null"),
    Case("2.5", "neither a value nor a default that is not null", program(
        """operator f { @attrib { r: optional int; a: int..(k) = [0:r]; } @input { x: real[n]; }
        @output { y: real[n]; } @lower { y[i,] = x[i,] * real(a + ..), i < n; } }""",
        "y = f(x);"), error="E0414", message="`a`"),
    _graph("attribute of a graph", "a: int = 3;", {}, 3),
    _graph("attribute of a graph from outside", "a: int = 3;", {"a": 9}, 9),
    _graph("pack from outside", "a: real..(2) = [0.0, 0.5];", {"a": [1.5, 2.5]}, [1.5, 2.5]),
    _graph("default from an attribute from outside", "b: int; a: int = b * b;", {"b": 5}, 25),
    Case("2.5", "attribute of a graph that it does not have",
         "graph G { @attrib { a: int = 1; } @output { y: int; } @compose { y = a; } }",
         attribs={"b": 1}, error="E0801", message="`b`"),
    Case("2.5", "attribute of a graph of another type",
         "graph G { @attrib { a: int = 1; } @output { y: int; } @compose { y = a; } }",
         attribs={"a": 1.5}, error="E0801", message="`a`"),
]  # fmt: skip
