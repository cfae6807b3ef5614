"""The transforms of Winograd convolution (module ``winograd``): in NumPy for weights.

A line of pixels is transformed to its values at the points by evaluation, and back by interpolation (Lavin
and Gray, 2015), in both directions of a tile one after the other.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from graphwright.kernels.winograd.winograd_tile import product_vectors
from graphwright.targets.cpu.isa import Isa

Array = npt.NDArray[Any]

ROOT: Final = 0.5**0.5
_FINITE: Final = (0.0, ROOT, -ROOT, 2 * ROOT, -2 * ROOT)
"""The finite points at which polynomials are evaluated; m = 2 uses the first three."""

STORED: Final = 4
"""The points of a line whose weights are packed: computing those at +-sqrt(2) is faster than reading them."""


def _weight_matrix(m: int) -> Array:
    """The matrix G [m + 2, 3] in f64, which maps a filter to its values at the points."""
    first, *others = [[1, p, p * p] for p in _FINITE[: m + 1]]
    return np.array([first, [0, 0, 1], *others])


def transformed_shape(cout: int, cin: int, m: int, isa: Isa) -> tuple[int, int]:
    """The shape of transformed weights."""
    return -(-cout // isa.lanes), (m + 2) * STORED * cin * isa.lanes


def transform_weights(out: Array, w: Array, m: int, isa: Isa) -> None:
    """Transforms weights [Cout, Cin, 3, 3] to f32 [CoutB, (m + 2) * 4 * Cin * VL], computed in f64 and
    rounded once. Groups of up to three output channel blocks are contiguous, as [m + 2, 4, Cin, blocks, VL],
    with the first four points of each line. The kernel computes the other points from these.
    """
    cout, cin = w.shape[:2]
    matrix, lanes = np.kron(_weight_matrix(m), _weight_matrix(m)[:STORED]), isa.lanes
    planes, blocks = len(matrix), -(-cout // lanes)
    groups = -(-blocks // product_vectors(isa))
    for group in range(groups):
        first, last = blocks * group // groups, blocks * (group + 1) // groups
        part, width = w[first * lanes : last * lanes], (last - first) * lanes
        tiles = out[first:last].reshape(planes, cin, width)
        step = max(1, isa.machine.l2.bytes // 2 // (planes * width * 8))  # f64, rounded while in the cache
        for channel in range(0, cin, step):
            some = part[:, channel : channel + step]
            padded = np.zeros((9, some.shape[1], width))
            padded[..., : len(part)] = some.transpose(2, 3, 1, 0).reshape(9, -1, len(part))
            # not a product of BLAS, whose threads wait for each other where other processes have the cores
            tiles[:, channel : channel + step] = np.einsum("pt,tcn->pcn", matrix, padded)
