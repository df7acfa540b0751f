"""Tensor files: every item type there and back, bytes as the format says, damage as findings."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ricci import Error
from ricci.dtypes import DType
from ricci.frontends.skriptnd import storage
from ricci.frontends.skriptnd.stored_names import find_files
from ricci.ir.nodes import Expr, Graph, Symbol, Tensor, integer
from ricci.stored import Stored

TYPES = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]


def header(
    shape: tuple[int, ...] = (2, 3),
    *,
    magic: bytes = b"\x4e\xef",
    version: tuple[int, int] = (1, 0),
    length: int | None = None,
    rank: int | None = None,
    bits: int = 32,
    code: int = 0,
    parameter: int = 0,
) -> bytes:
    """A header made word by word from the table of the format, not by the writer."""
    if length is None:
        length = int(np.prod(shape, dtype=object)) * bits // 8
    extents = list(shape) + [0] * (8 - len(shape))
    words = [length % 2**32, len(shape) if rank is None else rank, *extents, bits, code]
    words += [parameter] + [0] * 18
    return magic + bytes(version) + struct.pack("<31I", *words)


def finding(path: Path) -> str:
    with pytest.raises(Error) as caught:
        storage.read_tensor(path)
    (diagnostic,) = caught.value.diagnostics
    return f"{diagnostic.code} {diagnostic.message}"


# ----------------------------------------------------------------- there and back


@pytest.mark.parametrize("shape", [(), (1,), (0,), (5, 0, 2), (3, 5), (2, 1, 3, 1, 2, 1, 1, 2)])
@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_come_back(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    array = (rng.standard_normal(shape) * 100).astype(np.int64).astype(dtype)
    path = tmp_path / "main.G.w:1.dat"
    storage.write_tensor(path, array)
    back = storage.read_tensor(path)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.flags.writeable and back.dtype.isnative
    assert np.array_equal(back, array)
    assert storage.read_header(path) == storage.Header(shape, array.dtype)
    assert os.listdir(tmp_path) == [path.name]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_any_array_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(TYPES)))
    shape = arrays.array_shapes(min_dims=0, max_dims=8, min_side=0, max_side=3)
    array = data.draw(arrays.arrays(dtype, shape))
    path = tmp_path_factory.mktemp("tensors") / "t.dat"
    storage.write_tensor(path, array)
    assert storage.read_tensor(path).tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", TYPES[1:9])
def test_quantised_codes_come_back(tmp_path: Path, dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    storage.write_tensor(tmp_path / "q.dat", array, quantized=True)
    assert np.array_equal(storage.read_tensor(tmp_path / "q.dat"), array)
    assert storage.read_header(tmp_path / "q.dat") == storage.Header((2, 3), array.dtype, True)


def test_other_layouts_are_written_row_major(tmp_path: Path) -> None:
    array = np.arange(24, dtype=">f4").reshape(2, 3, 4).T[::-1]
    storage.write_tensor(tmp_path / "t.dat", array)
    assert np.array_equal(storage.read_tensor(tmp_path / "t.dat"), array)


# -------------------------------------------------------------------------- bytes


def test_bytes_of_a_float_tensor(tmp_path: Path) -> None:
    array = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    storage.write_tensor(tmp_path / "t.dat", array)
    assert (tmp_path / "t.dat").read_bytes() == header() + struct.pack("<6f", 1, 2, 3, 4, 5, 6)


def test_bytes_of_a_scalar(tmp_path: Path) -> None:
    storage.write_tensor(tmp_path / "t.dat", np.float32(3.5))
    assert (tmp_path / "t.dat").read_bytes() == header((), length=4) + struct.pack("<f", 3.5)


def test_bools_are_packed_first_item_highest(tmp_path: Path) -> None:
    array = np.array([1, 0, 1, 1, 0, 0, 0, 0, 1], bool)
    storage.write_tensor(tmp_path / "t.dat", array)
    expected = header((9,), length=2, bits=1, code=5) + b"\xb0\x80"
    assert (tmp_path / "t.dat").read_bytes() == expected


def test_signed_integers_of_the_first_convention(tmp_path: Path) -> None:
    path = tmp_path / "t.dat"
    path.write_bytes(header((2,), bits=16, code=1, parameter=1) + struct.pack("<2h", -5, 7))
    assert storage.read_tensor(path).tolist() == [-5, 7]
    assert storage.read_tensor(path).dtype == np.int16


# ------------------------------------------------------------------------- damage

DAMAGED = {
    "empty": (b"", "E0702", "it is empty"),
    "half a header": (header()[:100], "E0702", "it has 100 bytes"),
    "magic": (header(magic=b"\x89P") + bytes(24), "E0702", "begins with the bytes 89 50"),
    "major": (header(version=(2, 0)) + bytes(24), "E0703", "version 2.0"),
    "minor": (header(version=(1, 1)) + bytes(24), "E0703", "version 1.1"),
    "rank": (header(rank=9) + bytes(24), "E0702", "rank 9"),
    "short": (header() + bytes(23), "E0702", "it has 151 bytes"),
    "long": (header() + bytes(25), "E0702", "it has 153 bytes"),
    "length": (header(length=20) + bytes(20), "E0702", "gives 20 bytes of data"),
    "product": (header((2**31, 2**31, 2**31), length=0), "E0702", "2147483648"),
    "wrapped": (header((2**16, 2**16), length=0), "E0702", "gives 0 bytes of data"),
    "big": (header((2**29,), length=2**31), "E0702", "it has 128 bytes"),
    "empty but big": (header((0, *[2**32 - 1] * 7), length=0), "E0702", "fits any memory"),
    "code": (header(code=6) + bytes(24), "E0703", "type code 6 with 32 bits"),
    "bits": (header(bits=24, length=18) + bytes(18), "E0703", "type code 0 with 24 bits"),
    "bool bits": (header(bits=8, code=5) + bytes(6), "E0703", "type code 5 with 8 bits"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_findings(tmp_path: Path, case: str) -> None:
    data, code, text = DAMAGED[case]
    path = tmp_path / "t.dat"
    path.write_bytes(data)
    found = finding(path)
    assert found.startswith(code) and text in found and str(path) in found


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.binary(max_size=200), st.integers(0, 127), st.integers(0, 255))
def test_no_bytes_are_more_than_a_finding(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes, place: int, byte: int
) -> None:
    data = bytearray(header()) + tail
    data[place] = byte
    path = tmp_path_factory.getbasetemp() / "any.dat"
    path.write_bytes(data)
    try:
        storage.read_tensor(path)
    except Error as problem:
        assert problem.diagnostics[0].code in ("E0702", "E0703")


def test_what_is_no_file(tmp_path: Path) -> None:
    assert finding(tmp_path).startswith("E0701") and "is a folder" in finding(tmp_path)
    assert "no such file" in finding(tmp_path / "absent.dat")
    assert finding(tmp_path / "nul\0.dat").startswith("E0701")
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in finding(tmp_path / "pipe")


# ------------------------------------------------------------------------ writing


@pytest.mark.parametrize(
    ("array", "quantized", "text"),
    [
        (np.zeros([1] * 9, np.float32), False, "rank 9"),
        (np.zeros(2, np.complex64), False, "complex64"),
        (np.array(["a"]), False, "<U1"),
        (np.zeros(2, np.float32), True, "no quantised form"),
        (np.broadcast_to(np.float32(0), (2**16, 2**15)), False, "4 GiB"),
    ],
)
def test_what_cannot_be_written(
    tmp_path: Path, array: np.ndarray, quantized: bool, text: str
) -> None:
    with pytest.raises(Error) as caught:
        storage.write_tensor(tmp_path / "t.dat", array, quantized)
    assert caught.value.diagnostics[0].code == "E0706" and text in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "t.dat").mkdir()
    with pytest.raises(Error, match="E0707"):
        storage.write_tensor(tmp_path / "t.dat", np.zeros(2))
    with pytest.raises(Error, match="no such file"):
        storage.write_tensor(tmp_path / "absent" / "t.dat", np.zeros(2))
    assert [p.name for p in tmp_path.iterdir()] == ["t.dat"]


# ---------------------------------------------------------------------- variables


def graph(**variables: tuple[DType, tuple[int | Symbol, ...]]) -> Graph:
    def extent(e: int | Symbol) -> Expr:
        return e if isinstance(e, Symbol) else integer(e)

    tensors = tuple(Tensor(n, d, tuple(map(extent, s))) for n, (d, s) in variables.items())
    return Graph("G", (), (), (), variables=tensors)


def read_variables(folder: Path, declared: Graph) -> dict[str, np.ndarray]:
    names = [t.name for t in declared.variables]
    found = storage.open_tensors(folder, declared.variables, find_files(folder, names), folder)
    return {n: v.read() if isinstance(v, Stored) else v for n, v in found.items()}


def test_variables_keep_the_width_that_the_file_has(tmp_path: Path) -> None:
    values = {"a": np.ones((2, 3), np.float16), "n": np.array(4, np.int32)}
    storage.write_variables(tmp_path, values)
    read = read_variables(tmp_path, graph(a=(DType.REAL, (2, 3)), n=(DType.INT, ())))
    assert {n: (v.dtype, v.shape) for n, v in read.items()} == {
        n: (v.dtype, v.shape) for n, v in values.items()
    }


def test_variables_are_converted_to_a_concrete_type(tmp_path: Path) -> None:
    storage.write_variables(tmp_path, {"a": np.ones(2), "n": np.array([7], np.int64)})
    read = read_variables(tmp_path, graph(a=(DType.FLOAT32, (2,)), n=(DType.INT8, (1,))))
    assert read["a"].dtype == np.float32 and read["n"].dtype == np.int8


def test_an_open_extent_takes_any(tmp_path: Path) -> None:
    storage.write_variables(tmp_path, {"a": np.ones((2, 5))})
    read = read_variables(tmp_path, graph(a=(DType.REAL, (2, Symbol("n")))))
    assert read["a"].shape == (2, 5)


@pytest.mark.parametrize(
    ("declared", "stored", "text"),
    [
        ((DType.REAL, (2, 3)), np.ones((3, 2)), "has shape [3, 2]"),
        ((DType.REAL, (2,)), np.ones((2, 1)), "declared with shape [2]"),
        ((DType.REAL, (2,)), np.ones(2, np.int32), "items of type int32"),
        ((DType.INT, (2,)), np.ones(2), "declared with type int"),
        ((DType.BOOL, (2,)), np.ones(2, np.uint8), "declared with type bool"),
        ((DType.INT8, (2,)), np.array([0, 128]), "values from 0 to 128"),
    ],
)
def test_variables_that_do_not_fit(
    tmp_path: Path, declared: tuple[DType, tuple[int | Symbol, ...]], stored: np.ndarray, text: str
) -> None:
    storage.write_variables(tmp_path, {"w": stored})
    with pytest.raises(Error) as caught:
        read_variables(tmp_path, graph(w=declared))
    assert caught.value.diagnostics[0].code == "E0705" and text in str(caught.value)


def test_missing_files_are_listed_together(tmp_path: Path) -> None:
    storage.write_variables(tmp_path, {"w3": np.ones(1)})
    names = {f"w{k}": (DType.REAL, (1,)) for k in range(12)}
    with pytest.raises(Error) as caught:
        read_variables(tmp_path, graph(**names))
    text = str(caught.value)
    assert "E0704" in text and "11 of its 12" in text
    assert "missing: w0.dat" in text and "and 3 more" in text and "ricci init" in text


def test_all_damaged_files_are_reported_together(tmp_path: Path) -> None:
    storage.write_variables(tmp_path, {"a": np.ones(3), "b": np.ones(2), "c": np.ones(2)})
    (tmp_path / "c.dat").write_bytes(b"")
    declared = (DType.REAL, (2,))
    with pytest.raises(Error) as caught:
        read_variables(tmp_path, graph(a=declared, b=declared, c=declared))
    assert [d.code for d in caught.value.diagnostics] == ["E0705", "E0702"]
