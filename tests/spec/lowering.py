"""Formulas (2.12): accumulators, initial values, indices, guards, conditions, locals, packs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .case import Case, Value
from .programs import formula, program

_rng = np.random.default_rng(212)
X = _rng.standard_normal(5)
A = _rng.standard_normal((3, 4))
B = _rng.standard_normal((4, 2))
M = _rng.integers(-9, 9, (3, 4))
FLAGS = _rng.random((3, 4)) > 0.4


def _case(name: str, text: str, inputs: tuple[Value, ...], expected: Callable[..., Any]) -> Case:
    return Case("2.12", name, text, inputs, expected, "NumPy")


def _of_vector(
    name: str, lower: str, expected: Callable[..., Any], outputs: str = "y: real[n];"
) -> Case:
    """A formula of one vector of five reals."""
    text = formula(lower, "x: real[n];", outputs, "x: real[5];", _declared(outputs))
    return _case(name, text, (X,), expected)


def _of_matrix(
    name: str, lower: str, expected: Callable[..., Any], outputs: str = "y: real[n];"
) -> Case:
    """A formula of one matrix of reals, 3 by 4."""
    text = formula(lower, "x: real[n,m];", outputs, "x: real[3,4];", _declared(outputs))
    return _case(name, text, (A,), expected)


def _of_ints(
    name: str, lower: str, expected: Callable[..., Any], outputs: str = "y: int[n];"
) -> Case:
    """A formula of one matrix of integers, 3 by 4."""
    text = formula(lower, "x: int[n,m];", outputs, "x: int[3,4];", _declared(outputs))
    return _case(name, text, (M,), expected)


def _declared(outputs: str) -> str:
    """Outputs without their shapes, as a graph may declare them."""
    parts = [part.split("[")[0].strip() for part in outputs.split(";") if part.strip()]
    return " ".join(f"{part};" for part in parts)


def _last_over(row: np.ndarray, limit: float) -> float:
    found = [v for v in row if v > limit]
    return found[-1] if found else -1.0


ACCUMULATORS = [
    _case(
        "matrix product",
        formula(
            "C[i,j] += A[i,l] * B[l,j], i < m, l < k, j < n;",
            "A: real[m,k]; B: real[k,n];",
            "C: real[m,n];",
            "A: real[3,4]; B: real[4,2];",
            "C: real[3,2];",
        ),
        (A, B),
        np.matmul,
    ),
    _of_matrix("sum", "y[i,] += x[i,j], i < n, j < m;", lambda x: x.sum(1)),
    _of_matrix("product", "y[i,] *= x[i,j], i < n, j < m;", lambda x: x.prod(1)),
    _of_matrix(
        "minimum",
        "y[i,] = inf, i < n; y[i,] <= x[i,j], i < n, j < m;",
        lambda x: x.min(1),
    ),
    _of_matrix(
        "maximum",
        "y[i,] = -inf, i < n; y[i,] >= x[i,j], i < n, j < m;",
        lambda x: x.max(1),
    ),
    _of_matrix(
        "minimum, later spelling and no initial value",
        "y[i,] <?= x[i,j], i < n, j < m;",
        lambda x: x.min(1),
    ),
    _of_matrix(
        "maximum, later spelling and no initial value",
        "y[i,] >?= x[i,j], i < n, j < m;",
        lambda x: x.max(1),
    ),
    _of_ints("sum of integers", "y[i,] += x[i,j], i < n, j < m;", lambda x: x.sum(1)),
    _of_ints("product of integers", "y[i,] *= x[i,j], i < n, j < m;", lambda x: x.prod(1)),
    _of_ints(
        "maximum of integers from the smallest",
        "y[i,] = int(-inf), i < n; y[i,] >= x[i,j], i < n, j < m;",
        lambda x: x.max(1),
    ),
    _of_ints(
        "minimum of integers from the largest",
        "y[i,] = int(inf), i < n; y[i,] <= x[i,j], i < n, j < m;",
        lambda x: x.min(1),
    ),
    _case(
        "all and any",
        formula(
            "y[i,] &= x[i,j], i < n, j < m; z[j,] |= x[i,j], i < n, j < m;",
            "x: bool[n,m];",
            "y: bool[n]; z: bool[m];",
            "x: bool[3,4];",
            "y: bool; z: bool;",
        ),
        (FLAGS,),
        lambda x: (x.all(1), x.any(0)),
    ),
    _of_matrix("sum of everything", "y[] += x[i,j], i < n, j < m;", np.sum, "y: real[];"),
    _of_matrix(
        "several outputs",
        "y[i,] += x[i,j], i < n, j < m; z[j,] += x[i,j] * x[i,j], i < n, j < m;",
        lambda x: (x.sum(1), (x * x).sum(0)),
        "y: real[n]; z: real[m];",
    ),
]

INITIAL = [
    _of_matrix(
        "initial value of a sum",
        "y[i,] = 10.0, i < n; y[i,] += x[i,j], i < n, j < m;",
        lambda x: 10 + x.sum(1),
    ),
    _of_matrix(
        "initial value that depends on the index",
        "y[i,] = x[i,0], i < n; y[i,] *= x[i,j], i < n, j < m;",
        lambda x: x[:, 0] * x.prod(1),
    ),
    _of_matrix(
        "initial value of a part is zero elsewhere",
        "y[i,] = 5.0, i < 2; y[i,] += x[i,j], i < n, j < m;",
        lambda x: np.array([5, 5, 0]) + x.sum(1),
    ),
    _of_matrix(
        "minimum with a limit",
        "y[i,] = 0.1, i < n; y[i,] <= x[i,j], i < n, j < m;",
        lambda x: np.minimum(x.min(1), 0.1),
    ),
    *(
        _case(
            f"optional initial value, {'given' if given else 'left out'}",
            program(
                """operator f { @input { x: real[n,m]; z: optional real[n]; }
                @output { y: real[n]; }
                @lower { y[i,] = z[i,] ?? 0.0, i < n; y[i,] += x[i,j], i < n, j < m; } }""",
                "y = f(x, z);" if given else "y = f(x);",
                "x: real[3,4]; z: real[3];",
            ),
            (A, A[:, 1]),
            (lambda x, z: x.sum(1) + z) if given else (lambda x, z: x.sum(1)),
        )
        for given in (True, False)
    ),
]

INDICES = [
    _of_matrix("broadcasting", "y[i,j,k] = x[i,j], i < n, j < m, k < 2;",
               lambda x: np.repeat(x[:, :, None], 2, 2), "y: real[n,m,2];"),
    _of_matrix("transposition", "y[j,i] = x[i,j], i < n, j < m;", lambda x: x.T, "y: real[m,n];"),
    _of_matrix("constant subscript", "y[i,] = x[i,2], i < n;", lambda x: x[:, 2]),
    _of_matrix("diagonal", "y[i,] = x[i,i], i < n;", np.diagonal),
    _of_vector("reversal", "y[i,] = x[n - 1 - i,], i < n;", lambda x: x[::-1]),
    _of_vector("stride", "y[i,] = x[2 * i,], i < n \\ 2;", lambda x: x[::2], "y: real[n \\ 2];"),
    _of_vector("quotient", "y[i,] = x[i / 2,], i < 2 * n;", lambda x: np.repeat(x, 2),
               "y: real[2 * n];"),
    _of_vector("remainder", "y[i,] = x[i % n,], i < 3 * n;", lambda x: np.tile(x, 3),
               "y: real[3 * n];"),
    _of_vector("subscript on the left", "y[i + 2,] = x[i,], i < n;", lambda x: np.pad(x, (2, 0)),
               "y: real[n + 2];"),
    _of_vector("elements that no formula writes", "y[2 * i,] = x[i,], i < n;",
               lambda x: np.stack([x, 0 * x], 1).ravel(), "y: real[2 * n];"),
    _of_vector("index as a value", "y[i,] = x[i,] * real(i), i < n;", lambda x: x * np.arange(5)),
    _of_vector("index that nothing uses repeats", "y[i,] += x[i,], i < n, k < 3;",
               lambda x: 3 * x),
    _of_vector("bound that is an expression", "y[i,] = x[i + 1,], i < n - 2;",
               lambda x: np.pad(x[1:4], (0, 2))),
    _of_vector("convolution of a vector with itself", "y[i + j,] += x[i,] * x[j,], i < n, j < n;",
               lambda x: np.convolve(x, x), "y: real[2 * n - 1];"),
    _case(
        "element of a tensor as subscript",
        formula("y[i,] = x[at[i,],], i < k;", "x: real[n]; at: int[k];", "y: real[k];",
                "x: real[5]; at: int[4];"),
        (X, np.array([4, 0, 3, 3])),
        lambda x, at: x[at],
    ),
    _case(
        "element of a tensor as subscript on the left",
        formula("y[at[i,],] += x[i,], i < n;", "x: real[n]; at: int[n];", "y: real[n];",
                "x: real[5]; at: int[5];"),
        (X, np.array([4, 0, 3, 3, 0])),
        lambda x, at: np.bincount(at, x, 5),
    ),
    _case(
        "packed subscripts",
        formula("y[i..,b] = x[b,i..], i < s, b < n;", "x: real[n,s..(r)];", "y: real[s..,n];",
                "x: real[2,3,4];"),
        (_rng.standard_normal((2, 3, 4)),),
        lambda x: np.moveaxis(x, 0, -1),
    ),
    _case(
        "packed subscripts with an expression",
        formula("y[i..] = x[1 + 2 * i..], i < s / 2;", "x: real[s..];", "y: real[(s / 2)..];",
                "x: real[4,6];"),
        (_rng.standard_normal((4, 6)),),
        lambda x: x[1::2, 1::2],
    ),
    _case(
        "items of a pack, as many as a size says",
        program(
            """operator f { @input { xs: real[n]..(3); } @output { y: real[]; }
            @lower { y[] += xs[i][1,], i < n; } }""",
            "y = f([a, b, c]);",
            "a: real[n|9]; b: real[n]; c: real[n];",
        ),
        tuple(B.T.repeat(2, 1)[[0, 1, 0], :2]),
        lambda a, b, c: a[1] + b[1],
    ),
    _case(
        "packed subscripts of rank zero",
        formula("y[i..] = 2.0 * x[i..], i < s;", "x: real[s..];", "y: real[s..];", "x: real[];"),
        (np.array(1.5),),
        lambda x: 2 * x,
    ),
    _case(
        "fold over a pack of indices",
        formula("y[i..] = real(i + ..) + x[i..], i < s;", "x: real[s..];", "y: real[s..];",
                "x: real[3,4];"),
        (A,),
        lambda x: x + np.add.outer(np.arange(3), np.arange(4)),
    ),
    _case(
        "items of a pack of indices",
        formula("y[i[1],i[0]] = x[i..], i < s;", "x: real[s..(2)];", "y: real[s[1],s[0]];",
                "x: real[3,4];"),
        (A,),
        np.transpose,
    ),
    _case(
        "extents of zero",
        formula("y[i,] += x[i,j], i < n, j < m;", "x: real[n,m];", "y: real[n];", "x: real[3,0];"),
        (np.zeros((3, 0)),),
        lambda x: np.zeros(3),
    ),
]  # fmt: skip

GUARDS = [
    _of_vector("term out of range is left out", "y[i,] += x[|i + j - 1|,], i < n, j < 3;",
               lambda x: np.convolve(x, np.ones(3), "same")),
    _of_vector("the whole instance is skipped", "y[i,] += x[|i - 1|,] * 1.0 + 10.0, i < n;",
               lambda x: np.concatenate([[0.0], x[:-1] + 10])),
    _of_vector("skipped assignment keeps zero", "y[i,] = x[|i + 3|,], i < n;",
               lambda x: np.pad(x[3:], (0, 3))),
    _of_vector("skipped update keeps the initial value",
               "y[i,] = -1.0, i < n; y[i,] := x[|i + 3|,], i < n;",
               lambda x: np.concatenate([x[3:], [-1.0] * 3])),
    _of_vector("guard on the left", "y[|i - 2|,] = x[i,], i < n;",
               lambda x: np.pad(x[2:], (0, 2))),
    _of_vector("guard in the side that is not taken",
               "y[i,] += i > 0 ? x[i,] : x[|i - 1|,], i < n;",
               lambda x: np.concatenate([[0.0], x[1:]])),
    _of_vector("remapped at both ends", "y[i,] = x[|i - 2 <> 0 : n - 1|,], i < n + 4;",
               lambda x: np.pad(x, 2, mode="edge"), "y: real[n + 4];"),
    _of_vector("reflected at both ends",
               "y[i,] = x[|i - 2 <> 2 - i : 2 * n - i|,], i < n + 4;",
               lambda x: np.pad(x, 2, mode="reflect"), "y: real[n + 4];"),
    _of_vector("wrapped at both ends", "y[i,] = x[|i - 2 <> i + n - 2 : i - n - 2|,], i < n + 4;",
               lambda x: np.pad(x, 2, mode="wrap"), "y: real[n + 4];"),
    _of_vector("guard of an element that does not matter",
               "y[i,] = 7 + int(x[|i - 1|,]) - int(x[|i - 1|,]), i < n;",
               lambda x: np.array([0, 7, 7, 7, 7]), "y: int[n];"),
    _of_ints("guard of an element that does not matter, in a condition",
             "y[i,] = x[i,0] * 0 + (x[|i - 1|,0] > 0 ? 7 : 7), i < n;",
             lambda x: np.array([0, 7, 7])),
    _of_matrix("guards in two dimensions",
               "y[i,j] += x[|i + k - 1|,|j + l - 1|], i < n, j < m, k < 3, l < 3;",
               lambda x: sum(np.pad(x, 1)[a : a + 3, b : b + 4]
                             for a in range(3) for b in range(3)),
               "y: real[n,m];"),
    _of_matrix("one guard and one remap",
               "y[i,j] += x[|i + k - 1|,|j + k - 1 <> 0 : m - 1|], i < n, j < m, k < 3;",
               lambda x: sum(np.pad(np.pad(x, ((1, 1), (0, 0))), ((0, 0), (1, 1)), mode="edge")
                             [k : k + 3, k : k + 4] for k in range(3)),
               "y: real[n,m];"),
    _case(
        "guarded subscript from a tensor",
        formula("y[i,] += x[|at[i,]|,], i < k;", "x: real[n]; at: int[k];", "y: real[k];",
                "x: real[5]; at: int[4];"),
        (X, np.array([4, -1, 7, 0])),
        lambda x, at: np.array([x[4], 0, 0, x[0]]),
    ),
    _case(
        "packed guards",
        formula("y[i..] += x[|i - 1|..], i < s;", "x: real[s..];", "y: real[s..];",
                "x: real[3,4];"),
        (A,),
        lambda x: np.pad(x, ((1, 0), (1, 0)))[:3, :4],
    ),
    _case(
        "packed remaps",
        formula("y[i..] = x[|i - 1 <> 0 : s - 1|..], i < s + 2;", "x: real[s..];",
                "y: real[(s + 2)..];", "x: real[3,4];"),
        (A,),
        lambda x: np.pad(x, 1, mode="edge"),
    ),
]  # fmt: skip

CONDITIONS = [
    _of_matrix(
        "condition on values",
        "y[i,] += x[i,j], i < n, j < m | x[i,j] > 0.0;",
        lambda x: np.where(x > 0, x, 0).sum(1),
    ),
    _of_matrix(
        "condition on indices",
        "y[i,j] = x[i,j], i < n, j < m | j <= i;",
        np.tril,
        "y: real[n,m];",
    ),
    _of_vector(
        "position of the largest",
        "y[] = 0; y[] := i, i < n | x[i,] > x[y[],];",
        np.argmax,
        "y: int[];",
    ),
    _case(
        "position of the largest, in two dimensions",
        program(
            """operator f { @input { x: real[m,n]; } @output { idx: int[]..(2); }
            @lower { idx[] = 0; idx[] := [i,j], i < m, j < n | x[i,j] > x[idx[]..]; } }""",
            "[y, z] = f(x);",
            "x: real[3,4];",
            "y: int; z: int;",
        ),
        (A,),
        lambda x: tuple(np.array(k) for k in np.unravel_index(np.argmax(x), x.shape)),
    ),
    _of_matrix(
        "last update wins",
        "y[i,] = -1.0, i < n; y[i,] := x[i,j], i < n, j < m | x[i,j] > 0.2;",
        lambda x: np.array([_last_over(row, 0.2) for row in x]),
    ),
    _case(
        "update with equal subscripts",
        formula(
            "y[i,] = 0.0, i < n; y[at[i,],] := x[i,], i < n;",
            "x: real[n]; at: int[n];",
            "y: real[n];",
            "x: real[5]; at: int[5];",
        ),
        (X, np.array([1, 1, 2, 4, 1])),
        lambda x, at: np.array([0.0, x[4], x[2], 0.0, x[3]]),
    ),
    _of_vector(
        "update that reads what it wrote",
        "y[i,] = x[i,], i < n; y[i + 1,] := y[i,] + x[i + 1,], i < n - 1;",
        np.cumsum,
    ),
]

LOCALS = [
    _of_vector(
        "intermediate value",
        "z = x[i,] * x[i,], y[i,] = z + z * `sin`(x[i,]), i < n;",
        lambda x: x**2 * (1 + np.sin(x)),
    ),
    _of_vector(
        "intermediate values in a row",
        "z = x[i,] + 1.0, w = z * z, y[i,] = w - z, i < n;",
        lambda x: (x + 1) ** 2 - (x + 1),
    ),
    _of_vector(
        "intermediate values, later spelling",
        "with z = x[i,] + 1.0, w = z * z: y[i,] = w - z, i < n;",
        lambda x: (x + 1) ** 2 - (x + 1),
    ),
    _of_vector(
        "intermediate value as a subscript",
        "k = n - 1 - i, y[i,] = x[k,], i < n;",
        lambda x: x[::-1],
    ),
    _of_vector(
        "guard in an intermediate value",
        "z = x[|i + j - 1|,], y[i,] += z * z, i < n, j < 3;",
        lambda x: np.convolve(x * x, np.ones(3), "same"),
    ),
    _of_vector(
        "intermediate value in the condition",
        "z = x[i,] * 2.0, y[i,] = z, i < n | z > 0.0;",
        lambda x: np.maximum(2 * x, 0),
    ),
]

VALUES = [
    _of_vector("select", "y[i,] = x[i,] > 0.0 ? x[i,] : -0.1 * x[i,], i < n;",
               lambda x: np.where(x > 0, x, -0.1 * x)),
    _of_vector("minimum and maximum of values", "y[i,] = x[i,] << 0.5 >> -0.5, i < n;",
               lambda x: np.clip(x, -0.5, 0.5)),
    _of_vector("functions", "y[i,] = `exp`(x[i,]) + `sqrt`(`abs`(x[i,])) * `tanh`(x[i,]), i < n;",
               lambda x: np.exp(x) + np.sqrt(np.abs(x)) * np.tanh(x)),
    _of_vector("rounding of values", "y[i,] = `floor`(x[i,]) + `frac`(x[i,]) * 0.5, i < n;",
               lambda x: np.floor(x) + (x - np.trunc(x)) / 2),
    _of_vector("powers", "y[i,] = (x[i,] * x[i,]) ** 1.5, i < n;", lambda x: np.abs(x) ** 3),
    _of_vector("reals to integers", "y[i,] = int(x[i,] * 10.0), i < n;",
               lambda x: np.trunc(x * 10).astype(int), "y: int[n];"),
    _of_vector("comparison as a value", "y[i,] = x[i,] >= 0.0 && i > 1, i < n;",
               lambda x: (x >= 0) & (np.arange(5) > 1), "y: bool[n];"),
    _of_vector("division by zero and NaN", "y[i,] = `log`(x[i,] - x[0,]) / 0.0, i < n;",
               lambda x: np.log(x - x[0]) / 0.0),
    _of_ints("integers rounded down and up",
             "y[i,j] = x[i,j] / 4, i < n, j < m; z[i,j] = x[i,j] \\ 4, i < n, j < m;",
             lambda x: (x // 4, -(-x // 4)), "y: int[n,m]; z: int[n,m];"),
    _of_ints("containment of values", "y[i,j] = x[i,j] in [0, x[0,j], 3], i < n, j < m;",
             lambda x: (x == 0) | (x == x[:1]) | (x == 3), "y: bool[n,m];"),
    _of_ints("remainder of integers", "y[i,j] = x[i,j] % 4, i < n, j < m;", lambda x: x % 4,
             "y: int[n,m];"),
    _of_ints("remainder by a negative integer", "y[i,j] = x[i,j] % -4, i < n, j < m;",
             lambda x: x % -4, "y: int[n,m];"),
    _of_ints("integers to reals and bools", "y[i,j] = real(x[i,j]) / 2.0, i < n, j < m;"
             "z[i,j] = bool(x[i,j]), i < n, j < m;", lambda x: (x / 2, x != 0),
             "y: real[n,m]; z: bool[n,m];"),
    _of_ints("absolute values and signs", "y[i,j] = `abs`(x[i,j]) * `sign`(x[i,j]), i < n, j < m;",
             lambda x: x, "y: int[n,m];"),
    _case(
        "logic of values",
        formula("y[i,] = (a[i,] && !b[i,]) || (a[i,] ^ b[i,]), i < n;"
                " z[i,] = a[i,] => b[i,], i < n;",
                "a: bool[n]; b: bool[n];", "y: bool[n]; z: bool[n];", "a: bool[4]; b: bool[4];",
                "y: bool; z: bool;"),
        (np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)),
        lambda a, b: (a ^ b, ~a | b),
    ),
]  # fmt: skip

_LIST = [_rng.standard_normal((2, 3)) for _ in range(3)]
_PACK = "x: real[2,3]; z: real[2,3]; w: real[2,3];"


def _of_pack(name: str, lower: str, expected: Callable[..., Any], outputs: str) -> Case:
    """A formula of a pack of three matrices that gives a pack, or a tensor."""
    packed = outputs.startswith("ys")
    text = program(
        f"operator f {{ @input {{ xs: real[n,m]..(k); }} @output {{ {outputs} }}"
        f" @lower {{ {lower} }} }}",
        f"{'ys..(3)' if packed else 'y'} = f(xs);",
        "xs: real[2,3]..(3);",
        "ys: real[2,3]..(3);" if packed else "y: real;",
    )
    return _case(name, text, (list(_LIST),), expected)


PACKS = [
    _of_pack("index over items", "ys[k0][i,j] = xs[k0][i,j] * 2.0, k0 < k, i < n, j < m;",
             lambda xs: [2 * x for x in xs], "ys: real[n,m]..(k);"),
    _of_pack("whole packs", "ys[i,j] = xs[i,j] + 1.0, i < n, j < m;",
             lambda xs: [x + 1 for x in xs], "ys: real[n,m]..(k);"),
    _of_pack("list as a value", "ys[i,j] = [xs[0][i,j], xs[2][i,j], 7.0], i < n, j < m;",
             lambda xs: [xs[0], xs[2], np.full((2, 3), 7.0)], "ys: real[n,m]..(3);"),
    _of_pack("unrolled", "unroll..(j0 -> k) ys[j0][i,j] = xs[j0][i,j] * real(j0), i < n, j < m;",
             lambda xs: [x * k for k, x in enumerate(xs)], "ys: real[n,m]..(k);"),
    _of_pack("unrolled sum", "unroll..(j0 -> k) ys[j0][i,0] += xs[j0][i,j], i < n, j < m;",
             lambda xs: [np.pad(x.sum(1, keepdims=True), ((0, 0), (0, 2))) for x in xs],
             "ys: real[n,m]..(k);"),
    _of_pack("sum over items", "y[i,j] += xs[k0][i,j], k0 < k, i < n, j < m;", sum,
             "y: real[n,m];"),
    _of_pack("items stacked", "y[k0,i,j] = xs[k0][i,j], k0 < k, i < n, j < m;", np.stack,
             "y: real[k,n,m];"),
    _of_pack("one item", "y[i,j] = xs[-1][i,j], i < n, j < m;", lambda xs: xs[-1],
             "y: real[n,m];"),
    _case(
        "items of different extents",
        program(
            """operator f { @input { xs: real[n,..m]..(k); } @output { y: real[n,m + ..]; }
            @using { at = [0, (m + ...)..]; }
            @lower { y[i,at[k0] + j] = xs[k0][i,j], k0 < k, i < n, j < m[k0]; } }""",
            "y = f([x, z, x]);",
            "x: real[2,3]; z: real[2,1];",
        ),
        (_LIST[0], _LIST[1][:, :1]),
        lambda x, z: np.concatenate([x, z, x], 1),
    ),
    _case(
        "packed pack of indices",
        formula("y[i..] = x[idx[i..]..], i < s;", "x: real[t..(d)]; idx: int[s..]..(d);",
                "y: real[s..];", "x: real[3,4]; idx: int[5]..(2);"),
        (A, [np.array([0, 2, 1, 2, 0]), np.array([3, 0, 1, 1, 2])]),
        lambda x, idx: x[idx[0], idx[1]],
    ),
]  # fmt: skip

_NOTHING = """operator f { @attrib { k: int; c: real..(k); } @input { x: real[n]; }
    @output { ys: real[n]..(k); sum: real[n]; product: real[n]; all: real[n]; z: real[n]; }
    @lower {
        ys[i,] = x[i,] * 2.0, i < n;
        sum[i,] += c[j] * x[i,], i < n, j < k;
        unroll..(j -> k) product[i,] *= c[j] * x[i,], i < n;
        all[i,] = 5.0, i < n; all[i,] += x[i + n,], i < n, j < 0;
        z[i,] = x[i,], i < n | i < 0;
    } }"""

NOTHING = [
    _case(
        "packs without items, loops without steps",
        program(_NOTHING, "ys..(0), a, b, c, d = f{k = 0, c = []}(x);",
                outputs="a: real; b: real; c: real; d: real;"),
        (X,),
        lambda x: (0 * x, 0 * x + 1, 0 * x + 5, 0 * x),
    ),
    _case(
        "the same with one item",
        program(_NOTHING, "ys..(1), a, b, c, d = f{k = 1, c = [3.0]}(x); y = ys[0];",
                outputs="y: real; a: real; b: real; c: real; d: real;"),
        (X,),
        lambda x: (2 * x, 3 * x, 3 * x, 0 * x + 5, 0 * x),
    ),
]  # fmt: skip

ERRORS = [
    Case(
        "2.12",
        "index out of range at run time",
        formula("y[i,] = x[at[i,],], i < k;", "x: real[n]; at: int[k];", "y: real[k];",
                "x: real[5]; at: int[2];"),
        (X, np.array([1, 5])),
        error="E0802",
        message=r"\b5\b",
    ),
    Case(
        "2.12",
        "negative index at run time",
        formula("y[i,] = x[at[i,],], i < k;", "x: real[n]; at: int[k];", "y: real[k];",
                "x: real[5]; at: int[2];"),
        (X, np.array([1, -1])),
        error="E0802",
    ),
    Case(
        "2.12",
        "integer divided by zero at run time",
        formula("y[i,] = 7 / x[i,], i < n;", "x: int[n];", "y: int[n];", "x: int[3];", "y: int;"),
        (np.array([1, 0, 2]),),
        error="E0803",
    ),
    _case(
        "integer divided by zero where it does not count",
        formula("y[i,] = x[i,] == 0 ? 0 : 7 / x[i,], i < n;", "x: int[n];", "y: int[n];",
                "x: int[3];", "y: int;"),
        (np.array([1, 0, 2]),),
        lambda x: np.array([7, 0, 3]),
    ),
]  # fmt: skip

CASES = [
    *ACCUMULATORS,
    *INITIAL,
    *INDICES,
    *GUARDS,
    *CONDITIONS,
    *LOCALS,
    *VALUES,
    *PACKS,
    *NOTHING,
    *ERRORS,
]
