"""The model that the arguments of a subcommand name."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from .. import api
from ..frontends.skriptnd.attributes import Written
from ..model import Model
from .output import print_diagnostics

if TYPE_CHECKING:
    from ..runtime.executable import Executable


def load_model(options: Namespace, path: str | None = None, graph: str | None = None) -> Model:
    """Load the model as the options that choose one say; show warnings.

    Those of a program are shown with its first graph, not again for a `graph` besides.
    """
    model = api.load(
        options.path if path is None else path,
        attribs={name: Written(text) for name, text in options.attrib},
        graph=graph or getattr(options, "graph", None),
        types=dict(options.type),
    )
    if graph is None:
        print_diagnostics(model.warnings)
    model = model.quantized() if getattr(options, "quantize", False) else model
    return model.gradient() if getattr(options, "gradient", False) else model


def compile_model(model: Model, options: Namespace) -> Executable:
    """Compile as `--target`, `--threads`, `--real`, `--int` and `--tuned` say."""
    tuned = "tuned" if getattr(options, "tuned", False) else None
    return model.compile(options.target, options.threads, options.real, options.int, options=tuned)
