"""Whether the processor that an object runs on has the instructions that it is made of.

An x86-64 processor says so itself, by `cpuid`, and by `xgetbv` which registers its system keeps.
LLVM has no intrinsics for them, and reads assembly of the own machine only: so each is a function
whose first bytes are given, and return; its body is never reached. Such functions are weak, since
what LLVM would conclude from that body is wrong. For AArch64 see `standalone_check_arm`.
"""

from __future__ import annotations

from . import standalone_check_arm as arm
from .target import Target

_EAX, _EBX, _ECX, _EDX = range(4)
_BASIC, _MORE, _NEWER, _EXTENDED = (1, 0), (7, 0), (7, 1), (0x80000001, 0)

_BITS = {
    "sse3": (_BASIC, _ECX, 0),
    "pclmul": (_BASIC, _ECX, 1),
    "ssse3": (_BASIC, _ECX, 9),
    "fma": (_BASIC, _ECX, 12),
    "cx16": (_BASIC, _ECX, 13),
    "sse4.1": (_BASIC, _ECX, 19),
    "sse4.2": (_BASIC, _ECX, 20),
    "movbe": (_BASIC, _ECX, 22),
    "popcnt": (_BASIC, _ECX, 23),
    "aes": (_BASIC, _ECX, 25),
    "avx": (_BASIC, _ECX, 28),
    "f16c": (_BASIC, _ECX, 29),
    "bmi": (_MORE, _EBX, 3),
    "avx2": (_MORE, _EBX, 5),
    "bmi2": (_MORE, _EBX, 8),
    "avx512f": (_MORE, _EBX, 16),
    "avx512dq": (_MORE, _EBX, 17),
    "adx": (_MORE, _EBX, 19),
    "avx512ifma": (_MORE, _EBX, 21),
    "avx512cd": (_MORE, _EBX, 28),
    "avx512bw": (_MORE, _EBX, 30),
    "avx512vl": (_MORE, _EBX, 31),
    "avx512vbmi": (_MORE, _ECX, 1),
    "avx512vbmi2": (_MORE, _ECX, 6),
    "gfni": (_MORE, _ECX, 8),
    "vaes": (_MORE, _ECX, 9),
    "vpclmulqdq": (_MORE, _ECX, 10),
    "avx512vnni": (_MORE, _ECX, 11),
    "avx512bitalg": (_MORE, _ECX, 12),
    "avx512vpopcntdq": (_MORE, _ECX, 14),
    "amx-bf16": (_MORE, _EDX, 22),
    "avx512fp16": (_MORE, _EDX, 23),
    "amx-tile": (_MORE, _EDX, 24),
    "amx-int8": (_MORE, _EDX, 25),
    "avxvnni": (_NEWER, _EAX, 4),
    "avx512bf16": (_NEWER, _EAX, 5),
    "lzcnt": (_EXTENDED, _ECX, 5),
}
"""Where `cpuid` tells of instructions, by the names of LLVM: leaf, register, bit."""

_OSXSAVE = 1 << 27
_KEPT = {"avx": 0x06, "avx512f": 0xE6, "amx-tile": 0x600E6}
"""What the system must keep for some instructions: bits of XCR0."""

_CPUID = "53 4989D0 89F8 89F1 0FA2 418900 41895804 41894808 4189500C 5B C3"
"""push rbx; mov r8, rdx; mov eax, edi; mov ecx, esi; cpuid; mov [r8], eax; mov [r8 + 4], ebx;
mov [r8 + 8], ecx; mov [r8 + 12], edx; pop rbx; ret"""
_XGETBV = "31C9 0F01D0 C3"
"""xor ecx, ecx; xgetbv; ret"""

_ASK = "B8 9E000000 BF 23100000 BE 12000000 0F05 C3"
"""mov eax, 158 (arch_prctl); mov edi, 0x1023 (ARCH_REQ_XCOMP_PERM); mov esi, 18 (registers of
matrices); syscall; ret: 0 if Linux keeps them for this process"""

_CODE = """
; store what cpuid says of a leaf
define weak hidden x86_64_sysvcc void @$P$_cpuid(i32 %leaf, i32 %part, ptr %to) prologue $CPUID$ {
  ret void
}

; the registers that the system keeps
define weak hidden x86_64_sysvcc i32 @$P$_xgetbv() prologue $XGETBV$ {
  ret i32 0
}

$REQUEST$
define internal i1 @lacks(i32 %leaf, i32 %part, i64 %register, i32 %bits) noinline $PLAIN$ {
  %highest = and i32 %leaf, -2147483648
  %all = alloca [4 x i32], align 16
  call x86_64_sysvcc void @$P$_cpuid(i32 %highest, i32 0, ptr %all)
  %last = load volatile i32, ptr %all, align 4
  %beyond = icmp ugt i32 %leaf, %last
  call x86_64_sysvcc void @$P$_cpuid(i32 %leaf, i32 %part, ptr %all)
  %place = getelementptr i32, ptr %all, i64 %register
  %value = load volatile i32, ptr %place, align 4
  %there = and i32 %value, %bits
  %less = icmp ne i32 %there, %bits
  %result = or i1 %beyond, %less
  ret i1 %result
}

; whether the processor has the instructions of this object
define internal i1 @runs_here() noinline $PLAIN$ {
entry:
$TESTS$
good:
  ret i1 true
bad:
  ret i1 false
}
"""

_REQUEST = """
; ask the system for the registers of matrices
define weak hidden x86_64_sysvcc i64 @$P$_ask() prologue $ASK$ {
  ret i64 0
}
"""

_PLAIN = '"target-cpu"="x86-64" "target-features"="+sse2"'

REFUSE = """
  %here = call i1 @runs_here()
  br i1 %here, label %fits, label %lacks
lacks:
  ret i32 805
fits:
"""
"""What a model is made behind."""


def needed(target: Target) -> dict[tuple[int, int, int], int]:
    """The bits that `cpuid` must show: by leaf, part of it, and register."""
    found: dict[tuple[int, int, int], int] = {}
    for name, ((leaf, part), register, bit) in _BITS.items():
        if target.has(name):
            key = (leaf, part, register)
            found[key] = found.get(key, 0) | 1 << bit
    return found


def check_text(target: Target) -> str:
    """The functions that test the processor; none where nobody tells what it has."""
    if not is_checked(target):
        return ""
    return _text(target) if _is_x86(target) else arm.check_text(target)


def _text(target: Target) -> str:
    bits = needed(target)
    kept = max((mask for name, mask in _KEPT.items() if target.has(name)), default=0)
    if kept:
        bits[*_BASIC, _ECX] = bits.get((*_BASIC, _ECX), 0) | _OSXSAVE
    lines: list[str] = []
    for n, ((leaf, part, register), mask) in enumerate(sorted(bits.items())):
        lines.append(
            f"  %l{n} = call i1 @lacks(i32 {leaf}, i32 {part}, i64 {register}, i32 {mask})"
        )
        lines.append(f"  br i1 %l{n}, label %bad, label %next{n}\nnext{n}:")
    if kept:
        lines.append("  %kept = call x86_64_sysvcc i32 @$P$_xgetbv()")
        lines.append(f"  %some = and i32 %kept, {kept}\n  %all = icmp eq i32 %some, {kept}")
        lines.append("  br i1 %all, label %ask, label %bad\nask:")
    if target.matrices and "linux" not in target.triple:
        lines.append("  br label %bad")
    elif target.matrices:
        lines.append("  %answer = call x86_64_sysvcc i64 @$P$_ask()")
        lines.append("  %given = icmp eq i64 %answer, 0")
        lines.append("  br i1 %given, label %good, label %bad")
    else:
        lines.append("  br label %good")
    words = {"TESTS": "\n".join(lines), "PLAIN": _PLAIN}
    words |= {"CPUID": _bytes(_CPUID), "XGETBV": _bytes(_XGETBV), "ASK": _bytes(_ASK)}
    words = {"REQUEST": _REQUEST if target.matrices else "", **words}
    text = _CODE
    for word, value in words.items():
        text = text.replace(f"${word}$", value)
    return text


def is_checked(target: Target) -> bool:
    """Whether it needs instructions that not all of its kind have, and somebody tells of them."""
    return bool(needed(target) if _is_x86(target) else arm.needed(target))


def _is_x86(target: Target) -> bool:
    return target.triple.startswith("x86_64")


def _bytes(digits: str) -> str:
    code = bytes.fromhex(digits)
    return f'[{len(code)} x i8] c"' + "".join(f"\\{byte:02X}" for byte in code) + '"'
