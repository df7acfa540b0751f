"""Emits scalar expressions of the IR, for one point of a loop nest or for several at once.

A `Frame` is the function of one kernel being written. A `Point` stands for one iteration, or
for `lanes` neighbouring ones: each index has a `Place` (a value plus a constant, and plus the lane
number if it is the vector index), and a `Mask` says which lanes are there. What is the same in
all lanes stays scalar until it meets a vector.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ...dtypes import DType
from ...ir.nodes import (
    COMPARISONS,
    LOGICAL,
    Access,
    Apply,
    Binary,
    Cast,
    Const,
    Expr,
    Index,
    Local,
    Remap,
    Select,
    Symbol,
    Tensor,
    Unary,
)
from ...ir.rewrite import accesses, is_division
from ...source import NOWHERE, Span
from . import emit_address, emit_arith, emit_cast, emit_lanes, emit_memory, mathlib
from .builder import Builder
from .emit_access import (
    NO_RANGES,
    SMALL,
    Linear,
    Ranges,
    bounds,
    has_effect,
    is_decided,
    may_be_zero,
)
from .emit_guards import Guard, guards_of, lanes_in_range
from .emit_parts import FAIL, FULL, SAFE_BYTES, Address, Asked, Kept, Mask, Place, Value, View
from .emit_quotient import QUOTIENTS, Known, quotients
from .emit_types import literal, memory_type, scalar_type, splat, vector_type, with_lanes
from .group_peaks import Peaks, Sums, is_at_most_zero, is_share
from .group_spreads import Spreads, is_of_spread
from .kernels import Strides
from .sizes import Size, lower, plus, row_major, sizes_of, times
from .steps import Site
from .target import Target

__all__ = ["FULL", "Address", "Frame", "Mask", "Place", "Point", "Value"]


class Frame:
    """The function of a kernel: its table of tensors and sizes, and its checks."""

    def __init__(self, strides: Strides, target: Target | None = None) -> None:
        self.target = target
        self.divides = QUOTIENTS if target is not None and target.fused else ()
        """Types whose quotients are made of multiply-adds where a vector has one divisor."""
        self.builder = Builder(
            "kernel", "ptr noalias %table, ptr noalias %scratch, i64 %begin, i64 %end"
        )
        self.builder.scales = target is not None and target.scales
        self.tensors: list[Tensor] = []
        self.symbols: list[Symbol] = []
        self.sites: list[Site] = []
        self.written: set[Tensor] = set()
        """Tensors that the kernel may both read and write: their loads stay where they are."""
        self._strides = strides
        self._row_major: dict[Tensor, tuple[Size, ...]] = {}
        self.forms: dict[tuple[int, ...], tuple[object, Linear | None]] = {}
        """Offsets of accesses that need no check, by identities of what they come from."""
        self.guards: dict[tuple[int, ...], tuple[object, list[Guard]]] = {}
        """What guards of expressions test, likewise."""
        self.local: dict[Tensor, Kept] = {}
        """Tensors of which each thread keeps a part."""
        self.ahead: dict[Tensor, int] = {}
        """Bytes behind what is read of a tensor that will be wanted next."""
        self.far: frozenset[Tensor] = frozenset()
        """Tensors of which it is wanted so much later that it goes to the second cache."""
        self.followed: dict[Tensor, Tensor] = {}
        """Tensors, and those of the same shape that are soon written at the same elements."""
        self.asked: dict[Tensor, list[Asked]] = {}
        """What to ask for when elements of a tensor have been written."""
        self.streams: frozenset[Tensor] = frozenset()
        """Tensors that are written past the caches, in whole vectors that lie as they should."""
        self.fences = True
        """Whether the function waits until these are there; else its caller does."""
        self.reread: frozenset[Tensor] = frozenset()
        """Tensors that are read again as soon as they are written."""
        self.peaks: Peaks = {}
        """Tensors of largest elements."""
        self.sums: Sums = {}
        """Tensors of sums of powers."""
        self.spreads: Spreads = {}
        """Tensors made from sums of squares."""

    def counting(self) -> Frame:
        """The function that says how many chunks there are: it reads the same table."""
        other = Frame(self._strides)
        other.builder = Builder("kernel.count", "ptr %table", "i64")
        other.tensors, other.symbols = self.tensors, self.symbols
        return other

    def part(self, name: str, strides: Strides | None = None) -> Frame:
        """A function that this one calls: it reads the same table, and its checks are the same. The
        strides are those of all tensors that it knows, if it knows others."""
        other = Frame(self._strides if strides is None else strides, self.target)
        arguments = "ptr noalias %table, ptr noalias %scratch, i64 %begin, i64 %end"
        other.builder = Builder(name, arguments, "internal void", "noinline")
        other.builder.scales = self.builder.scales
        other.tensors, other.symbols, other.sites = self.tensors, self.symbols, self.sites
        other.local, other.peaks = self.local, self.peaks
        other.sums, other.spreads = self.sums, self.spreads
        return other

    def strides(self, tensor: Tensor) -> tuple[Size, ...]:
        if tensor in self.local:
            return self.local[tensor].strides
        known = self._strides.get(tensor) or self._row_major.get(tensor)
        if known is None:
            known = self._row_major[tensor] = row_major(sizes_of(tensor.shape))
        return known

    def entry(self, number: int) -> str:
        """A pointer of the table."""
        b = self.builder
        place = b.pure(f"getelementptr ptr, ptr %table, i64 {number}")
        return b.pure(f"load ptr, ptr {place}, align 8", place)

    def pointer(self, tensor: Tensor) -> str:
        """The first element of a tensor."""
        if isinstance(tensor, View):
            tensor = tensor.base
        if tensor in self.local:
            return self.entry(-self.local[tensor].number)
        if tensor not in self.tensors:
            self.tensors.append(tensor)
        return self.entry(1 + self.tensors.index(tensor))

    def cell(self, symbol: Symbol) -> str:
        """Where the value of a symbol is; the table has these behind all tensors."""
        if symbol not in self.symbols:
            self.symbols.append(symbol)
        b = self.builder
        place = b.pure(f"getelementptr ptr, ptr %table, i64 #{self.symbols.index(symbol)}")
        return b.pure(f"load ptr, ptr {place}, align 8", place)

    def symbol(self, symbol: Symbol) -> str:
        """The value of a symbol."""
        pointer = self.cell(symbol)
        return self.builder.pure(f"load i64, ptr {pointer}, align 8", pointer)

    def amount(self, size: Size) -> str | int:
        """A size as an operand, computed at the head of the function if it is not a number."""
        if isinstance(size, int):
            return size
        return Point(self, 1, {}, FULL, {}, NO_RANGES, checked=False).value(size).text

    def count(self, size: Size) -> str | int:
        """The same, zero if it is negative."""
        amount = self.amount(size)
        if isinstance(amount, int) or lower(size) >= 0:
            return max(amount, 0) if isinstance(amount, int) else amount
        return self.builder.call("i64", "llvm.smax.i64", f"i64 {amount}", "i64 0")

    def safe(self) -> str:
        """Memory that may be read and written without effect."""
        return self.builder.reserve(f"alloca [{SAFE_BYTES} x i8], align 64")

    def site(self, name: str, dimension: int, span: Span) -> int:
        """The number of a check, from 1."""
        site = Site(name, dimension, span)
        if site not in self.sites:
            self.sites.append(site)
        return self.sites.index(site) + 1

    def fail(self, site: int, value: str, extent: str) -> None:
        """Record a failed check; the first of a call is kept."""
        record = self.entry(0)
        self.builder.line(
            f"call void @kernel.fail(ptr {record}, i64 {site}, i64 {value}, i64 {extent})"
        )

    def point(
        self,
        lanes: int,
        places: Mapping[Index, Place],
        *,
        mask: Mask = FULL,
        values: Mapping[Local, Value] | None = None,
        ranges: Ranges | None = None,
    ) -> Point:
        """One iteration, or `lanes` neighbouring ones.

        `values` are locals whose value is known already (accumulators); `ranges` are what is known
        about indices here.
        """
        return Point(self, lanes, dict(places), mask, dict(values or {}), ranges or NO_RANGES)

    def text(self, extra: str = "") -> str:
        """The whole text, with other functions; the body is ended by a return."""
        self.builder.line("ret void")
        text = self.builder.text() + (FAIL if self.sites else "") + extra
        if not self.symbols:
            return text
        first = 1 + len(self.tensors)
        return re.sub(r"%table, i64 #(\d+)", lambda m: f"%table, i64 {first + int(m[1])}", text)


class Point:
    """Emits expressions for one iteration; make it with `Frame.point`."""

    def __init__(
        self,
        frame: Frame,
        lanes: int,
        places: dict[Index, Place],
        mask: Mask,
        values: dict[Local, Value],
        ranges: Ranges,
        checked: bool = True,
    ) -> None:
        self.frame = frame
        self.b = frame.builder
        self.lanes = lanes
        self.places = places
        self.mask = mask
        self.values = values
        self.ranges = ranges
        self._checked = checked
        self._memo: dict[int, tuple[Expr, Value]] = {}

    # ------------------------------------------------------------------ values

    def value(self, expr: Expr) -> Value:
        """An expression's value: a scalar if it is the same in all lanes."""
        known = self._memo.get(id(expr))
        if known is None:
            known = (expr, self._emit(expr))
            self._memo[id(expr)] = known
        return known[1]

    def know(self, expr: Expr, value: Value) -> None:
        """Take this for the value of an expression."""
        self._memo[id(expr)] = (expr, value)

    def vector(self, value: Value) -> str:
        """A value with all lanes."""
        if value.vector or self.lanes == 1:
            return value.text
        return self.spread(value.text, scalar_type(value.dtype))

    def spread(self, text: str, type: str) -> str:
        """A scalar in all lanes."""
        if self.lanes == 1:
            return text
        if not text.startswith("%"):
            return splat(text, type, self.lanes)
        full = with_lanes(type, self.lanes)
        one = self.b.pure(f"insertelement {full} poison, {type} {text}, i64 0", text)
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self.b.pure(f"shufflevector {full} {one}, {full} poison, {zeros}", one)

    def type(self, value: Value) -> str:
        """The LLVM type of an emitted value."""
        return vector_type(value.dtype, self.lanes if value.vector else 1)

    def _emit(self, expr: Expr) -> Value:
        match expr:
            case Const():
                assert not isinstance(expr.value, str)
                return Value(literal(expr.value, expr.dtype), expr.dtype)
            case Index():
                return self.index(expr)
            case Local():
                return self.values.get(expr) or self.value(expr.value)
            case Access():
                return emit_memory.load(self, expr)
            case Unary():
                return self._unary(expr)
            case Binary():
                return self._binary(expr)
            case Select():
                return self._select(expr)
            case Cast():
                return emit_cast.cast(self, expr)
            case Apply():
                return self._apply(expr)
            case Symbol():
                return Value(self.frame.symbol(expr), DType.INT)

    def index(self, index: Index, dtype: DType = DType.INT) -> Value:
        place = self.places.get(index)
        if place is None:
            assert index.extent == Const(1, DType.INT), f"index `{index.name}` has no place here"
            return Value("0", dtype)
        whole = self.sum_of(place.base, place.offset)
        text = emit_arith.cast(self.b, whole, DType.INT, dtype, lanes=1)
        if not place.vector or self.lanes == 1:
            return Value(text, dtype)
        type = scalar_type(dtype)
        full = with_lanes(type, self.lanes)
        steps = ", ".join(f"{type} {lane}" for lane in range(self.lanes))
        base = self.spread(text, type)
        flag = "nsw " if dtype is DType.INT else ""
        return Value(self.b.pure(f"add {flag}{full} {base}, <{steps}>", base), dtype, True)

    def sum_of(self, base: str | None, offset: int) -> str:
        """An i64 plus a constant."""
        if base is None:
            return str(offset)
        if offset == 0:
            return base
        if not base.startswith("%"):
            return str(int(base) + offset)
        return self.b.pure(f"add nsw i64 {base}, {offset}", base)

    def common(self, *values: Value) -> tuple[list[str], bool, str]:
        """Operands made alike: texts, whether they are vectors, and their type."""
        vector = any(v.vector for v in values)
        texts = [self.vector(v) if vector else v.text for v in values]
        return texts, vector, vector_type(values[0].dtype, self.lanes if vector else 1)

    def _unary(self, expr: Unary) -> Value:
        a = self.value(expr.operand)
        return Value(
            emit_arith.unary(self.b, expr.op, a.text, a.dtype, self.type(a)), a.dtype, a.vector
        )

    def _binary(self, expr: Binary) -> Value:
        decided = is_decided(expr, self.ranges)
        if decided is not None:
            return Value(str(decided).lower(), DType.BOOL)
        values = (self.value(expr.lhs), self.value(expr.rhs))
        if expr.op in ("and", "or"):
            neutral = "true" if expr.op == "and" else "false"
            for one, other in (values, values[::-1]):
                if one.text in ("true", "false"):
                    return other if one.text == neutral else one
        (a, b), vector, _ = self.common(*values)
        lanes = self.lanes if vector else 1
        dtype = values[0].dtype if expr.op not in LOGICAL else DType.BOOL
        if expr.op == "div" and vector and not values[1].vector and dtype in self.frame.divides:
            divisor, known = values[1].text, self._known_of(expr)
            return Value(quotients(self.b, a, divisor, expr.rhs, lanes, known), dtype, True)
        if is_division(expr):
            if vector and isinstance(expr.rhs, Const) and self._is_small(expr):
                by = int(expr.rhs.value)
                return Value(emit_arith.divide_small(self.b, expr.op, a, by, lanes), dtype, True)
            b = self._checked_divisor(expr, b, dtype, lanes)
        text = emit_arith.binary(self.b, expr.op, a, b, dtype, lanes)
        return Value(text, DType.BOOL if expr.op in COMPARISONS else dtype, vector)

    def _is_small(self, quotient: Binary) -> bool:
        """Whether an integer of 64 bits, in whatever lanes count, would fit in 32, and what divides
        it is a number."""
        if quotient.dtype not in (DType.INT, DType.INT64) or not isinstance(quotient.rhs, Const):
            return False
        known = (*bounds(quotient.lhs, self.ranges), int(quotient.rhs.value))
        return known[2] > 0 and all(abs(n) < SMALL for n in known)

    def _known_of(self, quotient: Binary) -> Known:
        if is_share(quotient, self.frame.sums):
            return Known.SHARE
        return Known.OF_SPREAD if is_of_spread(quotient, self.frame.spreads) else Known.NOTHING

    def _checked_divisor(self, expr: Binary, divisor: str, dtype: DType, lanes: int) -> str:
        """The divisor, or one where it is zero; a zero that counts is recorded."""
        if not may_be_zero(expr.rhs):
            return divisor
        type = vector_type(dtype, lanes)
        zero, one = splat("0", scalar_type(dtype), lanes), splat("1", scalar_type(dtype), lanes)
        good = self.b.pure(f"icmp ne {type} {divisor}, {zero}", divisor)
        if self._checked:
            site = self.frame.site("", -1, self._span(expr))
            emit_address.require(self, good, lanes > 1, Value("0", DType.INT), site, "0")
        condition = with_lanes("i1", lanes)
        return self.b.pure(
            f"select {condition} {good}, {type} {divisor}, {type} {one}", good, divisor
        )

    @staticmethod
    def _span(expr: Expr) -> Span:
        """The place of the first access in an expression, for want of its own."""
        return next((a.span for a in accesses(expr)), NOWHERE)

    def _select(self, expr: Select) -> Value:
        condition = self.value(expr.condition)
        if condition.text in ("true", "false"):
            return self.value(expr.then if condition.text == "true" else expr.otherwise)
        then = self._arm(expr.then, condition, True)
        otherwise = self._arm(expr.otherwise, condition, False)
        return self._choice(condition, then, otherwise)

    def _choice(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """One value where a condition holds, another elsewhere."""
        if condition.vector and not then.vector and not otherwise.vector:
            then = Value(self.vector(then), then.dtype, True)
        (a, b), vector, type = self.common(then, otherwise)
        choice = with_lanes("i1", self.lanes if condition.vector else 1)
        text = self.b.pure(
            f"select {choice} {condition.text}, {type} {a}, {type} {b}", condition.text, a, b
        )
        return Value(text, then.dtype, vector)

    def _arm(self, expr: Expr, condition: Value, positive: bool) -> Value:
        point = self.only(condition, positive) if self.has_effect(expr) else self
        return point.value(expr)

    def has_effect(self, expr: Expr) -> bool:
        """Whether evaluating an expression here, wanted or not, may touch or report something."""
        return has_effect(expr, self.ranges, self._memo)

    def _apply(self, expr: Apply) -> Value:
        values = [self.value(x) for x in expr.arguments]
        texts, vector, _ = self.common(*values)
        lanes = self.lanes if vector else 1
        dtype, name = values[0].dtype, str(expr.function)
        if name == "exp" and is_at_most_zero(expr.arguments[0], self.frame.peaks):
            name = mathlib.EXP_BELOW
        return Value(mathlib.function(self.b, name, texts, dtype, lanes), dtype, vector)

    def test(self, exprs: Iterable[Expr]) -> None:
        """Find what fails in expressions, wanted or not, before anything else does."""
        for expr in exprs:
            if self.has_effect(expr):
                self.value(expr)

    # ------------------------------------------------------------------- masks

    def only(self, condition: Value, positive: bool = True) -> Point:
        """The same iteration where a condition holds (or does not)."""
        if condition.text == ("true" if positive else "false"):
            return self
        text = condition.text
        if not positive:
            lanes = self.lanes if condition.vector else 1
            text = emit_arith.unary(self.b, "not", text, DType.BOOL, with_lanes("i1", lanes))
        return self._with_mask(self.meet(self.mask, Value(text, DType.BOOL, condition.vector)))

    def _with_mask(self, mask: Mask) -> Point:
        return Point(self.frame, self.lanes, self.places, mask, self.values, self.ranges)

    def meet(self, mask: Mask, condition: Value) -> Mask:
        """A mask and a condition."""
        if condition.text == "true":
            return mask
        if condition.vector and self.lanes > 1:
            return Mask(mask.all, self._and(mask.each, condition.text, self.lanes))
        return Mask(self._and(mask.all, condition.text, 1), mask.each)

    def _and(self, a: str | None, b: str, lanes: int) -> str:
        if a is None or a == b:
            return b
        return self.b.pure(f"and {with_lanes('i1', lanes)} {a}, {b}", a, b)

    def mask_text(self, mask: Mask) -> str:
        """A mask as one value: a vector, or an i1 if there is one lane."""
        if self.lanes == 1:
            return mask.all or "true"
        if mask.all is None:
            return mask.each or splat("true", "i1", self.lanes)
        count = None if mask.each is None else emit_lanes.first_lanes(mask.each)
        if count is not None:
            return self._first_lanes(count, mask.all)
        spread = self.spread(mask.all, "i1")
        return spread if mask.each is None else self._and(mask.each, spread, self.lanes)

    def _first_lanes(self, count: int, condition: str) -> str:
        """The mask of so many lanes where a condition holds. As a literal one and the condition
        LLVM would see that halves of wide vectors are off, and read them without a mask."""
        number = self.b.pure(f"select i1 {condition}, i32 {count}, i32 0", condition)
        lanes = ", ".join(f"i32 {lane}" for lane in range(self.lanes))
        limit = self.spread(number, "i32")
        return self.b.pure(f"icmp ult <{self.lanes} x i32> <{lanes}>, {limit}", limit)

    def guarded(self, *exprs: Expr) -> Point:
        """The same iteration where no `Skip` in the expressions is out of range."""
        point = self
        for index, extent, may_fail in guards_of(self, exprs):
            # what may fail counts only where the guards before it hold
            where = point if may_fail else self
            inside = lanes_in_range(self, index, extent)
            point = point.only(inside or self.in_range(where.value(index), extent))
        return point

    def in_range(self, index: Value, extent: Size) -> Value:
        """Whether `0 <= index < extent`."""
        wide = self.as_index(index)
        limit = self._limit(extent, wide)
        text = self.b.pure(f"icmp ult {self.type(wide)} {wide.text}, {limit}", wide.text, limit)
        return Value(text, DType.BOOL, wide.vector)

    def _limit(self, size: Size, like: Value) -> str:
        """A size as an operand beside a value."""
        text = str(self.frame.amount(size))
        return self.spread(text, "i64") if like.vector else text

    def as_index(self, value: Value) -> Value:
        """An integer of any type as i64."""
        lanes = self.lanes if value.vector else 1
        text = emit_arith.cast(self.b, value.text, value.dtype, DType.INT, lanes)
        return Value(text, DType.INT, value.vector)

    # ---------------------------------------------------------------- accesses

    def address(self, access: Access) -> Address:
        """Where the elements of an access are; checks that cannot be proved are emitted."""
        return emit_address.address(self, access)

    def advance(
        self, pointer: str, terms: list[tuple[str, Size]], constant: Size, dtype: DType
    ) -> str:
        """A pointer plus terms, the outermost first so that inner loops add little."""
        type, b = memory_type(dtype), self.b
        for text, factor in sorted(terms, key=lambda t: b.depth(t[0])):
            if not text.startswith("%"):
                constant = plus(constant, times(int(text), factor))
                continue
            step = text if factor == 1 else self.scaled(text, factor, 1)
            pointer = b.pure(f"getelementptr {type}, ptr {pointer}, i64 {step}", pointer, step)
        if constant != 0:
            step = str(self.frame.amount(constant))
            pointer = b.pure(f"getelementptr {type}, ptr {pointer}, i64 {step}", pointer, step)
        return pointer

    def scaled(self, text: str, factor: Size, lanes: int) -> str:
        """An i64, or a vector of them, times a size."""
        amount = str(self.frame.amount(factor))
        if lanes > 1:
            amount = self.spread(amount, "i64")
        return self.b.pure(f"mul nsw {with_lanes('i64', lanes)} {text}, {amount}", text, amount)

    def remapped(self, value: Value, rule: Remap, extent: Size) -> Value:
        """`below` where the index is negative, `above` where it is past the end, else itself."""
        lanes = self.lanes if value.vector else 1
        zero, limit = splat("0", "i64", lanes), self._limit(extent, value)
        type = with_lanes("i64", lanes)
        low = self.b.pure(f"icmp slt {type} {value.text}, {zero}", value.text)
        high = self.b.pure(f"icmp sge {type} {value.text}, {limit}", value.text, limit)
        result = value
        for test, expr in ((high, rule.above), (low, rule.below)):
            condition = Value(test, DType.BOOL, value.vector)
            other = self.as_index(self._arm(expr, condition, True))
            result = self._choice(condition, other, result)
        return result

    # ------------------------------------------------------------------ memory

    def store(self, access: Access, *values: Value) -> None:
        """Write an element per lane, where the mask is on; of several values in turn."""
        emit_memory.store(self, access, *values)
