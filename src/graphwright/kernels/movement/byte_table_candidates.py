"""ByteTable: functions of one byte, by a library kernel."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.symbols import product
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, launch_of
from graphwright.kernels.movement import byte_table
from graphwright.ops.quantized.byte_table import ByteTable


@candidate(ByteTable)
def look_up(node: Node[ByteTable], context: Context) -> Launch:
    """Looks up each byte."""
    x, table, y = node.operand(0), node.operand(1), node.output
    call = byte_table.ByteTableCall(product(x.type.dims))
    operands, writes = byte_table.ABI.ordered(x=x, table=table, y=y), byte_table.ABI.positions("y")
    return launch_of(call, byte_table.SYMBOL, operands, writes, context.isa)
