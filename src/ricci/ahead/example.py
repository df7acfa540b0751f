"""A program in C that runs a model once: to copy from, and to try the model."""

from __future__ import annotations

from ..dtypes import DType
from .header import Facts, comment
from .interface import Parameter

_KINDS = {
    DType.FLOAT32: "f",
    DType.FLOAT64: "d",
    DType.FLOAT16: "h",
    DType.BFLOAT16: "b",
}

_HELPERS = r"""/* What follows `name=` among the arguments of the program; NULL if there is none. */
static const char *given(int argc, char **argv, const char *name) {
    size_t length = strlen(name);
    int k;
    for (k = 1; k < argc; k++)
        if (strncmp(argv[k], name, length) == 0 && argv[k][length] == '=')
            return argv[k] + length + 1;
    return NULL;
}

static unsigned draw(void) {
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 16;
}

/* An array: from a file of its elements, or drawn. Kinds are f: float, d: double, h: float16,
 * b: bfloat16, i: integers, u: unsigned ones and bools. */
static void *array(size_t count, size_t width, char kind, int varies, const char *file) {
    void *data = calloc(count + 1, width);
    size_t k;
    if (data == NULL)
        exit(1);
    if (file != NULL) {
        FILE *stream = fopen(file, "rb");
        if (stream == NULL) {
            fprintf(stderr, "cannot read %s\n", file);
            exit(1);
        }
        if (fread(data, width, count, stream) < count && !varies) {
            fprintf(stderr, "%s is too short\n", file);
            exit(1);
        }
        fclose(stream);
        return data;
    }
    for (k = 0; k < count; k++)
        switch (kind) {
        case 'f': ((float *)data)[k] = (float)draw() / 32768.0f - 1.0f; break;
        case 'd': ((double *)data)[k] = (double)draw() / 32768.0 - 1.0; break;
        case 'h': ((uint16_t *)data)[k] = (uint16_t)(0x3800 + draw() % 0x400); break;
        case 'b': ((uint16_t *)data)[k] = (uint16_t)(0x3f00 + draw() % 0x80); break;
        default: ((unsigned char *)data)[k * width] = (unsigned char)(draw() % 2);
        }
    return data;
}

/* Prints the first elements of a result. */
static void show(const char *name, const void *data, size_t count, size_t width, char kind) {
    size_t k, n;
    printf("%s:", name);
    for (k = 0; k < count && k < 8; k++) {
        const unsigned char *bytes = (const unsigned char *)data + k * width;
        uint64_t bits = 0;
        for (n = width; n > 0; n--)
            bits = bits << 8 | bytes[n - 1];
        if (kind == 'i' && width < 8 && bytes[width - 1] > 127)
            bits |= ~(uint64_t)0 << (8 * width);
        if (kind == 'f')
            printf(" %.9g", (double)((const float *)data)[k]);
        else if (kind == 'd')
            printf(" %.17g", ((const double *)data)[k]);
        else if (kind == 'i')
            printf(" %lld", (long long)bits);
        else
            printf(" %llu", (unsigned long long)bits);
    }
    printf(count > 8 ? " ...\n" : "\n");
}
"""


def write_example(facts: Facts) -> str:
    """The text of the program."""
    p, face = facts.prefix, facts.interface
    libraries = " -lm -lpthread" if facts.threads > 1 else " -lm"
    options = [f"{s.name}=3" for s in face.sizes]
    options += [f"{x.name}=FILE" for x in face.inputs if not x.packed]
    shown = "".join(f" [{o}]" for o in options)
    head = comment(
        [
            f"Runs the graph `{facts.title}` once and prints the first results.",
            "",
            f"    cc -std=c99 -O2 example.c {p}.o -o example{libraries}",
            f"    ./example{shown}",
            "",
            "Files hold the elements of an array, one after another, as they are in memory. Inputs "
            "without a file are drawn at random.",
        ]
    )
    lines = [
        *head, "#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>", "",
        f'#include "{p}.h"', "", _HELPERS, *_main(facts),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _main(facts: Facts) -> list[str]:
    p, face = facts.prefix, facts.interface
    body = [f"{p}_model *model;", "int code;"]
    for size in face.sizes:
        body.append(f"int64_t {size.name} = {min(size.most, 3)};")
    for parameter in face.inputs:
        body += _declared(p, parameter, "const ")
    for parameter in face.outputs:
        body += _declared(p, parameter, "")
    body.append("")
    for size in face.sizes:
        body.append(f'if (given(argc, argv, "{size.name}") != NULL)')
        body.append(f'    {size.name} = atoi(given(argc, argv, "{size.name}"));')
    for parameter in (*face.inputs, *face.outputs):
        body += _filled(p, parameter, parameter in face.inputs)
    body += ["", *_called(facts)]
    for parameter in face.outputs:
        body += _shown(p, parameter)
    body += [f"{p}_destroy(model);", "return 0;"]
    inner = [f"    {line}" if line else "" for line in body]
    return ["int main(int argc, char **argv) {", *inner, "}"]


def _declared(p: str, parameter: Parameter, const: str) -> list[str]:
    if not parameter.packed:
        return [f"{const}{parameter.c_type} *{parameter.name};", *_more(parameter, const)]
    items = len(parameter.items)
    lines = [f"{const}{parameter.c_type} *{parameter.name}[{p}_{parameter.name}_ITEMS];"]
    lines.append(f"static const size_t {_counts(parameter)}[] = {p}_{parameter.name}_COUNTS;")
    if parameter.count:
        lines.append(f"int64_t {parameter.count} = {items};")
    return lines + _more(parameter, const)


def _counts(parameter: Parameter) -> str:
    return f"room_of_{parameter.name}"


def _more(parameter: Parameter, const: str) -> list[str]:
    """The declaration of the shape of a result."""
    extents = sum(len(i.shape) for i in parameter.items)
    return [f"int64_t {parameter.shape}[{extents}];"] if parameter.shape else []


def _filled(p: str, parameter: Parameter, is_input: bool) -> list[str]:
    name, item = parameter.name, parameter.items[0]
    kind, width = _kind(item.dtype), item.dtype.numpy().itemsize
    varies = int(any(i.varies for i in parameter.items))
    file = f'given(argc, argv, "{name}")' if is_input and not parameter.packed else "NULL"
    rest = f"{width}, '{kind}', {varies}, {file})"
    if not parameter.packed:
        return [f"{name} = array({p}_{name}_COUNT, {rest};"]
    loop = f"for (code = 0; code < {p}_{name}_ITEMS; code++)"
    return [loop, f"    {name}[code] = array({_counts(parameter)}[code], {rest};"]


def _kind(dtype: DType) -> str:
    if dtype in _KINDS:
        return _KINDS[dtype]
    return "i" if dtype.value.startswith("int") else "u"


def _called(facts: Facts) -> list[str]:
    p, face = facts.prefix, facts.interface
    path = f', "{facts.weights}"' if facts.weights else ""
    arguments = ["model", *(s.name for s in face.sizes)]
    for parameter in face.inputs:
        arguments += [parameter.count] * bool(parameter.count) + [parameter.name]
    for parameter in face.outputs:
        arguments.append(parameter.name)
        arguments += [f"&{parameter.count}"] * bool(parameter.count)
        arguments += [parameter.shape] * bool(parameter.shape)
    return [
        f"code = {p}_create(&model, 1{path});",
        f"if (code != {p}_OK) {{",
        '    fprintf(stderr, "no model: error %d\\n", code);',
        "    return 1;",
        "}",
        f"code = {p}_run({', '.join(arguments)});",
        f"if (code != {p}_OK) {{",
        f'    fprintf(stderr, "error %d: %s\\n", code, {p}_error(model));',
        "    return 1;",
        "}",
    ]


def _shown(p: str, parameter: Parameter) -> list[str]:
    """Statements that print a result."""
    name, item = parameter.name, parameter.items[0]
    rest = f"{item.dtype.numpy().itemsize}, '{_kind(item.dtype)}');"
    if not parameter.packed:
        count = f"{p}_{name}_COUNT"
        if parameter.shape:
            factors = [f"(size_t){parameter.shape}[{d}]" for d in range(len(item.shape))]
            count = " * ".join(factors)
        return [f'show("{name}", {name}, {count}, {rest}']
    most = f"(int){parameter.count}" if parameter.count else f"{p}_{name}_ITEMS"
    lines, at = [f"for (code = 0; code < {most}; code++)"], 0
    if not parameter.shape:
        return [*lines, f'    show("{name}", {name}[code], {_counts(parameter)}[code], {rest}']
    out = []
    for k, each in enumerate(parameter.items):
        factors = [f"(size_t){parameter.shape}[{at + d}]" for d in range(len(each.shape))]
        at += len(each.shape)
        if parameter.count:
            out.append(f"if ({k} < {parameter.count})")
        out.append(f'    show("{name}", {name}[{k}], {" * ".join(factors) or "1"}, {rest}')
    return out
