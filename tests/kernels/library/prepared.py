"""Kernels whose operands are laid out in guarded memory, ready to run."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.kernels.library.cases import chunkings
from tests.kernels.library.harness import Array, call, call_hooked, hook

Chunks = list[tuple[int, int]]


class PreparedKernel:
    """A kernel with its operands, of which the last one is the result."""

    kernel: Any
    operands: list[Any]
    args: Any
    grid: int
    scratch: int

    def run(self, chunks: Chunks | None = None) -> Any:
        """The result; in three uneven chunks unless others are given."""
        raise NotImplementedError

    def launch(self, chunks: Chunks | None, fill: float = np.nan) -> Any:
        """The memory of the result, with ``fill`` where nothing was written."""
        self.operands[-1][...] = fill
        chunks = chunks or chunkings(self.grid)[2]
        assert call(self.kernel, self.operands, self.args, self.grid, self.scratch, chunks=chunks) == 0
        return self.operands[-1]

    def run_in_any_chunks(self) -> Any:
        """The result, which has the same bits for all divisions into chunks."""
        whole, *others = [self.run(chunks) for chunks in chunkings(self.grid)]
        assert all(np.array_equal(whole, other) for other in others)
        return whole

    def hooked(self, *shape: int) -> Array:
        """The tiles that a hook stored, as [batch, rows, columns]."""
        operands = [*self.operands[:-1], None]
        batch, rows, columns = shape
        return call_hooked(self.kernel, operands, self.args, self.grid, self.scratch, (batch, rows, columns))

    def error_of_hook(self) -> int:
        """The status of the kernel with a hook that returns 7."""
        return call(self.kernel, self.operands, self.args, self.grid, self.scratch, hook=hook("fail"))
