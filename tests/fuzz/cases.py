"""A case for every seed: `make_case(kind, seed)` gives the same data each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from . import et_edits, tc_edits
from .corpus import Program
from .edits import damaged
from .files import PATHS, make_files
from .run import Case
from .texts import Text
from .texts import damaged as damaged_text
from .values import SCALARS, make_value

STEPS = {"draft": 0.05, "later": 0.05, "sknd": 0.3, "loops": 0.3, "save": 0.2}
"""What is done with a text or its graph besides, and how often."""

BATCH = 10
"""Random operators that are compiled together, or programs of one case."""

BATCHES = ("lower", "tc_programs", "et_programs")
"""The kinds that make batches."""

COMMANDS = [
    ["check", "PATH"], ["show", "PATH", "--stage", "ir"], ["show", "PATH", "--stage", "sknd"],
    ["fmt", "PATH"], ["convert", "PATH", "-"], ["show", "PATH", "--graphs"], ["show", "PATH"],
    ["run", "PATH", "--random", "0", "--target", "interpreter", "--set", "N=3"],
]  # fmt: skip

ET_COMMANDS = [
    ["show", "PATH", "--stage", "explain", "--json"], ["show", "PATH", "--stage", "ir",
     "--attrib", "RANK(a)=1"], ["convert", "PATH", "-", "--attrib", "RANK(a)=2"],
]  # fmt: skip

Make = Callable[[random.Random, Sequence[Program]], Case]


def make_case(kind: str, seed: int, programs: Sequence[Program]) -> Case:
    """The case of a kind and a seed; of `BATCHES`, of several seeds."""
    if kind in BATCHES:
        return {"kind": kind, "seeds": list(range(seed * BATCH, (seed + 1) * BATCH))}
    return {"kind": kind, **MAKERS[kind](random.Random(f"{kind} {seed}"), programs)}


def _program(rng: random.Random, programs: Sequence[Program]) -> Case:
    program, text = damaged(programs, rng)
    steps = [step for step, chance in STEPS.items() if rng.random() < chance]
    return {**_choices(program), "text": text, "steps": steps}


def _choices(program: Program) -> Case:
    """What is given beside the text."""
    case: Case = {}
    if program.attribs:
        case["attribs"] = repr(dict(program.attribs))
    if program.types:
        case["types"] = repr(dict(program.types))
    if program.graph:
        case["graph"] = program.graph
    return case


def _attributes(rng: random.Random, programs: Sequence[Program]) -> Case:
    """Values for the attributes that the text declares, and for some that it does not."""
    text = rng.choice(_with_attributes(programs)).text
    if rng.random() < 0.2:
        text = damaged([Program("", text)], rng)[1]
    names = sorted({"n", "a", *_declared(text)})
    given = {rng.choice(names): make_value(rng) for _ in range(rng.choice([0, 1, 1, 2, 3, 6]))}
    items = [f"{name!r}: {value}" for name, value in given.items()]
    if rng.random() < 0.03:
        items.append(f"{rng.choice(['0', 'None', '()', repr('x' * 500)])}: {rng.choice(SCALARS)}")
    case: Case = {"text": text, "attribs": "{" + ", ".join(items) + "}"}
    if rng.random() < 0.02:
        case["attribs"] = rng.choice(SCALARS)
    if rng.random() < 0.2:
        types = ["'int'", "'real'", "'bool'", "'str'", "'float32'", "'T'", "''", *SCALARS[:8]]
        name = rng.choice(["'T'", "'U'", "'x'", "0"])
        case["types"] = f"{{{name}: {rng.choice(types)}}}"
    if rng.random() < 0.1:
        case["steps"] = ["save"]
    return case


_FOUND: dict[int, list[Program]] = {}


def _with_attributes(programs: Sequence[Program]) -> list[Program]:
    """The programs whose graphs have attributes."""
    if id(programs) not in _FOUND:
        _FOUND[id(programs)] = [p for p in programs if _declared(p.text)] or list(programs)
    return _FOUND[id(programs)]


def _declared(text: str) -> list[str]:
    """The names of the attributes of graphs, roughly."""
    names = []
    for part in text.split("graph ")[1:]:
        block = part.partition("@attrib")[2].partition("}")[0]
        names += [d.partition(":")[0].strip(" \n\t{") for d in block.split(";") if ":" in d]
    return names


def _arguments(rng: random.Random, programs: Sequence[Program]) -> Case:
    program = rng.choice(programs)
    text = program.text if rng.random() < 0.6 else damaged([program], rng)[1]
    native = rng.random() < 0.12
    return {
        **_choices(program),
        "text": text,
        "target": "cpu" if native else "interpreter",
        "real": rng.choice(["float32", "float32", "float32", "float64"]),
        "int": rng.choice(["int64", "int64", "int64", "int32", "int8"]),
        "seed": rng.randrange(1 << 30),
    }


def _storage(rng: random.Random, programs: Sequence[Program]) -> Case:
    files = make_files(rng)
    commands = [["check", "PATH"]]
    if rng.random() < 0.3:
        stage = rng.choice(["graph", "ir", "syntax", "sknd", "loops"])
        commands.append(["show", "PATH", "--stage", stage])
    return {"files": files, "path": rng.choice(PATHS), "commands": commands}


_TEXTS: dict[str, list[Text]] = {}


def _comprehension(rng: random.Random, programs: Sequence[Program]) -> Case:
    """A damaged text of Tensor Comprehensions."""
    if "tc" not in _TEXTS:
        _TEXTS["tc"] = tc_edits.texts()
    return _text(_TEXTS["tc"], {"format": 0.15, "command": 0.03, "out": 0.1}, COMMANDS, rng)


def _einsum_tuple(rng: random.Random, programs: Sequence[Program]) -> Case:
    """A damaged text of Einsum Tuple."""
    if "et" not in _TEXTS:
        _TEXTS["et"] = et_edits.texts()
    chances = {"format": 0.15, "command": 0.03, "explain": 0.1, "verify": 0.1}
    return _text(_TEXTS["et"], chances, [*COMMANDS, *ET_COMMANDS], rng)


def _text(
    texts: Sequence[Text],
    chances: Mapping[str, float],
    commands: Sequence[list[str]],
    rng: random.Random,
) -> Case:
    case: Case = {
        "text": damaged_text(texts, rng),
        "target": "cpu" if rng.random() < 0.08 else "interpreter",
        "steps": [step for step, chance in chances.items() if rng.random() < chance],
        "seed": rng.randrange(1 << 30),
    }
    if "command" in case["steps"]:
        case["commands"] = rng.sample(commands, 2)
    return case


MAKERS: Mapping[str, Make] = {
    "programs": _program,
    "attributes": _attributes,
    "arguments": _arguments,
    "storage": _storage,
    "tc": _comprehension,
    "et": _einsum_tuple,
}
