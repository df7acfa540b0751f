"""While models are compiled Python collects no garbage; otherwise it does, if it did before."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from threading import Thread

import pytest

import ricci
from ricci.dtypes import Types
from ricci.garbage import uncollected
from ricci.ir.loops import tensors_touched
from ricci.passes.pipeline import lower

TEXT = """
import math;
graph Sum {
    @input { x: real[8]; y: real[8]; }
    @output { z: real[8]; }
    @compose { z = math.add(x, y); }
}
"""


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_nothing_is_collected_until_the_outermost_one_ends() -> None:
    with uncollected():
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_collected_again_after_a_failure() -> None:
    with pytest.raises(ricci.Error):
        ricci.parse("graph")
    assert gc.isenabled()
    with pytest.raises(ricci.Error):
        ricci.parse(TEXT).compile(target="abacus")
    assert gc.isenabled()


def test_who_has_turned_the_collector_off_finds_it_so() -> None:
    gc.disable()
    with uncollected():
        pass
    assert not gc.isenabled()


def test_of_several_threads_the_last_one_turns_it_on() -> None:
    seen = []

    def other() -> None:
        with uncollected():
            pass
        seen.append(gc.isenabled())

    with uncollected():
        thread = Thread(target=other)
        thread.start()
        thread.join()
    assert seen == [False]
    assert gc.isenabled()


FORKED = """
import gc, os
from threading import Event, Thread
from ricci.garbage import uncollected

began, end = Event(), Event()

def other():
    with uncollected():
        began.set()
        end.wait()

thread = Thread(target=other)
thread.start()
began.wait()
child = os.fork()
if child == 0:
    on = gc.isenabled()
    with uncollected():
        off = not gc.isenabled()
    os._exit(0 if on and off and gc.isenabled() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), gc.isenabled())
end.set()
thread.join()
print(gc.isenabled())
"""


def test_a_process_forked_meanwhile_collects() -> None:
    run = subprocess.run(
        [sys.executable, "-c", FORKED], check=False, capture_output=True, text=True, timeout=60
    )
    assert run.stdout.split() == ["0", "False", "True"], run.stderr


def test_what_is_collected_at_the_end_may_compile() -> None:
    seen = []

    class Late:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            with uncollected():
                seen.append(gc.isenabled())

    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(100):
            with uncollected():
                Late()
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert seen == [False] * 100
    assert gc.isenabled()


def test_parsing_and_compiling_are_among_it() -> None:
    collected = []

    def note(phase: str, info: dict[str, int]) -> None:
        collected.append(phase)

    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    gc.callbacks.append(note)
    try:
        before = len(collected)
        model = ricci.parse(TEXT)
        model.compile()
        during = len(collected) - before
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)
    assert during < 100  # between the two, and after them; of thousands


def test_kernels_that_are_no_more_are_not_remembered() -> None:
    lower(ricci.parse(TEXT).graph, {}, Types())
    assert tensors_touched.cache_info().currsize == 0
