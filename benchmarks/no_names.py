"""The formula is the operator: a user's own convolutions beside `nn.conv`.

    python -m benchmarks.no_names [--threads 2]

Three graphs of the same size: `nn.conv`; the same formula as an operator of the user's under
another name; and one whose window walks diagonally, which no library has.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np

import ricci

from .cases import set_variables
from .measure import format_table, scaled_error, time_alternately

OWN = """
operator sift {
    @input { picture: real[n,c,h,w]; stencil: real[m,c,p,q]; offset: real[m]; }
    @output { result: real[n,m,h,w]; }
    @lower {
        result[ni,mi,y,x] = offset[mi,], ni < n, mi < m, y < h, x < w;
        result[ni,mi,y,x] += picture[ni,ci,|y + j - p / 2|,|x + k - q / 2|] * stencil[mi,ci,j,k],
            ni < n, mi < m, y < h, x < w, ci < c, j < p, k < q;
    }
}
"""

DIAGONAL = OWN.replace("|x + k - q / 2|", "|x + k + j - q / 2 - p / 2|")

GRAPH = """
import nn;
{operator}
graph G {{
    @input {{ x: real[1,{c},{s},{s}]; }}
    @output {{ y: real[1,{m},{s},{s}]; }}
    @variable {{ w: real[{m},{c},3,3]; b: real[{m}]; }}
    @compose {{ y = {call}(x, w, b); }}
}}
"""

SIZES = [(64, 64, 56), (128, 128, 28), (256, 256, 14)]


def diagonal(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The diagonal convolution by shifted copies, in float64."""
    size = x.shape[-1]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (4, 4), (4, 4)))
    out = np.zeros((1, w.shape[0], size, size)) + b[:, None, None]
    for j in range(3):
        for k in range(3):
            part = padded[:, :, 3 + j :, 2 + k + j :][:, :, :size, :size]
            out += np.einsum("mc,nchw->nmhw", w[:, :, j, k], part)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = []
    for c, m, s in SIZES:
        x = rng.standard_normal((1, c, s, s), np.float32)
        w = rng.standard_normal((m, c, 3, 3), np.float32)
        b = rng.standard_normal(m, np.float32)
        calls = {}
        for name, operator, call in [
            ("nn.conv", "", "nn.conv{padding=1}"),
            ("own", OWN, "sift"),
            ("diagonal", DIAGONAL, "sift"),
        ]:
            text = GRAPH.format(operator=operator, call=call, c=c, m=m, s=s)
            exe = ricci.parse(text, "skriptnd").compile(threads=options.threads)
            set_variables(exe, {"w": w, "b": b})
            calls[name] = partial(exe, x)
        same = scaled_error(calls["own"](), calls["nn.conv"]())
        other = scaled_error(calls["diagonal"](), diagonal(x, w, b))
        timing = time_alternately(calls, 21)
        base = timing["nn.conv"].median
        rows.append(
            [
                f"3x3 {c}-{m} @{s}",
                f"{base * 1e3:.3f}",
                f"{timing['own'].median / base:.2f}",
                f"{timing['diagonal'].median / base:.2f}",
                f"{same:.0e}, {other:.0e}",
            ]
        )
    print(format_table(["size", "nn.conv ms", "own / conv", "diagonal / conv", "errors"], rows))


if __name__ == "__main__":
    main()
