"""Cases for compile-time expressions: what they give becomes the outputs of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .case import Case

NAMES = """
        a: int = 7; b: int = 2; r: real = 2.5; t: bool = true; f: bool = false; s: str = "abcdef";
        p: int..(3) = [1, 2, 3]; q: int..(3) = [10, 20, 30]; e: int..(0) = [];
        w: real..(2) = [0.5, -1.5]; ts: bool..(3) = [true, false, true];
        n: optional int; np: optional int..(3); m: optional int;
"""
"""What expressions may use; `n` and `np` are null, and `m` is 5."""

_WORDS = {"b": "bool", "i": "int", "f": "real"}


def values(section: str, name: str, expected: Mapping[str, Any], oracle: str = "by hand") -> Case:
    """A case of expressions and their values: numbers, bools, strings, lists, `None` for null."""
    using, constants, outputs, results = [], [], [], []
    for k, (text, value) in enumerate(expected.items()):
        using.append(f"v{k} = {text};")
        shown, array = f"v{k}", np.asarray(value)
        if value is None:
            shown, array = f"?v{k}", np.asarray(False)
        elif isinstance(value, str):
            shown, array = f"v{k} == {value!r}", np.asarray(True)
        constants.append(f"c{k}: {_type(array)} = {shown};")
        outputs.append(f"y{k}: {_type(array)};")
        results.append(array)
    program = f"""graph G {{
    @attrib {{{NAMES}    }}
    @using {{ {" ".join(using)} }}
    @constant {{ {" ".join(constants)} }}
    @output {{ {" ".join(outputs)} }}
    @compose {{ {" ".join(f"y{k} = c{k};" for k in range(len(results)))} }}
}}"""
    return Case(section, name, program, expected=tuple(results), oracle=oracle, attribs={"m": 5})


def _type(array: np.ndarray) -> str:
    return f"{_WORDS[array.dtype.kind]}{list(array.shape)}"
