"""ONNX Runtime's functions that quantize weights; its quantizers in Python call them."""

from __future__ import annotations

from functools import partial

from graphwright.ir.arrays import Array, np


def _quantize(
    bits: int,
    packed: Array,
    weights: Array,
    scales: Array,
    zero_points: Array,
    block_size: int,
    columns: int,
    rows: int,
    is_symmetric: bool,
) -> None:
    """Quantizes ``weights[rows, columns]`` in blocks of ``block_size`` rows to elements of ``bits`` bits.

    Writes the elements to ``packed``, and a scale and, unless symmetric, a zero point for each block.
    """
    elements, scale, zero = _rounded(_blocks(weights, block_size), bits, is_symmetric=is_symmetric)
    if not is_symmetric:
        zero_points[...] = _bytes(zero, bits, 2 ** (bits - 1)).reshape(zero_points.shape)
    scales[...] = scale.reshape(scales.shape)
    packed[...] = _bytes(elements, bits).reshape(packed.shape)


quantize_matmul_2bits = partial(_quantize, 2)
quantize_matmul_4bits = partial(_quantize, 4)
quantize_matmul_8bits = partial(_quantize, 8)


def quantize_qdq_matmul_4bits(
    packed: Array,
    weights: Array,
    scales: Array,
    zero_points: Array,
    block_size: int,
    columns: int,
    rows: int,
    is_symmetric: bool,
) -> bool:
    """Quantizes as :func:`quantize_matmul_4bits`, in the form of a DequantizeLinear.

    The elements keep the order of ``weights[rows, columns]``; scales and zero points are
    ``[blocks, columns]``.
    Returns whether the elements are signed: symmetric ones are.
    """
    elements, scale, zero = _rounded(_blocks(weights, block_size), 4, is_symmetric=is_symmetric)
    in_order = elements.reshape(columns, -1)[:, :rows].T.reshape(-1)
    if is_symmetric:
        in_order = np.where(in_order < 8, in_order + 8, in_order - 8)  # the bits of a signed number
    else:
        zero_points[...] = _bytes(zero.T.reshape(-1), 4).reshape(zero_points.shape)
    scales[...] = scale.T.reshape(scales.shape)
    packed[...] = _bytes(in_order, 4).reshape(packed.shape)
    return is_symmetric


def quantize_matmul_bnb4(
    packed: Array, weights: Array, maxima: Array, block_size: int, quant_type: int, columns: int, rows: int
) -> None:
    """Quantizes ``weights[columns, rows]`` to the codes of a MatMulBnb4, FP4 (``quant_type`` 0) or NF4 (1).

    Writes two codes to a byte, the first in its high bits, and the greatest magnitude of each block of
    ``block_size`` elements, which may cover several rows.
    """
    flat = np.zeros(-(-weights.size // block_size) * block_size, np.float32)
    flat[: weights.size] = weights.reshape(-1)
    blocks = flat.reshape(-1, block_size)
    greatest = np.abs(blocks).max(1)
    fractions = np.zeros(2 * packed.size, np.float32)
    fractions[: weights.size] = (blocks * _inverse(greatest)[:, None]).reshape(-1)[: weights.size]
    codes = _codes(fractions, quant_type).astype(np.uint8)
    maxima[...] = greatest
    packed[...] = codes[::2] << 4 | codes[1::2]


def _rounded(blocks: Array, bits: int, *, is_symmetric: bool) -> tuple[Array, Array, Array]:
    """Elements, and the scale and zero point of each block; all elements are numbers from 0."""
    top = 2**bits - 1
    low, high = np.minimum(blocks.min(2), 0), np.maximum(blocks.max(2), 0)
    if is_symmetric:  # the element of the greatest magnitude becomes the least number
        scale = np.where(np.abs(high) > np.abs(low), high, low) / np.float32(-(2 ** (bits - 1)))
        zero = np.full(scale.shape, 2 ** (bits - 1), np.float32)
    else:
        scale = (high - low) / np.float32(top)
        zero = np.clip(np.rint(-low / _nonzero(scale)), 0, top)
    elements = np.clip(np.rint(blocks * _inverse(scale)[..., None] + zero[..., None]), 0, top)
    return elements, scale, zero


def _codes(fractions: Array, quant_type: int) -> Array:
    """The code of the number next to each fraction; FP4 has a bit for the sign."""
    from graphwright.ops.contrib.bnb4 import NUMBERS

    if quant_type:
        return _nearest(fractions, NUMBERS[quant_type])
    return _nearest(np.abs(fractions), NUMBERS[quant_type][:8]) + np.where(fractions < 0, 8, 0)


def _nearest(values: Array, numbers: Array) -> Array:
    order = np.argsort(numbers)
    ascending = numbers[order]
    nearest: Array = order[np.searchsorted((ascending[1:] + ascending[:-1]) / 2, values)]
    return nearest


def _blocks(weights: Array, size: int) -> Array:
    """``[columns, blocks, size]``, with zeros after the last row."""
    rows, columns = weights.shape
    padded = np.zeros((-(-rows // size) * size, columns), np.float32)
    padded[:rows] = weights
    return padded.T.reshape(columns, -1, size)


def _inverse(scale: Array) -> Array:
    """0 for blocks of zeros."""
    return np.where(scale == 0, np.float32(0), np.float32(1) / _nonzero(scale))


def _nonzero(scale: Array) -> Array:
    return np.where(scale == 0, np.float32(1), scale)


def _bytes(numbers: Array, bits: int, filler: int = 0) -> Array:
    """Packs the numbers of the last axis into bytes from the lowest bits up; ``filler`` fills the last."""
    each = 8 // bits
    count = numbers.shape[-1]
    whole = np.full((*numbers.shape[:-1], -(-count // each), each), filler, np.uint8)
    whole.reshape(*numbers.shape[:-1], -1)[..., :count] = numbers
    shifted = whole << (bits * np.arange(each, dtype=np.uint8))
    packed: Array = np.bitwise_or.reduce(shifted, -1)
    return packed
