"""Variables in the scopes of labels, with what makes their new values.

A variable `main.G.near.sum` can be declared, and get a new value, only in the operator that is
invoked with the label `near`. That operator takes in all steps that lead from variables of its
scope to new values of them; the others stay outside. A step that leads to variables of several
scopes is in each, as far as it is needed there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from ...ir import nodes, rewrite
from . import syntax as s
from .unparse_expressions import (
    Namer,
    constant,
    integer,
    type_name,
    unparse,
    unsayable,
    with_blocks,
)
from .unparse_split import Splitter
from .unparse_steps import Shared, StepWriter
from .unparse_uses import free_symbols, produced, reads
from .unparse_variables import VariableScope, check_values

Updates = Mapping[nodes.Tensor, nodes.Tensor]


@dataclass(eq=False)
class _Inner:
    """The operator of an inner scope, and the steps that are in it."""

    label: str
    scope: VariableScope
    shared: bool
    """Whether it is a graph that is invoked under its own name, and has no label."""
    steps: list[nodes.Step]


class ScopeWriter(StepWriter):
    """Writes an operator with variables, and those of the scopes within."""

    def __init__(
        self,
        shared: Shared,
        namer: Namer,
        root: VariableScope,
        new: Updates,
        graphs: Mapping[str, VariableScope] | None = None,
        path: tuple[str, ...] = (),
    ) -> None:
        super().__init__(shared, namer, path)
        self.root = root
        self.new = new
        self.graphs = graphs or {}
        for name, tensors in root.own.items():
            self.name(name, tensors, ":" in tensors[0].name)

    def write(self, steps: Sequence[nodes.Step], wanted: Iterable[nodes.Tensor]) -> None:
        """Components for all steps; `wanted` are the tensors that somebody outside reads.

        Raises E0706 where scopes need each other's results for the values of their variables.
        """
        inner = [self._inner(label, x, False, steps) for label, x in self.root.inner.items()]
        inner += [self._inner(name, x, True, steps) for name, x in self.graphs.items()]
        wanted = [*wanted, *self._new_values(self.root.own.values())]
        steps = self._separated(steps, inner, wanted)
        owner = {step: part for part in inner for step in part.steps}
        readers = self._readers(steps, inner, owner)
        for tensor in wanted:
            readers.setdefault(tensor, set()).add(None)
        for unit in self._ordered(steps, inner, owner):
            if isinstance(unit, _Inner):
                self._invoke(unit, readers)
            else:
                self.steps([unit])

    def _readers(
        self,
        steps: Sequence[nodes.Step],
        inner: Sequence[_Inner],
        owner: Mapping[nodes.Step, _Inner],
    ) -> dict[nodes.Tensor, set[_Inner | None]]:
        """The inner scopes that read each tensor; None stands for all that is outside of them."""
        readers: dict[nodes.Tensor, set[_Inner | None]] = {}
        for step in steps:
            for tensor in reads(step):
                readers.setdefault(tensor, set()).add(owner.get(step))
        for part in inner:
            for tensor in self._new_values(part.scope.all()):
                readers.setdefault(tensor, set()).add(part)
        return readers

    def _new_values(self, variables: Iterable[Sequence[nodes.Tensor]]) -> list[nodes.Tensor]:
        return [self.new[t] for tensors in variables for t in tensors if t in self.new]

    def updates(self) -> Iterator[s.Component]:
        """New values of variables; items of a pack that have none keep theirs."""
        for name, tensors in self.root.own.items():
            values = [self.new.get(t, t) for t in tensors]
            if values == tensors:
                continue
            if isinstance(self.names[tensors[0]], s.Subscript):
                pack = s.Pack(integer(len(tensors)))
                yield s.Component((s.Result(name, pack=pack),), self.pack(values))
            else:
                yield s.Component((s.Result(name),), self.names[values[0]])

    # --------------------------------------------------------------------------- order

    def _separated(
        self,
        steps: Sequence[nodes.Step],
        inner: Sequence[_Inner],
        wanted: Iterable[nodes.Tensor],
    ) -> list[nodes.Step]:
        """The steps, with copies for those scopes that would have some in common."""
        owners = Counter(step for part in inner for step in part.steps)
        common = [part for part in inner if any(owners[step] > 1 for step in part.steps)]
        shared = {step for part in common for step in part.steps}
        splitter = Splitter(self.shared.uses)
        for part in common:
            new = self._new_values(part.scope.all())
            copies, own = splitter.copied(splitter.needed(part.steps, new))
            own_new = {t: own.get(self.new[t], self.new[t]) for t in self._updated(part)}
            self.new = {**self.new, **own_new}
            part.steps = [*copies]
        needed = {*wanted, *(t for part in inner for t in self._new_values(part.scope.all()))}
        needed |= {t for part in common for step in part.steps for t in splitter.read(step)}
        kept: list[nodes.Step] = []
        for step in reversed(steps):
            if step in shared:
                if not needed & set(produced(step)):
                    continue
                step = splitter.part(step, needed)
            needed |= splitter.read(step)
            kept.append(step)
        return [*(x for part in common for x in part.steps), *reversed(kept)]

    def _updated(self, part: _Inner) -> list[nodes.Tensor]:
        """The variables of a scope that get new values."""
        return [t for tensors in part.scope.all() for t in tensors if t in self.new]

    def _inner(
        self, label: str, scope: VariableScope, shared: bool, steps: Sequence[nodes.Step]
    ) -> _Inner:
        """The steps between the variables of a scope and their new values."""
        variables = {t for tensors in scope.all() for t in tensors}
        needed = {self.new[t] for t in variables if t in self.new}
        if not needed:
            return _Inner(label, scope, shared, [])
        before: set[nodes.Step] = set()
        for step in reversed(steps):
            if needed & set(produced(step)):
                before.add(step)
                needed |= set(reads(step))
        behind: list[nodes.Step] = []
        for step in steps:
            if variables & set(reads(step)):
                variables |= set(produced(step))
                behind.append(step)
        return _Inner(label, scope, shared, [step for step in behind if step in before])

    def _ordered(
        self,
        steps: Sequence[nodes.Step],
        inner: Sequence[_Inner],
        owner: Mapping[nodes.Step, _Inner],
    ) -> Iterator[nodes.Step | _Inner]:
        """Steps and inner scopes, each behind those whose results it reads."""
        units: list[nodes.Step | _Inner] = [*inner, *(x for x in steps if x not in owner)]
        source: dict[nodes.Tensor, nodes.Step | _Inner] = {}
        for step in steps:
            source.update((t, owner.get(step, step)) for t in produced(step))
        for part in inner:
            source.update((t, part) for tensors in part.scope.all() for t in tensors)
        waiting = {u: self._sources(u, source) - {u} for u in units}
        followers: dict[nodes.Step | _Inner, list[int]] = {u: [] for u in units}
        for number, unit in enumerate(units):
            for needed in waiting[unit]:
                followers[needed].append(number)
        ready = [number for number, unit in enumerate(units) if not waiting[unit]]
        for _ in units:
            if not ready:
                raise unsayable("variables of scopes whose new values depend on each other")
            done = units[heappop(ready)]
            for number in followers[done]:
                waiting[units[number]].discard(done)
                if not waiting[units[number]]:
                    heappush(ready, number)
            yield done

    def _sources(
        self, unit: nodes.Step | _Inner, source: Mapping[nodes.Tensor, nodes.Step | _Inner]
    ) -> set[nodes.Step | _Inner]:
        if not isinstance(unit, _Inner):
            tensors = [*reads(unit), *self._definitions([unit])]
        else:
            tensors = [t for step in unit.steps for t in reads(step)]
            tensors += [*self._new_values(unit.scope.all()), *self._definitions(unit.steps)]
        return {source[t] for t in tensors if t in source}

    def _counts(self, steps: Sequence[nodes.Step]) -> list[nodes.Tensor]:
        """The tensors that say how often loops repeat."""
        known = self.shared.uses.definition
        loops = [x for x in rewrite.all_steps(steps) if isinstance(x, nodes.Loop)]
        counts = [x.count for x in loops if isinstance(x.count, nodes.Symbol)]
        return [known[x] for x in counts if x in known]

    def _definitions(self, steps: Sequence[nodes.Step]) -> list[nodes.Tensor]:
        """The tensors that define the sizes in some steps."""
        known = self.shared.uses.definition
        return [known[x] for step in steps for x in free_symbols(step) if x in known]

    # --------------------------------------------------------------------- inner scopes

    def _invoke(self, part: _Inner, readers: Mapping[nodes.Tensor, set[_Inner | None]]) -> None:
        """An operator with the variables of a scope, and its invocation."""
        scope = part.scope
        own = [t for tensors in scope.all() for t in tensors]
        candidates = [*own, *(t for step in part.steps for t in produced(step))]
        outside = {t for t in candidates if readers.get(t, set()) - {part}}
        namer = Namer((*scope.own, *scope.inner))
        writer = ScopeWriter(self.shared, namer, scope, self.new, path=(*self.path, part.label))
        inputs, symbols = self._inputs(part, writer)
        made = [t for step in part.steps for t in produced(step) if t in outside]
        for tensor in made:
            writer.results[tensor] = writer.namer(self.local_name(tensor))
        names = {t: writer.results[t] for t in made}
        held = [tuple(ts) for ts in scope.all() if outside & set(ts)]
        held = held or ([] if made else [tuple(ts) for ts in scope.all()][:1])
        writer.write(part.steps, [*made, *(t for ts in held for t in ts)])
        given: list[tuple[nodes.Tensor, ...]] = [(t,) for t in made] + held
        outputs = tuple([writer.output(tensors, names.get(tensors[0])) for tensors in given])
        writer.remaining_checks()
        operator = s.Operator(
            "",
            public=any(t in self.shared.noted for step in part.steps for t in produced(step)),
            attributes=tuple([s.Parameter(n, s.Type("int")) for n, _ in symbols]),
            inputs=tuple([p for _, p in inputs]),
            outputs=outputs,
            variables=scope.parameters(),
            compose=tuple(writer.components),
            update=tuple(writer.updates()),
        )
        check_values(scope, operator)
        call = self._invocation_of(part, with_blocks(operator), [t for t, _ in inputs], symbols)
        results = []
        for tensors in given:
            packed = ":" in tensors[0].name and tensors[0] not in names
            wanted = self.local_name(tensors[0]).partition(":")[0]
            name = self.results.pop(tensors[0], "") or self.namer(wanted)
            results.append(self.result(name, tensors, packed))
        self.components.append(s.Component(tuple(results), call))
        for tensor in made:
            self.name_sizes(tensor)

    def _invocation_of(
        self,
        part: _Inner,
        operator: s.Operator,
        inputs: Sequence[nodes.Tensor],
        symbols: Sequence[tuple[str, nodes.Symbol]],
    ) -> s.Action:
        arguments = tuple([self.value(t) for t in inputs])
        given = tuple([s.Argument(n, self.size(x)) for n, x in symbols])
        if part.shared:
            self.shared.operators[part.label, replace(operator, graph=True)] = part.label
            call = s.Invocation(None, (part.label,), (), given, arguments)
            yes = constant(True, nodes.TRUE.dtype)
            return s.Branch((yes,), (call, call))
        wanted = part.label if part.steps else f"{part.label}_variables"
        name = self.shared.define(wanted, operator)
        return s.Invocation(part.label, (name,), (), given, arguments)

    def _inputs(
        self, part: _Inner, writer: ScopeWriter
    ) -> tuple[list[tuple[nodes.Tensor, s.Parameter]], list[tuple[str, nodes.Symbol]]]:
        """What the operator of a scope takes: tensors, and the sizes that their shapes do not
        tell; all get names inside."""
        made = {t for step in part.steps for t in produced(step)}
        own = {t for tensors in part.scope.all() for t in tensors}
        found = [t for step in part.steps for t in reads(step)]
        found += self._new_values(part.scope.all())
        found += self._counts(part.steps)
        tensors = [t for t in dict.fromkeys(found) if t not in made | own]
        known = self.shared.uses.definition
        used = [x for t in tensors for x in rewrite.free_symbols(*t.shape)]
        used += [x for step in part.steps for x in free_symbols(step) if x not in known]
        used += [x for step in part.steps for x in free_symbols(step, counted=False) if x in known]
        symbols = [x for x in dict.fromkeys(used) if known.get(x) not in made]
        for symbol in symbols:
            writer.names[symbol] = s.Name(writer.namer(symbol.name.rpartition(".")[2]))
        inputs = []
        for tensor in tensors:
            outer = self.value(tensor)
            if not isinstance(outer, s.Name | s.Subscript):  # a number
                writer.names[tensor] = outer
                continue
            name = writer.namer(self.local_name(tensor))
            writer.names[tensor] = s.Name(name)
            shape = tuple([s.Extent(unparse(e, writer.names)) for e in tensor.shape])
            type = s.Type(type_name(tensor.dtype), shape=shape)
            inputs.append((tensor, s.Parameter(name, type)))
        told = {x for t, _ in inputs for x in t.shape if isinstance(x, nodes.Symbol)}
        return inputs, [(_plain(writer.names[x]), x) for x in symbols if x not in told]

    def output(self, tensors: Sequence[nodes.Tensor], name: str | None) -> s.Parameter:
        """An output of the operator; what has no name of its own for that is copied."""
        packed = name is None and ":" in tensors[0].name
        wanted = tensors[0].name.rpartition(".")[2].partition(":")[0]
        found = name or self.namer(f"{wanted}_value")
        if self.names[tensors[0]] != s.Name(found):
            pack = s.Pack(integer(len(tensors))) if packed else None
            value = self.pack(tensors) if packed else self.names[tensors[0]]
            self.components.append(s.Component((s.Result(found, pack=pack),), value))
        return s.Parameter(found, self.output_type(tensors, packed))

    def output_type(self, tensors: Sequence[nodes.Tensor], packed: bool) -> s.Type:
        """The declared type; without a shape if the tensors of a pack differ in rank."""
        pack = s.Pack(integer(len(tensors))) if packed else None
        if not tensors:
            return s.Type("real", pack=pack)
        shape: tuple[s.Extent, ...] | None = None
        if len({t.rank for t in tensors}) == 1:
            columns = zip(*(t.shape for t in tensors), strict=True)
            shape = tuple([self._declared(column) for column in columns])
        return s.Type(type_name(tensors[0].dtype), shape=shape, pack=pack)

    def _declared(self, column: Sequence[nodes.Expr]) -> s.Extent:
        """An extent of an output; open where data defines it, or where tensors differ."""
        plain = all(isinstance(self.names.get(x), s.Name) for x in rewrite.free_symbols(*column))
        sizes = [unparse(e, self.names) for e in column] if plain else []
        same = bool(sizes) and all(size == sizes[0] for size in sizes)
        return s.Extent(sizes[0] if same else s.Omitted())


def _plain(name: s.Expr) -> str:
    assert isinstance(name, s.Name)
    return name.name
