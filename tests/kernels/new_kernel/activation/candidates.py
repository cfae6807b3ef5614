"""LeakyRelu by its own kernel."""

from __future__ import annotations

from graphwright.kernels.activation import leaky_relu as kernel

from graphwright.ir.graph import Node
from graphwright.ir.symbols import product
from graphwright.ir.types import F32
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, launch_of
from graphwright.kernels.library.bits import single_bits
from graphwright.ops.nn.activations import LeakyRelu


@candidate(LeakyRelu)
def leaky_relu(node: Node[LeakyRelu], context: Context) -> Launch | str:
    op, x, y = node.op, node.operand(0), node.output
    if x.type.dtype != F32:
        return f"no kernel for {x.type.dtype}"
    call = kernel.LeakyReluCall(product(x.type.dims), single_bits(op.alpha))
    return launch_of(call, kernel.SYMBOL, kernel.ABI.ordered(x=x, y=y), (1,), context.isa)
