"""Import of ONNX Runtime's GatherBlockQuantized: Gather and DequantizeLinear of a table quantized
in blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.types import U8
from graphwright.ops.contrib.common import contribute
from graphwright.ops.core.binary import BitwiseAnd
from graphwright.ops.core.bit_shift import BitShift
from graphwright.ops.core.common import rank_of
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear


def _import(i: Importer) -> Any:
    """Operands: the table, the indices, the scales, and optional zero points. The default zero point of u8
    codes is the middle of their range. Slices are gathered before they are dequantized, unless both axes are
    the same.
    """
    table, scales, zeros = i.input(0), i.input(2), i.optional(3)
    rank, bits = rank_of(table), int(i.attr("bits", 4))
    gather_axis, block_axis = (
        int(i.attr(name, default)) % rank for name, default in (("gather_axis", 0), ("quantize_axis", 1))
    )
    if bits not in (4, 8):
        raise i.fail(f"{bits} bits are not supported", hint="use 4 or 8 bits")
    packed = table.type.dtype == U8 and bits == 4
    if packed and block_axis != rank - 1:
        raise i.fail(f"quantize_axis is {block_axis}; with packed 4-bit codes it must be the last axis")
    if zeros is None and table.type.dtype == U8:
        zeros = i.const(np.full(scales.type.sizes, 1 << bits - 1, np.uint8))
    elif zeros is not None and packed:
        blocks = scales.type.dims[block_axis]
        zeros = i.emit(Slice((0,), (blocks,), (block_axis,), (1,)), _unpacked(i, zeros))
    parts = [table, scales, *([] if zeros is None else [zeros])]
    same_axis = gather_axis == block_axis
    if not same_axis:
        parts = [i.emit(Gather(gather_axis), x, i.input(1)) for x in parts]
        block_axis += rank_of(i.input(1)) - 1 if block_axis > gather_axis else 0
    codes, *others = parts
    op = DequantizeLinear(scales.type.dtype, block_axis, int(i.attr("block_size", 128)))
    weights = i.emit(op, _unpacked(i, codes) if packed else codes, *others)
    return i.emit(Gather(gather_axis), weights, i.input(1)) if same_axis else weights


def _unpacked(i: Importer, x: Value) -> Value:
    """The two 4-bit codes of each byte along the last axis, the low bits first."""
    low = i.emit(BitwiseAnd(), x, i.const(np.array(15, np.uint8)))
    high = i.emit(BitShift("RIGHT"), x, i.const(np.array(4, np.uint8)))
    pairs = i.emit(Concat(-1), *(i.emit(Unsqueeze((-1,)), codes) for codes in (low, high)))
    *rows, byte_count = x.type.dims
    unpacked: Value = i.emit(Reshape((*rows, 2 * byte_count), allow_zero=True), pairs)
    return unpacked


contribute(Gather, GatherBlockQuantized=ranked(_import))
