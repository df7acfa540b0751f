"""Conversions of float16 for processors without instructions for it.

LLVM calls routines of its compiler's own library there, which a process need not have; a call of
one that is missing would jump nowhere. They are defined here, in integer arithmetic.

Method: F. Giesen, "Float->half variants", 2012: subnormal numbers are made, and scaled, by adding
or multiplying a float32, which rounds to the nearest even.
"""

from __future__ import annotations

NAMES = ("__extendhfsf2", "__truncsfhf2")

ROUTINES = """
define float @__extendhfsf2(half %x) nounwind {
  %narrow = bitcast half %x to i16
  %all = zext i16 %narrow to i32
  %signed = and i32 %all, 32768
  %sign = shl i32 %signed, 16
  %rest = and i32 %all, 32767
  %shifted = shl i32 %rest, 13
  %small = bitcast i32 %shifted to float
  ; the exponent counts from 15 in a half, from 127 in a float
  %scaled = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %special = or i32 %shifted, 2139095040
  %is_special = icmp uge i32 %rest, 31744
  %size = select i1 %is_special, i32 %special, i32 %finite
  %bits = or i32 %size, %sign
  %result = bitcast i32 %bits to float
  ret float %result
}

define half @__truncsfhf2(float %x) nounwind {
  %all = bitcast float %x to i32
  %size = and i32 %all, 2147483647
  %top = lshr i32 %all, 16
  %sign = and i32 %top, 32768
  ; below 2**-14: the addition leaves as many bits as a subnormal half has
  %value = bitcast i32 %size to float
  %moved = fadd float %value, 5.0e-1
  %moved_bits = bitcast float %moved to i32
  %subnormal = sub i32 %moved_bits, 1056964608
  ; others: half of the last place is added, less a bit where that is even
  %last = lshr i32 %size, 13
  %odd = and i32 %last, 1
  %based = add i32 %size, -939520001
  %rounded = add i32 %based, %odd
  %normal = lshr i32 %rounded, 13
  %is_small = icmp ult i32 %size, 947912704
  %finite = select i1 %is_small, i32 %subnormal, i32 %normal
  %is_nan = icmp ugt i32 %size, 2139095040
  %special = select i1 %is_nan, i32 32256, i32 31744
  %is_special = icmp uge i32 %size, 1199570944
  %chosen = select i1 %is_special, i32 %special, i32 %finite
  %bits = or i32 %chosen, %sign
  %narrow = trunc i32 %bits to i16
  %result = bitcast i16 %narrow to half
  ret half %result
}
"""
