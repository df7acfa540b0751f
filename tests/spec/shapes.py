"""Shapes of inputs and outputs (2.6): capture, agreement, affine extents, packs, binding order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .case import Case
from .programs import program


def _shown(
    name: str,
    declared: str,
    given: Sequence[Sequence[int]],
    values: str,
    expected: Sequence[int],
    attributes: tuple[str, str] = ("", ""),
    section: str = "2.6",
) -> Case:
    """An operator that returns a list of what it knows about the shapes of its inputs."""
    inputs = " ".join(f"x{k}: real{list(shape)};" for k, shape in enumerate(given))
    names = ", ".join(f"x{k}" for k in range(len(given)))
    size = len(expected)
    attribute = f"@attrib {{ {attributes[0]} }}" if attributes[0] else ""
    text = program(
        f"""operator f {{ {attribute} @input {{ {declared} }}
        @constant {{ known: int[{size}] = {values}; }}
        @output {{ result: int[{size}]; }} @compose {{ result = known; }} }}""",
        f"y = f{attributes[1]}({names});",
        inputs,
        "y: int;",
    )
    arrays = tuple(np.zeros(shape) for shape in given)
    return Case(section, name, text, arrays, np.array(expected))


def _packed(
    name: str, declared: str, shapes: Sequence[Sequence[int]], values: str, expected: Sequence[int]
) -> Case:
    """The same for one pack of inputs."""
    inputs = " ".join(f"x{k}: real{list(shape)};" for k, shape in enumerate(shapes))
    names = ", ".join(f"x{k}" for k in range(len(shapes)))
    size = len(expected)
    text = program(
        f"""operator f {{ @input {{ xs: {declared}; }}
        @constant {{ known: int[{size}] = {values}; }}
        @output {{ result: int[{size}]; }} @compose {{ result = known; }} }}""",
        f"y = f([{names}]);",
        inputs,
        "y: int;",
    )
    return Case("2.6", name, text, tuple(np.zeros(s) for s in shapes), np.array(expected))


def _output(name: str, extents: str, shape: Sequence[int], attributes: str = "") -> Case:
    """An operator without inputs that gives zeros of a shape that it computes."""
    rank = len(shape)
    left = ",".join(f"i{k}" for k in range(rank)) + ("," if rank == 1 else "")
    domain = "".join(f", i{k} < {n}" for k, n in enumerate(shape))
    text = program(
        f"""operator f {{ @attrib {{ a: int = 2; n: optional int; p: int..(k) = [3, 4];
        t: bool = true; }} @output {{ y: real[{extents}]; }}
        @lower {{ y[{left}] = 1.0{domain}; }} }}""",
        f"y = f{attributes}();",
        "",
        f"y: real{list(shape)};",
    )
    return Case("2.6", name, text, expected=np.ones(shape))


CAPTURE = [
    _shown("extents", "x: real[m,n];", [[2, 3]], "[m, n]", [2, 3]),
    _shown("agreement of two inputs", "x: real[m,k]; y: real[k,n];", [[2, 3], [3, 4]], "[m, k, n]",
           [2, 3, 4]),
    _shown("agreement of two dimensions", "x: real[n,n];", [[3, 3]], "[n]", [3]),
    _shown("rank of a pack of extents", "x: real[s..(d)];", [[2, 3, 4]], "[d, s..]", [3, 2, 3, 4]),
    _shown("rank zero", "x: real[s..(d)];", [[]], "[d, s..]", [0]),
    _shown("pack between extents", "x: real[b,s..(d),c];", [[2, 3, 4, 5]], "[b, c, d, s..]",
           [2, 5, 2, 3, 4]),
    _shown("pack of fixed length", "x: real[s..(2),c];", [[2, 3, 4]], "[s.., c]", [2, 3, 4]),
    _shown("capture of the rank", "x: real^(r)[b,s..(d)];", [[2, 3, 4]], "[r, d]", [3, 2]),
    _shown("shape and rank of an input", "x: real[b,s..];", [[2, 3, 4]], "[x.rank, x.shape..]",
           [3, 2, 3, 4]),
    _shown("repeated extent", "x: real[5 ..(d)];", [[5, 5, 5]], "[d]", [3]),
    _shown("fixed extent", "x: real[n,3];", [[2, 3]], "[n]", [2]),
    _shown("n + c", "x: real[n + 1];", [[5]], "[n]", [4]),
    _shown("n - c", "x: real[n - 2];", [[5]], "[n]", [7]),
    _shown("c * n", "x: real[2 * n];", [[6]], "[n]", [3]),
    _shown("c * n + d", "x: real[2 * n + 1];", [[7]], "[n]", [3]),
    _shown("(n + c) * d", "x: real[(n + 1) * 2];", [[8]], "[n]", [3]),
    _shown("c - n", "x: real[7 - n];", [[5]], "[n]", [2]),
    _shown("length that is affine", "x: real[s..(2 * d)];", [[2, 3, 4, 5]], "[d]", [2]),
    _shown("extent from an attribute", "x: real[n / 2,m];", [[3, 4]], "[m]", [4],
           ("n: int;", "{n = 6}")),
    _shown("extent from another extent", "x: real[n,n * n];", [[2, 4]], "[n]", [2]),
    _shown("optional extent that is null", "x: real[n,m];", [[4]], "[m]", [4],
           ("n: optional int;", "")),
    _shown("optional extent that is given", "x: real[n,m];", [[3, 4]], "[m]", [4],
           ("n: optional int;", "{n = 3}")),
    _shown("extent that is there", "x: real[b ..(t),m];", [[3, 4]], "[b ?? 0, m]", [3, 4],
           ("t: bool;", "{t = true}")),
    _shown("extent that is not there", "x: real[b ..(t),m];", [[4]], "[b ?? 0, m]", [0, 4],
           ("t: bool;", "{t = false}")),
    _shown("marker of the later dialect", "x: real[static n, m];", [[3, 4]], "[n, m]", [3, 4]),
]  # fmt: skip

ORDER = [
    _shown("length from an attribute", "x: real[s..(r),t..(u)];", [[2, 3, 4]], "[u, t..]",
           [2, 3, 4], ("r: int;", "{r = 1}"), "2.6.1"),
    _shown("later input first", "x: real[s..(d),t..(u)]; y: real[s..(d)];",
           [[2, 3, 4], [2, 3]], "[d, u, t..]", [2, 1, 4], section="2.6.1"),
    _shown("example of the specification",
           "x: real[s..(r),z..(d),t..(u)]; y: real[s..(r),z..(d)];",
           [[2, 3, 4, 5], [2, 3, 4]], "[d, u, z.., t.., b.., c]", [2, 1, 3, 4, 5, 0, 0, 5],
           ("r: int; a: optional int; b: int..(d) = 0; c: int = 2 * d + r;", "{r = 1}"), "2.6.1"),
    _shown("axis splits a shape", "x: real^(r)[s..(axis < 0 ? axis + r : axis),c,t..];",
           [[2, 3, 4]], "[c, t..]", [3, 4], ("axis: int;", "{axis = -2}"), "2.6.1"),
    _shown("uniform attribute once the rank is known", "x: real[b,s..(d)];", [[2, 3, 4]], "a",
           [7, 7], ("a: int..(d) = 7;", ""), "2.6.1"),
    Case("2.6.1", "optional input last", program(
        """operator f { @input { w: optional real[n]; x: real[n,m]; } @output { y: real[n]; }
        @lower { y[i,] = w[i,] ?? 1.0, i < n; y[i,] += x[i,j], i < n, j < m; } }""",
        "y = f(~, x);", "x: real[2,3];"),
        (np.ones((2, 3)),), np.full(2, 4.0)),
    Case("2.6.1", "extent of an absent input", program(
        """operator f { @input { x: real[n]; w: optional real[k]; } @output { y: real[k ?? 3]; }
        @lower { y[i,] += x[j,], i < k ?? 3, j < n; } }""",
        "y = f(x);", "x: real[4];"),
        (np.ones(4),), np.full(3, 4.0)),
]  # fmt: skip

PACKS = [
    _packed("pack with shared extents", "real[n,m]..(k)", [[2, 3]] * 3, "[k, n, m]", [3, 2, 3]),
    _packed("pack with extents of each item", "real[n,..m]..(k)", [[2, 3], [2, 1], [2, 4]],
            "[k, n, m..]", [3, 2, 3, 1, 4]),
    _packed("pack with a pack of extents", "real[z,s..(1),..t]..(k)", [[2, 3, 4], [2, 3, 5]],
            "[z, s.., t..]", [2, 3, 4, 5]),
    _packed("size of a pack", "real[n]..", [[2], [2]], "[xs.size]", [2]),
    _packed("pack of tensors of rank zero", "real[]..(k)", [[], [], []], "[k]", [3]),
    _packed("pack of one item", "real[n]..(k)", [[5]], "[k, n]", [1, 5]),
]  # fmt: skip

OUTPUTS = [
    _output("extents that are expressions", "a + 1,2 * a", [3, 4]),
    _output("pack of extents", "p..,a", [3, 4, 2]),
    _output("repeated extent of an output", "a ..(3)", [2, 2, 2]),
    _output("null extents are left out", "a,n,5", [2, 5]),
    _output("optional extent of an output that is given", "a,n,5", [2, 3, 5], "{n = 3}"),
    _output("conditional extents", "t ? 4,!t ? 6,a", [4, 2]),
    _output("extent zero", "a,0", [2, 0]),
    _output("rank zero of an output", "", []),
]

DEFAULTS = [
    Case("2.6", "default of an input", program(
        """operator f { @input { x: real[n]; w: real[] = 2.5; } @output { y: real[n]; }
        @lower { y[i,] = x[i,] * w[], i < n; } }""",
        "y = f(x); z = f(x, 3.0);", "x: real[3];", "y: real; z: real;"),
        (np.arange(3.0),), lambda x: (2.5 * x, 3 * x), "NumPy"),
    Case("2.6", "default of a pack of inputs", program(
        """operator f { @input { x: real[n]; ws: real[]..(k) = [1.0, 2.0]; } @output { y: real[n]; }
        @lower { y[i,] += x[i,] * ws[j][], i < n, j < k; } }""",
        "y = f(x);", "x: real[3];"),
        (np.arange(3.0),), lambda x: 3 * x, "NumPy"),
    Case("2.6", "shape of a graph output left out", program(
        """operator f { @input { x: real[n]; } @output { y: real[n,2]; }
        @lower { y[i,j] = x[i,], i < n, j < 2; } }""",
        "y = f(x); z = f(x);", "x: real[3];", "y: real; z: real[~,~];"),
        (np.arange(3.0),), lambda x: (np.stack([x, x], 1),) * 2, "NumPy"),
    Case("2.6", "optional input of a graph", """
        operator add { @input { x: real[n]; y: real[n]; } @output { z: real[n]; }
            @lower { z[i,] = x[i,] + y[i,], i < n; } }
        graph G { @input { x: real[3]; w: optional real[3]; } @output { y: real[3]; }
            @compose { y = if ?w then add(x, w) else x; } }""",
        (np.arange(3.0), np.ones(3)), lambda x, w: x + w, "NumPy"),
    Case("2.6", "wrong shape of an argument",
        program("", "y = x;", "x: real[2,3];"), (np.zeros((2, 4)),), error="E0801",
        message=r"\[2, 4\]"),
    Case("2.6", "wrong rank of an argument",
        program("", "y = x;", "x: real[2,3];"), (np.zeros(6),), error="E0801"),
]  # fmt: skip

CASES = [*CAPTURE, *ORDER, *PACKS, *OUTPUTS, *DEFAULTS]
