"""Compile a library module's C, call its kernels through the ABI, and lay operands against guard pages."""

from __future__ import annotations

import atexit
import ctypes
import json
import mmap
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphwright import kernels
from graphwright.kernels.library.write import (
    KernelModule,
    include_flags,
    write_module,
    write_sources,
)
from graphwright.runtime.devices.kernel_library import LIBRARY_FOLDER
from graphwright.targets.cpu.c.extent import FIRST, HOOK, TILE
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library import refusal

ROOT = Path(__file__).parents[3]
Array = npt.NDArray[np.float32]
Chunks = Sequence[tuple[int, int]]


def _cpu_flags() -> set[str]:
    return set(Path("/proc/cpuinfo").read_text().split())


_NEEDS = {"v3": {"avx2", "fma", "bmi2"}, "v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}}
RUNNABLE = [isa for name, isa in ISAS.items() if _NEEDS[name] <= _cpu_flags()]
"""The ISAs that this CPU can run."""

WARNINGS = ("-Wall", "-Wextra", "-Werror")
"""All, each of which is an error."""

_LIBC = ctypes.CDLL(None, use_errno=True)


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="kernels_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def compile_c(sources: Sequence[Path], name: str, command: Sequence[str], flags: Sequence[str]) -> Path:
    """A shared object of ``sources``; a warning is an error."""
    target = _folder() / f"{name}.so"
    options = (*flags, *WARNINGS, "-shared", "-fPIC", "-fvisibility=hidden")
    subprocess.run([*command, *options, *map(str, sources), "-o", str(target)], check=True)
    return target


def compile_module(module: KernelModule, isa: Isa, command: Sequence[str], sanitizer: str = "") -> Path:
    """A shared object of the kernels of ``module``."""
    flags = isa.zig_flags if command == zig() else isa.flags
    flags += (f"-fsanitize={sanitizer}",) if sanitizer else ()
    folder = _folder() / isa.name
    name = f"{module.__name__}_{isa.name}_{Path(command[-1]).stem}{sanitizer}"
    return compile_c(write_module(module, isa, folder), name, command, (*flags, *include_flags(folder)))


def zig() -> tuple[str, ...]:
    """The command of zig's clang."""
    return (sys.executable, "-m", "ziglang", "cc")


@cache
def load(module: KernelModule, isa: Isa, sanitizer: str = "") -> ctypes.CDLL:
    """The kernels of ``module`` for ``isa``: the installed ones, or else compiled once per session with gcc
    (or zig's clang).
    """
    own = Path(module.__file__ or "").is_relative_to(Path(kernels.__file__).parent)
    if own and not sanitizer and is_installed(isa):
        return installed(isa)
    gcc = shutil.which("gcc")
    made = ctypes.CDLL(str(compile_module(module, isa, (gcc,) if gcc else zig(), sanitizer)))
    _LOADED.append(made)
    return made


@cache
def installed(isa: Isa) -> ctypes.CDLL:
    """The library of this installation."""
    made = ctypes.CDLL(str(LIBRARY_FOLDER / f"libgraphwright_kernels_{isa.name}.so"))
    _LOADED.append(made)
    return made


@cache
def is_installed(isa: Isa) -> bool:
    """Whether the installed library is what :func:`compile_module` would make: it is built from the present
    sources, in a build where a warning is an error.
    """
    commands = ROOT / "build" / "editable" / "compile_commands.json"
    if not commands.exists():
        return False
    files = [each for each in json.loads(commands.read_text()) if f"kernels_{isa.name}" in each["output"]]
    if not all({*WARNINGS, *isa.flags} <= {*shlex.split(each["command"])} for each in files):
        return False
    names = write_sources(_folder() / f"installed_{isa.name}", isa)[-1]
    digest = bytes((ctypes.c_char * 64).in_dll(installed(isa), "gw_kernels_digest")).decode()
    return bool(files) and digest in names.read_text()


_LOADED: list[ctypes.CDLL] = []


def extent_of(kernel: Any) -> Any:
    """The extent function of ``kernel``."""
    name, address = kernel.__name__, ctypes.cast(kernel, ctypes.c_void_p).value
    for library in _LOADED:
        if hasattr(library, name) and ctypes.cast(library[name], ctypes.c_void_p).value == address:
            return library[f"{name}_extent"]
    raise KeyError(name)


def reach(kernel: Any, args: Sequence[Any], grid: Any, operands: int, hooked: bool = False) -> list[float]:
    """The result of the extent function of ``kernel``, which rejects fewer arguments or operands."""
    extent = extent_of(kernel)
    arg = (ctypes.c_int64 * max(1, len(args)))(*map(int, args))
    out = (ctypes.c_double * (FIRST + operands))(float(grid))
    out[HOOK] = hooked
    count = ctypes.c_int64(operands + 1)  # the epilogue stands behind them
    assert extent(arg, ctypes.c_int64(len(args) - 1), count, out) == 1 or not args
    assert extent(arg, ctypes.c_int64(len(args)), count, out) == 0
    return list(out)


_CHECKED: Counter[str] = Counter()
_ENOUGH = 8


def check_refusals(kernel: Any, args: Sequence[Any], grid: Any, operands: int, hooked: bool) -> None:
    """Checks that operands smaller than what a kernel accesses are rejected, for some calls of each
    kernel.
    """
    _CHECKED[kernel.__name__] += 1
    if _CHECKED[kernel.__name__] <= _ENOUGH:
        found = reach(kernel, args, grid, operands, hooked)
        refusal.check(extent_of(kernel), args, int(grid), found, hooked)


def declared(
    kernel: Any,
    operands: Sequence[npt.NDArray[Any] | None],
    args: Sequence[Any],
    grid: Any,
    scratch: Any,
    hooked: bool,
) -> list[npt.NDArray[Any] | None]:
    """Copies of ``operands`` with only the bytes that ``kernel`` declares to access, directly before an
    inaccessible page. What it says is not too much: it is read where they lie.
    """
    out = reach(kernel, args, grid, len(operands), hooked)
    assert out[0] == grid and out[1] <= int(scratch), f"{list(out[:2])} for {grid} and {scratch}"
    assert not hooked or out[HOOK] == len(operands)
    made: list[npt.NDArray[Any] | None] = []
    for operand, end in zip(operands, out[FIRST:], strict=True):
        assert operand is not None or end <= 0, f"{end} bytes of an operand that is absent"
        if operand is None:
            made.append(None)
            continue
        size = int(abs(end))
        area = guarded(-(-size // 4), "end").view(np.uint8)
        bare = area[area.size - size :]
        bare[:] = np.frombuffer(ctypes.string_at(operand.ctypes.data, size), np.uint8)
        made.append(bare)
    return made


_HOOKS = """
#include <stdint.h>
#define HOOK(name) __attribute__((visibility("default"))) int32_t name( \\
    void *const *buf, const int64_t *arg, float *tile, int64_t ld, int64_t batch, int64_t row, \\
    int64_t rows, int64_t col, int64_t cols)

/* out[batch, row, col] = 3 * tile + 1, and count[batch, row, col] += 1. buf: out, count; arg: rows, cols. */
HOOK(scale) {
    float *out = buf[0], *count = buf[1];
    if (row < 0 || col < 0 || rows < 1 || cols < 1 || row + rows > arg[0] || col + cols > arg[1] || ld < cols)
        return 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            const int64_t at = (batch * arg[0] + row + r) * arg[1] + col + c;
            out[at] = 3 * tile[r * ld + c] + 1;
            count[at] += 1;
        }
    return 0;
}

/* Of a tile of two results: each as it is, and a count. buf: first, second, count; arg: rows, cols. */
HOOK(part) {
    float *first = buf[0], *second = buf[1], *count = buf[2];
    if (row < 0 || col < 0 || rows < 1 || cols < 1 || row + rows > arg[0] || col + cols > arg[1] || batch ||
        ld < 2 * cols)
        return 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            const int64_t at = (row + r) * arg[1] + col + c;
            first[at] = tile[r * ld + c];
            second[at] = tile[r * ld + ld / 2 + c];
            count[at] += 1;
        }
    return 0;
}

HOOK(fail) {
    (void)buf, (void)arg, (void)tile, (void)ld, (void)batch, (void)row, (void)rows, (void)col, (void)cols;
    return 7;
}
"""


@cache
def hook(name: str) -> int:
    """The address of a hook: ``scale`` (3 * tile + 1, and a count of the writes), ``part`` (both results of a
    tile, and a count) or ``fail`` (returns 7).
    """
    source = _folder() / "hooks.c"
    source.write_text(_HOOKS)
    opened = ctypes.CDLL(str(compile_c([source], "hooks", ("gcc",), ("-O1", "-std=c11"))))
    return ctypes.cast(opened[name], ctypes.c_void_p).value or 0


def call(
    kernel: Any,
    operands: Sequence[npt.NDArray[Any] | None],
    args: Sequence[Any],
    grid: Any,
    scratch: Any,
    *,
    chunks: Chunks | None = None,
    hook: int = 0,
    hook_operands: Sequence[npt.NDArray[Any]] = (),
    hook_args: Sequence[int] = (),
    bare: bool = True,
) -> int:
    """Runs all chunks of ``kernel`` (by default one); returns the first error or 0. The scratch is guarded.

    With ``bare``, it runs first on copies of exactly the bytes that it declares to access.
    """
    if grid and bare:
        check_refusals(kernel, args, grid, len(operands), bool(hook))
        touched = declared(kernel, operands, args, grid, scratch, bool(hook))
        copies = [operand.copy() for operand in hook_operands]
        _call(kernel, touched, args, grid, scratch, chunks, hook, copies, hook_args)
    return _call(kernel, operands, args, grid, scratch, chunks, hook, hook_operands, hook_args)


def _call(
    kernel: Any,
    operands: Sequence[npt.NDArray[Any] | None],
    args: Sequence[Any],
    grid: Any,
    scratch: Any,
    chunks: Chunks | None,
    hook: int,
    hook_operands: Sequence[npt.NDArray[Any]],
    hook_args: Sequence[int],
) -> int:
    pointers = [0 if x is None else x.ctypes.data for x in operands]
    pointers += [hook, *(x.ctypes.data for x in hook_operands)]
    buf = (ctypes.c_void_p * len(pointers))(*pointers)
    numbers = [*map(int, args), *hook_args]
    arg = (ctypes.c_int64 * len(numbers))(*numbers)
    room = guarded(max(1, -(-int(scratch) // 64)) * 16, "end", fill=np.nan)  # without scratch, what it says
    kernel.restype = ctypes.c_int32
    for begin, end in [(0, int(grid))] if chunks is None else chunks:
        error = kernel(
            buf, arg, ctypes.c_int64(begin), ctypes.c_int64(end), ctypes.c_void_p(room.ctypes.data)
        )
        if error:
            return int(error)
    return 0


def call_hooked(
    kernel: Any, operands: Sequence[npt.NDArray[Any] | None], args: Sequence[Any], grid: Any, scratch: Any,
    shape: tuple[int, int, int], *, chunks: Chunks | None = None,
) -> Array:  # fmt: skip
    """What the hook ``scale`` stores for an output [batch, rows, cols]; it must store each element once. The
    result must be the same if the hook finds its tiles in the output.
    """
    stored = [_hooked(kernel, operands[:-1], args, grid, scratch, shape, chunks, x) for x in (False, True)]
    assert np.array_equal(*stored, equal_nan=True)
    return stored[0]


def _hooked(
    kernel: Any, operands: Sequence[npt.NDArray[Any] | None], args: Sequence[Any], grid: Any, scratch: Any,
    shape: tuple[int, int, int], chunks: Chunks | None, in_place: bool,
) -> Array:  # fmt: skip
    size = shape[0] * shape[1] * shape[2]
    out, count = guarded(size, "end"), guarded(size, "start")
    operands = [*operands, out if in_place else None]
    error = call(
        kernel, operands, args, grid, scratch,
        chunks=chunks, hook=hook("scale"), hook_operands=[out, count], hook_args=shape[1:],
    )  # fmt: skip
    assert error == 0
    assert np.all(count == 1)
    if grid:
        assert tuple(reach(kernel, args, grid, len(operands), hooked=True)[TILE : TILE + 3]) == shape
    return out.reshape(shape).copy()


def guarded(elements: int, side: str, fill: float = 0.0) -> Array:
    """``elements`` f32 flush against an unreadable page after (``side`` "end") or before them ("start")."""
    page = mmap.PAGESIZE
    room = max(page, -(-elements * 4 // page) * page)
    whole = np.frombuffer(mmap.mmap(-1, room + 2 * page), np.uint8)
    for offset in (0, page + room):
        if _LIBC.mprotect(ctypes.c_void_p(whole.ctypes.data + offset), ctypes.c_size_t(page), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    first = page if side == "start" else page + room - elements * 4
    array = whole[first : first + elements * 4].view(np.float32)
    array[:] = fill
    return array


def strided(
    values: npt.NDArray[Any], order: Sequence[int], gap: int, side: str, step: int = 1
) -> tuple[Array, tuple[int, ...]]:
    """Copies ``values`` to guarded memory, with the axes in ``order`` (outermost first). Elements of the
    innermost axis are ``step`` elements apart, and its rows are followed by ``gap`` unused elements. Returns
    the view, and its strides in elements.
    """
    strides = [0] * values.ndim
    stride = step
    for position, axis in enumerate(reversed(order)):
        strides[axis] = stride
        stride = stride * max(1, values.shape[axis]) + (gap if position == 0 else 0)
    return guarded_copy(values, strides, side), tuple(strides)


def guarded_copy(values: npt.NDArray[Any], strides: Sequence[int], side: str) -> Array:
    """``values`` in guarded memory, with these strides in elements and NaN between them."""
    span = 1 + sum((n - 1) * s for n, s in zip(values.shape, strides, strict=True)) if values.size else 0
    flat = guarded(span, side, fill=np.nan)
    view = np.lib.stride_tricks.as_strided(flat, values.shape, [4 * s for s in strides])
    if values.size:
        view[...] = values
    return view
