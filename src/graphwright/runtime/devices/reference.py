"""The reference device: the graph, node by node, on the ops' NumPy references."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module
from graphwright.runtime.devices.base import Array, TaskTime


class Reference:
    """A module, interpreted."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._runs = 0

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        self._runs += 1
        results = list(evaluate_module(self._module, arrays))
        for k, target in enumerate(outputs or ()):
            if target is not None:
                np.copyto(target, results[k], casting="no")
                results[k] = target
        return results

    def trace(self, arrays: Sequence[Array], threads: int) -> list[TaskTime]:
        times: list[TaskTime] = []
        last = time.monotonic_ns()

        def stamp(value: object, array: Array) -> None:
            nonlocal last
            now = time.monotonic_ns()
            producer = getattr(value, "producer", None)
            times.append(TaskTime(len(times), producer.place, producer.op.name, last, now, 0))
            last = now

        evaluate_module(self._module, arrays, observe=stamp)
        return times

    def stats(self) -> dict[str, int]:
        return {"runs": self._runs, "host_calls": self._runs}
