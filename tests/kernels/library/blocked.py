"""What tests of kernels on channel blocks share: values in blocks, in guarded memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.harness import Array, guarded_copy


def blocks(channels: int, isa: Isa) -> int:
    """The number of blocks for ``channels``."""
    return -(-channels // isa.lanes)


def in_blocks(x: Any, isa: Isa, pad: float = np.nan) -> Any:
    """[N, C, H, W] as [N, CB, H, W, lanes]; ``pad`` in the lanes that have no channel."""
    n, c, h, w = x.shape
    whole = np.full((n, blocks(c, isa) * isa.lanes, h, w), pad, x.dtype)
    whole[:, :c] = x
    return np.moveaxis(whole.reshape(n, blocks(c, isa), isa.lanes, h, w), 2, -1)


def in_rows(y: Any, channels: int) -> Any:
    """The [N, C, H, W] that :func:`in_blocks` was given."""
    n, cb, h, w, lanes = y.shape
    return np.moveaxis(y, -1, 2).reshape(n, cb * lanes, h, w)[:, :channels]


def place(values: Any, side: str = "end", gap: int = 0) -> tuple[Array, tuple[int, int, int]]:
    """Blocks [N, CB, H, W, lanes] in guarded memory with ``gap`` elements after each row, block and image.

    Returns the view and its strides of images, blocks and rows, in elements.
    """
    cb, h, w, lanes = values.shape[1:]
    row = w * lanes + gap
    block = h * row + gap
    image = cb * block + gap
    strides = (image, block, row, lanes, 1)
    return guarded_copy(values, strides, side), (image, block, row)


def room(n: int, channels: int, h: int, w: int, isa: Isa, side: str = "end", gap: int = 0) -> Any:
    """:func:`place` for an output: NaN where nothing was written yet."""
    return place(np.full((n, blocks(channels, isa), h, w, isa.lanes), np.nan, np.float32), side, gap)
