"""Options and fixtures of the whole test suite."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile

import pytest

# a cache of its own: what other runs left behind can neither help nor slow the tests
_CACHE = tempfile.mkdtemp(prefix="ricci-tests-")
atexit.register(shutil.rmtree, _CACHE, ignore_errors=True)
os.environ["RICCI_CACHE_DIR"] = _CACHE

os.environ.setdefault("RICCI_VERIFY", "1")

# many processes are started: Python is to compile the modules that they import once
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_collection_finish() -> None:
    """What has been imported stays until the end: the garbage collector need not look at it, nor
    as often as it does at what tests make, which is seldom in a circle."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts anew")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden texts are written instead of compared."""
    return bool(request.config.getoption("--update-golden"))
