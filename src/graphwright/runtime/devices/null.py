"""The null device: plans each run, launches nothing; for looking at what a machine would do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphwright.package.package import Package, Target
from graphwright.runtime.devices.base import Array, TaskTime
from graphwright.runtime.devices.cpu import Cpu


class Null(Cpu):
    """Outputs have the right shapes and are zero."""

    def __init__(self, package: Package, target: Target) -> None:
        super().__init__(package, target)
        self._runs = 0

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        plan = self.plan([array.shape for array in arrays], max(threads, 1))
        self._runs += 1
        ports = self._program.outputs
        return [np.zeros(shape, port.dtype.numpy) for shape, port in zip(plan["outputs"], ports, strict=True)]

    def trace(self, arrays: Sequence[Array], threads: int) -> list[TaskTime]:
        self.run(arrays, None, threads)
        return []

    def stats(self) -> dict[str, int]:
        return {**super().stats(), "runs": self._runs}
