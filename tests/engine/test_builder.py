"""The text builder places each value once, in the outermost loop where its operands are."""

from __future__ import annotations

from ricci.backends.llvm.builder import Builder, split_operand


def _position(lines: list[str], part: str) -> int:
    return next(n for n, line in enumerate(lines) if part in line)


def test_invariants_leave_the_loop() -> None:
    b = Builder("f", "i64 %a")
    with b.loop(0, 8) as outer, b.loop(0, 4) as inner:
        b.pure("mul i64 %a, 3", "%a")
        b.pure(f"mul i64 {outer.index}, 5", outer.index)
        b.pure(f"mul i64 {inner.index}, 7", inner.index)
    b.line("ret void")
    lines = b.text().splitlines()
    labels = [n for n, line in enumerate(lines) if line.endswith(".body:")]
    assert _position(lines, "%a, 3") < labels[0]
    assert labels[0] < _position(lines, ", 5") < labels[1] < _position(lines, ", 7")


def test_equal_values_are_written_once() -> None:
    b = Builder("f", "i64 %a")
    first = b.pure("add i64 %a, 1", "%a")
    with b.loop(0, 4):
        assert b.pure("add i64 %a, 1", "%a") == first
    assert b.pure("add i64 %a, 1", "%a") == first


def test_a_value_of_a_loop_is_not_used_after_it() -> None:
    b = Builder("f", "ptr %p")
    for _ in range(2):
        with b.loop("0", "%n"):
            b.stable("load i64, ptr %p", "%p")
    assert b.text().count("load i64") == 2


def test_reads_stay_inside_loops_that_may_not_run() -> None:
    b = Builder("f", "ptr %p, i64 %n")
    with b.loop(0, "%n"):
        b.stable("load i64, ptr %p", "%p")
    lines = b.text().splitlines()
    assert _position(lines, "br i1") < _position(lines, "load i64") < _position(lines, ".body:")


def test_arms_share_what_leaves_them() -> None:
    b = Builder("f", "i64 %a, i1 %c")
    arms = b.branches("%c")
    with arms.then():
        arms.give(["1"])
    with arms.other():
        arms.give([b.pure("add i64 %a, 1", "%a")])
    assert arms.merge(["i64"])[0].startswith("%")
    lines = b.text().splitlines()
    assert _position(lines, "add i64 %a, 1") < _position(lines, "br i1 %c")


def test_operands_of_vectors_are_split_from_their_types() -> None:
    assert split_operand("<4 x float> splat (float 1.0)") == ("<4 x float>", "splat (float 1.0)")
    assert split_operand("ptr %p") == ("ptr", "%p")
