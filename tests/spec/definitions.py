"""First programs (2.1), definitions (2.2), modules (2.15), the grammar (2.16), composition (3)."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from .case import Case
from .programs import program

_rng = np.random.default_rng(21)
X = _rng.standard_normal(5)
IMAGE = _rng.standard_normal((2, 4, 9, 8))
FILTER = _rng.standard_normal((6, 4, 3, 3))
BIAS = _rng.standard_normal(6)

CONV = """operator conv {
    @attrib {
        stride: int..(d) = 1;
        dilation: int..(d) = 1;
        padding: optional int..(d);
    }
    @input {
        input: real[b,c,is..(d)];
        filter: real[n,c,fs..(d)];
        bias: optional real[n];
    }
    @using {
        fd = (fs - 1) * dilation + 1;
        paddings = 2 * padding ?? (is \\ stride - 1) * stride + fd - is;
        os = (is + paddings - fd) / stride + 1;
    }
    @output {
        output: real[b,n,os..];
    }
    @assert {
        stride > 0: "'stride' must be positive; got {stride}";
        dilation > 0: "'dilation' must be positive; got {dilation}";
        is + paddings >= fd: "padded input-size must be greater than (dilated) filter-size;
            got input-size={is}, filter-size={fs}, dilation={dilation}, total-padding={paddings}";
    }
    @lower {
        output[bi,ni,i..] = bias[ni,] ?? 0.0,
            bi < b, ni < n, i < os;
        output[bi,ni,i..] += input[bi,ci,|stride * i + dilation * j - paddings / 2|..]
                           * filter[ni,ci,j..],
            bi < b, ni < n, ci < c, i < os, j < fs;
    }
}"""
"""The convolution of the specification, word by word."""


def _conv(name: str, attributes: str, bias: bool, stride: int, padding: int | str) -> Case:
    arguments = "x, w, v" if bias else "x, w"

    def oracle(x: np.ndarray, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        tensors = [torch.from_numpy(t) for t in (x, w, v)]
        last = tensors[2] if bias else None
        return F.conv2d(tensors[0], tensors[1], last, stride, padding).numpy()

    return Case(
        "2.1",
        name,
        program(
            CONV,
            f"y = conv{attributes}({arguments});",
            "x: real[2,4,9,8]; w: real[6,4,3,3]; v: real[6];",
        ),
        (IMAGE, FILTER, BIAS),
        oracle,
        "PyTorch",
    )


WEIGHTS = {
    "kernel1": FILTER[:4, :2],
    "bias1": BIAS[:4],
    "kernel2": _rng.standard_normal((3, 36)),
    "bias2": BIAS[:3],
}


def _network(x: np.ndarray) -> np.ndarray:
    weights = {k: torch.from_numpy(v) for k, v in WEIGHTS.items()}
    y = F.relu(F.conv2d(torch.from_numpy(x), weights["kernel1"], weights["bias1"]))
    y = F.max_pool2d(y, 2).flatten(1)
    return F.softmax(F.linear(y, weights["kernel2"], weights["bias2"]), 1).numpy()


GLANCE = [
    _conv("convolution", "{padding = 1}", True, 1, 1),
    _conv("convolution without bias", "{padding = 0, stride = 2}", False, 2, 0),
    _conv("convolution of the same size", "", True, 1, "same"),
    Case("2.1", "the convolution says what is wrong",
         program(CONV, "y = conv{padding = 0, dilation = 4}(x, w);",
                 "x: real[2,4,9,8]; w: real[6,4,3,3];"),
         (IMAGE, FILTER), error="E0501",
         message=r"(?s)input-size=\[9, 8\], filter-size=\[3, 3\].*dilation=\[4, 4\]"),
    Case("2.1", "small network with weights", """
        import nn
        import layout
        graph Net {
            @attrib { batch: int = 1; classes: int = 3; }
            @input { input: real[batch, 2, 8, 8]; }
            @output { output: real[batch,classes]; }
            @variable {
                kernel1: real[4, 2, 3, 3];
                bias1: real[4];
                kernel2: real[classes, 36];
                bias2: real[classes];
            }
            @compose {
                conv1 = nn.conv{padding=0}(input, kernel1, bias1);
                relu1 = nn.relu(conv1);
                pool1 = nn.max_pool{padding=0, size=2, stride=2}(relu1);
                flat1 = layout.flatten{axis=1}(pool1);
                fc1 = nn.linear(flat1, kernel2, bias2);
                output = nn.softmax(fc1);
            }
        }""",
        (IMAGE[:, :2, :8],),
        _network,
        "PyTorch", attribs={"batch": 2},
        variables={f"main.Net.{name}": value for name, value in WEIGHTS.items()}),
]  # fmt: skip


_DOUBLE = """operator double { @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = 2.0 * x[i,], i < n; } }"""

DEFINITIONS = [
    Case("2.2", "blocks in any order", program(
        """operator f { @lower { y[i,] = x[i,] * k, i < m; } @assert { k > 0.0; }
        @output { y: real[m]; } @using { m = n - 1; } @input { x: real[n]; }
        @attrib { k: real; } }""",
        "y = f{k = 2.0}(x);"), (X,), lambda x: 2 * x[:4], "NumPy"),
    Case("2.2", "used before it is defined",
         f"graph G {{ @input {{ x: real[5]; }} @output {{ y: real[5]; }}\n"
         f"@compose {{ y = double(x); }} }}\n{_DOUBLE}", (X,), lambda x: 2 * x, "NumPy"),
    Case("2.2", "empty blocks", program(
        _DOUBLE.replace("@input", "@attrib { } @using { } @constant { } @assert { } @input"),
        "y = double(x);"), (X,), lambda x: 2 * x, "NumPy"),
    Case("2.2", "operator without inputs", program(
        "operator two { @output { y: real[]; } @lower { y[] = 2.0; } }", "y = two();", ""),
        (), 2.0),
    Case("2.2", "comments", program(
        "# an operator\n" + _DOUBLE + " # and behind it", "# nothing\n y = double(x); # again\n"),
        (X,), lambda x: 2 * x, "NumPy"),
    Case("2.2", "names that blocks have elsewhere", program(
        """operator lower { @input { input: real[shape]; } @output { output: real[shape]; }
        @lower { output[rank,] = input[rank,], rank < shape; } }""",
        "y = lower(x);"), (X,), lambda x: x, "NumPy"),
]  # fmt: skip

MODULES = [
    Case("2.15", "module of the library", "import math;" + program("", "y = math.tanh(x);"),
         (X,), np.tanh, "NumPy"),
    Case("2.15", "list of modules", "import math, layout;" + program(
        "", "t = math.tanh(x); y = layout.unsqueeze{axes = [0]}(t);"),
        (X,), lambda x: np.tanh(x)[None], "NumPy"),
    Case("2.15", "module beside the main one", "import ops;" + program("", "y = ops.double(x);"),
         (X,), lambda x: 2 * x, "NumPy", modules={"ops": _DOUBLE}),
    Case("2.15", "module that imports another", "import ops;" + program("", "y = ops.four(x);"),
         (X,), lambda x: 4 * x, "NumPy", modules={
             "base": _DOUBLE,
             "ops": """import base; operator four { @input { x: real[n]; } @output { y: real[n]; }
                 @compose { t = base.double(x); y = base.double(t); } }"""}),
    Case("2.15", "module in a folder", "import custom.ops;" + program(
        "", "y = custom.ops.double(x);"),
        (X,), lambda x: 2 * x, "NumPy", modules={"custom/ops": _DOUBLE}),
    Case("2.15", "one name in two modules", "import ops;" + program(
        _DOUBLE.replace("2.0", "3.0"), "t = double(x); y = ops.double(t);"),
        (X,), lambda x: 6 * x, "NumPy", modules={"ops": _DOUBLE}),
    Case("2.15", "graph in an imported module", "import ops;" + program("", "y = x;"),
         (X,), error="E0204", modules={"ops": "graph H { @output { y: real[]; } }"}),
    Case("2.15", "main module without a graph", _DOUBLE, error="E0801", message="no graph"),
]  # fmt: skip

GRAMMAR = [
    Case("2.16", "imports without semicolons", "import math\nimport layout\n" + program(
        "", "y = math.neg(x);"), (X,), np.negative, "NumPy"),
    Case("2.16", "line ends of other systems", program(_DOUBLE, "y = double(x);").replace(
        "\n", "\r\n"), (X,), lambda x: 2 * x, "NumPy"),
    Case("2.16", "byte-order mark", "\ufeff" + program(_DOUBLE, "y = double(x);"),
         (X,), lambda x: 2 * x, "NumPy"),
    Case("2.16", "text beyond ASCII in comments and strings", program(
        _DOUBLE.replace("@lower", "@assert { n > 0: 'größer als 0: 零'; } @lower"),
        "y = double(x); # ± ∞\n"), (X,), lambda x: 2 * x, "NumPy"),
    Case("2.16", "trailing comma of subscripts and attributes", program(
        _DOUBLE.replace("2.0", "a").replace("@input", "@attrib { a: real; } @input"),
        "y = double{a = 2.0,}(x);"), (X,), lambda x: 2 * x, "NumPy"),
    Case("2.16", "mixed logical operators are read from left to right", program(
        """operator f { @attrib { t: bool = true; } @input { x: real[n]; } @output { y: real[n]; }
        @lower { y[i,] = (t || t && false) ? x[i,] : -x[i,], i < n; } }""",
        "y = f(x);"), (X,), lambda x: -x, warnings=("W0105",)),
    Case("2.16", "both dialects in one text", program(
        """operator f { @input { x: real[static n]; } @output { y: real[]; z: real[]; }
        @lower { with v = sqrt(abs(x[i,])): y[] >?= v <? 10.0, i < n;
                 v2 = `exp`(x[i,]), z[] = inf; z[] <= v2 << 10.0, i < n; } }""".replace(
            "v2 = `exp`(x[i,]), z[] = inf; z[] <= v2", "z[] = inf; v2 = `exp`(x[i,]), z[] <= v2"),
        "y, z = f(x);", outputs="y: real; z: real;"),
        (X,), lambda x: (np.sqrt(np.abs(x)).max(), np.exp(x).min()), "NumPy"),
]  # fmt: skip

COMPOSITION = [
    Case("3", "operators in operators in operators", program(
        _DOUBLE + """ operator four { @input { x: real[n]; } @output { y: real[n]; }
        @compose { t = double(x); y = double(t); } }
        operator sixteen { @input { x: real[n]; } @output { y: real[n]; }
        @compose { t = four(x); y = four(t); } }""",
        "t = sixteen(x); y = four(t);"), (X,), lambda x: 64 * x, "NumPy"),
    Case("3", "one operator for several shapes", program(
        _DOUBLE, "a = double(x); b = double(z);", "x: real[5]; z: real[2];", "a: real; b: real;"),
        (X, X[:2]), lambda x, z: (2 * x, 2 * z), "NumPy"),
    Case("3", "attributes of a graph fix its shapes", """
        operator sum { @input { x: real[n,m]; } @output { y: real[n]; }
            @lower { y[i,] += x[i,j], i < n, j < m; } }
        graph G { @attrib { rows: int; columns: int = 3; } @input { x: real[rows,columns]; }
            @output { y: real[rows]; } @compose { y = sum(x); } }""",
        (np.ones((2, 3)),), np.full(2, 3.0), attribs={"rows": 2}),
    Case("3", "an input as a result, and twice", program("", "y = x; z = x;",
         outputs="y: real; z: real;"), (X,), (X, X)),
    Case("3", "a result that nothing needs", program(_DOUBLE, "t = double(x); y = x;"), (X,), X),
    Case("3", "a result that is a number", program("", "y = 2.5;", "", "y: real;"), (), 2.5),
    Case("3", "arguments that are expressions", program(
        """operator add { @input { x: real[]; y: real[]; } @output { z: real[]; }
        @lower { z[] = x[] + y[]; } }""",
        "y = add(1.0 + 2.0, x);", "x: real[];"), (np.array(4.0),), 7.0),
    Case("3", "a graph of several, chosen by name", """
        graph A { @input { x: real[2]; } @output { y: real[2]; } @compose { y = x; } }
        graph B { @output { y: real[]; } @compose { y = 4.0; } }""", (), 4.0, graph="B"),
    Case("3", "the first graph of several", """
        graph A { @output { y: real[]; } @compose { y = 3.0; } }
        graph B { @output { y: real[]; } @compose { y = 4.0; } }""", (), 3.0),
    Case("3", "a graph that is not there", program("", "y = x;"), graph="H", error="E0801",
         message="it has: G"),
]  # fmt: skip

CASES = [*GLANCE, *DEFINITIONS, *MODULES, *GRAMMAR, *COMPOSITION]
