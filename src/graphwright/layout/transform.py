"""Arrays into a layout and back, in NumPy: the meaning of :class:`~graphwright.ir.types.Layout`."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.types import Layout

Array = np.ndarray[Any, Any]


def pack(array: Array, layout: Layout) -> Array:
    """The dense array that holds ``array`` in ``layout``; lanes that pad an axis are zero."""
    sizes = dict(layout.blocks)
    padding = [(0, -array.shape[axis] % sizes.get(axis, 1)) for axis in range(array.ndim)]
    padded = np.pad(array, padding)
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
    return np.ascontiguousarray(padded.reshape(split).transpose(order))


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
