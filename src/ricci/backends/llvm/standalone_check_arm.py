"""Whether an AArch64 processor has the instructions that an object is made of, which Linux tells.

Programs may not ask the processor: its registers are the system's. The C libraries of Linux have
`getauxval`, which gives what the system says; the object names it weakly, so that it can be linked
where there is none, and then nobody asks. How long vectors of SVE are, an instruction tells.
"""

from __future__ import annotations

from .target import Target

_FIRST, _SECOND = 16, 26  # AT_HWCAP, AT_HWCAP2

_BITS = {
    "aes": (_FIRST, 3),
    "sha2": (_FIRST, 6),
    "crc": (_FIRST, 7),
    "lse": (_FIRST, 8),
    "fullfp16": (_FIRST, 10),
    "rdm": (_FIRST, 12),
    "jsconv": (_FIRST, 13),
    "complxnum": (_FIRST, 14),
    "rcpc": (_FIRST, 15),
    "ccpp": (_FIRST, 16),
    "sha3": (_FIRST, 17),
    "sm4": (_FIRST, 19),
    "dotprod": (_FIRST, 20),
    "sve": (_FIRST, 22),
    "fp16fml": (_FIRST, 23),
    "dit": (_FIRST, 24),
    "rcpc-immo": (_FIRST, 26),
    "flagm": (_FIRST, 27),
    "sve2": (_SECOND, 1),
    "sve2-aes": (_SECOND, 2),
    "sve2-bitperm": (_SECOND, 4),
    "sve2-sha3": (_SECOND, 5),
    "sve2-sm4": (_SECOND, 6),
    "altnzcv": (_SECOND, 7),
    "fptoint": (_SECOND, 8),
    "f32mm": (_SECOND, 10),
    "f64mm": (_SECOND, 11),
    "i8mm": (_SECOND, 13),
    "bf16": (_SECOND, 14),
}
"""Where Linux tells of instructions, by the names of LLVM: which word of it, and the bit.

Source: `Documentation/arch/arm64/elf_hwcaps.rst` of Linux."""

_CODE = """
declare extern_weak i64 @getauxval(i64)
declare i64 @llvm.vscale.i64()

define internal i1 @lacks(i64 %word, i64 %bits) noinline $PLAIN$ {
  %value = call i64 @getauxval(i64 %word)
  %there = and i64 %value, %bits
  %less = icmp ne i64 %there, %bits
  ret i1 %less
}

; bytes of a vector of SVE; for processors that have it
define internal i64 @vector_bytes() noinline "target-features"="+sve" {
  %units = call i64 @llvm.vscale.i64()
  %bytes = mul i64 %units, 16
  ret i64 %bytes
}

; whether the processor has the instructions of this object, as far as somebody tells
define internal i1 @runs_here() noinline $PLAIN$ {
entry:
  %told = icmp ne ptr @getauxval, null
  br i1 %told, label %ask, label %good
ask:
$TESTS$
good:
  ret i1 true
bad:
  ret i1 false
}
"""

_PLAIN = '"target-cpu"="generic" "target-features"="+neon"'

_LENGTH = """  %bytes = call i64 @vector_bytes()
  %same = icmp eq i64 %bytes, $BYTES$
  br i1 %same, label %good, label %bad"""


def needed(target: Target) -> dict[int, int]:
    """The bits that must be set, by the number of the word."""
    found: dict[int, int] = {}
    if "linux" in target.triple:
        for name, (word, bit) in _BITS.items():
            if target.has(name):
                found[word] = found.get(word, 0) | 1 << bit
    return found


def check_text(target: Target) -> str:
    """The functions that test the processor."""
    lines: list[str] = []
    for word, mask in sorted(needed(target).items()):
        lines.append(f"  %l{word} = call i1 @lacks(i64 {word}, i64 {mask})")
        lines.append(f"  br i1 %l{word}, label %bad, label %next{word}\nnext{word}:")
    length = _LENGTH.replace("$BYTES$", str(target.vector_bytes))
    lines.append(length if target.sve else "  br label %good")
    return _CODE.replace("$PLAIN$", _PLAIN).replace("$TESTS$", "\n".join(lines))
