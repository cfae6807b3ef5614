"""Arrays that are computed later, directly into their final memory: a packed weight is written once, into the
package.
"""

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
    """How a tensor was packed: from the tensor ``source``, viewed with ``shape``, into ``layout`` (None:
    row-major).
    """

    source: str
    shape: tuple[int, ...]
    layout: Layout | None


@dataclass(frozen=True)
class Deferred:
    """A contiguous array of ``dtype`` and ``shape`` that is computed later. ``jobs(array)`` yields calls that
    together write all elements of ``array``, in any order and on any threads.
    """

    dtype: DType
    shape: tuple[int, ...]
    jobs: Callable[[Array], Jobs]

    @property
    def nbytes(self) -> int:
        """Size of the array in bytes."""
        return prod(self.shape) * self.dtype.bytes

    def make(self) -> Array:
        """Computes the array, in new memory."""
        array = np.empty(self.shape, self.dtype.numpy)
        for job in self.jobs(array):
            job()
        return array
