"""Generic types (2.13) and the type system (2.3)."""

from __future__ import annotations

import numpy as np

from .case import Case
from .programs import program

X = np.array([1.5, -2.0, 0.0])
K = np.array([3, -4, 0])
B = np.array([True, False, True])

_ADD = """operator add { @dtype { T: num; } @input { x: T[s..]; y: T[s..]; } @output { z: T[s..]; }
    @lower { z[i..] = x[i..] + y[i..], i < s; } }"""
_CAST = """operator cast { @dtype { R: arith; T: arith; } @input { x: T[s..]; }
    @output { y: R[s..]; }
    @lower { y[i..] = R(x[i..]), i < s; } }"""
_FILL = """operator fill { @dtype { T: type = real; } @attrib { v: T; n: int = 3; }
    @output { y: T[n]; } @lower { y[i,] = v, i < n; } }"""
_ZEROS = """operator zeros { @dtype { T: arith = real; } @output { y: T[2]; }
    @lower { y[i,] = T(), i < 2; } }"""

GENERICS = [
    Case("2.13", "type from the inputs: real", program(_ADD, "y = add(x, x);", "x: real[3];"),
         (X,), 2 * X),
    Case("2.13", "type from the inputs: int",
         program(_ADD, "y = add(x, x);", "x: int[3];", "y: int;"), (K,), 2 * K),
    Case("2.13", "type from an attribute", program(_FILL, "y = fill{v = 4}();", "", "y: int;"),
         expected=np.full(3, 4)),
    Case("2.13", "type from a bool attribute",
         program(_FILL, "y = fill{v = true}();", "", "y: bool;"), expected=np.full(3, True)),
    Case("2.13", "explicit types, in order of declaration",
         program(_CAST, "y = cast<int>(x); z = cast<bool, real>(x);", "x: real[3];",
                 "y: int; z: bool;"),
         (X,), lambda x: (x.astype(int), x != 0), "NumPy"),
    Case("2.13", "default type", program(_ZEROS, "y = zeros();", ""), expected=np.zeros(2)),
    Case("2.13", "explicit type instead of the default",
         program(_ZEROS, "y = zeros<int>(); z = zeros<bool>();", "", "y: int; z: bool;"),
         expected=(np.zeros(2, int), np.zeros(2, bool))),
    Case("2.13", "literals as values of a type", program(
        """operator f { @dtype { T: num; } @attrib { step: T = T(2); } @input { x: T[n]; }
        @output { y: T[n]; } @lower { y[i,] = x[i,] * step + T(1), i < n; } }""",
        "y = f(x); z = f(k); w = f{step = 3}(k);", "x: real[3]; k: int[3];",
        "y: real; z: int; w: int;"),
        (X, K), lambda x, k: (2 * x + 1, 2 * k + 1, 3 * k + 1), "NumPy"),
    Case("2.13", "any type: moved, not computed with", program(
        """operator flip { @dtype { T: type; } @input { x: T[n]; } @output { y: T[n]; }
        @lower { y[i,] = x[n - 1 - i,], i < n; } }""",
        "y = flip(x); z = flip(k); w = flip(b);", "x: real[3]; k: int[3]; b: bool[3];",
        "y: real; z: int; w: bool;"),
        (X, K, B), lambda x, k, b: (x[::-1], k[::-1], b[::-1]), "NumPy"),
    Case("2.13", "generic operator that invokes generic ones", program(
        _ADD + """ operator triple { @dtype { T: num; } @input { x: T[s..]; } @output { y: T[s..]; }
        @compose { t = add(x, x); y = add(t, x); } }""",
        "y = triple(x); z = triple(k);", "x: real[3]; k: int[3];", "y: real; z: int;"),
        (X, K), lambda x, k: (3 * x, 3 * k), "NumPy"),
    Case("2.13", "two types of one operator", program(
        """operator pick { @dtype { T: type; I: num; } @input { x: T[n]; w: I[n]; }
        @output { y: T[n]; } @lower { y[i,] = w[i,] > I(0) ? x[i,] : x[0,], i < n; } }""",
        "y = pick(k, x);", "x: real[3]; k: int[3];", "y: int;"),
        (X, K), lambda x, k: np.where(x > 0, k, k[0]), "NumPy"),
    *(
        Case("2.13", f"generic type of a graph: {kind}", """
            graph G { @dtype { T: num = real; } @input { x: T[3]; } @output { y: T[3]; }
            @compose { y = x; } }""", (value,), value, types={"T": kind} if kind else {})
        for kind, value in (("int", K), ("real", X), ("", X))
    ),
]  # fmt: skip

TYPES = [
    Case("2.3", "integers, reals and bools as tensors",
         program("", "a = x; b = k; c = t;", "x: real[3]; k: int[3]; t: bool[3];",
                 "a: real; b: int; c: bool;"), (X, K, B), (X, K, B)),
    Case("2.3", "pack of tensors of different shapes",
         program("", "ys..(2) = xs;", "xs: real[2,..[3,1]]..(2);", "ys: real[2,..[3,1]]..(2);"),
         ([np.ones((2, 3)), np.zeros((2, 1))],), lambda xs: xs),
    Case("2.3", "optional pack of tensors", program(
        """operator f { @input { x: real[n]; ws: optional real[n]..(k); } @output { y: real[n]; }
        @compose { y = if ?ws then total(ws) else x; } }
        operator total { @input { xs: real[n]..(k); } @output { y: real[n]; }
        @lower { y[i,] += xs[j][i,], i < n, j < k; } }""",
        "y = f(x); z = f(x, [x, x, x]);", "x: real[3];", "y: real; z: real;"),
        (X,), lambda x: (x, 3 * x), "NumPy"),
    Case("2.3", "integers of any size fit 64 bits",
         program("operator big { @output { y: int[]; } @lower { y[] = 1000003 * 1000003; } }",
                 "y = big();", "", "y: int;"), expected=1000003**2, oracle="Python"),
    Case("2.3", "strings choose", program(
        """operator f { @attrib { modes: str..(k); } @input { x: real[n]; } @output { y: real[n]; }
        @lower { y[i,] = x[i,] * (("ADD" in modes) ? 2.0 : 3.0), i < n; } }""",
        "y = f{modes = ['SUB', 'ADD']}(x); z = f{modes = []}(x);", "x: real[3];",
        "y: real; z: real;"), (X,), (2 * X, 3 * X)),
    Case("2.3", "tensor of variable rank", program(_ADD, "y = add(x, x);", "x: real[1,2,1,2,1];"),
         (np.arange(4.0).reshape(1, 2, 1, 2, 1),), lambda x: 2 * x, "NumPy"),
]  # fmt: skip

CASES = [*GENERICS, *TYPES]
