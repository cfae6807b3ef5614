"""Arrays that are made where they will lie: a packed weight is written once, into its package's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING

from graphwright.ir.arrays import Array, np
from graphwright.ir.dtypes import DType
from graphwright.records import dataclass

if TYPE_CHECKING:
    from graphwright.ir.types import Layout

Jobs = Iterable[Callable[[], object]]


@dataclass(frozen=True)
class Packing:
    """How a tensor was made: of the tensor ``source``, seen with ``shape``, in ``layout``, row-major where
    that is None.
    """

    source: str
    shape: tuple[int, ...]
    layout: Layout | None


@dataclass(frozen=True)
class Deferred:
    """A contiguous array of ``dtype`` and ``shape``. ``jobs`` gives what together writes all of its elements:
    calls that any threads may do, in any order.
    """

    dtype: DType
    shape: tuple[int, ...]
    jobs: Callable[[Array], Jobs]

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return prod(self.shape) * self.dtype.bytes

    def make(self) -> Array:
        """The array in memory of its own."""
        array = np.empty(self.shape, self.dtype.numpy)
        for job in self.jobs(array):
            job()
        return array
