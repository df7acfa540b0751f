"""The schedules that may be tried for a kernel: where to begin, and what lies near one.

What is drawn here need not be possible: `generate` says so.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar, get_args

from ...diagnostics import Error
from ...ir.loops import Reduce
from ...ir.nodes import Tensor
from ...records import replace
from . import nest
from .contraction import form_of
from .contraction_cost import estimate
from .contraction_form import Form
from .contraction_plan import in_runs, plans_of_sides, reduced_loops
from .contraction_schedule import schedule_of, scheduled_plan
from .contraction_tiles import tiles
from .emit import Frame
from .emit_access import extent_of
from .kernels import Strides, choose
from .matrix_choice import may_multiply, ranked_plans
from .matrix_window import choose_matrix_window
from .matvec import write_dots
from .nest_uses import loops_of, uses_of
from .schedule import (
    Contraction,
    Dots,
    Matrices,
    MatrixWindow,
    Nest,
    Schedule,
    Side,
    Source,
    Window,
    Winograd,
)
from .target import Target
from .window_choice import choose_window
from .winograd_choice import choose_winograd

_PLANS = 8
"""How many ways to read the operands of a product are begun with."""
_HOPELESS = 4.0
"""How many times longer a product may take, by the cost model, than the best one known."""

_Panels = TypeVar("_Panels", Contraction, Matrices)


class KernelSpace:
    """The schedules of one kernel, of known sizes and with something to do."""

    def __init__(
        self, kernel: Reduce, strides: Strides, target: Target, constant: frozenset[Tensor]
    ) -> None:
        self.kernel, self.strides, self.target, self.constant = kernel, strides, target, constant
        self.form = form_of(kernel, strides)
        self.chosen = choose(kernel, strides, target, constant)
        numbers = {i: k for k, i in enumerate((*kernel.domain, *kernel.reduced))}
        outer, reduced, _ = loops_of(kernel, uses_of(kernel, Frame(strides)))
        self._outer = [numbers[x.index] for x in outer]
        self._reduced = [numbers[x.index] for x in reduced]

    def first(self) -> list[Schedule]:
        """What the cost model chooses, and then the best, by it, of every other kind."""
        found: list[Schedule] = [] if self.chosen is None else [self.chosen]
        if self.form is not None:
            found += self._dots(self.form)
            found += self._contractions(self.form)
            if may_multiply(self.form, self.target):
                plans = ranked_plans(self.form, self.strides, self.target, self.constant)
                found += [schedule_of(p) for _, p in plans[:_PLANS]]
                given = (self.strides, self.target, self.constant)
                by_matrices = choose_matrix_window(self.form, *given, math.inf)
                found += [] if by_matrices is None else [by_matrices[1]]
            window = choose_window(self.form, self.strides, self.target, self.constant)
            fewer = choose_winograd(self.form, self.strides, self.target, self.constant)
            found += [s for s in (window, fewer) if s is not None]
        plain = nest.choose(self.kernel, self.strides, self.target)
        if plain is not None:
            found.append(plain)
            found += [self._along(plain, k) for k in (*self._outer, *self._reduced)]
        return list(dict.fromkeys(found))

    def _dots(self, form: Form) -> list[Schedule]:
        sides: tuple[Side, Side] = get_args(Side)
        found = [Dots(side, 4, 64) for side in sides]
        return [d for d in found if self._is_possible(form, d)]

    def _is_possible(self, form: Form, dots: Dots) -> bool:
        with suppress(Error):
            write_dots(form, dots, self.strides, self.target)
            return True
        return False

    def _contractions(self, form: Form) -> list[Schedule]:
        form = in_runs(form, self.strides)
        sides = [(form.left, form.right), (form.right, form.left)]
        given = (self.strides, self.target, self.constant)
        plans = [p for a, b in sides for p in plans_of_sides(form, a, b, *given)]
        plans.sort(key=lambda p: estimate(p, self.strides, self.target))
        return [schedule_of(p) for p in plans[:_PLANS]]

    def _along(self, plain: Nest, vector: int) -> Nest:
        """A nest with vectors along another loop."""
        lanes = max(plain.lanes, 4)
        outer = tuple(k for k in self._outer if k != vector)
        reduced = tuple(k for k in self._reduced if k != vector)
        return replace(plain, vector=vector, lanes=lanes, outer=outer, reduced=reduced)

    # -------------------------------------------------------------------- near

    def near(self, schedule: Schedule, r: random.Random) -> Schedule:
        """A schedule that differs in one or two things."""
        for _ in range(r.choice((1, 1, 2))):
            match schedule:
                case Contraction():
                    schedule = self._near_contraction(schedule, r)
                case Matrices():
                    schedule = self._near_matrices(schedule, r)
                case Dots():
                    schedule = self._near_dots(schedule, r)
                case Nest():
                    schedule = self._near_nest(schedule, r)
                case Window():
                    schedule = self._near_window(schedule, r)
                case MatrixWindow():
                    schedule = _near_matrix_window(schedule, r)
                case Winograd():
                    schedule = self._near_winograd(schedule, r)
        return schedule

    def is_hopeless(self, schedule: Schedule, best: Schedule) -> bool:
        """Whether the cost model is sure that a schedule is far slower than another."""
        a, b = self._estimate(schedule), self._estimate(best)
        return a is not None and b is not None and a > _HOPELESS * b

    def _estimate(self, schedule: Schedule) -> float | None:
        if not isinstance(schedule, Contraction) or self.form is None:
            return None
        with suppress(Error):
            plan = scheduled_plan(self.form, schedule, self.strides, self.target, self.constant)
            return estimate(plan, self.strides, self.target)
        return None

    def _near_contraction(self, s: Contraction, r: random.Random) -> Contraction:
        assert self.form is not None
        match r.choice(("tile", "tile", "rows", "lanes", "depth", "grain", "source", "order")):
            case "tile":
                return self._with_tile(s, r)
            case "rows":
                return replace(s, row_block=scaled(s.row_block, r))
            case "lanes":
                return replace(s, lane_block=scaled(s.lane_block, r))
            case "depth":
                return self._with_depth(s, self.form, r)
            case "grain":
                return replace(s, grain=scaled(s.grain, r))
            case "source":
                return _with_source(s, r)
        order = _shuffled(s.order, r)
        last = extent_of(self.form.reduced[order[0]])
        return replace(s, order=order, split=0, block=last)

    def _near_matrices(self, s: Matrices, r: random.Random) -> Matrices:
        assert self.form is not None
        match r.choice(("rows", "lanes", "depth", "source")):
            case "rows":
                return replace(s, row_block=scaled(s.row_block, r))
            case "lanes":
                return replace(s, lane_block=scaled(s.lane_block, r))
            case "depth":
                return self._with_depth(s, self.form, r)
        return _with_source(s, r)

    def _with_tile(self, s: Contraction, r: random.Random) -> Contraction:
        """Another register tile; mostly one nearby."""
        rows, vectors = s.rows, s.vectors
        if r.random() < 0.3:
            rows, vectors = r.choice(list(tiles(self.target)))
        elif r.random() < 0.5:
            rows = max(1, rows + r.choice((-2, -1, 1, 2)))
        else:
            vectors = max(1, vectors + r.choice((-1, 1)))
        return replace(s, rows=rows, vectors=vectors)

    def _with_depth(self, s: _Panels, form: Form, r: random.Random) -> _Panels:
        """Another way to cut the reduced indices: at another one, or in other blocks."""
        split = r.randrange(len(reduced_loops(form)))
        cut = extent_of(form.reduced[s.order[split]])
        if split == s.split:
            return replace(s, block=max(1, min(cut, scaled(s.block, r))))
        return replace(s, split=split, block=max(1, cut // r.choice((1, 2, 4))))

    def _near_dots(self, s: Dots, r: random.Random) -> Dots:
        if r.random() < 0.5:
            return replace(s, count=max(1, s.count + r.choice((-2, -1, 1, 2))))
        return replace(s, block=scaled(s.block, r))

    def _near_window(self, s: Window, r: random.Random) -> Window:
        if r.random() < 0.3 and (s.row_block or s.lane_block or s.lines > 1):
            lines, rows = max(1, s.lines + r.choice((-1, 0, 1))), scaled(s.row_block, r)
            return replace(s, lines=lines, row_block=rows, lane_block=scaled(s.lane_block, r))
        if r.random() < 0.7:
            rows, vectors = r.choice(list(tiles(self.target)))
            return replace(s, rows=rows, vectors=vectors)
        number = r.randrange(len(self.kernel.domain) + len(self.kernel.reduced))
        if r.random() < 0.5:
            return replace(s, row=number)
        return replace(s, lane=number if r.random() < 0.5 else s.lane, beside=number)

    def _near_winograd(self, s: Winograd, r: random.Random) -> Winograd:
        match r.choice(("tile", "lines", "rows", "lanes")):
            case "tile":
                rows, vectors = r.choice(list(tiles(self.target)))
                return replace(s, rows=rows, vectors=vectors)
            case "lines":
                return replace(s, tall=scaled(s.tall, r))
            case "rows":
                return replace(s, wide=scaled(s.wide, r))
        return replace(s, lane_block=scaled(s.lane_block, r))

    def _near_nest(self, s: Nest, r: random.Random) -> Nest:
        choices = (
            "tile",
            "tile",
            "vector",
            "lanes",
            "outer",
            "reduced",
            "chunks",
            "unroll",
            "strips",
        )
        match r.choice((*choices, "kept") if s.kept else choices):
            case "kept":
                if r.random() < 0.3:
                    return replace(s, kept=0, terms=1)
                return replace(s, kept=scaled(s.kept, r), terms=r.choice((1, 2, 4, 8)))
            case "tile":
                if r.random() < 0.5:
                    return replace(s, rows=r.choice((1, 2, 3, 4, 6, 8)))
                return replace(s, vectors=r.choice((1, 2, 3, 4, 6, 8)))
            case "vector":
                loops = [*self._outer, *self._reduced]
                return self._along(s, r.choice(loops)) if loops else s
            case "lanes":
                return replace(s, lanes=scaled(s.lanes, r))
            case "outer":
                return replace(s, outer=_shuffled(s.outer, r))
            case "strips":
                plain = tuple(k for k in s.outer if k != s.vector)
                return replace(s, outer=plain if plain != s.outer else (s.vector, *plain))
            case "reduced":
                return replace(s, reduced=_shuffled(s.reduced, r))
            case "chunks":
                return replace(s, chunks=scaled(s.chunks, r))
        return replace(s, unroll=r.choice((0, 100, 350, 700, 1400)))


def _near_matrix_window(s: MatrixWindow, r: random.Random) -> MatrixWindow:
    match r.choice(("rows", "lanes", "depth", "order", "inside")):
        case "rows":
            return replace(s, row_block=scaled(s.row_block, r))
        case "lanes":
            return replace(s, lane_block=scaled(s.lane_block, r))
        case "depth":
            return replace(s, depth_block=scaled(s.depth_block, r))
        case "inside":
            return replace(s, inside=1 - min(s.inside, 1), row_block=0)
    return replace(s, lanes_first=1 - min(s.lanes_first, 1))


def _with_source(s: _Panels, r: random.Random) -> _Panels:
    """Another way to read an operand."""
    sources: tuple[Source, ...] = get_args(Source)
    if r.random() < 0.5:
        return replace(s, broadcast_source=r.choice(sources))
    return replace(s, vector_source=r.choice(sources))


def scaled(count: int, r: random.Random) -> int:
    """Half or double, or a little beside: sizes that divide others are often good ones."""
    return max(1, r.choice((count // 4, count // 2, count // 2, count * 2, count * 2, count * 4)))


def _shuffled(order: Sequence[int], r: random.Random) -> tuple[int, ...]:
    """The order with two neighbours swapped."""
    out = list(order)
    if len(out) > 1:
        k = r.randrange(len(out) - 1)
        out[k], out[k + 1] = out[k + 1], out[k]
    return tuple(out)
