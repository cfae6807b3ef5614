"""Packs matrices into panels, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def gemm_panels(b: Array, columns: int) -> Array:
    """B[..., K, N] as panels [..., ceil(N / columns), K, columns], padded with zeros."""
    *batch, k, n = b.shape
    panels = -(-n // columns)
    padded = np.pad(b, [*[(0, 0)] * (b.ndim - 1), (0, panels * columns - n)])
    return np.ascontiguousarray(padded.reshape(*batch, k, panels, columns).swapaxes(-3, -2))
