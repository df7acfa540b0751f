"""What loops become: what is the same at every step is done once, and pieces are not copied."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.dtypes import Types
from ricci.ir.loops import Kernel, Program, Repeat, all_actions, tensors_written
from ricci.passes.pipeline import lower

SAME = """
import math;
import linalg;

graph Main {
    @input {
        x: real[8, 8];
        k: real[8, 8];
        n: int[];
    }
    @output {
        y: real[8, 8];
    }
    @compose {
        y = with s = x do..(n) {
            t = math.sin(k);
            u = linalg.matmul(s, t);
            yield u;
        };
    }
}
"""

PIECES = """
import layout;
import math;

graph Main {
    @input {
        x: real[6, 4];
    }
    @output {
        y: real[6, 4];
    }
    @compose {
        xs..(6) = layout.unstack{axis=0}(x);
        ~, ys = with s: real[4] = 0.0 for z : xs do {
            t = math.add(s, z);
            yield t, t;
        };
        y = layout.stack{axis=0}(ys);
    }
}
"""


def program_of(text: str) -> Program:
    return lower(ricci.parse(text, "skriptnd").graph, {}, Types())


def kernels_in_loops(program: Program) -> list[Kernel]:
    loops = [a for a in program.actions if isinstance(a, Repeat)]
    inside = [a for loop in loops for a in all_actions((*loop.before, *loop.body))]
    return [k for k in program.kernels if k in inside]


def test_what_is_the_same_at_every_step_is_done_once() -> None:
    program = program_of(SAME)
    inside = {k.name for k in kernels_in_loops(program)}
    assert "linalg.matmul" in inside
    assert "math.sin" not in inside
    x, k = np.random.default_rng(0).random((2, 8, 8), np.float32)
    run = ricci.parse(SAME, "skriptnd").compile()
    for n in (0, 1, 3):
        expected = x @ np.linalg.matrix_power(np.sin(k), n)
        np.testing.assert_allclose(run(x, k, np.array(n)), expected, 1e-4)


def test_pieces_are_read_and_written_where_they_are() -> None:
    program = program_of(PIECES)
    (output,) = program.outputs
    outside = [k for k in program.kernels if k not in kernels_in_loops(program)]
    assert not any(t.shape == output.shape for k in outside for t in tensors_written(k))
    x = np.random.default_rng(0).random((6, 4), np.float32)
    run = ricci.parse(PIECES, "skriptnd").compile()
    np.testing.assert_allclose(run(x), np.cumsum(x, 0), 1e-5)


ENDLESS = """
import math;

operator below {
    @input {
        x: real[];
    }
    @output {
        z: bool[];
    }
    @lower {
        z[] = x[] < 1.0;
    }
}

graph Main {
    @input {
        x: real[];
    }
    @output {
        y: real[];
    }
    @compose {
        y = with s = x while below(s) do math.mul(s, 0.5);
    }
}
"""


@contextmanager
def alarm(handler: Callable[[int, Any], Any], seconds: float, again: float = 0.0) -> Iterator[None]:
    """A signal after so many seconds, and then every `again` seconds."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds, again)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_loop_can_be_interrupted_and_called_again() -> None:
    run = ricci.parse(ENDLESS, "skriptnd").compile()
    with alarm(signal.default_int_handler, 0.05), pytest.raises(KeyboardInterrupt):
        run(np.array(0.5, np.float32))
    assert run(np.array(2.0, np.float32)) == 2.0


def test_a_loop_lets_python_run_more_than_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an interruption does not wait for all of the steps."""
    monkeypatch.setenv("RICCI_LOOP_STEPS", "4000000")
    run, seen = ricci.parse(ENDLESS, "skriptnd").compile(), []

    def handler(number: int, _: object) -> None:
        seen.append(number)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with alarm(handler, 0.01, 0.01), pytest.raises(KeyboardInterrupt):
        run(np.array(0.5, np.float32))


def test_a_loop_without_end_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RICCI_LOOP_STEPS", "5000000")
    run = ricci.parse(ENDLESS, "skriptnd").compile()
    with pytest.raises(ricci.Error, match="not ended after 5000000 steps"):
        run(np.array(0.5, np.float32))
