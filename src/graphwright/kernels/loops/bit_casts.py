"""BitCast: reinterprets the same memory with another dtype."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.types import BOOL
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Alias
from graphwright.ops.core.bit_cast import BitCast


@candidate(BitCast)
def bit_cast(node: Node, context: Context) -> Alias | str:
    """An alias of the operand, except for small dtypes whose bytes need more than the bits: signed ones, and
    bools.
    """
    x, y = node.operand(0).type.dtype, node.output.type.dtype
    if y == BOOL:
        return f"no kernel that casts the bits of {x} to bool"
    if y.bits < 8:
        return f"no kernel that extends {y} of {y.bits} bits to a byte"
    return Alias(node.operand(0))
