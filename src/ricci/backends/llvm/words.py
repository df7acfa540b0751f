"""Instructions that multiply narrow numbers, several in each 32-bit lane, and add the products.

A lane of an operand, a *word*, holds the factors of two or four neighbouring terms of a sum, the
first lowest. Results of integers are exact in the arithmetic of 32 bits, which wraps. Products of
bfloat16 are added in float32; subnormal numbers count as zero.
"""

from __future__ import annotations

from typing import Literal

from ...dtypes import DType
from ...ir.loops import Reduce
from ...passes.siblings import is_of_pairs
from ...records import dataclass, replace
from .emit_types import with_lanes
from .target import Target

Instruction = Literal[
    "vpdpbusd", "vpdpwssd", "pmaddwd", "sdot", "udot", "mul",
    "tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud", "vdpbf16ps", "tdpbf16ps",
]  # fmt: skip

HIGH_BITS = str(0x80808080 - (1 << 32))
"""The word of bytes that are all 128."""

Range = tuple[float, float]
_OF_MATRICES: dict[str, Instruction] = {
    "ss": "tdpbssd", "su": "tdpbsud", "us": "tdpbusd", "uu": "tdpbuud",
}  # fmt: skip
_PAIRS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}


@dataclass(frozen=True, slots=True)
class Words:
    """How the words of a product are multiplied: by bytes, or by halves.

    `vpdpbusd` takes bytes without a sign times bytes with one: the broadcast operand's bytes are
    those without, of the vector operand if `swapped`. If `offset` they are 128 too large, and 128
    times the sums of the other operand are subtracted at the end. `mul` stands for no instruction
    at all: halves are taken apart.
    """

    instruction: Instruction
    offset: bool = False
    swapped: bool = False

    @property
    def is_matrix(self) -> bool:
        """Whether the processor multiplies matrices of words: see `matrix`."""
        return self.instruction.startswith("tdp")

    @property
    def is_real(self) -> bool:
        """Whether factors are numbers of bfloat16, and sums of float32."""
        return self.instruction.endswith("bf16ps")

    @property
    def count(self) -> int:
        """How many factors a word holds."""
        if self.is_real:
            return 2
        return 4 if self.is_matrix or self.instruction in ("vpdpbusd", "sdot", "udot") else 2

    @property
    def in_turn(self) -> int:
        """How many steps tiles gain by doing in a turn, at most: with more, registers are missing,
        as products need some before they are added."""
        return 2 if self.instruction == "pmaddwd" else 1

    def room(self, target: Target) -> Target:
        """The target with the registers that are left for sums and operands."""
        taken = 5 if self.offset else 12 if self.instruction == "mul" else 1
        apart = self.instruction == "pmaddwd"
        return replace(target, registers=target.registers - taken, adds_apart=apart)

    def declaration(self, lanes: int) -> str:
        """The intrinsic, if there is one."""
        full, part = with_lanes(self._sum, lanes), self._parts(lanes)
        name = self._name(lanes)
        match self.instruction:
            case "vpdpbusd" | "vpdpwssd":
                return f"declare {full} @{name}({full}, {full}, {full})"
            case "pmaddwd":
                return f"declare {full} @{name}({part}, {part})"
            case "mul":
                return ""
        return f"declare {full} @{name}({full}, {part}, {part})"

    def ready(self, operand: str, lanes: int) -> list[str]:
        """What is done once to an operand before it is multiplied."""
        full = with_lanes(self._sum, lanes)
        match self.instruction:
            case "vpdpbusd" | "vpdpwssd":
                return []
            case "mul":
                half = "splat (i32 16)"
                return [
                    f"{operand}.u = shl {full} {operand}, {half}",
                    f"{operand}.l = ashr {full} {operand}.u, {half}",
                    f"{operand}.h = ashr {full} {operand}, {half}",
                ]
        return [f"{operand}.w = bitcast {full} {operand} to {self._parts(lanes)}"]

    def add(self, result: str, sums: str, a: str, b: str, lanes: int) -> list[str]:
        """`result` as `sums` plus the products of a broadcast and a vector operand."""
        full, part, name = with_lanes(self._sum, lanes), self._parts(lanes), self._name(lanes)
        match self.instruction:
            case "vpdpbusd" | "vpdpwssd":
                first, second = (b, a) if self.swapped else (a, b)
                operands = f"{full} {sums}, {full} {first}, {full} {second}"
                return [f"{result} = call {full} @{name}({operands})"]
            case "pmaddwd":
                return [
                    f"{result}.p = call {full} @{name}({part} {a}.w, {part} {b}.w)",
                    f"{result} = add {full} {sums}, {result}.p",
                ]
            case "mul":
                return [
                    f"{result}.l = mul {full} {a}.l, {b}.l",
                    f"{result}.s = add {full} {sums}, {result}.l",
                    f"{result}.h = mul {full} {a}.h, {b}.h",
                    f"{result} = add {full} {result}.s, {result}.h",
                ]
        operands = f"{full} {sums}, {part} {a}.w, {part} {b}.w"
        return [f"{result} = call {full} @{name}({operands})"]

    @property
    def addition(self) -> str:
        """The instruction that adds sums."""
        return "fadd" if self.is_real else "add"

    @property
    def _sum(self) -> str:
        """The type of a sum, which operands are read as, too."""
        return "float" if self.is_real else "i32"

    def _parts(self, lanes: int) -> str:
        """The type of a vector of factors."""
        if self.is_real:
            return with_lanes("bfloat", 2 * lanes)
        return with_lanes(f"i{32 // self.count}", lanes * self.count)

    def _name(self, lanes: int) -> str:
        match self.instruction:
            case "vpdpbusd" | "vpdpwssd":
                return f"llvm.x86.avx512.{self.instruction}.{32 * lanes}"
            case "pmaddwd":
                return f"llvm.x86.{_PAIRS[lanes]}"
            case "vdpbf16ps":
                return f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        return f"llvm.aarch64.neon.{self.instruction}.v4i32.v16i8"


def choose(a: Range, b: Range, target: Target) -> Words | None:
    """How factors between two bounds, of the broadcast and of the vector operand, are multiplied;
    None if they are too large."""
    bytes_of = [_is_inside(x, (-128, 127)) for x in (a, b)]
    plain = [_is_inside(x, (0, 255)) for x in (a, b)]
    if _has_vnni(target):
        if plain[0] and bytes_of[1]:
            return Words("vpdpbusd")
        if plain[1] and bytes_of[0]:
            return Words("vpdpbusd", swapped=True)
        if all(bytes_of):
            return Words("vpdpbusd", offset=True)
    if _has_dotprod(target):
        if all(bytes_of):
            return Words("sdot")
        if all(plain):
            return Words("udot")
    if not all(_is_inside(x, (-(1 << 15), (1 << 15) - 1)) for x in (a, b)):
        return None
    if _has_vnni(target):
        return Words("vpdpwssd")
    return Words("pmaddwd" if target.triple.startswith("x86_64") else "mul")


def choose_matrices(a: Range, b: Range, target: Target) -> Words | None:
    """The same of the rows and the columns of matrices; None if they are too large, or there are
    none."""
    if not target.matrices:
        return None
    kinds = [_kind(x) for x in (a, b)]
    if None in kinds:
        return None
    return Words(_OF_MATRICES["".join(map(str, kinds))])


def choose_numbers(target: Target, matrices: bool) -> Words | None:
    """How numbers of bfloat16 are multiplied, as `matrices` or not; None if no instruction does it,
    or if tiny ones are not to be lost."""
    if not target.in_parts:
        return None
    if matrices:
        return Words("tdpbf16ps") if target.matrices else None
    return Words("vdpbf16ps") if target.rounds else None


def may_round(kernel: Reduce, target: Target | None) -> bool:
    """Whether results of a kernel may be rounded to bfloat16 by an instruction that takes subnormal
    numbers for zero: those of sums of products of such numbers, which do so, too."""
    return target is not None and target.rounds and target.in_parts and is_of_pairs(kernel)


def _kind(bounds: Range) -> str | None:
    """Whether bytes that hold such factors have a sign or not."""
    if _is_inside(bounds, (-128, 127)):
        return "s"
    return "u" if _is_inside(bounds, (0, 255)) else None


def least_factor(target: Target) -> DType:
    """The least integers that a processor multiplies: others cost a conversion where they are."""
    return DType.INT8 if _has_vnni(target) or _has_dotprod(target) else DType.INT16


def _has_vnni(target: Target) -> bool:
    return target.has("avx512vnni") or target.has("avxvnni")


def _has_dotprod(target: Target) -> bool:
    return target.has("dotprod") and target.vector_bytes == 16


def _is_inside(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
