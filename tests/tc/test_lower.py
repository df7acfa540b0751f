"""What statements do to tensors that others write, too."""

from __future__ import annotations

import numpy as np
import pytest

import ricci

TARGETS = ["cpu", "interpreter"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_later_statement_may_write_more(target: str) -> None:
    f = ricci.tc.define(
        """
        def f(float(L) B) -> (T, A, C) {
            T(i) = B(i)
            A(i) = B(i) * T.0
            T(i) = B(i - 2) + 1 where i in 2:L
            T(i) = 7 where i in L:L + 2
            C(i) = T(i) * T.0
        }
        """,
        target=target,
    ).f
    b = np.arange(5, dtype=np.float32)
    t, a, c = f(b)
    assert t.tolist() == [0, 1, 1, 2, 3, 7, 7]
    np.testing.assert_array_equal(a, b * 5)
    np.testing.assert_array_equal(c, t * 7)
    assert f.infer(b) == {"T": [(0, 7)], "A": [(0, 5)], "C": [(0, 7)]}


@pytest.mark.parametrize("target", TARGETS)
def test_ranges_that_do_not_start_at_zero_are_stored_compactly(target: str) -> None:
    f = ricci.tc.define(
        """
        def f(float(N) I, float(M) J) -> (O, P, Q) {
            O(i) = I(i - 1)
            P(i) = I(i) + J(i + 3) where i in -3:1, i in 0:1
            Q(i) = O(i) * 2 + O(i + 1)
        }
        """.replace(" where i in -3:1, i in 0:1", " where i in 0:1"),
        target=target,
    ).f
    i, j = np.arange(6, dtype=np.float32), np.arange(4, dtype=np.float32)
    o, p, q = f(i, j)
    assert f.infer(i, j)["O"] == [(1, 6)]
    np.testing.assert_array_equal(o, i)
    np.testing.assert_array_equal(p, [i[0] + j[3]])
    assert f.infer(i, j)["Q"] == [(1, 5)]
    np.testing.assert_array_equal(q, i[:-1] * 2 + i[1:])


@pytest.mark.parametrize("target", TARGETS)
def test_accumulation_goes_on_from_what_is_passed(target: str) -> None:
    f = ricci.tc.define(
        """
        def f(float(M, K) A) -> (s, t) {
            s(m) += A(m, k)
            t(m) +=! A(m, k)
            t(m) += 1
        }
        """,
        target=target,
    ).f
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    s, t = f(a)
    assert s.tolist() == [3, 12] and t.tolist() == [4, 13]
    out = np.full(2, 10, np.float32), np.full(2, 10, np.float32)
    assert f(a, out=out) is out
    assert out[0].tolist() == [13, 22] and out[1].tolist() == [4, 13]
    f(a, out=out)
    assert out[0].tolist() == [16, 34] and out[1].tolist() == [4, 13]


@pytest.mark.parametrize("target", TARGETS)
def test_results_may_lie_anywhere(target: str) -> None:
    f = ricci.tc.define("def f(float(M, N) A) -> (T) { T(n, m) = A(m, n) + 1 }", target=target).f
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    wide = np.zeros((3, 4), np.float32)
    f(a, out=wide[:, ::2])
    np.testing.assert_array_equal(wide[:, ::2], a.T + 1)
    assert not wide[:, 1::2].any()
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    want = square.T + 1
    f(square, out=square)
    np.testing.assert_array_equal(square, want)


@pytest.mark.parametrize("target", TARGETS)
def test_a_value_is_read_only_where_it_is_needed(target: str) -> None:
    f = ricci.tc.define(
        """
        def f(float(N) A, int32(M) I) -> (O) {
            O(m) = I(m) >= 0 ? x * x : -1 where x = A(I(m))
        }
        """,
        target=target,
    ).f
    a, index = np.array([2, 3], np.float32), np.array([1, -5, 0], np.int32)
    assert f(a, index).tolist() == [9, -1, 4]
    with pytest.raises(
        ricci.Error, match=r"index 2 is out of range for dimension 0 of `f\.A`"
    ) as e:
        f(a, np.array([0, 2], np.int32))
    assert e.value.diagnostics[0].code == "E0802"


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_that_do_not_fit_are_told(target: str) -> None:
    f = ricci.tc.define(
        "def f(float(I) B, float(X) C, float(J) D) -> (A) { A(i, j) = B(i) * C(i + j) * D(j) }",
        target=target,
    ).f
    ones = [np.ones(n, np.float32) for n in range(6)]
    assert f(ones[2], ones[3], ones[2]).shape == (2, 2)
    with pytest.raises(ricci.Error) as caught:
        f(ones[2], ones[2], ones[2])
    assert caught.value.diagnostics[0].code == "E0501"
    conv = ricci.tc.define(
        "def g(float(N) I, float(K) W) -> (O) { O(i) +=! I(i + k) * W(k) }", target=target
    ).g
    assert conv(ones[2], ones[3]).shape == (0,)
    with pytest.raises(ricci.Error) as caught:
        conv(ones[1], ones[4])
    assert caught.value.diagnostics[0].code == "E0501"


def test_wrong_arguments_are_told() -> None:
    mm = ricci.tc.define(
        "def mm(float(M, K) A, float(K, 4) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
    ).mm
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    for arguments, code in [
        ((a,), "E0801"),
        ((a, b, b), "E0801"),
        ((a.astype(np.int32), b), "E0801"),
        ((a.astype(np.float64), b), "E0801"),
        ((a[0], b), "E0801"),
        ((a, b[:2]), "E0804"),
        ((a, b[:, :3]), "E0801"),
    ]:
        with pytest.raises(ricci.Error) as caught:
            mm(*arguments)
        assert caught.value.diagnostics[0].code == code, arguments
    for out in (np.ones((2, 3), np.float32), np.ones((2, 4)), (a, a)):
        with pytest.raises(ricci.Error, match=r"does not fit|needs 1 array for"):
            mm(a, b, out=out)
    with pytest.raises(ricci.Error, match="there is no function `nn`"):
        ricci.tc.compile("def f(float(N) A) -> (B) { B(n) = A(n) }", "nn", a)


def test_compile_and_infer_take_shapes() -> None:
    text = "def conv(float(H) I, float(K) W) -> (O) { O(h) +=! I(h + k) * W(k) }"
    assert ricci.tc.infer(text, "conv") == {"O": [(0, "H + 1 - K")]}
    assert ricci.tc.infer(text, "conv", (10,), (3,)) == {"O": [(0, 8)]}
    run = ricci.tc.compile(text, "conv", (10,), ricci.tc.Spec((3,), "float32"))
    i, w = np.arange(10, dtype=np.float32), np.ones(3, np.float32)
    np.testing.assert_array_equal(run(i, w), np.convolve(i, w, "valid"))
    np.testing.assert_array_equal(run(i, w, unchecked=True), run(i, W=w))
    with pytest.raises(ricci.Error):
        ricci.tc.compile(text, "conv", (10,), ricci.tc.Spec((3,), "float64"))
    with pytest.raises(ricci.Error):
        ricci.tc.compile(text, "conv", (10, 2), (3,))


@pytest.mark.parametrize("target", TARGETS)
def test_the_right_side_of_logic_counts_only_where_the_left_does_not_decide(target: str) -> None:
    f = ricci.tc.define(
        """
        def f(float(N) A, int32(M) I) -> (O, P) {
            O(m) = I(m) >= 0 && A(I(m)) > 2
            P(i) = i < 2 || 7 % (i - 1) == 0 || A(i - 2) > 1 where i in 0:N
        }
        """,
        target=target,
    ).f
    a, index = np.array([2, 3, 1, 4], np.float32), np.array([1, -5, 0], np.int32)
    o, p = f(a, index)
    assert o.tolist() == [True, False, False]
    assert p.tolist() == [True, True, True, True]
    with pytest.raises(ricci.Error, match="index 4 is out of range"):
        f(a, np.array([0, 4], np.int32))


@pytest.mark.parametrize("target", TARGETS)
def test_extrema_of_bools(target: str) -> None:
    f = ricci.tc.define(
        """
        def f(int8(M, N) A) -> (any, all, both) {
            any(m) max=! A(m, n) > 3
            all(m) min=! A(m, n) > 3
            both(m) max= A(m, n) > 3
            both(m) min= A(m, n) > 0
        }
        """,
        target=target,
    ).f
    a = np.array([[1, 2, 3], [1, 4, 5], [0, 4, 4], [4, 5, 6]], np.int8)
    any_, all_, both = f(a)
    np.testing.assert_array_equal(any_, (a > 3).any(1))
    np.testing.assert_array_equal(all_, (a > 3).all(1))
    np.testing.assert_array_equal(both, (a > 3).any(1) & (a > 0).all(1))


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_that_divide_by_zero_are_told(target: str) -> None:
    f = ricci.tc.define(
        """
        def f(float(N, N) A) -> (T) { T(x) = A(1 % N, x) where x in 0:max(1, 3 / N) }
        def g(float(N, N) A) -> (T) { T(x) = A(1 % N, x) }
        """,
        target=target,
    )
    assert f.f(np.ones((2, 2), np.float32)).tolist() == [1]
    assert f.g(np.ones((0, 0), np.float32)).shape == (0,)
    with pytest.raises(ricci.Error) as caught:
        f.f(np.ones((0, 0), np.float32))
    assert caught.value.diagnostics[0].code == "E0803"


def test_numbers_of_python_are_scalars_of_any_type() -> None:
    text = "def f(float(N) A, float s, int32 k) -> (O) { O(i) = A(i) * s + k }"
    f, a = ricci.tc.define(text).f, np.ones(3, np.float32)
    assert f(a, 2.5, 3).tolist() == f(a, np.float32(2.5), k=np.int32(3)).tolist() == [5.5] * 3
    for wrong in ((2.5, 3.0), (2.5, 2**40), (np.float64(2.5), 3)):
        with pytest.raises(ricci.Error) as caught:
            f(a, *wrong)
        assert caught.value.diagnostics[0].code == "E0801"


@pytest.mark.parametrize("choice", [{"threads": 0}, {"threads": 2.5}, {"target": "gpu"}])
def test_choices_are_checked_at_once(choice: dict[str, object]) -> None:
    with pytest.raises(ricci.Error) as caught:
        ricci.tc.define("def f(float(N) A) -> (O) { O(i) = A(i) }", **choice)
    assert caught.value.diagnostics[0].code == "E0801"
