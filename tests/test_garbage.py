"""While models are compiled Python collects no garbage; otherwise it does, if it did before."""

import gc
from collections.abc import Iterator
from threading import Thread

import pytest

import ricci
from ricci.garbage import uncollected

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
