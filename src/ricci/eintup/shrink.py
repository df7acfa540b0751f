"""Failures at the smallest ranks and dims where they still are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import numpy as np

from ..diagnostics import Error
from ..frontends.eintup.dims import broken_dims, compute_dims, computed, draw_dims
from ..frontends.eintup.fixed import Fixed
from ..frontends.eintup.program import Configuration, Program
from .trial import Outcome

_SMALLEST = 4
"""How many of the smallest legal extents are tried."""

_MOST_LOOKED_AT = 200
"""Extents among which these are looked for."""

_REDRAWN = 2
"""How often dims are drawn at lower ranks, where the old ones, cut, are not legal."""

Run = Callable[[Configuration], Outcome]
Dims = Mapping[str, tuple[int, ...]]


@dataclass
class Budget:
    """What all failures of a verification together may cost."""

    tries: int = 300
    seconds: float = 10.0
    _until: float = field(default=0.0, init=False)

    def start(self) -> None:
        self._until = time.monotonic() + self.seconds

    def take(self) -> bool:
        """Whether there is a try left; it is then taken."""
        self.tries -= 1
        return self.tries >= 0 and time.monotonic() < self._until


State = tuple[Configuration, Outcome]


class Shrinker:
    """Makes failing configurations of a program smaller, as long as they fail the same way."""

    def __init__(
        self, program: Program, run: Run, budget: Budget, fixed: Fixed | None = None
    ) -> None:
        self._program = program
        self._run = run
        self._budget = budget
        self._fixed = fixed or Fixed()
        self._wanted = self._fixed.wanted_ranks()
        self._computed = computed(program)
        self._tried: dict[tuple[tuple[int, ...], ...], Outcome | None] = {}
        self._found: list[State] = []
        budget.start()

    def shrink(self, configuration: Configuration, outcome: Outcome) -> State:
        """The smallest configuration that is found to fail as this one does, and how it fails.

        One that was found for another failure will do if no rank of it is higher.
        """
        for known, alike in self._found:
            if alike.nature == outcome.nature and _is_below(known.ranks, configuration.ranks):
                return known, alike
        state, before = (configuration, outcome), None
        while state is not before:
            before = state
            for names in self._program.ranks.classes:
                state = self._descend(state, partial(self._of_lower_rank, names))
            for name in configuration.dims:
                if name not in self._computed and name not in self._fixed.dims:
                    state = self._descend(state, partial(self._of_smaller_dims, name))
        self._found.append(state)
        return state

    def _descend(
        self, state: State, candidates: Callable[[Configuration], Iterator[Configuration]]
    ) -> State:
        """Go to the first candidate that fails alike, and on from there."""
        smaller: State | None = state
        while smaller is not None:
            state = smaller
            alike = (self._as(c, state[1]) for c in candidates(state[0]))
            smaller = next((found for found in alike if found is not None), None)
        return state

    def _as(self, configuration: Configuration, outcome: Outcome) -> State | None:
        """A configuration with its outcome, if that is a failure like another."""
        found = self._outcome(configuration)
        if found is None or found.ok or found.nature != outcome.nature:
            return None
        return configuration, found

    def _outcome(self, configuration: Configuration) -> Outcome | None:
        """How a configuration goes; none if that may not be tried any more."""
        key = tuple(configuration.dims.values())
        if key not in self._tried:
            self._tried[key] = self._run(configuration) if self._budget.take() else None
        return self._tried[key]

    # ------------------------------------------------------------------ candidates

    def _of_lower_rank(
        self, names: Sequence[str], configuration: Configuration
    ) -> Iterator[Configuration]:
        """Eintups of one rank at each lower rank, the lowest first."""
        ranks = configuration.ranks
        for rank in range(ranks[names[0]]):
            lower = ranks | dict.fromkeys(names, rank)
            is_wanted = all(lower[name] == rank for name, rank in self._wanted.items())
            if is_wanted and self._program.ranks.broken(lower) is None:
                yield from self._at_ranks(configuration, lower)

    def _at_ranks(
        self, configuration: Configuration, ranks: Mapping[str, int]
    ) -> Iterator[Configuration]:
        cut = {name: dims[: ranks[name]] for name, dims in configuration.dims.items()}
        legal = self._completed(ranks, cut)
        if legal is not None:
            yield legal
            return
        rng = np.random.default_rng(0)
        for _ in range(_REDRAWN):
            try:
                known = self._fixed.dims_at(ranks)
                yield draw_dims(self._program, ranks, rng, (1, 3), known)
            except Error:
                return

    def _of_smaller_dims(self, name: str, configuration: Configuration) -> Iterator[Configuration]:
        """One eintup with smaller dims: all the same, then one component after the other."""
        dims = configuration.dims[name]
        same = [(n,) * len(dims) for n in range(1, min(dims, default=1))]
        yield from islice(self._legal(configuration, name, same), _SMALLEST)
        for k, n in enumerate(dims):
            less = [(*dims[:k], m, *dims[k + 1 :]) for m in range(1, n)]
            yield from islice(self._legal(configuration, name, less[:_MOST_LOOKED_AT]), _SMALLEST)
            yield from self._legal(configuration, name, [*less[n // 2 :][:1], *less[-2:]])

    def _legal(
        self, configuration: Configuration, name: str, choices: Sequence[tuple[int, ...]]
    ) -> Iterator[Configuration]:
        for choice in choices:
            legal = self._completed(configuration.ranks, {**configuration.dims, name: choice})
            if legal is not None:
                yield legal

    def _completed(self, ranks: Mapping[str, int], dims: Dims) -> Configuration | None:
        """The configuration with these dims and those computed from them, if it is legal."""
        known = {name: d for name, d in dims.items() if name not in self._computed}
        known |= self._fixed.dims_at(ranks)
        try:
            found = compute_dims(self._program, ranks, known)
        except Error:
            return None
        if any(n < 0 for name in dims for n in found.get(name, (-1,))):
            return None
        made = Configuration({name: found[name] for name in dims})
        broken = broken_dims(self._program, made, intervals=True, known=self._fixed.dims)
        return made if broken is None else None


def _is_below(ranks: Mapping[str, int], others: Mapping[str, int]) -> bool:
    return all(rank <= others[name] for name, rank in ranks.items())
