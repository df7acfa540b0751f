"""The time of each kernel: which kernels there are, how often they run, and how much they do."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import profile as timing
from ricci.backends.llvm import threads
from ricci.dtypes import DType, Types
from ricci.ir.loops import Program
from ricci.ir.work import work_of
from ricci.passes.pipeline import lower
from ricci.runtime.peak import Loop
from ricci.runtime.pool import this_machine
from ricci.runtime.profile import KernelProfile, Profile

LAYER = """
    import nn;
    import math;
    graph G {
        @input { x: real[b|64, 96]; }
        @output { y: real[b, 80]; z: real[b]; }
        @variable { W: real[80, 96]; c: real[80]; }
        @compose {
            sums = nn.linear(x, W, c);
            y = nn.relu(sums);
            z = math.sum_reduce{axes=[1], squeeze=true}(x);
        }
    }
"""
COUNTDOWN = """
    import math;
    operator positive {
        @input { n: int[]; }
        @output { p: bool[]; }
        @lower { p[] = n[] > 0; }
    }
    operator step {
        @input { n: int[]; x: real[k]; }
        @output { m: int[]; y: real[k]; }
        @lower {
            m[] = n[] - 1;
            y[i,] = x[i,] + 1.0, i < k;
        }
    }
    graph G {
        @input { x: real[8]; steps: int[]; }
        @output { y: real[8]; }
        @compose {
            left, y = with n = steps, s = x while positive(n) do step(n, s);
        }
    }
"""
CHOICE = """
    import math;
    graph G {
        @input { x: real[300]; up: bool[]; }
        @output { y: real[300]; }
        @compose {
            y = if up then math.exp(x) else math.log(x);
        }
    }
"""


def layer(**options: int) -> ricci.Executable:
    model = ricci.parse(LAYER)
    rng = np.random.default_rng(0)
    model.variables["main.G.W"] = rng.random((80, 96), np.float32)
    model.variables["main.G.c"] = rng.random(80, np.float32)
    return model.compile(**options)


def find(profile: Profile, name: str) -> KernelProfile:
    return next(k for k in profile if name in k.name)


@pytest.mark.parametrize("count", [1, 2])
def test_work_and_names_are_those_of_the_call(count: int) -> None:
    run = layer(threads=count)
    profile = run.profile(np.ones((40, 96), np.float32), rounds=3)
    linear = find(profile, "nn.linear")
    assert linear.name == "nn.linear + nn.relu"
    assert linear.results == ("y: float32[b, 80]",)
    assert linear.operations == 40 * 80 * (2 * 96)
    assert linear.bytes == 4 * (40 * 96 + 80 * 96 + 80 + 40 * 80)
    assert find(profile, "sum_reduce").operations == 40 * 96
    assert [k.number for k in profile] == list(range(len(profile)))
    assert math.isclose(sum(k.share for k in profile), 1.0)
    assert all(k.runs == 1 and k.seconds > 0 and 0 <= k.waited <= 1 for k in profile)
    assert profile.machine.threads == count and profile.machine.flops > 0


def test_sizes_are_those_of_each_call() -> None:
    run = layer()
    for batch in (3, 64):
        linear = find(run.profile(np.ones((batch, 96), np.float32), rounds=1), "nn.linear")
        assert linear.shape == f"{batch}x80 of 96"


@pytest.mark.parametrize("steps", [0, 5])
def test_kernels_of_a_loop_run_in_every_step(steps: int) -> None:
    run = ricci.parse(COUNTDOWN).compile()
    profile = run.profile(np.zeros(8, np.float32), np.array(steps), rounds=2)
    assert find(profile, "main.step").runs == steps
    assert find(profile, "main.positive").runs == steps + 1
    assert (run(np.zeros(8, np.float32), np.array(steps)) == steps).all()


@pytest.mark.parametrize("up", [False, True])
def test_a_branch_that_is_not_taken_does_not_run(up: bool) -> None:
    run = ricci.parse(CHOICE).compile()
    profile = run.profile(np.ones(300, np.float32), np.array(up), rounds=2)
    assert (find(profile, "math.exp").runs, find(profile, "math.log").runs) == (up, not up)


def test_variables_keep_their_values() -> None:
    model = ricci.parse(
        """
        import math;
        graph G {
            @input { x: int[]; }
            @output { y: int[]; }
            @variable { n: int[]; }
            @compose { y = math.add(n, x); }
            @update { n = y; }
        }
        """
    )
    model.variables["main.G.n"] = 3
    run = model.compile()
    assert run(np.array(1)) == 4
    run.profile(np.array(5), rounds=4)
    assert run.variables["main.G.n"] == 4


def test_mistakes_are_those_of_a_call() -> None:
    gather = ricci.parse("def f(float(N) x, int32(M) i) -> (y) { y(m) = x(i(m)) }", "tc").compile()
    with pytest.raises(ricci.Error, match="E0802"):
        gather.profile(np.ones(4, np.float32), np.array([1, 9], np.int32))
    run = layer()
    with pytest.raises(ricci.Error, match="E0801"):
        run.profile(np.ones((40, 95), np.float32))
    with pytest.raises(ricci.Error, match="E0801"):
        run.profile(np.ones((40, 96), np.float32), rounds=0)
    with pytest.raises(ricci.Error, match="E0805"):
        ricci.parse(CHOICE).compile("interpreter").profile(np.ones(300, np.float32), True)


def test_the_ordinary_code_looks_at_no_clock() -> None:
    for text in (threads.runtime_text(), timing.timing_text()):
        assert not re.search(r"@[A-Z]+@", text)
    assert "@now(" not in threads.runtime_text()
    assert timing.timing_text().count("call i64 @now(") > 4


# ------------------------------------------------------------------ what a machine can do


@pytest.mark.parametrize("footprint", [1 << 16, 6 << 20, 80 << 20])
def test_loops_move_what_they_say(footprint: int) -> None:
    copy, half = Loop("copy", 1, footprint), footprint // 2
    lanes = this_machine().lanes(DType.FLOAT32)
    numbers = np.random.default_rng(0).random(half // 4, np.float32)
    (memory,) = copy.memory.view(np.float32)
    memory[: half // 4], memory[half // 4 :] = numbers, 0
    copy()
    assert np.array_equal(memory[half // 4 : half // 2], numbers)
    assert not memory[half // 2 :].any() and copy.amount % (2 * half) == 0
    read = Loop("read", 1, footprint)
    assert read.amount % footprint == 0 and read.rate(1) > 0
    write = Loop("write", 1, footprint)
    (memory,) = write.memory.view(np.float32)
    memory[: footprint // 4], memory[footprint // 4 :] = 3, 4
    memory[: footprint // 4].reshape(8, -1)[:, :lanes] = numbers[:lanes]  # where pieces begin
    write()
    assert np.array_equal(
        memory[: footprint // 4], np.tile(numbers[:lanes], footprint // 4 // lanes)
    )
    assert (memory[footprint // 4 :] == 4).all() and write.amount % footprint == 0


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
def test_loops_compute_what_they_say(dtype: DType) -> None:
    loop = Loop("compute", 1, dtype=dtype)
    (memory,) = loop.memory.view(dtype.numpy())
    memory[:] = 3
    loop()
    (sums,) = (memory != 3).nonzero()
    assert (memory[sums] % 9 == 0).all()  # in each lane so many times 3 * 3
    assert loop.amount % (2 * memory[sums].sum() // 9) == 0


# ------------------------------------------------------------------ the count of work


def kernels_of(text: str, language: str = "skriptnd") -> Program:
    model = ricci.parse(text, language)
    numbers = Types(*(ricci.ir.nodes.DType(n) for n in model.numbers()))
    return lower(model.graph, {}, numbers)


def test_bytes_are_those_of_elements_that_are_touched() -> None:
    """Against the elements that plain loops touch."""
    text = """
        graph G {
            @input { x: real[20, 9]; ids: int[6]; }
            @output { y: real[6, 4]; }
            @compose { y = pick(x, ids); }
        }
        operator pick {
            @input { x: real[n, m]; ids: int[k]; }
            @output { y: real[k, 4]; }
            @lower { y[i, j] = x[ids[i,], 2 * j] * 3.0 + x[i, j], i < k, j < 4; }
        }
    """
    (kernel,) = kernels_of(text).kernels
    work = work_of(kernel, {})
    points = list(itertools.product(range(6), range(4)))
    assert work.operations == 2 * len(points)
    picked = {(i, 2 * j) for i, j in points}  # of whatever rows
    near = set(points)
    assert work.bytes == 4 * (len(picked) + len(near) + len(points)) + 8 * 6
