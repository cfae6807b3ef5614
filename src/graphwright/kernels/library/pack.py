"""Packing of weights for the library's kernels, in NumPy: the layouts byte for byte, and how to undo them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from graphwright.ir.types import Layout
from graphwright.kernels.gemm import gemm
from graphwright.kernels.library import conv
from graphwright.targets.cpu.isa import Isa

Array = npt.NDArray[Any]


def _panels(x: Array, axis: int, size: int) -> Array:
    """``x`` with ``axis`` cut into blocks of ``size``, zero padded: [..., blocks, size, ...]."""
    blocks = -(-x.shape[axis] // size)
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, blocks * size - x.shape[axis])
    padded = np.pad(x, padding)
    return padded.reshape(*x.shape[:axis], blocks, size, *x.shape[axis + 1 :])


def gemm_panels(b: Array, nr: int) -> Array:
    """B[..., K, N] as panels [..., ceil(N/nr), K, nr]."""
    return np.ascontiguousarray(np.moveaxis(_panels(b, b.ndim - 1, nr), -2, -3))


def gemm_unpanels(panels: Array, n: int) -> Array:
    """The B[..., K, N] that :func:`gemm_panels` was given."""
    *batch, blocks, k, nr = panels.shape
    return np.ascontiguousarray(np.moveaxis(panels, -3, -2).reshape(*batch, k, blocks * nr)[..., :n])


def gemm_layout(isa: Isa) -> Layout:
    """The layout of a packed B[K, N]."""
    return Layout((1, 0), ((1, gemm.panel_columns(isa)),), zero_padded=True)


def conv_panels(w: Array, groups: int, mr: int) -> Array:
    """Weights [Cout, Cin/groups, kh, kw] as [groups, ceil(Cout/groups/mr), Cin/groups * kh * kw, mr]."""
    cout = w.shape[0]
    matrix = w.reshape(groups, cout // groups, int(np.prod(w.shape[1:])))
    return np.ascontiguousarray(np.moveaxis(_panels(matrix, 1, mr), 2, 3))


def conv_unpanels(panels: Array, shape: tuple[int, ...]) -> Array:
    """The weights of ``shape`` [Cout, Cin/groups, kh, kw] that :func:`conv_panels` was given."""
    groups, blocks, k, mr = panels.shape
    matrix = np.moveaxis(panels, 3, 2).reshape(groups, blocks * mr, k)
    return np.ascontiguousarray(matrix[:, : shape[0] // groups].reshape(shape))


def conv_layout(isa: Isa) -> Layout:
    """The layout of packed weights [groups, Cout/groups, Cin/groups * kh * kw].

    With one group, or with Cout/groups a multiple of ``mr``, it is also that of [Cout, Cin/groups, kh, kw]
    with axis 0 cut into blocks, ``Layout((0, 1, 2, 3), ((0, mr),))``, since the bytes are the same.
    """
    return Layout((0, 1, 2), ((1, conv.panel_rows(isa)),), zero_padded=True)
