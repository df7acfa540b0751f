"""Decides how a contraction is computed whose tiles are matrices in registers: see `matrix`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...dtypes import DType
from ...ir.loops import tensors_touched
from ...ir.nodes import Tensor
from ...records import replace
from .contraction_cost import reading
from .contraction_form import Form, Operand
from .contraction_plan import Plan, blocked, depth_of, in_runs, is_across, pieces, sources_of
from .contraction_reading import is_by_lanes, is_far
from .contraction_space import step_of
from .contraction_storing import storing
from .kernels import Strides
from .matrix import LANES, MATRIX, MatrixProduct, matrices_of
from .nest_uses import bytes_of
from .packing import Depth
from .schedule import Source
from .target import Target
from .window_plan import overlaps

TILE = 2 * LANES
"""Rows of a tile, and columns, at most."""
_NEAR = 0.5
"""The part of the first cache that a panel of rows may fill while columns pass by: matrices that
come from the second one take longer than products."""
_ROOM = 0.7
"""The part of the second cache that a chunk may fill with matrices and sums."""
_LEAST_HELD, _PART = 5 << 17, 0.3
"""Bytes that it may fill of that in any case, and the part of what a kernel reads and writes that
those of all threads may: they take them beside what is between kernels."""
SLOWED = 1.3
"""How many times as long as counted products take: the clock is slower meanwhile, and matrices come
from the second cache."""
ARRANGE, TURN, COPY = 0.7, 1.1, 0.1
"""Cycles to arrange an element in parts; of rows that are turned round; and to copy a word."""
FROM_AFAR = 0.3
"""More of what comes from beyond the caches of a core."""
_SPREAD = 1.3
"""More of what is packed from elements that do not lie side by side."""
_NEAR_BY = 0.55
"""The part of what it takes to pack that elements take which windows have in common."""
_RAGGED = 0.5
"""More if the last steps of blocks have fewer k than others, which are read under masks."""
CALL, SUMS, AGAIN = 60.0, 18.0, 15.0
"""Cycles to call a tile, to store a matrix of sums, and to add to what there is, most of it beside
products."""
LOAD, _LEAST = 8.0, 8
"""Cycles to load a matrix, and rows for as many of which a product takes as many cycles, at least.
"""
CLAIM = 400.0
"""Cycles for a thread to get the next chunk."""


def choose_matrices(
    form: Form, strides: Strides, target: Target, constant: frozenset[Tensor], most: float
) -> Plan | None:
    """The plan that is done soonest, if before `most` cycles; None if there is none."""
    plans = ranked_plans(form, strides, target, constant)
    return plans[0][1] if plans and plans[0][0] < most else None


def ranked_plans(
    form: Form, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> list[tuple[float, Plan]]:
    """The plans for each way to read the operands, those first that are done soonest, and when."""
    plans = [(until_done(p, strides, target), p) for p in _plans(form, strides, target, constant)]
    return sorted(plans, key=lambda found: found[0])


def matrices_for(form: Form, broadcast: Operand, vector: Operand) -> MatrixProduct:
    """The instruction, and the parts, of a form with such sides."""
    if form.words is not None:
        return MatrixProduct(form.words.instruction)
    return MatrixProduct("tdpbf16ps", _parts(broadcast), _parts(vector))


def may_multiply(form: Form, target: Target) -> bool:
    """Whether matrices may compute a form at all."""
    if form.words is not None:
        return form.words.is_matrix
    return target.matrices and target.in_parts and form.dtype is DType.FLOAT32


def _parts(operand: Operand) -> int:
    """Of how many numbers of bfloat16 an element is the sum."""
    return {"bfloat16": 1, "float16": 2}.get(operand.loading, 3)


def sources_for(
    form: Form,
    operand: Operand,
    depth: Depth,
    strides: Strides,
    constant: frozenset[Tensor],
    is_vector: bool,
) -> Iterator[Source]:
    """How an operand may be read before it is arranged."""
    for source in sources_of(operand, depth, strides, constant, is_vector):
        if source == "direct":
            if is_vector and operand.extent % LANES and form.words is not None:
                continue  # tiles may read them in place, and read whole matrices
            steps = (step_of(operand, i, strides) for i in (operand.indices, depth.indices))
            if not is_vector and 1 not in steps:
                continue
        yield source


def _plans(
    form: Form, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> Iterator[Plan]:
    for plan in unblocked_plans(in_runs(form, strides), strides, target, constant):
        yield _with_blocks(plan, strides, target)


def unblocked_plans(
    form: Form, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> Iterator[Plan]:
    """The plans for each way to read the operands, with blocks of one tile."""
    sides = [(form.left, form.right), (form.right, form.left)]
    for broadcast, vector in sides[:1] if form.words is not None else sides:
        m = matrices_for(form, broadcast, vector)
        for order in (depth_of(form, broadcast, strides), depth_of(form, vector, strides)):
            depth = _blocked(order, _most_depth(m, target), m)
            for a in sources_for(form, broadcast, order, strides, constant, False):
                for b in sources_for(form, vector, order, strides, constant, True):
                    yield plan_of(form, broadcast, vector, (a, b), depth, m, strides, target)


def plan_of(
    form: Form,
    broadcast: Operand,
    vector: Operand,
    sources: tuple[Source, Source],
    depth: Depth,
    m: MatrixProduct,
    strides: Strides,
    target: Target,
) -> Plan:
    """The plan with blocks of one tile, and of k as `depth` has them."""
    rows = min(TILE, broadcast.extent)
    vectors = min(TILE, matrices_of(vector.extent) * LANES) // LANES
    bytes_of = form.dtype.numpy().itemsize
    return Plan(
        form, broadcast, vector, *sources, depth, LANES, rows, vectors, rows, vectors * LANES,
        is_across(form, vector, LANES, strides),
        has_far_rows=is_far(broadcast, depth, bytes_of, target),
        by_lanes=is_by_lanes(broadcast, vector, depth, bytes_of, target),
        matrices=m,
    )  # fmt: skip


def room(form: Form, target: Target) -> float:
    """Bytes that a chunk may fill."""
    touched = sum(map(bytes_of, tensors_touched(form.kernel)))
    return min(_ROOM * target.l2, max(_LEAST_HELD, _PART * touched / target.cores))


def _most_depth(m: MatrixProduct, target: Target) -> int:
    """Values of k of a block."""
    step = int(_NEAR * target.l1) // (TILE // LANES * max(m.rows, m.columns) * MATRIX)
    return max(step, 1) * m.depth


def _blocked(order: Depth, most: int, m: MatrixProduct) -> Depth:
    """Blocks of about so many k, with the fewest steps in all."""
    depth = blocked(order, most)
    if depth.blocks == 1:
        return depth
    lengths = range(max(1, most // (2 * depth.inner)), max(1, most // depth.inner) + 1)
    found = [replace(depth, block=n) for n in lengths]
    return min(found, key=lambda d: (_steps(d, m), d.blocks), default=depth)


def _steps(depth: Depth, m: MatrixProduct) -> int:
    """How many steps there are of all blocks."""
    whole, rest = divmod(depth.cut, depth.block)
    of_block = -(-depth.block * depth.inner // m.depth)
    return depth.outer * (whole * of_block + -(-rest * depth.inner // m.depth))


def _with_blocks(plan: Plan, strides: Strides, target: Target) -> Plan:
    """The plan with the blocks that are done soonest."""
    down = [n * plan.rows for n in pieces(-(-plan.broadcast.extent // plan.rows))]
    right = [n * plan.panel for n in pieces(-(-plan.vector.extent // plan.panel))]
    costs = MatrixCosts(plan, strides, target)
    sizes = [(r, c) for r in down for c in right if costs.has_room(r, c)]
    sizes = sizes or [(plan.rows, plan.panel)]
    row_block, lane_block = min(sizes, key=lambda s: costs.until_done(*s))
    return replace(plan, row_block=row_block, lane_block=lane_block)


def until_done(plan: Plan, strides: Strides, target: Target) -> float:
    """Cycles until all cores have done all chunks."""
    return MatrixCosts(plan, strides, target).until_done(plan.row_block, plan.lane_block)


def _is_spread(operand: Operand, strides: Strides) -> bool:
    """Whether neighbouring elements do not lie side by side."""
    return operand.access is not None and step_of(operand, operand.indices, strides) > 1


class MatrixCosts:
    """What a plan costs, for any blocks of rows and columns."""

    def __init__(self, plan: Plan, strides: Strides, target: Target) -> None:
        assert plan.matrices is not None
        self.plan, self.target, self.m = plan, target, plan.matrices
        self.room = room(plan.form, target)
        depth, self.blocks = plan.depth.extent, plan.depth.blocks
        self.steps = _steps(plan.depth, self.m)
        sides = (
            (plan.broadcast, plan.broadcast_source, plan.rows, self._of_rows(strides)),
            (plan.vector, plan.vector_source, plan.panel, self._of_columns()),
        )
        self.row, self.column = (
            depth * (arrange + self._bringing(operand, source, panel, strides))
            for operand, source, panel, arrange in sides
        )
        self.each = storing(plan, strides) / 2
        rows, columns = plan.broadcast.extent, plan.vector.extent
        self.down = self._down(rows) / rows
        """Cycles of a product, for each row and matrix of columns."""
        self.right = matrices_of(columns) / columns
        """Matrices of a column."""

    def _bringing(self, operand: Operand, source: Source, panel: int, strides: Strides) -> float:
        """Cycles to bring an element to where it is arranged."""
        read = reading(source, operand, panel, self.plan, strides, self.target) / 2
        is_ragged = False
        if self.m.in_parts:
            is_read = operand.access is not None
            if source == "packed" and is_read and overlaps(operand, self.plan.form):
                return _NEAR_BY * read
            is_ragged = source != "prepared" and self.plan.depth.most % self.m.depth > 0
        read += FROM_AFAR * self._is_far(operand) + _RAGGED * is_ragged
        return read + _SPREAD * (source == "packed" and _is_spread(operand, strides))

    def _of_rows(self, strides: Strides) -> float:
        plan, depth = self.plan, self.plan.depth
        is_turned = plan.broadcast_source != "direct" or (
            step_of(plan.broadcast, depth.indices, strides) != 1
        )
        if self.m.in_parts:
            return TURN if is_turned else ARRANGE
        return 2 * COPY if is_turned else COPY

    def _of_columns(self) -> float:
        whole = self.plan.depth.most % self.m.depth == 0
        return ARRANGE if self.m.in_parts else 0.0 if whole else COPY

    def _is_far(self, operand: Operand) -> bool:
        """Whether an operand comes from beyond the caches of a core."""
        return is_far(operand, self.plan.depth, self.plan.form.dtype.numpy().itemsize, self.target)

    @staticmethod
    def _down(rows: int) -> float:
        whole, rest = divmod(rows, LANES)
        return whole * LANES + (max(rest, _LEAST) if rest else 0)

    def has_room(self, rows: int, columns: int) -> bool:
        """Whether the second cache holds a block as matrices, what is packed, and sums."""
        plan, m = self.plan, self.m
        steps = -(-plan.depth.most // m.depth)
        taken = (matrices_of(rows) * m.rows + matrices_of(columns) * m.columns) * steps * MATRIX
        packed = rows * (plan.broadcast_source == "packed")
        packed += columns * (plan.vector_source == "packed")
        taken += 4 * packed * plan.depth.most
        taken += 4 * rows * columns * (self.blocks > 1)
        return taken <= self.room

    def until_done(self, row_block: int, lane_block: int) -> float:
        """Cycles until all cores have done all chunks of a size."""
        plan, cores = self.plan, self.target.cores
        rows, columns = plan.broadcast.extent, plan.vector.extent
        down, right = -(-rows // row_block), -(-columns // lane_block)
        chunks = plan.outer * down * right
        chunk = self.chunk(rows / down, columns / right)
        # those at the ends are shorter: others are done in the meantime
        largest = self.chunk(min(row_block, rows), min(lane_block, columns))
        even = max(chunk * chunks / cores, largest * -(-chunks // cores) * (chunks < 8 * cores))
        return even + 0.07 * largest + min(CLAIM, chunk / 10) * chunks / cores

    def chunks(self, rows: int, columns: Sequence[int]) -> list[float]:
        """Cycles of chunks of several numbers of columns."""
        return [self.chunk(rows, count) for count in columns]

    def chunk(self, rows: float, columns: float) -> float:
        """Cycles of a chunk of so many rows and columns."""
        m, plan = self.m, self.plan
        count = len(m.products)
        a_loads, b_loads = m.loads
        down, right = rows * self.down, columns * self.right
        products = SLOWED * count * down * right
        tiles = max(rows / plan.rows, 1.0) * max(columns / plan.panel, 1.0)
        loads = LOAD * (
            a_loads * rows / LANES * max(columns / plan.panel, 1.0)
            + b_loads * right * max(rows / plan.rows, 1.0)
        )
        sums = rows / LANES * right * (SUMS * self.blocks + AGAIN * (self.blocks - 1))
        return (
            50.0
            + max(products, 1.1 * loads) * self.steps
            + tiles * CALL * self.blocks
            + sums
            + rows * columns * self.each
            + rows * self.row
            + columns * self.column
        )
