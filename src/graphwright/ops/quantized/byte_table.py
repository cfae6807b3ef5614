"""ByteTable, a function of one byte as a table. An op of graphwright, after TOSA's TABLE."""

from __future__ import annotations

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I8, U8, TensorType
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.quantized.quantized import BYTES

ENTRIES = 256


@op("ByteTable")
class ByteTable(Op):
    """``table[x]`` for each element of ``x``, whose bits are the index: i8 counts as u8. The table is
    [ENTRIES].
    """

    def infer(self, at: Inference, x: Fact, table: Fact) -> TensorType:
        need_dtype(at, x, BYTES)
        need_dtype(at, table, BYTES, "the table")
        if table.type.shape != (ENTRIES,):
            raise at.fail(f"the table is {table.type}; it must have {ENTRIES} elements")
        return TensorType(table.dtype, x.type.shape)

    def reference(self, x: Array, table: Array) -> Array:
        return np.asarray(table[x.view(np.uint8)])


_TABLE = tuple(37 * i % 256 for i in range(ENTRIES))
_SIGNED = tuple(i - 128 for i in _TABLE)
ByteTable.samples = (
    Sample(ByteTable(), (arg(U8, symbol("N"), 300), arg(U8, ENTRIES, values=_TABLE))),
    Sample(ByteTable(), (arg(I8, 5, 67), arg(U8, ENTRIES, values=_TABLE))),
    Sample(ByteTable(), (arg(U8), arg(I8, ENTRIES, values=_SIGNED))),
    Sample(ByteTable(), (arg(I8, 0), arg(I8, ENTRIES, values=_SIGNED))),
    Sample(ByteTable(), (arg(U8, 4), arg(U8, 255)), "it must have 256 elements"),
    Sample(ByteTable(), (arg(F32, 4), arg(U8, 256)), "the input is f32"),
    Sample(ByteTable(), (arg(U8, 4), arg(F32, 256)), "the table is f32"),
)
