"""Packs matrices into panels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def panels(x: Array, axis: int, size: int) -> Array:
    """``x`` with ``axis`` cut into blocks of ``size``, padded with zeros: [..., blocks, size, ...]."""
    blocks = -(-x.shape[axis] // size)
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, blocks * size - x.shape[axis])
    padded = np.pad(x, padding)
    return padded.reshape(*x.shape[:axis], blocks, size, *x.shape[axis + 1 :])
