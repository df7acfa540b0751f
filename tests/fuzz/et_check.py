"""Random programs of Einsum Tuple, run in all ways, and what each must answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ricci import Error, eintup

from ..eintup import brute
from ..eintup.random_programs import Case, differences, is_same, make_case, parse


class Disagreement(AssertionError):
    """An executor gives something else than the program means; the message has the program."""

    def __init__(self, case: Case, finding: str) -> None:
        super().__init__(f"seeds [{case.seed}]: {finding}\n{case.text}with {case.dims}")


def check_seeds(seeds: Sequence[int]) -> None:
    for seed in seeds:
        check_program(make_case(seed))


def check_program(case: Case) -> None:
    """Raises `Disagreement` unless all executors give what the program means, and verify it."""
    found = differences(case)
    if found:
        raise Disagreement(case, found[0])
    _check_call(case)
    _check_verification(case)


def _check_call(case: Case) -> None:
    """Ranks are known; dims are fixed, or found as far as the arrays say."""
    program = eintup.parse(case.text, threads=1)
    fixed = program.at(dims=case.dims)
    names = [a.name for a in program.program.outputs]
    with np.errstate(all="ignore"):
        result = fixed(**case.given, seed=case.seed)
        statements = parse(case.text).file.statements
        expected = brute.evaluate(statements, case.dims, case.given, case.seed)
    for name, ours in zip(names, [result] if len(names) == 1 else result, strict=True):
        if not is_same(ours, expected[name]):
            raise Disagreement(case, f"call: {name} is {ours}, and should be {expected[name]}")
    try:
        found = program.infer(**{name: array.shape for name, array in case.given.items()})
    except Error as error:
        if {d.code for d in error.diagnostics} != {"E0403"}:
            raise Disagreement(case, f"infer: {error}") from error
        return
    known = {
        n for a in program.program.inputs if a.name in case.given for n in _names(a.name, case)
    }
    for name in known:
        if found.dims[name] != case.dims[name]:
            raise Disagreement(case, f"infer: {name} is {found.dims[name]}")


def _names(array: str, case: Case) -> list[str]:
    """The eintups that index an input, which is filled in a line of its own."""
    line = next(line for line in case.text.split("\n") if line.startswith(f"{array}["))
    return line[len(array) + 1 : line.index("]")].split(", ")


def _check_verification(case: Case) -> None:
    """A program whose call gives an array as it is verifies, whatever the dims are."""
    name = next(reversed(parse(case.text).arrays))
    body, _, rest = case.text.partition("\n\n")
    program = eintup.parse(f"{body}\n\nnp.array({name})\n\n{name}\n\n{rest}", threads=1)
    try:
        if not program.verify(1, case.seed, dims=(1, 3)).ok:
            raise Disagreement(case, f"np.array({name}) is not {name}")
    except Error as error:
        if not {d.code for d in error.diagnostics} <= FAULTS:
            raise Disagreement(case, f"verify: {error}") from error


FAULTS = {"E0802", "E0803", "E0502", "E0804"}
"""What may be wrong with dims that are drawn: divisors and bounds of random numbers."""
