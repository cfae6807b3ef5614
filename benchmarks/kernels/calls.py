"""Calls kernels of the library through their ABI, for benchmarks of single kernels."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphwright.kernels.library.write import KernelModule, include_flags, write_module
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.toolchain import find_toolchain

Array = npt.NDArray[np.float32]


@cache
def library(module: KernelModule, isa: Isa) -> ctypes.CDLL:
    """The kernels of ``module`` for ``isa``, compiled alone."""
    toolchain = find_toolchain()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources, target = write_module(module, isa, folder), folder / "kernels.so"
        flags = (*toolchain.flags(isa), *include_flags(folder))
        subprocess.run([*toolchain.command, *map(str, sources), *flags, "-o", str(target)], check=True)
        return ctypes.CDLL(str(target))


def room(count: int, offset: int) -> Array:
    """``count`` numbers; buffers of one launch lie at different offsets in their pages."""
    raw = np.empty(count + 2048, np.float32)
    raw.fill(0.5)
    first = (-raw.ctypes.data % 4096) // 4 + offset % 1024
    return raw[first : first + count]


def scratch_room(size: Any) -> Array:
    """Scratch memory of ``size`` bytes."""
    return room(int(size) // 4 + 16, 128)


def call(
    kernel: Any, operands: Sequence[Array | None], args: Iterable[Any], grid: Any, scratch: Array
) -> Callable[[], None]:
    """A run of the whole grid, without a hook."""
    numbers = [int(each) for each in args]
    pointers = [0 if x is None else x.ctypes.data for x in (*operands, None)]
    call_args = (
        (ctypes.c_void_p * len(pointers))(*pointers),
        (ctypes.c_int64 * len(numbers))(*numbers),
        ctypes.c_int64(0),
        ctypes.c_int64(int(grid)),
        ctypes.c_void_p(scratch.ctypes.data),
    )

    def run(_kept: object = (operands, scratch)) -> None:
        if kernel(*call_args):
            raise RuntimeError("the kernel failed")

    return run
