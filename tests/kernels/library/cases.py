"""What tests of memory-bound kernels share: guarded arrays of any dtype, and splits of the grid."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.kernels.library.harness import RUNNABLE, guarded

AnyArray = npt.NDArray[Any]
BYTES = (np.uint8, np.int8)
each_isa = pytest.mark.parametrize("isa", RUNNABLE, ids=[isa.name for isa in RUNNABLE])


def guard(array: AnyArray, *, at_end: bool = True) -> AnyArray:
    """A dense copy of ``array`` next to an inaccessible page."""
    area = guarded(-(-array.nbytes // 4), "end" if at_end else "start").view(np.uint8)
    first = area.size - array.nbytes if at_end else 0
    copy = area[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def element_strides(array: AnyArray) -> tuple[int, ...]:
    """NumPy's strides, in elements."""
    return tuple(s // array.itemsize for s in array.strides)


def chunkings(grid: int) -> list[list[tuple[int, int]]]:
    """The grid as one chunk, as single units in reverse order, and as three unequal parts."""
    cuts = sorted({0, grid // 3, grid - grid // 5, grid})
    singles = min(grid, 300)
    return [
        [(0, grid)],
        [(singles, grid), *((i, i + 1) for i in reversed(range(singles)))],
        list(pairwise(cuts)),
    ]


def random_bytes(rng: np.random.Generator, dtype: Any, *shape: int) -> Any:
    return rng.integers(0, 256, shape).astype(np.uint8).view(dtype)
