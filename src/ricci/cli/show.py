"""`ricci show`: a program at one of its stages, from text to machine code."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from .. import api
from ..diagnostics import error
from ..frontends.eintup.explain import explain, make_example, open_names
from ..frontends.eintup.fixed import fix_attributes
from ..ir import nodes
from ..ir.text import format_expr
from .arguments import (
    Commands,
    add_command,
    add_gradient,
    add_json,
    add_model,
    add_quantize,
    add_sizes,
    add_target,
    add_types,
)
from .eintup import is_program, read_program
from .model import load_model
from .output import print_json, print_table
from .page import add_page, write_page
from .run import visible_ports

KERNEL_STAGES = ("loops", "llvm", "asm")
STAGES = ("explain", "syntax", "sknd", "graph", "ir", *KERNEL_STAGES)


def register(commands: Commands[ArgumentParser]) -> None:
    parser = add_command(commands, "show", "print a program at one of its stages", show)
    add_model(parser)
    parser.add_argument(
        "--stage",
        choices=STAGES,
        help="explain: what it means (.et files alone, and their default); syntax: the text in the "
        "formatter's form; sknd: what was composed, as a program; graph: a table of operations "
        "(default); ir: their formulas; loops: fused kernels; llvm, asm: generated code",
    )
    parser.add_argument(
        "--kernel",
        metavar="K",
        help="show these alone of the last three stages (default: loops): a number, or a pattern "
        "of names of operations or results, such as conv or '*.pool*'",
    )
    add_sizes(parser, "the value of an open size, for the last three stages: s=32")
    add_target(parser)
    parser.add_argument("--graphs", action="store_true", help="name the graphs there are, no more")
    add_types(parser)
    add_quantize(parser)
    add_gradient(parser)
    add_page(parser)
    add_json(parser)


def show(options: Namespace) -> int:
    if options.graphs:
        _show_graphs(api.graphs(options.path), options.json)
        return 0
    if options.html:
        if is_program(options.path) and not options.profile:
            _choose_ranks(options, "loops")
        write_page(options)
        return 0
    stage = _stage(options)
    if stage == "explain":
        _show_explanation(options)
        return 0
    if is_program(options.path):
        _choose_ranks(options, stage)
    model = load_model(options)
    if stage == "graph":
        _show_operations(model.graph, options.json)
        return 0
    text = model.show(
        stage, options.real, options.int, dict(options.set), options.target, options.kernel
    )
    if options.json:
        print_json({"stage": stage, "text": text})
    else:
        print(text.rstrip("\n"))
    return 0


def _stage(options: Namespace) -> str:
    """The stage to show; E0801 for a kernel of a stage that has none."""
    usual = "explain" if is_program(options.path) else "graph"
    stage: str = options.stage or (usual if options.kernel is None else "loops")
    if options.kernel is not None and stage not in KERNEL_STAGES:
        raise error(
            "E0801",
            f"stage `{stage}` has no kernels",
            notes=["stages of kernels: loops, llvm, asm"],
        )
    return stage


def _show_explanation(options: Namespace) -> None:
    """What an Einsum Tuple program means, with an example of the ranks and dims given."""
    if not is_program(options.path):
        raise error("E0801", "only Einsum Tuple programs, in .et files, are explained")
    program = read_program(options.path)
    found = explain(program, make_example(program, fix_attributes(program, dict(options.attrib))))
    if options.json:
        print_json(found.to_json())
        return
    for number, section in enumerate(found.sections()):
        print("\n" * bool(number) + "\n".join((section.title, *section.lines)))
        if section.header:
            print_table(section.header, section.rows)


def _choose_ranks(options: Namespace, stage: str) -> None:
    """Give an Einsum Tuple program the ranks of its example, where none are given.

    So are the dims that no input has; and all of them for stages that need numbers, unless
    `--set` says some.
    """
    program = read_program(options.path)
    given = dict(options.attrib)
    example = make_example(program, fix_attributes(program, given))
    numbers = stage in ("loops", "llvm", "asm") and not options.set
    names = program.eintups if numbers else open_names(program)
    chosen = {f"RANK({name})": str(rank) for name, rank in example.ranks.items()}
    chosen |= {f"DIMS({name})": str(list(example.dims[name])) for name in names}
    options.attrib = [*(chosen | given).items()]


def _show_graphs(names: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        print_json(names)
    else:
        print(*names, sep="\n", end="\n" * bool(names))


def _show_operations(graph: nodes.Graph, as_json: bool) -> None:
    """A table of what the graph takes, computes and gives; names without those of the graph."""
    prefix = f"{graph.name}."
    rows = [*_ports("input", graph.inputs, prefix)]
    rows += [["variable", _tensor(t, prefix), ""] for t in graph.variables]
    rows += [*_steps(graph.operations, prefix)]
    rows += [*_ports("output", graph.outputs, prefix)]
    rows += [_quantizer(entry, prefix) for entry in graph.quantization]
    header = ["operation", "result", "attributes"]
    if as_json:
        print_json([dict(zip(header, row, strict=True)) for row in rows])
    else:
        print_table(header, rows)


def _ports(what: str, ports: tuple[nodes.Port, ...], prefix: str) -> Iterator[list[str]]:
    for port in visible_ports(ports):
        yield [what, ", ".join(_tensor(t, prefix) for t in port.tensors) or port.name, ""]


def _quantizer(entry: nodes.Quantization, prefix: str) -> list[str]:
    values = "".join(f", {name}={text}" for name, text in entry.attributes)
    tensor = _shown(entry.name, entry.tensor, prefix)
    return ["quantize", tensor, entry.operator + values]


def _steps(steps: tuple[nodes.Step, ...], prefix: str, indent: str = "") -> Iterator[list[str]]:
    """A row for every operation; those inside branches and loops are indented."""
    for step in steps:
        results = ", ".join(_tensor(t, prefix) for t in step.outputs)
        if isinstance(step, nodes.Operation):
            attributes = ", ".join(f"{n}={v}" for n, v in step.attributes)
            yield [indent + step.name, results, attributes]
        elif isinstance(step, nodes.Branch):
            yield [indent + "if", results, ""]
            for region in (*step.conditions, *step.branches):
                yield from _steps(region.operations, prefix, indent + "  ")
        else:
            yield [indent + "loop", results, ""]
            yield from _steps(step.body.operations, prefix, indent + "  ")


def _tensor(tensor: nodes.Tensor, prefix: str) -> str:
    return _shown(tensor.name, tensor, prefix)


def _shown(name: str, tensor: nodes.Tensor, prefix: str) -> str:
    shape = ", ".join(map(format_expr, tensor.shape))
    return f"{name.removeprefix(prefix)}: {tensor.dtype}[{shape}]"
