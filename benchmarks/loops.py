"""Loops and open sizes: what a step costs, LSTMs beside PyTorch, open sizes beside fixed ones.

python -m benchmarks.loops [--threads 2]
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
import torch

import ricci

from .cases import set_variables
from .measure import format_table, scaled_error, time_alternately

WHILE = """
operator step {
    @input { x: real[n]; y: real[n]; k: int[]; }
    @output { z: real[n]; l: int[]; }
    @lower { z[i,] = 0.5 * x[i,] + y[i,], i < n; l[] = k[] + 1; }
}
operator below {
    @attrib { limit: int; }
    @input { k: int[]; }
    @output { b: bool[]; }
    @lower { b[] = k[] < limit; }
}
graph Main {
    @attrib { steps: int = 10000; }
    @input { x: real[64]; y: real[64]; }
    @output { z: real[64]; k: int[]; }
    @compose {
        z, k = with s = x, i = 0 while below{limit=steps}(i) do {
            t, j = step(s, y, i);
            yield t, j;
        };
    }
}
"""

LSTM = """
import nn;
graph Main {{
    @input {{ x: real[{t},{b},{c}]; }}
    @variable {{ W: real[{w},{c}]; R: real[{w},{n}]; B: real[{w}]; }}
    @output {{ y: real[{t},{b},{n}]; }}
    @compose {{ y, ~, ~ = nn.lstm(x, W, R, B); }}
}}
"""

OPEN = """
import nn;
graph Main {{
    @input {{ x: real[{batch},{rest}]; }}
    @variable {{ w: real[{w}]; }}
    @output {{ y: real[{batch},..]; }}
    @compose {{ y = {call}(x, w); }}
}}
"""

LSTMS = [(100, 1, 128, 128), (1000, 1, 16, 16), (50, 32, 256, 256)]

DENSE = ("512", "512,512", "nn.linear", "512")
CONV = ("64,56,56", "64,64,3,3", "nn.conv{padding=1}", "64,56,56")
SIZES = [
    *(("dense 512-512", DENSE, n) for n in (1, 7, 64, 512)),
    *(("convolution 64-64 @56", CONV, n) for n in (1, 4)),
]


def time_while(threads: int) -> list[list[str]]:
    """A loop of many small steps, whose condition is a tensor."""
    run = ricci.parse(WHILE, "skriptnd").compile(threads=threads)
    x, y = np.random.default_rng(0).random((2, 64), np.float32)
    expected = x.astype(np.float64)
    for _ in range(10000):
        expected = 0.5 * expected + y
    found = run(x, y)
    assert found.k == 10000
    timing = time_alternately({"while": partial(run, x, y)}, 21)["while"]
    error = scaled_error(found.z, expected)
    ms = f"{timing.median * 1e3:.2f}"
    return [["while, 10,000 steps, 64 elements", ms, "", "", f"{error:.0e}"]]


def time_lstms(threads: int) -> list[list[str]]:
    """LSTMs of several sizes beside PyTorch's."""
    torch.set_num_threads(threads)
    rows = []
    for t, b, c, n in LSTMS:
        text = LSTM.format(t=t, b=b, c=c, n=n, w=4 * n)
        run = ricci.parse(text, "skriptnd").compile(threads=threads)
        peer = torch.nn.LSTM(c, n)
        parts = {k: v.detach().numpy() for k, v in peer.named_parameters()}
        bias = parts["bias_ih_l0"] + parts["bias_hh_l0"]
        set_variables(run, {"W": parts["weight_ih_l0"], "R": parts["weight_hh_l0"], "B": bias})
        x = np.random.default_rng(0).standard_normal((t, b, c), np.float32)
        call = partial(_infer, peer, torch.from_numpy(x))
        error = scaled_error(run(x), call().numpy())
        timing = time_alternately({"ricci": partial(run, x), "torch": call}, 9)
        ours, theirs = timing["ricci"].median, timing["torch"].median
        name = f"LSTM {t} steps, batch {b}, {c}-{n} / PyTorch"
        rows.append(_row(name, ours, theirs, error))
    return rows


def _infer(peer: torch.nn.LSTM, x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return peer(x)[0]


def time_open(threads: int) -> list[list[str]]:
    """Graphs with an open first dimension beside the same with a fixed one."""
    rows = []
    rng = np.random.default_rng(0)
    for name, (rest, w, call, result), n in SIZES:
        weights = rng.standard_normal([int(e) for e in w.split(",")], np.float32)
        x = rng.standard_normal([n, *(int(e) for e in rest.split(","))], np.float32)
        calls = {}
        for kind, batch in (("open", "b|512"), ("fixed", str(n))):
            text = OPEN.format(batch=batch, rest=rest, w=w, call=call)
            text = text.replace(f"[{batch},..]", f"[{batch.split('|')[0]},{result}]")
            run = ricci.parse(text, "skriptnd").compile(threads=threads)
            set_variables(run, {"w": weights})
            calls[kind] = partial(run, x)
        error = scaled_error(calls["open"](), calls["fixed"]())
        timing = time_alternately(calls, 15)
        ours, theirs = timing["open"].median, timing["fixed"].median
        rows.append(_row(f"{name}, open batch at {n} / fixed", ours, theirs, error))
    return rows


def _row(name: str, ours: float, theirs: float, error: float) -> list[str]:
    ratio = f"{ours / theirs:.2f}"
    return [name, f"{ours * 1e3:.3f}", f"{theirs * 1e3:.3f}", ratio, f"{error:.0e}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    rows = [*time_while(threads), *time_lstms(threads), *time_open(threads)]
    print(format_table(["what", "ms", "other ms", "ratio", "error"], rows))


if __name__ == "__main__":
    main()
