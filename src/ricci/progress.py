"""Progress of long work: a bar on a terminal, one plain line elsewhere; always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[float], None]


@contextmanager
def show_progress(title: str, total: float) -> Iterator[Advance]:
    """Show that `total` units of work are being done; the block calls what it gets as they are."""
    if not sys.stderr.isatty():
        print(f"{title} ...", file=sys.stderr, flush=True)
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda amount: bar.advance(task, amount)
