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
    # 02: names and definitions
    "E0201": "an unknown name",
    "E0202": "a name defined twice",
    # 03: types
    "E0301": "a value of the wrong type",
    # 04: shapes and binding
    "E0401": "a shape that does not fit its declaration",
    # 05: evaluation and asserts
    "E0501": "an assertion that does not hold",
    "E0502": "division by zero",
    # 06: composition and formulas
    "E0601": "an index that is always out of range",
    # 07: files and storage
    "E0701": "a file that cannot be read",
    # 08: arguments and execution
    "E0801": "a call with the wrong arguments",
    "E0802": "an index out of range at run time",
    # 09: limits
    "E0901": "a program or tensor too large to handle",
}
