"""ONNX Runtime's functions that quantize the weights of a MatMulNBits; its quantizer in Python calls them."""

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
    blocks = _blocks(weights, block_size)
    top = 2**bits - 1
    low, high = np.minimum(blocks.min(2), 0), np.maximum(blocks.max(2), 0)
    if is_symmetric:  # the element of the greatest magnitude becomes the least number
        scale = np.where(np.abs(high) > np.abs(low), high, low) / np.float32(-(2 ** (bits - 1)))
        zero = np.full(scale.shape, 2 ** (bits - 1), np.float32)
    else:
        scale = (high - low) / np.float32(top)
        zero = np.clip(np.rint(-low / _nonzero(scale)), 0, top)
        zero_points[...] = _bytes(zero, bits, 2 ** (bits - 1)).reshape(zero_points.shape)
    inverse = np.where(scale == 0, np.float32(0), np.float32(1) / _nonzero(scale))
    elements = np.clip(np.rint(blocks * inverse[..., None] + zero[..., None]), 0, top)
    scales[...] = scale.reshape(scales.shape)
    packed[...] = _bytes(elements, bits).reshape(packed.shape)


quantize_matmul_2bits = partial(_quantize, 2)
quantize_matmul_4bits = partial(_quantize, 4)
quantize_matmul_8bits = partial(_quantize, 8)


def _blocks(weights: Array, size: int) -> Array:
    """``[columns, blocks, size]``, with zeros after the last row."""
    rows, columns = weights.shape
    padded = np.zeros((-(-rows // size) * size, columns), np.float32)
    padded[:rows] = weights
    return padded.T.reshape(columns, -1, size)


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
