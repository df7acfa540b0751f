"""`ricci init`: random weights for a model folder that has none."""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..diagnostics import error
from ..frontends.skriptnd.storage import write_tensor
from ..frontends.skriptnd.stored_names import find_files, variable_path
from ..ir.nodes import Graph, Tensor
from ..ir.shapes import as_int
from ..progress import show_progress
from ..runtime.initialise import draw_weights
from .arguments import Commands, add_command, add_model, natural
from .model import load_model
from .output import count


def register(commands: Commands[ArgumentParser]) -> None:
    parser = add_command(commands, "init", "write random weights into a model folder", init)
    add_model(parser)
    parser.add_argument("--seed", type=natural, default=0, help="(default: 0)")
    parser.add_argument("--force", action="store_true", help="replace weights that are there")


def init(options: Namespace) -> int:
    path = Path(options.path)
    folder = path if path.is_dir() else path.parent
    model = load_model(options)
    write_random_weights(folder, model.graph, options.seed, options.force)
    print(f"{count(len(model.variables), 'variable')} written into {folder}", file=sys.stderr)
    return 0


def write_random_weights(folder: Path, graph: Graph, seed: int = 0, force: bool = False) -> None:
    """Draw a value for every variable of a graph and write it; `Error` E0707 if some exist."""
    files = [variable_path(folder, t.name) for t in graph.variables]
    existing = list(find_files(folder, [t.name for t in graph.variables]).values())
    if existing and not force:
        raise error(
            "E0707",
            f"`{existing[0]}` exists, and {len(existing) - 1} more of {len(files)} files",
            help="--force replaces them",
        )
    total = sum(_size(t) for t in graph.variables)
    with show_progress(f"writing {total * 4 / 1e6:.1f} MB of random weights", total) as advance:
        for tensor, file in zip(graph.variables, files, strict=True):
            write_tensor(file, draw_weights(tensor, seed))
            advance(_size(tensor))


def _size(tensor: Tensor) -> int:
    return math.prod(as_int(e) or 0 for e in tensor.shape)
