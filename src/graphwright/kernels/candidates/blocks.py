"""Sizes and strides of values in blocked layouts, for kernels."""

from __future__ import annotations

from collections.abc import Iterable

from graphwright.ir.graph import Value
from graphwright.ir.interfaces.blocked_form import CHANNELS
from graphwright.ir.symbols import Dim
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.ref import KernelRef
from graphwright.kernels.strides import row_major_strides

ROW_MAJOR = "its operand is row-major"
"""The reason why no kernel for blocked layouts applies."""


def image_size(value: Value) -> tuple[Dim, Dim]:
    """Height and width of an image; a value with one spatial axis is one row."""
    *_, h, w = (1, *value.type.dims[CHANNELS + 1 :])
    return h, w


def block_strides(value: Value) -> tuple[Dim, Dim, Dim]:
    """The strides, in elements, of images, blocks of channels and rows of a blocked value."""
    assert value.layout is not None
    images, blocks, *_, lanes = value.layout.physical_shape(value.type.dims)
    h, w = image_size(value)
    n, c, row, _, _ = row_major_strides((images, blocks, h, w, lanes))
    return n, c, row


def launch_on_blocks(
    symbol: str, x: Value, y: Value, args: Iterable[Dim], grid: Dim, scratch: Dim, work: Dim
) -> Run:
    """A launch of a kernel from one blocked value to another."""
    return Run((Launch(KernelRef(symbol), (x, y), (1,), tuple(args), grid, scratch, work),))
