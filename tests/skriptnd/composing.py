"""Helpers of the tests of composition."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ricci.diagnostics import Error, Report
from ricci.frontends.skriptnd import modules
from ricci.frontends.skriptnd.compose import compose
from ricci.ir import nodes
from ricci.ir.verify import verify_graph


def build(text: str, attributes: Mapping[str, object] | None = None, **types: str) -> nodes.Graph:
    """The first graph of a program, composed and verified."""
    report = Report()
    program = modules.load_text(text, "main", report)
    report.raise_errors()
    graph = compose(program, program.graphs()[0], attributes, types)
    verify_graph(graph)
    return graph


def reject(text: str, attributes: Mapping[str, object] | None = None, **types: str) -> Error:
    """What composing a program is rejected with."""
    with pytest.raises(Error) as caught:
        build(text, attributes, **types)
    return caught.value
