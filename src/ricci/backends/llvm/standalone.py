"""A program as one object file that runs without Python: its kernels, its data, functions of C.

The functions are that of `threads` which runs steps, those of `standalone_text`, and one that takes
the arguments of a call (`standalone_call`). What a call may fail with is data: tests of words of
the model's memory, each with a code and a message.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import field

import numpy as np

from ...records import dataclass
from ...source import NOWHERE
from . import half, threads
from . import standalone_check as check
from . import standalone_parts as extra
from . import standalone_text as texts
from .elf import undefined_symbols
from .jit import compile_object, module_text
from .standalone_call import Layout, write_call
from .standalone_memory import ALIGNMENT, NO_PLACE, Blocks, Memory, Place, aligned, lay_out
from .standalone_unit import UNSET, Argument, Array, Built, Pack, Test, Unit
from .steps import Site, Slot, Step
from .target import Target

_MAGIC = b"ricci weights 1\n"
_HEAD_BYTES = 64


def build_object(unit: Unit, target: Target) -> Built:
    """The object file of a unit."""
    writer = _Writer(unit, target)
    text = writer.text()
    code = compile_object(text, target)
    if any(name.encode() in code for name in half.NAMES):
        text += half.ROUTINES.replace("define ", "define weak hidden ")
        code = compile_object(text, target)
    weights = writer.head + writer.data if unit.separate else None
    return Built(code, weights, undefined_symbols(code))


@dataclass
class _Writer:
    unit: Unit
    target: Target
    memory: Memory = field(default_factory=Memory)
    constants: dict[bytes, str] = field(default_factory=dict)
    """Names of constants, by their bytes."""

    def __post_init__(self) -> None:
        image = self.unit.image
        self.is_prepared = all(("kept", k) in self.unit.data for k in range(len(image.kept)))
        self.steps: dict[str, Sequence[Step]] = {
            "before": self.unit.before.steps,
            "main": image.steps,
            "after": self.unit.after.steps,
            "explain": self.unit.explain.steps,
            "prepare": () if self.is_prepared else image.prepare,
        }
        self._lay_out()

    # --------------------------------------------------------------------- memory

    def _lay_out(self) -> None:
        m, unit = self.memory, self.unit
        self.raw, self.file, self.started = (m.reserve(1) for _ in range(3))
        self.message = m.reserve(texts.MESSAGE_BYTES // 8)
        self._lay_out_records()
        self._lay_out_pool()
        self.cells = m.reserve(unit.cells)
        self._lay_out_data()
        count = len(unit.image.inputs) + len(unit.image.outputs)
        self.addresses, io = m.reserve(count), m.reserve(count)
        for k in range(count):
            m.set(io + k, m.own(self.addresses + k) + -NO_PLACE)
        self._lay_out_hidden()
        self._lay_out_states()
        self.zeros = m.reserve(1)
        m.set(self.zeros, m.block(unit.zeros))
        arena = m.block(unit.image.arena)
        self.stride = aligned(
            max((s.scratch for p in self.steps.values() for s in p), default=0), 128
        )
        scratch = m.block(0)
        blocks = Blocks(
            arena, scratch, self.stride, self.cells, io, len(unit.image.inputs), self.fixed
        )
        self.stages = {
            name: lay_out(m, steps, blocks, self.records[name][0])
            for name, steps in self.steps.items()
            if steps
        }
        m.reserve(0, 8)

    def _lay_out_records(self) -> None:
        """The error records of all stages, one after another; one more for each."""
        m = self.memory
        self.records: dict[str, tuple[int, int]] = {}
        for name, steps in self.steps.items():
            words = 4 * sum(bool(s.sites) for s in steps)
            self.records[name] = m.reserve(words + 4), words
        self.first_record = next(iter(self.records.values()))[0]
        self.record_words = len(m.words) - self.first_record

    def _lay_out_pool(self) -> None:
        m, count = self.memory, self.unit.threads - 1
        if count:
            self.pool = m.reserve(threads.POOL_WORDS, 8)
            self.workers = m.reserve(threads.WORKER_WORDS * count, 8)
            self.handles = m.reserve(count)
            m.set(self.pool + threads.WORKERS, m.own(self.workers))

    def _lay_out_data(self) -> None:
        """The blocks that steps read, and those that are prepared when a model is made."""
        unit, parts, size = self.unit, [], 0
        self.fixed: dict[tuple[str, int], Place] = {}
        if not self.is_prepared:
            for number, length in enumerate(unit.image.kept):
                self.fixed["kept", number] = self.memory.block(length)
        for key in dict.fromkeys((s.kind, s.number) for s in self._slots()):
            if key in unit.data and key not in self.fixed:
                self.fixed[key] = Place("data", size)
                parts.append(_padded(unit.data[key]))
                size += len(parts[-1])
        for state in unit.states:
            self.fixed["first", state.input] = Place("data", size)
            parts.append(_padded(state.first))
            size += len(parts[-1])
        self.data = b"".join(parts) + bytes(64)
        digest = hashlib.sha256(self.data).digest()
        self.head = (_MAGIC + digest + struct.pack("<q", len(self.data))).ljust(_HEAD_BYTES, b"\0")

    def _slots(self) -> Iterable[Slot]:
        return (slot for steps in self.steps.values() for step in steps for slot in step.slots)

    def _lay_out_hidden(self) -> None:
        """Words for inputs and outputs that are lengths of packs."""
        m = self.memory
        shown = {n for a in self.unit.arguments for n in _numbers(a)}
        self.hidden: dict[int, int] = {}
        states = {n for s in self.unit.states for n in (s.input, s.output)}
        image = self.unit.image
        for number in range(len(image.inputs) + len(image.outputs)):
            if number not in shown | states:
                self.hidden[number] = m.reserve(1)
                m.set(self.addresses + number, m.own(self.hidden[number]))

    def _lay_out_states(self) -> None:
        m, states = self.memory, self.unit.states
        self.firsts = m.reserve(len(states))
        for k, state in enumerate(states):
            m.set(self.firsts + k, self.fixed["first", state.input])
            place = m.block(len(state.first))
            m.set(self.addresses + state.input, place)
            in_place = self.unit.image.states
            m.set(self.addresses + state.output, place if in_place else m.block(len(state.first)))

    # ----------------------------------------------------------------------- text

    def text(self) -> str:
        """The whole module."""
        machine = self.target.triple.partition("-")[0] if self.unit.threads > 1 else ""
        call = write_call(self.unit, self._layout(), self._message)
        tables = [self._tables(name) for name in self.steps]
        parts = [
            module_text(list(self.unit.codes.items()), self.target),
            threads.runtime_text(machine=machine),
            texts.filled("".join([texts.BASE, *self._optional()]), self._values()),
            call,
            *tables,
            self._globals(),
        ]
        text = _private("\n".join(parts), self.unit.prefix)
        return text if self.unit.separate else text + _bytes_global("data", self.data)

    def _optional(self) -> list[str]:
        """The texts that not every model needs."""
        chosen = [
            (bool(self.unit.states), extra.STATE),
            (self.unit.separate, extra.MAP),
            (self.unit.threads > 1, extra.WORKERS),
        ]
        return [check.check_text(self.target), *(text for needed, text in chosen if needed)]

    def _values(self) -> dict[str, object]:
        """What the words of the texts stand for; those of parts first."""
        unit = self.unit
        several = unit.threads > 1
        pointers = "ptr %out, i32 %threads" + (", ptr %weights" if unit.separate else "")
        values: dict[str, object] = {
            "CREATE": pointers,
            "DATA": extra.MAPPED if unit.separate else extra.EMBEDDED,
            "UNMAP": extra.UNMAP if unit.separate else "",
            "CHECK": check.REFUSE if check.is_checked(self.target) else "",
            "PREPARE": extra.PREPARE if "prepare" in self.stages else "",
            "START": extra.START if several else "",
            "STOP": extra.STOP if several else "",
            "RESET": f"  call void @{unit.prefix}_reset(ptr %m)" if unit.states else "",
            "EXPLAIN": extra.EXPLAIN if "explain" in self.stages else "",
            "P": unit.prefix,
            "MESSAGE": self.message,
            "MESSAGE_LAST": texts.MESSAGE_BYTES - 1,
            "RECORDS": self.first_record,
            "RECORDS_BYTES": 8 * self.record_words,
            "UNSET": UNSET,
            "STRIDE": self.stride,
            "MEMORY": self.memory.bytes + self.memory.rest + 2 * _HEAD_BYTES,
            "PLACES": len(self.memory.places),
            "THREADS": unit.threads,
            "TEMPLATE_BYTES": 8 * len(self.memory.words),
            "RAW": self.raw,
            "FILE": self.file,
            "FILE_BYTES": _HEAD_BYTES + len(self.data),
            "STARTED": self.started,
            "STATES": len(unit.states),
            "PREPARE_TESTS": sum(len(s.sites) for s in self.steps["prepare"]),
            "CALLER_CPU": threads.CALLER_CPU,
            "WORKER_COUNT": threads.WORKER_COUNT,
        }
        for name, stage in self.stages.items():
            values[f"{name.upper()}_STAGE"] = stage.instance
        if several:
            values |= {"POOL": self.pool, "WORKERS": self.workers, "HANDLES": self.handles}
            values["OWN_POOL"] = self.stages["main"].instance + threads.OWN_POOL
        return values

    def _layout(self) -> Layout:
        tests = {
            name: (len(self._tests_of(name)), sum(len(s.sites) for s in steps))
            for name, steps in self.steps.items()
        }
        return Layout(
            self.message, self.cells, self.addresses, self.hidden, self.zeros,
            {name: stage.instance for name, stage in self.stages.items()}, self.records, tests,
            any(s.kind == "back" for s in self.steps["main"]),
        )  # fmt: skip

    def _tests_of(self, name: str) -> Sequence[Test]:
        given = {"before": self.unit.before, "after": self.unit.after}
        return self.unit.tests if name == "main" else given[name].tests if name in given else ()

    def _tables(self, name: str) -> str:
        """The tables of the tests of a stage: those of cells, those of error records."""
        tests = [self._row(t) for t in self._tests_of(name)]
        sites: list[list[object]] = []
        at = self.records[name][0]
        for step in self.steps[name]:
            for number, site in enumerate(step.sites, 1):
                code, parts = _failure(step, site, at)
                sites.append([0, at, number, code, self._message(parts)])
            at += 4 * bool(step.sites)
        return _table(f"tests.{name}", tests) + _table(f"records.{name}", sites)

    def _row(self, test: Test) -> list[object]:
        other = test.other + (self.cells if test.kind in ("unlike", "above") else 0)
        parts = [p if isinstance(p, str) else self.cells + p for p in test.message]
        kind = texts.TEST_KINDS.index(test.kind)
        return [kind, self.cells + test.cell, other, test.code, self._message(parts)]

    def _message(self, parts: Sequence[str | int]) -> str:
        """The name of a constant with a message; numbers in it are those of words."""
        out = bytearray()
        for part in parts:
            if isinstance(part, int):
                out += bytes([texts.NUMBER]) + part.to_bytes(4, "little")
            else:
                out += _visible(part).encode("utf-8", "replace")
        return self._bytes(bytes(out) + b"\0")

    def _bytes(self, data: bytes) -> str:
        return "@" + self.constants.setdefault(data, f"text.{len(self.constants)}")

    def _globals(self) -> str:
        """The constants: what a new model is a copy of, the data, the texts."""
        m = self.memory
        places = [[2 * at + is_data, offset] for at, is_data, offset in m.relocations()]
        states: list[list[object]] = [
            [self._bytes(s.name.encode() + b"\0"), len(s.first), self.addresses + s.input,
             self.firsts + k]
            for k, s in enumerate(self.unit.states)
        ]  # fmt: skip
        template = [[word] for word in m.words]
        out = [_table("template", template), _table("places", places), _table("states", states)]
        named = {"no_model": b"the model was not made\0"}
        if self.unit.states:
            named["wrong_bytes"] = b"the variable has another number of bytes\0"
            named["no_state"] = b"there is no variable of this name\0"
        named |= {"head": self.head} if self.unit.separate else {}
        out += [_bytes_global(name, data) for name, data in named.items()]
        out += [_bytes_global(name, data) for data, name in self.constants.items()]
        return "".join(out)


def _numbers(argument: Argument) -> tuple[int, ...]:
    """The inputs and outputs whose addresses an argument gives."""
    match argument:
        case Array():
            return (argument.number,)
        case Pack():
            return argument.numbers
        case _:
            return ()


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


def _visible(text: str) -> str:
    """Text of one line, without the bytes that stand for numbers."""
    return "".join(c if c >= " " else " " for c in text)


def _failure(step: Step, site: Site, record: int) -> tuple[int, list[str | int]]:
    """The code and the message of what an error record says."""
    where = f" in `{step.name}`" + ("" if site.span is NOWHERE else f" at {site.span}")
    if site.dimension < 0:
        return 803, ["division of an integer by zero", where]
    place = f" is out of range for dimension {site.dimension} of `{site.tensor}`, whose extent is "
    return 802, ["index ", record + 1, place, record + 2, where]


def _table(name: str, rows: Sequence[Sequence[object]]) -> str:
    """A constant with rows of words: numbers, or names of constants."""
    words = [f"i64 {_word(x)}" for row in rows for x in row]
    body = f"[{', '.join(words)}]" if words else "zeroinitializer"
    return f"@{name} = internal constant [{len(words)} x i64] {body}, align 64\n"


def _word(value: object) -> object:
    is_name = isinstance(value, str) and value.startswith("@")
    return f"ptrtoint (ptr {value} to i64)" if is_name else value


def _bytes_global(name: str, data: bytes) -> str:
    """A constant of bytes."""
    digits = np.frombuffer(data.hex().upper().encode(), np.uint8).reshape(-1, 2)
    text = np.full((len(data), 3), ord("\\"), np.uint8)
    text[:, 1:] = digits
    body = text.tobytes().decode("ascii")
    return f'@{name} = internal constant [{len(data)} x i8] c"{body}", align 64\n'


def _private(text: str, prefix: str) -> str:
    """A module whose functions are its own, but those that begin with the prefix; what is declared
    is so once."""
    lines = text.split("\n")
    text = "\n".join(x for x in lines[1:] if not x.startswith("declare "))
    declared = dict.fromkeys(x for x in lines if x.startswith("declare "))
    text = "\n".join([lines[0], *declared, text])
    return re.sub(rf"^define (?!internal |weak )(?=[^\n@]*@(?!{prefix}_))", "define internal ",
                  text, flags=re.M)  # fmt: skip
