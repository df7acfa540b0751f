"""Long chains of locals, each read twice by the next: what looks through them must not write them
out, which would take for ever."""

from __future__ import annotations

import numpy as np
import pytest

from ricci.ir.text import parse_graph
from ricci.runtime.executable import compile_graph

_LINKS = 40


def _text(extent: str) -> str:
    """A position that moves forty times, by what it finds where it is."""
    links = ["a0 = i"]
    for k in range(_LINKS):
        at = f"max(min(a{k}, {extent} - 1), 0)"
        links.append(f"a{k + 1} = x[{at}] > 4.0 ? (a{k} * 3 + 1) % 8 : (a{k} + 5) % 8")
    target = f"y[i] = x[max(min(a{_LINKS}, {extent} - 1), 0)]  for i < {extent};"
    return f"""
        graph g {{
          {"" if extent == "8" else f"symbol {extent} <= 8;"}
          input x = x: real[{extent}];
          y: real[{extent}] = f(x) {{ with {", ".join(links)}: {target} }}
          output y = y;
        }}
    """


def _expected(x: np.ndarray) -> np.ndarray:
    places = []
    for place in range(8):
        for _ in range(_LINKS):
            place = (place * 3 + 1) % 8 if x[place] > 4 else (place + 5) % 8
        places.append(place)
    return x[places]


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
@pytest.mark.parametrize("integers", ["int32", "int64"])
@pytest.mark.parametrize("extent", ["8", "n"])
def test_a_chain_is_computed_once(extent: str, integers: str, target: str) -> None:
    run = compile_graph(parse_graph(_text(extent)), target=target, int=integers)
    x = np.random.default_rng(0).integers(0, 9, 8).astype(np.float32)
    np.testing.assert_array_equal(run(x), _expected(x))
