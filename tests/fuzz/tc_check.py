"""Random programs of Tensor Comprehensions on both executors, and what each must answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ricci import Error, tc

from .tc_numbers import REALS, Fault
from .tc_programs import Array, Program, make_program

TARGETS = ("interpreter", "cpu")

HUGE = 1e30
"""What float32 may not hold in the middle of a formula."""


class Disagreement(AssertionError):
    """An executor gives something else than the program means; the message has the program."""

    def __init__(self, program: Program, finding: str) -> None:
        shapes = ", ".join(str(a.shape) for a in program.arguments)
        super().__init__(f"seeds [{program.seed}]: {finding}\n{program.text}with {shapes}")


def check_seeds(seeds: Sequence[int]) -> None:
    for seed in seeds:
        check_program(make_program(seed))


def check_program(program: Program) -> None:
    """Raises `Disagreement` unless both executors give what the program means."""
    rng = np.random.default_rng(program.seed)
    given = {}
    if not program.fault:
        program.run({})  # for the shapes of what a caller passes
        given = {t.name: _start(t.dtype, t.low, t.high, rng) for t in program.results
                 if t.name in program.started}  # fmt: skip
    for target in TARGETS:
        finding = _finding(program, target, given)
        if finding:
            raise Disagreement(program, f"{target}: {finding}")


def _start(dtype: str, low: Sequence[int], high: Sequence[int], rng: np.random.Generator) -> Array:
    shape = [max(0, b - a + 1) for a, b in zip(low, high, strict=True)]
    return np.asarray(rng.integers(0, 3, shape)).astype(dtype)


def _finding(program: Program, target: str, given: Mapping[str, Array]) -> str:
    """What an executor gives that the program does not mean; nothing if all is well."""
    arguments = [_laid_out(a, program.seed + k) for k, a in enumerate(program.arguments)]
    try:
        function = tc.define(program.text, target=target, threads=1)["f"]
        with np.errstate(all="ignore"):
            results = _listed(function(*arguments))
    except Error as error:
        codes = {d.code for d in error.diagnostics}
        allowed = {"E0501", "E0601", "E0802", "E0803", "E0419", "E0502"}
        if program.fault and codes <= allowed:
            return ""
        return f"an error that should not be: {error}"
    if program.fault:
        return f"no error for {program.fault}" if program.certain else ""
    finding = _compare(program, results, program.run({}))
    if finding or not given:
        return finding
    out = [given.get(t.name, r).copy() for t, r in zip(program.results, results, strict=True)]
    try:
        expected = program.run(given)
    except Fault:
        return ""
    with np.errstate(all="ignore"):
        function(*arguments, out=out)
    difference = _compare(program, out, expected)
    return difference and f"with what the caller passed: {difference}"


def _listed(results: object) -> list[Array]:
    return list(results) if isinstance(results, tuple) else [np.asarray(results)]


def _laid_out(array: Array, seed: int) -> Array:
    """The same elements, now and then with other strides."""
    way = seed % 7
    if way == 0 and array.ndim:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if way == 1 and array.ndim:
        return array[::-1].copy()[::-1]
    return array.copy("F") if way == 2 else array


def _compare(program: Program, found: Sequence[Array], expected: Sequence[Array]) -> str:
    for tensor, ours, theirs in zip(program.results, found, expected, strict=True):
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return f"{tensor.name}: {ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
        if tensor.dtype not in REALS:
            same = np.array_equal(ours, theirs)
        else:
            limit = 1e-5 * program.peak
            same = program.peak > HUGE or np.allclose(ours, theirs, 1e-5, limit, equal_nan=True)
        if not same:
            return f"{tensor.name} is {ours.tolist()}, and should be {theirs.tolist()}"
    return ""
