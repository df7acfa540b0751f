"""Model folders as the tools of the language write them: names of files, and both dialects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci.frontends.skriptnd.storage import write_tensor
from ricci.ir.rewrite import all_steps

X = np.array([0.5, -1.0, 2.0])


def folder(path: Path, texts: dict[str, str], **arrays: np.ndarray) -> Path:
    """A folder with texts and tensors; `__` stands for a point in the name of a tensor."""
    for name, text in texts.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    for name, array in arrays.items():
        write_tensor(path / f"{name.replace('__', '.')}.dat", array.astype(np.float32))
    return path


def run(path: Path, *inputs: np.ndarray) -> np.ndarray:
    result = ricci.load(path).compile("interpreter", real="float64")(*inputs)
    assert isinstance(result, np.ndarray)
    return result


def finding(path: Path) -> ricci.Error:
    with pytest.raises(ricci.Error) as caught:
        ricci.load(path).compile("interpreter")
    return caught.value


LATER = """# written by hand, in the later dialect
import math;
import own.ops;

graph Net {
    @attrib { hidden: int = 2; }
    @input { x: real[~|8, 3]; }
    @output { y: real[~, ~]; }
    @variable { kernel: real[hidden, 3]; }
    @compose {
        h = own.ops.linear(x, kernel);
        y = own.ops.cap{limit=1.0}(h);
    }
    @quantize { main.Net.h: own.ops.cap{limit=0.5}; }
}
"""
OWN_OPS = """
public operator linear {
    @input { x: real[b, static n]; w: real[static m, n]; }
    @output { y: real[b, m]; }
    @lower { y[i, j] += x[i, k] * w[j, k], i < b, j < m, k < n; }
}
operator cap {
    @attrib { limit: real; }
    @input { x: real[s..]; }
    @output { y: real[s..]; }
    @lower { with t = abs(x[i..]) <? limit: y[i..] = sign(x[i..]) * t, i < s; }
}
"""


def test_a_folder_in_the_later_dialect_with_nested_modules(tmp_path: Path) -> None:
    w = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.25]])
    path = folder(tmp_path, {"main.sknd": LATER, "own/ops.sknd": OWN_OPS}, main__Net__kernel=w)
    x = np.arange(6.0).reshape(2, 3) / 8
    np.testing.assert_allclose(run(path, x), np.clip(x @ w.T, -1, 1))
    model = ricci.load(path)
    assert {n: (q.operator, dict(q.attributes)) for n, (q,) in model.quantization.items()} == {
        "main.Net.h": ("own.ops.cap", {"limit": 0.5})
    }
    quantized = model.compile("interpreter", real="float64", quantize=True)
    np.testing.assert_allclose(quantized(x), np.clip(x @ w.T, -0.5, 0.5))


# ------------------------------------------------------------------- names of files

NESTED = """
import math;
graph G {
    @input { x: real[3]; }
    @output { y: real[3]; }
    @variable { v: real[3]; ws: real[3]..(2); }
    @compose {
        a = math.mul(x, v);
        b = outer(a);
        c = math.mul(b, ws[0]);
        y = math.add(c, ws[1]);
    }
}
operator outer {
    @input { x: real[n]; }
    @output { y: real[n]; }
    @variable { w: real[n]; }
    @compose { t = inner(x); s = i2: inner(t); y = math.mul(s, w); }
}
operator inner {
    @input { x: real[n]; }
    @output { y: real[n]; }
    @variable { p: real[n]; q: real[n]; }
    @compose { t = math.mul(x, p); y = math.add(t, q); }
}
"""


def weights(count: int) -> list[np.ndarray]:
    return [np.array([1.0, 2.0, 3.0]) + k / 4 for k in range(count)]


def nested(v: np.ndarray, w0: np.ndarray, w1: np.ndarray, *inner: np.ndarray) -> np.ndarray:
    w, p, q, p2, q2 = inner
    return (((X * v) * p + q) * p2 + q2) * w * w0 + w1


def write_items(path: Path, items: list[np.ndarray]) -> None:
    for k, item in enumerate(items, 1):
        write_tensor(path / f"main.G.ws:{k}.dat", item.astype(np.float32))


def test_files_by_scoped_names(tmp_path: Path) -> None:
    v, w0, w1, w, p, q, p2, q2 = weights(8)
    path = folder(
        tmp_path, {"main.sknd": NESTED}, main__G__v=v, main__G__b__w=w, main__G__b__t__p=p,
        main__G__b__t__q=q, main__G__b__i2__p=p2, main__G__b__i2__q=q2,
    )  # fmt: skip
    write_items(path, [w0, w1])
    np.testing.assert_allclose(run(path, X), nested(v, w0, w1, w, p, q, p2, q2))
    assert set(ricci.load(path).variables) == {
        f"main.G.{n}" for n in ("v", "ws:1", "ws:2", "b.w", "b.t.p", "b.t.q", "b.i2.p", "b.i2.q")
    }


def test_generated_names_of_variables_in_operators_that_are_not_public(tmp_path: Path) -> None:
    """Numbers count all unnamed tensors: those of files leave gaps, and go beyond nine."""
    v, w0, w1, *inner = weights(8)
    path = folder(tmp_path, {"main.sknd": NESTED}, main__G__v=v)
    write_items(path, [w0, w1])
    for number, array in zip((1, 2, 3, 7, 10), inner, strict=True):
        write_tensor(path / f".T{number}.dat", array.astype(np.float32))
    np.testing.assert_allclose(run(path, X), nested(v, w0, w1, *inner))
    model = ricci.load(path)
    model.save(tmp_path / "again")
    assert (tmp_path / "again" / "main.G.b.i2.q.dat").exists()
    np.testing.assert_allclose(run(tmp_path / "again", X), nested(v, w0, w1, *inner))


def test_generated_names_must_be_as_many_as_variables(tmp_path: Path) -> None:
    v, w0, w1, *inner = weights(8)
    path = folder(tmp_path, {"main.sknd": NESTED}, main__G__v=v)
    write_items(path, [w0, w1])
    for number, array in enumerate(inner[:4], 1):
        write_tensor(path / f".T{number}.dat", array.astype(np.float32))
    found = finding(path).diagnostics[0]
    assert found.code == "E0704"
    assert "4 files have generated names, as `.T1.dat`" in found.notes


def test_generated_names_are_checked_by_shape(tmp_path: Path) -> None:
    text = """
    import math;
    graph G { @input { x: real[3]; } @output { y: real[3]; }
        @compose { a = f{k=1}(x); y = f{k=3}(a); } }
    operator f { @attrib { k: int; } @input { x: real[n]; } @output { y: real[n]; }
        @variable { w: real[k]; } @compose { y = math.mul(x, w); } }
    """
    one, three = np.array([2.0]), np.array([1.0, 2.0, 3.0])
    path = folder(tmp_path / "right", {"main.sknd": text}, __T2=one, __T4=three)
    np.testing.assert_allclose(run(path, X), X * 2 * three)
    path = folder(tmp_path / "wrong", {"main.sknd": text}, __T2=three, __T4=one)
    assert [d.code for d in finding(path).diagnostics] == ["E0705", "E0705"]


FLAT = """
import math;
graph G {
    @input { x: real[3]; }
    @output { y: real[3]; }
    @variable { h_conv_w: real[3]; ws_1: real[3]; ws_2: real[3]; _T7: real[3]; plain: real[3]; }
    @compose {
        a = math.mul(x, h_conv_w);
        b = math.add(a, ws_1);
        c = math.mul(b, ws_2);
        d = math.add(c, _T7);
        y = math.mul(d, plain);
    }
}
"""


def test_names_that_were_printed_flat(tmp_path: Path) -> None:
    w, w1, w2, t, plain = weights(5)
    path = folder(
        tmp_path, {"main.sknd": FLAT}, main__G__h__conv__w=w, __T7=t, main__G__plain=plain
    )
    write_items(path, [w1, w2])
    np.testing.assert_allclose(run(path, X), ((X * w + w1) * w2 + t) * plain)


def test_two_files_for_one_flat_name_are_none(tmp_path: Path) -> None:
    w, w1, w2, t, plain = weights(5)
    path = folder(
        tmp_path, {"main.sknd": FLAT}, main__G__h__conv__w=w, main__G__h_conv__w=w, __T7=t,
        main__G__plain=plain,
    )  # fmt: skip
    write_items(path, [w1, w2])
    assert "missing: main.G.h_conv_w.dat" in finding(path).diagnostics[0].notes


def test_names_of_a_file_that_became_a_folder(tmp_path: Path) -> None:
    """A single file `net.sknd` gives names that begin with `net`; its text is `main` later."""
    (w,) = weights(1)
    text = FLAT[: FLAT.index("@variable")] + "@variable { w: real[3]; } @compose { y = a(x, w); } }"
    text = (
        text.replace("import math;", "")
        + """
    operator a { @input { x: real[n]; w: real[n]; } @output { y: real[n]; }
        @lower { y[i,] = x[i,] + w[i,], i < n; } }
    """
    )
    np.testing.assert_allclose(
        run(folder(tmp_path / "model", {"main.sknd": text}, net__G__w=w), X), X + w
    )
    single = folder(tmp_path / "single", {"net.sknd": text, "other.sknd": text}, net__G__w=w)
    np.testing.assert_allclose(run(single / "net.sknd", X), X + w)
    assert not ricci.load(single / "other.sknd").variables.stored()


# -------------------------------------------------------------------- several graphs

SEVERAL = """
graph First { @attrib { n: int; } @input { x: real[n]; } @output { y: real[n]; }
    @compose { y = x; } }
graph Second { @input { x: real[3]; c: bool[]; } @output { y: real[3]; }
    @compose { y = if c then Part(x) else x; } }
graph Part { @input { a: real; } @output { b: real; } @variable { w: real[3]; }
    @compose { b = f(a, w); } }
operator f { @input { x: real[n]; w: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] * w[i,], i < n; } }
"""


def test_graphs_are_named_without_values_for_their_attributes(tmp_path: Path) -> None:
    (w,) = weights(1)
    path = folder(tmp_path, {"main.sknd": SEVERAL}, main__Part__w=w)
    assert ricci.graphs(path) == ricci.graphs(path / "main.sknd") == ("First", "Second", "Part")
    with pytest.raises(ricci.Error, match="attribute `n`"):
        ricci.load(path)
    run = ricci.load(path, graph="Second").compile("interpreter", real="float64")
    np.testing.assert_allclose(run(X, True), X * w)


def test_tensors_have_names_of_their_own() -> None:
    text = """
    import math;
    graph G { @input { x: real[3]; c: bool[]; } @output { y: real[3]; z: real[3]; }
        @compose { a = f(x); b = f(a); t = if c then H(b) else l: H(a); y = l2: f(t); z = a; } }
    public operator f { @input { x: real[n]; } @output { y: real[n]; } @variable { w: real[n]; }
        @compose { t = math.mul(x, w); u = g(t); y = math.add(u, 1.0); } }
    operator g { @input { x: real[n]; } @output { y: real[n]; }
        @compose { hidden = math.neg(x); y = math.add(hidden, hidden); } }
    graph H { @input { x: real; } @output { y: real; }
        @compose { t = math.neg(x); y = math.exp(t); } }
    """
    model = ricci.parse(text)
    names = [t.name for step in all_steps(model.graph.operations) for t in step.outputs]
    assert len(names) == len(set(names))
    shown = {n.removeprefix("main.") for n in names if not n.startswith(".")}
    assert shown == {
        "G.a", "G.a.t", "G.a.u", "G.b", "G.b.t", "G.b.u", "G.t", "H.t", "H.y", "G.l.t", "G.l.y",
        "G.l2.t", "G.l2.u", "G.y",
    }  # fmt: skip
