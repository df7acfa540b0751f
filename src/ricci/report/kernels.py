"""The kernels of a program as a table, as a bar of shares, and one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.labels import label
from ..ir.loops import tensors_touched, tensors_written
from ..ir.nodes import Operation, Tensor
from ..ir.text_loops import format_kernel
from ..runtime.profile import KernelProfile
from ..source import NOWHERE, Span
from .contents import Contents, Row
from .html import Html, amount, duration, escape, join, shorten, tag
from .memory import byte_words

MEANINGS = {
    "computation": "its multiply-adds: {} of its time is what these take at this machine's rate",
    "memory": "what it moves: {} of its time is what memory takes for its bytes",
    "cache": "what it moves: {} of its time is what the caches take for its bytes",
    "launch": "being started: {} of its time is what a kernel without work takes",
    "threads": "waiting: the caller waited for other threads for {} of its time",
    "instructions": "its instructions: neither multiply-adds, nor bytes, nor threads explain its "
    "time; that is functions, address arithmetic, or operations that wait for each other",
}
"""What is said of each bound."""

_FIRST, _LAST = ("kernel", "into"), ("code", "shape", "operations", "bytes", "computes")
_TIMED = ("µs", "share", "of peak", "bound by", "GFLOP/s", "GB/s", "runs")


def kernel_table(contents: Contents) -> Html:
    """A row per kernel; with what it takes, where that is known."""
    titles = _FIRST + (_TIMED if contents.profile else ()) + _LAST
    head = tag("tr", *(tag("th", t) for t in titles))
    rows = [_table_row(contents, row) for row in contents.rows]
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="sortable kernels")
    return join([tag("div", table, class_="wide-table"), _prepared(contents)])


def _table_row(contents: Contents, row: Row) -> Html:
    link = tag("a", row.number, href=f"#kernel-{row.number}")
    cells = [
        tag("td", link, class_="number", data_value=row.number), _text(contents.written(row), 44),
        *([] if row.profile is None else _timed_cells(row.profile)),
        tag("td", row.code), _text(str(row.work), 30), _number(row.work.operations, amount),
        _number(row.work.bytes, byte_words), _text(row.label, 60),
    ]  # fmt: skip
    return tag("tr", *cells, data_kernel=row.number)


def _timed_cells(kernel: KernelProfile) -> list[Html]:
    if not kernel.runs:
        return [*[tag("td", data_value=-1)] * 6, tag("td", 0, class_="number", data_value=0)]
    share = kernel.of_memory if kernel.bound == "memory" else kernel.of_flops
    return [
        _number(kernel.seconds * 1e6, "{:.2f}".format), _number(kernel.share, "{:.1%}".format),
        _number(share, "{:.0%}".format), tag("td", kernel.bound_words),
        _number(kernel.flops / 1e9, "{:.1f}".format),
        _number(kernel.bandwidth / 1e9, "{:.1f}".format), _number(kernel.runs, str),
    ]  # fmt: skip


def _prepared(contents: Contents) -> Html:
    """The kernels that are no part of a call."""
    kernels = contents.program.prepare
    if not kernels:
        return escape("")
    names = (f"{label(k)} → {', '.join(map(contents.shown, tensors_written(k)))}" for k in kernels)
    summary = f"{len(kernels)} more, done whenever a variable is set"
    return tag("details", tag("summary", summary), tag("ul", *(tag("li", n) for n in names)))


def _text(text: str, most: int) -> Html:
    return tag("td", shorten(text, most), title=text if len(text) > most else None)


def _number(value: float, words: Callable[[float], str]) -> Html:
    return tag("td", words(value), class_="number", data_value=f"{value:.9g}")


# ------------------------------------------------------------------------- shares


def share_bar(contents: Contents) -> Html:
    """What each kernel takes of the whole: of the time, or of the operations."""
    timed = contents.profile is not None
    weights = [_weight(row, timed) for row in contents.rows]
    total = sum(weights)
    if not total:
        return escape("")
    parts, x = [], 0.0
    for row, weight in zip(contents.rows, weights, strict=True):
        width = 1000 * weight / total
        title = tag("title", f"kernel {row.number}: {row.label}, {weight / total:.1%}")
        parts.append(
            tag("rect", title, x=x, y=0, width=max(width - 0.5, 0.2), height=34,
                class_=f"life {row.code}", data_kernel=row.number)
        )  # fmt: skip
        x += width
    what = "the time of a call" if timed else "the operations"
    bar = tag("svg", *parts, class_="shares", viewBox="0 0 1000 34", preserveAspectRatio="none")
    return join([tag("p", f"Shares of {what}, kernel by kernel:"), bar, _legend(contents)])


def _weight(row: Row, timed: bool) -> float:
    if not timed:
        return float(row.work.operations)
    return 0.0 if row.profile is None else row.profile.seconds * row.profile.runs


def _legend(contents: Contents) -> Html:
    codes = dict.fromkeys(row.code for row in contents.rows)
    return tag("p", *(tag("span", c, class_=f"key {c}") for c in codes), class_="legend")


# -------------------------------------------------------------------- one by one


def kernel_articles(contents: Contents) -> list[Html]:
    """All that is known of each kernel."""
    return [_article(contents, row) for row in contents.rows]


def _article(contents: Contents, row: Row) -> Html:
    places = [
        tag("li", f"{contents.shown(t)} in {_where(contents, t)}")
        for t in tensors_touched(row.kernel)
    ]
    return tag(
        "article",
        tag("h3", f"Kernel {row.number}: {row.label}"),
        tag("p", contents.written(row)),
        tag("dl", *_facts(row), *_measured(row.profile)),
        _bound(row.profile),
        tag("h4", "Formula"),
        tag("pre", format_kernel(contents.program, row.number, places=False).rstrip()),
        tag("h4", "Operations"),
        tag("ul", *(_operation(contents, o) for o in row.kernel.operations), class_="operations"),
        tag("h4", "Tensors"),
        tag("ul", *places),
        id=f"kernel-{row.number}", data_kernel=row.number,
    )  # fmt: skip


def _facts(row: Row) -> list[Html]:
    step = row.step
    pairs = [
        ("code", row.code), ("shape", str(row.work)),
        ("operations", f"{row.work.operations:,}"), ("bytes", f"{row.work.bytes:,}"),
    ]  # fmt: skip
    if step is not None:
        pieces = f"up to {step.chunks}" if step.counted else str(step.chunks)
        pairs.append(("pieces of work", f"{pieces}, {'shared' if step.shared else 'not shared'}"))
        pairs += [("bytes of its own per thread", f"{step.scratch:,}")] if step.scratch else []
    return _pairs(pairs)


def _pairs(pairs: Sequence[tuple[str, str]]) -> list[Html]:
    return [join([tag("dt", name), tag("dd", value)]) for name, value in pairs]


def _measured(kernel: KernelProfile | None) -> list[Html]:
    if kernel is None or not kernel.runs:
        return []
    times = "" if kernel.runs == 1 else f", {kernel.runs} times in a call"
    return _pairs(
        [
            ("time of a run", duration(kernel.seconds) + times),
            ("share of all kernels", f"{kernel.share:.1%}"),
            ("threads", f"{kernel.threads}, {kernel.waited:.0%} waiting at the end"),
            ("operations per second", f"{kernel.flops / 1e9:.1f} G, {kernel.of_flops:.0%} of peak"),
            (
                "bytes per second",
                f"{kernel.bandwidth / 1e9:.1f} G, {kernel.of_memory:.0%} of memory's",
            ),
        ]
    )


def _bound(kernel: KernelProfile | None) -> Html:
    if kernel is None:
        return escape("")
    if not kernel.runs:
        return tag("p", "It did not run in the call that was measured.", class_="bound")
    says = MEANINGS[kernel.bound].format(f"{kernel.explains:.0%}")
    return tag("p", f"It is bound by {says}.", class_="bound")


def _where(contents: Contents, tensor: Tensor) -> str:
    buffer = contents.place(tensor)
    if buffer is None:
        return "no buffer"
    return f"{buffer.kind} {buffer.number}" + (f" + {buffer.offset}" if buffer.offset else "")


def _operation(contents: Contents, operation: Operation) -> Html:
    """An operation, and the line of the program that it comes from; the others on request."""
    attributes = ", ".join(f"{name}={value}" for name, value in operation.attributes)
    results = ", ".join(contents.shown(t) for t in operation.outputs)
    words = [tag("b", operation.name), f" {{{attributes}}}" if attributes else "", f" → {results}"]
    calls = [(f"{c.text} at {c.span}", c.span) for c in reversed(operation.calls)]
    calls += [] if operation.span is NOWHERE else [(f"formula at {operation.span}", operation.span)]
    if not calls:
        return tag("li", *words)
    first = tag("summary", str(calls[0][1]), _code(calls[0][1]))
    rest = tag("ul", *(tag("li", text, _code(span)) for text, span in calls))
    return tag("li", *words, tag("details", first, rest, class_="calls"))


def _code(span: Span) -> Html:
    """The line of a program at a place."""
    if span is NOWHERE:
        return escape("")
    line, _ = span.source.position(span.start)
    return tag("code", shorten(span.source.line(line).strip(), 160))
