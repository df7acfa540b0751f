"""Integer expressions as they are shown in messages."""

from __future__ import annotations

from ...ir.nodes import Expr
from ...ir.text import format_expr


def show(expr: Expr) -> str:
    """An expression as text; what only run time knows as it was written."""
    return format_expr(expr).replace("`", "")
