"""Operations of the IR as operators, of which each has the formulas that the language allows.

An output has one formula, or a `=` and another one, which reads no output that is not ready
(specification 2.12). What is more than that goes on in further operators, each of which begins
with what the one before gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...records import dataclass, replace
from .unparse_operation import ACCUMULATORS, Formula, Inputs, Lengths, OperatorWriter, Run

_IMPLIED: dict[str, object] = {"+=": 0, "*=": 1, "&=": True, "|=": False}
"""What an output begins with where no `=` says it."""


Tensors = Mapping[rewrite.Replaceable, nodes.Expr | nodes.Tensor]


@dataclass
class _Stage:
    """Outputs that are computed together, by assignments that read none of others."""

    outputs: tuple[nodes.Tensor, ...]
    body: list[nodes.Assignment] = field(default_factory=list)


def formulas(operation: nodes.Operation, lengths: Lengths) -> list[Formula]:
    """The operators that compute an operation, one after another."""
    body = [part for line in operation.body for part in _split(line)]
    inputs = Inputs(operation.inputs, lengths)
    stages = _stages(operation.outputs, body)
    if stages is None:
        return [*_sequence(operation.outputs, body, inputs)]
    return [formula for stage in stages for formula in _formulas(stage, inputs)]


# -------------------------------------------------------------------------- stages


def _stages(outputs: tuple[nodes.Tensor, ...], body: list[nodes.Assignment]) -> list[_Stage] | None:
    """Outputs in groups: written at once; together where none reads another. None where they
    are computed in turns."""
    groups = _groups(outputs, body)
    reads = [{t for line in g.body for t in rewrite.tensors_read(line)} for g in groups]
    own = [set(g.outputs) for g in groups]
    if not any(r & o for i, r in enumerate(reads) for j, o in enumerate(own) if i != j):
        return [_Stage(outputs, body)]
    if _take_turns(body):
        return None
    ordered: list[_Stage] = []
    missing = set(outputs)
    while groups:
        at = next((i for i, r in enumerate(reads) if not r & (missing - own[i])), None)
        if at is None:
            return None
        ordered.append(groups.pop(at))
        reads.pop(at)
        missing -= own.pop(at)
    return ordered


def _split(line: nodes.Assignment) -> list[nodes.Assignment]:
    """An assignment to several tensors as several, where they do not see each other."""
    if len(line.targets) == 1:
        return [line]
    targets = {t.tensor for t in line.targets}
    if targets & set(rewrite.tensors_read(line)) or rewrite.has_guard(*rewrite.expressions(line)):
        return [line]
    if len(targets) < len(line.targets) and line.op == "update":
        return [line]
    condition = () if line.condition is None else (line.condition,)
    return [
        replace(
            line,
            targets=(target,),
            values=(value,),
            locals=_used(line.locals, target, value, *condition),
        )
        for target, value in zip(line.targets, line.values, strict=True)
    ]


def _used(locals: tuple[nodes.Local, ...], *exprs: nodes.Expr) -> tuple[nodes.Local, ...]:
    """Those local values that expressions need, also through others; all keep their order."""
    needed = {n for n in rewrite.nodes_through_locals(*exprs) if isinstance(n, nodes.Local)}
    return tuple([local for local in locals if local in needed])


def _groups(
    outputs: Sequence[nodes.Tensor],
    body: Sequence[nodes.Assignment],
) -> list[_Stage]:
    """One group for each output, or for those that an assignment writes at once."""
    leader = {t: t for t in outputs}

    def find(tensor: nodes.Tensor) -> nodes.Tensor:
        while leader[tensor] is not tensor:
            tensor = leader[tensor]
        return tensor

    for line in body:
        for target in line.targets[1:]:
            leader[find(target.tensor)] = find(line.targets[0].tensor)
    groups: dict[nodes.Tensor, _Stage] = {}
    for tensor in outputs:
        stage = groups.setdefault(find(tensor), _Stage(()))
        stage.outputs = (*stage.outputs, tensor)
    for line in body:
        groups[find(line.targets[0].tensor)].body.append(line)
    return list(groups.values())


def _take_turns(body: Sequence[nodes.Assignment]) -> bool:
    """Whether a tensor is written after another output was computed from it."""
    read: set[nodes.Tensor] = set()
    for line in body:
        own = {t.tensor for t in line.targets}
        if own & read:
            return True
        read |= set(rewrite.tensors_read(line)) - own
    return False


# ------------------------------------------------------------------------ formulas


def _formulas(stage: _Stage, inputs: Inputs) -> list[Formula]:
    """The operators for one stage: more than one where an output has more kinds of lines."""
    slots = [(group.outputs, _runs(group)) for group in _groups(stage.outputs, stage.body)]
    if all(_fits(runs) for _, runs in slots):
        return [OperatorWriter(slots, inputs).formula()]
    return [*_sequence(stage.outputs, stage.body, inputs)]


def _runs(group: _Stage) -> list[Run]:
    runs: list[Run] = []
    for line in group.body:
        if _continues(runs, line):
            runs[-1].append(line)
        else:
            runs.append([line])
    return _begun(runs, group.outputs)


def _begun(runs: list[Run], outputs: Sequence[nodes.Tensor]) -> list[Run]:
    """With a line for what outputs begin with, where it must be said; without one otherwise."""
    if not runs or runs[0][0].op not in ("set", "add", "or"):
        runs = [[zeros(tensor) for tensor in outputs], *runs]
    if len(runs) == 2 and _is_implied(runs[0], outputs, ACCUMULATORS[runs[1][0].op]):
        del runs[0]
    return runs


def _continues(runs: Sequence[Run], line: nodes.Assignment) -> bool:
    return bool(runs) and runs[-1][0].op == line.op and _alike(runs[-1][0], line)


def _alike(a: nodes.Assignment, b: nodes.Assignment) -> bool:
    """Whether two lines can be steps of one that is unrolled."""
    locals = [[x.dtype for x in line.locals] for line in (a, b)]
    return len(a.targets) == len(b.targets) and locals[0] == locals[1]


def zeros(tensor: nodes.Tensor) -> nodes.Assignment:
    """What an output begins with: zeros (`nodes.Operation`)."""
    dtype = tensor.dtype
    zero = False if dtype is DType.BOOL else 0.0 if dtype.is_real else 0
    domain = tuple([nodes.Index(f"i{k}", e) for k, e in enumerate(tensor.shape)])
    at = tuple([nodes.Subscript(i) for i in domain])
    return nodes.Assignment((nodes.Access(tensor, at),), "set", (nodes.Const(zero, dtype),), domain)


def _is_implied(run: Run, outputs: Sequence[nodes.Tensor], op: str) -> bool:
    """Whether a line only fills an output with what the next one begins with anyway."""
    line = run[0]
    if op not in _IMPLIED or len(run) > 1 or len(outputs) > 1 or line.condition is not None:
        return False
    (target,), (value,) = line.targets, line.values
    indices = [x.index for x in target.subscripts]
    whole = len(indices) == len(line.domain) == target.tensor.rank and all(
        i is index and (e is index.extent or shapes.equal(e, index.extent))
        for i, index, e in zip(indices, line.domain, target.tensor.shape, strict=True)
    )
    return whole and isinstance(value, nodes.Const) and value.value == _IMPLIED[op]


def _fits(runs: Sequence[Run]) -> bool:
    """Whether an output has one kind of lines, or a `=` and then another kind."""
    return len(runs) == 1 or (len(runs) == 2 and runs[0][0].op == "set" != runs[1][0].op)


@dataclass
class _Part:
    """Lines for the same outputs that one operator can have."""

    targets: tuple[nodes.Tensor, ...]
    runs: list[Run]
    first: bool
    """Whether no part before it writes any of these outputs."""

    def takes(self, line: nodes.Assignment) -> bool:
        """Add a line if it can be in this operator, too."""
        if _written(line) != self.targets:
            return False
        if _continues(self.runs, line):
            self.runs[-1].append(line)
            return True
        if self.first and _fits([*self.runs, [line]]):
            self.runs.append([line])
            return True
        return False


def _sequence(
    outputs: Sequence[nodes.Tensor], body: Sequence[nodes.Assignment], inputs: Inputs
) -> Iterator[Formula]:
    """Operators of which each goes on with what those before give."""
    parts = _parts(outputs, body)
    last = {t: number for number, part in enumerate(parts) for t in part.targets}
    now: dict[nodes.Tensor, nodes.Tensor] = {}
    for number, part in enumerate(parts):
        others: Tensors = {t: x for t, x in now.items() if t not in part.targets}
        runs = [[rewrite.substitute_assignment(x, others) for x in run] for run in part.runs]
        if part.first:
            runs = _begun(runs, part.targets)
        else:
            before = [copied(now[t], t) if t in now else zeros(t) for t in part.targets]
            runs = [before, [_going_on(line) for line in runs[0]]]
        for t in part.targets:
            final = last[t] == number
            now[t] = t if final else nodes.Tensor(f"{t.name}_{number + 1}", t.dtype, t.shape)
        formula = OperatorWriter([(part.targets, runs)], inputs).formula()
        made = tuple([now[t] for t in part.targets])
        yield replace(formula, outputs=(made if made[1:] else made[0],))


def _parts(outputs: Sequence[nodes.Tensor], body: Sequence[nodes.Assignment]) -> list[_Part]:
    parts: list[_Part] = []
    known: set[nodes.Tensor] = set()
    for line in body:
        if not parts or not parts[-1].takes(line):
            targets = _written(line)
            parts.append(_Part(targets, [[line]], not known & set(targets)))
            known |= set(targets)
    return [*parts, *(_Part((t,), [], True) for t in outputs if t not in known)]


def _written(line: nodes.Assignment) -> tuple[nodes.Tensor, ...]:
    return tuple([target.tensor for target in line.targets])


def copied(source: nodes.Tensor, target: nodes.Tensor) -> nodes.Assignment:
    line = zeros(target)
    return replace(line, values=(nodes.Access(source, line.targets[0].subscripts),))


def _going_on(line: nodes.Assignment) -> nodes.Assignment:
    """An element that is set has no value before, so it may as well be replaced."""
    return replace(line, op="update") if line.op == "set" else line
