"""Measures the peak rates of one core: FMAs and cycles per second, and bytes read and copied per second at
each memory level.

Times are CPU times of the thread, so that other processes disturb little; the best of a few short runs
counts.
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

from graphwright.targets.cpu.isa import Isa, vector_header
from graphwright.targets.cpu.toolchain import Toolchain, compile_shared

_CHAINS: Final = 12
"""The number of independent chains, as in ``rates.c``."""
_MOST_A_CYCLE: Final = 4
"""The most operations per lane and cycle: two FMA units."""
_FMA_STEPS: Final = 100_000
"""Steps that take about a millisecond."""
_CYCLES: Final = 4_000_000
_SHORTEST: Final = 8 << 20
"""The least bytes that a measurement of bandwidth reads."""
ROUNDS: Final = 12
LARGEST: Final = 128 << 20
"""A size in bytes that exceeds every cache."""
Floats = npt.NDArray[np.float32]


class Core:
    """The core that this thread runs on, with the vectors of one ISA."""

    def __init__(self, isa: Isa, toolchain: Toolchain) -> None:
        """Compiles the measurement loops. Raises ToolchainError."""
        text = f"{vector_header()}\n{Path(__file__).with_name('rates.c').read_text(encoding='utf-8')}"
        self._isa = isa
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rates.so"
            path.write_bytes(compile_shared(text, isa, toolchain))
            self._library = ctypes.CDLL(str(path))

    def fma_gflops(self, repeats: int) -> float:
        """The current rate of independent f32 FMAs in registers, in GFLOP/s."""
        loop, out = self._library.fma_loop, (ctypes.c_float * (_CHAINS * self._isa.lanes))()
        best = min(thread_seconds(lambda: loop(ctypes.c_int64(_FMA_STEPS), out)) for _ in range(repeats))
        return 2 * _FMA_STEPS * _CHAINS * self._isa.lanes / best / 1e9

    def clock_mhz(self, repeats: int) -> float:
        """The current clock rate in MHz."""
        loop, steps = self._library.cycle_loop, ctypes.c_int64(_CYCLES)
        best = min(thread_seconds(lambda: loop(steps, ctypes.c_uint64(1))) for _ in range(repeats))
        return _CYCLES / best / 1e6

    def read_gbps(self, size: int, repeats: int) -> float:
        """The bandwidth of repeated reads of ``size`` bytes, in GB/s: from the cache that they fit in, or
        memory.
        """
        out = np.empty(8 * self._isa.lanes, np.float32)
        return _streamed(self._library.read_loop, _floats(size, 0), out, repeats)

    def copy_gbps(self, size: int, repeats: int) -> float:
        """The bandwidth of repeated copies of ``size`` bytes, in GB/s; a copied byte counts once."""
        return _streamed(self._library.copy_loop, _floats(size, 0), _floats(size, 1), repeats)

    def rates(self, rounds: int = ROUNDS) -> dict[str, int]:
        """All rates of a machine, as calibration files have them: the best of several rounds, as other
        processes may slow some down. The rate of stores is derived from copies.
        """
        machine = self._isa.machine
        levels = {"l1": machine.l1, "l2": machine.l2, "l3": machine.l3, "memory": machine.memory}
        sizes = {name: min(level.bytes // 4, LARGEST) for name, level in levels.items()}
        best: dict[str, float] = {}
        for _ in range(rounds):
            gflops = self.fma_gflops(2)
            least = 1000 * gflops / (_MOST_A_CYCLE * self._isa.lanes)
            seen = {"clock_mhz": max(self.clock_mhz(2), least), "f32_gflops": gflops}
            for name, size in sizes.items():
                seen[f"{name}_load"] = self.read_gbps(size, 2)
                seen[f"{name}_moved"] = 2 * self.copy_gbps(size // 2, 2)
            best = {name: max(rate, best.get(name, 0)) for name, rate in seen.items()}
        for name in levels:
            best[f"{name}_store"] = _store_rate(best[f"{name}_load"], best.pop(f"{name}_moved"))
        return {name: max(1, round(rate)) for name, rate in best.items()}


def _store_rate(load: float, moved: float) -> float:
    """The rate of stores if loads and stores together reach ``moved``; at most four times the rate of
    loads.
    """
    return moved * load / max(2 * load - moved, moved / 4)


def thread_seconds(run: Callable[[], Any]) -> float:
    """The CPU time that this thread spends in ``run``, in seconds."""
    start = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
    run()
    return (time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID) - start) / 1e9


def _streamed(loop: Any, source: Floats, target: Floats, repeats: int) -> float:
    """The bandwidth over ``source`` in GB/s, repeated for about half a millisecond."""
    times = max(1, _SHORTEST // source.nbytes)
    args = _address(source), ctypes.c_int64(source.size), ctypes.c_int64(times), _address(target)
    best = min(thread_seconds(lambda: loop(*args)) for _ in range(repeats))
    return times * source.nbytes / best / 1e9


@cache
def _floats(size: int, which: int) -> Floats:
    """An array of ``size`` bytes at a page boundary (``which`` 0) or half a page later (1), so that a pair of
    them does not alias in the cache.
    """
    room = np.ones(size // 4 + 2048, np.float32)
    first = -room.ctypes.data % 4096 // 4 + 512 * which
    return room[first : first + size // 4]


def _address(array: Floats) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
