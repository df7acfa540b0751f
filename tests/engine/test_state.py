"""Variables that calls update."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ricci

COUNTER = """
operator next {
    @input {
        k: int[1];
    }
    @output {
        l: int[1];
    }
    @lower {
        l[0,] = k[0,] + 1;
    }
}

operator pick {
    @input {
        x: real[4];
        k: int[1];
    }
    @output {
        y: real[];
    }
    @lower {
        y[] = x[k[0,],];
    }
}

graph Main {
    @input {
        x: real[4];
    }
    @output {
        y: real[];
        n: int[1];
    }
    @variable {
        count: int[1];
    }
    @compose {
        y = pick(x, count);
        n = next(count);
    }
    @update {
        count = n;
    }
}
"""


def counter(target: str) -> ricci.Executable:
    run = ricci.parse(COUNTER, "skriptnd").compile(target=target)
    run.variables["main.Main.count"] = np.array([0])
    return run


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_a_call_that_fails_updates_nothing(target: str) -> None:
    run = counter(target)
    x = np.arange(4, dtype=np.float32)
    assert [float(run(x).y) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(ricci.Error, match="index 4 is out of range"):
        run(x)
    assert run.variables["main.Main.count"].tolist() == [4]


def test_what_is_read_stays_as_it_is() -> None:
    run = counter("cpu")
    before = run.variables["main.Main.count"]
    run(np.zeros(4, np.float32))
    assert before.tolist() == [0]
    with pytest.raises(ValueError, match="read-only"):
        run.variables["main.Main.count"][0] = 7


def test_what_is_set_is_copied() -> None:
    run = counter("cpu")
    given = np.array([2])
    run.variables["main.Main.count"] = given
    given[0] = 3
    assert run(np.arange(4, dtype=np.float32)).y == 2


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_calls_from_several_threads_are_made_in_turn(target: str) -> None:
    run = ricci.parse(COUNTER.replace("x[k[0,],]", "x[k[0,] % 4,]"), "skriptnd").compile(
        target=target
    )
    run.variables["main.Main.count"] = np.array([0])
    x = np.zeros(4, np.float32)
    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(lambda _: int(run(x).n[0]), range(200)))
    assert sorted(seen) == list(range(1, 201))
