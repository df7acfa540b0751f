"""What is said of dims that constraints do not allow."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from ...diagnostics import Diagnostic
from .contradictions import Claim, contradiction
from .dims_rules import Pair, Rule, known_box, rules_at
from .printer import print_constraint
from .program import Configuration, Program
from .relations import INFINITY, Box, Empty, Expr, Relation, System, value


def dims_contradiction(
    program: Program, ranks: Mapping[str, int], known: Mapping[str, tuple[int, ...]]
) -> Diagnostic:
    """Why there are no legal dims at ranks, of which some are known."""
    claims, start = dims_claims(program, ranks, known), known_box(ranks, known)
    notes = [f"`DIMS({name})` is {list(dims)}" for name, dims in known.items()]
    if program.ranks.independent:
        notes.append(
            "at " + ", ".join(f"RANK({n}) = {ranks[n]}" for n in program.ranks.independent)
        )
    if _is_negative(claims, start):
        notes.append("an extent is never negative")
    return contradiction(claims, start, "dims", notes)


def _is_negative(claims: Sequence[Claim], start: Box) -> bool:
    """Whether it is only the sign of an extent that makes claims impossible."""
    relations = [relation for claim in claims for relation in claim.relations]
    wide = {k: (-INFINITY if low == 0 < high else low, high) for k, (low, high) in start.items()}
    return not _can_narrow(relations, start) and _can_narrow(relations, wide)


def _can_narrow(relations: Sequence[Relation], start: Box) -> bool:
    try:
        System(relations).narrow(dict(start))
    except Empty:
        return False
    return True


def dims_claims(
    program: Program, ranks: Mapping[str, int], known: Container[str] = ()
) -> list[Claim]:
    """What each constraint says about dims at ranks, of which some are known."""
    rules: dict[int, list[Rule]] = {}
    for rule in rules_at(program, ranks, known):
        rules.setdefault(id(rule.pair.constraint), []).append(rule)
    return [_claim(group, program) for group in rules.values()]


def _claim(rules: Sequence[Rule], program: Program) -> Claim:
    line = rules[0].pair.constraint
    is_line = any(line is own for own in program.file.constraints)
    text = f"`{print_constraint(line)}`"
    why = text if is_line else f"this makes {text}"
    return Claim(tuple(rule.relation for rule in rules), why, line.span, is_line)


def broken_constraint(pair: Pair, relation: Relation, configuration: Configuration) -> Diagnostic:
    line = print_constraint(pair.constraint)
    dims = ", ".join(f"DIMS({n}) = {list(configuration.dims[n])}" for n in pair.names())
    values: Box = {
        (name, k): (extent, extent)
        for name, extents in configuration.dims.items()
        for k, extent in enumerate(extents)
    }
    return Diagnostic(
        "E0501",
        f"`{line}` does not hold for {dims}",
        pair.constraint.span,
        notes=(f"{_shown(relation.lhs, values)} {pair.comparator} {_shown(relation.rhs, values)}",),
    )


def _shown(expr: Expr, values: Box) -> str:
    found = value(expr, values)
    return "a division by zero" if found is None else str(found)
