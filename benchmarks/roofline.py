"""The roofline bound on a time, from limits that are sampled in turns with the measurement.

Williams, Waterman, Patterson: "Roofline: an insightful visual performance model for multicore architectures",
2009.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.figures import Work
from benchmarks.limits import fma_gflops, read_gbps
from graphwright import _native
from graphwright.targets.cpu.isa import ISAS
from graphwright.tools.machine import usable_cores
from graphwright.tools.measuring.bench import Measured, paired_ratio

LEAST_READ = 1 << 20
"""Bytes: the call itself would count where there are fewer."""


class Roofline:
    """Limits of ``threads`` cores together for a given amount of work: one sample a round."""

    def __init__(self, work: Work, threads: int) -> None:
        self._work, self._cores = work, usable_cores(threads)
        self._isa = ISAS[_native.isa()]
        self.gflops: list[float] = []
        self.gbps: list[float] = []

    def sample(self) -> None:
        """Measure both limits now, on all cores at once."""
        size = max(LEAST_READ, self._work.bytes // len(self._cores))
        self.gflops.append(self._on_all_cores(lambda: fma_gflops(self._isa)))
        self.gbps.append(self._on_all_cores(lambda: read_gbps(size, self._isa)))

    def _on_all_cores(self, measure: Callable[[], float]) -> float:
        def pinned(core: int) -> float:
            os.sched_setaffinity(0, {core})  # of this thread alone
            return measure()

        with ThreadPoolExecutor(len(self._cores)) as pool:
            return sum(pool.map(pinned, self._cores))

    @property
    def nanoseconds(self) -> list[float]:
        """The limit from each sample: the time of the arithmetic or of the traffic, whichever is longer."""
        return [
            max(self._work.flops / gflops, self._work.bytes / gbps)
            for gflops, gbps in zip(self.gflops, self.gbps, strict=True)
        ]

    def record(self, results: Mapping[str, Measured]) -> dict[str, Any]:
        """Limits, and the share of them that each engine reaches: above 1 where it computes less."""
        limit = self.nanoseconds
        return {
            **vars(self._work),
            "gflops": statistics.median(self.gflops),
            "gbps": statistics.median(self.gbps),
            "ns": statistics.median(limit),
            "shares": {name: vars(paired_ratio(limit, m.round_medians)) for name, m in results.items()},
        }
