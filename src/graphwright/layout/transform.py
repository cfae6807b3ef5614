"""Converts NumPy arrays to a layout and back. This defines the meaning of
:class:`~graphwright.ir.types.Layout`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from graphwright.ir.constants.mapped import release
from graphwright.ir.types import Layout

Array = np.ndarray[Any, Any]


def pack(array: Array, layout: Layout) -> Array:
    """A new array that stores ``array`` in ``layout``; padding lanes are zero."""
    packed = np.empty(packed_shape(array.shape, layout), array.dtype)
    pack_into(packed, array, layout)
    return packed


def packed_shape(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """The shape of the array that stores an array of ``shape`` in ``layout``."""
    return tuple(size for size in layout.physical_shape(shape) if isinstance(size, int))


_READ_BYTES = 1 << 17
"""Bytes of the source that are copied at a time, contiguously."""
_JOB_BYTES = 16 << 20
"""Bytes of the source per job."""
_Span = tuple[int, int]


def pack_into(packed: Array, array: Array, layout: Layout) -> None:
    """Writes ``array`` in ``layout`` to ``packed``; padding lanes become zero."""
    for job in pack_jobs(packed, array, layout):
        job()


def pack_jobs(packed: Array, array: Array, layout: Layout) -> Iterator[Callable[[], object]]:
    """Jobs that write ``array`` in ``layout`` to ``packed``, a few MiB each, in any order and
    on any threads.

    Pages of a mapped file are released after reading.
    """
    sizes = dict(layout.blocks)
    target = _split_view(packed, array.ndim, layout)
    yield partial(_clear_pads, target, array.shape, sizes)
    axis = _slowest(array)
    for corner in product(*(list(_spans(size, sizes.get(a, 1))) for a, size in enumerate(array.shape))):
        for spans in _cut(corner, axis, sizes.get(axis, 1), array.nbytes):
            yield partial(_copy_corner, target, array, spans, sizes)


def _split_view(packed: Array, rank: int, layout: Layout) -> Array:
    """A view of ``packed`` with the axes of its source in order; a blocked axis becomes two, blocks and
    lanes.
    """
    inner = {axis: rank + k for k, (axis, _) in enumerate(layout.blocks)}
    outer = {axis: k for k, axis in enumerate(layout.order)}
    return packed.transpose([k for a in range(rank) for k in (outer[a], inner.get(a)) if k is not None])


def _spans(size: int, block: int) -> Iterator[_Span]:
    """The range of an axis that fills whole blocks, and the range in the last, partial block."""
    whole = size - size % block
    if whole or not size:
        yield 0, whole
    if whole < size:
        yield whole, size


def _slowest(array: Array) -> int:
    """The axis with the largest stride: the first, unless the array is transposed."""
    return max(range(array.ndim), key=lambda axis: abs(array.strides[axis]), default=0)


def _cut(corner: tuple[_Span, ...], axis: int, block: int, size: int) -> Iterator[tuple[_Span, ...]]:
    """``corner`` in pieces of whole blocks along ``axis``."""
    if not corner:
        yield corner
        return
    start, stop = corner[axis]
    count = max(1, min(size // _JOB_BYTES, (stop - start) // block))
    bounds = [start + (stop - start) // block * k // count * block for k in range(count)] + [stop]
    for span in pairwise(bounds):
        yield (*corner[:axis], span, *corner[axis + 1 :])


def _clear_pads(target: Array, shape: tuple[int, ...], sizes: Mapping[int, int]) -> None:
    outer = 0
    for axis, size in enumerate(shape):
        if axis in sizes and size % sizes[axis]:
            index: list[slice | int] = [slice(None)] * target.ndim
            index[outer : outer + 2] = [-1, slice(size % sizes[axis], None)]
            target[tuple(index)] = 0
        outer += 1 + (axis in sizes)


def _copy_corner(target: Array, array: Array, spans: Sequence[_Span], sizes: Mapping[int, int]) -> None:
    """Copies the part of ``array`` within ``spans``. Along each axis, a span is whole blocks or a part of
    one.
    """
    index: list[slice] = []
    split: list[int] = []
    for axis, (start, stop) in enumerate(spans):
        block = sizes.get(axis)
        lanes = () if block is None else (min(block, stop - start),)
        size = block or 1
        first, count = start // size, -(-(stop - start) // size)
        index += [slice(first, first + count), *(slice(n) for n in lanes)]
        split += [count, *lanes]
    part = array[tuple(slice(*span) for span in spans)]
    _copy_slices(target[tuple(index)], part.reshape(split))
    release(part)


def _copy_slices(target: Array, source: Array) -> None:
    """Copies ``source`` to ``target`` in slices that are contiguous in the source."""
    axis = _slowest(source)
    slices = source.shape[axis] if source.ndim else 0
    step = max(1, _READ_BYTES * slices // max(1, source.nbytes))
    if step >= slices:
        target[...] = source
        return
    outer_target, outer_source = np.moveaxis(target, axis, 0), np.moveaxis(source, axis, 0)
    for first in range(0, slices, step):
        outer_target[first : first + step] = outer_source[first : first + step]


def unpack(packed: Array, layout: Layout, shape: tuple[int, ...]) -> Array:
    """The array of ``shape`` that ``packed`` stores in ``layout``: the inverse of :func:`pack`."""
    rank = len(shape)
    outer = {axis: k for k, axis in enumerate(layout.order)}
    sizes = dict(layout.blocks)
    padded_shape = [packed.shape[outer[axis]] * sizes.get(axis, 1) for axis in range(rank)]
    padded = _split_view(packed, rank, layout).reshape(padded_shape)
    return np.ascontiguousarray(padded[tuple(slice(size) for size in shape)])
