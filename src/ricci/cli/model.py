"""The model that the arguments of a subcommand name."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from .. import api
from ..frontends.skriptnd.attributes import Written
from .output import print_diagnostics

if TYPE_CHECKING:
    from ..runtime.executable import Executable


def load_model(options: Namespace, path: str | None = None, graph: str | None = None) -> api.Model:
    """Load the model as `--graph`, `--attrib`, `--type` and `--quantize` say; show warnings.

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
    return model.quantized() if getattr(options, "quantize", False) else model


def compile_model(model: api.Model, options: Namespace) -> Executable:
    """Compile as `--target`, `--threads`, `--real` and `--int` say."""
    return model.compile(options.target, options.threads, options.real, options.int)
