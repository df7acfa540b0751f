"""Machine code from LLVM text: object files, and functions loaded from them.

The texts come from `builder` free of common subexpressions and invariants, so no optimisation
passes run before instruction selection, and none that looks for other addresses in loops. All calls
into LLVM are serialised by llvmlite, which is imported when there is something to compile: loading
what was compiled takes no LLVM.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from . import half
from .objects import Code, Unknown
from .target import Target

if TYPE_CHECKING:
    import llvmlite.binding as llvm

    from .kernels import KernelCode

_setup, _emitting = Lock(), Lock()


@functools.cache
def _initialise() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@contextmanager
def _addresses_as_they_are() -> Iterator[None]:
    """Without LLVM's reduction of strength, a third of its time, which weighs all ways to have the
    addresses of a loop. It is an option of the whole process: whoever else uses LLVM in it has the
    reduction again after the block."""
    import llvmlite.binding as llvm

    with _emitting:
        llvm.set_option("", "-disable-lsr")
        try:
            yield
        finally:
            llvm.set_option("", "-disable-lsr=false")


@functools.lru_cache(8)
def machine(target: Target, level: int = 2) -> llvm.TargetMachine:
    """LLVM's code generator for a target."""
    import llvmlite.binding as llvm

    with _setup:
        _initialise()
        return llvm.Target.from_triple(target.triple).create_target_machine(
            cpu=target.cpu, features=target.features, opt=level, reloc="default",
            codemodel="jitdefault", jit=True,
        )  # fmt: skip


def module_text(codes: Sequence[tuple[str, KernelCode]], target: Target) -> str:
    """One module of several kernels, each under its symbol."""
    declarations = sorted({d for _, code in codes for d in code.declarations})
    parts = [f'target triple = "{target.triple}"', *declarations]
    for symbol, code in codes:
        text = re.sub(r"@kernel\b", f"@{symbol}", code.text)
        parts.append(_with_attributes(text, target))
    return "\n".join(parts)


def _with_attributes(text: str, target: Target) -> str:
    """Functions may use the whole vector registers and know that nothing is thrown. Registers that
    are put aside lie within lines of the cache: where chance had put the stack so that they
    did not, a kernel took 1.6 times as long."""
    width = 8 * target.vector_bytes
    flags = f'nounwind "prefer-vector-width"="{width}" "min-legal-vector-width"="{width}"'
    if target.vector_bytes > 16:
        flags = f"alignstack({target.vector_bytes}) {flags}"
    if target.sve:
        flags = f"nounwind vscale_range({width // 128},{width // 128})"
    return re.sub(r"^(define [^\n]*?)\s*\{$", rf"\1 {flags} {{", text, flags=re.M)


def compile_text(text: str, target: Target, level: int = 2) -> bytes:
    """The object file of a module; at level 0, made several times as fast, it is slower."""
    import llvmlite.binding as llvm

    _initialise()
    with llvm.parse_assembly(text) as module, _addresses_as_they_are():
        return bytes(machine(target, level).emit_object(module))


def compile_object(text: str, target: Target) -> bytes:
    """The object file of a module for a linker: its code may be loaded at any address."""
    import llvmlite.binding as llvm

    _initialise()
    linked = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="default"
    )
    with llvm.parse_assembly(text) as module:
        module.data_layout = str(linked.target_data)
        with _addresses_as_they_are():
            return bytes(linked.emit_object(module))


def assembly(text: str, target: Target) -> str:
    """The assembly text of a module, for people."""
    import llvmlite.binding as llvm

    _initialise()
    with llvm.parse_assembly(text) as module, _addresses_as_they_are():
        return str(machine(target).emit_assembly(module))


@functools.lru_cache(8)
def _routines(target: Target) -> bytes:
    """The object file of what the processor has no instructions for."""
    return compile_text(f'target triple = "{target.triple}"\n{half.ROUTINES}', target)


class Library:
    """Functions loaded from object files; they live as long as this object."""

    def __init__(self, objects: Iterable[bytes], target: Target) -> None:
        objects = list(objects)
        if any(name.encode() in data for data in objects for name in half.NAMES):
            objects.append(_routines(target))
        try:
            self.address = Code(objects).address
            """Where a function is; 0 if there is none."""
        except Unknown:
            self.address = _Linked(objects, target).address


class _Linked:
    """Functions that LLVM has loaded."""

    def __init__(self, objects: Iterable[bytes], target: Target) -> None:
        import llvmlite.binding as llvm

        _initialise()
        empty = llvm.parse_assembly(f'target triple = "{target.triple}"\n')
        fresh = llvm.Target.from_triple(target.triple).create_target_machine(
            cpu=target.cpu, features=target.features, codemodel="jitdefault", jit=True
        )
        # sections are put side by side: distances between them have 32 bits
        self._engine = llvm.create_mcjit_compiler(empty, fresh, use_lmm=True)
        for data in objects:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        return int(self._engine.get_function_address(symbol))
