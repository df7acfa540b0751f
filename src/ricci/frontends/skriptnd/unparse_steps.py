"""Steps of a graph as components: operations, branches and loops (specification 2.10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from ...ir import nodes, rewrite, shapes
from ...records import dataclass, replace
from . import syntax as s
from .unparse_expressions import Named, Namer, Names, integer, unparse, unsayable, with_blocks
from .unparse_formulas import formulas, zeros
from .unparse_library import LibraryCall, library_call
from .unparse_operation import Formula, all_nodes
from .unparse_uses import Uses, produced

_LONGEST = 4096
"""The greatest size that is the length of a pack for no other reason."""


@dataclass(eq=False)
class Shared:
    """What all operators of the module that is written share."""

    graph: nodes.Graph
    uses: Uses
    names: Namer
    """For operators."""
    checks: list[nodes.Check]
    """Those that no operator makes yet."""
    operators: dict[tuple[str, s.Operator], str] = field(default_factory=dict)
    """The names of operators; graphs have one of their own, which is in the key."""
    modules: dict[str, None] = field(default_factory=dict)
    places: dict[nodes.Tensor, tuple[str, ...]] = field(default_factory=dict)
    """The scoped names of tensors that `@quantize` names."""

    def __post_init__(self) -> None:
        self.noted = {entry.tensor: entry.name for entry in self.graph.quantization}
        """The tensors that `@quantize` names, and how."""

    def define(self, wanted: str, operator: s.Operator) -> str:
        """The name of an operator in the module; those that are equal are one."""
        key = ("", operator)
        if key not in self.operators:
            self.operators[key] = self.names(wanted)
        return self.operators[key]

    def asserts(self, names: Names) -> tuple[s.Assertion, ...]:
        """Asserts for the checks whose sizes have these names, each once."""
        mine = [check for check in self.checks if all(x in names for x in sizes_of(check))]
        self.checks = [check for check in self.checks if check not in mine]
        return tuple([assertion(check, names) for check in mine])


class StepWriter:
    """Writes the components of one operator."""

    def __init__(self, shared: Shared, namer: Namer, path: tuple[str, ...] = ()) -> None:
        self.shared = shared
        self.path = path
        """The labels that lead here."""
        self.namer = namer
        self.names: dict[Named, s.Expr] = {}
        self.components: list[s.Component] = []
        self.outside: Mapping[Named, s.Expr] | None = None
        """What has names outside the part of the graph that is written, if it is a part."""
        self.reached: list[nodes.Check] = []
        """Checks that are made where this part of the graph runs, and not elsewhere."""
        self.results: dict[nodes.Tensor | tuple[nodes.Tensor, ...], str] = {}
        """Names that tensors and packs must have."""
        self.lengths: dict[str, int] = {}
        """The lengths of packs."""
        self.packs: dict[tuple[nodes.Tensor, ...], nodes.Expr] = {}
        """The packs whose length is known only at run time."""
        self.singles: dict[nodes.Tensor, s.Expr] = {}
        """The names of items of such packs."""
        self.items: dict[nodes.Symbol, tuple[nodes.Tensor, int]] = {}
        """Sizes that data defines: the item of a pack, and its dimension, that shows each."""

    def steps(self, steps: Iterable[nodes.Step]) -> None:
        for step in steps:
            if isinstance(step, nodes.Operation):
                if self.shared.uses.is_needless(step):
                    self._reach(step)
                else:
                    self._operation(step)
            elif isinstance(step, nodes.Branch):
                self._branch(step)
            else:
                self._loop(step)

    def _operation(self, operation: nodes.Operation) -> None:
        call = library_call(operation)
        if call is not None:
            self.add((operation.outputs[0],), self._library_invocation(operation, call))
            return
        lengths = {p: x for p, x in self.packs.items() if isinstance(x, nodes.Symbol)}
        for formula in formulas(operation, lengths):
            self.add(formula.outputs, self._invocation(operation, self._with_checks(formula)))

    def _library_invocation(self, operation: nodes.Operation, call: LibraryCall) -> s.Invocation:
        self.shared.modules[call.module] = None
        given = []
        for name, value in call.attributes:
            if isinstance(value, tuple):
                shown: s.Expr = s.List(tuple([self.sized(e) for e in value]))
            else:
                shown = s.Literal(value, value) if isinstance(value, str) else self.sized(value)
            given.append(s.Argument(name, shown))
        arguments = tuple([self.value(t) for t in operation.inputs])
        path = (call.module, call.operator)
        return s.Invocation(None, path, call.types, tuple(given), arguments)

    def _with_checks(self, formula: Formula) -> Formula:
        """The operator with asserts for the checks that must be made here.

        A check of sizes that are known outside is not made in a part that may not run.
        """
        known = {**formula.sizes, **{x: n for x, n in self.names.items() if x not in formula.sizes}}
        mine = [c for c in self.shared.checks if self._is_made_here(c, known)]
        if not mine:
            return formula
        self.shared.checks = [c for c in self.shared.checks if c not in mine]
        sizes, symbols = dict(formula.sizes), [*formula.symbols]
        namer = Namer(n.name for n in all_nodes(formula.operator) if isinstance(n, s.Name))
        namer.taken |= {p.name for p in (*formula.operator.inputs, *formula.operator.outputs)}
        for symbol in dict.fromkeys(x for c in mine for x in sizes_of(c)):
            if symbol not in sizes:
                name = namer(symbol.name.rpartition(".")[2])
                sizes[symbol] = s.Name(name)
                symbols.append((name, symbol))
        operator = replace(
            formula.operator,
            attributes=tuple([s.Parameter(n, s.Type("int")) for n, _ in symbols]),
            asserts=tuple([assertion(c, sizes) for c in mine]),
        )
        return replace(formula, operator=with_blocks(operator), symbols=tuple(symbols), sizes=sizes)

    def remaining_checks(self) -> None:
        """An operator for the checks that can be made here, and were not on the way."""
        for symbol in dict.fromkeys(x for c in self.shared.checks for x in sizes_of(c)):
            if symbol not in self.names and self._is_shown(symbol):
                self.size(symbol)
        if any(self._is_made_here(check, self.names) for check in self.shared.checks):
            result = nodes.Tensor("checked", nodes.ZERO.dtype, ())
            operation = nodes.Operation("check", (result,), (zeros(result),))
            (formula,) = formulas(operation, {})
            self.add((result,), self._invocation(operation, self._with_checks(formula)))

    def _is_shown(self, symbol: nodes.Symbol) -> bool:
        """Whether a tensor here has a size as an extent, or holds it."""
        if symbol in self.items:
            return self.items[symbol][0] in self.names
        known = self.shared.uses.definition.get(symbol) in self.names
        return known and _most(symbol) < 1 << 62

    def _is_made_here(self, check: nodes.Check, known: Names) -> bool:
        sizes = sizes_of(check)
        inner = self.outside is None or any(x not in self.outside for x in sizes)
        return all(x in known for x in sizes) and (inner or check in self.reached)

    def _reach(self, operation: nodes.Operation) -> None:
        """Make the checks that wait for this part to run; their condition says so."""
        for symbol, tensor in self.shared.uses.definition.items():
            if tensor in operation.outputs:
                for number, check in enumerate(self.shared.checks):
                    if (condition := _once_reached(check.condition, symbol)) is not None:
                        self.shared.checks[number] = replace(check, condition=condition)
                        self.reached.append(self.shared.checks[number])

    def _invocation(self, operation: nodes.Operation, formula: Formula) -> s.Invocation:
        wanted = "copy" if operation.name == "=" else operation.name.rpartition(".")[2]
        name = self.shared.define(wanted, formula.operator)
        attributes = tuple([s.Argument(n, self.size(x)) for n, x in formula.symbols])
        arguments = [
            self.pack(t) if isinstance(t, tuple) else self.value(t) for t in formula.inputs
        ]
        return s.Invocation(None, (name,), (), attributes, tuple(arguments))

    def size(self, symbol: nodes.Symbol) -> s.Expr:
        """A size; one that no shape shows is the length of what so many steps collect, if that is
        no long list."""
        if symbol in self.items and symbol not in self.names:
            tensor, axis = self.items[symbol]
            own = self.value(tensor)
            if not isinstance(own, s.Name):
                own = s.Name(self.namer("item"))
                self.components.append(s.Component((s.Result(own.name),), self.names[tensor]))
            self.names[symbol] = s.Subscript(s.Member(own.name, "shape"), integer(axis))
        definition = self.shared.uses.definition.get(symbol)
        computed = None if definition is None else self.shared.uses.computed.get(definition)
        if symbol not in self.names and computed is not None:
            self.names[symbol] = self.sized(computed)
        if symbol in self.names or definition is None or definition not in self.names:
            return unparse(symbol, self.names)
        bound = _most(symbol)
        if bound >= 1 << 62:
            raise unsayable(f"the size `{symbol.name}`, which data defines and nothing bounds")
        if bound > _LONGEST:
            self.names[symbol] = self._long_size(definition, int(bound))
            return self.names[symbol]
        name, item = self.namer("steps"), self.namer("step")
        places = s.List((s.Expand(integer(0), integer(int(bound))),))
        count = s.Count(None, self.names[definition])
        loop = s.Loop((), (s.Scan(item, places),), None, False, False, count, s.Name(item))
        self.components.append(s.Component((s.Result(name, pack=s.Pack()),), loop))
        self.names[symbol] = s.Member(name, "size")
        return self.names[symbol]

    def _long_size(self, size: nodes.Tensor, most: int) -> s.Expr:
        """The extent of as many places of a long tensor as a size says."""
        below = nodes.Tensor("below", nodes.TRUE.dtype, (nodes.integer(most),))
        index = nodes.Index("i", below.shape[0])
        value = nodes.Binary("lt", index, nodes.Access(size, ()))
        target = nodes.Access(below, (nodes.Subscript(index),))
        line = nodes.Assignment((target,), "set", (value,), (index,))
        self._operation(nodes.Operation("below", (below,), (line,), (size,)))
        self.shared.modules["layout"] = None
        places = s.Invocation(None, ("layout", "nonzero"), (), (), (self.names[below],))
        name = self.namer("steps")
        self.components.append(s.Component((s.Result(name),), places))
        return s.Subscript(s.Member(name, "shape"), integer(1))

    def sized(self, expr: nodes.Expr) -> s.Expr:
        """An expression of sizes."""
        for symbol in rewrite.free_symbols(expr):
            self.size(symbol)
        return unparse(expr, self.names)

    def _branch(self, branch: nodes.Branch) -> None:
        kept = [k for k, t in enumerate(branch.outputs) if t not in self.shared.uses.sizes]
        conditions = tuple([self._region(r, [0]) for r in branch.conditions])
        branches = tuple([self._region(r, kept) for r in branch.branches])
        outputs = [branch.outputs[k] for k in kept]
        self.add(outputs, s.Branch(conditions, branches))

    def _loop(self, loop: nodes.Loop) -> None:
        initial = [self.value(t) for t in loop.initial]
        variables = [self._new(tensor) for tensor in loop.variables]
        carried = [s.Carried(n, None, x) for n, x in zip(variables, initial, strict=True)]
        packs = [(t, self.pack(ts)) for t, ts in loop.scans if t not in self.shared.uses.sizes]
        scans = tuple([s.Scan(self._new(t), pack) for t, pack in packs])
        for tensor in (*loop.variables, *(item for item, _ in packs)):
            self.name_sizes(tensor)
        index = None if loop.index is None else self._new(loop.index)
        count = self._count(loop, index, bool(scans))
        condition = None if loop.condition is None else self._region(loop.condition, [0])
        width = len(loop.outputs)
        kept = [k for k, pack in enumerate(loop.collected) if not self.shared.uses.are_sizes(pack)]
        body = self._region(loop.body, [*range(width), *(width + k for k in kept)])
        action = s.Loop(tuple(carried), scans, condition, loop.pretest, False, count, body)
        fixed = loop.condition is None and isinstance(loop.count, nodes.Const)
        collected = [loop.collected[k] for k in kept]
        self.add([*loop.outputs, *collected], action, fixed)
        self._name_length(loop, [pack for pack in collected if pack])

    def _name_length(self, loop: nodes.Loop, collected: Sequence[tuple[nodes.Tensor, ...]]) -> None:
        """The number of steps is the length of what they collect."""
        sizes: list[nodes.Expr] = []
        sizes += [x for x, t in self.shared.uses.definition.items() if t is loop.steps]
        if loop.count is not None and not isinstance(loop.count, nodes.Const | nodes.Tensor):
            sizes.append(loop.count)
        if sizes:
            self.packs.update((pack, sizes[0]) for pack in collected)
        for symbol in sizes:
            if collected and isinstance(symbol, nodes.Symbol) and symbol not in self.names:
                pack = self.names[collected[0][0]]
                assert isinstance(pack, s.Subscript)
                assert isinstance(pack.pack, s.Name)
                self.names[symbol] = s.Member(pack.pack.name, "size")

    def _count(self, loop: nodes.Loop, index: str | None, scans: bool) -> s.Count | None:
        """How often a loop repeats, where what it scans does not say it."""
        count: s.Expr | None = None
        if isinstance(loop.count, nodes.Tensor):
            count = self.names[loop.count]
        elif isinstance(loop.count, nodes.Symbol) and loop.count not in self.names:
            count = self.names.get(self.shared.uses.definition[loop.count])
        elif loop.count is not None and not (scans and isinstance(loop.count, nodes.Const)):
            count = self.sized(loop.count)
        return None if index is None and count is None else s.Count(index, count)

    def _region(self, region: nodes.Region, kept: Sequence[int]) -> s.Callable:
        """A part of the graph as a block, or as what is invoked alone in it."""
        components, names, path = self.components, dict(self.names), self.path
        singles = dict(self.singles)
        outside, self.outside = self.outside, names
        label = self._label(region)
        self.components = []
        self.path = path if label is None else (*path, label)
        self.steps(region.operations)
        self.remaining_checks()
        results = tuple([self.value(region.results[k]) for k in kept])
        inside, self.components, self.names = self.components, components, names
        self.singles = singles
        self.path, self.outside = path, outside
        if label is not None:
            return s.Block(label, tuple(inside), results)
        if not inside and len(results) == 1:
            return results[0]
        if len(inside) == 1 and isinstance(inside[0].action, s.Invocation):
            computed = [s.Name(r.name) for r in inside[0].results if isinstance(r, s.Result)]
            if computed == [*results]:
                return inside[0].action
        return s.Block(None, tuple(inside), results)

    def _label(self, region: nodes.Region) -> str | None:
        """The label of a block, if tensors in it need scoped names."""
        inner = rewrite.all_steps(region.operations)
        named = any(t in self.shared.noted for step in inner for t in produced(step))
        return self.namer("block") if named else None

    # ------------------------------------------------------------------------- results

    def add(
        self,
        outputs: Sequence[nodes.Tensor | tuple[nodes.Tensor, ...]],
        action: s.Action,
        fixed: bool = True,
    ) -> None:
        """A component that computes tensors and packs; a pack is of the length that it has, unless
        that is not `fixed`."""
        results = []
        for output in outputs:
            tensors = output if isinstance(output, tuple) else (output,)
            wanted = self.local_name(tensors[0]) if tensors else "empty"
            if isinstance(output, tuple):
                name = self.results.pop(output, "") or self.namer(wanted.partition(":")[0])
                result = self.result(name, output, True)
                results.append(result if fixed else s.Result(name, pack=s.Pack()))
            else:
                name = self.results.pop(tensors[0], "") or self.namer(wanted)
                results.append(self.result(name, tensors, False))
        self.components.append(s.Component(tuple(results), action))
        for output in outputs:
            if not isinstance(output, tuple):
                self.name_sizes(output)
            else:
                self.note_items(output)

    def note_items(self, pack: Sequence[nodes.Tensor]) -> None:
        """Items of a pack show sizes."""
        for tensor in pack:
            for axis, extent in enumerate(tensor.shape):
                if isinstance(extent, nodes.Symbol):
                    self.items.setdefault(extent, (tensor, axis))

    def result(self, name: str, tensors: Sequence[nodes.Tensor], packed: bool) -> s.Result:
        self.name(name, tensors, packed)
        return s.Result(name, pack=s.Pack(integer(len(tensors))) if packed else None)

    def name(self, name: str, tensors: Sequence[nodes.Tensor], packed: bool) -> None:
        if packed:
            self.lengths[name] = len(tensors)
        for position, tensor in enumerate(tensors):
            if tensor in self.shared.noted:
                self.shared.places.setdefault(tensor, (*self.path, name))
            at = s.Name(name)
            self.names[tensor] = s.Subscript(at, integer(position)) if packed else at

    def _new(self, tensor: nodes.Tensor) -> str:
        name = self.namer(self.local_name(tensor))
        self.names[tensor] = s.Name(name)
        return name

    def name_sizes(self, tensor: nodes.Tensor) -> None:
        """Sizes that data defines are extents of the first tensor that has them."""
        name = self.names[tensor]
        for axis, extent in enumerate(tensor.shape):
            known = extent in self.names if isinstance(extent, nodes.Symbol) else True
            if not known and isinstance(extent, nodes.Symbol) and isinstance(name, s.Name):
                self.names[extent] = s.Subscript(s.Member(name.name, "shape"), integer(axis))

    def pack(self, tensors: Sequence[nodes.Tensor]) -> s.Expr:
        """Several tensors as a list, or the pack that they are."""
        items = [self.names[t] for t in tensors]
        first = items[0] if items else None
        if isinstance(first, s.Subscript) and isinstance(first.pack, s.Name):
            length = self.lengths[first.pack.name]
            whole = [s.Subscript(first.pack, integer(k)) for k in range(length)]
            if items == whole:
                return first.pack
        return s.List(tuple([self.value(t) for t in tensors]))

    def value(self, tensor: nodes.Tensor) -> s.Expr:
        """What a tensor is called; an item of a pack that may not be there gets a name."""
        length = next((x for pack, x in self.packs.items() if tensor in pack), None)
        if length is None:
            return self.names[tensor]
        if tensor not in self.singles:
            self.singles[tensor] = self._single(tensor, length)
        return self.singles[tensor]

    def _single(self, tensor: nodes.Tensor, length: nodes.Expr) -> s.Expr:
        """An item of a pack whose length is known only at run time: zeros if it is not there."""
        item = self.names[tensor]
        assert isinstance(item, s.Subscript)
        found = rewrite.free_symbols(*tensor.shape)
        own: dict[rewrite.Replaceable, nodes.Expr | nodes.Tensor] = {
            x: nodes.ZERO for x in found if not self._is_known(x)
        }
        shape = tuple([rewrite.substitute(e, own) for e in tensor.shape])
        absent = nodes.Tensor(tensor.name, tensor.dtype, shape)
        operation = nodes.Operation("zeros", (absent,), (zeros(absent),))
        (formula,) = formulas(operation, {})
        there = s.Binary(">", self.sized(length), item.index)
        branch = s.Branch((there,), (item, self._invocation(operation, formula)))
        name = self.namer(self.local_name(tensor))
        self.components.append(s.Component((s.Result(name),), branch))
        for axis, extent in enumerate(tensor.shape):
            if isinstance(extent, nodes.Symbol) and extent in own:
                self.names[extent] = s.Subscript(s.Member(name, "shape"), integer(axis))
        return s.Name(name)

    def _is_known(self, symbol: nodes.Symbol) -> bool:
        return symbol in self.names or self.shared.uses.definition.get(symbol) in self.names

    def local_name(self, tensor: nodes.Tensor) -> str:
        """What a tensor is called in the graph; names that nobody gave are in small letters."""
        name = self.shared.noted.get(tensor, tensor.name)
        name = name.removeprefix(f"{self.shared.graph.name}.")
        return name.lstrip(".").lower() if name.startswith(".") else name


# -------------------------------------------------------------------------- details


def _most(symbol: nodes.Symbol) -> float:
    """The greatest value of a size."""
    return shapes.interval(symbol)[1]


def sizes_of(check: nodes.Check) -> tuple[nodes.Symbol, ...]:
    """The sizes that a check, with its message, speaks of."""
    exprs = [check.condition, *_exprs(check.message), *_exprs([v for _, v in check.values])]
    return rewrite.free_symbols(*exprs)


def _once_reached(condition: nodes.Expr, symbol: nodes.Symbol) -> nodes.Expr | None:
    """What `symbol == 0 || c` demands where that size is not zero."""
    match condition:
        case nodes.Binary("or", nodes.Binary("eq", nodes.Symbol() as found, nodes.Const(0)), rest):
            return rest if found is symbol else None
    return None


def _exprs(
    values: Iterable[str | nodes.Expr | tuple[nodes.Expr, ...]],
) -> list[nodes.Expr]:
    found: list[nodes.Expr] = []
    for value in values:
        if isinstance(value, tuple):
            found += value
        elif not isinstance(value, str):
            found.append(value)
    return found


def assertion(check: nodes.Check, names: Names) -> s.Assertion:
    parts = [p if isinstance(p, str) else _shown(p, names) for p in check.message]
    message: s.Expr | None = s.Format(tuple(parts))
    if all(isinstance(p, str) for p in parts):
        text = "".join(p for p in parts if isinstance(p, str))
        message = s.Literal(text, text)
    prints = tuple([s.Print(label, _shown(value, names)) for label, value in check.values])
    return s.Assertion(unparse(check.condition, names), message, prints)


def _shown(value: nodes.Expr | tuple[nodes.Expr, ...], names: Names) -> s.Expr:
    if isinstance(value, tuple):
        return s.List(tuple([unparse(item, names) for item in value]))
    return unparse(value, names)
