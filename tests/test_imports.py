"""Imports point down only, and importing the package is quiet and light."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import ricci

ROOT = Path(ricci.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

GROUND = {
    "source",
    "codes",
    "diagnostics",
    "dtypes",
    "config",
    "progress",
    "stored",
    "tables",
    "hashes",
    "records",
    "garbage",
    "memo",
}
BELOW: dict[str, set[str]] = {
    "ground": set(),
    "ir": {"ground"},
    "frontends": {"ground", "ir"},
    "passes": {"ground", "ir"},
    "backends": {"ground", "ir", "passes"},
    "runtime": {"ground", "ir", "passes", "backends"},
    "ahead": {"ground", "ir", "passes", "backends", "runtime"},
    "report": {"ground", "ir", "passes", "backends", "runtime"},
    "convert": {"ground", "ir", "frontends"},
}
for _name in (
    "outline",
    "model",
    "api",
    "tc",
    "eintup",
    "torch_eager",
    "torch",
    "cli",
):  # each may import all that stands before it
    BELOW[_name] = set(BELOW)
TOP = {"ricci", "__main__"}
"""The package itself and its command: they may import everything."""

SHARED = {path.stem for path in (ROOT / "frontends").glob("*.py")}
"""What front ends have in common stands beside their folders."""

THIRD_PARTY = {
    "numpy": set(BELOW),
    "llvmlite": {"backends", "runtime"},
    "rich": {"ground", "cli"},
    "torch": {"torch", "torch_eager"},
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer(module: str) -> str:
    """`ricci.ir.nodes` is in `ir`, `ricci.codes` in the ground."""
    parts = module.split(".")
    if len(parts) == 1:
        return "ricci"
    return "ground" if parts[1] in GROUND else parts[1]


@functools.cache
def imports(path: Path) -> list[tuple[str, int]]:
    """The absolute names of the modules that a file imports, with the lines."""
    found = []
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join(base + (node.module.split(".") if node.module else []))
            for alias in node.names:
                inner = ROOT.parent.joinpath(*source.split("."), alias.name)
                known = inner.is_dir() or inner.with_suffix(".py").exists()
                found.append((f"{source}.{alias.name}" if known else source, node.lineno))
    return found


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_point_down(path: Path) -> None:
    own = layer(module_name(path))
    for name, line in imports(path):
        target = layer(name) if name.split(".")[0] == "ricci" else ""
        if not target or own in TOP or target == own or (target == "ricci" and own == "cli"):
            continue
        assert target in BELOW[own], f"{path}:{line}: {own} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_front_ends_are_separate(path: Path) -> None:
    parts = module_name(path).split(".")
    if parts[1:2] != ["frontends"]:
        return
    for name, line in imports(path):
        other = name.split(".")
        if other[:2] == parts[:2] and len(other) > 2 and other[2] not in SHARED:
            assert other[2] == parts[2], f"{path}:{line}: {parts[2]} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_third_party_imports_are_the_declared_ones(path: Path) -> None:
    own = layer(module_name(path))
    for name, line in imports(path):
        root = name.split(".")[0]
        if root != "ricci" and root not in sys.stdlib_module_names:
            allowed = THIRD_PARTY.get(root, set())
            assert own in allowed, f"{path}:{line}: {own} imports {name}"


def test_importing_is_quiet_and_light() -> None:
    program = (
        "import sys, ricci; heavy = {'torch', 'llvmlite', 'rich', 'onnx', 'scipy', 'PIL'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
