"""Random programs at random dims, against loops in plain Python.

    python -m tests.eintup.random_programs [--cases 5000] [--seed 0] [--print]

Each case is run by the compiler and by the interpreter, and each third one is compiled for open
sizes too; all are compared with `brute`, cell by cell. What differs is printed with its seed, and
the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import numpy as np

from ricci.diagnostics import Error, Report
from ricci.dtypes import DType
from ricci.frontends.eintup import syntax as s
from ricci.frontends.eintup.check import check_file
from ricci.frontends.eintup.extents import Components
from ricci.frontends.eintup.lower import lower_program, lower_shape, needs_data
from ricci.frontends.eintup.parser import parse_file
from ricci.frontends.eintup.program import Program
from ricci.frontends.eintup.uses import walk
from ricci.ir import nodes as ir
from ricci.ir.verify import verify_graph
from ricci.runtime.executable import compile_graph
from ricci.source import Source

from .brute import Array, evaluate

TARGETS = ("cpu", "interpreter")
OPEN = "cpu, open sizes"
"""Compiled for all sizes that the shapes of given arrays tell."""
MOST = 4000
"""Most combinations of a statement."""


@dataclass
class Held:
    """An array that a program has: what it holds, and its slots: their ranks and their indices."""

    kind: str
    slots: list[int]
    items: list[str]


@dataclass
class Case:
    text: str
    dims: dict[str, tuple[int, ...]]
    given: dict[str, Array]
    seed: int


# ------------------------------------------------------------------- generation


@dataclass
class Writer:
    """Writes one program; `random` decides."""

    random: Random
    ranks: dict[str, int] = field(default_factory=dict)
    dims: dict[str, tuple[int, ...]] = field(default_factory=dict)
    arrays: dict[str, Held] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    given: dict[str, Array] = field(default_factory=dict)
    tables: dict[str, tuple[list[str], int, int]] = field(default_factory=dict)
    """Arrays of indices: the eintups of their other slots, the slot of `:`, the components."""
    budget: int = 0

    def write(self, seed: int) -> Case:
        self._eintups()
        for number in range(self.random.randint(1, 3)):
            self._input(f"X{number}")
        for number in range(self.random.randint(0, 2)):
            self._table(f"I{number}")
        for number in range(self.random.randint(1, 4)):
            self._statement(f"R{number}")
        return Case("\n".join(self.lines) + self._ending(), self.dims, self.given, seed)

    def _ending(self) -> str:
        """The constraints, which fix all ranks and dims."""
        used = [n for n in self.ranks if any(_uses(line, n) for line in self.lines)]
        self.dims = {n: self.dims[n] for n in used}
        lines = [f"RANK({n}) = {self.ranks[n]}" for n in used]
        return "\n\n" + "\n".join(lines) + "\n"

    def _eintups(self) -> None:
        for name in "abcde"[: self.random.randint(2, 5)]:
            rank = self.random.choices([0, 1, 2, 3], [1, 7, 3, 1])[0]
            self._add_eintup(name, tuple(self._extent() for _ in range(rank)))

    def _extent(self) -> int:
        return self.random.choices([0, 1, 2, 3, 4, 5, 7], [1, 3, 6, 6, 6, 3, 1])[0]

    def _add_eintup(self, name: str, dims: tuple[int, ...]) -> None:
        self.ranks[name], self.dims[name] = len(dims), dims

    def _names(self, most: int) -> list[str]:
        names = [n for n in self.ranks if not n.startswith("k")]
        chosen = self.random.sample(names, min(len(names), self.random.randint(1, most)))
        while np.prod([max(1, n) for c in chosen for n in self.dims[c]]) > 200:
            chosen.pop()
        return chosen or [min(names, key=lambda n: np.prod(self.dims[n]))]

    def _input(self, name: str) -> None:
        names = self._names(3)
        kind = self.random.choice(["int", "real"])
        low = self.random.randint(-4, 2)
        bounds = f"{low}, {low + self.random.randint(1, 8)}, {'INT' if kind == 'int' else 'FLOAT'}"
        self.lines.append(f"{name}[{', '.join(names)}] = RANDOM({bounds})")
        self.arrays[name] = Held(kind, [self.ranks[n] for n in names], names)
        if self.random.random() < 0.7:
            shape = [d for n in names for d in self.dims[n]]
            values = np.random.default_rng(self.random.randrange(2**32)).integers(-9, 10, shape)
            self.given[name] = values.astype(np.int32) if kind == "int" else values / 4

    def _table(self, name: str) -> None:
        """An array of integers that slices are taken from."""
        others = self._names(2)
        target = self.random.choice([n for n in self.ranks if not n.startswith("k")])
        count = self.ranks[target]
        coord = f"k{count}"
        if coord not in self.ranks:
            self._add_eintup(coord, (count,))
        slot = self.random.randint(0, len(others))
        names = [*others[:slot], coord, *others[slot:]]
        high = f"DIMS({target})[{coord}]"
        if self.random.random() < 0.5:
            high += f" + {self.random.randint(1, 2)}"
        low = self.random.choice([0, 0, -1])
        self.lines.append(f"{name}[{', '.join(names)}] = RANDOM({low}, {high}, INT)")
        self.arrays[name] = Held("int", [self.ranks[n] for n in names], names)
        self.tables[name] = (others, slot, count)
        empty = 0 in self.dims[target] and low == 0 and "+" not in high
        if empty or self.random.random() < 0.5:
            shape = [d for n in names for d in self.dims[n]]
            rng = np.random.default_rng(self.random.randrange(2**32))
            self.given[name] = rng.integers(-1, 5, shape).astype(np.int32)

    # --------------------------------------------------------------- statements

    def _statement(self, name: str) -> None:
        used: list[str] = []
        self.budget = MOST
        old = [n for n in self.arrays if n not in self.tables or self.random.random() < 0.2]
        if self.random.random() < 0.35:
            name = self.random.choice(old)
        is_new = name not in self.arrays
        held = None if is_new else self.arrays[name]
        operator = self._operator(held)
        bools = operator in ("and=", "or=")
        if held is None:
            slots = [self._rank() for _ in range(self.random.randint(1, 3))]
            items = [self._index(rank, 2, used, defining=True) for rank in slots]
        else:
            slots, items = held.slots, self._items(held, used)
        kind = "bool" if bools else self.random.choice(["int", "int", "real"])
        if held is not None and held.kind == "int":
            kind = "int"
        value = self._value(kind, 3, used)
        if kind == "real":
            value = self.random.choice([f"float({value})", f"{value} * 0.5", f"({value}) / 2"])
        self.lines.append(f"{name}[{', '.join(items)}] {operator} {value}")
        if held is None:
            self.arrays[name] = Held(kind, slots, items)

    def _operator(self, held: Held | None) -> str:
        if held is not None and held.kind == "bool":
            return self.random.choice(["and=", "or="])
        operators = ["=", "+=", "*=", "max=", "min="]
        if held is None:
            return self.random.choices([*operators, "and=", "or="], [10, 4, 1, 2, 2, 1, 1])[0]
        return self.random.choices(operators, [6, 4, 1, 2, 2])[0]

    def _rank(self) -> int:
        return self.random.choice(list(self.ranks.values()))

    # ------------------------------------------------------------------ indices

    def _eintup(self, rank: int, used: list[str]) -> str | None:
        """An eintup of a rank, if there is one that keeps the loops short."""
        names = [n for n in self.ranks if self.ranks[n] == rank]
        self.random.shuffle(names)
        return next((n for n in names if self._use(n, used)), None)

    def _index(self, rank: int, depth: int, used: list[str], defining: bool = False) -> str:
        """An index expression of a rank."""
        choice = self.random.random()
        if choice < 0.62 or depth <= 0:
            return self._eintup(rank, used) or f"DIMS({self._named(rank)})"
        if rank == 1 and choice < 0.68:
            return str(self.random.choice([0, 0, 1, 2, 3]))
        if rank == 1 and choice < 0.78:
            items = [self._index(self._rank(), depth - 1, used) for _ in range(2)]
            if not any("[" in i for i in items):
                return f"FLAT({', '.join(items)})"
        if choice < 0.88:
            found = self._slice(rank, depth, used)
            if found is not None and (not defining or self.random.random() < 0.3):
                return found
        return self._arithmetic(rank, depth, used, defining)

    def _slice(self, rank: int, depth: int, used: list[str]) -> str | None:
        tables = [n for n, (_, _, count) in self.tables.items() if count == rank]
        if not tables:
            return None
        name = self.random.choice(tables)
        others, slot, _ = self.tables[name]
        inner = [self._index(self.ranks[n], depth - 1, used) for n in others]
        return f"{name}[{', '.join([*inner[:slot], ':', *inner[slot:]])}]"

    def _arithmetic(self, rank: int, depth: int, used: list[str], defining: bool) -> str:
        operand = self._index(rank, depth - 1, used, defining)
        operator = self.random.choice(["+", "-", "*", "//", "//^", "%", "s-", "++", "--", "**"])
        if operator == "s-":
            return f"({self._constant(rank)} - {operand})"
        if operator in ("++", "--", "**"):
            other = self._index(rank, depth - 1, used, defining)
            return f"({operand} {operator[0]} {other})"
        constant = self._constant(rank, positive=operator in ("//", "//^", "%"))
        return f"({operand} {operator} {constant})"

    def _constant(self, rank: int, positive: bool = False) -> str:
        """A constant that goes with `rank` components."""
        names = [
            n
            for n, r in self.ranks.items()
            if r == rank and (not positive or 0 not in self.dims[n])
        ]
        choice = self.random.random()
        if names and choice < 0.3:
            return f"DIMS({self.random.choice(names)})"
        if choice < 0.4 and not positive:
            return f"RANK({self.random.choice(list(self.ranks))})"
        if choice < 0.5 and names and not positive:
            return f"(DIMS({self.random.choice(names)}) - 1)"
        return str(self.random.randint(1, 3))

    # ------------------------------------------------------------------- values

    def _value(self, kind: str, depth: int, used: list[str]) -> str:
        if kind == "bool":
            return self._condition(depth, used)
        choice = self.random.random()
        if depth == 0 or choice < 0.35:
            return self._leaf(kind, used)
        if choice < 0.75:
            operator = self.random.choice(["+", "-", "*", "*"])
            lhs, rhs = self._value(kind, depth - 1, used), self._value(kind, depth - 1, used)
            return f"({lhs} {operator} {rhs})"
        if choice < 0.83:
            operator = self.random.choice(["//", "%", "//^"])
            divisor = self.random.choice(["2", "3", "(-2)", "4"])
            return f"({self._value(kind, depth - 1, used)} {operator} {divisor})"
        if choice < 0.88:
            sides = [self._value(kind, depth - 1, used) for _ in range(2)]
            return f"where({self._condition(depth - 1, used)}, {sides[0]}, {sides[1]})"
        if choice < 0.94:
            sides = [self._value(kind, depth - 1, used) for _ in range(2)]
            return f"{self.random.choice(['min', 'max'])}({sides[0]}, {sides[1]})"
        return self._function(kind, depth, used)

    def _function(self, kind: str, depth: int, used: list[str]) -> str:
        inner = self._value(kind, depth - 1, used)
        if kind == "int":
            choices = [f"abs({inner})", f"sign({inner})", f"-{self._leaf(kind, used)}"]
            return self.random.choice([*choices, f"int({self._value('real', depth - 1, used)})"])
        whole = self._value("int", depth - 1, used)
        return self.random.choice(
            [
                f"({inner} / 2)",
                f"({whole} / 4)",
                f"float({whole})",
                f"floor({inner})",
                f"abs({inner})",
            ]
        )

    def _condition(self, depth: int, used: list[str]) -> str:
        if depth > 1 and self.random.random() < 0.3:
            sides = [self._condition(depth - 1, used) for _ in range(2)]
            if self.random.random() < 0.3:
                return f"not ({sides[0]})"
            return f"({sides[0]} {self.random.choice(['and', 'or'])} {sides[1]})"
        bools = [n for n, a in self.arrays.items() if a.kind == "bool"]
        if bools and self.random.random() < 0.3:
            return self._access(self.random.choice(bools), used)
        kind = self.random.choice(["int", "real"])
        sides = [self._value(kind, max(0, depth - 1), used) for _ in range(2)]
        operator = self.random.choice(["<", "<=", "==", "!=", ">=", ">"])
        return f"({sides[0]} {operator} {sides[1]})"

    def _leaf(self, kind: str, used: list[str]) -> str:
        fitting = [n for n, a in self.arrays.items() if a.kind == kind]
        if kind == "real" and self.random.random() < 0.2:
            fitting += [n for n, a in self.arrays.items() if a.kind in ("int", "bool")]
        choice = self.random.random()
        if fitting and choice < 0.8:
            return self._access(self.random.choice(fitting), used)
        if choice < 0.84:
            return f"RANK({self.random.choice(list(self.ranks))})"
        numbered = self._numbered(used) if choice < 0.89 else None
        if numbered is not None:
            return numbered
        if choice > 0.97:
            high = self.random.choice(["5", "RANK(a) + 1"])
            return f"RANDOM(-2, {high}, {'INT' if kind == 'int' else 'FLOAT'})"
        if kind == "int":
            return str(self.random.randint(0, 4))
        return self.random.choice(["0.5", "2.0", "1.25", "3"])

    def _numbered(self, used: list[str]) -> str | None:
        """`DIMS(list)[coord]` or `RANGE[e, coord]`."""
        at = self._eintup(1, used)
        if at is None:
            return None
        count = self.dims[at][0]
        if self.random.random() < 0.5:
            name = self._eintup(count, used)
            return None if name is None else f"RANGE[{name}, {at}]"
        names = self.random.sample(list(self.ranks), min(2, len(self.ranks)))
        return f"DIMS({', '.join(names)})[{at}]" if self._fits(names, count) else None

    def _fits(self, names: list[str], count: int) -> bool:
        return sum(self.ranks[n] for n in names) == count

    def _access(self, name: str, used: list[str]) -> str:
        return f"{name}[{', '.join(self._items(self.arrays[name], used))}]"

    def _items(self, held: Held, used: list[str]) -> list[str]:
        """Indices of an array: often those by which it was defined."""
        items = []
        for rank, item in zip(held.slots, held.items, strict=True):
            same = item in self.ranks and self.random.random() < 0.6 and self._use(item, used)
            items.append(item if same else self._index(rank, 2, used))
        return items

    def _named(self, rank: int) -> str:
        return self.random.choice([n for n, r in self.ranks.items() if r == rank])

    def _use(self, name: str, used: list[str]) -> bool:
        """Loop over an eintup too, unless that takes too long."""
        size = int(np.prod([max(1, n) for n in self.dims[name]]))
        if name not in used:
            if size > self.budget:
                return False
            used.append(name)
            self.budget //= size
        return True


def _uses(line: str, name: str) -> bool:
    return any(
        word == name
        for word in "".join(c if c.isalnum() or c == "_" else " " for c in line).split()
    )


def make_case(seed: int) -> Case:
    return Writer(Random(seed)).write(seed)


# ---------------------------------------------------------------------- running


def parse(text: str) -> Program:
    report = Report()
    file = parse_file(Source("random.et", text), report)
    report.raise_errors()
    program = check_file(file, report)
    report.raise_errors()
    return program


def run(case: Case, target: str, program: Program) -> dict[str, Array]:
    """The final values of all arrays."""
    dims: dict[str, Components] = {n: tuple(map(ir.integer, v)) for n, v in case.dims.items()}
    if target == OPEN:
        dims |= {n: _symbols(n, case) for n in _told(case, program)}
    given = {n: DType.of(a.dtype) for n, a in case.given.items()}
    shapes: dict[str, tuple[int, ...]] = {}
    for array in needs_data(program):
        graph = lower_shape(program, array.name, dims, given, shapes=shapes)
        (shape,) = call(graph, case, target)
        shapes[array.name] = tuple(shape.tolist())
    graph = lower_program(program, dims, given, list(program.arrays), shapes=shapes)
    return dict(zip(program.arrays, call(graph, case, target), strict=True))


def _told(case: Case, program: Program) -> list[str]:
    """The eintups whose dims the shapes of given arrays tell; ranks stay what they are."""
    slots = [i for n in case.given for i in program.arrays[n].signature]
    names = dict.fromkeys(i.name for i in slots if isinstance(i, s.Eintup))
    fixed = [
        program.arrays[n.array.name].signature[n.items.index(None)]
        for x in program.file.statements
        for n in walk(x)
        if isinstance(n, s.Slice)
    ]
    return [n for n in names if s.Eintup(n) not in fixed]


def _symbols(name: str, case: Case) -> Components:
    sizes = enumerate(case.dims[name])
    return tuple(ir.Symbol(f"D_{name}{k}", ir.integer(max(9, n))) for k, n in sizes)


def call(graph: ir.Graph, case: Case, target: str) -> list[Array]:
    verify_graph(graph)
    seed = np.array(case.seed, np.uint64)
    arguments = [case.given.get(p.name, seed) for p in graph.inputs]
    result = compile_graph(graph, target=target.removesuffix(", open sizes"), threads=1)(*arguments)
    return list(result) if isinstance(result, tuple) else [result]


def differences(case: Case, counts: Counter[str] | None = None) -> list[str]:
    """What the executors compute otherwise than the loops."""
    program = parse(case.text)
    with np.errstate(all="ignore"):
        expected = evaluate(program.file.statements, case.dims, case.given, case.seed)
        found = []
        if counts is not None:
            results = [a for n, a in expected.items() if n.startswith("R")]
            counts["results"] += len(results)
            counts["not zero"] += sum(bool(a.any()) for a in results)
        for target in (*TARGETS, *[OPEN] * (case.seed % 3 == 0)):
            for name, actual in run(case, target, program).items():
                if not is_same(actual, expected[name]):
                    found.append(f"{target}: {name} is\n{actual}\nnot\n{expected[name]}")
    return found


def is_same(actual: Array, expected: Array, tolerance: float = 1e-12) -> bool:
    if actual.shape != expected.shape:
        return False
    if actual.dtype.kind != "f":
        return bool(np.array_equal(actual, expected))
    scale = float(np.abs(expected).max(initial=1.0))
    return bool(np.allclose(actual, expected, rtol=0, atol=tolerance * scale, equal_nan=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--print", action="store_true", help="print the case of the seed, no more")
    options = parser.parse_args()
    if options.print:
        case = make_case(options.seed)
        print(f"{case.text}\n{case.dims}\n{case.given}")
        return 0
    wrong, began = 0, time.perf_counter()
    counts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.cases):
        case = make_case(seed)
        try:
            found = differences(case, counts)
        except Error as problem:
            found = [str(problem)]
        except Exception as problem:
            found = [f"{type(problem).__name__}: {problem}"]
        if found:
            wrong += 1
            print(f"--- seed {seed}\n{case.text}{case.dims}\n" + "\n".join(found), flush=True)
    spent = time.perf_counter() - began
    print(f"{options.cases} programs, {wrong} wrong, {spent:.0f} s {dict(counts)}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
