"""The header of C for a model."""

from __future__ import annotations

from collections.abc import Iterable

from ..records import dataclass
from .interface import Interface, Item, Parameter

CODES = {
    "OK": (0, "done"),
    "ASSERTION": (501, "an assertion about sizes does not hold"),
    "WEIGHTS": (701, "the file of the weights cannot be read, or is another one"),
    "ARGUMENT": (801, "a wrong argument"),
    "INDEX": (802, "an index is out of range"),
    "DIVISION": (803, "an integer is divided by zero"),
    "SIZE": (804, "a size is negative or above its bound"),
    "PROCESSOR": (805, "the processor lacks instructions that the code is made of"),
    "ENDLESS": (806, "loops do not end"),
    "MEMORY": (901, "there is not enough memory"),
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What header and example say."""

    prefix: str
    title: str
    interface: Interface
    processor: str
    threads: int
    weights: str
    """The name of the file of the weights, if there is one."""
    needs: tuple[str, ...]


def write_header(facts: Facts) -> str:
    """The text of the header."""
    p, guard = facts.prefix, f"{facts.prefix.upper()}_H"
    lines = [
        *_opening(facts),
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdbool.h>",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* A model that can be run: its memory, and the state of its variables. */",
        f"typedef struct {p}_model {p}_model;",
        "",
        "/* What functions return. */",
        "enum {",
        *_codes(p),
        "};",
        "",
        *_counts(facts),
        *_create(facts),
        *_run(facts),
        *(_state(facts) if facts.interface.variables else []),
        *comment([f"Why the last call of a function with this model failed, in words; the text "
                  f"lasts until the next call. It is empty if the last {p}_run succeeded."]),
        f"const char *{p}_error(const {p}_model *model);",
        "",
        *comment(["Gives back all that a model takes; does nothing for NULL."]),
        f"void {p}_destroy({p}_model *model);",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def comment(lines: Iterable[str]) -> list[str]:
    """A comment, whatever is in it."""
    shown = [wrapped for line in lines for wrapped in _wrapped(_safe(line))]
    if len(shown) == 1:
        return [f"/* {shown[0]} */"]
    return [f"{'/*' if k == 0 else ' *'} {line}".rstrip() for k, line in enumerate(shown)] + [" */"]


def _wrapped(line: str, most: int = 92) -> list[str]:
    out: list[str] = []
    indent = " " * (len(line) - len(line.lstrip()))
    for word in line.split():
        if out and len(out[-1]) + 1 + len(word) <= most:
            out[-1] += f" {word}"
        else:
            out.append(indent + word)
    return out or [""]


def _safe(text: str) -> str:
    """Text that does not end a comment, and has no trigraphs."""
    plain = "".join(c if c >= " " else " " for c in text)
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").replace("\\", "|")


def _opening(facts: Facts) -> list[str]:
    needs = ", ".join(facts.needs) or "nothing"
    return comment(
        [
            f"The graph `{facts.title}` as functions of C, made by Ricci for {facts.processor}.",
            "",
            f"Programs are linked with {facts.prefix}.o and the libraries of C (-lm"
            f"{' -lpthread' if facts.threads > 1 else ''}). It needs of them: {needs}.",
            "",
            "Arrays are row-major without gaps, aligned as their elements are (64 bytes are best). "
            "Those of results share no memory with others. A bool is one byte, 0 or 1. Numbers of "
            "float16 and bfloat16 are given by their bits.",
            "",
            "A model is used by one thread at a time; several models may be used at once, and "
            "share constants.",
        ]
    )


def _codes(prefix: str) -> list[str]:
    last = len(CODES) - 1
    return [
        f"    {prefix}_{name} = {number}{'' if k == last else ','} /* {text} */"
        for k, (name, (number, text)) in enumerate(CODES.items())
    ]


def _counts(facts: Facts) -> list[str]:
    """Macros with the room that arrays need."""
    lines = ["/* How many elements arrays have, at most where sizes are open. */"]
    for parameter in (*facts.interface.inputs, *facts.interface.outputs):
        counts = [str(i.count) for i in parameter.items]
        if parameter.packed:
            lines.append(f"#define {facts.prefix}_{parameter.name}_ITEMS {len(counts)}")
            body = f"COUNTS {{{', '.join(counts)}}}"
        else:
            body = f"COUNT {counts[0]}"
        lines.append(f"#define {facts.prefix}_{parameter.name}_{body}")
    return [*lines, ""]


def _create(facts: Facts) -> list[str]:
    p = facts.prefix
    many = f"from 1 to {facts.threads}" if facts.threads > 1 else "1: the model has no others"
    text = [
        f"Makes a model. Its calls use so many `threads` ({many}). "
        f"Returns {p}_OK; else a code, and *model is NULL."
    ]
    if facts.threads > 1:
        text.append(
            "The others wait for work, each kept on a processor of its own. They are not there in "
            "the child of a fork, which makes a model of its own."
        )
    more = ""
    if facts.weights:
        text.append(f"`weights` is the path of {facts.weights}, which is mapped into memory.")
        more = ", const char *weights"
    return [*comment(text), f"int {p}_create({p}_model **model, int threads{more});", ""]


def _run(facts: Facts) -> list[str]:
    face, p = facts.interface, facts.prefix
    text = [f"Computes the results. Returns {p}_OK, or a code that {p}_error explains."]
    for size in face.sizes:
        text += ["", f"  {size.name}: the size `{size.title}`, from 0 to {size.bound}"]
    for parameter in face.inputs:
        text += ["", *_described(parameter)]
    for parameter in face.outputs:
        text += ["", *_described(parameter), *_results(parameter)]
    declared = ", ".join([f"{p}_model *model", *declarations(face)])
    return [*comment(text), f"int {p}_run({declared});", ""]


def declarations(face: Interface) -> list[str]:
    """The parameters of a call, without the model."""
    out = [f"int64_t {size.name}" for size in face.sizes]
    for parameter in face.inputs:
        if parameter.count:
            out.append(f"int64_t {parameter.count}")
        stars = "*const *" if parameter.packed else "*"
        out.append(f"const {parameter.c_type} {stars}{parameter.name}")
    for parameter in face.outputs:
        stars = "*const *" if parameter.packed else "*"
        out.append(f"{parameter.c_type} {stars}{parameter.name}")
        if parameter.count:
            out.append(f"int64_t *{parameter.count}")
        if parameter.shape:
            out.append(f"int64_t *{parameter.shape}")
    return out


def _described(parameter: Parameter) -> list[str]:
    head = f"  {parameter.name}: "
    if parameter.title != parameter.name:
        head += f"`{parameter.title}`, "
    if not parameter.packed:
        return [head + _item(parameter.items[0])]
    count = f"{parameter.count} of " if parameter.count else ""
    head += f"the addresses of {count}{len(parameter.items)} arrays: "
    shapes = list(dict.fromkeys(_item(i) for i in parameter.items))
    return [head + "; ".join(shapes)]


def _item(item: Item) -> str:
    shape = ", ".join(item.shape)
    return f"{item.dtype.value}[{shape}]"


def _results(parameter: Parameter) -> list[str]:
    out = []
    if parameter.count:
        out.append(f"  {parameter.count}: gets the number of arrays; may be NULL")
    if parameter.shape:
        what = "the shapes, one after another" if parameter.packed else "the shape"
        out.append(f"  {parameter.shape}: gets {what}; may be NULL")
    return out


def _state(facts: Facts) -> list[str]:
    p = facts.prefix
    text = ["Variables that calls change:", ""]
    for variable in facts.interface.variables:
        item = variable.item
        text.append(f'  "{variable.title}": {_item(item)}, {item.bytes} bytes')
    text += ["", f"Each call sees what the last one left; a call that fails changes nothing. "
             f"{p}_get copies a value out of the model, {p}_set into it; `bytes` is the size of "
             f"the variable. {p}_reset gives all of them what they began with."]  # fmt: skip
    return [
        *comment(text),
        f"int {p}_get({p}_model *model, const char *name, void *value, size_t bytes);",
        f"int {p}_set({p}_model *model, const char *name, const void *value, size_t bytes);",
        f"void {p}_reset({p}_model *model);",
        "",
    ]
