"""The kernels in the folder beside: at which sizes they are called, and what they must give.

Expected values are computed by PyTorch in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as nn

Sizes = Mapping[str, int]
Array = np.ndarray[Any, np.dtype[Any]]
Oracle = Callable[..., Sequence[torch.Tensor] | torch.Tensor]

FOLDER = Path(__file__).parent / "kernels"

INTRODUCTION = {
    "mv": "def mv(float(R,C) A, float(C) B) -> (o) {\no(i) +=! A(i,j) * B(j)\n}",
    "mv_plain": "def mv_plain(float(R,C) A, float(C) B) -> (o) {\no(i) += A(i,j) * B(j)\n}",
    "mm": "def mm(float(X,Y) A, float(Y,Z) B) -> (R) {\nR(i,j) += A(i,j) * B(j,k)\n}",
    "conv": (
        "def conv(float(B,IP,H,W) input, float(OP,IP,KH,KW) weight) -> (output) {\n"
        "output(b, op, h, w) += input(b, ip, h + kh, w + kw) * weight(op, ip, kh, kw)\n}"
    ),
    "maxpool2x2": (
        "def maxpool2x2(float(B,C,H,W) input) -> (output) {\n"
        "output(b,c,i,j) max= input(b,c,2*i + kw, 2*j + kh)\n"
        "where kw = [0, 2[, kh = [0, 2[\n}"
    ),
}
"""The examples of the introduction, with their missing braces."""


@dataclass(frozen=True)
class Kernel:
    """A function: how to draw its arguments at some sizes, and what it must give.

    The arguments are strings of sizes, `M,N`; or functions of the sizes and a generator.
    """

    name: str
    arguments: Sequence[str | Callable[[Sizes, np.random.Generator], Array]]
    oracle: Oracle
    full: Sequence[Sizes]
    """The sizes that it was benchmarked at."""
    small: Sizes
    file: str = ""
    operations: str = "1"
    """How many are accumulated: a product of sizes."""

    @property
    def text(self) -> str:
        if self.file == "introduction":
            return INTRODUCTION[self.name]
        return (FOLDER / f"{self.file or self.name}.tc").read_text()

    def draw(self, sizes: Sizes, seed: int = 0) -> list[Array]:
        rng = np.random.default_rng(seed)
        return [
            rng.standard_normal(shape_of(a, sizes), np.float32)
            if isinstance(a, str)
            else a(sizes, rng)
            for a in self.arguments
        ]

    def expected(self, arguments: Sequence[Array]) -> list[Array]:
        exact = [
            torch.from_numpy(a.astype(np.float64) if a.dtype == np.float32 else a)
            for a in arguments
        ]
        result = self.oracle(*exact)
        return [r.numpy() for r in ([result] if isinstance(result, torch.Tensor) else result)]


def shape_of(text: str, sizes: Sizes) -> tuple[int, ...]:
    return tuple(int(n) if n.isdigit() else sizes[n] for n in text.split(",") if n)


def _integers(shape: str, limit: str, dtype: str) -> Callable[[Sizes, np.random.Generator], Array]:
    def draw(sizes: Sizes, rng: np.random.Generator) -> Array:
        return rng.integers(shape_of(limit, sizes)[0], size=shape_of(shape, sizes)).astype(dtype)

    return draw


def _einsum(equation: str) -> Oracle:
    return lambda *operands: torch.einsum(equation, *operands)


# -------------------------------------------------------------------- oracles


def _gconv(i: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    n, g, c, height, width = i.shape
    out = nn.conv2d(i.reshape(n, g * c, height, width), w.flatten(0, 1), b.flatten(), groups=g)
    return out.reshape(n, g, -1, *out.shape[2:])


def _kronecker(
    w0: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, x: torch.Tensor
) -> list[torch.Tensor]:
    a = torch.einsum("mabc,dc->mabd", x, w2)
    b = torch.einsum("mabc,db->madc", a, w1)
    return [torch.einsum("mabc,da->mdbc", b, w0), b, a]


def _mlp(i: torch.Tensor, *parameters: torch.Tensor) -> list[torch.Tensor]:
    out = []
    for w, b in zip(parameters[::2], parameters[1::2], strict=True):
        i = torch.relu(nn.linear(i, w, b))
        out.append(i)
    return out


def _moments(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.mean(1), x.var(1, correction=0)


def _normalised(i: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    n, g, d, h, w = i.shape
    flat = i.reshape(n, g * d, h, w)
    return nn.group_norm(flat, g, gamma.flatten(), beta.flatten()).reshape(i.shape)


def _group_norm(
    i: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, m: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    wide = [x[:, :, None, None, None] for x in (m, v)]
    scale, shift = (x[:, :, None, None] for x in (gamma, beta))
    return scale * (i - wide[0]) * torch.rsqrt(wide[1] + 1e-5) + shift


def _group_norm_single(
    i: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor
) -> list[torch.Tensor]:
    return [_normalised(i, gamma, beta), i.sum((2, 3, 4)), (i * i).sum((2, 3, 4))]


def _group_normalization(
    i: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor
) -> list[torch.Tensor]:
    scale = 2.712673611e-5
    mean = i.sum((2, 3, 4)) * scale
    var = (i * i).sum((2, 3, 4)) * scale - mean * mean
    return [_group_norm(i, gamma, beta, mean, var), mean, var]


def _lut(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return table[index.long()].sum(1)


def _min_distances(tables: torch.Tensor, codes: torch.Tensor) -> list[torch.Tensor]:
    m = torch.arange(codes.shape[1])
    s = tables[:, m, codes.long()].sum(-1)
    return [s, s.amin(-1), s.argmin(-1)]


def _min_distance(table: torch.Tensor, codes: torch.Tensor) -> list[torch.Tensor]:
    return [r[0] for r in _min_distances(table[None], codes)]


def _min_two_stages(s: torch.Tensor) -> list[torch.Tensor]:
    d, nb = s.shape
    least = s.amin()
    at = torch.where(s == least, torch.arange(d * nb).reshape(d, nb), nb * d).amin(1)
    row = torch.where(at < nb * d, torch.arange(d), nb * d).amin()
    return [s.amin(1), least, at, row]


def _masked(i: torch.Tensor, w: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return nn.conv2d(torch.relu(i), w * (mask == 1)[:, :, None, None])


def _wavenet(
    x: torch.Tensor, fw: torch.Tensor, fb: torch.Tensor, gw: torch.Tensor, gb: torch.Tensor,
    rw: torch.Tensor, rb: torch.Tensor, sw: torch.Tensor, sb: torch.Tensor, dil: torch.Tensor,
) -> list[torch.Tensor]:  # fmt: skip
    dilation = len(dil)
    padded = nn.pad(x, (dilation, 0))
    f = nn.conv1d(padded, fw, fb, dilation=dilation)
    g = nn.conv1d(padded, gw, gb, dilation=dilation)
    z = torch.tanh(f) * torch.sigmoid(g)
    r = x + nn.conv1d(z, rw[:, :, None], rb)
    return [f, g, z, r, nn.conv1d(z, sw[:, :, None], sb)]


def _tum(lengths: torch.Tensor, data: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    """Segment by segment, pair by pair."""
    rows = data / torch.sqrt((data * data).sum(1, keepdim=True) + 1e-12)
    out, start = [], 0
    for length in lengths.tolist():
        dots = rows[start : start + length] @ rows[start : start + length].T
        half, n = length // 2, torch.arange(length)
        pairs = n[:, None] < n[None, :]
        inside = pairs & ((n[None, :] < half) | (n[:, None] >= half))
        across = pairs & ~inside
        out.append(dots[inside].mean() - dots[across].mean())
        start += length
    return torch.stack(out)


def _segments(sizes: Sizes, rng: np.random.Generator) -> Array:
    return np.full(sizes["K"], sizes["N"] // sizes["K"], np.int32)


def _permutation(sizes: Sizes, rng: np.random.Generator) -> Array:
    return rng.permutation(sizes["N"]).astype(np.int32)


# -------------------------------------------------------------------- kernels

_WAVENET = (
    "B,RC,T", "DC,RC,2", "DC", "DC,RC,2", "DC", "RC,DC", "RC", "SK,DC", "SK", "DIL",
)  # fmt: skip
_GROUPS = [
    {"N": 4, "G": 32, "D": 16, "H": 12, "W": 12},
    {"N": 32, "G": 32, "D": 16, "H": 48, "W": 48},
]
_GROUP = {"N": 2, "G": 3, "D": 4, "H": 5, "W": 6}
_ROWS = [{"N": 128, "K": 2304}, {"N": 1024, "K": 36864}]
_KRON = [
    {"M": 256, "D0": 16, "D1": 16, "D2": 16, "N0": a, "N1": b, "N2": c}
    for a, b, c in [(32, 32, 32), (64, 64, 64), (64, 128, 128)]
]
_KRON_SMALL = {"M": 5, "D0": 2, "D1": 3, "D2": 4, "N0": 5, "N1": 6, "N2": 7}
_GCONV = [
    {"N": 32, "G": 32, "C": c, "F": c, "H": h, "W": h, "KH": 3, "KW": 3}
    for c, h in [(4, 56), (8, 28), (16, 14), (32, 7)]
]
_CONV = {"B": 2, "IP": 3, "OP": 4, "H": 8, "W": 9, "KH": 3, "KW": 2}

KERNELS = [
    Kernel("mv", ("R,C", "C"), torch.mv, [{"R": 300, "C": 400}], {"R": 5, "C": 7},
           "introduction", "C"),
    Kernel("mv_plain", ("R,C", "C"), torch.mv, [{"R": 300, "C": 400}], {"R": 5, "C": 7},
           "introduction", "C"),
    Kernel("mm", ("X,Y", "Y,Z"), lambda a, b: a * b.sum(1), [{"X": 300, "Y": 400, "Z": 500}],
           {"X": 3, "Y": 4, "Z": 5}, "introduction", "Z"),
    Kernel("conv", ("B,IP,H,W", "OP,IP,KH,KW"), nn.conv2d,
           [{"B": 32, "IP": 4, "OP": 4, "H": 56, "W": 56, "KH": 3, "KW": 3}], _CONV,
           "introduction", "IP*KH*KW"),
    Kernel("maxpool2x2", ("B,C,H,W",), lambda i: nn.max_pool2d(i, 2),
           [{"B": 32, "C": 16, "H": 56, "W": 56}], {"B": 2, "C": 3, "H": 7, "W": 8},
           "introduction"),
    Kernel("tmm", ("M,K", "N,K"), _einsum("mk,nk->mn"),
           [{"M": 128, "N": 256, "K": 32}, {"M": 128, "N": 1024, "K": 1024},
            {"M": 128, "N": 16384, "K": 4096}], {"M": 5, "N": 6, "K": 7}, operations="K"),
    Kernel("tbmm", ("B,N,M", "B,M,K"), torch.bmm, [{"B": 500, "N": 26, "M": 72, "K": 26}],
           {"B": 3, "N": 4, "M": 5, "K": 6}, operations="M"),
    Kernel("convolution", ("N,C,H,W", "F,C,KH,KW", "F"), nn.conv2d,
           [{"N": 32, "C": 4, "F": 4, "H": 56, "W": 56, "KH": 3, "KW": 3}],
           {"N": 2, "C": 3, "F": 4, "H": 6, "W": 7, "KH": 2, "KW": 3}, operations="C*KH*KW"),
    Kernel("gconv", ("N,G,C,H,W", "G,F,C,KH,KW", "G,F"), _gconv, _GCONV,
           {"N": 2, "G": 3, "C": 2, "F": 4, "H": 6, "W": 7, "KH": 2, "KW": 3},
           operations="C*KH*KW"),
    Kernel("kronecker3_1", ("D2,N2", "M,N0,N1,N2"), _einsum("dc,mabc->mabd"), _KRON, _KRON_SMALL,
           "kronecker3", "N2"),
    Kernel("kronecker3_2", ("D1,N1", "M,N0,N1,D2"), _einsum("db,mabc->madc"), _KRON, _KRON_SMALL,
           "kronecker3", "N1"),
    Kernel("kronecker3_3", ("D0,N0", "M,N0,D1,D2"), _einsum("da,mabc->mdbc"), _KRON, _KRON_SMALL,
           "kronecker3", "N0"),
    Kernel("kronecker3", ("D0,N0", "D1,N1", "D2,N2", "M,N0,N1,N2"), _kronecker, _KRON, _KRON_SMALL,
           operations="N0*N1*N2"),
    Kernel("lut1", ("E1,D", _integers("B,L1", "E1", "int32")), _lut,
           [{"B": 128, "D": 64, "L1": 50, "E1": 10**5}, {"B": 128, "D": 64, "L1": 50, "E1": 10**7}],
           {"B": 3, "D": 4, "L1": 5, "E1": 6}, operations="L1"),
    Kernel("lut2", ("E1,D", _integers("B,L1", "E1", "int32"),
                    "E2,D", _integers("B,L2", "E2", "int32")),
           lambda a, i, b, j: [_lut(a, i), _lut(b, j)],
           [{"B": 128, "D": 64, "L1": 50, "L2": 50, "E1": 10**5, "E2": 10**5}],
           {"B": 3, "D": 4, "L1": 5, "L2": 2, "E1": 6, "E2": 7}, operations="L1"),
    Kernel("c3", ("B,WX", "WY,WX"), _einsum("bx,yx->by"), [{"B": 128, "WX": 1000, "WY": 1024}],
           {"B": 3, "WX": 4, "WY": 5}, operations="WX"),
    Kernel("mlp1", ("B,M", "M,N", "N"), lambda i, w, b: torch.relu(i @ w + b),
           [{"B": 128, "M": 2000, "N": 128}], {"B": 3, "M": 4, "N": 5}, operations="M"),
    Kernel("mlp3", ("B,N", "O,N", "O", "P,O", "P", "Q,P", "Q"), _mlp,
           [{"B": 128, "N": 128, "O": 64, "P": 32, "Q": 2}],
           {"B": 3, "N": 4, "O": 5, "P": 6, "Q": 2}, operations="N*O"),
    Kernel("sum", ("N,K",), lambda x: x.sum(1), _ROWS, {"N": 3, "K": 50}, "moments", "K"),
    Kernel("mean", ("N,K",), lambda x: x.mean(1), _ROWS, {"N": 3, "K": 50}, "moments"),
    Kernel("sumsq", ("N,K",), lambda x: (x * x).sum(1), _ROWS, {"N": 3, "K": 50}, "moments", "K"),
    Kernel("var", ("N,K", "N"), lambda x, m: (x * x).mean(1) - m * m, _ROWS, {"N": 3, "K": 50},
           "moments", "10"),
    Kernel("sum_and_sumsq", ("N,K",), lambda x: [x.sum(1), (x * x).sum(1)], _ROWS,
           {"N": 3, "K": 50}, "moments", "K"),
    Kernel("moments2", ("N,K",), _moments, _ROWS, {"N": 3, "K": 50}, "moments", "10"),
    Kernel("moments2", ("N,K",), _moments, _ROWS[:1], {"N": 3, "K": 50}, "group_norm", "10"),
    Kernel("group_norm", ("N,G,D,H,W", "G,D", "G,D", "N,G",
                          lambda s, r: r.random((s["N"], s["G"]), np.float32)),
           _group_norm, _GROUPS, _GROUP, operations="100"),
    Kernel("group_norm_single", ("N,G,D,H,W", "G,D", "G,D"), _group_norm_single, _GROUPS, _GROUP,
           "group_norm", "D*H*W"),
    Kernel("group_normalization", ("N,G,D,H,W", "G,D", "G,D"), _group_normalization, _GROUPS[1:],
           _GROUP, operations="100"),
    Kernel("wavenet1", _WAVENET, _wavenet,
           [{"B": 1, "RC": 32, "DC": 32, "SK": 256, "T": 4000, "DIL": d} for d in (1, 32)],
           {"B": 2, "RC": 3, "DC": 4, "SK": 5, "T": 20, "DIL": 3},
           # sums of DC * 2 products reach 36, and `tanh` of them 1: their error counts so much more
           operations="DC*2*RC"),
    Kernel("tensordot", ("N,C1,C2,H,W", "N,C2,C3,H,W"), _einsum("nabhw,nbchw->nachw"),
           [{"N": 32, "C1": 512, "C2": 8, "C3": 2, "H": 28, "W": 28},
            {"N": 16, "C1": 8, "C2": 16, "C3": 2, "H": 17, "W": 25},
            {"N": 40, "C1": 16, "C2": 8, "C3": 20, "H": 13, "W": 15}],
           {"N": 2, "C1": 3, "C2": 4, "C3": 5, "H": 6, "W": 7}, operations="C2"),
    Kernel("block_diagonal", ("B,K,I", "K,I,J"), _einsum("bki,kij->bkj"),
           [{"B": 128, "K": 10, "I": 50, "J": 50}], {"B": 3, "K": 2, "I": 4, "J": 5},
           operations="I"),
    Kernel("permute", ("B,N", _permutation), lambda o, i: o[:, i.long()], [{"B": 128, "N": 500}],
           {"B": 3, "N": 10}, "block_diagonal"),
    Kernel("masked_convolution", ("B,C,H,W", "F,C,KH,KW", _integers("F,C", "2", "uint8")), _masked,
           [{"B": 32, "C": 128, "F": 32, "H": 56, "W": 56, "KH": 1, "KW": 1}],
           {"B": 2, "C": 3, "F": 4, "H": 5, "W": 6, "KH": 2, "KW": 1}, operations="C*KH*KW"),
    Kernel("min_distance", ("M,256", _integers("N,M", "256", "uint8")), _min_distance,
           [{"N": 1000, "M": 32}], {"N": 20, "M": 4}, operations="M"),
    Kernel("min_distances", ("K,M,256", _integers("N,M", "256", "uint8")), _min_distances,
           [{"K": 16, "N": 1000, "M": 32}], {"K": 3, "N": 20, "M": 4}, "min_distance", "M"),
    Kernel("min_two_stages", ("D,NB",), _min_two_stages, [{"D": 1000, "NB": 100}],
           {"D": 5, "NB": 4}, "min_distance"),
    Kernel("tum", (_segments, "N,C", "L"), _tum, [{"K": 4, "N": 400, "C": 128, "L": 100}],
           {"K": 3, "N": 24, "C": 5, "L": 8}, operations="C*L"),
    Kernel("matmul", ("M,N", "N,K"), torch.mm, [{"M": 300, "N": 400, "K": 500}],
           {"M": 3, "N": 4, "K": 5}, operations="N"),
    Kernel("matmul_grad", ("M,N", "N,K", "M,K"), lambda a, b, g: [g @ b.T, a.T @ g],
           [{"M": 300, "N": 400, "K": 500}], {"M": 3, "N": 4, "K": 5}, "matmul", "K"),
]  # fmt: skip


def operations(kernel: Kernel, sizes: Sizes) -> int:
    """How many operations are accumulated into an element, about."""
    count = 1
    for name in kernel.operations.split("*"):
        count *= int(name) if name.isdigit() else sizes[name]
    return count
