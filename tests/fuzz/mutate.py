"""Random damage to program texts: characters, tokens, lines and numbers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_TOKEN = re.compile(
    r"\s+|[A-Za-z_]\w*|\d+(?:\.\d+)?|\.\.\.?|<-|->|[<>=!+*&|:]=|\?\?|\*\*|&&|\|\||.", re.S
)

_SPARE = [
    "..", "...", "(", ")", "[", "]", "{", "}", ",", ";", ":", "|", "~", "?", "??", "=", ":=", "+=",
    "*", "**", "/", "\\", "%", "<", "<<", ">>", "<-", "->", "=>", "==", "!=", "&&", "^", "!", "@",
    "@lower", "@using", "@assert", "@compose", "@attrib", "@input", "optional", "int", "real",
    "bool", "str", "type", "is", "in", "inf", "pi", "true", "unroll", "do", "while", "if", "then",
    "else", "yield", "for", "with", "graph", "operator", "import", "public", ".shape", ".size",
    "`sqrt`", "0", "1", "-1", "2.5", "1e400", "99999999999",
    "9223372036854775808", '"{"', "''", "é", "\0", "#",
]  # fmt: skip

Mutation = Callable[[list[str], random.Random], None]


def delete_tokens(tokens: list[str], rng: random.Random) -> None:
    start = rng.randrange(len(tokens))
    del tokens[start : start + rng.choice([1, 1, 1, 2, 4, 16])]


def insert_token(tokens: list[str], rng: random.Random) -> None:
    tokens.insert(rng.randrange(len(tokens) + 1), f" {rng.choice(_SPARE)} ")


def replace_token(tokens: list[str], rng: random.Random) -> None:
    tokens[rng.randrange(len(tokens))] = rng.choice(_SPARE)


def swap_tokens(tokens: list[str], rng: random.Random) -> None:
    first, second = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    tokens[first], tokens[second] = tokens[second], tokens[first]


def repeat_tokens(tokens: list[str], rng: random.Random) -> None:
    start = rng.randrange(len(tokens))
    part = tokens[start : start + rng.choice([1, 2, 8, 40])]
    tokens[start:start] = part * rng.choice([1, 1, 2, 30])


def change_number(tokens: list[str], rng: random.Random) -> None:
    numbers = [k for k, token in enumerate(tokens) if token[:1].isdigit()]
    if numbers:
        changed = ["0", "1", "2", "3", "7", "-1", "1000000007", "99999999999999999999", "0.0"]
        tokens[rng.choice(numbers)] = rng.choice(changed)


def change_name(tokens: list[str], rng: random.Random) -> None:
    names = [k for k, token in enumerate(tokens) if token[:1].isalpha()]
    if names:
        tokens[rng.choice(names)] = tokens[rng.choice(names)]


def change_character(tokens: list[str], rng: random.Random) -> None:
    place = rng.randrange(len(tokens))
    tokens[place] = "".join(chr(rng.choice([ord(c) ^ 1, ord(c) + 1, 32])) for c in tokens[place])


MUTATIONS: Sequence[Mutation] = [
    delete_tokens,
    insert_token,
    replace_token,
    swap_tokens,
    repeat_tokens,
    change_number,
    change_name,
    change_character,
]


def mutate(text: str, seed: int) -> str:
    """A damaged copy of a program; the same for the same seed."""
    rng = random.Random(seed)
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 5])):
        if tokens:
            rng.choice(MUTATIONS)(tokens, rng)
    return "".join(tokens)
