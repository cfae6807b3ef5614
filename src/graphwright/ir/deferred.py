"""Arrays that are made where they will lie: a packed weight is written once, into its package's memory."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from graphwright.ir.arrays import Array, np
from graphwright.ir.dtypes import DType
from graphwright.records import dataclass


@dataclass(frozen=True)
class Deferred:
    """``fill`` writes every element of a contiguous array of ``dtype`` and ``shape``, in any thread."""

    dtype: DType
    shape: tuple[int, ...]
    fill: Callable[[Array], object]

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return prod(self.shape) * self.dtype.bytes

    def make(self) -> Array:
        """The array in memory of its own."""
        array = np.empty(self.shape, self.dtype.numpy)
        self.fill(array)
        return array
