"""ONNX Runtime's GatherBlockQuantized: rows of a table of weights that are quantised in blocks, as floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.types import U8
from graphwright.ops.contrib.common import contribute
from graphwright.ops.core.binary import BitShift, BitwiseAnd
from graphwright.ops.core.common import rank_of
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear


def _import(i: Importer) -> Any:
    """Operands: the table, indices, scales, and zero points; codes of u8 without are around the middle."""
    table, scales, zeros = i.input(0), i.input(2), i.optional(3)
    rank, bits = rank_of(table), int(i.attr("bits", 4))
    rows, along = int(i.attr("gather_axis", 0)) % rank, int(i.attr("quantize_axis", 1)) % rank
    if bits not in (4, 8):
        raise i.fail(f"{bits} bits: 4 and 8 are supported")
    packed = table.type.dtype == U8 and bits == 4
    if packed and along != rank - 1:
        raise i.fail(f"packed codes are quantised along the last axis, not along axis {along}")
    if zeros is None and table.type.dtype == U8:
        zeros = i.const(np.full(scales.type.sizes, 1 << bits - 1, np.uint8))
    elif zeros is not None and packed:
        zeros = i.emit(Slice((0,), (scales.type.dims[along],), (along,), (1,)), _unpacked(i, zeros))
    parts = [table, scales, *([] if zeros is None else [zeros])]
    whole = rows == along
    if not whole:  # only the rows that are taken become floats
        parts = [i.emit(Gather(rows), x, i.input(1)) for x in parts]
        along += rank_of(i.input(1)) - 1 if along > rows else 0
    codes, *others = parts
    made = DequantizeLinear(scales.type.dtype, along, int(i.attr("block_size", 128)))
    weights = i.emit(made, _unpacked(i, codes) if packed else codes, *others)
    return i.emit(Gather(rows), weights, i.input(1)) if whole else weights


def _unpacked(i: Importer, x: Value) -> Value:
    """Two codes of each byte, the lower half first, along the last axis."""
    halves = (
        i.emit(BitwiseAnd(), x, i.const(np.array(15, np.uint8))),
        i.emit(BitShift("RIGHT"), x, i.const(np.array(4, np.uint8))),
    )
    pairs = i.emit(Concat(-1), *(i.emit(Unsqueeze((-1,)), half) for half in halves))
    *rows, bytes_ = x.type.dims
    made: Value = i.emit(Reshape((*rows, 2 * bytes_), True), pairs)
    return made


contribute(Gather, GatherBlockQuantized=ranked(_import))
