"""Interface for the number of multiplications and additions in matrix products and
convolutions.

Counts follow the definition of the op: kernels may do fewer (Winograd) or more (padding). Elementwise work is
not counted, as memory traffic bounds it.
"""

from __future__ import annotations

from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.graph import Node
from graphwright.ir.symbols import Dim, product


class Arithmetic:
    """Interface of ops that multiply and accumulate."""

    __slots__ = ()

    def operations(self, node: Node) -> Dim:
        """Number of multiplications and additions of ``node``, whose ranks are known."""
        raise NotImplementedError(f"{type(self).__name__} implements Arithmetic without operations")


def operations_of(node: Node) -> Dim:
    """Number of multiplications and additions of ``node``, summed over a fused region; 0 for other ops."""
    if isinstance(node.op, Fused):
        return sum((operations_of(inner) for inner in region_of(node)), start=0)
    return node.op.operations(node) if isinstance(node.op, Arithmetic) else 0


def product_operations(node: Node) -> Dim:
    """Multiplications and additions of a matrix product whose left operand is the first input."""
    return 2 * product(node.output.type.dims) * node.operand(0).type.dims[-1]


def convolution_operations(node: Node, weight: int = 1) -> Dim:
    """Multiplications and additions of a convolution; ``weight``: the position of its weights [features,
    channels, ...].
    """
    return 2 * product(node.output.type.dims) * product(node.operand(weight).type.dims[1:])
