"""Every diagnostic code, with what it stands for in general.

Ranges: 01 text and syntax, 02 names and definitions, 03 types, 04 shapes and binding,
05 evaluation and asserts, 06 composition and formulas, 07 files and storage,
08 arguments and execution, 09 limits.
"""

from __future__ import annotations

CODES: dict[str, str] = {
    # 01: text and syntax
    "E0101": "a character that the language does not have",
    "E0102": "a token where another was expected",
    "E0103": "a string that does not end",
    "E0104": "a malformed number",
    "W0105": "a mixture of logical operators without parentheses",
    # 02: names and definitions
    "E0201": "an unknown name",
    "E0202": "a name defined twice",
    "E0203": "an unknown operator or module",
    "E0204": "an operator that cannot be invoked here",
    "E0205": "an operator that invokes itself without end",
    "E0206": "a name used before it has a value",
    "E0207": "an operator with both formulas and a composition",
    "E0209": "an assignment to what cannot be assigned, or twice to one name",
    "E0210": "a generic type that is declared wrongly",
    "E0213": "a label used twice",
    "E0214": "a declaration with a value that it must not have, or without one that it needs",
    "E0216": "formulas of one output in the wrong number or order",
    "E0217": "an operator that cannot quantize",
    # 03: types
    "E0301": "a value of the wrong type",
    "E0302": "a pack where a single value is needed, or the other way round",
    "E0304": "a value that may be null where it must not, or cannot be where it must",
    "E0305": "a tensor where a compile-time value is needed, or the other way round",
    "E0306": "a conversion that does not exist",
    "E0307": "an accumulator that does not suit the type",
    # 04: shapes and binding
    "E0401": "a shape that does not fit its declaration",
    "E0403": "a symbol that cannot be deduced from the shapes of inputs",
    "E0404": "an extent or shape that a declaration cannot have",
    "E0405": "defaults of attributes that depend on one another",
    "E0410": "a symbol with two different values",
    "E0411": "a number of dimensions that does not fit its declaration",
    "E0412": "an invocation with the wrong arguments or results",
    "E0413": "the length of a pack that does not fit, or cannot be found",
    "E0414": "an invocation with the wrong attributes",
    "E0415": "a generic type with no, or two different, types to stand for",
    "E0416": "an extent that is negative or has no value",
    "E0417": "a dynamic extent without an upper bound",
    # 05: evaluation and asserts
    "E0501": "an assertion that does not hold",
    "E0502": "division by zero",
    "E0503": "a value of the wrong kind for an operation",
    "E0504": "an integer that does not fit into 64 bits",
    "E0505": "an index out of the range of a pack",
    "E0506": "packs whose lengths do not fit together",
    "E0507": "a value known only at run time where it must be known before",
    "E0508": "a range or slice with stride zero",
    # 06: composition and formulas
    "E0601": "an index that is always out of range",
    "E0602": "an access with the wrong number of indices",
    "E0603": "an output that is given no value",
    "E0604": "a loop over a pack that cannot be unrolled",
    "E0605": "an operator without a body",
    "E0606": "a variable without a name of its own",
    "E0607": "an assignment whose sides do not fit together",
    "E0608": "a control structure whose parts do not fit together",
    "E0609": "a tensor to quantize that is not there",
    # 07: files and storage
    "E0701": "a file that cannot be read",
    "E0702": "a damaged tensor file",
    "E0703": "a tensor file of a kind that is not supported",
    "E0704": "variables without a file",
    "E0705": "a stored tensor that does not fit its declaration",
    "E0706": "a value that the files of a model cannot hold",
    "E0707": "a file that cannot be written",
    "E0708": "a language or file format that is not known",
    "E0709": "a setting with a value that it cannot have",
    # 08: arguments and execution
    "E0801": "a call with the wrong arguments",
    "E0802": "an index out of range at run time",
    "E0803": "a division of integers by zero at run time",
    "E0804": "a size that does not fit at run time",
    "E0805": "a construct that the target does not execute",
    "E0806": "a loop that does not end",
    # 09: limits
    "E0901": "a program or tensor too large to handle",
    "E0902": "invocations nested too deeply",
    "E0903": "too much work to compose a graph",
}
