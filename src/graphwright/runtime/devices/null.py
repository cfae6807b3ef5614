"""The null device: plans memory for each run and launches no kernel. It serves to inspect plans."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.executable.nodes import Program
from graphwright.executable.target_code import TargetCode
from graphwright.ir.arrays import Array, np
from graphwright.package.weights import Weights
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.devices.load_program import Shared
from graphwright.runtime.executor import (
    Executor,
    ProgramPlan,
    Shapes,
    out_of_memory,
)


class Null(Executor):
    """Returns zeros of the right shapes; outputs that the caller passes stay unchanged."""

    def __init__(
        self, program: Program, target: TargetCode, weights: Weights, shared: Shared | None = None
    ) -> None:
        self._cpu = Cpu(program, target, weights, shared)
        self._outputs = program.outputs
        self._runs = 0

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        shapes = self._cpu.plan([array.shape for array in arrays], threads)["outputs"]
        self._runs += 1
        given = outputs or [None] * len(shapes)
        try:
            return [
                np.zeros(shape, spec.dtype.numpy) if array is None else array
                for array, shape, spec in zip(given, shapes, self._outputs, strict=True)
            ]
        except MemoryError as error:
            raise out_of_memory(error) from None

    def plans(self, shapes: Shapes | None, threads: int) -> list[ProgramPlan]:
        return self._cpu.plans(shapes, threads)

    def trim(self) -> int:
        return self._cpu.trim()

    def stats(self) -> dict[str, int]:
        return {**self._cpu.stats(), "runs": self._runs}
