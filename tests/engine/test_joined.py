"""Tensors that are parts of others, which their makers write in place: against the interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest

import ricci
from ricci.dtypes import Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Program, tensors_touched
from ricci.ir.nodes import Tensor
from ricci.ir.shapes import as_int
from ricci.passes.memory import size_of
from ricci.passes.pipeline import lower

CHANNELS, SIDE = 16, 8
WEIGHTS = f"""
  w: real[{CHANNELS},{CHANNELS},3,3]; v: real[{CHANNELS},{2 * CHANNELS},3,3];
  u: real[{CHANNELS},{CHANNELS},2,2]; p: real[24,{CHANNELS},1,1];"""
CONV = "nn.conv{padding=1}"
JOIN = "layout.concat{axis=1}"


def parse(body: str, outputs: dict[str, str], batch: int, weights: str = WEIGHTS) -> ricci.Model:
    shape = f"real[{batch},{CHANNELS},{SIDE},{SIDE}]"
    ports = " ".join(f"{name}: real[{batch},{rest}];" for name, rest in outputs.items())
    model = ricci.parse(
        f"import layout, math, nn; graph G {{ @input {{ x: {shape}; z: {shape}; }}"
        f" @output {{ {ports} }} @variable {{ {weights} }} @compose {{ {body} }} }}"
    )
    rng = np.random.default_rng(len(body))
    for tensor in model.graph.variables:
        array = rng.normal(size=[as_int(e) or 0 for e in tensor.shape]) / 12
        model.variables[tensor.name] = array.astype(np.float32)
    return model


def agree(model: ricci.Model, threads: int = 2) -> None:
    rng = np.random.default_rng(1)
    exe = model.compile(threads=threads)
    given = {p.name: rng.normal(size=p.shape).astype(np.float32) for p in exe.inputs}
    variables = {n: np.asarray(model.variables[n]) for n in model.variables}
    want = interpret(model.graph, given, variables)
    for _ in range(2):  # the second call finds what the first has left behind
        got = exe(**given)
        values = got if isinstance(got, tuple) else (got,)
        for port, value in zip(exe.outputs, values, strict=True):
            np.testing.assert_allclose(value, want[port.name], 1e-4, 1e-4, err_msg=port.name)


def lowered(model: ricci.Model) -> Program:
    return lower(model.graph, {}, Types())


TWO = f"a = {CONV}(x, w); b = {CONV}(z, w);"
C, C2, S = CHANNELS, 2 * CHANNELS, SIDE
SAME = f"{C},{S},{S}"
CASES: dict[str, tuple[str, dict[str, str], int]] = {
    "two": (f"{TWO} c = {JOIN}([a, b]); y = {CONV}(c, v);", {"y": SAME}, 3),
    "three, of other sizes": (
        f"{TWO} d = nn.conv{{padding=0}}(x, p); c = {JOIN}([a, d, b]); y = math.sin(c); "
        " q = nn.max_pool{size=2, stride=2, padding=0}(c);",
        {"y": f"56,{S},{S}", "q": f"56,{S // 2},{S // 2}"}, 5),
    "read elsewhere": (
        f"{TWO} q = nn.max_pool{{size=2, stride=2, padding=0}}(a); c = {JOIN}([a, b]);"
        f" y = {CONV}(c, v); r = {CONV}(a, w);",
        {"y": SAME, "q": f"{C},{S // 2},{S // 2}", "r": SAME}, 5),
    "by height": (
        f"{TWO} c = layout.concat{{axis=2}}([a, b]); y = {CONV}(c, w);", {"y": f"{C},{2 * S},{S}"},
        3),
    "by width": (
        f"{TWO} c = layout.concat{{axis=-1}}([a, b, a]); y = {CONV}(c, w);",
        {"y": f"{C},{S},{3 * S}"}, 4),
    "nested": (
        f"{TWO} c = {JOIN}([a, b]); d = {CONV}(c, v); e = layout.concat{{axis=3}}([a, d]);"
        f" f = layout.concat{{axis=2}}([e, e]); y = {CONV}(f, w); r = {CONV}(e, w);",
        {"y": f"{C},{2 * S},{2 * S}", "r": f"{C},{S},{2 * S}"}, 7),
    "part of a part": (
        f"{TWO} c = {JOIN}([a, b]); d = {CONV}(z, w); e = {JOIN}([d, c]); y = math.tanh(e);",
        {"y": f"{3 * C},{S},{S}"}, 4),
    "a part is a result": (
        f"{TWO} c = {JOIN}([a, b]); y = {CONV}(c, v);", {"y": SAME, "a": SAME}, 4),
    "the whole is a result": (
        f"{TWO} c = {JOIN}([a, b]); y = {CONV}(c, v);", {"y": SAME, "c": f"{C2},{S},{S}"}, 3),
    "in two": (
        f"{TWO} c = {JOIN}([a, b]); d = {JOIN}([b, a]); y = {CONV}(c, v); r = {CONV}(d, v);",
        {"y": SAME, "r": SAME}, 6),
    "under another shape": (
        f"{TWO} c = {JOIN}([a, b]); y = {CONV}(c, v);"
        f" r = layout.reshape{{axis=1, shape=[{C * S * S}]}}(a); t = math.exp(r);",
        {"y": SAME, "t": f"{C * S * S}"}, 5),
    "phases": (
        f"a = {CONV}(x, w); b = nn.deconv{{stride=2, padding=0}}(a, u);"
        f" d = nn.deconv{{stride=2, padding=0}}(z, u); c = {JOIN}([b, d]); y = {CONV}(c, v);",
        {"y": f"{C},{2 * S},{2 * S}"}, 4),
    "taken apart": (
        f"{TWO} c = {JOIN}([a, b]); [d, e] = layout.split{{axis=1, count=2}}(c);"
        f" y = {CONV}(d, w); r = {CONV}(e, w);", {"y": SAME, "r": SAME}, 4),
    "some is mapped": (
        f"{TWO} d = math.exp(b); c = {JOIN}([a, d]); y = {CONV}(c, v);", {"y": SAME}, 3),
    "constant": (
        f"f = math.exp(w); g = {JOIN}([f, w]); c = {JOIN}([x, z]); y = {CONV}(c, g);"
        f" r = {CONV}(x, f);", {"y": SAME, "r": SAME}, 4),
}  # fmt: skip


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_parts(name: str, batch: int) -> None:
    body, outputs, most = CASES[name]
    model = parse(body, outputs, batch)
    program = lowered(model)
    assert len(program.kernels) <= most, [k.name for k in program.kernels]
    agree(model)


@pytest.mark.parametrize("batch", [1, 3])
def test_parts_lie_like_the_whole(batch: int) -> None:
    body, outputs, _ = CASES["read elsewhere"]
    program = lowered(parse(body, outputs, batch))
    inner = [t for t, b in program.buffers.items() if b.kind == "arena"]
    (whole,) = (t for t in inner if as_int(t.shape[1]) == C2)
    parts = [t for t in inner if as_int(t.shape[1]) == C]
    assert program.strides[whole] == (C2 * S * S, 1, C2 * S, C2)
    assert [program.strides[t][1:] for t in parts] == [(1, C2 * S, C2)] * 2
    assert {program.buffers[t].offset - program.buffers[whole].offset for t in parts} == {0, C * 4}


@pytest.mark.parametrize("batch", [1, 3])
def test_bytes_of_parts_are_theirs_until_the_whole_was_read(batch: int) -> None:
    steps = " ".join(f"d{k + 1} = {CONV}(d{k}, w);" for k in range(4))
    body = f"a = {CONV}(x, w); d0 = {CONV}(z, w); {steps} c = {JOIN}([a, d4]); y = {CONV}(c, v);"
    model = parse(body, {"y": SAME}, batch)
    program = lowered(model)
    assert len(program.kernels) == 7

    def span(tensor: Tensor) -> range:
        start = program.buffers[tensor].offset
        return range(start, start + size_of(tensor, program.strides))

    touched = [
        {t for t in tensors_touched(k) if program.buffers[t].kind == "arena"}
        for k in program.kernels
    ]
    (whole,) = (t for t in touched[-1])
    (first,) = touched[0]
    assert span(first).start in span(whole)
    others = set().union(*touched[1:-2]) - touched[-2]
    assert others and all(not set(span(t)) & set(span(whole)) for t in others)
    agree(model)


def test_rows_that_a_group_writes_into_a_whole() -> None:
    model = ricci.parse(
        "import layout, math; graph G { @input { x: real[64,1024]; z: real[64,1024]; }"
        " @output { c: real[128,1]; y: real[64,1024]; r: real[64,1024]; } @compose {"
        " s = math.sum_reduce{axes=[1]}(x); y = math.sub(x, s);"
        " t = math.sum_reduce{axes=[1]}(z); r = math.sub(z, t);"
        " c = layout.concat{axis=0}([s, t]); } }"
    )
    assert len(lowered(model).kernels) == 2
    agree(model)


def _drawn(rng: random.Random, batch: int) -> ricci.Model:
    """Convolutions, maps, poolings, pieces and wholes, of which some are results."""
    known = {"x": (CHANNELS, SIDE, SIDE), "z": (CHANNELS, SIDE, SIDE)}
    body, weights = [], ""
    for k in range(rng.randint(8, 14)):
        name, (old, shape) = f"t{k}", rng.choice(list(known.items()))
        c, h, w = shape
        match rng.choice(["conv", "conv", "map", "pool", "join", "join", "join", "piece"]):
            case "conv":
                count = rng.choice([8, 16, 24])
                weights += f"f{k}: real[{count},{c},3,3]; "
                body.append(f"{name} = nn.conv{{padding=1}}({old}, f{k});")
                known[name] = count, h, w
            case "map":
                body.append(f"{name} = math.tanh({old});")
                known[name] = shape
            case "pool":
                body.append(f"{name} = nn.max_pool{{size=3, stride=1, padding=1}}({old});")
                known[name] = shape
            case "join":
                axis = rng.randrange(3)
                rest = [n for d, n in enumerate(shape) if d != axis]
                fit = [
                    n for n, s in known.items()
                    if [e for d, e in enumerate(s) if d != axis] == rest and s[axis] <= 32
                ]  # fmt: skip
                taken = [old, *rng.sample(fit, min(len(fit), rng.randint(1, 2)))]
                body.append(f"{name} = layout.concat{{axis={axis + 1}}}([{', '.join(taken)}]);")
                total = sum(known[n][axis] for n in taken)
                known[name] = (*shape[:axis], total, *shape[axis + 1 :])
            case _:
                axis = rng.randrange(3)
                begin = rng.randrange(shape[axis])
                end = rng.randint(begin + 1, shape[axis])
                ends = f"begin=[{begin}], end=[{end}]"
                body.append(f"{name} = layout.slice{{axes=[{axis + 1}], {ends}}}({old});")
                known[name] = (*shape[:axis], end - begin, *shape[axis + 1 :])
    made = [n for n in known if n.startswith("t")]
    results = dict.fromkeys([made[-1], made[-2], *rng.sample(made, 2)])
    outputs = {n: ",".join(map(str, known[n])) for n in results}
    return parse(" ".join(body), outputs, batch, weights or WEIGHTS)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    rng = random.Random(seed)
    agree(_drawn(rng, rng.choice([1, 2, 3])))
