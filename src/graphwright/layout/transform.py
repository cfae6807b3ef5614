"""Arrays into a layout and back, in NumPy: the meaning of :class:`~graphwright.ir.types.Layout`."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.types import Layout

Array = np.ndarray[Any, Any]


def pack(array: Array, layout: Layout) -> Array:
    """The dense array that holds ``array`` in ``layout``; lanes that pad an axis are zero."""
    packed = np.empty(packed_shape(array.shape, layout), array.dtype)
    pack_into(packed, array, layout)
    return packed


def packed_shape(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """The shape of the dense array that holds one of ``shape`` in ``layout``."""
    return tuple(size for size in layout.physical_shape(shape) if isinstance(size, int))


_READ_BYTES = 1 << 17
"""Bytes of a source that are read in its own order before their places are written."""


def pack_into(packed: Array, array: Array, layout: Layout) -> None:
    """Write ``array`` in ``layout`` to the dense array ``packed``; lanes that pad an axis are zero."""
    sizes = dict(layout.blocks)
    padding = [(0, -size % sizes.get(axis, 1)) for axis, size in enumerate(array.shape)]
    padded = np.pad(array, padding) if any(more for _, more in padding) else array
    split: list[int] = []
    position: dict[int, int] = {}
    inner: dict[int, int] = {}
    for axis, size in enumerate(padded.shape):
        position[axis] = len(split)
        if axis in sizes:
            inner[axis] = len(split) + 1
            split += [size // sizes[axis], sizes[axis]]
        else:
            split.append(size)
    order = [*(position[a] for a in layout.order), *(inner[a] for a, _ in layout.blocks)]
    source, target = padded.reshape(split), packed.transpose(np.argsort(order))
    slices = source.shape[0] if source.ndim else 0
    step = max(1, _READ_BYTES * slices // max(1, source.nbytes))
    if step >= slices:
        target[...] = source
        return
    for first in range(0, slices, step):
        target[first : first + step] = source[first : first + step]


def unpack(packed: Array, layout: Layout, shape: tuple[int, ...]) -> Array:
    """The array of ``shape`` that :func:`pack` was given."""
    rank = len(shape)
    outer = {axis: k for k, axis in enumerate(layout.order)}
    inner = {axis: rank + k for k, (axis, _) in enumerate(layout.blocks)}
    sizes = dict(layout.blocks)
    order = [
        k for axis in range(rank) for k in ((outer[axis], inner[axis]) if axis in inner else (outer[axis],))
    ]
    padded_shape = [packed.shape[outer[axis]] * sizes.get(axis, 1) for axis in range(rank)]
    padded = packed.transpose(order).reshape(padded_shape)
    return np.ascontiguousarray(padded[tuple(slice(size) for size in shape)])
