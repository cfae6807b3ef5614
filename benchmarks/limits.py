"""What one core can do at most: FMAs a second in registers, bytes read and copied a second.

A small C file is compiled with the toolchain of the product. Times are the thread's own processor time, so
that other processes disturb little; the best of a few short runs counts. Measure a limit in turns with what
is compared to it: a busy machine slows both.
"""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from graphwright.targets.cpu.isa import ISAS, Isa, prelude
from graphwright.targets.cpu.toolchain import compile_shared, find_toolchain

_CHAINS: Final = 12
"""Independent sums: two units of latency 4 need eight."""
_FMA_STEPS: Final = 100_000
"""About a millisecond."""

_BEYOND: Final = 256 << 20
"""Bytes that no cache holds."""
_SHORTEST: Final = 8 << 20
"""Bytes that a measurement of a stream walks at least."""
Floats = npt.NDArray[np.float32]

_LOOPS: Final = """
/* CHAINS independent FMAs per turn, all in registers. */
GW_EXPORT void fma_loop(int64_t steps, float *out) {
    vf sum[CHAINS], x = vf_set1(1.0001f), y = vf_set1(0.9999f);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = x;
    for (; steps > 0; steps--)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            sum[i] = vf_fma(sum[i], y, x);
    for (int i = 0; i < CHAINS; i++)
        vf_store(out + i * VL, sum[i]);
}

/* Four streams side by side, each a quarter of n floats: what the memory gives at best. */
GW_EXPORT void read_loop(const float *from, int64_t n, int64_t times, float *out) {
    const int64_t quarter = n / 4 / (4 * VL) * (4 * VL);
    vf sum[8] = {{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}};
    for (; times > 0; times--)
        for (int64_t i = 0; i < quarter; i += 4 * VL)
#pragma GCC unroll 4
            for (int s = 0; s < 4; s++) {
                const float *p = from + s * quarter + i;
#pragma GCC unroll 4
                for (int v = 0; v < 4; v++) {
                    if (v * VL % 16 == 0)
                        __builtin_prefetch(p + v * VL + 512, 0, 3);
                    sum[4 * (s % 2) + v] += vf_load(p + v * VL);
                }
            }
    for (int s = 0; s < 8; s++)
        vf_store(out + s * VL, sum[s]);
}

GW_EXPORT void copy_loop(const float *from, int64_t n, int64_t times, float *to) {
    for (; times > 0; times--)
        for (int64_t i = 0; i + 2 * VL <= n; i += 2 * VL) {
            vf_store(to + i, vf_load(from + i));
            vf_store(to + i + VL, vf_load(from + i + VL));
        }
}
"""


@cache
def _library(isa: Isa) -> ctypes.CDLL:
    text = f"{prelude()}\n#define CHAINS {_CHAINS}\n{_LOOPS}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "limits.so"
        path.write_bytes(compile_shared(text, isa, find_toolchain()))
        return ctypes.CDLL(str(path))


def thread_seconds(run: Callable[[], Any]) -> float:
    """Processor time that this thread spends in ``run``."""
    start = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
    run()
    return (time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID) - start) / 1e9


def fma_gflops(isa: Isa, repeats: int = 3) -> float:
    """GFLOP/s of independent f32 FMAs in registers, on this core at this moment."""
    loop, out = _library(isa).fma_loop, (ctypes.c_float * (_CHAINS * isa.lanes))()
    best = min(thread_seconds(lambda: loop(ctypes.c_int64(_FMA_STEPS), out)) for _ in range(repeats))
    return 2 * _FMA_STEPS * _CHAINS * isa.lanes / best / 1e9


def read_gbps(size: int, isa: Isa, repeats: int = 3) -> float:
    """GB/s at which ``size`` bytes are read over and over: from memory if no cache holds them."""
    out = np.empty(8 * isa.lanes, np.float32)
    return _streamed(_library(isa).read_loop, _floats(size, 0), out, repeats)


def copy_gbps(size: int, isa: Isa, repeats: int = 3) -> float:
    """GB/s at which ``size`` bytes are copied over and over; a byte copied counts once."""
    return _streamed(_library(isa).copy_loop, _floats(size, 0), _floats(size, 1), repeats)


def _streamed(loop: Any, source: Floats, target: Floats, repeats: int) -> float:
    """GB/s of ``source``, walked as often as takes half a millisecond or so."""
    times = max(1, _SHORTEST // source.nbytes)
    args = _address(source), ctypes.c_int64(source.size), ctypes.c_int64(times), _address(target)
    best = min(thread_seconds(lambda: loop(*args)) for _ in range(repeats))
    return times * source.nbytes / best / 1e9


@cache
def _floats(size: int, which: int) -> Floats:
    """``size`` bytes from a page's boundary on, or half a page behind it: a pair of them does not alias."""
    room = np.ones(size // 4 + 2048, np.float32)
    first = -room.ctypes.data % 4096 // 4 + 512 * which
    return room[first : first + size // 4]


def _address(array: Floats) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def main() -> None:
    """Print what was measured beside the table that costs are predicted with."""
    for isa in ISAS.values():
        table = isa.machine
        print(f"{isa.name}  f32 GFLOP/s {fma_gflops(isa):5.0f}  table {table.f32_gflops}")
        levels = {"L1": table.l1, "L2": table.l2, "L3": table.l3, "memory": table.memory}
        for name, level in levels.items():
            size = min(level.bytes // 2, _BEYOND)
            copied = 2 * copy_gbps(size // 2, isa)
            print(f"    {name:6} GB/s loaded {read_gbps(size, isa):5.0f}  table {level.load:4}", end="")
            print(f"  loaded and stored {copied:5.0f}  table {level.moved:4}")


if __name__ == "__main__":
    main()
