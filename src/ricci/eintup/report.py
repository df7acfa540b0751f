"""What a verification has found, as text and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..frontends.eintup.printer import print_index
from ..frontends.eintup.program import Configuration, Program
from ..tables import table
from .compare import Difference
from .constants import rank_of
from .trial import Outcome
from .verify import Case, Verification

_MOST_SHOWN = 10
"""Kinds of failure that are described."""

_WHERE = {
    "program": "the program cannot be run",
    "call": "the call fails",
    "dims": "no dims are legal at these ranks",
}


def report(verification: Verification, again: str = "") -> list[str]:
    """The table of all cases, what is wrong with those that fail, and a summary.

    `again` is the command that verifies once more: with a case, it tries that alone.
    """
    lines = [*case_table(verification), ""]
    for failure in failures(verification, again):
        lines += [*failure, ""]
    return [*lines, summary(verification)]


def case_table(verification: Verification) -> list[str]:
    """One line per case: the dims of every eintup, and for each output whether it is right."""
    names = verification.program.eintups
    rows = [
        [case.id, *(_dims(case, name) for name in names), str(list(case.outcome.verdicts))]
        for case in verification.cases
    ]
    return table(["Case", *names, "Valid"], rows)


def _dims(case: Case, name: str) -> str:
    return "-" if case.configuration is None else str(list(case.configuration.dims[name]))


def summary(verification: Verification) -> str:
    """How many cases were right, in which time, from which seed."""
    bad = len(verification.failures)
    count = len(verification.cases)
    text = f"{count} case{'s' * (count != 1)}: {count - bad} valid, {bad} not"
    return f"{text}; {verification.seconds:.1f} seconds, seed {verification.seed}"


# ------------------------------------------------------------------------ failures


def failures(verification: Verification, again: str = "") -> Iterator[list[str]]:
    """A paragraph per kind of failure: those that shrink to one configuration are one."""
    kinds: dict[object, list[Case]] = {}
    for case in verification.failures:
        kinds.setdefault(_key(case), []).append(case)
    for cases in list(kinds.values())[:_MOST_SHOWN]:
        lines = _failure(verification.program, cases)
        yield [*lines, *([f"  again: {again} --case {cases[0].id}"] if again else [])]
    if len(kinds) > _MOST_SHOWN:
        yield [f"... and {len(kinds) - _MOST_SHOWN} other kinds of failure"]


def _key(case: Case) -> object:
    if case.smallest is None:
        return case.id
    configuration, outcome = case.smallest
    return tuple(configuration.dims.items()), outcome.nature


def _failure(program: Program, cases: Sequence[Case]) -> list[str]:
    first = cases[0]
    more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
    lines = [f"case {first.id}{more}: " + "; ".join(_headlines(first.outcome))]
    if first.smallest is None:
        ranks = ", ".join(f"RANK({name}) = {rank}" for name, rank in first.ranks.items())
        problem = first.outcome.problem
        return [*lines, f"  {ranks}", *([f"  {problem.text}"] if problem else [])]
    configuration, outcome = first.smallest
    shown = ", ".join(f"{name} = {list(dims)}" for name, dims in configuration.dims.items())
    lines.append(f"  smallest failure found: {shown}")
    return lines + [f"  {line}" for line in _details(program, configuration, outcome)]


def _headlines(outcome: Outcome) -> list[str]:
    """What is wrong, in short."""
    if outcome.problem is not None:
        return [_WHERE[outcome.problem.where]]
    what = {"shape": "shape", "type": "type of elements", "values": "values"}
    return [f"the {what[d.kind]} of `{n}` differ{'s' * (d.kind != 'values')}"
            for n, d in outcome.differences.items()]  # fmt: skip


def _details(program: Program, configuration: Configuration, outcome: Outcome) -> Iterator[str]:
    if outcome.problem is not None:
        yield outcome.problem.text
    for name, difference in outcome.differences.items():
        if difference.kind == "values":
            place = spelled(program, configuration, name, difference.index)
            yield f"{place} is {difference.ours}, and the call gives {difference.theirs}"
            yield f"{difference.count} of {difference.size} elements differ"
        else:
            what = "shape" if difference.kind == "shape" else "elements"
            yield f"{what} of `{name}`: {difference.ours}, and the call gives {difference.theirs}"


def spelled(
    program: Program, configuration: Configuration, name: str, index: tuple[int, ...]
) -> str:
    """An element of an array by the slots of its signature: `y[b=[0], p=[1, 2]]`."""
    parts = []
    for slot in program.arrays[name].signature:
        count = rank_of((slot,), program, configuration)
        parts.append(f"{print_index(slot)}={list(index[:count])}")
        index = index[count:]
    return f"{name}[{', '.join(parts)}]"


# ---------------------------------------------------------------------------- JSON


def to_json(verification: Verification) -> dict[str, object]:
    """All that was found, as data."""
    return {
        "ok": verification.ok,
        "seed": verification.seed,
        "seconds": verification.seconds,
        "outputs": [a.name for a in verification.program.outputs],
        "cases": [_case_json(verification.program, case) for case in verification.cases],
    }


def _case_json(program: Program, case: Case) -> dict[str, object]:
    found: dict[str, object] = {
        "id": case.id,
        "ranks": dict(case.ranks),
        "dims": None if case.configuration is None else _dims_json(case.configuration),
    }
    found |= _outcome_json(program, case.configuration, case.outcome)
    if case.smallest is not None:
        configuration, outcome = case.smallest
        found["smallest"] = {
            "dims": _dims_json(configuration),
            **_outcome_json(program, configuration, outcome),
        }
    return found


def _dims_json(configuration: Configuration) -> dict[str, list[int]]:
    return {name: list(dims) for name, dims in configuration.dims.items()}


def _outcome_json(
    program: Program, configuration: Configuration | None, outcome: Outcome
) -> dict[str, object]:
    found: dict[str, object] = {"valid": list(outcome.verdicts)}
    if outcome.problem is not None:
        found["problem"] = {"where": outcome.problem.where, "text": outcome.problem.text}
    if configuration is not None and outcome.differences:
        found["differences"] = {
            name: _difference_json(program, configuration, name, difference)
            for name, difference in outcome.differences.items()
        }
    return found


def _difference_json(
    program: Program, configuration: Configuration, name: str, difference: Difference
) -> dict[str, object]:
    found: dict[str, object] = {
        "kind": difference.kind,
        "ours": difference.ours,
        "expected": difference.theirs,
    }
    if difference.kind == "values":
        found["element"] = spelled(program, configuration, name, difference.index)
        found["index"] = list(difference.index)
        found["count"] = difference.count
        found["size"] = difference.size
    return found
