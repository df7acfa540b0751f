"""The kernels that Tensor Comprehensions were once measured with, beside PyTorch.

    python -m benchmarks.comprehensions [--threads 2] [--only gconv] [--gradients]

Both are called with the same PyTorch tensors, alternately in one process, after their results were
compared. The shares are of the peaks of this machine, measured just before: floating-point
operations, or bytes read and written where that is nearer. With `--gradients` what is compared are
the gradients of all arguments: alone, of a forward computation that was done before, and with it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as nn

import ricci
import ricci.torch

from .measure import Peak, format_table, scaled_error, set_peer_threads, time_alternately

KERNELS = Path(__file__).parents[1] / "tests" / "tc" / "kernels"
"""A file of functions each, with the sizes that they are called with."""


@dataclass
class Row:
    """A function, its arguments, what computes the same in PyTorch, and the least work it is."""

    name: str
    function: str
    arguments: list[torch.Tensor]
    torch: Callable[..., Any]
    flops: float
    pick: int | None = None
    """Which result is compared, if there are several."""


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def rows() -> Iterator[Callable[[], Row]]:
    """What makes a row when it is its turn: some take gigabytes."""
    for m, n, k in [(128, 256, 32), (128, 1024, 1024), (128, 16384, 4096)]:
        yield lambda m=m, n=n, k=k: Row(
            f"tmm {m}x{n}x{k}", "tmm", [draw(m, k), draw(n, k)],
            lambda a, b: a @ b.t(), 2 * m * n * k,
        )  # fmt: skip
    yield lambda: Row(
        "tbmm 500x26x72x26", "tbmm", [draw(500, 26, 72), draw(500, 72, 26)],
        torch.bmm, 2 * 500 * 26 * 72 * 26,
    )  # fmt: skip
    for c, h in [(4, 56), (8, 28), (16, 14), (32, 7)]:
        yield lambda c=c, h=h: Row(
            f"gconv {c} {h}x{h}", "gconv",
            [draw(32, 32, c, h, h), draw(32, c, c, 3, 3), draw(32, c)],
            _gconv, 2 * 32 * 32 * c * c * 9 * (h - 2) ** 2,
        )  # fmt: skip
    for sizes in [(32, 32, 32), (64, 64, 64), (64, 128, 128)]:
        yield lambda sizes=sizes: _kronecker(*sizes)
    yield lambda: Row(
        "C3", "c3", [draw(128, 1000), draw(1024, 1000)],
        nn.linear, 2 * 128 * 1000 * 1024,
    )  # fmt: skip
    yield lambda: Row(
        "MLP1", "mlp1", [draw(128, 2000), draw(2000, 128), draw(128)],
        lambda i, w, b: torch.relu(torch.addmm(b, i, w)), 2 * 128 * 2000 * 128,
    )  # fmt: skip
    yield lambda: Row(
        "MLP3", "mlp3",
        [draw(128, 128), draw(64, 128), draw(64), draw(32, 64), draw(32), draw(2, 32), draw(2)],
        _mlp3, 2 * 128 * (128 * 64 + 64 * 32 + 32 * 2), 2,
    )  # fmt: skip
    yield lambda: Row(
        "tensordot", "tensordot", [draw(32, 512, 8, 28, 28), draw(32, 8, 2, 28, 28)],
        lambda a, b: torch.einsum("nabhw,nbchw->nachw", a, b), 2 * 32 * 512 * 8 * 2 * 28 * 28,
    )  # fmt: skip
    for n, k in [(128, 2304), (1024, 36864)]:
        yield lambda n=n, k=k: Row(
            f"moments {n}x{k}", "moments2", [draw(n, k)],
            lambda x: torch.var_mean(x, 1, correction=0)[::-1], 3 * n * k, 0,
        )  # fmt: skip
    for n, h in [(4, 12), (32, 48)]:
        yield lambda n=n, h=h: Row(
            f"group norm {n}x512x{h}x{h}", "group_norm_single",
            [draw(n, 32, 16, h, h), draw(32, 16), draw(32, 16)],
            _group_norm, 5 * n * 512 * h * h, 0,
        )  # fmt: skip
    yield lambda: Row(
        "1LUT", "lut1", [draw(10**6, 64), torch.randint(10**6, (128, 50), dtype=torch.int32)],
        lambda t, i: nn.embedding_bag(i, t, mode="sum"), 128 * 50 * 64,
    )  # fmt: skip
    for dilation in (1, 32):
        yield lambda dilation=dilation: _wavenet(dilation)


def _gconv(i: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    n, g, c, height, width = i.shape
    out = nn.conv2d(i.view(n, g * c, height, width), w.flatten(0, 1), b.flatten(), groups=g)
    return out.view(n, g, -1, *out.shape[2:])


def _kronecker(n0: int, n1: int, n2: int) -> Row:
    m, d = 256, 16
    flops = 2 * m * (n0 * n1 * n2 * d + n0 * n1 * d * d + n0 * d**3)

    def chain(
        w0: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, x: torch.Tensor
    ) -> torch.Tensor:
        y = w0 @ (w1 @ (x @ w2.t())).flatten(2)
        return y.view(*y.shape[:2], d, d)

    arguments = [draw(d, n0), draw(d, n1), draw(d, n2), draw(m, n0, n1, n2)]
    return Row(f"Kronecker {n0}x{n1}x{n2}", "kronecker3", arguments, chain, flops, 0)


def _mlp3(i: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
    for w, b in zip(parameters[::2], parameters[1::2], strict=True):
        i = torch.relu(nn.linear(i, w, b))
    return i


def _group_norm(i: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    n, g, d, h, w = i.shape
    return nn.group_norm(i.view(n, g * d, h, w), g, gamma.flatten(), beta.flatten()).view(i.shape)


def _wavenet(dilation: int) -> Row:
    rc, dc, sk, t = 32, 32, 256, 4000
    arguments = [
        draw(1, rc, t), draw(dc, rc, 2), draw(dc), draw(dc, rc, 2), draw(dc),
        draw(rc, dc), draw(rc), draw(sk, dc), draw(sk), draw(dilation),
    ]  # fmt: skip

    def block(
        x: torch.Tensor, fw: torch.Tensor, fb: torch.Tensor, gw: torch.Tensor, gb: torch.Tensor,
        rw: torch.Tensor, rb: torch.Tensor, sw: torch.Tensor, sb: torch.Tensor, _: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        padded = nn.pad(x, (dilation, 0))
        f = nn.conv1d(padded, fw, fb, dilation=dilation)
        g = nn.conv1d(padded, gw, gb, dilation=dilation)
        z = torch.tanh(f) * torch.sigmoid(g)
        _ = x + nn.conv1d(z, rw[:, :, None], rb)
        return nn.conv1d(z, sw[:, :, None], sb)

    flops = 2 * t * (4 * rc * dc + rc * dc + sk * dc)
    return Row(f"WaveNet {dilation}", "wavenet1", arguments, block, flops, 4)


def gradients(options: argparse.Namespace, texts: dict[str, str]) -> None:
    """Compare and time gradients by automatic differentiation, row by row."""
    lines = []
    for number, make in enumerate(rows()):
        row = make()
        if row.function in ("gconv", "group_norm_single") and options.only in row.name:
            name = f"benchmarks::{row.function}{number}"
            lines.append(differentiate(row, name, texts[row.function], options))
            print(" | ".join(lines[-1]), flush=True)
    both = [f"{who} {what} ms" for what in ("backward", "both") for who in ("ricci", "PyTorch")]
    header = ["kernel", *both[:2], "ratio", *both[2:], "ratio", "error"]
    print("\n" + format_table(header, lines))


def differentiate(row: Row, name: str, text: str, options: argparse.Namespace) -> list[str]:
    """Compare the gradients of a row, and time both."""
    function = ricci.tc.define(text)[row.function]
    operator = ricci.torch.custom_op(name, function, threads=options.threads)
    arguments = [a.requires_grad_() for a in row.arguments]
    sides: dict[str, Callable[..., Any]] = {"ricci": operator, "torch": row.torch}

    def compute(side: str) -> torch.Tensor:
        result = sides[side](*arguments)
        return result if isinstance(result, torch.Tensor) else result[row.pick or 0]

    results = {side: compute(side) for side in sides}
    cotangent = torch.randn_like(results["torch"])

    def backward(side: str, result: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        result = compute(side) if result is None else result
        return torch.autograd.grad(result, arguments, cotangent, retain_graph=True)

    found = {side: backward(side, result) for side, result in results.items()}
    pairs = zip(found["ricci"], found["torch"], strict=True)
    error = max(scaled_error(a.numpy(), b.numpy()) for a, b in pairs)
    del found
    calls: dict[str, Callable[[], object]] = {
        "ricci": lambda: backward("ricci", results["ricci"]),
        "torch": lambda: backward("torch", results["torch"]),
        "ricci both": lambda: backward("ricci"),
        "torch both": lambda: backward("torch"),
    }
    times = {n: t.median * 1e3 for n, t in time_alternately(calls, options.rounds).items()}
    line = [row.name]
    for what in ("", " both"):
        mine, other = times[f"ricci{what}"], times[f"torch{what}"]
        line += [f"{mine:.3f}", f"{other:.3f}", f"{mine / other:.2f}"]
    return [*line, f"{error:.1e}"]


def files() -> dict[str, str]:
    """The text that defines each function."""
    found = {}
    for file in sorted(KERNELS.glob("*.tc")):
        text = file.read_text()
        found.update(dict.fromkeys(ricci.tc.define(text), text))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--gradients", action="store_true", help="time gradients instead")
    options = parser.parse_args()
    set_peer_threads(options.threads)
    torch.manual_seed(0)
    if options.gradients:
        gradients(options, files())
    else:
        forward(options, files())


def forward(options: argparse.Namespace, texts: dict[str, str]) -> None:
    """Compare and time functions, row by row."""
    peak = Peak(options.threads)
    flops, bandwidth = peak.flops(), peak.bandwidth()
    print(f"peak: {flops / 1e9:.0f} GFLOP/s, {bandwidth / 1e9:.1f} GB/s\n", flush=True)
    lines = []
    for make in rows():
        row = make()
        if options.only in row.name:
            lines.append(measure(row, texts[row.function], options, flops, bandwidth))
            print(" | ".join(lines[-1]), flush=True)
    header = ["kernel", "ricci ms", "PyTorch ms", "ratio", "error", "share", "PyTorch's share"]
    print("\n" + format_table(header, lines))


def measure(
    row: Row, text: str, options: argparse.Namespace, flops: float, bandwidth: float
) -> list[str]:
    """Compare the results of a row, and time both."""
    function = ricci.tc.define(text, threads=options.threads)[row.function]

    def pick(result: Any) -> torch.Tensor:
        return result if isinstance(result, torch.Tensor) else result[row.pick]

    with torch.no_grad():
        ours, theirs = pick(function(*row.arguments)), row.torch(*row.arguments)
        theirs = theirs if isinstance(theirs, torch.Tensor) else theirs[row.pick or 0]
        error = scaled_error(ours.numpy(), theirs.numpy())
        times = time_alternately(
            {
                "ricci": lambda: function(*row.arguments),
                "torch": lambda: row.torch(*row.arguments),
            },
            options.rounds,
        )
    moved = sum(a.nbytes for a in row.arguments if row.function != "lut1") + ours.nbytes
    least = max(row.flops / flops, moved / bandwidth)
    mine, other = times["ricci"].median, times["torch"].median
    return [
        row.name, f"{mine * 1e3:.3f}", f"{other * 1e3:.3f}", f"{mine / other:.2f}", f"{error:.1e}",
        f"{least / mine:.0%}", f"{least / other:.0%}",
    ]  # fmt: skip


if __name__ == "__main__":
    main()
