"""Blocked layouts: [N, C, ...] stored as [N, C / lanes, ..., lanes], so that a vector holds channels of one
pixel.
"""

from __future__ import annotations

from functools import cache

from graphwright.ir.graph import Value
from graphwright.ir.interfaces.blocked_form import CHANNELS
from graphwright.ir.symbols import Dim, product
from graphwright.ir.types import Layout


@cache
def channel_blocks(rank: int, lanes: int) -> Layout:
    """The layout of images of ``rank`` in blocks of ``lanes`` channels. Lanes after the last channel are
    undefined.
    """
    return Layout(tuple(range(rank)), ((CHANNELS, lanes),))


def is_blocked(value: Value) -> bool:
    """Whether ``value`` has a blocked layout."""
    layout = value.layout
    return layout is not None and layout == channel_blocks(len(layout.order), lanes_of(layout))


def lanes_of(layout: Layout) -> int:
    """The size of the first block; 1 if there is none."""
    return layout.blocks[0][1] if layout.blocks else 1


def stored_shape(value: Value) -> tuple[Dim, ...]:
    """The shape of ``value`` in memory: [N, C / lanes, ..., lanes] if it is blocked."""
    return value.memory_shape


def is_same_memory(value: Value, lanes: int) -> bool:
    """Whether the row-major and the blocked layout of an image are the same bytes, because it has one pixel
    and whole blocks of channels.
    """
    _, channels, *pixels = value.type.dims
    return product(tuple(pixels)) == 1 and channels % lanes == 0


def blocks_name(lanes: int) -> str:
    """The name of the layout in reports."""
    return f"blocks of {lanes} channels"
