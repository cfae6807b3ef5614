"""Packing of weights for GEMM, in NumPy: the layouts byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from graphwright.ir.types import Layout
from graphwright.kernels.gemm.problem import panel_columns
from graphwright.kernels.library.pack import panels
from graphwright.targets.cpu.isa import Isa

Array = npt.NDArray[Any]


def gemm_panels(b: Array, nr: int) -> Array:
    """B[..., K, N] as panels [..., ceil(N/nr), K, nr]."""
    return np.ascontiguousarray(np.moveaxis(panels(b, b.ndim - 1, nr), -2, -3))


def gemm_layout(isa: Isa) -> Layout:
    """The layout of a packed B[K, N]."""
    return Layout((1, 0), ((1, panel_columns(isa)),), zero_padded=True)
