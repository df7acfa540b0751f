"""The function that takes the arguments of a call, runs the steps and makes the tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from ...records import dataclass
from . import threads
from .standalone_unit import UNSET, Argument, Array, Count, Length, Pack, Shape, Size, Unit


@dataclass(frozen=True)
class Layout:
    """Word numbers of a model's memory that a call needs."""

    message: int
    cells: int
    addresses: int
    """Of the first of the addresses of inputs and outputs."""
    words: dict[int, int]
    """Of inputs and outputs that are single numbers, which callers do not see."""
    zeros: int
    """That holds the address of zeros."""
    stages: dict[str, int]
    """Of the instance of each stage that has steps."""
    records: dict[str, tuple[int, int]]
    """Of the error records of each stage, and how many words they are."""
    tests: dict[str, tuple[int, int]]
    """How many tests each stage makes: always, and if there is an error record."""
    has_loops: bool


def parameter(argument: Argument) -> str:
    """The type of an argument."""
    return "i64" if isinstance(argument, (Size, Count)) else "ptr"


def write_call(unit: Unit, layout: Layout, text: Callable[[Sequence[str | int]], str]) -> str:
    """The function; `text` gives the name of a constant with a message."""
    return _Writer(unit, layout, text).text()


@dataclass
class _Writer:
    unit: Unit
    layout: Layout
    constant: Callable[[Sequence[str | int]], str]
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def text(self) -> str:
        unit = self.unit
        names = {a: f"%a{k}" for k, a in enumerate(unit.arguments)}
        self.names = names
        head = ", ".join(["ptr %m", *(f"{parameter(a)} {names[a]}" for a in unit.arguments)])
        self.line(f"define i32 @{unit.prefix}_run({head}) {{")
        self.line("entry:")
        self.line(f"  store i8 0, ptr {self.word(self.layout.message)}, align 1")
        self._clear_sizes()
        for argument in unit.arguments:
            self._take(argument)
        for stage in ("before", "main", "after"):
            self._stage(stage)
        for argument in unit.arguments:
            self._give(argument)
        self._turn_states()
        self.line("  ret i32 0\n}")
        return "\n".join(self.lines) + "\n"

    # -------------------------------------------------------------- instructions

    def line(self, text: str) -> None:
        self.lines.append(text)

    def op(self, text: str) -> str:
        self.count += 1
        self.line(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def word(self, number: int) -> str:
        """The address of a word of the model."""
        return self.op(f"getelementptr i64, ptr %m, i64 {number}")

    def load(self, type: str, number: int) -> str:
        return self.op(f"load {type}, ptr {self.word(number)}, align 8")

    def store(self, type: str, value: str, number: int) -> None:
        self.line(f"  store {type} {value}, ptr {self.word(number)}, align 8")

    def fork(self, condition: str) -> tuple[str, str]:
        """Two labels to go on at, by a condition; the first is begun."""
        self.count += 1
        yes, no = f"yes{self.count}", f"no{self.count}"
        self.line(f"  br i1 {condition}, label %{yes}, label %{no}")
        self.line(f"{yes}:")
        return yes, no

    def refuse_if(self, condition: str, code: int, *message: str | int) -> None:
        """End the call if a condition holds; numbers in the message are those of words."""
        _, on = self.fork(condition)
        text = self.constant(message)
        result = self.op(f"call i32 @refuse(ptr %m, i32 {code}, ptr {text})")
        self.line(f"  ret i32 {result}\n{on}:")

    # ------------------------------------------------------------------ arguments

    def _clear_sizes(self) -> None:
        image, first = self.unit.image, self.layout.cells
        count = image.sizes + image.defined
        for cell in range(image.sizes - image.defined, count + image.checks):
            asked = image.sizes <= cell < count
            self.store("i64", str(UNSET) if asked else "0", first + cell)

    def _take(self, argument: Argument) -> None:
        value = self.names[argument]
        match argument:
            case Size():
                self._take_size(argument, value)
            case Array():
                self._take_address(value, argument.name, argument.number)
            case Count():
                word = self.layout.words[argument.number]
                self._take_number(argument.name, value, argument.most, 801, word)
            case Pack():
                self._take_pack(argument, value)

    def _take_size(self, size: Size, value: str) -> None:
        self._take_number(size.name, value, size.most, 804, self.layout.cells + size.cell)

    def _take_number(self, name: str, value: str, most: int | None, code: int, word: int) -> None:
        """Refuse a number that is not between 0 and a bound, if there is one."""
        self.store("i64", value, word)
        self.refuse_if(self.op(f"icmp slt i64 {value}, 0"), code, f"`{name}` is negative: ", word)
        if most is not None:
            above = self.op(f"icmp sgt i64 {value}, {most}")
            self.refuse_if(above, code, f"`{name}` is more than {most}: ", word)

    def _take_address(self, value: str, name: str, number: int) -> None:
        self.refuse_if(self.op(f"icmp eq ptr {value}, null"), 801, f"`{name}` is NULL")
        self.store("ptr", value, self.layout.addresses + number)

    def _take_pack(self, pack: Pack, value: str) -> None:
        self.refuse_if(self.op(f"icmp eq ptr {value}, null"), 801, f"`{pack.name}` is NULL")
        for k, number in enumerate(pack.numbers):
            if pack.count is None:
                self._take_item(pack, value, k, number)
                continue
            there = self.op(f"icmp sgt i64 {self.names[pack.count]}, {k}")
            _, absent = self.fork(there)
            self._take_item(pack, value, k, number)
            self.line(f"  br label %{absent}.end\n{absent}:")
            zeros = self.load("ptr", self.layout.zeros)
            self.store("ptr", zeros, self.layout.addresses + number)
            self.line(f"  br label %{absent}.end\n{absent}.end:")

    def _take_item(self, pack: Pack, value: str, k: int, number: int) -> None:
        place = self.op(f"getelementptr ptr, ptr {value}, i64 {k}")
        item = self.op(f"load ptr, ptr {place}, align 8")
        self._take_address(item, f"{pack.name}[{k}]", number)

    def _give(self, argument: Argument) -> None:
        value = self.names[argument]
        if not isinstance(argument, (Shape, Length)):
            return
        _, on = self.fork(self.op(f"icmp ne ptr {value}, null"))
        if isinstance(argument, Shape):
            for k, cell in enumerate(argument.cells):
                extent = self.load("i64", self.layout.cells + cell)
                place = self.op(f"getelementptr i64, ptr {value}, i64 {k}")
                self.line(f"  store i64 {extent}, ptr {place}, align 8")
        else:
            length = self.load(f"i{argument.bits}", self.layout.words[argument.number])
            if argument.bits < 64:
                length = self.op(f"sext i{argument.bits} {length} to i64")
            self.line(f"  store i64 {length}, ptr {value}, align 8")
        self.line(f"  br label %{on}\n{on}:")

    # --------------------------------------------------------------------- stages

    def _stage(self, name: str) -> None:
        """Run the steps of a stage and make its tests."""
        layout = self.layout
        if name in layout.stages:
            instance = layout.stages[name]
            loops = name == "main" and layout.has_loops
            if loops:
                self.store("i64", str(self.unit.loop_steps + 1), instance + threads.TURNS)
                self.store("i64", "0", instance + threads.RESUME)
            self.line(f"  call void @ricci_run(ptr {self.word(instance)})")
            if loops:
                left = self.load("i64", instance + threads.TURNS)
                message = f"the loops have not ended after {self.unit.loop_steps} steps"
                self.refuse_if(self.op(f"icmp slt i64 {left}, 1"), 806, message)
        always, recorded = layout.tests[name]
        self._check(f"@tests.{name}", always)
        if recorded:
            first, words = layout.records[name]
            records = self.word(first)
            some = self.op(f"call i1 @any(ptr {records}, i64 {words})")
            _, on = self.fork(some)
            self._check(f"@records.{name}", recorded)
            self.line(f"  br label %{on}\n{on}:")

    def _check(self, rows: str, count: int) -> None:
        if count:
            code = self.op(f"call i32 @check(ptr %m, ptr {rows}, i64 {count})")
            _, on = self.fork(self.op(f"icmp ne i32 {code}, 0"))
            self.line(f"  ret i32 {code}\n{on}:")

    def _turn_states(self) -> None:
        """Let the new values of variables be the old ones of the next call."""
        first = self.layout.addresses
        for state in self.unit.states:
            old, new = self.load("ptr", first + state.input), self.load("ptr", first + state.output)
            self.store("ptr", new, first + state.input)
            self.store("ptr", old, first + state.output)
