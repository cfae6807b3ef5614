"""Compiles generated kernels and calls them through the ABI, on operands that end at unreadable pages."""

from __future__ import annotations

import ctypes
import mmap
import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from graphwright.config import Options
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.symbols import evaluate
from graphwright.targets.cpu.c.extent import FIRST
from graphwright.targets.cpu.emit import emit_file, grid_of, phases, scratch_of
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.toolchain import Toolchain, compile_shared, find_toolchain

Array = np.ndarray[Any, Any]
_LIBC = ctypes.CDLL(None, use_errno=True)


@cache
def toolchain() -> Toolchain:
    return find_toolchain(Options())


def load(code: bytes) -> ctypes.CDLL:
    """Open a shared object from its bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.so"
        path.write_bytes(code)
        return ctypes.CDLL(str(path))


@cache
def compiled(kernels: tuple[Kernel, ...], isa: Isa) -> ctypes.CDLL:
    return load(compile_shared(emit_file([(k, k.name) for k in kernels], isa), isa, toolchain()))


def guarded(values: Array, side: str = "end") -> Array:
    """A copy of ``values`` flush against an unreadable page after ("end") or before it ("start")."""
    page = mmap.PAGESIZE
    room = max(page, -(-values.nbytes // page) * page)
    whole = np.frombuffer(mmap.mmap(-1, room + 2 * page), np.uint8)
    for offset in (0, page + room):
        assert _LIBC.mprotect(ctypes.c_void_p(whole.ctypes.data + offset), ctypes.c_size_t(page), 0) == 0
    first = page if side == "start" else page + room - values.nbytes
    copy = whole[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def run(
    library: ctypes.CDLL, kernel: Kernel, arrays: dict[str, Array], sizes: dict[str, int], pieces: int = 1
) -> None:
    """Run every phase of ``kernel`` in ``pieces`` chunks of its grid, on ``arrays`` in place.

    First on copies with only the bytes that the kernel declares to access, directly before an inaccessible
    page.
    """
    arg = (ctypes.c_int64 * max(1, len(kernel.sizes)))(*(sizes[s] for s in kernel.sizes))
    for phase in phases(kernel):
        bare = {}
        for parameter, end in zip(kernel.parameters, extents(library, phase, sizes), strict=True):
            whole = arrays[parameter.name]
            assert end <= whole.nbytes, f"{parameter.name} of {phase.name}: {end} of {whole.nbytes} bytes"
            bare[parameter.name] = guarded(whole.reshape(-1).view(np.uint8)[:end])
        for given in (bare, arrays):
            _run_phase(library, phase, given, arg, sizes, pieces)


def extents(library: ctypes.CDLL, phase: Kernel, sizes: dict[str, int]) -> list[int]:
    """The bytes of each operand that the kernel declares to access; its grid and scratch are as they are."""
    count = len(phase.parameters)
    arg = (ctypes.c_int64 * max(1, len(phase.sizes)))(*(sizes[s] for s in phase.sizes))
    out = (ctypes.c_double * (FIRST + count))()
    function = library[f"{phase.name}_extent"]
    assert function(arg, ctypes.c_int64(len(phase.sizes)), ctypes.c_int64(count), out) == 0
    assert function(arg, ctypes.c_int64(len(phase.sizes) - 1), ctypes.c_int64(count), out) == 1
    assert function(arg, ctypes.c_int64(len(phase.sizes)), ctypes.c_int64(count - 1), out) == 1
    assert list(out[:2]) == [evaluate(grid_of(phase), sizes), evaluate(scratch_of(phase), sizes)]
    return [int(end) for end in out[FIRST:]]


def _run_phase(
    library: ctypes.CDLL,
    phase: Kernel,
    arrays: dict[str, Array],
    arg: Any,
    sizes: dict[str, int],
    pieces: int,
) -> None:
    buf = (ctypes.c_void_p * len(phase.parameters))(*(arrays[p.name].ctypes.data for p in phase.parameters))
    function = library[phase.name]
    grid, bytes_ = evaluate(grid_of(phase), sizes), evaluate(scratch_of(phase), sizes)
    scratch = guarded(np.full(bytes_, 0xFF, np.uint8))
    edges = np.linspace(0, grid, pieces + 1).astype(int)
    for begin, end in pairwise(edges):
        error = function(
            buf, arg, ctypes.c_int64(begin), ctypes.c_int64(end), ctypes.c_void_p(scratch.ctypes.data)
        )
        assert error == 0


def outputs(
    library: ctypes.CDLL,
    kernel: Kernel,
    arrays: dict[str, Array],
    sizes: dict[str, int],
    names: Sequence[str],
    pieces: int = 1,
    side: str = "end",
) -> dict[str, Array]:
    """What the kernel leaves in ``names``, run on guarded copies of ``arrays``."""
    copies = {name: guarded(array, side) for name, array in arrays.items()}
    run(library, kernel, copies, sizes, pieces)
    return {name: copies[name].copy() for name in names}
