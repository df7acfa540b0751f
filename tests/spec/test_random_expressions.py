"""Random expressions have the value that Python gives them: composed, interpreted, compiled."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import ricci

from ..compare import TARGETS, compare
from .random_expressions import NAMES, Expression, make

DTYPES = {"int": np.int64, "real": np.float64, "bool": np.bool_}


def _attributes() -> str:
    return " ".join(
        f"{name}: {type.replace('..', '..(3)')} = {_literal(value)};"
        for type, names in NAMES.items()
        for name, value in names.items()
    )


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _made(seed: int, types: tuple[str, ...], count: int) -> list[tuple[str, Expression]]:
    random = Random(seed)
    chosen = [random.choice(types) for _ in range(count)]
    return [(type, make(random, type, random.randint(1, 5))) for type in chosen]


def _check(results: Any, made: list[tuple[str, Expression]]) -> None:
    for got, (type, expression) in zip(results, made, strict=True):
        theirs = np.array(expression.value, DTYPES[type.removesuffix("..")])
        compare(np.asarray(got), theirs, expression.text, 1e-4)


@pytest.mark.parametrize("seed", range(25))
def test_value_while_composing(seed: int) -> None:
    made = _made(seed, tuple(NAMES), 12)
    lines = {
        "using": [f"v{k} = {e.text};" for k, (_, e) in enumerate(made)],
        "constant": [f"c{k}: {_type(t)} = v{k};" for k, (t, _) in enumerate(made)],
        "output": [f"y{k}: {_type(t)};" for k, (t, _) in enumerate(made)],
        "compose": [f"y{k} = c{k};" for k in range(len(made))],
    }
    blocks = "\n".join(f"@{name} {{ {' '.join(texts)} }}" for name, texts in lines.items())
    run = ricci.parse(f"graph G {{ @attrib {{ {_attributes()} }}\n{blocks} }}").compile(
        target="interpreter", real="float64"
    )
    _check(run(), made)


def _type(type: str) -> str:
    return f"{type[:-2]}[3]" if type.endswith("..") else f"{type}[]"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(100, 110))
def test_value_while_running(seed: int, target: str) -> None:
    made = _made(seed, ("int", "real", "bool"), 8)
    declared = [(n, t, v) for t, names in NAMES.items() for n, v in names.items()]
    locals_ = ", ".join(f"{n} = {n.upper()}[]" for n, _, _ in declared)
    inputs = " ".join(f"{n.upper()}: {t.removesuffix('..')}[]" + "..(3)" * t.endswith("..") + ";"
                      for n, t, _ in declared)  # fmt: skip
    outputs = " ".join(f"y{k}: {t}[];" for k, (t, _) in enumerate(made))
    formulas = "\n".join(f"{locals_}, y{k}[] = {e.text};" for k, (_, e) in enumerate(made))
    names = ", ".join(n.upper() for n, _, _ in declared)
    results = ", ".join(f"y{k}" for k in range(len(made)))
    text = f"""
        operator f {{ @input {{ {inputs} }} @output {{ {outputs} }} @lower {{ {formulas} }} }}
        graph G {{ @input {{ {inputs} }} @output {{ {outputs} }}
            @compose {{ {results} = f({names}); }} }}"""
    run = ricci.parse(text).compile(target=target, real="float64")
    arrays = [
        [np.array(i) for i in v] if isinstance(v, list) else np.array(v) for _, _, v in declared
    ]
    _check(run(*arrays), made)
