"""TopK."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.types import BF16
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, launch_of
from graphwright.kernels.loops.kernel_builder import rows_and_columns
from graphwright.kernels.search.top_k import Kind
from graphwright.kernels.search.top_k import TopK as TopKKernel
from graphwright.ops.core.top_k import TopK

_KINDS = {"bool": Kind.UNSIGNED, "uint": Kind.UNSIGNED, "int": Kind.SIGNED, "float": Kind.FLOAT}
_BF16_SIZE = 3
"""The kernel's code for elements of bf16, as f16 has 2 bytes too."""


@candidate(TopK)
def top_k(node: Node[TopK], context: Context) -> Launch | str:
    """One launch for dtypes of at least 8 bits; k is known at compile time."""
    op, x = node.op, node.operand(0)
    dtype = x.type.dtype
    if op.k is None or dtype.kind not in _KINDS or dtype.bits < 8 or (dtype.is_float and dtype.bits < 16):
        return f"no kernel that ranks {dtype}"
    size = _BF16_SIZE if dtype == BF16 else dtype.bytes
    rows = rows_and_columns(x.type.dims, op.axis % len(x.type.dims))
    kernel = TopKKernel(_KINDS[dtype.kind], size, op.largest, *rows, op.k)
    return launch_of(kernel, TopKKernel.SYMBOL, (x, *node.outputs), (1, 2), context.isa)
