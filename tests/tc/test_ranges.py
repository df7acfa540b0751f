"""Ranges for all sizes are those that the definition gives at any; what must hold besides is said.

A program is a line: parameters, `->`, and statements of which the last ones write `A`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ricci.diagnostics import Error, Report
from ricci.frontends.tc import program as tc
from ricci.frontends.tc.check import check_unit
from ricci.frontends.tc.parser import parse_unit
from ricci.frontends.tc.ranges import Range, Ranges, infer_ranges
from ricci.ir import shapes
from ricci.ir.nodes import Symbol
from ricci.ir.text import format_expr
from ricci.source import Source

from .range_oracle import Empty, Oracle, Unsolved

Sizes = Mapping[Symbol, int]


def function_of(line: str) -> tc.Function:
    parameters, statements = line.split(" -> ")
    report = Report()
    text = f"def f({parameters}) -> (A) {{ {statements} }}"
    functions = check_unit(parse_unit(Source("f.tc", text), report), report)
    report.raise_errors()
    return functions[0]


def infer(function: tc.Function, sizes: Sizes | None = None) -> Ranges:
    report = Report()
    ranges = infer_ranges(function, report, sizes)
    report.raise_errors()
    return ranges


def shown(ranges: Ranges, function: tc.Function) -> str:
    """The ranges of the last statement, half-open: `i in 0:N, k in 0:K`."""
    last = function.statements[-1]
    parts = []
    for index in (*last.indices, *last.reduced):
        own = ranges.of(last, index)
        end = shapes.add(own.maximum, shapes.constant(1))
        parts.append(f"{index.name} in {format_expr(own.minimum)}:{format_expr(end)}")
    return ", ".join(parts)


def codes(line: str, **sizes: int) -> list[str]:
    function = function_of(line)
    report = Report()
    known = {s: sizes[s.name] for s in function.sizes} if sizes else None
    infer_ranges(function, report, known)
    return [d.code for d in report.diagnostics]


# ------------------------------------------------------------ documented cases

DOCUMENTED = {
    "float(I) B, float(J) C -> A(i) = B(i) + C(i-2)": "i in 2:min(J + 1, I - 1) + 1",
    "float(M,K) X, float(K,N) Y -> A(m,n) +=! X(m,k) * Y(k,n)": "m in 0:M, n in 0:N, k in 0:K",
    "float(I) B, float(K) W -> A(i) +=! B(i+k) * W(k)": "i in 0:I + 1 - K, k in 0:K",
    "float(I) B, float(X) C, float(J) D -> A(i,j) = B(i)*C(i+j)*D(j)": "i in 0:I, j in 0:J",
    "float(E) B, int32(I) C -> A(i) = B(C(i))": "i in 0:I",
    "float(I) B -> A(i) = B(10-i)": "i in 11 - I:11",
    "float(I) B -> A(i) = B(2*i)": "i in 0:(I + 1) / 2",
    "float(I) B -> A(i) = B(2*i) + B(2*i+1)": "i in 0:I / 2",
    "float(I) B -> A(i) = B(i + i / 2)": "i in 0:(2 * I + 2) / 3",
    "float(I) B -> A(i) = B(i - (i + 1) / 3)": "i in 0:3 * I / 2",
    "float(I) B -> A(i) max=! B(2*i+k) where k in 0:2": "i in 0:I / 2, k in 0:2",
    "float(I) B, float c -> A(i) = c where exists B(i)": "i in 0:I",
    "float(H,W) X, float(P,Q) Y -> A(h,w) +=! X(h+p, w+q) * Y(p,q)": (
        "h in 0:H + 1 - P, w in 0:W + 1 - Q, p in 0:P, q in 0:Q"
    ),
}


@pytest.mark.parametrize("line", DOCUMENTED)
def test_documented_case(line: str) -> None:
    function = function_of(line)
    assert shown(infer(function), function) == DOCUMENTED[line]


def test_a_run_time_stride_is_an_error() -> None:
    assert codes("float(I) B, int32(J) S -> A(i) = B(S(0)*i)") == ["E0418"]
    assert codes("float(I) B, int32(J) S -> A(i) = B(S(0)*i) where i in 0:J") == []


def test_extent_is_canonical() -> None:
    function = function_of("float(I) B -> A(i) = B(10-i)")
    (own,) = infer(function).of_tensor(function.results[0])
    assert own.extent is function.sizes[0]


# ---------------------------------------------------------- against the oracle

CASES = """
float(I) B, float(J) C -> A(i) = B(i) + C(i-2)
float(M,K) X, float(K,N) Y -> A(m,n) +=! X(m,k) * Y(k,n)
float(I) B, float(K) W -> A(i) +=! B(i+k) * W(k)
float(I) B, float(X) C, float(J) D -> A(i,j) = B(i)*C(i+j)*D(j)
float(I) B, float(X) C, float(J) D -> A(i,j) = B(i)*C(2*i-j+1)*D(j)
float(I) B -> A(i) = B(10-i)
float(I) B -> A(i) = B(I-1-i)
float(I) B -> A(i) = B(2*i)
float(I) B -> A(i) = B(3*i+1)
float(I) B -> A(i) = B(5-2*i)
float(I) B -> A(i) = B(2*i) + B(2*i+1)
float(I) B, float(J) C -> A(i) = B(2*i) + C(3*i-1)
float(I) B -> A(i) max=! B(2*i+k) where k in 0:2
float(I) B -> A(i) +=! B(i-k) where k in 0:3
float(I) B -> A(i) = B(i/2)
float(I) B -> A(i) = B((i+1)/2)
float(I) B -> A(i) = B((5-i)/2)
float(I) B -> A(i) = B(i/2-1)
float(I) B -> A(i) = B(2*(i/3)+1)
float(I) B -> A(i) = B(-i/2)
float(I) B -> A(i) = B((i/2)/2)
float(I) B, float(J) C -> A(i,j) = B(i/2+j) * C(j)
float(I) B, float(J) C -> A(i,j) = B(i+j/2) * C(j)
float(I) B, float(N) C -> A(i) = B(N*i)
float(I) B, float(N) C -> A(i,j) = B(N*i+j) * C(j)
float(I) B, float(N) C -> A(i) = B(i/(N+1))
float(I) B, float(N) C -> A(i) = B(N*i-1) + B(N*i)
float(I) B, float(N) C -> A(i) = B((i-2)*N)
float(I) B, float(M,N) C -> A(i) = B(M*N*i)
float(I) B, float(M,N) C -> A(m,n) = C(m,n) * B(N*m+n)
float(L) B -> A(i) = B(i+1) where i in 0:3
float(L) B, float(N) C -> A(i) = B(i+1) where i in 0:N
float(L) B, float(N) C -> A(i) = B(i) where i in N-1:L
float(L) B, float(N) C -> A(i) = B(i) where i in 0:N/2
float(L) B, float(N) C -> A(i) = B(i) where i in 0:min(N,L)
float(L) B, float(N,M) C -> A(i) = B(i) where i in 0:N*M
float(L) B -> A(i) = B(i*i) where i in 0:3
float(L) B -> A(i) +=! B(i*j) where j in 1:3
float(L) B -> A(i) +=! B(j-i) where j in 1:5
float(L) B -> A(i,j) = B(i*j) where i in 0:3, j in 1:4
float(L) B, float(N) C -> A(i,j) = B(i*j) * C(i) * C(j)
float(L) B, float(N) C -> A(i,j) = B(i-j) * C(j)
float(L,M) B -> A(i) = B(i,i)
float(L,M) B -> A(i) = B(i,i+1)
float(L,M) B -> A(i,j) = B(i+j,j)
float(L) B, float(N) C, float(M) D -> A(i,j,k) = B(i+j+k) * C(j+k) * D(k)
float(L) B, float(N) C -> A(i) = B(i) where exists C(i+1)
float(L) B, float(N) C -> A(i) = B(0) where exists C(i)
float(L) B -> A(i) = B(i) + B(0) + B(L-1) + B(2)
float(L) B, float(N) C -> A(i) = C(i) + B(1)
float(L) B, float(N) C -> A(i) = B(max(i-1,0)) where i in 0:N
float(L) B, float(N) C -> A(i) = B(min(i+1,N-1)) where i in 0:N
float(L) B, float(N) C -> A(i) = B(min(max(i,0),L-1)) where i in 0-2:N
float(L) B, float(N) C -> A(i) = B(max(i,2*i))
float(L) B, float(N) C -> A(i) = B(i) where x = C(i+2), i in 0:3
float(L) B, float(N) C -> A(i) = B(i) + x where x = C(i+2)
float(L) B -> T(i) = B(i-2) A(i) = T(i+1)
float(L) B -> T(i) = B(i-2) A(i) +=! T(i+k) where k in 0:2
float(L) B -> T(i) = B(i+3) A(i) = T(2*i)
float(L) B -> T(i) = B(i) A(i) = B(i) where i in 0:T.0-1
float(L) B -> T(i) = B(10-i) A(i) = T(i) + T(i+1) where exists T(i-1)
float(L) B, float(N) C -> A(i) = B(i) A(i) += C(i)
float(L) B, float(N) C -> A(i) = B(i) A(i) +=! C(i+j) * B(j)
float(L) B, float(N) C -> A(i) = B(i) A(i) = C(i-3)
float(L) B, float(N) C -> A(i) = B(i) A(i) = C(i-3) A(i) += 1 where i in 0:2
float(L) B, float(N) C -> A(i) = B(i) A(i) = A(i) + C(i)
float(L) B, float(N) C -> A = B(0) A += C(1)
float(L) B -> A +=! B(i) * B(L-1-i)
float(L) B, float(N) C -> A(i) = i > 0 ? B(i) : C(i)
float(L) B, float(N) C -> A(i) = C(i) > 0 ? B(i-1) : C(i) where i in 0:N
float(E) B, int32(I) C -> A(i) = B(C(i+1))
float(E) B, int32(I) C -> A(i) = B(C(i)+i)
float(E,D) B, int32(I,L) C -> A(i,d) +=! B(C(i,l),d)
float(L) B, float(N) C -> A(i) = B(i%3) * C(i)
float(L) B, float(N) C -> A(i) = B(int64(i) + 1) * C(i)
float(3) B, float(4) C -> A(i) = B(i) * C(i+1)
float(0) B -> A(i) = B(i)
float(B,C,6,W) X, float(O,C,P,Q) Y -> A(b,o,h,w) +=! X(b,c,2*h+p,w+q) * Y(o,c,p,q)
float(G,H) X, float(H,P) Y -> A(h,p) +=! X(g,h) * Y(h,p) * X(g,h-1)
""".strip().splitlines()


def sample_sizes(function: tc.Function, count: int) -> Iterator[Sizes]:
    """Small sizes, with zeros: all of them if there are few."""
    every = list(product(range(5), repeat=len(function.sizes)))
    if len(function.sizes) == 1:
        every = [(n,) for n in range(14)]
    rng = random.Random(7)
    for values in every if len(every) <= count else rng.sample(every, count):
        yield dict(zip(function.sizes, values, strict=True))


def at_sizes(own: Range, sizes: Sizes) -> tuple[int, int]:
    return shapes.evaluate(own.minimum, sizes), shapes.evaluate(own.maximum, sizes)


def holds(ranges: Ranges, kind: str, sizes: Sizes) -> bool:
    """Whether the conditions of a kind hold at sizes."""
    wanted = [p.condition for p in ranges.preconditions if p.kind == kind and p.condition]
    return all(shapes.evaluate(condition, sizes) for condition in wanted)


def compare(line: str, count: int = 40) -> int:
    """Compare a program with the oracle; gives the number of sizes at which that could be."""
    function = function_of(line)
    ranges = infer(function)
    compared = 0
    for sizes in sample_sizes(function, count):
        if holds(ranges, "stride", sizes):
            compared += compare_at(function, ranges, sizes)
    return compared


def compare_at(function: tc.Function, ranges: Ranges, sizes: Sizes) -> bool:
    found = {key: at_sizes(own, sizes) for key, own in ranges.indices.items()}
    negative = any(high - low < -1 for low, high in found.values())
    assert holds(ranges, "range", sizes) != negative
    compare_given(function, ranges, sizes)
    oracle = Oracle(sizes)
    try:
        oracle.run(function)
    except Empty:
        assert any(high < low for low, high in found.values())
        return False
    assert oracle.indices == found
    for variable, bounds in oracle.tensors.items():
        assert bounds == tuple(at_sizes(own, sizes) for own in ranges.of_tensor(variable))
    safe = not any(map(oracle.unsafe, function.statements))
    if not negative:
        assert holds(ranges, "read", sizes) == safe
        if safe:
            check_largest(function, oracle)
    return not negative


def compare_given(function: tc.Function, ranges: Ranges, sizes: Sizes) -> None:
    """With sizes given all is numbers, the same ones; what does not fit is an error."""
    report = Report()
    known = infer_ranges(function, report, sizes)
    fits = holds(ranges, "range", sizes) and holds(ranges, "read", sizes)
    assert [d.code for d in report.diagnostics][:1] == ([] if fits else ["E0501"])
    for key, own in known.indices.items():
        ends = shapes.as_int(own.minimum), shapes.as_int(own.maximum)
        assert ends == at_sizes(ranges.indices[key], sizes)
    assert not list(known.checks()) or not sizes


def check_largest(function: tc.Function, oracle: Oracle) -> None:
    """Any inferred index with one value more would make a read leave its range."""
    for statement in function.statements:
        own = {i: r for (s, i), r in oracle.indices.items() if s is statement}
        fixed = {i for i, _, _ in statement.ranges}
        if any(low > high for low, high in own.values()):
            continue
        for index, (low, high) in own.items():
            if index not in fixed:
                assert oracle.unsafe(statement, {index: low - 1})
                assert oracle.unsafe(statement, {index: high + 1})


@pytest.mark.parametrize("line", CASES)
def test_ranges_are_those_of_the_definition(line: str) -> None:
    assert compare(line) or line.startswith("float(0)")


# -------------------------------------------------------------- random programs

PARAMETERS = "float(L) B, float(N) C, float(M,L) D"


@st.composite
def subscripts(draw: st.DrawFn) -> str:
    """`2*i - j + 1`, perhaps divided, perhaps with a size as a factor."""
    few = st.sampled_from([1, 1, 1, 1, 2, 2, 3, -1, -1, -2, "N", "-M", "N*M"])
    factors = draw(st.lists(few, min_size=1, max_size=3))
    names = draw(st.permutations("ijk"))
    terms = [f"{c}*{name}" for c, name in zip(factors, names, strict=False)]
    text = " + ".join([*terms, str(draw(st.integers(-2, 3)))])
    return draw(st.sampled_from([text, text, text, f"({text})/2", f"({text})/3 - 1"]))


@st.composite
def programs(draw: st.DrawFn) -> str:
    reads = [f"{draw(st.sampled_from('BC'))}({draw(subscripts())})"]
    for _ in range(draw(st.integers(0, 3))):
        tensor = draw(st.sampled_from("BBCCD"))
        count = 2 if tensor == "D" else 1
        reads.append(f"{tensor}({', '.join(draw(subscripts()) for _ in range(count))})")
    used = [name for name in "ijk" if any(f"*{name}" in read for read in reads)]
    left = draw(st.lists(st.sampled_from(used), unique=True))
    ends = ["0:3", "1:4", "0-2:2", "0:N", "1:M", "0:L/2+1"]
    chosen = draw(st.lists(st.sampled_from(used), unique=True))
    where = ", ".join(f"{name} in {draw(st.sampled_from(ends))}" for name in chosen)
    op = "=" if len(left) == len(used) else "+=!"
    value = " + ".join(reads) + (f" where {where}" if where else "")
    return f"{PARAMETERS} -> A({', '.join(left)}) {op} {value}"


def answer_of_oracle(function: tc.Function, sizes: Sizes) -> set[str]:
    """What may be said of a program, after what it gives at some sizes."""
    oracle = Oracle(sizes)
    try:
        oracle.run(function)
    except Empty:
        return {"E0419", "E0601", "E0418"}
    except Unsolved:
        return {"E0418"}
    empty = any(low > high for low, high in oracle.indices.values())
    unsafe = empty or any(map(oracle.unsafe, function.statements))
    return {"E0419", "E0601"} if unsafe else set()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(programs())
def test_random_program(line: str) -> None:
    try:
        compare(line, 12)
    except Error as error:
        function = function_of(line)
        symbolic = "N*" in line or "M*" in line  # not so at all sizes
        for sizes in () if symbolic else sample_sizes(function, 12):
            assert {d.code for d in error.diagnostics} <= answer_of_oracle(function, sizes)


# --------------------------------------------------------------- preconditions

PRECONDITIONS = {
    "float(I) B, float(X) C, float(J) D -> A(i,j) = B(i)*C(i+j)*D(j)": [
        ("read", "I + J - 2 <= X - 1", "I <= 0 || J <= 0 || I + J - 2 <= X - 1"),
    ],
    "float(E) B, int32(I) C -> A(i) = B(C(i))": [("read", "0 <= C(i) <= E - 1", None)],
    "float(E) B, int32(I) C -> A(i) = B(min(max(C(i),0),E-1))": [
        ("read", "0 <= E - 1", "I <= 0 || 0 <= E - 1"),
    ],
    "float(256) B, uint8(I) C -> A(i) = B(int32(C(i)))": [],
    "float(255) B, uint8(I) C -> A(i) = B(int32(C(i)))": [
        ("read", "0 <= int32(C(i)) <= 254", None),
    ],
    "float(3) B, float(N) C -> A(i) = B(i%3) * C(i)": [],
    "float(N) B -> A(i) = B(i%N) * B(i)": [],
    "float(8) B -> A(i) = B(B(i) > 0 ? 0 : 7) * B(i)": [],
    "float(N) B -> A(i) = i > 0 ? B(i-1) : B(i) where i in 0:N": [
        ("read", "0 <= i-1 <= N - 1", None),
    ],
    "float(N) B, float(M) C -> A(i) = C(i) where exists B(i+5), i in 0:M": [],
    "float(L) B -> A(i) = B(i+3) + B(i+1) where i in 0:3": [("read", "5 <= L - 1", "5 <= L - 1")],
    "float(L) B, float(N) C -> A(i) = B(N*i)": [("stride", "1 <= N", "1 <= N")],
    "float(I) B, float(K) C -> A(i) +=! B(i+k) * C(k)": [
        ("range", "0 <= I + 1 - K", "0 <= I + 1 - K"),
    ],
    "float(N) B, float(M) C -> A(i) = B(i) A(i) += C(i) where i in 0:M": [
        ("read", "M - 1 <= N - 1", "M <= 0 || M - 1 <= N - 1"),
    ],
    "float(N) B, float(M) C -> A(i) = B(i) A(i) +=! C(i) where i in 0:M": [],
}  # fmt: skip


@pytest.mark.parametrize("line", PRECONDITIONS)
def test_preconditions(line: str) -> None:
    found = [
        (p.kind, p.text, format_expr(p.condition) if p.condition else None)
        for p in infer(function_of(line)).preconditions
    ]
    assert found == PRECONDITIONS[line]


def test_precondition_says_what_is_read() -> None:
    function = function_of("float(E) B, int32(I) C -> A(i) = B(C(i) + 1)")
    (found,) = infer(function).preconditions
    read = function.statements[0].value
    assert isinstance(read, tc.Read)
    assert (found.tensor, found.dimension) == (function.parameters[0], 0)
    assert found.subscript is read.subscripts[0]
    assert found.lower is not None and shapes.as_int(found.lower) == 0
    assert found.upper is not None and format_expr(found.upper) == "E - 1"
    assert found.span.text == "C(i) + 1"


def test_checks_name_the_sizes() -> None:
    function = function_of("float(L) B -> A(i) = B(i+3) where i in 0:3")
    (check,) = infer(function).checks()
    assert [label for label, _ in check.values] == ["L"]
    assert check.message[0] == "index `i+3` in dimension 0 of `B` reaches "


def test_size_of_a_tensor_that_grows_later() -> None:
    line = "float(N) B -> T(i) = B(i) A(i) = B(i) * T.0 T(i) = 0 where i in 0:N+3"
    function = function_of(line)
    ranges = infer(function)
    last = function.statements[1]
    assert isinstance(last.value, tc.Binary) and isinstance(last.value.rhs, tc.Convert)
    extent = last.value.rhs.operand
    assert isinstance(extent, tc.Extent)
    assert format_expr(ranges.extent_at(last, extent)) == "N"
    assert format_expr(ranges.of_tensor(extent.tensor)[0].extent) == "N + 3"


# ---------------------------------------------------------------------- errors


def test_what_depends_on_an_error_is_left_out() -> None:
    line = "float(N) B -> T(i,j) = B(i+j) A(i) = T(i,0) A(i) = B(i)"
    assert codes(line) == ["E0418"]


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("float(I) B, float(K) C -> A(i) +=! B(i+k) * C(k)", {"I": 2, "K": 5}),
        ("float(I) B, float(X) C -> A(i) = B(i) * C(i+1) where i in 0:3", {"I": 3, "X": 3}),
    ],
)
def test_sizes_that_do_not_fit(line: str, sizes: dict[str, int]) -> None:
    assert codes(line) == []
    assert codes(line, **sizes) == ["E0501"]


def test_a_range_that_depends_on_too_many_sizes() -> None:
    """Every bound doubles the work; a person does not write so many."""
    names = range(60)
    parameters = ", ".join(f"float(N{k}) B{k}" for k in names)
    with pytest.raises(Error, match="E0901"):
        codes(f"{parameters} -> A(i) = {' + '.join(f'B{k}(i)' for k in names)}")
    chain = " ".join(f"T{k}(i) = T{k - 1}(i) + B{k}(i+1)" for k in names[1:])
    with pytest.raises(Error, match="E0901"):
        codes(f"{parameters} -> T0(i) = B0(i) {chain} A(i) = T59(i)")
