"""Products of matrices and of a matrix and a vector, with constant and with given factors."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .cases import Case, Row, draw, graph_case

SIZES = [(1024, 1024, 1024), (128, 1024, 1024), (49, 2048, 512), (8, 2048, 1000), (197, 768, 3072)]
"""Rows, inner size, columns: the same with either kind of right factor."""

MORE = [(2048, 2048, 2048), (64, 64, 64), (16, 4096, 4096)]

VECTORS = [(2048, 1000), (4096, 4096), (512, 256)]
"""Inner size and results of a matrix and a vector."""

BATCHES = [(12, 197, 64, 197), (12, 197, 197, 64), (500, 26, 72, 26)]
"""Batch, rows, inner size, columns; attention has the first two."""


def rows() -> Iterator[Row]:
    for sizes in SIZES:
        yield Row("products", "product {}x{}x{}, constant", constant, sizes)
        yield Row("products", "product {}x{}x{}", given, sizes)
    for sizes in MORE:
        yield Row("products", "product {}x{}x{}, constant", constant, sizes)
    for pair in VECTORS:
        yield Row("products", "vector by matrix {}x{}, constant", vector_constant, pair)
        yield Row("products", "vector by matrix {}x{}", vector_given, pair)
        yield Row("products", "matrix by vector, {1}x{0}", matrix_vector, pair)
    for batch in BATCHES:
        yield Row("products", "products {}x{}x{}x{}", batched, batch)
    yield Row("products", "dense layer and relu {}x{}x{}", dense, (128, 1024, 1024))


def constant(m: int, k: int, n: int) -> Case:
    return graph_case(
        "y = linalg.matmul(a, b);", "y = MatMul(a, b)", torch.mm, 2.0 * m * k * n,
        {"a": draw(m, k)}, {"b": draw(k, n)},
    )  # fmt: skip


def given(m: int, k: int, n: int) -> Case:
    return graph_case(
        "y = linalg.matmul(a, b);", "y = MatMul(a, b)", torch.mm, 2.0 * m * k * n,
        {"a": draw(m, k), "b": draw(k, n)},
    )  # fmt: skip


def vector_constant(k: int, n: int) -> Case:
    return constant(1, k, n)


def vector_given(k: int, n: int) -> Case:
    return given(1, k, n)


def matrix_vector(k: int, n: int) -> Case:
    """The matrix has a row for every result."""
    return graph_case(
        "y = linalg.matvec(a, x);", "o = Constant <value_ints = [0]> () u = Unsqueeze(x, o)"
        "z = Gemm <transB = 1> (u, a) y = Squeeze(z, o)",  # `MatMul` is slower
        torch.mv, 2.0 * k * n,
        {"a": draw(n, k), "x": draw(k)},
    )  # fmt: skip


def batched(b: int, m: int, k: int, n: int) -> Case:
    return graph_case(
        "y = linalg.matmul(a, b);", "y = MatMul(a, b)", torch.bmm, 2.0 * b * m * k * n,
        {"a": draw(b, m, k), "b": draw(b, k, n)},
    )  # fmt: skip


def dense(m: int, k: int, n: int) -> Case:
    return graph_case(
        "z = nn.linear(x, w, b); y = nn.relu(z);",
        "z = Gemm <transB = 1> (x, w, b) y = Relu(z)",
        lambda x, w, b: torch.relu(torch.nn.functional.linear(x, w, b)),
        2.0 * m * k * n, {"x": draw(m, k)}, {"w": draw(n, k), "b": draw(n)},
    )  # fmt: skip
