"""Import of ONNX Runtime's GatherBlockQuantized: Gather and DequantizeLinear of a table quantized
in blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.types import U8
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import BitwiseAnd
from graphwright.ops.core.bit_shift import BitShift
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear


def _import(i: Importer) -> Any:
    """Operands: the table, the indices, the scales, and optional zero points. The default zero point of u8
    codes is the middle of their range. Slices are gathered before they are dequantized, unless both axes are
    the same. Scales of floats may have a size of 1 on any axis, and one block may be the whole axis.
    """
    table, zeros = i.input(0), i.optional(3)
    rank, bits = rank_of(table), int(i.attr("bits", 4))
    gather_axis, block_axis = (
        int(i.attr(name, default)) % rank for name, default in (("gather_axis", 0), ("quantize_axis", 1))
    )
    if bits not in (2, 4, 8):
        raise i.fail(f"{bits} bits are not supported", hint="use 2, 4 or 8 bits")
    packed = table.type.dtype == U8 and bits < 8
    if packed and block_axis != rank - 1:
        raise i.fail(f"quantize_axis is {block_axis}; with packed {bits}-bit codes it must be the last axis")
    scales, block = _expanded(i, i.input(2), table, block_axis), int(i.attr("block_size", 128))
    block = block or table.type.sizes[block_axis]
    if zeros is None and table.type.dtype == U8:
        zeros = i.const(np.full(scales.type.sizes, 1 << bits - 1, np.uint8))
    elif zeros is not None and packed:
        blocks = scales.type.dims[block_axis]
        zeros = i.emit(Slice((0,), (blocks,), (block_axis,), (1,)), _unpacked(i, zeros, bits))
    parts = [table, scales, *([] if zeros is None else [zeros])]
    same_axis = gather_axis == block_axis
    if not same_axis:
        parts = [i.emit(Gather(gather_axis), x, i.input(1)) for x in parts]
        block_axis += rank_of(i.input(1)) - 1 if block_axis > gather_axis else 0
    codes, *others = parts
    op = DequantizeLinear(scales.type.dtype, block_axis, block)
    weights = i.emit(op, _unpacked(i, codes, bits) if packed else codes, *others)
    return i.emit(Gather(gather_axis), weights, i.input(1)) if same_axis else weights


def _expanded(i: Importer, scales: Value, table: Value, block_axis: int) -> Value:
    """``scales`` with the sizes of the table on all axes but ``block_axis``."""
    sizes = list(table.type.dims)
    sizes[block_axis] = scales.type.dims[block_axis]
    expanded: Value = scales if scales.type.dims == tuple(sizes) else i.emit(Expand(tuple(sizes)), scales)
    return expanded


def _unpacked(i: Importer, x: Value, bits: int) -> Value:
    """The codes of ``bits`` bits in each byte along the last axis, the low bits first."""
    mask = i.const(np.array((1 << bits) - 1, np.uint8))
    codes = []
    for shift in range(0, 8, bits):
        shifted = i.emit(BitShift("RIGHT"), x, i.const(np.array(shift, np.uint8))) if shift else x
        codes.append(i.emit(Unsqueeze((-1,)), i.emit(BitwiseAnd(), shifted, mask)))
    *rows, byte_count = x.type.dims
    return reshaped(i.builder, i.emit(Concat(-1), *codes), (*rows, len(codes) * byte_count))


register_contrib(Gather, GatherBlockQuantized=ranked(_import))
