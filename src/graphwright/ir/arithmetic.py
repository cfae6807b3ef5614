"""What an op tells of its arithmetic: multiplications and additions of products and convolutions.

They are those of the definition: kernels may do fewer (Winograd's convolutions), or more (padding).
Elementwise work is not counted: memory bounds it.
"""

from __future__ import annotations

from graphwright.ir.fused import Fused, region_of
from graphwright.ir.graph import Node
from graphwright.ir.symbols import Dim, product


class Arithmetic:
    """Interface of ops that multiply and add. They define its method."""

    __slots__ = ()

    def operations(self, node: Node) -> Dim:
        """Multiplications and additions of ``node``, whose ranks are known."""
        raise NotImplementedError(f"{type(self).__name__} is Arithmetic without operations")


def operations_of(node: Node) -> Dim:
    """Those of ``node``, of a fused region those of all its nodes; 0 for ops that do none."""
    if isinstance(node.op, Fused):
        return sum((operations_of(inner) for inner in region_of(node)), start=0)
    return node.op.operations(node) if isinstance(node.op, Arithmetic) else 0


def product_operations(node: Node) -> Dim:
    """Those of a matrix product whose left factor is the first operand."""
    return 2 * product(node.output.type.dims) * node.operand(0).type.dims[-1]


def convolution_operations(node: Node, weight: int = 1) -> Dim:
    """Those of a convolution; ``weight``: the position of its weights [features, channels, ...]."""
    return 2 * product(node.output.type.dims) * product(node.operand(weight).type.dims[1:])
