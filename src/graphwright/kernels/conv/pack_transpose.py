"""Packs weights of transposed convolutions: for each tap and input channel, a block of output channels is
contiguous.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from graphwright.ir.types import Layout

BLOCK: Final = 12
LAYOUT: Final = Layout((1, 2, 3, 0), ((1, BLOCK),), zero_padded=True)
"""For weights [Cin, Cout/groups, kd * kh, kw]: [blocks, kd * kh, kw, Cin, BLOCK] in memory."""

Array = npt.NDArray[Any]


def pack(w: Array) -> Array:
    """Weights [Cin, Cout/groups, kh, kw] in :data:`LAYOUT`."""
    cin, cout, kh, kw = w.shape
    blocks = -(-cout // BLOCK)
    padded = np.zeros((cin, blocks * BLOCK, kh, kw), w.dtype)
    padded[:, :cout] = w
    return np.ascontiguousarray(padded.reshape(cin, blocks, BLOCK, kh, kw).transpose(1, 3, 4, 0, 2))


def unpack(packed: Array, cout: int) -> Array:
    """The weights that :func:`pack` was given; ``cout`` is Cout/groups."""
    blocks, kh, kw, cin, block = packed.shape
    return np.ascontiguousarray(
        packed.transpose(3, 0, 4, 1, 2).reshape(cin, blocks * block, kh, kw)[:, :cout]
    )
