"""Writes the LLVM text of one function.

Instructions without effects go through `Builder.pure`: equal ones are written once, and each is
placed in the outermost loop in which its operands exist. So the text is already free of
common subexpressions and loop invariants, and machine code can be made from it without
LLVM's optimisation passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field

from ...records import dataclass
from .order import abreast

Lines = list["str | Lines"]


@dataclass(eq=False)
class Scope:
    """The body of a loop or of a conditional: the values in it die at its end."""

    parent: Scope | None
    certain: bool
    """Whether the scope runs at least once whenever its parent does."""
    before: Lines = field(default_factory=list)
    """Text in the parent, directly ahead of the scope: where invariants go."""
    values: dict[str, str] = field(default_factory=dict)
    depth: int = 0

    def __post_init__(self) -> None:
        self.depth = 0 if self.parent is None else self.parent.depth + 1


@dataclass(eq=False)
class Loop:
    """A loop being written: its index and the values that it carries from turn to turn."""

    index: str
    values: list[str]
    following: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    """The carried values after the loop; filled when it ends."""

    def carry(self, values: Sequence[str]) -> None:
        """Give the carried values of the next turn; once, in the loop's body."""
        self.following = list(values)


class Builder:
    """One function: fresh names, blocks, loops, common values.

    A value is the text of an operand: `%v7`, or a literal such as `3` or `1.0`.
    """

    def __init__(
        self, name: str, parameters: str, result: str = "void", attributes: str = ""
    ) -> None:
        self.head = f"define {result} @{name}({parameters}) {attributes}".rstrip()
        self.declarations: set[str] = set()
        self.scales = False
        """Whether the processor has an instruction for products with powers of two (AVX-512)."""
        self.rounds = False
        """Whether an instruction may round to bfloat16 that takes subnormal numbers for zero (as
        products of such numbers do)."""
        self.root = Scope(None, True)
        self.scope = self.root
        self.block = "entry"
        self._lines: Lines = []
        self._text = self._lines
        self._first: Lines = []
        self._owner: dict[str, Scope] = {}
        self._count = 0

    # ------------------------------------------------------------ instructions

    def name(self, hint: str = "v") -> str:
        """A fresh name, without its `%`."""
        self._count += 1
        return f"{hint}{self._count}"

    def line(self, text: str) -> None:
        """An instruction without a result, here."""
        self._lines.append(f"  {text}")

    def op(self, text: str) -> str:
        """An instruction with a result, here and nowhere else."""
        value = f"%{self.name()}"
        self._lines.append(f"  {value} = {text}")
        self._owner[value] = self.scope
        return value

    def pure(self, text: str, *operands: str, floor: Scope | None = None) -> str:
        """The value of an instruction that depends on its operands alone.

        `floor` is the outermost scope that it may move to, besides where its operands are.
        """
        scope = self.root if floor is None else floor
        for operand in operands:
            owner = self._owner.get(operand)
            if owner is not None and owner.depth > scope.depth:
                scope = owner
        known = self._find(text, scope)
        if known is not None:
            return known
        value = f"%{self.name()}"
        self._place(scope).append(f"  {value} = {text}")
        self._owner[value] = scope
        scope.values[text] = value
        return value

    def reserve(self, text: str) -> str:
        """The value of an instruction at the very start of the function (an alloca)."""
        if text not in self.root.values:
            value = f"%{self.name()}"
            self._first.append(f"  {value} = {text}")
            self._owner[value] = self.root
            self.root.values[text] = value
        return self.root.values[text]

    def zeros(self, bytes: int) -> str:
        """Memory that holds zeros, which nobody may write to."""
        text = f"alloca <{bytes} x i8>, align 64"
        known = text in self.root.values
        place = self.reserve(text)
        if not known:
            store = f"store <{bytes} x i8> zeroinitializer, ptr {place}, align 64"
            self._first.append(f"  {store}")
        return place

    def depth(self, value: str) -> int:
        """How many scopes are around the definition of a value; 0 for literals."""
        owner = self._owner.get(value)
        return 0 if owner is None else owner.depth

    def load(self, type: str, pointer: str, align: int, stable: bool) -> str:
        """Read memory; a `stable` place is not written while the function runs."""
        text = f"load {type}, ptr {pointer}, align {align}"
        return self.stable(text, pointer) if stable else self.op(text)

    def stable(self, text: str, *operands: str) -> str:
        """The value of a read that always gives the same and is safe wherever this point is
        reached."""
        floor = self.scope
        while floor.certain and floor.parent is not None:
            floor = floor.parent
        return self.pure(text, *operands, floor=floor)

    def _find(self, text: str, scope: Scope) -> str | None:
        """A value with this text that exists here; it stands at `scope` or, if that came
        about under another floor, in a scope between."""
        at: Scope | None = self.scope
        while at is not None and at.depth >= scope.depth:
            if text in at.values:
                return at.values[text]
            at = at.parent
        return None

    def _place(self, scope: Scope) -> Lines:
        if scope is self.scope:
            return self._lines
        at = self.scope
        while at.parent is not scope:
            assert at.parent is not None, "a value of a scope that has ended"
            at = at.parent
        return at.before

    def call(self, result: str, function: str, *arguments: str) -> str:
        """The value of a function without effects; `arguments` are `type value`."""
        pairs = [split_operand(a) for a in arguments]
        types = ", ".join(type for type, _ in pairs)
        self.declare(f"declare {result} @{function}({types})")
        operands = [value for _, value in pairs]
        return self.pure(f"call {result} @{function}({', '.join(arguments)})", *operands)

    def declare(self, text: str) -> None:
        """A declaration that the module needs."""
        self.declarations.add(text)

    # ------------------------------------------------------------------ blocks

    def enter(self, label: str) -> None:
        """Begin a block; the one before it must have ended with a jump."""
        self._lines.append(f"{label}:")
        self.block = label

    @contextmanager
    def inside(self, certain: bool) -> Iterator[Scope]:
        """Write a scope; the caller enters its blocks."""
        scope = Scope(self.scope, certain)
        outer = self.scope
        self._lines.append(scope.before)
        self.scope = scope
        yield scope
        self.scope = outer

    @contextmanager
    def loop(
        self,
        begin: str | int,
        end: str | int,
        step: str | int = 1,
        carried: Sequence[tuple[str, str]] = (),
    ) -> Iterator[Loop]:
        """A loop over i64 `begin <= index < end`.

        `carried` lists type and first value of what goes from turn to turn; the body gives
        the next values with `Loop.carry`, and `Loop.results` holds the last after it.
        """
        certain = isinstance(begin, int) and isinstance(end, int) and begin < end
        label = self.name("loop")
        body, latch, done = f"{label}.body", f"{label}.latch", f"{label}.done"
        outside = self.block
        with ExitStack() as scopes:
            if not certain:  # invariants of the loop may stand behind the test
                scope = scopes.enter_context(self.inside(False))
                some = self.op(f"icmp slt i64 {begin}, {end}")
                self.line(f"br i1 {some}, label %{label}.some, label %{done}")
                self.enter(f"{label}.some")
            scope = scopes.enter_context(self.inside(True))
            source = self.block
            self.line(f"br label %{body}")
            self.enter(body)
            phis: Lines = []
            self._lines.append(phis)
            loop = Loop(f"%{self.name('i')}", [f"%{self.name()}" for _ in carried])
            for value in [loop.index, *loop.values]:
                self._owner[value] = scope
            yield loop
            assert len(loop.following) == len(carried), "the body does not give the carried values"
            self.line(f"br label %{latch}")
            self.enter(latch)
            following = self.op(f"add nuw nsw i64 {loop.index}, {step}")
            more = self.op(f"icmp slt i64 {following}, {end}")
            self.line(f"br i1 {more}, label %{body}, label %{done}")
            phis.append(
                f"  {loop.index} = phi i64 [ {begin}, %{source} ], [ {following}, %{latch} ]"
            )
            for (type, first), value, then in zip(
                carried, loop.values, loop.following, strict=True
            ):
                phis.append(f"  {value} = phi {type} [ {first}, %{source} ], [ {then}, %{latch} ]")
        self.enter(done)
        arms = [(latch, loop.following)]
        if not certain:
            arms.append((outside, [first for _, first in carried]))
        for position, (type, _) in enumerate(carried):
            ways = ", ".join(f"[ {values[position]}, %{label} ]" for label, values in arms)
            loop.results.append(self.op(f"phi {type} {ways}"))

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """A scope that runs if the i1 `condition` is true."""
        label = self.name("if")
        with self.inside(certain=False):
            self.line(f"br i1 {condition}, label %{label}.then, label %{label}.end")
            self.enter(f"{label}.then")
            yield
            self.line(f"br label %{label}.end")
        self.enter(f"{label}.end")

    def branches(self, condition: str) -> Branches:
        """Two scopes, one of which runs: write `then`, then `other`, then `merge`."""
        return Branches(self, condition)

    # -------------------------------------------------------------- whole text

    def text(self) -> str:
        """The function's text; its last block must have ended."""
        out = [self.head + " {", "entry:"]
        _flatten(self._first, out)
        _flatten(self._text, out)
        out.append("}")
        return "\n".join(abreast(out)) + "\n"


class Branches:
    """The two arms of a conditional, written one after the other."""

    def __init__(self, builder: Builder, condition: str) -> None:
        self._builder = builder
        self._label = builder.name("either")
        self._condition = condition
        self._before: Lines = []
        self._results: list[tuple[str, list[str]]] = []

    @contextmanager
    def then(self) -> Iterator[None]:
        b, label = self._builder, self._label
        with b.inside(certain=False) as scope:
            self._before = scope.before
            b.line(f"br i1 {self._condition}, label %{label}.then, label %{label}.else")
            b.enter(f"{label}.then")
            yield
            b.line(f"br label %{label}.end")

    @contextmanager
    def other(self) -> Iterator[None]:
        b, label = self._builder, self._label
        b.enter(f"{label}.else")
        with b.inside(certain=False) as scope:
            scope.before = self._before  # what leaves this arm must stand ahead of both
            yield
            b.line(f"br label %{label}.end")
        b.enter(f"{label}.end")

    def give(self, values: Sequence[str]) -> None:
        """The values that this arm hands on; as its last statement."""
        self._results.append((self._builder.block, list(values)))

    def merge(self, types: Sequence[str]) -> list[str]:
        """After both arms: what the one that ran gave."""
        out = []
        for position, type in enumerate(types):
            ways = ", ".join(f"[ {values[position]}, %{at} ]" for at, values in self._results)
            out.append(self._builder.op(f"phi {type} {ways}"))
        return out


def split_operand(text: str) -> tuple[str, str]:
    """`<4 x float> %v` as type and value."""
    at = text.index("> ") + 1 if text[0] == "<" else text.index(" ")
    return text[:at], text[at + 1 :]


def _flatten(lines: Lines, out: list[str]) -> None:
    for line in lines:
        if isinstance(line, str):
            out.append(line)
        else:
            _flatten(line, out)
