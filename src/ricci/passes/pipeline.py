"""The passes, in order."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from .. import config
from ..dtypes import Types
from ..garbage import uncollected
from ..ir.interpret_bind import checks_on_data
from ..ir.loops import (
    Action,
    Buffer,
    Kernel,
    Kind,
    Program,
    Reduce,
    Scatter,
    all_actions,
    expressions_of,
    tensors_touched,
    tensors_written,
)
from ..ir.nodes import Expr, Graph, Symbol, Tensor, integer
from ..ir.rewrite import Replaceable, free_symbols, substitute
from ..ir.shapes import simplify
from ..ir.verify import Stage, verify_graph
from ..memo import forget
from ..records import replace
from .arrange import arrange_constants
from .bands import do_in_bands
from .batches import batch_by_batch
from .borders import copy_borders
from .control import Lowered, lower_control
from .exact import keep_exact
from .hoist import hoist
from .in_place import sums_in_place
from .items import Items, items_of, open_batch
from .layout import choose_layouts
from .leaves import mark_leaving
from .machine import UNKNOWN, Machine
from .memory import plan_memory, split_constant
from .prune import prune
from .residuals import keep_residuals
from .scale import move_constants
from .scans import separate_scans
from .specialise import specialise
from .state import update_in_place
from .strided import copy_strided
from .views import Views, root_of
from .wide import hold_in_float32


@uncollected()
def lower(
    graph: Graph,
    sizes: Mapping[Symbol, int],
    types: Types,
    strides: Mapping[int, tuple[int, ...]] | None = None,
    states: int = 0,
    machine: Machine = UNKNOWN,
) -> Program:
    """A graph as actions over buffers; symbols without a size are sizes of a call.

    `strides`, in elements, are those of inputs, by number, that are not row-major; the graph then
    has neither branches nor loops. The last `states` inputs are variables, each a port, whose new
    values are the last outputs. `machine` is what the program is for, as far as it matters.
    """
    check = verify_graph if config.get("verify") else _accept
    check(graph, "composed")
    size = None if sizes or states or strides else open_batch(graph, types)
    whole, graph = graph, specialise(graph, sizes if size is None else {size: 1}, types)
    conditions = conditions_on_data(whole, graph, sizes) if size is None else []
    items = None if size is None else items_of(whole, graph, size)
    stage: Stage = "concrete" if graph.symbols or graph.sizes else "static"
    check(graph, stage)
    for change in (prune, hoist, separate_scans):
        before, graph = graph, change(graph)
        if graph is not before:
            check(graph, stage)
    inputs = _inputs(graph)
    strided = {inputs[number]: steps for number, steps in (strides or {}).items()}
    lowered = lower_control(graph, conditions, strided, machine)
    changed = None
    if states and not graph.sizes:
        changed = update_in_place(lowered, _states(graph, states))
    program = _program(graph, changed or lowered, len(conditions), strided, machine, states, items)
    in_place = states if changed else 0
    tensors_touched.cache_clear()  # most of those kernels are no more
    forget()
    return replace(program, strides={**program.strides, **strided}, states=in_place)


def conditions_on_data(graph: Graph, concrete: Graph, sizes: Mapping[Symbol, int]) -> list[Expr]:
    """The conditions of the checks of a graph, in order, that sizes which data defines decide, over
    the symbols of the graph for given sizes."""
    known: dict[Replaceable, Expr | Tensor] = {s: integer(n) for s, n in sizes.items()}
    known |= zip(_symbols(graph, sizes), _symbols(concrete, sizes), strict=True)
    return [simplify(substitute(c.condition, known)) for c in checks_on_data(graph)]


def _symbols(graph: Graph, sizes: Mapping[Symbol, int]) -> list[Symbol]:
    """The symbols that have no value, in order."""
    return [s for s in (*graph.symbols, *(s for s, _ in graph.sizes)) if s not in sizes]


def _accept(graph: Graph, stage: Stage) -> None:
    """No check."""


def _inputs(graph: Graph) -> tuple[Tensor, ...]:
    return tuple(t for p in graph.inputs for t in p.tensors)


def _outputs(graph: Graph) -> tuple[Tensor, ...]:
    return tuple(t for p in graph.outputs for t in p.tensors)


def _states(graph: Graph, count: int) -> list[tuple[Tensor, Tensor]]:
    """The old and new values of the last inputs and outputs, which are variables."""
    return list(zip(_inputs(graph)[-count:], _outputs(graph)[-count:], strict=True))


def _program(
    graph: Graph,
    lowered: Lowered,
    checks: int,
    strided: Mapping[Tensor, tuple[int, ...]],
    machine: Machine,
    states: int,
    items: Items | None,
) -> Program:
    """Actions and ports with their buffers; the last `states` outputs are read by the next call.
    If there are `items`, the graph is that for one of them."""
    inputs = _inputs(graph)
    constants = tuple(t for t in graph.constants if t.data is not None)
    views = lowered.views
    early, late, kept = _split(graph, lowered, constants)
    fixed: dict[Tensor, Buffer] = {t: Buffer("size", k) for t, k in lowered.cells.items()}
    fixed |= {t: Buffer("pointer", k) for t, k in lowered.pointers.items()}
    kept = [t for t in kept if t not in views]
    constant = {*graph.variables, *constants, *kept}
    ports = {*inputs, *_outputs(graph), *constant, *fixed}
    strides: dict[Tensor, tuple[int, ...]] = {}
    late = keep_residuals(late, {*ports, *lowered.changing, *views, *views.values()})
    late = hold_in_float32(late, machine.pairs)
    if not (graph.symbols or graph.sizes):
        late, moved = move_constants(late, constant)
        early += moved.kernels
        kept += moved.constants
        constant |= {*moved.constants}
        ports |= {*moved.constants}
        late = sums_in_place(late, ports | lowered.changing, views)
        strides = _layouts(late, lowered, constant, ports)
        late, arranged = arrange_constants(late, lowered.places.strides_of_all(strides), constant)
        early += arranged.kernels
        kept += arranged.copies.values()
        strides |= arranged.strides
        exact = keep_exact(early, late, constant | {*kept}, {*strides, *views, *views.values()})
        early, late, constant = exact.early, exact.late, {*exact.all(constant)}
        ports = {*exact.all(ports)}
        late = copy_borders(late, lowered.places.strides_of_all(strides), constant)
        late = copy_strided(late, lowered.places.strides_of_all(strides), constant, machine.takes)
        batched = batch_by_batch(
            late, lowered.places, {**strides, **strided}, ports | lowered.changing, machine
        )
        late, strides = list(batched.actions), dict(batched.strides)
        fixed |= {
            t: Buffer("pointer", len(lowered.pointers) + k) for k, t in enumerate(batched.items)
        }
        late, narrowed, strides = do_in_bands(
            late,
            batched.places,
            strides,
            constant | {*exact.all(arranged.copies.values())},
            {*fixed, *ports, *lowered.changing},
            machine,
        )
        lowered = replace(lowered, places=narrowed)
        views = lowered.views
        late = mark_leaving(late, _outputs(graph)[: len(_outputs(graph)) - states], views)
    else:
        exact = keep_exact(early, late, constant, {*strided, *views, *views.values()})
        early, late = exact.early, exact.late
    kept, constants = [*exact.all(kept)], exact.all(constants)
    variables = exact.all(graph.variables)
    if items is not None:
        late = [*items.loop(late)]
    blocks: dict[Kind, Sequence[Tensor]] = {
        "kept": kept,
        "output": _outputs(graph),
        "input": inputs,
        "variable": variables,
        "constant": constants,
    }
    for kind, tensors in blocks.items():
        fixed |= {tensor: Buffer(kind, number) for number, tensor in enumerate(tensors)}
    starts, strides = lowered.places.starts(strides), lowered.places.strides_of_all(strides)
    buffers, _, _ = plan_memory(tuple(early), fixed, views, starts, strides)
    rest, room, arena = plan_memory(tuple(late), fixed, views, starts, strides)
    program = Program(
        graph.name, inputs, _outputs(graph), variables, constants, tuple(kept),
        tuple(early), tuple(late), {**fixed, **buffers, **rest}, arena,
        (*graph.symbols, *(s for s, _ in graph.sizes)), len(graph.sizes), checks, strides,
        room=room,
    )  # fmt: skip
    return program if items is None else items.program(program, rest)


def _layouts(
    actions: Sequence[Action],
    lowered: Lowered,
    constant: Container[Tensor],
    placed: Container[Tensor],
) -> dict[Tensor, tuple[int, ...]]:
    """The strides of intermediate tensors that are not row-major."""
    kernels = (a for a in all_actions(tuple(actions)) if isinstance(a, Kernel))
    tensors = {t for k in kernels for t in tensors_touched(k)} | {*lowered.views.values()}
    fixed = {t for t in tensors if t in placed} | lowered.changing
    return choose_layouts(actions, constant, fixed, lowered.places)


def _split(
    graph: Graph, lowered: Lowered, constants: Sequence[Tensor]
) -> tuple[list[Kernel], list[Action], list[Tensor]]:
    """The kernels that depend on variables and constants alone, the rest, and what the former
    write."""
    views = lowered.views
    results = {*_outputs(graph), *lowered.changing, *lowered.cells}
    results |= {t for t in views if root_of(t, views) in results}
    results |= {root_of(t, views) for t in results}
    top = [a for a in lowered.actions if isinstance(a, Kernel)]
    for kernel in top:
        if _has_sizes(kernel, views):
            results.update(root_of(t, views) for t in tensors_written(kernel))
    early, _, kept = split_constant(top, (*graph.variables, *constants), results, views)
    taken = set(map(id, early))
    return early, [a for a in lowered.actions if id(a) not in taken], kept


def _has_sizes(kernel: Kernel, views: Views) -> bool:
    """Whether what a kernel does depends on the sizes of a call."""
    extents = [e for t in tensors_touched(kernel) for e in t.shape]
    if isinstance(kernel, Reduce):
        extents += [i.extent for i in (*kernel.domain, *kernel.reduced)]
    elif isinstance(kernel, Scatter):
        extents += [i.extent for i in kernel.assignment.domain]
    return bool(free_symbols(*extents, *expressions_of(kernel)))
