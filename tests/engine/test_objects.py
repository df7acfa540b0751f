"""Object files loaded without LLVM: the same functions, and nothing but `Unknown` for others."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from contextlib import suppress

import pytest

from ricci.backends.llvm import jit, objects
from ricci.backends.llvm.jit import Library, compile_object, compile_text
from ricci.runtime.pool import this_machine

ONE = """
@table = private constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
@count = internal global i64 5
@places = private constant [2 x ptr] [ptr @table, ptr @count]
declare double @cos(double)
declare i64 @other(i64)

define i64 @look(i64 %k) {
  %at = getelementptr i64, ptr @table, i64 %k
  %x = load i64, ptr %at
  %y = load i64, ptr @count
  %next = add i64 %y, 1
  store i64 %next, ptr @count
  %p = load ptr, ptr getelementptr ([2 x ptr], ptr @places, i64 0, i64 1)
  %same = icmp eq ptr %p, @count
  %z = zext i1 %same to i64
  %s = add i64 %x, %y
  %sum = mul i64 %s, %z
  %r = call i64 @other(i64 %sum)
  ret i64 %r
}

define double @outside(double %x) {
  %a = call double @cos(double %x)
  %r = fadd double %a, 0.25
  ret double %r
}

define i64 @choose(i64 %k) {
  switch i64 %k, label %no [i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d
                            i64 4, label %e]
a:
  ret i64 7
b:
  ret i64 1
c:
  ret i64 19
d:
  ret i64 -4
e:
  ret i64 100
no:
  ret i64 0
}
"""
OTHER = """
define i64 @other(i64 %x) {
  %r = mul i64 %x, 3
  ret i64 %r
}
"""
PLAIN = sys.platform == "linux" and platform.machine() == "x86_64"


def made(text: str) -> bytes:
    target = this_machine()
    return compile_text(f'target triple = "{target.triple}"\n{text}', target)


def results(library: Library) -> list[float]:
    whole = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    real = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    look, choose = (whole(library.address(n)) for n in ("look", "choose"))
    found = [look(k) for k in (0, 3, 1)] + [choose(k) for k in range(6)]
    return [*found, real(library.address("outside"))(0.0)]


@pytest.mark.parametrize("by_llvm", [False, True])
def test_functions(by_llvm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if by_llvm:
        monkeypatch.setattr(objects.sys, "platform", "another")
    elif PLAIN:
        monkeypatch.setattr(jit, "_Linked", None)
    library = Library([made(ONE), made(OTHER)], this_machine())
    assert results(library) == [45, 138, 81, 7, 1, 19, -4, 100, 0, 1.25]
    assert library.address("nothing") == 0


def test_what_is_not_known_is_for_llvm() -> None:
    """Code for a linker has other relocations, and names that are nowhere have no address."""
    target = this_machine()
    text = f'target triple = "{target.triple}"\n{ONE}{OTHER}'.replace("declare i64 @other(i64)", "")
    assert results(Library([compile_object(text, target)], target))[0] == 45
    for wrong in ([made(ONE)], [b""], [b"\x7fELF" + bytes(100)]):
        with pytest.raises(objects.Unknown):
            objects.Code(wrong)


def test_damaged_files() -> None:
    data, other = made(ONE), made(OTHER)
    for size in range(0, len(data) - 1, 37):
        with pytest.raises(objects.Unknown):
            objects.Code([data[:size]])
    for at in range(0, len(data), 11):
        for byte in (0, 255):
            with suppress(objects.Unknown):
                objects.Code([data[:at] + bytes([byte]) + data[at + 1 :], other])


FAR = """
import ctypes, mmap, sys
from ricci.backends.llvm.jit import _Linked, compile_object
from ricci.runtime.pool import this_machine

values = ", ".join(f"i32 {k}" for k in range(65536))
text = f'''
target triple = "{this_machine().triple}"
@table = private constant [65536 x i32] [{values}]
define i32 @look(i64 %k) {{
  %at = getelementptr i32, ptr @table, i64 %k
  %x = load i32, ptr %at
  ret i32 %x
}}'''
code = compile_object(text, this_machine())
function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)
find = ctypes.CDLL(None).mmap
find.restype = ctypes.c_void_p
find.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # without memory


def reserve(size):
    return find(None, size, 0, RESERVED, -1, 0)


lowest = reserve(4 << 30)
for size in [1 << k for k in range(31, 11, -1)]:
    while reserve(size) > lowest:  # fills the holes that there are
        pass
for pages in range(1, 33):
    hole = reserve(4096 * pages)
    reserve(4 << 30)
    ctypes.CDLL(None).munmap(ctypes.c_void_p(hole), ctypes.c_size_t(4096 * pages))
    library = _Linked([code], this_machine())
    if function(library.address("look"))(54321) != 54321:
        sys.exit("another value")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="holes are made by system calls of Linux")
def test_code_and_constants_stay_together_where_memory_is_in_pieces() -> None:
    """Distances between them have 32 bits."""
    done = subprocess.run(
        [sys.executable, "-c", FAR], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
