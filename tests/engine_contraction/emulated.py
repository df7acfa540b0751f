"""Matrices in registers for machines that have none: the instructions as functions; and those that
multiply pairs of bfloat16, and round to it.

They do what the manual of the processor says: sums of pairs of products are added to each other
first, then to what there is; numbers that are not normal count as zero, as factors and as results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ricci.backends.llvm.builder import Builder
from ricci.backends.llvm.kernels import KernelCode
from ricci.backends.llvm.matrix import LANES, LINE_OF_MATRIX, MATRIX
from ricci.backends.llvm.target import Target, host
from ricci.dtypes import BFLOAT16, from_bfloat16
from ricci.ir.nodes import Tensor

from .native import Native

HOST = host()

_NAMED = re.compile(
    r"@llvm\.x86\.(ldtilecfg|tile\w+|tdp\w+|avx512bf16\.(?:dpbf16ps|cvtneps2bf16)\.\d+)\("
)
_OWN = "kernel.emulated"
_STATE = f"@{_OWN}.state"
_CONFIGURATION = f"@{_OWN}.configuration"


def emulated(code: KernelCode) -> KernelCode:
    """The code with functions in place of the instructions for matrices."""
    used = set(_NAMED.findall(code.text))
    if not used:
        return code
    text = _NAMED.sub(lambda found: f"@{_OWN}.{found[1]}(", code.text)
    state = f"{_STATE} = internal global [{8 * MATRIX} x i8] zeroinitializer, align 64\n"
    state += f"{_CONFIGURATION} = internal global [64 x i8] zeroinitializer, align 64\n"
    declarations = {d for d in code.declarations if not _NAMED.search(d)} | {_FMA}
    return replace(
        code,
        text=text + state + "".join(_function(name) for name in sorted(used)),
        declarations=frozenset(declarations),
    )


def results_of(
    code: KernelCode, arrays: Mapping[Tensor, np.ndarray], result: Tensor, is_there: bool
) -> Iterator[np.ndarray]:
    """What code makes of arrays, by functions, and, if its instructions are there, by the
    processor; each with arrays that end where a page does, and that begin there. Numbers of
    bfloat16 in float32."""
    for form in (emulated(code), *([code] if is_there else [])):
        for at_end in (True, False):
            native = Native(form, arrays, HOST, at_end)
            native.run(1)  # the functions have one set of registers
            assert not native.errors.any()
            found = native.array(result)
            yield from_bfloat16(found) if found.dtype == BFLOAT16 else found


def has_pairs(target: Target) -> bool:
    """Whether the processor has the instructions for pairs of bfloat16 that a target has."""
    return HOST.rounds and (HOST.matrices or not target.matrices)


_FMA = "declare float @llvm.fma.f32(float, float, float)"


def _function(name: str) -> str:
    match name:
        case "ldtilecfg":
            b = _begin(name, "ptr %from")
            b.line(f"store <64 x i8> {b.op('load <64 x i8>, ptr %from, align 1')}, ptr "
                   f"{_CONFIGURATION}, align 1")  # fmt: skip
            b.line(f"store <{8 * MATRIX} x i8> zeroinitializer, ptr {_STATE}, align 1")
        case "tilerelease":
            b = _begin(name, "")
            b.line(f"store <64 x i8> zeroinitializer, ptr {_CONFIGURATION}, align 1")
        case "tilezero":
            b = _begin(name, "i8 %t")
            b.line(f"store <{MATRIX} x i8> zeroinitializer, ptr {_matrix(b, '%t')}, align 1")
        case "tileloadd64" | "tilestored64":
            b = _begin(name, "i8 %t, ptr %at, i64 %apart")
            _move(b, name == "tileloadd64")
        case _ if name.startswith("avx512bf16.dpbf16ps"):
            return _pairs(name)
        case _ if name.startswith("avx512bf16"):
            return _rounded(name)
        case _:
            b = _begin(name, "i8 %c, i8 %a, i8 %b")
            _multiply(b, name)
    b.line("ret void")
    return b.text()


def _begin(name: str, parameters: str) -> Builder:
    return Builder(f"{_OWN}.{name}", parameters, "internal void", "noinline")


def _pairs(name: str) -> str:
    """Products are exact; the one of the higher halves is added first."""
    lanes = int(name.rpartition(".")[2]) // 32
    wide, words, brief = f"<{lanes} x float>", f"<{lanes} x i32>", f"<{2 * lanes} x bfloat>"
    b = Builder(
        f"{_OWN}.{name}", f"{wide} %s, {brief} %a, {brief} %b", f"internal {wide}", "noinline"
    )
    total = "%s"
    for shift in (0, 16):
        factors = []
        for pair in "ab":
            bits = b.op(f"bitcast {brief} %{pair} to {words}")
            moved = b.op(f"shl {words} {bits}, splat (i32 {shift})")
            half = b.op(f"and {words} {moved}, splat (i32 -65536)")
            factors.append(_normal(b, b.op(f"bitcast {words} {half} to {wide}"), lanes))
        product = b.op(f"fmul {wide} {factors[0]}, {factors[1]}")
        total = _normal(b, b.op(f"fadd {wide} {total}, {product}"), lanes)
    b.line(f"ret {wide} {total}")
    return b.text()


def _rounded(name: str) -> str:
    """The nearest number, or the even one of two; what is no number becomes a quiet one."""
    lanes = int(name.rpartition(".")[2]) // 32
    wide, words, brief = f"<{lanes} x float>", f"<{lanes} x i32>", f"<{lanes} x bfloat>"
    b = Builder(f"{_OWN}.{name}", f"{wide} %x", f"internal {brief}", "noinline")
    bits = b.op(f"bitcast {wide} {_normal(b, '%x', lanes)} to {words}")
    top = b.op(f"lshr {words} {bits}, splat (i32 16)")
    odd = b.op(f"and {words} {top}, splat (i32 1)")
    up = b.op(f"add {words} {b.op(f'add {words} {bits}, splat (i32 32767)')}, {odd}")
    near = b.op(f"lshr {words} {up}, splat (i32 16)")
    quiet = b.op(f"or {words} {top}, splat (i32 64)")
    lost = b.op(f"fcmp uno {wide} %x, %x")
    chosen = b.op(f"select <{lanes} x i1> {lost}, {words} {quiet}, {words} {near}")
    short = b.op(f"trunc {words} {chosen} to <{lanes} x i16>")
    b.line(f"ret {brief} {b.op(f'bitcast <{lanes} x i16> {short} to {brief}')}")
    return b.text()


def _matrix(b: Builder, number: str) -> str:
    at = b.op(f"mul i64 {b.op(f'zext i8 {number} to i64')}, {MATRIX}")
    return b.op(f"getelementptr i8, ptr {_STATE}, i64 {at}")


def _size(b: Builder, number: str, of_rows: bool) -> str:
    """The rows of a matrix, or its bytes a row."""
    wide = b.op(f"zext i8 {number} to i64")
    at = b.op(f"add i64 {wide}, 48" if of_rows else f"add i64 {b.op(f'shl i64 {wide}, 1')}, 16")
    kind = "i8" if of_rows else "i16"
    place = b.op(f"getelementptr i8, ptr {_CONFIGURATION}, i64 {at}")
    return b.op(f"zext {kind} {b.op(f'load {kind}, ptr {place}, align 1')} to i64")


def _byte(b: Builder, pointer: str, *offsets: tuple[str, int]) -> str:
    for value, factor in offsets:
        by = b.op(f"mul i64 {value}, {factor}")
        pointer = b.op(f"getelementptr i8, ptr {pointer}, i64 {by}")
    return pointer


def _move(b: Builder, loads: bool) -> None:
    matrix = _matrix(b, "%t")
    if loads:
        b.line(f"store <{MATRIX} x i8> zeroinitializer, ptr {matrix}, align 1")
    rows, bytes_of = _size(b, "%t", True), _size(b, "%t", False)
    with b.loop("0", rows) as row, b.loop("0", bytes_of) as column:
        own = _byte(b, matrix, (row.index, LINE_OF_MATRIX), (column.index, 1))
        line = b.op(f"mul i64 {row.index}, %apart")
        other = _byte(b, b.op(f"getelementptr i8, ptr %at, i64 {line}"), (column.index, 1))
        source, to = (other, own) if loads else (own, other)
        b.line(f"store i8 {b.op(f'load i8, ptr {source}, align 1')}, ptr {to}, align 1")


def _multiply(b: Builder, name: str) -> None:
    c, first, second = (_matrix(b, f"%{x}") for x in "cab")
    rows, terms = _size(b, "%c", True), _size(b, "%b", True)
    columns = b.op(f"udiv i64 {_size(b, '%c', False)}, 4")
    with b.loop("0", rows) as m, b.loop("0", columns) as n:
        at = _byte(b, c, (m.index, LINE_OF_MATRIX), (n.index, 4))
        start = b.op(f"load i32, ptr {at}, align 4")
        kind = "float" if name == "tdpbf16ps" else "i32"
        count = 2 if kind == "float" else 1
        zero = "0.0" if kind == "float" else start
        with b.loop("0", terms, carried=[(kind, zero)] * count) as k:
            x = b.op(f"load i32, ptr {_byte(b, first, (m.index, LINE_OF_MATRIX), (k.index, 4))}")
            y = b.op(f"load i32, ptr {_byte(b, second, (k.index, LINE_OF_MATRIX), (n.index, 4))}")
            k.carry(_reals(b, x, y, k.values) if kind == "float" else
                    [_integers(b, x, y, k.values[0], name)])  # fmt: skip
        result = k.results[0]
        if kind == "float":
            both = b.op(f"fadd float {k.results[0]}, {k.results[1]}")
            total = b.op(f"fadd float {b.op(f'bitcast i32 {start} to float')}, {_normal(b, both)}")
            result = b.op(f"bitcast float {_normal(b, total)} to i32")
        b.line(f"store i32 {result}, ptr {at}, align 4")


def _reals(b: Builder, x: str, y: str, sums: list[str]) -> list[str]:
    found = []
    for half, total in enumerate(sums):
        factors = []
        for word in (x, y):
            bits = b.op(f"shl i32 {word}, 16" if not half else f"and i32 {word}, -65536")
            factors.append(_normal(b, b.op(f"bitcast i32 {bits} to float")))
        added = b.op(
            f"call float @llvm.fma.f32(float {factors[0]}, float {factors[1]}, float {total})"
        )
        found.append(_normal(b, added))
    return found


def _normal(b: Builder, value: str, lanes: int = 1) -> str:
    """The numbers, or zero where they are not normal."""
    one = lanes == 1
    number, word, bit = (k if one else f"<{lanes} x {k}>" for k in ("float", "i32", "i1"))
    most, none, zero = (
        v if one else f"splat ({k} {v})"
        for k, v in (("i32", "2139095040"), ("i32", "0"), ("float", "0.0"))
    )
    exponent = b.op(f"and {word} {b.op(f'bitcast {number} {value} to {word}')}, {most}")
    small = b.op(f"icmp eq {word} {exponent}, {none}")
    return b.op(f"select {bit} {small}, {number} {zero}, {number} {value}")


def _integers(b: Builder, x: str, y: str, total: str, name: str) -> str:
    for part in range(4):
        factors = []
        for word, signed in ((x, name[4] == "s"), (y, name[5] == "s")):
            byte = b.op(f"trunc i32 {b.op(f'lshr i32 {word}, {8 * part}')} to i8")
            factors.append(b.op(f"{'sext' if signed else 'zext'} i8 {byte} to i32"))
        total = b.op(f"add i32 {total}, {b.op('mul i32 ' + ', '.join(factors))}")
    return total


assert LANES * LINE_OF_MATRIX == MATRIX
