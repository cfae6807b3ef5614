"""ByteTable: functions of one byte, by a library kernel."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.symbols import product
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch
from graphwright.kernels.movement import byte_table
from graphwright.kernels.ref import KernelRef
from graphwright.ops.quantized.byte_table import ByteTable


@candidate(ByteTable)
def look_up(node: Node[ByteTable], context: Context) -> Launch:
    """Looks up each byte."""
    x, table, y = node.operand(0), node.operand(1), node.output
    count = product(x.type.dims)
    work = byte_table.work_ns(context.isa, count)
    operands = byte_table.ABI.ordered(x=x, table=table, y=y)
    ref = KernelRef(byte_table.SYMBOL)
    return Launch(ref, operands, (2,), (count,), byte_table.grid(count), work=work)
