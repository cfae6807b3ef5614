"""Runs library kernels as the executor does: compiled once, called through the ABI, operands against guard pages."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphwright.kernels.library.isa import ISAS, Isa

Array = np.ndarray[Any, Any]
_WARNINGS = ("-Wall", "-Wextra", "-Werror")
_FOLDER = Path(tempfile.gettempdir()) / f"graphwright-kernel-tests-{os.getuid()}"
_LIBC = ctypes.CDLL(None, use_errno=True)
_NAMES = {"v3": "avx2", "v4": "avx512vl"}
PAGE = mmap.PAGESIZE


def runnable_isas() -> list[Isa]:
    """The ISAs that this machine can run."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    return [isa for isa in ISAS.values() if _NAMES[isa.name] in flags]


each_isa = pytest.mark.parametrize("isa", runnable_isas(), ids=lambda isa: isa.name)


@cache
def _compile(text: str, flags: tuple[str, ...], compiler: tuple[str, ...]) -> Path:
    _FOLDER.mkdir(mode=0o700, exist_ok=True)
    key = hashlib.sha256("\0".join([text, *flags, *compiler]).encode()).hexdigest()[:24]
    library = _FOLDER / f"{key}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=_FOLDER) as work:
        source, built = Path(work) / "kernel.c", Path(work) / "kernel.so"
        source.write_text(text)
        command = [*compiler, *flags, *_WARNINGS, "-fPIC", "-shared", "-o", str(built), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        shutil.move(built, library)
    return library


@cache
def library(source: Callable[[Isa], str], isa: Isa) -> ctypes.CDLL:
    """``source(isa)`` compiled with the system's compiler and opened."""
    return ctypes.CDLL(str(_compile(source(isa), isa.flags, ("gcc",))))


def compile_with_zig(source: Callable[[Isa], str], isa: Isa) -> Path:
    """Compiles with clang's front end, warnings being errors."""
    return _compile(source(isa), isa.zig_flags, (sys.executable, "-m", "ziglang", "cc"))


def guarded(array: Array, *, at_end: bool = True) -> Array:
    """A dense copy of ``array`` that touches a page no one may access, behind it or (``at_end`` false) before it."""
    dense = np.ascontiguousarray(array)
    body = -(-max(dense.nbytes, 1) // PAGE) * PAGE
    memory = mmap.mmap(-1, body + 2 * PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (base, base + PAGE + body):
        assert _LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0) == 0
    offset = PAGE + (body - dense.nbytes if at_end else 0)
    copy = np.frombuffer(memory, dense.dtype, dense.size, offset).reshape(array.shape)
    copy[...] = array
    return copy


def call(
    kernel: Any,
    operands: Sequence[Array | None],
    args: Iterable[int],
    chunks: Sequence[tuple[int, int]],
    scratch_bytes: int = 0,
) -> int:
    """Calls the kernel on each chunk, in this order, with scratch full of NaN; returns the first error code or 0."""
    pointers = (ctypes.c_void_p * max(len(operands), 1))(*(None if a is None else a.ctypes.data for a in operands))
    numbers = np.array(list(args), np.int64)
    scratch = np.empty(scratch_bytes + 64, np.uint8)
    skip = -scratch.ctypes.data % 64
    for begin, end in chunks:
        scratch[:] = 0xFF
        code = kernel(
            pointers,
            ctypes.c_void_p(numbers.ctypes.data),
            ctypes.c_int64(begin),
            ctypes.c_int64(end),
            ctypes.c_void_p(scratch.ctypes.data + skip),
        )
        if code:
            return int(code)
    return 0


def chunkings(grid: int) -> list[list[tuple[int, int]]]:
    """All at once; one unit at a time, backwards; uneven thirds."""
    third = [0, grid // 3, grid // 3 + (grid + 1) // 2 if grid > 1 else grid, grid]
    cuts = sorted({min(c, grid) for c in third})
    return [
        [(0, grid)],
        [(i, i + 1) for i in reversed(range(min(grid, 500)))] + ([(500, grid)] if grid > 500 else []),
        list(zip(cuts, cuts[1:], strict=False)),
    ]
