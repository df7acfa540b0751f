"""Objects for this and other processors, and what they need of a system."""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci.ahead import build as ahead_build
from ricci.ahead.header import CODES
from ricci.backends.llvm import standalone_check
from ricci.backends.llvm.elf import machine_of, undefined_symbols
from ricci.backends.llvm.jit import Library, compile_object
from ricci.backends.llvm.target import host
from ricci.backends.llvm.targets import NAMES, named
from ricci.runtime.pool import this_machine

from .ahead import ALWAYS, ARM, DIGITS, MAPPING, THREADS, Failed, Model, find, tracker


@pytest.mark.parametrize("target", NAMES)
def test_objects_for_other_processors(tmp_path: Path, target: str) -> None:
    model = ricci.load(DIGITS, attribs={"batch": 2})
    paths = model.build(tmp_path, target=target, threads=2)
    data = find(paths, ".o").read_bytes()
    assert data[:4] == b"\x7fELF" and machine_of(data) == (183 if "aarch64" in target else 62)
    mathematics = {"floorf", "fmaf", "roundf", "truncf", "ceilf"}
    assert set(undefined_symbols(data)) <= ALWAYS | ARM | THREADS | mathematics
    assert target in find(paths, ".h").read_text()


def test_an_object_refuses_a_processor_that_lacks_its_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As which this machine counts where a leaf that no processor has is to tell of one of them."""
    if platform.machine() not in ("x86_64", "AMD64"):
        assert not standalone_check.is_checked(host())
        return
    model = ricci.load(DIGITS, attribs={"batch": 1})
    Model(model.build(tmp_path / "fits"))
    nowhere = ((0x7FFFFFF0, 0), 0, 0)
    monkeypatch.setitem(standalone_check._BITS, "sse4.2", nowhere)
    with pytest.raises(Failed) as failed:
        Model(model.build(tmp_path / "lacks"))
    assert failed.value.code == CODES["PROCESSOR"][0]


ANSWERS = {"B8 00000000 C3": True, "B8 FFFFFFFF C3": False}
"""What asks a system for registers, as code that returns: with what it asks for, or an error."""


@pytest.mark.parametrize("code", ANSWERS)
def test_registers_of_matrices_are_asked_for(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object refuses a processor whose system does not keep them, and other systems."""
    target = replace(named("x86-64-v4-amx"), triple="x86_64-unknown-linux-gnu")
    assert {"amx-tile", "amx-bf16", "amx-int8"} <= {
        n for n in standalone_check._BITS if target.has(n)
    }
    monkeypatch.setattr(standalone_check, "_ASK", code)
    monkeypatch.setattr(standalone_check, "_BITS", {})
    monkeypatch.setattr(standalone_check, "_KEPT", {})
    monkeypatch.setattr(standalone_check, "is_checked", lambda target: True)
    elsewhere = replace(target, triple="x86_64-pc-windows-msvc")
    for asked, expected in ((target, ANSWERS[code]), (elsewhere, False)):
        text = standalone_check.check_text(asked).replace("$P$", "tested")
        assert "_ask" in text
        if platform.machine() in ("x86_64", "AMD64"):
            source = text.replace("internal i1 @runs_here", "i1 @runs_here")
            library = Library([compile_object(source, this_machine())], this_machine())
            runs_here = ctypes.CFUNCTYPE(ctypes.c_bool)(library.address("runs_here"))
            assert runs_here() == expected


LINUX = """
define i64 @getauxval(i64 %word) {{
  %first = icmp eq i64 %word, 16
  %told = select i1 %first, i64 {told}, i64 0
  ret i64 %told
}}
define i64 @vscale() {{
  ret i64 {scale}
}}
"""


@pytest.mark.parametrize(
    ("name", "told", "scale", "fits"),
    [
        ("aarch64-dotprod", 1 << 20 | 3, 1, True),
        ("aarch64-dotprod", 1 << 22 | 3, 1, False),
        ("aarch64-sve", 1 << 22 | 1 << 20 | 3, 2, True),
        ("aarch64-sve", 1 << 22 | 3, 1, False),
        ("aarch64-sve", 1 << 20 | 3, 2, False),
    ],
)
def test_what_linux_tells_of_arm(name: str, told: int, scale: int, fits: bool) -> None:
    """The test that objects make, in code of this machine, with what Linux would say."""
    target = replace(named(name), triple="aarch64-unknown-linux-gnu")
    assert standalone_check.is_checked(target)
    assert not standalone_check.is_checked(replace(target, triple="aarch64-unknown-none-elf"))
    text = standalone_check.check_text(target)
    text = re.sub(r"^declare .*$|noinline .*(?= {$)", "", text, flags=re.M)
    text = text.replace("@llvm.vscale.i64", "@vscale").replace("internal i1 @runs", "i1 @runs")
    for system, expected in [(text, fits), (text.replace("ptr @getauxval,", "ptr null,"), True)]:
        source = system + LINUX.format(told=told, scale=scale)
        library = Library([compile_object(source, this_machine())], this_machine())
        runs_here = ctypes.CFUNCTYPE(ctypes.c_bool)(library.address("runs_here"))
        assert runs_here() == expected


def test_what_variables_give_is_prepared_when_a_model_is_made_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is for processors whose code this machine cannot run."""
    model = ricci.load(DIGITS, attribs={"batch": 4})
    images = np.random.default_rng(3).random((4, 1, 8, 8), np.float32)
    expected = model.compile()(images)
    monkeypatch.setattr(ahead_build, "_runs", lambda target: False)
    for weights in ("embedded", "file"):
        paths = model.build(tmp_path / weights, target="x86-64", weights=weights)
        (found,) = Model(paths).run([images])
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


def test_symbols_are_those_of_the_linker(tmp_path: Path) -> None:
    """What is read from an object equals what the tool of the system says, where there is one."""
    paths = tracker().build(tmp_path, threads=2, weights="file")
    object_file, tool = find(paths, ".o"), shutil.which("nm")
    needs = undefined_symbols(object_file.read_bytes())
    assert set(needs) <= ALWAYS | MAPPING | THREADS and "mmap" in needs
    assert ", ".join(needs).split(", ") == list(needs)
    if tool is not None:
        rows = subprocess.run(
            [tool, "-u", object_file], capture_output=True, text=True, check=True
        ).stdout.split()
        assert sorted(rows[1::2]) == list(needs)
        rows = subprocess.run(
            [tool, "-g", "--defined-only", object_file], capture_output=True, text=True, check=True
        ).stdout.split()
        functions = ("create", "destroy", "error", "get", "reset", "run", "set")
        shown = [name for kind, name in zip(rows[1::3], rows[2::3], strict=True) if kind == "T"]
        assert shown == [f"Tracker_{f}" for f in functions]
        rest = {name for name in rows[2::3] if name not in shown}
        assert all(name.startswith("Tracker_") for name in rest), "names of its own"
    assert struct.unpack_from("<H", object_file.read_bytes(), 16) == (1,), "to be linked"
