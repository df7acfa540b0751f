"""Sums of products of small integers: exact, and in the instructions made for them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm.contraction import follow
from ricci.backends.llvm.contraction_tiles import multiply_adds
from ricci.backends.llvm.kernels import choose
from ricci.backends.llvm.microkernel import Tile, write_tile
from ricci.backends.llvm.schedule import Contraction, Window
from ricci.backends.llvm.targets import named
from ricci.backends.llvm.window_tile import WindowTile
from ricci.backends.llvm.words import Words
from ricci.dtypes import DType
from ricci.ir.loops import Reduce
from ricci.ir.text import parse_graph
from ricci.runtime.executable import compile_graph
from ricci.runtime.stages import lowered

from .assembly import innermost
from .running import runnable_targets

INSTRUCTIONS = [
    ("x86-64", "int8", "int8", r"^pmaddwd\s"),
    ("x86-64-v3", "int8", "int8", r"^vpmaddwd\s.*%ymm"),
    ("x86-64-v3-vnni", "int8", "int8", r"vpdpbusd\s.*%ymm"),
    ("x86-64-v4", "uint8", "int8", r"^vpmaddwd\s.*%zmm"),
    ("x86-64-v4-vnni", "int8", "int8", r"^vpdpbusd\s.*%zmm"),
    ("x86-64-v4-vnni", "uint8", "int8", r"^vpdpbusd\s.*%zmm"),
    ("x86-64-v4-vnni", "uint8", "uint8", r"^vpdpwssd\s.*%zmm"),
    ("x86-64-v4-vnni", "int16", "int16", r"^vpdpwssd\s.*%zmm"),
    ("aarch64-dotprod", "int8", "int8", r"^sdot\s+v\d+\.4s"),
    ("aarch64-dotprod", "uint8", "uint8", r"^udot\s+v\d+\.4s"),
    ("aarch64", "int8", "int8", r"^mla\s+v\d+\.4s"),
    ("aarch64-sve", "int8", "int8", r"^(mla|mad)\s+z\d+\.s"),
]


def _product(a: str, b: str, m: int, k: int, n: int, turned: bool) -> ricci.Model:
    shape, access = (f"{n},{k}", "B(j,k)") if turned else (f"{k},{n}", "B(k,j)")
    return ricci.parse(
        f"def f({a}({m},{k}) A, {b}({shape}) B) -> (C) {{"
        f" C(i,j) +=! int32(A(i,k)) * int32({access}) }}",
        "tc",
    )


def _draw(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of all sizes, and the least and the greatest often."""
    rng = np.random.default_rng(sum(shape))
    limits = np.iinfo(dtype)
    drawn = rng.integers(limits.min, limits.max, shape, endpoint=True)
    ends = np.where(rng.random(shape) < 0.5, limits.min, limits.max)
    return np.where(rng.random(shape) < 0.5, drawn, ends).astype(dtype)


@pytest.mark.parametrize(("target", "a", "b", "pattern"), INSTRUCTIONS)
def test_the_instructions_are_used(target: str, a: str, b: str, pattern: str) -> None:
    text = _product(a, b, 64, 256, 192, False).show("asm", target=target)
    loop = max(innermost(text), key=lambda x: x.count(pattern))
    assert loop.count(pattern) >= 8
    assert not loop.spills


@pytest.mark.parametrize("a", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("b", ["int8", "uint8", "int16"])
def test_products_are_exact(a: str, b: str) -> None:
    """Also where sums wrap, where words are not full, and where the last vector is not."""
    for m, k, n, turned in ((33, 64, 50, False), (64, 67, 48, True), (40, 130, 37, True)):
        model = _product(a, b, m, k, n, turned)
        x, y = _draw(a, (m, k)), _draw(b, (n, k) if turned else (k, n))
        expected = x.astype(np.int64) @ (y.T if turned else y).astype(np.int64)
        for target in runnable_targets():
            result = model.compile(target=target)(x, y)
            np.testing.assert_array_equal(result, expected.astype(np.int32), err_msg=target)


def test_convolutions_and_what_follows_are_exact() -> None:
    """With zero points, a start, and results of another type; depths that do not fill words."""
    model = ricci.parse(
        """def f(uint8(2,9,12,12) X, int8(16,9,3,3) W, int32(16) B) -> (S, Y) {
            S(n,o,y,x) = B(o) where n in 0:2, y in 0:10, x in 0:10
            S(n,o,y,x) += (int32(X(n,c,y+i,x+j)) - 7) * int32(W(o,c,i,j))
            Y(n,o,y,x) = float(S(n,o,y,x)) * 0.5 }""",
        "tc",
    )
    x, w, b = _draw("uint8", (2, 9, 12, 12)), _draw("int8", (16, 9, 3, 3)), np.arange(16) * 1000
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(int) - 7, (3, 3), axis=(2, 3))
    expected = np.einsum("ncyxij,ocij->noyx", windows, w.astype(int)) + b[:, None, None]
    for target in runnable_targets():
        s, y = model.compile(target=target)(x, w, b.astype(np.int32))
        np.testing.assert_array_equal(s, expected, err_msg=target)
        np.testing.assert_array_equal(y, (expected * 0.5).astype(np.float32))


@pytest.mark.parametrize("order", ["f, p", "p, f"])
def test_padding_counts_as_zero_not_as_the_least_byte(order: str) -> None:
    """Bytes with a sign are multiplied as if 128 larger; a guard leaves them out all the same."""
    shape = "32, 30" if order == "f, p" else "30, 32"
    graph = parse_graph(f"""
        graph G {{
          input x = x: int8[16, 30];
          input w = w: int8[32, 16, 3];
          y: int32[{shape}] = conv(x, w) {{
            y[{order}] += int32(x[d, |p + q - 1|]) * int32(w[f, d, q])
              for f < 32, p < 30, d < 16, q < 3;
          }}
          output y = y;
        }}""")
    x, w = _draw("int8", (16, 30)), _draw("int8", (32, 16, 3))
    padded = np.pad(x.astype(int), ((0, 0), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=1)
    expected = np.einsum("cpq,ocq->op", windows, w.astype(int))
    for target in runnable_targets():
        result = compile_graph(graph, target=target)(x, w)
        wanted = expected if order == "f, p" else expected.T
        np.testing.assert_array_equal(result, wanted, err_msg=target)


def test_large_integers_are_multiplied_as_they_are() -> None:
    model = ricci.parse(
        "def f(int32(40,64) A, int16(64,48) B) -> (C) { C(i,j) +=! A(i,k) * int32(B(k,j)) }", "tc"
    )
    a, b = _draw("int32", (40, 64)), _draw("int16", (64, 48))
    expected = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(model.compile()(a, b), expected.astype(np.int32))


def test_elements_beyond_those_of_a_sum_are_not_looked_at() -> None:
    """Some lanes of a vector are elements of the next row, which may be no divisors; or of a border
    that no term has, before the first element and after the last."""
    model = ricci.parse(
        """def f(int16(2,31,31) X, int16(2,31,31) Z, int16(40,2,3,3) W) -> (Y) {
            Y(o,y,x) +=! int32(X(c,y+i,x+j) / Z(c,y+i,x+j)) * int32(W(o,c,i,j))
                where y in 0:28, x in 0:28 }""",
        "tc",
    )
    x, w = _draw("int16", (2, 31, 31)) // 2, _draw("int16", (40, 2, 3, 3)) // 512
    z = np.zeros((2, 31, 31), np.int16)
    z[:, :30, :30] = 1 + np.abs(_draw("int16", (2, 30, 30)) // 4096)
    quotients = x[:, :30, :30].astype(np.int64) // z[:, :30, :30]
    windows = np.lib.stride_tricks.sliding_window_view(quotients, (3, 3), axis=(1, 2))
    expected = np.einsum("cyxij,ocij->oyx", windows, w.astype(int))
    for target in runnable_targets():
        np.testing.assert_array_equal(model.compile(target=target)(x, z, w), expected, target)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kind", ["int8", "int16"])
def test_narrow_images_with_borders(kind: str, stride: int) -> None:
    """The border is zero, whatever lies in memory where it would be."""
    size = (15 + 2 * 2 - 5) // stride + 1
    graph = parse_graph(f"""
        graph G {{
          input x = x: {kind}[3, 15, 15];
          input w = w: {kind}[32, 3, 5, 5];
          y: int32[{size}, {size}, 32] = conv(x, w) {{
            y[p, q, f] += int32(x[d, |{stride} * p + r - 2|, |{stride} * q + s - 2|])
              * int32(w[f, d, r, s]) for f < 32, p < {size}, q < {size}, d < 3, r < 5, s < 5;
          }}
          output y = y;
        }}""")
    x, w = _draw(kind, (3, 15, 15)), _draw(kind, (32, 3, 5, 5)) // 64
    padded = np.pad(x.astype(int), ((0, 0), (2, 2), (2, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), axis=(1, 2))
    expected = np.einsum("cyxij,ocij->yxo", windows[:, ::stride, ::stride], w.astype(int))
    for target in runnable_targets():
        result = compile_graph(graph, target=target)(x, w)
        np.testing.assert_array_equal(result, expected, err_msg=target)


def test_tiles_of_two_vectors_take_less_where_products_are_added_apart() -> None:
    """Of seven rows, four and three by two vectors, not all by one; numbers the other way round."""
    plain = named("x86-64-v3")
    for target, less in ((Words("pmaddwd").room(plain), True), (plain, False)):
        pieces = multiply_adds(4, 2, target) + multiply_adds(3, 2, target)
        assert (pieces < 2 * multiply_adds(7, 1, target)) == less


@pytest.mark.parametrize(("words", "steps"), [(Words("pmaddwd"), 2), (Words("sdot"), 1)])
def test_steps_in_a_turn(words: Words, steps: int) -> None:
    """As many as the tile is given, where the instructions around a step count, and what is left
    one by one."""
    tile = Tile(DType.INT32, 8, 4, 2, 40, 1, 16, 16, words=words, turn=4)
    name = words.declaration(8).split("@")[1].split("(")[0]
    products = write_tile(tile).count(f"@{name}(")
    assert products == 8 * steps + 8 * (steps > 1)


@pytest.mark.parametrize(
    ("words", "extent", "turn", "steps"),
    [
        (Words("pmaddwd"), 8, 2, 2),
        (None, 8, 4, 8),
        (None, 11, 4, 4),
        (None, 12, 4, 4),
        (None, 15, 4, 5),
        (None, 13, 4, 4),
    ],
)
def test_steps_of_windows_in_a_turn(
    words: Words | None, extent: int, turn: int, steps: int
) -> None:
    """Words are done no more at once than the tile is given; numbers all of a short loop, as many
    as divide a longer one, or else four."""
    places, loops = (0, 8, 16, 24), ((3, 64, 64), (extent, 1, 16))
    given = (DType.INT32, 8, places, 2, 8, loops, 16, 15)
    assert WindowTile(*given, words=words, turn=turn).unrolled == steps
    assert WindowTile(*given, words=words).unrolled == 1


@pytest.mark.parametrize("terms", [2, 6, 8, 10, 22, 96])
def test_sums_of_any_length_are_exact(terms: int) -> None:
    for target in runnable_targets():
        x, y = _draw("int8", (13, terms)), _draw("int8", (terms, 37))
        found = _product("int8", "int8", 13, terms, 37, False).compile(target=target)(x, y)
        np.testing.assert_array_equal(found, x.astype(np.int32) @ y.astype(np.int32))


@pytest.mark.parametrize(("window", "kind"), [(1, Contraction), (3, Window)])
def test_what_is_read_in_place_is_done_in_blocks_and_windows_where_they_are(
    window: int, kind: type
) -> None:
    """Tiles of windows end at the ends of rows, those of blocks do not, but have to pack."""
    size = 6 + window
    graph = parse_graph(f"""
        graph G {{
          input x = x: int16[{size}, {size}, 512];
          variable w: int8[512, 512, {window}, {window}];
          y: int32[7, 7, 512] = conv(x, w) {{
            y[p, q, f] += int32(x[p + i, q + j, d]) * int32(w[f, d, i, j])
              for p < 7, q < 7, f < 512, d < 512, i < {window}, j < {window};
          }}
          output y = y;
        }}""")
    target = named("x86-64-v3")
    program = lowered(graph, "float32", "int64", {}, target)
    (kernel,) = (k for k in program.actions if isinstance(k, Reduce))
    chosen = choose(kernel, program.strides, target, frozenset(program.variables))
    assert isinstance(chosen, kind)


def test_tiles_of_words_ask_for_columns_once_in_a_turn() -> None:
    """As often as the place of the next question moves, though a turn has fewer steps than one of
    numbers."""
    graph = parse_graph("""
        graph G {
          input x = x: int16[96, 120];
          variable w: int8[120, 384];
          y: int32[96, 384] = matmul(x, w) {
            y[i, j] += int32(x[i, k]) * int32(w[k, j]) for i < 96, j < 384, k < 120;
          }
          output y = y;
        }""")
    target = replace(named("x86-64-v3"), cpu="znver3", l2=1 << 15, cores=1)
    program = lowered(graph, "float32", "int64", {}, target)
    (kernel,) = (k for k in program.actions if isinstance(k, Reduce))
    schedule = Contraction("right", "direct", "prepared", 4, 2, 96, 32, (0,), 0, 60, 1)
    code = follow(kernel, schedule, program.strides, target, frozenset(program.variables))
    (tile,) = re.findall(r"define internal void @kernel\.tile\.4x2\S*\(.*?\n}", code.text, re.S)
    loop = tile[tile.index("\nk:") : tile.index("\nk.end:")]
    asked = loop.count("@llvm.prefetch.p0(ptr %k.e.")
    (moved,) = re.findall(r"%k\.e\.next\.by = mul nsw i64 %by, (\d+)", loop)
    assert asked == int(moved) == 1
    assert loop.count("@llvm.x86.avx2.pmadd.wd(") == 16
